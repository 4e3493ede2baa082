use std::process::ExitCode;

use fugue_api::{Error, wire::Request};

use crate::cli::Desk;

/// Set a pane's size.
#[derive(clap::Args)]
pub struct Resize {
    /// Pane id or name.
    pane: String,
    rows: u16,
    cols: u16,
}

impl Resize {
    pub async fn run(self, desk: &Desk) -> Result<ExitCode, Error> {
        desk.client
            .ask(Request::Resize {
                pane: self.pane,
                rows: self.rows,
                cols: self.cols,
            })
            .await?;
        if desk.out.is_json() {
            desk.out
                .document(&serde_json::json!({"rows": self.rows, "cols": self.cols}))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
