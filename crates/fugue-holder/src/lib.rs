//! A holder owns one PTY and its child, and loses no output while the daemon is away.
//!
//! A *holder* is one small process per pane. It opens the PTY, is the child's parent, moves the output to a log on disk
//! and serves a small frozen protocol ([`wire`]) on a unix socket. The daemon and the holder guard each other: with
//! `HelloOk` the daemon receives dups of the PTY master and of the pipe. A holder that dies is replaced
//! ([`HolderLocation::replace`]) without any effect on the child; a daemon that dies is replaced by a new one, which
//! connects to every holder.
//!
//! Deliberately absent: threads, an async runtime, output on the socket, and any reaction to the content of the output.

mod args;
mod close;
mod durable;
pub mod features;
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

pub use close::{KILL_TIMEOUT, ProcessScope, close_leftovers};
pub use holder::run;
pub use link::{DaemonLink, FlushStatus, MessageLink, ReadStatus, ReceivedMessage};
pub use liveness::{
    PaneLiveness, check_alive, end_holder, find_held_directory, find_holder, find_process,
    holders_without_directory, is_stopped, parent_pid, wait_for_exit,
};
pub use log::{LogRead, LogReader, TmuxLogWriter};
pub use probe::probe_path;
pub use start::{GuardedFds, HandoverState, HolderLocation, identify, is_alive, listen};
pub use sys::{SocketPeer, socket_peer};
