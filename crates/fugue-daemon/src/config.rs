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
    if !(100..=1_000_000).contains(&settings.keep_lines) {
        return Err(wrong(format!(
            "keep_lines: wanted 100 to 1000000, got {}",
            settings.keep_lines
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
        check("idle_threshold_secs = -1.0", Err("idle_threshold_secs"));
        check("log_cap_bytes = 3", Err("log_cap_bytes"));
        check("not toml", Err("config.toml"));
    }
}
