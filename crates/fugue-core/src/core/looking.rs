//! Those who look on: who attends which session, how its panes lie for them, and what is new.
//!
//! What a pane shows is its own task's business; here is only who sees it and in how much room.

mod arranging;
mod news;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, VecDeque};

use fugue_api::{
    Error, Kind, PaneId, SessionName,
    attach::{Arrange, ClientId, Look, Looked, Role, Side},
    panes::{PaneSize, StateBy},
    wire::{Answer, Key},
};

use super::{Core, Phase, rows::ended_state};
use crate::{CallId, Effect, PaneQuestion, Snapshot, layout::Layout, names::resolve};
use arranging::Arranged;
use news::News;

// A client that asks where new panes go, and then makes none, is forgotten.
const MOST_BESIDES: usize = 64;
// What a pane gets that nobody has looked at yet.
const USUAL_ROOM: PaneSize = PaneSize { rows: 24, cols: 80 };

/// Who looks on, and at what.
#[derive(Default)]
pub(super) struct Looking {
    /// The version that was given out last; no two states of any session have the same.
    version: u64,
    sessions: BTreeMap<SessionName, Arranged>,
    attending: Vec<Attending>,
    /// Where panes go that are about to be made.
    besides: VecDeque<Beside>,
    /// What agents were said to ask, to panes that somebody looks at.
    said: HashMap<PaneId, StateBy>,
    news: News,
    /// Something has changed that no commit tells of.
    stale: bool,
}

/// One client that looks at a session, for as long as its call is open.
struct Attending {
    call: CallId,
    client: ClientId,
    session: SessionName,
    room: PaneSize,
    role: Role,
}

struct Beside {
    made_by: Key,
    of: PaneId,
    side: Side,
}

impl Looking {
    pub(super) fn restored(snapshot: &mut Snapshot) -> Self {
        // Above all that an earlier daemon told, so that whoever saw that sees what is now.
        let version = snapshot.epoch << 32;
        let sessions = std::mem::take(&mut snapshot.arrangements)
            .into_iter()
            .map(|record| (record.session.clone(), Arranged::restored(record)))
            .collect();
        Self {
            version,
            sessions,
            news: News::from(version),
            stale: true,
            ..Self::default()
        }
    }

    /// Something is not as it was, and no commit says so.
    pub(super) fn is_stale(&mut self) {
        self.stale = true;
    }

    /// How much room a session has: the smallest of those who have their hands in it rules.
    fn room(&self, session: &SessionName) -> PaneSize {
        let last = self.sessions.get(session).and_then(|known| known.room);
        self.smallest(session, Role::Hands)
            .or(last)
            .or_else(|| self.smallest(session, Role::Eyes))
            .unwrap_or(USUAL_ROOM)
    }

    fn smallest(&self, session: &SessionName, role: Role) -> Option<PaneSize> {
        let rooms = self.at(session).filter(|one| one.role == role);
        rooms.map(|one| one.room).reduce(|one, other| PaneSize {
            rows: one.rows.min(other.rows),
            cols: one.cols.min(other.cols),
        })
    }

    fn at(&self, session: &SessionName) -> impl Iterator<Item = &Attending> {
        self.attending
            .iter()
            .filter(move |one| one.session == *session)
    }
}

