//! Reads `config.toml`, and describes settings: with their comments, as rows with their sources, and as changes.

mod default_file;
mod report;

use std::{
    collections::BTreeSet, fs, io, io::Read, ops::Deref, os::unix::fs::MetadataExt, path::Path,
};

use fugue_api::{Error, ErrorKind, nearest};
use fugue_core::settings::Settings;
use schemars::Schema;

pub use default_file::default_file;
pub use report::{changes, report};

/// The settings, and which of their keys the file sets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadedSettings {
    pub settings: Settings,
    /// With dots, as in a report: `watch.tail_lines`.
    keys_in_file: BTreeSet<String>,
}

impl Deref for LoadedSettings {
    type Target = Settings;

    fn deref(&self) -> &Settings {
        &self.settings
    }
}

/// The user's settings, or the defaults without a file. A file that cannot be parsed is an error, because a setting that
/// is silently ignored is worse than a refusal. A file that other users can write is an error too, because the settings name programs
/// to run.
pub fn load(path: &Path) -> Result<LoadedSettings, Error> {
    let unreadable = |error: io::Error| {
        Error::new(
            ErrorKind::Unavailable,
            format!("{}: {error}", path.display()),
        )
    };
    let mut file = match fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(LoadedSettings::default());
        }
        Err(error) => return Err(unreadable(error)),
    };
    // The metadata of the opened file, so that the checked file is the file that is read.
    only_ours(path, &file.metadata().map_err(unreadable)?)?;
    // A symbolic link may lead to another directory; write permission in either directory is enough to replace the file.
    let target = fs::canonicalize(path).map_err(unreadable)?;
    for dir in [path.parent(), target.parent()].into_iter().flatten() {
        only_ours(dir, &fs::metadata(dir).map_err(unreadable)?)?;
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(unreadable)?;
    let settings = parse(path, &text)?;
    // The text is TOML, as it was parsed a moment ago.
    let table = text.parse::<toml::Table>().unwrap_or_default();
    let keys = report::dotted(&serde_json::to_value(table).unwrap_or_default());
    let keys_in_file = keys.into_iter().map(|(key, _)| key).collect();
    Ok(LoadedSettings {
        settings,
        keys_in_file,
    })
}

/// The schema of `config.toml`.
pub fn schema() -> Schema {
    let mut settings = schemars::generate::SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    settings.into_generator().into_root_schema_for::<Settings>()
}

/// The first key of a file that no setting has, with its table, and the key that was probably meant.
fn unknown_key(text: &str) -> Option<(String, Option<String>)> {
    const OF_AGENT: [&str; 2] = ["command", "env"];
    let table = text.parse::<toml::Table>().ok()?;
    let defaults = serde_json::to_value(Settings::default()).ok()?;
    let known: Vec<String> = [("", &defaults), ("watch.", &defaults["watch"])]
        .into_iter()
        .flat_map(|(table, keys)| {
            keys.as_object()
                .into_iter()
                .flatten()
                .map(move |(key, _)| format!("{table}{key}"))
        })
        .collect();
    let known = || known.iter().map(String::as_str);
    for (key, value) in &table {
        let inner = value.as_table().into_iter().flatten();
        let unknown = match key.as_str() {
            "agents" => {
                let fields = inner.flat_map(|(name, agent)| {
                    let fields = agent.as_table().into_iter().flatten();
                    fields.map(move |(field, _)| (name, field))
                });
                let mut unknown = fields.filter(|(_, field)| !OF_AGENT.contains(&field.as_str()));
                if let Some((name, field)) = unknown.next() {
                    let near = nearest(field, OF_AGENT).map(str::to_owned);
                    return Some((format!("agents.{name}.{field}"), near));
                }
                continue;
            }
            "watch" => inner
                .map(|(key, _)| format!("watch.{key}"))
                .find(|key| known().all(|name| name != key)),
            key => known().all(|name| name != key).then(|| key.to_owned()),
        };
        if let Some(unknown) = unknown {
            let near = nearest(&unknown, known()).map(str::to_owned);
            return Some((unknown, near));
        }
    }
    None
}

