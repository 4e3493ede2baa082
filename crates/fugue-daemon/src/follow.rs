//! Follows the output of a live pane: waits on the pane's growth channel, without polling, and returns new output.

use fugue_api::{
    Error, ErrorKind,
    wire::{OutputChunk, Response},
};
use tokio::sync::oneshot;

use crate::{
    pane::{PaneCommand, PaneHandle},
    pending_calls::Responder,
};

pub async fn live(handle: PaneHandle, from: u64, responder: Responder) {
    let chunk = wait(handle, from).await;
    responder.answer(chunk.map(|chunk| Response::Output { chunk }));
}

async fn wait(mut handle: PaneHandle, from: u64) -> Result<OutputChunk, Error> {
    let gone = || Error::new(ErrorKind::Unavailable, "the pane went away");
    loop {
        // The growth is marked as seen before the request, so that output after the reply wakes this loop.
        handle.grown.borrow_and_update();
        let (answer, answered) = oneshot::channel();
        let question = PaneCommand::ReadOutput {
            from,
            reply: answer,
        };
        handle.commands.send(question).await.map_err(|_| gone())?;
        let more = answered.await.map_err(|_| gone())??;
        if more.ended || !more.raw.is_empty() {
            return Ok(more);
        }
        handle.grown.changed().await.map_err(|_| gone())?;
    }
}
