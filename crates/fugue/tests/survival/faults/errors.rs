//! Which errors are plausible for which call: a table by system call and by what the call is about.
//!
//! EAGAIN is left out where it would mean "not ready": the kernel does not say so of a descriptor that is ready, and
//! edge-triggered readers rightly wait for the next edge. So is EINTR of calls that never wait (eventfds, `WNOHANG`). A hang-up (EIO of a terminal, ECONNRESET) is the death of the
//! other side, which the kill tests stage for real.

use std::path::Path;

use fugue_testkit::supervisor::{Errno, SupervisedCall};

/// What a call is about, as far as it decides which errors are plausible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// A file or directory of the private environment.
    File,
    /// The same, opened so that it would be created.
    NewFile,
    /// Something in /proc.
    Proc,
    Socket,
    Terminal,
    /// A pipe, an eventfd, an epoll instance, a pidfd.
    Kernel,
    /// The call is about no descriptor or path.
    Nothing,
}

impl Target {
    pub fn name(self) -> &'static str {
        match self {
            Target::File => "file",
            Target::NewFile => "new-file",
            Target::Proc => "proc",
            Target::Socket => "socket",
            Target::Terminal => "terminal",
            Target::Kernel => "kernel",
            Target::Nothing => "-",
        }
    }
}

/// Where a call's path or descriptor is among its arguments.
enum Subject {
    Descriptor(usize),
    Path(usize),
    Nothing,
}

fn subject(name: &str) -> Subject {
    match name {
        "openat" | "newfstatat" | "statx" | "mkdirat" | "unlinkat" | "renameat" | "renameat2"
        | "linkat" => Subject::Path(1),
        "chdir" | "mkdir" | "rename" | "rmdir" | "unlink" => Subject::Path(0),
        "read" | "pread64" | "write" | "pwrite64" | "writev" | "fsync" | "fdatasync" | "fstat"
        | "ftruncate" | "fallocate" | "getdents64" | "flock" | "fcntl" | "ioctl" | "connect"
        | "bind" | "listen" | "accept4" | "sendmsg" | "sendto" | "recvmsg" | "recvfrom" | "dup"
        | "dup3" => Subject::Descriptor(0),
        // Out of the pipe, the file is what can refuse it.
        "splice" => Subject::Descriptor(2),
        _ => Subject::Nothing,
    }
}

fn target_of_path(path: &Path, test_env: &Path) -> Option<Target> {
    let text = path.to_string_lossy();
    if path.starts_with(test_env) {
        Some(Target::File)
    } else if text.starts_with("socket:") {
        Some(Target::Socket)
    } else if text.starts_with("pipe:") || text.starts_with("anon_inode:") {
        Some(Target::Kernel)
    } else if text.starts_with("/dev/pt") || text == "/dev/tty" {
        Some(Target::Terminal)
    } else if text.starts_with("/proc") {
        Some(Target::Proc)
    } else if text.starts_with('/') {
        // The system's own files: what the dynamic loader and libc read before fugue does anything.
        None
    } else {
        // Relative to an open directory, which is one of the environment's.
        Some(Target::File)
    }
}

/// What a call is about; none for calls that are no part of the sweep.
pub fn target(call: &SupervisedCall, test_env: &Path) -> Option<Target> {
    let name = call.syscall.name;
    let found = match subject(name) {
        Subject::Path(arg) => target_of_path(&call.read_path(arg)?, test_env)?,
        Subject::Descriptor(arg) => target_of_path(&call.fd_path(arg)?, test_env)?,
        Subject::Nothing => Target::Nothing,
    };
    if name == "fcntl" && !can_fail(call) || name == "waitid" && !waits(call) {
        return None;
    }
    const O_CREAT: u64 = 0o100;
    if name == "openat" && found == Target::File && call.args[2] & O_CREAT != 0 {
        return Some(Target::NewFile);
    }
    Some(found)
}

