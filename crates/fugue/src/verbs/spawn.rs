use std::process::ExitCode;

use fugue_api::{Error, runs::RunLayout, team::SpawnWorker};

use crate::{cli::Desk, verbs};

/// Start an agent in a pane of its own, with a prompt.
///
/// It reports to the inbox of this project (`fugue events`), or of the worker that called this.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  fugue spawn fix-bug 'make the failing test pass' --agent claude --worktree"
)]
pub struct Spawn {
    #[command(flatten)]
    worker: SpawnWorker,
    /// A variable for it.
    #[arg(short, long = "env", value_name = "K=V", value_parser = verbs::new::variable)]
    env: Vec<(String, String)>,
    /// In this session, where a person sees it.
    #[arg(long)]
    tiled: bool,
}

impl Spawn {
    pub async fn run(self, desk: &Desk) -> Result<ExitCode, Error> {
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
        let made = verbs::call(desk, worker).await?;
        if desk.out.is_json() {
            desk.out.document(&made)?;
            return Ok(ExitCode::SUCCESS);
        }
        desk.out.line(&made.worker_id)?;
        desk.out.note(&format!(
            "in pane {}, in {}; `fugue events wait` waits for its report",
            made.pane_id, made.cwd
        ));
        Ok(ExitCode::SUCCESS)
    }
}
