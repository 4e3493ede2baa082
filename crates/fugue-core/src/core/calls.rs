//! What callers ask: checked, and turned into effects or into somebody who waits.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use fugue_api::{
    Error, Kind, PaneId, Reply, Request, SessionName,
    panes::{
        By, ClosePane, CreatePane, GetStatus, Overview, PaneSize, PaneStatus, ReadPane, SendInput,
        SessionRow, State, StateBy, Status, TmuxRow,
    },
    wire::{Answer, Ask, Caller, Key},
};

use super::{
    Core, Pane, Phase,
    rows::{closed, created, default_name, ended_state, put, row_of, status_of},
    runs::Start,
    team::Spawn,
    tmux,
    watch::Asking,
};
use crate::{
    Asked, CallId, Change, Effect, Job, Now, PaneQuestion, PaneRecord, TmuxLook, Undo, World,
    names::resolve, result,
};

impl Core {
    pub(super) fn call(
        &mut self,
        call: CallId,
        mut asked: Asked,
        now: Now,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Error> {
        let mut elsewhere = Vec::new();
        match std::mem::take(&mut asked.tmux) {
            TmuxLook::None => {}
            TmuxLook::One(found) => {
                let pane = self.meet((*found)?, asked.key, now, effects);
                asked.ask.is_about(pane);
            }
            TmuxLook::All(found) => elsewhere = self.unmet(found),
        }
        match asked.ask {
            Ask::Tool { call: request } => {
                request.check()?;
                match request {
                    Request::CreatePane(args) => {
                        let world = only(asked.worlds)?;
                        self.create(call, args, world, asked.key, asked.caller, now, effects)
                    }
                    Request::SendInput(args) => self.send(call, args, asked.key, effects),
                    Request::ReadPane(args) => self.read(call, args, effects),
                    Request::GetStatus(args) => self.status(call, args, elsewhere, now, effects),
                    Request::ClosePane(args) => self.close(call, args, effects),
                    Request::Wait(args) => self.wait(call, args, now, effects),
                    Request::SpawnWorker(args) => {
                        let spawn = Spawn {
                            call,
                            key: asked.key,
                            who: asked.who,
                            caller: asked.caller,
                            world: only(asked.worlds),
                        };
                        self.spawn(spawn, args, now, effects)
                    }
                    request @ (Request::Expect(_)
                    | Request::RunParallel(_)
                    | Request::RunPipeline(_)) => {
                        let start = Start {
                            call,
                            key: asked.key,
                            who: asked.who,
                            caller: asked.caller,
                            worlds: asked.worlds,
                        };
                        self.start_run(start, request, now, effects)
                    }
                    request @ (Request::WatchMe(_)
                    | Request::LookMa(_)
                    | Request::Pause(_)
                    | Request::Clear(_)) => {
                        let asking = Asking {
                            call,
                            who: asked.who,
                            caller: asked.caller,
                            worlds: asked.worlds,
                            settings: asked.watch,
                        };
                        self.watch_call(asking, request, now, effects)
                    }
                    request @ (Request::WaitForEvent(_)
                    | Request::NotifyCompletion(_)
                    | Request::SendMessage(_)
                    | Request::AskQuestion(_)
                    | Request::AnswerQuestion(_)) => {
                        self.team_call(call, &asked.who, asked.key, request, now, effects)
                    }
                }
            }
            Ask::RunNews { run, seen } => self.news(call, &run, seen, now, effects),
            Ask::Took { event } => {
                self.took(call, event, effects);
                Ok(())
            }
            Ask::Inbox { after, most } => {
                self.look_into(call, &asked.who, after, most, effects);
                Ok(())
            }
            Ask::Hook { news } => {
                self.hook(call, &asked.who, asked.key, news, now, effects);
                Ok(())
            }
            Ask::Everything => {
                self.survey(call, Bounds::None, Vec::new(), now, effects);
                Ok(())
            }
            Ask::Elsewhere => {
                let overview = Overview {
                    tmux: elsewhere,
                    ..Overview::default()
                };
                effects.push(Effect::Survey {
                    call,
                    overview,
                    live: Vec::new(),
                    bounded: false,
                });
                Ok(())
            }
            Ask::Follow { pane, from } => {
                let pane = resolve(&pane, self.records())?;
                self.ask(call, pane, PaneQuestion::Follow { from }, effects)
            }
            Ask::Resize { pane, rows, cols } => {
                let pane = resolve(&pane, self.records())?;
                if !(1..=1000).contains(&rows) || !(1..=1000).contains(&cols) {
                    return Err(Error::invalid(format!(
                        "size: wanted 1 to 1000 rows and columns, got {rows}×{cols}"
                    )));
                }
                self.live(pane)?;
                self.ask(
                    call,
                    pane,
                    PaneQuestion::Resize(PaneSize { rows, cols }),
                    effects,
                )
            }
            Ask::Look { look } => self.look(call, asked.key, look, effects),
            Ask::DaemonStatus | Ask::DaemonStop { .. } => {
                Err(Error::new(Kind::Internal, "the daemon answers for itself"))
            }
        }
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "one caller; a struct would be unpacked at once"
    )]
    fn create(
        &mut self,
        call: CallId,
        args: CreatePane,
        world: World,
        key: Key,
        caller: Arc<Caller>,
        now: Now,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Error> {
        if let Some(made) = self
            .panes
            .values()
            .find(|pane| pane.record.made_by == key)
            .map(|pane| pane.record.id)
        {
            self.asked_again(call, made, effects);
            return Ok(());
        }
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
                callers: vec![call],
                promised: None,
                agent: None,
            },
            now,
        );
        effects.push(Effect::Commit {
            changes: vec![
                Change::NextPane(self.next_pane),
                Change::Put(Box::new(record.clone())),
            ],
            undo: Some(Undo::Pane(record.id)),
        });
        effects.push(Effect::Open {
            record: Box::new(record),
            job: args.command.map_or(Job::Shell, Job::Command),
            env: args.env,
            world,
            caller,
        });
        Ok(())
    }

    /// Enters a pane that is about to be opened, under an id that was promised to it or the next one.
    pub(super) fn new_pane(&mut self, new: NewPane<'_>, now: Now) -> PaneRecord {
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
            secret: new.world.secret.clone(),
            tmux: new.world.tmux.clone(),
            agent: new.agent,
            generation: 1,
            pid: 0,
            closing: false,
            ended: None,
        };
        let phase = Phase::Opening {
            callers: new.callers,
        };
        let pane = Pane {
            record: record.clone(),
            phase,
            closers: Vec::new(),
            alone: false,
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
            Phase::Opening { callers } | Phase::Settling { callers, .. } => callers.push(call),
            Phase::Live => effects.push(created(&pane.record, call, None, true, None)),
            Phase::Ended => {
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

    fn send(
        &mut self,
        call: CallId,
        args: SendInput,
        key: Key,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Error> {
        let pane = resolve(&args.pane_id, self.records())?;
        self.live(pane)?;
        self.ask(
            call,
            pane,
            PaneQuestion::Send {
                args: Box::new(args),
                key,
            },
            effects,
        )
    }

    fn read(
        &mut self,
        call: CallId,
        args: ReadPane,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Error> {
        if let Some(grep) = &args.grep {
            crate::view::compile(grep)?;
        }
        if let Some(since) = &args.since {
            crate::view::cursor(since)?;
        }
        let pane = resolve(&args.pane_id, self.records())?;
        let ended = self
            .panes
            .get(&pane)
            .and_then(|pane| pane.record.ended.as_ref())
            .map(ended_state);
        self.ask(
            call,
            pane,
            PaneQuestion::Read {
                args: Box::new(args),
                ended,
            },
            effects,
        )
    }

    fn status(
        &mut self,
        call: CallId,
        args: GetStatus,
        elsewhere: Vec<TmuxRow>,
        now: Now,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Error> {
        let Some(said) = args.pane_id else {
            self.survey(call, Bounds::Model, elsewhere, now, effects);
            return Ok(());
        };
        let id = resolve(&said, self.records())?;
        let Some(pane) = self.panes.get(&id) else {
            return Ok(());
        };
        let status = PaneStatus {
            worker: self.worker_row(id),
            watcher: self.watcher_row(id),
            ..status_of(&pane.record, now)
        };
        let status = self.as_its_agent_says(status);
        match &pane.phase {
            Phase::Opening { .. } | Phase::Ended => {
                let reply = Reply::GetStatus(Status::Pane(Box::new(status)));
                effects.push(Effect::Answer {
                    call,
                    answer: Ok(Answer::Tool { reply }),
                });
                Ok(())
            }
            Phase::Settling { .. } | Phase::Live => {
                self.ask(call, id, PaneQuestion::Status(Box::new(status)), effects)
            }
        }
    }

    /// An agent that says it waits for a person knows better than its screen does.
    fn as_its_agent_says(&self, status: PaneStatus) -> PaneStatus {
        match self.agent_asks(status.pane_id) {
            Some(asks) if status.state.by != By::Exit || status.state.state == State::Running => {
                PaneStatus {
                    state: StateBy {
                        prompt: Some(asks.prompt),
                        ..StateBy::new(State::NeedsInput, asks.by)
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
        now: Now,
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
                .map(|run| result::row(&run.record, now.wall))
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
            .filter(|pane| matches!(pane.phase, Phase::Live | Phase::Settling { .. }))
            .map(|pane| pane.record.id)
            .collect();
        effects.push(Effect::Survey {
            call,
            overview,
            live,
            bounded: matches!(bounds, Bounds::Model),
        });
    }

    fn close(
        &mut self,
        call: CallId,
        args: ClosePane,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Error> {
        let id = resolve(&args.pane_id, self.records())?;
        let grace = Duration::from_millis(u64::from(args.grace_ms));
        let Some(pane) = self.panes.get_mut(&id) else {
            return Ok(());
        };
        match &pane.record.ended {
            Some(ended) if ended.closed => {
                effects.push(closed(&pane.record, call, Some("it was closed before")));
                return Ok(());
            }
            Some(_) => effects.push(Effect::Sweep { pane: id, grace }),
            None => {
                // Recorded first, so that a daemon that dies here leaves one that knows it must finish the job.
                if !pane.record.closing {
                    pane.record.closing = true;
                    effects.push(put(&pane.record));
                }
                effects.push(Effect::Close { pane: id, grace });
            }
        }
        pane.closers.push(call);
        Ok(())
    }

    pub(super) fn ask(
        &self,
        call: CallId,
        id: PaneId,
        question: PaneQuestion,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Error> {
        let Some(pane) = self.panes.get(&id) else {
            return Ok(());
        };
        match pane.phase {
            Phase::Opening { .. } => {
                return Err(Error::new(
                    Kind::Unavailable,
                    format!("pane `{id}` is still being opened"),
                ));
            }
            Phase::Ended => {
                effects.push(Effect::AskArchive {
                    call,
                    record: Box::new(pane.record.clone()),
                    question,
                });
            }
            Phase::Settling { .. } | Phase::Live => effects.push(Effect::Ask {
                call,
                pane: id,
                question,
            }),
        }
        Ok(())
    }

    pub(super) fn live(&self, id: PaneId) -> Result<(), Error> {
        match self
            .panes
            .get(&id)
            .and_then(|pane| pane.record.ended.as_ref())
        {
            None => Ok(()),
            Some(ended) => {
                let how = if ended.closed {
                    "was closed"
                } else {
                    "has exited"
                };
                Err(Error::new(
                    Kind::Ended,
                    format!("pane `{id}` {how}; nothing can be typed into it"),
                )
                .hint("`read_pane` still reads its output; `create_pane` opens another"))
            }
        }
    }
}

/// The one pane that a call opens.
fn only(worlds: Result<Vec<World>, Error>) -> Result<World, Error> {
    let world = worlds?.into_iter().next();
    world.ok_or_else(|| Error::new(Kind::Internal, "no world was looked up"))
}

/// A pane to be.
pub(super) struct NewPane<'a> {
    pub session: SessionName,
    pub name: String,
    pub command: String,
    pub size: PaneSize,
    pub world: &'a World,
    pub key: Key,
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
