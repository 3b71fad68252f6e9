//! Idempotent producers of one partition: epochs, sequences, the last batches.

use std::collections::BTreeMap;

use crate::log::error::AppendError;
use crate::log::producer_snapshot::{self, SnapshotEntry};
use crate::record::batch::sequence_after;
use crate::record::check::CheckedBatch;
use crate::record::control::EndMarker;
use crate::record::offset::{Offset, ProducerId, TimestampMs};

/// What the partition remembers of its producers, with what is planned. Kafka's `ProducerStateManager`.
///
/// At most [`PRODUCERS_MAX`] are known: 3 MiB. Beyond, those that wrote longest ago are forgotten, and may then go on with
/// any sequence, as in Kafka after `producer.id.expiration.ms`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProducerStates {
    producers: BTreeMap<ProducerId, ProducerState>,
    /// Epoch and first sequence of batches that the disk refused, of producers not known otherwise: what they sent
    /// behind such a batch may not go before it.
    refused: BTreeMap<ProducerId, (i16, i32)>,
}

/// One producer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducerState {
    /// Its latest epoch.
    pub epoch: i16,
    /// Timestamp of its latest batch or marker.
    pub last_timestamp: TimestampMs,
    /// Epoch of the coordinator that ended its latest transaction; -1 where none did.
    pub coordinator_epoch: i32,
    /// First offset of the transaction that it has open here; -1 where none is.
    pub transaction_first_offset: Offset,
    /// Markers of this producer since it is known.
    pub marker_count: u32,
    /// Its latest batches of that epoch, oldest first, all others [`KeptBatch::NONE`].
    batches: [KeptBatch; BATCHES_KEPT],
    batch_count: u8,
}

/// One batch of a producer, to know it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptBatch {
    /// Sequence number of its first record.
    pub first_sequence: i32,
    /// Sequence number of its last record.
    pub last_sequence: i32,
    /// Offset of its last record.
    pub last_offset: Offset,
    /// Offset of its last record less that of its first.
    pub offset_delta: i32,
    /// Its log append time or largest timestamp.
    pub timestamp: TimestampMs,
}

impl KeptBatch {
    const NONE: Self = Self {
        first_sequence: -1,
        last_sequence: -1,
        last_offset: Offset::NONE,
        offset_delta: 0,
        timestamp: TimestampMs::NONE,
    };

    /// Offset of its first record.
    pub fn base_offset(&self) -> Offset {
        self.last_offset.plus(-i64::from(self.offset_delta))
    }
}

impl ProducerState {
    fn new(epoch: i16) -> Self {
        Self {
            epoch,
            last_timestamp: TimestampMs::NONE,
            coordinator_epoch: -1,
            transaction_first_offset: Offset::NONE,
            marker_count: 0,
            batches: [KeptBatch::NONE; BATCHES_KEPT],
            batch_count: 0,
        }
    }

    /// It has a transaction open here.
    pub fn has_transaction(&self) -> bool {
        self.transaction_first_offset >= Offset::ZERO
    }

    /// A new epoch begins without batches; what is known of its transactions stays.
    fn set_epoch(&mut self, epoch: i16) {
        if self.epoch != epoch {
            self.epoch = epoch;
            self.batches = [KeptBatch::NONE; BATCHES_KEPT];
            self.batch_count = 0;
        }
    }

    fn last_offset(&self) -> Offset {
        self.batches().last().map_or(Offset::NONE, |batch| batch.last_offset)
    }

