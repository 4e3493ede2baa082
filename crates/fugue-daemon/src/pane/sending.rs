//! The inputs of one pane, one after the other: what has been typed, what the terminal took, what was seen of it.

use std::{collections::VecDeque, time::Duration};

use fugue_api::{
    Cursor, Error, ErrorKind, EventId, ToolReply,
    tools::{SendInput, SendInputReply, SubmitResult},
    wire::Response,
};
use fugue_core::{
    InjectionOutcome, PaneEvent, TypingOutcome,
    typing::{AgentInputBox, InputModes, InputView, SubmitAction, SubmitMachine},
};
use fugue_holder::wire::{InputOutcome, InputState};
use tokio::time::Instant;

use super::{person::uncertain, target::Target};
use crate::pending_calls::Responder;

// Long enough for a program to draw what was typed, however slow its screen; nothing waits for it without need.
const PATIENCE: Duration = Duration::from_secs(2);
// A redraw comes in pieces; this long without one and it is complete.
const SETTLED: Duration = Duration::from_millis(40);
// Gemini CLI takes an Enter within 40 ms of a paste for a part of it, by a clock of its own that may be late.
const SETTLED_IN_A_BOX: Duration = Duration::from_millis(150);

#[derive(Default)]
pub struct Sending {
    waiting: VecDeque<InputTurn>,
    active: Option<Active>,
    /// What became of what was not typed for a caller.
    told: Vec<PaneEvent>,
    /// The first one waits for a person who types.
    held: Option<Held>,
    /// Enter was pressed behind the last text, and the text is still there.
    left_a_text: bool,
}

/// Input waits until a person has sent the line that they have begun.
struct Held {
    /// When to look again, if nothing happens until then.
    look_at: Option<Instant>,
}

/// Whether the next input may begin.
pub enum Gate {
    Open,
    /// A person has begun a line.
    Shut {
        until: Instant,
        look_at: Option<Instant>,
    },
}

/// What the screen shows of what was typed.
#[derive(Default)]
pub struct Sight {
    /// The cursor's row and the one above, for a box that wraps.
    pub near_cursor: String,
    pub agent_box: AgentInputBox,
}

struct InputTurn {
    args: SendInput,
    key: [u8; 16],
    asker: Asker,
    /// It waits for a person so long, and then it is refused.
    until: Option<Instant>,
}

/// Who hears what became of it.
pub enum Asker {
    Caller(Responder),
    /// The sender of a message to the agent in the pane.
    Message(EventId),
    /// A watcher that types the next line.
    Watcher {
        watcher: u64,
        step: u64,
        enter: bool,
    },
}

struct Active {
    request: InputTurn,
    stage: Stage,
    typing: Option<SubmitMachine>,
    /// What to answer if there is nothing to watch.
    verdict: SubmitResult,
    cursor: Cursor,
    bytes: u64,
    /// How many inputs it has been so far.
    inputs: u8,
    command_started: bool,
    give_up_at: Instant,
    /// Set while something was printed and may not be complete.
    settled_at: Option<Instant>,
}

enum Stage {
    ToProbe,
    Probing,
    /// As probing; when it has been looked at, nothing is typed.
    Unwanted,
    ToType(Vec<u8>),
    /// Waiting for the holder's word about this input.
    Typed(u64),
    /// Waiting for the screen.
    Watching,
}

/// What the pane is to do for us.
pub enum Step {
    Nothing,
    Probe,
    Type { key: [u8; 16], bytes: Vec<u8> },
}

impl Sending {
    pub fn enqueue(&mut self, args: SendInput, key: [u8; 16], asker: Asker) {
        self.waiting.push_back(InputTurn {
            args,
            key,
            asker,
            until: None,
        });
    }

    /// Whether there is an input that has not begun and minds a person's.
    pub fn wants_in(&self) -> bool {
        let next = self.waiting.front();
        self.active.is_none() && next.is_some_and(|request| !request.args.force)
    }

    pub fn is_held(&self) -> bool {
        self.held.is_some()
    }

    /// The input that is being typed, else the one that is next.
    pub fn next_args(&self) -> Option<&SendInput> {
        let active = self.active.as_ref().map(|active| &active.request);
        let next = active.or(self.waiting.front());
        next.map(|request| &request.args)
    }

    /// Whether the last text is still in the input box of an agent, although Enter was pressed behind it.
    pub fn left_a_text(&self) -> bool {
        self.left_a_text
    }

