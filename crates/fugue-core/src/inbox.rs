//! Inboxes: durable event queues with leases.
//!
//! An inbox holds the events of one session or worker in FIFO order. `wait_for_event` leases the first matching event to
//! its call, so that no other call receives it. A message that is being typed into the recipient's pane is leased to the
//! typing. A lease ends with an ack or a release. The ack follows when the client has acknowledged the reply, or the pane
//! has reported the message as typed. A cancelled call (a disconnect counts as a cancellation) and a message that cannot be
//! typed now release the event to its old position.
//!
//! An inbox has a limit of events and of bytes. At a limit new messages and questions are refused. Events without a sender
//! to refuse (a worker's turn ended, a watcher decided, a run ended) replace the oldest event of the same kind and source that is
//! neither acked nor leased, and count how many events were replaced; without an event to replace, the new one is accepted.
//! All runs are one source, because `get_status` lists them. An inbox therefore exceeds its limit by at most one event of a
//! kind per source, beside those that are leased.

mod answered_questions;
mod limits;
pub(crate) mod record;
mod replies;
#[cfg(test)]
mod tests;
mod typing;
mod withdrawal;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Bound,
    time::Duration,
};

use fugue_api::{
    EventId, Timestamp,
    inbox_event::{EventType, InboxEvent},
    tools::WaitForEvent,
    wire::IdempotencyKey,
};

use crate::{
    CallId, Change, Counter, EventRecord, InboxId, RecordId, context::StepBuilder,
    snapshot::next_id, timer::Timer,
};
pub(crate) use limits::InboxLimits;

/// All inboxes, and the calls that wait for events.
#[derive(Default, Debug)]
pub(crate) struct Inboxes {
    limits: InboxLimits,
    next_event_id: u64,
    events: BTreeMap<EventId, StoredEvent>,
    inboxes: HashMap<InboxId, Inbox>,
    /// The event that each idempotency key has created. A repeated call returns this event instead of creating another.
    event_by_key: HashMap<IdempotencyKey, EventId>,
    leased_by_call: HashMap<CallId, EventId>,
}

/// A stored event and its current lease.
#[derive(Debug)]
struct StoredEvent {
    record: EventRecord,
    /// Size of the event as JSON, counted against the inbox's limit.
    bytes: u64,
    lease: Option<Lease>,
    /// The cause of the event is gone: a released event is removed.
    is_withdrawn: bool,
}

/// The call or the typing that an unacked event is reserved for.
#[derive(Clone, Copy, Debug)]
enum Lease {
    /// A call whose reply has not been acknowledged.
    Call(CallId),
    /// The same for a call that returns the result of the run whose end the event reports. The ack withdraws the event.
    Result(CallId),
    /// Typing the event into the recipient's pane.
    Typing,
}

#[derive(Default, Debug)]
struct Inbox {
    /// Events that have not been acked, including leased ones.
    unacked: BTreeSet<EventId>,
    /// Unacked events without a lease, grouped by type because every reply reports these counts.
    available: BTreeMap<EventType, BTreeSet<EventId>>,
    unacked_bytes: u64,
    /// Recently acked events, for clients that read again with `after_event_id`.
    acked: BTreeSet<EventId>,
    acked_bytes: u64,
    waiters: Vec<EventWaiter>,
}

/// A `wait_for_event` call that no event has matched yet.
#[derive(Debug)]
struct EventWaiter {
    call: CallId,
    args: WaitForEvent,
    since: Duration,
}

impl Inbox {
    fn make_available(&mut self, record: &EventRecord) {
        let ids = self.available.entry(record.event.kind()).or_default();
        ids.insert(record.id);
    }
}

/// An event that is not stored yet.
pub(crate) struct NewEvent {
    pub inbox: InboxId,
    pub event: InboxEvent,
    pub made_by: Option<IdempotencyKey>,
    pub to_type: bool,
    /// How many earlier reports of this source were dropped before this event was published.
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

// Acked events per inbox that `after_event_id` can still read. Their bytes have the same limit as those of unacked events.
const MAX_ACKED: usize = 1_000;

impl Inboxes {
    pub fn restored(events: Vec<EventRecord>, next: u64, limits: InboxLimits) -> Self {
        let mut inboxes = Self {
            limits,
            next_event_id: next_id(next, events.iter().map(|record| record.id.0)),
            ..Self::default()
        };
        for record in events {
            inboxes.insert(record);
        }
        inboxes
    }

    /// Replaces the limits. Events beyond lower limits stay.
    pub fn set_limits(&mut self, limits: InboxLimits) {
        self.limits = limits;
    }