    /// As entries of a snapshot. Kafka drops entries that are expired and keeps the last of the others: so none is younger
    /// than the last one.
    fn entries(&self, producer_id: ProducerId) -> impl Iterator<Item = SnapshotEntry> + '_ {
        let entry = move |batch: &KeptBatch| SnapshotEntry {
            producer_id,
            epoch: self.epoch,
            last_sequence: batch.last_sequence,
            last_offset: batch.last_offset,
            offset_delta: batch.offset_delta,
            timestamp: batch.timestamp.min(self.last_timestamp),
            coordinator_epoch: self.coordinator_epoch,
            transaction_first_offset: self.transaction_first_offset,
        };
        let without = KeptBatch { timestamp: self.last_timestamp, ..KeptBatch::NONE };
        let nothing = self.batches().is_empty().then(|| entry(&without));
        self.batches().iter().map(entry).chain(nothing)
    }

    /// Kafka's `checkProducerEpoch` and `checkCoordinatorEpoch`. From transaction version 2 on each marker has an epoch of
    /// its own: one that is not new can only be a retry.
    fn check_marker(&self, producer_id: ProducerId, epoch: i16, marker: EndMarker) -> Result<Sequence, AppendError> {
        let is_stale = marker.transaction_version >= 2
            && epoch == self.epoch
            && self.has_transaction()
            && epoch != PRODUCER_EPOCH_MAX;
        if epoch < self.epoch || is_stale {
            return Err(AppendError::InvalidProducerEpoch { producer_id, epoch, current: self.epoch });
        }
        if marker.coordinator_epoch < self.coordinator_epoch {
            let (epoch, current) = (marker.coordinator_epoch, self.coordinator_epoch);
            return Err(AppendError::CoordinatorFenced { producer_id, epoch, current });
        }
        Ok(Sequence::Next)
    }

    /// Its latest batches, oldest first.
    pub fn batches(&self) -> &[KeptBatch] {
        &self.batches[..usize::from(self.batch_count)]
    }

    fn add(&mut self, batch: KeptBatch) {
        if usize::from(self.batch_count) == BATCHES_KEPT {
            self.batches.rotate_left(1);
            self.batch_count -= 1;
        }
        self.batches[usize::from(self.batch_count)] = batch;
        self.batch_count += 1;
        self.last_timestamp = batch.timestamp;
    }
}

/// Where a batch stands among those of its producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::log) enum Sequence {
    /// It may be appended.
    Next,
    /// It was appended already.
    Duplicate(KeptBatch),
}

/// What a reservation changed, to take it back: the producer as it was before.
#[derive(Clone, Debug)]
pub(in crate::log) struct ProducerUndo {
    pub(in crate::log) producer_id: ProducerId,
    before: Option<ProducerState>,
    /// What became of the producer's transaction in this partition.
    pub(in crate::log) change: Option<TransactionChange>,
}

/// What a batch makes of its producer's transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::log) enum TransactionChange {
    /// It is the first one of it.
    Begun,
    /// It is the marker that ends it. (A marker may come where nothing is open: then nothing changes.)
    Ended {
        /// First offset of the transaction.
        first_offset: Offset,
        /// Else it is aborted.
        is_commit: bool,
    },
}

impl ProducerStates {
    /// Judges a batch against all that was planned before it.
    pub(in crate::log) fn check(&self, batch: &CheckedBatch) -> Result<Sequence, AppendError> {
        let producer_id = batch.producer_id;
        let known = self.producers.get(&producer_id).filter(|_| producer_id.is_some());
        if let Some(marker) = batch.marker {
            return known
                .map_or(Ok(Sequence::Next), |known| known.check_marker(producer_id, batch.producer_epoch, marker));
        }
        let current = known.map_or(NO_EPOCH, |known| known.epoch);
        // What a coordinator writes in a producer's name has no sequence; a client's batch has one.
        let sequence = if batch.base_sequence >= 0 || batch.producer_epoch < current {
            self.check_sequence(batch)?
        } else {
            Sequence::Next
        };
        if sequence == Sequence::Next && !batch.is_transactional() && known.is_some_and(ProducerState::has_transaction)
        {
            return Err(AppendError::InTransaction { producer_id });
        }
        if sequence == Sequence::Next
            && let Some(markers) = batch.verification
        {
            let is_open = known.is_some_and(|known| known.has_transaction() && known.epoch == batch.producer_epoch);
            if !is_open && known.map_or(0, |known| known.marker_count) != markers {
                return Err(AppendError::NotInTransaction { producer_id });
            }
        }
        Ok(sequence)
    }

