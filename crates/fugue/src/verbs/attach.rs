use std::process::ExitCode;

use fugue_api::{Error, attach::ViewerRole};
use fugue_tui::AttachEnd;

use crate::cli::CliContext;

/// Show the panes of a session and type into them; C-b d detaches, C-b ? lists the keys.
#[derive(clap::Args, Default)]
#[command(after_help = "Examples:\n  fugue attach\n  fugue attach build --read-only")]
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
        if cx.out.is_json() {
            return Err(Error::invalid("attach is for people: it has no JSON")
                .hint("`fugue read -f --json` follows a pane"));
        }
        let role = if self.read_only {
            ViewerRole::ReadOnly
        } else {
            ViewerRole::Interactive
        };
        let socket = cx.paths.socket();
        match fugue_tui::attach(&cx.client, &socket, self.target.as_deref(), role).await? {
            AttachEnd::Detached => cx.out.note("detached; `fugue attach` comes back"),
            AttachEnd::SessionEmpty => cx.out.note("the session has no pane any more"),
            AttachEnd::Hangup => return Ok(ExitCode::from(129)),
        }
        Ok(ExitCode::SUCCESS)
    }
}
