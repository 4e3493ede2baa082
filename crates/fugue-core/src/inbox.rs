//! Queues of events, and everybody who waits on one.
//!
//! An event that is handed to a caller is in its hand: no other caller gets it, and it is taken only when the caller
//! says that it arrived. A caller that goes away before that puts it back where it was.
//!
//! An inbox has a limit of events and of bytes. At a limit a sender is refused. What no sender can be refused for (a
//! worker's turn ended, a watcher decided) replaces the oldest queued event of the same kind and source, which it makes
//! out of date, and says how many it replaced; where there is none to replace it is let in. So an inbox exceeds its limit
//! by at most one event of a kind per worker and watcher.

pub(crate) mod record;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Bound,
    time::Duration,
};

use fugue_api::{
    Error, ErrorKind, EventId, Timestamp, ToolReply,
    team::{EventType, InboxEvent, WaitForEvent, WaitForEventReply, WaitOutcome, WaitTimeout},
    wire::{IdempotencyKey, Response},
};

use crate::{
    AfterCommit, CallId, Change, ClockReading, EventRecord, InboxId, context::Context,
    settings::Settings, timer::Timer,
};

/// All inboxes.
#[derive(Default, Debug)]
pub(crate) struct Inboxes {
    limits: InboxLimits,
    next: u64,
    events: BTreeMap<EventId, StoredEvent>,
    boxes: HashMap<InboxId, Inbox>,
    /// Events that a call caused.
    made_by: HashMap<IdempotencyKey, EventId>,
    in_hand: HashMap<CallId, EventId>,
}

/// How much each inbox holds before senders are refused.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InboxLimits {
    pub max_events: usize,
    pub max_bytes: u64,
}

impl Default for InboxLimits {
    fn default() -> Self {
        Self::of(&Settings::default())
    }
}

impl InboxLimits {
    pub fn of(settings: &Settings) -> Self {
        Self {
            max_events: settings.inbox_max_events,
            max_bytes: settings.inbox_max_bytes,
        }
    }
}

#[derive(Debug)]
struct StoredEvent {
    record: EventRecord,
    /// Size of the event as JSON, counted against the inbox's limit.
    bytes: u64,
    hand: Option<Lease>,
}

/// Who has an event that is not taken yet.
#[derive(Clone, Copy, Debug)]
enum Lease {
    Caller(CallId),
    /// It is on its way into the receiver's pane.
    Typing,
}

#[derive(Default, Debug)]
struct Inbox {
    /// Nobody has taken them.
    queued: BTreeSet<EventId>,
    /// Those of them that are in nobody's hand, by type: a reply counts them all, and there may be many.
    free: BTreeMap<EventType, BTreeSet<EventId>>,
    queued_bytes: u64,
    /// Kept for those who may have lost a reply.
    taken: BTreeSet<EventId>,
    taken_bytes: u64,
    waiters: Vec<EventWaiter>,
}

#[derive(Debug)]
struct EventWaiter {
    call: CallId,
    args: WaitForEvent,
    since: Duration,
    until: Duration,
}

impl Inbox {
    fn set_free(&mut self, record: &EventRecord) {
        let ids = self.free.entry(record.event.kind()).or_default();
        ids.insert(record.id);
    }
}

/// An event to be.
pub(crate) struct NewEvent {
    pub inbox: InboxId,
    pub event: InboxEvent,
    pub made_by: Option<IdempotencyKey>,
    pub to_type: bool,
    /// Older events that were dropped before this one became an event.
    pub dropped_events: u64,
}

impl NewEvent {
    pub fn new(inbox: InboxId, event: InboxEvent) -> Self {
        Self {
            inbox,
            event,
            made_by: None,
            to_type: false,
            dropped_events: 0,
        }
    }
}

// Taken events that are kept for those who ask by `after_event_id`; their bytes are bounded like those of queued ones.
const MAX_TAKEN: usize = 1_000;

