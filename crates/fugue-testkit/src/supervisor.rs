//! A syscall supervisor: programs run under a seccomp filter that passes chosen system calls to a thread of the test,
//! which lets each call continue, makes it fail with an error, or inspects files before it continues.
//!
//! The filter is inherited by every descendant, and the kernel applies it to the system call itself, so calls that
//! bypass libc are covered as well. No privilege is needed. A launcher thread installs the filter on itself and starts
//! all supervised programs, so that the listener is an fd of the test's own process from the beginning.
//!
//! Memory mapping must not be supervised: the launcher thread may hold a lock of the allocator in such a call, and the
//! supervising thread may need the same lock to answer it.

mod filter;
mod syscalls;

use std::{
    fs, io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::{fs::FileExt, net::UnixStream},
    },
    path::PathBuf,
    process::{Child, Command},
    sync::mpsc,
    thread,
};

use rustix::event::{PollFd, PollFlags, poll};
pub use rustix::io::Errno;
pub use syscalls::Syscall;

/// A system call that waits for a verdict.
pub struct SupervisedCall {
    pub syscall: Syscall,
    /// The id of the calling thread.
    pub thread: u32,
    pub args: [u64; 6],
}

/// The outcome of a supervised call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyscallVerdict {
    Continue,
    Fail(Errno),
}

/// The part of fugue that a process runs, according to the command line. Between `fork` and `exec` a process counts as
/// its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProcessRole {
    Daemon,
    Holder,
    Other,
}

impl ProcessRole {
    pub fn name(self) -> &'static str {
        match self {
            ProcessRole::Daemon => "daemon",
            ProcessRole::Holder => "holder",
            ProcessRole::Other => "other",
        }
    }
}

impl SupervisedCall {
    pub fn role(&self) -> ProcessRole {
        let line = fs::read(format!("/proc/{}/cmdline", self.thread)).unwrap_or_default();
        let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
        match words.get(1..3) {
            Some([b"daemon", b"run"]) => ProcessRole::Daemon,
            Some([b"hold", _]) => ProcessRole::Holder,
            _ => ProcessRole::Other,
        }
    }

    /// The name of the calling thread.
    pub fn thread_name(&self) -> String {
        let path = format!("/proc/{}/comm", self.thread);
        let name = fs::read_to_string(path).unwrap_or_default();
        name.trim_end().to_owned()
    }

    /// The target of the fd in this argument: a path, or the kernel's name (`socket:[17]`).
    pub fn fd_path(&self, arg: usize) -> Option<PathBuf> {
        let fd = self.args[arg] as i32;
        fs::read_link(format!("/proc/{}/fd/{fd}", self.thread)).ok()
    }

    /// Opens the file of the fd in this argument, even if the name is gone. The caller is not affected.
    pub fn open_fd(&self, arg: usize) -> io::Result<fs::File> {
        let fd = self.args[arg] as i32;
        fs::File::open(format!("/proc/{}/fd/{fd}", self.thread))
    }

    /// The 16-bit number that this argument points to.
    pub fn read_i16(&self, arg: usize) -> Option<i16> {
        let memory = fs::File::open(format!("/proc/{}/mem", self.thread)).ok()?;
        let mut bytes = [0; 2];
        memory.read_exact_at(&mut bytes, self.args[arg]).ok()?;
        Some(i16::from_ne_bytes(bytes))
    }

    /// The path that this argument points to, as the caller wrote it.
    pub fn read_path(&self, arg: usize) -> Option<PathBuf> {
        let memory = fs::File::open(format!("/proc/{}/mem", self.thread)).ok()?;
        let mut bytes = Vec::new();
        // A path may lie at the end of a mapping, so memory is read page by page.
        while bytes.len() < 4096 {
            let at = self.args[arg] + bytes.len() as u64;
            let mut part = [0; 4096];
            let upto = 4096 - (at % 4096) as usize;
            let got = memory.read_at(&mut part[..upto], at).ok()?;
            if let Some(end) = part[..got].iter().position(|byte| *byte == 0) {
                bytes.extend_from_slice(&part[..end]);
                return Some(PathBuf::from(String::from_utf8_lossy(&bytes).into_owned()));
            }
            if got == 0 {
                return None;
            }
            bytes.extend_from_slice(&part[..got]);
        }
        None
    }
}

type SpawnRequest = (Command, mpsc::Sender<io::Result<Child>>);

