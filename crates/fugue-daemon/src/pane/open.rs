//! Opening a pane: a new one, or one of an earlier daemon. `unreachable.rs` reconnects after a lost connection.

use std::{
    io,
    path::Path,
    time::{Duration, Instant},
};

use fugue_api::{Error, tools::PaneSize};
use fugue_core::{
    PaneEvent, PaneJob, PaneRecord, StepPlan, TmuxOrigin,
    pane_machine::{AgentIdle, DraftTracker, PaneExit},
};
use fugue_holder::{
    record::{ChildRecord, ExitRecord, boot_id},
    spawn::ProcessExit,
    wire::{ChildExit, ChildSpec, ChildState, HelloOk, ToDaemon, ToHolder},
};

use super::{
    Pane, PaneContext,
    backend::{Adoption, BackendEvent, PaneBackend, Unreachable},
    launch, pipeline, tmux_hosted,
};
use crate::replay::{CHECKPOINT_EVERY, CheckpointPolicy, LogFollower, ReplayDepth};
use crate::{
    reap, recovery,
    shell::{self, steps},
    shell_environment::ShellVariables,
    tmux::placement,
};

impl Pane {
    pub(super) async fn start(
        mut context: PaneContext,
        start: launch::PaneLaunch,
    ) -> Result<Self, StartFailure> {
        let place = context.pane_dir();
        let dir = place.dir.clone();
        let plan = match &start.job {
            PaneJob::Steps(plan) | PaneJob::ShellWithSteps(plan) => Some(plan.number),
            PaneJob::Shell | PaneJob::Command(_) | PaneJob::Program(_) => None,
        };
        let ground = create_pane_dir(&dir, &start.job, &context.record)
            .and_then(|()| recovery::note_record(&dir, &context.record));
        if let Err(error) = ground {
            return Err(StartFailure::Failed(context, launch::files_error(&error)));
        }
        let caller = start.caller.clone();
        let shell_env = match &context.record.agent {
            // A failure is in the reply of `spawn_worker`, which has asked the same shell before.
            Some(_) => {
                let opener = context.record.opened_by.as_ref();
                launch::shell_variables(opener, &caller, &context.daemon)
                    .await
                    .unwrap_or_default()
            }
            None => ShellVariables::default(),
        };
        let mut spec = launch::spec(&context.record, start, &shell_env, &context.daemon);
        let backend = match &context.record.tmux {
            Some(_) => tmux_hosted::start(place, &mut context.record, &caller, &mut spec).await,
            None => PaneBackend::start(place)
                .await
                .map_err(|said| launch::refusal(&said)),
        };
        let mut backend = match backend {
            Ok(backend) => backend,
            Err(error) => return Err(StartFailure::Failed(context, error)),
        };
        if let Err(error) = backend.send(&ToHolder::Start(spec)) {
            return Err(StartFailure::Unsure(
                context,
                launch::refusal(&error.to_string()),
            ));
        }
        let child = loop {
            match backend.next_event().await {
                Ok(BackendEvent::Message(ToDaemon::Started(child))) => break child,
                Ok(BackendEvent::Message(ToDaemon::StartFailed { what, errno })) => {
                    backend.leave().await;
                    remove_from_tmux(&context).await;
                    return Err(StartFailure::Failed(context, launch::failed(&what, errno)));
                }
                Ok(_) => {}
                Err(error) => {
                    return Err(StartFailure::Unsure(
                        context,
                        launch::refusal(&error.to_string()),
                    ));
                }
            }
        };
        let follower = match Self::follow(&context, &dir) {
            Ok(follower) => follower,
            // The child runs: from here on the pane is one to be adopted, and never one that failed to open.
            Err(error) => return Err(StartFailure::Unsure(context, launch::files_error(&error))),
        };
        let mut pane = Self::new(context, follower, Some(backend));
        pane.follower.terminal.track_typed_input();
        if let Some(plan) = plan {
            pane.follow_steps(plan);
        }
        pane.opened(child.pid.cast_unsigned()).await;
        Ok(pane)
    }

