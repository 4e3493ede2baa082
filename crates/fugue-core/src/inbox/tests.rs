//! Any order of published events, waits, cancellations, acks and restarts, against a model that is too simple to be wrong.

use std::collections::{BTreeMap, BTreeSet};

use fugue_api::{
    Error, ToolReply,
    inbox_event::{CompletionStatus, WorkerCompletion},
    tools::WaitForEventReply,
    wire::Response,
};
use proptest::prelude::*;

use super::*;
use crate::{AfterCommit, ClockReading, Counter, Record, RecordId};

#[derive(Clone, Debug)]
enum Move {
    Post {
        inbox: u8,
        message: bool,
        from: u8,
    },
    Wait {
        inbox: u8,
        messages_only: bool,
        from: Option<u8>,
        secs: u8,
        looks_behind: Option<u8>,
    },
    /// Of the open calls, this one; modulo how many there are.
    Cancel(u8),
    /// The event in the hand of this one has arrived.
    Took(u8),
    /// Somebody says that it arrived a second time.
    TookAgain(u8),
    Time(u8),
    /// The daemon dies, and with it every hand and every wait.
    Restart,
}

fn moves() -> impl Strategy<Value = Move> {
    prop_oneof![
        6 => (0..2_u8, any::<bool>(), 0..2_u8)
            .prop_map(|(inbox, message, from)| Move::Post { inbox, message, from }),
        6 => (0..2_u8, any::<bool>(), prop::option::weighted(0.3, 0..2_u8), 0..4_u8, prop::option::weighted(0.2, 0..20_u8))
            .prop_map(|(inbox, messages_only, from, secs, looks_behind)| Move::Wait {
                inbox, messages_only, from, secs, looks_behind
            }),
        3 => any::<u8>().prop_map(Move::Cancel),
        5 => any::<u8>().prop_map(Move::Took),
        1 => any::<u8>().prop_map(Move::TookAgain),
        2 => (0..3_u8).prop_map(Move::Time),
        1 => Just(Move::Restart),
    ]
}

fn inbox_id(number: u8) -> InboxId {
    InboxId(format!("inbox-{number}"))
}

fn event(message: bool, from: u8) -> InboxEvent {
    let from = format!("w{from}");
    if message {
        return InboxEvent::Message {
            from,
            body: String::new(),
        };
    }
    InboxEvent::WorkerComplete(WorkerCompletion {
        worker_id: from,
        instance: 1,
        status: CompletionStatus::Success,
        changes: Vec::new(),
        omitted_changes: 0,
        message: String::new(),
        omitted_chars: 0,
        message_file: None,
        branch: None,
        cwd: None,
        exit_code: None,
        signal: None,
        turn: 1,
        synthesized: false,
        note: None,
    })
}

/// What should be so.
#[derive(Default)]
struct Model {
    events: BTreeMap<EventId, (u8, InboxEvent)>,
    taken: BTreeSet<EventId>,
    in_hand: BTreeMap<CallId, EventId>,
    sleeping: BTreeMap<CallId, (u8, WaitForEvent, Duration)>,
}

impl Model {
    fn is_free(&self, id: EventId) -> bool {
        !self.taken.contains(&id) && !self.in_hand.values().any(|held| *held == id)
    }

    /// What a call that takes should get, and what one that looks should see.
    fn first(&self, inbox: u8, args: &WaitForEvent) -> Option<EventId> {
        let fitting = self
            .events
            .iter()
            .filter(|(_, (of, event))| *of == inbox && fits(event, args))
            .map(|(id, _)| *id);
        match args.after_event_id {
            Some(after) => fitting.filter(|id| *id > after).min(),
            None => fitting.filter(|id| self.is_free(*id)).min(),
        }
    }

    /// Nobody sleeps while something that it waits for is free.
    fn nobody_oversleeps(&self) {
        for (call, (inbox, args, _)) in &self.sleeping {
            let missed = self.first(*inbox, args);
            assert_eq!(missed, None, "{call:?} sleeps beside it");
        }
    }
}

fn start() -> ClockReading {
    ClockReading {
        wall: Timestamp(0),
        since_boot: Duration::ZERO,
        boot_id: crate::BootId(1),
    }
}

/// A run of both, side by side.
struct Pair {
    real: Inboxes,
    model: Model,
    disk: BTreeMap<EventId, EventRecord>,
    next_on_disk: u64,
    now: ClockReading,
    out: StepBuilder,
    next_call: u64,
}

