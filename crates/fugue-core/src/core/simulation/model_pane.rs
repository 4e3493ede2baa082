//! A pane as core sees it: a process that outlives the daemon, and the task of the present daemon that reports on it.

use std::collections::VecDeque;

use fugue_api::{Error, ErrorKind, PaneId, RunId, tools::MatchVia};

use super::random::Random;
use crate::{
    ExitStatus, ExpectMatch, MatchedPattern, PaneEvent, PaneJob, StepEvent, StepPlan, view,
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
    steps: Option<ModelSteps>,
    closing: bool,
}

#[derive(Debug, Default, PartialEq)]
pub(super) enum ModelProcess {
    #[default]
    NotStarted,
    Running,
    Ended(i32),
}

#[derive(Debug, Default, PartialEq)]
pub(super) enum ModelTask {
    #[default]
    Absent,
    Opening(PaneJob),
    Attached,
}

#[derive(Debug)]
pub(super) enum PaneCommand {
    StartExpect(RunId),
    CancelExpect(RunId),
    RunSteps(StepPlan),
    StopSteps(u64),
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
    pub fn command(&mut self, command: PaneCommand) {
        match self.task {
            ModelTask::Attached => self.obey(command),
            ModelTask::Absent | ModelTask::Opening(_) => self.early.push_back(command),
        }
    }

    fn obey(&mut self, command: PaneCommand) {
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
        self.attach();
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

    fn attach(&mut self) {
        self.task = ModelTask::Attached;
        for command in std::mem::take(&mut self.early) {
            self.obey(command);
        }
    }

    /// The daemon dies. An opening pane may have started its process. Returns whether it has.
    pub fn lose_task(&mut self, random: &mut Random) -> bool {
        self.events.clear();
        self.early.clear();
        self.expects.clear();
        match std::mem::take(&mut self.task) {
            ModelTask::Opening(job) if random.one_in(2) => {
                self.start(&job);
                true
            }
            ModelTask::Opening(_) | ModelTask::Attached | ModelTask::Absent => false,
        }
    }

    /// The task of another daemon finds the process, or what it left. Known events are reported again.
    pub fn adopt(&mut self, has_pid: bool) {
        match self.process {
            ModelProcess::NotStarted if has_pid => {
                self.events.push_back(ended(&ExitStatus::Unknown, false));
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
                self.attach();
            }
            ModelProcess::Ended(code) => {
                if !has_pid {
                    self.events.push_back(opened());
                }
                self.report_steps();
                let event = ended(&ExitStatus::Code(code), self.closing);
                self.events.push_back(event);
                if self.closing {
                    self.events.push_back(PaneEvent::Swept);
                }
            }
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
            2 | 3 if !self.expects.is_empty() => self.sight(random),
            _ => self.advance_steps(random),
        }
    }

    fn sight(&mut self, random: &mut Random) {
        let run = self.expects.remove(random.below(self.expects.len()));
        self.events.push_back(sighted(run, random));
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
        let event = ended(&ExitStatus::Code(code), self.closing);
        self.events.push_back(event);
        if self.closing {
            self.events.push_back(PaneEvent::Swept);
        }
    }
}

pub(super) fn sighted(run: RunId, random: &mut Random) -> PaneEvent {
    let saw = match random.one_in(4) {
        true => MatchedPattern::Fail,
        false => MatchedPattern::Pattern,
    };
    let sighting = ExpectMatch {
        text: "x".into(),
        line: "x".into(),
        behind: view::start(),
        via: MatchVia::Stream,
    };
    PaneEvent::ExpectMatched {
        run,
        from: Some(view::start()),
        pattern: saw,
        found: sighting,
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
