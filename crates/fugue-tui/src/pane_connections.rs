//! Connections to the pane threads of the daemon: keys and frames of each visible pane go over a separate connection.
//!
//! Until a pane's connection is open (opened after the pane's first frame, never after a refusal) and after the end of the
//! pane, requests go over the client's main connection, with the same idempotency keys, so that nothing is done twice.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use fugue_api::{
    Error, PaneId,
    attach::{AttachRequest, ViewerRole},
    wire::{IdempotencyKey, Request, Response},
};
use fugue_client::client::{Client, FrameStream, PaneConnection};
use tokio::sync::Mutex;

#[derive(Default)]
pub struct PaneConnections {
    /// Empty while a connection is being opened, and after a refusal.
    channels: BTreeMap<PaneId, Arc<OnceLock<Arc<PaneChannel>>>>,
}

/// The connection to a pane, and the frames that arrive.
pub struct PaneChannel {
    connection: PaneConnection,
    views: Mutex<Option<FrameStream>>,
}

impl PaneChannel {
    /// `None`: the connection is closed, and whether the request arrived is unknown. A repetition elsewhere with the same key
    /// does nothing twice.
    pub async fn ask_as(
        &self,
        key: IdempotencyKey,
        request: Request,
    ) -> Option<Result<Response, Error>> {
        let Request::Attach {
            request: AttachRequest::GetFrame { client, seen, .. },
        } = request
        else {
            return self.connection.ask_with_key(key, request).await;
        };
        // A single frame request of a pane at a time.
        let mut views = self.views.lock().await;
        if !views
            .as_ref()
            .is_some_and(|views| views.continues_from(seen))
        {
            *views = Some(self.connection.stream_frames(key, client, seen).await?);
        }
        views.as_mut()?.next().await
    }
}

impl PaneConnections {
    /// The connection for this request, if open. After the first frame of a pane, a connection is opened for later requests.
    pub fn route(
        &mut self,
        request: &Request,
        role: ViewerRole,
        client: &Client,
    ) -> Option<Arc<PaneChannel>> {
        let Request::Attach { request } = request else {
            return None;
        };
        let (pane, seen) = match request {
            AttachRequest::GetFrame { pane, seen, .. } => (*pane, *seen > 0),
            AttachRequest::Type { pane, .. } => (*pane, false),
            AttachRequest::JoinSession { .. }
            | AttachRequest::SetSize { .. }
            | AttachRequest::GetLayout { .. }
            | AttachRequest::ChangeLayout { .. }
            | AttachRequest::StreamFrames { .. }
            | AttachRequest::ConnectPane { .. }
            | AttachRequest::ReadLines { .. }
            | AttachRequest::WatchOverview { .. } => return None,
        };
        match self.channels.get(&pane) {
            Some(open) => {
                let open = open.get()?.clone();
                if open.connection.is_closed() {
                    self.channels.remove(&pane);
                    return None;
                }
                Some(open)
            }
            None if seen => {
                self.open(pane, role, client.clone());
                None
            }
            None => None,
        }
    }

    fn open(&mut self, pane: PaneId, role: ViewerRole, client: Client) {
        let open = Arc::new(OnceLock::new());
        self.channels.insert(pane, open.clone());
        tokio::spawn(async move {
            if let Some(connection) = client.connect_pane(pane, role).await {
                let views = Mutex::default();
                let _ = open.set(Arc::new(PaneChannel { connection, views }));
            }
        });
    }

    /// Closes the connections to other panes.
    pub fn retain(&mut self, is_visible: impl Fn(PaneId) -> bool) {
        self.channels.retain(|pane, _| is_visible(*pane));
    }
}
