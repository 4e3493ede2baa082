//! How a pane's task gets its pane: a new one, one of an earlier daemon, or again after its holder was lost.

use std::{io, path::Path, time::Duration};

use fugue_api::Error;
use fugue_core::{Job, PaneFact, StepPlan};
use fugue_hold::{
    record::{ExitRecord, Meta},
    spawn::Ending,
    wire::{HelloOk, Spec, State, ToDaemon, ToHolder},
};
use tokio::time::{Instant, sleep_until};

use super::{
    Pane, QUIET, Seat,
    keeper::{Event, Found, Keeper},
    launch,
    listener::Whose,
    quiet::Draft,
    resting::Resting,
    shown, stepping,
};
use crate::replay::{CHECKPOINT_EVERY, Checkpoints, Depth, Follower};
use crate::{sweep, tmux::make};

// There is no event for "processes or fds are to be had again".
const RETRY_HOLDER: Duration = Duration::from_millis(500);

impl Pane {
    pub(super) async fn start(mut seat: Seat, start: launch::Start) -> Result<Self, (Seat, Error)> {
        let place = seat.place();
        let dir = place.dir.clone();
        let plan = match &start.job {
            Job::Steps(plan) | Job::ShellWithSteps(plan) => Some(plan.number),
            Job::Shell | Job::Command(_) | Job::Program { .. } => None,
        };
        if let Err(error) = lay_ground(&dir, &start.job) {
            return Err((seat, launch::no_room(&error)));
        }
        let caller = start.caller.clone();
        let mut spec = launch::spec(&seat.record, start, &seat.house);
        let keeper = match &seat.record.tmux {
            Some(_) => shown::start(place, &mut seat.record, &caller, &mut spec).await,
            None => Keeper::start(place)
                .await
                .map_err(|said| launch::refusal(&said)),
        };
        let mut keeper = match keeper {
            Ok(keeper) => keeper,
            Err(error) => return Err((seat, error)),
        };
        if let Err(error) = keeper.send(&ToHolder::Start(spec)) {
            unshow(&seat).await;
            return Err((seat, launch::refusal(&error.to_string())));
        }
        let child = loop {
            match keeper.event().await {
                Ok(Event::Word(ToDaemon::Started(child))) => break child,
                Ok(Event::Word(ToDaemon::StartFailed { what, errno })) => {
                    keeper.leave().await;
                    unshow(&seat).await;
                    return Err((seat, launch::failed(&what, errno)));
                }
                Ok(_) => {}
                Err(error) => {
                    unshow(&seat).await;
                    return Err((seat, launch::refusal(&error.to_string())));
                }
            }
        };
        let follower = match Self::follow(&seat, &dir) {
            Ok(follower) => follower,
            Err(error) => return Err((seat, launch::no_room(&error))),
        };
        let mut pane = Self::new(seat, follower, Some(keeper));
        pane.follower.terminal.nothing_typed_yet();
        if let Some(plan) = plan {
            pane.follow_steps(plan);
        }
        pane.opened(child.pid.cast_unsigned()).await;
        Ok(pane)
    }

    pub(super) async fn find(
        mut seat: Seat,
        steps: Option<StepPlan>,
    ) -> Result<Self, (Seat, PaneFact)> {
        let sought = match Whose::of(&seat) {
            Some(whose) => Keeper::listen(whose).await,
            None => Keeper::find(seat.place()).await,
        };
        let found = match sought {
            Ok(found) => found,
            Err(said) => {
                tracing::warn!(pane = %seat.record.id, said, "its keeper cannot be reached");
                None
            }
        };
        let dir = seat.place().dir;
        // A daemon may have died before it could tell where tmux made the pane.
        if let Some(tmux) = seat.record.tmux.as_mut().filter(|tmux| tmux.id.is_empty())
            && let Some(noted) = make::noted(&dir)
        {
            *tmux = noted;
        }
        let recorded = ExitRecord::read(&dir, seat.record.generation)
            .ok()
            .flatten();
        // Its directory need not be there either.
        if found.is_none() && seat.record.pid == 0 && recorded.is_none() {
            unshow(&seat).await;
            return Err((seat, PaneFact::NeverStarted(launch::interrupted())));
        }
        let follower = match Self::follow(&seat, &dir) {
            Ok(follower) => follower,
            Err(error) => return Err((seat, PaneFact::OpenFailed(launch::no_room(&error)))),
        };
        match found {
            Some((
                mut keeper,
                HelloOk {
                    state: State::Empty,
                    ..
                },
            )) => {
                let _ = keeper.send(&ToHolder::Leave);
                unshow(&seat).await;
                Err((seat, PaneFact::NeverStarted(launch::interrupted())))
            }
            Some((keeper, hello)) => {
                let mut pane = Self::new(seat, follower, Some(keeper));
                pane.greeted(&hello).await;
                // Every line again, in the same order, so that lines and cursors are what they were. What a
                // program asked of its terminal meanwhile is answered now; the holder knows what already was.
                pane.read_back(hello.log_end).await;
                pane.resting = Resting::taken_over();
                // Under the daemon before.
                pane.follower.terminal.may_have_typed();
                pane.draft = Draft::Untold;
                pane.last_output = pane.follower.last_written().unwrap_or(pane.last_output);
                if let Some(plan) = steps {
                    pane.run_steps(plan).await;
                }
                if let Some(cwd) = pane.follower.terminal.cwd() {
                    let cwd = cwd.to_owned();
                    pane.seat.say(PaneFact::Moved { cwd }).await;
                }
                if pane.seat.record.closing {
                    pane.close(Duration::from_millis(u64::from(
                        fugue_api::panes::ClosePane::grace_ms(),
                    )));
                }
                Ok(pane)
            }
            None => {
                let mut pane = Self::new(seat, follower, None);
                pane.read_back(u64::MAX).await;
                if let Some(plan) = steps {
                    pane.run_steps(plan).await;
                }
                let at = pane.follower.terminal.offset().0;
                pane.exited = Some(recorded.map_or((Ending::Unknown, at), |record| {
                    (record.exited.ending, record.exited.at)
                }));
                Ok(pane)
            }
        }
    }

