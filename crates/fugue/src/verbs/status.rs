use std::process::ExitCode;

use fugue_api::{
    Error, ErrorKind,
    panes::{self, GetStatus, PaneStatus},
};

use crate::{
    cli::Desk,
    out::age,
    text::Styled,
    verbs::{self, ls::Ls, state_word, watcher_word, worker_word},
};

/// How a pane is; without one, everything there is.
#[derive(clap::Args)]
pub struct Status {
    #[command(flatten)]
    which: GetStatus,
}

impl Status {
    pub async fn run(self, desk: &Desk) -> Result<ExitCode, Error> {
        if self.which.pane_id.is_none() {
            return Ls {}.run(desk).await;
        }
        let panes::GetStatusReply::Pane(pane) = verbs::call(desk, self.which).await? else {
            return Err(Error::new(
                ErrorKind::Internal,
                "the daemon answered for all panes",
            ));
        };
        if desk.out.is_json() {
            desk.out.document(&pane)?;
        } else {
            show(desk, &pane)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn show(desk: &Desk, pane: &PaneStatus) -> Result<(), Error> {
    let (state, tone) = state_word(&pane.state);
    let by = serde_json::to_value(pane.state.by)
        .ok()
        .and_then(|by| by.as_str().map(str::to_owned))
        .unwrap_or_default();
    desk.out.line(format!(
        "{}  {}  in {}",
        pane.pane_id, pane.name, pane.session
    ))?;
    let known_by = format!(" (known by {})", by.replace('_', " "));
    let state = desk.out.toned(&state, tone);
    desk.out
        .line(Styled::from("  state    ").then(state).then(known_by))?;
    desk.out.line(format!("  command  {}", pane.command))?;
    desk.out.line(format!("  pid      {}", pane.pid))?;
    desk.out.line(format!("  cwd      {}", pane.cwd))?;
    desk.out
        .line(format!("  size     {}×{}", pane.size.cols, pane.size.rows))?;
    if !pane.title.is_empty() {
        desk.out.line(format!("  title    {}", pane.title))?;
    }
    desk.out.line(format!("  quiet    {}", age(pane.idle_ms)))?;
    desk.out.line(format!("  created  {}", pane.created_at))?;
    if let Some(worker) = &pane.worker {
        let (state, tone) = worker_word(worker);
        let whose = format!("  worker   {} of {}, ", worker.worker_id, worker.session_id);
        let state = desk.out.toned(&state, tone);
        desk.out.line(Styled::from(whose).then(state))?;
    }
    if let Some(watcher) = &pane.watcher {
        let (state, tone) = watcher_word(watcher);
        let reason = watcher.reason.as_ref();
        let reason = reason.map_or(String::new(), |reason| format!(": {reason}"));
        let state = desk.out.toned(&state, tone);
        desk.out
            .line(Styled::from("  watcher  ").then(state).then(reason))?;
    }
    if let Some(note) = &pane.note {
        desk.out.line(format!("  note     {note}"))?;
    }
    Ok(())
}
