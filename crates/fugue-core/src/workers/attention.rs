//! What the agent of a worker is doing, from its exit, its hooks and its screen, in this order: attention requests, turns
//! that end without a report, and usage limits.

use std::time::Duration;

use fugue_api::{
    PaneId,
    inbox_event::{CompletionStatus, EventType, InboxEvent},
    overview::WorkerState,
    pane_state::{
        AgentState, AgentStatus, AttentionKind, AttentionRequest, PaneState, SourcedState,
        StateSource,
    },
};

use super::{Team, transitions::WorkerEntry};
use crate::{
    InputRequest, ObservedAgent, UsagePause, WorkerPhase,
    context::{Context, StepBuilder},
    inbox::NewEvent,
    pane_machine::{AgentDialog, AgentNotice, AgentSight, UsageLimit, is_same_question},
    timer::Timer,
    view::shortened,
};

/// Added to the last lines of an agent that was interrupted before it took its prompt.
const UNSENT_NOTE: &str =
    "\n(unsent text stands in its input box; typed messages wait until it is sent or deleted)";

// The limit of the question or the last lines in an event.
const MAX_TEXT_CHARS: usize = 2_000;
/// A dialog that a hook has reported is on the screen by then, if the screen is recognised at all.
const DIALOG_TIMEOUT: Duration = Duration::from_millis(1_500);
/// What an agent has reported by a hook is on its screen after this time.
const REDRAW_TIMEOUT: Duration = Duration::from_secs(1);
/// An agent whose turn has failed shows its error and its input box by then.
const FAILURE_TIMEOUT: Duration = Duration::from_secs(4);

/// The events that a worker's progress makes out of date.
const ATTENTION_EVENTS: [EventType; 3] = [
    EventType::WorkerNeedsInput,
    EventType::WorkerIdle,
    EventType::WorkerPaused,
];

impl Team {
    /// Applies what the agent in a pane shows. Returns whether the pane has a worker.
    pub fn agent_observed(
        &mut self,
        pane: PaneId,
        observed: ObservedAgent,
        cx: &mut Context,
    ) -> bool {
        let Some(worker) = self.entry_in(pane) else {
            return false;
        };
        if worker.record.phase != WorkerPhase::Live {
            return true;
        }
        let number = worker.record.number;
        // What a shell command prints is no input box, whatever it looks like.
        let is_agent = worker.record.has_input_box();
        let sight = match observed.sight {
            sight @ (AgentSight::Unrecognized | AgentSight::Asks { .. }) => sight,
            sight @ (AgentSight::Working | AgentSight::Idle { .. }) if is_agent => sight,
            AgentSight::Working | AgentSight::Idle { .. } => AgentSight::Unrecognized,
        };
        worker.sight = sight.clone();
        match sight {
            AgentSight::Unrecognized => {
                // A dialog that a hook reported may have a shape that is not recognised.
                if worker.is_asked_by(|by| by != StateSource::Hook) {
                    self.input_no_longer_needed(number, cx);
                }
            }
            AgentSight::Working => self.work_observed(number, cx),
            AgentSight::Asks { dialog, by } => match dialog.limit.clone() {
                Some(limit) => self.limit_observed(number, limit, &dialog, cx),
                None => self.dialog_observed(number, dialog, by, cx),
            },
            AgentSight::Idle { unsent, mut notice } => {
                if unsent {
                    notice.message.push_str(UNSENT_NOTE);
                }
                let pause = notice.limit.take().map(|limit| UsagePause {
                    resume_at: limit.resume_at,
                    by: StateSource::Screen,
                });
                self.rest_observed(number, pause, notice, cx);
            }
        }
        true
    }

