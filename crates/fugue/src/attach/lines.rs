//! The lines to the panes in sight, on which pictures and keys take the shortest way.
//!
//! A line is a convenience: whatever can be asked on it can be asked on the client's own connection, and is, as long as
//! there is no line.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use fugue_api::{
    PaneId,
    attach::{Look, Role},
    wire::Ask,
};
use fugue_daemon::{
    client::{Client, Line},
    typist::Typist,
};
use tokio::sync::Mutex;

#[derive(Default)]
pub struct Lines {
    /// Empty while it is being opened, and where it was refused.
    lines: BTreeMap<PaneId, Arc<OnceLock<Open>>>,
}

struct Open {
    line: Arc<Line>,
    typist: Option<Arc<Mutex<Typist>>>,
}

impl Lines {
    /// The line on which to ask this, if there is one. A pane that has been seen gets one for the next time.
    pub fn of(&mut self, ask: &Ask, role: Role, client: &Client) -> Option<Arc<Line>> {
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
                let line = open.get().map(|open| open.line.clone());
                if line.as_ref().is_some_and(|line| line.is_gone()) {
                    self.lines.remove(&pane);
                    return None;
                }
                line
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
            let _ = open.set(Open {
                line: Arc::new(line),
                typist: typist.map(|typist| Arc::new(Mutex::new(typist))),
            });
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
