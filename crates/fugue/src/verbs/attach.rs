use std::process::ExitCode;

use fugue_api::{Error, attach::ViewerRole};

use crate::cli::CliContext;

/// See a session's panes and type into them; C-b d leaves, C-b ? tells the keys.
#[derive(clap::Args, Default)]
pub struct AttachArgs {
    /// Pane or session; default `main`, else the latest.
    #[arg(value_name = "PANE or SESSION")]
    target: Option<String>,
    /// Look on without changing anything.
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
