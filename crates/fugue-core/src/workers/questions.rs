//! Questions that an agent asks and another agent or a person answers.

use std::time::Duration;

use fugue_api::{
    Error, ErrorKind, EventId, QuestionId, ToolReply,
    inbox_event::InboxEvent,
    overview::QuestionRow,
    tools::{
        AnswerDelivery, AnswerQuestion, AnswerQuestionReply, AskQuestion, AskQuestionReply,
        QuestionStatus,
    },
    wire::{CallerIdentity, IdempotencyKey, Response},
};

use super::{CallerInboxes, Team};
use crate::{
    AfterCommit, CallId, Change, Counter, InboxId, QuestionRecord, RecordId, WorkerRecord,
    calls::{
        CallOrigin,
        plan::{Plan, Planner},
    },
    context::{Context, StepBuilder},
    inbox::NewEvent,
    timer::Timer,
};

#[derive(Debug)]
pub(super) struct QuestionEntry {
    pub record: QuestionRecord,
    pub waiters: Vec<AnswerWaiter>,
}

#[derive(Debug)]
pub(super) struct AnswerWaiter {
    pub call: CallId,
    until: Duration,
    default: Option<String>,
}

/// A call that waits until other questions wait for a person than those that it knows.
#[derive(Debug)]
pub(super) struct QuestionWatcher {
    pub call: CallId,
    session: InboxId,
    known: Vec<QuestionId>,
}

/// The recipient of a question.
enum Addressee {
    Agent(InboxId),
    /// The person at the client of this lead session.
    Person(InboxId),
}

// The limit of stored questions. The oldest is forgotten beyond it.
const MAX_QUESTIONS: usize = 1_000;
// The limit of questions that wait for the person at one session.
const MAX_OPEN_QUESTIONS: usize = 100;

impl AnswerWaiter {
    /// The reply of a question that was not answered in time.
    fn unanswered(self, question: &QuestionRecord) -> AfterCommit {
        let reply = match question.person_at {
            Some(_) => AskQuestionReply::left_to_a_person(question.id, self.default),
            None => AskQuestionReply::unanswered(question.id, self.default),
        };
        AfterCommit::tool_reply(self.call, ToolReply::AskQuestion(reply))
    }
}

impl Planner<'_> {
    pub fn ask_question(&self, origin: &CallOrigin, args: AskQuestion) -> Result<Plan, Error> {
        let (call, key, who) = (origin.call, origin.key, &origin.who);
        let now = self.now;
        let until = now.since_boot + Duration::from_secs_f64(args.timeout_secs);
        let is_for_a_person = args.is_for_a_person();
        let waiter = AnswerWaiter {
            call,
            until,
            default: args.default,
        };
        let (cx, team) = (&self.core.cx, &self.core.team);
        let mut known = team.questions.values();
        if let Some(question) = known.find(|question| question.record.made_by == key) {
            let id = question.record.id;
            return Ok(Plan::new(move |core| {
                core.team.rejoin_question(id, waiter, &mut core.cx);
            }));
        }
        let me = team.me(who);
        let to = if is_for_a_person {
            Addressee::Person(team.person_for(who)?)
        } else {
            let to = team.address(&me, args.to.as_deref(), &cx.inboxes)?;
            cx.inboxes.check_room(&to)?;
            Addressee::Agent(to)
        };
        let body = args.body;
        Ok(Plan::new(move |core| {
            core.team
                .new_question(me, to, key, body, waiter, &mut core.cx);
        }))
    }

    pub fn answer_question(
        &self,
        origin: &CallOrigin,
        args: AnswerQuestion,
    ) -> Result<Plan, Error> {
        let (call, who) = (origin.call, &origin.who);
        let (cx, team) = (&self.core.cx, &self.core.team);
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
        // An answer that is returned to a waiting call takes no room in the inbox.
        if question.waiters.is_empty() {
            cx.inboxes.check_room(&question.record.asker)?;
        }
        let from = match who {
            CallerIdentity::Person { .. } => AskQuestion::PERSON.to_owned(),
            CallerIdentity::Session { .. } | CallerIdentity::Worker { .. } => team.me(who).name,
        };
        Ok(Plan::new(move |core| {
            core.team.answer(call, id, from, args.answer, &mut core.cx);
        }))
    }
}

impl Addressee {
    fn agent(&self) -> Option<&InboxId> {
        match self {
            Self::Agent(inbox) => Some(inbox),
            Self::Person(_) => None,
        }
    }

    fn person_at(&self) -> Option<&InboxId> {
        match self {
            Self::Agent(_) => None,
            Self::Person(session) => Some(session),
        }
    }
}

impl Team {
    /// Attaches a repeated `ask_question` call to its question.
    fn rejoin_question(&mut self, id: QuestionId, waiter: AnswerWaiter, cx: &mut Context) {
        let Some(question) = self.questions.get_mut(&id) else {
            return;
        };
        cx.out
            .set_timer(Timer::AnswerWait(waiter.call), waiter.until);
        question.waiters.push(waiter);
        if let Some(answer) = question.record.answer.clone() {
            let from = question.record.answered_by.clone();
            self.return_answer(id, &answer, from.as_deref(), cx);
        }
    }

