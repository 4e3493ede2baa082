//! A pane as core sees it: a process that outlives the daemon, and the task of the present daemon that reports on it.

use std::collections::VecDeque;

use fugue_api::{Error, ErrorKind, EventId, PaneId, RunId, tools::MatchVia};

use super::random::Random;
use crate::{
    ExitStatus, ExpectMatch, IdleState, InjectionOutcome, MatchedPattern, PaneActivity, PaneEvent,
    PaneJob, QuietPane, StepEvent, StepPlan, TypingOutcome, view,
};

#[derive(Debug, Default)]
pub(super) struct ModelPane {
    pub process: ModelProcess,
    pub task: ModelTask,
    /// Reported by the task and not handled by core.
    pub events: VecDeque<PaneEvent>,
    /// Commands for a task that is not started or has not opened its pane.
    pub early: VecDeque<PaneCommand>,
    expects: Vec<RunId>,
    /// The watcher and the step that wait for quiet.
    quiet: Option<(u64, u64)>,
    steps: Option<ModelSteps>,
    closing: bool,
}

#[derive(Debug, Default, PartialEq)]
pub(super) enum ModelProcess {
    #[default]
    NotStarted,
    Running,
    Ended(i32),
    /// The machine was restarted while the process ran.
    Lost,
}

#[derive(Debug, Default, PartialEq)]
pub(super) enum ModelTask {
    #[default]
    Absent,
    Opening(PaneJob),
    Attached,
    /// Until core has it replaced. Commands are lost.
    Panicked,
}

#[derive(Debug)]
pub(super) enum PaneCommand {
    StartExpect(RunId),
    CancelExpect(RunId),
    RunSteps(StepPlan),
    StopSteps(u64),
    AwaitIdle,
    TypeMessage(EventId),
    AwaitQuiet { watcher: u64, step: u64 },
    CancelQuiet,
    Inject { watcher: u64, step: u64 },
    Close,
}

/// The files of a plan, which survive the daemon.
#[derive(Debug)]
struct ModelSteps {
    plan: u64,
    count: usize,
    keep_going: bool,
    began: usize,
    /// The exit codes of the steps that have ended.
    codes: Vec<i32>,
    stopped: bool,
}

impl ModelPane {
    pub fn command(&mut self, command: PaneCommand, random: &mut Random) {
        match self.task {
            ModelTask::Attached => self.obey(command, random),
            ModelTask::Absent | ModelTask::Opening(_) => self.early.push_back(command),
            ModelTask::Panicked => {}
        }
    }

    fn obey(&mut self, command: PaneCommand, random: &mut Random) {
        match command {
            PaneCommand::StartExpect(run) => {
                let from = view::start();
                let event = PaneEvent::ExpectStarted {
                    run: run.clone(),
                    from,
                };
                self.events.push_back(event);
                self.expects.push(run);
            }
            PaneCommand::CancelExpect(run) => self.expects.retain(|known| *known != run),
            PaneCommand::RunSteps(plan) => self.take_steps(&plan),
            PaneCommand::StopSteps(plan) => {
                if let Some(steps) = self.steps.as_mut().filter(|steps| steps.plan == plan) {
                    steps.stopped = true;
                }
                self.events.push_back(PaneEvent::StepsStopped { plan });
            }
            PaneCommand::AwaitIdle => {
                if random.one_in(3) {
                    let not_yet = IdleState::NotYet(None);
                    self.events.push_back(PaneEvent::IdleReport(not_yet));
                }
                self.events.push_back(PaneEvent::IdleReport(IdleState::Now));
            }
            PaneCommand::TypeMessage(event) => {
                let how = match random.below(4) {
                    0 => TypingOutcome::Refused,
                    1 => TypingOutcome::Typed,
                    _ => TypingOutcome::Submitted,
                };
                self.events
                    .push_back(PaneEvent::MessageTyped { event, how });
            }
            PaneCommand::AwaitQuiet { watcher, step } => self.quiet = Some((watcher, step)),
            PaneCommand::CancelQuiet => self.quiet = None,
            PaneCommand::Inject { watcher, step } => {
                let how = match random.below(4) {
                    0 => InjectionOutcome::NotNow,
                    1 => InjectionOutcome::Refused("a dialog".into()),
                    2 => InjectionOutcome::Unknown("the holder died".into()),
                    _ => InjectionOutcome::Typed { submitted: true },
                };
                self.events
                    .push_back(PaneEvent::Injected { watcher, step, how });
            }
            PaneCommand::Close => self.closing = true,
        }
    }