/// Supervises programs. Must be kept until every supervised process is gone: without a supervisor their supervised
/// calls fail with ENOSYS.
pub struct SyscallSupervisor {
    /// `None` only while dropping.
    launcher: Option<mpsc::Sender<SpawnRequest>>,
    /// Closed to end the supervising thread.
    stop: Option<UnixStream>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl SyscallSupervisor {
    /// Every listed call of every process started by [`spawn`](Self::spawn), and of its descendants, is passed to
    /// `verdict`, sequentially.
    pub fn new(
        syscalls: &[Syscall],
        mut verdict: impl FnMut(&SupervisedCall) -> SyscallVerdict + Send + 'static,
    ) -> io::Result<Self> {
        let program = filter::program(syscalls);
        let (launcher, launches) = mpsc::channel::<SpawnRequest>();
        let (ready, listener) = mpsc::channel::<io::Result<OwnedFd>>();
        let launching = thread::Builder::new()
            .name("launcher".to_owned())
            .spawn(move || {
                let installed = filter::install(&program);
                let refused = installed.is_err();
                // The receiver is waiting.
                let _ = ready.send(installed);
                if refused {
                    return;
                }
                for (mut command, reply) in launches {
                    // The requesting thread may have panicked meanwhile.
                    let _ = reply.send(command.spawn());
                }
            })?;
        let listener = listener
            .recv()
            .map_err(|_| io::Error::other("the launcher thread ended"))??;
        let (stop, stopped) = UnixStream::pair()?;
        let supervising = thread::Builder::new()
            .name("supervisor".to_owned())
            .spawn(move || supervise(&listener, &stopped, &mut verdict))?;
        Ok(Self {
            launcher: Some(launcher),
            stop: Some(stop),
            threads: vec![launching, supervising],
        })
    }

    /// Starts a program under the filter.
    pub fn spawn(&self, command: Command) -> io::Result<Child> {
        let gone = || io::Error::other("the launcher thread is gone");
        let (reply, child) = mpsc::channel();
        let launcher = self.launcher.as_ref().ok_or_else(gone)?;
        launcher.send((command, reply)).map_err(|_| gone())?;
        child.recv().map_err(|_| gone())?
    }
}

impl Drop for SyscallSupervisor {
    fn drop(&mut self) {
        drop(self.launcher.take());
        // In this order: the last calls of the launcher thread still need their verdicts.
        let mut threads = std::mem::take(&mut self.threads).into_iter();
        if let Some(launching) = threads.next() {
            let _ = launching.join();
        }
        drop(self.stop.take());
        for thread in threads {
            let _ = thread.join();
        }
    }
}

fn supervise(
    listener: &OwnedFd,
    stopped: &UnixStream,
    verdict: &mut dyn FnMut(&SupervisedCall) -> SyscallVerdict,
) {
    loop {
        let mut fds = [
            PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(stopped.as_fd(), PollFlags::IN),
        ];
        if poll(&mut fds, None).is_err() {
            continue;
        }
        let (calls, stop) = (fds[0].revents(), fds[1].revents());
        if calls.contains(PollFlags::IN) {
            let Some(received) = filter::receive(listener) else {
                // The calling thread was killed meanwhile.
                continue;
            };
            let Some(syscall) = Syscall::from_number(received.number) else {
                filter::send_verdict(listener, received.id, SyscallVerdict::Continue);
                continue;
            };
            let call = SupervisedCall {
                syscall,
                thread: received.thread,
                args: received.args,
            };
            filter::send_verdict(listener, received.id, verdict(&call));
        } else if !stop.is_empty() || calls.contains(PollFlags::HUP) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        process::Stdio,
        sync::{Arc, Mutex},
    };

    use super::*;

    #[expect(
        clippy::disallowed_methods,
        reason = "the supervised program is an ordinary one"
    )]
    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]).stdin(Stdio::null());
        command
    }

    fn output(supervisor: &SyscallSupervisor, script: &str) -> String {
        let mut command = shell(script);
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let child = supervisor.spawn(command).expect("a shell");
        let output = child.wait_with_output().expect("its output");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn syscall(name: &str) -> Syscall {
        Syscall::from_name(name).expect("a known system call")
    }

    #[test]
    fn the_chosen_call_fails_once_with_the_chosen_error() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("wanted");
        fs::write(&path, "here\n").expect("a file");
        let (wanted, mut failed) = (path.clone(), false);
        let supervisor = SyscallSupervisor::new(&[syscall("openat")], move |call| {
            if !failed && call.read_path(1).as_deref() == Some(&*wanted) {
                failed = true;
                return SyscallVerdict::Fail(Errno::MFILE);
            }
            SyscallVerdict::Continue
        })
        .expect("a supervisor");
        // The second attempt is made by a descendant of the first shell.
        let path = path.display();
        let said = output(
            &supervisor,
            &format!("cat {path} || echo refused; sh -c 'cat {path}'"),
        );
        assert_eq!(said, "refused\nhere\n");
    }

    #[test]
    fn files_are_seen_as_they_are_before_a_sync_goes_on() {
        let dir = tempfile::tempdir().expect("a directory");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&seen);
        let supervisor =
            SyscallSupervisor::new(&[syscall("fsync"), syscall("fdatasync")], move |call| {
                let file = call.fd_path(0).expect("a descriptor");
                let text = io::read_to_string(call.open_fd(0).expect("the file"));
                kept.lock()
                    .expect("nobody panics with it")
                    .push((file, text.expect("its text")));
                SyscallVerdict::Continue
            })
            .expect("a supervisor");
        let path = dir.path().join("f");
        let script = format!(
            "printf one > {0}; sync {0}; printf two >> {0}; sync -d {0}",
            path.display()
        );
        output(&supervisor, &script);
        let seen = seen.lock().expect("nobody panics with it").clone();
        assert_eq!(
            seen,
            [
                (path.clone(), "one".to_owned()),
                (path, "onetwo".to_owned())
            ]
        );
    }

    #[test]
    fn a_process_that_is_killed_while_it_waits_for_a_verdict_disturbs_nobody() {
        let (started, waits) = mpsc::channel();
        let (go_on, gate) = mpsc::channel::<()>();
        let mut first = true;
        let supervisor = SyscallSupervisor::new(&[syscall("chdir")], move |_| {
            if std::mem::take(&mut first) {
                started.send(()).expect("the test listens");
                gate.recv().expect("the test goes on");
            }
            SyscallVerdict::Continue
        })
        .expect("a supervisor");
        let mut child = supervisor.spawn(shell("cd /")).expect("a shell");
        waits.recv().expect("it reached the call");
        child.kill().expect("a child of ours");
        child.wait().expect("it ends");
        go_on.send(()).expect("the supervisor listens");
        assert_eq!(output(&supervisor, "cd / && pwd"), "/\n");
    }
}
