//! What callers ask: checked, and turned into effects or into somebody who waits.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use fugue_api::{
    Error, ErrorKind, PaneId, SessionName, ToolCall, ToolReply,
    overview::{Overview, SessionRow, TmuxRow},
    pane_state::{PaneState, SourcedState, StateSource},
    tools::{CreatePane, GetStatus, GetStatusReply, PaneSize, PaneStatus, ReadPane, SendInput},
    wire::{CallerEnv, CallerIdentity, IdempotencyKey, Request, Response},
};

use super::{
    Core, PaneEntry, PanePhase,
    forget::ForgetScope,
    plan::{Plan, Planner},
    rows::{closed, created, default_name, ended_state, put, row_of, status_of},
    runs::StartCall,
    team::SpawnCall,
    tmux,
    watch::WatchCall,
};
use crate::{
    CallId, CallRequest, Change, ClockReading, Effect, LaunchEnv, PaneJob, PaneRecord, PaneRequest,
    StartTarget, TmuxLookup, Undo, result,
};

impl Core {
    /// Plans a call and then applies the plan. A refused call changes nothing.
    pub(super) fn call(
        &mut self,
        call: CallId,
        mut asked: CallRequest,
        now: ClockReading,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Error> {
        asked.who = self.identify(asked.within, asked.who)?;
        let mut elsewhere = Vec::new();
        let mut discovered = None;
        match std::mem::take(&mut asked.tmux) {
            TmuxLookup::None => {}
            TmuxLookup::One(found) => {
                let found = (*found)?;
                let id = self.met(&found).unwrap_or_else(|| {
                    let pane = self.discovered(found, asked.key, now);
                    discovered.insert(pane).record.id
                });
                asked.ask.set_pane(id);
            }
            TmuxLookup::All(found) => elsewhere = self.unmet(found),
        }
        let planner = Planner {
            core: self,
            discovered: discovered.as_ref(),
            now,
        };
        planner.authorize(&asked.who, &asked.caller, &asked.ask)?;
        let plan = planner.plan(call, asked, elsewhere)?;
        if let Some(pane) = discovered {
            self.enter_discovered(pane, effects);
        }
        plan.apply(self, effects);
        Ok(())
    }
}

impl Planner<'_> {
    fn plan(
        &self,
        call: CallId,
        asked: CallRequest,
        elsewhere: Vec<TmuxRow>,
    ) -> Result<Plan, Error> {
        let now = self.now;
        match asked.ask {
            Request::Tool { call: request } => {
                request.check()?;
                match request {
                    ToolCall::CreatePane(args) => {
                        let (key, caller, who) = (asked.key, asked.caller, asked.who);
                        // A pane that is there already needs nothing that could be refused.
                        let mut panes = self.core.panes.values();
                        if let Some(made) = panes.find(|pane| pane.record.made_by == key) {
                            let made = made.record.id;
                            return Ok(Plan::new(move |core, effects| {
                                core.asked_again(call, made, effects);
                            }));
                        }
                        self.core.starts.refuse_repeated(key)?;
                        let world = only(asked.worlds)?;
                        Ok(Plan::new(move |core, effects| {
                            core.create(call, args, world, key, caller, &who, now, effects);
                        }))
                    }
                    ToolCall::SendInput(args) => self.send(call, args, asked.key),
                    ToolCall::ReadPane(args) => self.read(call, args),
                    ToolCall::GetStatus(args) => self.status(call, args, elsewhere),
                    ToolCall::ClosePane(args) => {
                        let id = self.resolve(&args.pane_id)?.record.id;
                        let grace = Duration::from_millis(u64::from(args.grace_ms));
                        Ok(Plan::new(move |core, effects| {
                            core.close(call, id, grace, effects);
                        }))
                    }
                    ToolCall::WaitForRun(args) => self.wait(call, &args),
                    ToolCall::SpawnWorker(args) => {
                        let spawn = SpawnCall {
                            call,
                            key: asked.key,
                            who: asked.who,
                            caller: asked.caller,
                            world: only(asked.worlds),
                        };
                        self.spawn(spawn, args)
                    }
                    request @ (ToolCall::RunExpect(_)
                    | ToolCall::RunParallel(_)
                    | ToolCall::RunPipeline(_)) => {
                        let start = StartCall {
                            call,
                            key: asked.key,
                            who: asked.who,
                            caller: asked.caller,
                            worlds: asked.worlds,
                        };
                        self.start_run(start, request)
                    }
                    request @ (ToolCall::WatchMe(_)
                    | ToolCall::LookMa(_)
                    | ToolCall::Pause(_)
                    | ToolCall::Clear(_)) => {
                        let asking = WatchCall {
                            call,
                            who: asked.who,
                            caller: asked.caller,
                            worlds: asked.worlds,
                            settings: asked.watch,
                        };
                        self.watch_call(asking, request)
                    }
                    request @ (ToolCall::WaitForEvent(_)
                    | ToolCall::NotifyCompletion(_)
                    | ToolCall::SendMessage(_)
                    | ToolCall::AskQuestion(_)
                    | ToolCall::AnswerQuestion(_)) => {
                        self.team_call(call, &asked.who, asked.key, request)
                    }
                }
            }
            Request::RunNews { run, seen } => self.news(call, &run, seen),
            Request::AckEvent { event } => Ok(Plan::new(move |core, effects| {
                core.took(call, event, effects);
            })),
            Request::Inbox { after, most } => Ok(Plan::new(move |core, effects| {
                core.look_into(call, &asked.who, after, most, effects);
            })),
            Request::Hook { news } => Ok(Plan::new(move |core, effects| {
                core.hook(call, &asked.who, asked.key, news, now, effects);
            })),
            Request::Overview => Ok(Plan::new(move |core, effects| {
                core.survey(call, Bounds::None, Vec::new(), now, effects);
            })),
            Request::TmuxPanes => {
                let overview = Overview {
                    tmux: elsewhere,
                    ..Overview::default()
                };
                Ok(Plan::effect(Effect::Survey {
                    call,
                    overview,
                    live: Vec::new(),
                    bounded: false,
                }))
            }
            Request::Follow { pane, from } => {
                self.ask(call, self.resolve(&pane)?, PaneRequest::Follow { from })
            }
            Request::Resize { pane, rows, cols } => {
                let pane = self.resolve(&pane)?;
                if !(1..=1000).contains(&rows) || !(1..=1000).contains(&cols) {
                    return Err(Error::invalid(format!(
                        "size: wanted 1 to 1000 rows and columns, got {rows}×{cols}"
                    )));
                }
                pane.live()?;
                let size = PaneSize { rows, cols };
                self.ask(call, pane, PaneRequest::Resize(size))
            }
            Request::CollectGarbage { dry_run, all_ended } => {
                let scope = if all_ended {
                    ForgetScope::AllEnded
                } else {
                    ForgetScope::Limits
                };
                Ok(Plan::new(move |core, effects| {
                    core.collect_garbage(call, dry_run, scope, now, effects);
                }))
            }
            Request::Look { look } => self.look(call, asked.key, look),
            Request::DaemonStatus | Request::DaemonStop { .. } => Err(Error::new(
                ErrorKind::Internal,
                "the daemon answers for itself",
            )),
        }
    }

