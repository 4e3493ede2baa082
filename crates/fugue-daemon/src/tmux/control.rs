//! Parser of tmux's control mode: notifications and replies to commands, line by line. No I/O; accepts any bytes, cut
//! anywhere.

use std::fmt::Write;

/// One message of tmux in control mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlEvent {
    /// The reply to a command of this client. Replies come in order, one for each command of a line.
    Answer { ok: bool, body: Vec<u8> },
    /// Output of a pane.
    Output { pane: u32, bytes: Vec<u8> },
    /// Windows, panes or sessions have changed: positions and sizes must be queried again.
    Changed,
    /// The connection ends.
    Exit,
}

/// Splits bytes into lines and parses them.
#[derive(Default)]
pub struct ControlParser {
    line: Vec<u8>,
    block: Option<ControlBlock>,
}

struct ControlBlock {
    /// The arguments of `%begin`, which `%end` repeats.
    tag: Vec<u8>,
    body: Vec<u8>,
}

// Replies to this client's commands are a few numbers. The limit bounds the memory for a reply without end.
const MAX_BODY_BYTES: usize = 1 << 20;
// tmux cuts output into far shorter lines.
const MAX_LINE_BYTES: usize = 4 << 20;

impl ControlParser {
    /// Parses bytes and returns the messages that they complete.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<ControlEvent> {
        let mut said = Vec::new();
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            self.extend(&rest[..end]);
            rest = &rest[end + 1..];
            let line = std::mem::take(&mut self.line);
            said.extend(self.line(&line));
        }
        self.extend(rest);
        said
    }

    fn extend(&mut self, bytes: &[u8]) {
        let room = MAX_LINE_BYTES.saturating_sub(self.line.len());
        self.line.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn line(&mut self, line: &[u8]) -> Option<ControlEvent> {
        let (word, rest) = split_word(line);
        if let Some(block) = &mut self.block {
            let ok = match word {
                b"%end" => Some(true),
                b"%error" => Some(false),
                _ => None,
            };
            if let Some(ok) = ok.filter(|_| rest == block.tag) {
                let ControlBlock { tag, body } = self.block.take()?;
                // A block without a command of this client, such as the one at the start.
                let ours = tag.ends_with(b" 1");
                return ours.then_some(ControlEvent::Answer { ok, body });
            }
            if block.body.len() < MAX_BODY_BYTES {
                block.body.extend_from_slice(line);
                block.body.push(b'\n');
            }
            return None;
        }
        match word {
            b"%begin" => {
                self.block = Some(ControlBlock {
                    tag: rest.to_vec(),
                    body: Vec::new(),
                });
                None
            }
            b"%output" => {
                let (pane, text) = split_word(rest);
                output(pane, text)
            }
            // `%extended-output %1 20 : text`, for clients with the flag `pause-after`.
            b"%extended-output" => {
                let (pane, rest) = split_word(rest);
                let text = rest.windows(3).position(|window| window == b" : ")?;
                output(pane, &rest[text + 3..])
            }
            b"%exit" => Some(ControlEvent::Exit),
            b"%layout-change"
            | b"%window-add"
            | b"%window-close"
            | b"%unlinked-window-add"
            | b"%unlinked-window-close"
            | b"%session-changed"
            | b"%sessions-changed" => Some(ControlEvent::Changed),
            // Names, modes, messages, other clients: not used.
            _ => None,
        }
    }
}

fn split_word(line: &[u8]) -> (&[u8], &[u8]) {
    match line.iter().position(|byte| *byte == b' ') {
        Some(end) => (&line[..end], &line[end + 1..]),
        None => (line, &[]),
    }
}

fn output(pane: &[u8], text: &[u8]) -> Option<ControlEvent> {
    let number = std::str::from_utf8(pane.strip_prefix(b"%")?).ok()?;
    Some(ControlEvent::Output {
        pane: number.parse().ok()?,
        bytes: unescape(text),
    })
}

/// Decodes output: control bytes and the backslash are written as a backslash and three octal digits.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        match (first, after) {
            (
                b'\\',
                [
                    a @ b'0'..=b'3',
                    b @ b'0'..=b'7',
                    c @ b'0'..=b'7',
                    after @ ..,
                ],
            ) => {
                bytes.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = after;
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    bytes
}

