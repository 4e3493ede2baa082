//! What a program prints, as a stream of text with places, for whoever waits for a word in it.
//!
//! The stream is the text as it is printed: colours and titles are not in it, a line that runs over the edge goes on.
//! A line feed or a lone carriage return is `\n`, the two together are one. Where the cursor jumps, or something is
//! erased before it, what follows is not the same word, so there is a `\n` as well; backspace is such a jump. A move to
//! the right over nothing is the spaces that a reader of the line will see.
//!
//! The stream depends on the bytes alone and not on how they are cut. Nothing is kept: each feed starts anew.

use crate::grid::Point;
use crate::machine::Machine;
use crate::parser::Csi;
use crate::place::{LineNo, Offset, TextCursor};
use crate::shell::ShellMarkKind;

/// What one feed printed, for [`Watch::output`](crate::Watch::output).
#[derive(Clone, Debug, Default)]
pub struct Tapped {
    pub(crate) text: String,
    /// In the order of the text, and together all of it.
    pub(crate) pieces: Vec<Piece>,
    /// Something was painted with cursor moves, or over other text.
    pub(crate) moved: bool,
    /// The same, by a shell's line editor.
    pub(crate) moved_at_prompt: bool,
    /// What was read up to here is in this feed or in one before.
    pub(crate) until: Offset,
}

/// A stretch of text whose places follow from that of its first character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Where it starts, in bytes of the text.
    pub(crate) start: u64,
    /// The place of its first character.
    pub(crate) at: TextCursor,
    pub(crate) ground: Ground,
    /// It is what a shell echoes of a line being typed.
    pub(crate) echo: bool,
    /// The cursor had jumped to where it is.
    pub(crate) painted: bool,
}

/// What a piece was printed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ground {
    /// The main screen, just now: each byte of text is one of output.
    Main,
    /// The alternate screen, which has no lines: its places are moments.
    Alternate,
    /// Text that has no bytes of its own: a gap, or a line that was there before somebody listened.
    Kept,
}

/// A gap is spaces up to here; what is further away is a jump. Wider than real gaps, and a bound on how much text
/// a few bytes can make.
const MAX_GAP: usize = 256;

/// A feed that was larger gives its memory back.
const KEPT_CAPACITY: usize = 1 << 20;

/// The listener's state between feeds.
#[derive(Debug)]
pub(crate) struct Tap {
    tapped: Tapped,
    /// The cursor, where text goes on if nothing moves it.
    next: Option<Point>,
    alternate: bool,
    /// The place in the text where the stream is, as far as it is known.
    line: Option<u64>,
    col: Option<u32>,
    /// The offset behind the last character.
    offset: u64,
    ended: Ended,
    echo: bool,
    painting: bool,
    /// The next character is a continuation of the last piece.
    open: bool,
    breaks: u64,
}

/// What the stream ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Char,
    Newline,
    /// A newline for a carriage return: a line feed now is the same one.
    Return,
}

static NOTHING: Tapped = Tapped {
    text: String::new(),
    pieces: Vec::new(),
    moved: false,
    moved_at_prompt: false,
    until: Offset(0),
};

impl Tap {
    /// Each feed starts a new one.
    pub(crate) fn start_feed(&mut self) {
        let tapped = &mut self.tapped;
        tapped.text.clear();
        tapped.pieces.clear();
        if tapped.text.capacity() + tapped.pieces.capacity() * size_of::<Piece>() > KEPT_CAPACITY {
            *tapped = Tapped::default();
        }
        (tapped.moved, tapped.moved_at_prompt) = (false, false);
        self.open = false;
    }

    pub(crate) fn end_feed(&mut self, offset: u64) {
        self.tapped.until = Offset(offset);
    }

    /// `text` was printed and its last byte read at offset `end`; the cursor is now at `next`.
    pub(crate) fn push(&mut self, text: &str, end: u64, next: Point) {
        self.piece(end.saturating_sub(text.len() as u64));
        self.tapped.text.push_str(text);
        if !self.alternate {
            let chars = match text.is_ascii() {
                true => text.len(),
                false => text.chars().count(),
            };
            self.col = self.col.map(|col| col + chars as u32);
        }
        self.offset = end;
        self.next = Some(next);
        self.ended = Ended::Char;
    }

