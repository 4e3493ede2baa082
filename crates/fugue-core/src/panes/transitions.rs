//! The state machine of one pane.

use std::time::Duration;

use fugue_api::{Cursor, Error, ErrorKind, PaneId, tools::PaneSize};

use super::{
    PROMPT_TIMEOUT, PaneEntry, PanePhase, Panes,
    limits::log_bytes,
    replies::{closed, created, put},
};
use crate::{
    AdoptMode, AfterCommit, CallId, Change, Effect, PaneEnd, RecordId, StartTarget, TmuxPane,
    calls::starts::StartHistory, context::StepBuilder, settings::Settings, timer::Timer,
};

impl Panes {
    /// Removes a pane whose process could not be started, and refuses the pane's waiting calls.
    pub fn remove_unopened(
        &mut self,
        id: PaneId,
        error: &Error,
        starts: &mut StartHistory,
        out: &mut StepBuilder,
    ) {
        let calls = self.calls_waiting_on(id);
        let mut changes: Vec<Change> = self.forget(id).into_iter().collect();
        changes.extend(starts.undo(&StartTarget::Pane(id)));
        out.commit(changes);
        out.when_stored()
            .then(AfterCommit::RemovePaneDir { pane: id });
        for call in calls {
            out.when_stored().reply(call, Err(error.clone()));
        }
    }

    /// Removes a pane whose start could not be stored, and refuses the pane's waiting calls.
    pub fn remove_unstored(
        &mut self,
        id: PaneId,
        why: &str,
        starts: &mut StartHistory,
        out: &mut StepBuilder,
    ) {
        let calls = self.calls_waiting_on(id);
        if self.remove(&id).is_none() {
            return;
        }
        starts.undo(&StartTarget::Pane(id));
        // A later commit may have put the pane.
        out.commit([Change::Remove(RecordId::Pane(id))]);
        for call in calls {
            out.refuse(call, not_recorded(why));
        }
    }

    pub fn prompt_wait_expired(&mut self, id: PaneId, out: &mut StepBuilder) {
        if let Some(pane) = self.get_mut(&id) {
            let note = "no prompt was seen within 10 s; its start-up files may still be running";
            pane.settle(None, Some(note), out);
        }
    }

    pub fn forget_call(&mut self, gone: CallId) {
        for pane in self.iter_mut() {
            pane.closers.retain(|call| *call != gone);
            if let Some(callers) = pane.callers_mut() {
                callers.retain(|call| *call != gone);
            }
        }
    }

    /// Removes a pane from the registry. The record is kept until the pane's directory is removed.
    pub fn forget(&mut self, id: PaneId) -> Option<Change> {
        let mut record = self.remove(&id)?.record;
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
    /// The process has started. Calls are answered now, or at the first prompt if the shell announces its prompts.
    pub fn opened(
        &mut self,
        pid: u32,
        cursor: Cursor,
        tmux: Option<TmuxPane>,
        out: &mut StepBuilder,
    ) {
        self.record.pid = pid;
        self.record.tmux = tmux;
        out.commit([put(&self.record)]);
        let PanePhase::Opening { callers } = &mut self.phase else {
            return;
        };
        let callers = std::mem::take(callers);
        if self.record.announces_prompts() {
            self.phase = PanePhase::Settling { callers };
            let give_up_at = out.now().since_boot + PROMPT_TIMEOUT;
            out.set_timer(Timer::PromptWait(self.record.id), give_up_at);
            return;
        }
        self.phase = PanePhase::Live;
        for call in callers {
            let cursor = Some(cursor.clone());
            out.when_stored()
                .then(created(&self.record, call, cursor, true, None));
        }
    }

    /// Answers the calls that wait for the first prompt. `trouble`: why no prompt came.
    pub fn settle(&mut self, cursor: Option<Cursor>, trouble: Option<&str>, out: &mut StepBuilder) {
        let PanePhase::Settling { callers } = &mut self.phase else {
            return;
        };
        for call in std::mem::take(callers) {
            out.when_stored().then(created(
                &self.record,
                call,
                cursor.clone(),
                trouble.is_none(),
                trouble,
            ));
        }
        self.phase = PanePhase::Live;
        out.stop_timer(&Timer::PromptWait(self.record.id));
    }

    pub fn moved(&mut self, cwd: String) {
        self.record.cwd = cwd;
    }

    pub fn resized(&mut self, size: PaneSize, out: &mut StepBuilder) {
        self.record.size = size;
        out.commit([put(&self.record)]);
    }

    pub fn output_not_written(&mut self, bytes: u64) {
        self.lost_bytes = bytes;
    }

    /// Puts a pane whose shell is started again back into the opening phase.
    pub fn restart(&mut self, out: &mut StepBuilder) {
        self.record.generation += 1;
        self.record.pid = 0;
        self.phase = PanePhase::Opening {
            callers: Vec::new(),
        };
        out.stop_timer(&Timer::PromptWait(self.record.id));
        out.commit([put(&self.record)]);
    }

    /// How a pane whose task has panicked is adopted again.
    pub fn task_panicked(&mut self, message: String) -> AdoptMode {
        self.panics += 1;
        match self.panics {
            1 => AdoptMode::Terminal,
            _ => AdoptMode::RawOutput { panic: message },
        }
    }

    /// The process has ended. `alone`: the process is known to have left no other process. `sweeps`: the pane reports
    /// `Swept` next.
    pub fn ended(
        &mut self,
        end: PaneEnd,
        alone: bool,
        sweeps: bool,
        settings: &Settings,
        out: &mut StepBuilder,
    ) {
        self.alone = alone;
        self.log_bytes = log_bytes(&end.cursor, settings);
        self.record.ended = Some(end);
        self.settle(None, Some("it ended before its first prompt"), out);
        self.phase = PanePhase::Ended;
        // Calls of `close_pane` are answered at `Swept`, after the remaining processes of the pane were ended.
        out.commit([put(&self.record)]);
        // The process ended before the pane received `Close`, so the daemon ends the remaining processes, without a commit.
        if self.record.closing && !sweeps {
            out.perform(Effect::EndProcesses {
                pane: self.record.id,
                grace: Duration::ZERO,
            });
        }
    }

    /// Answers the `close_pane` calls: no process of the pane is left.
    pub fn swept(&mut self, out: &mut StepBuilder) {
        let calls = std::mem::take(&mut self.closers);
        let mut note = (self.lost_bytes > 0).then(|| {
            format!(
                "{} bytes of its last output could not be written and are lost",
                self.lost_bytes
            )
        });
        if let Some(ended) = &mut self.record.ended
            && !ended.closed
        {
            ended.closed = true;
            note.get_or_insert_with(|| "it had ended by itself".to_owned());
            out.commit([put(&self.record)]);
        }
        // The reply waits for no commit: the holder has written the exit to a file that the next daemon reads.
        for call in calls {
            out.perform(closed(&self.record, call, note.as_deref()));
        }
    }
}
