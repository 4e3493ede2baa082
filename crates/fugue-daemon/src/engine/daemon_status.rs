//! The daemon's status, and the quota of the output logs.

use fugue_api::wire::{DaemonStatus, LogsStatus};
use fugue_core::LogUsage;

use super::Engine;

impl Engine {
    pub(super) fn status(&self) -> DaemonStatus {
        DaemonStatus {
            pid: std::process::id(),
            socket: self.context.paths.socket().to_string_lossy().into_owned(),
            version: env!("CARGO_PKG_VERSION").into(),
            uptime_ms: u64::try_from(self.clock.uptime().as_millis()).unwrap_or(u64::MAX),
            panes: self.core.live_panes().count() as u64,
            epoch: self.context.epoch,
            store: self.commits.status(),
            logs: self.logs_status(),
        }
    }

    pub(super) fn logs_status(&self) -> LogsStatus {
        let LogUsage {
            ended_bytes,
            running_bytes,
        } = self.core.log_usage();
        let quota_bytes = self.context.settings().logs_quota_bytes();
        let is_over = quota_bytes.is_some_and(|quota| ended_bytes + running_bytes > quota);
        let note = "the output logs exceed `logs_quota_mb`, and running panes or open runs need the rest: close \
                    panes, or raise the quota";
        LogsStatus {
            ended_bytes,
            running_bytes,
            quota_bytes,
            note: is_over.then(|| note.to_owned()),
        }
    }

    /// Logs when the output logs begin or cease to exceed their quota.
    pub(super) fn check_quota(&mut self) {
        let logs = self.logs_status();
        if logs.note.is_some() == self.over_quota {
            return;
        }
        self.over_quota = logs.note.is_some();
        if self.over_quota {
            tracing::warn!(
                running_bytes = logs.running_bytes,
                ended_bytes = logs.ended_bytes,
                quota_bytes = logs.quota_bytes,
                "output logs exceed the quota and no ended pane can be forgotten"
            );
        } else {
            tracing::info!("output logs are within the quota again");
        }
    }
}
