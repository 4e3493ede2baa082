//! Panes that a run opens to wait for a pattern in their output: `create_pane` with `ready`.
//!
//! Such a run is an expect that searches the output from its beginning. Its pane stays when the run has ended, unless it was
//! cancelled.

use std::sync::Arc;

use fugue_api::{
    Error, ErrorKind, PaneId, RunId,
    tools::{CreatePane, CreatePaneReply, ExpectAction, ExpectReport, RunExpect},
    wire::CallerEnv,
};

use super::{RunEntry, RunStarter, Runs};
use crate::{
    AfterCommit, Change, Counter, ExpectOutcome, ExpectRequest, ExpectWork, LaunchEnv, PaneOpening,
    PaneRecord, RunWork,
    calls::CallOrigin,
    context::Context,
    panes::{Panes, job_of, replies::created_reply},
    view,
};

impl Runs {
    pub(super) fn begin_ready_pane(
        &mut self,
        start: CallOrigin,
        starter: RunStarter,
        args: CreatePane,
        launch_env: LaunchEnv,
        cx: &mut Context,
    ) {
        let now = cx.now();
        let caller = start.caller.clone();
        let opened_by = starter.opened_by.clone();
        let record = cx
            .panes
            .enter_created(start.key, opened_by, None, &args, &launch_env, now);
        cx.out.commit([
            Change::put(record.clone()),
            Change::SetCounter(Counter::NextPane, cx.panes.next),
        ]);
        let run_id = args.run_id.clone();
        let work = ExpectWork {
            args: expect_args(&args, record.id),
            pane: record.id,
            from: None,
            outcome: None,
            opening: Some(Box::new(PaneOpening { args, launch_env })),
        };
        let run = RunWork::Expect(Box::new(work.clone()));
        let id = self.begin(start, starter, run_id, run, cx);
        for effect in work.open_pane(&id, record, caller) {
            cx.out.when_stored().then(effect);
        }
    }
}

/// The expect of a call with `ready`. An empty pattern is refused before.
fn expect_args(args: &CreatePane, pane: PaneId) -> RunExpect {
    RunExpect {
        pane_id: pane.to_string(),
        pattern: args.ready.clone().unwrap_or_default(),
        timeout_ms: args.timeout_ms,
        action: ExpectAction::Notify,
        poll_interval_ms: RunExpect::poll_interval_ms(),
        lines: RunExpect::lines(),
        since: Some(view::start()),
        fail_pattern: None,
        match_echo: false,
        report: ExpectReport::Call,
        run_id: None,
    }
}

impl ExpectWork {
    /// The expect, as it is given to the pane.
    pub(super) fn request(&self, run: &RunId) -> Box<ExpectRequest> {
        Box::new(ExpectRequest {
            run: run.clone(),
            args: self.args.clone(),
            from: self.from.clone(),
        })
    }

    /// Whether the program of a pane that the run has opened did not become ready.
    pub(super) fn has_failed(&self) -> bool {
        let is_over = matches!(
            self.outcome,
            Some(ExpectOutcome::TimedOut | ExpectOutcome::Exited(_))
        );
        is_over && self.opening.is_some()
    }

    /// Opens the pane of the run and begins the search there. Nothing for an expect in an existing pane.
    pub(super) fn open_pane(
        &self,
        run: &RunId,
        record: PaneRecord,
        caller: Arc<CallerEnv>,
    ) -> Vec<AfterCommit> {
        let Some(opening) = &self.opening else {
            return Vec::new();
        };
        let pane = record.id;
        vec![
            AfterCommit::OpenPane {
                record: Box::new(record),
                job: job_of(&opening.args),
                env: opening.args.env.clone(),
                launch_env: opening.launch_env.clone(),
                caller,
            },
            AfterCommit::StartExpect {
                pane,
                expect: self.request(run),
            },
        ]
    }
}

impl RunEntry {
    fn opening(&self) -> Option<(PaneId, &PaneOpening)> {
        match &self.record.work {
            RunWork::Expect(work) => Some((work.pane, work.opening.as_deref()?)),
            RunWork::Parallel(_) | RunWork::Pipeline(_) => None,
        }
    }

    /// The reply to the `create_pane` call that began the run, without the result. `None` for another run.
    pub(super) fn opened_pane(&self, panes: &Panes) -> Option<Box<CreatePaneReply>> {
        let (pane, _) = self.opening()?;
        let record = &panes.get(&pane)?.record;
        Some(Box::new(created_reply(record, None, false, None)))
    }

    /// Refuses a repeated `create_pane` call whose pane is forgotten.
    pub(super) fn check_opened_pane(&self, panes: &Panes) -> Result<(), Error> {
        match self.opening() {
            Some((pane, _)) if panes.get(&pane).is_none() => Err(Error::new(
                ErrorKind::Ended,
                format!(
                    "this call was made before: it opened pane `{pane}`, which has ended and is forgotten; it was not opened again"
                ),
            )
            .hint("make a new call to open another")),
            Some(_) | None => Ok(()),
        }
    }
}
