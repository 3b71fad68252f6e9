//! Which records of a batch survive a compaction, and what becomes of the batch.
//!
//! Kafka's rules (`Cleaner.cleanInto`). A batch that loses all records may stay as a header: the last one of each active
//! producer, so that its sequences survive, and the last one of a segment, so that its offsets do (Kafka keeps that of the
//! last segment only; here no gap may lie between two segments, for that is what a lost tail looks like to recovery).

use std::collections::BTreeMap;

use crate::log::offset_map::OffsetMap;
use crate::log::producer_state::ProducerStates;
use crate::record::batch::BatchHeader;
use crate::record::keyed_record::KeyedRecord;
use crate::record::offset::{Offset, ProducerId};

/// The last batches of the producers that a partition knows.
#[derive(Clone, Debug, Default)]
pub struct ActiveProducers {
    last: BTreeMap<ProducerId, LastBatch>,
}

#[derive(Clone, Copy, Debug)]
struct LastBatch {
    /// `None` where its latest word was a marker.
    last_offset: Option<Offset>,
    epoch: i16,
}

impl ActiveProducers {
    /// As they are now.
    pub fn of(states: &ProducerStates) -> Self {
        let last = states.iter().map(|(id, state)| {
            let last_offset = state.batches().last().map(|batch| batch.last_offset);
            (id, LastBatch { last_offset, epoch: state.epoch })
        });
        Self { last: last.collect() }
    }

    /// True where this batch says what the producer's sequence or epoch is.
    fn need(&self, header: &BatchHeader) -> bool {
        let last = header.producer_id.is_some().then(|| self.last.get(&header.producer_id)).flatten();
        last.is_some_and(|last| match last.last_offset {
            Some(last_offset) => last_offset == header.last_offset(),
            None => header.attributes.is_control() && header.producer_epoch == last.epoch,
        })
    }
}

/// What decides in one compaction.
pub struct CleaningRules {
    /// The newest record of each key of the dirty part.
    pub map: OffsetMap,
    /// Whose last batches stay.
    pub producers: ActiveProducers,
    /// The time of the compaction.
    pub now_ms: i64,
    /// `delete.retention.ms`.
    pub delete_retention_ms: u64,
}

/// What is known of a batch before its records are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchFate {
    /// No record stays.
    pub discards_all: bool,
    /// Where no record stays, its header does.
    pub stays_empty: bool,
    /// It is the marker of a transaction that has no records left.
    pub is_spent_marker: bool,
}

impl CleaningRules {
    /// Judges a batch. `can_discard`: its transaction was aborted, or, for a marker, no records of it are left. `is_last`:
    /// none follows in its group of segments.
    pub fn judge(&self, header: &BatchHeader, can_discard: bool, is_last: bool) -> BatchFate {
        let is_control = header.attributes.is_control();
        let discards_all = can_discard && (!is_control || self.is_past_horizon(header));
        BatchFate {
            discards_all,
            stays_empty: is_last || self.producers.need(header),
            is_spent_marker: is_control && can_discard,
        }
    }

    /// True where a record of a batch that is not discarded as a whole stays.
    #[inline]
    pub fn keeps(&self, header: &BatchHeader, record: &KeyedRecord<'_>) -> bool {
        if header.attributes.is_control() {
            return true;
        }
        let offset = header.base_offset.plus(i64::from(record.offset_delta));
        if offset > self.map.latest() {
            return true;
        }
        let Some(key) = record.key else { return false };
        let is_newest = self.map.get(key).is_none_or(|newest| offset >= newest);
        is_newest && (record.has_value || !self.is_past_horizon(header))
    }

    /// The delete horizon that a batch is to get: of one that keeps tombstones, or a marker without records, and has none.
    pub fn new_horizon_ms(&self, header: &BatchHeader, fate: &BatchFate, keeps_tombstones: bool) -> Option<i64> {
        let needs_one = (keeps_tombstones || fate.is_spent_marker) && !header.attributes.has_delete_horizon();
        let retention_ms = i64::try_from(self.delete_retention_ms).unwrap_or(i64::MAX);
        needs_one.then(|| self.now_ms.saturating_add(retention_ms))
    }