    fn check_sequence(&self, batch: &CheckedBatch) -> Result<Sequence, AppendError> {
        let producer_id = batch.producer_id;
        let Some(known) = producer_id.is_some().then(|| self.producers.get(&producer_id)).flatten() else {
            return match self.refused.get(&producer_id) {
                Some((epoch, expected)) if *epoch == batch.producer_epoch && *expected != batch.base_sequence => {
                    Err(AppendError::OutOfOrderSequence {
                        producer_id,
                        sequence: batch.base_sequence,
                        expected: *expected,
                    })
                }
                // A producer that is not known may begin anywhere: its earlier batches may be gone.
                _ => Ok(Sequence::Next),
            };
        };
        if batch.producer_epoch < known.epoch {
            let (epoch, current) = (batch.producer_epoch, known.epoch);
            return Err(AppendError::InvalidProducerEpoch { producer_id, epoch, current });
        }
        let expected = if batch.producer_epoch > known.epoch {
            if known.epoch == NO_EPOCH {
                // As Kafka: nothing is expected of a producer whose epoch is not known.
                return Ok(Sequence::Next);
            }
            0
        } else {
            let last_sequence = sequence_after(batch.base_sequence, batch.last_offset_delta);
            let same =
                |kept: &&KeptBatch| kept.first_sequence == batch.base_sequence && kept.last_sequence == last_sequence;
            if let Some(kept) = known.batches().iter().find(same) {
                return Ok(Sequence::Duplicate(*kept));
            }
            if known.epoch == NO_EPOCH {
                return Ok(Sequence::Next);
            }
            match known.batches().last() {
                Some(last) => sequence_after(last.last_sequence, 1),
                None => 0,
            }
        };
        if batch.base_sequence != expected {
            return Err(AppendError::OutOfOrderSequence { producer_id, sequence: batch.base_sequence, expected });
        }
        Ok(Sequence::Next)
    }

    /// Notes a batch that passed [`check`](Self::check), or one that the log has. `None` for producers without an id.
    pub(in crate::log) fn reserve(
        &mut self,
        batch: &CheckedBatch,
        base_offset: Offset,
        timestamp: TimestampMs,
    ) -> Option<ProducerUndo> {
        let producer_id = batch.producer_id;
        if !producer_id.is_some() || (batch.attributes.is_control() && batch.marker.is_none()) {
            return None;
        }
        let before = self.producers.get(&producer_id).cloned();
        self.refused.remove(&producer_id);
        if before.is_none() && self.producers.len() >= PRODUCERS_MAX {
            self.forget_oldest();
        }
        let state = self.producers.entry(producer_id).or_insert_with(|| ProducerState::new(batch.producer_epoch));
        state.set_epoch(batch.producer_epoch);
        if let Some(marker) = batch.marker {
            let change = state.has_transaction().then_some(TransactionChange::Ended {
                first_offset: state.transaction_first_offset,
                is_commit: marker.is_commit,
            });
            state.transaction_first_offset = Offset::NONE;
            state.coordinator_epoch = marker.coordinator_epoch;
            state.marker_count = state.marker_count.wrapping_add(1);
            state.last_timestamp = timestamp;
            return Some(ProducerUndo { producer_id, before, change });
        }
        let begins = batch.is_transactional() && !state.has_transaction();
        if begins {
            state.transaction_first_offset = base_offset;
        }
        state.add(KeptBatch {
            first_sequence: batch.base_sequence,
            last_sequence: sequence_after(batch.base_sequence, batch.last_offset_delta),
            last_offset: base_offset.plus(i64::from(batch.last_offset_delta)),
            offset_delta: batch.last_offset_delta,
            timestamp,
        });
        Some(ProducerUndo { producer_id, before, change: begins.then_some(TransactionChange::Begun) })
    }

    /// All that is known, as the bytes of a `.snapshot`.
    pub(in crate::log) fn to_snapshot(&self) -> Vec<u8> {
        producer_snapshot::to_bytes(self.producers.iter().flat_map(|(producer_id, state)| state.entries(*producer_id)))
    }

    /// What a snapshot says, without the producers whose latest batch is `expiration_ms` old at `now_ms`.
    pub(in crate::log) fn from_snapshot(entries: &[SnapshotEntry], now_ms: i64, expiration_ms: i64) -> Self {
        let mut states = Self::default();
        for entry in entries {
            states.load(entry);
        }
        states.expire(now_ms, expiration_ms);
        states.forget_oldest();
        states
    }

    /// Takes over the producers of `others` that are not known.
    pub(in crate::log) fn add_unknown(&mut self, others: Self) {
        for (id, state) in others.producers {
            self.producers.entry(id).or_insert(state);
        }
    }

