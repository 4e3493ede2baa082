//! What happens to panes: facts from their tasks, and the passing of time.

use std::time::Duration;

use fugue_api::{Cursor, Error, ErrorKind, PaneId};

use super::{
    PATIENCE_FOR_A_PROMPT, PaneEntry, PanePhase,
    limits::log_bytes,
    replies::{closed, created, put},
};
use crate::{
    AdoptMode, CallId, Change, ClockReading, Core, Effect, PaneEnd, PaneEvent, StartTarget,
};

impl Core {
    pub(crate) fn fact(
        &mut self,
        id: PaneId,
        fact: PaneEvent,
        now: ClockReading,
        effects: &mut Vec<Effect>,
    ) {
        if let PaneEvent::Ended { exit, cursor, .. } = &fact
            && self.shell_goes_on(id, exit, cursor, now, effects)
        {
            return;
        }
        if let PaneEvent::Removed = fact {
            return effects.push(Effect::Commit {
                changes: vec![Change::Drop(id)],
                undo: None,
            });
        }
        let Some(pane) = self.panes.get_mut(&id) else {
            return;
        };
        match fact {
            PaneEvent::Opened { pid, cursor, tmux } => {
                pane.record.pid = pid;
                pane.record.tmux = tmux;
                effects.push(put(&pane.record));
                self.pane_opened(id, cursor, now, effects);
                self.worker_opened(id, now, effects);
            }
            PaneEvent::OpenFailed(error) => {
                let callers = match &mut pane.phase {
                    PanePhase::Opening { callers } | PanePhase::Settling { callers, .. } => {
                        std::mem::take(callers)
                    }
                    PanePhase::Live | PanePhase::Ended => Vec::new(),
                };
                let mut changes: Vec<Change> = self.forget(id).into_iter().collect();
                changes.extend(self.starts.undo(&StartTarget::Pane(id)));
                effects.push(Effect::Commit {
                    changes,
                    undo: None,
                });
                effects.push(Effect::Forget { pane: id });
                for call in callers {
                    effects.push(Effect::Answer {
                        call,
                        answer: Err(error.clone()),
                    });
                }
                self.run_pane_not_opened(id, &error, now, effects);
                self.runs_hear_swept(now, effects);
                self.worker_not_opened(id, &error, effects);
            }
            PaneEvent::NeverStarted(error) => {
                let worker = self
                    .panes
                    .get(&id)
                    .and_then(|pane| self.worker_again(&pane.record, now));
                if let Some(open) = worker {
                    effects.push(open);
                } else if !self.start_again(id, effects) {
                    self.fact(id, PaneEvent::OpenFailed(error), now, effects);
                }
            }
            PaneEvent::Prompted { cursor } => pane.settle(Some(cursor), None, effects),
            PaneEvent::AsksFirst { cursor } => {
                pane.settle(
                    Some(cursor),
                    Some("something asks for input before the first prompt"),
                    effects,
                );
            }
            PaneEvent::LogGrew { bytes } => self.log_grew(id, bytes, now, effects),
            PaneEvent::Moved { cwd } => pane.record.cwd = cwd,
            PaneEvent::Resized(size) => {
                pane.record.size = size;
                effects.push(put(&pane.record));
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
                pane.log_bytes = log_bytes(&cursor, &self.settings);
                pane.record.ended = Some(PaneEnd {
                    exit,
                    at: now.moment(),
                    closed: pane.record.closing,
                    cursor,
                    title,
                });
                pane.settle(None, Some("it ended before its first prompt"), effects);
                pane.phase = PanePhase::Ended;
                // Answers to close_pane wait for the sweep: only then is no process left.
                effects.insert(0, put(&pane.record));
                // It ended by itself before it heard that it is to be closed. Ending processes waits for no disk.
                if pane.record.closing && !sweeps {
                    let grace = Duration::ZERO;
                    effects.insert(0, Effect::Sweep { pane: id, grace });
                }
                self.runs_hear_end(id, now, effects);
                self.worker_ended(id, effects);
                self.watched_pane_ended(id, now, effects);
                self.forget_old(now, effects);
            }
            PaneEvent::Swept => {
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
                // The answer waits for no disk: the record of the exit is on it, and the next daemon reads that.
                for call in calls {
                    effects.push(closed(&pane.record, call, note.as_deref()));
                }
                effects.extend(change);
                self.runs_hear_swept(now, effects);
            }
            PaneEvent::TaskPanicked { .. } if pane.record.ended.is_some() => {}
            PaneEvent::TaskPanicked { message } => {
                pane.panics += 1;
                let how = match pane.panics {
                    1 => AdoptMode::Terminal,
                    _ => AdoptMode::RawOutput { panic: message },
                };
                let record = Box::new(pane.record.clone());
                let steps = self.runs.values().find_map(|run| run.steps_in(id));
                effects.push(Effect::Adopt { record, steps, how });
                self.expect_again(id, effects);
            }
            // Dealt with above: no pane has that id any more.
            PaneEvent::Removed => {}
            PaneEvent::Watching { run, from } => self.watching(&run, from, effects),
            PaneEvent::Sighted { run, saw, sighting } => {
                self.sighted(&run, saw, sighting, now, effects)
            }
            PaneEvent::NothingSeen { run } => self.nothing_seen(&run, id, now, effects),
            PaneEvent::StepBegan(news) => self.step_began(news, now, effects),
            PaneEvent::StepEnded(news, code) => self.step_ended(news, code, now, effects),
            PaneEvent::StepsLost { plan, at, why } => {
                self.steps_lost(plan, &at, why, now, effects);
            }
            PaneEvent::StepsRefused { plan, error } => self.steps_refused(plan, &error, effects),
            PaneEvent::StepsStopped { plan } => self.steps_stopped(plan, now, effects),
            PaneEvent::Asks(asks) => self.pane_asks(id, asks, now, effects),
            PaneEvent::Rest(rest) => self.rests(id, rest, effects),
            PaneEvent::MessageTyped { event, how } => self.typed(id, event, how, effects),
            PaneEvent::Quiet {
                watcher,
                step,
                seen,
            } => self.quiet(watcher, step, seen, now, effects),
            PaneEvent::Injected { watcher, step, how } => {
                self.injected(watcher, step, how, now, effects)
            }
        }
    }

