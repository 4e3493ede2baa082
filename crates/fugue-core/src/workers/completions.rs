//! Completions of workers: reported by a hook, by `notify_completion`, or made up when the process ends. The changed files
//! and the last output are collected before the event is published.

use fugue_api::{
    Error, ErrorKind, EventId, ToolReply,
    inbox_event::{CompletionStatus, InboxEvent, WorkerCompletion},
    pane_state::StateSource,
    tools::{NotifyCompletion, NotifyCompletionReply},
    wire::{CallerIdentity, HookReport, IdempotencyKey},
};

use super::{Team, noted, transitions::WorkerEntry};
use crate::{
    AfterCommit, CallId, CompletionDetails, Effect, ExitStatus, InboxId, LongMessage,
    PendingCompletion,
    calls::{
        CallOrigin,
        plan::{Plan, Planner},
    },
    context::Context,
    inbox::NewEvent,
    view::{ExcerptBuilder, OutputRelevance, shortened},
};

// The limit of the last message of a turn, which the lead reads.
const MAX_MESSAGE_CHARS: usize = 8_000;
// The limit of the end of the output, which replaces a missing last message.
const MAX_TAIL_CHARS: usize = 2_000;
// Hook reports whose keys are remembered: more than arrive between storing a report and removing its spool file.
const MAX_SEEN_REPORTS: usize = 32;
// Workers that a note names; others are counted.
const MAX_NAMED_WORKERS: usize = 5;
// Completions of one worker that wait for `git`. All are part of the worker's record, which is stored as a whole.
const MAX_PENDING_COMPLETIONS: usize = 16;

/// A call that reports a completion.
struct CompletionCall {
    call: CallId,
    key: IdempotencyKey,
    lead: InboxId,
    /// The spawned worker that has completed. `None` for an agent that was started otherwise.
    worker: Option<u64>,
    completion: WorkerCompletion,
    /// The changed files are collected from the worker's repository.
    looks_up_changes: bool,
}

impl Planner<'_> {
    pub fn notify_completion(
        &self,
        origin: &CallOrigin,
        args: NotifyCompletion,
    ) -> Result<Plan, Error> {
        let (call, key, who) = (origin.call, origin.key, &origin.who);
        if let Some(event) = self.core.cx.inboxes.event_created_by(key) {
            return Ok(Plan::when_stored(notified(call, event)));
        }
        let (session, agent, pane) = match who {
            CallerIdentity::Worker {
                session,
                agent,
                pane,
            } => (Some(session.clone()), Some(agent.clone()), *pane),
            CallerIdentity::Session { .. } | CallerIdentity::Person { .. } => (None, None, None),
        };
        let said = |field: &str| {
            Error::invalid(format!("{field}: is missing, and the environment has none")).hint(
                "workers that fugue spawned need not say it; others give session_id and worker_id",
            )
        };
        let own = args.worker_id.is_none() || args.worker_id == agent;
        let lead = args.session_id.clone().or(session);
        let lead = InboxId(lead.ok_or_else(|| said("session_id"))?);
        let id = args.worker_id.clone().or(agent);
        let id = id.ok_or_else(|| said("worker_id"))?;
        let (cx, team) = (&self.core.cx, &self.core.team);
        let worker = team.worker_of(&lead, &id, pane.filter(|_| own));
        let looks_up_changes =
            args.changes.is_none() && worker.is_some_and(|worker| worker.repo().is_some());
        let completion = WorkerCompletion {
            worker_id: id,
            instance: worker.map_or(0, |worker| worker.record.instance),
            status: args.status,
            changes: args.changes.unwrap_or_default(),
            omitted_changes: 0,
            message: args.message.unwrap_or_default(),
            omitted_chars: 0,
            message_file: None,
            branch: worker.and_then(|worker| worker.record.branch().map(str::to_owned)),
            cwd: worker.and_then(|worker| worker.record.own_cwd()),
            exit_code: None,
            signal: None,
            turn: worker.map_or(1, |worker| worker.record.turn),
            synthesized: false,
            note: None,
        };
        match worker {
            Some(worker) => {
                if looks_up_changes && !worker.has_pending_completion(key) {
                    worker.check_completion_limit()?;
                }
            }
            // The completion of a spawned worker is never refused; another agent may replace its own last one.
            None => {
                let report = InboxEvent::WorkerComplete(completion.clone());
                if cx.inboxes.replaced_by(&lead, &report).is_none() {
                    cx.inboxes.check_room(&lead)?;
                }
            }
        }
        let notice = CompletionCall {
            call,
            key,
            worker: worker.map(|worker| worker.record.number),
            lead,
            completion,
            looks_up_changes,
        };
        Ok(Plan::new(move |core| {
            core.team.notify(notice, &mut core.cx);
        }))
    }
}

