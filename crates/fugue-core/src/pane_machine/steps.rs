//! The steps of a pipeline, as reported by the pane's shell.
//!
//! The shell takes its steps from files by itself. Shell marks in the output delimit the output of each step; the shell's
//! records in the step log contain times and exit codes. The tracker combines both into events, wakes a shell that does not
//! begin, and interrupts a step whose pipeline is stopped.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use fugue_api::{Cursor, Timestamp};
use fugue_term::{ShellMark, ShellMarkKind};

use crate::{PaneEvent, StepEvent, view};

/// The shell's records of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepRecords {
    /// The started steps, in order. A step whose records were removed from the log has an empty record, if a later
    /// step has a record.
    pub steps: Vec<StepRecord>,
    /// Whether nothing is left to do: all steps ended, one failed, or the plan was stopped.
    pub done: bool,
    /// The number of lines that are no record of the shell: without its key, garbage, or a repeated record.
    pub ignored: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepRecord {
    /// Whether the shell's record of the start is present. A step that has neither start nor end although a later step
    /// follows was removed from the log.
    pub started: bool,
    /// Microseconds since the epoch, where the shell has a clock.
    pub started_us: Option<u64>,
    /// The exit code and the time. A step that ended its shell has none: the exit code is that of the process.
    pub ended: Option<(i32, Option<u64>)>,
}

/// The reaction to a prompt.
#[derive(Debug, PartialEq, Eq)]
pub enum PromptDecision {
    Nothing,
    /// The interrupted step has ended.
    Stopped,
    /// The records do not explain the prompt.
    Lost(String),
    Wake,
}

/// The reaction to a shell that may have to be woken.
#[derive(Debug, PartialEq, Eq)]
pub enum WakeDecision {
    /// The shell has taken a step.
    Nothing,
    /// Type the wake key, as an input with this idempotency key.
    Type([u8; 16]),
    /// The shell was woken often enough and takes no steps.
    GiveUp,
}

/// The events of new records, and the verdict on the plan.
#[derive(Debug, PartialEq)]
pub struct StepProgress {
    pub events: Vec<PaneEvent>,
    pub next: StepVerdict,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepVerdict {
    Continue,
    /// The records of a step were removed.
    Lost,
    /// The interrupted step has ended.
    Stopped,
}

/// A signal for the foreground process group of an interrupted step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopSignal {
    Interrupt,
    Terminate,
    Kill,
}

/// The timers of the tracker that were due.
#[derive(Debug, PartialEq, Eq)]
pub struct StepTimers {
    /// The last wake has shown no effect.
    pub wake: bool,
    /// The interrupted step has not ended.
    pub signal: bool,
}

/// The signals to a step that is interrupted, and the time that its program has after each. The last signal cannot be
/// ignored.
const STOP_SIGNALS: [(StopSignal, Duration); 3] = [
    (StopSignal::Interrupt, Duration::from_secs(1)),
    (StopSignal::Terminate, Duration::from_secs(2)),
    (StopSignal::Kill, Duration::from_secs(5)),
];

/// A shell that was woken this often without taking a step never will. A line editor redraws its prompt when it is woken,
/// so a prompt does not prove that the key was lost, and a second key would be typed into the first step.
const MAX_WAKES: u32 = 3;
const WAKE_TIMEOUT: Duration = Duration::from_secs(3);

/// Follows the plan that the pane's shell has.
#[derive(Debug)]
pub struct StepTracker {
    plan: u64,
    /// The number of steps whose start was reported.
    began: usize,
    /// The number of steps whose end was reported.
    ended: usize,
    ignored_logged: bool,
    outputs: BTreeMap<u64, StepOutput>,
    /// How often a shell at its prompt was woken without taking a step.
    wakes: u32,
    /// When the last wake must have shown an effect.
    wake_deadline: Option<Instant>,
    stop: Option<StepStop>,
}

/// Where the output of a step begins and ends, by its marks.
#[derive(Debug, Default)]
struct StepOutput {
    from: Option<Cursor>,
    to: Option<Cursor>,
}

/// A step that is interrupted, with a stronger signal each time.
#[derive(Debug)]
struct StepStop {
    next_signal: usize,
    signal_at: Instant,
}

