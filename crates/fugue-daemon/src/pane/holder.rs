//! The daemon's half of a pane's holder: the link to it, what is guarded for it, and its replacement when it dies.

use std::{
    ffi::OsString,
    io,
    os::fd::{AsFd, OwnedFd},
    path::PathBuf,
    time::Duration,
};

use fugue_hold::{
    DaemonLink, Filled, Guarded, HolderAt, Known,
    record::ExitRecord,
    spawn::Child,
    wire::{Frame, HelloOk, Input, State, ToDaemon, ToHolder, VERSION},
};
use tokio::{
    io::{Interest, unix::AsyncFd},
    time::timeout,
};

use super::keeper::{Event, Found, Place};
use crate::{paths::SocketPath, watched::watched};

/// A holder that has said hello.
pub struct Holder {
    place: Place,
    link: AsyncFd<DaemonLink>,
    guarded: Guarded,
    /// Says that the log grew.
    grew: AsyncFd<OwnedFd>,
    known: Known,
}

impl Place {
    fn socket(&self) -> PathBuf {
        self.dir.join(HolderAt::SOCKET)
    }

    fn with_holder<T>(
        &self,
        act: impl FnOnce(HolderAt<'_>) -> Result<T, String>,
    ) -> Result<T, String> {
        let socket = SocketPath::new(&self.socket()).map_err(|error| error.to_string())?;
        act(HolderAt {
            exe: None,
            socket: socket.as_ref(),
            dir: &self.dir,
            generation: self.generation,
            epoch: self.epoch,
        })
    }

    /// What tmux is to start, to show the pane.
    pub fn viewed(&self) -> Result<Vec<OsString>, String> {
        self.with_holder(|holder| Ok(holder.viewed()))
    }

    fn connect(&self) -> io::Result<AsyncFd<DaemonLink>> {
        watched(
            DaemonLink::connect(SocketPath::new(&self.socket())?.as_ref())?,
            Interest::READABLE,
        )
    }
}

impl Holder {
    /// Starts a holder that has a terminal and no child yet.
    pub async fn start(place: Place) -> Result<Self, String> {
        let child =
            place.with_holder(|holder| holder.spawn().map_err(|error| error.to_string()))?;
        reap(child);
        Self::met(place).await
    }

    /// A holder that has been started, and listens.
    pub async fn met(place: Place) -> Result<Self, String> {
        let link = place
            .connect()
            .map_err(|error| format!("its holder cannot be reached: {error}"))?;
        let (keeper, _) = Self::greet(place, link, Known::default()).await?;
        Ok(keeper)
    }

