use super::*;

const S: Modifiers = Modifiers::SHIFT;
const A: Modifiers = Modifiers::ALT;
const C: Modifiers = Modifiers::CTRL;

fn modes() -> FrameModes {
    FrameModes::default()
}

fn check(modes: FrameModes, table: &[(KeyCode, Modifiers, &str)]) {
    for (code, mods, wanted) in table {
        let found = encode_key(&KeyEvent::new(*code, *mods), &modes);
        let found = String::from_utf8(found).unwrap();
        assert_eq!(found, *wanted, "{code:?} with {mods:?} in {modes:?}");
    }
}

#[test]
fn keys_in_xterm_format() {
    use KeyCode::*;
    check(
        modes(),
        &[
            (Char('a'), Modifiers::NONE, "a"),
            (Char('A'), S, "A"),
            (Char('é'), Modifiers::NONE, "é"),
            (Char('a'), S, "A"),
            (Char('ß'), S, "ß"),
            (Char('a'), C, "\x01"),
            (Char('z'), C, "\x1a"),
            (Char(' '), C, "\0"),
            (Char('['), C, "\x1b"),
            (Char('\\'), C, "\x1c"),
            (Char(']'), C, "\x1d"),
            (Char('^'), C, "\x1e"),
            (Char('_'), C, "\x1f"),
            (Char('/'), C, "\x1f"),
            (Char('?'), C, "\x7f"),
            (Char('0'), C, "0"),
            (Char('1'), C, "1"),
            (Char('2'), C, "\0"),
            (Char('3'), C, "\x1b"),
            (Char('4'), C, "\x1c"),
            (Char('5'), C, "\x1d"),
            (Char('6'), C, "\x1e"),
            (Char('7'), C, "\x1f"),
            (Char('8'), C, "\x7f"),
            (Char('9'), C, "9"),
            (Char('0'), A.union(C), "\x1b0"),
            (Char('.'), C, "."),
            (Char('x'), A, "\x1bx"),
            (Char('x'), A.union(S), "\x1bX"),
            (Char('x'), A.union(C), "\x1b\x18"),
            (Enter, Modifiers::NONE, "\r"),
            (Enter, A, "\x1b\r"),
            (Enter, S, "\r"),
            (Tab, Modifiers::NONE, "\t"),
            (Tab, S, "\x1b[Z"),
            (Backspace, Modifiers::NONE, "\x7f"),
            (Backspace, C, "\x08"),
            (Backspace, A, "\x1b\x7f"),
            (Escape, Modifiers::NONE, "\x1b"),
            (Escape, A, "\x1b\x1b"),
            (Up, Modifiers::NONE, "\x1b[A"),
            (Up, S, "\x1b[1;2A"),
            (Up, A, "\x1b[1;3A"),
            (Left, C, "\x1b[1;5D"),
            (Right, C.union(S), "\x1b[1;6C"),
            (Home, Modifiers::NONE, "\x1b[H"),
            (End, C, "\x1b[1;5F"),
            (Insert, Modifiers::NONE, "\x1b[2~"),
            (Delete, C, "\x1b[3;5~"),
            (PageUp, Modifiers::NONE, "\x1b[5~"),
            (PageDown, S, "\x1b[6;2~"),
            (F(1), Modifiers::NONE, "\x1bOP"),
            (F(3), Modifiers::NONE, "\x1bOR"),
            (F(4), S, "\x1b[1;2S"),
            (F(5), Modifiers::NONE, "\x1b[15~"),
            (F(6), Modifiers::NONE, "\x1b[17~"),
            (F(10), Modifiers::NONE, "\x1b[21~"),
            (F(11), Modifiers::NONE, "\x1b[23~"),
            (F(12), C, "\x1b[24;5~"),
            (Numbered(57_400), Modifiers::NONE, "1"),
            (Numbered(57_414), Modifiers::NONE, "\r"),
            (Numbered(57_419), Modifiers::NONE, "\x1b[A"),
            (Numbered(57_441), Modifiers::NONE, ""),
            (F(35), Modifiers::NONE, ""),
        ],
    );
}

#[test]
fn keys_in_application_mode() {
    use KeyCode::*;
    let application = FrameModes {
        app_cursor: true,
        app_keypad: true,
        ..modes()
    };
    check(
        application,
        &[
            (Up, Modifiers::NONE, "\x1bOA"),
            (Down, Modifiers::NONE, "\x1bOB"),
            (Home, Modifiers::NONE, "\x1bOH"),
            (Up, C, "\x1b[1;5A"),
            (Delete, Modifiers::NONE, "\x1b[3~"),
            (Numbered(57_399), Modifiers::NONE, "\x1bOp"),
            (Numbered(57_408), Modifiers::NONE, "\x1bOy"),
            (Numbered(57_409), Modifiers::NONE, "\x1bOn"),
            (Numbered(57_413), Modifiers::NONE, "\x1bOk"),
            (Numbered(57_414), Modifiers::NONE, "\x1bOM"),
            (Numbered(57_419), Modifiers::NONE, "\x1bOA"),
            (Char('1'), Modifiers::NONE, "1"),
        ],
    );
}

