//! A pipeline in a pane: its shell takes the steps from files by itself. The
//! [`StepTracker`](fugue_core::pane_machine::StepTracker) turns the shell's marks and records into events.

use std::{io, path::PathBuf, time::Instant};

use fugue_api::{Error, ErrorKind};
use fugue_core::{
    PaneEvent, PaneRecord, StepPlan,
    pane_machine::{
        BoxContent, PromptDecision, StepRecords, StepTracker, StepVerdict, StopSignal, WakeDecision,
    },
};
use fugue_holder::wire::{InputKind, InputMessage, SignalTarget, ToHolder};
use fugue_term::{ShellMark, ShellMarkKind, ShellState};
use rustix::process::Signal;

use super::{Pane, launch};
use crate::shell::{self, steps};

/// The plan as it is laid out for the shell of this pane.
pub fn plan_for(plan: &StepPlan, record: &PaneRecord) -> steps::StepFiles {
    let steps = plan.steps.iter().map(|step| steps::Step {
        heading: step.heading.clone(),
        text: step.text.clone(),
    });
    steps::StepFiles {
        number: plan.number,
        steps: steps.collect(),
        keep_going: plan.keep_going,
        begun: plan.begun,
        secret: record.step_secret(),
    }
}

impl Pane {
    pub(super) fn steps_dir(&self) -> PathBuf {
        launch::steps_dir(&self.context.pane_dir().dir)
    }

    fn is_at_prompt(&self) -> bool {
        matches!(
            self.follower.terminal.shell_state(),
            ShellState::AtPrompt { .. }
        )
    }

    /// Gives a plan to the pane's shell, or reports how far the shell is with a plan that it has.
    pub(super) async fn run_steps(&mut self, plan: StepPlan) {
        let number = plan.number;
        let dir = self.steps_dir();
        let is_followed = |steps: &StepTracker| steps.plan() == number;
        if !self.steps.as_ref().is_some_and(is_followed) {
            // A plan whose directory exists was accepted by an earlier daemon.
            let is_accepted = dir.join(number.to_string()).is_dir();
            self.follow_steps(number);
            let has_begun = self.steps.as_ref().is_some_and(StepTracker::has_marks);
            if !is_accepted && (has_begun || plan.begun > 0) {
                return self.lose_steps("its files were removed").await;
            }
            let admitted = if is_accepted {
                Ok(())
            } else {
                self.check_takes_steps()
            };
            let plan = plan_for(&plan, &self.context.record);
            let laid_out = admitted.and_then(|()| {
                steps::write_plan(&dir, &plan).map_err(|error| launch::files_error(&error))
            });
            if let Err(error) = laid_out {
                self.steps = None;
                let refused = PaneEvent::StepsRefused {
                    plan: number,
                    error,
                };
                return self.context.emit(refused).await;
            }
        }
        self.report_steps().await;
        if self.is_at_prompt() {
            self.wake_shell().await;
        }
    }

    /// Follows a plan from the marks that the terminal still has.
    pub(super) fn follow_steps(&mut self, plan: u64) {
        self.steps = Some(StepTracker::new(plan, self.follower.terminal.marks()));
    }

    fn check_takes_steps(&self) -> Result<(), Error> {
        let id = self.context.record.id;
        let kind = shell::ShellKind::from_path(std::path::Path::new(&self.context.record.command));
        if !shell::takes_steps(kind) {
            return Err(Error::invalid(format!(
                "pane_id: the shell of `{id}` has no way to take steps"
            ))
            .hint("use a pane with bash, zsh or fish, or leave `pane_id` out"));
        }
        match self.follower.terminal.shell_state() {
            ShellState::AtPrompt { .. } | ShellState::Prompting { .. } => Ok(()),
            ShellState::Unknown | ShellState::Running { .. } => {
                let (why, hint) = self.running_program();
                let message = format!("pane_id: `{id}` is not at its prompt: {why}");
                Err(Error::new(ErrorKind::Unavailable, message).hint(hint))
            }
        }
    }

    /// What the program in front of the shell shows, and what a caller can do about it.
    fn running_program(&self) -> (String, &'static str) {
        let screen = self.agent_screen();
        if let Some(dialog) = screen.dialog {
            let why = format!("its program shows a dialog: {}", dialog.text());
            let hint = "answer it with `send_input` and `keys`, or leave `pane_id` out";
            return (why, hint);
        }
        let has_draft = screen.input == BoxContent::UnsentText || self.is_person_typing();
        let why = match has_draft {
            true => "somebody has begun a line in its program and not sent it",
            false => "a program runs in it",
        };
        let hint = "wait for it with `fugue_expect`, or leave `pane_id` out";
        (why.to_owned(), hint)
    }

    /// A shell mark was read from the output.
    pub(super) async fn step_mark(&mut self, mark: &ShellMark) {
        let Some(steps) = &mut self.steps else { return };
        steps.on_mark(mark);
        match (mark.kind, mark.step) {
            (ShellMarkKind::Output | ShellMarkKind::Done { .. }, Some(_)) => {
                self.report_steps().await;
            }
            (ShellMarkKind::Input, _) => {
                self.report_steps().await;
                self.check_prompt().await;
            }
            (ShellMarkKind::Output | ShellMarkKind::Done { .. }, None)
            | (ShellMarkKind::Prompt, _) => {}
        }
    }

    /// Reads the shell's records. Lines that the shell did not write are logged once.
    fn read_records(&mut self) -> io::Result<StepRecords> {
        let dir = self.steps_dir();
        let (pane, secret) = (self.context.record.id, self.context.record.step_secret());
        let Some(steps) = &mut self.steps else {
            return Ok(StepRecords::default());
        };
        let plan = steps.plan();
        let records = steps::records(&dir, plan, secret)?;
        if steps.log_ignored(&records) {
            tracing::warn!(%pane, plan, lines = records.ignored,
                "step log has lines that the shell did not write; they are ignored");
        }
        Ok(records)
    }

