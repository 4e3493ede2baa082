//! The layout of one session, and the sizes of its terminals.

use std::collections::HashMap;

use fugue_api::{
    PaneId, SessionName,
    attach::{AttachResponse, Rect, SessionLayout, Tile, ViewerRole},
    tools::PaneSize,
    wire::Response,
};

use super::{AttachState, PendingTile};
use crate::{
    CallId, Change, Effect, LayoutRecord, RecordId,
    context::{Context, StepBuilder},
    layout::SplitLayout,
    panes::PanePhase,
    state::is_interactive_shell,
};

/// A session with viewers, or with a layout of its own.
#[derive(Default, Debug)]
pub(super) struct SessionViewers {
    /// The layout that a person has chosen. `None`: tiled evenly.
    pub own: Option<SplitLayout>,
    pub zoomed: Option<PaneId>,
    /// The last size with an interactive viewer.
    pub viewport: Option<PaneSize>,
    /// The layout that was sent last.
    now: Option<SessionLayout>,
    /// Calls that have received `now` and wait for the next layout.
    pub waiting: Vec<CallId>,
    /// The sizes that panes were given, so that each is sent once.
    given: HashMap<PaneId, PaneSize>,
    stored: Option<LayoutRecord>,
}

impl SessionViewers {
    pub fn restored(record: LayoutRecord) -> Self {
        Self {
            own: record.layout.clone(),
            zoomed: record.zoomed,
            stored: Some(record),
            ..Self::default()
        }
    }
}

impl AttachState {
    /// The panes of a session that have a tile: live panes, and ended commands until closed. An ended interactive
    /// shell has none.
    pub(super) fn tiles(&self, session: &SessionName, cx: &Context) -> Vec<PaneId> {
        cx.panes
            .iter()
            .filter(|pane| pane.record.session == *session)
            // A shell that is started again after a step ended it keeps its tile.
            .filter(|pane| {
                !matches!(pane.phase, PanePhase::Opening { .. }) || pane.record.generation > 1
            })
            .filter(|pane| match &pane.record.ended {
                None => true,
                Some(ended) => !ended.closed && !is_interactive_shell(&pane.record.command),
            })
            .map(|pane| pane.record.id)
            .collect()
    }

    pub(super) fn wait_for_layout(
        &mut self,
        call: CallId,
        session: &SessionName,
        seen: u64,
        cx: &mut Context,
    ) {
        let known = self.sessions.entry(session.clone()).or_default();
        if known.now.is_none() {
            self.compute_layout(session, cx);
        }
        let Some(known) = self.sessions.get_mut(session) else {
            return;
        };
        match &known.now {
            Some(now) if now.version != seen => send_layout(call, now, &mut cx.out),
            Some(_) | None => known.waiting.push(call),
        }
    }

    /// Computes the layout of a session for its present panes and viewers, or ends the session.
    pub(super) fn update_layout(&mut self, session: &SessionName, cx: &mut Context) {
        let attended = self.at(session).next().is_some();
        if !attended && !self.sessions.contains_key(session) {
            return;
        }
        if self.is_empty(session, cx) {
            self.end_session(session, cx);
        } else {
            self.compute_layout(session, cx);
        }
    }

    /// Whether a session has no tile and no pane that is being opened.
    fn is_empty(&self, session: &SessionName, cx: &Context) -> bool {
        let mut panes = cx.panes.iter();
        let opening = panes.any(|pane| {
            pane.record.session == *session && matches!(pane.phase, PanePhase::Opening { .. })
        });
        !opening && self.tiles(session, cx).is_empty()
    }

    /// Forgets empty sessions that no call waits for.
    pub(super) fn forget_sessions(&mut self, cx: &Context) {
        let over: Vec<SessionName> = self
            .sessions
            .iter()
            .filter(|(session, known)| known.waiting.is_empty() && self.is_empty(session, cx))
            .map(|(session, _)| session.clone())
            .collect();
        for session in over {
            self.sessions.remove(&session);
        }
    }

