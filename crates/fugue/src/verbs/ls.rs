use std::{
    process::ExitCode,
    time::{SystemTime, UNIX_EPOCH},
};

use fugue_api::{
    Error, Kind, Reply,
    panes::{Overview, Status},
    wire::{Answer, Ask},
};

use crate::{
    cli::Desk,
    out::{Tone, age},
    verbs::state_word,
};

/// List sessions and panes.
#[derive(clap::Args)]
pub struct Ls {}

impl Ls {
    pub async fn run(self, desk: &Desk) -> Result<ExitCode, Error> {
        let overview = match desk.client.ask(Ask::Everything).await? {
            Answer::Tool {
                reply: Reply::GetStatus(Status::All(overview)),
            } => overview,
            other => {
                return Err(Error::new(
                    Kind::Internal,
                    format!("the daemon answered something else: {other:?}"),
                ));
            }
        };
        if desk.out.is_json() {
            desk.out.document(&overview)?;
        } else {
            show(desk, &overview)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn show(desk: &Desk, overview: &Overview) -> Result<(), Error> {
    if overview.panes.is_empty() {
        desk.out.note("no panes; `fugue new` opens one");
        return Ok(());
    }
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as u64);
    let rows: Vec<_> = overview
        .panes
        .iter()
        .map(|pane| {
            vec![
                (pane.pane_id.to_string(), Tone::Plain),
                (pane.session.to_string(), Tone::Plain),
                (pane.name.clone(), Tone::Plain),
                (age(now.saturating_sub(pane.created_at.0)), Tone::Faint),
                state_word(&pane.state),
            ]
        })
        .collect();
    desk.out
        .table(&["PANE", "SESSION", "NAME", "AGE", "STATE"], &rows)
}
