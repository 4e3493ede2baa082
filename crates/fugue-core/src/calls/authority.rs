//! Authority: the only table of rights. Every call is checked against the table in planning, so that a refused call changes
//! nothing.
//!
//! `docs/security.md` describes the same table.

#[cfg(test)]
mod tests;

use fugue_api::{
    Error, PaneId, ToolCall,
    attach::{AttachRequest, ViewerRole},
    tools::{
        AnswerQuestion, CancelRun, ExpectAction, MessageDelivery, NotifyCompletion, SendInput,
        SendMessage,
    },
    wire::{CallerEnv, CallerIdentity, Request},
};

use crate::{InboxId, calls::plan::Planner, context::Context, panes::PaneEntry, workers::Team};

/// The role of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallerRole {
    Person,
    /// A named or project session.
    Lead,
    Worker,
}

/// The right to a pane that a call needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PaneRight {
    /// Status, output, expect.
    Read,
    /// Input of every kind: text, keys, steps, messages that are typed.
    Type,
    /// Watchers: begin, report to, pause, clear.
    Watch,
    /// Close and resize.
    Manage,
}

/// The owner of a pane, relative to a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PaneOwner {
    /// Opened by the caller or a worker below the caller, or the pane where one of these runs.
    Own,
    Person,
    /// Another lead or worker.
    Other,
}

/// The recipient of a message or a question, relative to its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MessageTarget {
    /// A direct or indirect worker of the sender.
    Below,
    Lead,
    /// Another worker of the same lead.
    Sibling,
    Other,
}

impl CallerRole {
    fn from_identity(who: &CallerIdentity) -> Self {
        match who {
            CallerIdentity::Person { .. } => Self::Person,
            CallerIdentity::Session { .. } => Self::Lead,
            CallerIdentity::Worker { .. } => Self::Worker,
        }
    }

    fn may(self, right: PaneRight, owner: PaneOwner) -> bool {
        use PaneOwner as Owner;
        use PaneRight as Right;
        match (self, owner, right) {
            (Self::Person, _, _) | (_, Owner::Own, _) | (_, _, Right::Read) => true,
            (Self::Lead, Owner::Person, Right::Type | Right::Watch) => true,
            (Self::Lead, Owner::Person, Right::Manage) | (Self::Lead, Owner::Other, _) => false,
            (Self::Worker, Owner::Person | Owner::Other, _) => false,
        }
    }

    fn may_write_to(self, receiver: MessageTarget) -> bool {
        match (self, receiver) {
            (Self::Person | Self::Lead, _) => true,
            (Self::Worker, MessageTarget::Below | MessageTarget::Lead | MessageTarget::Sibling) => {
                true
            }
            (Self::Worker, MessageTarget::Other) => false,
        }
    }
}

impl PaneRight {
    fn verb(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Type => "type into",
            Self::Watch => "watch",
            Self::Manage => "close or resize",
        }
    }
}

impl Team {
    /// The identity of a caller: the claimed one, unless the process runs in the pane of an agent or in a pane that an
    /// agent opened. Then the identity is that agent, or a worker below the agent.
    pub fn identify(
        &self,
        within: Option<PaneId>,
        claimed: CallerIdentity,
        cx: &Context,
    ) -> Result<CallerIdentity, Error> {
        let occupant = within.and_then(|pane| Some((pane, self.occupant(pane, cx)?)));
        let Some((pane, agent)) = occupant else {
            return Ok(claimed);
        };
        let own = self.me(&agent).inbox;
        let inbox = self.me(&claimed).inbox;
        let (session, name) = match &claimed {
            CallerIdentity::Person { .. } => return Ok(agent),
            _ if inbox == own => return Ok(agent),
            _ if inbox.is_below(&own) => return Ok(claimed),
            CallerIdentity::Session { id } => (InboxId(id.clone()), id),
            CallerIdentity::Worker { session, agent, .. } => (InboxId(session.clone()), agent),
        };
        if !self.is_somebody(&session, cx) {
            // An unknown agent that this agent has started without `spawn_worker`.
            return Ok(CallerIdentity::Worker {
                session: own.0,
                agent: name.clone(),
                pane: None,
            });
        }
        Err(Error::denied(format!(
            "a process in pane `{pane}` is {}, and cannot speak for {}",
            described(&agent),
            described(&claimed),
        ))
        .hint("leave FUGUE_SESSION_ID, FUGUE_AGENT_ID, FUGUE_SESSION and `--session` as they are"))
    }

