//! The team: inboxes, messages, questions, and who is who.

mod completions;
mod messages;
pub(crate) mod record;
#[cfg(test)]
mod tests;
mod transitions;

use std::{collections::BTreeMap, time::Duration};

use fugue_api::{
    Error, ErrorKind, EventId, PaneId, QuestionId, ToolCall, ToolReply,
    team::{
        AnswerDelivery, AnswerQuestion, AnswerQuestionReply, AskQuestion, AskQuestionReply,
        InboxEvent, QuestionStatus, WaitForEvent,
    },
    wire::{CallerIdentity, IdempotencyKey, InboxListing, InboxRow, Response},
};

use crate::{
    AfterCommit, CallId, Change, ClockReading, Core, InboxId, QuestionRecord, StoreSnapshot,
    WorkerRecord,
    calls::plan::{Plan, Planner},
    context::Context,
    inbox::{InboxLimits, Inboxes, NewEvent},
    settings::Settings,
    timer::Timer,
};
pub use messages::{IdleState, TurnEnd, TypingOutcome};
pub(crate) use transitions::SpawnCall;
use transitions::WorkerEntry;

/// Inboxes, workers and questions.
#[derive(Debug)]
pub(crate) struct Team {
    pub inboxes: Inboxes,
    next_worker: u64,
    workers: BTreeMap<u64, WorkerEntry>,
    next_question: u64,
    questions: BTreeMap<QuestionId, QuestionEntry>,
}

#[derive(Debug)]
struct QuestionEntry {
    record: QuestionRecord,
    waiters: Vec<AnswerWaiter>,
}

#[derive(Debug)]
struct AnswerWaiter {
    call: CallId,
    until: Duration,
    default: Option<String>,
}

/// A caller as its team knows it.
pub(crate) struct CallerInboxes {
    pub inbox: InboxId,
    /// What others see as `from`.
    pub name: String,
    pub parent: Option<InboxId>,
}

// What an answer of a person's has as `from`.
const PERSON: &str = "person";

// Questions that nobody answers are forgotten behind so many.
const MOST_QUESTIONS: usize = 1_000;

impl Team {
    pub fn restored(snapshot: &mut StoreSnapshot, settings: &Settings, now: ClockReading) -> Self {
        let questions = std::mem::take(&mut snapshot.questions).into_iter();
        let workers = std::mem::take(&mut snapshot.workers).into_iter();
        Self {
            inboxes: Inboxes::restored(
                std::mem::take(&mut snapshot.events),
                snapshot.next_event,
                InboxLimits::of(settings),
            ),
            next_worker: snapshot.next_worker.max(1),
            workers: workers
                .map(|mut stored| {
                    stored.record.started_at = now.stamped(stored.record.started_at);
                    (stored.record.number, WorkerEntry::restored(stored))
                })
                .collect(),
            next_question: snapshot.next_question.max(1),
            questions: questions
                .map(|record| {
                    let waiters = Vec::new();
                    (record.id, QuestionEntry { record, waiters })
                })
                .collect(),
        }
    }

