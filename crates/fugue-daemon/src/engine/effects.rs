//! Performs core's effects: answers calls, starts background jobs and passes commands to panes.

use fugue_core::{
    CoreInput, Effect,
    pane_machine::{InjectionRequest, QuietRequest},
};

use super::{Engine, LoopControl, OWN_CALLS};
use crate::{
    pane::{self, PaneCommand, launch},
    watchers::WatcherJob,
    workers,
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
            tokio::task::spawn_blocking(move || spool::remove_report(&context.paths, key));
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
                let quiet = QuietRequest {
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
                let inject = InjectionRequest {
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
            } => self.ask_archive(call, record, question),
            Effect::CollectGarbage {
                call,
                inventory,
                dry_run,
            } => self.collect_garbage(call, inventory, dry_run),
            Effect::Survey {
                call,
                overview,
                live,
                bounded,
            } => self.answer_overview(call, overview, live, bounded),
            Effect::Close { pane, grace } => {
                self.send_command(pane, PaneCommand::Close { grace });
            }
            Effect::Sweep { pane, grace } => self.sweep_pane(pane, grace),
            Effect::Forget { pane } => self.forget_pane(pane),
            Effect::Watch { pane, watch } => self.send_command(pane, PaneCommand::Watch(watch)),
            Effect::WatchArchive { record, watch } => self.search_archive(record, watch),
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
            } => self.compose_reply(call, run, wrap, result, parts, most_chars),
            Effect::WakeAt(at) => {
                self.alarms.insert(at);
            }
        }
        LoopControl::Continue
    }
}
