//! Offsets that a group commits as part of a transaction: they count when it is committed, and nothing of it stays open.

use std::collections::BTreeMap;

use alluvium::wire::api_keys::ApiKey;
use alluvium::wire::error_code::ErrorCode;
use alluvium::wire::messages::add_offsets_to_txn_request::AddOffsetsToTxnRequest;
use alluvium::wire::messages::add_offsets_to_txn_response::AddOffsetsToTxnResponse;
use alluvium::wire::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequest, TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use alluvium::wire::messages::txn_offset_commit_response::TxnOffsetCommitResponse;
use alluvium::wire::reader::Reader;

use crate::client::{CallError, Connection, nonsense};
use crate::transactor::Fate;
use crate::workload::Client;

/// Whose transaction it is, and what its group reads.
#[derive(Clone, Copy)]
pub(crate) struct Committer<'a> {
    /// The transactional id; the group has the same name.
    pub(crate) id: &'a str,
    pub(crate) topic: &'a str,
    pub(crate) producer_id: i64,
    pub(crate) producer_epoch: i16,
    /// It speaks transaction version 2.
    pub(crate) bumps: bool,
}

impl Connection {
    pub(crate) async fn add_offsets(&mut self, of: Committer<'_>) -> Result<(), CallError> {
        let request = AddOffsetsToTxnRequest {
            transactional_id: of.id,
            producer_id: of.producer_id,
            producer_epoch: of.producer_epoch,
            group_id: of.id,
        };
        let body = self.call(ApiKey::AddOffsetsToTxn, 3, |out| request.encode(out, 3)).await?;
        let response = AddOffsetsToTxnResponse::decode(&mut Reader::new(&body), 3).map_err(nonsense)?;
        match response.error_code {
            0 => Ok(()),
            code => Err(CallError::Refused(code)),
        }
    }

    pub(crate) async fn commit_in_transaction(&mut self, of: Committer<'_>, offset: i64) -> Result<(), CallError> {
        let version = if of.bumps { 5 } else { 3 };
        let partition =
            TxnOffsetCommitRequestPartition { committed_offset: offset, ..TxnOffsetCommitRequestPartition::default() };
        let topic = TxnOffsetCommitRequestTopic {
            name: of.topic,
            partitions: vec![partition],
            ..TxnOffsetCommitRequestTopic::default()
        };
        let request = TxnOffsetCommitRequest {
            transactional_id: of.id,
            group_id: of.id,
            producer_id: of.producer_id,
            producer_epoch: of.producer_epoch,
            topics: vec![topic],
            ..TxnOffsetCommitRequest::default()
        };
        let body = self.call(ApiKey::TxnOffsetCommit, version, |out| request.encode(out, version)).await?;
        let response = TxnOffsetCommitResponse::decode(&mut Reader::new(&body), version).map_err(nonsense)?;
        match response.topics.first().and_then(|topic| topic.partitions.first()) {
            Some(partition) if partition.error_code == 0 => Ok(()),
            Some(partition) => Err(CallError::Refused(partition.error_code)),
            None => Err(CallError::Nonsense("no partition in the answer".into())),
        }
    }
}

/// Nothing is open any more: the group has committed what the last transaction did that was, or one whose answer was lost. A
/// transaction that nobody ends would leave the offset unstable for ever.
pub(crate) async fn check(
    client: &Client,
    of: (&str, &str),
    committers: &BTreeMap<usize, Fate>,
) -> Result<(), CallError> {
    let (id, topic) = of;
    let mut coordinator = Connection::to_coordinator(client, id, 0).await?;
    let mut unstable_count = 0;
    let found = loop {
        match coordinator.offset(id, topic, true).await {
            Err(CallError::Refused(code)) if code == ErrorCode::UnstableOffsetCommit.code() => {
                unstable_count += 1;
                if unstable_count > UNSTABLE_MAX {
                    client.ledger.violate(format!("the offset of {id} stays unstable: a transaction is open for ever"));
                    return Ok(());
                }
                client.pause_us(1_000, 10_000).await;
            }
            other => break other?,
        }
    };
    let last = committers.iter().rev().find(|(_, fate)| **fate == Fate::Committed).map(|(number, _)| *number);
    let may_be = committers.iter().filter(|(number, fate)| **fate == Fate::CommitAsked && Some(**number) > last);
    let last_offset = last.map_or(-1, |number| number as i64);
    let is_right = found == last_offset || may_be.map(|(number, _)| *number as i64).any(|offset| offset == found);
    if !is_right {
        client.ledger.violate(format!("{id} has committed {found} in transactions, which were {committers:?}"));
    }
    Ok(())
}

/// A few simulated seconds; markers take milliseconds.
const UNSTABLE_MAX: usize = 1_000;
