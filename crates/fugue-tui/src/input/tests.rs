use fugue_api::attach::FrameModes;

use super::*;
use fugue_api::input_encoding;

fn heard(bytes: &[u8]) -> Vec<InputEvent> {
    let mut input = InputParser::default();
    let mut heard = input.feed(bytes);
    heard.extend(input.flush_pending());
    heard
}

fn press(code: KeyCode, mods: Modifiers) -> InputEvent {
    InputEvent::Key(KeyEvent::new(code, mods))
}

#[test]
fn keys_are_known_by_their_sequences() {
    for (bytes, code, mods) in [
        (&b"a"[..], KeyCode::Char('a'), Modifiers::NONE),
        ("é".as_bytes(), KeyCode::Char('é'), Modifiers::NONE),
        (b"\x02", KeyCode::Char('b'), Modifiers::CTRL),
        (b"\0", KeyCode::Char(' '), Modifiers::CTRL),
        (b"\x1b", KeyCode::Escape, Modifiers::NONE),
        (b"\x1bx", KeyCode::Char('x'), Modifiers::ALT),
        (b"\x1b\r", KeyCode::Enter, Modifiers::ALT),
        (b"\x1b[", KeyCode::Char('['), Modifiers::ALT),
        (b"\x1bO", KeyCode::Char('O'), Modifiers::ALT),
        (b"\x1b[A", KeyCode::Up, Modifiers::NONE),
        (b"\x1bOA", KeyCode::Up, Modifiers::NONE),
        (b"\x1b[1;5D", KeyCode::Left, Modifiers::CTRL),
        (b"\x1b\x1b[A", KeyCode::Up, Modifiers::ALT),
        (b"\x1b[Z", KeyCode::Tab, Modifiers::SHIFT),
        (b"\x1b[3~", KeyCode::Delete, Modifiers::NONE),
        (b"\x1b[3;5~", KeyCode::Delete, Modifiers::CTRL),
        (b"\x1b[15~", KeyCode::F(5), Modifiers::NONE),
        (b"\x1b[24~", KeyCode::F(12), Modifiers::NONE),
        (b"\x1bOP", KeyCode::F(1), Modifiers::NONE),
        (b"\x1b[1;2R", KeyCode::F(3), Modifiers::SHIFT),
        (b"\x1b[27u", KeyCode::Escape, Modifiers::NONE),
        (b"\x1b[98;5u", KeyCode::Char('b'), Modifiers::CTRL),
        (b"\x1b[27;5;9~", KeyCode::Tab, Modifiers::CTRL),
        (b"\x1b[13;2u", KeyCode::Enter, Modifiers::SHIFT),
        (b"\x1b[57399u", KeyCode::Numbered(57_399), Modifiers::NONE),
    ] {
        assert_eq!(heard(bytes), [press(code, mods)], "{bytes:?}");
    }
}

#[test]
fn a_sequence_that_never_ends_is_given_up_at_one_place_however_it_is_cut() {
    let bytes = [b"\x1b[", &b"1;".repeat(MAX_SEQUENCE_BYTES)[..], b"A"].concat();
    let mut input = InputParser::default();
    let mut single: Vec<InputEvent> = bytes.chunks(1).flat_map(|byte| input.feed(byte)).collect();
    single.extend(input.flush_pending());
    assert_eq!(heard(&bytes), single);
}

#[test]
fn a_control_code_of_eight_bits_is_no_key() {
    assert_eq!(
        heard("\u{9b}".as_bytes()),
        [InputEvent::Unknown(b"\xc2\x9b".to_vec())]
    );
}

