//! The end of a stream of text, and where each of its characters is in the pane.
//!
//! As much is kept as a match may reach back: so many lines, and not more than a megabyte.

use std::collections::VecDeque;

use crate::place::{LineNo, Offset, TextCursor};
use crate::tap::{Ground, Piece};

/// A match that is longer is none. Longer than anything one waits for, and a bound on what a watch costs.
const MAX_WINDOW: usize = 1 << 20;

/// Older pieces are only asked where a match began, and that need not be exact to the byte.
const EXACT: u64 = 64 * 1024;

/// See the module. Positions count bytes from the stream's beginning.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    text: String,
    /// The position of the first byte that is kept.
    base: u64,
    pieces: VecDeque<Piece>,
    /// When there is more text than this, look what can go.
    roomy: usize,
}

impl Tail {
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

    /// Appends text whose first character is at the piece's place.
    pub(crate) fn push(&mut self, text: &str, piece: Piece) {
        let start = self.end();
        self.pieces.push_back(Piece { start, ..piece });
        self.text.push_str(text);
    }

    /// Appends text that goes on where the last piece ends.
    pub(crate) fn push_more(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Where a match that ends at `end` may start.
    pub(crate) fn window(&self, end: u64, lines: usize) -> u64 {
        let end = self.index(end);
        let mut least = end.saturating_sub(MAX_WINDOW);
        while !self.text.is_char_boundary(least) {
            least += 1;
        }
        let newlines = memchr::memrchr_iter(b'\n', &self.text.as_bytes()[least..end]);
        // A match that ends with a newline ends in the line before it.
        let ended = end > 0 && self.text.as_bytes()[end - 1] == b'\n';
        let before = lines.max(1) - 1 + usize::from(ended);
        let start = newlines
            .map(|at| least + at + 1)
            .nth(before)
            .unwrap_or(least);
        self.base + start as u64
    }

    /// Lets go of what no match can reach any more; `from` is still needed.
    pub(crate) fn trim(&mut self, lines: usize, from: u64) {
        if self.text.len() <= self.roomy {
            return;
        }
        let keep = self.window(self.end(), lines.saturating_add(1)).min(from);
        // One character more, since assertions look at it.
        let keep = self.text[..self.index(keep)]
            .char_indices()
            .next_back()
            .map_or(0, |(at, _)| at);
        let base = self.base + keep as u64;
        let first = self.pieces.partition_point(|piece| piece.start <= base);
        self.pieces.drain(..first.saturating_sub(1));
        if let Some(piece) = self.pieces.front().filter(|piece| piece.start < base) {
            let (start, at) = (base, self.within(piece, base));
            let piece = Piece {
                start,
                at,
                ..*piece
            };
            self.pieces[0] = piece;
        }
        self.text.drain(..keep);
        self.base = base;
        self.roomy = (2 * self.text.len()).max(64 * 1024);
        if self.text.capacity() > 4 * self.roomy {
            self.text.shrink_to(self.roomy);
        }
        let exact = self.end().saturating_sub(EXACT);
        let (base, text) = (self.base, self.text.as_bytes());
        let begins_line = |piece: &Piece| {
            let before = (piece.start.saturating_sub(base) as usize).checked_sub(1);
            before.is_none_or(|at| text[at] == b'\n')
        };
        self.pieces
            .retain(|piece| piece.start >= exact || begins_line(piece));
    }

    /// The piece that the character at `position` belongs to.
    pub(crate) fn piece(&self, position: u64) -> Option<&Piece> {
        let behind = self.pieces.partition_point(|piece| piece.start <= position);
        self.pieces.get(behind.checked_sub(1)?)
    }

    /// The place of the character at `position`.
    pub(crate) fn place(&self, position: u64) -> TextCursor {
        match self.piece(position) {
            Some(piece) => self.within(piece, position),
            None => TextCursor::default(),
        }
    }

    /// The place just behind the character that ends at `position`.
    pub(crate) fn place_behind(&self, position: u64) -> TextCursor {
        let Some(last) = self.slice(0, position).chars().next_back() else {
            return self.place(position);
        };
        let Some(piece) = self.piece(position - last.len_utf8() as u64) else {
            return self.place(position);
        };
        let place = self.within(piece, position);
        if last == '\n' && piece.ground != Ground::Alternate {
            return TextCursor {
                line: LineNo(place.line.0 + 1),
                col: 0,
                ..place
            };
        }
        place
    }

    fn within(&self, piece: &Piece, position: u64) -> TextCursor {
        let text = self.slice(piece.start, position);
        let TextCursor { offset, line, col } = piece.at;
        let later = Offset(offset.0 + text.len() as u64);
        let further = col + text.chars().count() as u32;
        match piece.ground {
            Ground::Main => TextCursor {
                offset: later,
                line,
                col: further,
            },
            Ground::Alternate => TextCursor {
                offset: later,
                line,
                col,
            },
            Ground::Kept => TextCursor {
                offset,
                line,
                col: further,
            },
        }
    }
}
