//! The spool: reports of agents' hooks, kept in files until stored by a daemon, so that a turn that ends while no
//! daemon runs is processed by the next daemon.
//!
//! A hook writes the report to the spool before connecting to a daemon. A running daemon removes the file after storing
//! the report. Otherwise the next daemon finds the file, because a daemon listens before reading the spool. A report
//! that was stored but not yet removed is recognised by its key.

use std::{
    fs,
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::PathBuf,
};

use fugue_api::wire::{CallerIdentity, HookReport, IdempotencyKey};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::paths::UserPaths;

/// The report of a hook.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpooledReport {
    pub who: CallerIdentity,
    pub key: IdempotencyKey,
    #[serde(rename = "news")]
    pub report: HookReport,
    /// CLOCK_BOOTTIME in nanoseconds, which is never set: the end of a turn must not sort before the beginning.
    #[serde(rename = "at")]
    boottime_ns: u64,
}

impl SpooledReport {
    /// Parses the contents of a spool file.
    pub fn parse(text: &[u8]) -> io::Result<Self> {
        Ok(serde_json::from_slice(text)?)
    }
}

/// Writes a report to the spool, to be removed with [`remove_report`].
pub fn store_report(
    paths: &UserPaths,
    who: CallerIdentity,
    key: IdempotencyKey,
    report: HookReport,
) -> io::Result<()> {
    let dir = paths.spool();
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&dir)?;
    let since_boot = clock_gettime(ClockId::Boottime);
    let spooled = SpooledReport {
        who,
        key,
        report,
        boottime_ns: since_boot.tv_sec as u64 * 1_000_000_000 + since_boot.tv_nsec as u64,
    };
    // Renamed when complete, so that no reader finds a partial file.
    let temporary = dir.join(format!("{}{TEMPORARY_SUFFIX}", hex(key)));
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temporary)?;
    file.write_all(&serde_json::to_vec(&spooled)?)?;
    fs::rename(&temporary, report_path(paths, key))
}

const TEMPORARY_SUFFIX: &str = ".draft";

/// Reads all spooled reports, in the order of writing.
pub fn read_reports(paths: &UserPaths) -> Vec<SpooledReport> {
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
                |error| tracing::warn!(path = %path.display(), %error, "hook report cannot be read"),
            )
            .ok()
        })
        .collect();
    found.sort_by_key(|spooled| spooled.boottime_ns);
    found
}

/// Removes a report that is stored, or that concerns no known worker.
pub fn remove_report(paths: &UserPaths, key: IdempotencyKey) {
    match fs::remove_file(report_path(paths, key)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(%error, "hook report cannot be removed");
        }
        Ok(()) | Err(_) => {}
    }
}

fn report_path(paths: &UserPaths, key: IdempotencyKey) -> PathBuf {
    paths.spool().join(hex(key))
}

fn hex(key: IdempotencyKey) -> String {
    key.0.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_kept_in_order_until_they_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let paths = UserPaths {
            state: dir.path().join("state"),
            config: dir.path().join("config.toml"),
        };
        assert_eq!(read_reports(&paths), []);
        let who = CallerIdentity::Session { id: "s".to_owned() };
        let told: Vec<HookReport> = (0..20)
            .map(|number| HookReport::TurnEnded {
                message: format!("turn {number}"),
            })
            .collect();
        for (number, news) in told.iter().enumerate() {
            // Keys are random, so their order has no meaning.
            let key = IdempotencyKey([(number * 91 % 256) as u8; 16]);
            store_report(&paths, who.clone(), key, news.clone()).unwrap();
        }
        fs::write(paths.spool().join("broken"), "{").unwrap();
        let kept = read_reports(&paths);
        let heard: Vec<HookReport> = kept.iter().map(|kept| kept.report.clone()).collect();
        assert_eq!(heard, told);
        for kept in &kept[1..] {
            remove_report(&paths, kept.key);
            remove_report(&paths, kept.key);
        }
        assert_eq!(read_reports(&paths), kept[..1]);
    }
}
