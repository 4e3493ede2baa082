use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

use crate::ack::AckSlot;

/// A response body that completes the ack of its reply after the last frame, and releases the event if dropped before.
pub struct AckBody<B> {
    body: B,
    slot: AckSlot,
}

impl<B> AckBody<B> {
    pub fn new(body: B, slot: AckSlot) -> Self {
        Self { body, slot }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for AckBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        let is_complete = matches!(frame, Poll::Ready(None))
            || matches!(frame, Poll::Ready(Some(Ok(_)))) && self.body.is_end_stream();
        if is_complete && let Some(ack) = self.slot.close() {
            tokio::spawn(ack.complete());
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B> Drop for AckBody<B> {
    fn drop(&mut self) {
        drop(self.slot.close());
    }
}
