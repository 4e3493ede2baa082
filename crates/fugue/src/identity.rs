//! The identity of this process, which decides the inbox: from arguments, environment and directory.

use std::{
    env,
    path::{Path, PathBuf},
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

/// Locks the inbox of the project, or the first numbered one after it that no other lead has locked. The kernel releases
/// the lock when this process ends, independent of idle time and of the daemon.
fn lock_inbox(paths: &UserPaths, project: &str) -> Result<String, Error> {
    paths.prepare()?;
    let leads = paths.leads();
    let beside = (2..=MAX_LEADS).map(|number| format!("{project}-{number}"));
    let mut last = project.to_owned();
    for inbox in std::iter::once(project.to_owned()).chain(beside) {
        let lock = FileLock::try_lock_file(&leads.join(&inbox))?;
        last = inbox;
        if let Some(lock) = lock {
            // Never dropped: held until the process ends.
            std::mem::forget(lock);
            break;
        }
    }
    Ok(last)
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
    fn a_project_has_a_name_that_stays_and_is_its_own() {
        let name = name_of(Path::new("/home/me/my app"));
        assert!(name.starts_with("my-app-"), "{name}");
        assert_eq!(name, name_of(Path::new("/home/me/my app")));
        assert_ne!(name, name_of(Path::new("/home/you/my app")));
        assert!(name_of(Path::new("/")).starts_with("root-"));
    }
}