impl StepTracker {
    /// Follows a plan from the marks that the terminal still has.
    pub fn new<'a>(plan: u64, marks: impl IntoIterator<Item = &'a ShellMark>) -> Self {
        let mut tracker = Self {
            plan,
            began: 0,
            ended: 0,
            ignored_logged: false,
            outputs: BTreeMap::new(),
            wakes: 0,
            wake_deadline: None,
            stop: None,
        };
        for mark in marks {
            tracker.on_mark(mark);
        }
        tracker
    }

    pub fn plan(&self) -> u64 {
        self.plan
    }

    /// The number of steps whose start was reported.
    pub fn began(&self) -> usize {
        self.began
    }

    /// Whether a mark of one of the steps was in the output.
    pub fn has_marks(&self) -> bool {
        !self.outputs.is_empty()
    }

    /// Whether ignored lines of the step log are to be logged, which is done once.
    pub fn log_ignored(&mut self, records: &StepRecords) -> bool {
        records.ignored > 0 && !std::mem::replace(&mut self.ignored_logged, true)
    }

    /// A shell mark was read from the output.
    pub fn on_mark(&mut self, mark: &ShellMark) {
        let Some(step) = mark.step.filter(|step| step.plan == self.plan) else {
            return;
        };
        let output = self.outputs.entry(step.step).or_default();
        match mark.kind {
            // The first mark of the beginning and the last mark of the end count, in case a program has found out the
            // secret of the marks.
            ShellMarkKind::Output => {
                output.from = output.from.take().or(Some(view::shown(mark.at)));
            }
            ShellMarkKind::Done { .. } => output.to = Some(view::shown(mark.at)),
            ShellMarkKind::Prompt | ShellMarkKind::Input => {}
        }
    }

    /// Reports the starts and ends that records and marks show and that were not reported before. `end`: where the output
    /// of an ended pane ends, whose marks have all been read.
    pub fn on_records(&mut self, records: &StepRecords, end: Option<&Cursor>) -> StepProgress {
        let when = |us: Option<u64>| us.map(|us| Timestamp(us / 1000));
        let plan = self.plan;
        let mut events = Vec::new();
        let mut is_lost = false;
        for (index, record) in records.steps.iter().enumerate() {
            let step = index + 1;
            // A later step has records, and the records of this step were removed.
            is_lost = !record.started && record.ended.is_none() && self.ended < step;
            if is_lost {
                break;
            }
            let output = self.outputs.get(&(step as u64));
            if self.began < step {
                let from = output.and_then(|output| output.from.as_ref());
                // Without a mark: the shell died before it could write the mark, or the mark has not been read yet.
                let Some(at) = from.or(end).cloned() else {
                    break;
                };
                self.began = step;
                self.wake_deadline = None;
                events.push(PaneEvent::StepBegan(StepEvent {
                    plan,
                    step,
                    at,
                    when: when(record.started_us),
                }));
            }
            if self.ended < step
                && let Some(at) = output.and_then(|output| output.to.clone())
                && let Some((code, us)) = record.ended
            {
                self.ended = step;
                let when = when(us);
                let event = StepEvent {
                    plan,
                    step,
                    at,
                    when,
                };
                events.push(PaneEvent::StepEnded(event, code));
            }
        }
        let next = if is_lost {
            StepVerdict::Lost
        } else if self.stop.is_some() && self.ended == self.began {
            StepVerdict::Stopped
        } else {
            StepVerdict::Continue
        };
        StepProgress { events, next }
    }

    /// The shell is at its prompt: all steps are taken, or the shell must be woken to take the first. `done`: whether the
    /// records are complete, or why the records cannot be read.
    pub fn on_prompt(&self, done: Result<bool, String>) -> PromptDecision {
        if self.stop.is_some() {
            return PromptDecision::Stopped;
        }
        // A record is written before the prompt is drawn.
        if self.began > self.ended {
            return PromptDecision::Lost("no record of its end".to_owned());
        }
        let done = match done {
            Ok(done) => done,
            Err(_) if self.began == 0 && self.wakes > 0 => return PromptDecision::Nothing,
            Err(error) => return PromptDecision::Lost(error),
        };
        if !done && self.began > 0 {
            return PromptDecision::Lost("no record that it took all steps".to_owned());
        }
        match !done && self.wakes == 0 {
            true => PromptDecision::Wake,
            false => PromptDecision::Nothing,
        }
    }

    /// Wakes a shell that is at its prompt and has taken no step.
    pub fn wake(&mut self, records: &StepRecords, now: Instant) -> WakeDecision {
        self.wake_deadline = None;
        if records.done || !records.steps.is_empty() {
            return WakeDecision::Nothing;
        }
        self.wakes += 1;
        self.wake_deadline = Some(now + WAKE_TIMEOUT);
        if self.wakes > MAX_WAKES {
            return WakeDecision::GiveUp;
        }
        let mut key = [0; 16];
        key[..8].copy_from_slice(&self.plan.to_le_bytes());
        key[8..12].copy_from_slice(b"wake");
        key[12..].copy_from_slice(&self.wakes.to_le_bytes());
        WakeDecision::Type(key)
    }

    /// Interrupts the step that runs; `next_signal` follows.
    pub fn start_stop(&mut self, now: Instant) {
        self.stop = Some(StepStop {
            next_signal: 0,
            signal_at: now,
        });
    }

    /// The next signal for the interrupted step.
    pub fn next_signal(&mut self, now: Instant) -> Option<StopSignal> {
        let stop = self.stop.as_mut()?;
        let (signal, grace) = STOP_SIGNALS[stop.next_signal.min(STOP_SIGNALS.len() - 1)];
        stop.next_signal += 1;
        stop.signal_at = now + grace;
        Some(signal)
    }

    /// Ends the interruption. Returns whether a step was being interrupted.
    pub fn finish_stop(&mut self) -> bool {
        self.stop.take().is_some()
    }

    pub fn deadline(&self) -> Option<Instant> {
        let stop = self.stop.as_ref().map(|stop| stop.signal_at);
        stop.into_iter().chain(self.wake_deadline).min()
    }

    pub fn on_timer(&mut self, now: Instant) -> StepTimers {
        StepTimers {
            wake: self.wake_deadline.take_if(|at| *at <= now).is_some(),
            signal: self.stop.as_ref().is_some_and(|stop| stop.signal_at <= now),
        }
    }
}

