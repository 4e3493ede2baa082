//! The match window: the end of a text stream, with the position of each character in the pane.
//!
//! The window keeps as much text as a match may span: a number of lines, and at most a megabyte.

use std::collections::VecDeque;

use crate::position::{LineNo, Offset, TextCursor};
use crate::text_stream::{PieceOrigin, TextPiece};

/// The maximum length of a match. Longer than any text that an expect waits for, and a bound on the memory of an
/// expect.
const MAX_MATCH_BYTES: usize = 1 << 20;

/// Pieces older than this are used only for the start of a match, which need not be exact to the byte.
const EXACT_CURSOR_BYTES: u64 = 64 * 1024;

/// The end of a text stream. Stream positions count bytes from the beginning of the stream.
#[derive(Debug, Default)]
pub(crate) struct MatchWindow {
    text: String,
    /// The stream position of the first byte in the window.
    base: u64,
    pieces: VecDeque<TextPiece>,
    /// The text length above which `trim` does its work.
    trim_above: usize,
}

impl MatchWindow {
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn end(&self) -> u64 {
        self.base + self.text.len() as u64
    }

    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    pub(crate) fn index(&self, position: u64) -> usize {
        (position.saturating_sub(self.base) as usize).min(self.text.len())
    }

    pub(crate) fn slice(&self, from: u64, to: u64) -> &str {
        let (from, to) = (self.index(from), self.index(to));
        self.text.get(from..to).unwrap_or_default()
    }

    /// Appends text with its first character at the position of `piece`.
    pub(crate) fn push(&mut self, text: &str, piece: TextPiece) {
        let start = self.end();
        self.pieces.push_back(TextPiece { start, ..piece });
        self.text.push_str(text);
    }

    /// Appends text that continues the last piece.
    pub(crate) fn push_more(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// The earliest stream position at which a match that ends at `end` may start.
    pub(crate) fn window_start(&self, end: u64, lines: usize) -> u64 {
        let end = self.index(end);
        let mut least = end.saturating_sub(MAX_MATCH_BYTES);
        while !self.text.is_char_boundary(least) {
            least += 1;
        }
        let newlines = memchr::memrchr_iter(b'\n', &self.text.as_bytes()[least..end]);
        // A match that ends with a newline ends in the line before the newline.
        let ended = end > 0 && self.text.as_bytes()[end - 1] == b'\n';
        let before = lines.max(1) - 1 + usize::from(ended);
        let start = newlines
            .map(|at| least + at + 1)
            .nth(before)
            .unwrap_or(least);
        self.base + start as u64
    }

    /// Drops text that no match can reach any more; text from `from` on stays.
    pub(crate) fn trim(&mut self, lines: usize, from: u64) {
        if self.text.len() <= self.trim_above {
            return;
        }
        let keep = self
            .window_start(self.end(), lines.saturating_add(1))
            .min(from);
        // One character more, for assertions.
        let keep = self.text[..self.index(keep)]
            .char_indices()
            .next_back()
            .map_or(0, |(at, _)| at);
        let base = self.base + keep as u64;
        let first = self.pieces.partition_point(|piece| piece.start <= base);
        self.pieces.drain(..first.saturating_sub(1));
        if let Some(piece) = self.pieces.front().filter(|piece| piece.start < base) {
            let (start, at) = (base, self.cursor_in_piece(piece, base));
            let piece = TextPiece {
                start,
                at,
                ..*piece
            };
            self.pieces[0] = piece;
        }
        self.text.drain(..keep);
        self.base = base;
        self.trim_above = (2 * self.text.len()).max(64 * 1024);
        if self.text.capacity() > 4 * self.trim_above {
            self.text.shrink_to(self.trim_above);
        }
        let exact = self.end().saturating_sub(EXACT_CURSOR_BYTES);
        let (base, text) = (self.base, self.text.as_bytes());
        let begins_line = |piece: &TextPiece| {
            let before = (piece.start.saturating_sub(base) as usize).checked_sub(1);
            before.is_none_or(|at| text[at] == b'\n')
        };
        self.pieces
            .retain(|piece| piece.start >= exact || begins_line(piece));
    }

    /// The piece of the character at `position`.
    pub(crate) fn piece(&self, position: u64) -> Option<&TextPiece> {
        let next = self.pieces.partition_point(|piece| piece.start <= position);
        self.pieces.get(next.checked_sub(1)?)
    }

    /// The text cursor of the character at `position`.
    pub(crate) fn cursor_at(&self, position: u64) -> TextCursor {
        match self.piece(position) {
            Some(piece) => self.cursor_in_piece(piece, position),
            None => TextCursor::default(),
        }
    }

    /// The text cursor after the character that ends at `position`.
    pub(crate) fn cursor_after(&self, position: u64) -> TextCursor {
        let Some(last) = self.slice(0, position).chars().next_back() else {
            return self.cursor_at(position);
        };
        let Some(piece) = self.piece(position - last.len_utf8() as u64) else {
            return self.cursor_at(position);
        };
        let cursor = self.cursor_in_piece(piece, position);
        if last == '\n' && piece.origin != PieceOrigin::Alternate {
            return TextCursor {
                line: LineNo(cursor.line.0 + 1),
                col: 0,
                ..cursor
            };
        }
        cursor
    }

    fn cursor_in_piece(&self, piece: &TextPiece, position: u64) -> TextCursor {
        let text = self.slice(piece.start, position);
        let TextCursor { offset, line, col } = piece.at;
        let later = Offset(offset.0 + text.len() as u64);
        let further = col + text.chars().count() as u32;
        match piece.origin {
            PieceOrigin::Main => TextCursor {
                offset: later,
                line,
                col: further,
            },
            PieceOrigin::Alternate => TextCursor {
                offset: later,
                line,
                col,
            },
            PieceOrigin::Stored => TextCursor {
                offset,
                line,
                col: further,
            },
        }
    }
}