impl Pair {
    fn new() -> Self {
        Self {
            real: Inboxes::default(),
            model: Model::default(),
            disk: BTreeMap::new(),
            next_on_disk: 1,
            now: start(),
            out: StepBuilder::new(start()),
            next_call: 1,
        }
    }

    fn play(&mut self, one: Move) {
        if let Move::Time(secs) = one {
            self.now.since_boot += Duration::from_secs(secs.into());
        }
        let mut cx = self.context();
        match one {
            Move::Post {
                inbox,
                message,
                from,
            } => {
                let event = event(message, from);
                let post = NewEvent::new(inbox_id(inbox), event.clone());
                let id = self.real.publish(post, &mut cx);
                let newest = self.model.events.keys().next_back();
                assert!(newest.is_none_or(|newest| id > *newest), "ids only grow");
                self.model.events.insert(id, (inbox, event));
            }
            Move::Wait {
                inbox,
                messages_only,
                from,
                secs,
                looks_behind,
            } => self.wait(
                inbox,
                WaitForEvent {
                    types: vec![if messages_only {
                        EventType::Message
                    } else {
                        EventType::Any
                    }],
                    timeout_secs: secs.into(),
                    from: from.map(|from| format!("w{from}")),
                    after_event_id: looks_behind.map(|id| EventId(id.into())),
                },
                &mut cx,
            ),
            Move::Cancel(which) => self.cancel(which, &mut cx),
            Move::Took(which) => self.ack(which, &mut cx),
            Move::TookAgain(which) => {
                let taken: Vec<EventId> = self.model.taken.iter().copied().collect();
                if let Some(id) = pick(&taken, which) {
                    self.real.ack(id, &mut cx);
                }
            }
            Move::Time(_) => {
                while let Some(timer) = cx.next_expired() {
                    let Timer::EventWait(call) = timer else {
                        panic!("not an inbox's timer: {timer:?}")
                    };
                    self.real.wait_expired(call, &mut cx);
                }
            }
            Move::Restart => {
                let events = self.disk.values().cloned().collect();
                self.real = Inboxes::restored(events, self.next_on_disk, InboxLimits::default());
                self.model.in_hand.clear();
                self.model.sleeping.clear();
            }
        }
        self.perform(cx);
        self.model.nobody_oversleeps();
        let late = |until: &Duration| *until <= self.now.since_boot;
        let overdue = self
            .model
            .sleeping
            .values()
            .any(|(_, _, until)| late(until));
        assert!(
            !overdue || !matches!(one, Move::Time(_)),
            "time ran out for nobody"
        );
    }

    fn cancel(&mut self, which: u8, cx: &mut StepBuilder) {
        let sleeping = self.model.sleeping.keys();
        let open: Vec<CallId> = sleeping.chain(self.model.in_hand.keys()).copied().collect();
        if let Some(call) = pick(&open, which) {
            self.model.in_hand.remove(&call);
            self.model.sleeping.remove(&call);
            self.real.cancel(call, cx);
        }
    }

    fn ack(&mut self, which: u8, cx: &mut StepBuilder) {
        let held: Vec<(CallId, EventId)> = self.model.in_hand.clone().into_iter().collect();
        if let Some((call, id)) = pick(&held, which) {
            self.model.in_hand.remove(&call);
            self.model.taken.insert(id);
            self.real.ack(id, cx);
            // The client closes the call behind it.
            self.real.cancel(call, cx);
        }
    }

    fn wait(&mut self, inbox: u8, args: WaitForEvent, cx: &mut StepBuilder) {
        let call = CallId(self.next_call);
        self.next_call += 1;
        let until = self.now.since_boot + Duration::from_secs_f64(args.timeout_secs);
        let wanted = self.model.first(inbox, &args);
        let looks = args.after_event_id.is_some();
        self.model
            .sleeping
            .insert(call, (inbox, args.clone(), until));
        self.real.wait(call, inbox_id(inbox), args, cx);
        let got = cx
            .when_stored()
            .then
            .iter()
            .find_map(|effect| match effect {
                AfterCommit::Deliver { event, .. } if !looks => Some(*event),
                AfterCommit::Reply { answer, .. } => told(answer).event_id,
                _ => None,
            });
        assert_eq!(got, wanted, "the first that fits, at once");
    }