impl Team {
    pub fn hook(
        &mut self,
        call: CallId,
        who: &CallerIdentity,
        key: IdempotencyKey,
        report: HookReport,
        cx: &mut Context,
    ) {
        let number = match who {
            CallerIdentity::Worker {
                session,
                agent,
                pane,
            } => {
                let lead = InboxId(session.clone());
                let worker = self.worker_of(&lead, agent, *pane);
                worker.map(|worker| worker.record.number)
            }
            CallerIdentity::Session { .. } | CallerIdentity::Person { .. } => None,
        };
        match number.and_then(|number| self.workers.get_mut(&number)) {
            Some(worker) => {
                let number = worker.record.number;
                if !(report.is_kept() && worker.mark_report_seen(key)) {
                    self.handle_hook_report(number, report, cx);
                }
            }
            None => publish_of_unknown_worker(who, key, report, cx),
        }
        cx.out.when_stored().then(noted(call));
    }

    fn handle_hook_report(&mut self, number: u64, report: HookReport, cx: &mut Context) {
        let Some(worker) = self.workers.get_mut(&number) else {
            return;
        };
        match report {
            HookReport::PromptGiven => {
                worker.prompted = true;
                worker.record.begun = true;
                // The screen may have shown the begin of this turn before.
                let is_begun = std::mem::take(&mut worker.begun_by_screen);
                if !is_begun || worker.record.reported || worker.record.turn_over {
                    worker.begin_turn(cx);
                }
                worker.stored(&mut cx.out);
            }
            HookReport::TurnEnded { message } => {
                self.turn_ended(number, CompletionStatus::Success, message, cx);
            }
            HookReport::TurnFailed { message } if message.is_empty() => {
                self.failure_reported(number, cx);
            }
            HookReport::TurnPaused { message, resume_at } => {
                self.limit_reported(number, resume_at, message, StateSource::Hook, cx);
            }
            HookReport::BackgroundWork => self.background_work_reported(number, cx),
            HookReport::TurnFailed { message } => {
                self.turn_ended(number, CompletionStatus::Error, message, cx);
            }
            HookReport::NeedsInput { prompt, kind } => {
                self.dialog_reported(number, &prompt, kind, cx);
            }
            HookReport::InputNoLongerNeeded => self.input_no_longer_needed(number, cx),
        }
    }

    pub(super) fn turn_ended(
        &mut self,
        number: u64,
        status: CompletionStatus,
        message: String,
        cx: &mut Context,
    ) {
        let Some(worker) = self.workers.get_mut(&number) else {
            return;
        };
        worker.record.asks = None;
        worker.record.background = false;
        worker.record.failing = false;
        worker.withdraw_attention(cx);
        if !worker.record.reported {
            worker.add_completion(status, Some(message), None);
        }
        worker.stored(&mut cx.out);
        self.collect_changes(number, cx);
        self.type_next_message(number, None, cx);
    }

    fn notify(&mut self, notice: CompletionCall, cx: &mut Context) {
        let CompletionCall {
            call,
            key,
            lead,
            worker,
            completion,
            looks_up_changes,
        } = notice;
        if let Some(worker) = worker.and_then(|number| self.workers.get_mut(&number)) {
            let again = worker
                .record
                .pending_completions
                .iter()
                .position(|completion| completion.made_by == Some(key));
            if let Some(again) = again {
                worker.notifiers[again] = Some(call);
                return;
            }
            if looks_up_changes {
                worker.add_completion(completion.status, Some(completion.message), None);
                if let (Some(completion), Some(notifier)) = (
                    worker.record.pending_completions.last_mut(),
                    worker.notifiers.last_mut(),
                ) {
                    completion.made_by = Some(key);
                    *notifier = Some(call);
                }
                let number = worker.record.number;
                worker.stored(&mut cx.out);
                self.collect_changes(number, cx);
                return;
            }
            worker.record.reported = true;
            worker.record.failed = completion.status == CompletionStatus::Error;
            worker.stored(&mut cx.out);
        }
        let event = cx.inboxes.publish(
            NewEvent {
                made_by: Some(key),
                ..NewEvent::new(lead, InboxEvent::WorkerComplete(completion))
            },
            &mut cx.out,
        );
        cx.out.when_stored().then(notified(call, event));
    }

