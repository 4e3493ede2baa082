//! The few system calls that `rustix` does not wrap safely; the only module of this crate with `unsafe` in it.
//! It decides nothing: every function is one call with its arguments made safe.
#![expect(
    unsafe_code,
    reason = "posix_spawn, signalfd, waitid with a pid, the pidfd ioctl and inherited fds have no safe wrapper"
)]

use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

/// One thing the kernel does in the new process before it runs the program.
pub(crate) enum Action {
    /// Work in this directory (an open one, so that a bad path was already refused by name).
    Chdir(RawFd),
    /// Open a path as this fd.
    Open {
        fd: RawFd,
        path: CString,
        flags: i32,
    },
    /// Let `from` also be `to`, kept across exec.
    Dup { from: RawFd, to: RawFd },
}

/// Whether the new process leads a session of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SessionLeadership {
    Own,
    Inherited,
}

/// Starts a program with default signal dispositions and an empty signal mask. An error is the kernel's own, also
/// for the exec: glibc and musl report it from the child through shared memory.
pub(crate) fn posix_spawn(
    program: &CStr,
    argv: &[CString],
    env: &[CString],
    session: SessionLeadership,
    actions: &[Action],
) -> io::Result<i32> {
    let mut attr = Attr::new()?;
    attr.set(session)?;
    let mut files = FileActions::new()?;
    for action in actions {
        files.add(action)?;
    }
    let argv = pointers(argv);
    let env = pointers(env);
    let mut pid = 0;
    // SAFETY: every pointer is to a live, NUL-ended value, and both arrays end with a null pointer.
    check(unsafe {
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

/// Blocks every signal and returns a fd that is readable when a child changed, or the size
/// of the terminal that we were started in, if we were. A holder is ended by a message or by
/// SIGKILL, by nothing else.
pub(crate) fn watch_children() -> io::Result<OwnedFd> {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut child = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the sets are initialised by sigfillset/sigemptyset before use; the fd is new and ours.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::sigemptyset(child.as_mut_ptr());
        libc::sigaddset(child.as_mut_ptr(), libc::SIGCHLD);
        libc::sigaddset(child.as_mut_ptr(), libc::SIGWINCH);
        check(libc::pthread_sigmask(
            libc::SIG_BLOCK,
            all.as_ptr(),
            ptr::null_mut(),
        ))?;
        owned(libc::signalfd(
            -1,
            child.as_ptr(),
            libc::SFD_CLOEXEC | libc::SFD_NONBLOCK,
        ))
    }
}

/// How a process ended, as `waitid` and the kernel's exit code both tell it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProcessExit {
    Code(i32),
    Signal {
        signo: i32,
        core: bool,
    },
    /// It ended, and the kernel would not say how. Never a guess.
    Unknown,
}

impl ProcessExit {
    /// From the form that `wait`, `/proc/PID/stat` and PIDFD_GET_INFO share.
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

/// Who to ask `waitid` about.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whom {
    Any,
    Pid(i32),
}

/// Whether the zombie stays for a later call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reap {
    Leave,
    Take,
}

/// An ended child, if there is one now.
pub(crate) fn ended_child(whom: Whom, reap: Reap) -> io::Result<Option<(i32, ProcessExit)>> {
    wait_child(whom, reap, libc::WNOHANG)
}

/// Whether we have any child, ended ones that nobody reaped included.
pub(crate) fn has_children() -> bool {
    // SAFETY: a zeroed siginfo is valid, and waitid fills it.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        libc::waitid(libc::P_ALL, 0, &mut info, flags) == 0
            || io::Error::last_os_error().raw_os_error() != Some(libc::ECHILD)
    }
}

