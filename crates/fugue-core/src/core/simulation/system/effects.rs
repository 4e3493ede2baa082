//! The effects of core, as the daemon and its panes perform them.

use fugue_api::{Error, ErrorKind, PaneId};

use super::SimulatedSystem;
use crate::{
    AfterCommit, Assessment, AssessmentKind, CommandEnd, CompletionDetails, CoreInput, Effect,
    PaneAdoption, PaneEvent, WorkerLaunch,
    assess::{Decision, Injection, NextStepAnswer},
    core::simulation::{
        model_pane::{ModelTask, PaneCommand, matched},
        random::Random,
    },
};

impl SimulatedSystem {
    fn send(&mut self, pane: PaneId, command: PaneCommand) {
        let is_early = pane > self.newest_pane;
        let model = self.panes.entry(pane).or_default();
        if model.task != ModelTask::Absent || is_early {
            model.command(command, &mut self.random);
        }
    }

    fn report(&mut self, pane: PaneId, event: PaneEvent) {
        self.jobs.push(CoreInput::Pane { pane, event });
    }

    fn adopt(&mut self, adoption: &PaneAdoption) {
        let record = &adoption.record;
        self.newest_pane = self.newest_pane.max(record.id);
        self.opening.insert(record.id, record.generation);
        let pane = self.panes.entry(record.id).or_default();
        pane.adopt(record.pid != 0, record.closing, &mut self.random);
    }

    pub(super) fn perform_effect(&mut self, effect: Effect) {
        match effect {
            Effect::Reply { call, answer } => self.reply(call, &answer),
            Effect::CollectChanges { worker, .. } => {
                let found = CompletionDetails::default();
                self.jobs
                    .push(CoreInput::ChangesCollected { worker, found });
            }
            Effect::AdoptPane(adoption) => self.adopt(&adoption),
            Effect::ClosePane { pane, .. } => self.send(pane, PaneCommand::Close),
            Effect::EndProcesses { pane, .. } => self.report(pane, PaneEvent::Swept),
            Effect::CancelExpect { pane, run } => self.send(pane, PaneCommand::CancelExpect(run)),
            Effect::StopSteps { pane, plan } => self.send(pane, PaneCommand::StopSteps(plan)),
            Effect::AwaitIdle { pane, .. } => self.send(pane, PaneCommand::AwaitIdle),
            Effect::AwaitQuiet {
                pane,
                watcher,
                step,
                ..
            } => self.send(pane, PaneCommand::AwaitQuiet { watcher, step }),
            Effect::CancelQuiet { pane, .. } => self.send(pane, PaneCommand::CancelQuiet),
            Effect::ResizePane { .. } | Effect::ShowAgentState { .. } => {}
            Effect::AskPane { .. }
            | Effect::AskArchive { .. }
            | Effect::ListGarbage { .. }
            | Effect::Worktrees { .. }
            | Effect::CompleteOverview { .. } => {
                unreachable!("no client makes such a call: {effect:?}")
            }
        }
    }