    /// Has the daemon collect changes and output for the oldest pending completion.
    pub(super) fn collect_changes(&mut self, number: u64, cx: &mut Context) {
        let Some(worker) = self.workers.get_mut(&number) else {
            return;
        };
        let Some(completion) = worker.record.pending_completions.first() else {
            return;
        };
        if worker.working_out {
            return;
        }
        worker.working_out = true;
        let tail = completion.message.is_none();
        let is_long = |message: &&String| message.chars().count() > MAX_MESSAGE_CHARS;
        let message = completion.message.as_ref().filter(is_long);
        let pane = cx.panes.get(&worker.record.pane).filter(|_| tail);
        cx.out.perform(Effect::CollectChanges {
            worker: number,
            repo: worker.repo().cloned(),
            message: message.cloned().map(LongMessage),
            tail: pane.map(|pane| Box::new(pane.record.clone())),
        });
    }

    /// Says which other workers worked in the same directory tree at the same time.
    fn shared_tree_note(&self, number: u64, cx: &Context) -> Option<String> {
        let worker = self.workers.get(&number)?;
        let root = &worker.repo()?.root;
        let began = worker.record.started_at.wall;
        let ended_before = |other: &WorkerEntry| {
            let pane = cx.panes.get(&other.record.pane);
            let ended = pane.and_then(|pane| pane.record.ended.as_ref());
            other.record.is_over() && ended.is_none_or(|ended| ended.at.wall < began)
        };
        let others = self.workers.values().filter(|other| {
            other.record.number != number
                && other.repo().is_some_and(|repo| repo.root == *root)
                && !ended_before(other)
        });
        let others: Vec<&str> = others.map(|other| &*other.record.id).collect();
        let more = others.len().saturating_sub(MAX_NAMED_WORKERS);
        let named = others[..others.len() - more].join(", ");
        match (others.len(), more) {
            (0, _) => None,
            (_, 0) => Some(format!(
                "{named} worked in the same directory; changes may be theirs"
            )),
            _ => Some(format!(
                "{named} and {more} more worked in the same directory; changes may be theirs"
            )),
        }
    }

    /// Publishes the oldest pending completion with the collected changes.
    pub fn changes_collected(&mut self, number: u64, found: CompletionDetails, cx: &mut Context) {
        let shared = self.shared_tree_note(number, cx);
        let Some(worker) = self.workers.get_mut(&number) else {
            return;
        };
        worker.working_out = false;
        if worker.record.pending_completions.is_empty() {
            return;
        }
        let pending = worker.record.pending_completions.remove(0);
        let notifier = worker.notifiers.remove(0);
        let is_output = pending.message.is_none();
        let (said, most) = match pending.message {
            Some(message) => (message, MAX_MESSAGE_CHARS),
            None => (found.tail, MAX_TAIL_CHARS),
        };
        let (message, omitted_chars) = match is_output && !worker.record.has_input_box() {
            true => excerpt(&said, pending.status),
            false => shortened(&said, most),
        };
        let is_unchanged = found.changes.is_empty();
        let completion = WorkerCompletion {
            worker_id: worker.record.id.clone(),
            instance: worker.record.instance,
            status: pending.status,
            changes: found.changes,
            omitted_changes: found.omitted_changes,
            message,
            omitted_chars: omitted_chars + found.omitted_chars,
            message_file: found.message_file,
            branch: found.branch,
            cwd: worker.record.own_cwd(),
            exit_code: failure_code(pending.exit.as_ref()),
            signal: pending.exit.as_ref().and_then(ExitStatus::signal),
            turn: pending.turn,
            synthesized: pending.exit.is_some(),
            note: joined(found.note, shared.filter(|_| !is_unchanged)),
        };
        worker.stored(&mut cx.out);
        let lead = worker.record.lead.clone();
        let event = cx.inboxes.publish(
            NewEvent {
                made_by: pending.made_by,
                dropped_events: pending.dropped,
                ..NewEvent::new(lead, InboxEvent::WorkerComplete(completion))
            },
            &mut cx.out,
        );
        if let Some(call) = notifier {
            cx.out.when_stored().then(notified(call, event));
        }
        self.collect_changes(number, cx);
    }
}

