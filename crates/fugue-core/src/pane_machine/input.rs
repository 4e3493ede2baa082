//! The input queue of one pane: `send_input` calls, messages and injections are typed one after the other.
//!
//! Each input is typed after a probe of the foreground process, and a text that is to be submitted is followed on the
//! screen until its Enter has shown an effect: `submitted` is yes, no or unknown. While a person has begun a line, the next
//! input waits: a call until its deadline, while messages and injections are returned and come back later.

mod types;

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use fugue_api::{
    Cursor, Error, ErrorKind,
    tools::{SendInput, SendInputReply, SubmitResult},
};

pub use types::{AckResult, InputAck, InputGate, InputOrigin, InputReply, InputScreen, InputStep};

use super::InputTarget;
use crate::{
    InjectionOutcome, PaneEvent, TypingOutcome,
    typing::{InputModes, InputView, SubmitAction, SubmitMachine},
    view,
};

/// The limit for a program to draw typed text, however slow its screen. An input that needs no redraw does not wait.
const REDRAW_TIMEOUT: Duration = Duration::from_secs(2);
/// A redraw comes in pieces and is complete after this time without output.
const REDRAW_SETTLE_INTERVAL: Duration = Duration::from_millis(40);
/// Gemini CLI takes an Enter within 40 ms of a paste for a part of the paste, by a clock of its own that may be late.
const AGENT_SETTLE_INTERVAL: Duration = Duration::from_millis(150);

/// The inputs of one pane. `C` identifies a pending `send_input` call.
#[derive(Debug)]
pub struct InputQueue<C> {
    waiting: VecDeque<QueuedInput<C>>,
    active: Option<ActiveInput<C>>,
    /// Set while the waiting inputs wait for a person's draft.
    hold: Option<DraftHold>,
    replies: Vec<InputReply<C>>,
    events: Vec<PaneEvent>,
    /// The last text was followed by Enter and is still in the input box of an agent.
    left_unsent: bool,
}

#[derive(Debug)]
struct DraftHold {
    recheck_at: Option<Instant>,
}

#[derive(Debug)]
struct QueuedInput<C> {
    args: SendInput,
    key: [u8; 16],
    origin: InputOrigin<C>,
    /// When an input that waits for a person is refused.
    refuse_at: Option<Instant>,
}

#[derive(Debug)]
struct ActiveInput<C> {
    request: QueuedInput<C>,
    stage: InputStage,
    submit: Option<SubmitMachine>,
    /// The reply's `submitted` if nothing is followed on the screen.
    result: SubmitResult,
    cursor: Cursor,
    bytes: u64,
    /// How many inputs were typed so far, the Enter included.
    inputs: u8,
    command_started: bool,
    give_up_at: Instant,
    /// Set while output has come that may not be complete.
    settled_at: Option<Instant>,
}

#[derive(Debug)]
enum InputStage {
    ToProbe,
    Probing,
    /// As `Probing`, for a cancelled input: nothing is typed after the probe.
    Cancelled,
    ToType(Vec<u8>),
    /// Waiting for the acknowledgement of the input with this number.
    Typed(u64),
    /// Waiting for the screen.
    FollowScreen,
}

impl<C> Default for InputQueue<C> {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            active: None,
            hold: None,
            replies: Vec::new(),
            events: Vec::new(),
            left_unsent: false,
        }
    }
}

impl<C> InputQueue<C> {
    pub fn enqueue(&mut self, args: SendInput, key: [u8; 16], origin: InputOrigin<C>) {
        self.waiting.push_back(QueuedInput {
            args,
            key,
            origin,
            refuse_at: None,
        });
    }

    /// Whether an input is about to begin that waits for a person's draft.
    pub fn needs_gate(&self) -> bool {
        let next = self.waiting.front();
        self.active.is_none() && next.is_some_and(|request| !request.args.force)
    }

