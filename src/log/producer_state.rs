//! Idempotent producers of one partition: epochs, sequences, the last batches.

use std::collections::BTreeMap;

use crate::log::error::AppendError;
use crate::record::batch::sequence_after;
use crate::record::check::CheckedBatch;
use crate::record::offset::{Offset, ProducerId, TimestampMs};

/// What the partition remembers of its producers, with what is planned. Kafka's `ProducerStateManager`.
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
    /// Timestamp of its latest batch.
    pub last_timestamp: TimestampMs,
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
    producer_id: ProducerId,
    before: Option<ProducerState>,
}

impl ProducerStates {
    /// Judges a batch against all that was planned before it.
    pub(in crate::log) fn check(&self, batch: &CheckedBatch) -> Result<Sequence, AppendError> {
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
            0
        } else {
            let last_sequence = sequence_after(batch.base_sequence, batch.last_offset_delta);
            let same =
                |kept: &&KeptBatch| kept.first_sequence == batch.base_sequence && kept.last_sequence == last_sequence;
            if let Some(kept) = known.batches().iter().find(same) {
                return Ok(Sequence::Duplicate(*kept));
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
        if !producer_id.is_some() || batch.attributes.is_control() {
            return None;
        }
        let before = self.producers.get(&producer_id).cloned();
        self.refused.remove(&producer_id);
        let state = self.producers.entry(producer_id).or_insert(ProducerState {
            epoch: batch.producer_epoch,
            last_timestamp: timestamp,
            batches: [KeptBatch::NONE; BATCHES_KEPT],
            batch_count: 0,
        });
        if state.epoch != batch.producer_epoch {
            state.epoch = batch.producer_epoch;
            state.batch_count = 0;
            state.batches = [KeptBatch::NONE; BATCHES_KEPT];
        }
        state.add(KeptBatch {
            first_sequence: batch.base_sequence,
            last_sequence: sequence_after(batch.base_sequence, batch.last_offset_delta),
            last_offset: base_offset.plus(i64::from(batch.last_offset_delta)),
            offset_delta: batch.last_offset_delta,
            timestamp,
        });
        Some(ProducerUndo { producer_id, before })
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

    /// Forgets producers whose latest batch is `producer.id.expiration.ms` old; says how many.
    pub fn expire(&mut self, now_ms: i64, expiration_ms: i64) -> usize {
        let before = self.producers.len();
        self.producers.retain(|_, state| now_ms.saturating_sub(state.last_timestamp.0) < expiration_ms);
        before - self.producers.len()
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

/// As many as an idempotent Java producer has in flight.
pub const BATCHES_KEPT: usize = 5;
/// Producers whose first batch found the disk full, 40 bytes each.
const REFUSED_MAX: usize = 4096;
