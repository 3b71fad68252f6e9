//! Which segments are the log's own, where leaders before the last have copied records that were then replaced.
//!
//! A leader that was cut off may have copied records that the next leader never had (KAFKA-16511). Their offsets were given
//! again, under a later epoch: matched by offset alone they would be served in the place of those. As in Kafka a segment
//! counts where each of its records has the epoch that the latest leader's log has at that offset.
//!
//! Kafka asks so for each read. Here what is no part of the lineage never comes to be known: a server copies what is durable
//! in its own log alone, each offset once, never gives an offset again that the tier has, and a restore takes in only what
//! counts. So a read finds its segment by offset.

use crate::log::leader_epochs::LeaderEpochs;
use crate::record::offset::Offset;
use crate::tier::metadata::RemoteSegment;

/// Whether all records of a segment are the log's whose epochs `lineage` has. What lies below the first of these is not
/// known any more, and counts.
#[must_use]
pub fn is_within(segment: &RemoteSegment, lineage: &LeaderEpochs) -> bool {
    let Some(known_from) = lineage.entries().first().map(|first| first.start_offset) else { return true };
    segment.epochs.iter().enumerate().all(|(at, entry)| {
        let next = segment.epochs.get(at + 1).map(|next| next.start_offset.plus(-1));
        let (first, last) = (entry.start_offset.max(known_from), next.unwrap_or(segment.end_offset));
        // Epochs rise: what holds at both ends of a range holds within.
        last < first || [first, last].iter().all(|offset| lineage.epoch_of(*offset) == Some(entry.epoch))
    })
}

/// The segment of the latest leader: its epochs are the log's.
#[must_use]
pub fn latest(segments: &[RemoteSegment]) -> Option<&RemoteSegment> {
    let epoch = |segment: &RemoteSegment| segment.epochs.iter().map(|entry| entry.epoch).max();
    segments.iter().max_by_key(|segment| (epoch(segment), segment.end_offset, segment.id))
}

