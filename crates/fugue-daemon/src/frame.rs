//! A terminal's screen as rows, cursor and head of a frame. A program's own bytes are never part of it.

use fugue_api::{
    attach::{
        FrameColor, FrameCursor, FrameHead, FrameModes, FrameMouseEncoding, FrameMouseMode,
        FrameRow, FrameStyle, PaneLines, StyleAttributes, StyledSpan,
    },
    pane_state::SourcedState,
    tools::PaneSize,
};
use fugue_term::{
    CellAttribute, Color, LineNo, Modes, MouseMode, Screen, Style, Terminal, Underline,
};

// The limit of lines per request: some screenfuls for scrolling. A whole log is read with `read_pane`.
const MAX_LINES: u32 = 1000;
// A line may be a quarter of a megabyte.
const MAX_CHARS: usize = 1 << 20;

/// The head of a frame, as far as the terminal has its parts.
pub fn head(terminal: &Terminal, state: SourcedState) -> FrameHead {
    let size = terminal.size();
    FrameHead {
        size: PaneSize {
            rows: size.rows,
            cols: size.cols,
        },
        modes: modes(&terminal.modes()),
        title: terminal.title().to_owned(),
        state,
        held: None,
        ended: false,
    }
}

pub fn row(screen: &Screen<'_>, row: u16) -> FrameRow {
    let mut spans: Vec<StyledSpan> = Vec::new();
    let mut last = None;
    for cell in screen.cells(row.into()) {
        match spans.last_mut() {
            Some(span) if last == Some(cell.style) => cell.append_to(&mut span.0),
            _ => {
                let mut text = String::new();
                cell.append_to(&mut text);
                spans.push(StyledSpan(text, appearance(&cell.style)));
                last = Some(cell.style);
            }
        }
    }
    FrameRow(row, spans)
}

pub fn cursor(terminal: &Terminal) -> FrameCursor {
    let screen = terminal.screen();
    let (row, col) = screen.cursor();
    let cells = |place: usize| u16::try_from(place).unwrap_or(u16::MAX);
    FrameCursor {
        row: cells(row),
        col: cells(col),
        visible: screen.cursor_visible(),
        shape: terminal.modes().cursor_shape.0,
    }
}

pub fn modes(modes: &Modes) -> FrameModes {
    FrameModes {
        alternate: modes.alternate,
        bracketed_paste: modes.bracketed_paste,
        app_cursor: modes.app_cursor,
        app_keypad: modes.app_keypad,
        focus: modes.focus,
        keyboard: modes.keyboard,
        mouse: match modes.mouse {
            MouseMode::Off => FrameMouseMode::Nothing,
            MouseMode::Press => FrameMouseMode::Presses,
            MouseMode::Click => FrameMouseMode::Clicks,
            MouseMode::Drag => FrameMouseMode::Drags,
            MouseMode::Motion => FrameMouseMode::Motion,
        },
        mouse_format: match modes.mouse_format {
            fugue_term::MouseFormat::Bytes => FrameMouseEncoding::Bytes,
            fugue_term::MouseFormat::Utf8 => FrameMouseEncoding::Utf8,
            fugue_term::MouseFormat::Sgr => FrameMouseEncoding::Sgr,
        },
        reverse: modes.reverse,
    }
}

/// A range of the text that a client scrolls to.
#[derive(Clone, Copy, Debug)]
pub struct LineRange {
    from: u64,
    most: u64,
    oldest: u64,
    end: u64,
}

impl LineRange {
    /// `oldest` is the oldest line in the files. A range beyond the end means the last lines.
    pub fn new(terminal: &Terminal, oldest: u64, from: u64, most: u32) -> Self {
        let end = terminal.end().line.0 + 1;
        let most = u64::from(most.min(MAX_LINES));
        let from = if from >= end {
            end.saturating_sub(most)
        } else {
            from
        };
        Self {
            from: from.max(oldest),
            most,
            oldest,
            end,
        }
    }

    /// The same range without lines before `oldest`.
    pub fn kept_from(self, oldest: u64) -> Self {
        Self {
            from: self.from.max(oldest),
            oldest,
            ..self
        }
    }
}

/// Collects the lines of a range, in order.
pub struct LinesBuilder {
    range: LineRange,
    chars: usize,
    lines: Vec<Vec<StyledSpan>>,
}

impl LinesBuilder {
    pub fn new(range: LineRange) -> Self {
        Self {
            range,
            chars: 0,
            lines: Vec::new(),
        }
    }

    /// The next line of the range, unless it is complete.
    pub fn next_line(&self) -> Option<LineNo> {
        let taken = self.lines.len() as u64;
        let next = self.range.from + taken;
        let wanted = taken < self.range.most && next < self.range.end;
        (wanted && self.chars < MAX_CHARS).then_some(LineNo(next))
    }