    fn compute_layout(&mut self, session: &SessionName, cx: &mut Context) {
        let tiles = self.tiles(session, cx);
        let viewport = self.viewport(session);
        let is_interactive = self.smallest(session, ViewerRole::Interactive).is_some();
        let clients = u32::try_from(self.at(session).count()).unwrap_or(u32::MAX);
        let made_by: HashMap<PaneId, fugue_api::wire::IdempotencyKey> = tiles
            .iter()
            .filter_map(|pane| Some((*pane, cx.panes.get(pane)?.record.made_by)))
            .collect();
        let known = self.sessions.entry(session.clone()).or_default();
        if is_interactive {
            known.viewport = Some(viewport);
        } else {
            // Other clients may resize the panes until the next interactive viewer comes.
            known.given.clear();
        }
        known.given.retain(|pane, _| tiles.contains(pane));
        if let Some(own) = &mut known.own {
            for gone in own.panes().into_iter().filter(|pane| !tiles.contains(pane)) {
                own.remove(gone);
            }
            for new in tiles
                .iter()
                .copied()
                .filter(|pane| !own.has(*pane))
                .collect::<Vec<_>>()
            {
                let key = made_by.get(&new);
                let besides = &mut self.pending_tiles;
                let wanted = besides
                    .iter()
                    .position(|beside| Some(&beside.made_by) == key);
                match wanted.and_then(|at| besides.remove(at)) {
                    Some(PendingTile { of, side, .. }) if own.has(of) => own.split(new, of, side),
                    Some(_) | None => own.add(new, viewport),
                }
            }
        }
        known.zoomed = known.zoomed.filter(|pane| tiles.contains(pane));
        let places = match (known.zoomed, &known.own) {
            (Some(pane), _) => zoomed_tile(pane, viewport),
            (None, Some(own)) => own.place(viewport),
            (None, None) => SplitLayout::tiled(&tiles, viewport).place(viewport),
        };
        let next = SessionLayout {
            version: self.version + 1,
            viewport,
            tiles: places,
            zoomed: known.zoomed,
            clients,
        };
        store_layout(session, known, &mut cx.out);
        let same = known.now.as_ref().is_some_and(|now| {
            *now == SessionLayout {
                version: now.version,
                ..next.clone()
            }
        });
        if !same {
            self.version = next.version;
            for call in std::mem::take(&mut known.waiting) {
                send_layout(call, &next, &mut cx.out);
            }
            known.now = Some(next.clone());
        }
        if is_interactive {
            self.resize_panes(session, &next.tiles, cx);
        }
    }

    /// Resizes terminals to their tiles, less the title row. Ended panes and panes of tmux keep their size.
    fn resize_panes(&mut self, session: &SessionName, tiles: &[Tile], cx: &mut Context) {
        let Some(known) = self.sessions.get_mut(session) else {
            return;
        };
        for Tile { pane, place } in tiles {
            let Some(record) = cx.panes.get(pane).map(|pane| &pane.record) else {
                continue;
            };
            if record.ended.is_some() || record.tmux.is_some() {
                continue;
            }
            let most = fugue_term::TerminalSize::MAX;
            let size = PaneSize {
                rows: place.rows.saturating_sub(1).clamp(1, most),
                cols: place.cols.clamp(2, most),
            };
            let before = known.given.insert(*pane, size).unwrap_or(record.size);
            if before != size {
                cx.out.perform(Effect::ResizePane { pane: *pane, size });
            }
        }
    }

    /// Ends a session without panes: its viewers get an empty layout, and its own layout is dropped.
    fn end_session(&mut self, session: &SessionName, cx: &mut Context) {
        let (here, elsewhere) = std::mem::take(&mut self.viewers)
            .into_iter()
            .partition(|one| one.session == *session);
        self.viewers = elsewhere;
        let known = self.sessions.entry(session.clone()).or_default();
        (known.own, known.zoomed) = (None, None);
        self.compute_layout(session, cx);
        let known = self.sessions.get(session);
        let over = known.and_then(|known| known.now.as_ref());
        for one in here {
            if let Some(over) = over {
                send_layout(one.call, over, &mut cx.out);
            }
        }
    }
}

/// Stores the layout that a person has chosen, if changed.
fn store_layout(session: &SessionName, known: &mut SessionViewers, out: &mut StepBuilder) {
    let record = match (&known.own, known.zoomed) {
        (None, None) => None,
        (own, zoomed) => Some(LayoutRecord {
            session: session.clone(),
            layout: own.clone(),
            zoomed,
        }),
    };
    if record == known.stored {
        return;
    }
    let change = match record.clone() {
        Some(record) => Change::put(record),
        None => Change::Remove(RecordId::Layout(session.clone())),
    };
    known.stored = record;
    out.commit([change]);
}

/// The layout of a zoomed pane.
fn zoomed_tile(pane: PaneId, viewport: PaneSize) -> Vec<Tile> {
    let place = Rect {
        row: 0,
        col: 0,
        rows: viewport.rows,
        cols: viewport.cols,
    };
    if place.rows < 2 || place.cols < 2 {
        return Vec::new();
    }
    vec![Tile { pane, place }]
}

/// Sends a layout to a viewer. Changes of this step are sent once stored.
fn send_layout(call: CallId, layout: &SessionLayout, out: &mut StepBuilder) {
    let layout = layout.clone();
    let response = AttachResponse::Layout { layout };
    let answer = Ok(Response::Attach { response });
    if out.changes().is_empty() {
        out.perform(Effect::Reply { call, answer });
    } else {
        out.when_stored().reply(call, answer);
    }
}
