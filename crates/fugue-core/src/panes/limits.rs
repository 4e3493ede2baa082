//! Retention limits of panes: ended panes are forgotten with their files by age, by count and by the quota of all output
//! logs. `fugue gc` lists and removes panes by the same limits.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use fugue_api::{Cursor, PaneId, wire::ForgetReason};

use super::{PaneEntry, Panes};
use crate::{
    AfterCommit, CallId, Change, ClockReading, Effect,
    calls::plan::{Plan, Planner},
    context::StepBuilder,
    settings::Settings,
    view,
};

// The time to read the output of a pane that has just ended, even if the quota is exceeded.
const QUOTA_GRACE: Duration = Duration::from_secs(10);

/// Which ended panes are forgotten now, oldest first, and when the next one is due.
struct ForgetPlan {
    panes: Vec<(PaneId, ForgetReason)>,
    next_at: Option<Duration>,
}

/// Which ended panes may be forgotten.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ForgetScope {
    /// Panes beyond one of the limits.
    Limits,
    /// All ended panes that no run needs.
    AllEnded,
}

/// The recorded panes and workers and the forgotten panes, for a search of the state directory.
#[derive(Clone, Debug, PartialEq)]
pub struct Inventory {
    pub panes: BTreeSet<PaneId>,
    /// Directories with this id or a higher one belong to newer panes.
    pub next_pane: PaneId,
    pub workers: BTreeSet<u64>,
    pub next_worker: u64,
    /// The workers that run.
    pub live_workers: BTreeSet<u64>,
    /// The panes in `panes` that are forgotten.
    pub forgotten: BTreeMap<PaneId, ForgetReason>,
}

/// The size of all output logs, as far as known without reading the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogUsage {
    pub ended_bytes: u64,
    pub running_bytes: u64,
}

/// The size of an output log that ends at a cursor. The cap removes the oldest output.
pub(crate) fn log_bytes(cursor: &Cursor, settings: &Settings) -> u64 {
    let printed = view::cursor(cursor).map_or(0, |cursor| cursor.offset.0);
    printed.min(settings.log_cap_bytes)
}

impl Panes {
    /// The size of all output logs together.
    pub fn log_usage(&self) -> LogUsage {
        let mut usage = LogUsage::default();
        for pane in self.iter() {
            match pane.record.ended {
                Some(_) => usage.ended_bytes += pane.log_bytes,
                None => usage.running_bytes += pane.log_bytes,
            }
        }
        usage
    }

    /// Which ended panes are forgotten. The output of `needed` panes is part of a result: such panes are kept until
    /// the result was fetched or its run is forgotten. They do not count towards `forget_beyond_panes`, but their bytes
    /// count towards the quota.
    fn forget_plan(
        &self,
        scope: ForgetScope,
        needed: &BTreeSet<PaneId>,
        settings: &Settings,
        now: ClockReading,
    ) -> ForgetPlan {
        let keep_for = settings.forget_after();
        let mut ended: Vec<(Duration, Duration, &PaneEntry)> = self
            .iter()
            .filter(|pane| pane.closers.is_empty() && !needed.contains(&pane.record.id))
            .filter_map(|pane| {
                let at = pane.record.ended.as_ref()?.at;
                let quota_from = now.when_aged(at, QUOTA_GRACE);
                Some((now.when_aged(at, keep_for), quota_from, pane))
            })
            .collect();
        ended.sort_by_key(|(until, _, pane)| (*until, pane.record.id));
        let usage = self.log_usage();
        let mut over_quota = settings.logs_quota_bytes().map_or(0, |quota| {
            (usage.ended_bytes + usage.running_bytes).saturating_sub(quota)
        });
        let too_many = ended.len().saturating_sub(settings.forget_beyond_panes);
        let mut plan = ForgetPlan {
            panes: Vec::new(),
            next_at: None,
        };
        for (index, (until, quota_from, pane)) in ended.into_iter().enumerate() {
            let reason = if until <= now.since_boot {
                ForgetReason::Age
            } else if index < too_many {
                ForgetReason::Count
            } else if over_quota > 0 && quota_from <= now.since_boot {
                ForgetReason::Quota
            } else if scope == ForgetScope::AllEnded {
                ForgetReason::Asked
            } else {
                let is_over = over_quota > 0;
                plan.next_at = Some(if is_over {
                    until.min(quota_from)
                } else {
                    until
                });
                break;
            };
            over_quota = over_quota.saturating_sub(pane.log_bytes);
            plan.panes.push((pane.record.id, reason));
        }
        // A pane that is being closed is checked again after its callers were answered and had time to read.
        let is_being_closed =
            |pane: &PaneEntry| pane.record.ended.is_some() && !pane.closers.is_empty();
        if over_quota > 0 && self.iter().any(is_being_closed) {
            let again_at = now.since_boot + QUOTA_GRACE;
            plan.next_at = Some(plan.next_at.map_or(again_at, |next| next.min(again_at)));
        }
        plan
    }

