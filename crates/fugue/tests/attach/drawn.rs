//! Two clients show the same of a pane, whatever its program draws.

use fugue_testkit::SeededRng;

use crate::{attached::Attached, prompts, test_env};

/// Both see the same of the pane, at last.
#[track_caller]
fn agree(one: &mut Attached, other: &mut Attached, rows: u16, cols: u16) {
    let part = |of: &Attached| of.part(1..usize::from(rows) - 1, 0..usize::from(cols));
    for _ in 0..200 {
        if part(one) == part(other) {
            return;
        }
        one.soon();
        other.soon();
    }
    panic!("one sees:\n{}\nthe other:\n{}", part(one), part(other));
}

/// A program that answers each key with something to draw, and says how many it was asked to count.
const DRAWS: &str = r#"
import os, tty
tty.setraw(0)
draws = {
    "a": "word ", "b": "\u00e9\u6f22\u5b57", "c": "\r\n", "d": "\x1b[2J", "e": "\x1b[5;9H", "f": "\x1b[31m", "g": "\x1b[0m",
    "h": "\x1b[?1049h", "i": "\x1b[?1049l", "j": "\x1b[3;9r\x1b[9;1H\r\n\r\n\x1b[r", "k": "\x1b[2L", "l": "\x1b[M",
    "m": "\x1b[?2026h\x1b[2J\x1b[Hhalf", "n": "whole\x1b[?2026l", "o": "\x08 \x08", "p": "\x1b[?2004h", "q": "\x1b[?2004l",
    "r": "\x07", "s": "\x1b[?25l", "t": "\x1b[?25h", "u": "line\r\n" * 60, "v": "far and wide " * 40, "w": "\x1b[1;1H\x1b[K",
    "x": "flood of text\r\n" * 40000, "y": "\x1b]2;title\x07", "z": "\x1bc",
}
counted = 0
os.write(1, b"ready")
while True:
    for key in os.read(0, 4096).decode():
        if key == "!":
            counted += 1
            print(f"\x1b[?2026l\x1b[?1049l\x1b[?25h\x1b[Hcounted {counted}\x1b[K", end="", flush=True)
        else:
            print(draws.get(key, ""), end="", flush=True)
"#;

#[test]
fn whatever_is_drawn_is_seen_as_it_is() {
    let test_env = test_env();
    std::fs::write(test_env.work().join("draws.py"), DRAWS).expect("a program");
    let mut person = Attached::new(&test_env, &[], 24, 80);
    prompts(&mut person, 1);
    person.type_text("exec python3 draws.py\r");
    person.shows("ready");
    let mut other = Attached::new(&test_env, &["--read-only"], 24, 80);
    other.shows("ready");
    let mut chance = SeededRng::default();
    println!("FUGUE_SEED={}", chance.seed());
    let (mut rows, mut cols) = (24, 80);
    for round in 1..=30 {
        for _ in 0..chance.below(20) {
            let key = char::from(b'a' + chance.below(26) as u8);
            // A flood now and then is enough.
            if key != 'x' || chance.one_in(8) {
                person.type_text(&key.to_string());
            }
            if chance.one_in(3) {
                person.soon();
            }
        }
        if chance.one_in(4) {
            (rows, cols) = (6 + chance.below(19) as u16, 20 + chance.below(61) as u16);
            person.resize(rows, cols);
        }
        person.type_text("!");
        for one in [&mut person, &mut other] {
            one.shows(&format!("counted {round}"));
        }
        agree(&mut person, &mut other, rows, cols);
    }
}
