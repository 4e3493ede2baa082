//! The parser: splits a byte stream into text, controls and escape sequences, with the exact offset of each.
//!
//! The state machine is Paul Williams' well-known one, for 7-bit controls only. The crate has its own parser because
//! the `vte` crate differs in three ways: `vte` buffers an unterminated string without limit, where this parser needs
//! no memory; `vte` hides whether the parser is between sequences, which a checkpoint needs; and for `vte`, byte 0x9C
//! ends a device control string in the middle of a UTF-8 character, so that the rest becomes text, where this parser
//! never treats bytes 0x80–0x9F as controls. A test compares the two parsers.

use crate::utf8::{self, DecodeStep, Utf8Decoder};

/// Receives the parsed text and sequences, in order.
pub(crate) trait Perform {
    /// Sets the offset just after the byte that causes the following calls.
    fn set_offset(&mut self, offset: u64);
    /// Printable ASCII, never empty. `start` is the offset before the first byte.
    fn ascii(&mut self, run: &[u8], start: u64);
    /// A character outside ASCII that is not a control.
    fn print(&mut self, c: char);
    /// A C0 control other than ESC.
    fn control(&mut self, byte: u8);
    /// A complete control sequence.
    fn csi(&mut self, csi: &CsiSequence);
    /// A complete escape sequence; zero or one intermediate byte.
    fn esc(&mut self, intermediate: Option<u8>, byte: u8);
    /// A complete operating system command.
    fn osc(&mut self, body: &[u8], end: StringEnd);
}

/// The terminator of a string. A reply uses the same terminator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StringEnd {
    Bell,
    Escape,
}

/// A control sequence. Parameters beyond the limit are dropped.
#[derive(Debug, Default)]
pub(crate) struct CsiSequence {
    /// `<`, `=`, `>` or `?`; 0 if absent.
    pub(crate) private: u8,
    /// The intermediate byte; 0 if absent.
    pub(crate) intermediate: u8,
    /// The final byte.
    pub(crate) action: u8,
    values: [u16; MAX_PARAMS],
    /// Bit `i` is set if a colon precedes value `i`.
    colons: u32,
    /// The number of complete values; the next value is being read.
    len: usize,
}

const MAX_PARAMS: usize = 32;

/// The limit of an operating system command. Marks, titles and directories are far shorter; clipboard contents and
/// images are longer and ignored.
const MAX_OSC_BYTES: usize = 4096;

impl CsiSequence {
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

    /// Parameter `index`; 0 if absent.
    pub(crate) fn param(&self, index: usize) -> u16 {
        self.params().nth(index).map_or(0, |param| param[0])
    }

    /// Parameter `index`; 1 if absent or 0.
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
enum ParserState {
    #[default]
    Ground,
    Escape,
    EscapeIntermediate,
    /// An escape sequence with more intermediates than any existing sequence.
    EscapeIgnore,
    CsiEntry,
    CsiParam,
    CsiIntermediate,
    CsiIgnore,
    Osc,
    /// DCS, SOS, PM, APC or the title string of GNU screen (`ESC k`): the contents are ignored.
    Ignored,
}

/// The state of the parser between bytes.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    state: ParserState,
    offset: u64,
    utf8: Utf8Decoder,
    csi: CsiSequence,
    intermediate: Option<u8>,
    osc: Vec<u8>,
    osc_too_long: bool,
}

impl Parser {
    /// A parser that reads the byte after `offset` next.
    pub(crate) fn starting_at(offset: u64) -> Self {
        Parser {
            offset,
            ..Parser::default()
        }
    }

    /// Number of bytes read since the pane was created.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Whether no sequence and no character is incomplete.
    pub(crate) fn is_between_sequences(&self) -> bool {
        self.state == ParserState::Ground && self.utf8.is_empty()
    }

