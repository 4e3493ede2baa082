//! A pipeline in this pane: its shell takes the steps from files by itself. Marks in the output say where a step's own
//! output begins and ends; the shell's records say how it ended.

use std::{collections::BTreeMap, io, path::PathBuf, time::Duration};

use fugue_api::{Cursor, Error, ErrorKind, Timestamp};
use fugue_core::{PaneEvent, PaneRecord, StepEvent, StepPlan, view};
use fugue_holder::wire::{InputKind, InputMessage, SignalTarget, ToHolder};
use fugue_term::{ShellMark, ShellMarkKind, ShellState};
use rustix::process::Signal;
use tokio::time::Instant;

use super::{Pane, launch};
use crate::shell::{self, steps};

/// The pipeline whose steps this pane's shell has.
pub(super) struct Stepping {
    plan: u64,
    /// How many have been told of.
    began: usize,
    ended: usize,
    /// Lines of the log that are no records were logged.
    ignored_told: bool,
    /// Where each step's output begins and ends.
    seen: BTreeMap<u64, Seen>,
    /// How often a shell at its prompt was woken without taking a step.
    wakes: u32,
    /// When the last wake must have shown an effect.
    wake_by: Option<Instant>,
    stopping: Option<Stopping>,
}

#[derive(Default)]
struct Seen {
    from: Option<Cursor>,
    to: Option<Cursor>,
}

/// A step that is being interrupted, more firmly each time.
struct Stopping {
    next: usize,
    at: Instant,
}

// What a program gets to end after each; the last one it cannot refuse.
const FIRMNESS: [(i32, Duration); 3] = [
    (Signal::INT.as_raw(), Duration::from_secs(1)),
    (Signal::TERM.as_raw(), Duration::from_secs(2)),
    (Signal::KILL.as_raw(), Duration::from_secs(5)),
];

// A shell that was woken so often and takes nothing never will. Its line editor draws the prompt anew when it is woken,
// so a prompt is no sign that it missed the key, and a second one would be typed into the first step.
const MOST_WAKES: u32 = 3;
const WAKES_WITHIN: Duration = Duration::from_secs(3);

/// The plan as it is laid out for the shell of this pane.
pub fn plan_for(plan: &StepPlan, record: &PaneRecord) -> steps::Plan {
    let steps = plan.steps.iter().map(|step| steps::Step {
        heading: step.heading.clone(),
        text: step.text.clone(),
    });
    steps::Plan {
        number: plan.number,
        steps: steps.collect(),
        keep_going: plan.keep_going,
        begun: plan.begun,
        secret: record.made_by.0,
    }
}

impl Stepping {
    fn new(plan: u64) -> Self {
        Self {
            plan,
            began: 0,
            ended: 0,
            ignored_told: false,
            seen: BTreeMap::new(),
            wakes: 0,
            wake_by: None,
            stopping: None,
        }
    }
}

impl Pane {
    pub(super) fn steps_dir(&self) -> PathBuf {
        launch::steps_dir(&self.seat.place().dir)
    }

    /// Gives steps to the shell that is here, or finds out how far it is with them.
    pub(super) async fn run_steps(&mut self, plan: StepPlan) {
        let number = plan.number;
        let dir = self.steps_dir();
        let known = self
            .stepping
            .as_ref()
            .is_some_and(|mine| mine.plan == number);
        if !known {
            // What is there already was accepted by an earlier daemon.
            let accepted = dir.join(number.to_string()).is_dir();
            self.follow_steps(number);
            let began = self
                .stepping
                .as_ref()
                .is_some_and(|mine| !mine.seen.is_empty());
            if !accepted && (began || plan.begun > 0) {
                return self.steps_lost("its files were removed").await;
            }
            let may = if accepted {
                Ok(())
            } else {
                self.may_take_steps()
            };
            let plan = plan_for(&plan, &self.seat.record);
            let laid = may.and_then(|()| {
                steps::lay_out(&dir, &plan).map_err(|error| launch::no_room(&error))
            });
            if let Err(error) = laid {
                self.stepping = None;
                let refused = PaneEvent::StepsRefused {
                    plan: number,
                    error,
                };
                return self.seat.say(refused).await;
            }
        }
        self.tell_steps().await;
        if matches!(self.follower.terminal.prompt(), ShellState::AtPrompt { .. }) {
            self.wake().await;
        }
    }

    /// From here on what the shell says of this plan is told on.
    pub(super) fn follow_steps(&mut self, plan: u64) {
        self.stepping = Some(Stepping::new(plan));
        // Marks that an earlier task of this pane saw are in the terminal's memory.
        let marks: Vec<ShellMark> = self.follower.terminal.marks().copied().collect();
        for mark in marks {
            self.note_step(&mark);
        }
    }