    fn work_observed(&mut self, number: u64, cx: &mut Context) {
        // The screen may show the work before a dialog that a hook has just reported.
        let worker = self.workers.get(&number);
        let asks = worker.and_then(|worker| worker.record.asks.as_ref());
        if !asks.is_some_and(|asks| asks.unconfirmed) {
            self.input_no_longer_needed(number, cx);
        }
        let Some(worker) = self.workers.get_mut(&number) else {
            return;
        };
        // Without reports of hooks, the screen alone shows that a turn begins. An agent that asks what to do about a limit works
        // for a moment when it has the answer.
        let (record, has_no_reports) = (&worker.record, worker.record.heard.is_empty());
        // A hook may report the limit while the screen still shows the work before it.
        let now = cx.now().since_boot;
        let is_later = worker.paused_at.is_none_or(|at| now >= at + REDRAW_TIMEOUT);
        worker.works_on = record.pause.is_some() && is_later;
        let is_new_turn = record.turn_over && (record.pause.is_none() || has_no_reports)
            || record.reported && has_no_reports;
        if is_new_turn {
            worker.begun_by_screen = true;
            worker.begin_turn(cx);
        } else if !worker.record.begun {
            worker.record.begun = true;
            worker.stored(&mut cx.out);
        }
    }

    /// The agent asks what to do about a usage limit.
    fn limit_observed(
        &mut self,
        number: u64,
        limit: UsageLimit,
        dialog: &AgentDialog,
        cx: &mut Context,
    ) {
        let mut message = dialog.question.clone();
        for choice in &dialog.choices {
            message.push_str(&format!("\n{}. {}", choice.key, choice.label));
        }
        self.limit_reported(number, limit.resume_at, message, StateSource::Screen, cx);
    }

    fn dialog_observed(
        &mut self,
        number: u64,
        dialog: AgentDialog,
        by: StateSource,
        cx: &mut Context,
    ) {
        let Some(worker) = self.workers.get_mut(&number) else {
            return;
        };
        // A program that reads its terminal without a prompt has no question to report; a shell between two commands looks
        // the same for a moment. `get_status` shows the state all the same.
        if dialog.question.trim().is_empty() {
            return;
        }
        // The text above a list without numbers changes with the choice that is marked.
        let is_other = |asks: &InputRequest| {
            let shown = asks.shown.as_ref().filter(|_| !dialog.choices.is_empty());
            shown.is_some_and(|shown| !is_same_question(shown, &dialog.question))
        };
        if worker.record.asks.as_ref().is_some_and(is_other) {
            worker.record.asks = None;
            worker.withdraw(&[EventType::WorkerNeedsInput], cx);
        }
        let is_new = worker.record.asks.is_none();
        let asks = worker.record.asks.get_or_insert_with(|| InputRequest {
            prompt: String::new(),
            by,
            kind: dialog.kind,
            choices: Vec::new(),
            shown: None,
            unconfirmed: true,
        });
        if asks.prompt.trim().is_empty() {
            (asks.prompt, _) = shortened(&dialog.question, MAX_TEXT_CHARS);
        }
        asks.shown = Some(dialog.question);
        asks.choices = dialog.choices;
        if is_new || asks.unconfirmed {
            worker.publish_request(cx);
        }
        worker.stored(&mut cx.out);
    }

    /// The agent shows its input box and no work.
    fn rest_observed(
        &mut self,
        number: u64,
        pause: Option<UsagePause>,
        notice: AgentNotice,
        cx: &mut Context,
    ) {
        let message = notice.message;
        self.input_no_longer_needed(number, cx);
        let Some(worker) = self.workers.get_mut(&number) else {
            return;
        };
        worker.works_on = false;
        let record = &worker.record;
        let is_open = record.begun && !record.reported && !record.turn_over && !record.background;
        if is_open {
            match pause {
                Some(pause) => worker.paused(pause, message, cx),
                // Gemini CLI's hook does not tell a turn that was interrupted from one that failed.
                None if record.failing && !notice.is_cancelled => {
                    return self.turn_ended(number, CompletionStatus::Error, message, cx);
                }
                None => worker.turn_over(message, cx),
            }
        }
        self.type_next_message(number, None, cx);
    }

