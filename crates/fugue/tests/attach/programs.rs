//! Full-screen programs inside, beside the same programs in a terminal of their own: keys, size, redraws.

use std::{fs, path::Path};

use fugue_testkit::{
    MissingRequirement, TestEnv,
    scripted_model::{SCRIPT_DONE, ScriptedModel},
    skip,
    test_agents::{AgentHome, ExternalTools},
};

use crate::{
    attached::{Attached, Kind},
    prompts, test_env,
};

const ROWS: u16 = 30;
const COLS: u16 = 90;

/// The program in a tile of its own, and bare in a terminal of the tile's size.
struct Pair<'a> {
    test_env: &'a TestEnv,
    inside: Attached,
    bare: Attached,
    rows: u16,
    /// Rows at the bottom that the program fills as it comes: vim's message and ruler are there or not, bare as well.
    loose: usize,
}

impl<'a> Pair<'a> {
    fn new(test_env: &'a TestEnv, command: &str) -> Self {
        let mut inside = Attached::new(test_env, &[], ROWS, COLS);
        prompts(&mut inside, 1);
        inside.type_text(&format!("clear; exec {command}\r"));
        // The title and the status line are ours.
        let rows = ROWS - 2;
        let script = format!("exec {command}");
        let bare = Attached::program(test_env, "bash", &["-c", &script], rows, COLS, Kind::Modern);
        Self {
            test_env,
            inside,
            bare,
            rows,
            loose: 0,
        }
    }

    fn keys(&self, keys: &str) {
        self.inside.type_text(keys);
        // A terminal says arrows as the program wants them; for the one inside, that is the client's work.
        let mut keys = keys.to_owned();
        if self.bare.terminal.modes().app_cursor {
            for letter in ["A", "B", "C", "D"] {
                keys = keys.replace(&format!("\x1b[{letter}"), &format!("\x1bO{letter}"));
            }
        }
        self.bare.type_text(&keys);
    }

    fn resize(&mut self, rows: u16, cols: u16) {
        self.inside.resize(rows + 2, cols);
        self.bare.resize(rows, cols);
        self.rows = rows;
    }

    /// Both show the same, and something that was waited for.
    #[track_caller]
    fn same(&mut self, wanted: &str) {
        self.bare.shows(wanted);
        let rows = usize::from(self.rows) - self.loose;
        let tile = |screen: &str| {
            let rows: Vec<&str> = screen.lines().skip(1).take(rows).collect();
            rows.join("\n")
        };
        // The bare one may still be drawing: both are looked at until they agree.
        for _ in 0..200 {
            let shown = self.bare.text();
            let shown = shown.lines().take(rows).collect::<Vec<_>>().join("\n");
            let bare = self.bare.terminal.screen();
            let (row, col) = bare.cursor();
            let cursor = self.inside.terminal.screen().cursor();
            if tile(&self.inside.text()) == shown
                && shown.contains(wanted)
                && (!bare.cursor_visible() || cursor == (row + 1, col))
            {
                return;
            }
            self.inside.soon();
            self.bare.soon();
        }
        panic!(
            "not the same; inside:\n{}\nthe daemon has:\n{}\nbare:\n{}",
            self.inside.text(),
            self.test_env.fugue(&["read", "p1", "--screen"]).out(),
            self.bare.text()
        );
    }
}

#[test]
fn vim() {
    let test_env = test_env();
    let text: String = (1..=200)
        .map(|line| format!("line {line} of the score\n"))
        .collect();
    fs::write(test_env.work().join("score"), text).expect("a file");
    let mut pair = Pair::new(&test_env, "vim -u NONE -N -n -c 'set nomore ruler' score");
    pair.loose = 1;
    pair.same("line 1 of");
    pair.keys("\x1b[6~");
    pair.same("line 40");
    pair.keys("\x1b[B\x1b[B\x1b[C");
    pair.keys("gg/line 150\r");
    pair.same("line 150");
    pair.keys("Onew é漢 text\x1b");
    pair.same("new é漢 text");
    pair.keys("\x1bOP");
    pair.resize(20, 60);
    pair.same("new é漢 text");
    pair.keys(":split\r\x17w");
    pair.same("new é漢 text");
    pair.keys(":qa!\r");
    pair.bare.ended();
    assert!(pair.inside.ended().success());
}

