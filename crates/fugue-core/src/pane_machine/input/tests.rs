use fugue_api::{EventId, tools::PasteMode};

use super::{super::test_clock::at, *};
use crate::typing::AgentInputBox;

fn send(text: &str, submit: bool) -> SendInput {
    SendInput {
        pane_id: "p1".into(),
        input: Some(text.to_owned()),
        keys: Vec::new(),
        submit,
        paste: PasteMode::Auto,
        force: false,
    }
}

fn forced(text: &str) -> SendInput {
    SendInput {
        force: true,
        ..send(text, false)
    }
}

fn shows(text: &str) -> InputScreen {
    InputScreen {
        near_cursor: text.to_owned(),
        agent_box: AgentInputBox::Absent,
    }
}

const KEY: [u8; 16] = [0; 16];

/// A queue whose calls are numbers.
struct Script {
    queue: InputQueue<u32>,
    gate: InputGate,
}

impl Script {
    fn new() -> Self {
        Self {
            queue: InputQueue::default(),
            gate: InputGate::Open,
        }
    }

    fn call(&mut self, call: u32, args: SendInput) {
        self.queue.enqueue(args, KEY, InputOrigin::Call(call));
    }

    fn step(&mut self, ms: u64) -> InputStep {
        let gate = match self.queue.needs_gate() {
            true => self.gate,
            false => InputGate::Open,
        };
        self.queue.next_step(gate, at(ms))
    }

    /// Probes and types the next input, and returns its bytes.
    fn type_next(&mut self, ms: u64, seq: u64, modes: InputModes) -> Vec<u8> {
        assert_eq!(self.step(ms), InputStep::Probe);
        assert!(self.queue.admit(&InputTarget::Lines));
        self.queue.begin(modes, view::start());
        self.typed(ms, seq)
    }

    fn typed(&mut self, ms: u64, seq: u64) -> Vec<u8> {
        let InputStep::Type { bytes, .. } = self.step(ms) else {
            panic!("nothing to type");
        };
        self.queue.typed(seq, at(ms));
        bytes
    }

    fn ack(&mut self, seq: u64, written: u64, result: AckResult, screen: &InputScreen) {
        let ack = InputAck {
            seq,
            written,
            total: written,
            result,
        };
        self.queue.on_ack(&ack, screen);
    }

    /// The calls that were answered, with `submitted` or the kind of the error.
    fn replies(&mut self) -> Vec<(u32, Result<SubmitResult, ErrorKind>)> {
        let replies = self.queue.take_replies().into_iter();
        let short = |reply: InputReply<u32>| {
            let outcome = reply.outcome.map(|reply| reply.submitted);
            (reply.call, outcome.map_err(|error| error.kind))
        };
        replies.map(short).collect()
    }
}

#[test]
fn inputs_are_typed_one_after_the_other() {
    let mut pane = Script::new();
    pane.call(1, send("first", false));
    pane.call(2, send("second", false));
    assert_eq!(pane.type_next(0, 10, InputModes::default()), b"first");
    assert_eq!(pane.step(1), InputStep::Nothing, "not acknowledged yet");
    pane.ack(10, 5, AckResult::Written, &shows(""));
    assert_eq!(pane.replies(), [(1, Ok(SubmitResult::No))]);
    assert_eq!(pane.type_next(2, 11, InputModes::default()), b"second");
    pane.ack(11, 6, AckResult::Duplicate, &shows(""));
    assert_eq!(pane.replies(), [(2, Ok(SubmitResult::No))]);
}

#[test]
fn an_enter_follows_the_text_and_its_effect_is_the_reply() {
    for (after_enter, submitted) in [("> ", SubmitResult::Yes), ("> hello", SubmitResult::No)] {
        let mut pane = Script::new();
        pane.call(1, send("hello", true));
        assert_eq!(pane.type_next(0, 10, InputModes::default()), b"hello");
        assert!(pane.queue.follows_screen());
        pane.ack(10, 5, AckResult::Written, &shows(""));
        assert_eq!(pane.queue.deadline(), Some(at(2000)));
        pane.queue.on_output(&shows("> hello"), at(30));
        assert_eq!(pane.typed(30, 11), b"\r");
        pane.ack(11, 1, AckResult::Written, &shows("> hello"));
        pane.queue.on_output(&shows(after_enter), at(50));
        assert_eq!(pane.queue.deadline(), Some(at(90)), "40 ms without output");
        pane.queue.on_timer(&shows(after_enter), at(90));
        assert_eq!(pane.replies(), [(1, Ok(submitted))]);
        assert_eq!(pane.queue.left_unsent(), submitted == SubmitResult::No);
    }
}

