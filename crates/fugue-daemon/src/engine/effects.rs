//! Performs core's effects: answers calls, starts background jobs and passes commands to panes.

use fugue_api::wire::Response;
use fugue_core::{CoreInput, Effect, PaneEvent};

use super::{DaemonContext, Engine, EngineEvent, LoopControl, OWN_CALLS};
use crate::{
    archive, compose, gc,
    pane::{self, Inject, PaneCommand, Quiet, launch},
    sweep,
    watchers::WatcherJob,
    whole, workers,
};
use fugue_client::spool;

impl Engine {
    pub(super) fn perform_effect(&mut self, effect: Effect) -> LoopControl {
        if let Effect::Answer { call, .. }
        | Effect::Hand { call, .. }
        | Effect::Compose { call, .. } = &effect
        {
            self.store_health.call_ended(*call);
        }
        if let Effect::Answer { call, .. } = &effect
            && let Some(key) = self.spooled_reports.remove(call)
        {
            let context = self.context.clone();
            tokio::task::spawn_blocking(move || spool::forget(&context.paths, key));
        }
        match effect {
            Effect::Answer { call, .. } if call.0 >= OWN_CALLS => return self.own_call_ended(call),
            Effect::Answer { call, answer } => self.pending_calls.answer(call, answer),
            Effect::Hand {
                call,
                answer,
                event,
            } => self.pending_calls.answer_with_lease(call, answer, event),
            Effect::Prepare { worker, caller } => {
                self.spawn_worker_job(move |context| CoreInput::Prepared {
                    worker: worker.number,
                    outcome: workers::prepare(&worker, &caller, context),
                })
            }
            Effect::Unprepare { worker, error } => self.spawn_worker_job(move |context| {
                workers::undo_prepare(&worker, context);
                CoreInput::Unprepared {
                    worker: worker.number,
                    error,
                }
            }),
            Effect::WorkOut { worker, repo, tail } => {
                self.spawn_worker_job(move |context| CoreInput::WorkedOut {
                    worker,
                    found: workers::collect_changes(repo.as_ref(), tail.as_deref(), context),
                })
            }
            Effect::ForgetWorker { worker } => {
                let context = self.context.clone();
                tokio::task::spawn_blocking(move || workers::forget(&worker, &context));
            }
            Effect::RunForWatcher {
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
            Effect::Fit { pane, size } => self.send_command(pane, PaneCommand::Fit(size)),
            Effect::AgentSays { pane, says } => {
                self.send_command(pane, PaneCommand::AgentSays(says))
            }
            Effect::Judge { job, caller } => {
                self.watcher_jobs
                    .start_assessment(*job, &caller, self.event_sender.clone())
            }
            Effect::StopJudging { watcher } => self.watcher_jobs.stop(watcher),
            Effect::AwaitQuiet {
                pane,
                watcher,
                step,
                quiet,
                lines,
            } => {
                let quiet = Quiet {
                    watcher,
                    step,
                    quiet,
                    lines,
                };
                self.send_command(pane, PaneCommand::AwaitQuiet(quiet));
            }
            Effect::ForgetQuiet { pane, watcher } => {
                self.send_command(pane, PaneCommand::ForgetQuiet(watcher));
            }
            Effect::Inject {
                pane,
                watcher,
                step,
                line,
                enter,
                seen,
            } => {
                let inject = Inject {
                    watcher,
                    step,
                    line,
                    enter,
                    seen,
                };
                self.send_command(pane, PaneCommand::Inject(inject));
            }
            Effect::AwaitRest { pane, over } => {
                self.send_command(pane, PaneCommand::AwaitRest(over))
            }
            Effect::TypeMessage { pane, event, text } => {
                self.send_command(pane, PaneCommand::TypeMessage { event, text });
            }
            Effect::Commit { .. } => {}
            Effect::Open {
                record,
                job,
                env,
                world,
                caller,
            } => {
                let start = launch::PaneLaunch {
                    job,
                    env,
                    world,
                    caller,
                };
                let (handle, task) = pane::open(
                    *record,
                    start,
                    self.context.clone(),
                    self.event_sender.clone(),
                );
                self.install(handle, task);
            }
            Effect::Adopt { record, steps, how } => {
                let (handle, task) = pane::adopt(
                    *record,
                    steps,
                    how,
                    self.context.clone(),
                    self.event_sender.clone(),
                );
                self.install(handle, task);
            }
            Effect::Ask {
                call,
                pane,
                question,
            } => self.send_request(call, pane, question),
            Effect::AskArchive {
                call,
                record,
                question,
            } => {
                if let Some(responder) = self.pending_calls.take(call) {
                    let answer = archive::answer(record, question, self.context.clone());
                    let task = whole::answer_later(responder, answer);
                    self.pending_calls.set_wait(call, task.abort_handle());
                }
            }
            Effect::CollectGarbage {
                call,
                inventory,
                dry_run,
            } => {
                let (context, says) = (self.context.clone(), self.event_sender.clone());
                let responder = self.pending_calls.take(call);
                if !dry_run {
                    self.removals += inventory.forgotten.len();
                }
                tokio::task::spawn_blocking(move || {
                    let removed = |pane, outcome| {
                        let _ = says.blocking_send(EngineEvent::Removal { pane, outcome });
                    };
                    let collected = gc::collect(&inventory, dry_run, &context.paths, removed);
                    if let Some(responder) = responder {
                        responder.answer(Ok(Response::Garbage { collected }));
                    }
                });
            }
            Effect::Survey {
                call,
                overview,
                live,
                bounded,
            } => self.answer_overview(call, overview, live, bounded),
            Effect::Close { pane, grace } => {
                self.send_command(pane, PaneCommand::Close { grace });
            }
            Effect::Sweep { pane, grace } => {
                let (says, dir) = (
                    self.event_sender.clone(),
                    self.context.paths.panes().join(pane.to_string()),
                );
                tokio::task::spawn_blocking(move || {
                    sweep::pane(pane, &dir, grace);
                    let _ = says.blocking_send(EngineEvent::Pane(pane, PaneEvent::Swept));
                });
            }
            Effect::Forget { pane } => {
                let dir = self.context.paths.panes().join(pane.to_string());
                let says = self.event_sender.clone();
                self.removals += 1;
                tokio::task::spawn_blocking(move || {
                    let outcome = sweep::remove_pane_dir(&dir);
                    let _ = says.blocking_send(EngineEvent::Removal { pane, outcome });
                });
            }
            Effect::Watch { pane, watch } => self.send_command(pane, PaneCommand::Watch(watch)),
            Effect::WatchArchive { record, watch } => {
                let (says, context) = (self.event_sender.clone(), self.context.clone());
                tokio::spawn(async move {
                    let pane = record.id;
                    for fact in archive::search(record, &watch, context).await {
                        let _ = says.send(EngineEvent::Pane(pane, fact)).await;
                    }
                });
            }
            Effect::Unwatch { pane, run } => self.send_command(pane, PaneCommand::Unwatch(run)),
            Effect::RunSteps { pane, plan } => self.send_command(pane, PaneCommand::RunSteps(plan)),
            Effect::StopSteps { pane, plan } => {
                self.send_command(pane, PaneCommand::StopSteps(plan))
            }
            Effect::Compose {
                call,
                run,
                wrap,
                result,
                parts,
                most_chars,
            } => {
                let parts = parts.into_iter().map(|part| {
                    let part = part?;
                    let handle = self.panes.get(&part.record.id).cloned();
                    Some((part, handle))
                });
                let says = self.event_sender.clone();
                let answer = self.pending_calls.take(call).map(|responder| {
                    let (parts, context) = (parts.collect(), self.context.clone());
                    let reply = compose::reply(*result, parts, most_chars, wrap, context);
                    let task = whole::answer_later(responder, reply);
                    self.pending_calls.set_wait(call, task.abort_handle());
                    task
                });
                tokio::spawn(async move {
                    let delivered = match answer {
                        Some(answer) => answer.await.unwrap_or(false),
                        None => false,
                    };
                    let composed = CoreInput::Composed { run, delivered };
                    let _ = says.send(EngineEvent::Worker(composed)).await;
                });
            }
            Effect::WakeAt(at) => {
                self.alarms.insert(at);
            }
        }
        LoopControl::Continue
    }

    /// Runs file and git work of a worker on a blocking thread and passes the result to core.
    pub(super) fn spawn_worker_job(
        &self,
        work: impl FnOnce(&DaemonContext) -> CoreInput + Send + 'static,
    ) {
        let (says, context) = (self.event_sender.clone(), self.context.clone());
        tokio::task::spawn_blocking(move || {
            let input = work(&context);
            let _ = says.blocking_send(EngineEvent::Worker(input));
        });
    }
}
