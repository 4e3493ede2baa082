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
    pane_placement::RunLayout,
    tools::{CreatePane, PaneSize},
    wire::{CallerEnv, CallerIdentity, IdempotencyKey},
};

use crate::{
    AdoptMode, AfterCommit, CallId, Change, ClockReading, Counter, Effect, LaunchEnv, PaneAdoption,
    PaneJob, PaneRecord, StartTarget, StepPlan, StoreSnapshot, TmuxOrigin, Undo,
    calls::{CallOrigin, starts::StartHistory},
    context::StepBuilder,
    settings::Settings,
    snapshot::next_id,
    watchers::own_pane,
};
use replies::{closed, created, default_name, put};

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
    /// Restores the panes that an earlier daemon stored, and has the live ones adopted. `steps` gives the plan of the open
    /// pipeline in a pane.
    pub fn restored(
        snapshot: &mut StoreSnapshot,
        steps: impl Fn(PaneId) -> Option<StepPlan>,
        settings: &Settings,
        out: &mut StepBuilder,
    ) -> Self {
        let records = std::mem::take(&mut snapshot.panes);
        let reserved = snapshot.workers.iter().map(|worker| worker.record.pane);
        let known = records.iter().map(|record| record.id).chain(reserved);
        let mut panes = Self {
            next: next_id(snapshot.next_pane, known.map(|id| id.0)),
            entries: BTreeMap::new(),
        };
        for mut record in records {
            if record.removing {
                out.when_stored()
                    .then(AfterCommit::RemovePaneDir { pane: record.id });
                continue;
            }
            let mut log_bytes = 0;
            let phase = if let Some(ended) = &mut record.ended {
                ended.at = out.now().stamped(ended.at);
                log_bytes = limits::log_bytes(&ended.cursor, settings);
                PanePhase::Ended
            } else {
                out.perform(Effect::AdoptPane(Box::new(PaneAdoption {
                    steps: steps(record.id),
                    record: record.clone(),
                    how: AdoptMode::Terminal,
                })));
                match record.pid {
                    0 => PanePhase::Opening {
                        callers: Vec::new(),
                    },
                    _ => PanePhase::Live,
                }
            };
            panes.insert(PaneEntry {
                log_bytes,
                ..PaneEntry::new(record, phase)
            });
        }
        panes
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
        launch_env: Option<&LaunchEnv>,
    ) -> SessionName {
        if let Some(session) = launch_env.and_then(tmux::session_of) {
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

    /// Adds the pane of a `create_pane` call that is about to be opened.
    pub fn enter_created(
        &mut self,
        key: IdempotencyKey,
        opened_by: Option<CallerIdentity>,
        caller: Option<CallId>,
        args: &CreatePane,
        launch_env: &LaunchEnv,
        now: ClockReading,
    ) -> PaneRecord {
        let shell = || launch_env.shell.to_string_lossy().into_owned();
        let command = args.command.clone().unwrap_or_else(shell);
        let session = args.session.clone();
        let session = session.or_else(|| tmux::session_of(launch_env));
        self.enter(
            NewPane {
                session: session.map_or_else(SessionName::default, SessionName),
                name: args.name.clone().unwrap_or_else(|| default_name(&command)),
                command,
                size: PaneSize {
                    rows: args.rows,
                    cols: args.cols,
                },
                launch_env,
                key,
                opened_by,
                callers: caller.into_iter().collect(),
                promised: None,
                agent: None,
            },
            now,
        )
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
            cwd: new.launch_env.cwd.to_string_lossy().into_owned(),
            size: new.size,
            created_at: now.wall,
            made_by: new.key,
            opened_by: new.opened_by,
            secret: new.launch_env.secret.clone(),
            tmux: new.launch_env.tmux.clone(),
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
        self.insert(PaneEntry::new(record.clone(), phase));
        record
    }
}

impl PaneEntry {
    pub fn new(record: PaneRecord, phase: PanePhase) -> Self {
        Self {
            record,
            phase,
            closers: Vec::new(),
            alone: false,
            log_bytes: 0,
            lost_bytes: 0,
            panics: 0,
        }
    }

    pub fn is_live(&self) -> bool {
        self.record.ended.is_none()
    }

    /// Whether a task of the pane answers requests.
    pub fn has_task(&self) -> bool {
        matches!(self.phase, PanePhase::Live | PanePhase::Settling { .. })
    }

    /// The calls that wait for the pane to be open or to show its first prompt.
    fn callers_mut(&mut self) -> Option<&mut Vec<CallId>> {
        match &mut self.phase {
            PanePhase::Opening { callers } | PanePhase::Settling { callers } => Some(callers),
            PanePhase::Live | PanePhase::Ended => None,
        }
    }
}

/// A pane that is about to be opened.
pub(crate) struct NewPane<'a> {
    pub session: SessionName,
    pub name: String,
    pub command: String,
    pub size: PaneSize,
    pub launch_env: &'a LaunchEnv,
    pub key: IdempotencyKey,
    pub opened_by: Option<CallerIdentity>,
    /// The calls that wait for it.
    pub callers: Vec<CallId>,
    pub promised: Option<PaneId>,
    /// The agent of the worker that runs in the pane.
    pub agent: Option<String>,
}

