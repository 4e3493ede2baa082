//! One pane in a directory of its own, from the daemon's point of view.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fugue_holder::record::{ExitRecord, SizeRecord};
use fugue_holder::spawn::{ChildProcess, ProcessExit, SessionLeadership, SpawnCommand};
use fugue_holder::wire::{
    ChildExit, ChildSpec, ChildState, ForegroundProbe, HelloOk, HolderFrame, InputKind,
    InputMessage, InputState, ProcessIdentity, ToDaemon, ToHolder, VERSION,
};
use fugue_holder::{
    DaemonLink, GuardedFds, HandoverState, HolderLocation, LogRead, LogReader, ProcessScope,
    ReadStatus, close_leftovers,
};
use fugue_testkit::SeededRng;
use rustix::event::{PollFd, PollFlags, Timespec};

/// The time limit of each step of a test, on a machine that is busy with other work.
pub const LIMIT: Duration = Duration::from_secs(60);

pub struct TestPane {
    home: tempfile::TempDir,
    pub dir: PathBuf,
    pub generation: u32,
    pub epoch: u64,
    pub holder: Option<ChildProcess>,
    pub link: Option<DaemonLink>,
    pub hello: Option<HelloOk>,
    pub guarded: Option<GuardedFds>,
    grew: Option<OwnedFd>,
    pub known: HandoverState,
    inbox: VecDeque<(ToDaemon, Vec<OwnedFd>)>,
    log: LogReader,
    pub seen: Vec<u8>,
    pub at: u64,
}

impl TestPane {
    /// A holder after the Hello, without a child.
    pub fn with_holder() -> TestPane {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("pane");
        std::fs::create_dir(&dir).unwrap();
        TestPane::with_holder_in(home, dir)
    }

    pub fn with_holder_in(home: tempfile::TempDir, dir: PathBuf) -> TestPane {
        let mut pane = TestPane::without_holder(home, dir);
        pane.holder = Some(pane.location().spawn().unwrap());
        pane.connect();
        pane.hello();
        pane
    }

    /// A pane directory without a holder.
    pub fn without_holder(home: tempfile::TempDir, dir: PathBuf) -> TestPane {
        TestPane {
            log: LogReader::new(&dir),
            home,
            dir,
            generation: 1,
            epoch: 1,
            holder: None,
            link: None,
            hello: None,
            guarded: None,
            grew: None,
            known: HandoverState::default(),
            inbox: VecDeque::new(),
            seen: Vec::new(),
            at: 0,
        }
    }

    /// A pane that runs this script in a shell.
    pub fn running(script: &str) -> TestPane {
        let mut pane = TestPane::with_holder();
        let spec = pane.spec(&["sh", "-c", script]);
        pane.start(spec);
        pane
    }

    pub fn socket(&self) -> PathBuf {
        self.home.path().join("s")
    }