#[cfg(test)]
mod tests {
    use fugue_term::{Offset, StepMark, TextCursor};

    use super::{super::test_clock::at, *};

    const PLAN: u64 = 4;

    fn position(offset: u64) -> TextCursor {
        TextCursor {
            offset: Offset(offset),
            ..TextCursor::default()
        }
    }

    fn mark(kind: ShellMarkKind, plan: u64, step: u64, offset: u64) -> ShellMark {
        ShellMark {
            kind,
            at: position(offset),
            step: Some(StepMark { plan, step }),
        }
    }

    fn begins(step: u64, offset: u64) -> ShellMark {
        mark(ShellMarkKind::Output, PLAN, step, offset)
    }

    fn ends(step: u64, offset: u64) -> ShellMark {
        let kind = ShellMarkKind::Done { code: Some(0) };
        mark(kind, PLAN, step, offset)
    }

    const STARTED: StepRecord = StepRecord {
        started: true,
        started_us: Some(1_000),
        ended: None,
    };
    const ENDED: StepRecord = StepRecord {
        ended: Some((0, Some(2_000))),
        ..STARTED
    };
    const REMOVED: StepRecord = StepRecord {
        started: false,
        started_us: None,
        ended: None,
    };

    fn records(steps: &[StepRecord]) -> StepRecords {
        StepRecords {
            steps: steps.to_vec(),
            ..StepRecords::default()
        }
    }

    /// Events as words: `+1` for the start of step 1, `-1` for its end.
    fn reported(tracker: &mut StepTracker, steps: &[StepRecord]) -> (Vec<String>, StepVerdict) {
        let progress = tracker.on_records(&records(steps), None);
        let word = |event: PaneEvent| match event {
            PaneEvent::StepBegan(event) => format!("+{}", event.step),
            PaneEvent::StepEnded(event, _) => format!("-{}", event.step),
            other => panic!("{other:?}"),
        };
        (
            progress.events.into_iter().map(word).collect(),
            progress.next,
        )
    }

    #[test]
    fn a_step_is_reported_once_when_its_record_and_its_mark_are_there() {
        let mut tracker = StepTracker::new(PLAN, &[]);
        let go = StepVerdict::Continue;
        assert_eq!(reported(&mut tracker, &[STARTED]), (vec![], go), "no mark");
        tracker.on_mark(&begins(1, 10));
        let began = (vec!["+1".to_owned()], go);
        assert_eq!(reported(&mut tracker, &[STARTED]), began);
        assert_eq!(reported(&mut tracker, &[STARTED]), (vec![], go));
        tracker.on_mark(&ends(1, 20));
        tracker.on_mark(&begins(2, 30));
        let both = (vec!["-1".to_owned(), "+2".to_owned()], go);
        assert_eq!(reported(&mut tracker, &[ENDED, STARTED]), both);
    }

    #[test]
    fn marks_of_other_plans_and_repeated_marks_change_nothing() {
        let other = mark(ShellMarkKind::Output, PLAN + 1, 1, 5);
        let mut tracker = StepTracker::new(PLAN, &[other]);
        assert!(!tracker.has_marks());
        tracker.on_mark(&begins(1, 10));
        tracker.on_mark(&begins(1, 15));
        let progress = tracker.on_records(&records(&[STARTED]), None);
        let [PaneEvent::StepBegan(event)] = &progress.events[..] else {
            panic!("{progress:?}");
        };
        assert_eq!(event.at, view::shown(position(10)), "the first mark counts");
        assert_eq!(event.when, Some(Timestamp(1)));
    }