impl Core {
    pub(super) fn look(
        &mut self,
        call: CallId,
        key: Key,
        look: Look,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Error> {
        match look {
            Look::Attend {
                client,
                session,
                room,
                role,
            } => {
                let attending = Attending {
                    call,
                    client,
                    session,
                    room,
                    role,
                };
                self.attend(attending, effects);
                Ok(())
            }
            Look::Fit { client, room } => self.fit(call, client, room, effects),
            Look::Arrangement { session, seen } => {
                self.lay_out(&session, effects);
                self.await_arrangement(call, &session, seen, effects);
                Ok(())
            }
            Look::Arrange { session, change } => self.arrange(call, &session, change, effects),
            Look::View { client, pane, seen } => {
                let pane = self.known(pane)?;
                let question = PaneQuestion::View {
                    client,
                    seen,
                    says: self.agent_says(pane).map(Box::new),
                    ended: self.how_ended(pane).map(Box::new),
                };
                self.ask(call, pane, question, effects)
            }
            Look::Views { .. } => Err(Error::invalid("frames follow each other on a line only")),
            Look::Line { pane, role } => {
                let pane = self.known(pane)?;
                self.live(pane)?;
                let says = self.agent_says(pane).map(Box::new);
                self.ask(call, pane, PaneQuestion::Line { role, says }, effects)
            }
            Look::Lines { pane, from, most } => {
                let pane = self.known(pane)?;
                self.ask(call, pane, PaneQuestion::Lines { from, most }, effects)
            }
            Look::Type {
                client,
                pane,
                bytes,
            } => {
                let pane = self.known(pane)?;
                let mut all = self.looking.attending.iter();
                if all.any(|one| one.client == client && one.role == Role::Eyes) {
                    return Err(Error::invalid(
                        "this client only looks on, and types nothing",
                    ));
                }
                self.live(pane)?;
                self.ask(call, pane, PaneQuestion::Type { bytes, key }, effects)
            }
            Look::News { seen } => {
                self.looking.news.wait(call, seen, effects);
                Ok(())
            }
        }
    }

    fn known(&self, pane: PaneId) -> Result<PaneId, Error> {
        resolve(&pane.to_string(), self.records())
    }

    fn how_ended(&self, pane: PaneId) -> Option<StateBy> {
        let pane = self.panes.get(&pane)?;
        pane.record.ended.as_ref().map(ended_state)
    }

    fn attend(&mut self, new: Attending, effects: &mut Vec<Effect>) {
        // The same client looks elsewhere now, or from another place.
        let (older, others) = std::mem::take(&mut self.looking.attending)
            .into_iter()
            .partition(|one| one.client == new.client);
        self.looking.attending = others;
        let session = new.session.clone();
        self.looking.attending.push(new);
        self.lay_out(&session, effects);
        for one in older {
            effects.push(noted(one.call));
            if one.session != session {
                self.lay_out(&one.session, effects);
            }
        }
    }

    fn fit(
        &mut self,
        call: CallId,
        client: ClientId,
        room: PaneSize,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Error> {
        let mut all = self.looking.attending.iter_mut();
        let Some(one) = all.find(|one| one.client == client) else {
            return Err(Error::new(Kind::NotFound, "this client looks at nothing")
                .hint("attend a session first"));
        };
        one.room = room;
        let session = one.session.clone();
        self.lay_out(&session, effects);
        effects.push(noted(call));
        Ok(())
    }

    fn arrange(
        &mut self,
        call: CallId,
        session: &SessionName,
        change: Arrange,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Error> {
        // Nothing is changed before it is known that it can be.
        let tiles = self.tiles(session);
        let room = self.looking.room(session);
        let tile = |pane: PaneId| match tiles.contains(&pane) {
            true => Ok(pane),
            false => Err(Error::new(
                Kind::NotFound,
                format!("pane `{pane}` has no place in session `{}`", session.0),
            )),
        };
        let known = self.looking.sessions.get(session);
        let own = known.and_then(|known| known.own.clone());
        let mut layout = own.unwrap_or_else(|| Layout::tiled(&tiles, room));
        let (own, zoomed) = match change {
            Arrange::Beside { made_by, of, side } => {
                tile(of)?;
                let is_made = |pane: &PaneId| {
                    let record = self.panes.get(pane).map(|pane| &pane.record);
                    *pane != of && record.is_some_and(|record| record.made_by == made_by)
                };
                let made = tiles.iter().copied().find(is_made);
                match made {
                    Some(made) => {
                        layout.remove(made);
                        layout.beside(made, of, side);
                    }
                    None => {
                        let besides = &mut self.looking.besides;
                        besides.retain(|beside| beside.made_by != made_by);
                        besides.truncate(MOST_BESIDES - 1);
                        besides.push_front(Beside { made_by, of, side });
                    }
                }
                (Some(layout), None)
            }
            Arrange::Push { pane, side, by } => {
                tile(pane)?;
                layout.push(pane, side, by, room).map_err(|_| {
                    Error::invalid(format!("that edge of pane `{pane}` cannot be pushed"))
                })?;
                (Some(layout), None)
            }
            Arrange::Swap { one, other } => {
                layout.swap(tile(one)?, tile(other)?);
                (Some(layout), None)
            }
            Arrange::Zoom { pane } => {
                let own = known.and_then(|known| known.own.clone());
                (own, pane.map(tile).transpose()?)
            }
            Arrange::Tiled => (None, None),
        };
        let known = self.looking.sessions.entry(session.clone()).or_default();
        (known.own, known.zoomed) = (own, zoomed);
        self.lay_out(session, effects);
        effects.push(noted(call));
        Ok(())
    }

    /// A client has gone, or has called something off.
    pub(super) fn forget_look(&mut self, gone: CallId, effects: &mut Vec<Effect>) {
        self.looking.news.forget(gone);
        for known in self.looking.sessions.values_mut() {
            known.waiting.retain(|call| *call != gone);
        }
        let place = self
            .looking
            .attending
            .iter()
            .position(|one| one.call == gone);
        if let Some(place) = place {
            let one = self.looking.attending.remove(place);
            self.lay_out(&one.session, effects);
        }
    }

    /// After each step: whatever has changed is looked at again, and told to those who wait.
    pub(super) fn look_again(&mut self, effects: &mut Vec<Effect>) {
        let changed = self.looking.news.changes(effects);
        if std::mem::take(&mut self.looking.stale) || changed.panes {
            let sessions: Vec<SessionName> = self.looking.sessions.keys().cloned().collect();
            for session in sessions {
                self.lay_out(&session, effects);
            }
            self.forget_sessions();
        }
        if changed.workers {
            self.tell_what_agents_say(effects);
        }
        if changed.rows {
            self.looking.news.tell(effects);
        }
    }

    /// What an agent says of itself, if it waits for a person.
    fn agent_says(&self, pane: PaneId) -> Option<StateBy> {
        use fugue_api::panes::State;
        let asks = self.agent_asks(pane)?;
        Some(StateBy {
            prompt: Some(asks.prompt),
            ..StateBy::new(State::NeedsInput, asks.by)
        })
    }

    /// Those who look at an agent's pane see at once that it asks something.
    fn tell_what_agents_say(&mut self, effects: &mut Vec<Effect>) {
        let looked_at: Vec<PaneId> = self
            .panes
            .values()
            .filter(|pane| pane.record.agent.is_some())
            .filter(|pane| matches!(pane.phase, Phase::Live | Phase::Settling { .. }))
            .filter(|pane| self.looking.at(&pane.record.session).next().is_some())
            .map(|pane| pane.record.id)
            .collect();
        self.looking.said.retain(|pane, _| looked_at.contains(pane));
        for pane in looked_at {
            let says = self.agent_says(pane);
            if self.looking.said.get(&pane) == says.as_ref() {
                continue;
            }
            match says.clone() {
                Some(says) => self.looking.said.insert(pane, says),
                None => self.looking.said.remove(&pane),
            };
            effects.push(Effect::AgentSays { pane, says });
        }
    }
}

fn noted(call: CallId) -> Effect {
    Effect::Answer {
        call,
        answer: Ok(Answer::Noted),
    }
}

fn looked(call: CallId, found: Looked) -> Effect {
    Effect::Answer {
        call,
        answer: Ok(Answer::Looked { found }),
    }
}
