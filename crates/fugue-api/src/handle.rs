use std::{fmt, pin::Pin};

use crate::{Error, Reply, Request};

/// A way to have a request answered. The socket client is one; every front door (CLI, MCP) uses this and nothing
/// else, so that all doors share one path.
pub trait Handle: Sized {
    /// Asks and waits for the answer. Dropping the future cancels the wait; the work goes on.
    fn call(&self, request: Request) -> impl Future<Output = Result<Handed, Error>> + Send;

    /// The same for the calls of somebody with an inbox of this name.
    fn speaking_for(&self, session: &str) -> Self;
}

/// A reply on its way to whoever asked.
#[derive(Debug)]
pub struct Handed {
    pub reply: Reply,
    /// Of a reply that takes something out of an inbox.
    pub receipt: Option<Receipt>,
}

/// To be signed when the reply has reached whoever asked. Dropped without that, what the reply took is put back.
pub struct Receipt(Pin<Box<dyn Future<Output = ()> + Send>>);

impl Receipt {
    /// `signed` says where it belongs that the reply arrived; dropped before, it puts back.
    pub fn new(signed: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(Box::pin(signed))
    }

    /// Returns when that is on record.
    pub async fn sign(self) {
        self.0.await;
    }
}

impl fmt::Debug for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Receipt")
    }
}

impl From<Reply> for Handed {
    fn from(reply: Reply) -> Self {
        Self {
            reply,
            receipt: None,
        }
    }
}
