use super::*;

const S: Mods = Mods::SHIFT;
const A: Mods = Mods::ALT;
const C: Mods = Mods::CTRL;

fn modes() -> FrameModes {
    FrameModes::default()
}

fn check(modes: FrameModes, table: &[(Code, Mods, &str)]) {
    for (code, mods, wanted) in table {
        let found = encode(&Press::new(*code, *mods), &modes);
        let found = String::from_utf8(found).unwrap();
        assert_eq!(found, *wanted, "{code:?} with {mods:?} in {modes:?}");
    }
}

#[test]
fn as_xterm_says_it() {
    use Code::*;
    check(
        modes(),
        &[
            (Char('a'), Mods::NONE, "a"),
            (Char('A'), S, "A"),
            (Char('é'), Mods::NONE, "é"),
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
            (Char('.'), C, "."),
            (Char('x'), A, "\x1bx"),
            (Char('x'), A.and(S), "\x1bX"),
            (Char('x'), A.and(C), "\x1b\x18"),
            (Enter, Mods::NONE, "\r"),
            (Enter, A, "\x1b\r"),
            (Enter, S, "\r"),
            (Tab, Mods::NONE, "\t"),
            (Tab, S, "\x1b[Z"),
            (Backspace, Mods::NONE, "\x7f"),
            (Backspace, C, "\x08"),
            (Backspace, A, "\x1b\x7f"),
            (Escape, Mods::NONE, "\x1b"),
            (Escape, A, "\x1b\x1b"),
            (Up, Mods::NONE, "\x1b[A"),
            (Up, S, "\x1b[1;2A"),
            (Up, A, "\x1b[1;3A"),
            (Left, C, "\x1b[1;5D"),
            (Right, C.and(S), "\x1b[1;6C"),
            (Home, Mods::NONE, "\x1b[H"),
            (End, C, "\x1b[1;5F"),
            (Insert, Mods::NONE, "\x1b[2~"),
            (Delete, C, "\x1b[3;5~"),
            (PageUp, Mods::NONE, "\x1b[5~"),
            (PageDown, S, "\x1b[6;2~"),
            (F(1), Mods::NONE, "\x1bOP"),
            (F(3), Mods::NONE, "\x1bOR"),
            (F(4), S, "\x1b[1;2S"),
            (F(5), Mods::NONE, "\x1b[15~"),
            (F(6), Mods::NONE, "\x1b[17~"),
            (F(10), Mods::NONE, "\x1b[21~"),
            (F(11), Mods::NONE, "\x1b[23~"),
            (F(12), C, "\x1b[24;5~"),
            (Other(57_400), Mods::NONE, "1"),
            (Other(57_414), Mods::NONE, "\r"),
            (Other(57_419), Mods::NONE, "\x1b[A"),
            (Other(57_441), Mods::NONE, ""),
            (F(35), Mods::NONE, ""),
        ],
    );
}

#[test]
fn in_application_mode() {
    use Code::*;
    let application = FrameModes {
        app_cursor: true,
        app_keypad: true,
        ..modes()
    };
    check(
        application,
        &[
            (Up, Mods::NONE, "\x1bOA"),
            (Down, Mods::NONE, "\x1bOB"),
            (Home, Mods::NONE, "\x1bOH"),
            (Up, C, "\x1b[1;5A"),
            (Delete, Mods::NONE, "\x1b[3~"),
            (Other(57_399), Mods::NONE, "\x1bOp"),
            (Other(57_408), Mods::NONE, "\x1bOy"),
            (Other(57_409), Mods::NONE, "\x1bOn"),
            (Other(57_413), Mods::NONE, "\x1bOk"),
            (Other(57_414), Mods::NONE, "\x1bOM"),
            (Other(57_419), Mods::NONE, "\x1bOA"),
            (Char('1'), Mods::NONE, "1"),
        ],
    );
}

