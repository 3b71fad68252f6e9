//! When the tier's work of one core may be done: a few pieces at a time, paced, later again where it failed.
//!
//! Pure: no clock, no store. Work on one partition is one piece: what its segments need is found out when it begins.

use std::collections::HashMap;

use ahash::RandomState;

use crate::record::offset::PartitionId;
use crate::ring::timer::Nanos;

/// How much, how often, how fast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoverLimits {
    /// Partitions that are worked on at the same time.
    pub at_once_max: usize,
    /// `remote.log.manager.task.retry.backoff.ms`.
    pub backoff_ms: u64,
    /// `remote.log.manager.task.retry.backoff.max.ms`.
    pub backoff_ms_max: u64,
    /// `remote.log.manager.task.retry.jitter`, in thousandths.
    pub jitter_permille: u32,
    /// This core's share of `remote.log.manager.copy.max.bytes.per.second`.
    pub bytes_per_second: u64,
}

/// Whether work on a partition may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It has begun: [`Mover::succeeded`] or [`Mover::failed`] ends it.
    Begun,
    /// It is worked on already.
    UnderWay,
    /// As much as may be is under way.
    Full,
    /// It failed: not before then.
    NotBefore(Nanos),
}

/// The mover of one core.
#[derive(Debug)]
pub struct Mover {
    limits: MoverLimits,
    under_way: usize,
    partitions: HashMap<PartitionId, Attempt, RandomState>,
    bucket: TokenBucket,
}

#[derive(Clone, Copy, Debug, Default)]
struct Attempt {
    is_under_way: bool,
    failures: u32,
    not_before: Nanos,
}

impl Mover {
    /// A mover that has begun nothing. `seeds` are of its hashes, so that a simulation repeats.
    #[must_use]
    pub fn new(limits: MoverLimits, seeds: RandomState) -> Self {
        let bucket = TokenBucket::new(limits.bytes_per_second);
        Self { limits, under_way: 0, partitions: HashMap::with_hasher(seeds), bucket }
    }

    /// Begins work on a partition, where it may.
    pub fn begin(&mut self, id: PartitionId, now: Nanos) -> Admission {
        let attempt = self.partitions.get(&id).copied().unwrap_or_default();
        if attempt.is_under_way {
            return Admission::UnderWay;
        }
        if attempt.not_before > now {
            return Admission::NotBefore(attempt.not_before);
        }
        if self.under_way >= self.limits.at_once_max {
            return Admission::Full;
        }
        self.under_way += 1;
        self.partitions.insert(id, Attempt { is_under_way: true, ..attempt });
        Admission::Begun
    }

    /// What was begun is done.
    pub fn succeeded(&mut self, id: PartitionId) {
        self.end(id);
        self.partitions.remove(&id);
    }

    /// What was begun has failed; says how long to wait, in milliseconds. Each time twice as long, up to the limit, and
    /// more or less by the jitter, so that what failed together does not come back together.
    pub fn failed(&mut self, id: PartitionId, now: Nanos, random: u64) -> u64 {
        let failures = self.end(id).failures.saturating_add(1);
        let doubled = self.limits.backoff_ms.saturating_mul(1 << u64::from(failures - 1).min(20));
        let wait_ms = doubled.min(self.limits.backoff_ms_max.max(self.limits.backoff_ms));
        let spread = wait_ms.saturating_mul(u64::from(self.limits.jitter_permille)) / 1000;
        let wait_ms = wait_ms - spread + random.checked_rem(2 * spread + 1).unwrap_or(0);
        let not_before = now.plus_ms(wait_ms);
        self.partitions.insert(id, Attempt { is_under_way: false, failures, not_before });
        wait_ms
    }

    /// True while a partition is worked on.
    #[must_use]
    pub fn is_under_way(&self, id: PartitionId) -> bool {
        self.partitions.get(&id).is_some_and(|attempt| attempt.is_under_way)
    }

    /// True where work on a partition failed last, and was not done since.
    #[must_use]
    pub fn is_failing(&self) -> bool {
        self.partitions.values().any(|attempt| attempt.failures > 0)
    }

    /// The partition has left this core.
    pub fn forget(&mut self, id: PartitionId) {
        if self.partitions.get(&id).is_some_and(|attempt| !attempt.is_under_way) {
            self.partitions.remove(&id);
        }
    }

    /// When the first of those that still have to wait may be tried again. What may be tried by now and was not begun needs
    /// nothing, or waits for a place.
    #[must_use]
    pub fn next_retry(&self, now: Nanos) -> Option<Nanos> {
        let waiting = self.partitions.values().filter(|attempt| !attempt.is_under_way && attempt.not_before > now);
        waiting.map(|attempt| attempt.not_before).min()
    }

