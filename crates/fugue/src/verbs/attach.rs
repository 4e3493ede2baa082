use std::process::ExitCode;

use fugue_api::{Error, attach::ViewerRole};
use fugue_tui::AttachEnd;

use crate::cli::Desk;

/// See a session's panes and type into them; C-b d leaves, C-b ? tells the keys.
#[derive(clap::Args, Default)]
pub struct Attach {
    /// Pane or session; default `main`, else the latest.
    #[arg(value_name = "PANE or SESSION")]
    target: Option<String>,
    /// Look on without changing anything.
    #[arg(short, long)]
    read_only: bool,
}

impl Attach {
    pub async fn run(self, desk: &Desk) -> Result<ExitCode, Error> {
        if desk.out.is_json() {
            return Err(Error::invalid("attach is for people: it has no JSON")
                .hint("`fugue read -f --json` follows a pane"));
        }
        let role = if self.read_only {
            ViewerRole::ReadOnly
        } else {
            ViewerRole::Interactive
        };
        let socket = desk.paths.socket();
        match fugue_tui::attach(&desk.client, &socket, self.target.as_deref(), role).await? {
            AttachEnd::Detached => desk.out.note("detached; `fugue attach` comes back"),
            AttachEnd::SessionEmpty => desk.out.note("the session has no pane any more"),
            AttachEnd::Hangup => return Ok(ExitCode::from(129)),
        }
        Ok(ExitCode::SUCCESS)
    }
}
