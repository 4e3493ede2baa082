//! How a pane's task gets its pane: a new one, one of an earlier daemon, or again after its holder was lost.

use std::{
    io,
    path::Path,
    time::{Duration, Instant},
};

use fugue_api::Error;
use fugue_core::{
    PaneEvent, PaneJob, PaneRecord, StepPlan,
    pane_machine::{AgentIdle, DraftTracker},
};
use fugue_holder::{
    record::{ChildRecord, ExitRecord},
    spawn::ProcessExit,
    wire::{ChildExit, ChildSpec, ChildState, HelloOk, ToDaemon, ToHolder},
};

use super::{
    Pane, PaneContext, QUIET,
    backend::{Adoption, BackendEvent, PaneBackend, Unreachable},
    launch, pipeline, tmux_hosted,
};
use crate::replay::{CHECKPOINT_EVERY, Checkpoints, Depth, Follower};
use crate::{
    reap, recovery,
    shell::{self, steps},
    tmux::make,
};

impl Pane {
    pub(super) async fn start(
        mut seat: PaneContext,
        start: launch::PaneLaunch,
    ) -> Result<Self, Unstarted> {
        let place = seat.place();
        let dir = place.dir.clone();
        let plan = match &start.job {
            PaneJob::Steps(plan) | PaneJob::ShellWithSteps(plan) => Some(plan.number),
            PaneJob::Shell | PaneJob::Command(_) | PaneJob::Program(_) => None,
        };
        let ground = lay_ground(&dir, &start.job, &seat.record)
            .and_then(|()| recovery::note_record(&dir, &seat.record));
        if let Err(error) = ground {
            return Err(Unstarted::Failed(seat, launch::no_room(&error)));
        }
        let caller = start.caller.clone();
        let mut spec = launch::spec(&seat.record, start, &seat.house);
        let keeper = match &seat.record.tmux {
            Some(_) => tmux_hosted::start(place, &mut seat.record, &caller, &mut spec).await,
            None => PaneBackend::start(place)
                .await
                .map_err(|said| launch::refusal(&said)),
        };
        let mut keeper = match keeper {
            Ok(keeper) => keeper,
            Err(error) => return Err(Unstarted::Failed(seat, error)),
        };
        if let Err(error) = keeper.send(&ToHolder::Start(spec)) {
            return Err(Unstarted::Unsure(seat, launch::refusal(&error.to_string())));
        }
        let child = loop {
            match keeper.event().await {
                Ok(BackendEvent::Word(ToDaemon::Started(child))) => break child,
                Ok(BackendEvent::Word(ToDaemon::StartFailed { what, errno })) => {
                    keeper.leave().await;
                    unshow(&seat).await;
                    return Err(Unstarted::Failed(seat, launch::failed(&what, errno)));
                }
                Ok(_) => {}
                Err(error) => {
                    return Err(Unstarted::Unsure(seat, launch::refusal(&error.to_string())));
                }
            }
        };
        let follower = match Self::follow(&seat, &dir) {
            Ok(follower) => follower,
            // The child runs: from here on the pane is one to be adopted, and never one that failed to open.
            Err(error) => return Err(Unstarted::Unsure(seat, launch::no_room(&error))),
        };
        let mut pane = Self::new(seat, follower, Some(keeper));
        pane.follower.terminal.nothing_typed_yet();
        if let Some(plan) = plan {
            pane.follow_steps(plan);
        }
        pane.opened(child.pid.cast_unsigned()).await;
        Ok(pane)
    }

