//! The records of `__transaction_state`: made, and read back.
//!
//! A key begins with its type (0), a value with its version; then comes the message by Kafka's descriptor. Version 1 has the
//! producer ids before and after, and the transaction version that the client speaks, as tagged fields.

use crate::record::coordination::{CoordinatorRecord, ReplayError};
use crate::record::offset::ProducerId;
use crate::txn::state::TransactionState;
use crate::txn::transaction::{NO_EPOCH, Transaction};
use crate::wire::messages::transaction_log_key::TransactionLogKey;
use crate::wire::messages::transaction_log_value::{PartitionsSchema, TransactionLogValue};
use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// The record of a transactional id as it is.
///
/// # Errors
/// A name is too long for the format.
pub fn transaction(transactional_id: &str, transaction: &Transaction) -> Result<CoordinatorRecord, EncodeError> {
    let partitions = transaction
        .partitions
        .iter()
        .map(|(topic, indexes)| PartitionsSchema { topic, partition_ids: indexes.iter().copied().collect() });
    let message = TransactionLogValue {
        producer_id: transaction.producer_id.0,
        previous_producer_id: transaction.previous_producer_id.0,
        next_producer_id: transaction.next_producer_id.0,
        producer_epoch: transaction.producer_epoch,
        transaction_timeout_ms: transaction.timeout_ms,
        transaction_status: transaction.state.code(),
        // Null in this state, as in Kafka.
        transaction_partitions: (transaction.state != TransactionState::Empty).then(|| partitions.collect()),
        transaction_last_update_timestamp_ms: transaction.updated_ms,
        transaction_start_timestamp_ms: transaction.started_ms,
        client_transaction_version: transaction.client_version,
        ..TransactionLogValue::default()
    };
    let mut value = Vec::with_capacity(64);
    writer::int16(&mut value, VALUE_VERSION);
    message.encode(&mut value, VALUE_VERSION)?;
    Ok(CoordinatorRecord { key: key(transactional_id)?, value: Some(value) })
}

/// The record that forgets an id.
///
/// # Errors
/// As [`transaction`].
pub fn tombstone(transactional_id: &str) -> Result<CoordinatorRecord, EncodeError> {
    Ok(CoordinatorRecord { key: key(transactional_id)?, value: None })
}

fn key(transactional_id: &str) -> Result<Vec<u8>, EncodeError> {
    let mut key = Vec::with_capacity(4 + transactional_id.len());
    writer::int16(&mut key, TransactionLogKey::API_KEY);
    TransactionLogKey { transactional_id }.encode(&mut key, KEY_VERSION)?;
    Ok(key)
}

/// Reads a record: an id, and what is known of it; `None` where it was forgotten.
///
/// # Errors
/// What makes no sense, or is of a newer server.
pub fn decode(key: &[u8], value: Option<&[u8]>) -> Result<(String, Option<Transaction>), ReplayError> {
    let mut key = Reader::new(key);
    let kind = key.int16("type").map_err(corrupt)?;
    if kind != TransactionLogKey::API_KEY {
        return Err(ReplayError::UnknownType(kind));
    }
    let key = TransactionLogKey::decode(&mut key, KEY_VERSION).map_err(corrupt)?;
    let transaction = value.map(decode_value).transpose()?;
    Ok((key.transactional_id.to_owned(), transaction))
}

fn decode_value(value: &[u8]) -> Result<Transaction, ReplayError> {
    let mut reader = Reader::new(value);
    let version = reader.int16("version").map_err(corrupt)?;
    if !(TransactionLogValue::VERSION_MIN..=TransactionLogValue::VERSION_MAX).contains(&version) {
        return Err(ReplayError::Corrupt(format!("a value of the unknown version {version}")));
    }
    let value = TransactionLogValue::decode(&mut reader, version).map_err(corrupt)?;
    let state = TransactionState::of_code(value.transaction_status)
        .ok_or_else(|| ReplayError::Corrupt(format!("the unknown state {}", value.transaction_status)))?;
    let partitions = value.transaction_partitions.unwrap_or_default().into_iter();
    Ok(Transaction {
        producer_id: ProducerId(value.producer_id),
        previous_producer_id: ProducerId(value.previous_producer_id),
        next_producer_id: ProducerId(value.next_producer_id),
        producer_epoch: value.producer_epoch,
        last_producer_epoch: NO_EPOCH,
        timeout_ms: value.transaction_timeout_ms,
        state,
        partitions: partitions
            .map(|topic| (topic.topic.to_owned(), topic.partition_ids.into_iter().collect()))
            .collect(),
        started_ms: value.transaction_start_timestamp_ms,
        updated_ms: value.transaction_last_update_timestamp_ms,
        client_version: value.client_transaction_version,
    })
}