    /// What was about to be typed waits once more.
    pub fn step_back(&mut self) {
        if let Some(active) = self.active.take()
            && !matches!(active.stage, Stage::Unwanted)
        {
            self.waiting.push_front(active.request);
        }
    }

    /// A caller waits for the person; a message and a watcher come back when the pane rests.
    fn hold(&mut self, until: Instant, look_at: Option<Instant>) {
        let told = &mut self.told;
        self.waiting.retain_mut(|request| match request.asker {
            Asker::Caller(_) => {
                if !request.args.force {
                    request.until.get_or_insert(until);
                }
                true
            }
            Asker::Message(event) => {
                let how = TypingOutcome::Waits(None);
                told.push(PaneEvent::MessageTyped { event, how });
                false
            }
            Asker::Watcher { watcher, step, .. } => {
                let how = InjectionOutcome::NotNow;
                told.push(PaneEvent::Injected { watcher, step, how });
                false
            }
        });
        self.held = self.waiting.front().map(|_| Held { look_at });
    }

    pub fn next_step(&mut self, gate: &Gate) -> Step {
        match gate {
            Gate::Shut { until, look_at } => {
                self.hold(*until, *look_at);
                // Who does not wait for a person does not wait for those who do.
                let forced = self.waiting.iter().position(|request| request.args.force);
                let Some(forced) = forced.and_then(|at| self.waiting.remove(at)) else {
                    return Step::Nothing;
                };
                self.waiting.push_front(forced);
            }
            // While a forced one is being typed, the others wait on.
            Gate::Open => {
                if self.active.is_none() && self.held.take().is_some() {
                    self.waiting
                        .iter_mut()
                        .for_each(|request| request.until = None);
                }
            }
        }
        if self.active.is_none() {
            let Some(request) = self.waiting.pop_front() else {
                return Step::Nothing;
            };
            self.active = Some(Active {
                request,
                stage: Stage::ToProbe,
                typing: None,
                verdict: SubmitResult::Unknown,
                cursor: fugue_core::view::start(),
                bytes: 0,
                inputs: 0,
                command_started: false,
                give_up_at: Instant::now() + PATIENCE,
                settled_at: None,
            });
        }
        let Some(active) = &mut self.active else {
            return Step::Nothing;
        };
        match std::mem::replace(&mut active.stage, Stage::Probing) {
            Stage::ToProbe => Step::Probe,
            Stage::ToType(bytes) => {
                // An Enter behind a text is an input of its own, and must not pass for the text asked again.
                let mut key = active.request.key;
                key[15] ^= active.inputs;
                active.inputs = active.inputs.wrapping_add(1);
                Step::Type { key, bytes }
            }
            stage => {
                active.stage = stage;
                Step::Nothing
            }
        }
    }

    /// Refuses what may not be typed into what has the keyboard now.
    pub(super) fn admit(&mut self, target: &Target) -> bool {
        let Some(active) = &self.active else {
            return true;
        };
        if matches!(active.stage, Stage::Unwanted) {
            return true;
        }
        let fact = match &active.request.asker {
            Asker::Caller(_) => match target.refusal(&active.request.args) {
                Some(error) => {
                    self.finish(Err(error));
                    return false;
                }
                None => return true,
            },
            Asker::Message(event) => {
                let how = match target {
                    Target::FilledBox => TypingOutcome::Waits(None),
                    _ => match target.obstacle() {
                        Some(why) => TypingOutcome::Waits(Some(why)),
                        None => return true,
                    },
                };
                let event = *event;
                PaneEvent::MessageTyped { event, how }
            }
            Asker::Watcher { watcher, step, .. } => {
                let how = match target {
                    Target::FilledBox => InjectionOutcome::NotNow,
                    _ => match target.obstacle() {
                        Some(why) => InjectionOutcome::Refused(why),
                        None => return true,
                    },
                };
                let (watcher, step) = (*watcher, *step);
                PaneEvent::Injected { watcher, step, how }
            }
        };
        self.active = None;
        self.told.push(fact);
        false
    }

    /// The terminal has been looked at; now it is known how to type.
    pub fn begin(&mut self, manners: InputModes, cursor: Cursor) {
        let Some(active) = &mut self.active else {
            return;
        };
        if matches!(active.stage, Stage::Unwanted) {
            self.active = None;
            return;
        }
        let is_message = matches!(active.request.asker, Asker::Message(_));
        if is_message && !manners.bracketed_paste {
            // Without a paste a line break is an Enter.
            let text = active.request.args.input.take();
            active.request.args.input = text.map(|text| text.replace('\n', " "));
        }
        let (bytes, rest) = SubmitMachine::start(&active.request.args, manners);
        match rest {
            Ok(typing) => active.typing = Some(typing),
            Err(verdict) => active.verdict = verdict,
        }
        active.cursor = cursor;
        active.stage = Stage::ToType(bytes);
    }