    /// Whether inputs wait for a person's draft.
    pub fn is_held(&self) -> bool {
        self.hold.is_some()
    }

    /// The active input, else the next one.
    pub fn next_args(&self) -> Option<&SendInput> {
        let active = self.active.as_ref().map(|active| &active.request);
        let next = active.or(self.waiting.front());
        next.map(|request| &request.args)
    }

    /// Whether the last text was followed by Enter and is still in the input box of an agent.
    pub fn left_unsent(&self) -> bool {
        self.left_unsent
    }

    /// Whether the contents of the screen decide about the active input.
    pub fn follows_screen(&self) -> bool {
        self.active.as_ref().is_some_and(|active| {
            matches!(
                active.stage,
                InputStage::FollowScreen | InputStage::Typed(_)
            ) && active.submit.is_some()
        })
    }

    /// The replies to calls since the last time.
    pub fn take_replies(&mut self) -> Vec<InputReply<C>> {
        std::mem::take(&mut self.replies)
    }

    /// The outcomes of messages and injections since the last time.
    pub fn take_events(&mut self) -> Vec<PaneEvent> {
        std::mem::take(&mut self.events)
    }

    /// Puts the active input back to the front of the queue: a person began to type during its probe.
    pub fn step_back(&mut self) {
        if let Some(active) = self.active.take()
            && !matches!(active.stage, InputStage::Cancelled)
        {
            self.waiting.push_front(active.request);
        }
    }

    /// Lets calls wait for the person, and returns messages and injections, which come back when the pane is idle.
    fn hold(&mut self, refuse_at: Instant, recheck_at: Option<Instant>) {
        let events = &mut self.events;
        self.waiting.retain_mut(|request| match request.origin {
            InputOrigin::Call(_) => {
                if !request.args.force {
                    request.refuse_at.get_or_insert(refuse_at);
                }
                true
            }
            InputOrigin::Message(event) => {
                let how = TypingOutcome::Waits(None);
                events.push(PaneEvent::MessageTyped { event, how });
                false
            }
            InputOrigin::Injection { watcher, step, .. } => {
                let how = InjectionOutcome::NotNow;
                events.push(PaneEvent::Injected { watcher, step, how });
                false
            }
        });
        self.hold = self.waiting.front().map(|_| DraftHold { recheck_at });
    }

    /// The next action. Called again until the action is `Nothing`.
    pub fn next_step(&mut self, gate: InputGate, now: Instant) -> InputStep {
        match gate {
            InputGate::DraftInTheWay {
                refuse_at,
                recheck_at,
            } => {
                self.hold(refuse_at, recheck_at);
                // A forced input waits neither for the person nor for inputs that do.
                let forced = self.waiting.iter().position(|request| request.args.force);
                let Some(forced) = forced.and_then(|at| self.waiting.remove(at)) else {
                    return InputStep::Nothing;
                };
                self.waiting.push_front(forced);
            }
            // While a forced input is typed, all other inputs stay on hold.
            InputGate::Open => {
                if self.active.is_none() && self.hold.take().is_some() {
                    self.waiting
                        .iter_mut()
                        .for_each(|request| request.refuse_at = None);
                }
            }
        }
        if self.active.is_none() {
            let Some(request) = self.waiting.pop_front() else {
                return InputStep::Nothing;
            };
            self.active = Some(ActiveInput::new(request, now));
        }
        let Some(active) = &mut self.active else {
            return InputStep::Nothing;
        };
        match std::mem::replace(&mut active.stage, InputStage::Probing) {
            InputStage::ToProbe => InputStep::Probe,
            InputStage::ToType(bytes) => {
                // The Enter after a text is an input of its own, and must not be taken for a repetition of the text.
                let mut key = active.request.key;
                key[15] ^= active.inputs;
                active.inputs = active.inputs.wrapping_add(1);
                InputStep::Type { key, bytes }
            }
            stage @ (InputStage::Probing
            | InputStage::Cancelled
            | InputStage::Typed(_)
            | InputStage::FollowScreen) => {
                active.stage = stage;
                InputStep::Nothing
            }
        }
    }

