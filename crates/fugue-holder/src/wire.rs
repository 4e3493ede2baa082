//! The protocol between a daemon and a holder. Versioned and frozen: a new daemon works with old holders, so a message
//! may get new fields at its end and the protocol may get new kinds, and nothing else ever changes.
//!
//! A frame is a u32 length, a u8 kind and fixed little-endian fields. A message of an unknown kind is answered with
//! [`ToDaemon::Unknown`], bytes after the known fields are ignored, and an invalid frame closes its connection and has
//! no other effect. Output is never sent here: it is in the log, and an eventfd signals that the log has grown.

mod decode;
mod encode;
mod frame;
#[cfg(test)]
mod tests;

pub use crate::sys::ProcessExit;
pub use decode::WireFrameError;
pub(crate) use encode::FieldWriter;
pub use frame::{HolderFrame, MAX_FRAME, WireFrameDecoder, WireMessage};

/// The version of the protocol. Each side sends its own.
pub const VERSION: u16 = 1;

/// Maximum number of fds that may be sent with one `Start`.
pub const MAX_KEPT_FDS: usize = 8;

/// Messages from the daemon. `Hello` is the first message of a connection. The kinds 9 and 10 are retired and must not
/// be reused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToHolder {
    Hello {
        version: u16,
        epoch: u64,
    },
    /// Sent with as many SCM_RIGHTS fds as `spec.kept` has entries.
    Start(ChildSpec),
    Input(InputMessage),
    Resize {
        id: u64,
        rows: u16,
        cols: u16,
    },
    Signal {
        id: u64,
        target: SignalTarget,
        signo: i32,
    },
    /// Terminates every process of the pane: HUP and TERM now, KILL after the grace period.
    Close {
        id: u64,
        grace_ms: u32,
    },
    Probe {
        id: u64,
    },
    /// Ends the holder; refused while the child is alive.
    Leave,
}

/// Messages from the holder. The kinds 17 and 19 are retired and must not be reused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToDaemon {
    /// Sent with SCM_RIGHTS fds: the PTY master, the read end and the write end of the pipe, the eventfd, the child's
    /// pidfd if `child_pidfd`, then the kept fds. [`crate::GuardedFds::from_hello`] assigns them.
    HelloOk(HelloOk),
    /// The connection is closed afterwards.
    Refused {
        reason: RefusalReason,
        errno: i32,
        what: String,
    },
    /// Sent with the child's pidfd.
    Started(ProcessIdentity),
    StartFailed {
        what: String,
        errno: i32,
    },
    InputState(InputState),
    Exited(ChildExit),
    Probed {
        id: u64,
        probe: ForegroundProbe,
    },
    /// The processes of the pane have ended, except for `left` processes that could not be terminated (of another user,
    /// or stuck in the kernel).
    Closed {
        id: u64,
        left: u32,
    },
    /// The log cannot be written. The child blocks, and no output is lost.
    Stalled {
        errno: i32,
    },
    LogWritable,
    Done {
        id: u64,
    },
    Failed {
        id: u64,
        errno: i32,
        what: String,
    },
    Unknown {
        kind: u8,
    },
    /// Sent before `Exited`: the child left no process behind, so a close has nothing to terminate.
    NoProcessesLeft,
    /// Keys that a person typed in the tmux pane that shows this pane, or that tmux's terminal replied to the program.
    /// Already written to the PTY.
    ViewKeys {
        bytes: Vec<u8>,
    },
    /// The tmux pane that shows this pane has changed its size. The new size is already recorded.
    Resized {
        rows: u16,
        cols: u16,
    },
    /// The child has ended, and its exit is not recorded yet because the log cannot be written. `output_end` is where
    /// the log will end when all pending output is written, as far as known. `Exited` follows.
    ExitPending(ChildExit),
}

/// A child to start. The environment may contain secrets, so the spec is never written to disk, and is not visible in
/// the `ps` output of the holder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildSpec {
    /// `argv[0]` is a path, or a name that is looked up in the `PATH` of `env`.
    pub argv: Vec<Vec<u8>>,
    pub env: Vec<(Vec<u8>, Vec<u8>)>,
    pub cwd: Vec<u8>,
    pub rows: u16,
    pub cols: u16,
    pub umask: u32,
    /// Soft limit of open files; `None` keeps the limit of the holder.
    pub nofile: Option<u64>,
    /// Maximum number of bytes of output that are kept. `segment` is the size of one file.
    pub log_cap: u64,
    pub segment: u64,
    /// `KEY=value` entries. A process whose environment contains all of them belongs to this pane, wherever it was
    /// moved. They must be unique to this pane on the whole machine. Written to `meta`, so no secrets. May be empty.
    pub marks: Vec<Vec<u8>>,
    /// One entry for each fd that is sent with `Start`: the number under which the child gets it. The holder keeps all
    /// of them and sends dups with each `HelloOk`.
    pub kept: Vec<FdUse>,
}

