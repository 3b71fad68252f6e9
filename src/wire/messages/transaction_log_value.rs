//! Kafka's transaction log value, versions 0 to 1.
//!
//! Written by `scripts/generate-wire` from Kafka's descriptor; do not edit.

use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::{self, EncodeError};

/// Kafka's transaction log value, versions 0 to 1.
#[derive(Clone, Debug, PartialEq)]
pub struct TransactionLogValue<'a> {
    /// Producer id in use by the transactional id.
    pub producer_id: i64,
    /// Producer id used by the last committed transaction. Since version 1.
    pub previous_producer_id: i64,
    /// Latest producer ID sent to the producer for the given transactional id. Since version 1.
    pub next_producer_id: i64,
    /// Epoch associated with the producer id.
    pub producer_epoch: i16,
    /// Producer epoch associated with the NextProducerId Since version 1.
    pub next_producer_epoch: i16,
    /// Transaction timeout in milliseconds.
    pub transaction_timeout_ms: i32,
    /// TransactionState the transaction is in.
    pub transaction_status: i8,
    /// Partitions involved in the transaction.
    pub transaction_partitions: Option<Vec<PartitionsSchema<'a>>>,
    /// Time the transaction was last updated.
    pub transaction_last_update_timestamp_ms: i64,
    /// Time the transaction was started.
    pub transaction_start_timestamp_ms: i64,
    /// The transaction version used by the client. Since version 1.
    pub client_transaction_version: i16,
}

impl Default for TransactionLogValue<'_> {
    fn default() -> Self {
        Self {
            producer_id: 0,
            previous_producer_id: -1,
            next_producer_id: -1,
            producer_epoch: 0,
            next_producer_epoch: -1,
            transaction_timeout_ms: 0,
            transaction_status: 0,
            transaction_partitions: Some(Vec::new()),
            transaction_last_update_timestamp_ms: 0,
            transaction_start_timestamp_ms: 0,
            client_transaction_version: 0,
        }
    }
}

impl<'a> TransactionLogValue<'a> {
    /// What its record's key begins with.
    pub const API_KEY: i16 = 0;
    /// The first version there is.
    pub const VERSION_MIN: i16 = 0;
    /// The last version there is.
    pub const VERSION_MAX: i16 = 1;

    /// Reads the message; bytes after it are the caller's to judge (Kafka ignores them).
    pub fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(DecodeError::UnsupportedVersion { message: "TransactionLogValue", version });
        }
        let flexible = version == 1;
        let mut message = Self {
            producer_id: reader.int64("producer_id")?,
            previous_producer_id: -1,
            next_producer_id: -1,
            producer_epoch: reader.int16("producer_epoch")?,
            next_producer_epoch: -1,
            transaction_timeout_ms: reader.int32("transaction_timeout_ms")?,
            transaction_status: reader.int8("transaction_status")?,
            transaction_partitions: reader.nullable_array("transaction_partitions", flexible, 3, |reader| {
                PartitionsSchema::decode(reader, version)
            })?,
            transaction_last_update_timestamp_ms: reader.int64("transaction_last_update_timestamp_ms")?,
            transaction_start_timestamp_ms: reader.int64("transaction_start_timestamp_ms")?,
            client_transaction_version: 0,
        };
        if flexible {
            reader.tagged_fields(|tag, reader| {
                match tag {
                    0 => message.previous_producer_id = reader.int64("previous_producer_id")?,
                    1 => message.next_producer_id = reader.int64("next_producer_id")?,
                    2 => message.client_transaction_version = reader.int16("client_transaction_version")?,
                    3 => message.next_producer_epoch = reader.int16("next_producer_epoch")?,
                    _ => {}
                }
                Ok(())
            })?;
        }
        Ok(message)
    }

    /// Appends the message to `out`; after an error the caller cuts off what was written.
    pub fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {
            return Err(EncodeError::UnsupportedVersion { message: "TransactionLogValue", version });
        }
        let flexible = version == 1;
        writer::int64(out, self.producer_id);
        writer::int16(out, self.producer_epoch);
        writer::int32(out, self.transaction_timeout_ms);
        writer::int8(out, self.transaction_status);
        writer::nullable_array(
            out,
            "transaction_partitions",
            self.transaction_partitions.as_deref(),
            flexible,
            |out, value| value.encode_body(out, version),
        )?;
        writer::int64(out, self.transaction_last_update_timestamp_ms);
        writer::int64(out, self.transaction_start_timestamp_ms);
        if version != 1 {
            writer::absent("previous_producer_id", version, self.previous_producer_id == -1)?;
        }
        if version != 1 {
            writer::absent("next_producer_id", version, self.next_producer_id == -1)?;
        }
        if version != 1 {
            writer::absent("client_transaction_version", version, self.client_transaction_version == 0)?;
        }
        if version != 1 {
            writer::absent("next_producer_epoch", version, self.next_producer_epoch == -1)?;
        }
        if flexible {
            let has_previous_producer_id = self.previous_producer_id != -1;
            let has_next_producer_id = self.next_producer_id != -1;
            let has_client_transaction_version = self.client_transaction_version != 0;
            let has_next_producer_epoch = self.next_producer_epoch != -1;
            writer::unsigned_varint(
                out,
                u32::from(has_previous_producer_id)
                    + u32::from(has_next_producer_id)
                    + u32::from(has_client_transaction_version)
                    + u32::from(has_next_producer_epoch),
            );
            if has_previous_producer_id {
                writer::tagged_field(out, 0, |out| {
                    writer::int64(out, self.previous_producer_id);
                    Ok(())
                })?;
            }
            if has_next_producer_id {
                writer::tagged_field(out, 1, |out| {
                    writer::int64(out, self.next_producer_id);
                    Ok(())
                })?;
            }
            if has_client_transaction_version {
                writer::tagged_field(out, 2, |out| {
                    writer::int16(out, self.client_transaction_version);
                    Ok(())
                })?;
            }
            if has_next_producer_epoch {
                writer::tagged_field(out, 3, |out| {
                    writer::int16(out, self.next_producer_epoch);
                    Ok(())
                })?;
            }
        }
        Ok(())
    }
}

/// Partitions involved in the transaction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PartitionsSchema<'a> {
    /// Topic involved in the transaction.
    pub topic: &'a str,
    /// Partition ids involved in the transaction.
    pub partition_ids: Vec<i32>,
}

impl<'a> PartitionsSchema<'a> {
    fn decode(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version == 1;
        let message = Self {
            topic: reader.string("topic", flexible)?,
            partition_ids: reader.array("partition_ids", flexible, 4, |reader| reader.int32("partition_ids"))?,
        };
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(message)
    }

    pub(in crate::wire) fn encode_body(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
        let flexible = version == 1;
        writer::string(out, "topic", self.topic, flexible)?;
        writer::array(out, "partition_ids", &self.partition_ids, flexible, |out, value| {
            writer::int32(out, *value);
            Ok(())
        })?;
        if flexible {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}
