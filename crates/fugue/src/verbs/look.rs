use std::process::ExitCode;

use fugue_api::{Error, tools::LookMa};

use crate::{cli::CliContext, verbs};

/// Report to the watcher how far the work is.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  fugue look 'the parser is done' --pane agent --wait 'make -s check'"
)]
pub struct LookArgs {
    /// How far it is.
    report: String,
    /// The watched pane; default the one this runs in.
    #[arg(long, value_name = "PANE")]
    pane: Option<String>,
    /// A command to wait for first; default a few seconds.
    #[arg(long, value_name = "CMD")]
    wait: Option<String>,
}

impl LookArgs {
    pub async fn run(self, cx: &CliContext) -> Result<ExitCode, Error> {
        let recorded = verbs::call(
            cx,
            LookMa {
                status_report: self.report,
                tmux_window: self.pane,
                bash_wait: self.wait,
            },
        )
        .await?;
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