    fn pane_opened(
        &mut self,
        id: PaneId,
        cursor: Cursor,
        now: ClockReading,
        effects: &mut Vec<Effect>,
    ) {
        let Some(pane) = self.panes.get_mut(&id) else {
            return;
        };
        let PanePhase::Opening { callers } = &mut pane.phase else {
            return;
        };
        let callers = std::mem::take(callers);
        if pane.record.announces_prompts() {
            let give_up_at = now.since_boot + PATIENCE_FOR_A_PROMPT;
            pane.phase = PanePhase::Settling {
                callers,
                give_up_at,
            };
            effects.push(Effect::WakeAt(give_up_at));
            return;
        }
        pane.phase = PanePhase::Live;
        for call in callers {
            effects.push(created(
                &pane.record,
                call,
                Some(cursor.clone()),
                true,
                None,
            ));
        }
    }

    pub(crate) fn not_stored(&mut self, id: PaneId, why: &str, effects: &mut Vec<Effect>) {
        let Some(pane) = self.panes.remove(&id) else {
            return;
        };
        self.starts.undo(&StartTarget::Pane(id));
        for call in pane.closers {
            effects.push(Effect::Answer {
                call,
                answer: Err(not_recorded(why)),
            });
        }
        if let PanePhase::Opening { callers } | PanePhase::Settling { callers, .. } = pane.phase {
            for call in callers {
                effects.push(Effect::Answer {
                    call,
                    answer: Err(not_recorded(why)),
                });
            }
        }
    }

    pub(crate) fn time(&mut self, now: ClockReading, effects: &mut Vec<Effect>) {
        for pane in self.panes.values_mut() {
            if matches!(pane.phase, PanePhase::Settling { give_up_at, .. } if give_up_at <= now.since_boot)
            {
                pane.settle(
                    None,
                    Some("no prompt was seen within 10 s; its start-up files may still be running"),
                    effects,
                );
            }
        }
        self.forget_old(now, effects);
    }

    pub(crate) fn forget_call(&mut self, gone: CallId) {
        for pane in self.panes.values_mut() {
            pane.closers.retain(|call| *call != gone);
            if let PanePhase::Opening { callers } | PanePhase::Settling { callers, .. } =
                &mut pane.phase
            {
                callers.retain(|call| *call != gone);
            }
        }
    }

    /// Takes a pane out of the registry. Its record stays until its directory is removed.
    pub(crate) fn forget(&mut self, id: PaneId) -> Option<Change> {
        let mut record = self.panes.remove(&id)?.record;
        record.removing = true;
        Some(Change::Put(Box::new(record)))
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
    /// Answers those who wait for the first prompt: with `trouble`, that it has not come.
    fn settle(&mut self, cursor: Option<Cursor>, trouble: Option<&str>, effects: &mut Vec<Effect>) {
        let PanePhase::Settling { callers, .. } = &mut self.phase else {
            return;
        };
        for call in std::mem::take(callers) {
            effects.push(created(
                &self.record,
                call,
                cursor.clone(),
                trouble.is_none(),
                trouble,
            ));
        }
        self.phase = PanePhase::Live;
    }
}
