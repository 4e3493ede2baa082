//! Watchers: each observes one pane, has the quiet pane assessed, and types the next line.

pub mod assess;
mod plan;
pub(crate) mod record;
#[cfg(test)]
mod tests;
mod transitions;

use std::{collections::BTreeMap, sync::Arc};

use fugue_api::{
    Error, ErrorKind, OsText, PaneId, ToolReply,
    overview::WatcherRow,
    tools::{
        ClearReply, ClearStatus, LookMa, LookMaReply, ReportStatus, WatchMe, WatchMeReply,
        WatchMode,
    },
    wire::{CallerEnv, IdempotencyKey},
};

use crate::{
    AfterCommit, AssessmentJob, CallId, Change, ClockReading, Counter, EnvironmentOwner, InboxId,
    LaunchEnv, PaneActivity, StoreSnapshot, WatcherRecord, WatcherStage,
    assess::{EntryRole, Transcript, WatchSettings},
    calls::CallOrigin,
    context::{Context, StepBuilder},
    snapshot::next_id,
};

// Reports whose keys are remembered: more than one agent sends before a lost reply is noticed and its call repeated.
const MAX_REPORT_KEYS: usize = 32;

/// A watcher and its waiting calls.
#[derive(Debug)]
pub(crate) struct WatcherEntry {
    pub record: WatcherRecord,
    /// The environment of its commands and its assessor.
    caller: Arc<CallerEnv>,
    /// `pause` calls that wait for the suggested next step.
    pausers: Vec<CallId>,
    /// The activity counters of the quiet pane. An injection is only typed while the counters are unchanged.
    seen: Option<PaneActivity>,
    /// Why the quiet pane is not assessed yet: a draft or an attention request.
    held: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Watchers {
    next: u64,
    all: BTreeMap<u64, WatcherEntry>,
}

impl Watchers {
    pub fn restored(snapshot: &mut StoreSnapshot) -> Self {
        let stored = std::mem::take(&mut snapshot.watchers);
        let numbers = stored.iter().map(|stored| stored.record.number);
        Self {
            next: next_id(snapshot.next_watcher, numbers),
            all: stored
                .into_iter()
                .map(|stored| {
                    let watcher = WatcherEntry {
                        record: stored.record,
                        caller: Arc::new(stored.caller),
                        pausers: Vec::new(),
                        seen: None,
                        held: None,
                    };
                    (watcher.record.number, watcher)
                })
                .collect(),
        }
    }

    fn watcher_of_pane(&self, pane: PaneId) -> Option<u64> {
        let mut all = self.all.values();
        all.find(|watcher| watcher.record.pane == pane)
            .map(|watcher| watcher.record.number)
    }

    pub fn pausers_of(&self, number: u64) -> Vec<CallId> {
        let mut all = self.all.values();
        let watcher = all.find(|watcher| watcher.record.number == number);
        watcher.map_or_else(Vec::new, |watcher| watcher.pausers.clone())
    }

    /// Whether the line of a step is still to be typed. A pause may have come while the step was being stored.
    pub fn is_injecting(&self, number: u64, step: u64) -> bool {
        let watcher = self.all.get(&number);
        watcher.is_some_and(|watcher| {
            watcher.record.step == step && watcher.record.stage.is_injecting()
        })
    }

    pub fn forget_call(&mut self, gone: CallId) {
        for watcher in self.all.values_mut() {
            watcher.pausers.retain(|call| *call != gone);
        }
    }
}

impl WatcherEntry {
    fn row(&self) -> WatcherRow {
        let record = &self.record;
        WatcherRow {
            pane_id: record.pane,
            state: record.stage.state(),
            reason: match &record.stage {
                WatcherStage::Paused { reason } => Some(reason.clone()),
                WatcherStage::Spinning { .. } => self.held.clone(),
                _ => None,
            },
            decision: record.decision.clone(),
            queued: record.reports.len() as u64,
        }
    }

