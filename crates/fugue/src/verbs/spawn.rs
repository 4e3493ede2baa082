use std::process::ExitCode;

use fugue_api::{Error, tools::SpawnWorker};

use crate::{
    cli::CliContext,
    verbs::{self, new::EnvArgs},
};

/// Start an agent in its own pane, with a prompt.
///
/// The worker reports to the inbox of this project (`fugue events`), or to that of the worker that ran this command.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  fugue spawn fix-bug 'make the failing test pass' --agent claude --worktree"
)]
pub struct SpawnArgs {
    #[command(flatten)]
    worker: SpawnWorker,
    #[command(flatten)]
    env: EnvArgs,
}

impl SpawnArgs {
    pub async fn run(self, cx: &CliContext) -> Result<ExitCode, Error> {
        let worker = SpawnWorker {
            env: self.env.into_map(),
            ..self.worker
        };
        let made = verbs::call(cx, worker).await?;
        if cx.out.is_json() {
            cx.out.document(&made)?;
            return Ok(ExitCode::SUCCESS);
        }
        cx.out.line(&made.worker_id)?;
        let worktree = made.cwd.map(|dir| format!(", in {dir}"));
        cx.out.note(&format!(
            "in pane {}{}; `fugue events wait` waits for its report",
            made.pane_id,
            worktree.unwrap_or_default()
        ));
        if let Some(note) = made.note {
            cx.out.note(&note);
        }
        Ok(ExitCode::SUCCESS)
    }
}
