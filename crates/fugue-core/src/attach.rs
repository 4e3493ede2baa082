//! Those who look on: who attends which session, how its panes lie for them, and what is new.
//!
//! What a pane shows is its own task's business; here is only who sees it and in how much room.

pub mod layout;
mod overview;
pub(crate) mod record;
mod session_layout;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, VecDeque};

use fugue_api::{
    Error, ErrorKind, PaneId, SessionName,
    attach::{AttachRequest, AttachResponse, ClientId, LayoutChange, SplitSide, ViewerRole},
    panes::{PaneSize, SourcedState},
    wire::{IdempotencyKey, Response},
};

use crate::{
    CallId, Core, Effect, PaneRequest, StoreSnapshot,
    calls::plan::{Plan, Planner},
    context::Context,
    layout::SplitLayout,
    panes::{PaneEntry, PanePhase, replies::ended_state},
};
use overview::OverviewVersion;
use session_layout::SessionViewers;

// A client that asks where new panes go, and then makes none, is forgotten.
const MOST_BESIDES: usize = 64;
// What a pane gets that nobody has looked at yet.
const USUAL_ROOM: PaneSize = PaneSize { rows: 24, cols: 80 };

/// Who looks on, and at what.
#[derive(Default, Debug)]
pub(crate) struct AttachState {
    /// The version that was given out last; no two states of any session have the same.
    version: u64,
    sessions: BTreeMap<SessionName, SessionViewers>,
    attending: Vec<Viewer>,
    /// Where panes go that are about to be made.
    besides: VecDeque<PendingTile>,
    /// What agents were said to ask, to panes that somebody looks at.
    said: HashMap<PaneId, SourcedState>,
    news: OverviewVersion,
    /// Something has changed that no commit tells of.
    stale: bool,
}

/// One client that looks at a session, for as long as its call is open.
#[derive(Debug)]
struct Viewer {
    call: CallId,
    client: ClientId,
    session: SessionName,
    room: PaneSize,
    role: ViewerRole,
}

#[derive(Debug)]
struct PendingTile {
    made_by: IdempotencyKey,
    of: PaneId,
    side: SplitSide,
}

impl AttachState {
    pub(crate) fn restored(snapshot: &mut StoreSnapshot) -> Self {
        // Above all that an earlier daemon told, so that whoever saw that sees what is now.
        let version = snapshot.epoch << 32;
        let sessions = std::mem::take(&mut snapshot.arrangements)
            .into_iter()
            .map(|record| (record.session.clone(), SessionViewers::restored(record)))
            .collect();
        Self {
            version,
            sessions,
            news: OverviewVersion::from(version),
            stale: true,
            ..Self::default()
        }
    }

    /// Something is not as it was, and no commit says so.
    pub(crate) fn is_stale(&mut self) {
        self.stale = true;
    }

    /// How much room a session has: the smallest of those who have their hands in it rules.
    fn room(&self, session: &SessionName) -> PaneSize {
        let last = self.sessions.get(session).and_then(|known| known.room);
        self.smallest(session, ViewerRole::Interactive)
            .or(last)
            .or_else(|| self.smallest(session, ViewerRole::ReadOnly))
            .unwrap_or(USUAL_ROOM)
    }

    fn smallest(&self, session: &SessionName, role: ViewerRole) -> Option<PaneSize> {
        let rooms = self.at(session).filter(|one| one.role == role);
        rooms.map(|one| one.room).reduce(|one, other| PaneSize {
            rows: one.rows.min(other.rows),
            cols: one.cols.min(other.cols),
        })
    }

    fn at(&self, session: &SessionName) -> impl Iterator<Item = &Viewer> {
        self.attending
            .iter()
            .filter(move |one| one.session == *session)
    }
}

