//! Questions that an agent asks and another agent or a person answers.

use std::time::Duration;

use fugue_api::{
    Error, ErrorKind, EventId, QuestionId, ToolReply,
    inbox_event::InboxEvent,
    tools::{
        AnswerDelivery, AnswerQuestion, AnswerQuestionReply, AskQuestion, AskQuestionReply,
        QuestionStatus,
    },
    wire::{CallerIdentity, IdempotencyKey},
};

use super::{CallerInboxes, Team};
use crate::{
    AfterCommit, CallId, Change, Counter, InboxId, QuestionRecord, RecordId,
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

// The `from` of an answer that a person gives.
const PERSON: &str = "person";

// The limit of stored questions. The oldest is forgotten beyond it.
const MAX_QUESTIONS: usize = 1_000;

impl AnswerWaiter {
    /// The reply of a question that was not answered in time.
    fn unanswered(self, question: QuestionId) -> AfterCommit {
        let status = match self.default {
            Some(_) => QuestionStatus::Default,
            None => QuestionStatus::Pending,
        };
        question_reply(self.call, question, status, self.default, None)
    }
}

impl Planner<'_> {
    pub fn ask_question(&self, origin: &CallOrigin, args: AskQuestion) -> Result<Plan, Error> {
        let (call, key, who) = (origin.call, origin.key, &origin.who);
        let now = self.now;
        let until = now.since_boot + Duration::from_secs_f64(args.timeout_secs);
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
        let to = team.address(&me, args.to.as_deref(), &cx.inboxes)?;
        cx.inboxes.check_room(&to)?;
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
            CallerIdentity::Person { .. } => PERSON.to_owned(),
            CallerIdentity::Session { .. } | CallerIdentity::Worker { .. } => team.me(who).name,
        };
        Ok(Plan::new(move |core| {
            core.team.answer(call, id, from, args.answer, &mut core.cx);
        }))
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
        to: InboxId,
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
            addressee: Some(to.clone()),
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
        if let Some((oldest, question)) = forgotten {
            for waiter in question.waiters {
                cx.out.when_stored().then(waiter.unanswered(oldest));
            }
        }
        cx.out
            .set_timer(Timer::AnswerWait(waiter.call), waiter.until);
        let question = QuestionEntry {
            record,
            waiters: vec![waiter],
        };
        self.questions.insert(id, question);
        let event = InboxEvent::Question {
            from: me.name,
            question_id: id,
            body,
        };
        cx.inboxes.publish(NewEvent::new(to, event), &mut cx.out);
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
        if let Some(addressee) = &question.record.addressee {
            cx.inboxes.withdraw_question(addressee, id, &mut cx.out);
        }
        let post = NewEvent::new(
            question.record.asker.clone(),
            InboxEvent::Answer {
                question_id: id,
                from: from.clone(),
                body: text.clone(),
            },
        );
        // The answer event is leased to the first waiter, and released to the inbox if the reply does not arrive.
        let mut waiters = std::mem::take(&mut question.waiters).into_iter();
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
                out.when_stored()
                    .then(waiter.unanswered(question.record.id));
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
