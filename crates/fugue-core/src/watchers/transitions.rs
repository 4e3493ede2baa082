//! The state machine of watchers.

use std::time::Duration;

use fugue_api::{Error, ErrorKind, PaneId, ToolReply, inbox_event::InboxEvent, tools::PauseReply};

use super::{WatcherEntry, Watchers};
use crate::{
    AfterCommit, Assessment, AssessmentKind, Change, CheckResult, CommandEnd, Effect,
    EnvironmentOwner, InjectionOutcome, Moment, QuietPane, RecordId, WatcherStage,
    assess::{Decision, EntryRole, Injection},
    context::{Context, StepBuilder},
    inbox::NewEvent,
    timer::Timer,
};

const HOUR: Duration = Duration::from_secs(3600);
// A timer that fires so late was due while the machine was suspended or no daemon ran, so the pane was not observed.
const UNWATCHED_AGE: Duration = Duration::from_secs(10);
// After so many verdicts that `done_when` refuted, the assessor is asked once more; another one pauses the watcher.
const MAX_REFUTED: u32 = 1;

impl Watchers {
    /// Begins with the oldest report, if the watcher is active or on standby.
    pub(super) fn next_report(&mut self, number: u64, out: &mut StepBuilder) {
        let now = out.now();
        let Some(watcher) = self.all.get_mut(&number) else {
            return;
        };
        if !matches!(
            watcher.record.stage,
            WatcherStage::Active | WatcherStage::Standby
        ) {
            return;
        }
        let Some(wait) = watcher.record.reports.pop_front() else {
            return;
        };
        watcher.record.step += 1;
        watcher.record.verdict = None;
        watcher.record.spin_until = None;
        watcher.record.refuted = 0;
        match wait {
            Some(command) => {
                watcher.note(EntryRole::Wait, format!("bash: {command}"), now);
                watcher.record.stage = WatcherStage::Running {
                    command: command.clone(),
                };
                watcher.stored(out);
                let limit = watcher.record.settings.bash_wait_max_sec;
                out.when_stored().then(watcher.run(command, limit));
            }
            None => {
                let secs = watcher.record.settings.default_wait_sec;
                watcher.note(EntryRole::Wait, format!("sleep: {secs:.2}s"), now);
                let wait = Duration::from_millis((secs * 1000.0) as u64);
                watcher.record.stage = WatcherStage::Sleeping {
                    until: now.after(wait),
                };
                watcher.stored(out);
                out.set_timer(Timer::WatcherWait(number), now.since_boot + wait);
            }
        }
    }

    /// Applies the end of the command that a report waits for, or of the `done_when` check.
    pub fn command_ended(&mut self, number: u64, step: u64, ran: CommandEnd, cx: &mut Context) {
        let now = cx.now();
        let Some(watcher) = self.at(number, step) else {
            return;
        };
        match &watcher.record.stage {
            WatcherStage::Running { .. } => {
                let output = match ran.code {
                    Some(0) => ran.output,
                    _ => format!("{}\n[{}]", ran.output.trim_end(), ran.ending),
                };
                self.wait_over(number, output, &mut cx.out);
            }
            WatcherStage::Checking if ran.code == Some(0) => {
                watcher.note(EntryRole::Decision, "stop", now);
                watcher.record.verdict = None;
                watcher.record.decision = Some("stop".to_owned());
                watcher.record.stage = WatcherStage::Paused {
                    reason: "the plan is done, and `done_when` says so too".to_owned(),
                };
                watcher.record.reports.clear();
                watcher.stored(&mut cx.out);
                self.publish_decision(number, "stop", None, None, cx);
            }
            WatcherStage::Checking => {
                // The check refutes the assessor, which gets the reason and decides again.
                watcher.note(
                    EntryRole::Decision,
                    format!("stop, but done_when {}", ran.ending),
                    now,
                );
                watcher.record.refuted += 1;
                let why = format!(
                    "the model calls the plan done, and `done_when` {}",
                    ran.ending
                );
                watcher.record.verdict = Some(CheckResult {
                    ending: ran.ending,
                    output: ran.output,
                });
                watcher.record.spin_until = None;
                if watcher.record.refuted > MAX_REFUTED {
                    self.pause_for(number, &why, cx);
                } else {
                    self.wait_for_quiet(number, &mut cx.out);
                }
            }
            _ => {}
        }
    }