    /// Turns an attempt to reach a pane of an earlier daemon into a pane. Takes `steps` on success.
    pub(super) async fn adopted(
        mut context: PaneContext,
        adoption: Adoption,
        steps: &mut Option<StepPlan>,
    ) -> AdoptionOutcome {
        let backend = match adoption {
            Adoption::Unreachable(failed) => return AdoptionOutcome::Unreachable(context, failed),
            Adoption::Answered(backend, hello) => Some((backend, hello)),
            Adoption::Dead => None,
        };
        let dir = context.pane_dir().dir;
        // A daemon may have died before it reported the tmux pane.
        if let Some(tmux) = context
            .record
            .tmux
            .as_mut()
            .filter(|tmux| tmux.id.is_empty())
            && let Some(noted) = placement::noted(&dir)
        {
            *tmux = noted;
        }
        let never_started = match &backend {
            Some((_, hello)) => Ok(matches!(hello.state, ChildState::Empty)),
            // The directory may be missing as well.
            None if context.record.pid == 0 => was_started(&context, &dir).map(|started| !started),
            None => Ok(false),
        };
        let opened = match never_started {
            Ok(false) => Self::follow(&context, &dir).and_then(|follower| {
                let exited = match &backend {
                    Some(_) => None,
                    None => recorded_exit(&context)?,
                };
                Ok((follower, exited))
            }),
            Ok(true) => {
                if let Some((mut backend, _)) = backend {
                    let _ = backend.send(&ToHolder::Leave);
                }
                remove_from_tmux(&context).await;
                return AdoptionOutcome::NeverStarted(context, launch::interrupted());
            }
            Err(error) => Err(error),
        };
        match (backend, opened) {
            (backend, Err(error)) => {
                let failed = Unreachable::because(format!("its files cannot be read: {error}"));
                let failed = match backend {
                    Some((backend, _)) => failed.with(backend),
                    None => failed,
                };
                AdoptionOutcome::Unreachable(context, failed)
            }
            (Some((backend, hello)), Ok((follower, _))) => {
                let pane = Self::adopt_live(context, follower, backend, &hello, steps.take());
                AdoptionOutcome::Pane(Box::new(pane.await))
            }
            (None, Ok((follower, exited))) => {
                let pane = Self::adopt_dead(context, follower, exited, steps.take(), &dir);
                AdoptionOutcome::Pane(Box::new(pane.await))
            }
        }
    }

    /// The pane of a backend that has answered.
    async fn adopt_live(
        context: PaneContext,
        follower: LogFollower,
        backend: PaneBackend,
        hello: &HelloOk,
        steps: Option<StepPlan>,
    ) -> Self {
        let mut pane = Self::new(context, follower, Some(backend));
        pane.apply_hello(hello).await;
        // The whole log is replayed in order, so that line numbers and cursors stay the same. Terminal queries
        // since the last daemon are answered now; the holder has the offset of the last answer.
        pane.read_back(hello.log_end).await;
        pane.idle = AgentIdle::inherited();
        // The earlier daemon may have typed.
        pane.follower.terminal.record_unknown_input();
        pane.draft = DraftTracker::inherited();
        pane.last_output = pane.follower.last_written().unwrap_or(pane.last_output);
        if let Some(plan) = steps {
            pane.run_steps(plan).await;
        }
        if let Some(cwd) = pane.follower.terminal.cwd() {
            let cwd = cwd.to_owned();
            pane.context.emit(PaneEvent::Moved { cwd }).await;
        }
        if pane.context.record.closing {
            pane.close(Duration::from_millis(u64::from(
                fugue_api::tools::ClosePane::grace_ms(),
            )));
        }
        pane
    }

    /// The pane of a child that has ended, with all output of the log.
    async fn adopt_dead(
        context: PaneContext,
        follower: LogFollower,
        exited: Option<ChildExit>,
        steps: Option<StepPlan>,
        dir: &Path,
    ) -> Self {
        let mut pane = Self::new(context, follower, None);
        pane.lost_by_reboot = exited.is_none() && ran_in_an_earlier_boot(&pane.context);
        // The opening call is unanswered: holder and child ended before the answer.
        if pane.context.record.pid == 0 {
            let meta = ChildRecord::read(dir, pane.context.record.generation);
            let child = meta.ok().flatten().and_then(|meta| meta.child);
            let pid = child.map_or(0, |child| child.pid.cast_unsigned());
            pane.opened(pid).await;
        }
        pane.read_back(u64::MAX).await;
        if let Some(plan) = steps {
            pane.run_steps(plan).await;
        }
        pane.lifecycle.on_exit(pane.end_of(exited));
        pane
    }

    /// The exit of a child that is proved to be dead, as far as its holder recorded it.
    pub(super) fn end_of(&self, recorded: Option<ChildExit>) -> PaneExit<ProcessExit> {
        match recorded {
            Some(exited) => pane_exit(exited),
            None => PaneExit {
                status: ProcessExit::Unknown,
                output_end: self.follower.terminal.offset().0,
            },
        }
    }

    pub(super) fn follow(context: &PaneContext, dir: &Path) -> io::Result<LogFollower> {
        let settings = context.daemon.settings();
        // A removed directory loses the output, and must not lose the pane.
        make_private_dir(dir)?;
        let checkpoints = CheckpointPolicy::Every(CHECKPOINT_EVERY);
        let mut follower = LogFollower::open(
            dir,
            &context.record,
            settings.keep_lines,
            ReplayDepth::Recent,
            checkpoints,
        )?;
        // The segment size of the earlier daemon, or the one that this daemon gives to new children.
        let ours = ChildSpec::segment_for(settings.log_cap_bytes);
        let meta = ChildRecord::read(dir, context.record.generation)
            .ok()
            .flatten();
        let segment = meta.map_or(ours, |meta| meta.segment.min(ours));
        follower.log.set_min_segment(segment);
        Ok(follower)
    }

