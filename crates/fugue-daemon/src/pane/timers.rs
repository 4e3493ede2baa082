//! The timers of a pane's task.

use std::time::{Duration, Instant};

use fugue_core::pane_machine::{PaneTimer, StepTracker};

use super::{Pane, requests::ProbeReason};

impl Pane {
    pub(super) fn deadline(&self, timer: PaneTimer) -> Option<Instant> {
        match timer {
            PaneTimer::Probe => self.probing.deadline(),
            PaneTimer::Input => self.inputs.deadline(),
            PaneTimer::Expect => self.expects.deadline(),
            PaneTimer::Pipeline => self.steps.as_ref().and_then(StepTracker::deadline),
            PaneTimer::AgentIdle => self.idle.deadline(),
            PaneTimer::AgentLook => self.idle.look_deadline(),
            PaneTimer::Quiet => self.quiet.deadline(),
            PaneTimer::Frame => self.frames.deadline(),
            PaneTimer::ProbeTimeout => self.connection.probe_deadline(),
            PaneTimer::CloseTimeout => self.lifecycle.close_deadline(),
        }
    }

    /// Handles every timer that is due.
    pub(super) async fn fire_timers(&mut self) {
        let now = Instant::now();
        for timer in PaneTimer::ALL {
            if self.deadline(timer).is_some_and(|at| at <= now) {
                self.fire(timer, now).await;
            }
        }
    }

    async fn fire(&mut self, timer: PaneTimer, now: Instant) {
        match timer {
            PaneTimer::Probe => {
                self.probing.clear();
                self.probe(ProbeReason::OutputStopped);
            }
            PaneTimer::Input => {
                let screen = self.input_screen();
                self.inputs.on_timer(&screen, now);
                self.advance_inputs();
            }
            PaneTimer::Expect => self.expect_timer(now).await,
            PaneTimer::Pipeline => self.pipeline_timer(now).await,
            PaneTimer::AgentIdle => self.check_idle().await,
            PaneTimer::AgentLook => self.look_at_agent().await,
            PaneTimer::Quiet => {
                self.quiet.on_timer();
                self.probe(ProbeReason::WatcherQuiet);
            }
            // Frames are made in every turn of the loop.
            PaneTimer::Frame => {}
            PaneTimer::ProbeTimeout => self.backend_timed_out(),
            PaneTimer::CloseTimeout => self.close_unreachable(Duration::ZERO),
        }
    }
}
