use std::process::ExitCode;

use fugue_api::{Error, pane_placement::RunLayout, tools::SpawnWorker};

use crate::{cli::CliContext, verbs};

/// Start an agent in a pane of its own, with a prompt.
///
/// It reports to the inbox of this project (`fugue events`), or of the worker that called this.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  fugue spawn fix-bug 'make the failing test pass' --agent claude --worktree"
)]
pub struct SpawnArgs {
    #[command(flatten)]
    worker: SpawnWorker,
    /// A variable for it.
    #[arg(short, long = "env", value_name = "K=V", value_parser = verbs::new::variable)]
    env: Vec<(String, String)>,
    /// In this session, where a person sees it.
    #[arg(long)]
    tiled: bool,
}

impl SpawnArgs {
    pub async fn run(self, cx: &CliContext) -> Result<ExitCode, Error> {
        let layout = if self.tiled {
            RunLayout::Tiled
        } else {
            RunLayout::Hidden
        };
        let worker = SpawnWorker {
            env: self.env.into_iter().collect(),
            layout,
            ..self.worker
        };
        let made = verbs::call(cx, worker).await?;
        if cx.out.is_json() {
            cx.out.document(&made)?;
            return Ok(ExitCode::SUCCESS);
        }
        cx.out.line(&made.worker_id)?;
        cx.out.note(&format!(
            "in pane {}, in {}; `fugue events wait` waits for its report",
            made.pane_id, made.cwd
        ));
        Ok(ExitCode::SUCCESS)
    }
}
