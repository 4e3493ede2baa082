//! The result of a run, as text and as exit code.

use fugue_api::{
    Error,
    run_result::RunResult,
    tools::{
        ExpectResult, ExpectStatus, ParallelResult, ParallelStatus, PipelineResult, PipelineStatus,
        TaskResult, TaskStatus,
    },
};

use super::{
    TIMED_OUT,
    table::{has_failed, label, state},
};
use crate::{
    cli::CliContext,
    out::{WordTone, clean, fit, format_duration, terminal_width, width},
    text::StyledText,
};

// The limit of lines of each failed task: about two screens.
const MAX_LINES_PER_TASK: usize = 50;

pub fn print(cx: &CliContext, result: &RunResult) -> Result<(), Error> {
    match result {
        RunResult::Parallel(result) => print_parallel(cx, result),
        RunResult::Pipeline(result) => print_pipeline(cx, result),
        RunResult::Expect(result) => print_expect(cx, result),
    }
}

pub fn exit_code(result: &RunResult) -> u8 {
    match result {
        RunResult::Parallel(result) => match result.status {
            ParallelStatus::Timeout | ParallelStatus::Partial | ParallelStatus::Running => {
                TIMED_OUT
            }
            ParallelStatus::Cancelled => 1,
            ParallelStatus::Completed => {
                let good = |task: &TaskResult| {
                    task.status == TaskStatus::Exited && task.exit_code == Some(0)
                };
                u8::from(!result.results.iter().all(good))
            }
        },
        RunResult::Pipeline(result) => match (result.status, &result.failed_at) {
            (PipelineStatus::Timeout | PipelineStatus::Running, _) => TIMED_OUT,
            (PipelineStatus::Cancelled, _) => 1,
            (PipelineStatus::Completed, None) => 0,
            (PipelineStatus::Failed, None) => 1,
            (PipelineStatus::Completed | PipelineStatus::Failed, Some(name)) => {
                let step = result.steps.iter().find(|step| step.name == *name);
                let code = step.and_then(|step| step.exit_code).unwrap_or(1);
                // A failure never has exit code 0.
                u8::try_from(code)
                    .ok()
                    .filter(|code| *code != 0)
                    .unwrap_or(1)
            }
        },
        RunResult::Expect(result) => match result.status {
            ExpectStatus::Matched => 0,
            ExpectStatus::Failed | ExpectStatus::Exited | ExpectStatus::Cancelled => 1,
            ExpectStatus::Timeout | ExpectStatus::Running => TIMED_OUT,
        },
    }
}

fn print_parallel(cx: &CliContext, result: &ParallelResult) -> Result<(), Error> {
    let out = &cx.out;
    for task in result.results.iter().filter(|task| has_failed(task)) {
        print_failure(cx, task)?;
    }
    if out.is_quiet() {
        return Ok(());
    }
    if out.can_redraw() {
        let rows: Vec<_> = result
            .results
            .iter()
            .map(|task| {
                vec![
                    (task.pane_id.to_string(), WordTone::Plain),
                    state(task),
                    (format_duration(task.duration_ms), WordTone::Faint),
                    (label(task), WordTone::Plain),
                ]
            })
            .collect();
        out.table(&["PANE", "STATE", "TIME", "COMMAND"], &rows)?;
    }
    let all = result.results.len();
    let count = |wanted: fn(&TaskResult) -> bool| {
        let tasks = result.results.iter();
        tasks.filter(|task| wanted(task)).count()
    };
    let good = count(|task| task.exit_code == Some(0));
    let cancelled = count(|task| task.status == TaskStatus::Cancelled);
    let late = count(|task| task.status == TaskStatus::Timeout);
    let running = count(|task| task.status == TaskStatus::Running);
    let mut words = vec![match running {
        0 => format!("{good} of {all} succeeded"),
        _ => format!("{} of {all} done", all - running),
    }];
    let bad = all - good - cancelled - late - running;
    for (number, word) in [
        (bad, "failed"),
        (late, "timed out"),
        (cancelled, "cancelled"),
        (running, "running"),
    ] {
        if number > 0 {
            words.push(format!("{number} {word}"));
        }
    }
    words.push(format_duration(result.total_duration_ms));
    let tone = match (good == all, running) {
        (true, _) => WordTone::Good,
        (false, 0) => WordTone::Bad,
        (false, _) => WordTone::Needy,
    };
    out.line(out.toned(&words.join(" · "), tone))
}

