//! What a daemon and a holder say to each other. Versioned and frozen: a new daemon works with old holders, so a
//! message may get new fields at its end and the protocol may get new kinds, and nothing else ever changes.
//!
//! A frame is a u32 length, a u8 kind and fixed little-endian fields. Unknown kinds are answered with
//! [`ToDaemon::Unknown`], bytes after the known fields are ignored, and a frame that makes no sense closes its
//! connection and nothing else. Output never travels here: it is in the log, and an eventfd says that it grew.

mod decode;
mod encode;
mod frame;
#[cfg(test)]
mod tests;

pub use crate::sys::ProcessExit;
pub use decode::Bad;
pub(crate) use encode::Writer;
pub use frame::{Frames, HolderFrame, MAX_FRAME, WireMessage};

/// The protocol's version, of which each side sends its own.
pub const VERSION: u16 = 1;

/// How many fds may come with one `Start`.
pub const MAX_KEPT: usize = 8;

/// From the daemon. `Hello` is the first message of a connection. The kinds 9 and 10 are retired and not used again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToHolder {
    Hello {
        version: u16,
        epoch: u64,
    },
    /// With as many SCM_RIGHTS fds as `spec.kept` has entries.
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
    /// Ends every process of the pane: HUP and TERM now, KILL after the grace.
    Close {
        id: u64,
        grace_ms: u32,
    },
    Probe {
        id: u64,
    },
    /// Ends the holder; only without a live child.
    Leave,
}

/// From the holder. The kinds 17 and 19 are retired and not used again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToDaemon {
    /// With SCM_RIGHTS fds: master, pipe's read end, pipe's write end, eventfd, the child's pidfd if
    /// `child_pidfd`, then the kept ones. [`crate::Guarded`] sorts them.
    HelloOk(HelloOk),
    /// The connection is closed after it.
    Refused {
        reason: RefusalReason,
        errno: i32,
        what: String,
    },
    /// With the child's pidfd.
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
    /// Nothing of the pane runs any more, but for `left` processes that could not be ended (another user's, or
    /// stuck in the kernel).
    Closed {
        id: u64,
        left: u32,
    },
    /// The log cannot be written; the child waits and nothing is lost.
    Stalled {
        errno: i32,
    },
    Flowing,
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
    /// Said before `ChildExit`: the child left no process behind, so there is nothing to close.
    Alone,
    /// A person typed this where the pane is shown (or that terminal answered the program). It is typed already.
    Keyed {
        bytes: Vec<u8>,
    },
    /// Where the pane is shown, it got another size; it is in the record of sizes.
    Resized {
        rows: u16,
        cols: u16,
    },
    /// The child has ended and its exit is not recorded yet, because the log cannot be written. `at` is where the log will
    /// end when all output that waits is in it, as far as that is known. `ChildExit` follows.
    ExitPending(ChildExit),
}

/// A child to start. It may hold secrets, so it is never written to disk nor shown by `ps` of the holder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildSpec {
    /// `argv[0]` is a path, or a name looked up in the `PATH` of `env`.
    pub argv: Vec<Vec<u8>>,
    pub env: Vec<(Vec<u8>, Vec<u8>)>,
    pub cwd: Vec<u8>,
    pub rows: u16,
    pub cols: u16,
    pub umask: u32,
    /// Soft limit of open files; `None` leaves the holder's own.
    pub nofile: Option<u64>,
    /// How many bytes of output are kept at most, and how many of them a file holds.
    pub log_cap: u64,
    pub segment: u64,
    /// `KEY=value` entries; a process whose environment has all of them belongs to this pane, wherever it went.
    /// They must be this pane's alone on the whole machine. Written to `meta`, so no secrets. May be empty.
    pub marks: Vec<Vec<u8>>,
    /// For each fd that comes with `Start`: the number the child gets it under. The holder keeps all of them and
    /// hands them over at each Hello.
    pub kept: Vec<FdUse>,
}

impl ChildSpec {
    /// 64 MiB kept, in 16 files.
    pub const LOG_CAP: u64 = 64 << 20;
    /// No file of the log is smaller than this (but the newest), so that a small cap does not become a thousand files.
    pub const MIN_SEGMENT: u64 = 64 << 10;

    /// The size of one file of a log with this cap.
    pub fn segment_for(cap: u64) -> u64 {
        (cap / 16).max(ChildSpec::MIN_SEGMENT)
    }
}

/// What happens with a fd that came with `Start`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FdUse {
    /// The child gets it under this number (3 or more), and the holder keeps it.
    AlsoChild(u16),
    /// Only the holder keeps it, for the next daemon.
    HolderOnly,
}

/// A process, for ever: pids are reused, a pid with its start time (clock ticks since boot) is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessIdentity {
    pub pid: i32,
    pub start_time: u64,
}

/// Something to type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputMessage {
    /// Strictly increasing over the pane's generation.
    pub seq: u64,
    /// The caller's own id for this input: asked again, it is not typed again.
    pub key: [u8; 16],
    pub kind: InputKind,
    pub bytes: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputKind {
    Typed,
    /// A terminal's reply to a query that ended at this offset of the output. One at or before the last answered
    /// offset was answered already, so a daemon may replay the log and answer again.
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
    /// The terminal took all of it.
    Written,
    /// The program does not read; the rest follows by itself, and then `Written`.
    Pending,
    /// This key was seen before; `written` of `total` says how far that one got. Nothing was typed.
    Duplicate,
    /// Not (wholly) typed and never will be: the queue is full, the sequence number is old, or the child ended.
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
    /// Whether a kill -9 of the holder can lose no output byte (splice works here).
    pub lossless: bool,
    pub state: ChildState,
    pub log_end: u64,
    pub last_input_seq: u64,
    pub answered_upto: u64,
    pub rows: u16,
    pub cols: u16,
    /// The errno that stalls the log now.
    pub stalled: Option<i32>,
    /// A close is under way.
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

/// The child's end. It is in `exit.<generation>` before it is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChildExit {
    pub ending: ProcessExit,
    /// Where the child's output ends. A log that ends before it has lost the rest: it could not be written, and the pane
    /// was closed.
    pub at: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalReason {
    /// Another user's process.
    NotYours,
    /// A daemon with a higher epoch was here.
    Fenced,
    /// The first message was no Hello, or of a version that never was.
    NoHello,
    /// The holder could not make its terminal or log; it ends. `what` and `errno` say why.
    Broken,
    /// A newer connection of the same daemon took over.
    Replaced,
}

/// What the terminal's foreground does now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ForegroundProbe {
    /// The foreground process group; 0 if there is none.
    pub foreground: i32,
    pub canonical: bool,
    pub echo: bool,
    /// A foreground process that waits for a line from this terminal.
    pub reader: Option<TtyReader>,
    /// A foreground process could not be looked into (setuid, or no longer our descendant under Yama).
    pub unreadable: bool,
    /// The pane's own child is in the foreground: a shell at its prompt, or a command run as the pane.
    pub leader_in_fg: bool,
    pub child_comm: String,
    pub foreground_comm: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TtyReader {
    pub pid: i32,
    /// Echo is off: it wants a password or the like.
    pub secret: bool,
}