    /// What the effects do to the disk and to the callers.
    fn context(&mut self) -> StepBuilder {
        let mut out = std::mem::replace(&mut self.out, StepBuilder::new(start()));
        out.begin(self.now);
        out
    }

    fn perform(&mut self, mut cx: StepBuilder) {
        let effects = cx.finish();
        self.out = cx;
        assert!(
            effects.effects.is_empty(),
            "all that is told waits for the disk"
        );
        let Some(commit) = effects.commit else {
            return;
        };
        for change in commit.changes {
            self.commit(change);
        }
        for effect in commit.then {
            match effect {
                AfterCommit::Deliver {
                    call,
                    answer,
                    event,
                } => {
                    assert_eq!(told(&answer).event_id, Some(event));
                    assert!(self.model.is_free(event), "{event} is somebody's already");
                    let slept = self.model.sleeping.remove(&call);
                    let (inbox, args, _) = slept.expect("whoever gets it waits for it");
                    assert_eq!(
                        self.model.first(inbox, &args),
                        Some(event),
                        "none is passed over"
                    );
                    self.model.in_hand.insert(call, event);
                    self.check_pending(inbox, &answer);
                }
                AfterCommit::Reply { call, answer } => {
                    let slept = self.model.sleeping.remove(&call);
                    let (inbox, args, until) = slept.expect("whoever is told waits");
                    match told(&answer).event_id {
                        Some(event) => {
                            assert_eq!(self.model.first(inbox, &args), Some(event));
                        }
                        None => assert!(until <= self.now.since_boot, "its time is not over"),
                    }
                    self.check_pending(inbox, &answer);
                }
                other => panic!("not an inbox's business: {other:?}"),
            }
        }
    }

    /// What is counted is exactly what another call could take now.
    fn check_pending(&self, inbox: u8, answer: &Result<Response, Error>) {
        let told = told(answer);
        let mut wanted: BTreeMap<EventType, u64> = BTreeMap::new();
        for (id, (of, event)) in &self.model.events {
            if *of == inbox && self.model.is_free(*id) && told.event_id != Some(*id) {
                *wanted.entry(event.kind()).or_default() += 1;
            }
        }
        assert_eq!(told.pending, wanted);
    }

    fn commit(&mut self, change: Change) {
        match change {
            Change::SetCounter(Counter::NextEvent, next) => self.next_on_disk = next,
            Change::Put(Record::Event(record)) => {
                let id = record.id;
                let known = self.disk.insert(id, *record);
                assert!(
                    !known.is_some_and(|known| known.taken),
                    "{id} is taken twice"
                );
            }
            other => panic!("not an inbox's business: {other:?}"),
        }
    }

    /// Whatever happened, all that nobody took can still be had, in order.
    fn drain(&mut self) {
        let open: Vec<CallId> = self.model.in_hand.keys().copied().collect();
        for call in open {
            self.model.in_hand.remove(&call);
            let mut cx = self.context();
            self.real.cancel(call, &mut cx);
            self.perform(cx);
        }
        let sleepers: Vec<CallId> = self.model.sleeping.keys().copied().collect();
        for call in sleepers {
            self.model.sleeping.remove(&call);
            let mut cx = self.context();
            self.real.cancel(call, &mut cx);
        }
        let held: Vec<EventId> = self.model.in_hand.values().copied().collect();
        for id in held {
            self.model.taken.insert(id);
            let mut cx = self.context();
            self.real.ack(id, &mut cx);
        }
        self.model.in_hand.clear();
        for inbox in 0..2 {
            let left: Vec<EventId> = self
                .model
                .events
                .iter()
                .filter(|(id, (of, _))| *of == inbox && !self.model.taken.contains(id))
                .map(|(id, _)| *id)
                .collect();
            for wanted in left {
                let args = WaitForEvent {
                    types: vec![EventType::Any],
                    timeout_secs: 0.0,
                    from: None,
                    after_event_id: None,
                };
                let mut cx = self.context();
                self.wait(inbox, args, &mut cx);
                self.perform(cx);
                assert!(
                    self.model.in_hand.values().any(|held| *held == wanted),
                    "{wanted} is lost"
                );
            }
        }
    }
}

fn told(answer: &Result<Response, Error>) -> &WaitForEventReply {
    match answer {
        Ok(Response::Tool {
            reply: ToolReply::WaitForEvent(told),
        }) => told,
        other => panic!("not a wait's answer: {other:?}"),
    }
}

