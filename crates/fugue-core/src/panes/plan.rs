//! Calls about one pane or all panes, checked before anything is done.

use std::{collections::BTreeMap, time::Duration};

use fugue_api::{
    Error, SessionName, ToolReply,
    overview::{Overview, PaneRow, SessionRow, TmuxRow},
    tools::{
        ClosePane, CreatePane, GetStatus, GetStatusReply, PaneSize, PaneStatus, ReadPane, SendInput,
    },
    wire::Response,
};

use super::{
    Bounds,
    replies::{ended_state, row_of, status_of},
};
use crate::{
    CallId, Effect, PaneRecord, PaneRequest,
    calls::{
        CallOrigin,
        plan::{Plan, Planner},
    },
    context::Context,
    result,
};

impl Planner<'_> {
    pub fn create_pane(&self, origin: CallOrigin, args: CreatePane) -> Result<Plan, Error> {
        if args.ready.is_some() {
            return self.create_ready_pane(origin, args);
        }
        // A pane that exists already needs nothing that could be refused.
        let mut panes = self.core.cx.panes.records();
        if let Some(made) = panes.find(|record| record.made_by == origin.key) {
            let (call, made) = (origin.call, made.id);
            return Ok(Plan::new(move |core| {
                core.cx.panes.rejoin_create(call, made, &mut core.cx.out);
            }));
        }
        self.core.cx.starts.refuse_repeated(origin.key)?;
        let launch_env = origin.launch_env()?;
        let opened_by = self.core.team.opener(&origin.who);
        Ok(Plan::new(move |core| {
            let Context {
                panes, starts, out, ..
            } = &mut core.cx;
            panes.create(origin, opened_by, args, launch_env, starts, out);
        }))
    }

    pub fn send_input(&self, origin: &CallOrigin, args: SendInput) -> Result<Plan, Error> {
        let pane = self.resolve(&args.pane_id)?;
        pane.live()?;
        let (args, key) = (Box::new(args), origin.key);
        self.ask(origin.call, pane, PaneRequest::Send { args, key })
    }

    pub fn close_pane(&self, origin: &CallOrigin, args: &ClosePane) -> Result<Plan, Error> {
        let (call, id) = (origin.call, self.resolve(&args.pane_id)?.record.id);
        let grace = Duration::from_millis(u64::from(args.grace_ms));
        Ok(Plan::new(move |core| {
            core.cx.panes.close(call, id, grace, &mut core.cx.out);
        }))
    }

    pub fn resize_pane(
        &self,
        origin: &CallOrigin,
        pane: &str,
        size: PaneSize,
    ) -> Result<Plan, Error> {
        let pane = self.resolve(pane)?;
        let PaneSize { rows, cols } = size;
        if !(1..=1000).contains(&rows) || !(1..=1000).contains(&cols) {
            return Err(Error::invalid(format!(
                "size: wanted 1 to 1000 rows and columns, got {rows}×{cols}"
            )));
        }
        pane.live()?;
        self.ask(origin.call, pane, PaneRequest::Resize(size))
    }

    pub fn read_pane(&self, origin: &CallOrigin, args: ReadPane) -> Result<Plan, Error> {
        if let Some(grep) = &args.grep {
            crate::view::compile(grep)?;
        }
        if let Some(since) = &args.since {
            crate::view::cursor(since)?;
        }
        let pane = self.resolve(&args.pane_id)?;
        let ended = pane.record.ended.as_ref().map(ended_state);
        let args = Box::new(args);
        self.ask(origin.call, pane, PaneRequest::Read { args, ended })
    }

    pub fn get_status(&self, origin: CallOrigin, args: GetStatus) -> Result<Plan, Error> {
        let (call, now) = (origin.call, self.now);
        let Some(said) = args.pane_id else {
            return Ok(self.survey(call, Bounds::Model, origin.tmux));
        };
        let pane = self.resolve(&said)?;
        let id = pane.record.id;
        let mut status = PaneStatus {
            agent: self.core.team.agent_status(id),
            worker: self.core.team.worker_row(id),
            watcher: self.core.watchers.watcher_row(id),
            ..status_of(&pane.record, now)
        };
        // The attention request of an agent is more reliable than its screen.
        if pane.is_live()
            && let Some(state) = self.core.team.agent_state(id)
        {
            status.state = state;
        }
        if pane.has_task() {
            return self.ask(call, pane, PaneRequest::Status(Box::new(status)));
        }
        let reply = ToolReply::GetStatus(GetStatusReply::Pane(Box::new(status)));
        Ok(Plan::effect(Effect::Reply {
            call,
            answer: Ok(Response::Tool { reply }),
        }))
    }

    fn pane_row(&self, record: &PaneRecord) -> PaneRow {
        let team = &self.core.team;
        let row = row_of(record);
        if record.ended.is_some() {
            return row;
        }
        PaneRow {
            agent: team.agent_status(record.id),
            state: team.agent_state(record.id).unwrap_or(row.state),
            ..row
        }
    }

    /// The rows of all features. The daemon completes the rows of live panes.
    pub fn survey(&self, call: CallId, bounds: Bounds, tmux: Vec<TmuxRow>) -> Plan {
        let (core, now) = (self.core, self.now);
        let panes = &core.cx.panes;
        let mut sessions: BTreeMap<&SessionName, u64> = BTreeMap::new();
        for record in panes.live() {
            *sessions.entry(&record.session).or_default() += 1;
        }
        let sessions = sessions.into_iter().map(|(session, panes)| SessionRow {
            session: session.clone(),
            panes,
        });
        let runs = core.runs.all.values();
        let overview = Overview {
            sessions: sessions.collect(),
            panes: panes
                .records()
                .map(|record| self.pane_row(record))
                .collect(),
            workers: core.team.worker_rows(),
            runs: runs
                .map(|run| result::row(&run.record, now.moment()))
                .collect(),
            watchers: core.watchers.watcher_rows(),
            questions: match bounds {
                Bounds::Model => Vec::new(),
                Bounds::None => core.team.question_rows(),
            },
            tmux,
            ..Overview::default()
        };
        let live = panes.iter().filter(|pane| pane.has_task());
        Plan::effect(Effect::CompleteOverview {
            call,
            overview,
            live: live.map(|pane| pane.record.id).collect(),
            bounded: matches!(bounds, Bounds::Model),
        })
    }
}
