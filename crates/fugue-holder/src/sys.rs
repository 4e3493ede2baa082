//! System calls that `rustix` does not wrap safely; the only module of this crate with `unsafe`. Each function is one
//! call with checked arguments, and makes no decisions.
#![expect(
    unsafe_code,
    reason = "posix_spawn, signalfd, waitid with a pid, the pidfd ioctl, a peer without a pid and inherited fds have no safe wrapper"
)]

use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

/// An action in the new process before it executes the program.
pub(crate) enum SpawnAction {
    /// Change to this directory (passed as an open fd, so that a bad path has already been refused by name).
    Chdir(RawFd),
    /// Open a path as this fd.
    Open {
        fd: RawFd,
        path: CString,
        flags: i32,
    },
    /// Duplicate `from` to `to`, kept across exec.
    Dup { from: RawFd, to: RawFd },
}

/// Whether the new process leads a session of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SessionLeadership {
    Own,
    Inherited,
}

/// Starts a program with default signal dispositions and an empty signal mask. Errors are those of the kernel,
/// including errors of the exec, which glibc and musl report from the child through shared memory.
pub(crate) fn posix_spawn(
    program: &CStr,
    argv: &[CString],
    env: &[CString],
    session: SessionLeadership,
    actions: &[SpawnAction],
) -> io::Result<i32> {
    let mut attr = SpawnAttributes::new()?;
    attr.set(session)?;
    let mut files = SpawnFileActions::new()?;
    for action in actions {
        files.add(action)?;
    }
    let argv = pointers(argv);
    let env = pointers(env);
    let mut pid = 0;
    // SAFETY: every pointer is to a live, NUL-ended value, and both arrays end with a null pointer.
    check_errno(unsafe {
        libc::posix_spawn(
            &mut pid,
            program.as_ptr(),
            &files.0,
            &attr.0,
            argv.as_ptr(),
            env.as_ptr(),
        )
    })?;
    Ok(pid)
}

/// Blocks every signal and returns a signalfd that becomes readable when a child changes its state, or when the
/// terminal of this process, if any, changes its size. A holder is ended only by a message or by SIGKILL.
pub(crate) fn open_signalfd() -> io::Result<OwnedFd> {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut child = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the sets are initialised by sigfillset/sigemptyset before use; the fd is new and ours.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::sigemptyset(child.as_mut_ptr());
        libc::sigaddset(child.as_mut_ptr(), libc::SIGCHLD);
        libc::sigaddset(child.as_mut_ptr(), libc::SIGWINCH);
        check_errno(libc::pthread_sigmask(
            libc::SIG_BLOCK,
            all.as_ptr(),
            ptr::null_mut(),
        ))?;
        own_fd(libc::signalfd(
            -1,
            child.as_ptr(),
            libc::SFD_CLOEXEC | libc::SFD_NONBLOCK,
        ))
    }
}

/// How a process ended, as reported by `waitid` and by the kernel's exit code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProcessExit {
    Code(i32),
    Signal {
        signo: i32,
        core: bool,
    },
    /// The process has ended, and the kernel does not reveal how. Never a guess.
    Unknown,
}

impl ProcessExit {
    /// Converts the wait status that `wait`, `/proc/PID/stat` and PIDFD_GET_INFO share.
    pub(crate) fn from_wait_status(status: i32) -> ProcessExit {
        match status & 0x7f {
            0 => ProcessExit::Code((status >> 8) & 0xff),
            signo => ProcessExit::Signal {
                signo,
                core: status & 0x80 != 0,
            },
        }
    }
}

/// The process that `waitid` waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitTarget {
    Any,
    Pid(i32),
}

/// Whether the call reaps the zombie or leaves it for a later call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ZombieUse {
    Keep,
    Reap,
}

/// Returns an ended child, if any.
pub(crate) fn try_wait_child(
    target: WaitTarget,
    reap: ZombieUse,
) -> io::Result<Option<(i32, ProcessExit)>> {
    waitid(target, reap, libc::WNOHANG)
}

/// Whether this process has any child, including zombies.
pub(crate) fn has_children() -> bool {
    // SAFETY: a zeroed siginfo is valid, and waitid fills it.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        libc::waitid(libc::P_ALL, 0, &mut info, flags) == 0
            || io::Error::last_os_error().raw_os_error() != Some(libc::ECHILD)
    }
}