/// The offset after the last record of the log that these segments have.
#[must_use]
pub fn end(segments: &[RemoteSegment]) -> Offset {
    segments.iter().map(|segment| segment.end_offset.plus(1)).max().unwrap_or(Offset(0))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::log::leader_epochs::EpochEntry;
    use crate::record::offset::LeaderEpoch;
    use crate::tier::metadata::tests::segment;
    use crate::tier::metadata::{RemoteSegmentId, SegmentEvent};
    use crate::tier::remote_expiry::TotalRetention;
    use crate::tier::remote_segments::RemoteSegments;
    use crate::tier::segment_state::SegmentState;

    fn lineage(entries: &[(i32, i64)]) -> LeaderEpochs {
        let lines: String = entries.iter().map(|(epoch, start)| format!("{epoch} {start}\n")).collect();
        LeaderEpochs::parse(&format!("0\n{}\n{lines}", entries.len())).expect("rises")
    }

    fn with_epochs(number: u8, start: i64, end: i64, epochs: &[(i32, i64)]) -> RemoteSegment {
        let entry =
            |(epoch, start): &(i32, i64)| EpochEntry { epoch: LeaderEpoch(*epoch), start_offset: Offset(*start) };
        RemoteSegment {
            epochs: epochs.iter().map(entry).collect(),
            ..segment(number, start, end, SegmentState::CopyFinished)
        }
    }

    #[test]
    fn a_segment_counts_where_each_record_has_the_logs_epoch() {
        let log = lineage(&[(1, 0), (3, 50), (4, 120)]);
        let cases = [
            (0, 49, &[(1, 0)][..], true),
            (0, 99, &[(1, 0), (3, 50)][..], true),
            (40, 130, &[(1, 40), (3, 50), (4, 120)][..], true),
            // A leader of epoch 1 that went on after the next one had begun at 50.
            (0, 60, &[(1, 0)][..], false),
            // One of epoch 2, whose records nobody took over.
            (40, 60, &[(1, 40), (2, 45)][..], false),
            // The same epoch from another offset on.
            (0, 99, &[(1, 0), (3, 55)][..], false),
            (100, 130, &[(3, 100)][..], false),
        ];
        for (start, end, epochs, expected) in cases {
            assert_eq!(is_within(&with_epochs(1, start, end, epochs), &log), expected, "{start} to {end}: {epochs:?}");
        }
        // Below what the log still knows nothing can be said.
        assert!(is_within(&with_epochs(1, 0, 49, &[(7, 0)]), &lineage(&[(9, 50)])));
        assert!(is_within(&with_epochs(1, 0, 49, &[(7, 0)]), &LeaderEpochs::default()));
    }

    #[test]
    fn the_latest_leader_decides_not_the_longest_log() {
        let segments = [with_epochs(1, 0, 200, &[(1, 0)]), with_epochs(2, 50, 90, &[(2, 50)])];
        assert_eq!(latest(&segments).map(|segment| segment.start_offset), Some(Offset(50)));
    }

    /// Logs of several leaders, each of which had a part of the one before, cut into segments of any length.
    fn leaders() -> impl Strategy<Value = Vec<(i64, i64, i64)>> {
        // Where the leader begins (in parts of the log before), how much it writes, how long its segments are.
        prop::collection::vec((0_i64..100, 1_i64..120, 5_i64..40), 1..6)
    }

    proptest! {
        #[test]
        fn each_offset_is_served_once_by_the_leader_that_has_it_and_deletion_empties_the_folder(leaders in leaders()) {
            // The model: the epoch of each record of the log, as the last leader has it.
            let mut log: Vec<i32> = Vec::new();
            let mut copied: Vec<RemoteSegment> = Vec::new();
            let mut number = 0_u8;
            for (epoch, (begins, writes, segment_len)) in (0_i32..).zip(&leaders) {
                log.truncate(usize::try_from(log.len() as i64 * begins / 100).unwrap_or(0));
                let old_len = log.len() as i64;
                log.resize(log.len() + *writes as usize, epoch);
                // It copies from somewhere at or before its own first record on: that is where copies overlap.
                let mut start = (old_len - segment_len / 2).max(0);
                while start < log.len() as i64 {
                    let end = (start + segment_len).min(log.len() as i64) - 1;
                    let mut epochs: Vec<(i32, i64)> = Vec::new();
                    for offset in start..=end {
                        let of_record = log[offset as usize];
                        if epochs.last().is_none_or(|(last, _)| *last < of_record) {
                            epochs.push((of_record, offset));
                        }
                    }
                    number += 1;
                    copied.push(with_epochs(number, start, end, &epochs));
                    start = end + 1;
                }
            }
            let mut entries: Vec<(i32, i64)> = Vec::new();
            for (offset, epoch) in (0_i64..).zip(&log) {
                if entries.last().is_none_or(|(last, _)| last < epoch) {
                    entries.push((*epoch, offset));
                }
            }
            let epochs = lineage(&entries);
            let own: Vec<RemoteSegment> = copied.iter().filter(|segment| is_within(segment, &epochs)).cloned().collect();
            let by_id: BTreeMap<RemoteSegmentId, &RemoteSegment> =
                own.iter().map(|segment| (segment.id, segment)).collect();
            let mut segments = RemoteSegments::default();
            for segment in &own {
                segments.apply(&SegmentEvent::Image(segment.clone())).expect("an image");
            }
            // A reader from each offset that any segment has: records come once, in order, each of the leader that has it.
            let has = |offset: i64| own.iter().any(|one| (one.start_offset.0..=one.end_offset.0).contains(&offset));
            for from in (0..log.len() as i64).filter(|offset| has(*offset)) {
                let mut next = from;
                while let Some(span) = segments.find(Offset(next)) {
                    let segment = by_id[&span.id()];
                    for offset in next..=span.end_offset().0 {
                        let entry = segment.epochs.iter().rev().find(|entry| entry.start_offset.0 <= offset);
                        prop_assert_eq!(entry.map(|entry| entry.epoch.0), Some(log[offset as usize]), "offset {}", offset);
                    }
                    prop_assert!(span.end_offset().0 >= next);
                    next = span.end_offset().0 + 1;
                }
                prop_assert!(!has(next), "offset {} is in a segment and was not found", next);
            }
            // The latest leader's copies are all there, whatever those before have copied.
            prop_assert_eq!(segments.end(), Some(Offset(log.len() as i64 - 1)));
            prop_assert_eq!(end(&own), Offset(log.len() as i64));
            // Deletion, as many rounds as it takes, leaves nothing.
            let keeps = TotalRetention { retention_ms: Some(0), retention_bytes: None };
            let mut rounds = 0;
            let mut log_start = Offset(0);
            while !segments.is_empty() {
                let expiry = segments.plan_expiry(&keeps, i64::MAX, log_start, 0);
                prop_assert!(!expiry.segments.is_empty(), "{} segments stay", segments.finished().len());
                log_start = expiry.log_start.unwrap_or(log_start).max(log_start);
                for (id, _) in expiry.segments {
                    for state in [SegmentState::DeleteStarted, SegmentState::DeleteFinished] {
                        segments.apply(&SegmentEvent::Delete { id, state }).expect("legal");
                    }
                }
                rounds += 1;
                prop_assert!(rounds < 100);
            }
            prop_assert_eq!(log_start, Offset(log.len() as i64));
        }
    }
}
