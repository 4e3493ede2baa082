//! Messages, and the typing of messages into the panes of workers.

use fugue_api::{
    Error, EventId, PaneId, ToolReply,
    inbox_event::InboxEvent,
    tools::{DeliveryStatus, MessageDelivery, SendMessage, SendMessageReply},
};

use super::{Team, WorkerEntry};
use crate::{
    AfterCommit, CallId, Effect, EventRecord,
    calls::{
        CallOrigin,
        plan::{Plan, Planner},
    },
    context::{Context, StepBuilder},
    inbox::NewEvent,
};

impl Planner<'_> {
    pub fn send_message(&self, origin: &CallOrigin, args: SendMessage) -> Result<Plan, Error> {
        let (call, key, who) = (origin.call, origin.key, &origin.who);
        let (cx, team) = (&self.core.cx, &self.core.team);
        if let Some(event) = cx.inboxes.event_created_by(key) {
            let was_typed = |record: &EventRecord| record.to_type && record.taken;
            let delivered = match cx.inboxes.get(event).is_some_and(was_typed) {
                true => DeliveryStatus::Typed,
                false => DeliveryStatus::Queued,
            };
            return Ok(Plan::when_stored(sent(call, event, delivered, None)));
        }
        let me = team.me(who);
        let to = team.address(&me, args.to.as_deref(), &cx.inboxes)?;
        cx.inboxes.check_room(&to)?;
        let event = InboxEvent::Message {
            from: me.name,
            body: args.body,
        };
        let mut to_type =
            args.deliver == MessageDelivery::Type && !cx.inboxes.has_waiter_for(&to, &event);
        let mut workers = team.workers.values();
        let worker = workers.find(|worker| worker.record.inbox() == to);
        let number = worker.map(|worker| worker.record.number);
        if to_type && number.is_none() {
            return Err(Error::invalid(
                "deliver: `type` is for workers, which have a pane; this is a lead's inbox",
            )
            .hint("leave `deliver` out"));
        }
        let mut note = None;
        if let Some(worker) = worker.filter(|worker| to_type && !worker.record.has_input_box()) {
            to_type = false;
            note = Some(format!(
                "worker `{}` runs a shell command and has no input box, so nothing is typed; the message is in its inbox",
                worker.record.id
            ));
        }
        let post = NewEvent {
            inbox: to,
            event,
            made_by: Some(key),
            to_type,
            dropped_events: 0,
        };
        Ok(Plan::new(move |core| {
            let event = core.cx.inboxes.publish(post, &mut core.cx.out);
            match number.filter(|_| to_type) {
                Some(number)
                    if core
                        .team
                        .type_next_message(number, Some((call, event)), &mut core.cx) => {}
                _ => {
                    let worker = number.filter(|_| to_type);
                    let worker = worker.and_then(|number| core.team.workers.get(&number));
                    let reason = worker.and_then(WorkerEntry::message_obstacle);
                    core.cx.out.when_stored().then(sent(
                        call,
                        event,
                        DeliveryStatus::Queued,
                        note.or(reason),
                    ));
                }
            }
        }))
    }
}

impl Team {
    /// Waits for the pane of a worker to be idle if a message is to be typed. Returns `true` if the sender in `asked` is
    /// answered when the outcome is known, which may be after another message.
    pub(super) fn type_next_message(
        &mut self,
        number: u64,
        asked: Option<(CallId, EventId)>,
        cx: &mut Context,
    ) -> bool {
        let Some(worker) = self.workers.get_mut(&number) else {
            return false;
        };
        let waits = cx.inboxes.next_to_type(&worker.record.inbox()).is_some();
        let Some(turn_end) = worker.takes_prompts() else {
            return false;
        };
        // The pane may wait already, with a weaker proof that the turn has ended, or since before the obstacle that the
        // sender is informed of.
        let is_awaited = worker.awaited == Some(turn_end) && asked.is_none();
        if !waits || is_awaited {
            return false;
        }
        worker.senders.extend(asked);
        if worker.typing.is_none() {
            worker.awaited = Some(turn_end);
            cx.out.perform(Effect::AwaitIdle {
                pane: worker.record.pane,
                turn_end,
            });
        }
        asked.is_some()
    }