    pub fn typed(&mut self, seq: u64) {
        self.left_a_text = false;
        if let Some(active) = &mut self.active {
            active.stage = Stage::Typed(seq);
            active.give_up_at = Instant::now() + PATIENCE;
            active.settled_at = None;
        }
    }

    pub fn input_state(&mut self, state: &InputState, sight: &Sight) {
        let Some(active) = self
            .active
            .as_mut()
            .filter(|active| matches!(active.stage, Stage::Typed(seq) if seq == state.seq))
        else {
            return;
        };
        let (written, total) = (u64::from(state.written), u64::from(state.total));
        active.bytes += written;
        match state.outcome {
            InputOutcome::Lost => {
                let error = Error::new(ErrorKind::Exhausted, "the terminal does not take more input")
                    .hint("the program has not read what was typed before; `get_status` says what it does");
                self.finish(Err(error));
            }
            InputOutcome::Pending => self.done(SubmitResult::Unknown, total - written),
            // Typed before the daemon died and asked again since: seen just the same.
            InputOutcome::Written | InputOutcome::Duplicate if active.typing.is_none() => {
                let verdict = active.verdict;
                self.done(verdict, total - written);
            }
            InputOutcome::Written | InputOutcome::Duplicate => {
                active.stage = Stage::Watching;
                self.look(sight, |typing, seen| typing.output(seen));
            }
        }
    }

    /// Something was printed.
    pub fn output(&mut self, sight: &Sight, at: Instant) {
        if let Some(active) = &mut self.active {
            let agent = active
                .typing
                .as_ref()
                .is_some_and(SubmitMachine::is_for_an_agent);
            let settled = if agent { SETTLED_IN_A_BOX } else { SETTLED };
            active.settled_at = Some(at + settled);
        }
        self.look(sight, |typing, seen| typing.output(seen));
    }

    pub fn command_started(&mut self) {
        if let Some(active) = &mut self.active {
            active.command_started = true;
        }
    }

    pub fn time(&mut self, sight: &Sight, now: Instant) {
        if let Some(held) = &mut self.held {
            held.look_at = None;
            let late = |request: &InputTurn| request.until.is_some_and(|until| until <= now);
            let (late, early) = std::mem::take(&mut self.waiting)
                .into_iter()
                .partition(late);
            self.waiting = early;
            let late: VecDeque<InputTurn> = late;
            for request in late {
                self.tell(request.asker, Err(a_person_types()));
            }
            self.held = self.held.take().filter(|_| !self.waiting.is_empty());
        }
        let Some(active) = &mut self.active else {
            return;
        };
        if active.settled_at.is_some_and(|at| at <= now) {
            active.settled_at = None;
            self.look(sight, |typing, seen| typing.quiet(seen));
        } else if active.give_up_at <= now {
            self.look(sight, |typing, seen| typing.gave_up(seen));
        }
    }

    pub fn deadline(&self) -> Option<Instant> {
        let active = self
            .active
            .as_ref()
            .filter(|active| matches!(active.stage, Stage::Watching))
            .map(|active| {
                active
                    .settled_at
                    .map_or(active.give_up_at, |at| at.min(active.give_up_at))
            });
        let held = self.held.iter().flat_map(|held| {
            let refusals = self.waiting.iter().filter_map(|request| request.until);
            refusals.chain(held.look_at)
        });
        held.chain(active).min()
    }

    /// Whether what is on the screen matters.
    pub fn watches(&self) -> bool {
        self.active.as_ref().is_some_and(|active| {
            matches!(active.stage, Stage::Watching | Stage::Typed(_)) && active.typing.is_some()
        })
    }

    /// The holder died. What it had not acknowledged may or may not have been typed, and is never typed again.
    pub fn holder_lost(&mut self) {
        if self
            .active
            .as_ref()
            .is_some_and(|active| matches!(active.stage, Stage::Typed(_)))
        {
            let error = uncertain().hint("read the pane before typing it again");
            self.finish(Err(error));
        }
    }

