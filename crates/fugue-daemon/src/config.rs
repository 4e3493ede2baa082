//! Reads `config.toml`.

use std::{fs, io, path::Path};

use fugue_api::{Error, Kind};
use fugue_core::settings::Settings;

/// The person's settings, or the defaults where there is no file. A file that cannot be understood is an error: a
/// setting that silently does not hold is worse than a refusal.
pub fn load(path: &Path) -> Result<Settings, Error> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Settings::default()),
        Err(error) => {
            return Err(Error::new(
                Kind::Unavailable,
                format!("{}: {error}", path.display()),
            ));
        }
    };
    let wrong = |said: String| {
        Error::invalid(format!("{}: {}", path.display(), said.trim_end()))
            .hint("`fugue config default` prints every key")
    };
    let settings: Settings = toml::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    for (key, number) in [
        ("idle_threshold_secs", settings.idle_threshold_secs),
        ("draft_wait_secs", settings.draft_wait_secs),
        ("forget_after_hours", settings.forget_after_hours),
    ] {
        if !(0.0..=1e9).contains(&number) {
            return Err(wrong(format!("{key}: wanted 0 or more, got {number}")));
        }
    }
    // One segment must hold at least one read of a terminal.
    let least = 1 << 20;
    if settings.log_cap_bytes < least {
        return Err(wrong(format!(
            "log_cap_bytes: wanted at least {least}, got {}",
            settings.log_cap_bytes
        )));
    }
    // A petabyte is more than any disk and far from overflow.
    let max_mb = 1 << 30;
    for (key, number, range) in [
        ("keep_lines", settings.keep_lines as u64, 100..=1_000_000),
        ("logs_quota_mb", settings.logs_quota_mb, 0..=max_mb),
        (
            "free_disk_floor_mb",
            settings.free_disk_floor_mb,
            0..=max_mb,
        ),
        (
            "inbox_max_events",
            settings.inbox_max_events as u64,
            10..=100_000,
        ),
        // One message of the greatest length must fit.
        (
            "inbox_max_bytes",
            settings.inbox_max_bytes,
            1 << 20..=1 << 30,
        ),
        (
            "client_max_calls",
            settings.client_max_calls as u64,
            16..=65_536,
        ),
        (
            "client_max_unread_bytes",
            settings.client_max_unread_bytes,
            1 << 20..=1 << 32,
        ),
    ] {
        if !range.contains(&number) {
            let (low, high) = range.into_inner();
            return Err(wrong(format!(
                "{key}: wanted {low} to {high}, got {number}"
            )));
        }
    }
    if !(1..=16).contains(&settings.whole_log_readers) {
        return Err(wrong(format!(
            "whole_log_readers: wanted 1 to 16, got {}",
            settings.whole_log_readers
        )));
    }
    settings
        .watch
        .clone()
        .checked()
        .map_err(|error| wrong(format!("watch.{}", error.message)))?;
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<Settings, &str>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.toml");
        fs::write(&path, text).unwrap();
        match (load(&path), expected) {
            (Ok(got), Ok(wanted)) => assert_eq!(got, wanted),
            (Err(error), Err(says)) => assert!(error.message.contains(says), "{error}"),
            (got, wanted) => panic!("{got:?} instead of {wanted:?}"),
        }
    }

    #[test]
    fn a_key_that_means_nothing_is_reported() {
        check("", Ok(Settings::default()));
        check(
            "keep_lines = 500",
            Ok(Settings {
                keep_lines: 500,
                ..Settings::default()
            }),
        );
        check("keep_linez = 500", Err("keep_linez"));
        check("keep_lines = 1", Err("keep_lines"));
        check("whole_log_readers = 0", Err("whole_log_readers"));
        check("idle_threshold_secs = -1.0", Err("idle_threshold_secs"));
        check("log_cap_bytes = 3", Err("log_cap_bytes"));
        check("inbox_max_events = 1", Err("wanted 10 to 100000, got 1"));
        check("inbox_max_bytes = 0", Err("inbox_max_bytes"));
        check("client_max_calls = 0", Err("client_max_calls"));
        check(
            "client_max_unread_bytes = 5",
            Err("client_max_unread_bytes"),
        );
        check("logs_quota_mb = -1", Err("logs_quota_mb"));
        check(
            "free_disk_floor_mb = 99999999999",
            Err("free_disk_floor_mb"),
        );
        check("not toml", Err("config.toml"));
    }
}