    fn may_take_steps(&self) -> Result<(), Error> {
        let id = self.seat.record.id;
        let kind = shell::ShellKind::of(std::path::Path::new(&self.seat.record.command));
        if !shell::takes_steps(kind) {
            return Err(Error::invalid(format!(
                "pane_id: the shell of `{id}` has no way to take steps"
            ))
            .hint("use a pane with bash, zsh or fish, or leave `pane_id` out"));
        }
        match self.follower.terminal.prompt() {
            ShellState::AtPrompt { .. } | ShellState::Prompting { .. } => Ok(()),
            ShellState::Unknown | ShellState::Running { .. } => Err(Error::new(
                ErrorKind::Unavailable,
                format!("pane_id: `{id}` is not at its prompt: a program runs in it"),
            )
            .hint("wait for it with `fugue_expect`, or leave `pane_id` out")),
        }
    }

    /// A mark of the shell's went by.
    pub(super) async fn step_mark(&mut self, mark: &ShellMark) {
        if self.stepping.is_none() {
            return;
        }
        self.note_step(mark);
        match (mark.kind, mark.step) {
            (ShellMarkKind::Output | ShellMarkKind::Done { .. }, Some(_)) => {
                self.tell_steps().await
            }
            (ShellMarkKind::Input, _) => {
                self.tell_steps().await;
                self.at_prompt_again().await;
            }
            _ => {}
        }
    }

    fn note_step(&mut self, mark: &ShellMark) {
        let (Some(mine), Some(step)) = (&mut self.stepping, mark.step) else {
            return;
        };
        if step.plan != mine.plan {
            return;
        }
        let seen = mine.seen.entry(step.step).or_default();
        match mark.kind {
            // The first that says where it begins and the last that says where it ends, if a program that found out the
            // marks' secret should say so too.
            ShellMarkKind::Output => seen.from = seen.from.take().or(Some(view::shown(mark.at))),
            ShellMarkKind::Done { .. } => seen.to = Some(view::shown(mark.at)),
            ShellMarkKind::Prompt | ShellMarkKind::Input => {}
        }
    }

    /// What the shell's records say now. Lines that are none of the shell's are logged once.
    fn records(&mut self) -> io::Result<steps::StepRecords> {
        let dir = self.steps_dir();
        let (pane, secret) = (self.seat.record.id, self.seat.record.made_by.0);
        let Some(mine) = &mut self.stepping else {
            return Ok(steps::StepRecords::default());
        };
        let records = steps::records(&dir, mine.plan, secret)?;
        if records.ignored > 0 && !std::mem::replace(&mut mine.ignored_told, true) {
            tracing::warn!(%pane, plan = mine.plan, lines = records.ignored,
                "step log has lines that the shell did not write; they are ignored");
        }
        Ok(records)
    }

    /// The shell is at its prompt: it has taken all it will, or it must be woken to take its first.
    async fn at_prompt_again(&mut self) {
        let records = self.records();
        let Some(mine) = &self.stepping else { return };
        if mine.stopping.is_some() {
            return self.steps_stopped().await;
        }
        // A record is written before the prompt is shown.
        if mine.began > mine.ended {
            return self.steps_lost("no record of its end").await;
        }
        let done = match records {
            Ok(records) => records.done,
            Err(_) if mine.began == 0 && mine.wakes > 0 => return,
            Err(error) => return self.steps_lost(&error.to_string()).await,
        };
        if !done && mine.began > 0 {
            return self.steps_lost("no record that it took all steps").await;
        }
        if !done && mine.wakes == 0 {
            self.wake().await;
        }
    }

    /// The shell's records no longer tell what its steps did: a step changed or removed them, or the disk is full.
    async fn steps_lost(&mut self, why: &str) {
        let (dir, at, pane) = (self.steps_dir(), self.cursor(), self.seat.record.id);
        let Some(mine) = self.stepping.take() else {
            return;
        };
        tracing::warn!(%pane, plan = mine.plan, step = mine.began, why, "step log lost");
        if let Err(error) = steps::stop(&dir, mine.plan) {
            tracing::debug!(%pane, %error, "step plan not stopped");
        }
        let said = format!(
            "the shell's own log of its steps was changed or removed while step {} ran ({why}); \
             its exit code is unknown and no further step was started",
            mine.began.max(1)
        );
        let plan = mine.plan;
        let lost = PaneEvent::StepsLost {
            plan,
            at,
            why: said,
        };
        self.seat.say(lost).await;
    }

    async fn wake(&mut self) {
        let dir = self.steps_dir();
        let records = self.records().unwrap_or_default();
        let Some(mine) = &mut self.stepping else {
            return;
        };
        mine.wake_by = None;
        if records.done || !records.steps.is_empty() {
            return;
        }
        mine.wakes += 1;
        mine.wake_by = Some(Instant::now() + WAKES_WITHIN);
        if mine.wakes > MOST_WAKES {
            let plan = mine.plan;
            // First no shell may take them any more, then it is said that none did.
            let stopped = steps::stop(&dir, plan);
            if stopped.is_ok()
                || stopped.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
            {
                self.stepping = None;
                let error = Error::new(
                    ErrorKind::Unavailable,
                    format!(
                        "pane_id: the shell of `{}` does not take steps",
                        self.seat.record.id
                    ),
                )
                .hint("leave `pane_id` out");
                self.seat.say(PaneEvent::StepsRefused { plan, error }).await;
            }
            return;
        }
        let mut key = [0; 16];
        key[..8].copy_from_slice(&mine.plan.to_le_bytes());
        key[8..12].copy_from_slice(b"wake");
        key[12..].copy_from_slice(&mine.wakes.to_le_bytes());
        let Some(keeper) = self.keeper.as_mut() else {
            return;
        };
        let seq = keeper.next_seq();
        self.tell(&ToHolder::Input(InputMessage {
            seq,
            key,
            kind: InputKind::Typed,
            bytes: shell::WAKE.to_vec(),
        }));
    }

