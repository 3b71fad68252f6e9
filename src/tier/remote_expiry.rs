//! What goes of the tier: below the log start, above the total size, past the time.
//!
//! Kafka's rules for remote segments: `retention.bytes` is of both tiers, and a segment as old as `retention.ms` goes
//! (a local one only when it is older).

use crate::record::offset::Offset;
use crate::tier::metadata::RemoteSegmentId;
use crate::tier::remote_segments::RemoteSegments;

/// What a topic keeps in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TotalRetention {
    /// `retention.ms`; `None`: for ever.
    pub retention_ms: Option<u64>,
    /// `retention.bytes`; `None`: any size.
    pub retention_bytes: Option<u64>,
}

/// Remote segments that go, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expiry {
    /// Each with the reason.
    pub segments: Vec<(RemoteSegmentId, &'static str)>,
    /// Where the log begins without them, where that is later than it did.
    pub log_start: Option<Offset>,
}

impl RemoteSegments {
    /// What goes at `now_ms`, a bounded number at a time. `local_only_bytes`: what is not in the tier yet.
    #[must_use]
    pub fn plan_expiry(&self, keeps: &TotalRetention, now_ms: i64, log_start: Offset, local_only_bytes: u64) -> Expiry {
        let mut expiry = Expiry::default();
        let total_bytes = self.finished_bytes().saturating_add(local_only_bytes);
        let mut surplus_bytes =
            keeps.retention_bytes.and_then(|retention_bytes| total_bytes.checked_sub(retention_bytes));
        for span in self.finished().iter().take(EXPIRED_AT_ONCE_MAX) {
            let segment_bytes = u64::from(span.segment_bytes());
            let is_late = keeps.retention_ms.is_some_and(|retention_ms| {
                let bound_ms = now_ms.saturating_sub(i64::try_from(retention_ms).unwrap_or(i64::MAX));
                span.max_timestamp().0 <= bound_ms
            });
            let reason = if span.end_offset() < log_start {
                "below the log start offset"
            } else if let Some(left_bytes) = surplus_bytes.and_then(|surplus| surplus.checked_sub(segment_bytes)) {
                surplus_bytes = Some(left_bytes);
                "the log is larger than retention.bytes"
            } else if is_late {
                "older than retention.ms"
            } else {
                break;
            };
            expiry.segments.push((span.id(), reason));
            let next = span.end_offset().plus(1);
            if next > log_start {
                expiry.log_start = Some(expiry.log_start.map_or(next, |known| known.max(next)));
            }
        }
        expiry
    }
}

/// Deleted in one pass.
const EXPIRED_AT_ONCE_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tier::metadata::SegmentEvent;
    use crate::tier::metadata::tests::segment;
    use crate::tier::segment_state::SegmentState;

    /// Three segments of 100 bytes, with times up to 990, 1990 and 2990.
    fn three() -> RemoteSegments {
        let mut segments = RemoteSegments::default();
        for (number, start) in [(1, 0), (2, 100), (3, 200)] {
            let event = SegmentEvent::Image(segment(number, start, start + 99, SegmentState::CopyFinished));
            segments.apply(&event).expect("an image");
        }
        segments
    }

    #[test]
    fn c082_each_limit_takes_what_kafkas_does() {
        const NONE: TotalRetention = TotalRetention { retention_ms: None, retention_bytes: None };
        let bytes = |bytes| TotalRetention { retention_bytes: Some(bytes), ..NONE };
        let ms = |ms| TotalRetention { retention_ms: Some(ms), ..NONE };
        // Limits, now, log start, bytes that are only local; how many go, and the log's start.
        let cases = [
            (NONE, 1 << 40, 0, 1 << 30, 0, None),
            (NONE, 0, 99, 0, 0, None),
            (NONE, 0, 100, 0, 1, None),
            (NONE, 0, 250, 0, 2, None),
            (bytes(300), 0, 0, 0, 0, None),
            (bytes(201), 0, 0, 0, 0, None),
            (bytes(200), 0, 0, 0, 1, Some(100)),
            (bytes(200), 0, 0, 100, 2, Some(200)),
            (bytes(0), 0, 0, 50, 3, Some(300)),
            (ms(1000), 1989, 0, 0, 0, None),
            (ms(1000), 1990, 0, 0, 1, Some(100)),
            (ms(1000), 1991, 0, 0, 1, Some(100)),
            (ms(0), 5000, 0, 0, 3, Some(300)),
            (ms(0), 5000, 150, 0, 3, Some(300)),
        ];
        for (keeps, now_ms, log_start, local_only_bytes, count, start) in cases {
            let expiry = three().plan_expiry(&keeps, now_ms, Offset(log_start), local_only_bytes);
            let case = format!("{keeps:?} at {now_ms}, log start {log_start}, {local_only_bytes} only local");
            assert_eq!((expiry.segments.len(), expiry.log_start.map(Offset::get)), (count, start), "{case}");
        }
    }
}