    #[test]
    fn removed_records_end_the_pipeline() {
        let mut tracker = StepTracker::new(PLAN, &[begins(1, 10), begins(2, 20)]);
        let (words, next) = reported(&mut tracker, &[REMOVED, STARTED]);
        assert_eq!((words.len(), next), (0, StepVerdict::Lost));
    }

    #[test]
    fn a_shell_that_died_before_its_mark_began_at_the_end_of_the_output() {
        let mut tracker = StepTracker::new(PLAN, &[]);
        let end = view::shown(position(99));
        let progress = tracker.on_records(&records(&[STARTED]), Some(&end));
        assert!(matches!(&progress.events[..], [PaneEvent::StepBegan(event)] if event.at == end));
    }

    #[test]
    fn a_prompt_is_explained_by_the_records() {
        let lost = |why: &str| PromptDecision::Lost(why.to_owned());
        let mut tracker = StepTracker::new(PLAN, &[begins(1, 10)]);
        assert_eq!(tracker.on_prompt(Ok(false)), PromptDecision::Wake);
        assert_eq!(tracker.on_prompt(Ok(true)), PromptDecision::Nothing);
        assert_eq!(tracker.on_prompt(Err("gone".into())), lost("gone"));
        tracker.wake(&records(&[]), at(0));
        assert_eq!(tracker.on_prompt(Ok(false)), PromptDecision::Nothing);
        assert_eq!(
            tracker.on_prompt(Err("gone".into())),
            PromptDecision::Nothing
        );
        reported(&mut tracker, &[STARTED]);
        assert_eq!(tracker.on_prompt(Ok(false)), lost("no record of its end"));
        tracker.on_mark(&ends(1, 20));
        reported(&mut tracker, &[ENDED]);
        let why = "no record that it took all steps";
        assert_eq!(tracker.on_prompt(Ok(false)), lost(why));
        assert_eq!(tracker.on_prompt(Ok(true)), PromptDecision::Nothing);
    }

    #[test]
    fn a_shell_is_woken_three_times_with_three_keys() {
        let mut tracker = StepTracker::new(PLAN, &[]);
        let mut keys = Vec::new();
        for second in [0, 3, 6] {
            let now = at(second * 1000);
            let WakeDecision::Type(key) = tracker.wake(&records(&[]), now) else {
                panic!("not woken");
            };
            assert!(!keys.contains(&key));
            keys.push(key);
            assert_eq!(tracker.deadline(), Some(now + WAKE_TIMEOUT));
            let early = tracker.on_timer(now);
            assert!(!early.wake && !early.signal);
            assert!(tracker.on_timer(now + WAKE_TIMEOUT).wake);
        }
        let given_up = tracker.wake(&records(&[]), at(9000));
        assert_eq!(given_up, WakeDecision::GiveUp);
        let taken = tracker.wake(&records(&[STARTED]), at(9000));
        assert_eq!(taken, WakeDecision::Nothing);
    }

    #[test]
    fn an_interrupted_step_gets_stronger_signals_until_it_ends() {
        let mut tracker = StepTracker::new(PLAN, &[begins(1, 10)]);
        reported(&mut tracker, &[STARTED]);
        assert_eq!(tracker.next_signal(at(0)), None);
        tracker.start_stop(at(0));
        for (ms, signal, next) in [
            (0, StopSignal::Interrupt, 1000),
            (1000, StopSignal::Terminate, 3000),
            (3000, StopSignal::Kill, 8000),
            (8000, StopSignal::Kill, 13_000),
        ] {
            assert!(tracker.on_timer(at(ms)).signal);
            assert_eq!(tracker.next_signal(at(ms)), Some(signal));
            assert_eq!(tracker.deadline(), Some(at(next)));
        }
        assert_eq!(tracker.on_prompt(Ok(false)), PromptDecision::Stopped);
        tracker.on_mark(&ends(1, 20));
        let stopped = (vec!["-1".to_owned()], StepVerdict::Stopped);
        assert_eq!(reported(&mut tracker, &[ENDED]), stopped);
        assert!(tracker.finish_stop() && !tracker.finish_stop());
    }

    #[test]
    fn ignored_lines_are_logged_once() {
        let mut tracker = StepTracker::new(PLAN, &[]);
        let ignored = StepRecords {
            ignored: 2,
            ..StepRecords::default()
        };
        assert!(!tracker.log_ignored(&StepRecords::default()));
        assert!(tracker.log_ignored(&ignored));
        assert!(!tracker.log_ignored(&ignored));
    }
}
