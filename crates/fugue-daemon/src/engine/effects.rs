//! Performs core's effects: answers calls, starts background jobs and passes commands to panes.

use fugue_api::{Error, wire::Response};
use fugue_core::{
    AfterCommit, CallId, CoreInput, Effect, PaneAdoption,
    pane_machine::{InjectionRequest, QuietRequest},
};

use super::{Engine, LoopControl, OWN_CALLS, jobs::GarbageRun};
use crate::{
    pane::{self, PaneCommand, launch},
    run_reply,
    watchers::WatcherJob,
    workers,
};
use fugue_client::spool;

impl Engine {
    /// Performs an effect that waits for no commit.
    pub(super) fn perform_effect(&mut self, effect: Effect) -> LoopControl {
        match effect {
            Effect::Reply { call, answer } => return self.reply(call, answer),
            Effect::AdoptPane(adoption) => self.adopt(*adoption),
            Effect::ListGarbage { call, inventory } => {
                self.collect_garbage(call, inventory, GarbageRun::ListOnly);
            }
            Effect::ClosePane { pane, grace } => {
                self.send_command(pane, PaneCommand::Close { grace });
            }
            Effect::EndProcesses { pane, grace } => self.sweep_pane(pane, grace),
            Effect::CollectChanges {
                worker,
                repo,
                message,
                tail,
            } => {
                self.spawn_worker_job(move |context| CoreInput::ChangesCollected {
                    worker,
                    found: workers::collect_changes(
                        worker,
                        repo.as_ref(),
                        message.as_ref(),
                        tail.as_deref(),
                        context,
                    ),
                });
            }
            Effect::ResizePane { pane, size } => self.send_command(pane, PaneCommand::Resize(size)),
            Effect::ShowAgentState { pane, agent_state } => {
                self.send_command(pane, PaneCommand::SetAgentState(agent_state));
            }
            Effect::AwaitQuiet {
                pane,
                watcher,
                step,
                quiet,
                lines,
            } => {
                let quiet = QuietRequest {
                    watcher,
                    step,
                    quiet,
                    lines,
                };
                self.send_command(pane, PaneCommand::AwaitQuiet(quiet));
            }
            Effect::CancelQuiet { pane, watcher } => {
                self.send_command(pane, PaneCommand::CancelQuiet(watcher));
            }
            Effect::AwaitIdle { pane, turn_end } => {
                self.send_command(pane, PaneCommand::AwaitIdle(turn_end));
            }
            Effect::AskPane {
                call,
                pane,
                request,
            } => self.send_request(call, pane, request),
            Effect::AskArchive {
                call,
                record,
                request,
            } => self.ask_archive(call, record, request),
            Effect::Worktrees {
                call,
                request,
                live,
            } => self.answer_worktrees(call, request, live),
            Effect::CompleteOverview {
                call,
                overview,
                live,
                bounded,
            } => self.answer_overview(call, overview, live, bounded),
            Effect::CancelExpect { pane, run } => {
                self.send_command(pane, PaneCommand::CancelExpect(run));
            }
            Effect::StopSteps { pane, plan } => {
                self.send_command(pane, PaneCommand::StopSteps(plan));
            }
        }
        LoopControl::Continue
    }

