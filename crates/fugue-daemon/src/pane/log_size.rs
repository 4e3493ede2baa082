//! Tells the engine how large a running pane's log is, for the quota over all logs.

use fugue_core::PaneEvent;

use super::Pane;

// How much a log grows before the engine is told: fine enough for a quota of gigabytes, and rare.
const LOG_GROWTH_STEP: u64 = 1 << 20;

impl Pane {
    /// Once per step, and until the log has reached its cap.
    pub(super) async fn tell_log_size(&mut self, offset: u64) {
        let cap = self.seat.house.settings.log_cap_bytes;
        if self.told_log_bytes < cap && offset >= self.told_log_bytes + LOG_GROWTH_STEP {
            self.told_log_bytes = offset.min(cap);
            let bytes = self.told_log_bytes;
            self.seat.say(PaneEvent::LogGrew { bytes }).await;
        }
    }
}
