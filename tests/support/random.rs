//! Random numbers that a seed repeats.

use std::env;
use std::time::{SystemTime, UNIX_EPOCH};

/// SplitMix64.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// From 0 to `end`, without it.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// From `start` to `end`, without it.
    pub(crate) fn between(&mut self, start: u64, end: u64) -> u64 {
        start + self.below(end - start)
    }
}

/// The number in this environment variable, or this one.
pub(crate) fn number_from_env(name: &str, default: u64) -> u64 {
    let Ok(text) = env::var(name) else { return default };
    text.trim().parse().unwrap_or_else(|_| panic!("{name}={text} is no number"))
}

/// `SEED` of the environment, or one of the clock: a failure names it, so that it can be run again.
#[allow(clippy::disallowed_methods, reason = "another seed each run")]
pub(crate) fn seed() -> u64 {
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| u64::from(since.subsec_nanos()));
    number_from_env("SEED", clock)
}
