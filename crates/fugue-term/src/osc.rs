//! Operating system commands (OSC): titles, the working directory, shell marks, colour queries.
//!
//! All other commands (links, clipboard, notifications) are parsed to their end and ignored.

use crate::TerminalEvent;
use crate::parser::StringEnd;
use crate::terminal_state::TerminalState;

const MAX_TITLE_CHARS: usize = 256;
const MAX_PATH_CHARS: usize = 4096;

impl TerminalState {
    pub(crate) fn execute_osc(&mut self, body: &[u8], end: StringEnd) {
        let (code, rest) = match body.iter().position(|&b| b == b';') {
            Some(at) => (&body[..at], &body[at + 1..]),
            None => (body, &[][..]),
        };
        match code {
            b"0" | b"2" => self.set_title(rest),
            // Any program can print OSC 7. If marks carry a secret, the directory comes with the marks (`P;cwd=`)
            // instead.
            b"7" if !self.shell.has_secret() => {
                if let Some(path) = file_url(rest) {
                    self.set_cwd(path);
                }
            }
            b"10" if rest == b"?" => self.report_color("10", "c0c0", end),
            b"11" if rest == b"?" => self.report_color("11", "0000", end),
            b"12" if rest == b"?" => self.report_color("12", "c0c0", end),
            b"133" => self.execute_shell_mark(rest),
            _ => (),
        }
    }

    fn set_title(&mut self, title: &[u8]) {
        let title = clean(title, MAX_TITLE_CHARS);
        if title != self.title {
            self.title.clone_from(&title);
            self.events.push(TerminalEvent::Title(title));
        }
    }

    pub(crate) fn set_cwd(&mut self, path: &[u8]) {
        let path = clean(&percent_decode(path), MAX_PATH_CHARS);
        if path.starts_with('/') && self.cwd.as_ref() != Some(&path) {
            self.cwd = Some(path.clone());
            self.events.push(TerminalEvent::Cwd(path));
        }
    }

    /// Replies grey on black: the terminal has no colours of its own, and programs send the query to distinguish dark
    /// from light.
    fn report_color(&mut self, code: &str, part: &str, end: StringEnd) {
        let end = match end {
            StringEnd::Bell => "\x07",
            StringEnd::Escape => "\x1b\\",
        };
        self.reply(format!("\x1b]{code};rgb:{part}/{part}/{part}{end}").into_bytes());
    }
}

/// The text without control characters, limited to `most` characters.
fn clean(bytes: &[u8], max_chars: usize) -> String {
    String::from_utf8_lossy(bytes)
        .chars()
        .filter(|c| !c.is_control())
        .take(max_chars)
        .collect()
}

/// The path of a `file://host/path` URL.
fn file_url(url: &[u8]) -> Option<&[u8]> {
    let rest = url.strip_prefix(b"file://")?;
    let slash = rest.iter().position(|&b| b == b'/')?;
    Some(&rest[slash..])
}

fn percent_decode(bytes: &[u8]) -> Vec<u8> {
    let hex = |b: Option<&u8>| b.and_then(|&b| char::from(b).to_digit(16));
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while i < bytes.len() {
        match (bytes[i], hex(bytes.get(i + 1)), hex(bytes.get(i + 2))) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                i += 3;
            }
            (byte, ..) => {
                out.push(byte);
                i += 1;
            }
        }
    }
    out
}