    fn insert(&mut self, record: EventRecord) {
        let inbox = self.inboxes.entry(record.inbox.clone()).or_default();
        let bytes = serde_json::to_string(&record.event).map_or(0, |json| json.len() as u64);
        if record.taken {
            inbox.acked.insert(record.id);
            inbox.acked_bytes += bytes;
        } else {
            inbox.unacked.insert(record.id);
            inbox.unacked_bytes += bytes;
            inbox.make_available(&record);
        }
        if let Some(key) = record.made_by {
            self.event_by_key.insert(key, record.id);
        }
        let stored = StoredEvent {
            record,
            bytes,
            lease: None,
            is_withdrawn: false,
        };
        self.events.insert(stored.record.id, stored);
    }

    /// Removes an event from all indexes.
    fn remove(&mut self, id: EventId) -> Option<EventRecord> {
        self.make_unavailable(id);
        let stored = self.events.remove(&id)?;
        if let Some(inbox) = self.inboxes.get_mut(&stored.record.inbox) {
            if inbox.unacked.remove(&id) {
                inbox.unacked_bytes -= stored.bytes;
            }
            if inbox.acked.remove(&id) {
                inbox.acked_bytes -= stored.bytes;
            }
        }
        if let Some(key) = stored.record.made_by {
            self.event_by_key.remove(&key);
        }
        Some(stored.record)
    }

    /// The oldest unacked event without a lease that has the kind and source of `event`, which `event` makes out of date.
    pub fn replaced_by(&self, inbox: &InboxId, event: &InboxEvent) -> Option<EventId> {
        let source = event.source()?;
        let available = self.inboxes.get(inbox)?.available.get(&event.kind())?;
        let is_same = |id: &&EventId| {
            let older = self
                .events
                .get(id)
                .map(|stored| stored.record.event.source());
            older.flatten().as_ref() == Some(&source)
        };
        available.iter().find(is_same).copied()
    }

    /// Stores a new event and delivers the event to the first waiter with a matching filter.
    pub fn publish(&mut self, new: NewEvent, out: &mut StepBuilder) -> EventId {
        let now = out.now();
        let id = self.store(new, now.wall, out);
        self.offer(id, out);
        id
    }

    /// Stores a new event that is leased to a call from the start.
    pub fn publish_leased(
        &mut self,
        new: NewEvent,
        call: CallId,
        out: &mut StepBuilder,
    ) -> EventId {
        let now = out.now();
        let id = self.store(new, now.wall, out);
        self.lease_to(id, call, Lease::Call(call));
        id
    }

    /// Stores the end of a run as an event that is leased to the call that returns the run's result.
    pub fn publish_with_result(
        &mut self,
        new: NewEvent,
        call: CallId,
        out: &mut StepBuilder,
    ) -> EventId {
        let now = out.now();
        let id = self.store(new, now.wall, out);
        self.lease_to(id, call, Lease::Result(call));
        id
    }

    fn store(&mut self, new: NewEvent, at: Timestamp, out: &mut StepBuilder) -> EventId {
        let id = EventId(self.next_event_id.max(1));
        self.next_event_id = id.0 + 1;
        // A full inbox keeps the newest event of each source, with the number of events that it replaced.
        let replaced = self
            .is_full(&new.inbox)
            .then(|| self.replaced_by(&new.inbox, &new.event))
            .flatten()
            .and_then(|older| self.remove(older));
        let record = EventRecord {
            dropped_events: new.dropped_events
                + replaced
                    .as_ref()
                    .map_or(0, |older| older.dropped_events + 1),
            id,
            inbox: new.inbox,
            at,
            event: new.event,
            made_by: new.made_by,
            to_type: new.to_type,
            taken: false,
        };
        let mut changes = vec![
            Change::SetCounter(Counter::NextEvent, self.next_event_id),
            Change::put(record.clone()),
        ];
        changes.extend(replaced.map(|older| Change::Remove(RecordId::Event(older.id))));
        out.commit(changes);
        self.insert(record);
        id
    }

    /// Answers a `wait_for_event` call with the first matching event, or registers the call as a waiter.
    pub fn wait(
        &mut self,
        call: CallId,
        inbox: InboxId,
        args: WaitForEvent,
        out: &mut StepBuilder,
    ) {
        let now = out.now();
        let until = now.since_boot + Duration::from_secs_f64(args.timeout_secs);
        let waiter = EventWaiter {
            call,
            args,
            since: now.since_boot,
        };
        if let Some(id) = self.first_match(&inbox, &waiter.args) {
            self.reply_with(&waiter, id, out);
        } else if until <= now.since_boot {
            out.when_stored()
                .then(self.timeout_reply(&waiter, &inbox, now));
        } else {
            out.set_timer(Timer::EventWait(call), until);
            self.inboxes.entry(inbox).or_default().waiters.push(waiter);
        }
    }

