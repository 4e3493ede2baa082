//! The state machine of panes. Events of panes are routed to runs, workers and watchers as well.

use std::time::Duration;

use fugue_api::{Cursor, Error, ErrorKind, PaneId};

use super::{
    PROMPT_TIMEOUT, PaneEntry, PanePhase,
    limits::log_bytes,
    replies::{closed, created, put},
};
use crate::{
    AdoptMode, AfterCommit, CallId, Change, Core, Effect, PaneAdoption, PaneEnd, PaneEvent,
    RecordId, StartTarget, context::Context, timer::Timer,
};

impl Core {
    /// Applies an event of a pane.
    pub(crate) fn handle_pane_event(&mut self, id: PaneId, fact: PaneEvent, cx: &mut Context) {
        if let PaneEvent::Ended { exit, cursor, .. } = &fact
            && self
                .runs
                .restart_shell(id, exit, cursor, &mut self.shared, cx)
        {
            return;
        }
        if let PaneEvent::Removed = fact {
            cx.commit([Change::Remove(RecordId::Pane(id))]);
            return;
        }
        let Some(pane) = self.shared.panes.get_mut(&id) else {
            return;
        };
        match fact {
            PaneEvent::Opened { pid, cursor, tmux } => {
                pane.record.pid = pid;
                pane.record.tmux = tmux;
                cx.commit([put(&pane.record)]);
                self.pane_opened(id, cursor, cx);
                self.team.worker_opened(id, cx);
            }
            PaneEvent::OpenFailed(error) => self.pane_not_opened(id, &error, cx),
            PaneEvent::NeverStarted(error) => self.reopen_pane(id, &error, cx),
            PaneEvent::Prompted { cursor } => pane.settle(Some(cursor), None, cx),
            PaneEvent::AttentionBeforePrompt { cursor } => {
                pane.settle(
                    Some(cursor),
                    Some("something asks for input before the first prompt"),
                    cx,
                );
            }
            PaneEvent::LogGrew { bytes } => self.log_grew(id, bytes, cx),
            PaneEvent::Moved { cwd } => pane.record.cwd = cwd,
            PaneEvent::Resized(size) => {
                pane.record.size = size;
                cx.commit([put(&pane.record)]);
            }
            PaneEvent::OutputLost { bytes } => pane.lost_bytes = bytes,
            PaneEvent::Ended {
                exit,
                cursor,
                title,
                alone,
                sweeps,
            } => {
                pane.alone = alone;
                pane.log_bytes = log_bytes(&cursor, &self.shared.settings);
                pane.record.ended = Some(PaneEnd {
                    exit,
                    at: cx.now().moment(),
                    closed: pane.record.closing,
                    cursor,
                    title,
                });
                self.pane_ended(id, sweeps, cx);
            }
            PaneEvent::Swept => self.pane_swept(id, cx),
            PaneEvent::TaskPanicked { .. } if pane.record.ended.is_some() => {}
            PaneEvent::TaskPanicked { message } => {
                pane.panics += 1;
                let how = match pane.panics {
                    1 => AdoptMode::Terminal,
                    _ => AdoptMode::RawOutput { panic: message },
                };
                let record = pane.record.clone();
                let steps = self.runs.steps_in(id);
                let adoption = PaneAdoption { record, steps, how };
                cx.perform(Effect::AdoptPane(Box::new(adoption)));
                self.runs.resume_expects(id, cx);
            }
            // Handled above: the registry has no such pane any more.
            PaneEvent::Removed => {}
            PaneEvent::ExpectStarted { run, from } => self.runs.expect_started(&run, from, cx),
            PaneEvent::ExpectMatched {
                run,
                from,
                pattern,
                found,
            } => self
                .runs
                .expect_matched(&run, from, pattern, found, &mut self.shared, cx),
            PaneEvent::ExpectExhausted { run } => {
                self.runs.expect_exhausted(&run, id, &mut self.shared, cx)
            }
            PaneEvent::StepBegan(news) => self.runs.step_began(news, cx),
            PaneEvent::StepEnded(news, code) => {
                self.runs.step_ended(news, code, &mut self.shared, cx)
            }
            PaneEvent::StepsLost { plan, at, why } => {
                self.runs.steps_lost(plan, &at, why, &mut self.shared, cx);
            }
            PaneEvent::StepsRefused { plan, error } => {
                self.runs.steps_refused(plan, &error, &mut self.shared, cx)
            }
            PaneEvent::StepsStopped { plan } => self.runs.steps_stopped(plan, &mut self.shared, cx),
            PaneEvent::AttentionChanged(asks) => {
                self.team.pane_needs_input(id, asks, &mut self.shared, cx)
            }
            PaneEvent::IdleChanged(rest) => self.team.pane_idle(id, rest, &mut self.shared, cx),
            PaneEvent::MessageTyped { event, how } => {
                self.team
                    .message_typed(id, event, how, &mut self.shared, cx)
            }
            PaneEvent::Quiet {
                watcher,
                step,
                seen,
            } => self
                .watchers
                .quiet(watcher, step, seen, &mut self.shared, cx),
            PaneEvent::Injected { watcher, step, how } => {
                self.watchers
                    .injected(watcher, step, how, &mut self.shared, cx)
            }
        }
    }