    fn send(&self, call: CallId, args: SendInput, key: IdempotencyKey) -> Result<Plan, Error> {
        let pane = self.resolve(&args.pane_id)?;
        pane.live()?;
        let args = Box::new(args);
        self.ask(call, pane, PaneRequest::Send { args, key })
    }

    fn read(&self, call: CallId, args: ReadPane) -> Result<Plan, Error> {
        if let Some(grep) = &args.grep {
            crate::view::compile(grep)?;
        }
        if let Some(since) = &args.since {
            crate::view::cursor(since)?;
        }
        let pane = self.resolve(&args.pane_id)?;
        let ended = pane.record.ended.as_ref().map(ended_state);
        let args = Box::new(args);
        self.ask(call, pane, PaneRequest::Read { args, ended })
    }

    fn status(
        &self,
        call: CallId,
        args: GetStatus,
        elsewhere: Vec<TmuxRow>,
    ) -> Result<Plan, Error> {
        let now = self.now;
        let Some(said) = args.pane_id else {
            return Ok(Plan::new(move |core, effects| {
                core.survey(call, Bounds::Model, elsewhere, now, effects);
            }));
        };
        let pane = self.resolve(&said)?;
        let id = pane.record.id;
        let status = PaneStatus {
            worker: self.core.worker_row(id),
            watcher: self.core.watcher_row(id),
            ..status_of(&pane.record, now)
        };
        let status = self.core.as_its_agent_says(status);
        match &pane.phase {
            PanePhase::Opening { .. } | PanePhase::Ended => {
                let reply = ToolReply::GetStatus(GetStatusReply::Pane(Box::new(status)));
                Ok(Plan::effect(Effect::Answer {
                    call,
                    answer: Ok(Response::Tool { reply }),
                }))
            }
            PanePhase::Settling { .. } | PanePhase::Live => {
                self.ask(call, pane, PaneRequest::Status(Box::new(status)))
            }
        }
    }
}

