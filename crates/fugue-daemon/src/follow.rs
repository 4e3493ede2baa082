//! Waits until a live pane has more to read, and gives it. Fed by the pane, not polled.

use fugue_api::{
    Cursor, Error, Kind,
    wire::{Answer, Followed},
};
use tokio::sync::oneshot;

use crate::{
    desk::Responder,
    pane::{PaneCommand, PaneHandle},
};

pub async fn live(handle: PaneHandle, since: Option<Cursor>, raw: bool, responder: Responder) {
    responder.answer(
        wait(handle, since, raw)
            .await
            .map(|more| Answer::Followed { more }),
    );
}

async fn wait(mut handle: PaneHandle, since: Option<Cursor>, raw: bool) -> Result<Followed, Error> {
    let gone = |_| Error::new(Kind::Unavailable, "the pane went away");
    let since = since.as_ref().map(fugue_core::view::cursor).transpose()?;
    loop {
        // Marked as seen before asking, so that whatever comes after the answer wakes us.
        handle.grown.borrow_and_update();
        let (answer, answered) = oneshot::channel();
        handle
            .commands
            .send(PaneCommand::More { since, raw, answer })
            .await
            .map_err(|_| gone(()))?;
        let more = answered.await.map_err(|_| gone(()))??;
        if more.ended || !more.lines.is_empty() || !more.raw.is_empty() {
            return Ok(more);
        }
        handle.grown.changed().await.map_err(|_| gone(()))?;
    }
}
