//! When the size of a running pane's log is reported to core, for the quota over all logs.

/// The growth of a log between two reports: fine enough for a quota of gigabytes, and rare.
const LOG_GROWTH_STEP: u64 = 1 << 20;

/// The growth of a pane's log since the last report.
#[derive(Debug, Default)]
pub struct LogGrowth {
    reported_bytes: u64,
}

impl LogGrowth {
    /// The size to report for a log that has grown to this offset: once per growth step, until the log has reached its cap.
    pub fn on_output(&mut self, offset: u64, cap: u64) -> Option<u64> {
        let is_due = self.reported_bytes < cap && offset >= self.reported_bytes + LOG_GROWTH_STEP;
        is_due.then(|| {
            self.reported_bytes = offset.min(cap);
            self.reported_bytes
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_further_megabyte_is_reported_up_to_the_cap() {
        const MB: u64 = 1 << 20;
        let mut growth = LogGrowth::default();
        for (offset, reported) in [
            (MB - 1, None),
            (MB, Some(MB)),
            (2 * MB - 1, None),
            (3 * MB + 5, Some(3 * MB + 5)),
            (3 * MB + 6, None),
            (9 * MB, Some(4 * MB)),
            (99 * MB, None),
        ] {
            assert_eq!(growth.on_output(offset, 4 * MB), reported, "{offset}");
        }
    }
}