    /// Text that is not byte by byte what was read up to `offset`: spaces that the cursor skipped, signs of another
    /// charset, what stands for bytes that are no text.
    fn push_still(&mut self, text: &str, offset: u64, next: Point) {
        self.open = false;
        self.push(text, offset + text.len() as u64, next);
        if let Some(piece) = self.tapped.pieces.last_mut() {
            piece.ground = match self.alternate {
                true => Ground::Alternate,
                false => Ground::Kept,
            };
        }
        self.offset = offset;
        self.open = false;
    }

    fn piece(&mut self, start: u64) {
        if self.open && start == self.offset {
            return;
        }
        self.open = true;
        self.tapped.pieces.push(Piece {
            start: self.tapped.text.len() as u64,
            at: TextCursor {
                offset: Offset(start),
                line: LineNo(self.line.unwrap_or_default()),
                col: self.col.unwrap_or_default(),
            },
            ground: match self.alternate {
                true => Ground::Alternate,
                false => Ground::Main,
            },
            echo: self.echo,
            painted: self.painting,
        });
    }

    fn newline(&mut self, now: u64, ended: Ended) {
        self.piece(now.saturating_sub(1));
        self.tapped.text.push('\n');
        self.offset = now;
        self.ended = ended;
        self.open = false;
    }

    /// What follows does not belong to what came before. Whatever the reason was, it took at least a byte.
    fn boundary(&mut self) {
        if self.ended == Ended::Char {
            self.newline(self.offset + 1, Ended::Newline);
        }
    }

    fn forget_place(&mut self) {
        (self.line, self.col) = (None, None);
        self.open = false;
    }

    fn jump(&mut self) {
        self.boundary();
        self.forget_place();
        self.next = None;
        self.painting = true;
        self.moved();
    }

    fn moved(&mut self) {
        if self.echo {
            self.tapped.moved_at_prompt = true;
        } else {
            self.tapped.moved = true;
        }
    }
}

/// None of this is inlined: a terminal that nobody listens to pays for a branch and no more.
impl Machine {
    pub(crate) fn listen(&mut self, on: bool) {
        if !on {
            self.tap = None;
        } else if self.tap.is_none() {
            let place = self.tap_place();
            self.tap = Some(Box::new(Tap {
                tapped: Tapped {
                    until: Offset(self.now),
                    ..Tapped::default()
                },
                next: Some(self.shown().cursor),
                alternate: self.alt.is_some(),
                line: Some(place.0),
                col: Some(place.1),
                offset: self.now,
                ended: match place.1 {
                    0 => Ended::Newline,
                    _ => Ended::Char,
                },
                echo: self.shell.echoes(),
                painting: false,
                open: false,
                breaks: self.history.breaks(),
            }));
        }
    }

    pub(crate) fn tapped(&self) -> &Tapped {
        self.tap.as_ref().map_or(&NOTHING, |tap| &tap.tapped)
    }

    /// Where in the text the next character will be.
    fn tap_place(&self) -> (u64, u32) {
        if self.alt.is_some() {
            let (line, col) = self.text_end();
            return (line.0, col);
        }
        let (line, col) = self.text_position();
        let Point { x, y } = self.main.cursor;
        let row = &self.main.rows[y];
        // Cells that were never printed count when something is printed behind them.
        let gap = x.saturating_sub(row.used());
        // The left half of a wide character, with all that is joined to it, becomes a blank with the right one.
        let halved = match x < row.used() && row.cell(x).is_spacer() {
            true => {
                row.chars_before(x, &self.clusters) - row.chars_before(x - 1, &self.clusters) - 1
            }
            false => 0,
        };
        (line.0, col + gap as u32 - halved as u32)
    }