impl Inboxes {
    pub fn restored(events: Vec<EventRecord>, next: u64, limits: InboxLimits) -> Self {
        let mut inboxes = Self {
            limits,
            next: next.max(1),
            ..Self::default()
        };
        for record in events {
            inboxes.keep(record);
        }
        inboxes
    }

    fn keep(&mut self, record: EventRecord) {
        let inbox = self.boxes.entry(record.inbox.clone()).or_default();
        let bytes = serde_json::to_string(&record.event).map_or(0, |json| json.len() as u64);
        if record.taken {
            inbox.taken.insert(record.id);
            inbox.taken_bytes += bytes;
        } else {
            inbox.queued.insert(record.id);
            inbox.queued_bytes += bytes;
            inbox.set_free(&record);
        }
        if let Some(key) = record.made_by {
            self.made_by.insert(key, record.id);
        }
        let kept = StoredEvent {
            record,
            bytes,
            hand: None,
        };
        self.events.insert(kept.record.id, kept);
    }

    /// Removes an event and all that is known of it.
    fn remove(&mut self, id: EventId) -> Option<EventRecord> {
        self.not_free(id);
        let kept = self.events.remove(&id)?;
        if let Some(inbox) = self.boxes.get_mut(&kept.record.inbox) {
            if inbox.queued.remove(&id) {
                inbox.queued_bytes -= kept.bytes;
            }
            if inbox.taken.remove(&id) {
                inbox.taken_bytes -= kept.bytes;
            }
        }
        if let Some(key) = kept.record.made_by {
            self.made_by.remove(&key);
        }
        Some(kept.record)
    }

    /// The oldest queued event that `event` makes out of date: same kind and same source, leased to nobody.
    pub fn replaced_by(&self, inbox: &InboxId, event: &InboxEvent) -> Option<EventId> {
        let source = event.source()?;
        let queued = self.boxes.get(inbox)?.free.get(&event.kind())?;
        let is_same = |id: &&EventId| {
            let older = self.events.get(id).map(|kept| kept.record.event.source());
            older.flatten().as_ref() == Some(&source)
        };
        queued.iter().find(is_same).copied()
    }

    /// Records an event, and hands it to whoever waits for it.
    pub fn post(&mut self, post: NewEvent, cx: &mut Context) -> EventId {
        let now = cx.now();
        let id = self.enter(post, now.wall, cx);
        self.offer(id, cx);
        id
    }

    /// Records an event that is in a caller's hand already.
    pub fn post_into_hand(&mut self, post: NewEvent, call: CallId, cx: &mut Context) -> EventId {
        let now = cx.now();
        let id = self.enter(post, now.wall, cx);
        self.hand(id, call);
        id
    }

    fn enter(&mut self, post: NewEvent, at: Timestamp, cx: &mut Context) -> EventId {
        let id = EventId(self.next.max(1));
        self.next = id.0 + 1;
        // A full inbox keeps the newest event of each source, and that one says how many it stands for.
        let replaced = self
            .is_full(&post.inbox)
            .then(|| self.replaced_by(&post.inbox, &post.event))
            .flatten()
            .and_then(|older| self.remove(older));
        let record = EventRecord {
            dropped_events: post.dropped_events
                + replaced
                    .as_ref()
                    .map_or(0, |older| older.dropped_events + 1),
            id,
            inbox: post.inbox,
            at,
            event: post.event,
            made_by: post.made_by,
            to_type: post.to_type,
            taken: false,
        };
        let mut changes = vec![
            Change::NextEvent(self.next),
            Change::PutEvent(Box::new(record.clone())),
        ];
        changes.extend(replaced.map(|older| Change::DropEvent(older.id)));
        cx.commit(changes);
        self.keep(record);
        id
    }

