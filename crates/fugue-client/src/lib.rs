//! The client's end of the daemon's socket, without any dependency on the daemon.
//!
//! A front-end uses [`client::Client`], which connects to the daemon, starts a missing daemon, and repeats a request
//! with the same key when the daemon died before its reply. The daemon shares the parts that both ends need: [`paths`],
//! [`frame`], [`socket`], [`lock`], and the [`spool`] where hooks leave reports while no daemon runs.

pub mod async_fd;
pub mod client;
pub mod daemon_start;
pub mod display;
pub mod frame;
pub mod lock;
pub mod paths;
pub mod socket;
pub mod spool;
pub mod version;
