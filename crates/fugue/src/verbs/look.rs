use std::process::ExitCode;

use fugue_api::{Error, tools::LookMa};

use crate::{cli::CliContext, verbs};

/// Report progress to the watcher of a pane.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  fugue look 'the parser is done' --pane agent --wait 'make -s check'"
)]
pub struct LookArgs {
    #[command(flatten)]
    report: LookMa,
}

impl LookArgs {
    pub async fn run(self, cx: &CliContext) -> Result<ExitCode, Error> {
        let recorded = verbs::call(cx, self.report).await?;
        if cx.out.is_json() {
            cx.out.document(&recorded)?;
        } else if let Some(reason) = &recorded.reason {
            cx.out.note(&format!(
                "recorded, but the watcher is paused: {reason}; `fugue watch` resumes it"
            ));
        }
        Ok(ExitCode::SUCCESS)
    }
}