/// Publishes the end of a turn of an agent that fugue has not spawned and that reports to a session, as its
/// `notify_completion` would. In a full inbox it replaces the agent's last completion, or is dropped.
fn publish_of_unknown_worker(
    who: &CallerIdentity,
    key: IdempotencyKey,
    report: HookReport,
    cx: &mut Context,
) {
    let CallerIdentity::Worker { session, agent, .. } = who else {
        return;
    };
    let (status, message) = match report {
        HookReport::TurnEnded { message } => (CompletionStatus::Success, message),
        HookReport::TurnFailed { message } => (CompletionStatus::Error, message),
        HookReport::PromptGiven
        | HookReport::TurnPaused { .. }
        | HookReport::BackgroundWork
        | HookReport::NeedsInput { .. }
        | HookReport::InputNoLongerNeeded => return,
    };
    let (message, omitted_chars) = shortened(&message, MAX_MESSAGE_CHARS);
    let event = InboxEvent::WorkerComplete(WorkerCompletion {
        worker_id: agent.clone(),
        instance: 0,
        status,
        changes: Vec::new(),
        omitted_changes: 0,
        message,
        omitted_chars,
        message_file: None,
        branch: None,
        cwd: None,
        exit_code: None,
        signal: None,
        turn: 1,
        synthesized: false,
        note: None,
    });
    let lead = InboxId(session.clone());
    let is_room =
        cx.inboxes.replaced_by(&lead, &event).is_some() || cx.inboxes.check_room(&lead).is_ok();
    if is_room && cx.inboxes.event_created_by(key).is_none() {
        let report = NewEvent {
            made_by: Some(key),
            ..NewEvent::new(lead, event)
        };
        cx.inboxes.publish(report, &mut cx.out);
    }
}

impl WorkerEntry {
    /// Remembers the key of a hook report. Returns whether the key was known, because the report was delivered twice.
    fn mark_report_seen(&mut self, key: IdempotencyKey) -> bool {
        let before = self.record.heard.contains(&key);
        if !before {
            let heard = &mut self.record.heard;
            heard.drain(..heard.len().saturating_sub(MAX_SEEN_REPORTS - 1));
            heard.push(key);
        }
        before
    }

    /// Whether the completion that a call has reported is still pending.
    fn has_pending_completion(&self, key: IdempotencyKey) -> bool {
        self.record
            .pending_completions
            .iter()
            .any(|completion| completion.made_by == Some(key))
    }

    /// Refuses another completion while too many wait for their changes.
    fn check_completion_limit(&self) -> Result<(), Error> {
        if self.record.pending_completions.len() < MAX_PENDING_COMPLETIONS {
            return Ok(());
        }
        let id = &self.record.id;
        let error = format!(
            "worker `{id}` has {MAX_PENDING_COMPLETIONS} completions whose changes are still being looked up"
        );
        Err(Error::new(ErrorKind::Exhausted, error)
            .hint("nothing was recorded; report again when the earlier calls are answered"))
    }

    /// Drops the oldest completion that is not being collected and that no call waits for, if the limit is reached. Returns
    /// how many completions are dropped in favour of the new one.
    fn drop_completion_beyond_limit(&mut self) -> u64 {
        if self.record.pending_completions.len() < MAX_PENDING_COMPLETIONS {
            return 0;
        }
        let oldest = (1..self.notifiers.len()).find(|index| self.notifiers[*index].is_none());
        oldest.map_or(0, |index| {
            self.notifiers.remove(index);
            self.record.pending_completions.remove(index).dropped + 1
        })
    }

    fn repo(&self) -> Option<&crate::WorkerRepo> {
        self.record.ready.as_ref()?.repo.as_ref()
    }

    pub(super) fn add_completion(
        &mut self,
        status: CompletionStatus,
        message: Option<String>,
        exit: Option<ExitStatus>,
    ) {
        self.record.reported = true;
        self.record.failed = status == CompletionStatus::Error;
        let dropped = self.drop_completion_beyond_limit();
        self.record.pending_completions.push(PendingCompletion {
            dropped,
            status,
            message,
            turn: self.record.turn,
            exit,
            made_by: None,
        });
        self.notifiers.push(None);
    }
}

fn joined(first: Option<String>, second: Option<String>) -> Option<String> {
    let both: Vec<String> = first.into_iter().chain(second).collect();
    (!both.is_empty()).then(|| both.join("; "))
}

/// The exit code of a failure. Status `success` says the code of a success.
fn failure_code(exit: Option<&ExitStatus>) -> Option<i32> {
    exit.and_then(ExitStatus::code).filter(|code| *code != 0)
}

fn notified(call: CallId, event_id: EventId) -> AfterCommit {
    AfterCommit::tool_reply(
        call,
        ToolReply::NotifyCompletion(NotifyCompletionReply { event_id }),
    )
}

/// The message of a shell command that has ended: an excerpt of its output, as in the result of a run.
fn excerpt(output: &str, status: CompletionStatus) -> (String, u64) {
    let mut builder = ExcerptBuilder::new(match status {
        CompletionStatus::Success => OutputRelevance::Success,
        CompletionStatus::Error => OutputRelevance::Failure,
    });
    output.lines().for_each(|line| builder.push(line));
    let text = builder.finish().bound(usize::MAX).text;
    let omitted = output.chars().count().saturating_sub(text.chars().count());
    (text, omitted as u64)
}