    /// Before a character is printed at the cursor, and before the cursor wraps for it.
    #[inline(never)]
    pub(crate) fn tap_reaches(&mut self) {
        let Some(mut tap) = self.tap.take() else {
            return;
        };
        let alternate = self.alt.is_some();
        if !self.modes.autowrap {
            let grid = self.grid();
            grid.cursor.x = grid.column();
        }
        let grid = self.shown();
        let cursor = grid.cursor;
        let used = grid.rows[cursor.y].used();
        if tap.alternate != alternate {
            tap.jump();
            tap.alternate = alternate;
        } else if tap.next != Some(cursor) {
            match tap.next {
                Some(next)
                    if next.y == cursor.y
                        && next.x < cursor.x
                        && used <= next.x
                        && cursor.x - next.x <= MAX_GAP =>
                {
                    let gap = cursor.x - next.x;
                    if tap.line.is_none() || tap.col.is_none() {
                        let (line, col) = self.tap_place();
                        let before = if alternate { 0 } else { gap as u32 };
                        (tap.line, tap.col) = (Some(line), Some(col.saturating_sub(before)));
                    }
                    let offset = tap.offset;
                    tap.push_still(&" ".repeat(gap), offset, cursor);
                }
                _ => tap.jump(),
            }
        }
        if alternate || cursor.x < used {
            tap.moved();
        }
        if !alternate && cursor.x < used {
            // Half a character may be about to go, and the columns with it.
            tap.forget_place();
        }
        if tap.breaks != self.history.breaks() {
            tap.breaks = self.history.breaks();
            tap.forget_place();
        }
        if tap.line.is_none() || tap.col.is_none() {
            let (line, col) = self.tap_place();
            (tap.line, tap.col) = (Some(line), Some(col));
        }
        self.tap = Some(tap);
    }

    /// The cursor went to the next row because there was no room; does the line go on there?
    #[inline(never)]
    pub(crate) fn tap_wrapped(&mut self, goes_on: bool) {
        let grid = self.shown();
        let cursor = grid.cursor;
        let over_text = grid.rows[cursor.y].used() > 0;
        let whole = grid.top == 0 && grid.bottom == grid.height() - 1;
        let above = cursor.y.checked_sub(1).map(|above| &grid.rows[above]);
        let full = above.is_some_and(|row| row.used() == grid.cols);
        let Some(tap) = &mut self.tap else { return };
        tap.next = Some(cursor);
        if over_text {
            tap.moved();
        }
        if !goes_on {
            tap.boundary();
        }
        // In a region that scrolls a line loses its beginning, and has another number then. Blanks in front of a
        // character that was too wide for the rest of its row are no text.
        if !goes_on || !whole || !full {
            tap.forget_place();
            let (line, col) = self.tap_place();
            if let Some(tap) = &mut self.tap {
                (tap.line, tap.col) = (Some(line), Some(col));
            }
        }
    }

    /// Text was printed, up to column `end` of the cursor's row; the cursor itself may have been held back.
    #[inline(never)]
    pub(crate) fn tap_printed(&mut self, text: &str, end: usize) {
        let y = self.shown().cursor.y;
        let (now, next) = (self.now, Point { x: end, y });
        // These were other bytes than they are now.
        let translated = text == "\u{fffd}" || self.charsets.is_drawing();
        match &mut self.tap {
            Some(tap) if translated => tap.push_still(text, now, next),
            Some(tap) => tap.push(text, now, next),
            None => (),
        }
    }

    #[inline(never)]
    pub(crate) fn tap_printed_ascii(&mut self, text: &[u8], end: usize) {
        if let Ok(text) = str::from_utf8(text) {
            self.tap_printed(text, end);
        }
    }

    /// A line feed while somebody listens.
    #[inline(never)]
    pub(crate) fn tapped_line_feed(&mut self) {
        let fed = self.tap_feeds_line();
        let (grid, world) = self.parts();
        grid.line_feed(world);
        self.tap_fed_line(fed);
    }

    /// A control sequence while somebody listens.
    #[inline(never)]
    pub(crate) fn tapped_csi(&mut self, csi: &Csi) {
        let was_home = self.shown().cursor == Point::default();
        self.obey_csi(csi);
        self.tap_obeyed(csi, was_home);
    }

    /// Before a line feed is obeyed; what it returns is wanted afterwards.
    fn tap_feeds_line(&mut self) -> LineFed {
        let (now, alternate) = (self.now, self.alt.is_some());
        let wants_place = self.tap.as_ref().is_some_and(|tap| {
            tap.ended != Ended::Return && (tap.line.is_none() || tap.col.is_none())
        });
        let place = wants_place.then(|| self.tap_place());
        let grid = self.shown();
        let whole = grid.top == 0 && grid.bottom == grid.height() - 1;
        let next = self.tap.as_ref().and_then(|tap| tap.next);
        let stayed = next.is_some_and(|next| next.y == grid.cursor.y);
        let fed = LineFed {
            next_line: stayed && whole && !grid.rows[grid.cursor.y].wrapped(),
            scrolls: grid.cursor.y == grid.bottom,
        };
        if let Some(tap) = &mut self.tap {
            if tap.alternate != alternate {
                tap.jump();
                tap.alternate = alternate;
            }
            if let Some((line, col)) = place {
                (tap.line, tap.col) = (Some(line), Some(col));
            }
            match tap.ended {
                Ended::Return => tap.ended = Ended::Newline,
                Ended::Char | Ended::Newline => tap.newline(now, Ended::Newline),
            }
        }
        fed
    }

