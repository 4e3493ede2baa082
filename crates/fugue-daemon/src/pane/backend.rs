//! The backend of a pane: a holder that fugue started, or a person's tmux. Both exchange the messages of the holder
//! protocol with the pane's task.

use std::{io, path::PathBuf};

use fugue_api::PaneId;
use fugue_holder::{
    record::ExitRecord,
    wire::{HelloOk, ProcessIdentity, ToDaemon, ToHolder},
};

use super::{
    holder::HolderBackend,
    tmux_listener::{TmuxBackend, TmuxTarget},
};

pub enum PaneBackend {
    Holder(Box<HolderBackend>),
    Tmux(Box<TmuxBackend>),
}

/// The directory of a pane, and the fencing numbers of its holder.
#[derive(Clone)]
pub struct PaneDir {
    pub pane: PaneId,
    pub dir: PathBuf,
    pub epoch: u64,
    /// Counts the children of the pane: a shell that is started again has the next number.
    pub generation: u32,
}

/// An event from the backend.
pub enum BackendEvent {
    /// The log may have grown.
    Grew,
    Message(ToDaemon),
}

/// The outcome of looking for a pane's backend, at adoption and after a lost connection.
pub enum Adoption {
    /// The holder and the child are proved to be gone.
    Dead,
    /// The backend answered the greeting: the same one, or a replacement with everything that the dead one had but
    /// unacknowledged input.
    Answered(PaneBackend, HelloOk),
    /// Nothing is proved. The pane is kept and looked for again.
    Unreachable(Unreachable),
}

/// Why a backend cannot be reached, and what the next attempt can use.
pub struct Unreachable {
    pub why: String,
    /// A child that runs on although its holder is gone. Its end is an event to wait for.
    pub child: Option<ProcessIdentity>,
    /// The backend that was lost, with the fds that a replacement holder gets.
    pub backend: Option<PaneBackend>,
}

impl Unreachable {
    pub fn because(why: impl Into<String>) -> Self {
        Self {
            why: why.into(),
            child: None,
            backend: None,
        }
    }

    /// Adds a lost backend that may be recovered.
    pub fn with(mut self, backend: PaneBackend) -> Self {
        self.backend = Some(backend);
        self
    }
}

impl PaneBackend {
    /// Starts a holder that has a terminal and no child yet.
    pub async fn start(pane_dir: PaneDir) -> Result<Self, String> {
        let holder = HolderBackend::start(pane_dir).await?;
        Ok(Self::Holder(Box::new(holder)))
    }

    /// Connects to a holder that tmux has started.
    pub async fn connect(pane_dir: PaneDir) -> Result<Self, String> {
        let holder = HolderBackend::connect(pane_dir).await?;
        Ok(Self::Holder(Box::new(holder)))
    }

    /// Looks for the holder that an earlier daemon started.
    pub async fn find(pane_dir: PaneDir) -> Adoption {
        HolderBackend::find(pane_dir).await
    }

    /// Attaches to a pane of a person's own tmux.
    pub async fn attach_tmux(target: TmuxTarget) -> Adoption {
        match TmuxBackend::find(target).await {
            Ok(Some((listener, hello))) => {
                Adoption::Answered(Self::Tmux(Box::new(listener)), hello)
            }
            Ok(None) => Adoption::Dead,
            Err(why) => Adoption::Unreachable(Unreachable::because(why)),
        }
    }

    /// The offset up to which terminal queries in the output have been answered.
    pub fn answered_upto(&self) -> u64 {
        match self {
            Self::Holder(holder) => holder.answered_upto(),
            // tmux is the terminal, and answers queries itself.
            Self::Tmux(_) => u64::MAX,
        }
    }

    /// The recorded exit of the child.
    pub fn recorded_exit(&self) -> Option<ExitRecord> {
        match self {
            Self::Holder(holder) => holder.recorded_exit(),
            Self::Tmux(listener) => listener.recorded_exit(),
        }
    }

    /// A sequence number for an input.
    pub fn next_seq(&mut self) -> u64 {
        match self {
            Self::Holder(holder) => holder.next_seq(),
            Self::Tmux(listener) => listener.next_seq(),
        }
    }

    pub fn send(&mut self, message: &ToHolder) -> io::Result<()> {
        match self {
            Self::Holder(holder) => holder.send(message),
            Self::Tmux(listener) => {
                listener.send(message);
                Ok(())
            }
        }
    }

    /// A message that has arrived already, for a task that is about to read the log.
    pub fn poll_message(&mut self) -> Option<ToDaemon> {
        match self {
            Self::Holder(holder) => holder.poll_message(),
            // The tmux backend writes the log itself, in the order of its messages.
            Self::Tmux(_) => None,
        }
    }

    /// Waits for the next event. An error means a lost connection. Cancel safe.
    pub async fn next_event(&mut self) -> io::Result<BackendEvent> {
        match self {
            Self::Holder(holder) => holder.next_event().await,
            Self::Tmux(listener) => listener.next_event().await,
        }
    }

    /// Releases the backend, and returns when none of its processes is left.
    pub async fn leave(self) {
        match self {
            Self::Holder(holder) => holder.leave().await,
            Self::Tmux(_) => {}
        }
    }

    /// After a lost connection: the same backend again, or a replacement for a holder that is proved to be dead. The child
    /// notices nothing.
    pub async fn recover(self) -> Adoption {
        match self {
            Self::Holder(holder) => holder.recover().await,
            Self::Tmux(mut listener) => match listener.recover().await {
                Ok(hello) => Adoption::Answered(Self::Tmux(listener), hello),
                Err(why) => {
                    Adoption::Unreachable(Unreachable::because(why).with(Self::Tmux(listener)))
                }
            },
        }
    }

    /// Why a backend that is connected does not answer.
    pub fn silence_reason(&self) -> &'static str {
        match self {
            Self::Holder(holder) => holder.silence_reason(),
            Self::Tmux(_) => "tmux does not answer",
        }
    }
}
