//! Results of runs: the outcome of each task or step, and as much output of the panes as fits.

use fugue_api::{
    Cursor, Timestamp, ToolReply,
    overview::RunRow,
    run_result::{RunKind, RunResult},
    tools::{
        ExpectAction, ExpectResult, ExpectStatus, ParallelResult, ParallelStatus, PipelineResult,
        PipelineStatus, StepResult, StepStatus, TaskResult, TaskStatus,
    },
};

use crate::{
    ExitStatus, ExpectOutcome, ExpectWork, Moment, OutputRange, ParallelWork, PipelineWork,
    ReplyFormat, RunRecord, RunWork, StepOutcome, StepState, TaskOutcome,
    panes::replies::cut,
    view::{self, Clip, OutputRelevance, shares},
};

/// The output of a pane for one part of a result.
pub struct PartText {
    /// `None` if only the end was requested, or if the pane is forgotten.
    pub clip: Option<Clip>,
    /// Lines that the log cap has removed.
    pub lost_lines: u64,
    /// The end of the text.
    pub end: Option<Cursor>,
    /// Bytes of output that are missing in the log.
    pub missing_bytes: u64,
    /// Why the output could not be read.
    pub error: Option<String>,
}

impl PartText {
    /// The part of a pane whose files are gone.
    pub fn nothing() -> Self {
        Self {
            clip: None,
            lost_lines: 0,
            end: None,
            missing_bytes: 0,
            error: None,
        }
    }

    /// The notes about the output: missing, lost or unreadable parts.
    fn note(&self) -> Option<String> {
        match (&self.error, &self.clip, &self.end) {
            (Some(error), _, _) => Some(format!("its output could not be read: {error}")),
            (None, None, None) => Some(OUTPUT_IS_GONE.to_owned()),
            (None, Some(_), _) if self.missing_bytes > 0 => {
                Some(view::missing_note(self.missing_bytes))
            }
            (None, _, _) => None,
        }
    }
}

/// The result of a run, without output.
pub fn of(record: &RunRecord, now: Moment) -> RunResult {
    let until = record.settled_at.unwrap_or(now);
    let total = record.started_at.shown_ms_until(until);
    match &record.work {
        RunWork::Expect(work) => RunResult::Expect(expected(record, work, total)),
        RunWork::Parallel(work) => RunResult::Parallel(parallel(record, work, until, total)),
        RunWork::Pipeline(work) => RunResult::Pipeline(pipeline(record, work, until, total)),
    }
}

/// The ranges of output that a result needs: one for each task or step, or one for the pane of an expect.
pub fn wants(record: &RunRecord) -> Vec<(fugue_api::PaneId, Option<OutputRange>)> {
    match &record.work {
        RunWork::Expect(work) => {
            let sighting = match &work.outcome {
                Some(ExpectOutcome::Matched(sighting) | ExpectOutcome::Failed(sighting)) => {
                    Some(sighting)
                }
                _ => None,
            };
            let want = match (work.args.action, sighting) {
                (ExpectAction::ReturnOutput, sighting) if record.is_settled() => {
                    Some(OutputRange::Text {
                        from: work.from.clone(),
                        to: sighting.map(|sighting| sighting.behind.clone()),
                    })
                }
                (_, Some(_)) => None,
                (_, None) => Some(OutputRange::End),
            };
            vec![(work.pane, want)]
        }
        RunWork::Parallel(work) => {
            let all = || OutputRange::Text {
                from: None,
                to: None,
            };
            let tasks = work.tasks.iter();
            tasks
                .map(|task| {
                    let started = !matches!(task.outcome, Some(TaskOutcome::NotStarted(_)));
                    (task.pane, started.then(all))
                })
                .collect()
        }
        RunWork::Pipeline(work) => {
            let steps = work.steps.iter();
            steps
                .map(|step| {
                    let want = step.from.clone().map(|from| OutputRange::Text {
                        from: Some(from),
                        to: step.to.clone(),
                    });
                    (work.pane, want)
                })
                .collect()
        }
    }
}

pub fn row(record: &RunRecord, now: Moment) -> RunRow {
    let result = of(record, now);
    let (kind, status) = match &result {
        RunResult::Expect(result) => (RunKind::Expect, word(&result.status)),
        RunResult::Parallel(result) => (RunKind::Parallel, word(&result.status)),
        RunResult::Pipeline(result) => (RunKind::Pipeline, word(&result.status)),
    };
    RunRow {
        run_id: record.id.clone(),
        kind,
        status,
        progress: result.progress(),
        started_at: record.started_at.wall,
    }
}

