//! Does what core decides: sockets, holders, the store, timers.
//!
//! Control and data are apart. The control plane ([`engine`]) is one loop without bytes; every pane's bytes stay in
//! its own task on one of a few threads ([`shards`]), and only facts leave it.

pub mod agents;
mod archive;
pub mod assess;
mod clock;
mod compose;
pub mod config;
mod disk;
mod engine;
mod follow;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod gc;
mod listener;
mod listening;
mod origin;
mod pane;
mod pending_calls;
mod picture;
mod reading;
mod recovery;
mod replay;
mod resolve;
mod run;
mod shards;
pub mod shell;
mod store;
mod sweep;
pub mod tmux;
mod watchers;
mod whole;
mod workers;

pub use recovery::{RepairReport, repair};
pub use run::daemon;