    /// Types the next message into a pane that is idle, or answers the senders that the message is queued.
    pub fn idle_reported(&mut self, pane: PaneId, rest: IdleState, cx: &mut Context) {
        let Some(worker) = self
            .workers
            .values_mut()
            .find(|worker| worker.record.pane == pane && worker.awaited.is_some())
        else {
            return;
        };
        if let IdleState::NotYet(why) = rest {
            return worker.answer_senders(why.as_deref(), &mut cx.out);
        }
        worker.awaited = None;
        let record = cx.inboxes.next_to_type(&worker.record.inbox());
        let Some((event, from, body)) = record.and_then(|record| match &record.event {
            InboxEvent::Message { from, body } => Some((record.id, from, body)),
            _ => None,
        }) else {
            // The worker has received the message by `wait_for_event`.
            return worker.answer_senders(None, &mut cx.out);
        };
        worker.typing = Some(event);
        worker.prompted = false;
        cx.out.when_stored().then(AfterCommit::TypeMessage {
            pane,
            event,
            // The prefix keeps an agent from reading a leading `/` or `!` as its own command.
            text: format!("Message from {from}: {body}"),
        });
        cx.inboxes.lease_for_typing(event);
    }

    /// Repeats the request for idleness that was lost with the task of a worker's pane. Whether a message was typed that the
    /// task was typing is unknown; it stays in the inbox.
    pub fn pane_task_replaced(&mut self, pane: PaneId, cx: &mut Context) {
        let mut workers = self.workers.values_mut();
        let Some(worker) = workers.find(|worker| {
            worker.record.pane == pane && (worker.awaited.is_some() || worker.typing.is_some())
        }) else {
            return;
        };
        worker.awaited = None;
        if let Some(event) = worker.typing {
            return self.message_typed(pane, event, TypingOutcome::Refused, cx);
        }
        let number = worker.record.number;
        self.type_next_message(number, None, cx);
        if let Some(worker) = self.workers.get_mut(&number)
            && worker.awaited.is_none()
        {
            worker.answer_senders(None, &mut cx.out);
        }
    }

    /// Acks a message that was typed, or releases it.
    pub fn message_typed(
        &mut self,
        pane: PaneId,
        event: EventId,
        how: TypingOutcome,
        cx: &mut Context,
    ) {
        let Some(worker) = self
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
            TypingOutcome::Submitted => DeliveryStatus::Submitted,
            TypingOutcome::Typed => DeliveryStatus::Typed,
            TypingOutcome::Waits(_) | TypingOutcome::Refused => DeliveryStatus::Queued,
        };
        let reason = match &how {
            TypingOutcome::Waits(why) => why.clone(),
            TypingOutcome::Refused | TypingOutcome::Typed | TypingOutcome::Submitted => None,
        };
        match how {
            TypingOutcome::Waits(_) => cx.inboxes.release(event, &mut cx.out),
            TypingOutcome::Refused => {
                cx.inboxes.release(event, &mut cx.out);
                cx.inboxes.skip_typing(event, &mut cx.out);
            }
            TypingOutcome::Typed | TypingOutcome::Submitted => {
                // The hooks of a fast agent may have reported the prompt, and even the end of the turn, before this.
                if !worker.prompted {
                    worker.begin_turn(cx);
                }
                cx.inboxes.ack(event, &mut cx.out);
            }
        }
        if let Some((call, event)) = sender {
            cx.out
                .when_stored()
                .then(sent(call, event, delivered, reason.clone()));
        }
        self.type_next_message(number, None, cx);
        if let Some(worker) = self.workers.get_mut(&number)
            && worker.awaited.is_none()
        {
            worker.answer_senders(reason.as_deref(), &mut cx.out);
        }
    }
}

/// Whether something may be typed into an agent's pane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdleState {
    /// The agent works, or shows something that takes no message (with the reason). Reported again when idle.
    NotYet(Option<String>),
    Now,
}

