//! The terminal from outside, in one binary: what any bytes must give, and what other terminals make of the same.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod alacritty;
mod common;
mod compare;
mod escapes;
mod properties;
mod recording;
mod recordings;
mod reference;
mod scrollback;
mod shell;
mod text;
mod tmux;
mod watch;
mod watch_properties;