    /// Takes the first fitting event, or waits for one.
    pub fn wait(&mut self, call: CallId, inbox: InboxId, args: WaitForEvent, cx: &mut Context) {
        let now = cx.now();
        let until = now.since_boot + Duration::from_secs_f64(args.timeout_secs);
        let waiter = EventWaiter {
            call,
            args,
            since: now.since_boot,
            until,
        };
        // What is queued may not be on disk yet; an empty commit waits for that.
        if let Some(id) = self.first_for(&inbox, &waiter.args) {
            self.tell(&waiter, id, cx);
        } else if until <= now.since_boot {
            cx.when_stored().then(self.nothing(&waiter, &inbox, now));
        } else {
            cx.set_timer(Timer::EventWait(call), until);
            self.boxes.entry(inbox).or_default().waiters.push(waiter);
        }
    }

    fn first_for(&self, inbox: &InboxId, args: &WaitForEvent) -> Option<EventId> {
        let inbox = self.boxes.get(inbox)?;
        let fits = |id: &EventId| {
            let kept = self.events.get(id)?;
            fits(&kept.record.event, args).then_some(*id)
        };
        match args.after_event_id {
            None => inbox
                .free
                .iter()
                .filter(|(kind, _)| args.wants(**kind))
                .filter_map(|(_, ids)| ids.iter().find_map(fits))
                .min(),
            Some(after) => {
                let queued = inbox.queued.range(behind(after)).find_map(fits);
                let taken = inbox.taken.range(behind(after)).find_map(fits);
                [queued, taken].into_iter().flatten().min()
            }
        }
    }

    /// Everybody who only looks is told; the first of those who take gets it.
    fn offer(&mut self, id: EventId, cx: &mut Context) {
        let Some(kept) = self.events.get(&id) else {
            return;
        };
        let (inbox_id, event) = (kept.record.inbox.clone(), kept.record.event.clone());
        let mut free = kept.hand.is_none();
        let Some(inbox) = self.boxes.get_mut(&inbox_id) else {
            return;
        };
        let mut told = Vec::new();
        inbox.waiters.retain_mut(|waiter| {
            if !fits(&event, &waiter.args) {
                return true;
            }
            let looks = waiter.args.after_event_id;
            let gets = match looks {
                Some(after) => id > after,
                None => std::mem::take(&mut free),
            };
            if gets {
                told.push(EventWaiter {
                    call: waiter.call,
                    args: waiter.args.clone(),
                    since: waiter.since,
                    until: waiter.until,
                });
            }
            !gets
        });
        for waiter in told {
            self.tell(&waiter, id, cx);
        }
    }

    /// Puts a queued event into a caller's hand. `false`: somebody else has it, or has taken it.
    pub fn hand_over(&mut self, id: EventId, call: CallId) -> bool {
        let is_free = |kept: &StoredEvent| kept.hand.is_none() && !kept.record.taken;
        if !self.events.get(&id).is_some_and(is_free) {
            return false;
        }
        self.hand(id, call);
        true
    }

    fn hand(&mut self, id: EventId, call: CallId) {
        if let Some(kept) = self.events.get_mut(&id) {
            kept.hand = Some(Lease::Caller(call));
            self.in_hand.insert(call, id);
            self.not_free(id);
        }
    }

    /// It is being typed, and nobody else gets it meanwhile.
    pub fn typing(&mut self, id: EventId) {
        if let Some(kept) = self.events.get_mut(&id) {
            kept.hand = Some(Lease::Typing);
            self.not_free(id);
        }
    }

    fn not_free(&mut self, id: EventId) {
        if let Some(kept) = self.events.get(&id)
            && let Some(inbox) = self.boxes.get_mut(&kept.record.inbox)
            && let Some(ids) = inbox.free.get_mut(&kept.record.event.kind())
        {
            ids.remove(&id);
        }
    }

    fn tell(&mut self, waiter: &EventWaiter, id: EventId, cx: &mut Context) {
        let looks = waiter.args.after_event_id.is_some();
        if !looks {
            self.hand(id, waiter.call);
        }
        let Some(kept) = self.events.get(&id) else {
            return;
        };
        let told = WaitForEventReply {
            event_id: Some(id),
            at: kept.record.at,
            what: WaitOutcome::Event(kept.record.event.clone()),
            dropped_events: kept.record.dropped_events,
            pending: self.pending(&kept.record.inbox, Some(id)),
        };
        let answer = Ok(Response::Tool {
            reply: ToolReply::WaitForEvent(told),
        });
        cx.when_stored().then(if looks {
            AfterCommit::Answer {
                call: waiter.call,
                answer,
            }
        } else {
            AfterCommit::Hand {
                call: waiter.call,
                answer,
                event: id,
            }
        });
    }

