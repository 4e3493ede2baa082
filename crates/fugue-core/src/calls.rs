//! What callers ask: checked, and turned into effects or into somebody who waits.

pub(crate) mod authority;
mod pending;
pub(crate) mod plan;
#[cfg(test)]
mod refusals;
pub(crate) mod starts;

use std::time::Duration;

use fugue_api::{
    Error, ErrorKind, ToolCall,
    panes::{Overview, PaneSize, TmuxRow},
    wire::Request,
};

use crate::{
    CallId, CallRequest, Core, Effect, LaunchEnv, PaneRequest, TmuxLookup,
    context::Context,
    panes::{Bounds, limits::ForgetScope},
    runs::StartCall,
    watchers::WatchCall,
    workers::SpawnCall,
};
use plan::{Plan, Planner};

impl Core {
    /// Plans a call and then applies the plan. A refused call changes nothing.
    pub(crate) fn call(
        &mut self,
        call: CallId,
        mut asked: CallRequest,
        cx: &mut Context,
    ) -> Result<(), Error> {
        let now = cx.now();
        asked.who = self.identify(asked.within, asked.who)?;
        let mut elsewhere = Vec::new();
        let mut discovered = None;
        match std::mem::take(&mut asked.tmux) {
            TmuxLookup::None => {}
            TmuxLookup::One(found) => {
                let found = (*found)?;
                let id = self.met(&found).unwrap_or_else(|| {
                    let pane = self.discovered(found, asked.key, now);
                    discovered.insert(pane).record.id
                });
                asked.ask.set_pane(id);
            }
            TmuxLookup::All(found) => elsewhere = self.unmet(found),
        }
        let planner = Planner {
            core: self,
            discovered: discovered.as_ref(),
            now,
        };
        planner.authorize(&asked.who, &asked.caller, &asked.ask)?;
        let plan = planner.plan(call, asked, elsewhere)?;
        if let Some(pane) = discovered {
            self.enter_discovered(pane, cx);
        }
        plan.apply(self, cx);
        Ok(())
    }
}

impl Planner<'_> {
    fn plan(
        &self,
        call: CallId,
        asked: CallRequest,
        elsewhere: Vec<TmuxRow>,
    ) -> Result<Plan, Error> {
        match asked.ask {
            Request::Tool { call: request } => {
                request.check()?;
                match request {
                    ToolCall::CreatePane(args) => {
                        let (key, caller, who) = (asked.key, asked.caller, asked.who);
                        // A pane that is there already needs nothing that could be refused.
                        let mut panes = self.core.panes.values();
                        if let Some(made) = panes.find(|pane| pane.record.made_by == key) {
                            let made = made.record.id;
                            return Ok(Plan::new(move |core, cx| {
                                core.asked_again(call, made, cx);
                            }));
                        }
                        self.core.starts.refuse_repeated(key)?;
                        let world = only(asked.worlds)?;
                        Ok(Plan::new(move |core, cx| {
                            core.create(call, args, world, key, caller, &who, cx);
                        }))
                    }
                    ToolCall::SendInput(args) => self.send(call, args, asked.key),
                    ToolCall::ReadPane(args) => self.read(call, args),
                    ToolCall::GetStatus(args) => self.status(call, args, elsewhere),
                    ToolCall::ClosePane(args) => {
                        let id = self.resolve(&args.pane_id)?.record.id;
                        let grace = Duration::from_millis(u64::from(args.grace_ms));
                        Ok(Plan::new(move |core, cx| {
                            core.close(call, id, grace, cx);
                        }))
                    }
                    ToolCall::WaitForRun(args) => self.wait(call, &args),
                    ToolCall::SpawnWorker(args) => {
                        let spawn = SpawnCall {
                            call,
                            key: asked.key,
                            who: asked.who,
                            caller: asked.caller,
                            world: only(asked.worlds),
                        };
                        self.spawn(spawn, args)
                    }
                    request @ (ToolCall::RunExpect(_)
                    | ToolCall::RunParallel(_)
                    | ToolCall::RunPipeline(_)) => {
                        let start = StartCall {
                            call,
                            key: asked.key,
                            who: asked.who,
                            caller: asked.caller,
                            worlds: asked.worlds,
                        };
                        self.start_run(start, request)
                    }
                    request @ (ToolCall::WatchMe(_)
                    | ToolCall::LookMa(_)
                    | ToolCall::Pause(_)
                    | ToolCall::Clear(_)) => {
                        let asking = WatchCall {
                            call,
                            who: asked.who,
                            caller: asked.caller,
                            worlds: asked.worlds,
                            settings: asked.watch,
                        };
                        self.watch_call(asking, request)
                    }
                    request @ (ToolCall::WaitForEvent(_)
                    | ToolCall::NotifyCompletion(_)
                    | ToolCall::SendMessage(_)
                    | ToolCall::AskQuestion(_)
                    | ToolCall::AnswerQuestion(_)) => {
                        self.team_call(call, &asked.who, asked.key, request)
                    }
                }
            }
            Request::RunNews { run, seen } => self.news(call, &run, seen),
            Request::AckEvent { event } => Ok(Plan::new(move |core, cx| {
                core.took(call, event, cx);
            })),
            Request::Inbox { after, most } => Ok(Plan::new(move |core, cx| {
                core.look_into(call, &asked.who, after, most, cx);
            })),
            Request::Hook { news } => Ok(Plan::new(move |core, cx| {
                core.hook(call, &asked.who, asked.key, news, cx);
            })),
            Request::Overview => Ok(Plan::new(move |core, cx| {
                core.survey(call, Bounds::None, Vec::new(), cx);
            })),
            Request::TmuxPanes => {
                let overview = Overview {
                    tmux: elsewhere,
                    ..Overview::default()
                };
                Ok(Plan::effect(Effect::Survey {
                    call,
                    overview,
                    live: Vec::new(),
                    bounded: false,
                }))
            }
            Request::Follow { pane, from } => {
                self.ask(call, self.resolve(&pane)?, PaneRequest::Follow { from })
            }
            Request::Resize { pane, rows, cols } => {
                let pane = self.resolve(&pane)?;
                if !(1..=1000).contains(&rows) || !(1..=1000).contains(&cols) {
                    return Err(Error::invalid(format!(
                        "size: wanted 1 to 1000 rows and columns, got {rows}×{cols}"
                    )));
                }
                pane.live()?;
                let size = PaneSize { rows, cols };
                self.ask(call, pane, PaneRequest::Resize(size))
            }
            Request::CollectGarbage { dry_run, all_ended } => {
                let scope = if all_ended {
                    ForgetScope::AllEnded
                } else {
                    ForgetScope::Limits
                };
                Ok(Plan::new(move |core, cx| {
                    core.collect_garbage(call, dry_run, scope, cx);
                }))
            }
            Request::Look { look } => self.look(call, asked.key, look),
            Request::DaemonStatus | Request::DaemonStop { .. } => Err(Error::new(
                ErrorKind::Internal,
                "the daemon answers for itself",
            )),
        }
    }
}

/// The one pane that a call opens.
fn only(worlds: Result<Vec<LaunchEnv>, Error>) -> Result<LaunchEnv, Error> {
    let world = worlds?.into_iter().next();
    world.ok_or_else(|| Error::new(ErrorKind::Internal, "no world was looked up"))
}
