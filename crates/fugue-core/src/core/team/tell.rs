//! Messages, and how they get into a worker's pane.

use fugue_api::{
    Error, EventId, PaneId, Reply,
    team::{Deliver, Delivered, Event, MessageSent, SendMessage},
    wire::{Answer, Key, Who},
};

use super::Worker;
use crate::{CallId, Change, Effect, Now, core::Core, inbox::Post};

impl Core {
    pub(super) fn message(
        &mut self,
        call: CallId,
        who: &Who,
        key: Key,
        args: SendMessage,
        now: Now,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Error> {
        if let Some(event) = self.team.inboxes.made_by(key) {
            effects.push(sent(call, event, Delivered::Queued));
            return Ok(());
        }
        let me = self.team.me(who);
        let to = self.team.address(&me, args.to.as_deref())?;
        self.team.has_room(&to)?;
        let event = Event::Message {
            from: me.name,
            body: args.body,
        };
        let to_type = args.deliver == Deliver::Type && !self.team.inboxes.waits_for(&to, &event);
        let number = self
            .team
            .workers
            .values()
            .find(|worker| worker.record.inbox() == to)
            .map(|worker| worker.record.number);
        if to_type && number.is_none() {
            return Err(Error::invalid(
                "deliver: `type` is for workers, which have a pane; this is a lead's inbox",
            )
            .hint("leave `deliver` out"));
        }
        let event = self.team.inboxes.post(
            Post {
                inbox: to,
                event,
                made_by: Some(key),
                to_type,
            },
            now,
            effects,
        );
        match number.filter(|_| to_type) {
            Some(number) if self.type_next(number, Some((call, event)), effects) => {}
            _ => effects.push(sent(call, event, Delivered::Queued)),
        }
        Ok(())
    }

    /// Has the pane of a worker that takes prompts say when it rests, if a message waits to be typed. `true`: `asked`
    /// is told what came of it, behind a message that is just being typed too.
    pub(super) fn type_next(
        &mut self,
        number: u64,
        asked: Option<(CallId, EventId)>,
        effects: &mut Vec<Effect>,
    ) -> bool {
        let Some(worker) = self.team.workers.get_mut(&number) else {
            return false;
        };
        let waits = self.team.inboxes.to_type(&worker.record.inbox()).is_some();
        let Some(over) = worker.takes_prompts() else {
            return false;
        };
        // What was seen may be told since.
        if !waits || worker.awaited.is_some_and(|awaited| awaited == over) {
            return false;
        }
        worker.senders.extend(asked);
        if worker.typing.is_none() {
            worker.awaited = Some(over);
            effects.push(Effect::AwaitRest {
                pane: worker.record.pane,
                over,
            });
        }
        asked.is_some()
    }

    /// The pane rests and its input is empty, or that has to be waited for.
    pub(in crate::core) fn rests(&mut self, pane: PaneId, rest: Rest, effects: &mut Vec<Effect>) {
        let Some(worker) = self
            .team
            .workers
            .values_mut()
            .find(|worker| worker.record.pane == pane && worker.awaited.is_some())
        else {
            return;
        };
        if rest == Rest::NotYet {
            return worker.senders_wait_no_longer(effects);
        }
        worker.awaited = None;
        let record = self.team.inboxes.to_type(&worker.record.inbox());
        let Some((event, from, body)) = record.and_then(|record| match &record.event {
            Event::Message { from, body } => Some((record.id, from, body)),
            _ => None,
        }) else {
            // The worker took it by itself.
            return worker.senders_wait_no_longer(effects);
        };
        worker.typing = Some(event);
        worker.prompted = false;
        effects.push(Effect::TypeMessage {
            pane,
            event,
            // A name in front, so that no agent takes the first letter for a command of its own.
            text: format!("Message from {from}: {body}"),
        });
        self.team.inboxes.typing(event);
    }

    /// The pane has typed it, or says why not.
    pub(in crate::core) fn typed(
        &mut self,
        pane: PaneId,
        event: EventId,
        how: Typed,
        effects: &mut Vec<Effect>,
    ) {
        let Some(worker) = self
            .team
            .workers
            .values_mut()
            .find(|worker| worker.record.pane == pane && worker.typing == Some(event))
        else {
            return;
        };
        let number = worker.record.number;
        worker.typing = None;
        let sender = worker
            .senders
            .extract_if(.., |(_, asked)| *asked == event)
            .next();
        let delivered = match how {
            Typed::Submitted => Delivered::Submitted,
            Typed::Typed => Delivered::Typed,
            Typed::Waits | Typed::Refused => Delivered::Queued,
        };
        match how {
            Typed::Waits => self.team.inboxes.put_back(event, effects),
            Typed::Refused => {
                self.team.inboxes.put_back(event, effects);
                self.team.inboxes.not_to_type(event, effects);
            }
            Typed::Typed | Typed::Submitted => {
                // A quick agent has told by now that it was given this, and perhaps that it is through with it.
                if !worker.prompted {
                    worker.prompt_given(effects);
                }
                self.team.inboxes.took(event, effects);
            }
        }
        effects.extend(sender.map(|(call, event)| sent(call, event, delivered)));
        self.type_next(number, None, effects);
        if let Some(worker) = self.team.workers.get_mut(&number)
            && worker.awaited.is_none()
        {
            worker.senders_wait_no_longer(effects);
        }
    }
}

/// Whether something may be typed into an agent's pane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// It works, or a person's draft is in it. It is told again when that is over.
    NotYet,
    Now,
}

/// How it is known that a turn is over, before something is typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnOver {
    /// The worker has reported, or its agent has no way to.
    Told,
    /// It was given a prompt and has said nothing since. No agent tells that a person refused or interrupted it.
    Unknown,
}

/// What became of a message that was to be typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Typed {
    /// The pane is not idle, or a person's draft is in it.
    Waits,
    /// It is in the pane, and nobody saw it taken.
    Typed,
    Submitted,
    /// The pane ended, or it cannot be known whether it was typed. It stays in the inbox.
    Refused,
}

fn sent(call: CallId, event_id: EventId, delivered: Delivered) -> Effect {
    Effect::Answer {
        call,
        answer: Ok(Answer::Tool {
            reply: Reply::SendMessage(MessageSent {
                event_id,
                delivered,
            }),
        }),
    }
}

impl Worker {
    /// What they sent is typed some other time.
    pub(super) fn senders_wait_no_longer(&mut self, effects: &mut Vec<Effect>) {
        let senders = self.senders.drain(..);
        effects.extend(senders.map(|(call, event)| sent(call, event, Delivered::Queued)));
    }

    pub(super) fn stored(&self, effects: &mut Vec<Effect>) {
        effects.push(Effect::Commit {
            changes: vec![Change::PutWorker(Box::new(self.record.clone()))],
            undo: None,
        });
    }

    /// It has something to do again.
    pub(super) fn prompt_given(&mut self, effects: &mut Vec<Effect>) {
        if self.record.reported {
            self.record.turn += 1;
            self.record.reported = false;
        }
        self.record.asks = None;
        self.stored(effects);
    }
}
