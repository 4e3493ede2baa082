//! The identity of this process, which decides the inbox: from arguments, environment and directory.

use std::{
    env, fs,
    path::{Path, PathBuf},
    time::Duration,
};

use fugue_api::{Error, wire::CallerIdentity};
use fugue_client::{lock::FileLock, paths::UserPaths};

/// The kind of the calling process.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ProcessRole {
    /// The MCP connection of an agent.
    Agent,
    /// A verb that a person or script runs.
    Person,
}

pub fn caller_identity(
    session_arg: Option<&str>,
    role: ProcessRole,
    paths: &UserPaths,
) -> Result<CallerIdentity, Error> {
    if let Some(id) = session_arg {
        return session("--session", id);
    }
    let variable = |names: [&str; 2]| {
        let found = names.into_iter().find_map(|name| env::var(name).ok());
        found.filter(|value| !value.is_empty())
    };
    let worker = (
        variable(["FUGUE_SESSION_ID", "EXOMONAD_SESSION_ID"]),
        variable(["FUGUE_AGENT_ID", "EXOMONAD_AGENT_ID"]),
    );
    if let (Some(session), Some(agent)) = worker {
        printable("FUGUE_SESSION_ID", &session)?;
        printable("FUGUE_AGENT_ID", &agent)?;
        let pane = env::var("FUGUE_PANE_ID").ok();
        return Ok(CallerIdentity::Worker {
            session,
            agent,
            pane: pane.and_then(|pane| pane.parse().ok()),
        });
    }
    if let Ok(id) = env::var("FUGUE_SESSION")
        && !id.is_empty()
    {
        return session("FUGUE_SESSION", &id);
    }
    let project = project();
    Ok(match role {
        ProcessRole::Agent => CallerIdentity::Session {
            // If locking fails, the first call reports the reason.
            id: lock_inbox(paths, &project).unwrap_or(project),
        },
        ProcessRole::Person => CallerIdentity::Person { project },
    })
}

fn session(field: &str, id: &str) -> Result<CallerIdentity, Error> {
    printable(field, id)?;
    Ok(CallerIdentity::Session { id: id.to_owned() })
}

fn printable(field: &str, id: &str) -> Result<(), Error> {
    let fits =
        !id.trim().is_empty() && id.chars().count() <= 256 && !id.chars().any(char::is_control);
    if fits {
        Ok(())
    } else {
        Err(Error::invalid(format!(
            "{field}: wanted 1 to 256 printable characters, got {id:?}"
        )))
    }
}

// The limit of concurrent leads in a directory. Further leads share the last inbox.
const MAX_LEADS: u32 = 1_000;

// After this time without a lead, a numbered inbox of a conversation is free for others.
const INBOX_REMEMBERED: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Locks an inbox of the project for this process.
fn lock_inbox(paths: &UserPaths, project: &str) -> Result<String, Error> {
    paths.prepare()?;
    let conversation = env::var("CLAUDE_CODE_SESSION_ID").ok();
    let (inbox, lock) = find_inbox(&paths.leads(), project, conversation.as_deref())?;
    // Never dropped: held until the process ends.
    std::mem::forget(lock);
    Ok(inbox)
}

/// The inbox that this conversation had before, else the project's, else the first numbered one after it that no other lead has
/// locked and no other conversation may come back to. The kernel releases a lock when its process ends, independent of idle
/// time and of the daemon. The lock file holds the conversation's id.
fn find_inbox(
    leads: &Path,
    project: &str,
    conversation: Option<&str>,
) -> Result<(String, Option<FileLock>), Error> {
    let beside = (2..=MAX_LEADS).map(|number| format!("{project}-{number}"));
    let inboxes: Vec<String> = std::iter::once(project.to_owned()).chain(beside).collect();
    let owner = |inbox: &str| fs::read_to_string(leads.join(inbox)).ok();
    let known = inboxes
        .iter()
        .map_while(|inbox| Some((inbox, owner(inbox)?)));
    let own = known.filter(|(_, owner)| conversation == Some(owner.as_str()));
    let own: Vec<&String> = own.map(|(inbox, _)| inbox).collect();
    let others = inboxes.iter().filter(|inbox| {
        *inbox == project
            || !owner(inbox).is_some_and(|owner| !owner.is_empty() && is_recent(&leads.join(inbox)))
    });
    let mut last = project;
    for inbox in own.into_iter().chain(others) {
        let file = leads.join(inbox);
        last = inbox;
        if let Some(lock) = FileLock::try_lock_file(&file)? {
            // A conversation that cannot be noted finds its inbox as others do.
            let _ = fs::write(&file, conversation.unwrap_or_default());
            return Ok((inbox.clone(), Some(lock)));
        }
    }
    Ok((last.to_owned(), None))
}

fn is_recent(file: &Path) -> bool {
    let changed = fs::metadata(file).and_then(|found| found.modified());
    let age = changed.ok().and_then(|changed| changed.elapsed().ok());
    age.is_none_or(|age| age < INBOX_REMEMBERED)
}

/// A stable name of the current project: the name of its root directory, and a hash of the path.
fn project() -> String {
    let here = env::var_os("CLAUDE_PROJECT_DIR")
        .map(PathBuf::from)
        .filter(|dir| dir.is_absolute())
        .or_else(|| env::current_dir().ok())
        .unwrap_or_else(|| PathBuf::from("/"));
    let root = here
        .ancestors()
        .find(|dir| dir.join(".git").exists())
        .unwrap_or(&here);
    name_of(&root.canonicalize().unwrap_or_else(|_| root.to_owned()))
}

fn name_of(root: &Path) -> String {
    let name = root.file_name().unwrap_or_default().to_string_lossy();
    let name: String = name
        .chars()
        .map(|c| if c.is_alphanumeric() { c } else { '-' })
        .take(32)
        .collect();
    // FNV-1a, which is the same on every machine and in every version.
    let hash = root
        .as_os_str()
        .as_encoded_bytes()
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
        });
    let name = if name.is_empty() { "root" } else { &name };
    format!("{name}-{:08x}", hash >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_that_is_resumed_gets_its_own_inbox() {
        let dir = tempfile::tempdir().unwrap();
        let find = |conversation: Option<&str>| find_inbox(dir.path(), "x", conversation).unwrap();
        let first = find(Some("a"));
        let second = find(Some("b"));
        assert_eq!((&*first.0, &*second.0), ("x", "x-2"));
        drop((first, second));
        let resumed = find(Some("b"));
        assert_eq!(resumed.0, "x-2");
        // The project's inbox is for whoever works there next.
        let new = find(Some("c"));
        assert_eq!(new.0, "x");
        drop(resumed);
        // The inbox of a conversation that may come back is not given to another one.
        let other = find(None);
        assert_eq!(other.0, "x-3");
        assert_eq!(find(Some("d")).0, "x-4");
        assert_eq!(find(Some("b")).0, "x-2");
        drop((new, other));
        assert_eq!(find(None).0, "x");
    }

    #[test]
    fn a_project_has_a_name_that_stays_and_is_its_own() {
        let name = name_of(Path::new("/home/me/my app"));
        assert!(name.starts_with("my-app-"), "{name}");
        assert_eq!(name, name_of(Path::new("/home/me/my app")));
        assert_ne!(name, name_of(Path::new("/home/you/my app")));
        assert!(name_of(Path::new("/")).starts_with("root-"));
    }
}
