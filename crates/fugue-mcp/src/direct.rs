//! Most tool calls on stdio are answered here, past rmcp. For each call it makes a task, a context, a tree of the reply and
//! a message of that; here a reply's JSON is put between two pieces of text.
//!
//! What is not a call (the handshake, lists, pings) stays with rmcp, and so does a call with a mistake in its frame.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use fugue_api::{Error, Handed, Handle, Request, Unread};
use rmcp::{
    RoleServer,
    model::{
        ClientNotification, ClientRequest, JsonRpcResponse, JsonRpcVersion2_0, ProtocolVersion,
        RequestId, RequestMetaObject, ResultType, ServerResult,
    },
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    Server,
    calls::Call,
    out::{self, Out},
    wait::{Ear, Progress, Wait},
};

/// One connection's calls, from when rmcp has opened it.
pub struct Direct<H> {
    desk: Arc<Desk<H>>,
    under_way: TaskTracker,
    /// How long a client that opened it with a handshake waits for an answer.
    ceiling: Option<Duration>,
    open: Open,
}

/// Whether the client has heard that it is served, by our half of the handshake or, where there is none, by the answer to
/// its first request. Nothing is answered past rmcp before that.
#[derive(Clone, Default)]
pub struct Open(Arc<AtomicBool>);

impl Open {
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// How a call is to be answered.
struct Terms {
    ceiling: Duration,
    /// Said since 2026-07-28.
    result_type: Option<ResultType>,
}

/// What all calls need.
struct Desk<H> {
    server: Server<H>,
    handle: H,
    out: Out,
    /// How each of them is cancelled. Two calls by one id, which no client should make, share their fate.
    cancels: Mutex<HashMap<RequestId, CancellationToken>>,
}

impl<H: Handle + Clone + Send + Sync + 'static> Direct<H> {
    pub fn new(server: Server<H>, out: Out) -> Self {
        let desk = Desk {
            handle: server.handle_for(None),
            server,
            out,
            cancels: Mutex::default(),
        };
        Self {
            desk: Arc::new(desk),
            under_way: TaskTracker::new(),
            ceiling: None,
            open: Open::default(),
        }
    }

    /// Those that are not answered yet.
    pub fn under_way(&self) -> TaskTracker {
        self.under_way.clone()
    }

    /// Looks at what the client tells rmcp.
    pub fn overhear(&mut self, message: &RxJsonRpcMessage<RoleServer>) {
        match message {
            RxJsonRpcMessage::<RoleServer>::Request(request) => {
                if let ClientRequest::InitializeRequest(hello) = &request.request {
                    let name = &*hello.params.client_info.name;
                    let server = &self.desk.server;
                    // What rmcp makes of a handshake on an open connection, it makes of the calls behind it too.
                    self.ceiling = (!self.open.is_set()).then(|| server.ceiling(Some(name)));
                }
            }
            RxJsonRpcMessage::<RoleServer>::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) =
                    &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                    && let Some(call) = self.desk.cancels().remove(id)
                {
                    call.cancel();
                }
            }
            RxJsonRpcMessage::<RoleServer>::Response(_)
            | RxJsonRpcMessage::<RoleServer>::Error(_) => {}
        }
    }

    /// To be set when this has been written, if it says that the client is served.
    pub fn opened_by(&self, message: &TxJsonRpcMessage<RoleServer>) -> Option<Open> {
        let TxJsonRpcMessage::<RoleServer>::Response(response) = message else {
            return None;
        };
        match response.result {
            ServerResult::InitializeResult(_)
            | ServerResult::ListToolsResult(_)
            | ServerResult::CallToolResult(_) => Some(self.open.clone()),
            _ => None,
        }
    }

    /// Answers the call when its answer is there, or gives it back if it is rmcp's.
    pub fn take(&self, call: Call) -> Option<Call> {
        let Some(terms) = self.terms(&call) else {
            return Some(call);
        };
        let mut cancels = self.desk.cancels();
        let cancelled = cancels.entry(call.id.clone()).or_default().clone();
        let answering = self.desk.clone().answer(call, terms, cancelled);
        // In a box, because tokio moves a task about before it runs, and this one is large.
        self.under_way.spawn(Box::pin(answering));
        None
    }

    fn terms(&self, call: &Call) -> Option<Terms> {
        if !self.open.is_set() || !Request::NAMES.contains(&&*call.params.name) {
            return None;
        }
        match &call.params.meta {
            Some(meta) if is_about_the_protocol(meta) => self.inline_terms(meta),
            _ => Some(Terms {
                ceiling: self.ceiling?,
                result_type: None,
            }),
        }
    }

    /// What rmcp would not refuse: 2026-07-28, and all that it wants to be said with a call.
    fn inline_terms(&self, meta: &RequestMetaObject) -> Option<Terms> {
        let version = ProtocolVersion::V_2026_07_28;
        if meta.protocol_version()? != version || !meta.missing_required_keys(&version).is_empty() {
            return None;
        }
        let server = &self.desk.server;
        let ceiling = match (meta.client_info(), self.ceiling) {
            (Some(client), _) => server.ceiling(Some(&client.name)),
            (None, Some(ceiling)) => ceiling,
            (None, None) => server.ceiling(None),
        };
        Some(Terms {
            ceiling,
            result_type: Some(ResultType::COMPLETE),
        })
    }
}

