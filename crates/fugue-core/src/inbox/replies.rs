//! The replies to `wait_for_event`.

use std::collections::BTreeMap;

use fugue_api::{
    EventId, ToolReply,
    inbox_event::EventType,
    tools::{WaitForEventReply, WaitOutcome, WaitTimeout},
    wire::Response,
};

use super::{EventWaiter, Inboxes, Lease};
use crate::{AfterCommit, ClockReading, InboxId, context::StepBuilder, timer::Timer};

impl Inboxes {
    /// Leases an event to a waiter's call and replies with it. A waiter with `after_event_id` reads the event without a lease.
    pub(super) fn reply_with(&mut self, waiter: &EventWaiter, id: EventId, out: &mut StepBuilder) {
        out.stop_timer(&Timer::EventWait(waiter.call));
        let only_reads = waiter.args.after_event_id.is_some();
        if !only_reads {
            self.lease_to(id, waiter.call, Lease::Call(waiter.call));
        }
        let Some(stored) = self.events.get(&id) else {
            return;
        };
        let reply = WaitForEventReply {
            event_id: Some(id),
            at: Some(stored.record.at.into()),
            what: WaitOutcome::Event(stored.record.event.clone()),
            dropped_events: stored.record.dropped_events,
            pending: self.pending(&stored.record.inbox, Some(id)),
        };
        let answer = Ok(Response::Tool {
            reply: ToolReply::WaitForEvent(reply),
        });
        out.when_stored().then(if only_reads {
            AfterCommit::Reply {
                call: waiter.call,
                answer,
            }
        } else {
            AfterCommit::Deliver {
                call: waiter.call,
                answer,
                event: id,
            }
        });
    }

    /// The reply to a waiter whose timeout is over.
    pub(super) fn timeout_reply(
        &self,
        waiter: &EventWaiter,
        inbox: &InboxId,
        now: ClockReading,
    ) -> AfterCommit {
        let waited = now.since_boot.saturating_sub(waiter.since);
        let reply = WaitForEventReply {
            event_id: None,
            at: None,
            what: WaitOutcome::Nothing(WaitTimeout::Timeout {
                waited_secs: (waited.as_secs_f64() * 1000.0).round() / 1000.0,
                reason: None,
            }),
            dropped_events: 0,
            pending: self.pending(inbox, None),
        };
        AfterCommit::tool_reply(waiter.call, ToolReply::WaitForEvent(reply))
    }

    /// How many other events are available, by type.
    fn pending(&self, inbox: &InboxId, but: Option<EventId>) -> BTreeMap<EventType, u64> {
        let available = self.inboxes.get(inbox).map(|inbox| &inbox.available);
        available
            .into_iter()
            .flatten()
            .map(|(kind, ids)| {
                let excluded = but.is_some_and(|but| ids.contains(&but));
                (*kind, (ids.len() - usize::from(excluded)) as u64)
            })
            .filter(|(_, count)| *count > 0)
            .collect()
    }
}