    fn nothing(&self, waiter: &EventWaiter, inbox: &InboxId, now: ClockReading) -> AfterCommit {
        let waited = now.since_boot.saturating_sub(waiter.since);
        let told = WaitForEventReply {
            event_id: None,
            at: now.wall,
            what: WaitOutcome::Nothing(WaitTimeout::Timeout {
                waited_secs: (waited.as_secs_f64() * 1000.0).round() / 1000.0,
                reason: None,
            }),
            dropped_events: 0,
            pending: self.pending(inbox, None),
        };
        AfterCommit::Answer {
            call: waiter.call,
            answer: Ok(Response::Tool {
                reply: ToolReply::WaitForEvent(told),
            }),
        }
    }

    /// What else is queued, by type.
    fn pending(&self, inbox: &InboxId, but: Option<EventId>) -> BTreeMap<EventType, u64> {
        let free = self.boxes.get(inbox).map(|inbox| &inbox.free);
        free.into_iter()
            .flatten()
            .map(|(kind, ids)| {
                let told = but.is_some_and(|but| ids.contains(&but));
                (*kind, (ids.len() - usize::from(told)) as u64)
            })
            .filter(|(_, count)| *count > 0)
            .collect()
    }

    /// It has arrived.
    pub fn took(&mut self, id: EventId, cx: &mut Context) {
        let Some(kept) = self.events.get_mut(&id) else {
            return;
        };
        if let Some(Lease::Caller(call)) = kept.hand.take() {
            self.in_hand.remove(&call);
        }
        if kept.record.taken {
            return;
        }
        kept.record.taken = true;
        self.not_free(id);
        let Some(kept) = self.events.get(&id) else {
            return;
        };
        let mut changes = vec![Change::TakeEvent(id)];
        let (owner, bytes) = (kept.record.inbox.clone(), kept.bytes);
        if let Some(inbox) = self.boxes.get_mut(&owner) {
            inbox.queued.remove(&id);
            inbox.queued_bytes -= bytes;
            inbox.taken.insert(id);
            inbox.taken_bytes += bytes;
        }
        while let Some(oldest) = self.taken_too_long_ago(&owner) {
            self.remove(oldest);
            changes.push(Change::DropEvent(oldest));
        }
        cx.commit(changes);
    }

    fn taken_too_long_ago(&self, inbox: &InboxId) -> Option<EventId> {
        let inbox = self.boxes.get(inbox)?;
        let too_many = inbox.taken.len() > MAX_TAKEN || inbox.taken_bytes > self.limits.max_bytes;
        inbox.taken.first().copied().filter(|_| too_many)
    }

    /// Nobody waits for this call any more: what it had in its hand is for the next.
    pub fn cancelled(&mut self, call: CallId, cx: &mut Context) {
        if let Some(id) = self.in_hand.remove(&call) {
            self.put_back(id, cx);
            return;
        }
        for inbox in self.boxes.values_mut() {
            inbox.waiters.retain(|waiter| waiter.call != call);
        }
    }

    pub fn put_back(&mut self, id: EventId, cx: &mut Context) {
        let Some(kept) = self.events.get_mut(&id).filter(|kept| !kept.record.taken) else {
            return;
        };
        kept.hand = None;
        if let Some(inbox) = self.boxes.get_mut(&kept.record.inbox) {
            inbox.set_free(&kept.record);
        }
        self.offer(id, cx);
    }

