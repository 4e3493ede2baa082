use crate::{Error, Reply, Request};

/// A way to have a request answered. The socket client is one; every front door (CLI, MCP) uses this and nothing
/// else, so that all doors share one path.
pub trait Handle {
    /// Asks and waits for the answer. Dropping the future cancels the wait; the work goes on.
    fn call(&self, request: Request) -> impl Future<Output = Result<Reply, Error>> + Send;
}
