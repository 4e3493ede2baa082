use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use fugue_api::{
    Error, Kind, PaneId, Reply, Request, SessionName, Timestamp,
    panes::{
        Backend, By, ClosePane, CreatePane, GetStatus, Overview, PaneClosed, PaneCreated, PaneRow,
        PaneSize, PaneStatus, ReadPane, SendInput, SessionRow, State, StateBy, Status,
    },
    wire::{Answer, Ask, Caller, Key},
};

use crate::{Ended, Exit, PaneRecord, names::resolve, settings::Settings};

// A shell whose rc files take longer than this is handed over as "not ready yet" instead of keeping the caller.
const PATIENCE_FOR_A_PROMPT: Duration = Duration::from_secs(10);

/// The registry of panes and every call that waits on one.
pub struct Core {
    settings: Settings,
    next_pane: u64,
    panes: BTreeMap<PaneId, Pane>,
}

struct Pane {
    record: PaneRecord,
    phase: Phase,
    closers: Vec<CallId>,
}

/// Where a pane is in its life.
enum Phase {
    /// Its holder is being started, and these calls wait for that.
    Opening {
        callers: Vec<CallId>,
    },
    /// It runs, but a shell's first prompt has not been seen.
    Settling {
        callers: Vec<CallId>,
        give_up_at: Duration,
    },
    Live,
    Ended,
}

/// One call of one connection, for as long as it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(pub u64);

/// The two clocks: one for people, one for deadlines.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    pub wall: Timestamp,
    /// Time since the daemon started.
    pub uptime: Duration,
}

/// What happens to core.
pub enum Input {
    Call {
        call: CallId,
        asked: Asked,
    },
    /// Nobody waits for this call any more.
    Cancelled {
        call: CallId,
    },
    Pane {
        pane: PaneId,
        fact: PaneFact,
    },
    /// The pane's record could not be written, so the pane must not be.
    NotStored {
        pane: PaneId,
        why: String,
    },
    /// Some time that was asked for by [`Effect::WakeAt`] has come.
    Time,
}

/// A call with everything about its caller that matters.
pub struct Asked {
    pub key: Key,
    pub caller: Arc<Caller>,
    pub ask: Ask,
    /// For `create_pane`: looked up at the door, where files may be looked at.
    pub world: Option<World>,
}

/// Where and by what a new pane runs.
#[derive(Clone, Debug, PartialEq)]
pub struct World {
    pub cwd: PathBuf,
    pub shell: PathBuf,
    /// Empty where that shell has no integration, or none is wanted.
    pub secret: String,
}

/// What a pane's own task tells.
#[derive(Debug)]
pub enum PaneFact {
    Opened {
        pid: u32,
        cursor: fugue_api::Cursor,
    },
    OpenFailed(Error),
    /// The shell's first prompt.
    Prompted {
        cursor: fugue_api::Cursor,
    },
    /// Something waits for a person before the first prompt.
    AsksFirst {
        cursor: fugue_api::Cursor,
    },
    Moved {
        cwd: String,
    },
    Resized(PaneSize),
    Ended {
        exit: Exit,
        cursor: fugue_api::Cursor,
        title: String,
    },
    /// No process of the pane is left.
    Swept,
}

/// What core wants done. Effects of one step are performed in order; those behind a [`Effect::Commit`] only once
/// it is on disk.
#[derive(Debug)]
pub enum Effect {
    Answer {
        call: CallId,
        answer: Result<Answer, Error>,
    },
    Commit {
        changes: Vec<Change>,
        undo: Option<PaneId>,
    },
    Open {
        record: Box<PaneRecord>,
        args: Box<CreatePane>,
        world: World,
        caller: Arc<Caller>,
    },
    /// Find a pane's holder again, or what it left behind.
    Adopt {
        record: Box<PaneRecord>,
    },
    Ask {
        call: CallId,
        pane: PaneId,
        question: PaneQuestion,
    },
    /// The same question, of a pane that has no task any more: its files answer.
    AskArchive {
        call: CallId,
        record: Box<PaneRecord>,
        question: PaneQuestion,
    },
    /// Complete the rows of live panes and answer.
    Survey {
        call: CallId,
        overview: Overview,
        live: Vec<PaneId>,
        bounded: bool,
    },
    Close {
        pane: PaneId,
        grace: Duration,
    },
    /// End whatever an ended pane has left running.
    Sweep {
        pane: PaneId,
        grace: Duration,
    },
    Forget {
        pane: PaneId,
    },
    WakeAt(Duration),
}