    fn take_steps(&mut self, plan: &StepPlan) {
        self.steps = Some(ModelSteps {
            plan: plan.number,
            count: plan.steps.len(),
            keep_going: plan.keep_going,
            began: plan.begun,
            codes: vec![0; plan.begun],
            stopped: false,
        });
    }

    /// The process of an opening pane starts, or fails to start. Returns whether it was started.
    pub fn open(&mut self, random: &mut Random) -> bool {
        let ModelTask::Opening(job) = std::mem::take(&mut self.task) else {
            return false;
        };
        if random.one_in(12) {
            let error = Error::new(ErrorKind::Exhausted, "no terminal left");
            self.events.push_back(PaneEvent::OpenFailed(error));
            self.early.clear();
            return false;
        }
        self.start(&job);
        self.attach(random);
        self.events.push_back(opened());
        true
    }

    fn start(&mut self, job: &PaneJob) {
        self.process = ModelProcess::Running;
        (self.closing, self.steps) = (false, None);
        if let PaneJob::Steps(plan) | PaneJob::ShellWithSteps(plan) = job {
            self.take_steps(plan);
        }
    }

    fn attach(&mut self, random: &mut Random) {
        self.task = ModelTask::Attached;
        for command in std::mem::take(&mut self.early) {
            self.obey(command, random);
        }
    }

    /// The task of a running pane panics. Reported events may reach core before the panic, or after its replacement has
    /// reported them again, or never.
    pub fn panic(&mut self, random: &mut Random) {
        self.task = ModelTask::Panicked;
        let kept = random.below(self.events.len() + 1);
        self.events.truncate(kept);
        self.expects.clear();
        self.quiet = None;
    }

    /// The machine is restarted.
    pub fn lose_process(&mut self) {
        if self.process == ModelProcess::Running {
            self.process = ModelProcess::Lost;
        }
    }

    /// The daemon dies. An opening pane may have started its process. Returns whether it has.
    pub fn lose_task(&mut self, random: &mut Random) -> bool {
        self.events.clear();
        self.early.clear();
        self.expects.clear();
        self.quiet = None;
        match std::mem::take(&mut self.task) {
            ModelTask::Opening(job) if random.one_in(2) => {
                self.start(&job);
                true
            }
            ModelTask::Opening(_)
            | ModelTask::Attached
            | ModelTask::Absent
            | ModelTask::Panicked => false,
        }
    }

    /// The task of another daemon finds the process, or what it left. Known events are reported again.
    pub fn adopt(&mut self, has_pid: bool, closing: bool, random: &mut Random) {
        self.closing |= closing;
        match self.process {
            ModelProcess::NotStarted if has_pid => {
                self.events.push_back(ended(&ExitStatus::Unknown, false));
            }
            ModelProcess::Lost => {
                if !has_pid {
                    self.events.push_back(opened());
                }
                self.report_steps();
                self.report_end(&ExitStatus::Unknown);
            }
            ModelProcess::NotStarted => {
                let error = Error::new(ErrorKind::Ended, "the daemon died before it was started");
                self.events.push_back(PaneEvent::NeverStarted(error));
            }
            ModelProcess::Running => {
                if !has_pid {
                    self.events.push_back(opened());
                }
                self.report_steps();
                self.attach(random);
            }
            ModelProcess::Ended(code) => {
                if !has_pid {
                    self.events.push_back(opened());
                }
                self.report_steps();
                self.report_end(&ExitStatus::Code(code));
            }
        }
    }

    fn report_end(&mut self, exit: &ExitStatus) {
        self.events.push_back(ended(exit, self.closing));
        if self.closing {
            self.events.push_back(PaneEvent::Swept);
        }
    }

