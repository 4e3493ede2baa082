//! Invariants for any bytes that a host terminal sends, as a function that panics where one is violated: for the fuzz target and
//! for the test that replays its corpus.

use fugue_api::{
    attach::{FrameModes, FrameMouseEncoding, FrameMouseMode},
    input_encoding::{self, KeyEvent, KeyEventKind},
};

use super::{
    clean,
    input::{InputEvent, InputParser},
    mouse::{self, MouseEvent},
};

/// Checks that the events do not depend on how the bytes are cut, that they are not larger than the input, that no bytes stay
/// pending, and that every event can be encoded for a program.
///
/// The first byte is the length of the pieces, the second the modes of the program.
pub fn attach(bytes: &[u8]) {
    let [cut, modes, bytes @ ..] = bytes else {
        return;
    };
    let whole = events(&[bytes]);
    let pieces: Vec<&[u8]> = bytes.chunks(usize::from(*cut) + 1).collect();
    assert_eq!(
        whole,
        events(&pieces),
        "the events depend on how the bytes are cut"
    );
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(
        whole,
        events(&single),
        "the events depend on how the bytes are cut"
    );
    for modes in [program(*modes), FrameModes::default()] {
        whole
            .iter()
            .for_each(|events| check_encoded(events, &modes));
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

/// All events, with the chunks of a paste joined.
fn events(pieces: &[&[u8]]) -> Vec<InputEvent> {
    let mut input = InputParser::default();
    let mut all: Vec<InputEvent> = Vec::new();
    let mut read = 0;
    let mut pasted = 0;
    let settled = pieces.iter().map(Some).chain([None]);
    for piece in settled {
        let news = match piece {
            Some(piece) => {
                read += piece.len();
                input.feed(piece)
            }
            None => input.flush_pending(),
        };
        for one in news {
            match (all.last_mut(), one) {
                (Some(InputEvent::PasteChunk(before)), InputEvent::PasteChunk(more)) => {
                    before.extend(more)
                }
                (_, one) => all.push(one),
            }
        }
    }
    assert!(!input.has_pending(), "bytes stay pending");
    for one in &all {
        pasted += match one {
            InputEvent::PasteChunk(bytes) | InputEvent::Unknown(bytes) => bytes.len(),
            _ => 1,
        };
    }
    assert!(pasted <= read, "the events are larger than the input");
    all
}

fn check_encoded(events: &InputEvent, modes: &FrameModes) {
    match events {
        InputEvent::Key(press) => {
            let encoded = input_encoding::encode_key(press, modes);
            assert!(encoded.len() <= 4 * 64 + 12 * press.text.as_ref().map_or(0, String::len));
            check_kitty(press);
        }
        InputEvent::Mouse(event) => {
            mouse::encode(*event, modes);
            check_mouse(*event);
        }
        InputEvent::PasteStart
        | InputEvent::PasteChunk(_)
        | InputEvent::PasteEnd
        | InputEvent::Focus(_)
        | InputEvent::KittySupported
        | InputEvent::DeviceAttributes
        | InputEvent::Unknown(_) => {}
    }
}

/// A program with all kitty flags can distinguish every key.
fn check_kitty(press: &KeyEvent) {
    let everything = FrameModes {
        keyboard: 0b1_1111,
        ..FrameModes::default()
    };
    let encoded = input_encoding::encode_key(press, &everything);
    if encoded.is_empty() {
        return;
    }
    let [InputEvent::Key(again)] = &events(&[&encoded])[..] else {
        panic!("{press:?} is encoded as {encoded:?}");
    };
    assert_eq!((again.mods, again.kind), (press.mods, press.kind));
    assert_eq!(
        input_encoding::encode_key(again, &everything),
        encoded,
        "{press:?}"
    );
    if press.kind != KeyEventKind::Release {
        // The xterm encoding must not panic either.
        input_encoding::encode_key(again, &FrameModes::default());
    }
}

fn check_mouse(event: MouseEvent) {
    let modes = FrameModes {
        mouse: FrameMouseMode::Motion,
        mouse_format: FrameMouseEncoding::Sgr,
        ..FrameModes::default()
    };
    let encoded = mouse::encode(event, &modes).expect("every mouse event is reported");
    assert_eq!(events(&[&encoded]), [InputEvent::Mouse(event)]);
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
