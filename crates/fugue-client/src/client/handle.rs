//! Tool calls by a client of the daemon.

use fugue_api::{
    Delivery, Error, EventAck, Handle, QuestionId, RawReply, ToolCall,
    overview::QuestionRow,
    wire::{CallerIdentity, Request, Response},
};

use super::Client;

impl Handle for Client {
    fn for_session(&self, session: &str) -> Self {
        Self {
            inner: self.inner.clone(),
            who: Some(CallerIdentity::Session {
                id: session.to_owned(),
            }),
        }
    }

    fn for_person(&self) -> Self {
        let project = match self.identity() {
            CallerIdentity::Session { id } => id,
            CallerIdentity::Person { project } => project,
            CallerIdentity::Worker { session, .. } => session,
        };
        Self {
            inner: self.inner.clone(),
            who: Some(CallerIdentity::Person { project }),
        }
    }

    async fn questions(&self, known: Vec<QuestionId>) -> Result<Vec<QuestionRow>, Error> {
        let known = Some(known);
        match self.ask(Request::Questions { known }).await? {
            Response::Questions { questions } => Ok(questions),
            other => Err(Error::unexpected(&other)),
        }
    }

    async fn call_raw(&self, request: ToolCall) -> Result<Delivery<RawReply>, Error> {
        let (received, in_flight) = self
            .ask_with_retries(Request::Tool { call: request })
            .await?;
        match received.response? {
            Response::Tool { reply } => {
                let client = self.clone();
                let ack = received.leased_event.map(|event| {
                    let connection = in_flight.connection.outgoing.clone();
                    let ack = EventAck::new(async move {
                        // If no daemon can be reached, the event stays unacknowledged and is delivered to the next
                        // waiter.
                        if client.ask(Request::AckEvent { event }).await.is_ok() {
                            in_flight.forget();
                        }
                    });
                    ack.lost_after(async move { connection.closed().await })
                });
                Ok(Delivery { reply, ack })
            }
            other => Err(Error::unexpected(&other)),
        }
    }
}
