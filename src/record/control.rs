//! The record of a control batch: how a transaction ended.
//!
//! A control batch has one record. Its key is a version (int16) and a type (int16: 0 abort, 1 commit), its value a version
//! (int16) and the coordinator's epoch (int32), as in Kafka's `EndTxnMarker.json`. Other types (of Kafka's own quorum)
//! stand in no log that is served here.

use crate::record::batch::{BatchHeader, CONTROL_BIT, HEADER_BYTES, TRANSACTIONAL_BIT};
use crate::record::builder::BatchBuilder;
use crate::record::offset::ProducerId;
use crate::record::record_fields::Record;

/// Ends the transaction that its producer has open in a partition. Kafka's `EndTransactionMarker`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndMarker {
    /// The transaction's records become visible; else they are passed over.
    pub is_commit: bool,
    /// Epoch of the coordinator that decided it.
    pub coordinator_epoch: i32,
    /// The transaction version that the producer speaks: from 2 on a marker comes with an epoch of its own. It is judged
    /// at the append and stands nowhere in the log; 0 of markers that were read.
    pub transaction_version: i8,
}

impl EndMarker {
    /// Reads the marker of a whole control batch. `None` where it holds none: emptied by compaction, of another type, or
    /// damaged (its CRC is not checked here).
    pub fn parse(header: &BatchHeader, batch: &[u8]) -> Option<Self> {
        if !header.attributes.is_control() || !header.attributes.is_transactional() {
            return None;
        }
        let records = batch.get(HEADER_BYTES..header.len_bytes as usize)?;
        let (record, _) = Record::parse(records).ok()?;
        let (key, value) = (record.key?, record.value?);
        let is_commit = match i16::from_be_bytes(*key.get(2..)?.first_chunk()?) {
            ABORT => false,
            COMMIT => true,
            _ => return None,
        };
        let coordinator_epoch = i32::from_be_bytes(*value.get(2..)?.first_chunk()?);
        Some(Self { is_commit, coordinator_epoch, transaction_version: 0 })
    }

    /// The batch that says so.
    pub fn to_batch(self, producer_id: ProducerId, producer_epoch: i16, now_ms: i64) -> Vec<u8> {
        let kind = if self.is_commit { COMMIT } else { ABORT };
        let key = [VERSION.to_be_bytes(), kind.to_be_bytes()].concat();
        let value = [&VERSION.to_be_bytes()[..], &self.coordinator_epoch.to_be_bytes()].concat();
        let builder = BatchBuilder::new().producer(producer_id, producer_epoch, NO_SEQUENCE);
        let mut builder = builder.attributes(TRANSACTIONAL_BIT | CONTROL_BIT);
        builder.add(now_ms, Some(&key), Some(&value));
        builder.build().expect("without a codec nothing can fail")
    }
}

const VERSION: i16 = 0;
const ABORT: i16 = 0;
const COMMIT: i16 = 1;
const NO_SEQUENCE: i32 = -1;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::batch::parse_header;

    #[test]
    fn markers_come_back_and_have_kafkas_length() {
        for is_commit in [true, false] {
            let marker = EndMarker { is_commit, coordinator_epoch: 77, transaction_version: 0 };
            let batch = marker.to_batch(ProducerId(9), 3, 1234);
            assert_eq!(batch.len(), 78, "as kafka-dump-log shows them");
            let header = parse_header(&batch).expect("built");
            assert_eq!((header.producer_id, header.producer_epoch, header.base_sequence), (ProducerId(9), 3, -1));
            assert_eq!(EndMarker::parse(&header, &batch), Some(marker));
            for cut in 0..batch.len() {
                assert_eq!(EndMarker::parse(&header, &batch[..cut]), None, "cut at {cut}");
            }
        }
    }

    #[test]
    fn other_batches_hold_none() {
        let mut builder = BatchBuilder::new().attributes(TRANSACTIONAL_BIT | CONTROL_BIT);
        builder.add(0, Some(&[0, 0, 0, 2]), Some(&[0; 6]));
        let other = builder.build().expect("uncompressed");
        assert_eq!(EndMarker::parse(&parse_header(&other).expect("built"), &other), None, "a leader change");
        let mut builder = BatchBuilder::new().attributes(TRANSACTIONAL_BIT);
        builder.add(0, Some(&[0, 0, 0, 1]), Some(&[0; 6]));
        let data = builder.build().expect("uncompressed");
        assert_eq!(EndMarker::parse(&parse_header(&data).expect("built"), &data), None, "data");
    }
}