    /// A hook has reported a dialog. The lead is informed when the screen shows the dialog, which takes keys then.
    pub(super) fn dialog_reported(
        &mut self,
        number: u64,
        prompt: &str,
        kind: AttentionKind,
        cx: &mut Context,
    ) {
        let Some(worker) = self.workers.get_mut(&number) else {
            return;
        };
        // One dialog may be reported twice, and the second report has less detail.
        if worker.record.asks.is_some() || worker.record.is_over() {
            return;
        }
        let (prompt, _) = shortened(prompt, MAX_TEXT_CHARS);
        let (shown, choices) = match &worker.sight {
            AgentSight::Asks { dialog, .. } => {
                (Some(dialog.question.clone()), dialog.choices.clone())
            }
            AgentSight::Unrecognized | AgentSight::Working | AgentSight::Idle { .. } => {
                (None, Vec::new())
            }
        };
        let is_shown = shown.is_some();
        worker.record.asks = Some(InputRequest {
            prompt,
            by: StateSource::Hook,
            kind,
            choices,
            shown,
            unconfirmed: true,
        });
        if is_shown {
            worker.publish_request(cx);
        } else {
            let at = cx.now().since_boot + DIALOG_TIMEOUT;
            cx.out.set_timer(Timer::WorkerScreen(number), at);
        }
        worker.stored(&mut cx.out);
    }

    /// Waits again for the screen to show what hooks reported to an earlier daemon.
    pub(super) fn restore_attention(&self, number: u64, out: &mut StepBuilder) {
        let record = self.workers.get(&number).map(|worker| &worker.record);
        let is_unconfirmed = record.is_some_and(|record| {
            let asks = record.asks.as_ref();
            record.failing || asks.is_some_and(|asks| asks.unconfirmed)
        });
        if is_unconfirmed {
            let at = out.now().since_boot + FAILURE_TIMEOUT;
            out.set_timer(Timer::WorkerScreen(number), at);
        }
    }

    pub(super) fn input_no_longer_needed(&mut self, number: u64, cx: &mut Context) {
        let Some(worker) = self.workers.get_mut(&number) else {
            return;
        };
        if worker.record.asks.take().is_some() {
            // The dialog of the next request is another, also where the screen shows the two without a gap.
            if worker.sight.is_dialog() {
                worker.sight = AgentSight::Unrecognized;
            }
            worker.withdraw(&[EventType::WorkerNeedsInput], cx);
            worker.stored(&mut cx.out);
            self.type_next_message(number, None, cx);
        }
    }

    /// A hook has reported a failed turn without the error: the screen shows the error, or a usage limit.
    pub(super) fn failure_reported(&mut self, number: u64, cx: &mut Context) {
        let Some(worker) = self.workers.get_mut(&number) else {
            return;
        };
        if worker.record.reported || worker.record.turn_over {
            return;
        }
        worker.record.begun = true;
        worker.record.failing = true;
        let at = cx.now().since_boot + FAILURE_TIMEOUT;
        cx.out.set_timer(Timer::WorkerScreen(number), at);
        worker.stored(&mut cx.out);
    }

    /// A usage limit has stopped the turn.
    pub(super) fn limit_reported(
        &mut self,
        number: u64,
        resume_at: Option<String>,
        message: String,
        by: StateSource,
        cx: &mut Context,
    ) {
        self.input_no_longer_needed(number, cx);
        let Some(worker) = self.workers.get_mut(&number) else {
            return;
        };
        if !worker.record.reported && worker.record.pause.is_none() {
            worker.record.begun = true;
            worker.paused(UsagePause { resume_at, by }, message, cx);
        }
        self.type_next_message(number, None, cx);
    }

    /// The agent continues in the background, and the end of its turn follows.
    pub(super) fn background_work_reported(&mut self, number: u64, cx: &mut Context) {
        self.input_no_longer_needed(number, cx);
        if let Some(worker) = self.workers.get_mut(&number)
            && !worker.record.reported
        {
            worker.record.background = true;
            worker.stored(&mut cx.out);
        }
    }