/// Whether an `fcntl` can fail for want of something: a duplicate can, and taking a lock. A lock that is given up
/// is not refused.
fn can_fail(call: &SupervisedCall) -> bool {
    const F_SETLK: u64 = 6;
    const F_DUPFD_CLOEXEC: u64 = 1030;
    const F_UNLCK: i16 = 2;
    match call.args[1] {
        F_DUPFD_CLOEXEC => true,
        F_SETLK => call.read_i16(2) != Some(F_UNLCK),
        _ => false,
    }
}

/// Whether a `waitid` waits for the end of a process.
fn waits(call: &SupervisedCall) -> bool {
    const WNOHANG: u64 = 1;
    call.args[3] & WNOHANG == 0
}

/// The errors to try. `pidfd_send_signal` has none: it fails only for want of rights and when the process is gone.
pub fn plausible(name: &str, target: Target) -> &'static [Errno] {
    use Errno as E;
    use Target as T;
    match (name, target) {
        ("openat", T::NewFile) => &[E::MFILE, E::NOMEM, E::IO, E::NOSPC],
        ("openat", T::Terminal) => &[E::MFILE, E::NOSPC, E::NOMEM],
        ("openat", T::Proc) => &[E::MFILE, E::NFILE, E::NOMEM],
        ("openat", _) => &[E::MFILE, E::NFILE, E::NOMEM, E::IO],
        ("socket" | "socketpair", _) => &[E::MFILE, E::NOBUFS],
        ("connect", _) => &[E::NOMEM, E::AGAIN, E::INTR],
        ("bind", _) => &[E::NOMEM, E::NOSPC],
        ("listen", _) => &[E::NOMEM],
        ("accept4", _) => &[E::MFILE, E::NFILE, E::NOMEM, E::INTR],
        ("sendmsg" | "sendto", _) => &[E::NOBUFS, E::NOMEM, E::INTR],
        ("recvmsg" | "recvfrom", _) => &[E::NOMEM, E::INTR],
        ("read" | "pread64", T::File) => &[E::IO, E::NOMEM, E::INTR],
        ("read" | "pread64", T::Proc) => &[E::NOMEM, E::INTR],
        ("read", T::Socket | T::Terminal) => &[E::INTR],
        ("write" | "pwrite64" | "writev", T::File) => &[E::NOSPC, E::IO, E::INTR],
        ("write" | "writev", T::Socket) => &[E::NOBUFS, E::INTR],
        ("write" | "writev", T::Terminal) => &[E::INTR],
        ("splice", T::File) => &[E::NOSPC, E::IO, E::NOMEM, E::INTR],
        ("splice", _) => &[E::NOMEM, E::INTR],
        ("fsync" | "fdatasync", _) => &[E::IO, E::NOSPC],
        ("rename" | "renameat" | "renameat2" | "linkat", _) => &[E::NOSPC, E::IO, E::NOMEM],
        ("unlink" | "unlinkat" | "rmdir", _) => &[E::IO, E::NOMEM],
        ("mkdir" | "mkdirat", _) => &[E::NOSPC, E::IO],
        ("chdir", _) => &[E::IO, E::NOMEM],
        ("waitid", _) => &[E::INTR],
        ("getdents64", _) => &[E::IO, E::NOMEM],
        ("fallocate" | "ftruncate", _) => &[E::NOSPC, E::IO, E::INTR],
        ("epoll_ctl", _) => &[E::NOMEM, E::NOSPC],
        ("epoll_create1" | "eventfd2" | "timerfd_create" | "signalfd4", _) => &[E::MFILE, E::NOMEM],
        ("pipe2" | "pidfd_open" | "dup" | "dup3", _) => &[E::MFILE, E::NFILE],
        ("clone" | "clone3", _) => &[E::AGAIN, E::NOMEM],
        ("execve", _) => &[E::NOMEM, E::MFILE],
        ("flock", _) => &[E::NOLCK, E::INTR],
        ("fcntl", T::File) => &[E::NOLCK],
        ("fcntl", _) => &[E::MFILE],
        ("ioctl", T::Terminal) => &[E::INTR, E::NOMEM],
        ("fstat" | "newfstatat" | "statx", T::File) => &[E::IO, E::NOMEM],
        ("epoll_wait" | "epoll_pwait" | "poll" | "ppoll", _) => &[E::INTR],
        _ => &[],
    }
}