    /// Entries of one producer come oldest batch first; only those of one epoch belong together.
    fn load(&mut self, entry: &SnapshotEntry) {
        let state = self.producers.entry(entry.producer_id).or_insert_with(|| ProducerState::new(entry.epoch));
        let follows = state.batches().last().is_none_or(|last| last.last_offset < entry.last_offset);
        if state.epoch != entry.epoch || !follows {
            *state = ProducerState::new(entry.epoch);
        }
        state.last_timestamp = entry.timestamp;
        state.coordinator_epoch = entry.coordinator_epoch;
        state.transaction_first_offset = entry.transaction_first_offset.max(Offset::NONE);
        if entry.last_offset >= Offset::ZERO {
            state.add(KeptBatch {
                first_sequence: sequence_before(entry.last_sequence, entry.offset_delta),
                last_sequence: entry.last_sequence,
                last_offset: entry.last_offset,
                offset_delta: entry.offset_delta,
                timestamp: entry.timestamp,
            });
        }
    }

    /// Where too many are known, those that wrote longest ago are forgotten, many at once: it is rarely done then.
    fn forget_oldest(&mut self) {
        if self.producers.len() <= PRODUCERS_MAX {
            return;
        }
        let mut ends: Vec<(Offset, ProducerId)> =
            self.producers.iter().map(|(id, state)| (state.last_offset(), *id)).collect();
        let forgotten = self.producers.len() - PRODUCERS_MAX + PRODUCERS_MAX / 8;
        let first_kept = *ends.select_nth_unstable(forgotten).1;
        // Readers wait for what is open, so that is remembered whatever its age.
        self.producers.retain(|id, state| (state.last_offset(), *id) >= first_kept || state.has_transaction());
    }

    /// Takes a reservation back; the latest first.
    pub(in crate::log) fn take_back(&mut self, undo: ProducerUndo) {
        match undo.before {
            Some(before) => {
                self.producers.insert(undo.producer_id, before);
            }
            None => {
                let taken = self.producers.remove(&undo.producer_id);
                if let Some(first) =
                    taken.as_ref().and_then(|state| Some((state.epoch, state.batches().first()?.first_sequence)))
                {
                    self.refuse(undo.producer_id, first);
                }
            }
        }
    }

    /// Notes that the disk refused a batch that passed [`check`](Self::check). The first one of a producer counts.
    pub(in crate::log) fn note_refused(&mut self, producer_id: ProducerId, epoch: i16, first_sequence: i32) {
        let is_noted = self.refused.get(&producer_id).is_some_and(|(noted, _)| *noted == epoch);
        if producer_id.is_some() && !is_noted && !self.producers.contains_key(&producer_id) {
            self.refuse(producer_id, (epoch, first_sequence));
        }
    }

    fn refuse(&mut self, producer_id: ProducerId, first: (i16, i32)) {
        // Producers that never come back while the disk is full are not kept for ever.
        if self.refused.len() >= REFUSED_MAX {
            self.refused.clear();
        }
        self.refused.insert(producer_id, first);
    }

    /// Forgets producers whose latest batch or marker is `producer.id.expiration.ms` old, and that have no transaction
    /// open; says how many.
    pub fn expire(&mut self, now_ms: i64, expiration_ms: i64) -> usize {
        let before = self.producers.len();
        self.producers.retain(|_, state| {
            state.has_transaction() || now_ms.saturating_sub(state.last_timestamp.0) < expiration_ms
        });
        before - self.producers.len()
    }

    /// What is known of a producer.
    pub fn get(&self, producer_id: ProducerId) -> Option<&ProducerState> {
        self.producers.get(&producer_id)
    }

    /// All producers, by id.
    pub fn iter(&self) -> impl Iterator<Item = (ProducerId, &ProducerState)> {
        self.producers.iter().map(|(id, state)| (*id, state))
    }

    /// How many are known.
    pub fn len(&self) -> usize {
        self.producers.len()
    }

    /// True where none is known.
    pub fn is_empty(&self) -> bool {
        self.producers.is_empty()
    }
}

/// The sequence number `count` before `sequence`; 0 follows 2^31-1.
fn sequence_before(sequence: i32, count: i32) -> i32 {
    match sequence.checked_sub(count) {
        Some(before) if before >= 0 => before,
        _ => i32::try_from(i64::from(sequence) - i64::from(count) + (1 << 31)).unwrap_or(0),
    }
}

