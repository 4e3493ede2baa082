//! The I/O of fugue: sockets, holders, tmux, the store, agents, timers. It performs the effects of `fugue-core`.
//!
//! Control and data are separate. The control plane ([`engine`]) is one loop without output bytes. The bytes of a pane stay in
//! the pane's task on one of a few threads ([`shards`]), which sends only events to the engine.

pub mod agents;
mod archive;
pub mod assess;
mod clock;
pub mod config;
mod disk;
mod engine;
mod follow;
mod frame;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod gc;
pub mod inspection;
mod listener;
mod listening;
mod origin;
mod pane;
mod pending_calls;
mod reading;
mod reap;
mod recovery;
mod replay;
mod resolve;
mod run;
mod run_reply;
mod shards;
pub mod shell;
mod shell_environment;
mod store;
pub mod tmux;
mod watchers;
mod whole;
mod workers;

pub use recovery::{RepairReport, repair};
pub use run::{check_start, daemon};