fn pick<T: Clone>(list: &[T], which: u8) -> Option<T> {
    let at = usize::from(which).checked_rem(list.len())?;
    list.get(at).cloned()
}

/// Two thousand rounds of up to sixty moves, or as many as `PROPTEST_CASES` says if that is more.
fn rounds() -> ProptestConfig {
    let given = ProptestConfig::default();
    ProptestConfig {
        cases: given.cases.max(2_000),
        failure_persistence: None,
        ..given
    }
}

proptest! {
    #![proptest_config(rounds())]

    #[test]
    fn no_event_is_lost_or_had_twice_and_nobody_sleeps_beside_one(
        moves in prop::collection::vec(moves(), 1..60)
    ) {
        let mut pair = Pair::new();
        for one in moves {
            pair.play(one);
        }
        pair.drain();
    }
}

#[test]
fn what_was_taken_long_ago_is_forgotten_and_what_is_queued_never() {
    let mut inboxes = Inboxes::default();
    let mut cx = StepBuilder::new(start());
    let posted: Vec<EventId> = (0..MAX_ACKED + 1_500)
        .map(|_| inboxes.publish(NewEvent::new(inbox_id(0), event(true, 0)), &mut cx))
        .collect();
    for id in &posted[..MAX_ACKED + 2] {
        inboxes.ack(*id, &mut cx);
    }
    let dropped: Vec<EventId> = cx
        .changes()
        .iter()
        .filter_map(|change| match change {
            Change::Remove(RecordId::Event(id)) => Some(*id),
            _ => None,
        })
        .collect();
    assert_eq!(dropped, posted[..2]);
    let left = inboxes.events_after(&inbox_id(0), EventId(0)).count();
    assert_eq!(left, posted.len() - 2);
}

#[test]
fn a_full_inbox_keeps_the_newest_event_of_each_source_and_counts_the_others() {
    let limits = InboxLimits {
        max_events: 3,
        max_bytes: 1 << 20,
    };
    let mut inboxes = Inboxes::restored(Vec::new(), 1, limits);
    let mut cx = StepBuilder::new(start());
    let mut post =
        |inboxes: &mut Inboxes, event| inboxes.publish(NewEvent::new(inbox_id(0), event), &mut cx);
    post(&mut inboxes, event(true, 0));
    for _ in 0..2_000 {
        post(&mut inboxes, event(false, 1));
    }
    // The first report of another worker replaces nothing, and is let in.
    post(&mut inboxes, event(false, 2));
    post(&mut inboxes, event(false, 2));
    let kept: Vec<(Option<String>, u64)> = inboxes
        .events_after(&inbox_id(0), EventId(0))
        .map(|record| {
            let sender = record.event.sender().map(str::to_owned);
            (sender, record.dropped_events)
        })
        .collect();
    let of = |worker: &str, dropped| (Some(worker.to_owned()), dropped);
    assert_eq!(
        kept,
        [of("w0", 0), of("w1", 999), of("w1", 999), of("w2", 1)]
    );
    assert!(inboxes.check_room(&inbox_id(0)).is_err());
}

#[test]
fn bytes_count_as_well_as_events_and_room_comes_back_when_events_are_taken() {
    let limits = InboxLimits {
        max_events: 1_000,
        max_bytes: 10_000,
    };
    let mut inboxes = Inboxes::restored(Vec::new(), 1, limits);
    let mut cx = StepBuilder::new(start());
    let long = || InboxEvent::Message {
        from: "w".into(),
        body: "x".repeat(6_000),
    };
    let mut posted = Vec::new();
    for _ in 0..2 {
        assert_eq!(inboxes.check_room(&inbox_id(0)), Ok(()));
        posted.push(inboxes.publish(NewEvent::new(inbox_id(0), long()), &mut cx));
    }
    let refused = inboxes.check_room(&inbox_id(0)).unwrap_err();
    assert!(
        refused.message.contains("2 events of 12"),
        "{}",
        refused.message
    );
    for id in posted {
        inboxes.ack(id, &mut cx);
        assert_eq!(inboxes.check_room(&inbox_id(0)), Ok(()));
    }
    // Taken events are kept for those who look behind them, within the same number of bytes.
    assert_eq!(inboxes.events_after(&inbox_id(0), EventId(0)).count(), 1);
}