#[test]
fn less() {
    let test_env = test_env();
    let text: String = (1..=500).map(|line| format!("bar {line}\n")).collect();
    fs::write(test_env.work().join("bars"), text).expect("a file");
    let mut pair = Pair::new(&test_env, "less bars");
    pair.same("bar 1");
    pair.keys(" ");
    pair.same("bar 50");
    pair.keys("/bar 300\r");
    pair.same("bar 300");
    pair.keys("\x1b[A\x1b[A");
    pair.same("bar 298");
    pair.resize(15, 50);
    pair.same("bar 298");
    pair.keys("G");
    pair.same("(END)");
    pair.keys("q");
    pair.bare.ended();
    assert!(pair.inside.ended().success());
}

#[test]
fn fzf() {
    let test_env = test_env();
    let text: String = ["soprano", "alto", "tenor", "bass"].join("\n");
    fs::write(test_env.work().join("voices"), text).expect("a file");
    let mut pair = Pair::new(
        &test_env,
        "fzf --no-color --no-mouse --prompt 'voice> ' < voices",
    );
    pair.same("4/4");
    pair.keys("ten");
    pair.same("1/4");
    pair.keys("\x7f\x7f\x7f");
    pair.same("> soprano");
    // fzf drops keys that arrive while a new list or a new size is being drawn: one step is shown before the next.
    pair.keys("\x1b[A");
    pair.same("> alto");
    pair.keys("\x1b[A");
    pair.same("> tenor");
    pair.resize(20, 70);
    pair.same("> tenor");
    pair.keys("\x1b");
    pair.bare.ended();
    pair.inside.ended();
}

/// It shows times and loads: only its frame is compared.
#[test]
fn htop_and_top() {
    let test_env = test_env();
    for (program, stable, leave) in [("top", "PID USER", "q"), ("htop", "F10Quit", "\x1b[21~")] {
        let mut inside = Attached::new(&test_env, &[], ROWS, COLS);
        prompts(&mut inside, 1);
        inside.type_text(&format!("clear; exec {program}\r"));
        let mut bare = Attached::program(&test_env, program, &[], ROWS - 2, COLS, Kind::Modern);
        let row_of = |screen: &str| {
            let row = screen.lines().position(|row| row.contains(stable));
            row.map(|row| (row, screen.lines().nth(row).unwrap_or_default().to_owned()))
        };
        let there = row_of(&bare.shows(stable)).expect("a row");
        let here = row_of(&inside.shows(stable)).expect("a row");
        assert_eq!((here.0 - 1, here.1), there, "{program}");
        inside.resize(20, 70);
        bare.resize(18, 70);
        if program == "htop" {
            let last = |screen: &str, row: usize| {
                screen
                    .lines()
                    .nth(row)
                    .is_some_and(|row| row.contains("F1Help"))
            };
            bare.until("it fits", |screen| last(screen, 17));
            inside.until("it fits", |screen| last(screen, 18));
        }
        inside.type_text(leave);
        bare.type_text(leave);
        bare.ended();
        assert!(inside.ended().success(), "{program}");
    }
}