    fn first_match(&self, inbox: &InboxId, args: &WaitForEvent) -> Option<EventId> {
        let inbox = self.inboxes.get(inbox)?;
        let fits = |id: &EventId| {
            let stored = self.events.get(id)?;
            fits(&stored.record.event, args).then_some(*id)
        };
        match args.after_event_id {
            None => inbox
                .available
                .iter()
                .filter(|(kind, _)| args.matches(**kind))
                .filter_map(|(_, ids)| ids.iter().find_map(fits))
                .min(),
            Some(after) => {
                // The end of a run that a call is returning is news only if that reply does not arrive.
                let is_news = |id: &&EventId| {
                    let lease = self.events.get(id).and_then(|stored| stored.lease);
                    !matches!(lease, Some(Lease::Result(_)))
                };
                let mut unacked = inbox.unacked.range(ids_after(after)).filter(is_news);
                let unacked = unacked.find_map(fits);
                let acked = inbox.acked.range(ids_after(after)).find_map(fits);
                [unacked, acked].into_iter().flatten().min()
            }
        }
    }

    /// Delivers an event to its waiters: to all that only read (`after_event_id`), and to the first of the others.
    fn offer(&mut self, id: EventId, out: &mut StepBuilder) {
        let Some(stored) = self.events.get(&id) else {
            return;
        };
        let (inbox_id, event) = (stored.record.inbox.clone(), stored.record.event.clone());
        let mut is_available = stored.lease.is_none();
        let Some(inbox) = self.inboxes.get_mut(&inbox_id) else {
            return;
        };
        let gets = |waiter: &mut EventWaiter| {
            fits(&event, &waiter.args)
                && match waiter.args.after_event_id {
                    Some(after) => id > after,
                    None => std::mem::take(&mut is_available),
                }
        };
        let waiters: Vec<EventWaiter> = inbox.waiters.extract_if(.., gets).collect();
        for waiter in waiters {
            self.reply_with(&waiter, id, out);
        }
    }

    /// Leases an event to a call. Returns `false` if the event is leased already, or acked.
    pub fn try_lease(&mut self, id: EventId, call: CallId) -> bool {
        let is_available = self.is_available(id);
        if is_available {
            self.lease_to(id, call, Lease::Call(call));
        }
        is_available
    }

    /// Leases the event about the end of a run to a call that returns the run's result. Returns `false` if the event is
    /// leased already, or acked.
    pub fn try_lease_with_result(&mut self, id: EventId, call: CallId) -> bool {
        let is_available = self.is_available(id);
        if is_available {
            self.lease_to(id, call, Lease::Result(call));
        }
        is_available
    }

    fn is_available(&self, id: EventId) -> bool {
        let is_available = |stored: &StoredEvent| stored.lease.is_none() && !stored.record.taken;
        self.events.get(&id).is_some_and(is_available)
    }

    fn lease_to(&mut self, id: EventId, call: CallId, lease: Lease) {
        if let Some(stored) = self.events.get_mut(&id) {
            stored.lease = Some(lease);
            self.leased_by_call.insert(call, id);
            self.make_unavailable(id);
        }
    }

    fn make_unavailable(&mut self, id: EventId) {
        if let Some(stored) = self.events.get(&id)
            && let Some(inbox) = self.inboxes.get_mut(&stored.record.inbox)
            && let Some(ids) = inbox.available.get_mut(&stored.record.event.kind())
        {
            ids.remove(&id);
        }
    }