/// The proof that a turn has ended, needed before a message is typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnEnd {
    /// The worker has reported, or its agent has no hooks.
    Reported,
    /// No report since the last prompt. Agents have no hook for a turn that a person refused or interrupted, so the screen
    /// decides.
    Unknown,
}

/// The outcome of typing a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypingOutcome {
    /// Not typed: the pane is not idle, or shows something that takes no message (with the reason).
    Waits(Option<String>),
    /// Typed, without proof that the agent has taken it.
    Typed,
    Submitted,
    /// The pane ended, or the outcome is unknown. The message stays in the inbox.
    Refused,
}

fn sent(
    call: CallId,
    event_id: EventId,
    delivered: DeliveryStatus,
    reason: Option<String>,
) -> AfterCommit {
    AfterCommit::tool_reply(
        call,
        ToolReply::SendMessage(SendMessageReply {
            event_id,
            delivered,
            reason,
        }),
    )
}

impl WorkerEntry {
    /// Why no message is typed, whatever the pane shows.
    fn message_obstacle(&self) -> Option<String> {
        if let Some(asks) = &self.record.asks {
            return Some(format!("it waits for a person: {}", asks.prompt));
        }
        let is_starting = !self.record.is_over() && self.takes_prompts().is_none();
        is_starting.then(|| "it has not taken its first prompt yet".to_owned())
    }

    /// Answers all waiting senders that their messages are queued.
    pub(super) fn answer_senders(&mut self, why: Option<&str>, out: &mut StepBuilder) {
        let reason = || why.map(str::to_owned);
        for (call, event) in self.senders.drain(..) {
            out.when_stored()
                .then(sent(call, event, DeliveryStatus::Queued, reason()));
        }
    }
}

#[cfg(test)]
mod tests {
    use fugue_api::{
        ToolCall,
        wire::{CallerIdentity, HookReport, Request},
    };
    use serde_json::json;

    use super::*;
    use crate::{
        CoreInput, PaneEvent, WorkerLaunch,
        core::tests::{Story, opened},
        settings::Settings,
    };

    fn lead() -> CallerIdentity {
        CallerIdentity::Session { id: "lead".into() }
    }

    fn agent() -> CallerIdentity {
        CallerIdentity::Worker {
            session: "lead".into(),
            agent: "w-claude".into(),
            pane: Some(PaneId(1)),
        }
    }

    /// A worker whose agent has hooks and was given its prompt.
    fn story() -> Story {
        let mut story = Story::new(Settings::default());
        story.speaks(lead());
        let args = json!({"name": "w", "prompt": "go", "agent": "claude"});
        let spawn = ToolCall::parse("spawn_worker", args).expect("a good request");
        story.ask(1, 1, "", spawn);
        let ready = WorkerLaunch {
            argv: vec!["claude".into()],
            env: Default::default(),
            cwd: "/".into(),
            branch: None,
            hooks: true,
            repo: None,
            note: None,
        };
        let outcome = Ok(ready);
        story.step(CoreInput::WorkerPrepared { worker: 1, outcome });
        assert!(story.fact(1, opened()).ends_with("answer 1"));
        tells(&mut story, 2, HookReport::PromptGiven);
        story
    }

    fn tells(story: &mut Story, call: u64, report: HookReport) -> String {
        story.speaks(agent());
        let said = story.ask_for(call, Request::Hook { report });
        story.speaks(lead());
        said
    }

    fn through() -> HookReport {
        HookReport::TurnEnded {
            message: "done".into(),
        }
    }

    fn ends_turn(story: &mut Story, call: u64) {
        let said = tells(story, call, through());
        assert!(said.contains("work out 1"), "{said}");
        let found = crate::CompletionDetails::default();
        story.step(CoreInput::ChangesCollected { worker: 1, found });
    }

    fn send(story: &mut Story, call: u64) -> String {
        let args = json!({"to": "w-claude", "body": "more", "deliver": "type"});
        let message = ToolCall::parse("send_message", args).expect("a good request");
        story.ask(call, call as u8, "", message)
    }

    fn rests(story: &mut Story, rest: IdleState) -> String {
        story.fact(1, PaneEvent::IdleReport(rest))
    }