/// What a program reads, byte by byte, for what a person typed.
#[test]
fn every_key_arrives_as_the_program_wants_it() {
    let test_env = test_env();
    let reader = test_env.work().join("keys.py");
    fs::write(&reader, KEYS).expect("a program");
    let reader = reader.to_string_lossy().into_owned();
    for (modes, typed, read) in [
        (
            "",
            "a\x01\x1b[A\x1bx\x7f\té",
            "61 01 1b 5b 41 1b 78 7f 09 c3 a9",
        ),
        ("\x1b[?1h", "\x1b[A\x1b[1;5A", "1b 4f 41 1b 5b 31 3b 35 41"),
        (
            "\x1b[>1u",
            "\x1b[97;5u\x1b[27u\x1b[13;2u",
            "1b 5b 39 37 3b 35 75 1b 5b 32 37 75 1b 5b 31 33 3b 32 75",
        ),
        ("", "\x1b[97;5u\x1b[27;1u\x1b[13;2u", "01 1b 0d"),
        (
            "\x1b[?2004h",
            "\x1b[200~two\rlines\x1b[201~",
            "1b 5b 32 30 30 7e 74 77 6f 0d 6c 69 6e 65 73 1b 5b 32 30 31 7e",
        ),
        (
            "",
            "\x1b[200~two\rlines\x1b[201~",
            "74 77 6f 0d 6c 69 6e 65 73",
        ),
        ("", "\x02\x02", "02"),
        (
            "\x1b[?1000h\x1b[?1006h",
            "\x1b[<0;5;4M\x1b[<0;5;4m",
            "1b 5b 3c 30 3b 35 3b 33 4d 1b 5b 3c 30 3b 35 3b 33 6d",
        ),
        (
            "\x1b[?1000h",
            "\x1b[<0;5;4M\x1b[<64;5;4M",
            "1b 5b 4d 20 25 23 1b 5b 4d 60 25 23",
        ),
        ("\x1b[?1004h", "\x1b[O\x1b[I", "1b 5b 4f 1b 5b 49"),
        ("", "\x1b[O\x1b[I\x1b[?62c\x1b[24;80Rz", "7a"),
    ] {
        let mut person = Attached::new(&test_env, &[], 24, 80);
        prompts(&mut person, 1);
        let count = read.split(' ').count();
        let modes = modes.replace('\x1b', "\\033");
        person.type_text(&format!("clear; python3 {reader} {count} '{modes}'\r"));
        person.shows("ready");
        person.type_text(typed);
        person.shows("over");
        let text = person.text();
        let shown: String = text
            .lines()
            .skip_while(|line| !line.contains("ready"))
            .skip(1)
            .take_while(|line| !line.contains("over"))
            .collect();
        assert_eq!(shown.trim(), read, "{modes:?} {typed:?}");
        person.command("x");
        person.shows("y/n");
        person.type_text("y");
        person.ended();
    }
}

const KEYS: &str = r#"
import os, sys, tty, termios
count, modes = int(sys.argv[1]), sys.argv[2].encode().decode("unicode_escape")
before = termios.tcgetattr(0)
tty.setraw(0)
sys.stdout.write(modes + "ready\r\n")
sys.stdout.flush()
got = b""
while len(got) < count:
    got += os.read(0, 1024)
sys.stdout.write(" ".join("%02x" % byte for byte in got) + "\r\nover\r\n")
sys.stdout.write("\033[?1l\033[<u\033[?2004l\033[?1000l\033[?1006l\033[?1004l")
sys.stdout.flush()
termios.tcsetattr(0, termios.TCSADRAIN, before)
"#;

#[test]
fn text_is_selected_copied_and_pasted() {
    let test_env = test_env();
    let mut person = Attached::new(&test_env, &[], 24, 80);
    prompts(&mut person, 1);
    person.type_text("clear; echo 'first voice'; echo 'second voice'\r");
    person.until("printed", |screen| {
        screen
            .lines()
            .nth(2)
            .is_some_and(|row| row == "second voice")
    });
    // With the mouse: from `first` to `second`, to the clipboard of the person's own terminal.
    person.type_text("\x1b[<0;1;2M\x1b[<32;6;3M\x1b[<0;6;3m");
    person.shows("characters copied");
    person.wrote(b"\x1b]52;c;Zmlyc3Qgdm9pY2UKc2Vjb25k\x07");
    // With keys: the line that the cursor is on.
    person.command("[");
    person.shows("scroll");
    person.type_text("?second\r");
    person.shows("second: line");
    person.type_text("vllllly");
    person.shows("6 characters copied");
    person.wrote(b"\x1b]52;c;c2Vjb25k\x07");
    person.hides("scroll");
    person.type_text("echo ");
    person.command("]");
    person.shows("echo second");
    person.type_text("\r");
    person.until("pasted", |screen| screen.matches("\nsecond").count() == 2);
}

#[test]
fn wide_characters_do_not_tear_a_row() {
    let test_env = test_env();
    let command = "printf '漢字 e\\xcc\\x81 ❤\\xef\\xb8\\x8f 👨\\xe2\\x80\\x8d👩 🇩🇪 end\\n%s\\n' $(printf '漢%.0s' $(seq 60)); exec sleep 1000";
    for _ in 0..2 {
        test_env.fugue(&["new", "--", command]).ok();
    }
    let mut person = Attached::new(&test_env, &[], 24, 81);
    person.until("both", |screen| screen.matches(" end").count() == 2);
    let text = person.text();
    let first = text.lines().nth(1).unwrap_or_default();
    let halves: Vec<&str> = first.split('│').collect();
    assert_eq!(halves[0].trim_end(), halves[1].trim_end(), "{text}");
    for row in 1..20 {
        assert_eq!(person.part(row..row + 1, 40..41), "│", "{text}");
    }
}