#[test]
fn the_enter_has_a_key_of_its_own() {
    let mut pane = Script::new();
    pane.call(1, send("hello", true));
    pane.type_next(0, 10, InputModes::default());
    pane.ack(10, 5, AckResult::Written, &shows("> hello"));
    let InputStep::Type { key, bytes } = pane.step(0) else {
        panic!("no Enter");
    };
    assert_eq!(bytes, b"\r");
    assert_ne!(key, KEY);
}

#[test]
fn a_program_that_draws_nothing_gets_its_enter_after_two_seconds() {
    let mut pane = Script::new();
    pane.call(1, send("hello", true));
    pane.type_next(0, 10, InputModes::default());
    pane.ack(10, 5, AckResult::Written, &shows(""));
    pane.queue.on_timer(&shows(""), at(1999));
    assert_eq!(pane.step(1999), InputStep::Nothing);
    pane.queue.on_timer(&shows(""), at(2000));
    assert_eq!(pane.typed(2000, 11), b"\r");
    pane.ack(11, 1, AckResult::Written, &shows(""));
    pane.queue.on_timer(&shows(""), at(4000));
    assert_eq!(pane.replies(), [(1, Ok(SubmitResult::Unknown))]);
}

#[test]
fn an_agents_box_settles_for_longer() {
    let mut pane = Script::new();
    pane.call(1, send("hello", true));
    let modes = InputModes {
        agent_box: true,
        ..InputModes::default()
    };
    pane.type_next(0, 10, modes);
    pane.ack(10, 5, AckResult::Written, &shows(""));
    pane.queue.on_output(&shows("> hello"), at(100));
    assert_eq!(pane.queue.deadline(), Some(at(250)));
}

#[test]
fn full_and_lost_input_ends_the_call() {
    for (result, reply) in [
        (AckResult::Pending, Ok(SubmitResult::Unknown)),
        (AckResult::Lost, Err(ErrorKind::Exhausted)),
    ] {
        let mut pane = Script::new();
        pane.call(1, send("hello", true));
        pane.type_next(0, 10, InputModes::default());
        pane.ack(10, 0, result, &shows(""));
        assert_eq!(pane.replies(), [(1, reply)]);
    }
}

#[test]
fn calls_wait_for_a_draft_and_are_refused_at_their_deadline() {
    let mut pane = Script::new();
    pane.gate = InputGate::DraftInTheWay {
        refuse_at: at(5000),
        recheck_at: Some(at(500)),
    };
    pane.call(1, send("early", false));
    assert_eq!(pane.step(0), InputStep::Nothing);
    assert!(pane.queue.is_held());
    assert_eq!(pane.queue.deadline(), Some(at(500)));
    pane.queue.on_timer(&shows(""), at(500));
    assert_eq!(pane.queue.deadline(), Some(at(5000)));
    pane.call(2, send("later", false));
    pane.gate = InputGate::DraftInTheWay {
        refuse_at: at(6000),
        recheck_at: None,
    };
    assert_eq!(pane.step(1000), InputStep::Nothing);
    pane.queue.on_timer(&shows(""), at(5000));
    assert_eq!(pane.replies(), [(1, Err(ErrorKind::Unavailable))]);
    assert!(pane.queue.is_held());
    pane.gate = InputGate::Open;
    assert_eq!(pane.type_next(5500, 10, InputModes::default()), b"later");
    assert!(!pane.queue.is_held());
}

#[test]
fn a_forced_input_overtakes_those_that_wait_for_a_person() {
    let mut pane = Script::new();
    pane.gate = InputGate::DraftInTheWay {
        refuse_at: at(5000),
        recheck_at: None,
    };
    pane.call(1, send("waits", false));
    assert_eq!(pane.step(0), InputStep::Nothing);
    pane.call(2, forced("now"));
    assert_eq!(pane.type_next(0, 10, InputModes::default()), b"now");
    assert!(pane.queue.is_held(), "the other one waits on");
    pane.ack(10, 3, AckResult::Written, &shows(""));
    assert_eq!(pane.replies(), [(2, Ok(SubmitResult::No))]);
    assert_eq!(pane.step(1), InputStep::Nothing);
}