fn corrupt(error: DecodeError) -> ReplayError {
    ReplayError::Corrupt(error.to_string())
}

const KEY_VERSION: i16 = 0;
const VALUE_VERSION: i16 = 1;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::coordination::ReplayedRecord;
    use crate::record::record_reader::{check_crc, read_records};
    use crate::txn::coordinator::{TransactionConfig, TransactionCoordinator};

    #[test]
    fn records_come_back() {
        let mut written = Transaction::new(ProducerId(7), 60_000, 1000);
        for state in TransactionState::ALL {
            written.state = state;
            let record = transaction("an id", &written).expect("short");
            let read = decode(&record.key, record.value.as_deref()).expect("our own");
            assert_eq!(read, ("an id".to_owned(), Some(written.clone())), "{state:?}");
            written.partitions.entry("t".to_owned()).or_default().extend([0, 3]);
            (written.client_version, written.previous_producer_id) = (2, ProducerId(6));
        }
        let gone = tombstone("an id").expect("short");
        assert_eq!(decode(&gone.key, None), Ok(("an id".to_owned(), None)));
    }

    /// Segments of `__transaction_state` that a real Kafka 4.4.0 wrote: transactions of both versions, committed, aborted, fenced,
    /// aborted with nothing in them, and one that is open (`tests/directories/generate`).
    #[test]
    fn kafkas_records_are_understood_and_would_be_written_the_same() {
        let mut segment: &[u8] = include_bytes!("../../tests/golden/groups/transactions.log");
        let (mut coordinator, mut count) = (TransactionCoordinator::new(TransactionConfig::default()), 0);
        while !segment.is_empty() {
            let header = check_crc(segment).expect("Kafka's CRC");
            let (batch, rest) = segment.split_at(header.len_bytes as usize);
            segment = rest;
            read_records(batch, usize::MAX, |record| {
                let (key, value) = (record.key.expect("coordinators' records have keys"), record.value);
                let (id, read) = decode(key, value).expect("Kafka's record");
                let again = transaction(&id, &read.expect("none was forgotten")).expect("it was read");
                assert_eq!((&again.key[..], again.value.as_deref()), (key, value), "record {count} of {id}");
                let replayed = ReplayedRecord { offset: header.base_offset, writer: None, key, value };
                coordinator.replay(&replayed).expect("it was read");
                count += 1;
            })
            .expect("whole batches");
        }
        assert_eq!(count, 21);
        for (id, state, epoch, partitions) in [
            ("version-1", TransactionState::CompleteAbort, 0, 0),
            ("version-2", TransactionState::CompleteAbort, 2, 0),
            ("fenced", TransactionState::Empty, 2, 0),
            ("open", TransactionState::Ongoing, 0, 2),
        ] {
            let known = coordinator.get(id).expect("it was replayed");
            let partition_count: usize = known.partitions.values().map(std::collections::BTreeSet::len).sum();
            assert_eq!((known.state, known.producer_epoch, partition_count), (state, epoch, partitions), "{id}");
        }
    }

    #[test]
    fn damaged_records_are_refused() {
        let record = transaction("an id", &Transaction::new(ProducerId(7), 60_000, 1000)).expect("short");
        let value = record.value.expect("a value");
        for cut in 0..value.len() {
            assert!(decode(&record.key, Some(&value[..cut])).is_err(), "cut at {cut}");
        }
        assert_eq!(decode(&[0, 9], None), Err(ReplayError::UnknownType(9)));
        assert!(matches!(decode(&record.key, Some(&[0, 2])), Err(ReplayError::Corrupt(_))));
    }
}