    /// Forgets ended panes beyond the limits, and returns when the next one is due.
    pub fn forget_old(
        &mut self,
        needed: &BTreeSet<PaneId>,
        settings: &Settings,
        out: &mut StepBuilder,
    ) -> Option<Duration> {
        let plan = self.forget_plan(ForgetScope::Limits, needed, settings, out.now());
        let panes = plan.panes.iter().map(|(id, _)| *id);
        self.drop_panes(panes.clone(), out);
        for pane in panes {
            out.when_stored().then(AfterCommit::RemovePaneDir { pane });
        }
        plan.next_at
    }

    fn drop_panes(&mut self, ids: impl Iterator<Item = PaneId>, out: &mut StepBuilder) {
        let changes: Vec<Change> = ids.filter_map(|id| self.forget(id)).collect();
        if !changes.is_empty() {
            out.commit(changes);
        }
    }
}

impl PaneEntry {
    /// Records the size of a running output log.
    pub fn log_grew(&mut self, bytes: u64, settings: &Settings) {
        self.log_bytes = bytes.min(settings.log_cap_bytes);
    }
}

impl Planner<'_> {
    /// Has the daemon list or remove files that no record needs.
    pub fn collect_garbage(&self, call: CallId, dry_run: bool, scope: ForgetScope) -> Plan {
        let core = self.core;
        let (panes, settings) = (&core.cx.panes, &core.cx.settings);
        let plan = panes.forget_plan(scope, &core.runs.needed_panes(), settings, self.now);
        let inventory = Inventory {
            panes: panes.ids().copied().collect(),
            next_pane: PaneId(panes.next),
            workers: core.team.worker_numbers().collect(),
            next_worker: core.team.next_worker(),
            live_workers: core.team.live_workers().collect(),
            forgotten: plan.panes.into_iter().collect(),
        };
        if dry_run {
            return Plan::effect(Effect::ListGarbage { call, inventory });
        }
        Plan::new(move |core| {
            let forgotten = inventory.forgotten.keys().copied();
            core.cx.panes.drop_panes(forgotten, &mut core.cx.out);
            core.cx
                .out
                .when_stored()
                .then(AfterCommit::CollectGarbage { call, inventory });
        })
    }
}

#[cfg(test)]
mod tests {
    use fugue_api::{ToolCall, wire::Request};
    use serde_json::json;

    use super::*;
    use crate::{
        CoreInput, PaneEvent,
        core::tests::{Story, exited, opened},
    };

    const MB: u64 = 1 << 20;

    /// Panes 1 to `panes`, which run.
    fn story(settings: Settings, panes: u64) -> Story {
        let mut story = Story::new(settings);
        for pane in 1..=panes {
            let create = ToolCall::parse("create_pane", json!({"command": "c"})).unwrap();
            story.ask(pane, pane as u8, "", create);
            story.fact(pane, opened());
        }
        story
    }

    fn quota(logs_quota_mb: u64) -> Settings {
        Settings {
            logs_quota_mb,
            ..Settings::default()
        }
    }