    /// Refuses an active input that must not be typed into the target. Returns whether `begin` follows.
    pub fn admit(&mut self, target: &InputTarget) -> bool {
        let Some(active) = &self.active else {
            return true;
        };
        if matches!(active.stage, InputStage::Cancelled) {
            return true;
        }
        let text = active.request.args.input.as_deref().unwrap_or_default();
        let obstacle = target.obstacle_to(text);
        let event = match &active.request.origin {
            InputOrigin::Call(_) => match target.refusal(&active.request.args) {
                Some(error) => {
                    self.finish(Err(error));
                    return false;
                }
                None => return true,
            },
            InputOrigin::Message(event) => {
                let how = match (target, obstacle) {
                    (InputTarget::FilledBox, _) => TypingOutcome::Waits(None),
                    (_, Some(why)) => TypingOutcome::Waits(Some(why)),
                    (_, None) => return true,
                };
                let event = *event;
                PaneEvent::MessageTyped { event, how }
            }
            InputOrigin::Injection { watcher, step, .. } => {
                let how = match (target, obstacle) {
                    (InputTarget::FilledBox, _) => InjectionOutcome::NotNow,
                    (_, Some(why)) => InjectionOutcome::Refused(why),
                    (_, None) => return true,
                };
                let (watcher, step) = (*watcher, *step);
                PaneEvent::Injected { watcher, step, how }
            }
        };
        self.active = None;
        self.events.push(event);
        false
    }

    /// Begins to type the active input, whose probe has returned the terminal's modes.
    pub fn begin(&mut self, modes: InputModes, cursor: Cursor) {
        let Some(active) = &mut self.active else {
            return;
        };
        if matches!(active.stage, InputStage::Cancelled) {
            self.active = None;
            return;
        }
        let is_message = matches!(active.request.origin, InputOrigin::Message(_));
        if is_message && !modes.bracketed_paste {
            // Outside a paste a line break is an Enter.
            let text = active.request.args.input.take();
            active.request.args.input = text.map(|text| text.replace('\n', " "));
        }
        let (bytes, rest) = SubmitMachine::start(&active.request.args, modes);
        match rest {
            Ok(submit) => active.submit = Some(submit),
            Err(result) => active.result = result,
        }
        active.cursor = cursor;
        active.stage = InputStage::ToType(bytes);
    }

    /// The bytes of the last `Type` were sent to the backend with this number.
    pub fn typed(&mut self, seq: u64, now: Instant) {
        self.left_unsent = false;
        if let Some(active) = &mut self.active {
            active.stage = InputStage::Typed(seq);
            active.give_up_at = now + REDRAW_TIMEOUT;
            active.settled_at = None;
        }
    }

    pub fn on_ack(&mut self, ack: &InputAck, screen: &InputScreen) {
        let is_awaited = |active: &&mut ActiveInput<C>| matches!(active.stage, InputStage::Typed(seq) if seq == ack.seq);
        let Some(active) = self.active.as_mut().filter(is_awaited) else {
            return;
        };
        active.bytes += ack.written;
        let pending = ack.total - ack.written;
        match ack.result {
            AckResult::Lost => {
                let error =
                    Error::new(ErrorKind::Exhausted, "the terminal does not take more input").hint(
                        "the program has not read what was typed before; `get_status` says what it does",
                    );
                self.finish(Err(error));
            }
            AckResult::Pending => self.complete(SubmitResult::Unknown, pending),
            // A duplicate was typed before a daemon died and repeated since: the screen shows its effect just the same.
            AckResult::Written | AckResult::Duplicate if active.submit.is_none() => {
                let result = active.result;
                self.complete(result, pending);
            }
            AckResult::Written | AckResult::Duplicate => {
                active.stage = InputStage::FollowScreen;
                self.check_screen(screen, SubmitMachine::output);
            }
        }
    }