    fn wait_over(&mut self, number: u64, output: String, out: &mut StepBuilder) {
        let now = out.now();
        if let Some(watcher) = self.all.get_mut(&number) {
            watcher.note(EntryRole::WaitOutput, output.clone(), now);
            watcher.record.wait_output = Some(output);
        }
        self.wait_for_quiet(number, out);
    }

    /// Waits until the pane is quiet, with the deadline of the present report.
    fn wait_for_quiet(&mut self, number: u64, out: &mut StepBuilder) {
        let now = out.now();
        let Some(watcher) = self.all.get_mut(&number) else {
            return;
        };
        let wait = Duration::from_millis((watcher.record.settings.spin_max_sec * 1000.0) as u64);
        // After an assessment or an injection the same report keeps its deadline.
        let until = *watcher.record.spin_until.get_or_insert(now.after(wait));
        watcher.record.step += 1;
        watcher.record.stage = WatcherStage::Spinning { until };
        watcher.held = None;
        watcher.stored(out);
        out.perform(watcher.await_quiet());
        set_wait(number, until, out);
    }

    /// Waits until the pane is quiet, with a new deadline.
    fn restart_quiet_wait(&mut self, number: u64, out: &mut StepBuilder) {
        if let Some(watcher) = self.all.get_mut(&number) {
            watcher.record.spin_until = None;
        }
        self.wait_for_quiet(number, out);
    }

    /// Has a quiet pane assessed, or pauses at the hourly limit.
    pub fn quiet(&mut self, number: u64, step: u64, seen: QuietPane, cx: &mut Context) {
        let now = cx.now();
        let Some(watcher) = self.at(number, step) else {
            return;
        };
        if !watcher.pausers.is_empty() {
            cx.out.when_stored().then(AfterCommit::Assess {
                job: watcher.job(seen.tail, AssessmentKind::NextStep, now),
                caller: watcher.caller.clone(),
            });
            return;
        }
        if !matches!(watcher.record.stage, WatcherStage::Spinning { .. }) {
            return;
        }
        let asked_at = &mut watcher.record.asked_at;
        asked_at.retain(|at| !now.is_aged(*at, HOUR));
        let most = watcher.record.settings.assess_max_per_hour as usize;
        if watcher.record.asked_at.len() >= most {
            let why = format!("{most} assessments in an hour are enough (ASSESS_MAX_PER_HOUR)");
            return self.pause_for(number, &why, cx);
        }
        watcher.record.asked_at.push(now.moment());
        watcher.note(
            EntryRole::IdleSpin,
            format!("idle_for={:.2}", seen.idle_ms as f64 / 1000.0),
            now,
        );
        watcher.record.stage = WatcherStage::Assessing;
        watcher.seen = Some(seen.place);
        watcher.stored(&mut cx.out);
        cx.out.when_stored().then(AfterCommit::Assess {
            job: watcher.job(seen.tail, AssessmentKind::Decide, now),
            caller: watcher.caller.clone(),
        });
    }

