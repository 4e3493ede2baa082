//! The progress of a parallel run: a table that is redrawn in place, or a line per ended task.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use fugue_api::{
    Error, ErrorKind, PaneId,
    run_result::RunResult,
    tools::{ParallelResult, TaskResult, TaskStatus},
};
use fugue_client::client::Client;
use fugue_term::{LineQuery, Offset, Terminal, TerminalOptions, TerminalSize};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
    time::{Instant, sleep_until},
};

use super::{RunWait, WaitEnd, WaitEvent};
use crate::{
    cli::CliContext,
    follow::{self, RetryDelay},
    live::{LiveArea, StyledRow},
    out::{CliOutput, WordTone, format_duration, terminal_size, width},
};

// The shortest interval between two draws.
const MIN_DRAW_INTERVAL: Duration = Duration::from_millis(100);
// The interval of draws without new progress, for the running times.
const IDLE_DRAW_INTERVAL: Duration = Duration::from_secs(1);

/// Prints a line for each ended task, for output that is not a terminal.
pub async fn print_ended_tasks(cx: &CliContext, wait: &mut RunWait) -> Result<WaitEnd, Error> {
    let mut told = BTreeSet::new();
    let mut tell = |result: &ParallelResult| {
        for task in &result.results {
            if task.status != TaskStatus::Running && told.insert(task.pane_id) {
                let (state, _) = state(task);
                let took = format_duration(task.duration_ms);
                let name = crate::out::clean(&task.name);
                cx.out.line(format!(
                    "{state:<9}  {took:>6}  {name}: {}",
                    first_line(task)
                ))?;
            }
        }
        Ok::<_, Error>(())
    };
    loop {
        let event = wait.next().await?;
        if let Some(RunResult::Parallel(result)) = &wait.known {
            tell(result)?;
        }
        match event {
            WaitEvent::News => {}
            WaitEvent::Ended(ended) => return Ok(ended),
        }
    }
}

/// Shows a table of all tasks during the wait, and erases the table at the end.
pub async fn show_table(cx: &CliContext, wait: &mut RunWait) -> Result<WaitEnd, Error> {
    let mut live = LiveArea::default();
    let ended = draw_until_end(cx, wait, &mut live).await;
    let columns = terminal_size().map_or(80, |(_, columns)| columns);
    live.clear(&cx.out, columns)?;
    ended
}

async fn draw_until_end(
    cx: &CliContext,
    wait: &mut RunWait,
    live: &mut LiveArea,
) -> Result<WaitEnd, Error> {
    let trouble = |error| Error::internal(format!("a signal: {error}"));
    let mut resized = signal(SignalKind::window_change()).map_err(trouble)?;
    let back = rustix::process::Signal::CONT.as_raw();
    let mut resumed = signal(SignalKind::from_raw(back)).map_err(trouble)?;
    // A full channel blocks the followers until their lines are drawn.
    let (say, mut said) = mpsc::channel(16);
    let mut lines = BTreeMap::new();
    let mut followed = BTreeSet::new();
    let mut known: Option<(ParallelResult, Instant)> = None;
    let mut stale = false;
    let mut drawn = Instant::now() - MIN_DRAW_INTERVAL;
    loop {
        let due = drawn
            + if stale {
                MIN_DRAW_INTERVAL
            } else {
                IDLE_DRAW_INTERVAL
            };
        tokio::select! {
            biased;
            event = wait.next() => match event? {
                WaitEvent::Ended(ended) => return Ok(ended),
                WaitEvent::News => {
                    if let Some(RunResult::Parallel(result)) = &wait.known {
                        for task in &result.results {
                            if task.status != TaskStatus::Error && followed.insert(task.pane_id) {
                                tokio::spawn(forward_last_line(cx.client.clone(), task.pane_id, say.clone()));
                            }
                        }
                        known = Some((result.clone(), Instant::now()));
                        stale = true;
                    }
                }
            },
            Some((pane, line)) = said.recv() => {
                lines.insert(pane, line);
                stale = true;
            }
            _ = resized.recv() => stale = true,
            _ = resumed.recv() => {
                live.forget();
                stale = true;
            }
            () = sleep_until(due) => stale = true,
        }
        let now = Instant::now();
        if let (true, Some((result, told))) = (stale && now >= drawn + MIN_DRAW_INTERVAL, &known) {
            let size = terminal_size().unwrap_or((24, 80));
            let rows = table_rows(&cx.out, result, &lines, told.elapsed(), size);
            live.draw(&cx.out, &rows, size.1)?;
            (drawn, stale) = (now, false);
        }
    }
}

