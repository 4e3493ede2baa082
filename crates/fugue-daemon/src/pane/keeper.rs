//! Who keeps a pane for its task: a holder of ours, or somebody's tmux that we listen to. Both speak the same words.

use std::{io, path::PathBuf};

use fugue_api::PaneId;
use fugue_hold::{
    record::ExitRecord,
    wire::{HelloOk, ToDaemon, ToHolder},
};

use super::{
    holder::Holder,
    listener::{Listener, Whose},
};

pub enum Keeper {
    Holder(Box<Holder>),
    Listener(Box<Listener>),
}

/// Where a pane's holder is to be found.
pub struct Place {
    pub pane: PaneId,
    pub dir: PathBuf,
    pub epoch: u64,
    /// A shell that is started again in its pane is the next one.
    pub generation: u32,
}

/// What a keeper lets us know.
pub enum Event {
    /// The log may have grown.
    Grew,
    Word(ToDaemon),
}

/// What became of a lost keeper.
pub enum Found {
    /// The same one, or a new one that has taken its place, with everything the old one had but unacknowledged input.
    Again(HelloOk),
    /// A newer daemon has it.
    TakenOver,
}

impl Keeper {
    /// Starts a holder that has a terminal and no child yet.
    pub async fn start(place: Place) -> Result<Self, String> {
        let holder = Holder::start(place).await?;
        Ok(Self::Holder(Box::new(holder)))
    }

    /// A holder that has been started, and listens.
    pub async fn met(place: Place) -> Result<Self, String> {
        let holder = Holder::met(place).await?;
        Ok(Self::Holder(Box::new(holder)))
    }

    /// Finds the holder that an earlier daemon started. `None`: no holder lives.
    pub async fn find(place: Place) -> Result<Option<(Self, HelloOk)>, String> {
        let found = Holder::find(place).await?;
        Ok(found.map(|(holder, hello)| (Self::Holder(Box::new(holder)), hello)))
    }

    /// Listens to a pane that is somebody's own in tmux. `None`: it is gone.
    pub async fn listen(whose: Whose) -> Result<Option<(Self, HelloOk)>, String> {
        let found = Listener::find(whose).await?;
        Ok(found.map(|(listener, hello)| (Self::Listener(Box::new(listener)), hello)))
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
    pub fn word(&mut self) -> Option<ToDaemon> {
        match self {
            Self::Holder(holder) => holder.word(),
            // It writes the log by itself, in the order of its words.
            Self::Listener(_) => None,
        }
    }

    /// What happens next. An error: the connection is lost. Nothing is lost when this is cancelled.
    pub async fn event(&mut self) -> io::Result<Event> {
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

    /// After a lost connection: the same one again, or one in a dead one's place. The child notices nothing.
    pub async fn recover(&mut self) -> Result<Found, String> {
        match self {
            Self::Holder(holder) => holder.recover().await,
            Self::Listener(listener) => listener.recover().await.map(Found::Again),
        }
    }
}
