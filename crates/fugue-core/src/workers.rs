//! Workers, their messages, questions and completions, and the inbox that each caller has.

mod attention;
mod completions;
mod messages;
mod plan;
mod questions;
pub(crate) mod record;
#[cfg(test)]
mod tests;
mod transitions;

use std::collections::BTreeMap;

use fugue_api::{
    Error, ErrorKind, EventId, PaneId, QuestionId,
    tools::WaitForEvent,
    wire::{CallerIdentity, InboxListing, InboxRow, Response},
};

use crate::{
    AfterCommit, CallId, ClockReading, InboxId, QuestionRecord, StoreSnapshot, WorkerRecord,
    context::Context, inbox::Inboxes, snapshot::next_id,
};
pub use messages::{IdleState, TurnEnd, TypingOutcome};
use questions::{QuestionEntry, QuestionWatcher};
use transitions::WorkerEntry;

/// All workers and questions.
#[derive(Debug)]
pub(crate) struct Team {
    next_worker: u64,
    workers: BTreeMap<u64, WorkerEntry>,
    next_question: u64,
    questions: BTreeMap<QuestionId, QuestionEntry>,
    question_watchers: Vec<QuestionWatcher>,
}

/// The inbox and name of a caller, and its lead's inbox.
pub(crate) struct CallerInboxes {
    pub inbox: InboxId,
    /// The `from` of the events that the caller sends.
    pub name: String,
    pub parent: Option<InboxId>,
}

impl Team {
    pub fn restored(snapshot: &mut StoreSnapshot, now: ClockReading) -> Self {
        let questions = std::mem::take(&mut snapshot.questions);
        let workers = std::mem::take(&mut snapshot.workers);
        let numbers = workers.iter().map(|stored| stored.record.number);
        let question_ids = questions.iter().map(|record| record.id.0);
        Self {
            next_worker: next_id(snapshot.next_worker, numbers),
            next_question: next_id(snapshot.next_question, question_ids),
            workers: workers
                .into_iter()
                .map(|mut stored| {
                    stored.record.started_at = now.stamped(stored.record.started_at);
                    (stored.record.number, WorkerEntry::restored(stored))
                })
                .collect(),
            questions: questions
                .into_iter()
                .map(|record| {
                    let waiters = Vec::new();
                    (record.id, QuestionEntry { record, waiters })
                })
                .collect(),
            question_watchers: Vec::new(),
        }
    }