#[test]
fn keys_in_kitty_format() {
    use KeyCode::*;
    let flags = |keyboard: u8| FrameModes {
        keyboard,
        app_cursor: true,
        ..modes()
    };
    check(
        flags(1),
        &[
            (Char('a'), Modifiers::NONE, "a"),
            (Char('a'), S, "A"),
            (Char('a'), C, "\x1b[97;5u"),
            (Char('A'), C.union(S), "\x1b[97;6u"),
            (Char('i'), C, "\x1b[105;5u"),
            (Char('x'), A, "\x1b[120;3u"),
            (Char(' '), C, "\x1b[32;5u"),
            (Escape, Modifiers::NONE, "\x1b[27u"),
            (Escape, S, "\x1b[27;2u"),
            (Enter, Modifiers::NONE, "\r"),
            (Enter, S, "\x1b[13;2u"),
            (Enter, C, "\x1b[13;5u"),
            (Tab, S, "\x1b[9;2u"),
            (Tab, C, "\x1b[9;5u"),
            (Backspace, Modifiers::NONE, "\x7f"),
            (Backspace, C, "\x1b[127;5u"),
            (Up, Modifiers::NONE, "\x1b[A"),
            (Up, C, "\x1b[1;5A"),
            (F(1), Modifiers::NONE, "\x1b[P"),
            (F(3), Modifiers::NONE, "\x1b[13~"),
            (F(13), Modifiers::NONE, "\x1b[57376u"),
            (Numbered(57_400), Modifiers::NONE, "1"),
            (Numbered(57_417), Modifiers::NONE, "\x1b[57417u"),
            (Numbered(57_441), S, ""),
        ],
    );
    check(
        flags(8),
        &[
            (Char('a'), Modifiers::NONE, "\x1b[97u"),
            (Char('a'), S, "\x1b[97;2u"),
            (Enter, Modifiers::NONE, "\x1b[13u"),
            (Tab, Modifiers::NONE, "\x1b[9u"),
            (Numbered(57_441), S, "\x1b[57441;2u"),
        ],
    );
    check(
        flags(1 | 4),
        &[
            (Char('a'), S.union(C), "\x1b[97:65;6u"),
            (Char('a'), C, "\x1b[97;5u"),
        ],
    );
    check(
        flags(8 | 16),
        &[
            (Char('a'), Modifiers::NONE, "\x1b[97;;97u"),
            (Char('a'), S, "\x1b[97;2;65u"),
            (Char('a'), C, "\x1b[97;5u"),
        ],
    );
}

#[test]
fn a_key_is_let_go_of_only_where_that_was_asked_for() {
    let release = |code: KeyCode, mods: Modifiers, keyboard: u8| {
        let press = KeyEvent {
            kind: KeyEventKind::Release,
            ..KeyEvent::new(code, mods)
        };
        let modes = FrameModes {
            keyboard,
            ..modes()
        };
        String::from_utf8(encode_key(&press, &modes)).unwrap()
    };
    assert_eq!(release(KeyCode::Char('a'), Modifiers::NONE, 0), "");
    assert_eq!(release(KeyCode::Up, Modifiers::NONE, 1), "");
    assert_eq!(release(KeyCode::Up, Modifiers::NONE, 3), "\x1b[1;1:3A");
    assert_eq!(release(KeyCode::Char('a'), Modifiers::NONE, 3), "");
    assert_eq!(release(KeyCode::Enter, Modifiers::NONE, 3), "");
    assert_eq!(release(KeyCode::Char('a'), C, 3), "\x1b[97;5:3u");
    assert_eq!(
        release(KeyCode::Char('a'), Modifiers::NONE, 11),
        "\x1b[97;1:3u"
    );
    assert_eq!(release(KeyCode::Enter, Modifiers::NONE, 11), "\x1b[13;1:3u");
}

#[test]
fn a_key_of_another_layout_says_where_it_is() {
    let press = KeyEvent {
        base: Some('c'),
        ..KeyEvent::new(KeyCode::Char('с'), C)
    };
    let modes = FrameModes {
        keyboard: 5,
        ..modes()
    };
    assert_eq!(encode_key(&press, &modes), b"\x1b[1089::99;5u");
}

#[test]
fn a_named_key_has_the_bytes_of_the_same_key_event() {
    for (name, wanted) in [
        ("C-0", "0"),
        ("C-1", "1"),
        ("C-2", "\0"),
        ("C-3", "\x1b"),
        ("C-4", "\x1c"),
        ("C-5", "\x1d"),
        ("C-6", "\x1e"),
        ("C-7", "\x1f"),
        ("C-8", "\x7f"),
        ("C-9", "9"),
        ("C-c", "\x03"),
        ("M-S-x", "\x1bX"),
        ("C-S-Left", "\x1b[1;6D"),
        ("M-S-Tab", "\x1b\x1b[Z"),
        ("F12", "\x1b[24~"),
    ] {
        let press: KeyPress = name.parse().unwrap();
        let found = encode_key(&KeyEvent::from(press), &modes());
        assert_eq!(String::from_utf8(found).unwrap(), wanted, "{name}");
    }
}

#[test]
fn no_paste_end_is_left_in_a_paste() {
    let inner = b"a\x1b[201~b\x1b[20\x1b[201~1~c";
    assert_eq!(remove_paste_end(inner), b"abc");
}
