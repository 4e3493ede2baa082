//! Files and values that several agents are given in the same form.

use std::{
    fs::OpenOptions,
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use fugue_api::{Error, ErrorKind};
use serde_json::{Value, json};

use super::{AgentDriver, WorkerAssignment};

/// Writes a file into the worker's directory, readable for the user only.
pub fn write(dir: &Path, name: &str, text: &str) -> Result<PathBuf, Error> {
    let path = dir.join(name);
    let written = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&path)
        .and_then(|mut file| file.write_all(text.as_bytes()));
    match written {
        Ok(()) => Ok(path),
        Err(error) => Err(Error::new(
            ErrorKind::Unavailable,
            format!("{}: {error}", path.display()),
        )
        .hint("the worker was not started; is the disk full?")),
    }
}

/// The settings of fugue as an MCP server, with the worker's identity as environment.
pub fn server(assignment: &WorkerAssignment<'_>) -> Value {
    json!({"command": assignment.fugue, "args": ["mcp"], "env": assignment.identity})
}

/// The command of a hook, for a shell.
pub fn hook_command(assignment: &WorkerAssignment<'_>, agent: &dyn AgentDriver) -> String {
    let fugue = assignment.fugue.to_string_lossy();
    format!("{} hook {}", quoted(&fugue), agent.name())
}

/// Quotes a word for shells of the Bourne family.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// A path as an argument. A path that is not UTF-8 is changed, and the agent reports that the file does not exist.
pub fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
