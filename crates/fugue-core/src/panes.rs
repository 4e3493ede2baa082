//! The registry of panes.

pub(crate) mod event;
pub(crate) mod limits;
pub(crate) mod names;
mod plan;
pub(crate) mod record;
pub(crate) mod replies;
pub(crate) mod request;
pub(crate) mod tmux;
mod transitions;

use std::{collections::BTreeMap, time::Duration};

use fugue_api::{
    PaneId, SessionName,
    overview::{Overview, SessionRow, TmuxRow},
    pane_placement::RunLayout,
    pane_state::{PaneState, SourcedState, StateSource},
    tools::{CreatePane, PaneSize, PaneStatus},
    wire::{CallerEnv, CallerIdentity, IdempotencyKey},
};

use crate::{
    AfterCommit, CallId, Change, ClockReading, Core, Counter, Effect, LaunchEnv, PaneJob,
    PaneRecord, StartTarget, Undo, calls::CallOrigin, context::Context, result, watchers::own_pane,
};
use replies::{closed, created, default_name, put, row_of};

// How long `create_pane` waits for the first prompt. A shell with slower start-up files is returned as not ready.
pub(crate) const PROMPT_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct PaneEntry {
    pub record: PaneRecord,
    pub phase: PanePhase,
    pub closers: Vec<CallId>,
    /// The process is known to have left no other process.
    pub alone: bool,
    /// Size of the output log. For a running pane, the last reported size.
    pub log_bytes: u64,
    /// Bytes at the end of the output that could not be written.
    pub lost_bytes: u64,
    /// How often the task of the pane has panicked in this daemon.
    pub panics: u32,
}

/// The state of a pane.
#[derive(Debug)]
pub(crate) enum PanePhase {
    /// The holder is being started. The callers wait for that.
    Opening {
        callers: Vec<CallId>,
    },
    /// The shell runs and has not shown its first prompt. The callers wait for that.
    Settling {
        callers: Vec<CallId>,
    },
    Live,
    Ended,
}

/// All panes that are known, ended ones included.
#[derive(Debug)]
pub(crate) struct Panes {
    /// The id of the next new pane.
    pub next: u64,
    entries: BTreeMap<PaneId, PaneEntry>,
}

impl Panes {
    pub fn new(next: u64) -> Self {
        Self {
            next: next.max(1),
            entries: BTreeMap::new(),
        }
    }

    pub fn get(&self, id: &PaneId) -> Option<&PaneEntry> {
        self.entries.get(id)
    }

    pub fn get_mut(&mut self, id: &PaneId) -> Option<&mut PaneEntry> {
        self.entries.get_mut(id)
    }

    /// All panes in the order of their ids.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &PaneEntry> + Clone {
        self.entries.values()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut PaneEntry> {
        self.entries.values_mut()
    }

    pub fn ids(&self) -> impl Iterator<Item = &PaneId> {
        self.entries.keys()
    }

    pub fn records(&self) -> impl Iterator<Item = &PaneRecord> + Clone {
        self.iter().map(|pane| &pane.record)
    }

    pub fn insert(&mut self, pane: PaneEntry) {
        self.entries.insert(pane.record.id, pane);
    }

    pub fn remove(&mut self, id: &PaneId) -> Option<PaneEntry> {
        self.entries.remove(id)
    }

    /// The session of a new pane: the one for hidden panes, or that of the caller.
    pub fn session_for(
        &self,
        layout: RunLayout,
        caller: &CallerEnv,
        world: Option<&LaunchEnv>,
    ) -> SessionName {
        if let Some(session) = world.and_then(tmux::session_of) {
            return SessionName(session);
        }
        let own_pane = own_pane(caller);
        match layout {
            RunLayout::Hidden => SessionName(SessionName::HIDDEN.to_owned()),
            RunLayout::Tiled => own_pane
                .and_then(|pane| self.get(&pane))
                .map_or_else(SessionName::default, |pane| pane.record.session.clone()),
        }
    }