/// Producers of a partition that are known, about 200 bytes each.
pub const PRODUCERS_MAX: usize = 16_384;
/// Kafka's NO_PRODUCER_EPOCH.
const NO_EPOCH: i16 = -1;
/// No epoch comes after it: markers then have it too.
const PRODUCER_EPOCH_MAX: i16 = i16::MAX;
/// As many as an idempotent Java producer has in flight.
pub const BATCHES_KEPT: usize = 5;
/// Producers whose first batch found the disk full, 40 bytes each.
const REFUSED_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::batch::parse_header;
    use crate::record::builder::BatchBuilder;

    const DAY_MS: i64 = 86_400_000;

    fn batch(producer_id: i64, epoch: i16, sequence: i32, records: i64) -> CheckedBatch {
        let mut builder = BatchBuilder::new().producer(ProducerId(producer_id), epoch, sequence);
        for number in 0..records {
            builder.add(number, None, None);
        }
        let bytes = builder.build().expect("uncompressed");
        CheckedBatch::from_header(&parse_header(&bytes).expect("built"))
    }

    fn reloaded(states: &ProducerStates, now_ms: i64) -> ProducerStates {
        let entries = producer_snapshot::parse(&states.to_snapshot()).expect("our own");
        ProducerStates::from_snapshot(&entries, now_ms, DAY_MS)
    }

    /// C110 and C112 after a restart: five batches, the epoch and the wrap of sequences are known again.
    #[test]
    fn c110_a_snapshot_remembers_five_batches() {
        let mut states = ProducerStates::default();
        let mut offset = Offset::ZERO;
        let mut sequence = i32::MAX - 7;
        let mut sent = Vec::new();
        for _ in 0..8 {
            let next = batch(3, 2, sequence, 2);
            assert_eq!(states.check(&next), Ok(Sequence::Next));
            states.reserve(&next, offset, TimestampMs(1000));
            sent.push((next, offset));
            (sequence, offset) = (sequence_after(sequence, 2), offset.plus(2));
        }
        assert_eq!(sequence, 8, "it wrapped at 2^31-1");
        let states = reloaded(&states, 2000);
        for (at, (batch, offset)) in sent.iter().enumerate() {
            match states.check(batch) {
                Ok(Sequence::Duplicate(kept)) => {
                    assert!(at >= 3, "batch {at}");
                    assert_eq!((kept.base_offset(), kept.last_offset), (*offset, offset.plus(1)), "batch {at}");
                }
                other => {
                    assert!(at < 3, "batch {at}: {other:?}");
                    assert!(matches!(other, Err(AppendError::OutOfOrderSequence { expected: 8, .. })), "{other:?}");
                }
            }
        }
        assert_eq!(states.check(&batch(3, 2, 8, 1)), Ok(Sequence::Next));
        assert!(matches!(states.check(&batch(3, 2, 9, 1)), Err(AppendError::OutOfOrderSequence { .. })));
        assert!(matches!(states.check(&batch(3, 1, 8, 1)), Err(AppendError::InvalidProducerEpoch { current: 2, .. })));
        assert!(matches!(states.check(&batch(3, 3, 8, 1)), Err(AppendError::OutOfOrderSequence { expected: 0, .. })));
        assert_eq!(states.check(&batch(3, 3, 0, 1)), Ok(Sequence::Next));
        assert_eq!(states.check(&batch(4, 0, 77, 1)), Ok(Sequence::Next), "nobody knows it");
    }

    #[test]
    fn expired_ones_are_not_loaded_and_none_is_younger_than_its_last() {
        let mut states = ProducerStates::default();
        states.reserve(&batch(1, 0, 0, 1), Offset(0), TimestampMs(5 * DAY_MS));
        // Its clock went back.
        states.reserve(&batch(1, 0, 1, 1), Offset(1), TimestampMs(DAY_MS));
        states.reserve(&batch(2, 0, 0, 1), Offset(2), TimestampMs(DAY_MS + 1));
        let ids = |states: &ProducerStates| states.iter().map(|(id, _)| id.0).collect::<Vec<_>>();
        assert_eq!(ids(&reloaded(&states, DAY_MS)), [1, 2]);
        assert_eq!(ids(&reloaded(&states, 2 * DAY_MS)), [2]);
        let entries = producer_snapshot::parse(&states.to_snapshot()).expect("our own");
        assert!(entries.iter().all(|entry| entry.producer_id.0 == 2 || entry.timestamp == TimestampMs(DAY_MS)));
    }

    #[test]
    fn the_oldest_of_too_many_are_forgotten() {
        let mut states = ProducerStates::default();
        for number in 0..2 * PRODUCERS_MAX as i64 {
            // High ids write first: it is not the id that counts.
            states.reserve(&batch(1_000_000 - number, 0, 0, 1), Offset(number), TimestampMs(1));
            assert!(states.len() <= PRODUCERS_MAX + 1);
        }
        assert!(states.len() > PRODUCERS_MAX / 2);
        let newest = 1_000_000 - (2 * PRODUCERS_MAX as i64 - 1);
        assert!(matches!(states.check(&batch(newest, 0, 0, 1)), Ok(Sequence::Duplicate(_))));
        assert_eq!(states.check(&batch(1_000_000, 0, 55, 1)), Ok(Sequence::Next));
        assert!(reloaded(&states, 1).len() == states.len());
        let size = size_of::<(ProducerId, ProducerState)>();
        assert!(size <= 208, "{size} bytes a producer");
    }

    fn marked(producer_id: i64, epoch: i16, coordinator_epoch: i32, transaction_version: i8) -> CheckedBatch {
        let marker = EndMarker { is_commit: true, coordinator_epoch, transaction_version };
        let bytes = marker.to_batch(ProducerId(producer_id), epoch, 0);
        CheckedBatch::of_marker(&parse_header(&bytes).expect("built"), marker)
    }

    /// C112 and C115: what a partition refuses of transactions, and that a marker counts as a sign of life.
    #[test]
    fn c115_transactions_are_judged_and_keep_their_producers() {
        let transactional = |epoch, sequence| {
            let mut batch = batch(1, epoch, sequence, 1);
            batch.attributes.0 |= crate::record::batch::TRANSACTIONAL_BIT;
            batch
        };
        let mut states = ProducerStates::default();
        let begun = states.reserve(&transactional(0, 0), Offset(5), TimestampMs(1)).and_then(|undo| undo.change);
        assert_eq!(begun, Some(TransactionChange::Begun));
        assert_eq!(states.expire(10 * DAY_MS, DAY_MS), 0, "what is open does not expire");
        assert!(matches!(states.check(&batch(1, 0, 1, 1)), Err(AppendError::InTransaction { .. })));
        assert_eq!(states.check(&transactional(0, 1)), Ok(Sequence::Next));
        let verified = |markers| CheckedBatch { verification: Some(markers), ..transactional(1, 0) };
        assert_eq!(states.check(&verified(0)), Ok(Sequence::Next));
        assert!(matches!(states.check(&verified(1)), Err(AppendError::NotInTransaction { .. })));
        // Version 2 has each marker come with an epoch of its own.
        assert!(matches!(states.check(&marked(1, 0, 3, 2)), Err(AppendError::InvalidProducerEpoch { .. })));
        assert_eq!(states.check(&marked(1, 0, 3, 1)), Ok(Sequence::Next));
        let ended =
            states.reserve(&marked(1, 1, 3, 2), Offset(6), TimestampMs(9 * DAY_MS)).and_then(|undo| undo.change);
        assert_eq!(ended, Some(TransactionChange::Ended { first_offset: Offset(5), is_commit: true }));
        assert_eq!(states.check(&marked(1, 1, 3, 2)), Ok(Sequence::Next), "a retry ends nothing");
        assert!(matches!(states.check(&marked(1, 1, 2, 2)), Err(AppendError::CoordinatorFenced { current: 3, .. })));
        assert!(matches!(states.check(&transactional(0, 1)), Err(AppendError::InvalidProducerEpoch { .. })));
        assert!(matches!(states.check(&verified(0)), Err(AppendError::NotInTransaction { .. })), "it has ended since");
        assert_eq!(states.check(&verified(1)), Ok(Sequence::Next));
        assert_eq!(states.expire(9 * DAY_MS + 1, DAY_MS), 0, "the marker is young");
        let known = reloaded(&states, 9 * DAY_MS);
        assert_eq!(known.get(ProducerId(1)).map(|one| (one.epoch, one.coordinator_epoch)), Some((1, 3)));
    }
}
