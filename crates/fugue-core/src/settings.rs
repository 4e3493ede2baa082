//! The settings of `config.toml` and their defaults.

use std::{collections::BTreeMap, time::Duration};

use fugue_api::pane_placement::Backend;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::assess::WatchSettings;

/// The contents of `config.toml`. An unknown key is an error. `fugue config default` prints the comments of the fields, and the
/// ranges, which equal those that the file is checked against.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Shell that runs commands: a name or a path. Empty: bash, else sh.
    pub shell: String,
    /// Where new panes are opened: `native` (a process of fugue's own) or `tmux`.
    pub backend: Backend,
    /// Seconds without output after which a program counts as idle.
    #[schemars(range(min = 0))]
    pub idle_threshold_secs: f64,
    /// Seconds that input of agents waits for a line that a person has begun. Then the input is refused.
    #[schemars(range(min = 0))]
    pub draft_wait_secs: f64,
    /// Bytes of raw output that are kept on disk for each pane. Beyond it the oldest output goes.
    #[schemars(range(min = 1_048_576))]
    pub log_cap_bytes: u64,
    /// Lines that are kept in memory for each pane. Older ones are read from the output log.
    #[schemars(range(min = 100, max = 1_000_000))]
    pub keep_lines: usize,
    /// Calls that may read whole output logs at the same time. Further calls wait.
    #[schemars(range(min = 1, max = 16))]
    pub whole_log_readers: usize,
    /// Hours that an ended pane stays readable.
    #[schemars(range(min = 0))]
    pub forget_after_hours: f64,
    /// Ended panes that stay readable. Panes of runs whose result was not fetched do not count.
    pub forget_beyond_panes: usize,
    /// Megabytes (2^20 bytes) of output that are kept on disk for all panes together. Beyond it the panes that ended
    /// first are forgotten; running panes are not touched. 0: no quota.
    #[schemars(range(min = 0, max = 1_073_741_824))]
    pub logs_quota_mb: u64,
    /// Megabytes (2^20 bytes) that must be free on the disk of the state directory, or a twentieth of the disk if that
    /// is less. Below it no pane, run or worker is started. 0: no floor.
    #[schemars(range(min = 0, max = 1_073_741_824))]
    pub free_disk_floor_mb: u64,
    /// Unacked events that an inbox holds. At the limit senders are refused.
    #[schemars(range(min = 10, max = 100_000))]
    pub inbox_max_events: usize,
    /// Bytes of unacked events that an inbox holds. At the limit senders are refused.
    #[schemars(range(min = 1_048_576, max = 1_073_741_824))]
    pub inbox_max_bytes: u64,
    /// Calls that one client connection may have open.
    #[schemars(range(min = 16, max = 65_536))]
    pub client_max_calls: usize,
    /// Bytes of replies that one client connection may leave unread before its next replies are refused.
    #[schemars(range(min = 1_048_576, max = 4_294_967_296_u64))]
    pub client_max_unread_bytes: u64,
    /// The agent of workers that name none. Empty: the first installed agent.
    pub default_agent: String,
    /// Watchers. Each key is also an environment variable of whoever starts one, as FUGUE_TAIL_LINES; that variable
    /// wins.
    pub watch: WatchSettings,
    /// Agents in addition to the built-in ones, by name.
    pub agents: BTreeMap<String, AgentTemplate>,
}

/// How to start an agent that is not built in: `[agents.aider]` in `config.toml`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
