//! Performs core's effects: answers calls, starts background jobs and passes commands to panes.

use fugue_api::wire::Response;
use fugue_core::{CoreInput, Effect, PaneEvent};

use super::{DaemonContext, Engine, EngineEvent, Going, OWN_CALLS};
use crate::{
    archive, compose, gc,
    pane::{self, Inject, PaneCommand, Quiet, launch},
    sweep,
    watchers::Errand,
    whole, workers,
};
use fugue_client::spool;

impl Engine {
    pub(super) fn act(&mut self, effect: Effect) -> Going {
        if let Effect::Answer { call, .. }
        | Effect::Hand { call, .. }
        | Effect::Compose { call, .. } = &effect
        {
            self.storing.call_ended(*call);
        }
        if let Effect::Answer { call, .. } = &effect
            && let Some(key) = self.kept_news.remove(call)
        {
            let house = self.house.clone();
            tokio::task::spawn_blocking(move || spool::forget(&house.paths, key));
        }
        match effect {
            Effect::Answer { call, .. } if call.0 >= OWN_CALLS => return self.own_call_ended(call),
            Effect::Answer { call, answer } => self.desk.answer(call, answer),
            Effect::Hand {
                call,
                answer,
                event,
            } => self.desk.hand(call, answer, event),
            Effect::Prepare { worker, caller } => {
                self.for_worker(move |house| CoreInput::Prepared {
                    worker: worker.number,
                    outcome: workers::prepare(&worker, &caller, house),
                })
            }
            Effect::Unprepare { worker, error } => self.for_worker(move |house| {
                workers::unprepare(&worker, house);
                CoreInput::Unprepared {
                    worker: worker.number,
                    error,
                }
            }),
            Effect::WorkOut { worker, repo, tail } => {
                self.for_worker(move |house| CoreInput::WorkedOut {
                    worker,
                    found: workers::work_out(repo.as_ref(), tail.as_deref(), house),
                })
            }
            Effect::ForgetWorker { worker } => {
                let house = self.house.clone();
                tokio::task::spawn_blocking(move || workers::forget(&worker, &house));
            }
            Effect::RunForWatcher {
                watcher,
                step,
                command,
                cwd,
                caller,
                limit,
            } => {
                let errand = Errand {
                    watcher,
                    step,
                    command,
                    cwd,
                    caller,
                    limit,
                };
                self.errands.run(errand, self.says.clone());
            }
            Effect::Fit { pane, size } => self.tell(pane, PaneCommand::Fit(size)),
            Effect::AgentSays { pane, says } => self.tell(pane, PaneCommand::AgentSays(says)),
            Effect::Judge { job, caller } => self.errands.judge(*job, &caller, self.says.clone()),
            Effect::StopJudging { watcher } => self.errands.stop(watcher),
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
                self.tell(pane, PaneCommand::AwaitQuiet(quiet));
            }
            Effect::ForgetQuiet { pane, watcher } => {
                self.tell(pane, PaneCommand::ForgetQuiet(watcher));
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
                self.tell(pane, PaneCommand::Inject(inject));
            }
            Effect::AwaitRest { pane, over } => self.tell(pane, PaneCommand::AwaitRest(over)),
            Effect::TypeMessage { pane, event, text } => {
                self.tell(pane, PaneCommand::TypeMessage { event, text });
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
                let (handle, task) =
                    pane::open(*record, start, self.house.clone(), self.says.clone());
                self.install(handle, task);
            }
            Effect::Adopt { record, steps, how } => {
                let (handle, task) =
                    pane::adopt(*record, steps, how, self.house.clone(), self.says.clone());
                self.install(handle, task);
            }
            Effect::Ask {
                call,
                pane,
                question,
            } => self.ask(call, pane, question),
            Effect::AskArchive {
                call,
                record,
                question,
            } => {
                if let Some(responder) = self.desk.take(call) {
                    let answer = archive::answer(record, question, self.house.clone());
                    let task = whole::answer_later(responder, answer);
                    self.desk.waits(call, task.abort_handle());
                }
            }
            Effect::CollectGarbage {
                call,
                inventory,
                dry_run,
            } => {
                let (house, says) = (self.house.clone(), self.says.clone());
                let responder = self.desk.take(call);
                if !dry_run {
                    self.removals += inventory.forgotten.len();
                }
                tokio::task::spawn_blocking(move || {
                    let removed = |pane, outcome| {
                        let _ = says.blocking_send(EngineEvent::Removal { pane, outcome });
                    };
                    let collected = gc::collect(&inventory, dry_run, &house.paths, removed);
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
            } => self.survey(call, overview, live, bounded),
            Effect::Close { pane, grace } => {
                self.tell(pane, PaneCommand::Close { grace });
            }
            Effect::Sweep { pane, grace } => {
                let (says, dir) = (
                    self.says.clone(),
                    self.house.paths.panes().join(pane.to_string()),
                );
                tokio::task::spawn_blocking(move || {
                    sweep::pane(pane, &dir, grace);
                    let _ = says.blocking_send(EngineEvent::Pane(pane, PaneEvent::Swept));
                });
            }
            Effect::Forget { pane } => {
                let dir = self.house.paths.panes().join(pane.to_string());
                let says = self.says.clone();
                self.removals += 1;
                tokio::task::spawn_blocking(move || {
                    let outcome = sweep::remove_pane_dir(&dir);
                    let _ = says.blocking_send(EngineEvent::Removal { pane, outcome });
                });
            }
            Effect::Watch { pane, watch } => self.tell(pane, PaneCommand::Watch(watch)),
            Effect::WatchArchive { record, watch } => {
                let (says, house) = (self.says.clone(), self.house.clone());
                tokio::spawn(async move {
                    let pane = record.id;
                    for fact in archive::search(record, &watch, house).await {
                        let _ = says.send(EngineEvent::Pane(pane, fact)).await;
                    }
                });
            }
            Effect::Unwatch { pane, run } => self.tell(pane, PaneCommand::Unwatch(run)),
            Effect::RunSteps { pane, plan } => self.tell(pane, PaneCommand::RunSteps(plan)),
            Effect::StopSteps { pane, plan } => self.tell(pane, PaneCommand::StopSteps(plan)),
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
                let says = self.says.clone();
                let answer = self.desk.take(call).map(|responder| {
                    let (parts, house) = (parts.collect(), self.house.clone());
                    let reply = compose::reply(*result, parts, most_chars, wrap, house);
                    let task = whole::answer_later(responder, reply);
                    self.desk.waits(call, task.abort_handle());
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
        Going::On
    }

    /// Files and git take their time, and nobody else waits for that.
    pub(super) fn for_worker(
        &self,
        work: impl FnOnce(&DaemonContext) -> CoreInput + Send + 'static,
    ) {
        let (says, house) = (self.says.clone(), self.house.clone());
        tokio::task::spawn_blocking(move || {
            let input = work(&house);
            let _ = says.blocking_send(EngineEvent::Worker(input));
        });
    }
}