/// The status as it is serialized.
fn word(status: &impl serde::Serialize) -> String {
    match serde_json::to_value(status) {
        Ok(serde_json::Value::String(word)) => word,
        Ok(_) | Err(_) => String::new(),
    }
}

fn expected(record: &RunRecord, work: &ExpectWork, total: u64) -> ExpectResult {
    let mut expected = ExpectResult {
        status: ExpectStatus::Running,
        run_id: record.id.clone(),
        pane_id: work.pane,
        pattern: cut(&work.args.pattern, MAX_ECHO_CHARS),
        matched: None,
        line: None,
        duration_ms: total,
        cursor: work.from.clone().unwrap_or_else(view::start),
        output: None,
        omitted_chars: 0,
        exit_code: None,
        signal: None,
        via: None,
        note: None,
    };
    match &work.outcome {
        None => {}
        Some(ExpectOutcome::Matched(sighting) | ExpectOutcome::Failed(sighting)) => {
            expected.status = match work.outcome {
                Some(ExpectOutcome::Matched(_)) => ExpectStatus::Matched,
                _ => ExpectStatus::Failed,
            };
            expected.matched = Some(sighting.text.clone());
            expected.line = Some(sighting.line.clone());
            expected.cursor = sighting.behind.clone();
            expected.via = Some(sighting.via);
        }
        Some(ExpectOutcome::TimedOut) => expected.status = ExpectStatus::Timeout,
        Some(ExpectOutcome::Exited(exit)) => {
            expected.status = ExpectStatus::Exited;
            (expected.exit_code, expected.signal) = (exit.code(), exit.signal());
            expected.note = (*exit == ExitStatus::Unknown && record.lost_by_reboot)
                .then(|| LOST_BY_REBOOT.to_owned());
        }
        Some(ExpectOutcome::PaneClosed) => expected.status = ExpectStatus::Exited,
    }
    expected
}

fn parallel(record: &RunRecord, work: &ParallelWork, until: Moment, total: u64) -> ParallelResult {
    let ended = |outcome: &Option<TaskOutcome>| match outcome {
        Some(TaskOutcome::Exited(_) | TaskOutcome::NotStarted(_) | TaskOutcome::Cancelled) => true,
        None | Some(TaskOutcome::TimedOut) => false,
    };
    let done = work
        .tasks
        .iter()
        .filter(|task| ended(&task.outcome))
        .count();
    let status = match (record.is_settled(), done) {
        (false, _) => ParallelStatus::Running,
        (true, done) if done == work.tasks.len() => ParallelStatus::Completed,
        (true, 0) => ParallelStatus::Timeout,
        (true, _) => ParallelStatus::Partial,
    };
    let echo = echo(work.tasks.len(), work.args.max_output_chars);
    let results = work.tasks.iter().enumerate().map(|(index, task)| {
        let command = &work.args.commands[index].command;
        let mut result = TaskResult {
            name: work.args.name_of(index),
            command: cut(command, echo),
            status: TaskStatus::Running,
            exit_code: None,
            signal: None,
            pane_id: task.pane,
            duration_ms: record
                .started_at
                .shown_ms_until(task.ended_at.unwrap_or(until)),
            output: String::new(),
            omitted_chars: 0,
            omitted_lines: 0,
            error: None,
            note: None,
        };
        match &task.outcome {
            None => {}
            Some(TaskOutcome::Exited(exit)) => {
                result.status = TaskStatus::Exited;
                (result.exit_code, result.signal) = (exit.code(), exit.signal());
                result.note = (*exit == ExitStatus::Unknown).then(|| unknown_exit(record));
            }
            Some(TaskOutcome::TimedOut) => result.status = TaskStatus::Timeout,
            Some(TaskOutcome::Cancelled) => result.status = TaskStatus::Cancelled,
            Some(TaskOutcome::NotStarted(error)) => {
                result.status = TaskStatus::Error;
                result.error = Some(error.clone());
            }
        }
        result
    });
    ParallelResult {
        status,
        run_id: record.id.clone(),
        results: results.collect(),
        total_duration_ms: total,
    }
}

/// The note of a process whose end is unknown.
fn unknown_exit(record: &RunRecord) -> String {
    let why = if record.lost_by_reboot {
        LOST_BY_REBOOT
    } else {
        "how it ended is not known: nobody was there to see it"
    };
    why.to_owned()
}

/// The note of a process that a reboot has ended.
pub const LOST_BY_REBOOT: &str = "lost: the machine was restarted before it ended";

/// The note of an output whose pane or files are gone.
const OUTPUT_IS_GONE: &str = "its output is no longer kept";

