//! Integration tests in one binary: properties for any bytes, and comparisons with other terminals.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod alacritty;
mod common;
mod compare;
mod escapes;
mod expect;
mod expect_properties;
mod properties;
mod recording;
mod recordings;
mod reference;
mod scrollback;
mod shell_marks;
mod text_lines;
mod tmux;
