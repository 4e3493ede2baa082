//! What must hold in every history, apart from the answers to calls.

use std::collections::BTreeSet;

use fugue_api::{EventId, ToolCall};

use super::{OpenCall, SimulatedSystem};
use crate::CallId;

impl SimulatedSystem {
    /// What a call was answered as done is in the store.
    pub(super) fn check_stored(&mut self, call: CallId, open: &OpenCall) {
        let stored = self.store.snapshot();
        let key = open.key;
        let mut watched = stored
            .watchers
            .iter()
            .map(|watcher| watcher.record.pane.to_string());
        let is_stored = match &open.tool {
            ToolCall::CreatePane(_)
            | ToolCall::RunParallel(_)
            | ToolCall::RunPipeline(_)
            | ToolCall::SpawnWorker(_) => stored.starts.iter().any(|start| start.key == key),
            ToolCall::RunExpect(_) => {
                stored.starts.iter().any(|start| start.key == key)
                    || stored.runs.iter().any(|run| run.record.made_by == key)
            }
            ToolCall::SendMessage(_) | ToolCall::NotifyCompletion(_) => {
                let mut events = stored.events.iter();
                events.any(|event| event.made_by == Some(key))
            }
            ToolCall::AskQuestion(_) => {
                let mut questions = stored.questions.iter();
                questions.any(|question| question.made_by == key)
            }
            ToolCall::AnswerQuestion(args) => {
                let mut questions = stored.questions.iter();
                questions
                    .any(|question| question.id == args.question_id && question.answer.is_some())
            }
            // An id may be shortened.
            ToolCall::WatchMe(args) => {
                let name = args.tmux_window.as_deref().unwrap_or_default();
                watched.any(|pane| pane.starts_with(name))
            }
            ToolCall::Clear(args) => watched.all(|pane| Some(pane) != args.tmux_window),
            // Their replies do not promise a record, or have the result of a run.
            ToolCall::GetStatus(_)
            | ToolCall::ReadPane(_)
            | ToolCall::SendInput(_)
            | ToolCall::ClosePane(_)
            | ToolCall::WaitForRun(_)
            | ToolCall::CancelRun(_)
            | ToolCall::WaitForEvent(_)
            | ToolCall::LookMa(_)
            | ToolCall::Pause(_) => true,
        };
        if !is_stored {
            self.violation(format!(
                "call {} of {} is answered before it is stored",
                call.0,
                open.tool.name()
            ));
        }
    }

    /// The event is leased to the reply of a call.
    pub(super) fn lease(&mut self, call: CallId, event: EventId) {
        let stored = self.store.snapshot();
        let mut events = stored.events.iter();
        if events.any(|known| known.id == event && known.taken) {
            self.violation(format!("{event} is delivered after its ack was stored"));
        }
        if self.leases.values().any(|leased| *leased == event) {
            self.violation(format!("{event} is delivered to two calls"));
        }
        if !self.cancelled.contains(&call) {
            self.leases.insert(call, event);
        }
    }

    /// A start that was refused is not in the store.
    pub(super) fn check_refused_starts(&mut self) {
        let stored = self.store.snapshot();
        for key in self.refused_keys.clone() {
            let pane = stored.panes.iter().find(|pane| pane.made_by == key);
            if let Some(pane) = pane {
                self.violation(format!("refused {} is stored", pane.id));
            }
            if let Some(run) = stored.runs.iter().find(|run| run.record.made_by == key) {
                self.violation(format!("refused run {} is stored", run.record.id));
            }
            if stored.starts.iter().any(|start| start.key == key) {
                self.violation("a refused start is stored");
            }
        }
    }

    /// What holds after every step.
    pub(super) fn check(&mut self) {
        if self.commits.is_empty() {
            let unneeded = self.store.unneeded_environments();
            if !unneeded.is_empty() {
                self.violation(format!("environments that no record needs: {unneeded:?}"));
            }
        }
        let open: BTreeSet<CallId> = self.calls.keys().copied().collect();
        for timer in self.core.ownerless_timers(&open) {
            self.violation(format!("timer without an owner: {timer}"));
        }
    }
}