/// Notes that the output of one part of a result is gone.
pub fn output_is_gone(result: &mut RunResult, index: usize) {
    let note = match result {
        RunResult::Expect(result) => Some(&mut result.note),
        RunResult::Parallel(result) => result.results.get_mut(index).map(|task| &mut task.note),
        RunResult::Pipeline(result) => result.steps.get_mut(index).map(|step| &mut step.note),
    };
    if let Some(note) = note {
        add_note(note, OUTPUT_IS_GONE);
    }
}

fn add_note(note: &mut Option<String>, more: &str) {
    *note = Some(match note.take() {
        Some(known) if known.contains(more) => known,
        Some(known) => format!("{known}; {more}"),
        None => more.to_owned(),
    });
}

fn pipeline(record: &RunRecord, work: &PipelineWork, until: Moment, total: u64) -> PipelineResult {
    let echo = echo(work.steps.len(), work.args.max_output_chars);
    let steps: Vec<StepResult> = work
        .steps
        .iter()
        .enumerate()
        .map(|(index, step)| step_result(record, work, index, step, until.wall, echo))
        .collect();
    let failed = work.steps.iter().position(StepState::failed);
    let all = work.steps.len() == work.args.commands.len();
    let status = if !record.is_settled() {
        PipelineStatus::Running
    } else if work.stopping {
        PipelineStatus::Timeout
    } else if !all || (failed.is_some() && work.args.stop_on_error) {
        PipelineStatus::Failed
    } else {
        PipelineStatus::Completed
    };
    PipelineResult {
        status,
        run_id: record.id.clone(),
        pane_id: work.pane,
        steps,
        failed_at: failed.map(|index| work.args.name_of(index)),
        total_duration_ms: total,
        note: work.trouble.clone(),
    }
}

fn step_result(
    record: &RunRecord,
    work: &PipelineWork,
    index: usize,
    step: &StepState,
    until: Timestamp,
    echo: usize,
) -> StepResult {
    let mut result = StepResult {
        name: work.args.name_of(index),
        command: cut(&work.args.commands[index].command, echo),
        exit_code: None,
        signal: None,
        duration_ms: step
            .ended_at
            .unwrap_or(until)
            .0
            .saturating_sub(step.began_at.0),
        output: String::new(),
        omitted_chars: 0,
        omitted_lines: 0,
        status: StepStatus::Running,
        note: step.note.clone(),
    };
    match &step.outcome {
        None => {}
        Some(StepOutcome::TimedOut) => result.status = StepStatus::Timeout,
        Some(StepOutcome::Exited(exit)) => {
            result.status = StepStatus::Exited;
            (result.exit_code, result.signal) = (exit.code(), exit.signal());
            if *exit == ExitStatus::Unknown {
                result.note = Some(unknown_exit(record));
            }
        }
    }
    result
}

// The limit of a command in a result, where it only has to be recognised.
const MAX_ECHO_CHARS: usize = 200;

/// The length of each command in a result: shorter if there are many.
fn echo(count: usize, most_chars: u32) -> usize {
    (most_chars as usize / (8 * count.max(1))).clamp(16, MAX_ECHO_CHARS)
}

/// Adds the output of the panes to a result, within `most` characters of JSON.
pub fn complete(
    mut result: RunResult,
    found: &[Option<PartText>],
    most: usize,
    wrap: ReplyFormat,
) -> ToolReply {
    if let RunResult::Expect(expected) = &mut result
        && expected.matched.is_none()
        && let Some(end) = found
            .first()
            .and_then(Option::as_ref)
            .and_then(|found| found.end.clone())
    {
        expected.cursor = end;
    }
    add_notes(&mut result, found);
    let bare = json_chars(&result);
    let room = most.saturating_sub(bare);
    let mut budget = room;
    // Escaped characters are longer in JSON. The factor is only known after serializing, so the budget is corrected by the
    // measured length; a few rounds are enough for any mixture.
    for _ in 0..6 {
        fill(&mut result, found, budget);
        let over = json_chars(&result).saturating_sub(most);
        if over == 0 || budget == 0 {
            break;
        }
        let used = json_chars(&result) - bare;
        budget = (budget.min(used) * room / used.max(1))
            .saturating_sub(64)
            .min(budget - 1);
    }
    match (wrap, result) {
        (ReplyFormat::Wait, result) => ToolReply::WaitForRun(result),
        (ReplyFormat::Own, RunResult::Parallel(result)) => ToolReply::RunParallel(result),
        (ReplyFormat::Own, RunResult::Pipeline(result)) => ToolReply::RunPipeline(result),
        (ReplyFormat::Own, RunResult::Expect(result)) => ToolReply::RunExpect(result),
    }
}

