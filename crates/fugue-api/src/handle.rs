use std::{fmt, pin::Pin};

use crate::{Error, Reply, Request, Unread};

/// A way to have a request answered. The socket client is one; every front door (CLI, MCP) uses this and nothing
/// else, so that all doors share one path.
pub trait Handle: Sized + Sync {
    /// Asks and waits for the answer. Dropping the future cancels the wait; the work goes on.
    fn call_unread(
        &self,
        request: Request,
    ) -> impl Future<Output = Result<Handed<Unread>, Error>> + Send;

    /// The same, for those who want to know what the answer says.
    fn call(&self, request: Request) -> impl Future<Output = Result<Handed, Error>> + Send {
        async {
            let Handed { reply, receipt } = self.call_unread(request).await?;
            let reply = reply.read()?;
            Ok(Handed { reply, receipt })
        }
    }

    /// The same for the calls of somebody with an inbox of this name.
    fn speaking_for(&self, session: &str) -> Self;
}

/// A reply on its way to whoever asked.
#[derive(Debug)]
pub struct Handed<R = Reply> {
    pub reply: R,
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

impl<R> From<R> for Handed<R> {
    fn from(reply: R) -> Self {
        Self {
            reply,
            receipt: None,
        }
    }
}