    /// Finds the holder that an earlier daemon started. `None`: no holder lives.
    pub async fn find(place: Place) -> Result<Option<(Self, HelloOk)>, String> {
        match place.connect() {
            Ok(link) => Self::greet(place, link, Known::default()).await.map(Some),
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }

    async fn greet(
        place: Place,
        mut link: AsyncFd<DaemonLink>,
        known: Known,
    ) -> Result<(Self, HelloOk), String> {
        let (hello, guarded, grew) = greet(&mut link, place.epoch).await?;
        let grew = watched(grew, Interest::READABLE).map_err(|error| error.to_string())?;
        let mut keeper = Self {
            place,
            link,
            guarded,
            grew,
            known,
        };
        keeper.learn(&hello);
        Ok((keeper, hello))
    }

    fn learn(&mut self, hello: &HelloOk) {
        self.known.last_input_seq = self.known.last_input_seq.max(hello.last_input_seq);
        self.known.answered_upto = self.known.answered_upto.max(hello.answered_upto);
        match hello.state {
            State::Running(child) | State::Exited { child, .. } => self.known.child = Some(child),
            State::Empty => {}
        }
    }

    pub fn answered_upto(&self) -> u64 {
        self.known.answered_upto
    }

    /// How the child ended, if its holder wrote that down.
    pub fn recorded_exit(&self) -> Option<ExitRecord> {
        ExitRecord::read(&self.place.dir, self.place.generation)
            .ok()
            .flatten()
    }

    /// A number for an input, used once.
    pub fn next_seq(&mut self) -> u64 {
        self.known.last_input_seq += 1;
        self.known.last_input_seq
    }

    /// Sends, as far as the socket takes it at once; the rest goes out in [`Holder::event`].
    pub fn send(&mut self, message: &ToHolder) -> io::Result<()> {
        if let ToHolder::Input(Input {
            kind: fugue_hold::wire::InputKind::Answer { at },
            ..
        }) = message
        {
            self.known.answered_upto = self.known.answered_upto.max(*at);
        }
        let link = self.link.get_mut();
        link.push(message, Vec::new())?;
        link.flush().map(|_| ())
    }

    /// What happens next. An error: the connection is lost. Nothing is lost when this is cancelled.
    pub async fn event(&mut self) -> io::Result<Event> {
        let word = tokio::select! {
            () = counted(&self.grew) => None,
            word = next(&mut self.link) => Some(word?),
        };
        Ok(match word {
            Some((word, fds)) => Event::Word(self.heard(word, fds)),
            None => Event::Grew,
        })
    }

    fn heard(&mut self, word: ToDaemon, mut fds: Vec<OwnedFd>) -> ToDaemon {
        if let ToDaemon::Started(child) = word {
            self.known.child = Some(child);
            self.guarded.child = fds.pop();
        }
        word
    }

    /// A word that has come already. To be asked before the log is read: the holder tells of a new size, and of what a person
    /// typed, before it moves what the child made of it.
    pub fn word(&mut self) -> Option<ToDaemon> {
        loop {
            let link = self.link.get_mut();
            match link.next() {
                Ok(Some((Frame::Known(word), fds))) => return Some(self.heard(word, fds)),
                Ok(Some((Frame::Unknown { .. }, _))) => continue,
                Ok(None) => {}
                // Found to be so in its turn.
                Err(_) => return None,
            }
            let Ok(Filled::Some | Filled::Full) = link.fill() else {
                return None;
            };
        }
    }

    /// Lets the holder go and returns when its process has: its end of the connection closes behind its memory.
    pub async fn leave(mut self) {
        let gone = async {
            self.send(&ToHolder::Leave)?;
            loop {
                next(&mut self.link).await?;
            }
        };
        let _: Result<io::Result<()>, _> = timeout(LEAVE_TAKING, gone).await;
    }

    /// After a lost connection: the same holder again, or a new one in a dead one's place. The child notices nothing.
    pub async fn recover(&mut self) -> Result<Found, String> {
        let mut link = match self.place.connect() {
            Ok(link) => link,
            Err(error) if is_gone(&error) => {
                let child = self.place.with_holder(|holder| {
                    holder
                        .replace(&self.guarded, self.known)
                        .map_err(|error| error.to_string())
                })?;
                tracing::info!(pane = %self.place.pane, "its holder was gone; a new one took its place");
                reap(child);
                self.place.connect().map_err(|error| error.to_string())?
            }
            Err(error) => return Err(error.to_string()),
        };
        let (hello, guarded, grew) = match greet(&mut link, self.place.epoch).await {
            Ok(greeted) => greeted,
            Err(said) if said == FENCED => return Ok(Found::TakenOver),
            Err(said) => return Err(said),
        };
        self.grew = watched(grew, Interest::READABLE).map_err(|error| error.to_string())?;
        self.link = link;
        self.guarded = guarded;
        self.learn(&hello);
        Ok(Found::Again(hello))
    }
}

// A holder that a stopped machine or a debugger holds up must not hold up who closes its pane.
const LEAVE_TAKING: Duration = Duration::from_secs(2);
const FENCED: &str = "a newer daemon has this pane";

async fn greet(
    link: &mut AsyncFd<DaemonLink>,
    epoch: u64,
) -> Result<(HelloOk, Guarded, OwnedFd), String> {
    let lost = |error: io::Error| format!("its holder went away at once: {error}");
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
            let (guarded, grew) =
                Guarded::from_hello(&hello, fds).ok_or("its holder kept something back")?;
            Ok((hello, guarded, grew))
        }
        ToDaemon::Refused {
            reason: fugue_hold::wire::Refusal::Fenced,
            ..
        } => Err(FENCED.into()),
        ToDaemon::Refused { what, errno, .. } => {
            Err(format!("{what}: {}", io::Error::from_raw_os_error(errno)))
        }
        other => Err(format!("its holder said {other:?} instead of hello")),
    }
}

pub(crate) async fn next(link: &mut AsyncFd<DaemonLink>) -> io::Result<(ToDaemon, Vec<OwnedFd>)> {
    loop {
        match link
            .get_mut()
            .next()
            .map_err(|bad| io::Error::new(io::ErrorKind::InvalidData, format!("{bad:?}")))?
        {
            Some((Frame::Known(message), fds)) => return Ok((message, fds)),
            // A newer holder than we are; what it means is not for us.
            Some((Frame::Unknown { .. }, _)) => continue,
            None => {}
        }
        // Watched for room only while there is too little: else every word that the holder reads would wake us.
        let room = match link.get_ref().wants_write() {
            true => Some(watched(
                link.get_ref().as_fd().try_clone_to_owned()?,
                Interest::WRITABLE,
            )?),
            false => None,
        };
        let mut ready = tokio::select! {
            ready = link.readable_mut() => ready?,
            () = has_room(room.as_ref()) => {
                link.get_mut().flush()?;
                continue;
            }
        };
        match ready.get_inner_mut().fill()? {
            Filled::Some | Filled::Full => {}
            Filled::Empty => ready.clear_ready(),
            Filled::Closed => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

async fn has_room(link: Option<&AsyncFd<OwnedFd>>) {
    match link {
        // An error is found by whoever writes.
        Some(link) => _ = link.writable().await,
        None => std::future::pending().await,
    }
}

/// Returns when the log may have grown. The counter is taken before the log is looked at, so nothing is missed.
async fn counted(grew: &AsyncFd<OwnedFd>) {
    loop {
        let Ok(mut ready) = grew.readable().await else {
            return std::future::pending().await;
        };
        let mut counter = [0; 8];
        match ready.try_io(|grew| Ok(rustix::io::read(grew, &mut counter)?)) {
            // It is at zero now, and more makes it ready again.
            Ok(Ok(_)) => return ready.clear_ready(),
            Ok(Err(_)) => return std::future::pending().await,
            Err(_would_block) => {}
        }
    }
}

/// A holder is our child as long as we live, and must not stay a zombie when it leaves.
fn reap(child: Child) {
    tokio::task::spawn_local(async move {
        let Ok(pidfd) = child
            .pidfd
            .try_clone()
            .and_then(|pidfd| watched(pidfd, Interest::READABLE))
        else {
            return;
        };
        let _ = pidfd.readable().await;
        let _ = child.try_wait();
    });
}

fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound
    )
}