    pub(super) async fn opened(&mut self, pid: u32) {
        self.context.record.pid = pid;
        if self.context.record.announces_prompts() {
            self.probing.schedule_after_quiet(Instant::now());
        }
        let cursor = self.cursor();
        self.context
            .emit(PaneEvent::Opened {
                pid,
                cursor,
                tmux: self.context.record.tmux.clone(),
            })
            .await;
    }

    pub(super) async fn apply_hello(&mut self, hello: &HelloOk) {
        self.stalled = hello.stalled;
        self.has_unread_output = true;
        match hello.state {
            ChildState::Empty => {}
            ChildState::Running(child) if self.context.record.pid == 0 => {
                self.opened(child.pid.cast_unsigned()).await
            }
            ChildState::Running(_) => {}
            ChildState::Exited { child, exited } => {
                if self.context.record.pid == 0 {
                    self.opened(child.pid.cast_unsigned()).await;
                }
                self.lifecycle.on_exit(pane_exit(exited));
            }
        }
    }

    /// Repeats pending requests to a backend that was reconnected.
    pub(super) fn resend_requests(&mut self) {
        for id in self.probes.keys().copied().collect::<Vec<_>>() {
            self.send(&ToHolder::Probe { id });
        }
        self.expect_probes();
        for (id, PaneSize { rows, cols }) in self.resizes.unconfirmed() {
            self.send(&ToHolder::Resize { id, rows, cols });
        }
        if self.context.record.closing {
            self.close(Duration::ZERO);
        }
        self.advance_inputs();
    }
}

/// A child's exit as the holder has recorded it.
pub(super) fn pane_exit(exited: ChildExit) -> PaneExit<ProcessExit> {
    PaneExit {
        status: exited.ending,
        output_end: exited.output_end,
    }
}

/// The outcome of an attempt to adopt a pane.
pub(super) enum AdoptionOutcome {
    Pane(Box<Pane>),
    /// No process of the pane ever ran.
    NeverStarted(PaneContext, Error),
    Unreachable(PaneContext, Unreachable),
}

/// Why a new pane does not run.
pub(super) enum StartFailure {
    /// Nothing was started.
    Failed(PaneContext, Error),
    /// The holder was requested to start the child, with an unknown result.
    Unsure(PaneContext, Error),
}

/// The exit that the holder recorded. A damaged record counts as none. A record that cannot be read now may be readable
/// later, so the error is returned.
pub(super) fn recorded_exit(context: &PaneContext) -> io::Result<Option<ChildExit>> {
    match ExitRecord::read(&context.pane_dir().dir, context.record.generation) {
        Ok(record) => Ok(record.map(|record| record.exited)),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether a child of the pane is recorded in its directory. A record that was torn by a power cut proves that a child was
/// about to be started, so the pane does not count as never started.
fn was_started(context: &PaneContext, dir: &Path) -> io::Result<bool> {
    let generation = context.record.generation;
    let child = match ChildRecord::read(dir, generation) {
        Err(error) if error.kind() == io::ErrorKind::InvalidData => return Ok(true),
        meta => meta?.and_then(|meta| meta.child),
    };
    Ok(child.is_some() || recorded_exit(context)?.is_some())
}

/// Whether the pane's child was started in an earlier boot of the machine. A holder's record that is torn or missing did not
/// reach the disk before the end of that boot.
pub(super) fn ran_in_an_earlier_boot(context: &PaneContext) -> bool {
    let tmux = context.record.tmux.as_ref();
    let has_holder = tmux.is_none_or(|tmux| tmux.origin != TmuxOrigin::Found);
    match ChildRecord::read(&context.pane_dir().dir, context.record.generation) {
        Ok(Some(meta)) => meta.boot != boot_id(),
        Ok(None) => has_holder,
        Err(error) => error.kind() == io::ErrorKind::InvalidData,
    }
}

/// Removes the pane from tmux, because nothing runs in it.
async fn remove_from_tmux(context: &PaneContext) {
    let dir = context.pane_dir().dir;
    if context.record.tmux.is_some() {
        let _ = tokio::task::spawn_blocking(move || reap::view(&dir)).await;
    }
}

/// Creates the pane's directory with the secret and the steps for its shell.
fn create_pane_dir(dir: &Path, job: &PaneJob, record: &PaneRecord) -> io::Result<()> {
    make_private_dir(dir)?;
    let steps_dir = launch::steps_dir(dir);
    match job {
        PaneJob::Steps(plan) | PaneJob::ShellWithSteps(plan) => {
            let plan = pipeline::plan_for(plan, record);
            steps::write_plan_for_new_shell(&steps_dir, &plan)?;
        }
        PaneJob::Shell => {}
        PaneJob::Command(_) | PaneJob::Program(_) => return Ok(()),
    }
    if record.announces_prompts() {
        shell::write_secret(&steps_dir, &record.secret)?;
    }
    Ok(())
}

fn make_private_dir(dir: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new()
        .mode(0o700)
        .recursive(true)
        .create(dir)
}
