//! Cuts a byte stream into text, controls and escape sequences, and knows the exact offset of each.
//!
//! The state machine is the well-known one of Paul Williams, 7-bit controls only. It is our own and not the `vte`
//! crate's because three things must hold here that do not hold there: a string that never ends costs no memory
//! (`vte` keeps all of it), we can tell whether we are between sequences (`vte` hides it; a checkpoint needs it),
//! and bytes 0x80–0x9F are never controls (for `vte` 0x9C ends a device control string in the middle of a UTF-8
//! character, and the rest becomes text). A test holds the two side by side.

use crate::utf8::{self, Decoded, Decoder};

/// What the parser finds, in order.
pub(crate) trait Perform {
    /// The offset just behind the byte that causes the calls that follow.
    fn at(&mut self, offset: u64);
    /// Printable ASCII, never empty; `start` is the offset before its first byte.
    fn ascii(&mut self, run: &[u8], start: u64);
    /// A character outside ASCII; no control.
    fn print(&mut self, c: char);
    /// A C0 control, but not ESC.
    fn control(&mut self, byte: u8);
    /// A complete control sequence.
    fn csi(&mut self, csi: &Csi);
    /// A complete escape sequence; zero or one intermediate byte.
    fn esc(&mut self, intermediate: Option<u8>, byte: u8);
    /// A complete operating system command.
    fn osc(&mut self, body: &[u8], end: StringEnd);
}

/// What ended a string; an answer ends the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StringEnd {
    Bell,
    Escape,
}

/// A control sequence. Parameters beyond the limit are dropped, the first ones count.
#[derive(Debug, Default)]
pub(crate) struct Csi {
    /// `<`, `=`, `>` or `?`, else 0.
    pub(crate) private: u8,
    /// The intermediate byte, else 0.
    pub(crate) intermediate: u8,
    /// The final byte.
    pub(crate) action: u8,
    values: [u16; MAX_PARAMS],
    /// Bit `i`: value `i` follows the one before it with a colon.
    colons: u32,
    /// Values complete so far; one more is being read.
    len: usize,
}

const MAX_PARAMS: usize = 32;

/// Longest operating system command that is looked at. Ours (marks, titles, directories) are far shorter;
/// clipboard contents and images are longer and ignored.
const MAX_OSC: usize = 4096;

impl Csi {
    /// The parameters, each with its colon-separated parts.
    pub(crate) fn params(&self) -> impl Iterator<Item = &[u16]> {
        let mut start = 0;
        std::iter::from_fn(move || {
            if start >= self.len {
                return None;
            }
            let mut end = start + 1;
            while end < self.len && self.colons & 1 << end != 0 {
                end += 1;
            }
            let param = &self.values[start..end];
            start = end;
            Some(param)
        })
    }

    /// Parameter `index`, or 0 if it was left out.
    pub(crate) fn param(&self, index: usize) -> u16 {
        self.params().nth(index).map_or(0, |param| param[0])
    }

    /// Parameter `index` where leaving it out, or 0, means 1.
    pub(crate) fn count(&self, index: usize) -> usize {
        usize::from(self.param(index).max(1))
    }

    fn clear(&mut self) {
        self.private = 0;
        self.intermediate = 0;
        self.colons = 0;
        self.len = 0;
        self.values[0] = 0;
    }

    fn digit(&mut self, byte: u8) {
        if let Some(value) = self.values.get_mut(self.len) {
            *value = value
                .saturating_mul(10)
                .saturating_add(u16::from(byte - b'0'));
        }
    }

    fn next_value(&mut self, colon: bool) {
        if self.len < MAX_PARAMS {
            self.len += 1;
        }
        if let Some(value) = self.values.get_mut(self.len) {
            *value = 0;
            self.colons |= u32::from(colon) << self.len;
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Ground,
    Escape,
    EscapeIntermediate,
    /// An escape sequence with more intermediates than any that exists.
    EscapeIgnore,
    CsiEntry,
    CsiParam,
    CsiIntermediate,
    CsiIgnore,
    Osc,
    /// DCS, SOS, PM, APC or screen's own title (`ESC k`): nothing in them is for us.
    Ignored,
}

/// The parser.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    state: State,
    offset: u64,
    utf8: Decoder,
    csi: Csi,
    intermediate: Option<u8>,
    osc: Vec<u8>,
    osc_too_long: bool,
}

impl Parser {
    /// A parser whose next byte is the one behind `offset`.
    pub(crate) fn starting_at(offset: u64) -> Self {
        Parser {
            offset,
            ..Parser::default()
        }
    }

    /// Bytes read since the pane's birth.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Whether nothing is pending: no half sequence, no half character.
    pub(crate) fn is_between_sequences(&self) -> bool {
        self.state == State::Ground && self.utf8.is_empty()
    }

