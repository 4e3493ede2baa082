//! The registry of panes and everybody who waits on one.

#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;

use fugue_api::{Error, ErrorKind, PaneId, RunId};

use crate::{
    AdoptMode, ClockReading, CoreInput, Effect, PaneRecord, StoreSnapshot, TmuxOrigin, Undo,
    attach::AttachState,
    calls::starts::StartHistory,
    panes::{PaneEntry, PanePhase, limits::log_bytes},
    runs::RunEntry,
    settings::Settings,
    watchers::Watchers,
    workers::Team,
};

/// The registry of panes and runs, and every call that waits on one.
#[derive(Debug)]
pub struct Core {
    pub(crate) settings: Settings,
    pub(crate) next_pane: u64,
    pub(crate) panes: BTreeMap<PaneId, PaneEntry>,
    pub(crate) next_run: u64,
    pub(crate) runs: BTreeMap<RunId, RunEntry>,
    pub(crate) starts: StartHistory,
    pub(crate) team: Team,
    pub(crate) watchers: Watchers,
    pub(crate) looking: AttachState,
}

impl Core {
    /// Takes up what an earlier daemon left.
    pub fn restore(
        settings: Settings,
        mut snapshot: StoreSnapshot,
        now: ClockReading,
    ) -> (Self, Vec<Effect>) {
        let mut effects = Vec::new();
        let team = Team::restored(&mut snapshot, &settings, now);
        let watchers = Watchers::restored(&mut snapshot);
        let looking = AttachState::restored(&mut snapshot);
        // Above all that an earlier daemon told: whoever followed a run then hears of what happened in between.
        let first_version = snapshot.epoch << 32;
        let runs: BTreeMap<RunId, RunEntry> = snapshot
            .runs
            .into_iter()
            .map(|stored| {
                let id = stored.record.id.clone();
                (id, RunEntry::restored(stored, first_version, now))
            })
            .collect();
        let mut panes = BTreeMap::new();
        for mut record in snapshot.panes {
            if record.removing {
                effects.push(Effect::Forget { pane: record.id });
                continue;
            }
            if let Some(ended) = &mut record.ended {
                ended.at = now.stamped(ended.at);
            }
            let phase = if record.ended.is_some() {
                PanePhase::Ended
            } else {
                effects.push(Effect::Adopt {
                    steps: runs.values().find_map(|run| run.steps_in(record.id)),
                    record: Box::new(record.clone()),
                    how: AdoptMode::Terminal,
                });
                if record.pid == 0 {
                    PanePhase::Opening {
                        callers: Vec::new(),
                    }
                } else {
                    PanePhase::Live
                }
            };
            let ended = record.ended.as_ref();
            let log_bytes = ended.map_or(0, |ended| log_bytes(&ended.cursor, &settings));
            panes.insert(
                record.id,
                PaneEntry {
                    log_bytes,
                    record,
                    phase,
                    closers: Vec::new(),
                    alone: false,
                    lost_bytes: 0,
                    panics: 0,
                },
            );
        }
        let mut core = Self {
            settings,
            next_pane: snapshot.next_pane.max(1),
            panes,
            next_run: snapshot.next_run.max(1),
            runs,
            starts: StartHistory::restored(snapshot.starts),
            team,
            watchers,
            looking,
        };
        core.restore_runs(now, &mut effects);
        core.restore_workers(now, &mut effects);
        core.restore_watchers(now, &mut effects);
        core.forget_old(now, &mut effects);
        core.look_again(&mut effects);
        (core, in_one_commit(effects))
    }