    /// The numbers of all known workers.
    pub fn worker_numbers(&self) -> impl Iterator<Item = u64> + '_ {
        self.workers.keys().copied()
    }

    /// The numbers of the workers that have not ended.
    pub fn live_workers(&self) -> impl Iterator<Item = u64> + '_ {
        let workers = self.workers.values().map(|worker| &worker.record);
        workers
            .filter(|record| !record.is_over())
            .map(|record| record.number)
    }

    pub fn next_worker(&self) -> u64 {
        self.next_worker
    }

    pub fn inbox(&self, who: &CallerIdentity) -> InboxId {
        self.me(who).inbox
    }

    /// The inbox of an agent. A person has none that is read without being asked.
    pub fn own_inbox(&self, who: &CallerIdentity) -> Option<InboxId> {
        match who {
            CallerIdentity::Person { .. } => None,
            CallerIdentity::Session { .. } | CallerIdentity::Worker { .. } => {
                Some(self.me(who).inbox)
            }
        }
    }

    /// The inbox of a caller and the inbox of its lead.
    pub fn owner(&self, who: &CallerIdentity) -> (InboxId, Option<InboxId>) {
        let me = self.me(who);
        (me.inbox, me.parent)
    }

    /// The worker with an id: the instance in `pane`, or else the latest instance.
    fn worker_of(&self, lead: &InboxId, id: &str, pane: Option<PaneId>) -> Option<&WorkerEntry> {
        let of_name = || {
            let all = self.workers.values();
            all.filter(|worker| worker.record.lead == *lead && worker.record.id == id)
        };
        of_name()
            .find(|worker| Some(worker.record.pane) == pane)
            .or_else(|| of_name().max_by_key(|worker| worker.record.instance))
    }

    /// The `opened_by` of records that a caller creates. `None` for a person.
    pub fn opener(&self, who: &CallerIdentity) -> Option<CallerIdentity> {
        match who {
            CallerIdentity::Person { .. } => None,
            CallerIdentity::Session { .. } => Some(who.clone()),
            CallerIdentity::Worker {
                session,
                agent,
                pane,
            } => {
                let known = self.worker_of(&InboxId(session.clone()), agent, *pane);
                Some(CallerIdentity::Worker {
                    session: session.clone(),
                    agent: agent.clone(),
                    pane: known.map(|worker| worker.record.pane),
                })
            }
        }
    }

    /// The worker that runs in a pane.
    pub fn worker_in(&self, pane: PaneId) -> Option<&WorkerRecord> {
        let mut workers = self.workers.values().rev();
        let worker = workers.find(|worker| worker.record.pane == pane)?;
        Some(&worker.record)
    }

    /// The worker that an inbox belongs to.
    pub fn worker_with(&self, inbox: &InboxId) -> Option<&WorkerRecord> {
        let mut workers = self.workers.values();
        let worker = workers.find(|worker| worker.record.inbox() == *inbox)?;
        Some(&worker.record)
    }

    /// Whether a worker with this id was spawned for this lead.
    pub fn has_spawned(&self, lead: &InboxId, id: &str) -> bool {
        self.worker_of(lead, id, None).is_some()
    }

    /// Whether a lead session has an inbox or has spawned a worker.
    pub fn has_session(&self, session: &InboxId, inboxes: &Inboxes) -> bool {
        let mut workers = self.workers.values();
        inboxes.contains(session) || workers.any(|worker| worker.record.lead == *session)
    }

    pub fn question(&self, id: QuestionId) -> Option<&QuestionRecord> {
        self.questions.get(&id).map(|question| &question.record)
    }

    pub fn me(&self, who: &CallerIdentity) -> CallerInboxes {
        match who {
            CallerIdentity::Session { id } => CallerInboxes::lead(id),
            CallerIdentity::Person { project } => CallerInboxes::lead(project),
            CallerIdentity::Worker {
                session,
                agent,
                pane,
            } => {
                let lead = InboxId(session.clone());
                let known = self.worker_of(&lead, agent, *pane);
                CallerInboxes {
                    inbox: known.map_or_else(
                        || InboxId(format!("{lead}/{agent}")),
                        |worker| worker.record.inbox(),
                    ),
                    name: agent.clone(),
                    parent: Some(lead),
                }
            }
        }
    }

    /// Resolves the recipient `to`: by default the sender's lead, else a worker of the sender, a worker of the same lead, or
    /// an inbox by its full id.
    pub fn address(
        &self,
        me: &CallerInboxes,
        to: Option<&str>,
        inboxes: &Inboxes,
    ) -> Result<InboxId, Error> {
        let Some(to) = to else {
            return me.parent.clone().ok_or_else(|| {
                Error::invalid("to: nobody spawned you, so there is no one to tell by default")
                    .hint(self.candidates(me))
            });
        };
        let own = |lead: &InboxId| self.worker_of(lead, to, None);
        let by_inbox = || {
            let mut all = self.workers.values();
            all.find(|worker| worker.record.inbox().0 == to)
        };
        let worker = own(&me.inbox)
            .or_else(|| me.parent.as_ref().and_then(own))
            .or_else(by_inbox);
        let inbox = match worker {
            Some(worker) if worker.record.is_over() => {
                return Err(Error::new(
                    ErrorKind::Ended,
                    format!("to: worker `{to}` has ended; nobody would read it"),
                )
                .hint("`spawn_worker` with the same name starts it again"));
            }
            Some(worker) => worker.record.inbox(),
            None => {
                let id = InboxId(to.to_owned());
                let leads = |worker: &WorkerEntry| worker.record.lead == id;
                if me.parent.as_ref() != Some(&id)
                    && !inboxes.contains(&id)
                    && !self.workers.values().any(leads)
                {
                    return Err(Error::new(
                        ErrorKind::NotFound,
                        format!("to: no worker or session `{to}`"),
                    )
                    .hint(self.candidates(me)));
                }
                id
            }
        };
        if inbox == me.inbox {
            return Err(Error::invalid(format!("to: `{to}` is yourself")));
        }
        Ok(inbox)
    }

    fn candidates(&self, me: &CallerInboxes) -> String {
        let live: Vec<&str> = self
            .workers
            .values()
            .filter(|worker| worker.record.lead == me.inbox && !worker.record.is_over())
            .map(|worker| worker.record.id.as_str())
            .collect();
        if live.is_empty() {
            "you have no live workers; `spawn_worker` starts one".to_owned()
        } else {
            format!("your workers: {}", live.join(", "))
        }
    }
}

impl CallerInboxes {
    fn lead(id: &str) -> Self {
        Self {
            inbox: InboxId(id.to_owned()),
            name: id.to_owned(),
            parent: None,
        }
    }
}

impl Team {
    fn wait_for_event(
        &mut self,
        call: CallId,
        who: &CallerIdentity,
        args: WaitForEvent,
        cx: &mut Context,
    ) {
        let inbox = self.me(who).inbox;
        cx.inboxes.wait(call, inbox, args, &mut cx.out);
    }

    pub fn ack_event(&mut self, call: CallId, event: EventId, cx: &mut Context) {
        cx.inboxes.ack(event, &mut cx.out);
        cx.out.when_stored().then(noted(call));
    }

    pub fn list_inbox(
        &self,
        call: CallId,
        who: &CallerIdentity,
        after: EventId,
        most: usize,
        cx: &mut Context,
    ) {
        let id = self.me(who).inbox;
        let mut rows: Vec<InboxRow> = cx
            .inboxes
            .events_after(&id, after)
            .take(most.saturating_add(1))
            .map(|record| InboxRow {
                event_id: record.id,
                at: record.at,
                taken: record.taken,
                dropped_events: record.dropped_events,
                event: record.event.clone(),
            })
            .collect();
        let more = rows.len() > most;
        rows.truncate(most);
        let inbox = InboxListing {
            session_id: id.0,
            events: rows,
            more,
            questions: self.questions_of(who),
        };
        cx.out.when_stored().then(AfterCommit::Reply {
            call,
            answer: Ok(Response::Inbox { inbox }),
        });
    }

    pub fn cancel_team_call(&mut self, call: CallId, cx: &mut Context) {
        cx.inboxes.cancel(call, &mut cx.out);
        for question in self.questions.values_mut() {
            question.waiters.retain(|waiter| waiter.call != call);
        }
        self.question_watchers
            .retain(|watcher| watcher.call != call);
        for worker in self.workers.values_mut() {
            worker.forget(call);
        }
    }
}

fn noted(call: CallId) -> AfterCommit {
    AfterCommit::Reply {
        call,
        answer: Ok(Response::Done),
    }
}
