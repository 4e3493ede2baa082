//! Completes a run's result with what its panes printed: live panes are asked, ended ones are read from their files.

use std::sync::Arc;

use fugue_api::{Error, runs::RunResult, wire::Response};
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
    house: Arc<DaemonContext>,
) -> Result<Response, Error> {
    // All are asked before the first answer is waited for. Whoever no longer waits for the reply stops the asking.
    let mut asked = JoinSet::new();
    let mut all: Vec<Option<PartText>> = Vec::new();
    for (index, part) in parts.into_iter().enumerate() {
        all.push(None);
        if let Some((part, handle)) = part {
            let found = found(part, handle, most_chars, house.clone());
            asked.spawn(async move { (index, found.await) });
        }
    }
    while let Some(found) = asked.join_next().await {
        if let Ok((index, found)) = found {
            all[index] = Some(found);
        }
    }
    // Megabytes of text are measured and cut here, and other calls must not wait for that.
    blocking(move || Response::Tool {
        reply: result::complete(result, &all, most_chars, wrap),
    })
    .await
}

async fn found(
    part: OutputPart,
    handle: Option<PaneHandle>,
    most_chars: usize,
    house: Arc<DaemonContext>,
) -> PartText {
    if let Some(handle) = handle {
        let (answer, answered) = oneshot::channel();
        handle.tell(PaneCommand::Stretch {
            want: part.want.clone(),
            most_chars,
            answer,
        });
        if let Ok(Some(found)) = answered.await {
            return found;
        }
    }
    archive::stretch(part.record, part.want, most_chars, house).await
}
