//! Generators of hostile output, and a complete view of a terminal's state.

use fugue_term::{LineQuery, Terminal, TerminalEvent, TerminalOptions, TerminalSize, TextCursor};
use proptest::prelude::*;

/// One step of a script.
#[derive(Clone, Debug)]
pub enum Step {
    Bytes(Vec<u8>),
    Resize(TerminalSize),
    /// A new process takes over the pane.
    Renew,
}

pub const SECRET: &str = "s3cret";

pub fn options() -> TerminalOptions {
    TerminalOptions {
        keep_lines: 50,
        secret: Some(SECRET.into()),
    }
}

/// Small screens, where every position is near an edge.
pub fn size() -> impl Strategy<Value = TerminalSize> {
    (1u16..9, 1u16..13).prop_map(|(rows, cols)| TerminalSize { rows, cols })
}

pub fn script() -> impl Strategy<Value = Vec<Step>> {
    let bytes =
        prop::collection::vec(fragment(), 1..12).prop_map(|parts| Step::Bytes(parts.concat()));
    let step = prop_oneof![12 => bytes, 2 => size().prop_map(Step::Resize), 1 => Just(Step::Renew)];
    prop::collection::vec(step, 1..8)
}

/// A fragment of output: often a meaningful sequence, sometimes a part of one.
pub fn fragment() -> impl Strategy<Value = Vec<u8>> {
    let whole = prop_oneof![
        4 => "[a-zA-Z0-9 ]{1,20}".prop_map(String::into_bytes),
        2 => any::<prop::sample::Index>().prop_map(|i| i.get(TEXTS).as_bytes().to_vec()),
        2 => any::<prop::sample::Index>().prop_map(|i| i.get(CONTROLS).as_bytes().to_vec()),
        6 => csi(),
        1 => any::<prop::sample::Index>().prop_map(|i| i.get(SEQUENCES).as_bytes().to_vec()),
        1 => mark(),
        1 => prop::collection::vec(any::<u8>(), 1..6),
    ];
    (whole, 0..20usize).prop_map(|(mut bytes, cut)| {
        if cut == 0 {
            bytes.pop();
        }
        bytes
    })
}

fn csi() -> impl Strategy<Value = Vec<u8>> {
    let finals = "@ABCDEFGHIJKLMPSTXZ`abcdefghlmnrsu";
    let private =
        prop_oneof![8 => Just(""), 1 => Just("?"), 1 => Just(">"), 1 => Just("="), 1 => Just("<")];
    let number = prop_oneof![4 => 0u16..12, 1 => Just(u16::MAX)];
    let params = prop::collection::vec(number, 0..4);
    (private, params, any::<prop::sample::Index>()).prop_map(move |(private, params, action)| {
        let params: Vec<String> = params.iter().map(u16::to_string).collect();
        let action = char::from(*action.get(finals.as_bytes()));
        format!("\x1b[{private}{}{action}", params.join(";")).into_bytes()
    })
}

fn mark() -> impl Strategy<Value = Vec<u8>> {
    (any::<prop::sample::Index>(), any::<bool>()).prop_map(|(kind, ours)| {
        let kind = kind.get(&[
            "A",
            "B",
            "C",
            "D;0",
            "D;130",
            "D",
            "C;s=3.4",
            "D;7;s=18446744073709551615.1",
            "P;cwd=/tmp/%41",
            "Z",
        ]);
        let key = if ours { SECRET } else { "guess" };
        format!("\x1b]133;{kind};k={key}\x1b\\").into_bytes()
    })
}

const TEXTS: &[&str] = &[
    "漢字",
    "日本語テキスト",
    "e\u{301}a\u{300}\u{301}",
    "👍🏽",
    "👩‍👩‍👧‍👦",
    "🇩🇪",
    "\u{200d}",
    "🏽",
    "☝️",
    "\u{301}",
    "ｱｲｳ",
    "\u{ad}\u{200b}",
    "\u{85}\u{9b}",
    "naïve café €",
];

const CONTROLS: &[&str] = &[
    "\r\n", "\n", "\r", "\x08", "\t", "\x07", "\x0e", "\x0f", "\x0b", "\x0c", "\x18", "\x1a",
    "\x7f", "\0",
];

