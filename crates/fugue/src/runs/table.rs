//! A parallel run while it runs: a table that is drawn again in place, or a line when a task ends.

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

use super::{Ended, Event, Wait};
use crate::{
    cli::CliContext,
    follow::{self, Pace},
    live::{Live, Row},
    out::{Out, Tone, terminal_size, took, width},
};

// More frames than this nobody sees.
const FRAME: Duration = Duration::from_millis(100);
// The times go on although nothing happens.
const TICK: Duration = Duration::from_secs(1);

/// A line for each task when it ends, for those who read a log.
pub async fn plain(cx: &CliContext, wait: &mut Wait) -> Result<Ended, Error> {
    let mut told = BTreeSet::new();
    let mut tell = |result: &ParallelResult| {
        for task in &result.results {
            if task.status != TaskStatus::Running && told.insert(task.pane_id) {
                let (state, _) = state(task);
                let took = took(task.duration_ms);
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
            Event::News => {}
            Event::Ended(ended) => return Ok(ended),
        }
    }
}

/// A table of all tasks, drawn in place for as long as one waits and gone afterwards.
pub async fn live(cx: &CliContext, wait: &mut Wait) -> Result<Ended, Error> {
    let mut live = Live::default();
    let ended = watch(cx, wait, &mut live).await;
    let columns = terminal_size().map_or(80, |(_, columns)| columns);
    live.clear(&cx.out, columns)?;
    ended
}

async fn watch(cx: &CliContext, wait: &mut Wait, live: &mut Live) -> Result<Ended, Error> {
    let trouble = |error| Error::new(ErrorKind::Internal, format!("a signal: {error}"));
    let mut resized = signal(SignalKind::window_change()).map_err(trouble)?;
    let back = rustix::process::Signal::CONT.as_raw();
    let mut resumed = signal(SignalKind::from_raw(back)).map_err(trouble)?;
    // A full channel holds the followers back until the last lines are shown.
    let (say, mut said) = mpsc::channel(16);
    let mut lines = BTreeMap::new();
    let mut followed = BTreeSet::new();
    let mut known: Option<(ParallelResult, Instant)> = None;
    let mut stale = false;
    let mut drawn = Instant::now() - FRAME;
    loop {
        let due = drawn + if stale { FRAME } else { TICK };
        tokio::select! {
            biased;
            event = wait.next() => match event? {
                Event::Ended(ended) => return Ok(ended),
                Event::News => {
                    if let Some(RunResult::Parallel(result)) = &wait.known {
                        for task in &result.results {
                            if task.status != TaskStatus::Error && followed.insert(task.pane_id) {
                                tokio::spawn(last_lines(cx.client.clone(), task.pane_id, say.clone()));
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
        if let (true, Some((result, told))) = (stale && now >= drawn + FRAME, &known) {
            let size = terminal_size().unwrap_or((24, 80));
            let rows = frame(&cx.out, result, &lines, told.elapsed(), size);
            live.draw(&cx.out, &rows, size.1)?;
            (drawn, stale) = (now, false);
        }
    }
}

/// Follows a pane and says what its last line is.
async fn last_lines(client: Client, pane: PaneId, say: mpsc::Sender<(PaneId, String)>) {
    // A pane that prints faster than this is not read whole: nobody could either.
    const FLOOD: usize = 256 * 1024;
    const ENOUGH: u64 = 16 * 1024;
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
    let mut pace = Pace::new();
    loop {
        let more = match follow::more(&client, &name, from).await {
            Ok(more) => more,
            // It is still being opened, which nothing announces.
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
        if more.raw.len() >= FLOOD
            && let Ok(status) = follow::status(&client, &name).await
        {
            from = from.max(follow::offset(&status.cursor).saturating_sub(ENOUGH));
        }
        sleep_until(Instant::now() + FRAME).await;
    }
}

/// The table as it is now: at most one row less than the terminal has, none wider than it.
fn frame(
    out: &Out,
    result: &ParallelResult,
    lines: &BTreeMap<PaneId, String>,
    since: Duration,
    (height, columns): (usize, usize),
) -> Vec<Row> {
    // The last column stays free: what is erased behind a full row is its last character.
    let columns = columns.saturating_sub(1);
    let since = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
    let room = height.saturating_sub(2);
    let shown = shown(&result.results, room);
    let labels: Vec<String> = shown.iter().map(|task| label(task)).collect();
    let states: Vec<(String, Tone)> = shown.iter().map(|task| state(task)).collect();
    let times: Vec<String> = shown
        .iter()
        .map(|task| match task.status {
            TaskStatus::Running => took(task.duration_ms.saturating_add(since)),
            _ => took(task.duration_ms),
        })
        .collect();
    let widest = |words: &mut dyn Iterator<Item = &str>| words.map(width).max().unwrap_or(0);
    let label_columns = widest(&mut labels.iter().map(String::as_str)).min((columns / 3).max(8));
    let state_columns = widest(&mut states.iter().map(|(word, _)| word.as_str()));
    let time_columns = widest(&mut times.iter().map(String::as_str));
    let mut rows: Vec<Row> = Vec::new();
    for (index, task) in shown.iter().enumerate() {
        let (word, tone) = &states[index];
        let last = match &task.error {
            Some(error) => error,
            None => lines.get(&task.pane_id).map_or("", String::as_str),
        };
        let pad = time_columns - width(&times[index]);
        rows.push(
            Row::default()
                .word(out, &labels[index], Tone::Plain, label_columns)
                .word(out, "", Tone::Plain, 2)
                .word(out, word, *tone, state_columns)
                .word(out, "", Tone::Plain, 2 + pad)
                .word(out, &times[index], Tone::Faint, width(&times[index]))
                .word(out, "", Tone::Plain, 2)
                .rest(out, last, Tone::Faint, columns),
        );
    }
    let all = result.results.len();
    let running = |task: &&TaskResult| task.status == TaskStatus::Running;
    let done = all - result.results.iter().filter(running).count();
    let failed = result.results.iter().filter(|task| failed(task)).count();
    let mut foot = Row::default();
    if failed > 0 {
        let word = format!("{failed} failed");
        let columns = width(&word);
        foot = foot
            .word(out, &word, Tone::Bad, columns)
            .word(out, " · ", Tone::Faint, 3);
    }
    let hidden = match all - shown.len() {
        0 => String::new(),
        hidden => format!(" · {hidden} not shown"),
    };
    let took = took(result.total_duration_ms.saturating_add(since));
    let rest = format!("{done} of {all} done · {took}{hidden} · Ctrl-C leaves them running");
    rows.push(foot.rest(out, &rest, Tone::Faint, columns));
    rows
}

/// So many of the tasks as there is room for: first those that went well are left out, then those that failed.
fn shown(tasks: &[TaskResult], room: usize) -> Vec<&TaskResult> {
    let rank = |task: &TaskResult| match task.status {
        TaskStatus::Running => 0,
        _ if failed(task) => 1,
        _ => 2,
    };
    let mut order: Vec<usize> = (0..tasks.len()).collect();
    order.sort_by_key(|index| rank(&tasks[*index]));
    order.truncate(room);
    order.sort_unstable();
    order.into_iter().map(|index| &tasks[index]).collect()
}

/// What a task is called: a name that was given says more than a command, and a command more than a number.
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

/// A task's state in a word and a colour.
pub fn state(task: &TaskResult) -> (String, Tone) {
    match (task.status, task.exit_code, &task.signal) {
        (TaskStatus::Running, ..) => ("running".into(), Tone::Needy),
        (TaskStatus::Exited, Some(0), _) => ("exit 0".into(), Tone::Good),
        (TaskStatus::Exited, Some(code), _) => (format!("exit {code}"), Tone::Bad),
        (TaskStatus::Exited, None, Some(signal)) => (signal.clone(), Tone::Bad),
        (TaskStatus::Exited, None, None) => ("exit ?".into(), Tone::Bad),
        (TaskStatus::Timeout, ..) => ("timeout".into(), Tone::Bad),
        (TaskStatus::Error, ..) => ("error".into(), Tone::Bad),
        (TaskStatus::Cancelled, ..) => ("cancelled".into(), Tone::Faint),
    }
}

/// Whether its output is worth a look.
pub fn failed(task: &TaskResult) -> bool {
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
            run_id: RunId("r-1".into()),
            results: tasks,
            total_duration_ms: 4000,
        };
        let lines = BTreeMap::from([
            (PaneId(1), "Compiling 漢字漢字漢字 v0.1.0".to_owned()),
            (PaneId(2), "error: \x1b[31mno".to_owned()),
        ]);
        let rows = frame(&Out::plain(), &result, &lines, Duration::from_secs(1), size);
        let rows: Vec<&str> = rows.iter().map(Row::text).collect();
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