#[test]
fn a_flood_does_not_keep_the_person_waiting() {
    let test_env = test_env();
    let mut person = Attached::new(&test_env, &[], 24, 80);
    prompts(&mut person, 1);
    person.type_text("yes flood\r");
    person.until("a screen full", |screen| {
        screen.matches("\nflood").count() > 18
    });
    person.command("%");
    prompts(&mut person, 1);
    person.type_text("echo an''swered\r");
    person.shows("answered");
    let before = person.raw.len();
    person.command("\x1b[D");
    person.until("focus", |screen| screen.starts_with("━ ▶"));
    person.type_text("\x03");
    person.until("it is interrupted", |screen| screen.contains("^C"));
    assert!(person.raw.len() - before < 4 << 20);
}

#[test]
fn a_long_paste_arrives_whole() {
    let test_env = test_env();
    let mut person = Attached::new(&test_env, &[], 24, 80);
    prompts(&mut person, 1);
    person.type_text("clear; cat > pasted\r");
    person.until("it reads", |screen| {
        screen.contains("● working") || screen.contains("needs input")
    });
    let text: String = (0..5000)
        .map(|line| format!("{line} é漢 some words of a long paste\n"))
        .collect();
    person.type_patiently(&format!("\x1b[200~{}\x1b[201~", text.replace('\n', "\r")));
    person.shows("4999 é漢");
    person.type_text("\x04");
    prompts(&mut person, 1);
    let pasted = fs::read_to_string(test_env.work().join("pasted")).expect("the file");
    assert!(pasted == text, "{} of {} bytes", pasted.len(), text.len());
}

/// The real one, with a scripted model. What it greets with differs from run to run; what is typed, answered and fitted to
/// the terminal does not.
#[test]
fn claude_code() {
    let model = ScriptedModel::start(Vec::new());
    let mut test_env = test_env();
    let tools = ExternalTools::find_beside(Path::new(env!("CARGO_BIN_EXE_fugue")));
    let Some(home) = AgentHome::settle(&tools, &mut test_env, &model) else {
        return skip(
            MissingRequirement::Program,
            "Claude Code is not installed (scripts/mcp-tools)",
        );
    };
    fs::write(home.dir().join(".bashrc"), "PS1='$ '\n").expect("an rc file");
    let mut pair = Pair::new(&test_env, "claude");
    let row_with = |screen: &str, text: &str| {
        let row = screen.lines().find(|row| row.contains(text));
        row.map(|row| row.trim_end().to_owned())
    };
    // Its input box is there when it shows what is typed.
    for person in [&mut pair.inside, &mut pair.bare] {
        person.shows("? for shortcuts");
    }
    pair.keys("hum a tune é漢");
    let inside = row_with(&pair.inside.shows("hum a tune é漢"), "hum a tune");
    let bare = row_with(&pair.bare.shows("hum a tune é漢"), "hum a tune");
    assert_eq!(inside, bare);
    // Back by one word, and a line that is not the last.
    pair.keys("\x1bb");
    pair.keys("\x1b[200~one\ntwo\x1b[201~");
    for person in [&mut pair.inside, &mut pair.bare] {
        person.shows("two");
    }
    pair.keys("\r");
    for person in [&mut pair.inside, &mut pair.bare] {
        person.shows(SCRIPT_DONE);
    }
    pair.resize(20, 60);
    let fits = |screen: &str| {
        let lines = screen
            .lines()
            .map(|row| row.chars().filter(|c| *c == '─').count());
        lines.max() == Some(60)
    };
    pair.bare.until("it fits", fits);
    pair.inside.until("it fits", |screen| {
        // The title's line is ours.
        fits(&screen.lines().skip(1).collect::<Vec<_>>().join("\n"))
    });
    pair.keys("\x03");
    pair.keys("\x03");
    pair.bare.ended();
    assert!(pair.inside.ended().success());
}
