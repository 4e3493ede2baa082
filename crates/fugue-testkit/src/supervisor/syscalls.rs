//! The system calls that can be supervised, under the kernel's names.

/// The name and number of a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Syscall {
    pub name: &'static str,
    pub(super) number: i64,
}

macro_rules! known {
    ($($(#[$when:meta])? $name:literal $number:ident)*) => {
        const KNOWN: &[Syscall] = &[$($(#[$when])? Syscall { name: $name, number: libc::$number },)*];
    };
}

known! {
    "accept4" SYS_accept4
    "bind" SYS_bind
    "chdir" SYS_chdir
    "clone" SYS_clone
    "clone3" SYS_clone3
    "connect" SYS_connect
    "dup" SYS_dup
    "dup3" SYS_dup3
    "epoll_create1" SYS_epoll_create1
    "epoll_ctl" SYS_epoll_ctl
    #[cfg(target_arch = "x86_64")] "epoll_wait" SYS_epoll_wait
    "epoll_pwait" SYS_epoll_pwait
    "eventfd2" SYS_eventfd2
    "execve" SYS_execve
    "fallocate" SYS_fallocate
    "fcntl" SYS_fcntl
    "fdatasync" SYS_fdatasync
    "flock" SYS_flock
    "fstat" SYS_fstat
    "fsync" SYS_fsync
    "ftruncate" SYS_ftruncate
    "getdents64" SYS_getdents64
    "ioctl" SYS_ioctl
    "linkat" SYS_linkat
    "listen" SYS_listen
    #[cfg(target_arch = "x86_64")] "mkdir" SYS_mkdir
    "mkdirat" SYS_mkdirat
    "newfstatat" SYS_newfstatat
    "openat" SYS_openat
    "pidfd_open" SYS_pidfd_open
    "pidfd_send_signal" SYS_pidfd_send_signal
    "pipe2" SYS_pipe2
    #[cfg(target_arch = "x86_64")] "poll" SYS_poll
    "ppoll" SYS_ppoll
    "pread64" SYS_pread64
    "pwrite64" SYS_pwrite64
    "read" SYS_read
    "recvfrom" SYS_recvfrom
    "recvmsg" SYS_recvmsg
    #[cfg(target_arch = "x86_64")] "rename" SYS_rename
    "renameat" SYS_renameat
    "renameat2" SYS_renameat2
    #[cfg(target_arch = "x86_64")] "rmdir" SYS_rmdir
    "sendmsg" SYS_sendmsg
    "sendto" SYS_sendto
    "signalfd4" SYS_signalfd4
    "socket" SYS_socket
    "socketpair" SYS_socketpair
    "splice" SYS_splice
    "statx" SYS_statx
    "timerfd_create" SYS_timerfd_create
    #[cfg(target_arch = "x86_64")] "unlink" SYS_unlink
    "unlinkat" SYS_unlinkat
    "waitid" SYS_waitid
    "write" SYS_write
    "writev" SYS_writev
}

impl Syscall {
    pub fn all() -> &'static [Syscall] {
        KNOWN
    }

    pub fn from_name(name: &str) -> Option<Syscall> {
        KNOWN.iter().find(|known| known.name == name).copied()
    }

    pub(super) fn from_number(number: i64) -> Option<Syscall> {
        KNOWN.iter().find(|known| known.number == number).copied()
    }
}
