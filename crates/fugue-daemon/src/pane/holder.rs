//! The daemon's connection to a pane's holder, the fds that the daemon keeps for a replacement, and the replacement of a
//! dead holder.

use std::{
    ffi::OsString,
    io,
    os::fd::{AsFd, OwnedFd},
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use fugue_holder::{
    DaemonLink, GuardedFds, HandoverState, HolderLocation, PaneLiveness, ReadStatus, is_stopped,
    record::{ChildRecord, ExitRecord},
    spawn::ChildProcess,
    wire::{
        ChildState, HelloOk, HolderFrame, InputMessage, ProcessIdentity, ToDaemon, ToHolder,
        VERSION,
    },
};
use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
};
use tokio::{
    io::{Interest, unix::AsyncFd},
    time::timeout,
};

use super::backend::{Adoption, BackendEvent, PaneBackend, PaneDir, Unreachable};
use fugue_client::{async_fd::register_fd, paths::SocketPath};

/// A connected holder that has answered the greeting.
pub struct HolderBackend {
    pane_dir: PaneDir,
    pid: i32,
    link: AsyncFd<DaemonLink>,
    guarded: GuardedFds,
    /// An eventfd that the holder signals after each append to the log.
    grew: AsyncFd<OwnedFd>,
    known: HandoverState,
}

impl PaneDir {
    fn socket(&self) -> PathBuf {
        self.dir.join(HolderLocation::HOLDER_SOCKET)
    }

    fn with_holder<T>(
        &self,
        act: impl FnOnce(HolderLocation<'_>) -> Result<T, String>,
    ) -> Result<T, String> {
        let socket = SocketPath::new(&self.socket()).map_err(|error| error.to_string())?;
        act(HolderLocation {
            exe: None,
            socket: socket.as_ref(),
            dir: &self.dir,
            generation: self.generation,
            epoch: self.epoch,
        })
    }

    /// The command with which tmux starts a holder that shows the pane.
    pub fn tmux_command(&self) -> Result<Vec<OsString>, String> {
        self.with_holder(|holder| Ok(holder.tmux_command()))
    }

    /// Proves after a failed connection that the holder is dead, and returns its child if that lives on. A socket that is missing
    /// or has no listener proves nothing by itself.
    fn prove_holder_death(
        &self,
        error: &io::Error,
    ) -> Result<Option<ProcessIdentity>, GreetingFailure> {
        let (io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound) = error.kind() else {
            return Err(GreetingFailure::Lost(format!("connect: {error}")));
        };
        match PaneLiveness::check(&self.dir) {
            PaneLiveness::Dead => Ok(None),
            PaneLiveness::Child(child) => Ok(Some(child)),
            PaneLiveness::Holder => Err(GreetingFailure::Closed(format!(
                "the holder lives and does not listen at its socket: {error}"
            ))),
            PaneLiveness::Unknown(why) => Err(GreetingFailure::Lost(why)),
        }
    }

    /// The recorded process id of the holder.
    fn recorded_holder(&self) -> Option<i32> {
        let meta = ChildRecord::read(&self.dir, self.generation).ok().flatten();
        meta.map(|meta| meta.holder)
    }

    fn connect(&self) -> io::Result<AsyncFd<DaemonLink>> {
        register_fd(
            DaemonLink::connect(SocketPath::new(&self.socket())?.as_ref())?,
            Interest::READABLE,
        )
    }
}

impl HolderBackend {
    /// Starts a holder that has a terminal and no child yet. A holder that cannot be reached is ended.
    pub async fn start(place: PaneDir) -> Result<Self, String> {
        let holder =
            place.with_holder(|holder| holder.spawn().map_err(|error| error.to_string()))?;
        let connected = Self::connect(place).await;
        if connected.is_err() {
            // An error means that it has ended.
            let _ = pidfd_send_signal(&holder.pidfd, Signal::KILL);
        }
        reap(holder);
        connected
    }

