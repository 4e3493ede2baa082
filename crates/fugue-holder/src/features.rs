//! What this kernel offers to holders, tried out rather than derived from its version.

use std::os::fd::AsFd;

use rustix::{io::Errno, pipe::PipeFlags};

use crate::{
    log::splice_in,
    pty::PtyPair,
    spawn::{SpawnCommand, SpawnError},
    sys::{PidfdExitStatus, pidfd_exit},
};

/// The features that a promise of fugue depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelFeatures {
    /// `splice` from a terminal (Linux 5.11): a holder that is killed loses no output.
    pub splice: bool,
    /// The exit of a process that another process reaped (Linux 6.15): known although the holder was killed.
    pub exit_after_reap: bool,
    /// `/proc/PID/syscall`: a program that waits for a line is told from one that works.
    pub blocked_reads: bool,
}

/// Opens a terminal and starts a short process. Fails as the start of a pane would.
pub fn kernel_features() -> Result<KernelFeatures, SpawnError> {
    let terminal = PtyPair::open()?;
    let (_pipe_r, pipe_w) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)
        .map_err(|error| SpawnError::new("a pipe", error))?;
    let splice = splice_in(&terminal.master, &pipe_w) != Err(Errno::INVAL);
    let child = SpawnCommand::new("/proc/self/exe")
        .args(["--version"])
        .start()?;
    child
        .wait()
        .map_err(|error| SpawnError::new("a process", error))?;
    let exit = pidfd_exit(child.pidfd.as_fd());
    Ok(KernelFeatures {
        splice,
        exit_after_reap: matches!(exit, PidfdExitStatus::Exited(_)),
        blocked_reads: std::fs::read("/proc/self/syscall").is_ok(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_found_fits_the_version_of_the_kernel() {
        let found = kernel_features().unwrap();
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        let mut numbers = release.split('.').map(|part| part.parse().unwrap_or(0));
        let version: (u32, u32) = (numbers.next().unwrap(), numbers.next().unwrap());
        // A feature of a later version may have been ported back; that of an earlier one is there.
        assert!(found.splice || version < (5, 11), "{found:?} on {release}");
        assert!(
            found.exit_after_reap || version < (6, 15),
            "{found:?} on {release}"
        );
    }
}
