//! The lines to the panes in sight, on which pictures and keys take the shortest way.
//!
//! A line is a convenience: whatever can be asked on it can be asked on the client's own connection, and is, as long as
//! there is no line.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use fugue_api::{
    Error, PaneId,
    attach::{Look, Role},
    wire::{Answer, Ask, Key},
};
use fugue_daemon::{
    client::{Client, Line, Views},
    typist::Typist,
};
use tokio::sync::Mutex;

#[derive(Default)]
pub struct Lines {
    /// Empty while it is being opened, and where it was refused.
    lines: BTreeMap<PaneId, Arc<OnceLock<Arc<Open>>>>,
}

/// One of them.
pub struct Open {
    line: Line,
    typist: Option<Arc<Mutex<Typist>>>,
    /// The frames that come on it.
    views: Mutex<Option<Views>>,
}

impl Open {
    /// `None`: the line is gone, and whether the question arrived is not known. Asked elsewhere with the same key,
    /// nothing is done twice.
    pub async fn ask_as(&self, key: Key, ask: Ask) -> Option<Result<Answer, Error>> {
        let Ask::Look {
            look: Look::View { client, seen, .. },
        } = ask
        else {
            return self.line.ask_as(key, ask).await;
        };
        // One frame of a pane is asked for at a time.
        let mut views = self.views.lock().await;
        if !views.as_ref().is_some_and(|views| views.go_on_from(seen)) {
            *views = Some(self.line.views(key, client, seen).await?);
        }
        views.as_mut()?.next().await
    }
}

impl Lines {
    /// The line on which to ask this, if there is one. A pane that has been seen gets one for the next time.
    pub fn of(&mut self, ask: &Ask, role: Role, client: &Client) -> Option<Arc<Open>> {
        let (pane, seen) = match ask {
            Ask::Look {
                look: Look::View { pane, seen, .. },
            } => (*pane, *seen > 0),
            Ask::Look {
                look: Look::Type { pane, .. },
            } => (*pane, false),
            _ => return None,
        };
        match self.lines.get(&pane) {
            Some(open) => {
                let open = open.get().cloned();
                if open.as_ref().is_some_and(|open| open.line.is_gone()) {
                    self.lines.remove(&pane);
                    return None;
                }
                open
            }
            None if seen => {
                self.open(pane, role, client.clone());
                None
            }
            None => None,
        }
    }

    /// Who types for a person in this pane, without asking the daemon.
    pub fn typist(&self, pane: PaneId) -> Option<Arc<Mutex<Typist>>> {
        self.lines.get(&pane)?.get()?.typist.clone()
    }

    fn open(&mut self, pane: PaneId, role: Role, client: Client) {
        let open = Arc::new(OnceLock::new());
        self.lines.insert(pane, open.clone());
        tokio::spawn(async move {
            let Some(line) = client.line(pane, role).await else {
                return;
            };
            let typist = match role {
                Role::Hands => client.typist(pane).await,
                Role::Eyes => None,
            };
            let _ = open.set(Arc::new(Open {
                line,
                typist: typist.map(|typist| Arc::new(Mutex::new(typist))),
                views: Mutex::default(),
            }));
        });
    }

    /// This one's is of no use any more.
    pub fn close(&mut self, pane: PaneId) {
        self.lines.remove(&pane);
    }

    /// Those of other panes are closed.
    pub fn keep(&mut self, in_sight: impl Fn(PaneId) -> bool) {
        self.lines.retain(|pane, _| in_sight(*pane));
    }
}
