use std::process::ExitCode;

use fugue_api::{
    Error,
    pane_state::StateSource,
    tools::{GetStatus, GetStatusReply, PaneStatus},
};

use crate::{
    cli::CliContext,
    out::format_age,
    text::StyledText,
    verbs::{self, agent_word, ls::LsArgs, state_word, watcher_word, worker_word},
};

/// Show the state of a pane; without PANE, list everything.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  fugue status build\n  fugue status --json")]
pub struct StatusArgs {
    #[command(flatten)]
    which: GetStatus,
}

impl StatusArgs {
    pub async fn run(self, cx: &CliContext) -> Result<ExitCode, Error> {
        if self.which.pane_id.is_none() {
            return LsArgs {}.run(cx).await;
        }
        let GetStatusReply::Pane(pane) = verbs::call(cx, self.which).await? else {
            return Err(Error::internal("the daemon answered for all panes"));
        };
        if cx.out.is_json() {
            cx.out.document(&pane)?;
        } else {
            show(cx, &pane)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn source_word(by: StateSource) -> String {
    let by = serde_json::to_value(by).ok();
    let word = by.as_ref().and_then(|by| by.as_str());
    word.unwrap_or_default().replace('_', " ")
}

fn show(cx: &CliContext, pane: &PaneStatus) -> Result<(), Error> {
    let (state, tone) = state_word(&pane.state);
    cx.out.line(format!(
        "{}  {}  in {}",
        pane.pane_id, pane.name, pane.session
    ))?;
    let known_by = format!(" (known by {})", source_word(pane.state.by));
    let state = cx.out.toned(&state, tone);
    cx.out
        .line(StyledText::from("  state    ").then(state).then(known_by))?;
    if let Some(agent) = &pane.agent {
        let (state, tone) = agent_word(&pane.state, agent);
        let state = cx.out.toned(&state, tone);
        let known_by = format!(" (known by {})", source_word(agent.by));
        cx.out
            .line(StyledText::from("  agent    ").then(state).then(known_by))?;
        for choice in agent.request.iter().flat_map(|request| &request.choices) {
            cx.out
                .line(format!("             {} {}", choice.key, choice.label))?;
        }
    }
    cx.out.line(format!("  command  {}", pane.command))?;
    cx.out.line(format!("  pid      {}", pane.pid))?;
    cx.out.line(format!("  cwd      {}", pane.cwd))?;
    cx.out
        .line(format!("  size     {}×{}", pane.size.cols, pane.size.rows))?;
    if !pane.title.is_empty() {
        cx.out.line(format!("  title    {}", pane.title))?;
    }
    cx.out
        .line(format!("  quiet    {}", format_age(pane.idle_ms)))?;
    cx.out.line(format!("  created  {}", pane.created_at))?;
    if let Some(worker) = &pane.worker {
        let (state, tone) = worker_word(worker);
        let whose = format!("  worker   {} of {}, ", worker.worker_id, worker.session_id);
        let state = cx.out.toned(&state, tone);
        cx.out.line(StyledText::from(whose).then(state))?;
    }
    if let Some(watcher) = &pane.watcher {
        let (state, tone) = watcher_word(watcher);
        let reason = watcher.reason.as_ref();
        let reason = reason.map_or(String::new(), |reason| format!(": {reason}"));
        let state = cx.out.toned(&state, tone);
        cx.out
            .line(StyledText::from("  watcher  ").then(state).then(reason))?;
    }
    if let Some(note) = &pane.note {
        cx.out.line(format!("  note     {note}"))?;
    }
    Ok(())
}