    fn is_past_horizon(&self, header: &BatchHeader) -> bool {
        header.attributes.has_delete_horizon() && self.now_ms >= header.base_timestamp.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::batch::{CONTROL_BIT, DELETE_HORIZON_BIT, HEADER_BYTES, TRANSACTIONAL_BIT, parse_header};
    use crate::record::builder::BatchBuilder;
    use crate::record::check::CheckedBatch;
    use crate::record::keyed_record::RecordCursor;
    use crate::record::offset::TimestampMs;

    fn rules(map: OffsetMap, producers: ActiveProducers) -> CleaningRules {
        CleaningRules { map, producers, now_ms: 1000, delete_retention_ms: 50 }
    }

    fn map(entries: &[(&[u8], i64)]) -> OffsetMap {
        let mut map = OffsetMap::new((1, 1), 1 << 20, 0.9, 100);
        for (key, offset) in entries {
            assert!(map.put(key, Offset(*offset)));
        }
        map
    }

    /// Offsets that stay of a batch at 10 with these records.
    fn stay(rules: &CleaningRules, records: &[(Option<&[u8]>, bool)], attributes: i16, base_ms: i64) -> Vec<i64> {
        let mut builder = BatchBuilder::new().attributes(attributes);
        for (key, has_value) in records {
            builder.add(base_ms, *key, has_value.then_some(b"value"));
        }
        let bytes = builder.build().expect("uncompressed");
        let header = BatchHeader { base_offset: Offset(10), ..parse_header(&bytes).expect("built") };
        let (mut cursor, mut kept) = (RecordCursor::new(&header), Vec::new());
        while let Some(record) = cursor.next(&bytes[HEADER_BYTES..]).expect("well-formed") {
            if rules.keeps(&header, &record) {
                kept.push(10 + i64::from(record.offset_delta));
            }
        }
        kept
    }

    #[test]
    fn c090_the_newest_of_each_key_stays_and_all_that_was_not_looked_at() {
        let records: [(Option<&[u8]>, bool); 5] =
            [(Some(b"a"), true), (Some(b"b"), true), (Some(b"a"), true), (None, true), (Some(b"c"), true)];
        let rules = rules(map(&[(b"a", 12), (b"b", 30), (b"z", 13)]), ActiveProducers::default());
        assert_eq!(stay(&rules, &records, 0, 5), [12, 14], "c is in the clean part only");
        let none = self::rules(map(&[]), ActiveProducers::default());
        assert_eq!(stay(&none, &records, 0, 5), [10, 11, 12, 13, 14], "nothing was looked at");
    }

    #[test]
    fn a_tombstone_stays_until_its_horizon() {
        let records: [(Option<&[u8]>, bool); 3] = [(Some(b"a"), false), (Some(b"b"), true), (Some(b"c"), false)];
        let rules = rules(map(&[(b"a", 10), (b"b", 11), (b"c", 20)]), ActiveProducers::default());
        assert_eq!(stay(&rules, &records, 0, 5), [10, 11]);
        assert_eq!(stay(&rules, &records, DELETE_HORIZON_BIT, 1001), [10, 11]);
        assert_eq!(stay(&rules, &records, DELETE_HORIZON_BIT, 1000), [11]);
        let header = |attributes, base_ms| {
            let bytes = BatchBuilder::new().attributes(attributes).build().expect("uncompressed");
            let header = parse_header(&bytes).expect("built");
            BatchHeader { base_timestamp: TimestampMs(base_ms), ..header }
        };
        let fate = rules.judge(&header(0, 5), false, false);
        assert_eq!(rules.new_horizon_ms(&header(0, 5), &fate, true), Some(1050));
        assert_eq!(rules.new_horizon_ms(&header(0, 5), &fate, false), None);
        assert_eq!(rules.new_horizon_ms(&header(DELETE_HORIZON_BIT, 5), &fate, true), None);
        // A marker: kept while its transaction has records, then until its horizon.
        let marker = header(CONTROL_BIT | TRANSACTIONAL_BIT, 5);
        for (header, can_discard, discards_all, horizon) in [
            (marker, false, false, None),
            (marker, true, false, Some(1050)),
            (header(CONTROL_BIT | DELETE_HORIZON_BIT, 1001), true, false, None),
            (header(CONTROL_BIT | DELETE_HORIZON_BIT, 1000), true, true, None),
            (header(CONTROL_BIT | DELETE_HORIZON_BIT, 1000), false, false, None),
        ] {
            let fate = rules.judge(&header, can_discard, false);
            assert_eq!(fate.discards_all, discards_all, "{header:?} {can_discard}");
            assert_eq!(rules.new_horizon_ms(&header, &fate, false), horizon, "{header:?} {can_discard}");
        }
        assert!(rules.judge(&header(TRANSACTIONAL_BIT, 5), true, false).discards_all, "aborted records");
    }

    #[test]
    fn the_last_batch_of_a_producer_and_of_a_segment_stays_as_a_header() {
        let mut states = ProducerStates::default();
        let batch = |producer_id, sequence| {
            let mut builder = BatchBuilder::new().producer(ProducerId(producer_id), 0, sequence);
            builder.add(1, Some(b"k"), None);
            builder.add(1, Some(b"k"), None);
            parse_header(&builder.build().expect("uncompressed")).expect("built")
        };
        for (producer_id, sequence, base) in [(1, 0, 10), (1, 2, 12), (2, 0, 14)] {
            let header = batch(producer_id, sequence);
            states.reserve(&CheckedBatch::from_header(&header), Offset(base), TimestampMs(1));
        }
        let rules = rules(map(&[(b"k", 99)]), ActiveProducers::of(&states));
        for (producer_id, base, stays) in
            [(1, 10, false), (1, 12, true), (2, 14, true), (2, 12, false), (3, 14, false), (-1, 14, false)]
        {
            let header = BatchHeader { base_offset: Offset(base), producer_id: ProducerId(producer_id), ..batch(1, 0) };
            let fate = rules.judge(&header, false, false);
            assert_eq!(fate.stays_empty, stays, "producer {producer_id} at {base}");
            assert!(rules.judge(&header, false, true).stays_empty);
            assert!(!fate.discards_all);
        }
    }
}