    /// What an attempt to reach a pane of an earlier daemon makes of it. Takes `steps` when it becomes a pane.
    pub(super) async fn adopted(
        mut seat: PaneContext,
        adoption: Adoption,
        steps: &mut Option<StepPlan>,
    ) -> Adopted {
        let keeper = match adoption {
            Adoption::Unreachable(failed) => return Adopted::Unreachable(seat, failed),
            Adoption::Answered(keeper, hello) => Some((keeper, hello)),
            Adoption::Dead => None,
        };
        let dir = seat.place().dir;
        // A daemon may have died before it could tell where tmux made the pane.
        if let Some(tmux) = seat.record.tmux.as_mut().filter(|tmux| tmux.id.is_empty())
            && let Some(noted) = make::noted(&dir)
        {
            *tmux = noted;
        }
        let never_started = match &keeper {
            Some((_, hello)) => Ok(matches!(hello.state, ChildState::Empty)),
            // The directory need not be there either.
            None if seat.record.pid == 0 => was_started(&seat, &dir).map(|started| !started),
            None => Ok(false),
        };
        let opened = match never_started {
            Ok(false) => Self::follow(&seat, &dir).and_then(|follower| {
                let exited = match &keeper {
                    Some(_) => None,
                    None => recorded_exit(&seat)?,
                };
                Ok((follower, exited))
            }),
            Ok(true) => {
                if let Some((mut keeper, _)) = keeper {
                    let _ = keeper.send(&ToHolder::Leave);
                }
                unshow(&seat).await;
                return Adopted::NeverStarted(seat, launch::interrupted());
            }
            Err(error) => Err(error),
        };
        match (keeper, opened) {
            (keeper, Err(error)) => {
                let failed = Unreachable::because(format!("its files cannot be read: {error}"));
                let failed = match keeper {
                    Some((keeper, _)) => failed.with(keeper),
                    None => failed,
                };
                Adopted::Unreachable(seat, failed)
            }
            (Some((keeper, hello)), Ok((follower, _))) => {
                let mut pane = Self::new(seat, follower, Some(keeper));
                pane.greeted(&hello).await;
                // Every line again, in the same order, so that lines and cursors are what they were. What a
                // program asked of its terminal meanwhile is answered now; the holder knows what already was.
                pane.read_back(hello.log_end).await;
                pane.idle = AgentIdle::inherited();
                // Under the daemon before.
                pane.follower.terminal.may_have_typed();
                pane.draft = DraftTracker::inherited();
                pane.last_output = pane.follower.last_written().unwrap_or(pane.last_output);
                if let Some(plan) = steps.take() {
                    pane.run_steps(plan).await;
                }
                if let Some(cwd) = pane.follower.terminal.cwd() {
                    let cwd = cwd.to_owned();
                    pane.seat.say(PaneEvent::Moved { cwd }).await;
                }
                if pane.seat.record.closing {
                    pane.close(Duration::from_millis(u64::from(
                        fugue_api::panes::ClosePane::grace_ms(),
                    )));
                }
                Adopted::Pane(Box::new(pane))
            }
            (None, Ok((follower, exited))) => {
                let mut pane = Self::new(seat, follower, None);
                // Whoever asked for the pane has not been answered: its holder and its child were gone before that.
                if pane.seat.record.pid == 0 {
                    let meta = ChildRecord::read(&dir, pane.seat.record.generation);
                    let child = meta.ok().flatten().and_then(|meta| meta.child);
                    let pid = child.map_or(0, |child| child.pid.cast_unsigned());
                    pane.opened(pid).await;
                }
                pane.read_back(u64::MAX).await;
                if let Some(plan) = steps.take() {
                    pane.run_steps(plan).await;
                }
                pane.exited = Some(pane.end_of(exited));
                Adopted::Pane(Box::new(pane))
            }
        }
    }

    /// How a child that is proved to be dead ended, and where its output ends, as far as its holder recorded it.
    pub(super) fn end_of(&self, recorded: Option<ChildExit>) -> (ProcessExit, u64) {
        match recorded {
            Some(exited) => (exited.ending, exited.at),
            None => (ProcessExit::Unknown, self.follower.terminal.offset().0),
        }
    }

    pub(super) fn follow(seat: &PaneContext, dir: &Path) -> io::Result<Follower> {
        let settings = &seat.house.settings;
        // A directory that somebody removed holds no output, which is not a reason to lose the pane.
        make_private_dir(dir)?;
        let checkpoints = Checkpoints::Every(CHECKPOINT_EVERY);
        let mut follower = Follower::open(
            dir,
            &seat.record,
            settings.keep_lines,
            Depth::Recent,
            checkpoints,
        )?;
        // As an earlier daemon had it, and as every process gets it that this one starts here.
        let ours = ChildSpec::segment_for(settings.log_cap_bytes);
        let meta = ChildRecord::read(dir, seat.record.generation)
            .ok()
            .flatten();
        let segment = meta.map_or(ours, |meta| meta.segment.min(ours));
        follower.log.written_in(segment);
        Ok(follower)
    }