/// Follows a pane and sends the last line.
async fn forward_last_line(client: Client, pane: PaneId, say: mpsc::Sender<(PaneId, String)>) {
    // Of a pane that prints a chunk of this size, output is skipped up to the last bytes.
    const MAX_CHUNK_BYTES: usize = 256 * 1024;
    const TAIL_BYTES: u64 = 16 * 1024;
    let name = pane.to_string();
    let mut terminal = Terminal::new(
        TerminalSize {
            rows: 40,
            cols: 120,
        },
        TerminalOptions {
            keep_lines: 40,
            ..TerminalOptions::default()
        },
    );
    let mut from = 0;
    let mut pace = RetryDelay::new();
    loop {
        let more = match follow::next_chunk(&client, &name, from).await {
            Ok(more) => more,
            // The pane is still being opened, which no event announces.
            Err(error) if error.kind == ErrorKind::Unavailable && from == 0 => {
                pace.next().await;
                continue;
            }
            Err(_) => return,
        };
        terminal.skip_to(Offset(more.from));
        terminal.feed(&more.raw);
        from = more.from + more.raw.len() as u64;
        let found = terminal.lines(&LineQuery {
            since: None,
            last: 40,
        });
        let last = found
            .lines
            .iter()
            .rev()
            .find(|line| !line.text.trim().is_empty());
        let last = last
            .map(|line| line.text.trim().to_owned())
            .unwrap_or_default();
        if say.send((pane, last)).await.is_err() || more.ended {
            return;
        }
        if more.raw.len() >= MAX_CHUNK_BYTES
            && let Ok(status) = follow::pane_status(&client, &name).await
        {
            from = from.max(follow::offset(&status.cursor).saturating_sub(TAIL_BYTES));
        }
        sleep_until(Instant::now() + MIN_DRAW_INTERVAL).await;
    }
}

/// The rows of the table: fewer than the rows of the terminal, and narrower than the terminal.
fn table_rows(
    out: &CliOutput,
    result: &ParallelResult,
    lines: &BTreeMap<PaneId, String>,
    since: Duration,
    (height, columns): (usize, usize),
) -> Vec<StyledRow> {
    // The last column stays free, because erasing to the end of a full row erases its last character.
    let columns = columns.saturating_sub(1);
    let since = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
    let room = height.saturating_sub(2);
    let shown = shown(&result.results, room);
    let labels: Vec<String> = shown.iter().map(|task| label(task)).collect();
    let states: Vec<(String, WordTone)> = shown.iter().map(|task| state(task)).collect();
    let times: Vec<String> = shown
        .iter()
        .map(|task| match task.status {
            TaskStatus::Running => format_duration(task.duration_ms.saturating_add(since)),
            _ => format_duration(task.duration_ms),
        })
        .collect();
    let widest = |words: &mut dyn Iterator<Item = &str>| words.map(width).max().unwrap_or(0);
    let label_columns = widest(&mut labels.iter().map(String::as_str)).min((columns / 3).max(8));
    let state_columns = widest(&mut states.iter().map(|(word, _)| word.as_str()));
    let time_columns = widest(&mut times.iter().map(String::as_str));
    let mut rows: Vec<StyledRow> = Vec::new();
    for (index, task) in shown.iter().enumerate() {
        let (word, tone) = &states[index];
        let last = match &task.error {
            Some(error) => error,
            None => lines.get(&task.pane_id).map_or("", String::as_str),
        };
        let pad = time_columns - width(&times[index]);
        rows.push(
            StyledRow::default()
                .word(out, &labels[index], WordTone::Plain, label_columns)
                .word(out, "", WordTone::Plain, 2)
                .word(out, word, *tone, state_columns)
                .word(out, "", WordTone::Plain, 2 + pad)
                .word(out, &times[index], WordTone::Faint, width(&times[index]))
                .word(out, "", WordTone::Plain, 2)
                .rest(out, last, WordTone::Faint, columns),
        );
    }
    let all = result.results.len();
    let running = |task: &&TaskResult| task.status == TaskStatus::Running;
    let done = all - result.results.iter().filter(running).count();
    let failed = result
        .results
        .iter()
        .filter(|task| has_failed(task))
        .count();
    let mut foot = StyledRow::default();
    if failed > 0 {
        let word = format!("{failed} failed");
        let columns = width(&word);
        foot = foot
            .word(out, &word, WordTone::Bad, columns)
            .word(out, " · ", WordTone::Faint, 3);
    }
    let hidden = match all - shown.len() {
        0 => String::new(),
        hidden => format!(" · {hidden} not shown"),
    };
    let took = format_duration(result.total_duration_ms.saturating_add(since));
    let rest = format!("{done} of {all} done · {took}{hidden} · Ctrl-C leaves them running");
    rows.push(foot.rest(out, &rest, WordTone::Faint, columns));
    rows
}

/// The tasks that fit into `room` rows: successful tasks are left out first, then failed ones.
fn shown(tasks: &[TaskResult], room: usize) -> Vec<&TaskResult> {
    let rank = |task: &TaskResult| match task.status {
        TaskStatus::Running => 0,
        _ if has_failed(task) => 1,
        _ => 2,
    };
    let mut order: Vec<usize> = (0..tasks.len()).collect();
    order.sort_by_key(|index| rank(&tasks[*index]));
    order.truncate(room);
    order.sort_unstable();
    order.into_iter().map(|index| &tasks[index]).collect()
}