    pub fn location(&self) -> HolderLocation<'_> {
        // Leaks a few bytes per call, in a test.
        let socket: &'static Path = Box::leak(self.socket().into_boxed_path());
        let exe: &'static Path = Box::leak(holder_exe().into_boxed_path());
        let (dir, generation, epoch) = (&self.dir, self.generation, self.epoch);
        HolderLocation {
            exe: Some(exe),
            socket,
            dir,
            generation,
            epoch,
        }
    }

    pub fn mark(&self) -> Vec<u8> {
        format!("FUGUE_PANE_DIR={}", self.dir.display()).into_bytes()
    }

    pub fn spec(&self, argv: &[&str]) -> ChildSpec {
        let mark = self.mark();
        let (key, value) = mark.split_at(mark.iter().position(|b| *b == b'=').unwrap());
        ChildSpec {
            argv: argv.iter().map(|a| a.as_bytes().to_vec()).collect(),
            env: vec![
                (
                    b"PATH".to_vec(),
                    std::env::var("PATH").unwrap().into_bytes(),
                ),
                (
                    b"HOME".to_vec(),
                    self.home.path().as_os_str().as_encoded_bytes().to_vec(),
                ),
                (b"TERM".to_vec(), b"xterm-256color".to_vec()),
                (b"PS1".to_vec(), b"$ ".to_vec()),
                (key.to_vec(), value[1..].to_vec()),
            ],
            cwd: self.home.path().as_os_str().as_encoded_bytes().to_vec(),
            rows: 40,
            cols: 120,
            umask: 0o022,
            nofile: None,
            log_cap: ChildSpec::LOG_CAP,
            segment: ChildSpec::segment_for(ChildSpec::LOG_CAP),
            marks: vec![mark],
            kept: Vec::new(),
        }
    }

    pub fn connect(&mut self) {
        self.inbox.clear();
        self.link = Some(DaemonLink::connect(&self.socket()).unwrap());
    }

    pub fn hello(&mut self) -> HelloOk {
        let epoch = self.epoch;
        self.send(&ToHolder::Hello {
            version: VERSION,
            epoch,
        });
        let (hello, fds) = self.expect_with(|m| match m {
            ToDaemon::HelloOk(hello) => Some(*hello),
            _ => None,
        });
        let (guarded, grew) = GuardedFds::from_hello(&hello, fds).unwrap();
        self.guarded = Some(guarded);
        self.grew = Some(grew);
        self.hello = Some(hello);
        hello
    }

    pub fn start(&mut self, spec: ChildSpec) -> ProcessIdentity {
        self.send(&ToHolder::Start(spec));
        let (child, mut fds) = self.expect_with(|m| match m {
            ToDaemon::Started(child) => Some(*child),
            ToDaemon::StartFailed { what, errno } => panic!("{what}: {errno}"),
            _ => None,
        });
        self.guarded.as_mut().unwrap().child = fds.pop();
        self.known.child = Some(child);
        child
    }

    pub fn start_fails(&mut self, spec: ChildSpec) -> (String, i32) {
        self.send(&ToHolder::Start(spec));
        self.expect(|m| match m {
            ToDaemon::StartFailed { what, errno } => Some((what.clone(), *errno)),
            ToDaemon::Started(_) => panic!("it started"),
            _ => None,
        })
    }

    pub fn child(&self) -> ProcessIdentity {
        self.known.child.unwrap()
    }

    pub fn send(&mut self, message: &ToHolder) {
        self.send_with(message, Vec::new());
    }

    pub fn send_with(&mut self, message: &ToHolder, fds: Vec<OwnedFd>) {
        let link = self.link.as_mut().unwrap();
        link.push(message, fds).unwrap();
        while link.flush().unwrap() == fugue_holder::FlushStatus::Partial {
            wait_for_any(&[(link.as_fd(), PollFlags::OUT)]);
        }
    }

    /// Returns the first message that `pick` selects; earlier messages stay queued.
    pub fn expect<T>(&mut self, pick: impl FnMut(&ToDaemon) -> Option<T>) -> T {
        self.expect_with(pick).0
    }

    pub fn expect_with<T>(
        &mut self,
        mut pick: impl FnMut(&ToDaemon) -> Option<T>,
    ) -> (T, Vec<OwnedFd>) {
        let mut from = 0;
        loop {
            for n in from..self.inbox.len() {
                if let Some(picked) = pick(&self.inbox[n].0) {
                    let (_, fds) = self.inbox.remove(n).unwrap();
                    return (picked, fds);
                }
            }
            from = self.inbox.len();
            let link = self.link.as_mut().unwrap();
            wait_for_any(&[(link.as_fd(), PollFlags::IN)]);
            let open = self.receive();
            assert!(
                open || self.inbox.len() > from,
                "the holder closed the connection; {:?}",
                self.inbox
            );
        }
    }

    /// Receives available messages. False when the connection is closed.
    pub fn receive(&mut self) -> bool {
        let link = self.link.as_mut().unwrap();
        let filled = link.read_socket().unwrap();
        while let Some((frame, fds)) = link.next().unwrap() {
            match frame {
                HolderFrame::Known(message) => self.inbox.push_back((message, fds)),
                HolderFrame::Unknown { kind } => panic!("unknown kind {kind}"),
            }
        }
        filled != ReadStatus::Closed
    }

    /// Waits until the holder has closed the connection.
    pub fn wait_for_disconnect(&mut self) {
        while self.receive() {
            let link = self.link.as_ref().unwrap();
            wait_for_any(&[(link.as_fd(), PollFlags::IN)]);
        }
    }

    pub fn input(&mut self, seq: u64, key: u8, bytes: &[u8]) -> InputState {
        self.send(&ToHolder::Input(InputMessage {
            seq,
            key: [key; 16],
            kind: InputKind::Typed,
            bytes: bytes.to_vec(),
        }));
        self.known.last_input_seq = seq;
        self.input_state(seq)
    }

    pub fn input_state(&mut self, wanted: u64) -> InputState {
        self.expect(|m| match m {
            ToDaemon::InputState(state) if state.seq == wanted => Some(*state),
            _ => None,
        })
    }

    pub fn probe(&mut self) -> ForegroundProbe {
        self.send(&ToHolder::Probe { id: 5 });
        self.expect(|m| match m {
            ToDaemon::Probed { id: 5, probe } => Some(probe.clone()),
            ToDaemon::Failed { what, errno, .. } => panic!("{what}: {errno}"),
            _ => None,
        })
    }

    pub fn close(&mut self, grace_ms: u32) -> u32 {
        self.send(&ToHolder::Close { id: 77, grace_ms });
        self.expect(|m| match m {
            ToDaemon::Closed { id: 77, left } => Some(*left),
            _ => None,
        })
    }

    pub fn wait_for_exit(&mut self) -> ChildExit {
        self.expect(|m| match m {
            ToDaemon::Exited(exited) => Some(*exited),
            _ => None,
        })
    }

    pub fn read_exit_record(&self) -> Option<ChildExit> {
        ExitRecord::read(&self.dir, self.generation)
            .unwrap()
            .map(|r| r.exited)
    }

    pub fn sizes(&self) -> Vec<SizeRecord> {
        SizeRecord::read_all(&self.dir).unwrap()
    }

    /// Reads the log to its current end.
    pub fn read(&mut self) {
        let mut buf = vec![0; 256 << 10];
        loop {
            match self.log.read_at(self.at, &mut buf).unwrap() {
                LogRead::Bytes(n) => {
                    self.seen.extend_from_slice(&buf[..n]);
                    self.at += n as u64;
                }
                LogRead::Gap { next, .. } => panic!("a gap from {} to {next}", self.at),
                LogRead::End => return,
            }
        }
    }

    /// Reads until `done` holds for all bytes so far.
    pub fn read_until(&mut self, mut done: impl FnMut(&[u8]) -> bool) {
        loop {
            drain(self.grew.as_ref().unwrap());
            self.read();
            if done(&self.seen) {
                return;
            }
            let sources = [
                (self.grew.as_ref().unwrap().as_fd(), PollFlags::IN),
                (self.link.as_ref().unwrap().as_fd(), PollFlags::IN),
            ];
            let ready = wait_for_any_until(&sources, Instant::now() + LIMIT);
            assert!(
                ready.is_some(),
                "waited too long; seen {:?}",
                tail(&self.seen)
            );
            if ready == Some(1) && !self.receive() {
                self.read();
                assert!(
                    done(&self.seen),
                    "the holder is gone; seen {:?}",
                    tail(&self.seen)
                );
                return;
            }
        }
    }

    pub fn read_until_text(&mut self, wanted: &str) {
        self.read_until(|seen| text(seen).contains(wanted));
    }

    /// All output up to the child's exit.
    pub fn output(&mut self) -> (ChildExit, Vec<u8>) {
        let exited = self.wait_for_exit();
        self.read();
        assert_eq!(
            self.at, exited.output_end,
            "the log ends where the exit says"
        );
        (exited, std::mem::take(&mut self.seen))
    }

    /// Kills the holder with `kill -9`, and reaps it.
    pub fn kill_holder(&mut self) {
        let holder = self.holder.take().unwrap();
        holder.signal(9).unwrap();
        let ending = holder.wait().unwrap();
        // The holder may have exited just before.
        assert!(
            matches!(
                ending,
                ProcessExit::Signal { signo: 9, .. } | ProcessExit::Code(0)
            ),
            "{ending:?}"
        );
        self.link = None;
    }

    pub fn replace_holder(&mut self) -> HelloOk {
        let place = self.location();
        self.holder = Some(
            place
                .replace(self.guarded.as_ref().unwrap(), self.known)
                .unwrap(),
        );
        self.connect();
        self.hello()
    }

    /// Waits for the holder's exit, and reaps it.
    pub fn wait_for_holder_exit(&mut self) -> ProcessExit {
        let holder = self.holder.take().unwrap();
        wait_for_any(&[(holder.pidfd.as_fd(), PollFlags::IN)]);
        holder.wait().unwrap()
    }

    pub fn wait_for_fd(&self, fd: BorrowedFd<'_>, flags: PollFlags) {
        wait_for_any(&[(fd, flags)]);
    }

    pub fn wait_for_process(&self, who: ProcessIdentity) {
        let pid = rustix::process::Pid::from_raw(who.pid).unwrap();
        if let Ok(fd) = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())
            && fugue_holder::is_alive(who)
        {
            wait_for_any(&[(fd.as_fd(), PollFlags::IN)]);
        }
    }

    pub fn state(&self) -> ChildState {
        self.hello.unwrap().state
    }

    pub fn home(&self) -> &Path {
        self.home.path()
    }
}