fn is_about_the_protocol(meta: &RequestMetaObject) -> bool {
    let mut keys = meta.keys();
    keys.any(|key| key.starts_with("io.modelcontextprotocol/"))
}

impl<H: Handle + Clone + Send + Sync + 'static> Desk<H> {
    async fn answer(self: Arc<Self>, call: Call, terms: Terms, cancelled: CancellationToken) {
        let Call { id, params } = call;
        let Terms {
            ceiling,
            result_type,
        } = terms;
        let token = params.meta.and_then(|meta| meta.get_progress_token());
        let wait = Wait {
            ceiling,
            cancelled: cancelled.clone(),
            progress: token.map(|token| Progress {
                token,
                ear: Ear::Stdout(self.out.clone()),
            }),
        };
        let args = params.arguments.unwrap_or_default();
        let answered = async {
            let answer = self.server.answer(&self.handle, &params.name, args, wait);
            let answer = answer.await?;
            // A cancelled call has no response, also while a client that does not read keeps it from being written.
            tokio::select! {
                biased;
                turn = self.out.turn() => Some((answer, turn)),
                () = cancelled.cancelled() => None,
            }
        };
        let answered = answered.await;
        self.cancels().remove(&id);
        let Some((answer, turn)) = answered else {
            return;
        };
        let (line, receipt) = match answer {
            Ok(Handed { reply, receipt }) => (line(id, result_type, Ok(&reply)), receipt),
            Err(error) => (line(id, result_type, Err(&error)), None),
        };
        match line {
            Ok(line) => {
                if turn.write(&line).await.is_ok()
                    && let Some(receipt) = receipt
                {
                    receipt.sign().await;
                }
            }
            Err(error) => tracing::error!(%error, "a reply cannot be written"),
        }
    }

    fn cancels(&self) -> MutexGuard<'_, HashMap<RequestId, CancellationToken>> {
        // Nothing panics while holding it.
        self.cancels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The line that rmcp would have written for [`crate::server::result`].
fn line(
    id: RequestId,
    result_type: Option<ResultType>,
    answer: Result<&Unread, &Error>,
) -> serde_json::Result<Vec<u8>> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct CallResult<'a> {
        #[serde(skip_serializing_if = "Option::is_none")]
        result_type: Option<ResultType>,
        content: [Content<'a>; 1],
        structured_content: &'a RawValue,
        is_error: bool,
    }
    #[derive(Serialize)]
    #[serde(tag = "type", rename = "text")]
    struct Content<'a> {
        text: &'a str,
    }
    let refusal;
    let (facts, is_error) = match answer {
        Ok(reply) => (reply.json(), false),
        Err(error) => {
            refusal = to_raw_value(error)?;
            (&*refusal, true)
        }
    };
    let result = CallResult {
        result_type,
        content: [Content { text: facts.get() }],
        structured_content: facts,
        is_error,
    };
    let jsonrpc = JsonRpcVersion2_0;
    out::line(&JsonRpcResponse {
        jsonrpc,
        id,
        result,
    })
}

#[cfg(test)]
mod tests {
    use fugue_api::{Kind, Reply};
    use serde_json::json;

    use super::*;
    use crate::server::result;

    /// In both eras.
    #[track_caller]
    fn check(id: RequestId, answer: Result<Unread, Error>) {
        for result_type in [None, Some(ResultType::COMPLETE)] {
            let ours = line(id.clone(), result_type.clone(), answer.as_ref()).unwrap();
            let mut theirs = ServerResult::CallToolResult(result(answer.clone()));
            if result_type.is_none() {
                theirs.strip_result_type_for_legacy_peer();
            }
            let theirs = TxJsonRpcMessage::<RoleServer>::response(theirs, id.clone());
            let theirs = serde_json::to_string(&theirs).unwrap() + "\n";
            assert_eq!(String::from_utf8(ours).unwrap(), theirs);
        }
    }

    #[test]
    fn a_reply_is_word_for_word_what_rmcp_would_have_written() {
        let closed = |note: &str| {
            let facts = json!({"pane_id": "p7", "exit_code": 3, "note": note});
            Unread::of(&Reply::ClosePane(serde_json::from_value(facts).unwrap())).unwrap()
        };
        check(RequestId::Number(7), Ok(closed("plain")));
        let strange = "\"quoted\" \\ \u{1b}[1m \0 \n\r\t\u{7f} é 漢 🎼 \u{2028} </script>";
        check(RequestId::String("a \"b\"\n".into()), Ok(closed(strange)));
        let refusal = Error::new(Kind::NotFound, strange);
        check(RequestId::Number(-1), Err(refusal.clone()));
        check(RequestId::Number(0), Err(refusal.hint("try \"this\"")));
    }
}