/// The label of a task: its name if the caller chose it, else the first line of its command.
pub fn label(task: &TaskResult) -> String {
    let numbered = task.name.strip_prefix("task-");
    if numbered.is_some_and(|number| number.parse::<u32>().is_ok()) {
        first_line(task)
    } else {
        task.name.clone()
    }
}

fn first_line(task: &TaskResult) -> String {
    let line = task.command.trim().lines().next().unwrap_or_default();
    crate::out::clean(line)
}

/// The state of a task as text, with its tone.
pub fn state(task: &TaskResult) -> (String, WordTone) {
    match (task.status, task.exit_code, &task.signal) {
        (TaskStatus::Running, ..) => ("running".into(), WordTone::Needy),
        (TaskStatus::Exited, Some(0), _) => ("exit 0".into(), WordTone::Good),
        (TaskStatus::Exited, Some(code), _) => (format!("exit {code}"), WordTone::Bad),
        (TaskStatus::Exited, None, Some(signal)) => (signal.clone(), WordTone::Bad),
        (TaskStatus::Exited, None, None) => ("exit ?".into(), WordTone::Bad),
        (TaskStatus::Timeout, ..) => ("timeout".into(), WordTone::Bad),
        (TaskStatus::Error, ..) => ("error".into(), WordTone::Bad),
        (TaskStatus::Cancelled, ..) => ("cancelled".into(), WordTone::Faint),
    }
}

/// Whether the task failed, so that its output is printed.
pub fn has_failed(task: &TaskResult) -> bool {
    match task.status {
        TaskStatus::Exited => task.exit_code != Some(0),
        TaskStatus::Timeout | TaskStatus::Error => true,
        TaskStatus::Running | TaskStatus::Cancelled => false,
    }
}

#[cfg(test)]
mod tests {
    use fugue_api::{RunId, tools::ParallelStatus};

    use super::*;

    fn task(number: u64, name: &str, command: &str, exit: Option<i32>) -> TaskResult {
        TaskResult {
            name: name.into(),
            command: command.into(),
            status: match exit {
                Some(_) => TaskStatus::Exited,
                None => TaskStatus::Running,
            },
            exit_code: exit,
            signal: None,
            pane_id: PaneId(number),
            duration_ms: 1200 * number,
            output: String::new(),
            omitted_chars: 0,
            omitted_lines: 0,
            error: None,
            note: None,
        }
    }

    #[track_caller]
    fn check(tasks: Vec<TaskResult>, size: (usize, usize), wanted: &[&str]) {
        let result = ParallelResult {
            status: ParallelStatus::Running,
            run_id: Some(RunId("r-1".into())),
            failed: 0,
            results: tasks,
            total_duration_ms: 4000,
        };
        let lines = BTreeMap::from([
            (PaneId(1), "Compiling 漢字漢字漢字 v0.1.0".to_owned()),
            (PaneId(2), "error: \x1b[31mno".to_owned()),
        ]);
        let rows = table_rows(
            &CliOutput::plain(),
            &result,
            &lines,
            Duration::from_secs(1),
            size,
        );
        let rows: Vec<&str> = rows.iter().map(StyledRow::text).collect();
        assert_eq!(rows, wanted);
        for row in rows {
            assert!(width(row) < size.1, "{row:?} is as wide as {}", size.1);
        }
    }

    #[test]
    fn a_table_fits_its_terminal() {
        let tasks = || {
            vec![
                task(1, "build", "make all", None),
                task(2, "task-2", "cargo test\n--all", Some(101)),
                task(3, "a very long name for so small a thing", "true", Some(0)),
            ]
        };
        check(
            tasks(),
            (24, 61),
            &[
                "build                 running   2.2s  Compiling 漢字漢字漢…",
                "cargo test            exit 101  2.4s  error: \u{fffd}[31mno",
                "a very long name fo…  exit 0    3.6s",
                "1 failed · 2 of 3 done · 5.0s · Ctrl-C leaves them running",
            ],
        );
        check(
            tasks(),
            (24, 41),
            &[
                "build          running   2.2s  Compilin…",
                "cargo test     exit 101  2.4s  error: \u{fffd}…",
                "a very long …  exit 0    3.6s",
                "1 failed · 2 of 3 done · 5.0s · Ctrl-C …",
            ],
        );
        check(
            tasks(),
            (4, 61),
            &[
                "build       running   2.2s  Compiling 漢字漢字漢字 v0.1.0",
                "cargo test  exit 101  2.4s  error: \u{fffd}[31mno",
                "1 failed · 2 of 3 done · 5.0s · 1 not shown · Ctrl-C leaves…",
            ],
        );
        check(tasks(), (2, 21), &["1 failed · 2 of 3 d…"]);
    }
}