    /// Performs an effect whose commit is stored.
    pub(super) fn perform_after_commit(&mut self, effect: AfterCommit) -> LoopControl {
        match effect {
            AfterCommit::Reply { call, answer } => return self.reply(call, answer),
            AfterCommit::AdoptPane(adoption) => self.adopt(*adoption),
            AfterCommit::AskPane {
                call,
                pane,
                request,
            } => self.send_request(call, pane, request),
            AfterCommit::CollectGarbage { call, inventory } => {
                self.collect_garbage(call, inventory, GarbageRun::Remove);
            }
            AfterCommit::ClosePane { pane, grace } => {
                self.send_command(pane, PaneCommand::Close { grace });
            }
            AfterCommit::EndProcesses { pane, grace } => self.sweep_pane(pane, grace),
            AfterCommit::Deliver {
                call,
                answer,
                event,
            } => self.pending_calls.answer_with_lease(call, answer, event),
            AfterCommit::PrepareWorker { worker, caller } => {
                self.spawn_worker_job(move |context| CoreInput::WorkerPrepared {
                    worker: worker.number,
                    outcome: workers::prepare(&worker, &caller, context),
                });
            }
            AfterCommit::UnprepareWorker { worker, error } => {
                self.spawn_worker_job(move |context| {
                    workers::undo_prepare(&worker, context);
                    CoreInput::WorkerUnprepared {
                        worker: worker.number,
                        error,
                    }
                });
            }
            AfterCommit::RemoveWorkerFiles { worker } => {
                let context = self.context.clone();
                tokio::task::spawn_blocking(move || workers::forget(&worker, &context));
            }
            AfterCommit::RunWatcherCommand {
                watcher,
                step,
                command,
                cwd,
                caller,
                limit,
            } => {
                let job = WatcherJob {
                    watcher,
                    step,
                    command,
                    cwd,
                    caller,
                    limit,
                };
                self.watcher_jobs.run(job, self.event_sender.clone());
            }
            AfterCommit::Assess { job, caller } => {
                let events = self.event_sender.clone();
                self.watcher_jobs.start_assessment(*job, &caller, events);
            }
            AfterCommit::CancelWatcherJob { watcher } => self.watcher_jobs.stop(watcher),
            // The step was cancelled while it was being stored, and the pane has had the cancellation already.
            AfterCommit::Inject { watcher, step, .. } if !self.core.is_injecting(watcher, step) => {
            }
            AfterCommit::Inject {
                pane,
                watcher,
                step,
                line,
                enter,
                seen,
            } => {
                let inject = InjectionRequest {
                    watcher,
                    step,
                    line,
                    enter,
                    seen,
                };
                self.send_command(pane, PaneCommand::Inject(inject));
            }
            AfterCommit::TypeMessage { pane, event, text } => {
                self.send_command(pane, PaneCommand::TypeMessage { event, text });
            }
            AfterCommit::OpenPane {
                record,
                job,
                env,
                launch_env,
                caller,
            } => {
                let start = launch::PaneLaunch {
                    job,
                    env,
                    launch_env,
                    caller,
                };
                let (context, events) = (self.context.clone(), self.event_sender.clone());
                let (handle, task) = pane::open(*record, start, context, events);
                self.install(handle, task);
            }
            AfterCommit::RemovePaneDir { pane } => self.forget_pane(pane),
            AfterCommit::StartExpect { pane, expect } => {
                self.send_command(pane, PaneCommand::StartExpect(expect));
            }
            AfterCommit::SearchArchive { record, expect } => self.search_archive(record, expect),
            AfterCommit::RunSteps { pane, plan } => {
                self.send_command(pane, PaneCommand::RunSteps(plan));
            }
            AfterCommit::ReplyResult {
                call,
                run,
                event,
                answer,
            } => {
                // The call may have been cancelled.
                let responder = self.pending_calls.take(call);
                let delivered = responder.is_some_and(|responder| responder.deliver(answer, event));
                return self.step(CoreInput::ReplyComposed { run, delivered });
            }
            AfterCommit::ComposeReply {
                call,
                run,
                event,
                wrap,
                result,
                parts,
                most_chars,
            } => {
                let parts = self.with_handles(parts);
                let reply =
                    run_reply::reply(*result, parts, most_chars, wrap, self.context.clone());
                self.compose_reply(call, run, event, reply);
            }
        }
        LoopControl::Continue
    }

    /// Answers a call of a client, or ends a call of the engine itself.
    fn reply(&mut self, call: CallId, answer: Result<Response, Error>) -> LoopControl {
        if let Some(key) = self.spooled_reports.remove(&call) {
            let context = self.context.clone();
            tokio::task::spawn_blocking(move || spool::remove_report(&context.paths, key));
        }
        if call.0 >= OWN_CALLS {
            return self.own_call_ended(call);
        }
        self.pending_calls.answer(call, answer);
        LoopControl::Continue
    }

    fn adopt(&mut self, adoption: PaneAdoption) {
        let PaneAdoption { record, steps, how } = adoption;
        let (context, events) = (self.context.clone(), self.event_sender.clone());
        let (handle, task) = pane::adopt(record, steps, how, context, events);
        self.install(handle, task);
    }
}
