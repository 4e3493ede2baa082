//! Panes in tmux: those of people, and those that fugue creates there.
//!
//! A pane that fugue creates has a holder like every other pane. tmux starts the holder in a tmux pane, where the holder shows
//! the child's output and passes on the person's keys (`fugue-holder`'s `view`). So the output log, the exit status and the
//! steps are as exact as those of a native pane, whatever happens to tmux: tmux itself drops the end of a program's output.
//!
//! A person's own pane is read in control mode ([`control_client`], [`control`]), and [`capture`] provides its earlier output.
//! The pane's task uses both through its backend.

pub mod capture;
pub mod control;
pub mod control_client;
pub mod lookup;
pub mod placement;
pub mod server;
#[cfg(test)]
pub mod testing;
pub(crate) mod tiles;