impl Core {
    #[expect(
        clippy::too_many_arguments,
        reason = "one caller; a struct would be unpacked at once"
    )]
    fn create(
        &mut self,
        call: CallId,
        args: CreatePane,
        world: LaunchEnv,
        key: IdempotencyKey,
        caller: Arc<CallerEnv>,
        who: &CallerIdentity,
        now: ClockReading,
        effects: &mut Vec<Effect>,
    ) {
        let opened_by = self.team.opener(who);
        let command = args
            .command
            .clone()
            .unwrap_or_else(|| world.shell.to_string_lossy().into_owned());
        let session = args.session.clone().or_else(|| tmux::session_of(&world));
        let record = self.new_pane(
            NewPane {
                session: session.map_or_else(SessionName::default, SessionName),
                name: args.name.clone().unwrap_or_else(|| default_name(&command)),
                command,
                size: PaneSize {
                    rows: args.rows,
                    cols: args.cols,
                },
                world: &world,
                key,
                opened_by,
                callers: vec![call],
                promised: None,
                agent: None,
            },
            now,
        );
        let mut changes = self
            .starts
            .remember(key, StartTarget::Pane(record.id), now.wall);
        changes.extend([
            Change::NextPane(self.next_pane),
            Change::Put(Box::new(record.clone())),
        ]);
        effects.push(Effect::Commit {
            changes,
            undo: Some(Undo::Pane(record.id)),
        });
        effects.push(Effect::Open {
            record: Box::new(record),
            job: args.command.map_or(PaneJob::Shell, PaneJob::Command),
            env: args.env,
            world,
            caller,
        });
    }

    /// Enters a pane that is about to be opened, under an id that was promised to it or the next one.
    pub(super) fn new_pane(&mut self, new: NewPane<'_>, now: ClockReading) -> PaneRecord {
        let id = new.promised.unwrap_or_else(|| {
            let next = PaneId(self.next_pane);
            self.next_pane += 1;
            next
        });
        let record = PaneRecord {
            id,
            session: new.session,
            name: new.name,
            command: new.command,
            cwd: new.world.cwd.to_string_lossy().into_owned(),
            size: new.size,
            created_at: now.wall,
            made_by: new.key,
            opened_by: new.opened_by,
            secret: new.world.secret.clone(),
            tmux: new.world.tmux.clone(),
            agent: new.agent,
            generation: 1,
            pid: 0,
            closing: false,
            ended: None,
            removing: false,
        };
        let phase = PanePhase::Opening {
            callers: new.callers,
        };
        let pane = PaneEntry {
            record: record.clone(),
            phase,
            closers: Vec::new(),
            alone: false,
            log_bytes: 0,
            lost_bytes: 0,
            panics: 0,
        };
        self.panes.insert(id, pane);
        record
    }

    /// The caller lost its connection while the pane was being made, and asks for the same pane.
    fn asked_again(&mut self, call: CallId, id: PaneId, effects: &mut Vec<Effect>) {
        let Some(pane) = self.panes.get_mut(&id) else {
            return;
        };
        match &mut pane.phase {
            PanePhase::Opening { callers } | PanePhase::Settling { callers, .. } => {
                callers.push(call)
            }
            PanePhase::Live => effects.push(created(&pane.record, call, None, true, None)),
            PanePhase::Ended => {
                let cursor = pane.record.ended.as_ref().map(|ended| ended.cursor.clone());
                effects.push(created(
                    &pane.record,
                    call,
                    cursor,
                    false,
                    Some("it has ended already"),
                ));
            }
        }
    }

    /// An agent that says it waits for a person knows better than its screen does.
    fn as_its_agent_says(&self, status: PaneStatus) -> PaneStatus {
        match self.agent_asks(status.pane_id) {
            Some(asks)
                if status.state.by != StateSource::Exit
                    || status.state.state == PaneState::Running =>
            {
                PaneStatus {
                    state: SourcedState {
                        prompt: Some(asks.prompt),
                        ..SourcedState::new(PaneState::NeedsInput, asks.by)
                    },
                    ..status
                }
            }
            _ => status,
        }
    }

    fn survey(
        &self,
        call: CallId,
        bounds: Bounds,
        elsewhere: Vec<TmuxRow>,
        now: ClockReading,
        effects: &mut Vec<Effect>,
    ) {
        let mut sessions: BTreeMap<&SessionName, u64> = BTreeMap::new();
        for pane in self
            .panes
            .values()
            .filter(|pane| pane.record.ended.is_none())
        {
            *sessions.entry(&pane.record.session).or_default() += 1;
        }
        let overview = Overview {
            sessions: sessions
                .into_iter()
                .map(|(session, panes)| SessionRow {
                    session: session.clone(),
                    panes,
                })
                .collect(),
            panes: self
                .panes
                .values()
                .map(|pane| row_of(&pane.record, now))
                .collect(),
            omitted_panes: 0,
            workers: self.worker_rows(),
            omitted_workers: 0,
            runs: self
                .runs
                .values()
                .map(|run| result::row(&run.record, now.moment()))
                .collect(),
            omitted_runs: 0,
            watchers: self.watcher_rows(),
            omitted_watchers: 0,
            tmux: elsewhere,
            omitted_tmux: 0,
        };
        let live = self
            .panes
            .values()
            .filter(|pane| matches!(pane.phase, PanePhase::Live | PanePhase::Settling { .. }))
            .map(|pane| pane.record.id)
            .collect();
        effects.push(Effect::Survey {
            call,
            overview,
            live,
            bounded: matches!(bounds, Bounds::Model),
        });
    }

    fn close(&mut self, call: CallId, id: PaneId, grace: Duration, effects: &mut Vec<Effect>) {
        let Some(pane) = self.panes.get_mut(&id) else {
            return;
        };
        match &pane.record.ended {
            Some(ended) if ended.closed => {
                effects.push(closed(&pane.record, call, Some("it was closed before")));
                return;
            }
            Some(_) => effects.push(Effect::Sweep { pane: id, grace }),
            None => {
                // Ending processes waits for no disk: on a full one, people close panes to make room. A holder that
                // was told to close finishes that also when this daemon dies, and leaves a record of the exit.
                effects.push(Effect::Close { pane: id, grace });
                if !pane.record.closing {
                    pane.record.closing = true;
                    effects.push(put(&pane.record));
                }
            }
        }
        pane.closers.push(call);
    }
}

/// The one pane that a call opens.
fn only(worlds: Result<Vec<LaunchEnv>, Error>) -> Result<LaunchEnv, Error> {
    let world = worlds?.into_iter().next();
    world.ok_or_else(|| Error::new(ErrorKind::Internal, "no world was looked up"))
}

/// A pane to be.
pub(super) struct NewPane<'a> {
    pub session: SessionName,
    pub name: String,
    pub command: String,
    pub size: PaneSize,
    pub world: &'a LaunchEnv,
    pub key: IdempotencyKey,
    pub opened_by: Option<CallerIdentity>,
    /// Those who wait for it.
    pub callers: Vec<CallId>,
    pub promised: Option<PaneId>,
    /// The worker's agent that runs in it.
    pub agent: Option<String>,
}

/// How much of an overview a caller can take.
enum Bounds {
    Model,
    None,
}