    /// Connects to a holder that has been started and listens.
    pub async fn connect(place: PaneDir) -> Result<Self, String> {
        let cannot = |error: io::Error| format!("the holder cannot be reached: {error}");
        let _reserve = FdReserve::take().map_err(cannot)?;
        let link = place.connect().map_err(cannot)?;
        let (backend, _) = Self::greet(place, link, HandoverState::default())
            .await
            .map_err(|unanswered| unanswered.to_string())?;
        Ok(backend)
    }

    /// Looks for the holder that an earlier daemon started.
    pub async fn find(place: PaneDir) -> Adoption {
        let found = match Self::try_find(&place).await {
            // The holder is ending, perhaps after its child: then the exit is recorded.
            Err(GreetingFailure::Closed(why)) => match place.recorded_holder() {
                Some(pid) if wait_for_exit(pid).await => Self::try_find(&place).await,
                Some(_) | None => Err(GreetingFailure::Closed(why)),
            },
            found => found,
        };
        found.unwrap_or_else(|unanswered| {
            Adoption::Unreachable(Unreachable::because(unanswered.to_string()))
        })
    }

    async fn try_find(place: &PaneDir) -> Result<Adoption, GreetingFailure> {
        let _reserve = FdReserve::take().map_err(GreetingFailure::lost)?;
        let link = match place.connect() {
            Ok(link) => link,
            Err(error) => {
                return Ok(match place.prove_holder_death(&error)? {
                    None => Adoption::Dead,
                    child => Adoption::Unreachable(Unreachable {
                        child,
                        ..Unreachable::because(
                            "the holder and the terminal are gone, and the program still runs",
                        )
                    }),
                });
            }
        };
        let (holder, hello) = Self::greet(place.clone(), link, HandoverState::default()).await?;
        Ok(Adoption::Answered(
            PaneBackend::Holder(Box::new(holder)),
            hello,
        ))
    }

    async fn greet(
        pane_dir: PaneDir,
        mut link: AsyncFd<DaemonLink>,
        known: HandoverState,
    ) -> Result<(Self, HelloOk), GreetingFailure> {
        let (hello, guarded, grew) = greet(&mut link, pane_dir.epoch).await?;
        let grew = register_fd(grew, Interest::READABLE).map_err(GreetingFailure::lost)?;
        let mut backend = Self {
            pane_dir,
            pid: hello.holder,
            link,
            guarded,
            grew,
            known,
        };
        backend.update_known(&hello);
        Ok((backend, hello))
    }

    fn update_known(&mut self, hello: &HelloOk) {
        self.known.last_input_seq = self.known.last_input_seq.max(hello.last_input_seq);
        self.known.answered_upto = self.known.answered_upto.max(hello.answered_upto);
        match hello.state {
            ChildState::Running(child) | ChildState::Exited { child, .. } => {
                self.known.child = Some(child)
            }
            ChildState::Empty => {}
        }
    }

    pub fn answered_upto(&self) -> u64 {
        self.known.answered_upto
    }

    /// The exit of the child, if the holder recorded one.
    pub fn recorded_exit(&self) -> Option<ExitRecord> {
        ExitRecord::read(&self.pane_dir.dir, self.pane_dir.generation)
            .ok()
            .flatten()
    }

    /// The next unused sequence number for an input.
    pub fn next_seq(&mut self) -> u64 {
        self.known.last_input_seq += 1;
        self.known.last_input_seq
    }

    /// Sends a message as far as the socket has room; [`HolderBackend::next_event`] sends the rest.
    pub fn send(&mut self, message: &ToHolder) -> io::Result<()> {
        if let ToHolder::Input(InputMessage {
            kind: fugue_holder::wire::InputKind::Answer { at },
            ..
        }) = message
        {
            self.known.answered_upto = self.known.answered_upto.max(*at);
        }
        let link = self.link.get_mut();
        link.push(message, Vec::new())?;
        link.flush().map(|_| ())
    }

    /// Waits for the next event. An error means a lost connection. Cancel safe.
    pub async fn next_event(&mut self) -> io::Result<BackendEvent> {
        let message = tokio::select! {
            () = wait_for_growth(&self.grew) => None,
            message = next(&mut self.link) => Some(message?),
        };
        Ok(match message {
            Some((message, fds)) => BackendEvent::Message(self.record_message(message, fds)),
            None => BackendEvent::Grew,
        })
    }