    fn typed(story: &mut Story, event: u64, how: TypingOutcome) -> String {
        let event = EventId(event);
        story.fact(1, PaneEvent::MessageTyped { event, how })
    }

    #[test]
    fn a_message_to_be_typed_stays_in_the_inbox_of_a_shell_command() {
        let mut story = Story::new(Settings::default());
        story.speaks(lead());
        let args = json!({"name": "w", "prompt": "cat", "agent": "shell"});
        let spawn = ToolCall::parse("spawn_worker", args).expect("a good request");
        story.ask(1, 1, "", spawn);
        let ready = WorkerLaunch {
            argv: vec!["bash".into()],
            env: Default::default(),
            cwd: "/".into(),
            branch: None,
            hooks: false,
            repo: None,
            note: None,
        };
        let outcome = Ok(ready);
        story.step(CoreInput::WorkerPrepared { worker: 1, outcome });
        story.fact(1, opened());
        let args = json!({"to": "w-shell", "body": "touch x", "deliver": "type"});
        let message = ToolCall::parse("send_message", args).expect("a good request");
        let said = story.ask(2, 2, "", message);
        assert!(said.starts_with("commit 2, sent 2 e1 Queued: "), "{said}");
        assert!(said.contains("no input box"), "{said}");
        assert_eq!(
            rests(&mut story, IdleState::Now),
            "",
            "nothing is ever typed"
        );
    }

    #[test]
    fn an_agent_that_is_through_before_its_pane_has_told_takes_the_next_message() {
        let mut story = story();
        ends_turn(&mut story, 3);
        assert_eq!(send(&mut story, 4), "await rest of p1, commit 2");
        assert_eq!(rests(&mut story, IdleState::Now), "type e2 into p1");
        tells(&mut story, 5, HookReport::PromptGiven);
        ends_turn(&mut story, 6);
        // Its sender hears of it too, behind the one that is still being typed.
        assert_eq!(send(&mut story, 7), "commit 2");
        let said = typed(&mut story, 2, TypingOutcome::Submitted);
        assert_eq!(said, "await rest of p1, commit 1, sent 4 e2 Submitted");
        assert_eq!(rests(&mut story, IdleState::Now), "type e4 into p1");
        let said = typed(&mut story, 4, TypingOutcome::Submitted);
        assert_eq!(said, "commit 2, sent 7 e4 Submitted");
    }

    #[test]
    fn a_sender_behind_a_message_that_made_work_waits_no_longer() {
        let mut story = story();
        ends_turn(&mut story, 3);
        send(&mut story, 4);
        rests(&mut story, IdleState::Now);
        assert_eq!(send(&mut story, 5), "commit 2");
        let said = typed(&mut story, 2, TypingOutcome::Submitted);
        assert_eq!(said, "await rest of p1, commit 2, sent 4 e2 Submitted");
        assert_eq!(
            rests(&mut story, IdleState::NotYet(None)),
            "sent 5 e3 Queued"
        );
        // When the turn is over, less is needed to see that it rests.
        let said = tells(&mut story, 6, through());
        assert_eq!(said, "work out 1, await rest of p1, commit 1, answer 6");
    }

    #[test]
    fn an_agent_that_says_nothing_is_looked_at() {
        let mut story = story();
        assert_eq!(send(&mut story, 3), "await rest of p1, commit 2");
        assert_eq!(
            rests(&mut story, IdleState::NotYet(None)),
            "sent 3 e1 Queued"
        );
        // A person interrupted it, say.
        assert_eq!(rests(&mut story, IdleState::Now), "type e1 into p1");
    }

    #[test]
    fn news_of_a_turn_count_once_also_for_the_next_daemon() {
        let mut story = story();
        ends_turn(&mut story, 3);
        tells(&mut story, 4, HookReport::PromptGiven);
        ends_turn(&mut story, 5);
        story.restart();
        for (call, news) in [(3, through()), (4, HookReport::PromptGiven), (5, through())] {
            let said = tells(&mut story, call, news);
            assert_eq!(said, format!("answer {call}"));
        }
    }
}