/// Waits until the child has ended, and reaps it.
pub(crate) fn wait_child(pid: i32) -> io::Result<ProcessExit> {
    loop {
        match waitid(WaitTarget::Pid(pid), ZombieUse::Reap, 0) {
            Ok(Some((_, ending))) => return Ok(ending),
            Ok(None) => {}
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

fn waitid(
    target: WaitTarget,
    reap: ZombieUse,
    flags: i32,
) -> io::Result<Option<(i32, ProcessExit)>> {
    let (kind, id) = match target {
        WaitTarget::Any => (libc::P_ALL, 0),
        WaitTarget::Pid(pid) => (libc::P_PID, pid as libc::id_t),
    };
    let keep = match reap {
        ZombieUse::Keep => libc::WNOWAIT,
        ZombieUse::Reap => 0,
    };
    // SAFETY: a zeroed siginfo is valid, and waitid fills it; the accessors read what waitid wrote.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        if libc::waitid(kind, id, &mut info, libc::WEXITED | flags | keep) != 0 {
            let error = io::Error::last_os_error();
            return match error.raw_os_error() {
                Some(libc::ECHILD) if flags == libc::WNOHANG => Ok(None),
                _ => Err(error),
            };
        }
        if info.si_pid() == 0 {
            return Ok(None);
        }
        let ending = match info.si_code {
            libc::CLD_EXITED => ProcessExit::Code(info.si_status()),
            libc::CLD_DUMPED => ProcessExit::Signal {
                signo: info.si_status(),
                core: true,
            },
            _ => ProcessExit::Signal {
                signo: info.si_status(),
                core: false,
            },
        };
        Ok(Some((info.si_pid(), ending)))
    }
}

/// The exit of a process according to its pidfd. The process may have been reaped by another process.
pub(crate) enum PidfdExitStatus {
    Exited(ProcessExit),
    /// Not reaped yet: the exit is available with POLLHUP.
    NotReaped,
    /// The kernel is older than this query (Linux 6.15), or has kept no exit for us.
    Unavailable,
}

/// Queries PIDFD_GET_INFO with PIDFD_INFO_EXIT.
pub(crate) fn pidfd_exit(pidfd: BorrowedFd<'_>) -> PidfdExitStatus {
    // `struct pidfd_info` in its first published size, which the kernel accepts forever.
    #[repr(C)]
    #[derive(Default)]
    struct Info {
        mask: u64,
        cgroup: u64,
        ids: [u32; 11],
        exit_code: i32,
    }
    const EXIT: u64 = 1 << 3;
    // _IOWR(0xff, 11, 64 bytes), as encoded on x86 and ARM.
    const REQUEST: u32 = 0xc040_ff0b;
    let mut info = Info {
        mask: EXIT,
        ..Info::default()
    };
    // SAFETY: the request's size is that of `info`, which is live and writable.
    let done = unsafe { libc::ioctl(pidfd.as_raw_fd(), REQUEST as libc::Ioctl, &mut info) };
    if done == 0 {
        return if info.mask & EXIT != 0 {
            PidfdExitStatus::Exited(ProcessExit::from_wait_status(info.exit_code))
        } else {
            PidfdExitStatus::NotReaped
        };
    }
    // ESRCH: reaped, and no exit was kept for us.
    PidfdExitStatus::Unavailable
}

/// The process at the other end of a local socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketPeer {
    /// `None` for a process in a pid namespace that this process does not see. `rustix` takes its 0 for an error.
    pub pid: Option<u32>,
    pub uid: u32,
}

pub fn socket_peer(socket: BorrowedFd<'_>) -> io::Result<SocketPeer> {
    let mut peer = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    let mut size = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: `peer` is live, and `size` is its size.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &mut size,
        )
    };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(SocketPeer {
        pid: u32::try_from(peer.pid).ok().filter(|pid| *pid != 0),
        uid: peer.uid,
    })
}

/// Takes ownership of an fd that this process was started with. `None` if there is no such fd.
pub(crate) fn take_inherited_fd(fd: RawFd) -> Option<OwnedFd> {
    // SAFETY: F_SETFD on any number is harmless; if it succeeds the fd is open, and the caller asks once for each.
    unsafe {
        if libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) != 0 {
            return None;
        }
        Some(OwnedFd::from_raw_fd(fd))
    }
}

/// Closes every fd from `first` on, which an ancestor may have leaked.
pub(crate) fn close_from(first: RawFd) {
    // SAFETY: called first thing in the holder, when nothing owns a fd above the inherited ones.
    unsafe {
        libc::syscall(
            libc::SYS_close_range,
            first as libc::c_uint,
            libc::c_uint::MAX,
            0,
        );
    }
}

