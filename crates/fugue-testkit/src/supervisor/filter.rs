//! The kernel side of supervision: installation and notifications of the seccomp filter.
#![expect(
    unsafe_code,
    reason = "seccomp and the ioctls of its listener have no safe wrapper"
)]

use std::{
    io,
    mem::{offset_of, zeroed},
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
};

use libc::{
    BPF_ABS, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, SECCOMP_FILTER_FLAG_NEW_LISTENER,
    SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, SECCOMP_RET_ALLOW, SECCOMP_RET_USER_NOTIF,
    seccomp_data, sock_filter,
};

use super::{Syscall, SyscallVerdict};

// From linux/audit.h, which libc does not provide.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

/// A filter that sends a notification for the listed calls and allows all other calls.
pub(super) fn program(syscalls: &[Syscall]) -> Vec<sock_filter> {
    let op = |code: u32, k: u32, jt: u8, jf: u8| sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let load = |offset: usize| op(BPF_LD | BPF_W | BPF_ABS, offset as u32, 0, 0);
    let skip_unless = |k: u32| op(BPF_JMP | BPF_JEQ | BPF_K, k, 0, 1);
    let mut program = vec![
        load(offset_of!(seccomp_data, arch)),
        op(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0),
        op(BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0),
        load(offset_of!(seccomp_data, nr)),
    ];
    for syscall in syscalls {
        program.push(skip_unless(syscall.number as u32));
        program.push(op(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF, 0, 0));
    }
    program.push(op(BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0));
    program
}

/// Installs the filter on the calling thread and on all its later children. Returns the listener.
pub(super) fn install(program: &[sock_filter]) -> io::Result<OwnedFd> {
    let program = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_ptr().cast_mut(),
    };
    // WAIT_KILLABLE_RECV: otherwise a thread that is interrupted by a signal while waiting for the verdict would repeat
    // the call.
    let flags = SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    // SAFETY: the first call takes only numbers. The second reads the program, which lives until it returns and is not
    // modified, and returns a new fd without another owner.
    unsafe {
        if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 {
            return Err(io::Error::last_os_error());
        }
        let listener = libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            flags,
            &raw const program,
        );
        if listener < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(listener as i32))
    }
}

/// A notification of the kernel.
pub(super) struct SeccompNotification {
    pub(super) id: u64,
    pub(super) thread: u32,
    pub(super) number: i64,
    pub(super) args: [u64; 6],
}

/// Receives the next notification; `None` if the calling thread was killed before.
pub(super) fn receive(listener: &OwnedFd) -> Option<SeccompNotification> {
    // SAFETY: all-zero is a valid value of this plain struct, and the kernel requires it.
    let mut notification: libc::seccomp_notif = unsafe { zeroed() };
    // SAFETY: the listener is open and the kernel writes one struct of this type.
    let result = unsafe {
        libc::ioctl(
            listener.as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_RECV,
            &raw mut notification,
        )
    };
    (result == 0).then(|| SeccompNotification {
        id: notification.id,
        thread: notification.pid,
        number: i64::from(notification.data.nr),
        args: notification.data.args,
    })
}

pub(super) fn send_verdict(listener: &OwnedFd, id: u64, verdict: SyscallVerdict) {
    let (error, flags) = match verdict {
        SyscallVerdict::Continue => (0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32),
        SyscallVerdict::Fail(errno) => (-errno.raw_os_error(), 0),
    };
    let mut response = libc::seccomp_notif_resp {
        id,
        val: 0,
        error,
        flags,
    };
    // SAFETY: the listener is open and the kernel reads one struct of this type. The call fails only if the thread was
    // killed meanwhile, and then no thread waits for the verdict.
    unsafe {
        libc::ioctl(
            listener.as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_SEND,
            &raw mut response,
        );
    }
}
