//! The end of the daemon on request of a client, after all panes are closed.

use std::{collections::HashSet, sync::Arc};

use fugue_api::{
    Error, ErrorKind, PaneId, ToolCall,
    tools::ClosePane,
    wire::{CallerEnv, CallerIdentity, IdempotencyKey, Request, Response},
};
use fugue_core::{CallId, CallRequest, TmuxLookup};

use super::{Engine, LoopControl};
use crate::{pending_calls::Responder, reap};

/// A stop of the daemon that waits until the panes are closed.
pub(super) struct DaemonShutdown {
    /// The thread that removes tmux panes of ended panes.
    views: Option<std::thread::JoinHandle<()>>,
    responder: Option<Responder>,
    open_calls: HashSet<CallId>,
    closed_panes: u64,
}

impl Engine {
    pub(super) fn stop(&mut self, asker: Responder, panes: bool) -> LoopControl {
        if self.stopping.is_some() {
            asker.answer(Err(Error::new(
                ErrorKind::Unavailable,
                "the daemon is already stopping",
            )));
            return LoopControl::Continue;
        }
        let live: Vec<PaneId> = if panes {
            self.core.own_panes().collect()
        } else {
            Vec::new()
        };
        let calls: Vec<CallId> = live
            .iter()
            .enumerate()
            .map(|(n, _)| CallId(self.own_calls + n as u64))
            .collect();
        self.own_calls += calls.len() as u64;
        let open = calls.iter().copied().collect();
        let views = panes.then(|| {
            let dir = self.context.paths.panes();
            std::thread::spawn(move || reap::ended_views(&dir))
        });
        self.stopping = Some(DaemonShutdown {
            views,
            responder: Some(asker),
            open_calls: open,
            closed_panes: live.len() as u64,
        });
        let caller = Arc::new(CallerEnv::nobody());
        for (call, pane) in calls.into_iter().zip(live) {
            let close = ClosePane {
                pane_id: pane.to_string(),
                grace_ms: ClosePane::grace_ms(),
            };
            let ask = Request::Tool {
                call: ToolCall::ClosePane(close),
            };
            let asked = CallRequest {
                key: IdempotencyKey([0; 16]),
                who: CallerIdentity::Person {
                    project: String::new(),
                },
                within: None,
                caller: caller.clone(),
                request: ask,
                launch_envs: Ok(Vec::new()),
                watch: None,
                tmux: TmuxLookup::None,
            };
            self.enter(call, asked);
        }
        self.exit_if_finished()
    }

    pub(super) fn own_call_ended(&mut self, call: CallId) -> LoopControl {
        if let Some(stopping) = &mut self.stopping {
            stopping.open_calls.remove(&call);
        }
        self.exit_if_finished()
    }

    pub(super) fn exit_if_finished(&mut self) -> LoopControl {
        let Some(stopping) = self
            .stopping
            .as_mut()
            .filter(|stopping| stopping.open_calls.is_empty() && self.removals == 0)
        else {
            return LoopControl::Continue;
        };
        // No work is left, so the thread can be joined here.
        if let Some(views) = stopping.views.take() {
            let _ = views.join();
        }
        if let Some(asker) = stopping.responder.take() {
            asker.answer(Ok(Response::Stopping {
                panes_closed: stopping.closed_panes,
            }));
        }
        LoopControl::Exit
    }
}
