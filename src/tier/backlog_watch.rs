//! When to say that what waits for the tier fills the disk.
//!
//! Pure: it is told what waits and what is free, and says what an operator should know, in time and not too often.

use crate::ring::timer::Nanos;

/// What waits on one disk, now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backlog {
    /// Bytes of sealed segments that the tier has not.
    pub waiting_bytes: u64,
    /// Bytes that may still be written there.
    pub free_bytes: u64,
    /// All of the disk.
    pub disk_bytes: u64,
}

/// What to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BacklogNews {
    /// The tier does not take what there is; the disk has room for a long time.
    Behind {
        /// When it is full, at the rate of the last while; `None` where nothing is added.
        full_in_s: Option<u64>,
    },
    /// The disk will be full soon.
    Filling {
        /// When, at the rate of the last while; `None` where it is nearly full already.
        full_in_s: Option<u64>,
    },
}

/// What was seen of one disk.
#[derive(Clone, Copy, Debug, Default)]
pub struct BacklogWatch {
    /// The start of the while over which the rate is taken.
    since: Option<(Nanos, Backlog)>,
    said_at: Option<(Nanos, bool)>,
}

impl BacklogWatch {
    /// Looks at what there is. `is_failing`: the tier has not done what it was asked for last.
    pub fn look(&mut self, now: Nanos, seen: Backlog, is_failing: bool) -> Option<BacklogNews> {
        if !is_failing || seen.waiting_bytes == 0 {
            *self = Self { said_at: self.said_at, since: None };
            return None;
        }
        let (since, before) = *self.since.get_or_insert((now, seen));
        let elapsed_ms = now.since(since) / 1_000_000;
        let written_bytes = before.free_bytes.saturating_sub(seen.free_bytes);
        let full_in_s = (written_bytes > 0 && elapsed_ms >= WINDOW_MS_MIN).then(|| {
            let ms = u128::from(seen.free_bytes) * u128::from(elapsed_ms) / u128::from(written_bytes);
            u64::try_from(ms / 1000).unwrap_or(u64::MAX)
        });
        if elapsed_ms >= WINDOW_MS_MAX {
            self.since = Some((now, seen));
        }
        let is_nearly_full = seen.free_bytes < seen.disk_bytes / NEARLY_FULL_PART;
        let is_filling = is_nearly_full || full_in_s.is_some_and(|left_s| left_s < SOON_S);
        // The worse is said at once; the same again after a while.
        let is_told = self
            .said_at
            .is_some_and(|(at, was_filling)| now.since(at) / 1_000_000 < AGAIN_MS && (was_filling || !is_filling));
        if is_told {
            return None;
        }
        self.said_at = Some((now, is_filling));
        Some(if is_filling { BacklogNews::Filling { full_in_s } } else { BacklogNews::Behind { full_in_s } })
    }
}

/// A rate is taken over this long at least, and over about as long at most.
const WINDOW_MS_MIN: u64 = 1_000;
const WINDOW_MS_MAX: u64 = 60_000;
const AGAIN_MS: u64 = 60_000;
/// A disk that will be full within this time is told as one that fills up.
const SOON_S: u64 = 3_600;
/// So is one that has less than this part of it left.
const NEARLY_FULL_PART: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn at(s: u64) -> Nanos {
        Nanos((1_000 + s) * 1_000_000_000)
    }

    fn seen(waiting_bytes: u64, free_bytes: u64) -> Backlog {
        Backlog { waiting_bytes, free_bytes, disk_bytes: 100 * GIB }
    }

    #[test]
    fn a_disk_that_fills_up_is_told_before_it_is_full() {
        let mut watch = BacklogWatch::default();
        let rate = GIB / 60;
        let (mut told_at, mut free) = (None, 90 * GIB);
        for s in 0.. {
            if free < rate {
                break;
            }
            free -= rate;
            if let Some(BacklogNews::Filling { full_in_s }) = watch.look(at(s), seen(s * rate + 1, free), true) {
                told_at.get_or_insert((s, full_in_s));
            }
        }
        // An hour of it is 60 GiB.
        let (s, full_in_s) = told_at.expect("it was told");
        assert!((1_790..1_830).contains(&s), "{s}");
        assert!(full_in_s.is_some_and(|left_s| (3_500..3_600).contains(&left_s)), "{full_in_s:?}");
    }

    #[test]
    fn it_says_so_once_a_minute_and_the_worse_at_once() {
        let mut watch = BacklogWatch::default();
        let behind = Some(BacklogNews::Behind { full_in_s: None });
        assert_eq!(watch.look(at(0), seen(5, 50 * GIB), false), None, "nothing fails");
        assert_eq!(watch.look(at(1), seen(0, 50 * GIB), true), None, "nothing waits");
        assert_eq!(watch.look(at(2), seen(5, 50 * GIB), true), behind);
        assert_eq!(watch.look(at(30), seen(5, 50 * GIB), true), None, "said already");
        assert_eq!(watch.look(at(62), seen(5, 50 * GIB), true), behind);
        let filling = Some(BacklogNews::Filling { full_in_s: Some(5) });
        assert_eq!(
            watch.look(at(67), seen(5, 2 * GIB), true).map(|news| matches!(news, BacklogNews::Filling { .. })),
            Some(true)
        );
        assert_eq!(watch.look(at(68), seen(5, GIB), true), None, "said already");
        assert_eq!(watch.look(at(69), seen(5, GIB), false), None, "it copies again");
        assert!(watch.look(at(200), seen(5, GIB), true).is_some_and(|news| Some(news) != filling), "no rate is known");
    }
}
