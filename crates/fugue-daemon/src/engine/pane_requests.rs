//! Passes commands and requests to pane tasks.

use std::time::Duration;

use fugue_api::{
    Error, ErrorKind, PaneId, ToolReply,
    overview::{Overview, PaneRow},
    pane_state::{PaneState, StateSource},
    tools::GetStatusReply,
    wire::Response,
};
use fugue_core::{CallId, PaneRequest, view};
use tokio::{sync::oneshot, time::Instant};

use super::Engine;
use crate::{
    follow,
    pane::{LiveState, PaneCommand, PaneHandle},
    shards::ShardTask,
};

// A pane that replays a long log answers late. The overview is sent without that pane's current state then.
const OVERVIEW_TIMEOUT: Duration = Duration::from_millis(500);
// The limit of an overview for a model whose call has no limit.
const MAX_OVERVIEW_CHARS: usize = 10_000;

impl Engine {
    pub(super) fn send_command(&mut self, pane: PaneId, command: PaneCommand) {
        match self.panes.get(&pane) {
            Some(handle) => handle.send(command),
            None if pane > self.newest_pane => {
                self.early_commands.entry(pane).or_default().push(command)
            }
            // The pane has ended. Core gets that event next and then reads the pane's files.
            None => {}
        }
    }

    pub(super) fn install(&mut self, handle: PaneHandle, task: ShardTask) {
        let pane = handle.id();
        self.newest_pane = self.newest_pane.max(pane);
        // Panes are opened in the order of their ids, so commands for lower ids are for panes that were never opened.
        let later = self.early_commands.split_off(&PaneId(pane.0 + 1));
        let mut early = std::mem::replace(&mut self.early_commands, later);
        for command in early.remove(&pane).into_iter().flatten() {
            handle.send(command);
        }
        self.panes.insert(pane, handle);
        self.shards.spawn(pane, task);
    }

    pub(super) fn send_request(&mut self, call: CallId, pane: PaneId, request: PaneRequest) {
        let Some(handle) = self.panes.get(&pane) else {
            // The pane has ended, and core gets that event next.
            let error = Error::new(ErrorKind::Ended, format!("pane `{pane}` is closing"))
                .hint("retry the call");
            return self.pending_calls.answer(call, Err(error));
        };
        let Some(responder) = self.pending_calls.take(call) else {
            return;
        };
        if let PaneRequest::Follow { from } = request {
            let wait = tokio::spawn(follow::live(handle.clone(), from, responder));
            self.pending_calls.set_wait(call, wait.abort_handle());
        } else if let Err(PaneCommand::Request { responder, .. }) =
            handle.try_send(PaneCommand::Request { request, responder })
        {
            let error = Error::new(
                ErrorKind::Unavailable,
                format!("pane `{pane}` has too many requests in its queue"),
            )
            .hint("retry the call");
            responder.answer(Err(error));
        }
    }

    /// Completes the rows of live panes with the current state from their tasks, and answers the call.
    pub(super) fn answer_overview(
        &mut self,
        call: CallId,
        mut overview: Overview,
        live: Vec<PaneId>,
        bounded: bool,
    ) {
        let Some(responder) = self.pending_calls.take(call) else {
            return;
        };
        let asked: Vec<_> = live
            .into_iter()
            .filter_map(|pane| {
                let (answer, answered) = oneshot::channel();
                self.panes
                    .get(&pane)?
                    .try_send(PaneCommand::GetState(answer))
                    .ok()?;
                Some((pane, answered))
            })
            .collect();
        let answer = move |mut overview| {
            if bounded {
                view::bound_overview(&mut overview, MAX_OVERVIEW_CHARS);
            }
            let reply = ToolReply::GetStatus(GetStatusReply::All(overview));
            responder.answer(Ok(Response::Tool { reply }));
        };
        if asked.is_empty() {
            return answer(overview);
        }
        tokio::spawn(async move {
            let deadline = Instant::now() + OVERVIEW_TIMEOUT;
            for (pane, answered) in asked {
                let state = tokio::time::timeout_at(deadline, answered).await;
                if let (Ok(Ok(state)), Ok(index)) = (
                    state,
                    overview
                        .panes
                        .binary_search_by_key(&pane, |row| row.pane_id),
                ) {
                    complete_row(&mut overview.panes[index], state);
                }
            }
            answer(overview);
        });
    }
}

/// Adds to a row what the task of its pane knows.
fn complete_row(row: &mut PaneRow, live: LiveState) {
    // An agent's own report that it waits for a person takes precedence over its terminal.
    if row.state.state != PaneState::NeedsInput || live.state.by == StateSource::Exit {
        row.state = live.state;
    }
    row.agent = row.agent.take().or(live.agent);
}