/// The program of the pane that a `create_pane` call opens.
pub(crate) fn job_of(args: &CreatePane) -> PaneJob {
    let command = args.command.clone();
    command.map_or(PaneJob::Shell, PaneJob::Command)
}

/// The size limit of an overview.
pub(crate) enum Bounds {
    Model,
    None,
}

impl Panes {
    /// Live panes.
    pub fn live(&self) -> impl Iterator<Item = &PaneRecord> {
        self.records().filter(|record| record.ended.is_none())
    }

    /// Live panes that fugue created. A person's own panes in tmux outlive the daemon.
    pub fn live_own(&self) -> impl Iterator<Item = &PaneRecord> {
        let is_found = |record: &PaneRecord| {
            let tmux = record.tmux.as_ref();
            tmux.is_some_and(|tmux| tmux.origin == TmuxOrigin::Found)
        };
        self.live().filter(move |record| !is_found(record))
    }

    /// The pane of the nearest ancestor process. Each ancestor that is a holder comes with the holder's pane.
    pub fn pane_of(&self, ancestors: &[(u32, Option<PaneId>)]) -> Option<PaneId> {
        let child = |pid: u32| {
            let mut live = self.live();
            live.find(|record| record.pid == pid && pid != 0)
                .map(|record| record.id)
        };
        let mut panes = ancestors
            .iter()
            .filter_map(|(pid, holds)| holds.or_else(|| child(*pid)));
        panes.next()
    }

    /// The calls that wait for a pane to be opened, to show its first prompt, or to be closed.
    pub fn calls_waiting_on(&self, id: PaneId) -> Vec<CallId> {
        let Some(pane) = self.get(&id) else {
            return Vec::new();
        };
        let mut calls = match &pane.phase {
            PanePhase::Opening { callers } | PanePhase::Settling { callers } => callers.clone(),
            PanePhase::Live | PanePhase::Ended => Vec::new(),
        };
        calls.extend(&pane.closers);
        calls
    }

    pub fn create(
        &mut self,
        origin: CallOrigin,
        opened_by: Option<CallerIdentity>,
        args: CreatePane,
        launch_env: LaunchEnv,
        starts: &mut StartHistory,
        out: &mut StepBuilder,
    ) {
        let now = out.now();
        let caller = Some(origin.call);
        let record = self.enter_created(origin.key, opened_by, caller, &args, &launch_env, now);
        let mut changes = starts.remember(origin.key, StartTarget::Pane(record.id), now);
        changes.extend([
            Change::SetCounter(Counter::NextPane, self.next),
            Change::put(record.clone()),
        ]);
        out.commit(changes).or_undo(Undo::Pane(record.id));
        out.when_stored().then(AfterCommit::OpenPane {
            record: Box::new(record),
            job: job_of(&args),
            env: args.env,
            launch_env,
            caller: origin.caller,
        });
    }

    /// Attaches a repeated `create_pane` call to its pane.
    pub fn rejoin_create(&mut self, call: CallId, id: PaneId, out: &mut StepBuilder) {
        let Some(pane) = self.get_mut(&id) else {
            return;
        };
        if let Some(callers) = pane.callers_mut() {
            return callers.push(call);
        }
        let record = &pane.record;
        out.when_stored().then(match &record.ended {
            None => created(record, call, None, true, None),
            Some(ended) => {
                let cursor = Some(ended.cursor.clone());
                created(record, call, cursor, false, Some("it has ended already"))
            }
        });
    }

    /// Closes a pane for a `close_pane` call, which is answered at `Swept`.
    pub fn close(&mut self, call: CallId, id: PaneId, grace: Duration, out: &mut StepBuilder) {
        let Some(pane) = self.get_mut(&id) else {
            return;
        };
        match &pane.record.ended {
            Some(ended) if ended.closed => {
                out.perform(closed(&pane.record, call, Some("it was closed before")));
                return;
            }
            Some(_) => out.perform(Effect::EndProcesses { pane: id, grace }),
            None => {
                // Closing waits for no commit: on a full disk people close panes to make room. A holder that is closing
                // finishes even if this daemon dies, and leaves a record of the exit.
                out.perform(Effect::ClosePane { pane: id, grace });
                if !pane.record.closing {
                    pane.record.closing = true;
                    out.commit([put(&pane.record)]);
                }
            }
        }
        pane.closers.push(call);
    }

    /// Closes a pane for a run whose outcome the commit of this step stores.
    pub fn close_for_run(&mut self, id: PaneId, grace: Duration, out: &mut StepBuilder) {
        let Some(pane) = self.get_mut(&id) else {
            return;
        };
        match &mut pane.record.ended {
            Some(ended) if ended.closed => {}
            Some(ended) if pane.alone => {
                ended.closed = true;
                out.commit([put(&pane.record)]);
            }
            Some(_) => {
                out.when_stored()
                    .then(AfterCommit::EndProcesses { pane: id, grace });
            }
            None => {
                if !pane.record.closing {
                    pane.record.closing = true;
                    out.commit([put(&pane.record)]);
                }
                out.when_stored()
                    .then(AfterCommit::ClosePane { pane: id, grace });
            }
        }
    }
}
