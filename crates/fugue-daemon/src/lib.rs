//! Does what core decides: sockets, holders, the store, timers.
//!
//! Control and data are apart. The control plane ([`engine`]) is one loop without bytes; every pane's bytes stay in
//! its own task on one of a few threads ([`shards`]), and only facts leave it.

pub mod agents;
mod archive;
pub mod assess;
mod clock;
pub mod config;
mod desk;
mod disk;
mod door;
mod engine;
mod follow;
mod frame;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod gc;
mod listening;
mod origin;
mod pane;
mod reading;
mod reap;
mod recovery;
mod replay;
mod run;
mod run_reply;
mod shards;
pub mod shell;
mod store;
pub mod tmux;
mod watchers;
mod whole;
mod workers;
mod world;

pub use recovery::{RepairReport, repair};
pub use run::daemon;