    /// Marks an event as delivered. It is not offered again.
    pub fn ack(&mut self, id: EventId, out: &mut StepBuilder) {
        let Some(stored) = self.events.get_mut(&id) else {
            return;
        };
        let lease = stored.lease.take();
        if let Some(Lease::Call(call) | Lease::Result(call)) = lease {
            self.leased_by_call.remove(&call);
        }
        if stored.record.taken {
            return;
        }
        if matches!(lease, Some(Lease::Result(_))) {
            self.remove(id);
            out.commit([Change::Remove(RecordId::Event(id))]);
            return;
        }
        stored.record.taken = true;
        // The recipient may have received the event, which was to be typed, by `wait_for_event`.
        stored.record.to_type &= matches!(lease, Some(Lease::Typing));
        self.make_unavailable(id);
        let Some(stored) = self.events.get(&id) else {
            return;
        };
        let mut changes = vec![Change::put(stored.record.clone())];
        let (owner, bytes) = (stored.record.inbox.clone(), stored.bytes);
        if let Some(inbox) = self.inboxes.get_mut(&owner) {
            inbox.unacked.remove(&id);
            inbox.unacked_bytes -= bytes;
            inbox.acked.insert(id);
            inbox.acked_bytes += bytes;
        }
        while let Some(oldest) = self.oldest_surplus(&owner) {
            self.remove(oldest);
            changes.push(Change::Remove(RecordId::Event(oldest)));
        }
        out.commit(changes);
    }

    fn oldest_surplus(&self, inbox: &InboxId) -> Option<EventId> {
        let inbox = self.inboxes.get(inbox)?;
        let too_many = inbox.acked.len() > MAX_ACKED || inbox.acked_bytes > self.limits.max_bytes;
        inbox.acked.first().copied().filter(|_| too_many)
    }

    /// Releases the lease of a call that was cancelled or whose client disconnected, or removes the call from the waiters.
    pub fn cancel(&mut self, call: CallId, out: &mut StepBuilder) {
        if let Some(id) = self.leased_by_call.remove(&call) {
            self.release(id, out);
            return;
        }
        out.stop_timer(&Timer::EventWait(call));
        for inbox in self.inboxes.values_mut() {
            inbox.waiters.retain(|waiter| waiter.call != call);
        }
    }

    /// Makes a leased event available again and offers it to the next waiter.
    pub fn release(&mut self, id: EventId, out: &mut StepBuilder) {
        let Some(stored) = self
            .events
            .get_mut(&id)
            .filter(|stored| !stored.record.taken)
        else {
            return;
        };
        stored.lease = None;
        if stored.is_withdrawn {
            self.remove(id);
            out.commit([Change::Remove(RecordId::Event(id))]);
            return;
        }
        if let Some(inbox) = self.inboxes.get_mut(&stored.record.inbox) {
            inbox.make_available(&stored.record);
        }
        self.offer(id, out);
    }

    /// Answers a `wait_for_event` call that has waited long enough.
    pub fn wait_expired(&mut self, call: CallId, out: &mut StepBuilder) {
        let waiting = self.inboxes.iter_mut().find_map(|(id, inbox)| {
            let mut waiters = inbox.waiters.extract_if(.., |waiter| waiter.call == call);
            waiters.next().map(|waiter| (id.clone(), waiter))
        });
        if let Some((inbox, waiter)) = waiting {
            let timeout = self.timeout_reply(&waiter, &inbox, out.now());
            out.when_stored().then(timeout);
        }
    }

    pub fn event_created_by(&self, key: IdempotencyKey) -> Option<EventId> {
        self.event_by_key.get(&key).copied()
    }

    pub fn get(&self, id: EventId) -> Option<&EventRecord> {
        self.events.get(&id).map(|stored| &stored.record)
    }

    pub fn contains(&self, inbox: &InboxId) -> bool {
        self.inboxes.contains_key(inbox)
    }

    /// Whether a waiting call would get such an event at once.
    pub fn has_waiter_for(&self, inbox: &InboxId, event: &InboxEvent) -> bool {
        let waiters = self.inboxes.get(inbox).map(|inbox| &inbox.waiters);
        waiters
            .into_iter()
            .flatten()
            .any(|waiter| fits(event, &waiter.args))
    }

    /// All events after an id, acked or not, in order.
    pub fn events_after<'a>(
        &'a self,
        inbox: &InboxId,
        after: EventId,
    ) -> impl Iterator<Item = &'a EventRecord> + use<'a> {
        let inbox = self.inboxes.get(inbox);
        let mut ids: Vec<EventId> = inbox
            .into_iter()
            .flat_map(|inbox| {
                inbox
                    .unacked
                    .range(ids_after(after))
                    .chain(inbox.acked.range(ids_after(after)))
            })
            .copied()
            .collect();
        ids.sort_unstable();
        ids.into_iter().filter_map(|id| self.get(id))
    }
}

/// The range of all ids after one, which may be the largest possible.
fn ids_after(after: EventId) -> (Bound<EventId>, Bound<EventId>) {
    (Bound::Excluded(after), Bound::Unbounded)
}

fn fits(event: &InboxEvent, args: &WaitForEvent) -> bool {
    args.takes(event)
}
