use std::{
    process::ExitCode,
    time::{SystemTime, UNIX_EPOCH},
};

use fugue_api::{
    Error, SessionName, Timestamp, ToolReply,
    overview::{Overview, PaneRow, QuestionRow, RunRow, TmuxRow, WatcherRow, WorkerRow},
    pane_state::PaneState,
    run_result::RunKind,
    tools::GetStatusReply,
    wire::{Request, Response},
};

use crate::{
    cli::CliContext,
    out::{WordTone, clean, format_age},
    verbs::{pane_word, watcher_word, worker_word},
};

/// List panes, workers, questions to a person, watchers and runs.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  fugue ls --json")]
pub struct LsArgs {}

impl LsArgs {
    pub async fn run(self, cx: &CliContext) -> Result<ExitCode, Error> {
        let mut overview = overview(cx, Request::Overview).await?;
        overview.tmux = self::overview(cx, Request::TmuxPanes).await?.tmux;
        if cx.out.is_json() {
            cx.out.document(&overview)?;
        } else {
            show(cx, &overview)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

async fn overview(cx: &CliContext, ask: Request) -> Result<Overview, Error> {
    match cx.client.ask(ask).await? {
        Response::Tool {
            reply: ToolReply::GetStatus(GetStatusReply::All(overview)),
        } => Ok(overview),
        other => Err(Error::unexpected(&other)),
    }
}

// The limit of listed ended runs; `--json` lists all.
const MAX_ENDED_RUNS: usize = 5;

fn show(cx: &CliContext, overview: &Overview) -> Result<(), Error> {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as u64);
    let panes: Vec<_> = overview
        .panes
        .iter()
        .filter(|pane| is_listed(pane))
        .collect();
    let runs = listed_runs(&overview.runs);
    let workers: Vec<_> = overview
        .workers
        .iter()
        .filter(|worker| overview.lists_worker(worker))
        .collect();
    let watchers = &overview.watchers;
    let questions = &overview.questions;
    if panes.is_empty()
        && runs.is_empty()
        && workers.is_empty()
        && watchers.is_empty()
        && questions.is_empty()
    {
        cx.out.note("no panes; `fugue new` opens one");
    }
    if !panes.is_empty() {
        let rows: Vec<_> = panes.iter().map(|pane| pane_row(pane, now)).collect();
        cx.out
            .table(&["PANE", "SESSION", "NAME", "AGE", "STATE"], &rows)?;
    }
    if !workers.is_empty() {
        cx.out.line("")?;
        let rows: Vec<_> = workers
            .iter()
            .map(|worker| worker_row(worker, now))
            .collect();
        cx.out
            .table(&["WORKER", "PANE", "LEAD", "AGE", "STATE"], &rows)?;
    }
    if !questions.is_empty() {
        cx.out.line("")?;
        let rows: Vec<_> = questions
            .iter()
            .map(|question| question_row(question, now))
            .collect();
        cx.out.table(&QUESTION_HEADINGS, &rows)?;
        cx.out.note(HOW_TO_ANSWER);
    }
    if !watchers.is_empty() {
        cx.out.line("")?;
        let rows: Vec<_> = watchers.iter().map(watcher_row).collect();
        cx.out.table(&["WATCHED", "STATE", "WHY"], &rows)?;
    }
    if !runs.is_empty() {
        if !panes.is_empty() {
            cx.out.line("")?;
        }
        let rows: Vec<_> = runs.iter().map(|run| run_row(run, now)).collect();
        cx.out
            .table(&["RUN", "KIND", "STATUS", "AGE", "PROGRESS"], &rows)?;
    }
    if !overview.tmux.is_empty() {
        cx.out.line("")?;
        let rows: Vec<_> = overview.tmux.iter().map(tmux_row).collect();
        cx.out
            .table(&["TMUX", "SESSION", "WINDOW", "COMMAND"], &rows)?;
    }
    let older = overview.runs.len() - runs.len();
    if older > 0 {
        cx.out.note(&format!(
            "{older} older runs have ended; `fugue ls --json` lists them"
        ));
    }
    Ok(())
}

fn tmux_row(pane: &TmuxRow) -> Vec<(String, WordTone)> {
    let TmuxRow {
        pane_id,
        session,
        window,
        command,
    } = pane;
    [pane_id, session, window, command]
        .map(|text| (text.clone(), WordTone::Plain))
        .to_vec()
}

fn worker_row(worker: &WorkerRow, now: u64) -> Vec<(String, WordTone)> {
    let pane = worker.pane_id.map(|pane| pane.to_string());
    vec![
        (worker.worker_id.clone(), WordTone::Plain),
        (pane.unwrap_or_default(), WordTone::Plain),
        (worker.session_id.clone(), WordTone::Plain),
        (age(worker.started_at, now), WordTone::Faint),
        worker_word(worker),
    ]
}

pub const QUESTION_HEADINGS: [&str; 5] = ["QUESTION", "FROM", "SESSION", "AGE", "TO A PERSON"];
pub const HOW_TO_ANSWER: &str = "`fugue answer QUESTION TEXT` answers one";

pub fn question_row(question: &QuestionRow, now: u64) -> Vec<(String, WordTone)> {
    vec![
        (question.question_id.to_string(), WordTone::Needy),
        (question.from.clone(), WordTone::Plain),
        (question.session_id.clone(), WordTone::Plain),
        (age(Some(question.asked_at), now), WordTone::Faint),
        (clean(&question.body), WordTone::Plain),
    ]
}

fn watcher_row(watcher: &WatcherRow) -> Vec<(String, WordTone)> {
    let (word, tone) = watcher_word(watcher);
    vec![
        (watcher.pane_id.to_string(), WordTone::Plain),
        (word, tone),
        (watcher.reason.clone().unwrap_or_default(), WordTone::Faint),
    ]
}

fn age(since: Option<Timestamp>, now: u64) -> String {
    since.map_or_else(String::new, |at| format_age(now.saturating_sub(at.0)))
}

/// Whether the table shows a pane. Ended panes of runs are listed by their run.
fn is_listed(pane: &PaneRow) -> bool {
    let ended = matches!(pane.state.state, PaneState::Exited | PaneState::Closed);
    !(ended && pane.session.0 == SessionName::HIDDEN)
}

/// Running runs and the latest ended ones, oldest first.
fn listed_runs(runs: &[RunRow]) -> Vec<&RunRow> {
    let mut order: Vec<&RunRow> = runs.iter().collect();
    order.sort_by_key(|run| run.started_at);
    let ended = order.iter().filter(|run| !is_running(run)).count();
    let mut to_skip = ended.saturating_sub(MAX_ENDED_RUNS);
    order.retain(|run| {
        let skipped = !is_running(run) && to_skip > 0;
        to_skip -= usize::from(skipped);
        !skipped
    });
    order
}

fn is_running(run: &RunRow) -> bool {
    run.status == "running"
}

fn pane_row(pane: &PaneRow, now: u64) -> Vec<(String, WordTone)> {
    vec![
        (pane.pane_id.to_string(), WordTone::Plain),
        (pane.session.to_string(), WordTone::Plain),
        (pane.name.clone(), WordTone::Plain),
        (age(pane.created_at, now), WordTone::Faint),
        pane_word(&pane.state, pane.agent.as_ref()),
    ]
}

fn run_row(run: &RunRow, now: u64) -> Vec<(String, WordTone)> {
    let kind = match run.kind {
        RunKind::Expect => "expect",
        RunKind::Parallel => "parallel",
        RunKind::Pipeline => "pipeline",
    };
    let tone = match run.status.as_str() {
        "running" => WordTone::Needy,
        "completed" | "matched" => WordTone::Good,
        _ => WordTone::Bad,
    };
    vec![
        (run.run_id.to_string(), WordTone::Plain),
        (kind.to_owned(), WordTone::Plain),
        (run.status.clone(), tone),
        (age(run.started_at, now), WordTone::Faint),
        (run.progress.clone(), WordTone::Faint),
    ]
}

#[cfg(test)]
mod tests {
    use fugue_api::RunId;

    use super::*;

    #[test]
    fn runs_that_are_over_do_not_bury_those_that_run() {
        let row = |at: u64| RunRow {
            run_id: RunId(format!("r-{at}")),
            kind: RunKind::Parallel,
            status: if at.is_multiple_of(4) {
                "running"
            } else {
                "completed"
            }
            .into(),
            progress: String::new(),
            started_at: Some(Timestamp(at)),
        };
        let runs: Vec<RunRow> = (0..16).rev().map(row).collect();
        let shown: Vec<u64> = listed_runs(&runs)
            .iter()
            .filter_map(|run| Some(run.started_at?.0))
            .collect();
        assert_eq!(shown, [0, 4, 8, 10, 11, 12, 13, 14, 15]);
    }
}
