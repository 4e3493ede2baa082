//! Who keeps a pane for its task: a holder of ours, or somebody's tmux that we listen to. Both speak the same words.

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
    Listener(Box<TmuxBackend>),
}

/// Where a pane's holder is to be found.
#[derive(Clone)]
pub struct PaneDir {
    pub pane: PaneId,
    pub dir: PathBuf,
    pub epoch: u64,
    /// A shell that is started again in its pane is the next one.
    pub generation: u32,
}

/// What a backend lets us know.
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

    /// The same, where a lost backend may still be recovered.
    pub fn with(mut self, backend: PaneBackend) -> Self {
        self.backend = Some(backend);
        self
    }
}

impl PaneBackend {
    /// Starts a holder that has a terminal and no child yet.
    pub async fn start(place: PaneDir) -> Result<Self, String> {
        let holder = HolderBackend::start(place).await?;
        Ok(Self::Holder(Box::new(holder)))
    }

    /// A holder that has been started, and listens.
    pub async fn connect(place: PaneDir) -> Result<Self, String> {
        let holder = HolderBackend::met(place).await?;
        Ok(Self::Holder(Box::new(holder)))
    }

    /// Looks for the holder that an earlier daemon started.
    pub async fn find(place: PaneDir) -> Adoption {
        HolderBackend::find(place).await
    }

    /// Listens to a pane that is somebody's own in tmux.
    pub async fn attach_tmux(whose: TmuxTarget) -> Adoption {
        match TmuxBackend::find(whose).await {
            Ok(Some((listener, hello))) => {
                Adoption::Answered(Self::Listener(Box::new(listener)), hello)
            }
            Ok(None) => Adoption::Dead,
            Err(why) => Adoption::Unreachable(Unreachable::because(why)),
        }
    }

    /// Up to where in the output a terminal's questions have been answered.
    pub fn answered_upto(&self) -> u64 {
        match self {
            Self::Holder(holder) => holder.answered_upto(),
            // tmux is the terminal, and answers for itself.
            Self::Listener(_) => u64::MAX,
        }
    }

    /// How the process ended, if that is written down.
    pub fn recorded_exit(&self) -> Option<ExitRecord> {
        match self {
            Self::Holder(holder) => holder.recorded_exit(),
            Self::Listener(listener) => listener.recorded_exit(),
        }
    }

    /// A number for an input, used once.
    pub fn next_seq(&mut self) -> u64 {
        match self {
            Self::Holder(holder) => holder.next_seq(),
            Self::Listener(listener) => listener.next_seq(),
        }
    }

    pub fn send(&mut self, message: &ToHolder) -> io::Result<()> {
        match self {
            Self::Holder(holder) => holder.send(message),
            Self::Listener(listener) => {
                listener.send(message);
                Ok(())
            }
        }
    }

    /// A word that has come already, to be asked before the log is read.
    pub fn poll_message(&mut self) -> Option<ToDaemon> {
        match self {
            Self::Holder(holder) => holder.word(),
            // It writes the log by itself, in the order of its words.
            Self::Listener(_) => None,
        }
    }

    /// What happens next. An error: the connection is lost. Nothing is lost when this is cancelled.
    pub async fn next_event(&mut self) -> io::Result<BackendEvent> {
        match self {
            Self::Holder(holder) => holder.event().await,
            Self::Listener(listener) => listener.event().await,
        }
    }

    /// Lets it go, and returns when no process of ours is left of it.
    pub async fn leave(self) {
        match self {
            Self::Holder(holder) => holder.leave().await,
            Self::Listener(_) => {}
        }
    }

    /// After a lost connection: the same backend again, or a replacement for a holder that is proved to be dead. The child
    /// notices nothing.
    pub async fn recover(self) -> Adoption {
        match self {
            Self::Holder(holder) => holder.recover().await,
            Self::Listener(mut listener) => match listener.recover().await {
                Ok(hello) => Adoption::Answered(Self::Listener(listener), hello),
                Err(why) => {
                    Adoption::Unreachable(Unreachable::because(why).with(Self::Listener(listener)))
                }
            },
        }
    }

    /// Why a backend that is connected does not answer.
    pub fn silence_reason(&self) -> &'static str {
        match self {
            Self::Holder(holder) => holder.silence(),
            Self::Listener(_) => "tmux does not answer",
        }
    }
}
