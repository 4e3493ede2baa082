//! Which pane a client's process runs in, as the kernel knows it: by the processes above it, nearest first.
//!
//! A holder is the subreaper of its pane, so that a process which left its parents behind still has the holder above it.
//! Nothing of this is taken from what the client says or has in its environment.

use std::{io, path::Path, sync::OnceLock};

use fugue_api::PaneId;

/// A process, and the pane that it is the holder of.
type ProcessAncestor = (u32, Option<PaneId>);

/// The processes above a connection's peer, when it connected.
#[derive(Debug, Default)]
pub struct ClientOrigin {
    /// From the peer upwards.
    pub ancestors: Vec<ProcessAncestor>,
    /// The pane of the nearest of them, once somebody has looked. Process numbers are used again, so it stays what it was.
    pub pane: OnceLock<Option<PaneId>>,
}

// A peer further down than this is refused, lest depth be a way to lose the pane.
const MAX_ANCESTORS: usize = 4096;
// Each time a process on the way has ended meanwhile, and its children have another parent.
const MAX_RESTARTS: usize = 1000;

impl ClientOrigin {
    /// Walks up from a process. An error: nothing is known, and whoever asked cannot be told from a person.
    pub fn of(peer: i32, panes: &Path) -> io::Result<Self> {
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

/// `None`: a process on the way ended, and the walk begins again.
fn walk(peer: i32, panes: &Path) -> io::Result<Option<Vec<ProcessAncestor>>> {
    let mut ancestors = Vec::new();
    let mut below = None;
    let mut pid = peer;
    // Above the first process there is none, and it is nobody's holder.
    while pid > 1 {
        if ancestors.len() == MAX_ANCESTORS {
            return Err(io::Error::other(format!(
                "more than {MAX_ANCESTORS} processes are above the client"
            )));
        }
        let Some(parent) = fugue_holder::parent_of(pid)? else {
            return match below {
                None => Err(io::Error::other("the client has ended")),
                // Another user's process, hidden from us: none above it is a holder of ours that we could see.
                Some(child) if fugue_holder::parent_of(child)? == Some(pid) => Ok(Some(ancestors)),
                Some(_) => Ok(None),
            };
        };
        let held = fugue_holder::held_directory(pid, panes);
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
        let origin = ClientOrigin::of(own.cast_signed(), panes.path()).unwrap();
        assert_eq!(origin.ancestors[0], (own, None));
        let parent = rustix::process::getppid().unwrap().as_raw_nonzero().get();
        if parent > 1 {
            assert_eq!(origin.ancestors[1], (parent.cast_unsigned(), None));
        }
        assert!(ClientOrigin::of(i32::MAX, panes.path()).is_err());
    }
}