    /// Applies an assessment, or pauses if the assessment failed.
    pub fn assessed(&mut self, number: u64, step: u64, judged: Assessment, cx: &mut Context) {
        let now = cx.now();
        let Some(watcher) = self.at(number, step) else {
            return;
        };
        match judged {
            Assessment::NextStep(outcome) => {
                for call in std::mem::take(&mut watcher.pausers) {
                    match &outcome {
                        Ok(next) => {
                            cx.out.when_stored().then(AfterCommit::tool_reply(
                                call,
                                ToolReply::Pause(PauseReply {
                                    injection_prompt: next
                                        .injection_prompt
                                        .as_ref()
                                        .map(|line| line.as_str().to_owned()),
                                    achieved: next.achieved,
                                }),
                            ));
                        }
                        Err(why) => cx.out.refuse(
                            call,
                            Error::new(
                                ErrorKind::Unavailable,
                                format!(
                                    "the watcher is paused, but no next step can be told: {why}"
                                ),
                            ),
                        ),
                    }
                }
            }
            Assessment::Decision(_) if watcher.record.stage != WatcherStage::Assessing => {}
            Assessment::Decision(Err(why)) => self.pause_for(number, &why, cx),
            Assessment::Decision(Ok(Decision::Stop)) => match watcher.record.done_when.clone() {
                Some(command) => {
                    watcher.record.stage = WatcherStage::Checking;
                    watcher.stored(&mut cx.out);
                    let limit = watcher.record.settings.bash_wait_max_sec;
                    cx.out.when_stored().then(watcher.run(command, limit));
                }
                None => {
                    watcher.note(EntryRole::Decision, "stop", now);
                    watcher.record.decision = Some("stop".to_owned());
                    watcher.record.stage = WatcherStage::Paused {
                        reason: "the plan is done".to_owned(),
                    };
                    watcher.record.reports.clear();
                    watcher.stored(&mut cx.out);
                    self.publish_decision(number, "stop", None, None, cx);
                }
            },
            Assessment::Decision(Ok(Decision::Continue(line))) => {
                watcher.record.stage = WatcherStage::Injecting { line: line.clone() };
                watcher.stored(&mut cx.out);
                let (record, seen) = (&watcher.record, watcher.seen.clone().unwrap_or_default());
                cx.out.when_stored().then(AfterCommit::Inject {
                    pane: record.pane,
                    watcher: number,
                    step,
                    line,
                    enter: record.settings.inject_press_enter,
                    seen,
                });
            }
        }
    }

    /// Applies the outcome of an injection.
    pub fn injected(&mut self, number: u64, step: u64, how: InjectionOutcome, cx: &mut Context) {
        let Some(watcher) = self.at(number, step) else {
            return;
        };
        // The pane reports a dialog or a draft before it is assessed.
        if let WatcherStage::Spinning { .. } = &watcher.record.stage {
            match how {
                InjectionOutcome::Refused(why) => self.pause_for(number, &why, cx),
                InjectionOutcome::Held(why) => watcher.held = Some(why),
                InjectionOutcome::NotNow
                | InjectionOutcome::Typed { .. }
                | InjectionOutcome::Unknown(_) => {}
            }
            return;
        }
        let WatcherStage::Injecting { line } = watcher.record.stage.clone() else {
            return;
        };
        match how {
            InjectionOutcome::Refused(why) => {
                let reason = format!("`{}` was not typed: {why}", line.as_str());
                self.pause_for(number, &reason, cx);
            }
            // The pane has changed since the assessment, which is out of date.
            InjectionOutcome::NotNow | InjectionOutcome::Held(_) => {
                self.wait_for_quiet(number, &mut cx.out)
            }
            InjectionOutcome::Typed { submitted } => {
                let doubt =
                    (!submitted).then(|| "whether Enter was taken cannot be seen".to_owned());
                self.continued(number, &line, doubt, cx);
            }
            InjectionOutcome::Unknown(why) => {
                let reason = format!("`{}` may have been typed or not: {why}", line.as_str());
                self.pause_for(number, &reason, cx);
            }
        }
    }

    fn continued(
        &mut self,
        number: u64,
        line: &Injection,
        doubt: Option<String>,
        cx: &mut Context,
    ) {
        let now = cx.now();
        let Some(watcher) = self.all.get_mut(&number) else {
            return;
        };
        watcher.note(EntryRole::Injection, line.as_str(), now);
        watcher.note(EntryRole::Decision, "continue", now);
        watcher.record.decision = Some("continue".to_owned());
        watcher.record.stage = WatcherStage::Standby;
        watcher.record.step += 1;
        watcher.stored(&mut cx.out);
        self.publish_decision(number, "continue", Some(line), doubt, cx);
        self.next_report(number, &mut cx.out);
    }

    /// Pauses a watcher until a person resumes it, and publishes the reason.
    pub(super) fn pause_for(&mut self, number: u64, why: &str, cx: &mut Context) {
        let now = cx.now();
        let Some(watcher) = self.all.get_mut(&number) else {
            return;
        };
        watcher.note(EntryRole::Decision, format!("paused: {why}"), now);
        watcher.record.decision = Some("paused".to_owned());
        watcher.record.step += 1;
        watcher.record.reports.clear();
        watcher.record.stage = WatcherStage::Paused {
            reason: why.to_owned(),
        };
        watcher.stored(&mut cx.out);
        self.publish_decision(number, "paused", None, Some(why.to_owned()), cx);
    }