    fn tap_fed_line(&mut self, fed: LineFed) {
        let (cursor, breaks) = (self.shown().cursor, self.history.breaks());
        let Some(tap) = &mut self.tap else { return };
        tap.next = Some(cursor);
        tap.open = false;
        if fed.scrolls {
            tap.painting = false;
        }
        if tap.alternate {
            return;
        }
        let known = fed.next_line && tap.breaks == breaks;
        tap.breaks = breaks;
        tap.line = tap.line.filter(|_| known).map(|line| line + 1);
        tap.col = (cursor.x == 0).then_some(0);
    }

    /// Before a carriage return.
    #[inline(never)]
    pub(crate) fn tap_returns(&mut self) {
        let (now, from, alternate) = (self.now, self.shown().cursor, self.alt.is_some());
        let cursor = Point { x: 0, y: from.y };
        let Some(tap) = &mut self.tap else { return };
        if tap.alternate != alternate {
            return;
        }
        // A jump before it counts, wherever the cursor is now.
        let jumped = tap.next.is_none_or(|next| next.y != from.y);
        if tap.ended == Ended::Char {
            tap.newline(now, Ended::Return);
        }
        if jumped {
            tap.jump();
        }
        if tap.next != Some(cursor) {
            tap.col = None;
            tap.open = false;
        }
        tap.next = Some(cursor);
    }

    /// After a control sequence that may have changed text that was printed. Those that only move the cursor are
    /// noticed when something is printed.
    fn tap_obeyed(&mut self, csi: &Csi, was_home: bool) {
        let grid = self.shown();
        let next = self.tap.as_ref().and_then(|tap| tap.next);
        let at_end = next == Some(grid.cursor);
        let neutral = match (csi.private, csi.intermediate, csi.action) {
            // Erasing what is to the right and below: many programs do it after each coloured word.
            (0, 0, b'J') => csi.param(0) == 0 && !was_home && at_end,
            (0, 0, b'K') => csi.param(0) == 0 && at_end,
            // Behind the last column it is the last character that goes.
            (0, 0, b'X') => at_end && grid.cursor.x < grid.cols,
            (0, 0, b'@' | b'P' | b'L' | b'M' | b'S' | b'T') => false,
            (b'?', 0, b'h' | b'l') => !csi.params().any(|mode| mode[0] == 3),
            _ => true,
        };
        if !neutral {
            self.tap_jumped();
        }
    }

    /// The screen changed other than by printing at the cursor.
    #[inline(never)]
    pub(crate) fn tap_jumped(&mut self) {
        if let Some(tap) = &mut self.tap {
            tap.jump();
        }
    }

    /// A new size has moved the cursor along with the text.
    #[inline(never)]
    pub(crate) fn tap_resized(&mut self, before: Point) {
        let cursor = self.shown().cursor;
        if let Some(tap) = &mut self.tap {
            tap.next = tap.next.filter(|next| *next == before).map(|_| cursor);
            tap.forget_place();
        }
    }

    #[inline(never)]
    pub(crate) fn tap_marked(&mut self, kind: ShellMarkKind) {
        let echo = kind == ShellMarkKind::Input && !self.shell.typing.is_nothing();
        let Some(tap) = &mut self.tap else { return };
        if tap.echo && !echo {
            tap.boundary();
        }
        if tap.echo != echo {
            tap.echo = echo;
            tap.open = false;
        }
        if kind == ShellMarkKind::Output {
            tap.painting = false;
        }
    }
}

impl Machine {
    /// Somebody has typed: what is shown at the prompt from here on may be that.
    pub(crate) fn tap_typed(&mut self) {
        let echo = self.shell.echoes();
        if let Some(tap) = &mut self.tap
            && echo
            && !tap.echo
        {
            tap.boundary();
            (tap.echo, tap.open) = (true, false);
        }
    }
}

/// What a line feed will do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LineFed {
    /// The cursor goes to the line behind the one it is on.
    next_line: bool,
    scrolls: bool,
}