    /// Reads bytes; the result does not depend on how they are cut.
    pub(crate) fn advance<P: Perform>(&mut self, to: &mut P, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let read = match self.state {
                State::Ground => self.ground(to, bytes),
                State::Ignored => {
                    let skipped = memchr::memchr3(0x1b, 0x18, 0x1a, bytes).unwrap_or(bytes.len());
                    self.offset += skipped as u64;
                    skipped + self.maybe_one(to, &bytes[skipped..])
                }
                State::Escape
                | State::EscapeIntermediate
                | State::EscapeIgnore
                | State::CsiEntry
                | State::CsiParam
                | State::CsiIntermediate
                | State::CsiIgnore
                | State::Osc => self.maybe_one(to, bytes),
            };
            bytes = &bytes[read..];
        }
    }

    /// Text up to the next escape, which is read too.
    fn ground<P: Perform>(&mut self, to: &mut P, bytes: &[u8]) -> usize {
        let mut i = 0;
        while i < bytes.len() {
            let byte = bytes[i];
            if byte >= 0x80 || !self.utf8.is_empty() {
                if let (true, Some((c, len))) = (self.utf8.is_empty(), utf8::first(&bytes[i..])) {
                    i += len;
                    self.offset += len as u64;
                    if c > '\u{9f}' {
                        to.at(self.offset);
                        to.print(c);
                    }
                    continue;
                }
                let decoded = self.utf8.push(byte);
                if decoded != Decoded::InvalidBefore {
                    i += 1;
                    self.offset += 1;
                }
                to.at(self.offset);
                match decoded {
                    Decoded::Pending => (),
                    // C1 controls in UTF-8 are neither text nor obeyed.
                    Decoded::Char('\u{80}'..='\u{9f}') => (),
                    Decoded::Char(c) => to.print(c),
                    Decoded::Invalid | Decoded::InvalidBefore => {
                        to.print(char::REPLACEMENT_CHARACTER)
                    }
                }
            } else if byte >= 0x20 {
                let run = printable_run(&bytes[i..]);
                if run == 0 {
                    // DEL is nothing on a screen.
                    i += 1;
                    self.offset += 1;
                    continue;
                }
                to.ascii(&bytes[i..i + run], self.offset);
                i += run;
                self.offset += run as u64;
            } else {
                i += 1;
                self.offset += 1;
                to.at(self.offset);
                if byte == 0x1b {
                    self.escape();
                    return i;
                }
                to.control(byte);
            }
        }
        i
    }

    fn maybe_one<P: Perform>(&mut self, to: &mut P, bytes: &[u8]) -> usize {
        let Some(&byte) = bytes.first() else { return 0 };
        self.offset += 1;
        to.at(self.offset);
        match byte {
            0x1b => {
                if self.state == State::Osc {
                    self.end_osc(to, StringEnd::Escape);
                }
                self.escape();
            }
            // CAN and SUB drop what was begun.
            0x18 | 0x1a => self.state = State::Ground,
            byte => self.step(to, byte),
        }
        1
    }

    fn escape(&mut self) {
        self.state = State::Escape;
        self.intermediate = None;
    }

    fn step<P: Perform>(&mut self, to: &mut P, byte: u8) {
        match (self.state, byte) {
            (State::Osc, 0x07) => {
                self.end_osc(to, StringEnd::Bell);
                self.state = State::Ground;
            }
            (State::Osc, 0x00..=0x1f) => (),
            (State::Osc, _) => {
                if self.osc.len() < MAX_OSC {
                    self.osc.push(byte);
                } else {
                    self.osc_too_long = true;
                }
            }
            (State::Ignored, _) => (),
            // Controls within a sequence act at once, as on the machines that had them.
            (_, 0x00..=0x1f) => to.control(byte),
            (_, 0x7f..=0xff) => (),

            (State::Escape, b'[') => {
                self.csi.clear();
                self.state = State::CsiEntry;
            }
            (State::Escape, b']') => {
                self.osc.clear();
                self.osc_too_long = false;
                self.state = State::Osc;
            }
            (State::Escape, b'P' | b'X' | b'^' | b'_' | b'k') => self.state = State::Ignored,
            (State::Escape, 0x20..=0x2f) => {
                self.intermediate = Some(byte);
                self.state = State::EscapeIntermediate;
            }
            (State::EscapeIntermediate, 0x20..=0x2f) => self.state = State::EscapeIgnore,
            (State::Escape | State::EscapeIntermediate, _) => {
                self.state = State::Ground;
                to.esc(self.intermediate.take(), byte);
            }
            (State::EscapeIgnore, 0x20..=0x2f) => (),
            (State::EscapeIgnore, _) => self.state = State::Ground,

            (State::CsiEntry, b'<'..=b'?') => {
                self.csi.private = byte;
                self.state = State::CsiParam;
            }
            (State::CsiEntry | State::CsiParam, b'0'..=b'9') => {
                self.csi.digit(byte);
                self.state = State::CsiParam;
            }
            (State::CsiEntry | State::CsiParam, b':' | b';') => {
                self.csi.next_value(byte == b':');
                self.state = State::CsiParam;
            }
            (State::CsiEntry | State::CsiParam, 0x20..=0x2f) => {
                self.csi.intermediate = byte;
                self.state = State::CsiIntermediate;
            }
            (State::CsiParam | State::CsiIntermediate, 0x20..=0x3f) => {
                self.state = State::CsiIgnore
            }
            (State::CsiEntry | State::CsiParam | State::CsiIntermediate, _) => {
                self.state = State::Ground;
                self.csi.next_value(false);
                self.csi.action = byte;
                to.csi(&self.csi);
            }
            (State::CsiIgnore, 0x20..=0x3f) => (),
            (State::CsiIgnore, _) => self.state = State::Ground,
            // `advance` keeps ground bytes away from here.
            (State::Ground, _) => (),
        }
    }

