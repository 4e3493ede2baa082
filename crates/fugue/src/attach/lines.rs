//! The lines to the panes in sight, on which pictures and keys take the shortest way.
//!
//! A line is a convenience: whatever can be asked on it can be asked on the client's own connection, and is, as long as
//! there is no line.

use std::{
    collections::BTreeMap,
    io,
    os::fd::OwnedFd,
    sync::{Arc, OnceLock},
    time::Duration,
};

use fugue_api::{
    Error, PaneId,
    attach::{Look, Role},
    wire::{Answer, Ask, Key},
};
use fugue_daemon::{
    client::{Client, Line, Views},
    mirror::{Glimpse, Lost, Mirror},
    typist::Typist,
};
use tokio::{
    sync::{Mutex, mpsc},
    task::{AbortHandle, JoinHandle},
    time::Instant,
};

use super::model::Input;

#[derive(Default)]
pub struct Lines {
    /// Empty while it is being opened, and where it was refused.
    lines: BTreeMap<PaneId, Arc<OnceLock<Arc<Open>>>>,
    /// The pane that was typed into last.
    mirrored: Option<(PaneId, Mirrored)>,
}

enum Mirrored {
    Opening(JoinHandle<Result<Mirror, Lost>>),
    Open(Box<Mirror>),
    /// More was printed than could be followed.
    Lost(Instant),
}

// A program that prints more than can be followed here is likely to go on.
const FOLLOWED_AGAIN: Duration = Duration::from_secs(1);

struct Open {
    line: Line,
    typist: Option<Arc<Mutex<Typist>>>,
    /// Waits for the end of the typist's connection.
    disconnect: Option<AbortHandle>,
    /// The frames that come on it.
    views: Mutex<Option<Views>>,
}

impl Drop for Open {
    fn drop(&mut self) {
        if let Some(disconnect) = &self.disconnect {
            disconnect.abort();
        }
    }
}

/// One of them, for one question.
pub struct OnLine {
    open: Arc<Open>,
    mirrored: bool,
}

impl OnLine {
    /// `None`: the line is gone, and whether the question arrived is not known. Asked elsewhere with the same key,
    /// nothing is done twice.
    pub async fn ask_as(&self, key: Key, ask: Ask) -> Option<Result<Answer, Error>> {
        let Open { line, views, .. } = &*self.open;
        let Ask::Look {
            look: Look::View { client, seen, .. },
        } = ask
        else {
            return line.ask_as(key, ask).await;
        };
        // One frame of a pane is asked for at a time.
        let mut views = views.lock().await;
        if !views.as_ref().is_some_and(|views| views.go_on_from(seen)) {
            *views = Some(line.views(key, client, seen, self.mirrored).await?);
        }
        views.as_mut()?.next().await
    }
}

impl Lines {
    /// The line on which to ask this, if there is one. A pane that has been seen gets one for the next time.
    pub fn of(
        &mut self,
        ask: &Ask,
        role: Role,
        client: &Client,
        tell: &mpsc::Sender<Input>,
    ) -> Option<OnLine> {
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
                let open = open.get()?.clone();
                if open.line.is_gone() {
                    self.close(pane);
                    return None;
                }
                let mirrored = self.is_mirrored(pane);
                Some(OnLine { open, mirrored })
            }
            None if seen => {
                self.open(pane, role, client.clone(), tell.clone());
                None
            }
            None => None,
        }
    }

    /// Who types for a person in this pane, without asking the daemon.
    pub fn typist(&self, pane: PaneId) -> Option<Arc<Mutex<Typist>>> {
        self.lines.get(&pane)?.get()?.typist.clone()
    }

    fn open(&mut self, pane: PaneId, role: Role, client: Client, tell: mpsc::Sender<Input>) {
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
            let disconnect = typist.as_ref().and_then(|typist| typist.lost().ok());
            let typist = typist.map(|typist| Arc::new(Mutex::new(typist)));
            let disconnect = typist.clone().zip(disconnect).map(|(typist, lost)| {
                let told = async move {
                    lost.wait().await;
                    let inputs = typist.lock().await.unacknowledged();
                    if inputs > 0 {
                        let _ = tell.send(Input::KeysLost { pane, inputs }).await;
                    }
                };
                tokio::spawn(told).abort_handle()
            });
            let _ = open.set(Arc::new(Open {
                line,
                typist,
                disconnect,
                views: Mutex::default(),
            }));
        });
    }

    /// This pane is typed into: whoever shows it reads along. `grew` is bumped when there is something to read.
    pub fn mirror(
        &mut self,
        pane: PaneId,
        client: &Client,
        grew: impl FnOnce() -> io::Result<OwnedFd>,
    ) {
        match &self.mirrored {
            Some((of, Mirrored::Opening(_) | Mirrored::Open(_))) if *of == pane => return,
            Some((of, Mirrored::Lost(at))) if *of == pane && at.elapsed() < FOLLOWED_AGAIN => {
                return;
            }
            Some(_) | None => {}
        }
        let opening = grew().map(|grew| Mirrored::Opening(client.mirror(pane, grew)));
        self.mirrored = opening.ok().map(|opening| (pane, opening));
    }

    fn is_mirrored(&self, pane: PaneId) -> bool {
        matches!(&self.mirrored, Some((of, Mirrored::Open(_))) if *of == pane)
    }

    /// Waits until the pane that is read along has printed something.
    pub async fn grew(&mut self) {
        if let Some((_, mirrored)) = &mut self.mirrored
            && let Mirrored::Opening(opening) = mirrored
        {
            *mirrored = match opening.await {
                Ok(Ok(mirror)) => Mirrored::Open(Box::new(mirror)),
                Ok(Err(Lost)) | Err(_) => Mirrored::Lost(Instant::now()),
            };
        }
        match &mut self.mirrored {
            Some((_, Mirrored::Open(mirror))) => mirror.grew().await,
            Some(_) | None => std::future::pending().await,
        }
    }

    /// What is to be seen there by now; `shown` says how much of its log was.
    pub fn glimpse(
        &mut self,
        shown: impl FnOnce(PaneId) -> Option<u64>,
    ) -> Option<(PaneId, Glimpse)> {
        let (pane, mirrored) = self.mirrored.as_mut()?;
        let Mirrored::Open(mirror) = mirrored else {
            return None;
        };
        match mirror.look(shown(*pane)?) {
            Ok(seen) => Some((*pane, seen?)),
            Err(Lost) => {
                *mirrored = Mirrored::Lost(Instant::now());
                None
            }
        }
    }

    /// This one's is of no use any more.
    pub fn close(&mut self, pane: PaneId) {
        self.lines.remove(&pane);
        self.mirrored.take_if(|(of, _)| *of == pane);
    }

    /// Those of other panes are closed.
    pub fn keep(&mut self, in_sight: impl Fn(PaneId) -> bool) {
        self.lines.retain(|pane, _| in_sight(*pane));
        self.mirrored.take_if(|(of, _)| !in_sight(*of));
    }
}
