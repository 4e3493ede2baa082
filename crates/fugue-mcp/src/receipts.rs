//! What a reply takes out of an inbox is taken when the reply has been written, and put back when it could not be.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};

use bytes::Bytes;
use fugue_api::Receipt;
use hyper::body::{Body, Frame, SizeHint};
use rmcp::model::RequestId;
use tokio_util::sync::CancellationToken;

/// The receipts of replies on their way to a client on stdout.
#[derive(Clone, Default)]
pub struct Receipts(Arc<Mutex<HashMap<RequestId, Receipt>>>);

impl Receipts {
    /// Kept until the reply is written. A request that is cancelled meanwhile gets no reply.
    pub fn keep(&self, id: RequestId, receipt: Receipt, cancelled: CancellationToken) {
        lock(&self.0).insert(id.clone(), receipt);
        let receipts = self.clone();
        tokio::spawn(async move {
            // Also when the reply goes out; then it has been taken already.
            cancelled.cancelled().await;
            drop(receipts.take(&id));
        });
    }

    pub fn take(&self, id: &RequestId) -> Option<Receipt> {
        lock(&self.0).remove(id)
    }
}

/// The receipt of the one reply to an HTTP request.
#[derive(Clone, Default)]
pub struct Slip(Arc<Mutex<Slot>>);

#[derive(Default)]
enum Slot {
    #[default]
    Empty,
    Full(Receipt),
    /// The reply has gone, or its reader has.
    Over,
}

impl Slip {
    pub fn keep(&self, receipt: Receipt) {
        let mut slot = lock(&self.0);
        if let Slot::Empty = *slot {
            *slot = Slot::Full(receipt);
        }
    }

    fn end(&self) -> Option<Receipt> {
        match std::mem::replace(&mut *lock(&self.0), Slot::Over) {
            Slot::Full(receipt) => Some(receipt),
            Slot::Empty | Slot::Over => None,
        }
    }
}

/// A reply's body that signs when all of it has been written.
pub struct Signed<B> {
    body: B,
    slip: Slip,
}

impl<B> Signed<B> {
    pub fn new(body: B, slip: Slip) -> Self {
        Self { body, slip }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Signed<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        let over = matches!(frame, Poll::Ready(None))
            || matches!(frame, Poll::Ready(Some(Ok(_)))) && self.body.is_end_stream();
        if over && let Some(receipt) = self.slip.end() {
            tokio::spawn(receipt.sign());
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

impl<B> Drop for Signed<B> {
    fn drop(&mut self) {
        // Its reader went away before the end.
        drop(self.slip.end());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