    fn report_steps(&mut self) {
        let Some(steps) = &self.steps else { return };
        for step in 1..=steps.began {
            let event = step_event(steps.plan, step);
            self.events.push_back(PaneEvent::StepBegan(event.clone()));
            if let Some(code) = steps.codes.get(step - 1) {
                self.events.push_back(PaneEvent::StepEnded(event, *code));
            }
        }
    }

    pub fn is_running(&self) -> bool {
        self.task == ModelTask::Attached && self.process == ModelProcess::Running
    }

    /// Something happens in a running pane.
    pub fn act(&mut self, random: &mut Random) {
        if self.closing {
            return self.end(0);
        }
        match random.below(6) {
            0 => self.end(i32::from(random.one_in(2))),
            1 => self.events.push_back(PaneEvent::Prompted {
                cursor: view::start(),
            }),
            2 | 3 if !self.expects.is_empty() => self.match_expect(random),
            4 if self.quiet.is_some() => self.report_quiet(random),
            _ => self.advance_steps(random),
        }
    }

    /// The pane is quiet, or would be if nobody typed into it.
    fn report_quiet(&mut self, random: &mut Random) {
        let Some((watcher, step)) = self.quiet else {
            return;
        };
        if random.one_in(4) {
            let how = InjectionOutcome::Held("a draft".into());
            let event = PaneEvent::Injected { watcher, step, how };
            return self.events.push_back(event);
        }
        self.quiet = None;
        let seen = QuietPane {
            tail: "$ ".into(),
            idle_ms: 3_000,
            place: PaneActivity::default(),
        };
        self.events.push_back(PaneEvent::Quiet {
            watcher,
            step,
            seen,
        });
    }

    fn match_expect(&mut self, random: &mut Random) {
        let run = self.expects.remove(random.below(self.expects.len()));
        self.events.push_back(matched(run, random));
    }

    fn advance_steps(&mut self, random: &mut Random) {
        let Some(steps) = &mut self.steps else { return };
        let event = |step| step_event(steps.plan, step);
        if steps.codes.len() < steps.began {
            let code = i32::from(random.one_in(4));
            let ended = PaneEvent::StepEnded(event(steps.began), code);
            steps.codes.push(code);
            self.events.push_back(ended);
            return;
        }
        let failed = !steps.keep_going && steps.codes.iter().any(|code| *code != 0);
        if steps.began < steps.count && !steps.stopped && !failed {
            let began = PaneEvent::StepBegan(event(steps.began + 1));
            steps.began += 1;
            self.events.push_back(began);
        }
    }

    /// The process ends by itself, or because it is closed.
    pub fn end(&mut self, code: i32) {
        self.process = ModelProcess::Ended(code);
        self.task = ModelTask::Absent;
        self.expects.clear();
        self.quiet = None;
        self.report_end(&ExitStatus::Code(code));
    }
}

pub(super) fn matched(run: RunId, random: &mut Random) -> PaneEvent {
    let pattern = match random.one_in(4) {
        true => MatchedPattern::Fail,
        false => MatchedPattern::Pattern,
    };
    let found = ExpectMatch {
        text: "x".into(),
        line: "x".into(),
        end: view::start(),
        via: MatchVia::Stream,
    };
    PaneEvent::ExpectMatched {
        run,
        from: Some(view::start()),
        pattern,
        found,
    }
}

fn opened() -> PaneEvent {
    PaneEvent::Opened {
        pid: 7,
        cursor: view::start(),
        tmux: None,
    }
}

fn ended(exit: &ExitStatus, sweeps: bool) -> PaneEvent {
    PaneEvent::Ended {
        exit: exit.clone(),
        cursor: view::start(),
        title: String::new(),
        alone: false,
        sweeps,
        lost_by_reboot: false,
    }
}

fn step_event(plan: u64, step: usize) -> StepEvent {
    StepEvent {
        plan,
        step,
        at: view::start(),
        when: None,
    }
}

/// A pane and its id, in a line of the story.
pub(super) fn pane_words(id: PaneId, event: &PaneEvent) -> String {
    let text = format!("{event:?}");
    let name = text.split([' ', '(', '{']).next().unwrap_or_default();
    format!("{id} reports {name}")
}
