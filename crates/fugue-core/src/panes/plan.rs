//! Calls about one pane or all of them, checked before anything is done.

use std::time::Duration;

use fugue_api::{
    Error, ToolReply,
    tools::{
        ClosePane, CreatePane, GetStatus, GetStatusReply, PaneSize, PaneStatus, ReadPane, SendInput,
    },
    wire::Response,
};

use super::{
    Bounds, PanePhase,
    replies::{ended_state, status_of},
};
use crate::{
    Effect, PaneRequest,
    calls::{
        CallOrigin,
        plan::{Plan, Planner},
    },
};

impl Planner<'_> {
    pub(crate) fn create_pane(&self, origin: CallOrigin, args: CreatePane) -> Result<Plan, Error> {
        // A pane that exists already needs nothing that could be refused.
        let mut panes = self.core.shared.panes.iter();
        if let Some(made) = panes.find(|pane| pane.record.made_by == origin.key) {
            let (call, made) = (origin.call, made.record.id);
            return Ok(Plan::new(move |core, cx| {
                core.rejoin_create(call, made, cx)
            }));
        }
        self.core.shared.starts.refuse_repeated(origin.key)?;
        let world = origin.world()?;
        Ok(Plan::new(move |core, cx| {
            core.create(origin, args, world, cx);
        }))
    }

    pub(crate) fn send_input(&self, origin: &CallOrigin, args: SendInput) -> Result<Plan, Error> {
        let pane = self.resolve(&args.pane_id)?;
        pane.live()?;
        let (args, key) = (Box::new(args), origin.key);
        self.ask(origin.call, pane, PaneRequest::Send { args, key })
    }

    pub(crate) fn close_pane(&self, origin: &CallOrigin, args: &ClosePane) -> Result<Plan, Error> {
        let (call, id) = (origin.call, self.resolve(&args.pane_id)?.record.id);
        let grace = Duration::from_millis(u64::from(args.grace_ms));
        Ok(Plan::new(move |core, cx| core.close(call, id, grace, cx)))
    }

    pub(crate) fn resize_pane(
        &self,
        origin: &CallOrigin,
        pane: &str,
        size: PaneSize,
    ) -> Result<Plan, Error> {
        let pane = self.resolve(pane)?;
        let PaneSize { rows, cols } = size;
        if !(1..=1000).contains(&rows) || !(1..=1000).contains(&cols) {
            return Err(Error::invalid(format!(
                "size: wanted 1 to 1000 rows and columns, got {rows}×{cols}"
            )));
        }
        pane.live()?;
        self.ask(origin.call, pane, PaneRequest::Resize(size))
    }

    pub(crate) fn read_pane(&self, origin: &CallOrigin, args: ReadPane) -> Result<Plan, Error> {
        if let Some(grep) = &args.grep {
            crate::view::compile(grep)?;
        }
        if let Some(since) = &args.since {
            crate::view::cursor(since)?;
        }
        let pane = self.resolve(&args.pane_id)?;
        let ended = pane.record.ended.as_ref().map(ended_state);
        let args = Box::new(args);
        self.ask(origin.call, pane, PaneRequest::Read { args, ended })
    }

    pub(crate) fn get_status(&self, origin: CallOrigin, args: GetStatus) -> Result<Plan, Error> {
        let (call, now) = (origin.call, self.now);
        let Some(said) = args.pane_id else {
            return Ok(Plan::new(move |core, cx| {
                core.survey(call, Bounds::Model, origin.tmux, cx);
            }));
        };
        let pane = self.resolve(&said)?;
        let id = pane.record.id;
        let status = PaneStatus {
            worker: self.core.team.worker_row(id),
            watcher: self.core.watchers.watcher_row(id),
            ..status_of(&pane.record, now)
        };
        let status = self.core.with_agent_state(status);
        match &pane.phase {
            PanePhase::Opening { .. } | PanePhase::Ended => {
                let reply = ToolReply::GetStatus(GetStatusReply::Pane(Box::new(status)));
                Ok(Plan::effect(Effect::Reply {
                    call,
                    answer: Ok(Response::Tool { reply }),
                }))
            }
            PanePhase::Settling { .. } | PanePhase::Live => {
                self.ask(call, pane, PaneRequest::Status(Box::new(status)))
            }
        }
    }
}