/// What only the pane's task (or its files) can answer.
#[derive(Clone, Debug)]
pub enum PaneQuestion {
    Status(Box<PaneStatus>),
    Read {
        args: Box<ReadPane>,
        ended: Option<StateBy>,
    },
    Send {
        args: Box<SendInput>,
        key: Key,
    },
    Follow {
        from: u64,
    },
    Resize(PaneSize),
}

/// A change to what is stored. All changes of one commit happen, or none.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    Put(Box<PaneRecord>),
    Drop(PaneId),
    /// Ids below this one have been given out.
    NextPane(u64),
}

/// Everything the store knows, at the daemon's start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    pub panes: Vec<PaneRecord>,
    pub next_pane: u64,
    /// How many daemons there were before this one.
    pub epoch: u64,
}

impl Core {
    /// Takes up what an earlier daemon left.
    pub fn restore(settings: Settings, snapshot: Snapshot, now: Now) -> (Self, Vec<Effect>) {
        let mut effects = Vec::new();
        let mut panes = BTreeMap::new();
        for record in snapshot.panes {
            let phase = if record.ended.is_some() {
                Phase::Ended
            } else {
                effects.push(Effect::Adopt {
                    record: Box::new(record.clone()),
                });
                if record.pid == 0 {
                    Phase::Opening {
                        callers: Vec::new(),
                    }
                } else {
                    Phase::Live
                }
            };
            panes.insert(
                record.id,
                Pane {
                    record,
                    phase,
                    closers: Vec::new(),
                },
            );
        }
        let mut core = Self {
            settings,
            next_pane: snapshot.next_pane.max(1),
            panes,
        };
        core.forget_old(now, &mut effects);
        (core, effects)
    }

    pub fn step(&mut self, input: Input, now: Now) -> Vec<Effect> {
        let mut effects = Vec::new();
        match input {
            Input::Call { call, asked } => {
                if let Err(error) = self.call(call, asked, now, &mut effects) {
                    effects = vec![Effect::Answer {
                        call,
                        answer: Err(error),
                    }];
                }
            }
            Input::Cancelled { call } => self.forget_call(call),
            Input::Pane { pane, fact } => self.fact(pane, fact, now, &mut effects),
            Input::NotStored { pane, why } => self.not_stored(pane, &why, &mut effects),
            Input::Time => self.time(now, &mut effects),
        }
        effects
    }

