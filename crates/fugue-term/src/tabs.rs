//! Tab stops.

/// One bit a column, for as many columns as a screen can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tabs([u64; WORDS]);

const WORDS: usize = 16;

impl Default for Tabs {
    /// Every eighth column.
    fn default() -> Self {
        Tabs([0x0101_0101_0101_0101; WORDS])
    }
}

impl Tabs {
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

    /// What lies beyond the edge is forgotten, and as new if the screen grows again.
    pub(crate) fn resize(&mut self, cols: usize) {
        let usual = Tabs::default();
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

    /// The first stop right of `x`, or a column beyond any screen.
    pub(crate) fn after(&self, x: usize) -> usize {
        (x + 1..WORDS * 64)
            .find(|&x| self.is_set(x))
            .unwrap_or(WORDS * 64)
    }

    /// The first stop left of `x`, or the first column.
    pub(crate) fn before(&self, x: usize) -> usize {
        (0..x).rev().find(|&x| self.is_set(x)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stops_beyond_the_edge_are_as_new() {
        let mut tabs = Tabs::default();
        tabs.clear_all(100);
        tabs.set(3);
        tabs.set(70);
        tabs.resize(66);
        assert_eq!(tabs.after(0), 3);
        assert_eq!(tabs.after(3), 72);
        assert_eq!(tabs.before(66), 3);
    }
}
