//! Attach: the viewers of each session, the layout of its panes, and the version of the overview.
//!
//! Frames come from the task of each pane. This module only decides which viewer sees which pane, and in which size.

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
    pane_state::SourcedState,
    tools::PaneSize,
    wire::{IdempotencyKey, Response},
};

use crate::{
    CallId, Effect, StoreSnapshot,
    context::{Context, StepBuilder},
    panes::PanePhase,
    workers::Team,
};
use overview::OverviewVersion;
use session_layout::SessionViewers;

// The limit of reserved tiles. The oldest reservation is dropped, because its pane was probably never created.
const MAX_PENDING_TILES: usize = 64;
// The size of a session without viewers.
const DEFAULT_VIEWPORT: PaneSize = PaneSize { rows: 24, cols: 80 };

/// All viewers and the layouts of their sessions.
#[derive(Default, Debug)]
pub(crate) struct AttachState {
    /// The last layout version. Versions are unique over all sessions.
    version: u64,
    sessions: BTreeMap<SessionName, SessionViewers>,
    viewers: Vec<Viewer>,
    /// Tiles that are reserved for panes about to be created, newest first.
    pending_tiles: VecDeque<PendingTile>,
    /// The attention requests that viewed panes were sent last.
    shown_states: HashMap<PaneId, SourcedState>,
    overview: OverviewVersion,
    /// Layouts must be computed again although no commit of this step changes a pane.
    needs_layout: bool,
}

/// A client that views a session, for as long as its call is open.
#[derive(Debug)]
struct Viewer {
    call: CallId,
    client: ClientId,
    session: SessionName,
    viewport: PaneSize,
    role: ViewerRole,
}

#[derive(Debug)]
struct PendingTile {
    made_by: IdempotencyKey,
    of: PaneId,
    side: SplitSide,
}

impl AttachState {
    pub fn restored(snapshot: &mut StoreSnapshot) -> Self {
        // Above all versions that an earlier daemon has sent, so that its viewers get the present state.
        let version = snapshot.epoch << 32;
        let sessions = std::mem::take(&mut snapshot.layouts)
            .into_iter()
            .map(|record| (record.session.clone(), SessionViewers::restored(record)))
            .collect();
        Self {
            version,
            sessions,
            overview: OverviewVersion::from(version),
            needs_layout: true,
            ..Self::default()
        }
    }

    /// Has layouts computed again at the end of the step.
    pub fn mark_dirty(&mut self) {
        self.needs_layout = true;
    }

    /// A row has changed that no record holds: the agent of a pane without a worker.
    pub fn rows_changed(&mut self, out: &mut StepBuilder) {
        self.overview.publish(out);
    }

    /// The size of a session: the smallest of its interactive viewers, else the last one, else that of read-only viewers.
    fn viewport(&self, session: &SessionName) -> PaneSize {
        let last = self.sessions.get(session).and_then(|known| known.viewport);
        self.smallest(session, ViewerRole::Interactive)
            .or(last)
            .or_else(|| self.smallest(session, ViewerRole::ReadOnly))
            .unwrap_or(DEFAULT_VIEWPORT)
    }

    fn smallest(&self, session: &SessionName, role: ViewerRole) -> Option<PaneSize> {
        let viewports = self.at(session).filter(|one| one.role == role);
        viewports
            .map(|one| one.viewport)
            .reduce(|one, other| PaneSize {
                rows: one.rows.min(other.rows),
                cols: one.cols.min(other.cols),
            })
    }

    fn at(&self, session: &SessionName) -> impl Iterator<Item = &Viewer> {
        self.viewers
            .iter()
            .filter(move |one| one.session == *session)
    }
}

impl AttachState {
    fn add_viewer(&mut self, new: Viewer, cx: &mut Context) {
        // A client views one session at a time; its earlier call is answered.
        let (older, others) = std::mem::take(&mut self.viewers)
            .into_iter()
            .partition(|one| one.client == new.client);
        self.viewers = others;
        let session = new.session.clone();
        self.viewers.push(new);
        self.update_layout(&session, cx);
        for one in older {
            cx.out.perform(done(one.call));
            if one.session != session {
                self.update_layout(&one.session, cx);
            }
        }
    }

    fn fit(&mut self, call: CallId, client: ClientId, viewport: PaneSize, cx: &mut Context) {
        let mut all = self.viewers.iter_mut();
        if let Some(one) = all.find(|one| one.client == client) {
            one.viewport = viewport;
            let session = one.session.clone();
            self.update_layout(&session, cx);
            cx.out.perform(done(call));
        }
    }

    /// Removes a cancelled call: a viewer, or a call that waits for a layout or for the overview.
    pub fn forget_call(&mut self, gone: CallId, cx: &mut Context) {
        self.overview.forget(gone);
        for known in self.sessions.values_mut() {
            known.waiting.retain(|call| *call != gone);
        }
        let place = self.viewers.iter().position(|one| one.call == gone);
        if let Some(place) = place {
            let one = self.viewers.remove(place);
            self.update_layout(&one.session, cx);
        }
    }

    /// Ends a step: computes the layouts that its changes affect and answers the calls that wait for these layouts.
    pub fn refresh(&mut self, team: &Team, cx: &mut Context) {
        let changed = self.overview.changes(cx.out.changes());
        if std::mem::take(&mut self.needs_layout) || changed.panes {
            let sessions: Vec<SessionName> = self.sessions.keys().cloned().collect();
            for session in sessions {
                self.update_layout(&session, cx);
            }
            self.forget_sessions(cx);
        }
        if changed.workers {
            self.show_agent_states(team, cx);
        }
        if changed.rows {
            self.overview.publish(&mut cx.out);
        }
    }

    /// Sends the attention requests of agents to their viewed panes.
    fn show_agent_states(&mut self, team: &Team, cx: &mut Context) {
        let viewed: Vec<PaneId> = cx
            .panes
            .iter()
            .filter(|pane| pane.record.agent.is_some())
            .filter(|pane| matches!(pane.phase, PanePhase::Live | PanePhase::Settling { .. }))
            .filter(|pane| self.at(&pane.record.session).next().is_some())
            .map(|pane| pane.record.id)
            .collect();
        self.shown_states.retain(|pane, _| viewed.contains(pane));
        for pane in viewed {
            let agent_state = team.agent_state(pane);
            if self.shown_states.get(&pane) == agent_state.as_ref() {
                continue;
            }
            match agent_state.clone() {
                Some(agent_state) => self.shown_states.insert(pane, agent_state),
                None => self.shown_states.remove(&pane),
            };
            cx.out.perform(Effect::ShowAgentState { pane, agent_state });
        }
    }
}

fn done(call: CallId) -> Effect {
    Effect::Reply {
        call,
        answer: Ok(Response::Done),
    }
}

fn attach_reply(call: CallId, response: AttachResponse) -> Effect {
    Effect::Reply {
        call,
        answer: Ok(Response::Attach { response }),
    }
}
