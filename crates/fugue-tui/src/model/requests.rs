//! Open requests: their idempotency keys and purposes, and sending all of them again after a reconnect.

use std::collections::BTreeMap;

use fugue_api::{
    PaneId,
    attach::{AttachRequest, SplitSide},
    tools::PaneSize,
    wire::{IdempotencyKey, Request},
};

use super::ModelEffect;

/// The id of one request of this client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestTicket(pub u64);

/// What a response is used for.
#[derive(Clone, Debug, PartialEq)]
pub enum RequestPurpose {
    Attend,
    Layout,
    View(PaneId),
    Lines(PaneId),
    Grep(PaneId),
    Type(PaneId),
    /// Waits until the overview has a newer version.
    OverviewVersion,
    Overview,
    /// The command that runs in a pane, for its title.
    PaneCommand(PaneId),
    /// The directory of a pane, for the new pane that is split from it.
    SplitCwd {
        of: PaneId,
        side: SplitSide,
    },
    /// The layout change that reserves the position of a new pane, before the pane is created.
    SplitPlace {
        made_by: IdempotencyKey,
        cwd: Option<String>,
    },
    Create,
    Close(PaneId),
    /// Only an error is shown.
    ErrorOnly,
    /// The new size of the pane area; a newer size cancels the request.
    Fit,
}

/// Requests without a response, kept so that all can be sent again to another daemon.
pub struct OpenRequests {
    /// Random, so that two clients never share an idempotency key.
    base: u64,
    count: u64,
    open: BTreeMap<RequestTicket, OpenRequest>,
}

struct OpenRequest {
    key: IdempotencyKey,
    request: Request,
    purpose: RequestPurpose,
}

impl OpenRequests {
    pub fn new(base: u64) -> Self {
        Self {
            base,
            count: 0,
            open: BTreeMap::new(),
        }
    }

    pub fn new_key(&mut self) -> IdempotencyKey {
        self.count += 1;
        let mut key = [0; 16];
        key[..8].copy_from_slice(&self.base.to_le_bytes());
        key[8..].copy_from_slice(&self.count.to_le_bytes());
        IdempotencyKey(key)
    }

    pub fn send(&mut self, purpose: RequestPurpose, request: Request) -> ModelEffect {
        let key = self.new_key();
        self.send_keyed(key, purpose, request)
    }

    pub fn send_keyed(
        &mut self,
        key: IdempotencyKey,
        purpose: RequestPurpose,
        request: Request,
    ) -> ModelEffect {
        self.count += 1;
        let ticket = RequestTicket(self.count);
        let effect = ModelEffect::Request {
            ticket,
            key,
            request: request.clone(),
        };
        self.open.insert(
            ticket,
            OpenRequest {
                key,
                request,
                purpose,
            },
        );
        effect
    }

    pub fn send_attach(&mut self, purpose: RequestPurpose, request: AttachRequest) -> ModelEffect {
        self.send(purpose, Request::Attach { request })
    }

    pub fn is_open(&self, is: impl Fn(&RequestPurpose) -> bool) -> bool {
        self.open.values().any(|open| is(&open.purpose))
    }

    /// Removes a request and returns its purpose; `None` if it was cancelled.
    pub fn close(&mut self, ticket: RequestTicket) -> Option<RequestPurpose> {
        self.open.remove(&ticket).map(|open| open.purpose)
    }

    /// Cancels the requests with these purposes.
    pub fn cancel(&mut self, is: impl Fn(&RequestPurpose) -> bool) -> Vec<ModelEffect> {
        let cancelled: Vec<RequestTicket> = self
            .open
            .iter()
            .filter(|(_, open)| is(&open.purpose))
            .map(|(ticket, _)| *ticket)
            .collect();
        cancelled
            .into_iter()
            .map(|ticket| {
                self.open.remove(&ticket);
                ModelEffect::CancelRequest(ticket)
            })
            .collect()
    }

    /// Updates the size in the open attend request, for the case that it is sent again.
    pub fn set_attend_size(&mut self, to: PaneSize) {
        for open in self.open.values_mut() {
            if let Request::Attach {
                request: AttachRequest::JoinSession { viewport, .. },
            } = &mut open.request
            {
                *viewport = to;
            }
        }
    }

    /// Sends all open requests again with the same keys, so that no call is executed twice. Versions start at 0, because the new
    /// daemon has sent this client nothing yet.
    pub fn resend(&mut self) -> Vec<ModelEffect> {
        let all = self.open.iter_mut();
        all.map(|(ticket, open)| {
            if let Request::Attach {
                request:
                    AttachRequest::GetLayout { seen, .. }
                    | AttachRequest::GetFrame { seen, .. }
                    | AttachRequest::WatchOverview { seen },
            } = &mut open.request
            {
                *seen = 0;
            }
            ModelEffect::Request {
                ticket: *ticket,
                key: open.key,
                request: open.request.clone(),
            }
        })
        .collect()
    }
}