    /// Adds a pane that is about to be opened, with a reserved id or the next one.
    pub fn enter(&mut self, new: NewPane<'_>, now: ClockReading) -> PaneRecord {
        let id = new.promised.unwrap_or_else(|| {
            let next = PaneId(self.next);
            self.next += 1;
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
        self.insert(pane);
        record
    }
}

impl PaneEntry {
    /// The calls that wait for the pane to be open or to show its first prompt.
    pub fn callers(&self) -> &[CallId] {
        match &self.phase {
            PanePhase::Opening { callers } | PanePhase::Settling { callers } => callers,
            PanePhase::Live | PanePhase::Ended => &[],
        }
    }
}

/// A pane that is about to be opened.
pub(crate) struct NewPane<'a> {
    pub session: SessionName,
    pub name: String,
    pub command: String,
    pub size: PaneSize,
    pub world: &'a LaunchEnv,
    pub key: IdempotencyKey,
    pub opened_by: Option<CallerIdentity>,
    /// The calls that wait for it.
    pub callers: Vec<CallId>,
    pub promised: Option<PaneId>,
    /// The agent of the worker that runs in the pane.
    pub agent: Option<String>,
}

/// The size limit of an overview.
pub(crate) enum Bounds {
    Model,
    None,
}

impl Core {
    pub(crate) fn create(
        &mut self,
        origin: CallOrigin,
        args: CreatePane,
        world: LaunchEnv,
        cx: &mut Context,
    ) {
        let CallOrigin {
            call,
            key,
            who,
            caller,
            ..
        } = origin;
        let now = cx.now();
        let opened_by = self.team.opener(&who);
        let command = args
            .command
            .clone()
            .unwrap_or_else(|| world.shell.to_string_lossy().into_owned());
        let session = args.session.clone().or_else(|| tmux::session_of(&world));
        let record = self.shared.panes.enter(
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
            .shared
            .starts
            .remember(key, StartTarget::Pane(record.id), now.wall);
        changes.extend([
            Change::SetCounter(Counter::NextPane, self.shared.panes.next),
            Change::put(record.clone()),
        ]);
        cx.commit(changes).or_undo(Undo::Pane(record.id));
        cx.when_stored().then(AfterCommit::OpenPane {
            record: Box::new(record),
            job: args.command.map_or(PaneJob::Shell, PaneJob::Command),
            env: args.env,
            world,
            caller,
        });
    }

    /// Attaches a repeated `create_pane` call to its pane.
    pub(crate) fn rejoin_create(&mut self, call: CallId, id: PaneId, cx: &mut Context) {
        let Some(pane) = self.shared.panes.get_mut(&id) else {
            return;
        };
        match &mut pane.phase {
            PanePhase::Opening { callers } | PanePhase::Settling { callers } => callers.push(call),
            PanePhase::Live => {
                let created = created(&pane.record, call, None, true, None);
                cx.when_stored().then(created);
            }
            PanePhase::Ended => {
                let cursor = pane.record.ended.as_ref().map(|ended| ended.cursor.clone());
                cx.when_stored().then(created(
                    &pane.record,
                    call,
                    cursor,
                    false,
                    Some("it has ended already"),
                ));
            }
        }
    }

    /// Replaces the state of a pane by the attention request of its agent, which is more reliable than the screen.
    pub(crate) fn with_agent_state(&self, status: PaneStatus) -> PaneStatus {
        match self.team.attention_request(status.pane_id) {
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

    pub(crate) fn survey(
        &self,
        call: CallId,
        bounds: Bounds,
        elsewhere: Vec<TmuxRow>,
        cx: &mut Context,
    ) {
        let now = cx.now();
        let mut sessions: BTreeMap<&SessionName, u64> = BTreeMap::new();
        for pane in self
            .shared
            .panes
            .iter()
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
                .shared
                .panes
                .iter()
                .map(|pane| row_of(&pane.record, now))
                .collect(),
            omitted_panes: 0,
            workers: self.team.worker_rows(),
            omitted_workers: 0,
            runs: self
                .runs
                .all
                .values()
                .map(|run| result::row(&run.record, now.moment()))
                .collect(),
            omitted_runs: 0,
            watchers: self.watchers.watcher_rows(),
            omitted_watchers: 0,
            tmux: elsewhere,
            omitted_tmux: 0,
        };
        let live = self
            .shared
            .panes
            .iter()
            .filter(|pane| matches!(pane.phase, PanePhase::Live | PanePhase::Settling { .. }))
            .map(|pane| pane.record.id)
            .collect();
        cx.perform(Effect::CompleteOverview {
            call,
            overview,
            live,
            bounded: matches!(bounds, Bounds::Model),
        });
    }

    pub(crate) fn close(&mut self, call: CallId, id: PaneId, grace: Duration, cx: &mut Context) {
        let Some(pane) = self.shared.panes.get_mut(&id) else {
            return;
        };
        match &pane.record.ended {
            Some(ended) if ended.closed => {
                cx.perform(closed(&pane.record, call, Some("it was closed before")));
                return;
            }
            Some(_) => cx.perform(Effect::EndProcesses { pane: id, grace }),
            None => {
                // Closing waits for no commit: on a full disk people close panes to make room. A holder that is closing
                // finishes even if this daemon dies, and leaves a record of the exit.
                cx.perform(Effect::ClosePane { pane: id, grace });
                if !pane.record.closing {
                    pane.record.closing = true;
                    cx.commit([put(&pane.record)]);
                }
            }
        }
        pane.closers.push(call);
    }
}
