//! Completes a run's result with the output of its panes, from live panes' terminals or from the files of ended ones.

use std::sync::Arc;

use fugue_api::{Error, run_result::RunResult, wire::Response};
use fugue_core::{
    OutputPart, ReplyFormat,
    result::{self, PartText},
};
use tokio::{sync::oneshot, task::JoinSet};

use crate::{
    archive,
    engine::DaemonContext,
    pane::{PaneCommand, PaneHandle},
    whole::blocking,
};

pub async fn reply(
    result: RunResult,
    parts: Vec<Option<(OutputPart, Option<PaneHandle>)>>,
    most_chars: usize,
    wrap: ReplyFormat,
    daemon: Arc<DaemonContext>,
) -> Result<Response, Error> {
    let mut texts: Vec<Option<PartText>> = Vec::new();
    texts.resize_with(parts.len(), || None);
    // A result without output, such as a match of an expect, needs no file and no other thread.
    if parts.iter().all(Option::is_none) {
        let reply = result::complete(result, &texts, most_chars, wrap);
        return Ok(Response::Tool { reply });
    }
    // Every output is requested before the first one is awaited. A cancelled reply drops the requests.
    let mut requests = JoinSet::new();
    for (index, part) in parts.into_iter().enumerate() {
        if let Some((part, handle)) = part {
            let text = part_text(part, handle, most_chars, daemon.clone());
            requests.spawn(async move { (index, text.await) });
        }
    }
    while let Some(done) = requests.join_next().await {
        if let Ok((index, text)) = done {
            texts[index] = Some(text);
        }
    }
    // Megabytes of text are measured and cut here, which must not delay other calls.
    blocking(move || Response::Tool {
        reply: result::complete(result, &texts, most_chars, wrap),
    })
    .await
}

/// The output of one part, from the terminal of its live pane if that has all of it, else from the files.
async fn part_text(
    part: OutputPart,
    handle: Option<PaneHandle>,
    max_chars: usize,
    daemon: Arc<DaemonContext>,
) -> PartText {
    if let Some(handle) = handle {
        let (reply, answered) = oneshot::channel();
        handle.send(PaneCommand::ReadRange {
            range: part.want.clone(),
            max_chars,
            reply,
        });
        if let Ok(Some(text)) = answered.await {
            return text;
        }
    }
    archive::read_range(part.record, part.want, max_chars, daemon).await
}