/// One output of a result, to be filled.
struct OutputSlot<'a> {
    outcome: OutputRelevance,
    output: &'a mut String,
    omitted_chars: &'a mut u64,
    omitted_lines: &'a mut u64,
}

/// Adds the notes about the outputs to the notes of the result.
fn add_notes(result: &mut RunResult, found: &[Option<PartText>]) {
    let notes: Vec<&mut Option<String>> = match result {
        RunResult::Parallel(result) => result.results.iter_mut().map(|t| &mut t.note).collect(),
        RunResult::Pipeline(result) => result.steps.iter_mut().map(|s| &mut s.note).collect(),
        RunResult::Expect(result) => vec![&mut result.note],
    };
    for (note, found) in notes.into_iter().zip(found) {
        let Some(more) = found.as_ref().and_then(PartText::note) else {
            continue;
        };
        add_note(note, &more);
    }
}

fn fill(result: &mut RunResult, found: &[Option<PartText>], budget: usize) {
    let mut expected_output = String::new();
    let mut no_lines = 0;
    let wanted_output = found
        .first()
        .and_then(Option::as_ref)
        .is_some_and(|found| found.clip.is_some());
    let mut slots: Vec<OutputSlot<'_>> = match result {
        RunResult::Parallel(result) => result
            .results
            .iter_mut()
            .map(|task| OutputSlot {
                outcome: outcome(task.status == TaskStatus::Exited && task.exit_code == Some(0)),
                output: &mut task.output,
                omitted_chars: &mut task.omitted_chars,
                omitted_lines: &mut task.omitted_lines,
            })
            .collect(),
        RunResult::Pipeline(result) => result
            .steps
            .iter_mut()
            .map(|step| OutputSlot {
                outcome: outcome(step.status == StepStatus::Exited && step.exit_code == Some(0)),
                output: &mut step.output,
                omitted_chars: &mut step.omitted_chars,
                omitted_lines: &mut step.omitted_lines,
            })
            .collect(),
        RunResult::Expect(result) => vec![OutputSlot {
            outcome: OutputRelevance::Failure,
            output: &mut expected_output,
            omitted_chars: &mut result.omitted_chars,
            omitted_lines: &mut no_lines,
        }],
    };
    let clip = |index: usize| found.get(index)?.as_ref()?.clip.as_ref();
    let wants: Vec<(usize, OutputRelevance)> = slots
        .iter()
        .enumerate()
        .map(|(index, slot)| (clip(index).map_or(0, Clip::chars), slot.outcome))
        .collect();
    for (index, (slot, share)) in slots.iter_mut().zip(shares(budget, &wants)).enumerate() {
        if let (Some(found), Some(clip)) = (found.get(index).and_then(Option::as_ref), clip(index))
        {
            let bounded = clip.bound(share);
            *slot.output = bounded.text;
            *slot.omitted_chars = bounded.omitted_chars;
            *slot.omitted_lines = bounded.omitted_lines + found.lost_lines;
        }
    }
    if let RunResult::Expect(result) = result {
        result.output = wanted_output.then_some(expected_output);
    }
}

fn outcome(good: bool) -> OutputRelevance {
    if good {
        OutputRelevance::Success
    } else {
        OutputRelevance::Failure
    }
}