impl ChildSpec {
    /// 64 MiB, in 16 segments.
    pub const LOG_CAP: u64 = 64 << 20;
    /// No segment is smaller than this, except for the newest, so that a small cap does not lead to a thousand files.
    pub const MIN_SEGMENT: u64 = 64 << 10;

    /// The segment size of a log with this cap.
    pub fn segment_for(cap: u64) -> u64 {
        (cap / 16).max(ChildSpec::MIN_SEGMENT)
    }
}

/// Use of an fd that was sent with `Start`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FdUse {
    /// Passed to the child under this number (3 or more), and kept by the holder.
    AlsoChild(u16),
    /// Kept by the holder only, for the next daemon.
    HolderOnly,
}

/// Identifies a process permanently: pids are reused, but a pid together with its start time (clock ticks since boot)
/// is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessIdentity {
    pub pid: i32,
    pub start_time: u64,
}

/// Bytes to write to the PTY.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputMessage {
    /// Strictly increasing within the pane's generation.
    pub seq: u64,
    /// The caller's own id for this input: an input with a known key is not written again.
    pub key: [u8; 16],
    pub kind: InputKind,
    pub bytes: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputKind {
    Typed,
    /// A terminal's reply to a query that ended at this offset of the output. A reply at or before the last answered
    /// offset is a duplicate, so a daemon may replay the log and reply again.
    Answer {
        at: u64,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InputState {
    pub seq: u64,
    pub key: [u8; 16],
    pub written: u32,
    pub total: u32,
    pub outcome: InputOutcome,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputOutcome {
    /// All bytes were written.
    Written,
    /// The program does not read. The rest is written later, and `Written` follows.
    Pending,
    /// The key is known; `written` of `total` is the progress of the first input with that key. Nothing was written
    /// now.
    Duplicate,
    /// Not (completely) written, and never will be: the queue is full, the sequence number is old, or the child has
    /// ended.
    Lost,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignalTarget {
    Foreground,
    Session,
    Child,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HelloOk {
    pub version: u16,
    pub holder: i32,
    pub generation: u32,
    /// Whether a `kill -9` of the holder can lose no output byte (splice works here).
    pub lossless: bool,
    pub state: ChildState,
    pub log_end: u64,
    pub last_input_seq: u64,
    pub answered_upto: u64,
    pub rows: u16,
    pub cols: u16,
    /// The errno because of which the log is stalled.
    pub stalled: Option<i32>,
    /// A close is in progress.
    pub closing: bool,
    pub child_pidfd: bool,
    pub kept: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChildState {
    /// No child was started yet.
    Empty,
    Running(ProcessIdentity),
    Exited {
        child: ProcessIdentity,
        exited: ChildExit,
    },
}

/// The exit of the child, sent after `exit.<generation>` is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChildExit {
    pub ending: ProcessExit,
    /// The offset at which the child's output ends. A log that ends earlier has lost the rest: the rest could not be
    /// written, and the pane was closed.
    pub output_end: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalReason {
    /// The peer belongs to another user.
    NotYours,
    /// A daemon with a higher epoch has connected.
    Fenced,
    /// The first message was not a Hello, or had an invalid version.
    NoHello,
    /// The holder could not open its PTY or log, and exits. `what` and `errno` give the reason.
    Broken,
    /// A newer connection of the same daemon has taken over.
    Replaced,
}

/// State of the terminal's foreground process group.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ForegroundProbe {
    /// The foreground process group; 0 for none.
    pub foreground: i32,
    pub canonical: bool,
    pub echo: bool,
    /// A foreground process that waits for a line from this terminal.
    pub reader: Option<TtyReader>,
    /// A foreground process could not be inspected (setuid, or not a descendant under Yama).
    pub unreadable: bool,
    /// The pane's own child is in the foreground: a shell at its prompt, or a command run as the pane.
    pub leader_in_fg: bool,
    pub child_comm: String,
    pub foreground_comm: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TtyReader {
    pub pid: i32,
    /// Echo is off: the process reads a password or another secret.
    pub secret: bool,
}
