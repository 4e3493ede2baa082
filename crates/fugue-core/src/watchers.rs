//! Watchers: each observes one pane, has it assessed when it is quiet, and types the next line.

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
    wire::{CallerEnv, Response},
};

use crate::{
    AfterCommit, AssessmentJob, CallId, Change, ClockReading, Counter, Effect, EnvironmentOwner,
    InboxId, LaunchEnv, PaneActivity, StoreSnapshot, WatcherRecord, WatcherStage,
    assess::{EntryRole, Transcript, WatchSettings},
    calls::CallOrigin,
    context::Context,
    shared::SharedState,
};

/// A watcher and the calls that wait for it.
#[derive(Debug)]
pub(crate) struct WatcherEntry {
    pub record: WatcherRecord,
    /// The environment of its commands and its assessor.
    caller: Arc<CallerEnv>,
    /// `pause` calls that wait for the suggested next step.
    pausers: Vec<CallId>,
    /// The activity counters of the pane when it was quiet. An injection is only typed if they are unchanged.
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
        let stored = std::mem::take(&mut snapshot.watchers).into_iter();
        Self {
            next: snapshot.next_watcher.max(1),
            all: stored
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

    fn note(&mut self, role: EntryRole, text: impl Into<String>, now: ClockReading) {
        let most = self.record.settings.max_transcript;
        self.record.transcript.push(role, text, now.wall, most);
    }

    fn stored(&self, cx: &mut Context) {
        cx.commit([Change::put(self.record.clone())]);
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
        world: Option<LaunchEnv>,
        settings: WatchSettings,
        shared: &mut SharedState,
        cx: &mut Context,
    ) {
        let now = cx.now();
        let mode = match self.watcher_of_pane(pane) {
            Some(number) => {
                self.update(number, &asking, owner, args, settings, cx);
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
                        cwd: world.map_or_else(|| "/".into(), |world| world.cwd),
                        transcript: Transcript::default(),
                        stage: WatcherStage::Active,
                        step: 0,
                        reports: Default::default(),
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
                cx.commit([
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
            attach_cmd: shared.panes.attach_command(pane),
        });
        cx.when_stored().then(answered(asking.call, reply));
    }

    /// Gives a watcher a new plan. A paused one continues with the next report.
    fn update(
        &mut self,
        number: u64,
        asking: &CallOrigin,
        owner: (InboxId, Option<InboxId>),
        args: WatchMe,
        settings: WatchSettings,
        cx: &mut Context,
    ) {
        let now = cx.now();
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
        // Open `pause` calls are refused, because the assessment that would answer them is cancelled.
        let pausers = std::mem::take(&mut watcher.pausers);
        watcher.record.step += u64::from(!pausers.is_empty());
        watcher.note(EntryRole::Plan, args.strategy_plan, now);
        let pane = watcher.record.pane;
        let owner = EnvironmentOwner::Watcher(number);
        cx.commit([
            Change::put_environment(owner, watcher.caller.clone()),
            Change::put(watcher.record.clone()),
        ]);
        if !pausers.is_empty() {
            transitions::end_work(number, pane, cx);
        }
        for call in pausers {
            let why = "the watcher was resumed before a next step was told";
            cx.when_stored()
                .reply(call, Err(Error::new(ErrorKind::Ended, why)));
        }
    }

    fn look_ma(&mut self, call: CallId, number: u64, args: LookMa, cx: &mut Context) {
        let now = cx.now();
        let Some(watcher) = self.all.get_mut(&number) else {
            return;
        };
        watcher.note(EntryRole::Status, args.status_report, now);
        let (status, reason) = match &watcher.record.stage {
            WatcherStage::Paused { reason } => (ReportStatus::Paused, Some(reason.clone())),
            _ => {
                watcher.record.reports.push_back(args.bash_wait);
                (ReportStatus::Waiting, None)
            }
        };
        watcher.stored(cx);
        cx.when_stored().then(answered(
            call,
            ToolReply::LookMa(LookMaReply { status, reason }),
        ));
        self.next_report(number, cx);
    }

    fn pause(
        &mut self,
        call: CallId,
        number: u64,
        pane: PaneId,
        shared: &mut SharedState,
        cx: &mut Context,
    ) {
        let already = matches!(
            self.all.get(&number).map(|watcher| &watcher.record.stage),
            Some(WatcherStage::Paused { .. })
        );
        if !already {
            self.pause_for(number, "paused on request", shared, cx);
        }
        if let Some(watcher) = self.all.get_mut(&number) {
            watcher.record.step += 1;
            watcher.pausers.push(call);
            watcher.stored(cx);
            transitions::end_work(number, pane, cx);
            // The pane reports its text at once, and the assessor is then asked for the next step.
            cx.perform(Effect::AwaitQuiet {
                pane,
                watcher: number,
                step: watcher.record.step,
                quiet: std::time::Duration::ZERO,
                lines: watcher.record.settings.tail_lines,
            });
        }
    }

    fn clear(&mut self, call: CallId, pane: PaneId, cx: &mut Context) {
        let status = match self.watcher_of_pane(pane) {
            None => ClearStatus::Noop,
            Some(number) => {
                self.drop_watcher(number, "the watcher was cleared", cx);
                ClearStatus::Cleared
            }
        };
        cx.when_stored()
            .then(answered(call, ToolReply::Clear(ClearReply { status })));
    }

    pub(crate) fn watcher_row(&self, pane: PaneId) -> Option<WatcherRow> {
        let number = self.watcher_of_pane(pane)?;
        self.all.get(&number).map(WatcherEntry::row)
    }

    #[cfg(test)]
    pub(crate) fn only_watcher(&self) -> WatcherRecord {
        let first = self.all.values().next();
        first
            .map(|watcher| watcher.record.clone())
            .expect("a watcher")
    }

    pub(crate) fn watcher_rows(&self) -> Vec<WatcherRow> {
        self.all.values().map(WatcherEntry::row).collect()
    }
}

fn answered(call: CallId, reply: ToolReply) -> AfterCommit {
    AfterCommit::Reply {
        call,
        answer: Ok(Response::Tool { reply }),
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
