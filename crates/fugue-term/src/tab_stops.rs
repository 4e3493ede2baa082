//! Tab stops.

/// One bit per column, for the maximum width of a screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TabStops([u64; WORDS]);

const WORDS: usize = 16;

impl Default for TabStops {
    /// Every eighth column.
    fn default() -> Self {
        TabStops([0x0101_0101_0101_0101; WORDS])
    }
}

impl TabStops {
    pub(crate) fn set(&mut self, x: usize) {
        if let Some(word) = self.0.get_mut(x / 64) {
            *word |= 1 << (x % 64);
        }
    }

    pub(crate) fn clear(&mut self, x: usize) {
        if let Some(word) = self.0.get_mut(x / 64) {
            *word &= !(1 << (x % 64));
        }
    }

    /// Clears all stops of a screen of `cols` columns.
    pub(crate) fn clear_all(&mut self, cols: usize) {
        (0..cols).for_each(|x| self.clear(x));
    }

    /// Resets the stops beyond the edge to the default, for a screen that grows again.
    pub(crate) fn resize(&mut self, cols: usize) {
        let usual = TabStops::default();
        for (i, word) in self.0.iter_mut().enumerate() {
            // The bits of this word that are on the screen.
            let visible = cols.saturating_sub(i * 64).min(64);
            let keep = if visible == 64 {
                u64::MAX
            } else {
                (1 << visible) - 1
            };
            *word = *word & keep | usual.0[i] & !keep;
        }
    }

    pub(crate) fn is_set(&self, x: usize) -> bool {
        self.0
            .get(x / 64)
            .is_some_and(|word| word >> (x % 64) & 1 != 0)
    }

    /// The first stop to the right of `x`, or a column beyond any screen.
    pub(crate) fn next_stop(&self, x: usize) -> usize {
        (x + 1..WORDS * 64)
            .find(|&x| self.is_set(x))
            .unwrap_or(WORDS * 64)
    }

    /// The first stop to the left of `x`, or the first column.
    pub(crate) fn previous_stop(&self, x: usize) -> usize {
        (0..x).rev().find(|&x| self.is_set(x)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stops_beyond_the_edge_are_reset() {
        let mut tabs = TabStops::default();
        tabs.clear_all(100);
        tabs.set(3);
        tabs.set(70);
        tabs.resize(66);
        assert_eq!(tabs.next_stop(0), 3);
        assert_eq!(tabs.next_stop(3), 72);
        assert_eq!(tabs.previous_stop(66), 3);
    }
}
