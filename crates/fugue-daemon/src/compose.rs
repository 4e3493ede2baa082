//! Completes a run's result with what its panes printed: live panes are asked, ended ones are read from their files.

use std::sync::Arc;

use fugue_api::{Error, Kind, runs::RunResult, wire::Answer};
use fugue_core::{
    Part, Wrap,
    result::{self, Found},
};
use tokio::sync::oneshot;

use crate::{
    archive,
    engine::House,
    pane::{PaneCommand, PaneHandle},
};

pub async fn reply(
    result: RunResult,
    parts: Vec<Option<(Part, Option<PaneHandle>)>>,
    most_chars: usize,
    wrap: Wrap,
    house: Arc<House>,
) -> Result<Answer, Error> {
    // All are asked before the first answer is waited for.
    let parts: Vec<_> = parts
        .into_iter()
        .map(|part| {
            part.map(|(part, handle)| tokio::spawn(found(part, handle, most_chars, house.clone())))
        })
        .collect();
    let mut all = Vec::with_capacity(parts.len());
    for part in parts {
        all.push(match part {
            Some(part) => part.await.ok(),
            None => None,
        });
    }
    // Megabytes of text are measured and cut here, and other calls must not wait for that.
    tokio::task::spawn_blocking(move || Answer::Tool {
        reply: result::complete(result, &all, most_chars, wrap),
    })
    .await
    .map_err(|error| {
        Error::new(
            Kind::Internal,
            format!("the result was not composed: {error}"),
        )
    })
}

async fn found(
    part: Part,
    handle: Option<PaneHandle>,
    most_chars: usize,
    house: Arc<House>,
) -> Found {
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
    tokio::task::spawn_blocking(move || {
        archive::stretch(&part.record, &part.want, most_chars, &house)
    })
    .await
    .unwrap_or(Found {
        clip: None,
        lost_lines: 0,
        end: None,
    })
}
