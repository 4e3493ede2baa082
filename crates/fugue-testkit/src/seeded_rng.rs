use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Reproducible random numbers: `FUGUE_SEED` repeats a run, as far as the timing of the machine allows.
pub struct SeededRng {
    seed: u64,
    state: u64,
}

impl Default for SeededRng {
    fn default() -> Self {
        let given = std::env::var("FUGUE_SEED").ok();
        let seed = match given {
            Some(text) => text.parse().expect("FUGUE_SEED is a number"),
            None => SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(1, |now| now.as_nanos() as u64),
        };
        Self::with_seed(seed)
    }
}

impl SeededRng {
    /// A generator with a given seed, for several that run concurrently.
    pub fn with_seed(seed: u64) -> Self {
        Self {
            seed,
            state: seed | 1,
        }
    }

    /// The value of `FUGUE_SEED` that reproduces these numbers.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// A number in `0..below`.
    pub fn below(&mut self, below: u64) -> u64 {
        // splitmix64: good enough for choosing moments, and without a dependency.
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % below.max(1)
    }

    /// True once in `n` calls on average.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// A duration in `0..longest`.
    pub fn duration_below(&mut self, longest: Duration) -> Duration {
        Duration::from_micros(self.below(longest.as_micros() as u64))
    }
}
