//! The settings of `config.toml` and their defaults.

use std::{collections::BTreeMap, time::Duration};

use fugue_api::pane_placement::Backend;
use serde::{Deserialize, Serialize};

use crate::assess::WatchSettings;

/// The contents of `config.toml`. An unknown key is an error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Shell for commands; empty: bash, else sh.
    pub shell: String,
    /// The default backend of new panes: `native` or `tmux`.
    pub backend: Backend,
    /// The time without output after which a program counts as idle.
    pub idle_threshold_secs: f64,
    /// How long input of agents waits for a draft of a person.
    pub draft_wait_secs: f64,
    /// How much raw output of a pane is kept on disk.
    pub log_cap_bytes: u64,
    /// How many lines of a pane are kept in memory. Older ones are read from the output log.
    pub keep_lines: usize,
    /// How many calls may read whole output logs at the same time. Further calls wait.
    pub whole_log_readers: usize,
    /// How long an ended pane stays readable.
    pub forget_after_hours: f64,
    /// How many ended panes stay readable. Panes of runs whose result was not fetched do not count.
    pub forget_beyond_panes: usize,
    /// Megabytes (2^20 bytes) of output that are kept on disk for all panes together. Beyond it the panes that ended
    /// first are forgotten; running panes are not touched. 0: no quota.
    pub logs_quota_mb: u64,
    /// Megabytes that must be free on the disk of the state directory, or a twentieth of the disk if that is less. Below
    /// it no pane, run or worker is started. 0: no floor.
    pub free_disk_floor_mb: u64,
    /// The limit of unacked events per inbox. At the limit senders are refused.
    pub inbox_max_events: usize,
    /// The limit of bytes of unacked events per inbox. At the limit senders are refused.
    pub inbox_max_bytes: u64,
    /// Calls that one client connection may have open.
    pub client_max_calls: usize,
    /// Bytes of replies that one client connection may leave unread before its next replies are refused.
    pub client_max_unread_bytes: u64,
    /// The default agent of workers. Empty: the first installed agent.
    pub default_agent: String,
    /// The settings of watchers.
    pub watch: WatchSettings,
    /// Agents in addition to the built-in ones, by name.
    pub agents: BTreeMap<String, AgentTemplate>,
}

/// How to start an agent that is not built in: `[agents.aider]` in `config.toml`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentTemplate {
    /// The program and its arguments, with placeholders such as `{prompt_file}`.
    pub command: Vec<String>,
    /// Variables that are added to the caller's environment.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            shell: String::new(),
            backend: Backend::Native,
            idle_threshold_secs: 3.0,
            draft_wait_secs: 30.0,
            log_cap_bytes: 64 * 1024 * 1024,
            keep_lines: 10_000,
            whole_log_readers: 2,
            forget_after_hours: 24.0,
            forget_beyond_panes: 500,
            logs_quota_mb: 4096,
            free_disk_floor_mb: 256,
            inbox_max_events: 1_000,
            inbox_max_bytes: 8 * 1024 * 1024,
            client_max_calls: 1_024,
            client_max_unread_bytes: 16 * 1024 * 1024,
            default_agent: String::new(),
            watch: WatchSettings::default(),
            agents: BTreeMap::new(),
        }
    }
}

impl Settings {
    pub fn idle_threshold_ms(&self) -> u64 {
        // A negative or absurd number in the file saturates and does not wrap.
        (self.idle_threshold_secs * 1000.0) as u64
    }

    pub fn draft_wait(&self) -> Duration {
        Duration::from_millis((self.draft_wait_secs * 1000.0) as u64)
    }

    /// The quota over all output logs in bytes. `None`: no quota.
    pub fn logs_quota_bytes(&self) -> Option<u64> {
        (self.logs_quota_mb > 0).then(|| self.logs_quota_mb.saturating_mul(1 << 20))
    }

    pub fn free_disk_floor_bytes(&self) -> u64 {
        self.free_disk_floor_mb.saturating_mul(1 << 20)
    }

    pub fn forget_after(&self) -> Duration {
        Duration::from_millis((self.forget_after_hours * 3_600_000.0) as u64)
    }
}