    /// The screen has not shown what a hook reported.
    pub fn worker_screen_expired(&mut self, number: u64, cx: &mut Context) {
        let Some(worker) = self.workers.get_mut(&number) else {
            return;
        };
        if worker.record.failing && !worker.record.reported {
            worker.record.failing = false;
            worker.add_completion(CompletionStatus::Error, None, None);
            worker.stored(&mut cx.out);
            return self.collect_changes(number, cx);
        }
        let asks = worker.record.asks.as_ref();
        if !asks.is_some_and(|asks| asks.unconfirmed) {
            return;
        }
        match &worker.sight {
            // The agent has answered by itself, or somebody was faster than the screen.
            AgentSight::Working | AgentSight::Idle { .. } => {
                self.input_no_longer_needed(number, cx);
            }
            AgentSight::Unrecognized | AgentSight::Asks { .. } => {
                worker.publish_request(cx);
                worker.stored(&mut cx.out);
            }
        }
    }

    /// The state of a pane whose agent has reported that it waits for a person.
    pub fn agent_state(&self, pane: PaneId) -> Option<SourcedState> {
        let asks = self.attention_request(pane)?;
        Some(SourcedState {
            prompt: Some(asks.prompt),
            ..SourcedState::new(PaneState::NeedsInput, asks.by)
        })
    }

    /// The agent of a worker's pane. `None` for panes without a worker, and for shell commands.
    pub fn agent_status(&self, pane: PaneId) -> Option<AgentStatus> {
        let mut workers = self.workers.values().rev();
        let worker = workers.find(|worker| worker.record.pane == pane)?;
        worker.record.has_input_box().then(|| worker.agent_status())
    }
}

impl WorkerEntry {
    fn is_asked_by(&self, source: impl Fn(StateSource) -> bool) -> bool {
        let asks = self.record.asks.as_ref();
        asks.is_some_and(|asks| source(asks.by))
    }

    /// Informs the lead of the attention request. A request without a question is not published.
    fn publish_request(&mut self, cx: &mut Context) {
        let pane = self.record.pane;
        let Some(asks) = &mut self.record.asks else {
            return;
        };
        if asks.prompt.trim().is_empty() {
            return;
        }
        asks.unconfirmed = false;
        let event = InboxEvent::WorkerNeedsInput {
            worker_id: self.record.id.clone(),
            instance: self.record.instance,
            prompt: asks.prompt.clone(),
            by: asks.by,
            pane_id: Some(pane),
            request: Some(AttentionRequest::new(asks.kind, asks.choices.clone(), pane)),
        };
        let post = NewEvent::new(self.record.lead.clone(), event);
        cx.inboxes.publish(post, &mut cx.out);
    }

    /// Informs the lead that the turn has ended without a report.
    fn turn_over(&mut self, message: String, cx: &mut Context) {
        self.record.turn_over = true;
        self.record.failing = false;
        let event = InboxEvent::WorkerIdle {
            worker_id: self.record.id.clone(),
            instance: self.record.instance,
            message: shortened(&message, MAX_TEXT_CHARS).0,
        };
        cx.inboxes
            .publish(NewEvent::new(self.record.lead.clone(), event), &mut cx.out);
        self.stored(&mut cx.out);
    }

    /// Informs the lead that a usage limit has ended the turn.
    fn paused(&mut self, pause: UsagePause, message: String, cx: &mut Context) {
        // The screen may have shown the end of the turn before a hook reported the limit.
        self.withdraw(&[EventType::WorkerIdle], cx);
        self.record.turn_over = true;
        self.record.failing = false;
        self.works_on = false;
        self.paused_at = Some(cx.now().since_boot);
        let event = InboxEvent::WorkerPaused {
            worker_id: self.record.id.clone(),
            instance: self.record.instance,
            resume_at: pause.resume_at.clone(),
            message: shortened(&message, MAX_TEXT_CHARS).0,
        };
        self.record.pause = Some(pause);
        cx.inboxes
            .publish(NewEvent::new(self.record.lead.clone(), event), &mut cx.out);
        self.stored(&mut cx.out);
    }