const SEQUENCES: &[&str] = &[
    "\x1b7",
    "\x1b8",
    "\x1bD",
    "\x1bE",
    "\x1bH",
    "\x1bM",
    "\x1bc",
    "\x1b=",
    "\x1b>",
    "\x1b(0",
    "\x1b(B",
    "\x1b)0",
    "\x1b)B",
    "\x1b#8",
    "\x1bZ",
    "\x1b[!p",
    "\x1b[?1049h",
    "\x1b[?1049l",
    "\x1b[?47h",
    "\x1b[?47l",
    "\x1b[?1047h",
    "\x1b[?1048h",
    "\x1b[?1048l",
    "\x1b[?6h",
    "\x1b[?6l",
    "\x1b[?7l",
    "\x1b[?7h",
    "\x1b[4h",
    "\x1b[4l",
    "\x1b[20h",
    "\x1b[20l",
    "\x1b[?25l",
    "\x1b[?2004h",
    "\x1b[?1002;1006h",
    "\x1b[2;3r",
    "\x1b[r",
    "\x1b[H\x1b[J",
    "\x1b[2J",
    "\x1b[3J",
    "\x1b[41m\x1b[K",
    "\x1b[38:2::1:2:3;4:3;58:5:9m",
    "\x1b[38;5;200;48;2;9;8;7m",
    "\x1b[0m",
    "\x1b[>5u",
    "\x1b[<u",
    "\x1b[?u",
    "\x1b[=3;2u",
    "\x1b[>q",
    "\x1b[4 q",
    "\x1b[?2026$p",
    "\x1b]0;title\x07",
    "\x1b]2;t\x1b\\",
    "\x1b]11;?\x07",
    "\x1b]8;;http://x\x1b\\",
    "\x1bPq#0\x1b\\",
    "\x1b_G\x1b\\",
    "\x1b]7;file://h/tmp\x07",
    "\x1b]",
    "\x1bP",
    "\x1b[",
    "\x1b[?",
    "\x1b[1;",
    "\x1b",
];

/// The complete visible state of a terminal.
#[derive(Debug, PartialEq)]
pub struct VisibleState {
    pub facts: Vec<TerminalEvent>,
    pub ends: Vec<TextCursor>,
    pub lines: Vec<(u64, String, bool)>,
    pub since: Vec<Vec<(u64, String, bool)>>,
    pub screen: Vec<String>,
    pub cursor: (usize, usize),
    pub cursor_line: String,
    pub title: String,
    pub dump: String,
    pub saved: Option<Vec<u8>>,
}

pub fn lines(terminal: &Terminal, since: Option<TextCursor>) -> Vec<(u64, String, bool)> {
    let lines = terminal
        .lines(&LineQuery {
            since,
            last: usize::MAX,
        })
        .lines;
    lines
        .into_iter()
        .map(|line| (line.no.0, line.text.into_owned(), line.cut))
        .collect()
}

/// Plays a script; `cut` decides how each run of bytes is split.
pub fn play(
    terminal: &mut Terminal,
    script: &[Step],
    mut cut: impl FnMut(&[u8]) -> Vec<Vec<u8>>,
) -> VisibleState {
    let (mut facts, mut ends) = (Vec::new(), Vec::new());
    for step in script {
        match step {
            Step::Bytes(bytes) => {
                for part in cut(bytes) {
                    facts.extend(terminal.feed(&part));
                }
            }
            Step::Resize(size) => terminal.resize(*size),
            Step::Renew => {
                terminal.reset_for_new_process();
                // Events are returned by the next feed, which may come after a restart.
                facts.extend(terminal.feed(b""));
            }
        }
        ends.push(terminal.end());
    }
    visible_state(terminal, facts, ends)
}

pub fn visible_state(
    terminal: &Terminal,
    facts: Vec<TerminalEvent>,
    ends: Vec<TextCursor>,
) -> VisibleState {
    VisibleState {
        since: ends.iter().map(|end| lines(terminal, Some(*end))).collect(),
        lines: lines(terminal, None),
        screen: terminal.screen().rows().collect(),
        cursor: terminal.screen().cursor(),
        cursor_line: terminal.cursor_line(),
        title: terminal.title().to_owned(),
        dump: String::from_utf8_lossy(&terminal.dump()).into_owned(),
        saved: terminal.save(),
        facts,
        ends,
    }
}

pub fn whole(bytes: &[u8]) -> Vec<Vec<u8>> {
    vec![bytes.to_vec()]
}

pub fn single_bytes(bytes: &[u8]) -> Vec<Vec<u8>> {
    bytes.iter().map(|byte| vec![*byte]).collect()
}