    pub(super) fn perform_after_commit(&mut self, effect: AfterCommit) {
        match effect {
            AfterCommit::Reply { call, answer } => self.reply(call, &answer),
            AfterCommit::Deliver {
                call,
                answer,
                event,
            } => self.deliver(call, &answer, event),
            AfterCommit::PrepareWorker { worker, .. } => {
                let outcome = match self.random.one_in(8) {
                    true => Err(Error::new(ErrorKind::NotFound, "no such agent")),
                    false => Ok(WorkerLaunch {
                        argv: vec!["agent".into()],
                        env: Default::default(),
                        cwd: "/".into(),
                        branch: None,
                        hooks: false,
                        repo: None,
                        note: None,
                    }),
                };
                let worker = worker.number;
                self.jobs
                    .push(CoreInput::WorkerPrepared { worker, outcome });
            }
            AfterCommit::UnprepareWorker { worker, error } => {
                let worker = worker.number;
                self.jobs
                    .push(CoreInput::WorkerUnprepared { worker, error });
            }
            AfterCommit::OpenPane { record, job, .. } => {
                self.note(format!(
                    "open {} generation {}",
                    record.id, record.generation
                ));
                self.newest_pane = self.newest_pane.max(record.id);
                self.opening.insert(record.id, record.generation);
                self.panes.entry(record.id).or_default().task = ModelTask::Opening(job);
            }
            AfterCommit::AdoptPane(adoption) => self.adopt(&adoption),
            AfterCommit::RemovePaneDir { pane } => self.report(pane, PaneEvent::Removed),
            AfterCommit::ClosePane { pane, .. } => self.send(pane, PaneCommand::Close),
            AfterCommit::EndProcesses { pane, .. } => self.report(pane, PaneEvent::Swept),
            AfterCommit::StartExpect { pane, expect } => {
                self.send(pane, PaneCommand::StartExpect(expect.run));
            }
            AfterCommit::SearchArchive { record, expect } => {
                let event = match self.random.one_in(2) {
                    true => matched(expect.run, &mut self.random),
                    false => PaneEvent::ExpectExhausted { run: expect.run },
                };
                self.report(record.id, event);
            }
            AfterCommit::RunSteps { pane, plan } => self.send(pane, PaneCommand::RunSteps(plan)),
            AfterCommit::ReplyResult {
                call, run, event, ..
            }
            | AfterCommit::ComposeReply {
                call, run, event, ..
            } => {
                let delivered = self.calls.contains_key(&call);
                if let Some(event) = event.filter(|_| delivered) {
                    self.lease(call, event);
                }
                if !self
                    .store
                    .snapshot()
                    .runs
                    .iter()
                    .any(|known| known.record.id == run)
                {
                    self.violation(format!(
                        "the result of {run} is answered without its record"
                    ));
                }
                let open = self.calls.remove(&call);
                if open.is_none() && !self.cancelled.contains(&call) {
                    self.violation(format!("call {} is answered twice", call.0));
                }
                self.note(format!("call {} gets the result of {run}", call.0));
                self.jobs.push(CoreInput::ReplyComposed { run, delivered });
            }
            AfterCommit::TypeMessage { pane, event, .. } => {
                self.send(pane, PaneCommand::TypeMessage(event));
            }
            AfterCommit::RunWatcherCommand { watcher, step, .. } => {
                let code = i32::from(self.random.one_in(2));
                let ran = CommandEnd {
                    code: Some(code),
                    ending: format!("exited with {code}"),
                    output: String::new(),
                };
                let ended = CoreInput::WatcherCommandEnded { watcher, step, ran };
                self.jobs.push(ended);
            }
            AfterCommit::Assess { job, .. } => {
                let judged = assessment(job.judge, &mut self.random);
                let (watcher, step) = (job.watcher, job.step);
                self.jobs.push(CoreInput::Assessed {
                    watcher,
                    step,
                    judged,
                });
            }
            AfterCommit::CancelWatcherJob { watcher } => {
                self.jobs.retain(|job| !is_watcher_job(job, watcher));
            }
            AfterCommit::Inject {
                pane,
                watcher,
                step,
                ..
            } => {
                if self.core.is_injecting(watcher, step) {
                    self.send(pane, PaneCommand::Inject { watcher, step });
                }
            }
            AfterCommit::RemoveWorkerFiles { .. } => {}
            AfterCommit::AskPane { .. } | AfterCommit::CollectGarbage { .. } => {
                unreachable!("no client makes such a call: {effect:?}")
            }
        }
    }
}

fn assessment(kind: AssessmentKind, random: &mut Random) -> Assessment {
    let injection = || Injection::try_from("go on".to_owned()).ok();
    match (kind, injection()) {
        (AssessmentKind::NextStep, injection_prompt) => Assessment::NextStep(Ok(NextStepAnswer {
            injection_prompt,
            achieved: random.one_in(2),
        })),
        (AssessmentKind::Decide, Some(line)) if random.one_in(2) => {
            Assessment::Decision(Ok(Decision::Continue(line)))
        }
        (AssessmentKind::Decide, Some(_)) if random.one_in(2) => {
            Assessment::Decision(Ok(Decision::Stop))
        }
        (AssessmentKind::Decide, _) => Assessment::Decision(Err("no answer".into())),
    }
}

fn is_watcher_job(job: &CoreInput, of: u64) -> bool {
    match job {
        CoreInput::WatcherCommandEnded { watcher, .. } | CoreInput::Assessed { watcher, .. } => {
            *watcher == of
        }
        CoreInput::Call { .. }
        | CoreInput::Cancelled { .. }
        | CoreInput::Pane { .. }
        | CoreInput::NotStored { .. }
        | CoreInput::WorkerPrepared { .. }
        | CoreInput::WorkerUnprepared { .. }
        | CoreInput::ChangesCollected { .. }
        | CoreInput::ReplyComposed { .. }
        | CoreInput::SettingsChanged(_)
        | CoreInput::TimerExpired => false,
    }
}
