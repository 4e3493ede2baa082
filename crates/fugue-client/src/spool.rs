//! What agents' hooks told of their turns: kept in files until it is in the store of a daemon, so that a turn that ends
//! while no daemon runs is heard of when one does.
//!
//! A hook keeps its news before it looks for a daemon. Either it finds one, which forgets the file when the news is
//! stored, or the next one finds the file, for it listens before it looks. News that were stored and not yet
//! forgotten are told by their key.

use std::{
    fs,
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::PathBuf,
};

use fugue_api::wire::{CallerIdentity, HookReport, IdempotencyKey};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::paths::Paths;

/// News of one hook.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpooledReport {
    pub who: CallerIdentity,
    pub key: IdempotencyKey,
    pub news: HookReport,
    /// In nanoseconds, by a clock that nobody sets: a turn's end must not come before its beginning.
    at: u64,
}

impl SpooledReport {
    /// Parses the contents of a spool file.
    pub fn parse(text: &[u8]) -> io::Result<Self> {
        Ok(serde_json::from_slice(text)?)
    }
}

/// Keeps news until they are forgotten.
pub fn keep(
    paths: &Paths,
    who: CallerIdentity,
    key: IdempotencyKey,
    news: HookReport,
) -> io::Result<()> {
    let dir = paths.spool();
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&dir)?;
    let since_boot = clock_gettime(ClockId::Boottime);
    let kept = SpooledReport {
        who,
        key,
        news,
        at: since_boot.tv_sec as u64 * 1_000_000_000 + since_boot.tv_nsec as u64,
    };
    // Nobody finds it half written.
    let draft = dir.join(format!("{}{DRAFT}", hex(key)));
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&draft)?;
    file.write_all(&serde_json::to_vec(&kept)?)?;
    fs::rename(&draft, path(paths, key))
}

const DRAFT: &str = ".draft";

/// All that is kept, in the order in which it was told.
pub fn all(paths: &Paths) -> Vec<SpooledReport> {
    let Ok(entries) = fs::read_dir(paths.spool()) else {
        return Vec::new();
    };
    let mut found: Vec<SpooledReport> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_none())
        .filter_map(|path| {
            let read = fs::read(&path).and_then(|text| SpooledReport::parse(&text));
            read.inspect_err(
                |error| tracing::warn!(path = %path.display(), %error, "a hook's news cannot be read"),
            )
            .ok()
        })
        .collect();
    found.sort_by_key(|kept| kept.at);
    found
}

/// They are stored, or concern nobody.
pub fn forget(paths: &Paths, key: IdempotencyKey) {
    match fs::remove_file(path(paths, key)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(%error, "a hook's news stay behind");
        }
        Ok(()) | Err(_) => {}
    }
}

fn path(paths: &Paths, key: IdempotencyKey) -> PathBuf {
    paths.spool().join(hex(key))
}

fn hex(key: IdempotencyKey) -> String {
    key.0.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_are_kept_in_order_until_they_are_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths {
            state: dir.path().join("state"),
            config: dir.path().join("config.toml"),
        };
        assert_eq!(all(&paths), []);
        let who = CallerIdentity::Session { id: "s".to_owned() };
        let told: Vec<HookReport> = (0..20)
            .map(|number| HookReport::TurnEnded {
                message: format!("turn {number}"),
            })
            .collect();
        for (number, news) in told.iter().enumerate() {
            // Keys are random, so their order says nothing.
            let key = IdempotencyKey([(number * 91 % 256) as u8; 16]);
            keep(&paths, who.clone(), key, news.clone()).unwrap();
        }
        fs::write(paths.spool().join("broken"), "{").unwrap();
        let kept = all(&paths);
        let heard: Vec<HookReport> = kept.iter().map(|kept| kept.news.clone()).collect();
        assert_eq!(heard, told);
        for kept in &kept[1..] {
            forget(&paths, kept.key);
            forget(&paths, kept.key);
        }
        assert_eq!(all(&paths), kept[..1]);
    }
}