    /// Adds the next line, cut by style.
    pub fn push(&mut self, runs: Vec<(String, Style)>) {
        let runs = runs.into_iter();
        let spans: Vec<StyledSpan> = runs
            .map(|(text, style)| StyledSpan(text, appearance(&style)))
            .collect();
        self.chars += spans.iter().map(|span| span.0.len()).sum::<usize>();
        self.lines.push(spans);
    }

    /// Adds the rest of the range from a terminal that has it.
    pub fn finish(mut self, terminal: &Terminal) -> PaneLines {
        while let Some(line) = self.next_line() {
            self.push(terminal.styled_line(line));
        }
        PaneLines {
            from: self.range.from,
            lines: self.lines,
            kept_from: self.range.oldest,
            end: self.range.end,
        }
    }
}

/// A range of the text. `None`: the terminal does not reach back far enough.
pub fn lines(terminal: &Terminal, range: LineRange) -> Option<PaneLines> {
    (range.from >= terminal.first_kept().0).then(|| LinesBuilder::new(range).finish(terminal))
}

fn appearance(style: &Style) -> FrameStyle {
    let attributes = CellAttribute::ALL
        .into_iter()
        .enumerate()
        .filter(|(_, attr)| style.has(*attr))
        .fold(0, |bits, (bit, _)| bits | 1 << bit);
    let underline: u16 = match style.underline() {
        Underline::None => 0,
        Underline::Single => 1,
        Underline::Double => 2,
        Underline::Curly => 3,
        Underline::Dotted => 4,
        Underline::Dashed => 5,
    };
    FrameStyle(
        colour(style.fg()),
        colour(style.bg()),
        colour(style.underline_color()),
        StyleAttributes(attributes | underline << 8),
    )
}

fn colour(color: Color) -> FrameColor {
    FrameColor(match color {
        Color::Default => -1,
        Color::Indexed(index) => index.into(),
        Color::Rgb(red, green, blue) => i32::from_be_bytes([1, red, green, blue]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fugue_term::{TerminalOptions, TerminalSize};

    fn fed(bytes: &str) -> Terminal {
        let mut terminal = Terminal::new(
            TerminalSize { rows: 4, cols: 20 },
            TerminalOptions::default(),
        );
        terminal.feed(bytes.as_bytes());
        terminal
    }

    fn spans_of(bytes: &str) -> Vec<(String, [i32; 3], u16)> {
        let terminal = fed(bytes);
        let FrameRow(_, spans) = row(&terminal.screen(), 0);
        spans
            .into_iter()
            .map(|StyledSpan(text, FrameStyle(fg, bg, under, attributes))| {
                (text, [fg.0, bg.0, under.0], attributes.0)
            })
            .collect()
    }

    #[test]
    fn text_is_cut_where_its_looks_change() {
        assert_eq!(spans_of(""), []);
        assert_eq!(spans_of("plain"), [("plain".into(), [-1, -1, -1], 0)]);
        assert_eq!(
            spans_of("a\x1b[1;31mb\x1b[0;48;2;1;2;3m \x1b[0mc"),
            [
                ("a".into(), [-1, -1, -1], 0),
                ("b".into(), [1, -1, -1], 1),
                (" ".into(), [-1, 0x1_01_02_03, -1], 0),
                ("c".into(), [-1, -1, -1], 0),
            ]
        );
        assert_eq!(
            spans_of("\x1b[2;3;5;7;8;9;53;4:3;58:5:200mx"),
            [("x".into(), [-1, -1, 200], 0xfe | 3 << 8)]
        );
        assert_eq!(
            spans_of("漢e\u{301}字"),
            [("漢e\u{301}字".into(), [-1, -1, -1], 0)]
        );
    }

    #[test]
    fn lines_are_given_where_they_are_kept() {
        let mut terminal = Terminal::new(
            TerminalSize { rows: 3, cols: 10 },
            TerminalOptions {
                keep_lines: 5,
                secret: None,
            },
        );
        for line in 0..20 {
            terminal.feed(format!("line {line}\r\n").as_bytes());
        }
        let texts = |lines: Option<PaneLines>| {
            let lines = lines?;
            let text =
                |spans: Vec<StyledSpan>| spans.into_iter().map(|span| span.0).collect::<String>();
            Some((
                lines.from,
                lines.lines.into_iter().map(text).collect::<Vec<_>>(),
            ))
        };
        let kept = terminal.first_kept().0;
        assert_eq!(
            texts(lines(&terminal, LineRange::new(&terminal, 0, 18, 2))),
            Some((18, vec!["line 18".into(), "line 19".into()]))
        );
        // Beyond the last: the last ones.
        assert_eq!(
            texts(lines(&terminal, LineRange::new(&terminal, 0, u64::MAX, 2))),
            Some((19, vec!["line 19".into(), String::new()]))
        );
        assert_eq!(
            texts(lines(&terminal, LineRange::new(&terminal, 0, kept - 1, 2))),
            None
        );
        // What no file has any more cannot be had.
        assert_eq!(
            texts(lines(&terminal, LineRange::new(&terminal, kept, 0, 1))).map(|found| found.0),
            Some(kept)
        );
    }
}