    fn grew(story: &mut Story, pane: u64, bytes: u64) -> String {
        story.fact(pane, PaneEvent::LogGrew { bytes })
    }

    /// The pane ends when it has printed so much.
    fn ends(story: &mut Story, pane: u64, bytes: u64) -> String {
        let PaneEvent::Ended {
            exit, title, alone, ..
        } = exited(0)
        else {
            panic!("an end");
        };
        let cursor = fugue_term::TextCursor {
            offset: fugue_term::Offset(bytes),
            ..Default::default()
        };
        story.after(QUOTA_GRACE.as_millis() as u64).fact(
            pane,
            PaneEvent::Ended {
                exit,
                cursor: view::shown(cursor),
                title,
                alone,
                sweeps: false,
                lost_by_reboot: false,
            },
        )
    }

    #[test]
    fn beyond_the_quota_the_panes_that_ended_first_are_forgotten() {
        let mut story = story(quota(100), 5);
        assert!(!ends(&mut story, 3, 40 * MB).contains("forget"));
        assert!(!ends(&mut story, 1, 40 * MB).contains("forget"));
        let third = ends(&mut story, 2, 40 * MB);
        assert!(third.contains("forget p3"), "{third}");
        assert!(!third.contains("forget p1"), "{third}");
        // Running panes count by what they were told last, and are never forgotten.
        let grown = grew(&mut story, 4, 30 * MB);
        assert!(grown.contains("forget p1"), "{grown}");
        assert!(!grown.contains("forget p2"), "{grown}");
        let grown = grew(&mut story, 5, 60 * MB) + &grew(&mut story, 4, 60 * MB);
        assert!(!grown.contains("forget"), "its end was just told: {grown}");
        assert_eq!(
            story.core.next_deadline(),
            Some(story.now.since_boot + QUOTA_GRACE)
        );
        let later = story
            .after(QUOTA_GRACE.as_millis() as u64)
            .step(CoreInput::TimerExpired);
        assert!(later.contains("forget p2"), "{later}");
        assert_eq!(
            grew(&mut story, 4, 62 * MB),
            "",
            "nothing is left to forget"
        );
        let usage = story.core.log_usage();
        assert_eq!(
            (usage.ended_bytes, usage.running_bytes),
            (0, 122 * MB),
            "a person is told that running panes exceed it"
        );
    }

    #[test]
    fn a_log_counts_at_most_its_cap_and_no_quota_is_no_limit() {
        let mut story = story(quota(0), 2);
        for pane in [1, 2] {
            assert!(!ends(&mut story, pane, 1 << 50).contains("forget"));
        }
        let cap = Settings::default().log_cap_bytes;
        assert_eq!(story.core.log_usage().ended_bytes, 2 * cap);
    }

    #[test]
    fn the_outputs_of_an_open_run_stay_when_the_quota_is_exceeded() {
        let mut story = Story::new(quota(10));
        let commands = json!({"commands": [{"command": "a"}, {"command": "b"}]});
        let run = ToolCall::parse("fugue_run_parallel", commands).unwrap();
        story.ask(1, 1, "", run);
        for pane in [1, 2] {
            story.fact(pane, opened());
        }
        let first = ends(&mut story, 1, 50 * MB);
        assert!(!first.contains("forget"), "{first}");
        let later = story
            .after(QUOTA_GRACE.as_millis() as u64)
            .step(CoreInput::TimerExpired);
        assert!(!later.contains("forget"), "{later}");
    }

    #[test]
    fn a_dry_run_plans_what_a_collection_does_and_changes_nothing() {
        let mut story = story(quota(100), 3);
        ends(&mut story, 2, 10 * MB);
        let collect = |dry_run| Request::CollectGarbage {
            dry_run,
            all_ended: true,
        };
        let planned = story.ask_for(10, collect(true));
        assert_eq!(planned, "plan {p2: Asked}");
        let done = story.ask_for(11, collect(false));
        assert_eq!(done, "commit 1, collect {p2: Asked}");
        assert_eq!(story.ask_for(12, collect(true)), "plan {}");
    }
}