    /// Partitions that are worked on now.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.under_way
    }

    /// Reserves the sending of `len_bytes`; they may go at the time that it says.
    pub fn pace(&mut self, len_bytes: u64, now: Nanos) -> Nanos {
        self.bucket.reserve(len_bytes, now)
    }

    fn end(&mut self, id: PartitionId) -> Attempt {
        let attempt = self.partitions.get(&id).copied().unwrap_or_default();
        assert!(attempt.is_under_way, "work ended that was not begun");
        self.under_way -= 1;
        attempt
    }
}

/// A rate that is kept from the first byte on: what is reserved is paid for before the next may go.
#[derive(Debug)]
pub struct TokenBucket {
    bytes_per_second: u64,
    free_at: Nanos,
}

impl TokenBucket {
    /// Of this rate.
    #[must_use]
    pub fn new(bytes_per_second: u64) -> Self {
        Self { bytes_per_second: bytes_per_second.max(1), free_at: Nanos(0) }
    }

    /// Reserves `len_bytes`, and says when they may go. Time in which nobody asked is not saved up.
    pub fn reserve(&mut self, len_bytes: u64, now: Nanos) -> Nanos {
        let begins = self.free_at.max(now);
        let cost_ns = u128::from(len_bytes) * 1_000_000_000 / u128::from(self.bytes_per_second);
        self.free_at = Nanos(begins.0.saturating_add(u64::try_from(cost_ns).unwrap_or(u64::MAX)));
        begins
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::offset::TopicId;

    const LIMITS: MoverLimits = MoverLimits {
        at_once_max: 2,
        backoff_ms: 500,
        backoff_ms_max: 30_000,
        jitter_permille: 200,
        bytes_per_second: 1_000_000,
    };

    fn mover() -> Mover {
        Mover::new(LIMITS, RandomState::with_seeds(1, 2, 3, 4))
    }

    fn partition(partition: i32) -> PartitionId {
        PartitionId { topic_id: TopicId([1; 16]), partition }
    }

    const fn ms(ms: u64) -> Nanos {
        Nanos(ms * 1_000_000)
    }

    #[test]
    fn a_few_at_a_time_and_each_once() {
        let mut mover = mover();
        let mut begin = |at| mover.begin(partition(at), ms(0));
        assert_eq!(
            [begin(0), begin(0), begin(1), begin(2)],
            [Admission::Begun, Admission::UnderWay, Admission::Begun, Admission::Full]
        );
        mover.succeeded(partition(0));
        assert_eq!(mover.begin(partition(2), ms(0)), Admission::Begun);
    }

    #[test]
    fn what_fails_waits_longer_each_time_within_its_jitter() {
        let mut mover = mover();
        let mut now = ms(0);
        for (round, doubled) in [500_u64, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000].into_iter().enumerate() {
            assert_eq!(mover.begin(partition(0), now), Admission::Begun, "round {round}");
            let random = [0, u64::MAX, 12_345][round % 3];
            let waited_ms = mover.failed(partition(0), now, random);
            assert!((doubled * 8 / 10..=doubled * 12 / 10).contains(&waited_ms), "round {round}: {waited_ms}");
            let retry = mover.next_retry(now).expect("it waits");
            assert_eq!(mover.begin(partition(0), now), Admission::NotBefore(retry));
            now = retry;
            assert_eq!(mover.next_retry(now), None, "nobody is woken for what may begin by now");
        }
        assert_eq!(mover.begin(partition(0), now), Admission::Begun);
        assert!(mover.is_failing(), "also while it is tried again");
        mover.succeeded(partition(0));
        assert!(!mover.is_failing());
        assert_eq!(mover.begin(partition(0), now), Admission::Begun);
        assert!(mover.failed(partition(0), now, 0) <= 600, "a success forgives");
    }

    #[test]
    fn the_rate_is_kept_from_the_first_second_whoever_asks() {
        let mut bucket = TokenBucket::new(1_000_000);
        let piece = 250_000;
        let mut sent_bytes = 0;
        // Forty that ask at once: all are told a time, and no window has more than its share and one piece.
        for _ in 0..40 {
            let at = bucket.reserve(piece, ms(0));
            let allowed = at.0 / 1000 + piece;
            sent_bytes += piece;
            assert!(sent_bytes <= allowed, "{sent_bytes} bytes by {at:?}");
        }
        assert_eq!(bucket.reserve(piece, ms(60_000)), ms(60_000), "idle time is not saved up");
        assert_eq!(bucket.reserve(piece, ms(60_000)), ms(60_250));
        let mut unlimited = TokenBucket::new(u64::MAX);
        unlimited.reserve(1 << 30, ms(5));
        assert_eq!(unlimited.reserve(1, ms(5)), ms(5));
    }
}