    /// Something was printed.
    pub fn on_output(&mut self, screen: &InputScreen, now: Instant) {
        if let Some(active) = &mut self.active {
            let submit = active.submit.as_ref();
            let settle_interval = match submit.is_some_and(SubmitMachine::is_for_an_agent) {
                true => AGENT_SETTLE_INTERVAL,
                false => REDRAW_SETTLE_INTERVAL,
            };
            active.settled_at = Some(now + settle_interval);
        }
        self.check_screen(screen, SubmitMachine::output);
    }

    /// The shell has marked the start of a command.
    pub fn on_command_start(&mut self) {
        if let Some(active) = &mut self.active {
            active.command_started = true;
        }
    }

    pub fn on_timer(&mut self, screen: &InputScreen, now: Instant) {
        if let Some(hold) = &mut self.hold {
            hold.recheck_at = None;
            let is_late = |request: &QueuedInput<C>| request.refuse_at.is_some_and(|at| at <= now);
            let (late, early): (VecDeque<_>, VecDeque<_>) = std::mem::take(&mut self.waiting)
                .into_iter()
                .partition(is_late);
            self.waiting = early;
            for request in late {
                self.report(request.origin, Err(draft_in_the_way()));
            }
            self.hold = self.hold.take().filter(|_| !self.waiting.is_empty());
        }
        let Some(active) = &mut self.active else {
            return;
        };
        if active.settled_at.is_some_and(|at| at <= now) {
            active.settled_at = None;
            self.check_screen(screen, SubmitMachine::quiet);
        } else if active.give_up_at <= now {
            self.check_screen(screen, SubmitMachine::gave_up);
        }
    }

    pub fn deadline(&self) -> Option<Instant> {
        let active = self.active.as_ref();
        let active = active
            .filter(|active| matches!(active.stage, InputStage::FollowScreen))
            .map(|active| {
                let settled_at = active.settled_at.unwrap_or(active.give_up_at);
                settled_at.min(active.give_up_at)
            });
        let hold = self.hold.iter().flat_map(|hold| {
            let refusals = self.waiting.iter().filter_map(|request| request.refuse_at);
            refusals.chain(hold.recheck_at)
        });
        hold.chain(active).min()
    }

    /// The holder died. Input without an acknowledgement may or may not have been typed, and is not typed again.
    pub fn on_holder_lost(&mut self) {
        let is_typed = |active: &ActiveInput<C>| matches!(active.stage, InputStage::Typed(_));
        if self.active.as_ref().is_some_and(is_typed) {
            let error = uncertain_input().hint("read the pane before typing it again");
            self.finish(Err(error));
        }
    }

    /// The holder does not answer: every input that has not begun to be typed is refused.
    pub fn refuse_unbegun(&mut self, error: &Error) {
        let is_unbegun = |active: &ActiveInput<C>| {
            matches!(active.stage, InputStage::ToProbe | InputStage::Probing)
        };
        if self.active.as_ref().is_some_and(is_unbegun) {
            self.finish(Err(error.clone()));
        }
        self.refuse_waiting(error);
    }

    /// Cancels a watcher's injections. An injection that has begun to be typed is typed completely.
    pub fn cancel_watcher(&mut self, cancelled: u64) {
        let is_its = |request: &QueuedInput<C>| matches!(request.origin, InputOrigin::Injection { watcher, .. } if watcher == cancelled);
        self.waiting.retain(|request| !is_its(request));
        if let Some(active) = &mut self.active
            && is_its(&active.request)
            && matches!(active.stage, InputStage::Probing)
        {
            active.stage = InputStage::Cancelled;
        }
    }