#[test]
fn what_xterm_sends_is_what_a_program_reads() {
    // Each of these goes through the client unchanged when neither side speaks anything newer.
    let modes = FrameModes::default();
    let mut all: Vec<Vec<u8>> = (0..=0x7f_u8).map(|byte| vec![byte]).collect();
    all.extend((0x20..0x7f_u8).map(|byte| vec![0x1b, byte]));
    for letter in "ABCDEFH".chars() {
        all.push(format!("\x1b[{letter}").into());
        for mods in 2..=8 {
            all.push(format!("\x1b[1;{mods}{letter}").into());
        }
    }
    for number in [
        2, 3, 5, 6, 15, 17, 18, 19, 20, 21, 23, 24, 25, 26, 28, 29, 31, 32, 33, 34,
    ] {
        all.push(format!("\x1b[{number}~").into());
        for mods in 2..=8 {
            all.push(format!("\x1b[{number};{mods}~").into());
        }
    }
    for letter in "PQRS".chars() {
        all.push(format!("\x1bO{letter}").into());
        all.push(format!("\x1b[1;5{letter}").into());
    }
    all.extend(["é", "漢", "👍", "\x1b[Z", "\x1bé"].map(|text| text.as_bytes().to_vec()));
    for bytes in all {
        let read: Vec<u8> = heard(&bytes)
            .into_iter()
            .flat_map(|heard| match heard {
                InputEvent::Key(press) => input_encoding::encode_key(&press, &modes),
                InputEvent::Unknown(bytes) => bytes,
                other => panic!("{bytes:?}: {other:?}"),
            })
            .collect();
        assert_eq!(read, bytes, "{:?}", String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn the_same_is_heard_however_it_is_cut() {
    let bytes =
        "a\x1b[1;5Aé\x1b[200~pasted\x1b[20\x1b[201~x\x1b[<0;10;5M\x1b[?1u\x1b[?62;4c\x1b[I\x1bOPb";
    let bytes = bytes.as_bytes();
    let whole = joined(heard(bytes));
    for cut in 1..bytes.len() {
        let mut input = InputParser::default();
        let mut found = input.feed(&bytes[..cut]);
        found.extend(input.feed(&bytes[cut..]));
        found.extend(input.flush_pending());
        assert_eq!(joined(found), whole, "cut at {cut}");
    }
    assert_eq!(whole.len(), 13, "{whole:?}");
}

/// A paste may come in pieces.
fn joined(heard: Vec<InputEvent>) -> Vec<InputEvent> {
    let mut all: Vec<InputEvent> = Vec::new();
    for one in heard {
        match (all.last_mut(), one) {
            (Some(InputEvent::PasteChunk(before)), InputEvent::PasteChunk(more)) => {
                before.extend(more)
            }
            (_, one) => all.push(one),
        }
    }
    all
}

#[test]
fn a_paste_is_one_thing_whatever_is_in_it() {
    assert_eq!(
        heard(b"\x1b[200~\x02d\x1b[A\x1b[201~d"),
        [
            InputEvent::PasteStart,
            InputEvent::PasteChunk(b"\x02d\x1b[A".to_vec()),
            InputEvent::PasteEnd,
            press(KeyCode::Char('d'), Modifiers::NONE)
        ]
    );
}

#[test]
fn answers_are_not_keys() {
    for bytes in [
        &b"\x1b[?62;4c"[..],
        b"\x1b[?1u",
        b"\x1b[>0;136;0c",
        b"\x1b[24;80R",
        b"\x1b[0n",
        b"\x1b[8;24;80t",
        b"\x1b[?2026;2$y",
    ] {
        let found = heard(bytes);
        let fine = |heard: &InputEvent| {
            matches!(
                heard,
                InputEvent::KittySupported | InputEvent::DeviceAttributes
            )
        };
        assert!(found.iter().all(fine), "{bytes:?}: {found:?}");
    }
}

#[test]
fn kitty_tells_more_of_a_key() {
    let wanted = KeyEvent {
        shifted: Some('A'),
        base: Some('q'),
        text: Some("A".into()),
        kind: KeyEventKind::Repeat,
        ..KeyEvent::new(KeyCode::Char('a'), Modifiers::SHIFT)
    };
    assert_eq!(heard(b"\x1b[97:65:113;2:2;65u"), [InputEvent::Key(wanted)]);
}

#[test]
fn endless_and_broken_input_is_survived() {
    let mut input = InputParser::default();
    for _ in 0..1000 {
        input.feed(b"\x1b[1;1;1;1;1;1;1;1;1;1");
        assert!(input.pending.len() < 4 * MAX_SEQUENCE_BYTES);
    }
    assert_eq!(heard(&[0xff]), [InputEvent::Unknown(vec![0xff])]);
    assert_eq!(heard(&[0xe2, 0x82]).len(), 2);
}