#[test]
fn messages_and_injections_do_not_wait_for_a_person() {
    let mut pane = Script::new();
    let message = InputOrigin::Message(EventId(3));
    let injection = || InputOrigin::Injection {
        watcher: 7,
        step: 1,
        enter: true,
    };
    pane.queue.enqueue(send("message", true), KEY, message);
    pane.queue.enqueue(send("line", true), KEY, injection());
    pane.gate = InputGate::DraftInTheWay {
        refuse_at: at(5000),
        recheck_at: None,
    };
    assert_eq!(pane.step(0), InputStep::Nothing);
    assert!(!pane.queue.is_held());
    let waits = PaneEvent::MessageTyped {
        event: EventId(3),
        how: TypingOutcome::Waits(None),
    };
    let not_now = PaneEvent::Injected {
        watcher: 7,
        step: 1,
        how: InjectionOutcome::NotNow,
    };
    assert_eq!(pane.queue.take_events(), [waits, not_now]);

    pane.gate = InputGate::Open;
    pane.queue.enqueue(send("line", true), KEY, injection());
    assert_eq!(pane.step(0), InputStep::Probe);
    pane.queue.cancel_watcher(7);
    assert!(pane.queue.admit(&InputTarget::Lines));
    pane.queue.begin(InputModes::default(), view::start());
    assert_eq!(pane.step(0), InputStep::Nothing, "cancelled while probing");
    assert_eq!(pane.queue.take_events(), []);
}

#[test]
fn the_target_admits_or_refuses_by_origin() {
    let dialog = || InputTarget::Dialog("Proceed?".into());
    let mut pane = Script::new();
    pane.call(1, send("y", true));
    assert_eq!(pane.step(0), InputStep::Probe);
    assert!(!pane.queue.admit(&dialog()));
    assert_eq!(pane.replies(), [(1, Err(ErrorKind::Unavailable))]);
    for (target, expected) in [
        (InputTarget::FilledBox, TypingOutcome::Waits(None)),
        (
            InputTarget::Keys,
            TypingOutcome::Waits(InputTarget::Keys.obstacle()),
        ),
    ] {
        let message = InputOrigin::Message(EventId(3));
        pane.queue.enqueue(send("message", true), KEY, message);
        assert_eq!(pane.step(0), InputStep::Probe);
        assert!(!pane.queue.admit(&target));
        let event = EventId(3);
        let how = expected;
        let refused = PaneEvent::MessageTyped { event, how };
        assert_eq!(pane.queue.take_events(), [refused]);
    }
    // A watcher's line is a text for an agent, and a command for a shell.
    for (target, is_typed) in [(InputTarget::EmptyBox, false), (InputTarget::Lines, true)] {
        let injection = InputOrigin::Injection {
            watcher: 7,
            step: 1,
            enter: true,
        };
        pane.queue.enqueue(send("!touch x", true), KEY, injection);
        assert_eq!(pane.step(0), InputStep::Probe);
        assert_eq!(pane.queue.admit(&target), is_typed);
        let refused = target
            .obstacle_to("!touch x")
            .map(|why| PaneEvent::Injected {
                watcher: 7,
                step: 1,
                how: InjectionOutcome::Refused(why),
            });
        assert_eq!(pane.queue.take_events(), Vec::from_iter(refused));
    }
}

#[test]
fn a_persons_key_during_the_probe_puts_the_input_back() {
    let mut pane = Script::new();
    pane.call(1, send("text", false));
    assert_eq!(pane.step(0), InputStep::Probe);
    pane.queue.step_back();
    pane.gate = InputGate::DraftInTheWay {
        refuse_at: at(5000),
        recheck_at: None,
    };
    assert_eq!(pane.step(0), InputStep::Nothing);
    assert!(pane.queue.is_held());
}

#[test]
fn a_lost_holder_leaves_typed_input_uncertain_and_keeps_the_rest() {
    let mut pane = Script::new();
    pane.call(1, send("first", false));
    pane.call(2, send("second", false));
    pane.type_next(0, 10, InputModes::default());
    pane.queue.on_holder_lost();
    assert_eq!(pane.replies(), [(1, Err(ErrorKind::Uncertain))]);
    assert_eq!(pane.step(1), InputStep::Probe, "the second was not typed");
    let silent = Error::new(ErrorKind::Unavailable, "the holder does not answer");
    pane.call(3, send("third", false));
    pane.queue.refuse_unbegun(&silent);
    let refused = Err(ErrorKind::Unavailable);
    assert_eq!(pane.replies(), [(2, refused), (3, refused)]);
}

#[test]
fn an_ended_pane_answers_everyone() {
    let mut pane = Script::new();
    pane.call(1, send("exit", true));
    pane.call(2, send("more", false));
    pane.type_next(0, 10, InputModes::default());
    pane.ack(10, 4, AckResult::Written, &shows(""));
    pane.queue.on_pane_end();
    assert_eq!(
        pane.replies(),
        [(1, Ok(SubmitResult::Unknown)), (2, Err(ErrorKind::Ended))]
    );
}
