//! The end of the daemon on request of a client, after its panes are closed.

use std::{collections::HashSet, sync::Arc};

use fugue_api::{
    Error, ErrorKind, PaneId, ToolCall,
    panes::ClosePane,
    wire::{CallerEnv, CallerIdentity, IdempotencyKey, Request, Response},
};
use fugue_core::{CallId, CallRequest, TmuxLookup};

use super::{Engine, Going};
use crate::{desk::Responder, sweep};

/// The end of the daemon, waiting for its panes.
pub(super) struct Stopping {
    /// Removes what tmux shows of panes that have ended.
    views: Option<std::thread::JoinHandle<()>>,
    asker: Option<Responder>,
    open: HashSet<CallId>,
    closed: u64,
}

impl Engine {
    pub(super) fn stop(&mut self, asker: Responder, panes: bool) -> Going {
        if self.stopping.is_some() {
            asker.answer(Err(Error::new(
                ErrorKind::Unavailable,
                "the daemon is stopping already",
            )));
            return Going::On;
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
            let dir = self.house.paths.panes();
            std::thread::spawn(move || sweep::ended_views(&dir))
        });
        self.stopping = Some(Stopping {
            views,
            asker: Some(asker),
            open,
            closed: live.len() as u64,
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
                ask,
                worlds: Ok(Vec::new()),
                watch: None,
                tmux: TmuxLookup::None,
            };
            self.enter(call, asked);
        }
        self.over_if_nothing_is_open()
    }

    pub(super) fn own_call_ended(&mut self, call: CallId) -> Going {
        if let Some(stopping) = &mut self.stopping {
            stopping.open.remove(&call);
        }
        self.over_if_nothing_is_open()
    }

    pub(super) fn over_if_nothing_is_open(&mut self) -> Going {
        let Some(stopping) = self
            .stopping
            .as_mut()
            .filter(|stopping| stopping.open.is_empty() && self.removals == 0)
        else {
            return Going::On;
        };
        // Nothing else is left to do, and what is not through by now never will be.
        if let Some(views) = stopping.views.take() {
            let _ = views.join();
        }
        if let Some(asker) = stopping.asker.take() {
            asker.answer(Ok(Response::Stopping {
                panes_closed: stopping.closed,
            }));
        }
        Going::Over
    }
}