    fn record_message(&mut self, message: ToDaemon, mut fds: Vec<OwnedFd>) -> ToDaemon {
        if let ToDaemon::Started(child) = message {
            self.known.child = Some(child);
            self.guarded.child = fds.pop();
        }
        message
    }

    /// Returns a message that has arrived already. Called before the log is read: the holder reports a new size and a person's
    /// keys before it appends the output that follows from them.
    pub fn poll_message(&mut self) -> Option<ToDaemon> {
        loop {
            let link = self.link.get_mut();
            match link.next() {
                Ok(Some((HolderFrame::Known(message), fds))) => {
                    return Some(self.record_message(message, fds));
                }
                Ok(Some((HolderFrame::Unknown { .. }, _))) => continue,
                Ok(None) => {}
                // `next_event` returns the same error.
                Err(_) => return None,
            }
            let Ok(ReadStatus::Some | ReadStatus::Full) = link.read_socket() else {
                return None;
            };
        }
    }

    /// Lets the holder exit, and returns when its process is gone: the kernel closes the connection after freeing its memory.
    pub async fn leave(mut self) {
        let gone = async {
            self.send(&ToHolder::Leave)?;
            loop {
                next(&mut self.link).await?;
            }
        };
        let _: Result<io::Result<()>, _> = timeout(LEAVE_TIMEOUT, gone).await;
    }

    /// After a lost connection: the same holder again, or a replacement for one that is proved to be dead.
    pub async fn recover(mut self: Box<Self>) -> Adoption {
        let why = match self.reconnect().await {
            Ok(hello) => return Adoption::Answered(PaneBackend::Holder(self), hello),
            // The newer daemon has its own copies of the kept fds, so this backend is dropped.
            Err(GreetingFailure::Fenced) => {
                return Adoption::Unreachable(Unreachable::because(
                    GreetingFailure::Fenced.to_string(),
                ));
            }
            Err(GreetingFailure::Closed(why) | GreetingFailure::Lost(why)) => why,
        };
        Adoption::Unreachable(Unreachable::because(why).with(PaneBackend::Holder(self)))
    }

    async fn reconnect(&mut self) -> Result<HelloOk, GreetingFailure> {
        match self.try_reconnect().await {
            // A killed process closes its files one by one and may still hold its lock or its socket. Its pidfd becomes
            // readable when all of them are closed.
            Err(GreetingFailure::Closed(_)) if wait_for_exit(self.pid).await => {
                self.try_reconnect().await
            }
            outcome => outcome,
        }
    }

    async fn try_reconnect(&mut self) -> Result<HelloOk, GreetingFailure> {
        let _reserve = FdReserve::take().map_err(GreetingFailure::lost)?;
        let mut link = match self.pane_dir.connect() {
            Ok(link) => link,
            Err(error) => {
                self.pane_dir.prove_holder_death(&error)?;
                let replacement = self.pane_dir.with_holder(|holder| {
                    holder
                        .replace(&self.guarded, self.known)
                        .map_err(|error| error.to_string())
                });
                reap(replacement.map_err(GreetingFailure::Lost)?);
                tracing::info!(pane = %self.pane_dir.pane, "dead holder replaced");
                self.pane_dir.connect().map_err(GreetingFailure::lost)?
            }
        };
        let (hello, guarded, grew) = greet(&mut link, self.pane_dir.epoch).await?;
        self.grew = register_fd(grew, Interest::READABLE).map_err(GreetingFailure::lost)?;
        self.link = link;
        self.guarded = guarded;
        self.pid = hello.holder;
        self.update_known(&hello);
        Ok(hello)
    }

    /// Why the holder does not answer.
    pub fn silence_reason(&self) -> &'static str {
        match is_stopped(self.pid) {
            true => "it is stopped (SIGSTOP, or a debugger)",
            false => "it does not answer",
        }
    }
}

/// Why a holder did not answer the greeting.
enum GreetingFailure {
    /// A newer daemon is connected to the holder.
    Fenced,
    /// The holder closed the connection or no longer listens.
    Closed(String),
    Lost(String),
}

