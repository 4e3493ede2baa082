//! Whose inbox this process has, as its flags, its environment and its directory say.

use std::{
    env,
    path::{Path, PathBuf},
};

use fugue_api::{Error, wire::CallerIdentity};
use fugue_client::{lock::FileLock, paths::UserPaths};

/// What a process is here for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// An agent's own connection, for as long as the agent lives.
    Agent,
    /// One verb of a person or a script.
    Person,
}

pub fn who(said: Option<&str>, role: Role, paths: &UserPaths) -> Result<CallerIdentity, Error> {
    if let Some(id) = said {
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
        Role::Agent => CallerIdentity::Session {
            // Where nothing can be locked, nothing else of fugue works either, and the first call says why.
            id: seat(paths, &project).unwrap_or(project),
        },
        Role::Person => CallerIdentity::Person { project },
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

// More leads than this in one directory at a time share the last inbox.
const MOST_LEADS: u32 = 1_000;

/// The project's own inbox, else the first one beside it that no other lead has. It is ours by a lock that the kernel
/// frees when this process ends, and not before: neither an idle hour nor the death of a daemon gives it to another.
fn seat(paths: &UserPaths, project: &str) -> Result<String, Error> {
    paths.prepare()?;
    let leads = paths.leads();
    let beside = (2..=MOST_LEADS).map(|number| format!("{project}-{number}"));
    let mut last = project.to_owned();
    for inbox in std::iter::once(project.to_owned()).chain(beside) {
        let lock = FileLock::try_lock_file(&leads.join(&inbox))?;
        last = inbox;
        if let Some(lock) = lock {
            // Held for as long as this process lives.
            std::mem::forget(lock);
            break;
        }
    }
    Ok(last)
}

/// A name for the project around us that stays the same: its directory's, and a few letters of the whole path.
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
    // FNV-1a: the same on every machine and in every version.
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