    fn new_question(
        &mut self,
        me: CallerInboxes,
        to: Addressee,
        key: IdempotencyKey,
        body: String,
        waiter: AnswerWaiter,
        cx: &mut Context,
    ) {
        let now = cx.now();
        let id = QuestionId(self.next_question);
        self.next_question += 1;
        let record = QuestionRecord {
            id,
            made_by: key,
            asker: me.inbox,
            addressee: to.agent().cloned(),
            person_at: to.person_at().cloned(),
            asked_at: now.wall,
            body: body.clone(),
            answer: None,
            answered_by: None,
        };
        let mut changes = vec![
            Change::SetCounter(Counter::NextQuestion, self.next_question),
            Change::put(record.clone()),
        ];
        let forgotten = (self.questions.len() >= MAX_QUESTIONS)
            .then(|| self.questions.pop_first())
            .flatten();
        changes.extend(
            forgotten
                .iter()
                .map(|(id, _)| Change::Remove(RecordId::Question(*id))),
        );
        cx.out.commit(changes);
        if let Some((_, question)) = forgotten {
            for waiter in question.waiters {
                cx.out
                    .when_stored()
                    .then(waiter.unanswered(&question.record));
            }
        }
        cx.out
            .set_timer(Timer::AnswerWait(waiter.call), waiter.until);
        let question = QuestionEntry {
            record,
            waiters: vec![waiter],
        };
        self.questions.insert(id, question);
        match to {
            Addressee::Agent(to) => {
                let event = InboxEvent::Question {
                    from: me.name,
                    question_id: id,
                    body,
                };
                cx.inboxes.publish(NewEvent::new(to, event), &mut cx.out);
            }
            // The agents of the session have no event: they may not answer.
            Addressee::Person(_) => {}
        }
    }

    /// The lead session at whose client the person is who answers a caller's question: that of the lead of all leads above
    /// the caller. Nobody may be looking at the pane of a worker.
    fn person_for(&self, who: &CallerIdentity) -> Result<InboxId, Error> {
        let mut session = match who {
            CallerIdentity::Person { .. } => {
                let message = format!("to: `{}` is yourself", AskQuestion::PERSON);
                return Err(Error::invalid(message));
            }
            CallerIdentity::Session { id } => InboxId(id.clone()),
            CallerIdentity::Worker { session, .. } => InboxId(session.clone()),
        };
        while let Some(worker) = self.worker_with(&session) {
            session = worker.lead.clone();
        }
        if self.open_at(&session).count() >= MAX_OPEN_QUESTIONS {
            let message =
                format!("to: {MAX_OPEN_QUESTIONS} questions of this session wait for a person");
            return Err(Error::new(ErrorKind::Exhausted, message)
                .hint("`fugue ls` shows them, and `fugue answer` answers one"));
        }
        Ok(session)
    }

    /// The questions that wait for a person, oldest first.
    fn open_questions(&self) -> impl Iterator<Item = &QuestionRecord> {
        let records = self.questions.values().map(|question| &question.record);
        records.filter(|record| {
            record.answer.is_none() && record.person_at.is_some() && !self.is_left(record)
        })
    }

    fn open_at(&self, session: &InboxId) -> impl Iterator<Item = &QuestionRecord> {
        let open = self.open_questions();
        open.filter(move |record| record.person_at.as_ref() == Some(session))
    }

    /// Whether the worker that asked has ended.
    fn is_left(&self, record: &QuestionRecord) -> bool {
        self.worker_with(&record.asker)
            .is_some_and(WorkerRecord::is_over)
    }

    pub fn question_rows(&self) -> Vec<QuestionRow> {
        let open = self.open_questions();
        open.map(|record| self.question_row(record)).collect()
    }

    fn question_row(&self, record: &QuestionRecord) -> QuestionRow {
        let worker = self.worker_with(&record.asker);
        let session = record.person_at.as_ref().unwrap_or(&record.asker);
        QuestionRow {
            question_id: record.id,
            from: worker.map_or_else(|| record.asker.0.clone(), |worker| worker.id.clone()),
            session_id: session.0.clone(),
            body: record.body.clone(),
            asked_at: record.asked_at,
        }
    }

    /// Returns the questions that wait for the person at the caller's session, now or when they are others than `known`.
    pub fn list_questions(
        &mut self,
        call: CallId,
        who: &CallerIdentity,
        known: Option<Vec<QuestionId>>,
        out: &mut StepBuilder,
    ) {
        let session = self.me(who).inbox;
        match known {
            Some(known) if self.is_known(&session, &known) => {
                self.question_watchers.push(QuestionWatcher {
                    call,
                    session,
                    known,
                });
            }
            Some(_) | None => {
                let questions = self.rows_at(&session);
                out.when_stored()
                    .reply(call, Ok(Response::Questions { questions }));
            }
        }
    }