    /// Parses bytes. The result does not depend on how the bytes are split.
    pub(crate) fn advance<P: Perform>(&mut self, handler: &mut P, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let read = match self.state {
                ParserState::Ground => self.read_text(handler, bytes),
                ParserState::Ignored => {
                    let skipped = memchr::memchr3(0x1b, 0x18, 0x1a, bytes).unwrap_or(bytes.len());
                    self.offset += skipped as u64;
                    skipped + self.read_byte(handler, &bytes[skipped..])
                }
                ParserState::Escape
                | ParserState::EscapeIntermediate
                | ParserState::EscapeIgnore
                | ParserState::CsiEntry
                | ParserState::CsiParam
                | ParserState::CsiIntermediate
                | ParserState::CsiIgnore
                | ParserState::Osc => self.read_byte(handler, bytes),
            };
            bytes = &bytes[read..];
        }
    }

    /// Reads text up to and including the next ESC.
    fn read_text<P: Perform>(&mut self, handler: &mut P, bytes: &[u8]) -> usize {
        let mut i = 0;
        while i < bytes.len() {
            let byte = bytes[i];
            if byte >= 0x80 || !self.utf8.is_empty() {
                if let (true, Some((c, len))) =
                    (self.utf8.is_empty(), utf8::decode_first(&bytes[i..]))
                {
                    i += len;
                    self.offset += len as u64;
                    if c > '\u{9f}' {
                        handler.set_offset(self.offset);
                        handler.print(c);
                    }
                    continue;
                }
                let decoded = self.utf8.push(byte);
                if decoded != DecodeStep::InvalidBefore {
                    i += 1;
                    self.offset += 1;
                }
                handler.set_offset(self.offset);
                match decoded {
                    DecodeStep::Pending => (),
                    // C1 controls in UTF-8 are neither printed nor executed.
                    DecodeStep::Char('\u{80}'..='\u{9f}') => (),
                    DecodeStep::Char(c) => handler.print(c),
                    DecodeStep::Invalid | DecodeStep::InvalidBefore => {
                        handler.print(char::REPLACEMENT_CHARACTER)
                    }
                }
            } else if byte >= 0x20 {
                let run = printable_run(&bytes[i..]);
                if run == 0 {
                    // DEL is ignored.
                    i += 1;
                    self.offset += 1;
                    continue;
                }
                handler.ascii(&bytes[i..i + run], self.offset);
                i += run;
                self.offset += run as u64;
            } else {
                i += 1;
                self.offset += 1;
                handler.set_offset(self.offset);
                if byte == 0x1b {
                    self.begin_escape();
                    return i;
                }
                handler.control(byte);
            }
        }
        i
    }

    fn read_byte<P: Perform>(&mut self, handler: &mut P, bytes: &[u8]) -> usize {
        let Some(&byte) = bytes.first() else { return 0 };
        self.offset += 1;
        handler.set_offset(self.offset);
        match byte {
            0x1b => {
                if self.state == ParserState::Osc {
                    self.end_osc(handler, StringEnd::Escape);
                }
                self.begin_escape();
            }
            // CAN and SUB cancel the current sequence.
            0x18 | 0x1a => self.state = ParserState::Ground,
            byte => self.step(handler, byte),
        }
        1
    }

    fn begin_escape(&mut self) {
        self.state = ParserState::Escape;
        self.intermediate = None;
    }

    fn step<P: Perform>(&mut self, handler: &mut P, byte: u8) {
        match (self.state, byte) {
            (ParserState::Osc, 0x07) => {
                self.end_osc(handler, StringEnd::Bell);
                self.state = ParserState::Ground;
            }
            (ParserState::Osc, 0x00..=0x1f) => (),
            (ParserState::Osc, _) => {
                if self.osc.len() < MAX_OSC_BYTES {
                    self.osc.push(byte);
                } else {
                    self.osc_too_long = true;
                }
            }
            (ParserState::Ignored, _) => (),
            // Controls within a sequence are executed at once, as on hardware terminals.
            (_, 0x00..=0x1f) => handler.control(byte),
            (_, 0x7f..=0xff) => (),

            (ParserState::Escape, b'[') => {
                self.csi.clear();
                self.state = ParserState::CsiEntry;
            }
            (ParserState::Escape, b']') => {
                self.osc.clear();
                self.osc_too_long = false;
                self.state = ParserState::Osc;
            }
            (ParserState::Escape, b'P' | b'X' | b'^' | b'_' | b'k') => {
                self.state = ParserState::Ignored
            }
            (ParserState::Escape, 0x20..=0x2f) => {
                self.intermediate = Some(byte);
                self.state = ParserState::EscapeIntermediate;
            }
            (ParserState::EscapeIntermediate, 0x20..=0x2f) => {
                self.state = ParserState::EscapeIgnore
            }
            (ParserState::Escape | ParserState::EscapeIntermediate, _) => {
                self.state = ParserState::Ground;
                handler.esc(self.intermediate.take(), byte);
            }
            (ParserState::EscapeIgnore, 0x20..=0x2f) => (),
            (ParserState::EscapeIgnore, _) => self.state = ParserState::Ground,

            (ParserState::CsiEntry, b'<'..=b'?') => {
                self.csi.private = byte;
                self.state = ParserState::CsiParam;
            }
            (ParserState::CsiEntry | ParserState::CsiParam, b'0'..=b'9') => {
                self.csi.digit(byte);
                self.state = ParserState::CsiParam;
            }
            (ParserState::CsiEntry | ParserState::CsiParam, b':' | b';') => {
                self.csi.next_value(byte == b':');
                self.state = ParserState::CsiParam;
            }
            (ParserState::CsiEntry | ParserState::CsiParam, 0x20..=0x2f) => {
                self.csi.intermediate = byte;
                self.state = ParserState::CsiIntermediate;
            }
            (ParserState::CsiParam | ParserState::CsiIntermediate, 0x20..=0x3f) => {
                self.state = ParserState::CsiIgnore
            }
            (ParserState::CsiEntry | ParserState::CsiParam | ParserState::CsiIntermediate, _) => {
                self.state = ParserState::Ground;
                self.csi.next_value(false);
                self.csi.action = byte;
                handler.csi(&self.csi);
            }
            (ParserState::CsiIgnore, 0x20..=0x3f) => (),
            (ParserState::CsiIgnore, _) => self.state = ParserState::Ground,
            // Unreachable: `advance` passes ground bytes to `read_text`.
            (ParserState::Ground, _) => (),
        }
    }

    fn end_osc<P: Perform>(&mut self, handler: &mut P, end: StringEnd) {
        if !self.osc_too_long {
            handler.osc(&self.osc, end);
        }
        self.osc.clear();
        // A long command must not leave a large buffer in every pane.
        if self.osc.capacity() > 512 {
            self.osc = Vec::new();
        }
    }
}

