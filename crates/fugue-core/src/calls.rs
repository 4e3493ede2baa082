//! Calls: identity and authority of the caller, and the routing to the function that plans the call.

pub(crate) mod authority;
pub(crate) mod plan;
#[cfg(test)]
mod refusal_tests;
pub(crate) mod starts;
#[cfg(test)]
mod unstored_start_tests;

use std::sync::Arc;

use fugue_api::{
    Error, ErrorKind, ToolCall,
    overview::{Overview, TmuxRow},
    tools::PaneSize,
    wire::{CallerEnv, CallerIdentity, IdempotencyKey, Request},
};

use crate::{
    CallId, CallRequest, Core, Effect, LaunchEnv, PaneRequest, TmuxLookup,
    assess::WatchSettings,
    context::Context,
    panes::{Bounds, limits::ForgetScope},
};
use plan::{Plan, Planner};

impl Core {
    /// Plans a call and then applies the plan. A refused call changes nothing.
    pub(crate) fn call(&mut self, call: CallId, mut asked: CallRequest) -> Result<(), Error> {
        let now = self.cx.now();
        asked.who = self.team.identify(asked.within, asked.who, &self.cx)?;
        let panes = &self.cx.panes;
        let mut elsewhere = Vec::new();
        let mut discovered = None;
        match std::mem::take(&mut asked.tmux) {
            TmuxLookup::None => {}
            TmuxLookup::One(found) => {
                let found = (*found)?;
                let id = panes.discovered_pane(&found).unwrap_or_else(|| {
                    let pane = panes.discovered(found, asked.key, now);
                    discovered.insert(pane).record.id
                });
                asked.request.set_pane(id);
            }
            TmuxLookup::All(found) => elsewhere = panes.undiscovered_rows(found),
        }
        let planner = Planner {
            core: self,
            discovered: discovered.as_ref(),
            now,
        };
        planner.authorize(&asked.who, &asked.caller, &asked.request)?;
        let origin = CallOrigin {
            call,
            key: asked.key,
            who: asked.who,
            caller: asked.caller,
            launch_envs: asked.launch_envs,
            watch: asked.watch,
            tmux: elsewhere,
        };
        let plan = planner.plan(origin, asked.request)?;
        if let Some(pane) = discovered {
            let Context { panes, out, .. } = &mut self.cx;
            panes.enter_discovered(pane, out);
        }
        plan.apply(self);
        Ok(())
    }
}

/// The caller of a call, and the data that the daemon looked up for the call.
pub(crate) struct CallOrigin {
    pub call: CallId,
    pub key: IdempotencyKey,
    pub who: CallerIdentity,
    pub caller: Arc<CallerEnv>,
    /// A launch environment for each pane that the call opens.
    pub launch_envs: Result<Vec<LaunchEnv>, Error>,
    /// The settings of a watcher that the call begins.
    pub watch: Option<Box<WatchSettings>>,
    /// Panes of the caller's tmux that are not recorded here.
    pub tmux: Vec<TmuxRow>,
}

impl CallOrigin {
    /// The launch environment of the only pane that the call opens.
    pub fn launch_env(&self) -> Result<LaunchEnv, Error> {
        let launch_env = self.launch_envs.clone()?.into_iter().next();
        launch_env
            .ok_or_else(|| Error::new(ErrorKind::Internal, "no launch environment was looked up"))
    }
}

impl Planner<'_> {
    /// Plans a tool call by the function in the folder of the tool's feature.
    fn plan_tool(&self, origin: CallOrigin, tool: ToolCall) -> Result<Plan, Error> {
        tool.check()?;
        match tool {
            ToolCall::CreatePane(args) => self.create_pane(origin, args),
            ToolCall::SendInput(args) => self.send_input(&origin, args),
            ToolCall::ReadPane(args) => self.read_pane(&origin, args),
            ToolCall::GetStatus(args) => self.get_status(origin, args),
            ToolCall::ClosePane(args) => self.close_pane(&origin, &args),
            ToolCall::RunExpect(args) => self.run_expect(origin, args),
            ToolCall::RunParallel(args) => self.run_parallel(origin, args),
            ToolCall::RunPipeline(args) => self.run_pipeline(origin, args),
            ToolCall::WaitForRun(args) => self.wait_for_run(&origin, &args),
            ToolCall::CancelRun(args) => self.cancel_run(&origin, &args),
            ToolCall::SpawnWorker(args) => self.spawn_worker(origin, args),
            ToolCall::WaitForEvent(args) => self.wait_for_event(origin, args),
            ToolCall::NotifyCompletion(args) => self.notify_completion(&origin, args),
            ToolCall::SendMessage(args) => self.send_message(&origin, args),
            ToolCall::AskQuestion(args) => self.ask_question(&origin, args),
            ToolCall::AnswerQuestion(args) => self.answer_question(&origin, args),
            ToolCall::WatchMe(args) => self.watch_me(origin, args),
            ToolCall::LookMa(args) => self.look_ma(&origin, args),
            ToolCall::Pause(args) => self.pause(&origin, &args),
            ToolCall::Clear(args) => self.clear(&origin, &args),
        }
    }

    /// Plans any request, including those that only fugue's own clients send.
    fn plan(&self, origin: CallOrigin, request: Request) -> Result<Plan, Error> {
        let call = origin.call;
        match request {
            Request::Tool { call: tool } => self.plan_tool(origin, tool),
            Request::RunProgress { run, seen } => self.follow_run(&origin, &run, seen),
            Request::AckEvent { event } => Ok(Plan::new(move |core| {
                core.team.ack_event(call, event, &mut core.cx);
            })),
            Request::Inbox { after, most } => Ok(Plan::new(move |core| {
                core.team
                    .list_inbox(call, &origin.who, after, most, &mut core.cx);
            })),
            Request::Questions { known } => Ok(Plan::new(move |core| {
                core.team
                    .list_questions(call, &origin.who, known, &mut core.cx.out);
            })),
            Request::Hook { report } => Ok(Plan::new(move |core| {
                core.team
                    .hook(call, &origin.who, origin.key, report, &mut core.cx);
            })),
            Request::Overview => Ok(self.survey(call, Bounds::None, Vec::new())),
            Request::TmuxPanes => Ok(Plan::effect(Effect::CompleteOverview {
                call,
                overview: Overview {
                    tmux: origin.tmux,
                    ..Overview::default()
                },
                live: Vec::new(),
                bounded: false,
            })),
            Request::Follow { pane, from } => {
                self.ask(call, self.resolve(&pane)?, PaneRequest::Follow { from })
            }
            Request::Resize { pane, rows, cols } => {
                self.resize_pane(&origin, &pane, PaneSize { rows, cols })
            }
            Request::CollectGarbage { dry_run, all_ended } => {
                let scope = if all_ended {
                    ForgetScope::AllEnded
                } else {
                    ForgetScope::Limits
                };
                Ok(self.collect_garbage(call, dry_run, scope))
            }
            Request::Worktrees { request } => Ok(Plan::effect(Effect::Worktrees {
                call,
                request,
                live: self.core.team.live_workers().collect(),
            })),
            Request::Attach { request } => self.plan_attach(call, origin.key, request),
            Request::DaemonStatus
            | Request::Settings
            | Request::ReloadSettings
            | Request::DaemonStop { .. } => Err(Error::new(
                ErrorKind::Internal,
                "the daemon answers for itself",
            )),
        }
    }
}
