//! A client's batch gets its offsets, on the core that leads its partition.
//!
//! The one way, for the batches of connections of this core and for those that came by mail.

use std::rc::Rc;

use crate::api::error_map::{self, Refusal};
use crate::record::check::CheckedBatch;
use crate::record::offset::ProducerId;
use crate::ring::buffer::Buffer;
use crate::shard::append::{self, Appended};
use crate::shard::core::Shard;
use crate::shard::partition::Partition;
use crate::shard::verification::{self, Transactional};
use crate::wire::error_code::ErrorCode;

/// Who sent a batch.
#[derive(Clone, Debug)]
pub struct Client {
    /// Set where the request has a transactional id.
    pub transactional: Option<Transactional>,
    /// The version of Produce that it speaks.
    pub version: i16,
}

/// Whether the coordinator of the client's transaction has something against a batch that is not appended in any case.
///
/// # Errors
/// It has; that is told then.
pub async fn verify(
    shard: &Rc<Shard>,
    partition: &Rc<Partition>,
    producer: (ProducerId, i16),
    client: &Client,
) -> Result<(), Refusal> {
    let Some(transactional) = &client.transactional else { return Ok(()) };
    let verified = verification::verify_offsets(shard, partition, producer, transactional).await;
    verified.map(drop).map_err(|failure| error_map::verification_failure(failure, client.version))
}

/// Gives a batch its offsets and starts its write; the first one of a transaction when its coordinator has said that it may.
///
/// # Errors
/// Nothing was appended.
pub async fn start(
    shard: &Rc<Shard>,
    partition: &Rc<Partition>,
    records: Buffer,
    mut batch: CheckedBatch,
    client: &Client,
) -> Result<Appended, Refusal> {
    let transactional = client.transactional.as_ref().filter(|_| batch.is_transactional());
    if let Some(transactional) = transactional {
        let verified = Box::pin(verification::verify(shard, partition, &mut batch, transactional)).await;
        verified.map_err(|failure| error_map::verification_failure(failure, client.version))?;
    }
    append::start(shard, partition, records, &batch).await.map_err(|failure| {
        let refusal = error_map::append_failure(&failure);
        // Kafka's coordinator refuses such an epoch before the log is asked, and does not know where that begins.
        let is_coordinators = transactional.is_some() && refusal.error == ErrorCode::InvalidProducerEpoch;
        if is_coordinators { refusal } else { refusal.at(partition.log().borrow().offsets().log_start) }
    })
}
