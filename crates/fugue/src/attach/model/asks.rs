//! What was asked and not yet answered, and asking all of it again when the daemon is another one.

use std::collections::BTreeMap;

use fugue_api::{
    PaneId,
    attach::{AttachRequest, SplitSide},
    tools::PaneSize,
    wire::{IdempotencyKey, Request},
};

use super::Effect;

/// One question of this client's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// What an answer is for.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {
    Attend,
    Arrangement,
    View(PaneId),
    Lines(PaneId),
    Grep(PaneId),
    Type(PaneId),
    News,
    Everything,
    /// What runs in it, for its title.
    Learn(PaneId),
    /// Where it is, for the pane that is to be made beside it.
    Whereabouts {
        of: PaneId,
        side: SplitSide,
    },
    Beside {
        made_by: IdempotencyKey,
        cwd: Option<String>,
    },
    Create,
    Close(PaneId),
    /// Only whether it was refused.
    Nothing,
    /// The new size, of which only the last counts.
    Fit,
}

pub struct Asks {
    /// Random, so that no key is ever another client's.
    base: u64,
    count: u64,
    open: BTreeMap<Ticket, Open>,
}

struct Open {
    key: IdempotencyKey,
    ask: Request,
    why: Why,
}

impl Asks {
    pub fn new(base: u64) -> Self {
        Self {
            base,
            count: 0,
            open: BTreeMap::new(),
        }
    }

    pub fn key(&mut self) -> IdempotencyKey {
        self.count += 1;
        let mut key = [0; 16];
        key[..8].copy_from_slice(&self.base.to_le_bytes());
        key[8..].copy_from_slice(&self.count.to_le_bytes());
        IdempotencyKey(key)
    }

    pub fn ask(&mut self, why: Why, ask: Request) -> Effect {
        let key = self.key();
        self.ask_as(key, why, ask)
    }

    pub fn ask_as(&mut self, key: IdempotencyKey, why: Why, ask: Request) -> Effect {
        self.count += 1;
        let ticket = Ticket(self.count);
        let effect = Effect::Ask {
            ticket,
            key,
            ask: ask.clone(),
        };
        self.open.insert(ticket, Open { key, ask, why });
        effect
    }

    pub fn look(&mut self, why: Why, look: AttachRequest) -> Effect {
        self.ask(why, Request::Look { look })
    }

    pub fn is_open(&self, is: impl Fn(&Why) -> bool) -> bool {
        self.open.values().any(|open| is(&open.why))
    }

    /// What this was for; nothing, if nobody wants to know any more.
    pub fn close(&mut self, ticket: Ticket) -> Option<Why> {
        self.open.remove(&ticket).map(|open| open.why)
    }

    /// Nobody wants the answers to these any more.
    pub fn forget(&mut self, is: impl Fn(&Why) -> bool) -> Vec<Effect> {
        let gone: Vec<Ticket> = self
            .open
            .iter()
            .filter(|(_, open)| is(&open.why))
            .map(|(ticket, _)| *ticket)
            .collect();
        gone.into_iter()
            .map(|ticket| {
                self.open.remove(&ticket);
                Effect::Forget(ticket)
            })
            .collect()
    }

    /// The room of the one who attends, for when it is asked again.
    pub fn refit(&mut self, to: PaneSize) {
        for open in self.open.values_mut() {
            if let Request::Look {
                look: AttachRequest::Attend { room, .. },
            } = &mut open.ask
            {
                *room = to;
            }
        }
    }

    /// Everything once more, with the same keys, so that nothing is done twice. A new daemon has shown us nothing yet.
    pub fn again(&mut self) -> Vec<Effect> {
        let all = self.open.iter_mut();
        all.map(|(ticket, open)| {
            if let Request::Look {
                look:
                    AttachRequest::Arrangement { seen, .. }
                    | AttachRequest::View { seen, .. }
                    | AttachRequest::News { seen },
            } = &mut open.ask
            {
                *seen = 0;
            }
            Effect::Ask {
                ticket: *ticket,
                key: open.key,
                ask: open.ask.clone(),
            }
        })
        .collect()
    }
}
