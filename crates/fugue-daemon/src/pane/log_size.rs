//! Reports the size of a running pane's log to the engine, for the quota over all logs.

use fugue_core::PaneEvent;

use super::Pane;

// The growth of a log between two reports: fine enough for a quota of gigabytes, and rare.
const LOG_GROWTH_STEP: u64 = 1 << 20;

impl Pane {
    /// Reports once per growth step, until the log has reached its cap.
    pub(super) async fn report_log_size(&mut self, offset: u64) {
        let cap = self.context.daemon.settings.log_cap_bytes;
        if self.reported_log_bytes < cap && offset >= self.reported_log_bytes + LOG_GROWTH_STEP {
            self.reported_log_bytes = offset.min(cap);
            let bytes = self.reported_log_bytes;
            self.context.emit(PaneEvent::LogGrew { bytes }).await;
        }
    }
}