    pub(super) fn follow(seat: &Seat, dir: &Path) -> io::Result<Follower> {
        let settings = &seat.house.settings;
        let checkpoints = Checkpoints::Every(CHECKPOINT_EVERY);
        let mut follower = Follower::open(
            dir,
            &seat.record,
            settings.keep_lines,
            Depth::Recent,
            checkpoints,
        )?;
        // As an earlier daemon had it, and as every process gets it that this one starts here.
        let ours = Spec::segment_for(settings.log_cap_bytes);
        let meta = Meta::read(dir, seat.record.generation).ok().flatten();
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
            .say(PaneFact::Opened {
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
            State::Empty => {}
            State::Running(child) if self.seat.record.pid == 0 => {
                self.opened(child.pid.cast_unsigned()).await
            }
            State::Running(_) => {}
            State::Exited { child, exited } => {
                if self.seat.record.pid == 0 {
                    self.opened(child.pid.cast_unsigned()).await;
                }
                self.exited = Some((exited.ending, exited.at));
            }
        }
    }

    /// The connection to the holder is lost, which never means that the child died.
    pub(super) async fn recover(&mut self, lost: &io::Error) {
        tracing::debug!(pane = %self.seat.record.id, %lost, "the connection to its holder is lost");
        self.sending.holder_lost();
        loop {
            let Some(keeper) = self.keeper.as_mut() else {
                return;
            };
            // A holder whose child has ended leaves by itself, after it wrote down how.
            if let Some(record) = keeper.recorded_exit() {
                self.exited = Some((record.exited.ending, record.exited.at));
                self.more_to_read = true;
                self.keeper = None;
                return;
            }
            match keeper.recover().await {
                Ok(Found::Again(hello)) => {
                    self.greeted(&hello).await;
                    break;
                }
                Ok(Found::TakenOver) => {
                    tracing::warn!(pane = %self.seat.record.id, "a newer daemon has taken over");
                    self.keeper = None;
                    return;
                }
                Err(said) => {
                    tracing::warn!(pane = %self.seat.record.id, said, "its holder could not be replaced yet");
                    sleep_until(Instant::now() + RETRY_HOLDER).await;
                }
            }
        }
        for id in self.probes.keys().copied().collect::<Vec<_>>() {
            self.tell(&ToHolder::Probe { id });
        }
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
        self.go_on_sending();
    }
}

/// Nothing runs in it, so tmux need not show it.
async fn unshow(seat: &Seat) {
    let dir = seat.place().dir;
    if seat.record.tmux.is_some() {
        let _ = tokio::task::spawn_blocking(move || sweep::view(&dir)).await;
    }
}

/// The pane's own directory, and the steps that its shell will find there.
fn lay_ground(dir: &Path, job: &Job) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new()
        .mode(0o700)
        .recursive(true)
        .create(dir)?;
    match job {
        Job::Steps(plan) | Job::ShellWithSteps(plan) => {
            stepping::lay_out(&launch::steps_dir(dir), plan)
        }
        Job::Shell | Job::Command(_) | Job::Program { .. } => Ok(()),
    }
}
