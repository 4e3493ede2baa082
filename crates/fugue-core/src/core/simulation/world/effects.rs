//! The effects of core, as the daemon and its panes perform them.

use fugue_api::{Error, ErrorKind, PaneId};

use super::World;
use crate::{
    AfterCommit, CompletionDetails, CoreInput, Effect, PaneAdoption, PaneEvent, WorkerLaunch,
    core::simulation::model_pane::{ModelTask, PaneCommand, sighted},
};

impl World {
    fn send(&mut self, pane: PaneId, command: PaneCommand) {
        let is_early = pane > self.newest_pane;
        let model = self.panes.entry(pane).or_default();
        if model.task != ModelTask::Absent || is_early {
            model.command(command);
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
        pane.adopt(record.pid != 0);
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
            Effect::AwaitIdle { .. }
            | Effect::AwaitQuiet { .. }
            | Effect::CancelQuiet { .. }
            | Effect::ResizePane { .. }
            | Effect::ShowAgentState { .. } => {}
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
                self.tell(format!(
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
            AfterCommit::StartExpect {
                pane,
                expect: watch,
            } => {
                self.send(pane, PaneCommand::StartExpect(watch.run));
            }
            AfterCommit::SearchArchive {
                record,
                expect: watch,
            } => {
                let event = match self.random.one_in(2) {
                    true => sighted(watch.run, &mut self.random),
                    false => PaneEvent::ExpectExhausted { run: watch.run },
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
                self.tell(format!("call {} gets the result of {run}", call.0));
                self.jobs.push(CoreInput::ReplyComposed { run, delivered });
            }
            AfterCommit::RemoveWorkerFiles { .. }
            | AfterCommit::TypeMessage { .. }
            | AfterCommit::CancelWatcherJob { .. } => {}
            AfterCommit::RunWatcherCommand { .. }
            | AfterCommit::Assess { .. }
            | AfterCommit::Inject { .. }
            | AfterCommit::AskPane { .. }
            | AfterCommit::CollectGarbage { .. } => {
                unreachable!("no client makes such a call: {effect:?}")
            }
        }
    }
}