/// The number of printable ASCII bytes at the start.
fn printable_run(bytes: &[u8]) -> usize {
    const STEP: usize = 16;
    let printable = |b: &u8| (0x20..0x7f).contains(b);
    let mut run = 0;
    for chunk in bytes.chunks_exact(STEP) {
        // No early exit, so that the loop compiles to a few vector instructions.
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

    /// The parsed events as text, so that two parsers can be compared.
    #[derive(Default)]
    struct ParserTrace(Vec<String>);

    impl ParserTrace {
        fn text(&mut self, text: &str) {
            self.0.extend(text.chars().map(|c| format!("print {c}")));
        }
    }

    impl Perform for ParserTrace {
        fn set_offset(&mut self, _: u64) {}

        fn ascii(&mut self, run: &[u8], _: u64) {
            self.text(&String::from_utf8_lossy(run));
        }

        fn print(&mut self, c: char) {
            self.text(&c.to_string());
        }

        fn control(&mut self, byte: u8) {
            self.0.push(format!("control {byte}"));
        }

        fn csi(&mut self, csi: &CsiSequence) {
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

    /// Sequences with more than one intermediate do not exist, and the parser ignores them.
    fn is_known(marks: &[u8]) -> bool {
        marks.iter().filter(|b| (0x20..0x30).contains(*b)).count() <= 1
    }

    impl vte::Perform for ParserTrace {
        fn print(&mut self, c: char) {
            // The parser ignores DEL.
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

    /// Escapes, brackets and separators, far more often than letters.
    fn byte() -> impl Strategy<Value = u8> {
        prop_oneof![3 => Just(0x1b), 3 => prop::sample::select(b"[]PX^_\\?>=<!$ #(;:0123456789hmqpJ\x07".to_vec()),
            1 => 0u8..0x80]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 5000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn finds_what_vte_finds(bytes in prop::collection::vec(byte(), 0..60)) {
            // `vte` dispatches a command on CAN and SUB, which this parser cancels; `vte` does not support the title
            // string of GNU screen.
            let bytes: Vec<u8> = bytes.into_iter().filter(|b| ![0x18, 0x1a, b'k'].contains(b)).collect();
            let (mut ours, mut theirs) = (ParserTrace::default(), ParserTrace::default());
            Parser::default().advance(&mut ours, &bytes);
            vte::Parser::new().advance(&mut theirs, &bytes);
            prop_assert_eq!(ours.0, theirs.0);
        }
    }
}