impl Drop for TestPane {
    fn drop(&mut self) {
        // After a failure too, no process is left, as far as the holder can find it.
        if let (Some(mut link), Some(holder)) = (self.link.take(), &self.holder) {
            let close = ToHolder::Close { id: 0, grace_ms: 0 };
            let _ = link.push(&close, Vec::new()).and_then(|()| link.flush());
            drop(link);
            let soon = Instant::now() + Duration::from_secs(10);
            wait_for_any_until(&[(holder.pidfd.as_fd(), PollFlags::IN)], soon);
        }
        if let Some(holder) = self.holder.take() {
            let _ = holder.signal(9);
            let _ = holder.wait();
        }
        self.guarded = None;
        let scope = ProcessScope::new(self.known.child, vec![self.mark()]);
        let _ = close_leftovers(scope, Duration::ZERO);
    }
}

pub fn holder_exe() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let exe = test
        .parent()
        .unwrap()
        .parent()
        .unwrap()
        .join("examples/holder");
    assert!(
        exe.exists(),
        "no {}: `cargo build -p fugue-holder --examples`",
        exe.display()
    );
    exe
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The end of the output, for a failure message.
fn tail(bytes: &[u8]) -> String {
    text(&bytes[bytes.len().saturating_sub(500)..])
}

pub fn drain(eventfd: &OwnedFd) {
    let _ = rustix::io::read(eventfd, &mut [0; 8]);
}