    /// Withdraws the worker's events of these types that nobody has taken.
    fn withdraw(&self, types: &[EventType], cx: &mut Context) {
        let (id, instance) = (&self.record.id, self.record.instance);
        cx.inboxes
            .withdraw(&self.record.lead, id, instance, types, &mut cx.out);
    }

    /// Withdraws what was said of the turn before it was reported, or before the next one.
    pub fn withdraw_attention(&self, cx: &mut Context) {
        self.withdraw(&ATTENTION_EVENTS, cx);
    }

    /// Begins a new turn after the end of the last one, and ends an attention request.
    pub fn begin_turn(&mut self, cx: &mut Context) {
        if self.record.reported || self.record.turn_over {
            self.record.turn += 1;
            self.record.reported = false;
            self.record.turn_over = false;
        }
        self.record.background = false;
        self.record.failing = false;
        self.record.failed = false;
        self.record.pause = None;
        self.record.asks = None;
        self.works_on = false;
        self.withdraw_attention(cx);
        self.stored(&mut cx.out);
    }

    pub fn state(&self) -> WorkerState {
        match self.record.phase {
            WorkerPhase::Preparing | WorkerPhase::Opening => WorkerState::Starting,
            WorkerPhase::Ended if self.record.failed => WorkerState::Failed,
            WorkerPhase::Ended | WorkerPhase::Failed => WorkerState::Ended,
            WorkerPhase::Live => match self.live_state().0 {
                AgentState::NeedsInput => WorkerState::NeedsInput,
                AgentState::Paused => WorkerState::Paused,
                AgentState::Failed => WorkerState::Failed,
                AgentState::Idle => WorkerState::Resting,
                AgentState::Working | AgentState::Ended => WorkerState::Working,
            },
        }
    }

    /// The state of a running agent: what its hooks have reported, else what its screen shows.
    fn live_state(&self) -> (AgentState, StateSource) {
        use StateSource::{Exit, Hook, Screen};
        let record = &self.record;
        let reported_by = match record.heard.is_empty() {
            true => Screen,
            false => Hook,
        };
        if let Some(asks) = &record.asks {
            return (AgentState::NeedsInput, asks.by);
        }
        if let Some(pause) = &record.pause
            && !self.works_on
        {
            return (AgentState::Paused, pause.by);
        }
        match (&self.sight, record.reported, record.turn_over) {
            (AgentSight::Working, _, true) => (AgentState::Working, Screen),
            (_, true, _) if record.failed => (AgentState::Failed, Hook),
            (_, true, _) => (AgentState::Idle, Hook),
            (_, false, true) => (AgentState::Idle, Screen),
            (AgentSight::Working, false, false) => (AgentState::Working, Screen),
            (_, false, false) if record.begun => (AgentState::Working, reported_by),
            (_, false, false) => (AgentState::Working, Exit),
        }
    }

    fn agent_status(&self) -> AgentStatus {
        let name = &self.record.agent;
        if self.record.is_over() {
            return AgentStatus::new(name, AgentState::Ended, StateSource::Exit);
        }
        let (state, by) = self.live_state();
        let pane = self.record.pane;
        let request = match (&self.record.asks, &self.sight) {
            (Some(asks), _) => Some(AttentionRequest::new(asks.kind, asks.choices.clone(), pane)),
            (None, AgentSight::Asks { dialog, .. }) => Some(dialog.request(pane)),
            (None, AgentSight::Unrecognized | AgentSight::Working | AgentSight::Idle { .. }) => {
                None
            }
        };
        AgentStatus {
            request,
            resume_at: self
                .record
                .pause
                .as_ref()
                .and_then(|pause| pause.resume_at.clone()),
            ..AgentStatus::new(name, state, by)
        }
    }

    pub fn stored(&self, out: &mut StepBuilder) {
        out.commit([crate::Change::put(self.record.clone())]);
    }
}