    /// The reply to a report: a paused watcher queues none.
    fn report_reply(&self) -> LookMaReply {
        let (status, reason) = match &self.record.stage {
            WatcherStage::Paused { reason } => (ReportStatus::Paused, Some(reason.clone())),
            WatcherStage::Active
            | WatcherStage::Sleeping { .. }
            | WatcherStage::Running { .. }
            | WatcherStage::Spinning { .. }
            | WatcherStage::Assessing
            | WatcherStage::Checking
            | WatcherStage::Injecting { .. }
            | WatcherStage::Standby => (ReportStatus::Waiting, None),
        };
        LookMaReply { status, reason }
    }

    fn note(&mut self, role: EntryRole, text: impl Into<String>, now: ClockReading) {
        let most = self.record.settings.max_transcript;
        self.record.transcript.push(role, text, now.wall, most);
    }

    fn stored(&self, out: &mut StepBuilder) {
        out.commit([Change::put(self.record.clone())]);
    }

    /// The input of an assessment.
    fn job(
        &self,
        pane_tail: String,
        kind: crate::AssessmentKind,
        now: ClockReading,
    ) -> Box<AssessmentJob> {
        let record = &self.record;
        Box::new(AssessmentJob {
            watcher: record.number,
            step: record.step,
            judge: kind,
            settings: record.settings.clone(),
            transcript: record.transcript.clone(),
            wait_output: record.wait_output.clone(),
            pane_tail,
            done_when: record.done_when.clone(),
            verdict: record.verdict.clone(),
            now: now.wall,
        })
    }
}

impl Watchers {
    #[expect(
        clippy::too_many_arguments,
        reason = "one caller; a struct would be unpacked at once"
    )]
    fn watch_me(
        &mut self,
        asking: CallOrigin,
        owner: (InboxId, Option<InboxId>),
        args: WatchMe,
        pane: PaneId,
        launch_env: Option<LaunchEnv>,
        settings: WatchSettings,
        cx: &mut Context,
    ) {
        let now = cx.now();
        let mode = match self.watcher_of_pane(pane) {
            Some(number) => {
                self.update(number, &asking, owner, args, settings, &mut cx.out);
                WatchMode::Updated
            }
            None => {
                let number = self.next;
                self.next += 1;
                let (owner, parent) = owner;
                let mut watcher = WatcherEntry {
                    record: WatcherRecord {
                        number,
                        pane,
                        owner,
                        parent,
                        settings,
                        done_when: args.done_when,
                        cwd: launch_env.map_or_else(|| "/".into(), |launch_env| launch_env.cwd),
                        transcript: Transcript::default(),
                        stage: WatcherStage::Active,
                        step: 0,
                        reports: Default::default(),
                        report_keys: Vec::new(),
                        spin_until: None,
                        wait_output: None,
                        verdict: None,
                        refuted: 0,
                        asked_at: Vec::new(),
                        decision: None,
                    },
                    caller: asking.caller.clone(),
                    pausers: Vec::new(),
                    seen: None,
                    held: None,
                };
                watcher.note(EntryRole::Plan, args.strategy_plan, now);
                cx.out.commit([
                    Change::SetCounter(Counter::NextWatcher, self.next),
                    Change::put_environment(EnvironmentOwner::Watcher(number), asking.caller),
                    Change::put(watcher.record.clone()),
                ]);
                self.all.insert(number, watcher);
                WatchMode::Watching
            }
        };
        let reply = ToolReply::WatchMe(WatchMeReply {
            ok: true,
            mode,
            pane_id: pane,
            attach_cmd: cx.panes.attach_command(pane),
        });
        cx.out
            .when_stored()
            .then(AfterCommit::tool_reply(asking.call, reply));
    }

    /// Gives a watcher a new plan. A paused one continues with the next report.
    fn update(
        &mut self,
        number: u64,
        asking: &CallOrigin,
        owner: (InboxId, Option<InboxId>),
        args: WatchMe,
        settings: WatchSettings,
        out: &mut StepBuilder,
    ) {
        let now = out.now();
        let (owner, parent) = owner;
        let Some(watcher) = self.all.get_mut(&number) else {
            return;
        };
        watcher.caller = asking.caller.clone();
        let record = &mut watcher.record;
        (record.owner, record.parent) = (owner, parent);
        (record.settings, record.done_when) = (settings, args.done_when);
        record.verdict = None;
        if let WatcherStage::Paused { .. } = record.stage {
            record.stage = WatcherStage::Standby;
        }
        // Open `pause` calls are refused, because the assessment for their answer is cancelled.
        let pausers = std::mem::take(&mut watcher.pausers);
        watcher.record.step += u64::from(!pausers.is_empty());
        watcher.note(EntryRole::Plan, args.strategy_plan, now);
        let pane = watcher.record.pane;
        let owner = EnvironmentOwner::Watcher(number);
        out.commit([
            Change::put_environment(owner, watcher.caller.clone()),
            Change::put(watcher.record.clone()),
        ]);
        if !pausers.is_empty() {
            transitions::end_work(number, pane, out);
        }
        for call in pausers {
            let why = "the watcher was resumed before a next step was told";
            out.when_stored()
                .reply(call, Err(Error::new(ErrorKind::Ended, why)));
        }
    }

    fn look_ma(
        &mut self,
        (call, key): (CallId, IdempotencyKey),
        number: u64,
        args: LookMa,
        out: &mut StepBuilder,
    ) {
        let now = out.now();
        let Some(watcher) = self.all.get_mut(&number) else {
            return;
        };
        watcher.note(EntryRole::Status, args.status_report, now);
        let reply = watcher.report_reply();
        if reply.status == ReportStatus::Waiting {
            let keys = &mut watcher.record.report_keys;
            keys.drain(..keys.len().saturating_sub(MAX_REPORT_KEYS - 1));
            keys.push(key);
            watcher.record.reports.push_back(args.bash_wait);
        }
        watcher.stored(out);
        out.when_stored()
            .then(AfterCommit::tool_reply(call, ToolReply::LookMa(reply)));
        self.next_report(number, out);
    }

    fn pause(&mut self, call: CallId, number: u64, pane: PaneId, cx: &mut Context) {
        let already = matches!(
            self.all.get(&number).map(|watcher| &watcher.record.stage),
            Some(WatcherStage::Paused { .. })
        );
        if !already {
            self.pause_for(number, "paused on request", cx);
        }
        if let Some(watcher) = self.all.get_mut(&number) {
            watcher.record.step += 1;
            watcher.pausers.push(call);
            watcher.stored(&mut cx.out);
            transitions::end_work(number, pane, &mut cx.out);
            // The assessor is asked for the next step when the pane has reported its text.
            cx.out.perform(watcher.request_tail());
        }
    }

    fn clear(&mut self, call: CallId, pane: PaneId, out: &mut StepBuilder) {
        let status = match self.watcher_of_pane(pane) {
            None => ClearStatus::Noop,
            Some(number) => {
                self.drop_watcher(number, "the watcher was cleared", out);
                ClearStatus::Cleared
            }
        };
        out.when_stored().then(AfterCommit::tool_reply(
            call,
            ToolReply::Clear(ClearReply { status }),
        ));
    }

    pub fn watcher_row(&self, pane: PaneId) -> Option<WatcherRow> {
        let number = self.watcher_of_pane(pane)?;
        self.all.get(&number).map(WatcherEntry::row)
    }

    #[cfg(test)]
    pub fn contains(&self, number: u64) -> bool {
        self.all.contains_key(&number)
    }

    #[cfg(test)]
    pub fn only_watcher(&self) -> WatcherRecord {
        let first = self.all.values().next();
        first
            .map(|watcher| watcher.record.clone())
            .expect("a watcher")
    }

    pub fn watcher_rows(&self) -> Vec<WatcherRow> {
        self.all.values().map(WatcherEntry::row).collect()
    }
}

/// The pane that a caller runs in.
pub(crate) fn own_pane(caller: &CallerEnv) -> Option<PaneId> {
    let named = |key: &OsText| *key == OsText::Text("FUGUE_PANE_ID".into());
    let (_, value) = caller.env.iter().find(|(key, _)| named(key))?;
    match value {
        OsText::Text(value) => value.parse().ok(),
        OsText::Bytes(_) => None,
    }
}
