use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rmcp::transport::streamable_http_server::session::{
    SessionId, SessionManager, local::LocalSessionManager,
};

/// The limit of sessions, about 60 KB each. Bounds the memory for a client with a new session per call.
const MAX_SESSIONS: usize = 256;

/// rmcp's sessions with the order of their uses. At the limit, the least recently used session is closed; its client receives
/// 404, which in MCP requests a new session.
pub struct Sessions {
    manager: Arc<LocalSessionManager>,
    uses: Arc<Mutex<Uses>>,
}

#[derive(Default)]
struct Uses {
    /// Counts the uses of all sessions.
    clock: u64,
    of: HashMap<SessionId, Use>,
}

#[derive(Default)]
struct Use {
    last: u64,
    /// Requests and streams that are not over.
    open: usize,
}

impl Sessions {
    pub fn new(manager: Arc<LocalSessionManager>) -> Self {
        Self {
            manager,
            uses: Arc::default(),
        }
    }

    /// Counts a request or a stream of a session until the guard is dropped. Returns `None` for an unknown session.
    pub async fn open(&self, id: &str) -> Option<OpenUse> {
        let sessions = self.manager.sessions.read().await;
        let (id, _) = sessions.get_key_value(id)?;
        let mut uses = lock(&self.uses);
        uses.touch(id).open += 1;
        Some(OpenUse {
            id: id.clone(),
            uses: self.uses.clone(),
        })
    }

    /// Closes least recently used sessions until a new session fits.
    pub async fn make_room(&self) {
        loop {
            let oldest = {
                let sessions = self.manager.sessions.read().await;
                let mut uses = lock(&self.uses);
                uses.of.retain(|id, _| sessions.contains_key(id));
                // New sessions, and sessions whose client left before the id was sent.
                for id in sessions.keys() {
                    if !uses.of.contains_key(id) {
                        uses.touch(id);
                    }
                }
                if sessions.len() < MAX_SESSIONS {
                    return;
                }
                uses.oldest()
            };
            let Some(oldest) = oldest else { return };
            tracing::info!("session closed: too many are open, and it was unused for longest");
            if let Err(error) = self.manager.close_session(&oldest).await {
                tracing::debug!(%error, "session not closed well");
            }
        }
    }
}

impl Uses {
    fn touch(&mut self, id: &SessionId) -> &mut Use {
        self.clock += 1;
        let entry = self.of.entry(id.clone()).or_default();
        entry.last = self.clock;
        entry
    }

    /// The least recently used session, if possible without open requests.
    fn oldest(&self) -> Option<SessionId> {
        let oldest = self.of.iter().min_by_key(|(_, u)| (u.open > 0, u.last));
        oldest.map(|(id, _)| id.clone())
    }
}

/// Marks a session as in use until dropped.
pub struct OpenUse {
    id: SessionId,
    uses: Arc<Mutex<Uses>>,
}

impl Drop for OpenUse {
    fn drop(&mut self) {
        let mut uses = lock(&self.uses);
        if uses.of.contains_key(&self.id) {
            let entry = uses.touch(&self.id);
            entry.open = entry.open.saturating_sub(1);
        }
    }
}

fn lock(uses: &Mutex<Uses>) -> MutexGuard<'_, Uses> {
    uses.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_session_that_was_unused_for_longest_makes_room() {
        let manager = Arc::new(LocalSessionManager::default());
        let sessions = Sessions::new(manager.clone());
        let mut ids = Vec::new();
        let mut transports = Vec::new();
        for _ in 0..MAX_SESSIONS {
            sessions.make_room().await;
            let (id, transport) = manager.create_session().await.unwrap();
            ids.push(id);
            transports.push(transport);
        }
        // Notes the last one too.
        let held = sessions.open(&ids[0]).await.unwrap();
        drop(sessions.open(&ids[1]).await);
        assert!(sessions.open("unknown").await.is_none());
        for gone in [2, 3] {
            sessions.make_room().await;
            let left = manager.sessions.read().await;
            assert!(!left.contains_key(&ids[gone]));
            assert_eq!(left.len(), MAX_SESSIONS - 1);
            drop(left);
            let (_, transport) = manager.create_session().await.unwrap();
            transports.push(transport);
        }
        drop(held);
        assert!(manager.sessions.read().await.contains_key(&ids[0]));
    }
}
