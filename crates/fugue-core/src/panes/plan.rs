//! Calls about one pane or all of them, checked before anything is done.

use fugue_api::{
    Error, ToolReply,
    panes::{GetStatus, GetStatusReply, PaneStatus, ReadPane, SendInput, TmuxRow},
    wire::{IdempotencyKey, Response},
};

use super::{
    Bounds, PanePhase,
    replies::{ended_state, status_of},
};
use crate::{
    CallId, Effect, PaneRequest,
    calls::plan::{Plan, Planner},
};

impl Planner<'_> {
    pub(crate) fn send(
        &self,
        call: CallId,
        args: SendInput,
        key: IdempotencyKey,
    ) -> Result<Plan, Error> {
        let pane = self.resolve(&args.pane_id)?;
        pane.live()?;
        let args = Box::new(args);
        self.ask(call, pane, PaneRequest::Send { args, key })
    }

    pub(crate) fn read(&self, call: CallId, args: ReadPane) -> Result<Plan, Error> {
        if let Some(grep) = &args.grep {
            crate::view::compile(grep)?;
        }
        if let Some(since) = &args.since {
            crate::view::cursor(since)?;
        }
        let pane = self.resolve(&args.pane_id)?;
        let ended = pane.record.ended.as_ref().map(ended_state);
        let args = Box::new(args);
        self.ask(call, pane, PaneRequest::Read { args, ended })
    }

    pub(crate) fn status(
        &self,
        call: CallId,
        args: GetStatus,
        elsewhere: Vec<TmuxRow>,
    ) -> Result<Plan, Error> {
        let now = self.now;
        let Some(said) = args.pane_id else {
            return Ok(Plan::new(move |core, cx| {
                core.survey(call, Bounds::Model, elsewhere, cx);
            }));
        };
        let pane = self.resolve(&said)?;
        let id = pane.record.id;
        let status = PaneStatus {
            worker: self.core.worker_row(id),
            watcher: self.core.watcher_row(id),
            ..status_of(&pane.record, now)
        };
        let status = self.core.as_its_agent_says(status);
        match &pane.phase {
            PanePhase::Opening { .. } | PanePhase::Ended => {
                let reply = ToolReply::GetStatus(GetStatusReply::Pane(Box::new(status)));
                Ok(Plan::effect(Effect::Answer {
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
