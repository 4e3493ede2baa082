//! Whatever a program prints: nothing of it but text and looks reaches the person's terminal.

use std::fs;

use crate::{attached::Attached, prompts, test_env};

/// Everything that a program can say to a terminal, as far as we could think of it.
const HOSTILE: &[&[u8]] = &[
    b"\x1b]52;c;aGFja2Vk\x07",
    b"\x1b]52;c;?\x1b\\",
    b"\x1b]0;title \x1b]2;evil\x07\x07",
    b"\x1b]2;\xe2\x80\xaetxet desrever\x07",
    b"\x1b]8;;http://evil.example/\x07link\x1b]8;;\x07",
    b"\x1b]4;1;rgb:ff/00/00\x07",
    b"\x1b]10;?\x07\x1b]11;?\x07",
    b"\x1b]133;D;0\x07",
    b"\x1b]1337;File=inline=1:aGVsbG8=\x07",
    b"\x1b]777;notify;a;b\x07\x1b]9;note\x07",
    b"\x1bP$qm\x1b\\",
    b"\x1bP+q544e\x1b\\",
    b"\x1bPq#0;2;0;0;0#0~~@@vv\x1b\\",
    b"\x1bP1000p",
    b"\x1b\\",
    b"\x1b_Gf=24,s=1,v=1;AAAA\x1b\\",
    b"\x1b^private\x1b\\",
    b"\x1bXstart of string\x1b\\",
    b"\x1b[6n\x1b[5n\x1b[c\x1b[>c\x1b[=c\x1b[?6n\x1b[0x",
    b"\x1b[18t\x1b[21t\x1b[14t\x1b[8;10;10t\x1b[3;0;0t\x1b[22;0t\x1b[23;0t",
    b"\x1b[?1049h\x1b[2J\x1b[Halternate\x1b[?1049l",
    b"\x1b[?1049h\x1b[?47h\x1b[?1047l\x1b[?47l\x1b[?1049l",
    b"\x1b[?1000h\x1b[?1003h\x1b[?1006h\x1b[?1003l\x1b[?1000l",
    b"\x1b[?2004h\x1b[?2004l\x1b[?1004h\x1b[?1004l\x1b[?2026h\x1b[?2026l",
    b"\x1b[>1u\x1b[=31;1u\x1b[<u",
    b"\x1b[>4;2m\x1b[?5h\x1b[?5l\x1b[?3h\x1b[?3l\x1b[4i\x1b[5i",
    b"\x1b(0lqqk\x1b(B\x1b)0\x0e\x0f\x1b%G\x1b%@",
    b"\x1bc\x1b[!p\x1b#8\x1b[2J",
    b"\x9b31m\x9d52;c;eA==\x9c\x90q\x9c",
    b"\xc2\x9b31m\xc2\x9d52;c;eA==\xc2\x9c",
    b"\x05\x07\x08\x0b\x0c\x0e\x0f\x10\x13\x18\x1a\x7f",
    b"a\xe2\x80\xaeb\xe2\x81\xa6c\xe2\x80\x8bd\xef\xbb\xbfe\xf3\xa0\x81\x81f",
    b"\x1b[1;99999H\x1b[99999;1H\x1b[999999999999999999999m",
    b"\x1b[?12345678901234567890h",
];

#[test]
fn only_our_own_sequences_reach_the_persons_terminal() {
    let test_env = test_env();
    let mut bytes = Vec::new();
    for one in HOSTILE {
        bytes.extend_from_slice(one);
        bytes.extend_from_slice(b"\r\n");
    }
    fs::write(test_env.work().join("hostile"), &bytes).expect("a file");
    // A string that never ends, of a megabyte.
    let mut endless = b"\x1b]0;".to_vec();
    endless.resize(1 << 20, b'x');
    fs::write(test_env.work().join("endless"), &endless).expect("a file");

    let mut person = Attached::new(&test_env, &[], 24, 80);
    prompts(&mut person, 1);
    person.command("%");
    prompts(&mut person, 2);
    person.type_text("cat hostile; cat endless; printf '\\033\\\\'; tput reset; stty sane; clear; echo surv''ived\r");
    person.shows("survived");
    person.type_text("printf '\\033]2;a\\033]52;c;eA==\\007b\\007'; echo titl''ed\r");
    person.shows("titled");
    for one in HOSTILE {
        person.type_text(&format!("printf '%b' '{}'; echo\r", octal(one)));
    }
    person.type_text("tput reset; stty sane; clear; echo all''over\r");
    person.shows("allover");
    // The other pane, the person's terminal and its modes are as they were.
    let modes = person.terminal.modes();
    assert!(modes.bracketed_paste && modes.focus && !modes.autowrap && modes.alternate);
    assert_eq!(person.terminal.title(), "");
    person.command("d");
    assert!(person.ended().success());
    check(&person.raw);
}

fn octal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("\\0{byte:03o}")).collect()
}

/// Every sequence in what was written is one of ours; everything else is text.
fn check(raw: &[u8]) {
    let mut at = 0;
    while at < raw.len() {
        let rest = &raw[at..];
        if rest[0] == 0x1b {
            let length = ours(rest).unwrap_or_else(|| {
                let end = rest.len().min(40);
                panic!("not ours: {:?}", String::from_utf8_lossy(&rest[..end]))
            });
            at += length;
            continue;
        }
        let text = std::str::from_utf8(&rest[..rest.len().min(4)]);
        let c = match text {
            Ok(text) => text.chars().next(),
            Err(error) => std::str::from_utf8(&rest[..error.valid_up_to()])
                .ok()
                .and_then(|text| text.chars().next()),
        };
        let c = c.unwrap_or_else(|| panic!("no text: {:?}", &rest[..rest.len().min(8)]));
        // The last words, when the terminal is given back, end with a line feed.
        let fine = !c.is_control() || c == '\n' || c == '\r';
        assert!(fine, "a control character: {c:?} at {at}");
        let hidden = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200b}' | '\u{feff}' | '\u{e0000}'..='\u{e0fff}');
        assert!(!hidden, "an invisible character: {c:?}");
        at += c.len_utf8();
    }
}

/// The length of a sequence that the client may write.
fn ours(bytes: &[u8]) -> Option<usize> {
    if bytes.starts_with(b"\x1b>") {
        return Some(2);
    }
    let body = bytes.strip_prefix(b"\x1b[")?;
    let end = body.iter().position(|byte| (0x40..0x7f).contains(byte))?;
    let (params, last) = (&body[..end], body[end]);
    let params = std::str::from_utf8(params).ok()?;
    let numbers = |text: &str| {
        text.bytes()
            .all(|byte| byte.is_ascii_digit() || b";:".contains(&byte))
    };
    let switches = [
        "?1", "?7", "?25", "?1000", "?1002", "?1003", "?1004", "?1006", "?1049", "?2004", "?2026",
    ];
    let fine = match last {
        b'H' | b'm' => numbers(params),
        b'J' => params == "2",
        b'h' | b'l' => switches.contains(&params),
        b'q' => params.ends_with(' ') && numbers(params.trim_end()),
        b'u' => {
            params == "?"
                || params == "<"
                || [">", "="]
                    .iter()
                    .any(|sign| params.strip_prefix(sign).is_some_and(numbers))
        }
        b'c' => params.is_empty(),
        _ => false,
    };
    fine.then_some(end + 3)
}
