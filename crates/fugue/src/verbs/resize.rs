use std::process::ExitCode;

use fugue_api::{Error, wire::Request};

use crate::cli::CliContext;

/// Set the size of a pane.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  fugue resize build 50 160")]
pub struct ResizeArgs {
    /// Pane id or name.
    pane: String,
    rows: u16,
    cols: u16,
}

impl ResizeArgs {
    pub async fn run(self, cx: &CliContext) -> Result<ExitCode, Error> {
        cx.client
            .ask(Request::Resize {
                pane: self.pane,
                rows: self.rows,
                cols: self.cols,
            })
            .await?;
        if cx.out.is_json() {
            cx.out
                .document(&serde_json::json!({"rows": self.rows, "cols": self.cols}))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
