//! Whether both ends are of the same version.

use std::{fs::File, io::Read, os::unix::fs::MetadataExt};

use fugue_api::{
    Error,
    wire::{PROTOCOL, Welcome},
};

use crate::client::Client;

impl Client {
    /// Why a daemon that runs does not understand this client: another protocol version. `None`: it does, or none runs.
    pub async fn other_protocol(&self) -> Option<Error> {
        let daemon = self.greeting().await?;
        (daemon.protocol != PROTOCOL).then(|| other_protocol_error(&daemon))
    }
}

/// The refusal of a client that speaks another protocol version than the daemon.
pub fn other_protocol_error(daemon: &Welcome) -> Error {
    let Welcome {
        protocol,
        version,
        pid,
    } = daemon;
    let ours = env!("CARGO_PKG_VERSION");
    let is_older = *protocol < PROTOCOL;
    let (age, hint) = match is_older {
        true => (
            "older",
            "`fugue daemon restart` replaces the daemon by this version; panes keep running",
        ),
        false => (
            "newer",
            "use the fugue that started it; an agent's MCP server from before an upgrade has to be started again",
        ),
    };
    Error::unavailable(format!(
        "the running daemon (pid {pid}) is {age}: fugue {version} with protocol {protocol}, while this is fugue {ours} with \
         protocol {PROTOCOL}"
    ))
    .hint(hint)
}

/// Whether a process of this user runs the same program as this process. `None`: its program cannot be read.
///
/// The files are compared by their contents, because a daemon keeps the file that it was started from while an upgrade puts another
/// in its place, and because versions under development have the same number.
pub fn runs_this_program(pid: u32) -> Option<bool> {
    let theirs = File::open(format!("/proc/{pid}/exe")).ok()?;
    let ours = File::open("/proc/self/exe").ok()?;
    let (their_file, our_file) = (theirs.metadata().ok()?, ours.metadata().ok()?);
    if (their_file.dev(), their_file.ino()) == (our_file.dev(), our_file.ino()) {
        return Some(true);
    }
    if their_file.len() != our_file.len() {
        return Some(false);
    }
    equal_contents(theirs, ours)
}

fn equal_contents(mut one: File, mut other: File) -> Option<bool> {
    let (mut ours, mut theirs) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        let length = one.read(&mut ours).ok()?;
        if length == 0 {
            return Some(true);
        }
        other.read_exact(&mut theirs[..length]).ok()?;
        if ours[..length] != theirs[..length] {
            return Some(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Write};

    use super::*;

    #[test]
    fn contents_decide_whatever_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, last: u8| {
            let path = dir.path().join(name);
            let mut bytes = vec![7; 100_000];
            bytes.push(last);
            File::create(&path).unwrap().write_all(&bytes).unwrap();
            File::open(path).unwrap()
        };
        assert_eq!(equal_contents(file("a", 1), file("b", 1)), Some(true));
        assert_eq!(equal_contents(file("a", 1), file("b", 2)), Some(false));
        assert_eq!(runs_this_program(std::process::id()), Some(true));
        assert!(!fs::exists("/proc/0").unwrap());
        assert_eq!(runs_this_program(0), None);
    }
}