    fn publish_decision(
        &mut self,
        number: u64,
        decision: &str,
        injection: Option<&Injection>,
        reason: Option<String>,
        cx: &mut Context,
    ) {
        let Some(watcher) = self.all.get(&number) else {
            return;
        };
        let record = &watcher.record;
        let event = InboxEvent::Watcher {
            pane_id: record.pane,
            decision: decision.to_owned(),
            injection: injection.map(|line| line.as_str().to_owned()),
            reason,
        };
        let to = [Some(record.owner.clone()), record.parent.clone()];
        for inbox in to.into_iter().flatten() {
            let post = NewEvent::new(inbox, event.clone());
            cx.inboxes.publish(post, &mut cx.out);
        }
    }

    pub(super) fn drop_watcher(&mut self, number: u64, why: &str, out: &mut StepBuilder) {
        let Some(watcher) = self.all.remove(&number) else {
            return;
        };
        out.commit([
            Change::Remove(RecordId::Watcher(number)),
            Change::remove_environment(EnvironmentOwner::Watcher(number)),
        ]);
        end_work(number, watcher.record.pane, out);
        out.stop_timer(&Timer::WatcherWait(number));
        for call in watcher.pausers {
            out.when_stored()
                .reply(call, Err(Error::new(ErrorKind::Ended, why)));
        }
    }

    /// Removes the watcher of a pane that has ended.
    pub fn watched_pane_ended(&mut self, pane: PaneId, cx: &mut Context) {
        if let Some(number) = self.watcher_of_pane(pane) {
            let reason = Some("the pane ended".to_owned());
            self.publish_decision(number, "ended", None, reason, cx);
            self.drop_watcher(number, "the pane ended", &mut cx.out);
        }
    }

    /// Removes the watchers of panes whose start was undone.
    pub fn end_without_pane(&mut self, cx: &mut Context) {
        let watched = self.all.values().map(|watcher| watcher.record.pane);
        let gone: Vec<PaneId> = watched
            .filter(|pane| cx.panes.get(pane).is_none())
            .collect();
        for pane in gone {
            self.watched_pane_ended(pane, cx);
        }
    }

    /// Repeats the request for quiet that was lost with the task of the watched pane. An injection is never repeated.
    pub fn pane_task_replaced(&mut self, pane: PaneId, cx: &mut Context) {
        let Some(number) = self.watcher_of_pane(pane) else {
            return;
        };
        let Some(watcher) = self.all.get(&number) else {
            return;
        };
        if !watcher.pausers.is_empty() {
            cx.out.perform(watcher.request_tail());
        }
        match &watcher.record.stage {
            WatcherStage::Spinning { .. } => cx.out.perform(watcher.await_quiet()),
            WatcherStage::Injecting { line } => {
                let why = format!(
                    "the task of the pane failed while it typed `{}`; whether it was typed is not known",
                    line.as_str()
                );
                self.pause_for(number, &why, cx);
            }
            WatcherStage::Active
            | WatcherStage::Sleeping { .. }
            | WatcherStage::Running { .. }
            | WatcherStage::Assessing
            | WatcherStage::Checking
            | WatcherStage::Standby
            | WatcherStage::Paused { .. } => {}
        }
    }

    pub fn watcher_wait_expired(&mut self, number: u64, cx: &mut Context) {
        let now = cx.now();
        let Some(watcher) = self.all.get(&number) else {
            return;
        };
        match watcher.record.stage {
            WatcherStage::Sleeping { until } if now.is_aged(until, Duration::ZERO) => {
                let secs = watcher.record.settings.default_wait_sec;
                self.wait_over(number, format!("[sleep] {secs:.2}s"), &mut cx.out);
            }
            WatcherStage::Spinning { until } if now.is_aged(until, UNWATCHED_AGE) => {
                self.restart_quiet_wait(number, &mut cx.out);
            }
            WatcherStage::Spinning { until } if now.is_aged(until, Duration::ZERO) => {
                let secs = watcher.record.settings.spin_max_sec;
                let why = match watcher.held.as_ref() {
                    Some(held) => {
                        format!("nothing was typed for {secs:.0} s (SPIN_MAX_SEC), because {held}")
                    }
                    None => format!("the pane did not rest for {secs:.0} s (SPIN_MAX_SEC)"),
                };
                let pane = watcher.record.pane;
                self.pause_for(number, &why, cx);
                end_work(number, pane, &mut cx.out);
            }
            // The deadline was moved after the timer was set.
            WatcherStage::Sleeping { until } | WatcherStage::Spinning { until } => {
                set_wait(number, until, &mut cx.out);
            }
            _ => {}
        }
    }