impl Planner<'_> {
    pub(crate) fn look(
        &self,
        call: CallId,
        key: IdempotencyKey,
        look: AttachRequest,
    ) -> Result<Plan, Error> {
        match look {
            AttachRequest::Attend {
                client,
                session,
                room,
                role,
            } => {
                let attending = Viewer {
                    call,
                    client,
                    session,
                    room,
                    role,
                };
                Ok(Plan::new(move |core, cx| {
                    core.attend(attending, cx);
                }))
            }
            AttachRequest::Fit { client, room } => self.fit(call, client, room),
            AttachRequest::Arrangement { session, seen } => Ok(Plan::new(move |core, cx| {
                core.lay_out(&session, cx);
                core.await_arrangement(call, &session, seen, cx);
            })),
            AttachRequest::Arrange { session, change } => self.arrange(call, session, change),
            AttachRequest::View { client, pane, seen } => {
                let pane = self.known(pane)?;
                let ended = pane.record.ended.as_ref().map(ended_state);
                let question = PaneRequest::View {
                    client,
                    seen,
                    says: self.core.agent_says(pane.record.id).map(Box::new),
                    ended: ended.map(Box::new),
                };
                self.ask(call, pane, question)
            }
            AttachRequest::Views { .. } => {
                Err(Error::invalid("frames follow each other on a line only"))
            }
            AttachRequest::Line { pane, role } => {
                let pane = self.known(pane)?;
                pane.live()?;
                let says = self.core.agent_says(pane.record.id).map(Box::new);
                self.ask(call, pane, PaneRequest::Line { role, says })
            }
            AttachRequest::Lines { pane, from, most } => {
                self.ask(call, self.known(pane)?, PaneRequest::Lines { from, most })
            }
            AttachRequest::Type {
                client,
                pane,
                bytes,
            } => {
                let pane = self.known(pane)?;
                let mut all = self.core.looking.attending.iter();
                if all.any(|one| one.client == client && one.role == ViewerRole::ReadOnly) {
                    return Err(Error::invalid(
                        "this client only looks on, and types nothing",
                    ));
                }
                pane.live()?;
                self.ask(call, pane, PaneRequest::Type { bytes, key })
            }
            AttachRequest::News { seen } => Ok(Plan::new(move |core, cx| {
                core.looking.news.wait(call, seen, cx);
            })),
        }
    }

    fn known(&self, pane: PaneId) -> Result<&PaneEntry, Error> {
        self.resolve(&pane.to_string())
    }

    fn fit(&self, call: CallId, client: ClientId, room: PaneSize) -> Result<Plan, Error> {
        let mut all = self.core.looking.attending.iter();
        if !all.any(|one| one.client == client) {
            return Err(
                Error::new(ErrorKind::NotFound, "this client looks at nothing")
                    .hint("attend a session first"),
            );
        }
        Ok(Plan::new(move |core, cx| {
            core.fit(call, client, room, cx);
        }))
    }

    fn arrange(
        &self,
        call: CallId,
        session: SessionName,
        change: LayoutChange,
    ) -> Result<Plan, Error> {
        let (core, looking) = (self.core, &self.core.looking);
        let tiles = core.tiles(&session);
        let room = looking.room(&session);
        let tile = |pane: PaneId| match tiles.contains(&pane) {
            true => Ok(pane),
            false => Err(Error::new(
                ErrorKind::NotFound,
                format!("pane `{pane}` has no place in session `{}`", session.0),
            )),
        };
        let known = looking.sessions.get(&session);
        let own = known.and_then(|known| known.own.clone());
        let mut layout = own.unwrap_or_else(|| SplitLayout::tiled(&tiles, room));
        let mut beside = None;
        let (own, zoomed) = match change {
            LayoutChange::Beside { made_by, of, side } => {
                tile(of)?;
                let is_made = |pane: &PaneId| {
                    let record = core.shared.panes.get(pane).map(|pane| &pane.record);
                    *pane != of && record.is_some_and(|record| record.made_by == made_by)
                };
                match tiles.iter().copied().find(is_made) {
                    Some(made) => {
                        layout.remove(made);
                        layout.beside(made, of, side);
                    }
                    None => beside = Some(PendingTile { made_by, of, side }),
                }
                (Some(layout), None)
            }
            LayoutChange::Push { pane, side, by } => {
                tile(pane)?;
                layout.push(pane, side, by, room).map_err(|_| {
                    Error::invalid(format!("that edge of pane `{pane}` cannot be pushed"))
                })?;
                (Some(layout), None)
            }
            LayoutChange::Swap { one, other } => {
                layout.swap(tile(one)?, tile(other)?);
                (Some(layout), None)
            }
            LayoutChange::Zoom { pane } => {
                let own = known.and_then(|known| known.own.clone());
                (own, pane.map(tile).transpose()?)
            }
            LayoutChange::Tiled => (None, None),
        };
        Ok(Plan::new(move |core, cx| {
            if let Some(beside) = beside {
                let besides = &mut core.looking.besides;
                besides.retain(|known| known.made_by != beside.made_by);
                besides.truncate(MOST_BESIDES - 1);
                besides.push_front(beside);
            }
            let known = core.looking.sessions.entry(session.clone()).or_default();
            (known.own, known.zoomed) = (own, zoomed);
            core.lay_out(&session, cx);
            cx.when_stored().reply(call, Ok(Response::Noted));
        }))
    }
}

