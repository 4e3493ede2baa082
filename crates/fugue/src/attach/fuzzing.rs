//! What holds for any bytes that a person's terminal sends, as a function that panics where it does not: for a fuzz target,
//! which takes these files in by their paths, and for the test that replays its corpus.

use fugue_api::attach::{FrameModes, FrameMouseEncoding, FrameMouseMode};

use super::{
    clean,
    input::{Heard, Input},
    keys::{self, Event, Press},
    mouse::{self, Mouse},
};

/// Any bytes from a terminal: what is heard does not depend on how they were cut and is no more than what was read, nothing
/// is held back for ever, and a program can be told of all of it.
///
/// The first byte says how they are cut, the second which modes the program has.
pub fn attach(bytes: &[u8]) {
    let [cut, modes, bytes @ ..] = bytes else {
        return;
    };
    let whole = heard(&[bytes]);
    let pieces: Vec<&[u8]> = bytes.chunks(usize::from(*cut) + 1).collect();
    assert_eq!(
        whole,
        heard(&pieces),
        "what is heard depends on the cutting"
    );
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(
        whole,
        heard(&single),
        "what is heard depends on the cutting"
    );
    for modes in [program(*modes), FrameModes::default()] {
        whole.iter().for_each(|heard| check_told(heard, &modes));
    }

    let text = String::from_utf8_lossy(bytes);
    assert!(!clean::line(&text).chars().any(char::is_control));
    let cell = clean::cell(&text);
    if let Some(cleaned) = &cell {
        assert_eq!(clean::cell(cleaned), None, "cleaned twice");
    }
    let cell = cell.unwrap_or_else(|| text.into_owned());
    assert!(!cell.chars().any(char::is_control));
}

/// All that is heard, with the pieces of a paste joined.
fn heard(pieces: &[&[u8]]) -> Vec<Heard> {
    let mut input = Input::default();
    let mut all: Vec<Heard> = Vec::new();
    let mut read = 0;
    let mut pasted = 0;
    let settled = pieces.iter().map(Some).chain([None]);
    for piece in settled {
        let news = match piece {
            Some(piece) => {
                read += piece.len();
                input.feed(piece)
            }
            None => input.settle(),
        };
        for one in news {
            match (all.last_mut(), one) {
                (Some(Heard::Pasted(before)), Heard::Pasted(more)) => before.extend(more),
                (_, one) => all.push(one),
            }
        }
    }
    assert!(!input.is_undecided(), "something is held back for ever");
    for one in &all {
        pasted += match one {
            Heard::Pasted(bytes) | Heard::Unknown(bytes) => bytes.len(),
            _ => 1,
        };
    }
    assert!(pasted <= read, "more was heard than was read");
    all
}

fn check_told(heard: &Heard, modes: &FrameModes) {
    match heard {
        Heard::Key(press) => {
            let told = keys::encode(press, modes);
            assert!(told.len() <= 4 * 64 + 12 * press.text.as_ref().map_or(0, String::len));
            check_kitty(press);
        }
        Heard::Mouse(said) => {
            mouse::encode(*said, modes);
            check_mouse(*said);
        }
        Heard::PasteBegins
        | Heard::Pasted(_)
        | Heard::PasteEnds
        | Heard::Focus(_)
        | Heard::SpeaksKitty
        | Heard::Told
        | Heard::Unknown(_) => {}
    }
}

/// A program that asked for everything can tell a key from every other.
fn check_kitty(press: &Press) {
    let everything = FrameModes {
        keyboard: 0b1_1111,
        ..FrameModes::default()
    };
    let told = keys::encode(press, &everything);
    if told.is_empty() {
        return;
    }
    let [Heard::Key(again)] = &heard(&[&told])[..] else {
        panic!("{press:?} is told as {told:?}");
    };
    assert_eq!((again.mods, again.event), (press.mods, press.event));
    assert_eq!(keys::encode(again, &everything), told, "{press:?}");
    if press.event != Event::Release {
        // Without the protocol it is something that a keyboard could have sent, or nothing.
        keys::encode(again, &FrameModes::default());
    }
}

fn check_mouse(said: Mouse) {
    let modes = FrameModes {
        mouse: FrameMouseMode::Motion,
        mouse_format: FrameMouseEncoding::Sgr,
        ..FrameModes::default()
    };
    let told = mouse::encode(said, &modes).expect("all that the mouse does is told");
    assert_eq!(heard(&[&told]), [Heard::Mouse(said)]);
}

fn program(bits: u8) -> FrameModes {
    FrameModes {
        app_cursor: bits & 1 != 0,
        app_keypad: bits & 2 != 0,
        keyboard: bits >> 2,
        mouse: match bits & 3 {
            0 => FrameMouseMode::Motion,
            1 => FrameMouseMode::Presses,
            2 => FrameMouseMode::Clicks,
            _ => FrameMouseMode::Drags,
        },
        mouse_format: match bits >> 2 & 3 {
            0 => FrameMouseEncoding::Bytes,
            1 => FrameMouseEncoding::Utf8,
            _ => FrameMouseEncoding::Sgr,
        },
        ..FrameModes::default()
    }
}

#[cfg(test)]
mod tests {
    use fugue_testkit::replay_corpus;

    #[test]
    fn the_corpus_holds() {
        replay_corpus("attach", super::attach);
    }
}
