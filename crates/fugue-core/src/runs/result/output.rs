//! The output of panes in results: which part gets how much of the room, and notes about missing output.

use fugue_api::{
    Cursor, ToolReply,
    run_result::RunResult,
    tools::{CancelRunReply, StepStatus, TaskStatus},
};

use crate::{
    ReplyFormat,
    view::{self, OutputRelevance, PartClip, shares},
};

/// The output of a pane for one part of a result.
pub struct PartText {
    /// `None` if only the end was requested, or if the pane is forgotten.
    pub clip: Option<PartClip>,
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
        (ReplyFormat::Cancel { already_ended }, run) => {
            ToolReply::CancelRun(CancelRunReply { run, already_ended })
        }
        (ReplyFormat::NewPane(pane), RunResult::Expect(result)) => {
            ToolReply::CreatePane(pane.with_result(result))
        }
        (ReplyFormat::Own, RunResult::Expect(result)) => ToolReply::RunExpect(result),
        (ReplyFormat::Own | ReplyFormat::NewPane(_), RunResult::Parallel(result)) => {
            ToolReply::RunParallel(result)
        }
        (ReplyFormat::Own | ReplyFormat::NewPane(_), RunResult::Pipeline(result)) => {
            ToolReply::RunPipeline(result)
        }
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
        .map(|(index, slot)| (clip(index).map_or(0, PartClip::chars), slot.outcome))
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
    match result {
        RunResult::Expect(result) => result.output = wanted_output.then_some(expected_output),
        // One number is enough: the lines are those of one pane, and explain nothing.
        RunResult::Pipeline(result) if result.failed_at.is_some() => {
            let silent = result.steps.iter_mut().filter(|step| {
                step.output.is_empty() && step.omitted_chars == 0 && step.exit_code == Some(0)
            });
            let lines = silent.map(|step| std::mem::take(&mut step.omitted_lines));
            result.omitted_lines = lines.sum();
        }
        RunResult::Parallel(_) | RunResult::Pipeline(_) => {}
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
    use crate::view::{Clip, PartClipBuilder, TextAmount};
    use fugue_api::{
        PaneId, RunId,
        tools::{
            ParallelResult, ParallelStatus, PipelineResult, PipelineStatus, StepResult, TaskResult,
        },
    };

    use super::*;

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
            clip: Some(PartClip::Ends(Clip::from_lines(&lines, most))),
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
                run_id: Some(RunId("run".into())),
                failed: 0,
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
        let clip = || Some(PartClip::Ends(Clip::from_lines(&["text"], 100)));
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
            run_id: Some(RunId("run".into())),
            failed: 0,
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
    fn lines_of_steps_before_a_failure_are_counted_once() {
        let step = |name: &str, code: i32| StepResult {
            name: name.into(),
            command: name.into(),
            exit_code: Some(code),
            signal: None,
            duration_ms: 1,
            output: String::new(),
            omitted_chars: 0,
            omitted_lines: 0,
            status: StepStatus::Exited,
            note: None,
        };
        let pipeline = |failed_at: Option<&str>, code: i32| {
            RunResult::Pipeline(PipelineResult {
                status: PipelineStatus::Failed,
                run_id: None,
                pane_id: PaneId(1),
                steps: vec![step("a", 0), step("b", 0), step("c", code)],
                failed_at: failed_at.map(str::to_owned),
                total_duration_ms: 1,
                omitted_lines: 0,
                note: None,
            })
        };
        let part = |relevance: OutputRelevance| {
            let mut builder = PartClipBuilder::new(TextAmount::Excerpt(relevance), 10_000);
            (0..100).for_each(|line| builder.push(&format!("line {line}")));
            Some(PartText {
                clip: Some(builder.finish()),
                ..PartText::nothing()
            })
        };
        let completed = |result: RunResult, relevances: [OutputRelevance; 3]| {
            let found = relevances.map(part);
            match complete(result, &found, 10_000, ReplyFormat::Own) {
                ToolReply::RunPipeline(result) => result,
                other => panic!("{other:?}"),
            }
        };
        use OutputRelevance::{Failure, Success, SuccessBeforeFailure as Before};
        let failed = completed(pipeline(Some("c"), 1), [Before, Before, Failure]);
        assert_eq!(failed.omitted_lines, 200);
        let lines = failed.steps.iter().map(|step| step.omitted_lines);
        let lines: Vec<u64> = lines.collect();
        assert!(lines[..2] == [0, 0] && lines[2] > 0, "{lines:?}");
        let good = completed(pipeline(None, 0), [Success; 3]);
        assert_eq!(good.omitted_lines, 0);
        assert!(good.steps.iter().all(|step| step.omitted_lines > 0));
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
