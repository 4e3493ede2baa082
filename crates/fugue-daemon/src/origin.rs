//! The ancestors of a client's process, nearest first, with the pane of each holder among them. Core decides which pane the client is in.
//!
//! A holder is the subreaper of its pane, so an orphaned process is still a descendant of the holder. The client's claims and
//! its environment are not used.

use std::{io, path::Path, sync::OnceLock};

use fugue_api::PaneId;

/// A process, and its pane if it is a holder.
type ProcessAncestor = (u32, Option<PaneId>);

/// The ancestor processes of a connection's peer at the time of the connection.
#[derive(Debug, Default)]
pub struct ClientOrigin {
    /// From the peer upwards.
    pub ancestors: Vec<ProcessAncestor>,
    /// The pane of the nearest holder, cached after the first search because process ids are reused.
    pub pane: OnceLock<Option<PaneId>>,
}

// A peer with more ancestors is refused, so that a deep process tree is no way to escape from the pane.
const MAX_ANCESTORS: usize = 4096;
// The walk restarts when an ancestor has ended meanwhile, because its children have another parent then.
const MAX_RESTARTS: usize = 1000;

impl ClientOrigin {
    /// Walks up from a process. After an error the client must be refused: it could not be distinguished from a person.
    pub fn from_peer(peer: i32, panes: &Path) -> io::Result<Self> {
        for _ in 0..MAX_RESTARTS {
            if let Some(ancestors) = walk(peer, panes)? {
                let pane = OnceLock::new();
                return Ok(Self { ancestors, pane });
            }
        }
        Err(io::Error::other(
            "the processes above the client do not stand still",
        ))
    }
}

/// `None` if an ancestor ended during the walk, which then restarts.
fn walk(peer: i32, panes: &Path) -> io::Result<Option<Vec<ProcessAncestor>>> {
    let mut ancestors = Vec::new();
    let mut below = None;
    let mut pid = peer;
    // Process 1 has no parent and is no holder.
    while pid > 1 {
        if ancestors.len() == MAX_ANCESTORS {
            return Err(io::Error::other(format!(
                "more than {MAX_ANCESTORS} processes are above the client"
            )));
        }
        let Some(parent) = fugue_holder::parent_pid(pid)? else {
            return match below {
                None => Err(io::Error::other("the client has ended")),
                // A process of another user, hidden by the mount options of /proc: no visible holder is above it.
                Some(child) if fugue_holder::parent_pid(child)? == Some(pid) => Ok(Some(ancestors)),
                Some(_) => Ok(None),
            };
        };
        let held = fugue_holder::find_held_directory(pid, panes);
        let pane = held.and_then(|dir| dir.file_name()?.to_str()?.parse().ok());
        ancestors.push((pid.cast_unsigned(), pane));
        below = Some(pid);
        pid = parent;
    }
    Ok(Some(ancestors))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processes_above_a_client_are_found_and_one_that_has_ended_is_refused() {
        let panes = tempfile::tempdir().unwrap();
        let own = std::process::id();
        let origin = ClientOrigin::from_peer(own.cast_signed(), panes.path()).unwrap();
        assert_eq!(origin.ancestors[0], (own, None));
        let parent = rustix::process::getppid().unwrap().as_raw_nonzero().get();
        if parent > 1 {
            assert_eq!(origin.ancestors[1], (parent.cast_unsigned(), None));
        }
        assert!(ClientOrigin::from_peer(i32::MAX, panes.path()).is_err());
    }
}