/// Prints the end of the output of a failed task, and how to read the rest.
fn print_failure(cx: &CliContext, task: &TaskResult) -> Result<(), Error> {
    let out = &cx.out;
    let (word, tone) = state(task);
    let pane = task.pane_id;
    let how = format!("{word} · {} · {pane}", format_duration(task.duration_ms));
    let edge = out.on_terminal().then(terminal_width).flatten();
    let room = edge.map_or(usize::MAX, |edge| {
        edge.saturating_sub(width(&how) + 6).max(8)
    });
    let head = format!("── {} · ", fit(&clean(&label(task)), room));
    let head = out.toned(&head, WordTone::Strong);
    out.line(head.then(out.toned(&how, tone)))?;
    let lines: Vec<&str> = task.output.lines().collect();
    let above = lines.len().saturating_sub(MAX_LINES_PER_TASK) as u64 + task.omitted_lines;
    if above > 0 {
        let more =
            format!("… {above} lines above; the whole output: fugue read {pane} --raw | less -R");
        out.line(out.toned(&more, WordTone::Faint))?;
    }
    for line in &lines[lines.len().saturating_sub(MAX_LINES_PER_TASK)..] {
        out.line(StyledText::output(line))?;
    }
    for said in [&task.error, &task.note].into_iter().flatten() {
        out.line(out.toned(said, WordTone::Bad))?;
    }
    Ok(())
}

/// Prints how the pipeline ended; its steps were printed before.
fn print_pipeline(cx: &CliContext, result: &PipelineResult) -> Result<(), Error> {
    let out = &cx.out;
    if out.is_quiet() {
        return Ok(());
    }
    let steps = match result.steps.len() {
        1 => "1 step".to_owned(),
        steps => format!("{steps} steps"),
    };
    let failed_at = result.failed_at.as_deref().map(clean);
    let (said, tone) = match (result.status, failed_at) {
        (PipelineStatus::Completed, None) => (format!("{steps} succeeded"), WordTone::Good),
        (PipelineStatus::Completed, Some(name)) => (
            format!("{steps} ran, {name} was the first to fail"),
            WordTone::Bad,
        ),
        (PipelineStatus::Failed, Some(name)) => (format!("failed at {name}"), WordTone::Bad),
        (PipelineStatus::Failed, None) => ("failed".to_owned(), WordTone::Bad),
        (PipelineStatus::Timeout, _) => ("timed out".to_owned(), WordTone::Bad),
        (PipelineStatus::Cancelled, _) => ("cancelled".to_owned(), WordTone::Bad),
        (PipelineStatus::Running, _) => (
            RunResult::Pipeline(result.clone()).progress(),
            WordTone::Needy,
        ),
    };
    let took = format_duration(result.total_duration_ms);
    out.line(out.toned(&format!("{said} · {took} · {}", result.pane_id), tone))?;
    if let Some(note) = &result.note {
        out.note(&clean(note));
    }
    Ok(())
}

fn print_expect(cx: &CliContext, result: &ExpectResult) -> Result<(), Error> {
    let out = &cx.out;
    let pane = result
        .pane_id
        .map_or_else(String::new, |pane| pane.to_string());
    if let Some(text) = result.output.as_ref().or(result.line.as_ref()) {
        for line in text.lines() {
            out.line(StyledText::output(line))?;
        }
    }
    if result.omitted_chars > 0 {
        out.note(&format!(
            "{} characters are left out; `fugue read {pane}` has them",
            result.omitted_chars
        ));
    }
    let pattern = clean(&result.pattern);
    match result.status {
        ExpectStatus::Matched | ExpectStatus::Running => {}
        ExpectStatus::Failed => out.note(&format!(
            "the fail pattern matched before /{pattern}/ in {pane}"
        )),
        ExpectStatus::Exited => {
            let how = match (result.exit_code, &result.signal) {
                (Some(code), _) => format!("exit {code}"),
                (None, Some(signal)) => signal.clone(),
                (None, None) => "exit code unknown".to_owned(),
            };
            out.note(&format!("{pane} ended ({how}) without /{pattern}/"));
        }
        ExpectStatus::Cancelled => {
            out.note(&format!("the wait for /{pattern}/ in {pane} was cancelled"));
        }
        ExpectStatus::Timeout => out.note(&format!(
            "no /{pattern}/ in {pane} within {}",
            format_duration(result.duration_ms)
        )),
    }
    if let Some(note) = &result.note {
        out.note(&clean(note));
    }
    Ok(())
}