#[test]
fn as_kitty_says_it() {
    use Code::*;
    let flags = |keyboard: u8| FrameModes {
        keyboard,
        app_cursor: true,
        ..modes()
    };
    check(
        flags(1),
        &[
            (Char('a'), Mods::NONE, "a"),
            (Char('a'), S, "A"),
            (Char('a'), C, "\x1b[97;5u"),
            (Char('A'), C.and(S), "\x1b[97;6u"),
            (Char('i'), C, "\x1b[105;5u"),
            (Char('x'), A, "\x1b[120;3u"),
            (Char(' '), C, "\x1b[32;5u"),
            (Escape, Mods::NONE, "\x1b[27u"),
            (Escape, S, "\x1b[27;2u"),
            (Enter, Mods::NONE, "\r"),
            (Enter, S, "\x1b[13;2u"),
            (Enter, C, "\x1b[13;5u"),
            (Tab, S, "\x1b[9;2u"),
            (Tab, C, "\x1b[9;5u"),
            (Backspace, Mods::NONE, "\x7f"),
            (Backspace, C, "\x1b[127;5u"),
            (Up, Mods::NONE, "\x1b[A"),
            (Up, C, "\x1b[1;5A"),
            (F(1), Mods::NONE, "\x1b[P"),
            (F(3), Mods::NONE, "\x1b[13~"),
            (F(13), Mods::NONE, "\x1b[57376u"),
            (Other(57_400), Mods::NONE, "1"),
            (Other(57_417), Mods::NONE, "\x1b[57417u"),
            (Other(57_441), S, ""),
        ],
    );
    check(
        flags(8),
        &[
            (Char('a'), Mods::NONE, "\x1b[97u"),
            (Char('a'), S, "\x1b[97;2u"),
            (Enter, Mods::NONE, "\x1b[13u"),
            (Tab, Mods::NONE, "\x1b[9u"),
            (Other(57_441), S, "\x1b[57441;2u"),
        ],
    );
    check(
        flags(1 | 4),
        &[
            (Char('a'), S.and(C), "\x1b[97:65;6u"),
            (Char('a'), C, "\x1b[97;5u"),
        ],
    );
    check(
        flags(8 | 16),
        &[
            (Char('a'), Mods::NONE, "\x1b[97;;97u"),
            (Char('a'), S, "\x1b[97;2;65u"),
            (Char('a'), C, "\x1b[97;5u"),
        ],
    );
}

#[test]
fn a_key_is_let_go_of_only_where_that_was_asked_for() {
    let release = |code: Code, mods: Mods, keyboard: u8| {
        let press = Press {
            event: Event::Release,
            ..Press::new(code, mods)
        };
        let modes = FrameModes {
            keyboard,
            ..modes()
        };
        String::from_utf8(encode(&press, &modes)).unwrap()
    };
    assert_eq!(release(Code::Char('a'), Mods::NONE, 0), "");
    assert_eq!(release(Code::Up, Mods::NONE, 1), "");
    assert_eq!(release(Code::Up, Mods::NONE, 3), "\x1b[1;1:3A");
    assert_eq!(release(Code::Char('a'), Mods::NONE, 3), "");
    assert_eq!(release(Code::Enter, Mods::NONE, 3), "");
    assert_eq!(release(Code::Char('a'), C, 3), "\x1b[97;5:3u");
    assert_eq!(release(Code::Char('a'), Mods::NONE, 11), "\x1b[97;1:3u");
    assert_eq!(release(Code::Enter, Mods::NONE, 11), "\x1b[13;1:3u");
}

#[test]
fn a_key_of_another_layout_says_where_it_is() {
    let press = Press {
        base: Some('c'),
        ..Press::new(Code::Char('с'), C)
    };
    let modes = FrameModes {
        keyboard: 5,
        ..modes()
    };
    assert_eq!(encode(&press, &modes), b"\x1b[1089::99;5u");
}
