//! Calls that spawn a worker or wait for an event, checked before anything is done.

use fugue_api::{
    Error, ErrorKind, PaneId,
    tools::{SpawnWorker, WaitForEvent},
};

use crate::{
    WorkerPhase, WorkerRecord,
    calls::{
        CallOrigin,
        plan::{Plan, Planner},
    },
};

impl Planner<'_> {
    pub fn spawn_worker(&self, spawn: CallOrigin, args: SpawnWorker) -> Result<Plan, Error> {
        let now = self.now;
        let team = &self.core.team;
        let mut workers = team.workers.values();
        if let Some(worker) = workers.find(|worker| worker.record.made_by == spawn.key) {
            let number = worker.record.number;
            return Ok(Plan::new(move |core| {
                core.team.rejoin_spawn(spawn.call, number, &mut core.cx.out);
            }));
        }
        self.core.cx.starts.refuse_repeated(spawn.key)?;
        let launch_env = spawn.launch_env()?;
        let lead = team.me(&spawn.who).inbox;
        let agent = args
            .agent
            .clone()
            .ok_or_else(|| Error::new(ErrorKind::Internal, "no agent was chosen"))?;
        let id = format!("{}-{agent}", args.name);
        let last = team.worker_of(&lead, &id, None);
        if let Some(live) = last.filter(|worker| !worker.record.is_over()) {
            return Err(Error::invalid(format!(
                "name: a worker `{id}` is live, in pane `{}`",
                live.record.pane
            ))
            .hint("choose another name, send it a message, or close its pane first"));
        }
        let instance = last.map_or(1, |last| last.record.instance + 1);
        let record = WorkerRecord {
            number: team.next_worker,
            instance,
            id,
            agent,
            lead,
            made_by: spawn.key,
            opened_by: team.opener(&spawn.who),
            started_at: now.moment(),
            args,
            launch_env,
            pane: PaneId(self.core.cx.panes.next),
            ready: None,
            phase: WorkerPhase::Preparing,
            turn: 1,
            reported: false,
            begun: false,
            heard: Vec::new(),
            asks: None,
            turn_over: false,
            background: false,
            failing: false,
            failed: false,
            pause: None,
            late_told: false,
            pending_completions: Vec::new(),
        };
        Ok(Plan::new(move |core| {
            core.team
                .begin_worker(spawn.call, record, spawn.caller, &mut core.cx);
        }))
    }

    pub fn wait_for_event(&self, origin: CallOrigin, args: WaitForEvent) -> Result<Plan, Error> {
        Ok(Plan::new(move |core| {
            core.team
                .wait_for_event(origin.call, &origin.who, args, &mut core.cx);
        }))
    }
}