impl GreetingFailure {
    fn lost(error: io::Error) -> Self {
        Self::Lost(error.to_string())
    }
}

impl std::fmt::Display for GreetingFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fenced => f.write_str("a newer daemon has this pane"),
            Self::Closed(why) | Self::Lost(why) => f.write_str(why),
        }
    }
}

// Bounds the wait of a closing pane for a holder that is stopped by SIGSTOP or a debugger.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(2);
// A running holder answers in less than a millisecond, a stopped one not at all.
const GREETING_TIMEOUT: Duration = Duration::from_secs(2);
// A killed process closes its files within this time, also on a busy machine.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);

async fn greet(
    link: &mut AsyncFd<DaemonLink>,
    epoch: u64,
) -> Result<(HelloOk, GuardedFds, OwnedFd), GreetingFailure> {
    match timeout(GREETING_TIMEOUT, exchange_hello(link, epoch)).await {
        Ok(greeted) => greeted,
        Err(_) => Err(GreetingFailure::Lost(format!(
            "no answer to the greeting within {} s; is the holder stopped?",
            GREETING_TIMEOUT.as_secs()
        ))),
    }
}

async fn exchange_hello(
    link: &mut AsyncFd<DaemonLink>,
    epoch: u64,
) -> Result<(HelloOk, GuardedFds, OwnedFd), GreetingFailure> {
    let lost = |error: io::Error| {
        let why = format!("the connection was lost at the greeting: {error}");
        match error.kind() {
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionReset => GreetingFailure::Closed(why),
            _ => GreetingFailure::Lost(why),
        }
    };
    link.get_mut()
        .push(
            &ToHolder::Hello {
                version: VERSION,
                epoch,
            },
            Vec::new(),
        )
        .map_err(lost)?;
    link.get_mut().flush().map_err(lost)?;
    let (message, fds) = next(link).await.map_err(lost)?;
    match message {
        ToDaemon::HelloOk(hello) => {
            let (guarded, grew) = GuardedFds::from_hello(&hello, fds).ok_or_else(|| {
                // Fds that do not fit into this process's limit are left out by the kernel.
                GreetingFailure::Lost(
                    "not all fds of the holder arrived; are too many files open?".into(),
                )
            })?;
            Ok((hello, guarded, grew))
        }
        ToDaemon::Refused {
            reason: fugue_holder::wire::RefusalReason::Fenced,
            ..
        } => Err(GreetingFailure::Fenced),
        ToDaemon::Refused { what, errno, .. } => Err(GreetingFailure::Lost(format!(
            "{what}: {}",
            io::Error::from_raw_os_error(errno)
        ))),
        other @ (ToDaemon::Started(_)
        | ToDaemon::StartFailed { .. }
        | ToDaemon::InputState(_)
        | ToDaemon::Exited(_)
        | ToDaemon::ExitPending(_)
        | ToDaemon::Probed { .. }
        | ToDaemon::Closed { .. }
        | ToDaemon::Stalled { .. }
        | ToDaemon::LogWritable
        | ToDaemon::Done { .. }
        | ToDaemon::Failed { .. }
        | ToDaemon::Unknown { .. }
        | ToDaemon::NoProcessesLeft
        | ToDaemon::ViewKeys { .. }
        | ToDaemon::Resized { .. }) => Err(GreetingFailure::Lost(format!(
            "the holder answered the greeting with {other:?}"
        ))),
    }
}