/// Quotes a text without NUL as one argument of a command.
pub fn quote(text: &[u8]) -> String {
    let mut quoted = String::from("\"");
    for byte in text {
        match byte {
            b'a'..=b'z'
            | b'A'..=b'Z'
            | b'0'..=b'9'
            | b'/'
            | b'.'
            | b'-'
            | b'_'
            | b' '
            | b':'
            | b'%'
            | b'@' => {
                quoted.push(char::from(*byte));
            }
            other => {
                let _ = write!(quoted, "\\{other:03o}");
            }
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // Recorded from tmux 3.3a.
    const TALK: &[u8] = b"%begin 1 266 0\n%end 1 266 0\n%session-changed $0 main\n\
        %begin 1 271 1\n4898 0\n%end 9 9 1\n%end 1 271 1\n%output %12 a\\033[b\xc3\xbc\\134\\015\\012\n\
        %begin 1 272 1\nno such thing\n%error 1 272 1\n%extended-output %3 7 : x : y\n%window-renamed @1 sh\n%exit\n";

    #[test]
    fn a_talk_is_understood() {
        let said = [
            ControlEvent::Changed,
            ControlEvent::Answer {
                ok: true,
                body: b"4898 0\n%end 9 9 1\n".to_vec(),
            },
            ControlEvent::Output {
                pane: 12,
                bytes: b"a\x1b[b\xc3\xbc\\\r\n".to_vec(),
            },
            ControlEvent::Answer {
                ok: false,
                body: b"no such thing\n".to_vec(),
            },
            ControlEvent::Output {
                pane: 3,
                bytes: b"x : y".to_vec(),
            },
            ControlEvent::Exit,
        ];
        assert_eq!(ControlParser::default().feed(TALK), said);
    }

    #[test]
    fn a_word_is_safe_whatever_it_holds() {
        assert_eq!(quote(b"/a b/%1"), "\"/a b/%1\"");
        assert_eq!(
            quote(b"$x;#{}\"'\\~\n\xff"),
            "\"\\044x\\073\\043\\173\\175\\042\\047\\134\\176\\012\\377\""
        );
    }

    fn all(chunks: &[&[u8]]) -> Vec<ControlEvent> {
        let mut parser = ControlParser::default();
        chunks.iter().flat_map(|chunk| parser.feed(chunk)).collect()
    }

    proptest! {
        #[test]
        fn any_cut_of_a_talk_says_the_same(cuts in prop::collection::vec(0..TALK.len(), 0..12)) {
            let mut cuts = cuts;
            cuts.sort_unstable();
            let mut chunks = Vec::new();
            let mut from = 0;
            for cut in cuts {
                chunks.push(&TALK[from..cut]);
                from = cut;
            }
            chunks.push(&TALK[from..]);
            prop_assert_eq!(all(&chunks), all(&[TALK]));
        }

        #[test]
        fn any_bytes_are_taken_and_any_cut_says_the_same(
            lines in prop::collection::vec(prop::sample::select(vec![
                &b"%begin 1 2 1"[..], b"%end 1 2 1", b"%output %1 \\01", b"%output %x", b"%output", b"%exit", b"\xff\0",
                b"%extended-output %1 : ", b"\\777\\", b"%error 1 2 1", b"%begin",
            ]), 0..20),
            noise in prop::collection::vec(any::<u8>(), 0..40),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut bytes = lines.join(&b'\n');
            bytes.extend(noise);
            let cut = cut.index(bytes.len() + 1);
            prop_assert_eq!(all(&[&bytes[..cut], &bytes[cut..]]), all(&[&bytes]));
        }

        #[test]
        fn what_is_printed_comes_out_as_it_was(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut escaped = Vec::new();
            for byte in &bytes {
                match byte {
                    0..32 | b'\\' => escaped.extend(format!("\\{byte:03o}").bytes()),
                    other => escaped.push(*other),
                }
            }
            prop_assert_eq!(unescape(&escaped), bytes);
        }
    }
}
