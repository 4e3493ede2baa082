//! Turns a pane's bytes into clean text, a screen, shell marks and matches.
//!
//! A [`Terminal`] is fed whatever a program printed, cut anywhere, and can be asked at any time for the text as a
//! person would have read it, the screen as it is now, and what the shell said about its commands. It does no I/O,
//! knows no clock, and never fails: any bytes are survived. What it finds on the way (titles, bells, marks, and the
//! answers a program expects) comes back as [`Fact`]s; acting on them is someone else's work.
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

pub use cell::{Attr, Color, Style, Underline};
pub use lines::{Line, Lines, Query};
pub use modes::{CursorShape, Modes, Mouse, MouseFormat};
pub use pattern::{BadPattern, Pattern};
pub use place::{BadCursor, Cursor, LineNo, Offset};
pub use screen::{Screen, ScreenCell};
pub use scrollback::{Scrollback, Selection};
pub use shell::{Mark, MarkKind, ShellState, StepMark};
pub use tap::Tapped;
pub use terminal::{Fact, LastCommand, Options, Size, Terminal};
pub use watch::{Begun, Echo, Hit, Via, Watch, WatchFor, Which};
pub use width::cells;