    /// The holder does not answer: whatever has not begun to be typed is refused.
    pub fn refuse_unbegun(&mut self, error: &Error) {
        let unbegun = |active: &Active| matches!(active.stage, Stage::ToProbe | Stage::Probing);
        if self.active.as_ref().is_some_and(unbegun) {
            self.finish(Err(error.clone()));
        }
        self.held = None;
        for request in std::mem::take(&mut self.waiting) {
            self.tell(request.asker, Err(error.clone()));
        }
    }

    /// A watcher does not want its line typed any more. What has been typed of it is typed.
    pub fn forget_watcher(&mut self, gone: u64) {
        let is_its = |request: &InputTurn| matches!(request.asker, Asker::Watcher { watcher, .. } if watcher == gone);
        self.waiting.retain(|request| !is_its(request));
        if let Some(active) = &mut self.active
            && is_its(&active.request)
            && matches!(active.stage, Stage::Probing)
        {
            active.stage = Stage::Unwanted;
        }
    }

    pub fn pane_ended(&mut self) {
        let ended = || Error::new(ErrorKind::Ended, "the pane ended before this was typed");
        match &self.active {
            // The text went in; what became of it is for the exit to tell.
            Some(active) if active.bytes > 0 => self.done(SubmitResult::Unknown, 0),
            Some(_) => self.finish(Err(ended())),
            None => {}
        }
        self.held = None;
        for request in std::mem::take(&mut self.waiting) {
            self.tell(request.asker, Err(ended()));
        }
    }

    fn look(
        &mut self,
        sight: &Sight,
        judge: impl FnOnce(&mut SubmitMachine, &InputView<'_>) -> SubmitAction,
    ) {
        let Some(active) = self
            .active
            .as_mut()
            .filter(|active| matches!(active.stage, Stage::Watching))
        else {
            return;
        };
        let seen = InputView {
            near_cursor: &sight.near_cursor,
            agent_box: sight.agent_box,
            command_started: active.command_started,
        };
        let Some(typing) = &mut active.typing else {
            return;
        };
        match judge(typing, &seen) {
            SubmitAction::Watch => {}
            SubmitAction::Type(bytes) => {
                active.command_started = false;
                active.stage = Stage::ToType(bytes);
            }
            SubmitAction::Done(submitted) => self.done(submitted, 0),
        }
    }

    fn done(&mut self, submitted: SubmitResult, pending_bytes: u64) {
        let Some(active) = &self.active else { return };
        self.left_a_text = active.request.args.submit && submitted == SubmitResult::No;
        let sent = SendInputReply {
            accepted: true,
            bytes: active.bytes,
            pending_bytes,
            cursor: active.cursor.clone(),
            submitted,
        };
        self.finish(Ok(sent));
    }

    fn finish(&mut self, outcome: Result<SendInputReply, Error>) {
        if let Some(active) = self.active.take() {
            self.tell(active.request.asker, outcome);
        }
    }

    fn tell(&mut self, asker: Asker, outcome: Result<SendInputReply, Error>) {
        match (asker, outcome) {
            (Asker::Caller(responder), outcome) => {
                responder.answer(outcome.map(|sent| Response::Tool {
                    reply: ToolReply::SendInput(sent),
                }));
            }
            (Asker::Message(event), Ok(sent)) => {
                let how = match sent.submitted {
                    SubmitResult::Yes => TypingOutcome::Submitted,
                    SubmitResult::No | SubmitResult::Unknown => TypingOutcome::Typed,
                };
                self.told.push(PaneEvent::MessageTyped { event, how });
            }
            (Asker::Message(event), Err(_)) => self.told.push(PaneEvent::MessageTyped {
                event,
                how: TypingOutcome::Refused,
            }),
            (
                Asker::Watcher {
                    watcher,
                    step,
                    enter,
                },
                outcome,
            ) => {
                let how = match outcome {
                    Ok(sent) => InjectionOutcome::Typed {
                        submitted: !enter || sent.submitted == SubmitResult::Yes,
                    },
                    Err(error) => InjectionOutcome::Unknown(error.message),
                };
                self.told.push(PaneEvent::Injected { watcher, step, how });
            }
        }
    }

    /// What became of messages and injections since this was asked last.
    pub fn told(&mut self) -> Vec<PaneEvent> {
        std::mem::take(&mut self.told)
    }
}

fn a_person_types() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "a person has begun a line in this pane and not sent it; nothing was typed",
    )
    .hint("ask again later; `fugue send --force` types into their line")
}
