use std::process::ExitCode;

use fugue_api::{
    Error,
    wire::{Request, Response},
    worktree::{WorktreeRequest, WorktreeResponse, WorktreeRow},
};

use crate::{cli::CliContext, out::WordTone};

/// List, compare or remove the worktrees of workers. Merging their branches is git's.
#[derive(clap::Subcommand)]
#[command(
    after_help = "Examples:\n  fugue worktree ls\n  fugue worktree diff fix-claude --stat\n  fugue worktree rm fix-claude"
)]
pub enum WorktreeCommand {
    /// List the worktrees with their branches, and what is in no other branch.
    Ls,
    /// Show what changed since the worker was spawned.
    Diff {
        /// A worker, a branch or the name of a worktree.
        name: String,
        /// Print one line for each file.
        #[arg(long)]
        stat: bool,
    },
    /// Remove worktrees and their branches. Refused while their worker runs.
    Rm {
        /// Workers, branches or names of worktrees.
        #[arg(required = true)]
        names: Vec<String>,
        /// Remove also what is not committed, and commits that are in no other branch.
        #[arg(long)]
        force: bool,
    },
}

impl WorktreeCommand {
    pub async fn run(self, cx: &CliContext) -> Result<ExitCode, Error> {
        match self {
            Self::Ls => list(cx).await?,
            Self::Diff { name, stat } => diff(cx, name, stat).await?,
            Self::Rm { names, force } => return remove(cx, names, force).await,
        }
        Ok(ExitCode::SUCCESS)
    }
}

async fn ask(cx: &CliContext, request: WorktreeRequest) -> Result<WorktreeResponse, Error> {
    match cx.client.ask(Request::Worktrees { request }).await? {
        Response::Worktrees { response } => Ok(response),
        other => Err(Error::unexpected(&other)),
    }
}

fn unexpected(response: WorktreeResponse) -> Error {
    Error::unexpected(&Response::<fugue_api::ToolReply>::Worktrees { response })
}

async fn list(cx: &CliContext) -> Result<(), Error> {
    let rows = match ask(cx, WorktreeRequest::List).await? {
        WorktreeResponse::List(rows) => rows,
        other => return Err(unexpected(other)),
    };
    if cx.out.is_json() {
        return cx.out.document(&rows);
    }
    if rows.is_empty() {
        cx.out.note("no worktrees of workers");
        return Ok(());
    }
    let cells: Vec<_> = rows.iter().map(row).collect();
    cx.out.table(
        &["WORKER", "BRANCH", "AHEAD", "BEHIND", "WORK", "DIRECTORY"],
        &cells,
    )
}

fn row(row: &WorktreeRow) -> Vec<(String, WordTone)> {
    let count =
        |count: Option<u64>| count.map_or_else(|| "?".to_owned(), |count| count.to_string());
    let work = row.work.as_ref();
    let held = match work {
        None => (row.error.clone().unwrap_or_default(), WordTone::Bad),
        Some(work) if work.is_kept_elsewhere() && work.commits > 0 => {
            ("merged".to_owned(), WordTone::Faint)
        }
        Some(work) if work.is_kept_elsewhere() => ("none".to_owned(), WordTone::Faint),
        Some(work) => {
            let parts = [(work.unmerged, "unmerged"), (work.dirty, "uncommitted")];
            let parts = parts.iter().filter(|(count, _)| *count > 0);
            let words: Vec<_> = parts
                .map(|(count, what)| format!("{count} {what}"))
                .collect();
            (words.join(", "), WordTone::Needy)
        }
    };
    let worker = match row.live {
        true => format!("{} (live)", row.worker_id),
        false => row.worker_id.clone(),
    };
    vec![
        (worker, WordTone::Plain),
        (row.branch.clone(), WordTone::Plain),
        (count(work.map(|work| work.ahead)), WordTone::Plain),
        (count(work.map(|work| work.behind)), WordTone::Plain),
        held,
        (row.directory.clone(), WordTone::Faint),
    ]
}

async fn diff(cx: &CliContext, name: String, stat: bool) -> Result<(), Error> {
    let diff = match ask(cx, WorktreeRequest::Diff { name, stat }).await? {
        WorktreeResponse::Diff(diff) => diff,
        other => return Err(unexpected(other)),
    };
    if cx.out.is_json() {
        return cx.out.document(&diff);
    }
    for line in diff.diff.lines() {
        cx.out.line(cx.out.output(line.to_owned()))?;
    }
    for file in &diff.untracked {
        cx.out.line(cx.out.output(format!("{file} | untracked")))?;
    }
    Ok(())
}

async fn remove(cx: &CliContext, names: Vec<String>, force: bool) -> Result<ExitCode, Error> {
    let single = names.len() == 1;
    let (mut removals, mut code) = (Vec::new(), 0);
    for name in names {
        match ask(cx, WorktreeRequest::Remove { name, force }).await {
            Ok(WorktreeResponse::Removed(removal)) => removals.push(removal),
            Ok(other) => return Err(unexpected(other)),
            Err(error) if single => return Err(error),
            Err(error) => {
                cx.out.error(&error);
                code = code.max(error.exit_code());
            }
        }
    }
    if cx.out.is_json() {
        cx.out.document(&removals)?;
    } else {
        for removal in &removals {
            let lost = match removal.lost.is_empty() {
                true => String::new(),
                false => format!("; lost: {}", removal.lost.join("; ")),
            };
            cx.out.note(&format!(
                "removed {} and branch {}{lost}",
                removal.directory, removal.branch
            ));
        }
    }
    Ok(ExitCode::from(code))
}