fn json_chars(value: &impl serde::Serialize) -> usize {
    serde_json::to_string(value).map_or(0, |text| text.chars().count())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fugue_api::{PaneId, RunId};

    fn task(name: &str, code: i32) -> TaskResult {
        TaskResult {
            name: name.into(),
            command: name.into(),
            status: TaskStatus::Exited,
            exit_code: Some(code),
            signal: None,
            pane_id: PaneId(1),
            duration_ms: 1,
            output: String::new(),
            omitted_chars: 0,
            omitted_lines: 0,
            error: None,
            note: None,
        }
    }

    fn found(text: &str, most: usize) -> Option<PartText> {
        let lines: Vec<&str> = text.lines().collect();
        Some(PartText {
            clip: Some(Clip::from_lines(&lines, most)),
            ..PartText::nothing()
        })
    }

    #[test]
    fn missing_and_unreadable_output_is_noted() {
        let result = |note: Option<&str>| {
            let mut task = task("only", 0);
            task.note = note.map(str::to_owned);
            RunResult::Parallel(ParallelResult {
                status: ParallelStatus::Completed,
                run_id: RunId("run".into()),
                results: vec![task],
                total_duration_ms: 1,
            })
        };
        let note = |before: Option<&str>, found: PartText| {
            let reply = complete(result(before), &[Some(found)], 10_000, ReplyFormat::Own);
            match reply {
                ToolReply::RunParallel(result) => result.results[0].note.clone(),
                other => panic!("{other:?}"),
            }
        };
        let clip = || Some(Clip::from_lines(&["text"], 100));
        let short = PartText {
            clip: clip(),
            missing_bytes: 5000,
            ..PartText::nothing()
        };
        assert_eq!(
            note(Some("first"), short).as_deref(),
            Some("first; 5,000 bytes of its output are missing from the log")
        );
        let unreadable = PartText {
            error: Some("Input/output error".into()),
            ..PartText::nothing()
        };
        assert_eq!(
            note(None, unreadable).as_deref(),
            Some("its output could not be read: Input/output error")
        );
        assert_eq!(
            note(None, PartText::nothing()).as_deref(),
            Some("its output is no longer kept")
        );
        let whole = PartText {
            clip: clip(),
            ..PartText::nothing()
        };
        assert_eq!(note(None, whole), None);
    }

    /// Fills two tasks, the second of which failed, and gives the reply with its size as JSON.
    fn filled(first: &str, second: &str, most: usize) -> (ParallelResult, usize) {
        let result = ParallelResult {
            status: ParallelStatus::Completed,
            run_id: RunId("run".into()),
            results: vec![task("good", 0), task("bad", 1)],
            total_duration_ms: 1,
        };
        let found = [found(first, most), found(second, most)];
        let reply = complete(RunResult::Parallel(result), &found, most, ReplyFormat::Own);
        let ToolReply::RunParallel(result) = reply else {
            panic!("{reply:?}")
        };
        let size = json_chars(&result);
        (result, size)
    }

    #[test]
    fn a_failure_is_shown_before_a_success() {
        let long: String = (1..=5000).map(|n| format!("line {n}\n")).collect();
        let (result, size) = filled(&long, &long, 10_000);
        assert!(size <= 10_000, "{size}");
        let [good, bad] = &result.results[..] else {
            panic!()
        };
        assert!(bad.output.len() > 3 * good.output.len());
        for task in [good, bad] {
            assert!(task.output.ends_with("line 5000"), "{}", task.output);
            assert!(task.omitted_chars > 0 && task.omitted_lines > 0);
        }
    }

    #[test]
    fn what_is_short_leaves_its_share_to_the_others() {
        let long: String = (1..=5000).map(|n| format!("line {n}\n")).collect();
        let (result, size) = filled(&long, "only this", 10_000);
        assert!((9_000..=10_000).contains(&size), "{size}");
        assert_eq!(result.results[1].output, "only this");
        assert_eq!(result.results[1].omitted_chars, 0);
    }

    #[test]
    fn text_that_is_longer_as_json_is_bounded_as_json() {
        let quotes = "\"\\\"\\\u{1}\u{1}\n".repeat(4000);
        for most in [1_000, 10_000, 50_000] {
            let (result, size) = filled(&quotes, &quotes, most);
            assert!(size <= most, "{size} of {most}");
            assert!(size > most / 2, "{size} of {most}");
            assert!(!result.results[1].output.is_empty());
        }
    }

    #[test]
    fn a_bound_too_small_for_anything_gives_the_facts_alone() {
        let (result, _) = filled("some\noutput", "more", 1);
        assert_eq!(result.results[0].output, "");
        assert_eq!(result.results[1].exit_code, Some(1));
        assert!(result.results[1].omitted_chars > 0);
    }

    #[test]
    fn shares_never_exceed_the_budget_and_leave_nothing_that_is_wanted() {
        use OutputRelevance::{Failure, Success};
        for budget in [0, 1, 7, 100, 12_345] {
            for wants in [
                vec![(10, Success), (10, Failure)],
                vec![(5000, Failure), (5000, Failure), (1, Success)],
                vec![(100_000, Success); 10],
                vec![(0, Failure), (3, Success)],
                vec![],
            ] {
                let given = shares(budget, &wants);
                let (all, wanted): (usize, usize) =
                    (given.iter().sum(), wants.iter().map(|(want, _)| want).sum());
                assert_eq!(all, budget.min(wanted), "{budget} for {wants:?}: {given:?}");
                let within = given
                    .iter()
                    .zip(&wants)
                    .all(|(given, (want, _))| given <= want);
                assert!(within, "{given:?}");
            }
        }
    }

    #[test]
    fn a_clip_bounds_like_the_whole_text() {
        let lines: Vec<String> = (1..=3000).map(|n| format!("line {n}")).collect();
        for most in [100, 500, 5_000] {
            let clip = Clip::from_lines(&lines, 5_000);
            assert_eq!(clip.bound(most), view::bound(&lines, most), "{most}");
        }
    }
}