    /// Numbers of all workers that are on record.
    pub fn worker_numbers(&self) -> impl Iterator<Item = u64> + '_ {
        self.workers.keys().copied()
    }

    pub fn next_worker(&self) -> u64 {
        self.next_worker
    }

    pub fn inbox(&self, who: &CallerIdentity) -> InboxId {
        self.me(who).inbox
    }

    /// A caller's inbox, and that of whoever spawned it.
    pub fn owner(&self, who: &CallerIdentity) -> (InboxId, Option<InboxId>) {
        let me = self.me(who);
        (me.inbox, me.parent)
    }

    /// The worker that such an environment belongs to: the one in that pane, else the last of its name.
    fn worker_of(&self, lead: &InboxId, id: &str, pane: Option<PaneId>) -> Option<&WorkerEntry> {
        let of_name = || {
            let all = self.workers.values();
            all.filter(|worker| worker.record.lead == *lead && worker.record.id == id)
        };
        of_name()
            .find(|worker| Some(worker.record.pane) == pane)
            .or_else(|| of_name().max_by_key(|worker| worker.record.instance))
    }

    /// What a record says of whoever opened a pane or spawned a worker. `None`: a person.
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

    /// The worker whose pane this is.
    pub fn worker_in(&self, pane: PaneId) -> Option<&WorkerRecord> {
        let mut workers = self.workers.values().rev();
        let worker = workers.find(|worker| worker.record.pane == pane)?;
        Some(&worker.record)
    }

    /// The worker whose inbox this is.
    pub fn worker_with(&self, inbox: &InboxId) -> Option<&WorkerRecord> {
        let mut workers = self.workers.values();
        let worker = workers.find(|worker| worker.record.inbox() == *inbox)?;
        Some(&worker.record)
    }

    /// Whether fugue spawned a worker of this id for this lead.
    pub fn has_spawned(&self, lead: &InboxId, id: &str) -> bool {
        self.worker_of(lead, id, None).is_some()
    }

    /// Whether anybody is known to be, or to have been, this session.
    pub fn knows_session(&self, session: &InboxId) -> bool {
        let mut workers = self.workers.values();
        self.inboxes.knows(session) || workers.any(|worker| worker.record.lead == *session)
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

    /// Where something for `to` goes: one's parent, a worker of one's own, a fellow, or an inbox by its full id.
    pub fn address(&self, me: &CallerInboxes, to: Option<&str>) -> Result<InboxId, Error> {
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
                    && !self.inboxes.knows(&id)
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

impl AnswerWaiter {
    /// Nobody answered in time.
    fn unanswered(self, question: QuestionId) -> AfterCommit {
        let status = match self.default {
            Some(_) => QuestionStatus::Default,
            None => QuestionStatus::Pending,
        };
        asked(self.call, question, status, self.default, None)
    }
}

impl Planner<'_> {
    pub(crate) fn team_call(
        &self,
        call: CallId,
        who: &CallerIdentity,
        key: IdempotencyKey,
        request: ToolCall,
    ) -> Result<Plan, Error> {
        match request {
            ToolCall::WaitForEvent(args) => {
                let who = who.clone();
                Ok(Plan::new(move |core, cx| {
                    core.wait_for_event(call, &who, args, cx);
                }))
            }
            ToolCall::NotifyCompletion(args) => self.notify(call, who, key, args),
            ToolCall::SendMessage(args) => self.message(call, who, key, args),
            ToolCall::AskQuestion(args) => self.question(call, who, key, args),
            ToolCall::AnswerQuestion(args) => self.answer(call, who, args),
            _ => Err(Error::new(ErrorKind::Internal, "not a tool of the team")),
        }
    }

    fn question(
        &self,
        call: CallId,
        who: &CallerIdentity,
        key: IdempotencyKey,
        args: AskQuestion,
    ) -> Result<Plan, Error> {
        let now = self.now;
        let until = now.since_boot + Duration::from_secs_f64(args.timeout_secs);
        let waiter = AnswerWaiter {
            call,
            until,
            default: args.default,
        };
        let team = &self.core.team;
        let mut known = team.questions.values();
        if let Some(question) = known.find(|question| question.record.made_by == key) {
            let id = question.record.id;
            return Ok(Plan::new(move |core, cx| {
                core.question_again(id, waiter, cx);
            }));
        }
        let me = team.me(who);
        let to = team.address(&me, args.to.as_deref())?;
        team.inboxes.check_room(&to)?;
        let body = args.body;
        Ok(Plan::new(move |core, cx| {
            core.new_question(me, to, key, body, waiter, cx);
        }))
    }

    fn answer(
        &self,
        call: CallId,
        who: &CallerIdentity,
        args: AnswerQuestion,
    ) -> Result<Plan, Error> {
        let team = &self.core.team;
        let id = args.question_id;
        let Some(question) = team.questions.get(&id) else {
            return Err(Error::new(
                ErrorKind::NotFound,
                format!("question_id: no question `{id}`"),
            )
            .hint("a `question` event has its id"));
        };
        if let Some(known) = &question.record.answer {
            if *known == args.answer {
                return Ok(Plan::when_stored(delivered(
                    call,
                    id,
                    AnswerDelivery::Queued,
                )));
            }
            return Err(
                Error::invalid(format!("question_id: `{id}` was answered before"))
                    .hint("`send_message` adds to that"),
            );
        }
        // An answer that is returned to a waiting call does not wait in the inbox.
        if question.waiters.is_empty() {
            team.inboxes.check_room(&question.record.asker)?;
        }
        let from = match who {
            CallerIdentity::Person { .. } => PERSON.to_owned(),
            CallerIdentity::Session { .. } | CallerIdentity::Worker { .. } => team.me(who).name,
        };
        Ok(Plan::new(move |core, cx| {
            core.answer(call, id, from, args.answer, cx);
        }))
    }
}

impl Core {
    /// The inbox of whoever calls, if it has one that it looks into by itself.
    pub(crate) fn inbox_of(&self, who: &CallerIdentity) -> Option<InboxId> {
        match who {
            CallerIdentity::Person { .. } => None,
            CallerIdentity::Session { .. } | CallerIdentity::Worker { .. } => {
                Some(self.team.me(who).inbox)
            }
        }
    }

    fn wait_for_event(
        &mut self,
        call: CallId,
        who: &CallerIdentity,
        args: WaitForEvent,
        cx: &mut Context,
    ) {
        let inbox = self.team.me(who).inbox;
        self.team.inboxes.wait(call, inbox, args, cx);
    }

    pub(crate) fn took(&mut self, call: CallId, event: EventId, cx: &mut Context) {
        self.team.inboxes.took(event, cx);
        cx.when_stored().then(noted(call));
    }

    pub(crate) fn look_into(
        &self,
        call: CallId,
        who: &CallerIdentity,
        after: EventId,
        most: usize,
        cx: &mut Context,
    ) {
        let id = self.team.me(who).inbox;
        let mut rows: Vec<InboxRow> = self
            .team
            .inboxes
            .behind(&id, after)
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
        };
        cx.when_stored().then(AfterCommit::Answer {
            call,
            answer: Ok(Response::Inbox { inbox }),
        });
    }

    /// The asker lost its connection, and waits for the same answer again.
    fn question_again(&mut self, id: QuestionId, waiter: AnswerWaiter, cx: &mut Context) {
        let Some(question) = self.team.questions.get_mut(&id) else {
            return;
        };
        cx.set_timer(Timer::AnswerWait(waiter.call), waiter.until);
        question.waiters.push(waiter);
        if let Some(answer) = question.record.answer.clone() {
            let from = question.record.answered_by.clone();
            self.returned_again(id, &answer, from.as_deref(), cx);
        }
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "one caller; a struct would be unpacked at once"
    )]
    fn new_question(
        &mut self,
        me: CallerInboxes,
        to: InboxId,
        key: IdempotencyKey,
        body: String,
        waiter: AnswerWaiter,
        cx: &mut Context,
    ) {
        let now = cx.now();
        let id = QuestionId(self.team.next_question);
        self.team.next_question += 1;
        let record = QuestionRecord {
            id,
            made_by: key,
            asker: me.inbox,
            addressee: Some(to.clone()),
            asked_at: now.wall,
            body: body.clone(),
            answer: None,
            answered_by: None,
        };
        let mut changes = vec![
            Change::NextQuestion(self.team.next_question),
            Change::PutQuestion(Box::new(record.clone())),
        ];
        let forgotten = (self.team.questions.len() >= MOST_QUESTIONS)
            .then(|| self.team.questions.pop_first())
            .flatten();
        changes.extend(forgotten.iter().map(|(id, _)| Change::DropQuestion(*id)));
        cx.commit(changes);
        if let Some((oldest, question)) = forgotten {
            for waiter in question.waiters {
                cx.when_stored().then(waiter.unanswered(oldest));
            }
        }
        cx.set_timer(Timer::AnswerWait(waiter.call), waiter.until);
        let question = QuestionEntry {
            record,
            waiters: vec![waiter],
        };
        self.team.questions.insert(id, question);
        let event = InboxEvent::Question {
            from: me.name,
            question_id: id,
            body,
        };
        self.team.inboxes.post(NewEvent::new(to, event), cx);
    }

    /// The asker lost its connection, and asks again for an answer that was given meanwhile.
    fn returned_again(
        &mut self,
        id: QuestionId,
        answer: &str,
        from: Option<&str>,
        cx: &mut Context,
    ) {
        let Some(question) = self.team.questions.get_mut(&id) else {
            return;
        };
        let asker = question.record.asker.clone();
        let calls = std::mem::take(&mut question.waiters);
        let event = self
            .team
            .inboxes
            .behind(&asker, EventId(0))
            .find(|record| {
                matches!(&record.event, InboxEvent::Answer { question_id, .. } if *question_id == id)
            })
            .map(|record| record.id);
        for waiter in calls {
            let asked = asked(
                waiter.call,
                id,
                QuestionStatus::Answered,
                Some(answer.to_owned()),
                from.map(str::to_owned),
            );
            // It stays an event until this reply has arrived.
            let inboxes = &mut self.team.inboxes;
            let handed = event.filter(|event| inboxes.hand_over(*event, waiter.call));
            cx.when_stored().then(match (asked, handed) {
                (AfterCommit::Answer { call, answer }, Some(event)) => AfterCommit::Hand {
                    call,
                    answer,
                    event,
                },
                (asked, _) => asked,
            });
        }
    }

    fn answer(
        &mut self,
        call: CallId,
        id: QuestionId,
        from: String,
        text: String,
        cx: &mut Context,
    ) {
        let Some(question) = self.team.questions.get_mut(&id) else {
            return;
        };
        question.record.answer = Some(text.clone());
        question.record.answered_by = Some(from.clone());
        cx.commit([Change::PutQuestion(Box::new(question.record.clone()))]);
        let post = NewEvent::new(
            question.record.asker.clone(),
            InboxEvent::Answer {
                question_id: id,
                from: from.clone(),
                body: text.clone(),
            },
        );
        // An answer in a caller's hand becomes an event only if it does not arrive.
        let mut waiters = std::mem::take(&mut question.waiters).into_iter();
        let how = match waiters.next() {
            Some(waiter) => {
                let event = self.team.inboxes.post_into_hand(post, waiter.call, cx);
                let AfterCommit::Answer { call, answer } = asked(
                    waiter.call,
                    id,
                    QuestionStatus::Answered,
                    Some(text.clone()),
                    Some(from.clone()),
                ) else {
                    return;
                };
                cx.when_stored().then(AfterCommit::Hand {
                    call,
                    answer,
                    event,
                });
                AnswerDelivery::Returned
            }
            None => {
                self.team.inboxes.post(post, cx);
                AnswerDelivery::Queued
            }
        };
        for waiter in waiters {
            let (answer, from) = (Some(text.clone()), Some(from.clone()));
            cx.when_stored().then(asked(
                waiter.call,
                id,
                QuestionStatus::Answered,
                answer,
                from,
            ));
        }
        cx.when_stored().then(delivered(call, id, how));
    }

    pub(crate) fn forget_team_call(&mut self, call: CallId, cx: &mut Context) {
        self.team.inboxes.cancelled(call, cx);
        for question in self.team.questions.values_mut() {
            question.waiters.retain(|waiter| waiter.call != call);
        }
        for worker in self.team.workers.values_mut() {
            worker.forget(call);
        }
    }

    /// Answers an `ask_question` call with its default, or that the question is pending.
    pub(crate) fn answer_wait_expired(&mut self, call: CallId, cx: &mut Context) {
        for question in self.team.questions.values_mut() {
            let late = question
                .waiters
                .extract_if(.., |waiter| waiter.call == call);
            for waiter in late {
                cx.when_stored().then(waiter.unanswered(question.record.id));
            }
        }
    }
}

fn asked(
    call: CallId,
    question_id: QuestionId,
    status: QuestionStatus,
    answer: Option<String>,
    from: Option<String>,
) -> AfterCommit {
    AfterCommit::Answer {
        call,
        answer: Ok(Response::Tool {
            reply: ToolReply::AskQuestion(AskQuestionReply {
                question_id,
                status,
                answer,
                from,
            }),
        }),
    }
}

fn delivered(call: CallId, question_id: QuestionId, delivered: AnswerDelivery) -> AfterCommit {
    AfterCommit::Answer {
        call,
        answer: Ok(Response::Tool {
            reply: ToolReply::AnswerQuestion(AnswerQuestionReply {
                question_id,
                delivered,
            }),
        }),
    }
}

fn noted(call: CallId) -> AfterCommit {
    AfterCommit::Answer {
        call,
        answer: Ok(Response::Noted),
    }
}