    /// Removes a pane whose process could not be started, and refuses the calls that wait for it.
    fn pane_not_opened(&mut self, id: PaneId, error: &Error, cx: &mut Context) {
        let Some(pane) = self.shared.panes.get_mut(&id) else {
            return;
        };
        let mut callers = match &mut pane.phase {
            PanePhase::Opening { callers } | PanePhase::Settling { callers } => {
                std::mem::take(callers)
            }
            PanePhase::Live | PanePhase::Ended => Vec::new(),
        };
        callers.append(&mut pane.closers);
        let mut changes: Vec<Change> = self.forget(id).into_iter().collect();
        changes.extend(self.shared.starts.undo(&StartTarget::Pane(id)));
        cx.commit(changes);
        cx.when_stored()
            .then(AfterCommit::RemovePaneDir { pane: id });
        for call in callers {
            cx.when_stored().reply(call, Err(error.clone()));
        }
        self.runs
            .run_pane_not_opened(id, error, &mut self.shared, cx);
        self.runs.end_settled_runs(&mut self.shared, cx);
        self.team.worker_not_opened(id, error, cx);
    }

    /// Opens a pane again whose process an earlier daemon did not start, if a worker or a run needs the pane.
    fn reopen_pane(&mut self, id: PaneId, error: &Error, cx: &mut Context) {
        let worker = self
            .shared
            .panes
            .get(&id)
            .and_then(|pane| self.team.worker_again(&pane.record, cx.now()));
        if let Some(open) = worker {
            cx.when_stored().then(open);
        } else if !self.runs.reopen_pane(id, &mut self.shared, cx) {
            self.pane_not_opened(id, error, cx);
        }
    }

    fn pane_ended(&mut self, id: PaneId, sweeps: bool, cx: &mut Context) {
        let Some(pane) = self.shared.panes.get_mut(&id) else {
            return;
        };
        pane.settle(None, Some("it ended before its first prompt"), cx);
        pane.phase = PanePhase::Ended;
        // Calls of `close_pane` are answered at `Swept`, after the remaining processes of the pane were ended.
        cx.commit([put(&pane.record)]);
        // The process ended before the pane received `Close`, so the daemon ends what is left, without a commit.
        if pane.record.closing && !sweeps {
            let grace = Duration::ZERO;
            cx.perform(Effect::EndProcesses { pane: id, grace });
        }
        self.runs.record_pane_end(id, &mut self.shared, cx);
        self.team.worker_ended(id, &mut self.shared, cx);
        self.watchers.watched_pane_ended(id, &mut self.shared, cx);
        self.forget_old(cx);
    }

