//! Those who look on: who attends which session, how its panes lie for them, and what is new.
//!
//! What a pane shows is its own task's business; here is only who sees it and in how much room.

pub mod layout;
mod overview;
mod plan;
pub(crate) mod record;
mod session_layout;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, VecDeque};

use fugue_api::{
    PaneId, SessionName,
    attach::{AttachResponse, ClientId, SplitSide, ViewerRole},
    panes::{PaneSize, SourcedState},
    wire::{IdempotencyKey, Response},
};

use crate::{
    CallId, Effect, StoreSnapshot, context::Context, panes::PanePhase, shared::SharedState,
    workers::Team,
};
use overview::OverviewVersion;
use session_layout::SessionViewers;

// A client that asks where new panes go, and then makes none, is forgotten.
const MAX_PENDING_TILES: usize = 64;
// What a pane gets that nobody has looked at yet.
const DEFAULT_ROOM: PaneSize = PaneSize { rows: 24, cols: 80 };

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
    pub(crate) fn mark_stale(&mut self) {
        self.stale = true;
    }

    /// How much room a session has: the smallest of those who have their hands in it rules.
    fn room(&self, session: &SessionName) -> PaneSize {
        let last = self.sessions.get(session).and_then(|known| known.room);
        self.smallest(session, ViewerRole::Interactive)
            .or(last)
            .or_else(|| self.smallest(session, ViewerRole::ReadOnly))
            .unwrap_or(DEFAULT_ROOM)
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

impl AttachState {
    fn add_viewer(&mut self, new: Viewer, shared: &SharedState, cx: &mut Context) {
        // The same client looks elsewhere now, or from another place.
        let (older, others) = std::mem::take(&mut self.attending)
            .into_iter()
            .partition(|one| one.client == new.client);
        self.attending = others;
        let session = new.session.clone();
        self.attending.push(new);
        self.update_layout(&session, shared, cx);
        for one in older {
            cx.perform(noted(one.call));
            if one.session != session {
                self.update_layout(&one.session, shared, cx);
            }
        }
    }

    fn fit(
        &mut self,
        call: CallId,
        client: ClientId,
        room: PaneSize,
        shared: &SharedState,
        cx: &mut Context,
    ) {
        let mut all = self.attending.iter_mut();
        if let Some(one) = all.find(|one| one.client == client) {
            one.room = room;
            let session = one.session.clone();
            self.update_layout(&session, shared, cx);
            cx.perform(noted(call));
        }
    }

    /// A client has gone, or has called something off.
    pub(crate) fn forget_call(&mut self, gone: CallId, shared: &SharedState, cx: &mut Context) {
        self.news.forget(gone);
        for known in self.sessions.values_mut() {
            known.waiting.retain(|call| *call != gone);
        }
        let place = self.attending.iter().position(|one| one.call == gone);
        if let Some(place) = place {
            let one = self.attending.remove(place);
            self.update_layout(&one.session, shared, cx);
        }
    }

    /// After each step: whatever has changed is looked at again, and told to those who wait.
    pub(crate) fn refresh(&mut self, shared: &SharedState, team: &Team, cx: &mut Context) {
        let changed = self.news.changes(cx.changes());
        if std::mem::take(&mut self.stale) || changed.panes {
            let sessions: Vec<SessionName> = self.sessions.keys().cloned().collect();
            for session in sessions {
                self.update_layout(&session, shared, cx);
            }
            self.forget_sessions(shared);
        }
        if changed.workers {
            self.show_agent_states(shared, team, cx);
        }
        if changed.rows {
            self.news.tell(cx);
        }
    }

    /// Those who look at an agent's pane see at once that it asks something.
    fn show_agent_states(&mut self, shared: &SharedState, team: &Team, cx: &mut Context) {
        let looked_at: Vec<PaneId> = shared
            .panes
            .iter()
            .filter(|pane| pane.record.agent.is_some())
            .filter(|pane| matches!(pane.phase, PanePhase::Live | PanePhase::Settling { .. }))
            .filter(|pane| self.at(&pane.record.session).next().is_some())
            .map(|pane| pane.record.id)
            .collect();
        self.said.retain(|pane, _| looked_at.contains(pane));
        for pane in looked_at {
            let says = team.agent_state(pane);
            if self.said.get(&pane) == says.as_ref() {
                continue;
            }
            match says.clone() {
                Some(says) => self.said.insert(pane, says),
                None => self.said.remove(&pane),
            };
            cx.perform(Effect::ShowAgentState { pane, says });
        }
    }
}

fn noted(call: CallId) -> Effect {
    Effect::Reply {
        call,
        answer: Ok(Response::Noted),
    }
}

fn looked(call: CallId, found: AttachResponse) -> Effect {
    Effect::Reply {
        call,
        answer: Ok(Response::Looked { found }),
    }
}