/// Sets the name that `ps` shows; after a start through `/proc/self/exe` it would be `exe`.
pub(crate) fn set_process_name(name: &CStr) {
    // SAFETY: PR_SET_NAME copies at most 16 bytes of a NUL-ended string.
    unsafe {
        libc::prctl(libc::PR_SET_NAME, name.as_ptr());
    }
}

/// Returns freed memory to the system. The allocator would keep it otherwise, and a holder runs for a long time.
pub(crate) fn release_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim has no preconditions.
    unsafe {
        libc::malloc_trim(0);
    }
}

struct SpawnAttributes(libc::posix_spawnattr_t);

impl SpawnAttributes {
    fn new() -> io::Result<SpawnAttributes> {
        let mut attr = MaybeUninit::uninit();
        // SAFETY: init makes the value valid when it returns 0.
        unsafe {
            check_errno(libc::posix_spawnattr_init(attr.as_mut_ptr()))?;
            Ok(SpawnAttributes(attr.assume_init()))
        }
    }

    fn set(&mut self, session: SessionLeadership) -> io::Result<()> {
        let mut flags = libc::POSIX_SPAWN_SETSIGDEF | libc::POSIX_SPAWN_SETSIGMASK;
        if session == SessionLeadership::Own {
            flags |= i32::from(libc::POSIX_SPAWN_SETSID);
        }
        let mut all = MaybeUninit::<libc::sigset_t>::uninit();
        let mut none = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: the sets are initialised before use, and `self.0` is a valid attribute object.
        unsafe {
            // Sets every bit. sigfillset omits the two internal signals of glibc, and its posix_spawn would then set
            // them to ignored.
            all.as_mut_ptr().write_bytes(0xff, 1);
            libc::sigemptyset(none.as_mut_ptr());
            check_errno(libc::posix_spawnattr_setsigdefault(
                &mut self.0,
                all.as_ptr(),
            ))?;
            check_errno(libc::posix_spawnattr_setsigmask(&mut self.0, none.as_ptr()))?;
            check_errno(libc::posix_spawnattr_setflags(
                &mut self.0,
                flags as libc::c_short,
            ))
        }
    }
}

impl Drop for SpawnAttributes {
    fn drop(&mut self) {
        // SAFETY: initialised in `new`, destroyed once.
        unsafe {
            libc::posix_spawnattr_destroy(&mut self.0);
        }
    }
}

struct SpawnFileActions(libc::posix_spawn_file_actions_t);

impl SpawnFileActions {
    fn new() -> io::Result<SpawnFileActions> {
        let mut actions = MaybeUninit::uninit();
        // SAFETY: init makes the value valid when it returns 0.
        unsafe {
            check_errno(libc::posix_spawn_file_actions_init(actions.as_mut_ptr()))?;
            Ok(SpawnFileActions(actions.assume_init()))
        }
    }

    fn add(&mut self, action: &SpawnAction) -> io::Result<()> {
        // SAFETY: `self.0` is valid, and addopen copies the path.
        check_errno(unsafe {
            match action {
                SpawnAction::Chdir(fd) => {
                    libc::posix_spawn_file_actions_addfchdir_np(&mut self.0, *fd)
                }
                SpawnAction::Open { fd, path, flags } => libc::posix_spawn_file_actions_addopen(
                    &mut self.0,
                    *fd,
                    path.as_ptr(),
                    *flags,
                    0,
                ),
                SpawnAction::Dup { from, to } => {
                    libc::posix_spawn_file_actions_adddup2(&mut self.0, *from, *to)
                }
            }
        })
    }
}

impl Drop for SpawnFileActions {
    fn drop(&mut self) {
        // SAFETY: initialised in `new`, destroyed once.
        unsafe {
            libc::posix_spawn_file_actions_destroy(&mut self.0);
        }
    }
}

/// A null-terminated array of pointers into `strings`, which must outlive its use.
fn pointers(strings: &[CString]) -> Vec<*mut libc::c_char> {
    strings
        .iter()
        .map(|s| s.as_ptr().cast_mut())
        .chain([ptr::null_mut()])
        .collect()
}

/// Converts the result of calls that return an error number instead of setting errno.
fn check_errno(error: libc::c_int) -> io::Result<()> {
    match error {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// # Safety
///
/// `fd` must be -1 or a new fd without another owner.
unsafe fn own_fd(fd: RawFd) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: guaranteed by the caller.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