    /// Answers the `close_pane` calls of a pane.
    fn pane_swept(&mut self, id: PaneId, cx: &mut Context) {
        let Some(pane) = self.shared.panes.get_mut(&id) else {
            return;
        };
        let calls = std::mem::take(&mut pane.closers);
        let mut note = (pane.lost_bytes > 0).then(|| {
            format!(
                "{} bytes of its last output could not be written and are lost",
                pane.lost_bytes
            )
        });
        let mut change = None;
        if let Some(ended) = &mut pane.record.ended
            && !ended.closed
        {
            ended.closed = true;
            note.get_or_insert_with(|| "it had ended by itself".to_owned());
            change = Some(put(&pane.record));
        }
        // The reply waits for no commit: the holder has written the exit to a file that the next daemon reads.
        for call in calls {
            cx.perform(closed(&pane.record, call, note.as_deref()));
        }
        if let Some(change) = change {
            cx.commit([change]);
        }
        self.runs.end_settled_runs(&mut self.shared, cx);
    }

    fn pane_opened(&mut self, id: PaneId, cursor: Cursor, cx: &mut Context) {
        let Some(pane) = self.shared.panes.get_mut(&id) else {
            return;
        };
        let PanePhase::Opening { callers } = &mut pane.phase else {
            return;
        };
        let callers = std::mem::take(callers);
        if pane.record.announces_prompts() {
            pane.phase = PanePhase::Settling { callers };
            let give_up_at = cx.now().since_boot + PROMPT_TIMEOUT;
            cx.set_timer(Timer::PromptWait(id), give_up_at);
            return;
        }
        pane.phase = PanePhase::Live;
        for call in callers {
            cx.when_stored().then(created(
                &pane.record,
                call,
                Some(cursor.clone()),
                true,
                None,
            ));
        }
    }

    pub(crate) fn not_stored(&mut self, id: PaneId, why: &str, cx: &mut Context) {
        let Some(pane) = self.shared.panes.remove(&id) else {
            return;
        };
        self.shared.starts.undo(&StartTarget::Pane(id));
        // A later commit may have put the pane.
        cx.commit([Change::Remove(RecordId::Pane(id))]);
        for call in pane.closers {
            cx.refuse(call, not_recorded(why));
        }
        if let PanePhase::Opening { callers } | PanePhase::Settling { callers } = pane.phase {
            for call in callers {
                cx.refuse(call, not_recorded(why));
            }
        }
    }

    pub(crate) fn prompt_wait_expired(&mut self, id: PaneId, cx: &mut Context) {
        if let Some(pane) = self.shared.panes.get_mut(&id) {
            let note = "no prompt was seen within 10 s; its start-up files may still be running";
            pane.settle(None, Some(note), cx);
        }
    }

    pub(crate) fn forget_call(&mut self, gone: CallId) {
        for pane in self.shared.panes.iter_mut() {
            pane.closers.retain(|call| *call != gone);
            if let PanePhase::Opening { callers } | PanePhase::Settling { callers } =
                &mut pane.phase
            {
                callers.retain(|call| *call != gone);
            }
        }
    }

    /// Removes a pane from the registry. The record is kept until the pane's directory is removed.
    pub(crate) fn forget(&mut self, id: PaneId) -> Option<Change> {
        let mut record = self.shared.panes.remove(&id)?.record;
        record.removing = true;
        Some(Change::put(record))
    }
}

fn not_recorded(why: &str) -> Error {
    Error::new(
        ErrorKind::Exhausted,
        format!("the new pane could not be recorded: {why}"),
    )
    .hint("nothing was started; is the disk full, or read-only?")
}

impl PaneEntry {
    /// Answers the calls that wait for the first prompt. `trouble`: why there is none.
    fn settle(&mut self, cursor: Option<Cursor>, trouble: Option<&str>, cx: &mut Context) {
        let PanePhase::Settling { callers } = &mut self.phase else {
            return;
        };
        for call in std::mem::take(callers) {
            cx.when_stored().then(created(
                &self.record,
                call,
                cursor.clone(),
                trouble.is_none(),
                trouble,
            ));
        }
        self.phase = PanePhase::Live;
        cx.stop_timer(&Timer::PromptWait(self.record.id));
    }
}