    /// Answers a `wait_for_event` call that has waited long enough.
    pub fn wait_expired(&mut self, call: CallId, cx: &mut Context) {
        let waiting = self.boxes.iter_mut().find_map(|(id, inbox)| {
            let mut waiters = inbox.waiters.extract_if(.., |waiter| waiter.call == call);
            waiters.next().map(|waiter| (id.clone(), waiter))
        });
        if let Some((inbox, waiter)) = waiting {
            let timeout = self.nothing(&waiter, &inbox, cx.now());
            cx.when_stored().then(timeout);
        }
    }

    pub fn made_by(&self, key: IdempotencyKey) -> Option<EventId> {
        self.made_by.get(&key).copied()
    }

    pub fn get(&self, id: EventId) -> Option<&EventRecord> {
        self.events.get(&id).map(|kept| &kept.record)
    }

    pub fn knows(&self, inbox: &InboxId) -> bool {
        self.boxes.contains_key(inbox)
    }

    fn is_full(&self, inbox: &InboxId) -> bool {
        self.boxes.get(inbox).is_some_and(|inbox| {
            inbox.queued.len() >= self.limits.max_events
                || inbox.queued_bytes >= self.limits.max_bytes
        })
    }

    /// Refuses one more event for an inbox that is at one of its limits.
    pub fn check_room(&self, id: &InboxId) -> Result<(), Error> {
        if !self.is_full(id) {
            return Ok(());
        }
        let (events, bytes) = self
            .boxes
            .get(id)
            .map_or((0, 0), |inbox| (inbox.queued.len(), inbox.queued_bytes));
        let InboxLimits {
            max_events,
            max_bytes,
        } = self.limits;
        let error = format!(
            "inbox `{id}` is full: {events} events of {bytes} bytes wait in it, and the limits are {max_events} events \
             (`inbox_max_events`) and {max_bytes} bytes (`inbox_max_bytes`)"
        );
        Err(Error::new(ErrorKind::Exhausted, error)
            .hint("nothing was sent; its owner takes events with `wait_for_event`"))
    }

    /// Whether somebody waits who would get such an event at once.
    pub fn waits_for(&self, inbox: &InboxId, event: &InboxEvent) -> bool {
        let waiters = self.boxes.get(inbox).map(|inbox| &inbox.waiters);
        waiters
            .into_iter()
            .flatten()
            .any(|waiter| fits(event, &waiter.args))
    }

    /// The first queued event that is to be typed and in nobody's hand.
    pub fn to_type(&self, inbox: &InboxId) -> Option<&EventRecord> {
        let inbox = self.boxes.get(inbox)?;
        inbox
            .queued
            .iter()
            .filter_map(|id| self.events.get(id))
            .find(|kept| kept.record.to_type && kept.hand.is_none())
            .map(|kept| &kept.record)
    }

    /// It stays in the inbox and is not typed any more.
    pub fn not_to_type(&mut self, id: EventId, cx: &mut Context) {
        if let Some(kept) = self.events.get_mut(&id) {
            kept.record.to_type = false;
            cx.commit([Change::PutEvent(Box::new(kept.record.clone()))]);
        }
    }

    /// Those behind `after`, taken or not, in order.
    pub fn behind<'a>(
        &'a self,
        inbox: &InboxId,
        after: EventId,
    ) -> impl Iterator<Item = &'a EventRecord> + use<'a> {
        let inbox = self.boxes.get(inbox);
        let mut ids: Vec<EventId> = inbox
            .into_iter()
            .flat_map(|inbox| {
                inbox
                    .queued
                    .range(behind(after))
                    .chain(inbox.taken.range(behind(after)))
            })
            .copied()
            .collect();
        ids.sort_unstable();
        ids.into_iter().filter_map(|id| self.get(id))
    }
}

/// All ids behind one, which may be the last there is.
fn behind(after: EventId) -> (Bound<EventId>, Bound<EventId>) {
    (Bound::Excluded(after), Bound::Unbounded)
}

fn fits(event: &InboxEvent, args: &WaitForEvent) -> bool {
    let from = args.from.as_deref();
    args.wants(event.kind()) && (from.is_none() || from == event.sender())
}
