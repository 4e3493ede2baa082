//! Turns a pane's output into clean text, a screen, shell marks and matches.
//!
//! A [`Terminal`] is fed the output of a program, split anywhere, and gives at any time the text as a person would
//! have read it, the current screen, and the state of the shell. The crate does no I/O, has no clock and never fails:
//! any bytes are accepted. Titles, bells, marks and replies to queries of the program are returned as
//! [`TerminalEvent`]s, which the caller acts on.
//!
//! Character widths follow tmux: see the `char_width` module.

mod cell;
mod char_width;
mod charsets;
mod checkpoint;
mod clusters;
mod csi;
mod dump;
mod expect;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod grid;
mod history;
mod match_window;
mod modes;
mod nfa_states;
mod osc;
mod output_gap;
mod parser;
mod pattern;
mod position;
mod program_reset;
mod resize;
mod row;
mod screen;
mod screen_diff;
mod scrollback;
mod sgr;
mod shell_marks;
mod stream_matcher;
mod tab_stops;
mod terminal;
mod terminal_state;
mod text_lines;
mod text_stream;
mod typed_lines;
mod utf8;
mod varint;

pub use cell::{CellAttribute, Color, Style, Underline};
pub use char_width::text_cells;
pub use expect::{
    EchoPolicy, ExpectPatterns, ExpectSearch, InitialSearch, MatchSource, PatternKind, PatternMatch,
};
pub use modes::{CursorShape, Modes, MouseFormat, MouseMode};
pub use pattern::{BadPattern, Pattern};
pub use position::{BadCursor, LineNo, Offset, TextCursor};
pub use screen::{Screen, ScreenCell};
pub use scrollback::{LineSelection, Scrollback};
pub use shell_marks::{ShellMark, ShellMarkKind, ShellState, StepMark};
pub use terminal::{LastCommand, Terminal, TerminalEvent, TerminalOptions, TerminalSize};
pub use text_lines::{LineQuery, TextLine, TextLines};
pub use text_stream::FeedText;