    /// Tells core what the records and marks show and it has not heard.
    pub(super) async fn tell_steps(&mut self) {
        let records = match self.records() {
            Ok(records) => records,
            Err(error) => {
                tracing::warn!(pane = %self.seat.record.id, %error, "step log cannot be read");
                return;
            }
        };
        // Recorded when all output of the shell was read and all of its marks were taken up.
        let (ended, cursor) = (self.seat.record.ended.is_some(), self.cursor());
        let Some(mine) = &mut self.stepping else {
            return;
        };
        let when = |us: Option<u64>| us.map(|us| Timestamp(us / 1000));
        let plan = mine.plan;
        let mut facts = Vec::new();
        let mut lost = false;
        for (index, record) in records.steps.iter().enumerate() {
            let step = index + 1;
            // A later step has records, and this one has none any more.
            lost = !record.started && record.ended.is_none() && mine.ended < step;
            if lost {
                break;
            }
            let seen = mine.seen.get(&(step as u64));
            if mine.began < step {
                let at = match seen.and_then(|seen| seen.from.clone()) {
                    Some(at) => at,
                    // The shell died before it could write the mark.
                    None if ended => cursor.clone(),
                    // Its mark is on its way, and comes here too.
                    None => break,
                };
                mine.began = step;
                mine.wake_by = None;
                facts.push(PaneEvent::StepBegan(StepEvent {
                    plan,
                    step,
                    at,
                    when: when(record.started_us),
                }));
            }
            if mine.ended < step
                && let Some(at) = seen.and_then(|seen| seen.to.clone())
                && let Some((code, us)) = record.ended
            {
                mine.ended = step;
                let when = when(us);
                let news = StepEvent {
                    plan,
                    step,
                    at,
                    when,
                };
                facts.push(PaneEvent::StepEnded(news, code));
            }
        }
        let stopped = mine.stopping.is_some() && mine.ended == mine.began;
        for fact in facts {
            self.seat.say(fact).await;
        }
        if lost {
            return self.steps_lost("no record of its end").await;
        }
        if stopped {
            self.steps_stopped().await;
        }
    }

    /// The time of the pipeline is over.
    pub(super) async fn stop_steps(&mut self, plan: u64) {
        if let Err(error) = steps::stop(&self.steps_dir(), plan) {
            tracing::warn!(pane = %self.seat.record.id, %error, "its steps could not be stopped");
        }
        let Some(mine) = self.stepping.as_mut().filter(|mine| mine.plan == plan) else {
            return self.seat.say(PaneEvent::StepsStopped { plan }).await;
        };
        mine.stopping = Some(Stopping {
            next: 0,
            at: Instant::now(),
        });
        let at_prompt = matches!(self.follower.terminal.prompt(), ShellState::AtPrompt { .. });
        if at_prompt {
            self.steps_stopped().await;
        } else {
            self.press_on();
        }
    }

    pub(super) fn stepping_deadline(&self) -> Option<Instant> {
        let mine = self.stepping.as_ref()?;
        let stop = mine.stopping.as_ref().map(|stopping| stopping.at);
        stop.into_iter().chain(mine.wake_by).min()
    }

    pub(super) async fn stepping_time(&mut self, now: Instant) {
        let at_prompt = matches!(self.follower.terminal.prompt(), ShellState::AtPrompt { .. });
        let Some(mine) = &mut self.stepping else {
            return;
        };
        if mine.wake_by.take_if(|at| *at <= now).is_some() && at_prompt {
            self.wake().await;
        }
        let stopping = self
            .stepping
            .as_ref()
            .and_then(|mine| mine.stopping.as_ref());
        if stopping.is_some_and(|stopping| stopping.at <= now) {
            self.press_on();
        }
    }

    /// Signals whatever has the terminal, a little more firmly than the last time.
    fn press_on(&mut self) {
        let id = self.next_id();
        let Some(stopping) = self
            .stepping
            .as_mut()
            .and_then(|mine| mine.stopping.as_mut())
        else {
            return;
        };
        let (signo, grace) = FIRMNESS[stopping.next.min(FIRMNESS.len() - 1)];
        stopping.next += 1;
        stopping.at = Instant::now() + grace;
        self.tell(&ToHolder::Signal {
            id,
            target: SignalTarget::Foreground,
            signo,
        });
    }

    async fn steps_stopped(&mut self) {
        if let Some(mine) = &mut self.stepping
            && mine.stopping.take().is_some()
        {
            let plan = mine.plan;
            self.seat.say(PaneEvent::StepsStopped { plan }).await;
        }
    }
}