    /// Answers the calls that wait for other questions, after a step that has changed records: a question is also gone when
    /// the worker that asked has ended.
    pub fn inform_question_watchers(&mut self, out: &mut StepBuilder) {
        if self.question_watchers.is_empty() || out.changes().is_empty() {
            return;
        }
        let watchers = std::mem::take(&mut self.question_watchers);
        for watcher in watchers {
            if self.is_known(&watcher.session, &watcher.known) {
                self.question_watchers.push(watcher);
            } else {
                let questions = self.rows_at(&watcher.session);
                out.when_stored()
                    .reply(watcher.call, Ok(Response::Questions { questions }));
            }
        }
    }

    fn is_known(&self, session: &InboxId, known: &[QuestionId]) -> bool {
        self.open_at(session).map(|record| &record.id).eq(known)
    }

    /// The questions that wait for the person at the caller's session.
    pub fn questions_of(&self, who: &CallerIdentity) -> Vec<QuestionRow> {
        self.rows_at(&self.me(who).inbox)
    }

    fn rows_at(&self, session: &InboxId) -> Vec<QuestionRow> {
        let open = self.open_at(session);
        open.map(|record| self.question_row(record)).collect()
    }

    /// Returns a stored answer to the waiting calls, the first of which leases the answer event.
    fn return_answer(
        &mut self,
        id: QuestionId,
        answer: &str,
        from: Option<&str>,
        cx: &mut Context,
    ) {
        let Some(question) = self.questions.get_mut(&id) else {
            return;
        };
        let asker = question.record.asker.clone();
        let calls = std::mem::take(&mut question.waiters);
        let event = cx.inboxes
            .events_after(&asker, EventId(0))
            .find(|record| {
                matches!(&record.event, InboxEvent::Answer { question_id, .. } if *question_id == id)
            })
            .map(|record| record.id);
        for waiter in calls {
            let asked = question_reply(
                waiter.call,
                id,
                QuestionStatus::Answered,
                Some(answer.to_owned()),
                from.map(str::to_owned),
            );
            // The event is acked when the client acknowledges this reply.
            let inboxes = &mut cx.inboxes;
            let handed = event.filter(|event| inboxes.try_lease(*event, waiter.call));
            cx.out.when_stored().then(match (asked, handed) {
                (AfterCommit::Reply { call, answer }, Some(event)) => AfterCommit::Deliver {
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
        let Some(question) = self.questions.get_mut(&id) else {
            return;
        };
        question.record.answer = Some(text.clone());
        question.record.answered_by = Some(from.clone());
        cx.out.commit([Change::put(question.record.clone())]);
        let asker = question.record.asker.clone();
        let waiters = std::mem::take(&mut question.waiters);
        if let Some(addressee) = &question.record.addressee {
            cx.inboxes.withdraw_question(addressee, id, &mut cx.out);
        }
        let post = NewEvent::new(
            asker,
            InboxEvent::Answer {
                question_id: id,
                from: from.clone(),
                body: text.clone(),
            },
        );
        // The answer event is leased to the first waiter, and released to the inbox if the reply does not arrive.
        let mut waiters = waiters.into_iter();
        let how = match waiters.next() {
            Some(waiter) => {
                let event = cx.inboxes.publish_leased(post, waiter.call, &mut cx.out);
                let AfterCommit::Reply { call, answer } = question_reply(
                    waiter.call,
                    id,
                    QuestionStatus::Answered,
                    Some(text.clone()),
                    Some(from.clone()),
                ) else {
                    return;
                };
                cx.out.when_stored().then(AfterCommit::Deliver {
                    call,
                    answer,
                    event,
                });
                AnswerDelivery::Returned
            }
            None => {
                cx.inboxes.publish(post, &mut cx.out);
                AnswerDelivery::Queued
            }
        };
        for waiter in waiters {
            let (answer, from) = (Some(text.clone()), Some(from.clone()));
            cx.out.when_stored().then(question_reply(
                waiter.call,
                id,
                QuestionStatus::Answered,
                answer,
                from,
            ));
        }
        cx.out.when_stored().then(delivered(call, id, how));
    }

    /// Answers an `ask_question` call with its default, or that the question is pending.
    pub fn answer_wait_expired(&mut self, call: CallId, out: &mut StepBuilder) {
        for question in self.questions.values_mut() {
            let late = question
                .waiters
                .extract_if(.., |waiter| waiter.call == call);
            for waiter in late {
                out.when_stored().then(waiter.unanswered(&question.record));
            }
        }
    }
}

fn question_reply(
    call: CallId,
    question_id: QuestionId,
    status: QuestionStatus,
    answer: Option<String>,
    from: Option<String>,
) -> AfterCommit {
    AfterCommit::tool_reply(
        call,
        ToolReply::AskQuestion(AskQuestionReply {
            question_id,
            status,
            answer,
            from,
            note: None,
        }),
    )
}

fn delivered(call: CallId, question_id: QuestionId, delivered: AnswerDelivery) -> AfterCommit {
    AfterCommit::tool_reply(
        call,
        ToolReply::AnswerQuestion(AnswerQuestionReply {
            question_id,
            delivered,
        }),
    )
}
