//! Alacritty's terminal as a reference.

use alacritty_terminal::event::{Event, EventListener};
use alacritty_terminal::grid::Dimensions;
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::cell::Flags;
use alacritty_terminal::term::{Config, Term};
use alacritty_terminal::vte::ansi::Processor;
use fugue_term::TerminalSize;

#[derive(Clone)]
struct IgnoreEvents;

impl EventListener for IgnoreEvents {
    fn send_event(&self, _: Event) {}
}

struct ScreenSize(TerminalSize);

impl Dimensions for ScreenSize {
    fn total_lines(&self) -> usize {
        self.0.rows.into()
    }

    fn screen_lines(&self) -> usize {
        self.0.rows.into()
    }

    fn columns(&self) -> usize {
        self.0.cols.into()
    }
}

/// Alacritty's terminal.
pub struct Reference {
    term: Term<IgnoreEvents>,
    parser: Processor,
}

impl Reference {
    pub fn new(size: TerminalSize) -> Self {
        let config = Config {
            scrolling_history: 10_000,
            ..Config::default()
        };
        Reference {
            term: Term::new(config, &ScreenSize(size), IgnoreEvents),
            parser: Processor::new(),
        }
    }

    pub fn feed(&mut self, bytes: &[u8]) {
        self.parser.advance(&mut self.term, bytes);
    }

    /// The visible rows without trailing blanks.
    pub fn rows(&self) -> Vec<String> {
        let grid = self.term.grid();
        let row = |line: usize| {
            let mut text = String::new();
            for column in 0..grid.columns() {
                let cell = &grid[Line(line as i32)][Column(column)];
                if !cell
                    .flags
                    .intersects(Flags::WIDE_CHAR_SPACER | Flags::LEADING_WIDE_CHAR_SPACER)
                {
                    text.push(if cell.c == '\t' { ' ' } else { cell.c });
                    text.extend(cell.zerowidth().unwrap_or_default());
                }
            }
            text.truncate(text.trim_end_matches(' ').len());
            text
        };
        (0..grid.screen_lines()).map(row).collect()
    }
}