    /// The pane has ended: nothing more is typed.
    pub fn on_pane_end(&mut self) {
        let error = Error::new(ErrorKind::Ended, "the pane ended before this was typed");
        match &self.active {
            // The text was typed; its effect is part of the pane's exit.
            Some(active) if active.bytes > 0 => self.complete(SubmitResult::Unknown, 0),
            Some(_) => self.finish(Err(error.clone())),
            None => {}
        }
        self.refuse_waiting(&error);
    }

    fn refuse_waiting(&mut self, error: &Error) {
        self.hold = None;
        for request in std::mem::take(&mut self.waiting) {
            self.report(request.origin, Err(error.clone()));
        }
    }

    fn check_screen(
        &mut self,
        screen: &InputScreen,
        judge: impl FnOnce(&mut SubmitMachine, &InputView<'_>) -> SubmitAction,
    ) {
        let is_followed =
            |active: &&mut ActiveInput<C>| matches!(active.stage, InputStage::FollowScreen);
        let Some(active) = self.active.as_mut().filter(is_followed) else {
            return;
        };
        let view = InputView {
            near_cursor: &screen.near_cursor,
            agent_box: screen.agent_box,
            command_started: active.command_started,
        };
        let Some(submit) = &mut active.submit else {
            return;
        };
        match judge(submit, &view) {
            SubmitAction::Watch => {}
            SubmitAction::Type(bytes) => {
                active.command_started = false;
                active.stage = InputStage::ToType(bytes);
            }
            SubmitAction::Done(submitted) => self.complete(submitted, 0),
        }
    }

    fn complete(&mut self, submitted: SubmitResult, pending_bytes: u64) {
        let Some(active) = &self.active else { return };
        self.left_unsent = active.request.args.submit && submitted == SubmitResult::No;
        let reply = SendInputReply {
            accepted: true,
            bytes: active.bytes,
            pending_bytes,
            cursor: active.cursor.clone(),
            submitted,
        };
        self.finish(Ok(reply));
    }

    fn finish(&mut self, outcome: Result<SendInputReply, Error>) {
        if let Some(active) = self.active.take() {
            self.report(active.request.origin, outcome);
        }
    }

    fn report(&mut self, origin: InputOrigin<C>, outcome: Result<SendInputReply, Error>) {
        match origin {
            InputOrigin::Call(call) => self.replies.push(InputReply { call, outcome }),
            InputOrigin::Message(event) => {
                let how = match outcome.map(|reply| reply.submitted) {
                    Ok(SubmitResult::Yes) => TypingOutcome::Submitted,
                    Ok(SubmitResult::No | SubmitResult::Unknown) => TypingOutcome::Typed,
                    Err(_) => TypingOutcome::Refused,
                };
                self.events.push(PaneEvent::MessageTyped { event, how });
            }
            InputOrigin::Injection {
                watcher,
                step,
                enter,
            } => {
                let how = match outcome {
                    Ok(reply) => InjectionOutcome::Typed {
                        submitted: !enter || reply.submitted == SubmitResult::Yes,
                    },
                    Err(error) => InjectionOutcome::Unknown(error.message),
                };
                self.events.push(PaneEvent::Injected { watcher, step, how });
            }
        }
    }
}

impl<C> ActiveInput<C> {
    fn new(request: QueuedInput<C>, now: Instant) -> Self {
        Self {
            request,
            stage: InputStage::ToProbe,
            submit: None,
            result: SubmitResult::Unknown,
            cursor: view::start(),
            bytes: 0,
            inputs: 0,
            command_started: false,
            give_up_at: now + REDRAW_TIMEOUT,
            settled_at: None,
        }
    }
}

/// The error for an input that the holder had not acknowledged when the holder died.
pub fn uncertain_input() -> Error {
    Error::new(
        ErrorKind::Uncertain,
        "the holder of the pane died during this input; it may not have arrived",
    )
}

fn draft_in_the_way() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "a person has begun a line in this pane and not sent it; nothing was typed",
    )
    .hint("ask again later; `fugue send --force` types into their line")
}

#[cfg(test)]
mod tests;
