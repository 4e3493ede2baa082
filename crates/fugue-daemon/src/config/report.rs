//! Settings as rows: a key, its value, and where it comes from; and the changes of a reload.

use std::path::Path;

use fugue_api::{
    Error,
    settings::{SettingChange, SettingRow, SettingScope, SettingSource, SettingsReport},
    wire::SettingNames,
};
use fugue_core::{assess::WatchSettings, settings::Settings};
use serde_json::Value;

use super::LoadedSettings;

/// The settings in force for a caller with these environment variables.
pub fn report(
    file: &Path,
    loaded: &LoadedSettings,
    names: SettingNames,
    lookup: impl Fn(&str) -> Option<String>,
) -> Result<SettingsReport, Error> {
    let variables = WatchSettings::overridden_keys(names, &lookup);
    let settings = Settings {
        watch: loaded.watch.clone().overlaid(names, lookup)?,
        ..loaded.settings.clone()
    };
    let row = |(key, value): (String, Value)| {
        let name = key.strip_prefix("watch.").unwrap_or("");
        let variable = variables.iter().find(|(row, _)| row == name);
        let source = match variable {
            Some(_) => SettingSource::Environment,
            None if loaded.keys_in_file.contains(&key) => SettingSource::File,
            None => SettingSource::Default,
        };
        SettingRow {
            variable: variable.map(|(_, name)| name.clone()),
            key,
            value,
            source,
        }
    };
    Ok(SettingsReport {
        file: file.to_string_lossy().into_owned(),
        settings: rows_of(&settings).into_iter().map(row).collect(),
    })
}

impl LoadedSettings {
    /// The settings in force after the file was read again: those of the file, except for what only the next daemon takes.
    pub fn after_reload(&self, read: Self) -> Self {
        Self {
            settings: Settings {
                whole_log_readers: self.whole_log_readers,
                client_max_calls: self.client_max_calls,
                client_max_unread_bytes: self.client_max_unread_bytes,
                ..read.settings
            },
            keys_in_file: read.keys_in_file,
        }
    }
}

/// The values that differ, by key.
pub fn changes(old: &Settings, new: &Settings) -> Vec<SettingChange> {
    let (old, new) = (rows_of(old), rows_of(new));
    let value = |rows: &[(String, Value)], key: &str| {
        let found = rows.iter().find(|(name, _)| name == key);
        found.map_or(Value::Null, |(_, value)| value.clone())
    };
    let gone = old
        .iter()
        .filter(|(key, _)| new.iter().all(|(name, _)| name != key));
    let keys = new.iter().chain(gone).map(|(key, _)| key);
    keys.map(|key| SettingChange {
        key: key.clone(),
        old: value(&old, key),
        new: value(&new, key),
        holds: scope(key),
    })
    .filter(|change| change.old != change.new)
    .collect()
}

/// What a changed setting holds for. Keys that are not listed are read whenever they are needed.
fn scope(key: &str) -> SettingScope {
    match key {
        "log_cap_bytes" | "keep_lines" => SettingScope::NewPanes,
        "whole_log_readers" | "client_max_calls" | "client_max_unread_bytes" => {
            SettingScope::NextDaemon
        }
        _ if key.starts_with("watch.") => SettingScope::NewWatchers,
        _ => SettingScope::Now,
    }
}

fn rows_of(settings: &Settings) -> Vec<(String, Value)> {
    dotted(&serde_json::to_value(settings).unwrap_or_default())
}