/// Parses the text of the file at `path`, which errors name.
pub(crate) fn parse(path: &Path, text: &str) -> Result<Settings, Error> {
    let wrong = |said: String| {
        Error::invalid(format!("{}: {}", path.display(), said.trim_end()))
            .hint("`fugue config default` prints every key")
    };
    let settings: Settings = toml::from_str(text).map_err(|error| {
        // The parser lists every key that it knows; the nearest one helps more.
        match unknown_key(text).filter(|_| error.message().starts_with("unknown field")) {
            None => wrong(error.to_string()),
            Some((key, near)) => {
                let start = error.span().map_or(0, |span| span.start);
                let line = text
                    .bytes()
                    .take(start)
                    .filter(|byte| *byte == b'\n')
                    .count()
                    + 1;
                let error = wrong(format!("line {line}: no setting is called `{key}`"));
                match near {
                    Some(near) => error.hint(format!(
                        "the nearest key is `{near}`; `fugue config default` prints every key"
                    )),
                    None => error,
                }
            }
        }
    })?;
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

/// Refuses a file or directory that users other than this one and root can write. In a sticky directory, files of this user
/// cannot be replaced by other users.
fn only_ours(path: &Path, about: &fs::Metadata) -> Result<(), Error> {
    const GROUP_OR_OTHERS_WRITE: u32 = 0o022;
    const STICKY: u32 = 0o1000;
    let shown = path.display();
    let us = rustix::process::geteuid().as_raw();
    if ![us, 0].contains(&about.uid()) {
        return Err(Error::invalid(format!(
            "{shown} belongs to the user with id {}; settings are taken only from files of yours",
            about.uid()
        ))
        .hint(format!("`sudo chown {us} {}` makes it yours", quoted(path))));
    }
    let is_sticky = about.is_dir() && about.mode() & STICKY != 0;
    if about.mode() & GROUP_OR_OTHERS_WRITE != 0 && !is_sticky {
        return Err(Error::invalid(format!(
            "{shown} may be written by others; settings are taken only from files of yours"
        ))
        .hint(format!("`chmod go-w {}` takes that away", quoted(path))));
    }
    Ok(())
}

/// A path, quoted for a shell.
fn quoted(path: &Path) -> String {
    let path = path.to_string_lossy();
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+@".contains(c);
    if path.chars().all(is_plain) {
        return path.into_owned();
    }
    format!("'{}'", path.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    #[test]
    fn settings_that_others_may_write_are_refused_with_the_cure() {
        let dir = tempfile::tempdir().unwrap();
        let ours = dir.path().join("it's ours");
        let link = dir.path().join("link");
        fs::create_dir(&ours).unwrap();
        fs::create_dir(&link).unwrap();
        let file = ours.join("config.toml");
        fs::write(&file, "keep_lines = 500").unwrap();
        symlink(&file, link.join("config.toml")).unwrap();
        let chmod = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        for (file_mode, dir_mode, link_mode, cure) in [
            (0o644, 0o755, 0o755, None),
            (0o600, 0o700, 0o700, None),
            (0o644, 0o1777, 0o755, None),
            (0o664, 0o755, 0o755, Some(&file)),
            (0o646, 0o755, 0o755, Some(&file)),
            (0o644, 0o775, 0o755, Some(&ours)),
            (0o644, 0o757, 0o755, Some(&ours)),
            (0o644, 0o755, 0o777, Some(&link)),
        ] {
            chmod(&file, file_mode);
            chmod(&ours, dir_mode);
            chmod(&link, link_mode);
            let loaded = load(&link.join("config.toml"));
            let Some(cure) = cure else {
                assert_eq!(loaded.unwrap().keep_lines, 500);
                continue;
            };
            let error = loaded.unwrap_err();
            assert!(
                error.message.contains("may be written by others"),
                "{error}"
            );
            let hint = error.hint.unwrap();
            let command = hint.split('`').nth(1).unwrap();
            // The file is named as the person knows it.
            let named = match cure == &file {
                true => link.join("config.toml"),
                false => cure.clone(),
            };
            assert!(command.starts_with("chmod go-w "), "{hint}");
            assert!(command.contains(&*quoted(&named)), "{hint}");
        }
    }

    #[test]
    fn settings_of_another_user_are_refused() {
        // Only root can give a file away.
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.toml");
        fs::write(&file, "").unwrap();
        if chown(&file, Some(4242), None).is_ok() {
            let error = load(&file).unwrap_err();
            assert!(error.message.contains("user with id 4242"), "{error}");
            chown(&file, Some(rustix::process::geteuid().as_raw()), None).unwrap();
            chown(dir.path(), Some(4242), None).unwrap();
            let error = load(&file).unwrap_err();
            assert!(error.message.contains("user with id 4242"), "{error}");
        }
    }

    fn check(text: &str, expected: Result<Settings, &str>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.toml");
        fs::write(&path, text).unwrap();
        match (load(&path), expected) {
            (Ok(got), Ok(wanted)) => assert_eq!(got.settings, wanted),
            (Err(error), Err(says)) => assert!(error.message.contains(says), "{error}"),
            (got, wanted) => panic!("{got:?} instead of {wanted:?}"),
        }
    }

    #[test]
    fn an_unknown_key_is_refused_with_its_line_and_the_nearest_one() {
        for (text, line, key, near) in [
            ("keep_linez = 500", 1, "keep_linez", Some("`keep_lines`")),
            (
                "\n# x\ntail_lines = 5",
                3,
                "tail_lines",
                Some("`watch.tail_lines`"),
            ),
            (
                "[watch]\nasess_model = 'x'",
                2,
                "watch.asess_model",
                Some("`watch.assess_model`"),
            ),
            (
                "[agents.a]\ncommand = ['x']\nenvv = {}",
                3,
                "agents.a.envv",
                Some("`env`"),
            ),
            ("colour = true", 1, "colour", None),
            ("[[watch.lines]]", 1, "watch.lines", None),
        ] {
            let error = parse(Path::new("/c.toml"), text).unwrap_err();
            assert_eq!(
                error.message,
                format!("/c.toml: line {line}: no setting is called `{key}`")
            );
            let hint = error.hint.unwrap();
            match near {
                Some(near) => assert!(
                    hint.contains(&format!("the nearest key is {near}")),
                    "{hint}"
                ),
                None => assert!(!hint.contains("nearest"), "{hint}"),
            }
        }
        // Another mistake in front of an unknown key keeps its own words.
        let error = parse(Path::new("/c.toml"), "keep_lines = 'x'\nz = 1").unwrap_err();
        assert!(error.message.contains("invalid type"), "{error}");
    }

    #[test]
    fn ranges_in_the_schema_equal_the_checked_ranges() {
        let schema = schema();
        let mut checked = 0;
        let mut check = |table: &str, properties: &serde_json::Value| {
            for (key, property) in properties.as_object().unwrap() {
                let is_whole = property["type"] == "integer";
                let number = |n: f64| match is_whole {
                    true => format!("{}", n as i128),
                    false => format!("{n:?}"),
                };
                let refused = |n: f64| {
                    let text = format!("{table}{key} = {}", number(n));
                    parse(Path::new("/c.toml"), &text).is_err()
                };
                let step = if is_whole { 1.0 } else { 0.001 };
                if let Some(least) = property["minimum"].as_f64() {
                    assert!(
                        !refused(least) && refused(least - step),
                        "{key} from {least}"
                    );
                    checked += 1;
                }
                if let Some(most) = property["maximum"].as_f64().filter(|most| *most < 1e15) {
                    assert!(!refused(most) && refused(most + step), "{key} to {most}");
                    checked += 1;
                }
            }
        };
        let schema = schema.as_value();
        check("", &schema["properties"]);
        check("[watch]\n", &schema["properties"]["watch"]["properties"]);
        assert!(checked >= 30, "{checked}");
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
