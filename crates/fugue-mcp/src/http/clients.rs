use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// The limit of unauthenticated connections. Real clients authenticate within milliseconds, so at the limit the oldest
/// connection is an abandoned request.
const MAX_UNAUTHENTICATED: usize = 256;

/// The limit of authenticated connections: the agents of a person, each with a few streams.
const MAX_CLIENTS: usize = 512;

/// All connections, authenticated and not.
pub struct Clients {
    /// The oldest first.
    unauthenticated: Mutex<VecDeque<(u64, CancellationToken)>>,
    next: AtomicU64,
    room: Arc<Semaphore>,
}

impl Clients {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            unauthenticated: Mutex::default(),
            next: AtomicU64::new(0),
            room: Arc::new(Semaphore::new(MAX_CLIENTS)),
        })
    }

    /// Adds a connection, and evicts the oldest unauthenticated connection beyond the limit.
    pub fn enter(self: &Arc<Self>) -> Client {
        let client = Client {
            number: self.next.fetch_add(1, Ordering::Relaxed),
            all: self.clone(),
            evicted: CancellationToken::new(),
            admitted: CancellationToken::new(),
            place: OnceLock::new(),
        };
        let mut unauthenticated = self.unauthenticated();
        unauthenticated.push_back((client.number, client.evicted.clone()));
        if unauthenticated.len() > MAX_UNAUTHENTICATED {
            evict(&mut unauthenticated);
        }
        drop(unauthenticated);
        client
    }

    /// Evicts the oldest unauthenticated connection, which frees a file descriptor.
    pub fn evict_unauthenticated(&self) {
        evict(&mut self.unauthenticated());
    }

    fn unauthenticated(&self) -> MutexGuard<'_, VecDeque<(u64, CancellationToken)>> {
        self.unauthenticated
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn forget(&self, number: u64) {
        self.unauthenticated().retain(|(known, _)| *known != number);
    }
}

fn evict(unauthenticated: &mut VecDeque<(u64, CancellationToken)>) {
    if let Some((_, evicted)) = unauthenticated.pop_front() {
        evicted.cancel();
    }
}

/// One connection.
pub struct Client {
    number: u64,
    all: Arc<Clients>,
    /// Cancelled at eviction, before authentication.
    pub evicted: CancellationToken,
    pub admitted: CancellationToken,
    place: OnceLock<OwnedSemaphorePermit>,
}

impl Client {
    /// Marks the connection as authenticated. Returns false at the limit.
    pub fn admit(&self) -> bool {
        if self.place.get().is_some() {
            return true;
        }
        let Ok(place) = self.all.room.clone().try_acquire_owned() else {
            return false;
        };
        // A concurrent second request drops its own permit.
        let _ = self.place.set(place);
        self.all.forget(self.number);
        self.admitted.cancel();
        true
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if self.place.get().is_none() {
            self.all.forget(self.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_unauthenticated_connection_is_evicted_and_an_authenticated_one_never() {
        let clients = Clients::new();
        let client = clients.enter();
        assert!(client.admit() && client.admit());
        let unauthenticated: Vec<_> = (0..MAX_UNAUTHENTICATED + 3)
            .map(|_| clients.enter())
            .collect();
        let evicted = |client: &Client| client.evicted.is_cancelled();
        assert!(!evicted(&client));
        assert!(unauthenticated[..3].iter().all(evicted));
        assert!(!unauthenticated[3..].iter().any(evicted));
        drop(unauthenticated);
        assert!(clients.unauthenticated().is_empty());
    }

    #[test]
    fn clients_are_counted_and_give_their_places_back() {
        let clients = Clients::new();
        let all: Vec<_> = (0..MAX_CLIENTS).map(|_| clients.enter()).collect();
        // Each becomes a client before the next comes.
        assert!(all.iter().all(Client::admit));
        let more = clients.enter();
        assert!(!more.admit());
        drop(all);
        assert!(more.admit());
    }
}
