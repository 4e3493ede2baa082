//! Background jobs: effects that need files, git or a terminal replay, and so run outside the engine's loop.

use std::{collections::BTreeSet, time::Duration};

use fugue_api::{Error, EventId, PaneId, RunId, wire::Response, worktree::WorktreeRequest};
use fugue_core::{
    CallId, CoreInput, ExpectRequest, Inventory, OutputPart, PaneEvent, PaneRecord, PaneRequest,
};

use super::{DaemonContext, Engine, EngineEvent};
use crate::{archive, gc, pane::PaneHandle, reap, whole, workers::worktrees};

/// Whether a garbage collection removes what it finds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum GarbageRun {
    ListOnly,
    Remove,
}

impl Engine {
    /// Runs file and git work of a worker on a blocking thread and passes the result to core.
    pub(super) fn spawn_worker_job(
        &self,
        work: impl FnOnce(&DaemonContext) -> CoreInput + Send + 'static,
    ) {
        let (events, context) = (self.event_sender.clone(), self.context.clone());
        tokio::task::spawn_blocking(move || {
            let input = work(&context);
            let _ = events.blocking_send(EngineEvent::JobDone(input));
        });
    }

    /// Answers a request about an ended pane from its files.
    pub(super) fn ask_archive(
        &mut self,
        call: CallId,
        record: Box<PaneRecord>,
        request: PaneRequest,
    ) {
        if let Some(responder) = self.pending_calls.take(call) {
            let answer = archive::answer(record, request, self.context.clone());
            let task = whole::answer_later(responder, answer);
            self.pending_calls.set_wait(call, task.abort_handle());
        }
    }

    /// Searches the output of an ended pane for an expect.
    pub(super) fn search_archive(&self, record: Box<PaneRecord>, expect: Box<ExpectRequest>) {
        let (events, context) = (self.event_sender.clone(), self.context.clone());
        tokio::spawn(async move {
            let pane = record.id;
            for event in archive::search(record, &expect, context).await {
                let _ = events.send(EngineEvent::Pane(pane, event)).await;
            }
        });
    }

    /// Finds unused files and, unless they are only listed, removes them.
    pub(super) fn collect_garbage(&mut self, call: CallId, inventory: Inventory, run: GarbageRun) {
        let dry_run = run == GarbageRun::ListOnly;
        let (context, events) = (self.context.clone(), self.event_sender.clone());
        let responder = self.pending_calls.take(call);
        if !dry_run {
            self.removals += inventory.forgotten.len();
        }
        tokio::task::spawn_blocking(move || {
            let removed = |pane, outcome| {
                let _ = events.blocking_send(EngineEvent::Removal { pane, outcome });
            };
            let collected = gc::collect(&inventory, dry_run, &context.paths, removed);
            if let Some(responder) = responder {
                responder.answer(Ok(Response::Garbage { collected }));
            }
        });
    }

    /// Answers a request about worktrees, which needs git.
    pub(super) fn answer_worktrees(
        &mut self,
        call: CallId,
        request: WorktreeRequest,
        live: BTreeSet<u64>,
    ) {
        let context = self.context.clone();
        if let Some(responder) = self.pending_calls.take(call) {
            tokio::task::spawn_blocking(move || {
                let response = worktrees::perform(&request, &live, &context.paths);
                responder.answer(response.map(|response| Response::Worktrees { response }));
            });
        }
    }

    /// Kills the remaining processes of an ended pane.
    pub(super) fn sweep_pane(&self, pane: PaneId, grace: Duration) {
        let (events, dir) = (
            self.event_sender.clone(),
            self.context.paths.panes().join(pane.to_string()),
        );
        tokio::task::spawn_blocking(move || {
            reap::pane(pane, &dir, grace);
            let _ = events.blocking_send(EngineEvent::Pane(pane, PaneEvent::Swept));
        });
    }

    /// Removes the directory of a forgotten pane.
    pub(super) fn forget_pane(&mut self, pane: PaneId) {
        let dir = self.context.paths.panes().join(pane.to_string());
        let events = self.event_sender.clone();
        self.removals += 1;
        tokio::task::spawn_blocking(move || {
            let outcome = reap::remove_pane_dir(&dir);
            let _ = events.blocking_send(EngineEvent::Removal { pane, outcome });
        });
    }

    /// The parts of a result, each with its live pane.
    pub(super) fn with_handles(
        &self,
        parts: Vec<Option<OutputPart>>,
    ) -> Vec<Option<(OutputPart, Option<PaneHandle>)>> {
        let parts = parts.into_iter().map(|part| {
            let part = part?;
            let handle = self.panes.get(&part.record.id).cloned();
            Some((part, handle))
        });
        parts.collect()
    }

    /// Answers with the composed reply of a run, and reports to core whether the reply was delivered. `event` is leased to
    /// the reply.
    pub(super) fn compose_reply(
        &mut self,
        call: CallId,
        run: RunId,
        event: Option<EventId>,
        reply: impl Future<Output = Result<Response, Error>> + Send + 'static,
    ) {
        let events = self.event_sender.clone();
        let answer = self.pending_calls.take(call).map(|responder| {
            let (task, delivered) = whole::answer_with_event(responder, reply, event);
            self.pending_calls.set_wait(call, task.abort_handle());
            delivered
        });
        tokio::spawn(async move {
            // An error means that the call was cancelled before the reply was encoded.
            let delivered = match answer {
                Some(delivered) => delivered.await.unwrap_or(false),
                None => false,
            };
            let composed = CoreInput::ReplyComposed { run, delivered };
            let _ = events.send(EngineEvent::JobDone(composed)).await;
        });
    }
}