impl Core {
    fn attend(&mut self, new: Viewer, cx: &mut Context) {
        // The same client looks elsewhere now, or from another place.
        let (older, others) = std::mem::take(&mut self.looking.attending)
            .into_iter()
            .partition(|one| one.client == new.client);
        self.looking.attending = others;
        let session = new.session.clone();
        self.looking.attending.push(new);
        self.lay_out(&session, cx);
        for one in older {
            cx.perform(noted(one.call));
            if one.session != session {
                self.lay_out(&one.session, cx);
            }
        }
    }

    fn fit(&mut self, call: CallId, client: ClientId, room: PaneSize, cx: &mut Context) {
        let mut all = self.looking.attending.iter_mut();
        if let Some(one) = all.find(|one| one.client == client) {
            one.room = room;
            let session = one.session.clone();
            self.lay_out(&session, cx);
            cx.perform(noted(call));
        }
    }

    /// A client has gone, or has called something off.
    pub(crate) fn forget_look(&mut self, gone: CallId, cx: &mut Context) {
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
            self.lay_out(&one.session, cx);
        }
    }

    /// After each step: whatever has changed is looked at again, and told to those who wait.
    pub(crate) fn look_again(&mut self, cx: &mut Context) {
        let changed = self.looking.news.changes(cx.changes());
        if std::mem::take(&mut self.looking.stale) || changed.panes {
            let sessions: Vec<SessionName> = self.looking.sessions.keys().cloned().collect();
            for session in sessions {
                self.lay_out(&session, cx);
            }
            self.forget_sessions();
        }
        if changed.workers {
            self.tell_what_agents_say(cx);
        }
        if changed.rows {
            self.looking.news.tell(cx);
        }
    }

    /// What an agent says of itself, if it waits for a person.
    fn agent_says(&self, pane: PaneId) -> Option<SourcedState> {
        use fugue_api::panes::PaneState;
        let asks = self.team.agent_asks(pane)?;
        Some(SourcedState {
            prompt: Some(asks.prompt),
            ..SourcedState::new(PaneState::NeedsInput, asks.by)
        })
    }

    /// Those who look at an agent's pane see at once that it asks something.
    fn tell_what_agents_say(&mut self, cx: &mut Context) {
        let looked_at: Vec<PaneId> = self
            .shared
            .panes
            .iter()
            .filter(|pane| pane.record.agent.is_some())
            .filter(|pane| matches!(pane.phase, PanePhase::Live | PanePhase::Settling { .. }))
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
            cx.perform(Effect::AgentSays { pane, says });
        }
    }
}

fn noted(call: CallId) -> Effect {
    Effect::Answer {
        call,
        answer: Ok(Response::Noted),
    }
}

fn looked(call: CallId, found: AttachResponse) -> Effect {
    Effect::Answer {
        call,
        answer: Ok(Response::Looked { found }),
    }
}