    pub(super) async fn opened(&mut self, pid: u32) {
        self.seat.record.pid = pid;
        if self.seat.record.announces_prompts() {
            self.look_at = Some(Instant::now() + QUIET);
        }
        let cursor = self.cursor();
        self.seat
            .say(PaneEvent::Opened {
                pid,
                cursor,
                tmux: self.seat.record.tmux.clone(),
            })
            .await;
    }

    pub(super) async fn greeted(&mut self, hello: &HelloOk) {
        self.stalled = hello.stalled;
        self.more_to_read = true;
        match hello.state {
            ChildState::Empty => {}
            ChildState::Running(child) if self.seat.record.pid == 0 => {
                self.opened(child.pid.cast_unsigned()).await
            }
            ChildState::Running(_) => {}
            ChildState::Exited { child, exited } => {
                if self.seat.record.pid == 0 {
                    self.opened(child.pid.cast_unsigned()).await;
                }
                self.exited = Some((exited.ending, exited.at));
            }
        }
    }

    /// Asks a holder that is back for everything that was asked of the lost one.
    pub(super) fn resume(&mut self) {
        for id in self.probes.keys().copied().collect::<Vec<_>>() {
            self.tell(&ToHolder::Probe { id });
        }
        self.expect_probes();
        for (id, (size, _)) in self
            .resizes
            .iter()
            .map(|(id, (size, _))| (*id, (*size, ())))
            .collect::<Vec<_>>()
        {
            self.tell(&ToHolder::Resize {
                id,
                rows: size.rows,
                cols: size.cols,
            });
        }
        if self.seat.record.closing {
            self.close(Duration::ZERO);
        }
        self.advance_inputs();
    }
}

/// What became of an attempt to adopt a pane.
pub(super) enum Adopted {
    Pane(Box<Pane>),
    /// No process of it ever ran.
    NeverStarted(PaneContext, Error),
    Unreachable(PaneContext, Unreachable),
}

/// Why a new pane does not run.
pub(super) enum Unstarted {
    /// Nothing was started.
    Failed(PaneContext, Error),
    /// The holder was told to start the child, and what became of that is to be found out.
    Unsure(PaneContext, Error),
}

/// What the holder recorded of its child's end. A record that is damaged says nothing; one that cannot be read now may
/// be read later, and until then nobody knows how the child ended.
pub(super) fn recorded_exit(seat: &PaneContext) -> io::Result<Option<ChildExit>> {
    match ExitRecord::read(&seat.place().dir, seat.record.generation) {
        Ok(record) => Ok(record.map(|record| record.exited)),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether a process of the pane is recorded in its directory. A record that a power cut has torn says that one was about to
/// be started; whether it was is not known, so the pane is not called one that never started.
fn was_started(seat: &PaneContext, dir: &Path) -> io::Result<bool> {
    let generation = seat.record.generation;
    let child = match ChildRecord::read(dir, generation) {
        Err(error) if error.kind() == io::ErrorKind::InvalidData => return Ok(true),
        meta => meta?.and_then(|meta| meta.child),
    };
    Ok(child.is_some() || recorded_exit(seat)?.is_some())
}

/// Nothing runs in it, so tmux need not show it.
async fn unshow(seat: &PaneContext) {
    let dir = seat.place().dir;
    if seat.record.tmux.is_some() {
        let _ = tokio::task::spawn_blocking(move || reap::view(&dir)).await;
    }
}

/// The pane's own directory, and the secret and the steps that its shell will find there.
fn lay_ground(dir: &Path, job: &PaneJob, record: &PaneRecord) -> io::Result<()> {
    make_private_dir(dir)?;
    let steps_dir = launch::steps_dir(dir);
    match job {
        PaneJob::Steps(plan) | PaneJob::ShellWithSteps(plan) => {
            let plan = pipeline::plan_for(plan, record);
            steps::lay_out_for_fresh_shell(&steps_dir, &plan)?;
        }
        PaneJob::Shell => {}
        PaneJob::Command(_) | PaneJob::Program(_) => return Ok(()),
    }
    if record.announces_prompts() {
        shell::hand_over(&steps_dir, &record.secret)?;
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