/// The values of a table and of the tables in it, with dotted keys. An empty table is no value.
pub(super) fn dotted(table: &Value) -> Vec<(String, Value)> {
    let Value::Object(entries) = table else {
        return Vec::new();
    };
    let mut rows = Vec::new();
    for (key, value) in entries {
        match value {
            Value::Object(_) => rows.extend(
                dotted(value)
                    .into_iter()
                    .map(|(inner, value)| (format!("{key}.{inner}"), value)),
            ),
            value => rows.push((key.clone(), value.clone())),
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;
    use crate::config;

    fn loaded(text: &str) -> LoadedSettings {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.toml");
        fs::write(&path, text).unwrap();
        config::load(&path).unwrap()
    }

    #[test]
    fn every_value_says_where_it_comes_from() {
        let loaded = loaded(
            "keep_lines = 10000\n[watch]\ntail_lines = 20\nmodel = 'ollama:q'\n\
             [agents.a]\ncommand = ['x', 'y']\nenv = {K = 'v'}\n",
        );
        let lookup = |name: &str| (name == "FUGUE_TAIL_LINES").then(|| "30".to_owned());
        let file = Path::new("/home/ada/config.toml");
        let report = report(file, &loaded, SettingNames::Prefixed, lookup).unwrap();
        assert_eq!(report.file, "/home/ada/config.toml");
        let check = |key: &str, value: Value, source: SettingSource, variable: Option<&str>| {
            let row = report.settings.iter().find(|row| row.key == key);
            let wanted = SettingRow {
                key: key.to_owned(),
                value,
                source,
                variable: variable.map(str::to_owned),
            };
            assert_eq!(row, Some(&wanted));
        };
        // A default that the file repeats comes from the file.
        check("keep_lines", json!(10_000), SettingSource::File, None);
        check(
            "log_cap_bytes",
            json!(64 << 20),
            SettingSource::Default,
            None,
        );
        check("watch.model", json!("ollama:q"), SettingSource::File, None);
        let environment = SettingSource::Environment;
        check(
            "watch.tail_lines",
            json!(30),
            environment,
            Some("FUGUE_TAIL_LINES"),
        );
        check(
            "agents.a.command",
            json!(["x", "y"]),
            SettingSource::File,
            None,
        );
        check("agents.a.env.K", json!("v"), SettingSource::File, None);
        let keys: Vec<&str> = report.settings.iter().map(|row| row.key.as_str()).collect();
        for (key, _) in rows_of(&Settings::default()) {
            assert!(keys.contains(&key.as_str()), "{key}");
        }
    }

    #[test]
    fn a_wrong_variable_is_refused_by_name() {
        let lookup = |name: &str| (name == "FUGUE_TAIL_LINES").then(|| "many".to_owned());
        let report = report(Path::new("/c"), &loaded(""), SettingNames::Prefixed, lookup);
        assert!(report.unwrap_err().message.starts_with("FUGUE_TAIL_LINES"));
    }

    #[test]
    fn a_reload_tells_what_changed_and_what_that_holds_for() {
        let old = loaded("keep_lines = 500\nclient_max_calls = 20\n[agents.a]\ncommand = ['x']\n");
        let new = loaded(
            "idle_threshold_secs = 5\nclient_max_calls = 30\n[watch]\ntail_lines = 7\n\
             [agents.b]\ncommand = ['y']\n",
        );
        let told: Vec<_> = changes(&old, &new)
            .into_iter()
            .map(|change| (change.key, change.old, change.new, change.holds))
            .collect();
        let said = |key: &str, old: Value, new: Value, holds: SettingScope| {
            assert!(
                told.contains(&(key.to_owned(), old, new, holds)),
                "{key}: {told:?}"
            );
        };
        said(
            "idle_threshold_secs",
            json!(3.0),
            json!(5.0),
            SettingScope::Now,
        );
        said(
            "keep_lines",
            json!(500),
            json!(10_000),
            SettingScope::NewPanes,
        );
        said(
            "watch.tail_lines",
            json!(160),
            json!(7),
            SettingScope::NewWatchers,
        );
        said(
            "client_max_calls",
            json!(20),
            json!(30),
            SettingScope::NextDaemon,
        );
        said(
            "agents.a.command",
            json!(["x"]),
            Value::Null,
            SettingScope::Now,
        );
        said(
            "agents.b.command",
            Value::Null,
            json!(["y"]),
            SettingScope::Now,
        );
        assert_eq!(told.len(), 6, "{told:?}");

        // In force is the new value, except where only the next daemon takes it; a second reload says so again.
        let now = old.after_reload(new.clone());
        assert_eq!(now.idle_threshold_secs, 5.0);
        assert_eq!(now.client_max_calls, 20);
        let again = changes(&now, &new);
        assert_eq!(again.len(), 1, "{again:?}");
        assert_eq!(again[0].holds, SettingScope::NextDaemon);
    }

    #[test]
    fn what_only_the_next_daemon_takes_is_kept_and_nothing_else() {
        // Every number doubled, every text and list another.
        let old = LoadedSettings::default();
        let mut json = serde_json::to_value(&old.settings).unwrap();
        let mut tables = vec![&mut json];
        while let Some(table) = tables.pop() {
            for (key, value) in table.as_object_mut().unwrap() {
                match value {
                    Value::Number(number) if number.is_f64() => *value = json!(77.5),
                    Value::Number(number) => *value = json!(number.as_u64().unwrap() * 2),
                    Value::Bool(on) => *value = json!(!*on),
                    Value::String(_) if key == "backend" => *value = json!("tmux"),
                    Value::String(_) => *value = json!("other"),
                    Value::Array(_) | Value::Null => {}
                    Value::Object(_) => tables.push(value),
                }
            }
        }
        let new: Settings = serde_json::from_value(json).unwrap();
        let read = LoadedSettings {
            settings: new.clone(),
            ..LoadedSettings::default()
        };
        let kept = changes(&old.after_reload(read), &new);
        let all = changes(&old, &new);
        for change in &all {
            let is_kept = kept.iter().any(|kept| kept.key == change.key);
            assert_eq!(
                is_kept,
                change.holds == SettingScope::NextDaemon,
                "{change:?}"
            );
        }
        assert_eq!(all.len(), rows_of(&new).len());
    }
}
