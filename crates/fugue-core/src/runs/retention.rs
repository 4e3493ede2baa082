//! Retention of runs: how long a run and the output of its panes are kept.

use std::{collections::BTreeSet, time::Duration};

use fugue_api::{PaneId, RunId};

use super::{RunEntry, Runs};
use crate::{Change, RecordId, context::StepBuilder, settings::Settings};

impl Runs {
    /// Forgets finished runs by the limits of ended panes. Runs whose result was not fetched do not count. Returns when the
    /// next run is due.
    pub fn forget_old(&mut self, settings: &Settings, out: &mut StepBuilder) -> Option<Duration> {
        let now = out.now();
        let keep_for = settings.forget_after();
        let over = self.all.values().filter(|run| run.record.over);
        let mut over: Vec<(Duration, u64, RunId)> = over
            .filter_map(|run| {
                let until = now.when_aged(run.record.settled_at?, keep_for);
                Some((until, run.record.number, run.record.id.clone()))
            })
            .collect();
        over.sort();
        let needs_outputs =
            |runs: &Self, id: &RunId| runs.all.get(id).is_some_and(RunEntry::needs_outputs);
        let counted = over.iter().filter(|(_, _, id)| !needs_outputs(self, id));
        let mut too_many = counted.count().saturating_sub(settings.forget_beyond_panes);
        let mut changes = Vec::new();
        let mut next = None;
        for (until, _, id) in over {
            let surplus = too_many > 0 && !needs_outputs(self, &id);
            if surplus || until <= now.since_boot {
                too_many -= usize::from(surplus);
                self.all.remove(&id);
                changes.push(Change::Remove(RecordId::Run(id)));
            } else {
                next = next.or(Some(until));
            }
        }
        if !changes.is_empty() {
            out.commit(changes);
        }
        next
    }

    /// The panes whose output is part of a result that may still be fetched.
    pub fn needed_panes(&self) -> BTreeSet<PaneId> {
        let runs = self.all.values().filter(|run| run.needs_outputs());
        runs.flat_map(|run| run.record.panes()).collect()
    }

    /// Marks the result as fetched if the reply reached its caller. The mark is stored with a later commit: a daemon that is
    /// killed before that keeps the output of the panes longer than necessary, and loses nothing.
    pub fn reply_composed(&mut self, id: &RunId, delivered: bool) {
        if let Some(run) = self.all.get_mut(id) {
            run.composing = run.composing.saturating_sub(1);
            if delivered && run.record.over && !run.record.fetched {
                run.record.fetched = true;
                self.unstored_fetches.push(id.clone());
            }
        }
    }

    /// Adds the runs that were fetched to the commit of this step, unless the step has no commit that is certain to be
    /// stored.
    pub fn store_fetches(&mut self, out: &mut StepBuilder) {
        if self.unstored_fetches.is_empty() || !out.has_certain_changes() {
            return;
        }
        for id in std::mem::take(&mut self.unstored_fetches) {
            // A run that is forgotten needs no mark.
            if let Some(run) = self.all.get(&id) {
                run.stored(out);
            }
        }
    }
}

impl RunEntry {
    /// Whether the output of the panes must be kept: the run is open, its result was never fetched, or a reply is being
    /// composed.
    pub(super) fn needs_outputs(&self) -> bool {
        !self.record.over || !self.record.fetched || self.composing > 0
    }
}