    pub fn live_panes(&self) -> impl Iterator<Item = PaneId> + '_ {
        self.panes
            .values()
            .filter(|pane| pane.record.ended.is_none())
            .map(|pane| pane.record.id)
    }

    fn call(
        &mut self,
        call: CallId,
        asked: Asked,
        now: Now,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Error> {
        match asked.ask {
            Ask::Tool { call: request } => {
                request.check()?;
                match request {
                    Request::CreatePane(args) => {
                        let world = asked
                            .world
                            .ok_or_else(|| Error::new(Kind::Internal, "no world was looked up"))?;
                        self.create(call, args, world, asked.key, asked.caller, now, effects)
                    }
                    Request::SendInput(args) => self.send(call, args, asked.key, effects),
                    Request::ReadPane(args) => self.read(call, args, effects),
                    Request::GetStatus(args) => self.status(call, args, now, effects),
                    Request::ClosePane(args) => self.close(call, args, effects),
                }
            }
            Ask::Everything => {
                self.survey(call, Bounds::None, now, effects);
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
        let id = PaneId(self.next_pane);
        self.next_pane += 1;
        let command = args
            .command
            .clone()
            .unwrap_or_else(|| world.shell.to_string_lossy().into_owned());
        let record = PaneRecord {
            id,
            session: args
                .session
                .clone()
                .map_or_else(SessionName::default, SessionName),
            name: args.name.clone().unwrap_or_else(|| default_name(&command)),
            command,
            cwd: world.cwd.to_string_lossy().into_owned(),
            size: PaneSize {
                rows: args.rows,
                cols: args.cols,
            },
            created_at: now.wall,
            made_by: key,
            secret: world.secret.clone(),
            pid: 0,
            closing: false,
            ended: None,
        };
        effects.push(Effect::Commit {
            changes: vec![
                Change::NextPane(self.next_pane),
                Change::Put(Box::new(record.clone())),
            ],
            undo: Some(id),
        });
        effects.push(Effect::Open {
            record: Box::new(record.clone()),
            args: Box::new(args),
            world,
            caller,
        });
        let phase = Phase::Opening {
            callers: vec![call],
        };
        self.panes.insert(
            id,
            Pane {
                record,
                phase,
                closers: Vec::new(),
            },
        );
        Ok(())
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
        now: Now,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Error> {
        let Some(said) = args.pane_id else {
            self.survey(call, Bounds::Model, now, effects);
            return Ok(());
        };
        let id = resolve(&said, self.records())?;
        let Some(pane) = self.panes.get(&id) else {
            return Ok(());
        };
        let status = status_of(&pane.record, now);
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

    fn survey(&self, call: CallId, bounds: Bounds, now: Now, effects: &mut Vec<Effect>) {
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

    fn ask(
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

    fn live(&self, id: PaneId) -> Result<(), Error> {
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

    fn fact(&mut self, id: PaneId, fact: PaneFact, now: Now, effects: &mut Vec<Effect>) {
        let Some(pane) = self.panes.get_mut(&id) else {
            return;
        };
        match fact {
            PaneFact::Opened { pid, cursor } => {
                pane.record.pid = pid;
                effects.push(put(&pane.record));
                let Phase::Opening { callers } = &mut pane.phase else {
                    return;
                };
                let callers = std::mem::take(callers);
                if pane.record.announces_prompts() {
                    let give_up_at = now.uptime + PATIENCE_FOR_A_PROMPT;
                    pane.phase = Phase::Settling {
                        callers,
                        give_up_at,
                    };
                    effects.push(Effect::WakeAt(give_up_at));
                } else {
                    pane.phase = Phase::Live;
                    for call in callers {
                        effects.push(created(
                            &pane.record,
                            call,
                            Some(cursor.clone()),
                            true,
                            None,
                        ));
                    }
                }
            }
            PaneFact::OpenFailed(error) => {
                let callers = match &mut pane.phase {
                    Phase::Opening { callers } | Phase::Settling { callers, .. } => {
                        std::mem::take(callers)
                    }
                    Phase::Live | Phase::Ended => Vec::new(),
                };
                self.panes.remove(&id);
                effects.push(Effect::Commit {
                    changes: vec![Change::Drop(id)],
                    undo: None,
                });
                effects.push(Effect::Forget { pane: id });
                for call in callers {
                    effects.push(Effect::Answer {
                        call,
                        answer: Err(error.clone()),
                    });
                }
            }
            PaneFact::Prompted { cursor } => pane.settle(Some(cursor), None, effects),
            PaneFact::AsksFirst { cursor } => {
                pane.settle(
                    Some(cursor),
                    Some("something asks for input before the first prompt"),
                    effects,
                );
            }
            PaneFact::Moved { cwd } => pane.record.cwd = cwd,
            PaneFact::Resized(size) => {
                pane.record.size = size;
                effects.push(put(&pane.record));
            }
            PaneFact::Ended {
                exit,
                cursor,
                title,
            } => {
                pane.record.ended = Some(Ended {
                    exit,
                    at: now.wall,
                    closed: pane.record.closing,
                    cursor,
                    title,
                });
                pane.settle(None, Some("it ended before its first prompt"), effects);
                pane.phase = Phase::Ended;
                // Answers to close_pane wait for the sweep: only then is no process left.
                effects.insert(0, put(&pane.record));
                self.forget_old(now, effects);
            }
            PaneFact::Swept => {
                let calls = std::mem::take(&mut pane.closers);
                if let Some(ended) = &mut pane.record.ended
                    && !ended.closed
                {
                    ended.closed = true;
                    effects.push(put(&pane.record));
                }
                for call in calls {
                    effects.push(closed(&pane.record, call, None));
                }
            }
        }
    }

    fn not_stored(&mut self, id: PaneId, why: &str, effects: &mut Vec<Effect>) {
        let Some(pane) = self.panes.remove(&id) else {
            return;
        };
        if let Phase::Opening { callers } | Phase::Settling { callers, .. } = pane.phase {
            for call in callers {
                let error = Error::new(
                    Kind::Exhausted,
                    format!("the new pane could not be recorded: {why}"),
                )
                .hint("nothing was started; is the disk full?");
                effects.push(Effect::Answer {
                    call,
                    answer: Err(error),
                });
            }
        }
    }

    fn time(&mut self, now: Now, effects: &mut Vec<Effect>) {
        for pane in self.panes.values_mut() {
            if matches!(pane.phase, Phase::Settling { give_up_at, .. } if give_up_at <= now.uptime)
            {
                pane.settle(
                    None,
                    Some("no prompt was seen within 10 s; its start-up files may still be running"),
                    effects,
                );
            }
        }
        self.forget_old(now, effects);
    }

    fn forget_call(&mut self, gone: CallId) {
        for pane in self.panes.values_mut() {
            pane.closers.retain(|call| *call != gone);
            if let Phase::Opening { callers } | Phase::Settling { callers, .. } = &mut pane.phase {
                callers.retain(|call| *call != gone);
            }
        }
    }

    /// Ended panes stay readable for a while, and then their files go.
    fn forget_old(&mut self, now: Now, effects: &mut Vec<Effect>) {
        let mut ended: Vec<(Timestamp, PaneId)> = self
            .panes
            .values()
            .filter(|pane| pane.closers.is_empty())
            .filter_map(|pane| {
                pane.record
                    .ended
                    .as_ref()
                    .map(|ended| (ended.at, pane.record.id))
            })
            .collect();
        ended.sort();
        let keep_for = self.settings.forget_after_ms();
        let too_many = ended
            .len()
            .saturating_sub(self.settings.forget_beyond_panes);
        let mut changes = Vec::new();
        let mut gone = Vec::new();
        for (index, (at, id)) in ended.iter().enumerate() {
            if index < too_many || at.0.saturating_add(keep_for) <= now.wall.0 {
                self.panes.remove(id);
                changes.push(Change::Drop(*id));
                gone.push(Effect::Forget { pane: *id });
            } else {
                let left = at.0.saturating_add(keep_for) - now.wall.0;
                effects.push(Effect::WakeAt(now.uptime + Duration::from_millis(left)));
                break;
            }
        }
        if !changes.is_empty() {
            effects.push(Effect::Commit {
                changes,
                undo: None,
            });
            effects.append(&mut gone);
        }
    }

    fn records(&self) -> impl Iterator<Item = &PaneRecord> + Clone {
        self.panes.values().map(|pane| &pane.record)
    }
}

/// How much of an overview a caller can take.
enum Bounds {
    Model,
    None,
}

impl Pane {
    /// Answers those who wait for the first prompt: with `trouble`, that it has not come.
    fn settle(
        &mut self,
        cursor: Option<fugue_api::Cursor>,
        trouble: Option<&str>,
        effects: &mut Vec<Effect>,
    ) {
        let Phase::Settling { callers, .. } = &mut self.phase else {
            return;
        };
        for call in std::mem::take(callers) {
            effects.push(created(
                &self.record,
                call,
                cursor.clone(),
                trouble.is_none(),
                trouble,
            ));
        }
        self.phase = Phase::Live;
    }
}

fn created(
    record: &PaneRecord,
    call: CallId,
    cursor: Option<fugue_api::Cursor>,
    ready: bool,
    note: Option<&str>,
) -> Effect {
    let reply = Reply::CreatePane(PaneCreated {
        pane_id: record.id,
        session: record.session.clone(),
        name: record.name.clone(),
        pid: record.pid,
        cursor: cursor.unwrap_or_else(crate::view::start),
        ready,
        note: note.map(str::to_owned),
    });
    Effect::Answer {
        call,
        answer: Ok(Answer::Tool { reply }),
    }
}

fn closed(record: &PaneRecord, call: CallId, note: Option<&str>) -> Effect {
    let exit = record.ended.as_ref().map(|ended| &ended.exit);
    let reply = Reply::ClosePane(PaneClosed {
        pane_id: record.id,
        exit_code: exit.and_then(Exit::code),
        signal: exit.and_then(Exit::signal),
        note: note.map(str::to_owned),
    });
    Effect::Answer {
        call,
        answer: Ok(Answer::Tool { reply }),
    }
}

fn put(record: &PaneRecord) -> Effect {
    Effect::Commit {
        changes: vec![Change::Put(Box::new(record.clone()))],
        undo: None,
    }
}

fn ended_state(ended: &Ended) -> StateBy {
    StateBy {
        exit_code: ended.exit.code(),
        signal: ended.exit.signal(),
        ..StateBy::new(
            if ended.closed {
                State::Closed
            } else {
                State::Exited
            },
            By::Exit,
        )
    }
}

fn status_of(record: &PaneRecord, now: Now) -> PaneStatus {
    PaneStatus {
        pane_id: record.id,
        name: record.name.clone(),
        session: record.session.clone(),
        backend: Backend::Native,
        command: cut(&record.command, 200),
        pid: record.pid,
        cwd: record.cwd.clone(),
        size: record.size,
        title: record
            .ended
            .as_ref()
            .map(|ended| ended.title.clone())
            .unwrap_or_default(),
        state: state_of(record),
        idle_ms: quiet_since_end(record, now),
        cursor: record
            .ended
            .as_ref()
            .map_or_else(crate::view::start, |ended| ended.cursor.clone()),
        created_at: record.created_at,
        note: None,
    }
}

fn row_of(record: &PaneRecord, now: Now) -> PaneRow {
    PaneRow {
        pane_id: record.id,
        name: record.name.clone(),
        session: record.session.clone(),
        state: state_of(record),
        idle_ms: quiet_since_end(record, now),
        created_at: record.created_at,
    }
}

/// An ended pane has been quiet since its end; a live one tells for itself.
fn quiet_since_end(record: &PaneRecord, now: Now) -> u64 {
    let ended = record.ended.as_ref();
    ended.map_or(0, |ended| now.wall.0.saturating_sub(ended.at.0))
}

fn state_of(record: &PaneRecord) -> StateBy {
    record
        .ended
        .as_ref()
        .map_or_else(|| StateBy::new(State::Running, By::Exit), ended_state)
}

/// An echoed command is for recognising it, not for reading it.
fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// The program's own name: `/usr/bin/npm run build` is `npm`.
fn default_name(command: &str) -> String {
    let word = command.split_whitespace().next().unwrap_or("pane");
    let base = word
        .rsplit('/')
        .find(|part| !part.is_empty())
        .unwrap_or(word);
    let name: String = base.chars().filter(|c| !c.is_control()).take(32).collect();
    if name.is_empty() || name.parse::<PaneId>().is_ok() {
        "pane".to_owned()
    } else {
        name
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use fugue_api::OsText;

    pub(crate) fn record(id: u64, name: &str) -> PaneRecord {
        PaneRecord {
            id: PaneId(id),
            session: SessionName::default(),
            name: name.into(),
            command: "true".into(),
            cwd: "/".into(),
            size: PaneSize {
                rows: 40,
                cols: 120,
            },
            created_at: Timestamp(0),
            made_by: Key([0; 16]),
            secret: String::new(),
            pid: 100,
            closing: false,
            ended: None,
        }
    }

    pub(crate) fn ended() -> Ended {
        Ended {
            exit: Exit::Code(0),
            at: Timestamp(0),
            closed: false,
            cursor: crate::view::start(),
            title: String::new(),
        }
    }

    /// A script of inputs; effects come back as short words, so that a test reads as a story.
    struct Story {
        core: Core,
        now: Now,
    }

    impl Story {
        fn new(settings: Settings) -> Self {
            let now = Now {
                wall: Timestamp(1_000_000),
                uptime: Duration::ZERO,
            };
            Self {
                core: Core::restore(settings, Snapshot::default(), now).0,
                now,
            }
        }

        fn after(&mut self, ms: u64) -> &mut Self {
            self.now.wall.0 += ms;
            self.now.uptime += Duration::from_millis(ms);
            self
        }

        fn step(&mut self, input: Input) -> String {
            words(&self.core.step(input, self.now))
        }

        fn ask(&mut self, call: u64, key: u8, secret: &str, request: Request) -> String {
            let caller = Arc::new(Caller {
                cwd: OsText::Text("/".into()),
                env: Vec::new(),
                umask: 0o22,
            });
            let world = World {
                cwd: "/".into(),
                shell: "/bin/bash".into(),
                secret: secret.into(),
            };
            let asked = Asked {
                key: Key([key; 16]),
                caller,
                ask: Ask::Tool { call: request },
                world: Some(world),
            };
            self.step(Input::Call {
                call: CallId(call),
                asked,
            })
        }

        fn fact(&mut self, pane: u64, fact: PaneFact) -> String {
            self.step(Input::Pane {
                pane: PaneId(pane),
                fact,
            })
        }

        fn create(&mut self, call: u64, secret: &str) -> String {
            let args = serde_json::json!({"command": "make all"});
            let Ok(request) = Request::parse("create_pane", args) else {
                panic!("a good request")
            };
            self.ask(call, call as u8, secret, request)
        }

        fn close(&mut self, call: u64, pane: &str) -> String {
            self.ask(
                call,
                99,
                "",
                Request::ClosePane(ClosePane {
                    pane_id: pane.into(),
                    grace_ms: 10,
                }),
            )
        }
    }

    fn opened() -> PaneFact {
        PaneFact::Opened {
            pid: 7,
            cursor: crate::view::start(),
        }
    }

    fn exited(code: i32) -> PaneFact {
        PaneFact::Ended {
            exit: Exit::Code(code),
            cursor: crate::view::start(),
            title: String::new(),
        }
    }

    fn words(effects: &[Effect]) -> String {
        let word = |effect: &Effect| match effect {
            Effect::Answer {
                call,
                answer:
                    Ok(Answer::Tool {
                        reply: Reply::CreatePane(made),
                    }),
            } => {
                format!("answer {} {} ready={}", call.0, made.pane_id, made.ready)
            }
            Effect::Answer {
                call,
                answer:
                    Ok(Answer::Tool {
                        reply: Reply::ClosePane(gone),
                    }),
            } => {
                format!("closed {} {:?}", call.0, gone.exit_code)
            }
            Effect::Answer {
                call,
                answer: Ok(_),
            } => format!("answer {}", call.0),
            Effect::Answer {
                call,
                answer: Err(error),
            } => format!("refuse {} {:?}", call.0, error.kind),
            Effect::Commit { changes, .. } => format!("commit {}", changes.len()),
            Effect::Open { record, .. } => format!("open {}", record.id),
            Effect::Adopt { record } => format!("adopt {}", record.id),
            Effect::Ask { pane, .. } => format!("ask {pane}"),
            Effect::AskArchive { record, .. } => format!("archive {}", record.id),
            Effect::Survey { .. } => "survey".into(),
            Effect::Close { pane, .. } => format!("close {pane}"),
            Effect::Sweep { pane, .. } => format!("sweep {pane}"),
            Effect::Forget { pane } => format!("forget {pane}"),
            Effect::WakeAt(at) => format!("wake {}", at.as_millis()),
        };
        effects.iter().map(word).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn a_pane_is_recorded_before_anything_is_started() {
        let mut story = Story::new(Settings::default());
        assert_eq!(story.create(1, ""), "commit 2, open p1");
        assert_eq!(story.fact(1, opened()), "commit 1, answer 1 p1 ready=true");
    }

    #[test]
    fn a_shell_is_ready_at_its_first_prompt() {
        let mut story = Story::new(Settings::default());
        story.create(1, "secret");
        assert_eq!(story.fact(1, opened()), "commit 1, wake 10000");
        assert_eq!(
            story.fact(
                1,
                PaneFact::Prompted {
                    cursor: crate::view::start()
                }
            ),
            "answer 1 p1 ready=true"
        );
        assert_eq!(
            story.fact(
                1,
                PaneFact::Prompted {
                    cursor: crate::view::start()
                }
            ),
            ""
        );
    }

    #[test]
    fn a_shell_that_asks_or_dawdles_is_handed_over_as_not_ready() {
        let mut story = Story::new(Settings::default());
        story.create(1, "secret");
        story.fact(1, opened());
        assert_eq!(
            story.fact(
                1,
                PaneFact::AsksFirst {
                    cursor: crate::view::start()
                }
            ),
            "answer 1 p1 ready=false"
        );
        story.create(2, "secret");
        story.fact(2, opened());
        assert_eq!(story.after(9_999).step(Input::Time), "");
        assert_eq!(story.after(1).step(Input::Time), "answer 2 p2 ready=false");
    }

    #[test]
    fn a_shell_that_ends_at_once_answers_its_caller() {
        let mut story = Story::new(Settings::default());
        story.create(1, "secret");
        story.fact(1, opened());
        assert_eq!(
            story.fact(1, exited(3)),
            "commit 1, answer 1 p1 ready=false, wake 86400000"
        );
    }

    #[test]
    fn asking_twice_with_one_key_makes_one_pane() {
        let mut story = Story::new(Settings::default());
        story.create(1, "");
        let again =
            Request::parse("create_pane", serde_json::json!({"command": "make all"})).unwrap();
        assert_eq!(story.ask(2, 1, "", again.clone()), "");
        assert_eq!(
            story.fact(1, opened()),
            "commit 1, answer 1 p1 ready=true, answer 2 p1 ready=true"
        );
        assert_eq!(story.ask(3, 1, "", again), "answer 3 p1 ready=true");
    }

    #[test]
    fn a_pane_that_could_not_be_opened_or_recorded_leaves_nothing() {
        let mut story = Story::new(Settings::default());
        story.create(1, "");
        let error = Error::new(Kind::Exhausted, "no terminal left");
        assert_eq!(
            story.fact(1, PaneFact::OpenFailed(error)),
            "commit 1, forget p1, refuse 1 Exhausted"
        );
        story.create(2, "");
        assert_eq!(
            story.step(Input::NotStored {
                pane: PaneId(2),
                why: "disk full".into()
            }),
            "refuse 2 Exhausted"
        );
        assert_eq!(story.close(3, "p2"), "refuse 3 NotFound");
        assert_eq!(
            story.create(4, ""),
            "commit 2, open p3",
            "an id is never used twice"
        );
    }

    #[test]
    fn closing_is_answered_when_no_process_is_left() {
        let mut story = Story::new(Settings::default());
        story.create(1, "");
        story.fact(1, opened());
        assert_eq!(story.close(2, "p1"), "commit 1, close p1");
        assert_eq!(
            story.close(3, "make"),
            "close p1",
            "a second caller may be less patient"
        );
        assert_eq!(story.fact(1, exited(0)), "commit 1");
        assert_eq!(
            story.fact(1, PaneFact::Swept),
            "closed 2 Some(0), closed 3 Some(0)"
        );
        assert_eq!(story.close(4, "p1"), "closed 4 Some(0)");
    }

    #[test]
    fn an_exited_pane_is_swept_when_it_is_closed() {
        let mut story = Story::new(Settings::default());
        story.create(1, "");
        story.fact(1, opened());
        story.fact(1, exited(4));
        assert_eq!(story.close(2, "p1"), "sweep p1");
        assert_eq!(story.fact(1, PaneFact::Swept), "commit 1, closed 2 Some(4)");
    }

    #[test]
    fn a_cancelled_call_is_not_answered_and_its_work_goes_on() {
        let mut story = Story::new(Settings::default());
        story.create(1, "");
        assert_eq!(story.step(Input::Cancelled { call: CallId(1) }), "");
        assert_eq!(story.fact(1, opened()), "commit 1");
    }

    #[test]
    fn ended_panes_are_read_from_their_files_and_take_no_input() {
        let mut story = Story::new(Settings::default());
        story.create(1, "");
        story.fact(1, opened());
        story.fact(1, exited(0));
        let read = Request::parse("read_pane", serde_json::json!({"pane_id": "p1"})).unwrap();
        assert_eq!(story.ask(2, 2, "", read), "archive p1");
        let send = Request::parse(
            "send_input",
            serde_json::json!({"pane_id": "p1", "input": "x"}),
        )
        .unwrap();
        assert_eq!(story.ask(3, 3, "", send), "refuse 3 Ended");
    }

    #[test]
    fn ended_panes_are_forgotten_by_age_and_by_number() {
        let mut story = Story::new(Settings {
            forget_beyond_panes: 2,
            ..Settings::default()
        });
        for pane in 1..=3 {
            story.create(pane, "");
            story.fact(pane, opened());
        }
        for pane in 1..=2 {
            assert_eq!(
                story.after(1).fact(pane, exited(0)).split(", ").next(),
                Some("commit 1")
            );
        }
        assert_eq!(
            story.after(1).fact(3, exited(0)),
            "commit 1, wake 86400002, commit 1, forget p1"
        );
        assert_eq!(
            story.after(86_400_000).step(Input::Time),
            "commit 2, forget p2, forget p3"
        );
    }

    #[test]
    fn what_an_earlier_daemon_left_is_adopted() {
        let mut old = record(5, "old");
        old.ended = Some(Ended {
            at: Timestamp(900_000),
            ..ended()
        });
        let snapshot = Snapshot {
            panes: vec![record(3, "a"), old],
            next_pane: 9,
            epoch: 4,
        };
        let now = Now {
            wall: Timestamp(1_000_000),
            uptime: Duration::ZERO,
        };
        let (core, effects) = Core::restore(Settings::default(), snapshot, now);
        assert_eq!(words(&effects), "adopt p3, wake 86300000");
        let mut story = Story { core, now };
        assert_eq!(story.create(1, ""), "commit 2, open p9");
    }
}
