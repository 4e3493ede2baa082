//! Runs of an earlier daemon.

use fugue_api::RunId;

use super::{Runs, transitions::EarlyEnd};
use crate::{
    AfterCommit, Effect, RunWork,
    context::{Context, StepBuilder},
    panes::PaneEntry,
    timer::Timer,
};

impl Runs {
    /// Continues the open runs of an earlier daemon.
    pub fn restore_runs(&mut self, cx: &mut Context) {
        let now = cx.now();
        for id in self.open_runs() {
            let Some(run) = self.all.get(&id) else {
                continue;
            };
            cx.out.set_timer(Timer::RunDeadline(id.clone()), run.due);
            if !run.record.is_settled() && now.is_after_reboot(run.record.started_at) {
                self.lost_by_reboot(&id, &mut cx.out);
            }
            let Some(run) = self.all.get(&id) else {
                continue;
            };
            // The deadline passed while no daemon ran: later reports of the panes do not count.
            if !run.record.is_settled() && run.due <= now.since_boot {
                self.end_early(&id, EarlyEnd::Timeout, cx);
                continue;
            }
            if run.record.is_settled() {
                self.stop_steps_again(&id, cx);
                self.close_panes(&id, cx);
                self.end_if_over(&id, cx);
                continue;
            }
            match &run.record.work {
                RunWork::Expect(work) => {
                    let expect = work.request(&id);
                    let pane = work.pane;
                    match cx.panes.get(&pane) {
                        None => self.settle_without_pane(&id, cx),
                        Some(PaneEntry { record, .. }) if record.ended.is_some() => {
                            cx.out.when_stored().then(AfterCommit::SearchArchive {
                                record: Box::new(record.clone()),
                                expect,
                            });
                        }
                        Some(_) => {
                            cx.out
                                .when_stored()
                                .then(AfterCommit::StartExpect { pane, expect });
                        }
                    }
                }
                // The adopted panes report that their commands ended, or that they never started (`reopen_pane`).
                RunWork::Parallel(_) => {}
                // The adopted pane got the plan with its adoption, and reports how far the shell is.
                RunWork::Pipeline(work) => {
                    let pane = cx.panes.get(&work.pane);
                    if pane.is_none_or(|pane| pane.record.ended.is_some()) {
                        self.settle_without_pane(&id, cx);
                    }
                }
            }
        }
    }

    /// Interrupts the step of a pipeline that timed out or was cancelled under an earlier daemon, unless its shell has
    /// ended.
    fn stop_steps_again(&mut self, id: &RunId, cx: &mut Context) {
        let Some(run) = self.all.get_mut(id) else {
            return;
        };
        let plan = run.record.number;
        if let RunWork::Pipeline(work) = &mut run.record.work
            && work.stopping
            && !work.stopped
        {
            let pane = work.pane;
            let entry = cx.panes.get(&pane);
            match entry.is_none_or(|entry| entry.record.ended.is_some()) {
                true => work.stopped = true,
                false => cx.out.perform(Effect::StopSteps { pane, plan }),
            }
        }
    }

    /// Marks a run of an earlier boot: none of its commands is started again, and the files of its panes decide how the
    /// run ended.
    fn lost_by_reboot(&mut self, id: &RunId, out: &mut StepBuilder) {
        let Some(run) = self.all.get_mut(id) else {
            return;
        };
        run.record.lost_by_reboot = true;
        run.stored(out);
    }
}
