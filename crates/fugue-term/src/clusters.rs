//! The cluster table: characters with combining marks (accents, emoji sequences), each text stored once.
//!
//! Cells refer to clusters by index. A sweep frees the indexes of clusters that are no longer on any screen, so the
//! size of the table is bounded by the visible cells.

use std::collections::HashMap;

/// The limit for one cluster, as in tmux: enough for the longest emoji sequences, and a bound on the memory of one
/// cell.
pub(crate) const MAX_CLUSTER_BYTES: usize = 32;

/// The table size below which a sweep is not worth its cost.
const MIN_SWEEP_SIZE: usize = 1024;

/// Interned cluster texts by index.
#[derive(Debug, Default)]
pub(crate) struct ClusterTable {
    texts: Vec<Box<str>>,
    numbers: HashMap<Box<str>, u32>,
    sweep_at: usize,
}

impl ClusterTable {
    pub(crate) fn get(&self, number: u32) -> &str {
        self.texts.get(number as usize).map_or("", |text| text)
    }

    pub(crate) fn intern(&mut self, text: &str) -> u32 {
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        let number = self.texts.len() as u32;
        self.texts.push(text.into());
        self.numbers.insert(text.into(), number);
        number
    }

    /// Whether the caller should sweep: renumber all cells with [`ClusterTable::sweep`].
    pub(crate) fn needs_sweep(&self) -> bool {
        self.texts.len() >= self.sweep_at.max(MIN_SWEEP_SIZE)
    }

    /// Empties the table and returns a function that interns an old index again and returns its new index.
    pub(crate) fn sweep(&mut self) -> impl FnMut(&mut ClusterTable, u32) -> u32 + use<> {
        let old = std::mem::take(&mut self.texts);
        self.numbers.clear();
        move |fresh, number| fresh.intern(old.get(number as usize).map_or("", |text| text))
    }

    /// Ends a sweep after all cells are renumbered. The next sweep is due when the table has doubled, so that
    /// sweeping stays a small part of the work.
    pub(crate) fn finish_sweep(&mut self) {
        self.sweep_at = self.texts.len() * 2;
    }
}
