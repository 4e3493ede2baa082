//! Owns one PTY and its child and lets nothing be lost while the daemon is away.
//!
//! A *holder* is one small process per pane. It makes the terminal, is the child's parent, moves the output to a log
//! on disk and answers a small frozen protocol ([`wire`]) on a unix socket. The daemon and the holder guard each
//! other: at Hello the daemon gets dups of the terminal's master and of the pipe, so that a holder that dies is
//! replaced ([`HolderLocation::replace`]) without the child noticing, and a daemon that dies is replaced by one that asks.
//!
//! What is absent: threads, an async runtime, output on the socket, and any way for output to make something happen.

mod args;
mod close;
mod durable;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod holder;
mod input;
mod link;
mod liveness;
mod log;
mod probe;
mod proc;
mod pty;
pub mod record;
pub mod spawn;
mod start;
mod sys;
pub mod wire;

pub use close::{KILL_WAIT, ProcessScope, close_leftovers};
pub use holder::run;
pub use link::{DaemonLink, Flushed, MessageLink, ReadStatus, Received};
pub use liveness::{
    Liveness, await_exit, end_holder, find_holder, find_process, held_directory, is_stopped, lives,
    parent_of,
};
pub use log::{LogRead, LogReader, LogWriter};
pub use probe::probe_at;
pub use start::{GuardedFds, HandoverState, HolderLocation, identify, is_alive, listen};
