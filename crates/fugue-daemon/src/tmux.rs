//! Panes of tmux: those that people have, and those that we make there.
//!
//! A pane that we make is held by a holder like every other. Only its holder is started by tmux, in a pane of tmux, where
//! it shows what its child prints and types what a person types there (`fugue-holder`'s `view`). So its log, its exit and
//! its steps are as exact as a native pane's, whatever becomes of tmux: tmux itself drops the end of what a program
//! printed before it ended.
//!
//! A pane that a person has is listened to in control mode ([`link`], [`control`]), and [`picture`] says what it showed
//! before. The pane's task reaches both by a keeper (`pane/keeper.rs`).

pub mod capture;
pub mod control;
pub mod control_client;
pub mod lookup;
pub mod placement;
pub mod server;
#[cfg(test)]
pub mod testing;
pub(crate) mod tiles;
