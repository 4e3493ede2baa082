//! Settings as they are shown: keys, values and where each comes from.

use serde::{Deserialize, Serialize};

/// The settings in force.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SettingsReport {
    /// The path of `config.toml`, which need not exist.
    pub file: String,
    /// Every key, in the order of `fugue config default`.
    pub settings: Vec<SettingRow>,
}

/// A setting. The key of a table's entry has dots: `watch.tail_lines`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SettingRow {
    pub key: String,
    pub value: serde_json::Value,
    pub source: SettingSource,
    /// The environment variable that the value comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variable: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SettingSource {
    Default,
    File,
    /// A variable of the caller's environment, which holds for what this caller starts.
    Environment,
}

/// A value that a reload of the settings changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SettingChange {
    pub key: String,
    /// Null for an entry that did not exist.
    pub old: serde_json::Value,
    /// Null for an entry that exists no more.
    pub new: serde_json::Value,
    pub holds: SettingScope,
}

/// What a changed setting holds for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SettingScope {
    Now,
    /// Panes that are opened from now on.
    NewPanes,
    /// Watchers that are started from now on.
    NewWatchers,
    /// The next daemon; the running one keeps the old value.
    NextDaemon,
}
