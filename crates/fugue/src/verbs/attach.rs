use std::process::ExitCode;

use fugue_api::{Error, attach::ViewerRole};

use crate::cli::CliContext;

/// Show the panes of a session and type into them; C-b d detaches, C-b ? lists the keys.
#[derive(clap::Args, Default)]
pub struct AttachArgs {
    /// Pane or session; default `main`, else the latest session.
    #[arg(value_name = "PANE or SESSION")]
    target: Option<String>,
    /// Show the panes without changing anything.
    #[arg(short, long)]
    read_only: bool,
}

impl AttachArgs {
    pub async fn run(self, cx: &CliContext) -> Result<ExitCode, Error> {
        let role = if self.read_only {
            ViewerRole::ReadOnly
        } else {
            ViewerRole::Interactive
        };
        crate::attach::attach(cx, self.target.as_deref(), role).await
    }
}
