//! The terminal from outside, in one binary: what any bytes must give, and what other terminals make of the same.

mod alacritty;
mod common;
mod compare;
mod properties;
mod recording;
mod recordings;
mod reference;
mod tmux;
