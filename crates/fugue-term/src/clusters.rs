//! Characters with marks joined to them (accents, emoji sequences), each text kept once.
//!
//! Cells name them by number. Numbers of texts that are no longer on any screen are reused after a sweep, so the
//! table is bounded by what is visible.

use std::collections::HashMap;

/// As tmux: enough for the longest emoji sequences, and a bound on what one cell can cost.
pub(crate) const MAX_CLUSTER_BYTES: usize = 32;

/// Below this many a sweep is not worth its time.
const SWEEP_AT: usize = 1024;

/// The table.
#[derive(Debug, Default)]
pub(crate) struct Clusters {
    texts: Vec<Box<str>>,
    numbers: HashMap<Box<str>, u32>,
    sweep_at: usize,
}

impl Clusters {
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

    /// Whether the caller should collect what is still in use and call [`Clusters::sweep`].
    pub(crate) fn wants_sweep(&self) -> bool {
        self.texts.len() >= self.sweep_at.max(SWEEP_AT)
    }

    /// Starts afresh; `renumber` is then called with each number in use and gives its new one.
    pub(crate) fn sweep(&mut self) -> impl FnMut(&mut Clusters, u32) -> u32 + use<> {
        let old = std::mem::take(&mut self.texts);
        self.numbers.clear();
        move |fresh, number| fresh.intern(old.get(number as usize).map_or("", |text| text))
    }

    /// To be called when all cells are renumbered: the next sweep waits until as many again have been added, so
    /// that sweeping stays a small part of the work.
    pub(crate) fn swept(&mut self) {
        self.sweep_at = self.texts.len() * 2;
    }
}