    /// The agent of a pane: the worker that runs in the pane, else the agent that opened the pane.
    fn occupant(&self, pane: PaneId, cx: &Context) -> Option<CallerIdentity> {
        if let Some(worker) = self.worker_in(pane) {
            return Some(CallerIdentity::Worker {
                session: worker.lead.0.clone(),
                agent: worker.id.clone(),
                pane: Some(pane),
            });
        }
        cx.panes.get(&pane)?.record.opened_by.clone()
    }

    fn is_somebody(&self, session: &InboxId, cx: &Context) -> bool {
        let opened = |who: &CallerIdentity| self.me(who).inbox == *session;
        let records = cx.panes.records();
        let mut openers = records.filter_map(|record| record.opened_by.as_ref());
        self.has_session(session, &cx.inboxes) || openers.any(opened)
    }
}

/// Refuses to stop the daemon for a caller that is not a person.
pub(crate) fn authorize_stop(who: &CallerIdentity) -> Result<(), Error> {
    only_person(who, "stop the daemon", "it ends the calls of everybody")
}

/// Refuses to read the settings again for a caller that is not a person.
pub(crate) fn authorize_reload(who: &CallerIdentity) -> Result<(), Error> {
    only_person(who, "reload the settings", "they hold for everybody")
}

impl Planner<'_> {
    /// Refuses a call that the caller has no right to make. Panes and recipients that do not exist are refused by the plan.
    pub fn authorize(
        &self,
        who: &CallerIdentity,
        caller: &CallerEnv,
        ask: &Request,
    ) -> Result<(), Error> {
        match ask {
            Request::Tool { call } => self.authorize_tool(who, caller, call),
            Request::Attach { request } => self.authorize_attach(who, request),
            Request::Resize { pane, .. } => self.may(who, PaneRight::Manage, pane),
            Request::Follow { pane, .. } => self.may(who, PaneRight::Read, pane),
            Request::AckEvent { event } => self.may_take(who, *event),
            Request::CollectGarbage { dry_run: false, .. } => only_person(
                who,
                "remove what ended panes have left",
                "it forgets panes of others",
            ),
            Request::Worktrees { request } if request.removes() => only_person(
                who,
                "remove a worktree",
                "it may hold the only copy of somebody's work",
            ),
            Request::DaemonStop { .. } => authorize_stop(who),
            Request::ReloadSettings => authorize_reload(who),
            // Status is readable by all callers; the inbox, the questions and the hook are the caller's own.
            Request::CollectGarbage { dry_run: true, .. }
            | Request::Overview
            | Request::TmuxPanes
            | Request::Worktrees { .. }
            | Request::RunProgress { .. }
            | Request::Inbox { .. }
            | Request::Questions { .. }
            | Request::Hook { .. }
            | Request::DaemonStatus
            | Request::Settings => Ok(()),
        }
    }

    fn authorize_tool(
        &self,
        who: &CallerIdentity,
        caller: &CallerEnv,
        request: &ToolCall,
    ) -> Result<(), Error> {
        let watch = |said: Option<&str>| match self.window(who, caller, said) {
            Ok(pane) => self.may(who, PaneRight::Watch, &pane.to_string()),
            Err(_) => Ok(()),
        };
        match request {
            ToolCall::SendInput(args) => {
                check_force(who, args)?;
                self.may(who, PaneRight::Type, &args.pane_id)
            }
            ToolCall::ClosePane(args) => self.may(who, PaneRight::Manage, &args.pane_id),
            ToolCall::ReadPane(args) => self.may(who, PaneRight::Read, &args.pane_id),
            ToolCall::RunExpect(args) => {
                let right = match args.action {
                    ExpectAction::ClosePane => PaneRight::Manage,
                    ExpectAction::Notify | ExpectAction::ReturnOutput => PaneRight::Read,
                };
                self.may(who, right, &args.pane_id)
            }
            ToolCall::RunPipeline(args) => match &args.pane_id {
                Some(pane) => self.may(who, PaneRight::Type, pane),
                None => Ok(()),
            },
            ToolCall::WatchMe(args) => watch(args.tmux_window.as_deref()),
            ToolCall::LookMa(args) => watch(args.tmux_window.as_deref()),
            ToolCall::Pause(args) => watch(args.tmux_window.as_deref()),
            ToolCall::Clear(args) => watch(args.tmux_window.as_deref()),
            ToolCall::CancelRun(args) => self.may_cancel(who, args),
            ToolCall::SendMessage(args) => self.may_send(who, args),
            ToolCall::AskQuestion(args) if args.is_for_a_person() => Ok(()),
            ToolCall::AskQuestion(args) => self.may_write(who, args.to.as_deref()),
            ToolCall::AnswerQuestion(args) => self.may_answer(who, args),
            ToolCall::NotifyCompletion(args) => self.may_complete(who, args),
            // These create something of the caller's own, or return data that all callers may read.
            ToolCall::CreatePane(_)
            | ToolCall::RunParallel(_)
            | ToolCall::SpawnWorker(_)
            | ToolCall::GetStatus(_)
            | ToolCall::WaitForRun(_)
            | ToolCall::WaitForEvent(_) => Ok(()),
        }
    }

    fn authorize_attach(&self, who: &CallerIdentity, request: &AttachRequest) -> Result<(), Error> {
        match request {
            AttachRequest::Type { pane, .. }
            | AttachRequest::ConnectPane {
                pane,
                role: ViewerRole::Interactive,
            } => self.may(who, PaneRight::Type, &pane.to_string()),
            // Both requests change the sizes of all panes of a session.
            AttachRequest::JoinSession {
                session,
                role: ViewerRole::Interactive,
                ..
            }
            | AttachRequest::ChangeLayout { session, .. } => {
                let panes = self.records().filter(|record| record.ended.is_none());
                let mut panes = panes.filter(|record| record.session == *session);
                panes
                    .try_for_each(|record| self.may(who, PaneRight::Manage, &record.id.to_string()))
            }
            AttachRequest::JoinSession {
                role: ViewerRole::ReadOnly,
                ..
            }
            | AttachRequest::ConnectPane {
                role: ViewerRole::ReadOnly,
                ..
            }
            | AttachRequest::SetSize { .. }
            | AttachRequest::GetLayout { .. }
            | AttachRequest::GetFrame { .. }
            | AttachRequest::StreamFrames { .. }
            | AttachRequest::ReadLines { .. }
            | AttachRequest::WatchOverview { .. } => Ok(()),
        }
    }

    fn may(&self, who: &CallerIdentity, right: PaneRight, said: &str) -> Result<(), Error> {
        let Ok(pane) = self.resolve(said) else {
            return Ok(());
        };
        if CallerRole::from_identity(who).may(right, self.owner(who, pane)) {
            return Ok(());
        }
        let id = pane.record.id;
        let whose = match (self.core.team.worker_in(id), &pane.record.opened_by) {
            (Some(worker), _) => format!(
                "in which worker `{}` of `{lead}` runs; that worker, `{lead}`",
                worker.id,
                lead = worker.lead
            ),
            (None, Some(agent)) => {
                format!("which {agent} opened; {agent}", agent = described(agent))
            }
            (None, None) => "which a person opened; a lead may type there and watch it".to_owned(),
        };
        Err(Error::denied(format!(
            "{} may not {} pane `{id}`, {whose}, and a person may",
            described(who),
            right.verb(),
        ))
        .hint(match who {
            CallerIdentity::Worker { .. } => "`read_pane` and `fugue_expect` work in every pane; `ask_question` asks your lead",
            _ => "`read_pane` and `fugue_expect` work in every pane; `send_message` reaches other sessions",
        }))
    }

    fn owner(&self, who: &CallerIdentity, pane: &PaneEntry) -> PaneOwner {
        let team = &self.core.team;
        let own = team.me(who).inbox;
        let is_own = |inbox: &InboxId| *inbox == own || inbox.is_below(&own);
        let opener = pane.record.opened_by.as_ref();
        let runs_in_it = team.worker_in(pane.record.id);
        if runs_in_it.is_some_and(|worker| is_own(&worker.inbox()))
            || opener.is_some_and(|opener| is_own(&team.me(opener).inbox))
        {
            PaneOwner::Own
        } else if opener.is_none() && runs_in_it.is_none() {
            PaneOwner::Person
        } else {
            PaneOwner::Other
        }
    }

    /// Refuses to cancel a run without the right to close a pane of its owner.
    fn may_cancel(&self, who: &CallerIdentity, args: &CancelRun) -> Result<(), Error> {
        let runs = &self.core.runs;
        let Ok(id) = runs.run_named(&args.run_id) else {
            return Ok(());
        };
        let own = self.core.team.me(who).inbox;
        let starter = runs.all.get(&id).and_then(|run| run.record.owner.as_ref());
        let owner = match starter {
            Some(inbox) if *inbox == own || inbox.is_below(&own) => PaneOwner::Own,
            Some(_) => PaneOwner::Other,
            None => PaneOwner::Person,
        };
        if CallerRole::from_identity(who).may(PaneRight::Manage, owner) {
            return Ok(());
        }
        let whose = match starter {
            Some(inbox) => {
                format!("which `{inbox}` started; `{inbox}`, its leads, and a person may")
            }
            None => "which a person started; only a person may".to_owned(),
        };
        Err(Error::denied(format!(
            "run_id: {} may not cancel run `{id}`, {whose}",
            described(who)
        ))
        .hint("`fugue_wait` returns the result of every run; `send_message` reaches its owner"))
    }

    fn may_take(&self, who: &CallerIdentity, event: fugue_api::EventId) -> Result<(), Error> {
        let team = &self.core.team;
        let own = team.me(who).inbox;
        let event_record = self.core.cx.inboxes.get(event);
        let is_own = event_record.is_none_or(|record| record.inbox == own);
        if is_own || CallerRole::from_identity(who) == CallerRole::Person {
            return Ok(());
        }
        Err(Error::denied(format!(
            "event `{event}` is not in the inbox of {}",
            described(who)
        )))
    }

    fn may_send(&self, who: &CallerIdentity, args: &SendMessage) -> Result<(), Error> {
        self.may_write(who, args.to.as_deref())?;
        let team = &self.core.team;
        let Ok(to) = team.address(&team.me(who), args.to.as_deref(), &self.core.cx.inboxes) else {
            return Ok(());
        };
        match (args.deliver, team.worker_with(&to)) {
            (MessageDelivery::Type, Some(worker)) => {
                let typed = self.may(who, PaneRight::Type, &worker.pane.to_string());
                typed.map_err(|error| {
                    error.hint("leave `deliver` out: the message then waits in the inbox")
                })
            }
            (MessageDelivery::Type, None) | (MessageDelivery::Inbox, _) => Ok(()),
        }
    }

    fn may_write(&self, who: &CallerIdentity, to: Option<&str>) -> Result<(), Error> {
        let team = &self.core.team;
        let me = team.me(who);
        let Ok(to) = team.address(&me, to, &self.core.cx.inboxes) else {
            return Ok(());
        };
        let receiver = if to.is_below(&me.inbox) {
            MessageTarget::Below
        } else if me.parent.as_ref() == Some(&to) {
            MessageTarget::Lead
        } else if me.parent.is_some() && to.lead() == me.parent {
            MessageTarget::Sibling
        } else {
            MessageTarget::Other
        };
        if CallerRole::from_identity(who).may_write_to(receiver) {
            return Ok(());
        }
        Err(Error::denied(format!(
            "to: {} writes to its lead, its lead's workers and its own; `{to}` is none of them",
            described(who)
        ))
        .hint("tell your lead, who can pass it on"))
    }

    fn may_answer(&self, who: &CallerIdentity, args: &AnswerQuestion) -> Result<(), Error> {
        let team = &self.core.team;
        let Some(question) = team.question(args.question_id) else {
            return Ok(());
        };
        let is_person = CallerRole::from_identity(who) == CallerRole::Person;
        let id = question.id;
        if question.person_at.is_some() {
            return match is_person {
                true => Ok(()),
                false => Err(Error::denied(format!(
                    "question_id: `{id}` was put to a person; {} may not answer it, only a person may",
                    described(who)
                ))
                .hint(format!("a person answers with `fugue answer {id} TEXT`"))),
            };
        }
        let own = team.me(who).inbox;
        let addressee = question.addressee.clone().or_else(|| question.asker.lead());
        let is_addressee = addressee
            .as_ref()
            .is_some_and(|to| *to == own || to.is_below(&own));
        let is_asker = question.asker == own;
        if is_person || (is_addressee && !is_asker) {
            return Ok(());
        }
        let addressee = addressee.map_or_else(|| "a person".to_owned(), |to| format!("`{to}`"));
        Err(Error::denied(format!(
            "question_id: `{id}` was put to {addressee}; {} may not answer it, only {addressee}, whoever leads it, and a \
             person",
            described(who)
        ))
        .hint("`send_message` tells the asker or the lead what you know"))
    }

    fn may_complete(&self, who: &CallerIdentity, args: &NotifyCompletion) -> Result<(), Error> {
        let (session, worker) = (args.session_id.as_deref(), args.worker_id.as_deref());
        let is_allowed = match who {
            CallerIdentity::Person { .. } => true,
            CallerIdentity::Worker {
                session: own,
                agent,
                ..
            } => {
                session.is_none_or(|session| session == own)
                    && worker.is_none_or(|worker| worker == agent)
            }
            // An agent that was not spawned by fugue names itself in the arguments.
            CallerIdentity::Session { .. } => match (session, worker) {
                (Some(session), Some(worker)) => {
                    let lead = InboxId(session.to_owned());
                    !self.core.team.has_spawned(&lead, worker)
                }
                _ => true,
            },
        };
        if is_allowed {
            return Ok(());
        }
        Err(Error::denied(format!(
            "worker_id: {} may not report the completion of worker `{}` of `{}`; that worker and a person may",
            described(who),
            worker.unwrap_or("?"),
            session.unwrap_or("its lead"),
        ))
        .hint("leave `session_id` and `worker_id` out to report your own; `send_message` tells anything else"))
    }
}

fn check_force(who: &CallerIdentity, args: &SendInput) -> Result<(), Error> {
    if !args.force {
        return Ok(());
    }
    only_person(
        who,
        "pass `force`",
        "it types into a line that a person has begun",
    )
}

fn only_person(who: &CallerIdentity, act: &str, because: &str) -> Result<(), Error> {
    match CallerRole::from_identity(who) {
        CallerRole::Person => Ok(()),
        CallerRole::Lead | CallerRole::Worker => Err(Error::denied(format!(
            "{} may not {act}: {because}; only a person may",
            described(who)
        ))
        .hint("nothing was done; leave that to a person")),
    }
}

fn described(who: &CallerIdentity) -> String {
    match who {
        CallerIdentity::Person { .. } => "a person".to_owned(),
        CallerIdentity::Session { id } => format!("session `{id}`"),
        CallerIdentity::Worker { session, agent, .. } => format!("worker `{agent}` of `{session}`"),
    }
}
