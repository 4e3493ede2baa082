//! Requests of attach clients, checked before anything is done.

use fugue_api::{
    Error, ErrorKind, PaneId, SessionName,
    attach::{AttachRequest, ClientId, LayoutChange, ViewerRole},
    tools::PaneSize,
    wire::{IdempotencyKey, Response},
};

use super::{MAX_PENDING_TILES, PendingTile, Viewer};
use crate::{
    CallId, PaneRequest,
    calls::plan::{Plan, Planner},
    layout::SplitLayout,
    panes::{PaneEntry, replies::ended_state},
};

impl Planner<'_> {
    pub fn plan_attach(
        &self,
        call: CallId,
        key: IdempotencyKey,
        request: AttachRequest,
    ) -> Result<Plan, Error> {
        match request {
            AttachRequest::JoinSession {
                client,
                session,
                viewport,
                role,
            } => {
                let viewer = Viewer {
                    call,
                    client,
                    session,
                    viewport,
                    role,
                };
                Ok(Plan::new(move |core| {
                    core.attach.add_viewer(viewer, &mut core.cx);
                }))
            }
            AttachRequest::SetSize { client, viewport } => self.fit(call, client, viewport),
            AttachRequest::GetLayout { session, seen } => Ok(Plan::new(move |core| {
                core.attach.update_layout(&session, &mut core.cx);
                core.attach
                    .wait_for_layout(call, &session, seen, &mut core.cx);
            })),
            AttachRequest::ChangeLayout { session, change } => self.arrange(call, session, change),
            AttachRequest::GetFrame { client, pane, seen } => {
                let pane = self.known(pane)?;
                let ended = pane.record.ended.as_ref().map(ended_state);
                let request = PaneRequest::GetFrame {
                    client,
                    seen,
                    agent_state: self.core.team.agent_state(pane.record.id).map(Box::new),
                    ended: ended.map(Box::new),
                };
                self.ask(call, pane, request)
            }
            AttachRequest::StreamFrames { .. } => {
                Err(Error::invalid("frames follow each other on a line only"))
            }
            AttachRequest::ConnectPane { pane, role } => {
                let pane = self.known(pane)?;
                pane.live()?;
                let agent_state = self.core.team.agent_state(pane.record.id).map(Box::new);
                self.ask(call, pane, PaneRequest::Connect { role, agent_state })
            }
            AttachRequest::ReadLines { pane, from, most } => self.ask(
                call,
                self.known(pane)?,
                PaneRequest::ReadLines { from, most },
            ),
            AttachRequest::Type {
                client,
                pane,
                bytes,
            } => {
                let pane = self.known(pane)?;
                let mut all = self.core.attach.viewers.iter();
                if all.any(|one| one.client == client && one.role == ViewerRole::ReadOnly) {
                    return Err(Error::invalid(
                        "this client only looks on, and types nothing",
                    ));
                }
                pane.live()?;
                self.ask(call, pane, PaneRequest::Type { bytes, key })
            }
            AttachRequest::WatchOverview { seen } => Ok(Plan::new(move |core| {
                core.attach.overview.wait(call, seen, &mut core.cx.out);
            })),
        }
    }

    fn known(&self, pane: PaneId) -> Result<&PaneEntry, Error> {
        self.resolve(&pane.to_string())
    }

    fn fit(&self, call: CallId, client: ClientId, viewport: PaneSize) -> Result<Plan, Error> {
        let mut all = self.core.attach.viewers.iter();
        if !all.any(|one| one.client == client) {
            return Err(
                Error::new(ErrorKind::NotFound, "this client looks at nothing")
                    .hint("attend a session first"),
            );
        }
        Ok(Plan::new(move |core| {
            core.attach.fit(call, client, viewport, &mut core.cx);
        }))
    }

    fn arrange(
        &self,
        call: CallId,
        session: SessionName,
        change: LayoutChange,
    ) -> Result<Plan, Error> {
        let (core, attach) = (self.core, &self.core.attach);
        let tiles = core.attach.tiles(&session, &core.cx);
        let viewport = attach.viewport(&session);
        let tile = |pane: PaneId| match tiles.contains(&pane) {
            true => Ok(pane),
            false => Err(Error::new(
                ErrorKind::NotFound,
                format!("pane `{pane}` has no place in session `{}`", session.0),
            )),
        };
        let known = attach.sessions.get(&session);
        let own = known.and_then(|known| known.own.clone());
        let mut layout = own.unwrap_or_else(|| SplitLayout::tiled(&tiles, viewport));
        let mut beside = None;
        let (own, zoomed) = match change {
            LayoutChange::Split { made_by, of, side } => {
                tile(of)?;
                let is_made = |pane: &PaneId| {
                    let record = core.cx.panes.get(pane).map(|pane| &pane.record);
                    *pane != of && record.is_some_and(|record| record.made_by == made_by)
                };
                match tiles.iter().copied().find(is_made) {
                    Some(made) => {
                        layout.remove(made);
                        layout.split(made, of, side);
                    }
                    None => beside = Some(PendingTile { made_by, of, side }),
                }
                (Some(layout), None)
            }
            LayoutChange::MoveEdge { pane, side, by } => {
                tile(pane)?;
                layout.move_edge(pane, side, by, viewport).map_err(|_| {
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
        Ok(Plan::new(move |core| {
            if let Some(beside) = beside {
                let besides = &mut core.attach.pending_tiles;
                besides.retain(|known| known.made_by != beside.made_by);
                besides.truncate(MAX_PENDING_TILES - 1);
                besides.push_front(beside);
            }
            let known = core.attach.sessions.entry(session.clone()).or_default();
            (known.own, known.zoomed) = (own, zoomed);
            core.attach.update_layout(&session, &mut core.cx);
            core.cx.out.when_stored().reply(call, Ok(Response::Done));
        }))
    }
}
