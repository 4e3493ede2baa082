//! Does what core decides: sockets, holders, the store, timers.
//!
//! Control and data are apart. The control plane ([`engine`]) is one loop without bytes; every pane's bytes stay in
//! its own task on one of a few threads ([`shards`]), and only facts leave it.

pub mod agents;
mod archive;
pub mod assess;
pub mod client;
mod clock;
mod compose;
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
pub mod lock;
pub mod mirror;
mod origin;
mod pane;
pub mod paths;
mod picture;
mod reading;
mod recovery;
mod replay;
mod run;
mod shards;
pub mod shell;
mod socket;
pub mod spool;
pub mod start;
mod store;
mod sweep;
pub mod tmux;
pub mod typist;
pub mod watched;
mod watchers;
mod whole;
mod workers;
mod world;

pub use recovery::{RepairReport, repair};
pub use run::daemon;