    /// Continues the watchers of an earlier daemon. An injection is never repeated.
    pub fn restore_watchers(&mut self, cx: &mut Context) {
        let now = cx.now();
        let numbers: Vec<u64> = self.all.keys().copied().collect();
        for number in numbers {
            let Some(watcher) = self.all.get(&number) else {
                continue;
            };
            let pane = cx.panes.get(&watcher.record.pane);
            if pane.is_none_or(|pane| pane.record.ended.is_some()) {
                let pane = watcher.record.pane;
                self.watched_pane_ended(pane, cx);
                continue;
            }
            match watcher.record.stage.clone() {
                WatcherStage::Sleeping { until } => set_wait(number, until, &mut cx.out),
                // A command is never repeated, and the end of this one is unknown.
                WatcherStage::Running { command } => {
                    let output = format!(
                        "[the daemon died while `{command}` ran; how it ended is not known]"
                    );
                    self.wait_over(number, output, &mut cx.out);
                }
                WatcherStage::Spinning { until } if now.is_aged(until, Duration::ZERO) => {
                    self.restart_quiet_wait(number, &mut cx.out);
                }
                WatcherStage::Spinning { .. }
                | WatcherStage::Assessing
                | WatcherStage::Checking => {
                    self.wait_for_quiet(number, &mut cx.out);
                }
                WatcherStage::Injecting { line } => {
                    let why = format!(
                        "the daemon died while it typed `{}`; whether it was typed is not known",
                        line.as_str()
                    );
                    self.pause_for(number, &why, cx);
                }
                WatcherStage::Active | WatcherStage::Standby => {
                    self.next_report(number, &mut cx.out)
                }
                WatcherStage::Paused { .. } => {}
            }
        }
    }
}

/// Cancels the command or assessment and the wait for quiet. The job is cancelled after the commit of this step: the job
/// itself may still wait for an earlier commit, and must not start after it was cancelled.
pub(super) fn end_work(watcher: u64, pane: PaneId, out: &mut StepBuilder) {
    out.when_stored()
        .then(AfterCommit::CancelWatcherJob { watcher });
    out.perform(Effect::CancelQuiet { pane, watcher });
}

/// Sets the timer of a watcher to a stored deadline.
fn set_wait(watcher: u64, until: Moment, out: &mut StepBuilder) {
    let at = out.now().when_aged(until, Duration::ZERO);
    out.set_timer(Timer::WatcherWait(watcher), at);
}

impl Watchers {
    /// The watcher with this number, if it is still at this step. Results of earlier steps are ignored.
    fn at(&mut self, number: u64, step: u64) -> Option<&mut WatcherEntry> {
        self.all
            .get_mut(&number)
            .filter(|watcher| watcher.record.step == step)
    }
}

impl WatcherEntry {
    fn run(&self, command: String, limit_secs: f64) -> AfterCommit {
        AfterCommit::RunWatcherCommand {
            watcher: self.record.number,
            step: self.record.step,
            command,
            cwd: self.record.cwd.clone(),
            caller: self.caller.clone(),
            limit: Duration::from_secs_f64(limit_secs),
        }
    }

    fn await_quiet(&self) -> Effect {
        self.await_quiet_for(Duration::from_secs_f64(self.record.settings.idle_threshold))
    }

    /// Has the pane report its text at once, for the assessment that answers the `pause` calls.
    pub(super) fn request_tail(&self) -> Effect {
        self.await_quiet_for(Duration::ZERO)
    }

    fn await_quiet_for(&self, quiet: Duration) -> Effect {
        Effect::AwaitQuiet {
            pane: self.record.pane,
            watcher: self.record.number,
            step: self.record.step,
            quiet,
            lines: self.record.settings.tail_lines,
        }
    }
}
