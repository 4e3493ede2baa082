//! Results of runs: the outcome of each task or step. `output.rs` adds as much output of the panes as fits.

mod output;

use fugue_api::{
    Timestamp,
    inbox_event::RunCompletion,
    overview::RunRow,
    run_result::{OutputAmount, RunKind, RunResult},
    tools::{
        ExpectAction, ExpectResult, ExpectStatus, ParallelResult, ParallelStatus, PipelineResult,
        PipelineStatus, StepResult, StepStatus, TaskResult, TaskStatus,
    },
};

use crate::{
    ExitStatus, ExpectOutcome, ExpectWork, Moment, OutputRange, ParallelWork, PipelineWork,
    RunRecord, RunWork, StepOutcome, StepState, TaskOutcome,
    panes::replies::cut,
    view::{self, OutputRelevance, TextAmount},
};
pub use output::{PartText, complete, output_is_gone};

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
            let found = match &work.outcome {
                Some(ExpectOutcome::Matched(found) | ExpectOutcome::Failed(found)) => Some(found),
                _ => None,
            };
            let want = match (work.args.action, found) {
                (ExpectAction::ReturnOutput, found) if record.is_settled() => {
                    Some(OutputRange::Text {
                        from: work.from.clone(),
                        to: found.map(|found| found.end.clone()),
                        amount: TextAmount::Ends,
                    })
                }
                (_, Some(_)) => None,
                (_, None) if work.has_failed() => Some(OutputRange::Text {
                    from: None,
                    to: None,
                    amount: TextAmount::Excerpt(OutputRelevance::Failure),
                }),
                (_, None) => Some(OutputRange::End),
            };
            vec![(work.pane, want)]
        }
        RunWork::Parallel(work) => {
            let tasks = work.tasks.iter();
            tasks
                .map(|task| {
                    let started = !matches!(task.outcome, Some(TaskOutcome::NotStarted(_)));
                    let is_success = task.outcome == Some(TaskOutcome::Exited(ExitStatus::Code(0)));
                    let relevance = match is_success {
                        true => OutputRelevance::Success,
                        false => OutputRelevance::Failure,
                    };
                    let amount = text_amount(work.args.output_amount(), relevance);
                    let want = amount.filter(|_| started).map(|amount| OutputRange::Text {
                        from: None,
                        to: None,
                        amount,
                    });
                    (task.pane, want)
                })
                .collect()
        }
        RunWork::Pipeline(work) => {
            let steps = work.steps.iter();
            let is_over = record.is_settled() && work.args.stop_on_error;
            let success = match is_over && work.steps.iter().any(StepState::failed) {
                true => OutputRelevance::SuccessBeforeFailure,
                false => OutputRelevance::Success,
            };
            steps
                .map(|step| {
                    let is_success = step.outcome == Some(StepOutcome::Exited(ExitStatus::Code(0)));
                    let relevance = match is_success {
                        true => success,
                        false => OutputRelevance::Failure,
                    };
                    let amount = text_amount(work.args.output_amount(), relevance);
                    let want = step.from.clone().zip(amount);
                    let want = want.map(|(from, amount)| OutputRange::Text {
                        from: Some(from),
                        to: step.to.clone(),
                        amount,
                    });
                    (work.pane, want)
                })
                .collect()
        }
    }
}

fn text_amount(requested: OutputAmount, relevance: OutputRelevance) -> Option<TextAmount> {
    match requested {
        OutputAmount::None => None,
        OutputAmount::Full => Some(TextAmount::Ends),
        OutputAmount::Tail => Some(TextAmount::Excerpt(relevance)),
    }
}

/// The event about the end of a run.
pub fn completion(record: &RunRecord, now: Moment) -> RunCompletion {
    let RunResult::Expect(mut result) = of(record, now) else {
        return RunCompletion::Other {
            run_id: record.id.clone(),
            status: row(record, now).status,
        };
    };
    result.pane_id = record.panes().first().copied();
    RunCompletion::Expect(Box::new(result))
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
        started_at: Some(record.started_at.wall),
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
        run_id: Some(record.id.clone()),
        pane_id: Some(work.pane),
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
        Some(ExpectOutcome::Matched(found) | ExpectOutcome::Failed(found)) => {
            expected.status = match work.outcome {
                Some(ExpectOutcome::Matched(_)) => ExpectStatus::Matched,
                _ => ExpectStatus::Failed,
            };
            expected.matched = Some(found.text.clone());
            expected.line = Some(found.line.clone());
            expected.cursor = found.end.clone();
            expected.via = Some(found.via);
        }
        Some(ExpectOutcome::TimedOut) => expected.status = ExpectStatus::Timeout,
        Some(ExpectOutcome::Exited(exit)) => {
            expected.status = ExpectStatus::Exited;
            (expected.exit_code, expected.signal) = (exit.code(), exit.signal());
            expected.note = (*exit == ExitStatus::Unknown && record.lost_by_reboot)
                .then(|| LOST_BY_REBOOT.to_owned());
        }
        Some(ExpectOutcome::PaneClosed) => expected.status = ExpectStatus::Exited,
        Some(ExpectOutcome::Cancelled) => expected.status = ExpectStatus::Cancelled,
    }
    if expected.status == ExpectStatus::Matched && work.args.action == ExpectAction::Notify {
        // Nothing is left to do in the pane, whose id the caller has.
        expected.pane_id = None;
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
        (true, _) if record.cancelled => ParallelStatus::Cancelled,
        (true, done) if done == work.tasks.len() => ParallelStatus::Completed,
        (true, 0) => ParallelStatus::Timeout,
        (true, _) => ParallelStatus::Partial,
    };
    let echo = echo(work.tasks.len(), work.args.max_reply_chars());
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
    let results: Vec<TaskResult> = results.collect();
    ParallelResult {
        status,
        run_id: Some(record.id.clone()),
        failed: results.iter().filter(|task| task.is_failure()).count() as u64,
        results,
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

fn pipeline(record: &RunRecord, work: &PipelineWork, until: Moment, total: u64) -> PipelineResult {
    let echo = echo(work.steps.len(), work.args.max_reply_chars());
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
    } else if record.cancelled {
        PipelineStatus::Cancelled
    } else if work.stopping {
        PipelineStatus::Timeout
    } else if !all || (failed.is_some() && work.args.stop_on_error) {
        PipelineStatus::Failed
    } else {
        PipelineStatus::Completed
    };
    PipelineResult {
        status,
        run_id: Some(record.id.clone()),
        pane_id: work.pane,
        steps,
        failed_at: failed.map(|index| work.args.name_of(index)),
        total_duration_ms: total,
        omitted_lines: 0,
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
        Some(StepOutcome::Cancelled) => result.status = StepStatus::Cancelled,
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