    pub fn step(&mut self, input: CoreInput, now: ClockReading) -> Vec<Effect> {
        let mut effects = Vec::new();
        if let CoreInput::NotStored { .. } = input {
            self.looking.is_stale();
        }
        match input {
            CoreInput::Call { call, asked } => {
                if let Err(error) = self.call(call, asked, now, &mut effects) {
                    effects = vec![Effect::Answer {
                        call,
                        answer: Err(error),
                    }];
                }
            }
            CoreInput::Cancelled { call } => {
                self.forget_call(call);
                self.forget_run_call(call);
                self.forget_team_call(call, &mut effects);
                self.watchers.forget_call(call);
                self.forget_look(call, &mut effects);
            }
            CoreInput::Pane { pane, event: fact } => self.fact(pane, fact, now, &mut effects),
            CoreInput::NotStored { what, why } => self.undo(&what, &why, &mut effects),
            CoreInput::Prepared { worker, outcome } => {
                self.prepared(worker, outcome, now, &mut effects)
            }
            CoreInput::Unprepared { worker, error } => {
                self.drop_worker(worker, &error, &mut effects)
            }
            CoreInput::WorkedOut { worker, found } => {
                self.worked_out(worker, found, now, &mut effects)
            }
            CoreInput::WatcherRan { watcher, step, ran } => {
                self.watcher_ran(watcher, step, ran, now, &mut effects)
            }
            CoreInput::Judged {
                watcher,
                step,
                judged,
            } => self.judged(watcher, step, judged, now, &mut effects),
            CoreInput::Composed { run, delivered } => {
                self.composed(&run, delivered, now, &mut effects);
            }
            CoreInput::Time => {
                self.time(now, &mut effects);
                self.time_for_runs(now, &mut effects);
                self.time_for_team(now, &mut effects);
                self.time_for_watchers(now, &mut effects);
            }
        }
        self.look_again(&mut effects);
        in_one_commit(effects)
    }

    /// What was to be started could not be recorded, so it must not be.
    fn undo(&mut self, what: &Undo, why: &str, effects: &mut Vec<Effect>) {
        match what {
            Undo::Pane(pane) => self.not_stored(*pane, why, effects),
            Undo::Run(run) => self.run_not_stored(run, why, effects),
            Undo::Worker(worker) => {
                let error = Error::new(
                    ErrorKind::Exhausted,
                    format!("the new worker could not be recorded: {why}"),
                );
                let error = error.hint("nothing was started; is the disk full, or read-only?");
                self.drop_worker(*worker, &error, effects);
            }
            Undo::Both(both) => {
                let (one, other) = &**both;
                self.undo(one, why, effects);
                self.undo(other, why, effects);
            }
        }
    }

    pub fn live_panes(&self) -> impl Iterator<Item = PaneId> + '_ {
        self.panes
            .values()
            .filter(|pane| pane.record.ended.is_none())
            .map(|pane| pane.record.id)
    }

    /// Those that fugue made. A person's own, in tmux, outlive it.
    pub fn own_panes(&self) -> impl Iterator<Item = PaneId> + '_ {
        let found = |pane: &PaneId| {
            let tmux = self
                .panes
                .get(pane)
                .and_then(|pane| pane.record.tmux.as_ref());
            tmux.is_some_and(|tmux| tmux.origin == TmuxOrigin::Found)
        };
        self.live_panes().filter(move |pane| !found(pane))
    }

    pub(crate) fn records(&self) -> impl Iterator<Item = &PaneRecord> + Clone {
        self.panes.values().map(|pane| &pane.record)
    }
}

/// All that one step changes is one commit, where the first of its changes stood: a state and what it causes are on
/// disk together, and whoever waits, waits for one write.
fn in_one_commit(effects: Vec<Effect>) -> Vec<Effect> {
    let mut together: Vec<Effect> = Vec::with_capacity(effects.len());
    let mut first = None;
    for effect in effects {
        match (effect, first) {
            (Effect::Commit { changes, undo }, Some(at)) => {
                if let Some(Effect::Commit {
                    changes: all,
                    undo: known,
                }) = together.get_mut(at)
                {
                    all.extend(changes);
                    *known = match (known.take(), undo) {
                        (Some(one), Some(other)) => Some(Undo::Both(Box::new((one, other)))),
                        (one, other) => one.or(other),
                    };
                }
            }
            (effect @ Effect::Commit { .. }, None) => {
                first = Some(together.len());
                together.push(effect);
            }
            // A size waits for no disk: whoever is told how panes lie, and types, finds them so.
            (effect @ Effect::Fit { .. }, Some(at)) => {
                together.insert(at, effect);
                first = Some(at + 1);
            }
            (effect, _) => together.push(effect),
        }
    }
    together
}
