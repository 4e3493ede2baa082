//! Turns a pane's bytes into clean text, a screen, shell marks and matches.
//!
//! A [`Terminal`] is fed whatever a program printed, cut anywhere, and can be asked at any time for the text as a
//! person would have read it, the screen as it is now, and what the shell said about its commands. It does no I/O,
//! knows no clock, and never fails: any bytes are survived. What it finds on the way (titles, bells, marks, and the
//! answers a program expects) comes back as [`TerminalEvent`]s; acting on them is someone else's work.
//!
//! How wide a character is: see the `width` module; in short, as tmux has it.

mod cell;
mod charsets;
mod clusters;
mod csi;
mod dump;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod gap;
mod grid;
mod history;
mod lines;
mod machine;
mod modes;
mod osc;
mod parser;
mod pattern;
mod place;
mod renew;
mod resize;
mod row;
mod save;
mod screen;
mod scrollback;
mod seeker;
mod sgr;
mod shell;
mod sight;
mod tabs;
mod tail;
mod tap;
mod terminal;
mod threads;
mod typing;
mod utf8;
mod varint;
mod watch;
mod width;

pub use cell::{CellAttribute, Color, Style, Underline};
pub use lines::{LineQuery, TextLine, TextLines};
pub use modes::{CursorShape, Modes, MouseEncoding, MouseReporting};
pub use pattern::{BadPattern, Pattern};
pub use place::{BadCursor, LineNo, Offset, TextCursor};
pub use screen::{Screen, ScreenCell};
pub use scrollback::{LineSelection, Scrollback};
pub use shell::{ShellMark, ShellMarkKind, ShellState, StepMark};
pub use tap::Tapped;
pub use terminal::{LastCommand, Terminal, TerminalEvent, TerminalOptions, TerminalSize};
pub use watch::{
    EchoPolicy, ExpectPatterns, ExpectSearch, InitialSearch, MatchSource, PatternKind, PatternMatch,
};
pub use width::cells;