/// Waits until that child ended, and reaps it.
pub(crate) fn await_child(pid: i32) -> io::Result<ProcessExit> {
    loop {
        match wait_child(Whom::Pid(pid), Reap::Take, 0) {
            Ok(Some((_, ending))) => return Ok(ending),
            Ok(None) => {}
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

fn wait_child(whom: Whom, reap: Reap, flags: i32) -> io::Result<Option<(i32, ProcessExit)>> {
    let (kind, id) = match whom {
        Whom::Any => (libc::P_ALL, 0),
        Whom::Pid(pid) => (libc::P_PID, pid as libc::id_t),
    };
    let keep = match reap {
        Reap::Leave => libc::WNOWAIT,
        Reap::Take => 0,
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

/// What a pidfd can say of a process that someone else may have reaped.
pub(crate) enum PidfdAnswer {
    Ended(ProcessExit),
    /// Not reaped yet: the answer comes with POLLHUP.
    NotYet,
    /// The kernel is older than the question (Linux 6.15).
    CannotSay,
}

/// PIDFD_GET_INFO with PIDFD_INFO_EXIT.
pub(crate) fn pidfd_exit(pidfd: BorrowedFd<'_>) -> PidfdAnswer {
    // `struct pidfd_info`, its first published size; the kernel accepts it for ever.
    #[repr(C)]
    #[derive(Default)]
    struct Info {
        mask: u64,
        cgroup: u64,
        ids: [u32; 11],
        exit_code: i32,
    }
    const EXIT: u64 = 1 << 3;
    // _IOWR(0xff, 11, 64 bytes), as x86 and ARM write it.
    const REQUEST: u32 = 0xc040_ff0b;
    let mut info = Info {
        mask: EXIT,
        ..Info::default()
    };
    // SAFETY: the request's size is that of `info`, which is live and writable.
    let done = unsafe { libc::ioctl(pidfd.as_raw_fd(), REQUEST as libc::Ioctl, &mut info) };
    if done == 0 {
        return if info.mask & EXIT != 0 {
            PidfdAnswer::Ended(ProcessExit::from_wait_status(info.exit_code))
        } else {
            PidfdAnswer::NotYet
        };
    }
    // ESRCH: reaped, and no exit was kept for us.
    PidfdAnswer::CannotSay
}

/// Takes over a fd that this process was started with. `None` if there is no such fd.
pub(crate) fn inherited(fd: RawFd) -> Option<OwnedFd> {
    // SAFETY: F_SETFD on any number is harmless; if it succeeds the fd is open, and the caller asks once for each.
    unsafe {
        if libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) != 0 {
            return None;
        }
        Some(OwnedFd::from_raw_fd(fd))
    }
}

/// Closes every fd from `first` on: whatever a careless ancestor leaked.
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

/// The name `ps` shows; it would be `exe` after a start by `/proc/self/exe`.
pub(crate) fn name_process(name: &CStr) {
    // SAFETY: PR_SET_NAME copies at most 16 bytes of a NUL-ended string.
    unsafe {
        libc::prctl(libc::PR_SET_NAME, name.as_ptr());
    }
}

/// Gives freed memory back to the system; an allocator keeps it otherwise, and a holder lives long.
pub(crate) fn release_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim has no preconditions.
    unsafe {
        libc::malloc_trim(0);
    }
}

struct Attr(libc::posix_spawnattr_t);

impl Attr {
    fn new() -> io::Result<Attr> {
        let mut attr = MaybeUninit::uninit();
        // SAFETY: init makes the value valid when it returns 0.
        unsafe {
            check(libc::posix_spawnattr_init(attr.as_mut_ptr()))?;
            Ok(Attr(attr.assume_init()))
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
            // Every bit, where sigfillset leaves out glibc's own two, which its posix_spawn would then set to ignored.
            all.as_mut_ptr().write_bytes(0xff, 1);
            libc::sigemptyset(none.as_mut_ptr());
            check(libc::posix_spawnattr_setsigdefault(
                &mut self.0,
                all.as_ptr(),
            ))?;
            check(libc::posix_spawnattr_setsigmask(&mut self.0, none.as_ptr()))?;
            check(libc::posix_spawnattr_setflags(
                &mut self.0,
                flags as libc::c_short,
            ))
        }
    }
}

impl Drop for Attr {
    fn drop(&mut self) {
        // SAFETY: initialised in `new`, destroyed once.
        unsafe {
            libc::posix_spawnattr_destroy(&mut self.0);
        }
    }
}

struct FileActions(libc::posix_spawn_file_actions_t);

impl FileActions {
    fn new() -> io::Result<FileActions> {
        let mut actions = MaybeUninit::uninit();
        // SAFETY: init makes the value valid when it returns 0.
        unsafe {
            check(libc::posix_spawn_file_actions_init(actions.as_mut_ptr()))?;
            Ok(FileActions(actions.assume_init()))
        }
    }

    fn add(&mut self, action: &Action) -> io::Result<()> {
        // SAFETY: `self.0` is valid, and addopen copies the path.
        check(unsafe {
            match action {
                Action::Chdir(fd) => libc::posix_spawn_file_actions_addfchdir_np(&mut self.0, *fd),
                Action::Open { fd, path, flags } => libc::posix_spawn_file_actions_addopen(
                    &mut self.0,
                    *fd,
                    path.as_ptr(),
                    *flags,
                    0,
                ),
                Action::Dup { from, to } => {
                    libc::posix_spawn_file_actions_adddup2(&mut self.0, *from, *to)
                }
            }
        })
    }
}

impl Drop for FileActions {
    fn drop(&mut self) {
        // SAFETY: initialised in `new`, destroyed once.
        unsafe {
            libc::posix_spawn_file_actions_destroy(&mut self.0);
        }
    }
}

/// A null-ended array of pointers into `strings`, which must outlive its use.
fn pointers(strings: &[CString]) -> Vec<*mut libc::c_char> {
    strings
        .iter()
        .map(|s| s.as_ptr().cast_mut())
        .chain([ptr::null_mut()])
        .collect()
}

/// Of calls that return an error number instead of setting errno.
fn check(error: libc::c_int) -> io::Result<()> {
    match error {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// # Safety
/// `fd` is -1 or a new fd that nobody else owns.
unsafe fn owned(fd: RawFd) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: promised by the caller.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
