//! Tells the engine how large a running pane's log is, for the quota over all logs.

use fugue_core::PaneEvent;

use super::Pane;

// How much a log grows before the engine is told: fine enough for a quota of gigabytes, and rare.
const LOG_GROWTH_STEP: u64 = 1 << 20;

impl Pane {
    /// Once per step, and until the log has reached its cap.
    pub(super) async fn report_log_size(&mut self, offset: u64) {
        let cap = self.context.daemon.settings.log_cap_bytes;
        if self.reported_log_bytes < cap && offset >= self.reported_log_bytes + LOG_GROWTH_STEP {
            self.reported_log_bytes = offset.min(cap);
            let bytes = self.reported_log_bytes;
            self.context.emit(PaneEvent::LogGrew { bytes }).await;
        }
    }
}