    fn end_osc<P: Perform>(&mut self, to: &mut P, end: StringEnd) {
        if !self.osc_too_long {
            to.osc(&self.osc, end);
        }
        self.osc.clear();
        // One long command must not cost every pane its buffer for good.
        if self.osc.capacity() > 512 {
            self.osc = Vec::new();
        }
    }
}

/// How many bytes at the start are printable ASCII.
fn printable_run(bytes: &[u8]) -> usize {
    const STEP: usize = 16;
    let printable = |b: &u8| (0x20..0x7f).contains(b);
    let mut run = 0;
    for chunk in bytes.chunks_exact(STEP) {
        // Written without an early exit so that it becomes a few vector instructions.
        if chunk.iter().fold(true, |all, b| all & printable(b)) {
            run += STEP;
        } else {
            break;
        }
    }
    run + bytes[run..].iter().take_while(|b| printable(b)).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What was found, in words, so that two parsers can be compared.
    #[derive(Default)]
    struct Found(Vec<String>);

    impl Found {
        fn text(&mut self, text: &str) {
            self.0.extend(text.chars().map(|c| format!("print {c}")));
        }
    }

    impl Perform for Found {
        fn at(&mut self, _: u64) {}

        fn ascii(&mut self, run: &[u8], _: u64) {
            self.text(&String::from_utf8_lossy(run));
        }

        fn print(&mut self, c: char) {
            self.text(&c.to_string());
        }

        fn control(&mut self, byte: u8) {
            self.0.push(format!("control {byte}"));
        }

        fn csi(&mut self, csi: &Csi) {
            let params: Vec<&[u16]> = csi.params().collect();
            let marks: Vec<u8> = [csi.private, csi.intermediate]
                .into_iter()
                .filter(|&b| b != 0)
                .collect();
            self.0
                .push(format!("csi {marks:?} {params:?} {}", csi.action));
        }

        fn esc(&mut self, intermediate: Option<u8>, byte: u8) {
            let marks: Vec<u8> = intermediate.into_iter().collect();
            self.0.push(format!("esc {marks:?} {byte}"));
        }

        fn osc(&mut self, body: &[u8], end: StringEnd) {
            self.0
                .push(format!("osc {} {end:?}", String::from_utf8_lossy(body)));
        }
    }

    /// More than one intermediate: no such sequence exists, and we ignore them.
    fn is_known(marks: &[u8]) -> bool {
        marks.iter().filter(|b| (0x20..0x30).contains(*b)).count() <= 1
    }

    impl vte::Perform for Found {
        fn print(&mut self, c: char) {
            // For us DEL is nothing.
            if c != '\x7f' {
                self.text(&c.to_string());
            }
        }

        fn execute(&mut self, byte: u8) {
            self.0.push(format!("control {byte}"));
        }

        fn csi_dispatch(&mut self, params: &vte::Params, marks: &[u8], ignore: bool, action: char) {
            if !ignore && is_known(marks) {
                let params: Vec<&[u16]> = params.iter().collect();
                self.0
                    .push(format!("csi {marks:?} {params:?} {}", action as u8));
            }
        }

        fn esc_dispatch(&mut self, marks: &[u8], ignore: bool, byte: u8) {
            if !ignore && is_known(marks) {
                self.0.push(format!("esc {marks:?} {byte}"));
            }
        }

        fn osc_dispatch(&mut self, params: &[&[u8]], bell: bool) {
            let body = params.join(&b';');
            let end = if bell {
                StringEnd::Bell
            } else {
                StringEnd::Escape
            };
            self.0
                .push(format!("osc {} {end:?}", String::from_utf8_lossy(&body)));
        }
    }

    /// Escapes, brackets and separators far more often than letters.
    fn byte() -> impl Strategy<Value = u8> {
        prop_oneof![3 => Just(0x1b), 3 => prop::sample::select(b"[]PX^_\\?>=<!$ #(;:0123456789hmqpJ\x07".to_vec()),
            1 => 0u8..0x80]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 5000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn finds_what_vte_finds(bytes in prop::collection::vec(byte(), 0..60)) {
            // CAN and SUB end a command for `vte` and drop it for us; it does not know screen's title.
            let bytes: Vec<u8> = bytes.into_iter().filter(|b| ![0x18, 0x1a, b'k'].contains(b)).collect();
            let (mut ours, mut theirs) = (Found::default(), Found::default());
            Parser::default().advance(&mut ours, &bytes);
            vte::Parser::new().advance(&mut theirs, &bytes);
            prop_assert_eq!(ours.0, theirs.0);
        }
    }
}