/// Waits for one of the sources, and returns its index.
pub fn wait_for_any(sources: &[(BorrowedFd<'_>, PollFlags)]) -> usize {
    wait_for_any_until(sources, Instant::now() + LIMIT).expect("waited too long")
}

pub fn wait_for_any_until(
    sources: &[(BorrowedFd<'_>, PollFlags)],
    deadline: Instant,
) -> Option<usize> {
    loop {
        let mut fds: Vec<PollFd<'_>> = sources
            .iter()
            .map(|(fd, flags)| PollFd::from_borrowed_fd(*fd, *flags))
            .collect();
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).unwrap();
        match rustix::event::poll(&mut fds, Some(&timeout)) {
            Ok(0) => return None,
            Ok(_) => return fds.iter().position(|fd| !fd.revents().is_empty()),
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => panic!("{e}"),
        }
    }
}

/// Runs a program to its end with our stdout and stderr.
pub fn run(program: &str, args: &[OsString]) -> io::Result<ProcessExit> {
    let out = rustix::stdio::stdout();
    let err = rustix::stdio::stderr();
    let child = SpawnCommand::new(program)
        .args(args)
        .envs(std::env::vars_os())
        .session(SessionLeadership::Inherited)
        .fd(out, 1)
        .fd(err, 2)
        .start()?;
    child.wait()
}

/// Random numbers whose seed is printed, so that `FUGUE_SEED` can repeat a failure.
pub fn seeded_rng() -> SeededRng {
    let rng = SeededRng::default();
    println!("seed {}", rng.seed());
    rng
}
