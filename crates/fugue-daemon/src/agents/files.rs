//! What several agents are given in the same form.

use std::{
    fs::OpenOptions,
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use fugue_api::{Error, ErrorKind};
use serde_json::{Value, json};

use super::{Vendor, WorkerAssignment};

/// Writes a file into the worker's directory, for us alone.
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
        .hint("the worker was not started; is there room on the disk?")),
    }
}

/// fugue as an MCP server that knows which worker it serves.
pub fn server(assignment: &WorkerAssignment<'_>) -> Value {
    json!({"command": assignment.fugue, "args": ["mcp"], "env": assignment.identity})
}

/// What a hook runs. Agents hand it to a shell.
pub fn hook_command(assignment: &WorkerAssignment<'_>, vendor: Vendor) -> String {
    let fugue = assignment.fugue.to_string_lossy();
    format!("{} hook {}", quoted(&fugue), vendor.name())
}

/// One word for any shell of the Bourne family.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// A path in an argument. What is not UTF-8 would name another file, and is refused by the agent that cannot find it.
pub fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