pub(crate) async fn next(link: &mut AsyncFd<DaemonLink>) -> io::Result<(ToDaemon, Vec<OwnedFd>)> {
    loop {
        match link
            .get_mut()
            .next()
            .map_err(|bad| io::Error::new(io::ErrorKind::InvalidData, format!("{bad:?}")))?
        {
            Some((HolderFrame::Known(message), fds)) => return Ok((message, fds)),
            // A message of a newer holder version, which this daemon does not need.
            Some((HolderFrame::Unknown { .. }, _)) => continue,
            None => {}
        }
        // The socket is polled for writing only while output is pending: otherwise each message that the holder reads would wake
        // this task.
        let room = match link.get_ref().wants_write() {
            true => Some(register_fd(
                link.get_ref().as_fd().try_clone_to_owned()?,
                Interest::WRITABLE,
            )?),
            false => None,
        };
        let mut ready = tokio::select! {
            ready = link.readable_mut() => ready?,
            () = wait_writable(room.as_ref()) => {
                link.get_mut().flush()?;
                continue;
            }
        };
        match ready.get_inner_mut().read_socket()? {
            ReadStatus::Some | ReadStatus::Full => {}
            ReadStatus::Empty => ready.clear_ready(),
            ReadStatus::Closed => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

async fn wait_writable(link: Option<&AsyncFd<OwnedFd>>) {
    match link {
        // The next write returns the error.
        Some(link) => _ = link.writable().await,
        None => std::future::pending().await,
    }
}

/// Returns when the log may have grown. The eventfd is reset before the log is read, so later growth signals it again.
async fn wait_for_growth(grew: &AsyncFd<OwnedFd>) {
    loop {
        let Ok(mut ready) = grew.readable().await else {
            return std::future::pending().await;
        };
        let mut counter = [0; 8];
        match ready.try_io(|grew| Ok(rustix::io::read(grew, &mut counter)?)) {
            // The counter is zero now; the next signal makes the fd readable again.
            Ok(Ok(_)) => return ready.clear_ready(),
            Ok(Err(_)) => return std::future::pending().await,
            Err(_would_block) => {}
        }
    }
}

/// Waits for a holder that this daemon started, which would stay a zombie otherwise.
fn reap(holder: ChildProcess) {
    tokio::task::spawn_local(async move {
        // A clone of the pidfd could fail for want of descriptors.
        let Ok(ended) = register_fd(holder.pidfd.as_fd(), Interest::READABLE) else {
            return;
        };
        let _ = ended.readable().await;
        let _ = holder.try_wait();
    });
}

/// Waits up to [`EXIT_TIMEOUT`] for a process to end. `false` if the process lives on or cannot be observed.
async fn wait_for_exit(pid: i32) -> bool {
    let opened = Pid::from_raw(pid).map(|pid| pidfd_open(pid, PidfdFlags::empty()));
    let pidfd = match opened {
        Some(Ok(pidfd)) => pidfd,
        Some(Err(Errno::SRCH)) => return true,
        Some(Err(_)) | None => return false,
    };
    let Ok(pidfd) = register_fd(pidfd, Interest::READABLE) else {
        return false;
    };
    let ended = timeout(EXIT_TIMEOUT, pidfd.readable()).await;
    matches!(ended, Ok(Ok(_)))
}

// A connected pane takes about eight fds. Without a reserve, panes could take all of them, and the daemon could not even
// accept a client to refuse its call.
const FD_RESERVE: usize = 16;
const FDS_PER_PANE: usize = 8;

/// Fds reserved for clients and reads of files, held while any pane connects: panes on several shards that connect at the
/// same time cannot take them.
struct FdReserve {
    _fds: Vec<OwnedFd>,
}

static FD_RESERVE_IN_USE: Mutex<Weak<FdReserve>> = Mutex::new(Weak::new());

impl FdReserve {
    /// Fails with EMFILE if there are not enough fds for a further pane beside the reserve.
    fn take() -> io::Result<Arc<Self>> {
        let mut in_use = FD_RESERVE_IN_USE
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let reserve = match in_use.upgrade() {
            Some(reserve) => reserve,
            None => Arc::new(Self {
                _fds: spare_fds(FD_RESERVE)?,
            }),
        };
        drop(spare_fds(FDS_PER_PANE)?);
        *in_use = Arc::downgrade(&reserve);
        Ok(reserve)
    }
}

fn spare_fds(count: usize) -> io::Result<Vec<OwnedFd>> {
    let first = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC)?;
    let mut fds = (1..count)
        .map(|_| rustix::io::fcntl_dupfd_cloexec(&first, 0))
        .collect::<Result<Vec<_>, _>>()?;
    fds.push(first);
    Ok(fds)
}