    /// The shell is at its prompt.
    async fn check_prompt(&mut self) {
        let records = self.read_records();
        let Some(steps) = &self.steps else { return };
        let done = records.map(|records| records.done);
        match steps.on_prompt(done.map_err(|error| error.to_string())) {
            PromptDecision::Nothing => {}
            PromptDecision::Stopped => self.steps_stopped().await,
            PromptDecision::Lost(why) => self.lose_steps(&why).await,
            PromptDecision::Wake => self.wake_shell().await,
        }
    }

    /// Ends the pipeline whose records no longer explain its steps: a step changed or removed them, or the disk is full.
    async fn lose_steps(&mut self, why: &str) {
        let (dir, at, pane) = (self.steps_dir(), self.cursor(), self.context.record.id);
        let Some(steps) = self.steps.take() else {
            return;
        };
        let (plan, step) = (steps.plan(), steps.began());
        tracing::warn!(%pane, plan, step, why, "step log lost");
        if let Err(error) = steps::stop(&dir, plan) {
            tracing::debug!(%pane, %error, "step plan not stopped");
        }
        let why = format!(
            "the shell's own log of its steps was changed or removed while step {} ran ({why}); \
             its exit code is unknown and no further step was started",
            step.max(1)
        );
        self.context
            .emit(PaneEvent::StepsLost { plan, at, why })
            .await;
    }

    async fn wake_shell(&mut self) {
        let records = self.read_records().unwrap_or_default();
        let Some(steps) = &mut self.steps else { return };
        match steps.wake(&records, Instant::now()) {
            WakeDecision::Nothing => {}
            WakeDecision::GiveUp => self.refuse_steps().await,
            WakeDecision::Type(key) => {
                let Some(backend) = self.backend.as_mut() else {
                    return;
                };
                let seq = backend.next_seq();
                self.send(&ToHolder::Input(InputMessage {
                    seq,
                    key,
                    kind: InputKind::Typed,
                    bytes: shell::WAKE.to_vec(),
                }));
            }
        }
    }

    /// Refuses the plan that the shell does not take. The plan is stopped first, so that no shell takes it afterwards.
    async fn refuse_steps(&mut self) {
        let dir = self.steps_dir();
        let Some(plan) = self.steps.as_ref().map(StepTracker::plan) else {
            return;
        };
        let stopped = steps::stop(&dir, plan);
        if stopped.is_ok() || stopped.is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            self.steps = None;
            let id = self.context.record.id;
            let error = Error::new(
                ErrorKind::Unavailable,
                format!("pane_id: the shell of `{id}` does not take steps"),
            )
            .hint("leave `pane_id` out");
            self.context
                .emit(PaneEvent::StepsRefused { plan, error })
                .await;
        }
    }

    /// Reports to core what the records and marks show and was not reported before.
    pub(super) async fn report_steps(&mut self) {
        let records = match self.read_records() {
            Ok(records) => records,
            Err(error) => {
                tracing::warn!(pane = %self.context.record.id, %error, "step log cannot be read");
                return;
            }
        };
        // The end is recorded when all output and all marks have been read.
        let end = self.is_end_reported().then(|| self.cursor());
        let Some(steps) = &mut self.steps else { return };
        let progress = steps.on_records(&records, end.as_ref());
        for event in progress.events {
            self.context.emit(event).await;
        }
        match progress.next {
            StepVerdict::Continue => {}
            StepVerdict::Lost => self.lose_steps("no record of its end").await,
            StepVerdict::Stopped => self.steps_stopped().await,
        }
    }

    /// Stops a pipeline that timed out or was cancelled: no further step begins, and the running one is interrupted.
    pub(super) async fn stop_steps(&mut self, plan: u64) {
        if let Err(error) = steps::stop(&self.steps_dir(), plan) {
            tracing::warn!(pane = %self.context.record.id, %error, "step plan not stopped");
        }
        let steps = self.steps.as_mut().filter(|steps| steps.plan() == plan);
        let Some(steps) = steps else {
            return self.context.emit(PaneEvent::StepsStopped { plan }).await;
        };
        steps.start_stop(Instant::now());
        if self.is_at_prompt() {
            self.steps_stopped().await;
        } else {
            self.signal_step();
        }
    }

    pub(super) async fn pipeline_timer(&mut self, now: Instant) {
        let Some(steps) = &mut self.steps else { return };
        let due = steps.on_timer(now);
        if due.wake && self.is_at_prompt() {
            self.wake_shell().await;
        }
        if due.signal {
            self.signal_step();
        }
    }

    /// Sends the next signal to the foreground process group of the interrupted step.
    fn signal_step(&mut self) {
        let id = self.next_id();
        let steps = self.steps.as_mut();
        let Some(signal) = steps.and_then(|steps| steps.next_signal(Instant::now())) else {
            return;
        };
        let signal = match signal {
            StopSignal::Interrupt => Signal::INT,
            StopSignal::Terminate => Signal::TERM,
            StopSignal::Kill => Signal::KILL,
        };
        self.send(&ToHolder::Signal {
            id,
            target: SignalTarget::Foreground,
            signo: signal.as_raw(),
        });
    }

    async fn steps_stopped(&mut self) {
        if let Some(steps) = &mut self.steps
            && steps.finish_stop()
        {
            let plan = steps.plan();
            self.context.emit(PaneEvent::StepsStopped { plan }).await;
        }
    }
}
