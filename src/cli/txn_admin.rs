//! What can be asked about transactions, as calls to coordinators and to the leaders of partitions.

use std::time::Duration;

use super::client_error::ClientError;
use super::cluster::{Cluster, Topic};
use super::group_admin::{CoordinatorKind, at_coordinator};
use crate::wire::api_keys::ApiKey;
use crate::wire::messages::describe_producers_request::{DescribeProducersRequest, TopicRequest};
use crate::wire::messages::describe_producers_response::DescribeProducersResponse;
use crate::wire::messages::describe_transactions_request::DescribeTransactionsRequest;
use crate::wire::messages::describe_transactions_response::DescribeTransactionsResponse;
use crate::wire::messages::list_transactions_request::ListTransactionsRequest;
use crate::wire::messages::list_transactions_response::ListTransactionsResponse;
use crate::wire::messages::write_txn_markers_request::{
    WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest,
};
use crate::wire::messages::write_txn_markers_response::WriteTxnMarkersResponse;

/// A transactional id in a list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListedTransaction {
    /// The id.
    pub transactional_id: String,
    /// The broker that coordinates it.
    pub coordinator: i32,
    /// Its producer.
    pub producer_id: i64,
    /// Its state.
    pub state: String,
}

/// What the coordinator knows of a transactional id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// The broker that coordinates it.
    pub coordinator: i32,
    /// Its producer.
    pub producer_id: i64,
    /// How often that was initialised.
    pub producer_epoch: i16,
    /// Its state.
    pub state: String,
    /// When it is aborted by the server.
    pub timeout_ms: i32,
    /// When it began; `None` where none is open.
    pub started_at_ms: Option<i64>,
    /// The partitions that it has written to.
    pub partitions: Vec<(String, i32)>,
}

/// A producer that a partition knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Producer {
    /// The partition.
    pub partition: i32,
    /// Its id.
    pub producer_id: i64,
    /// How often it was initialised.
    pub producer_epoch: i32,
    /// The sequence number of its last record.
    pub last_sequence: i32,
    /// When it wrote that.
    pub last_timestamp_ms: i64,
    /// The epoch of the coordinator that ended its last transaction; -1 where none did.
    pub coordinator_epoch: i32,
    /// Where its open transaction begins; `None` where none is open.
    pub transaction_start: Option<i64>,
}

/// The transactional ids of all brokers, in these states and of these producers, or all.
pub fn list(
    cluster: &mut Cluster,
    states: &[String],
    producer_ids: &[i64],
) -> Result<Vec<ListedTransaction>, ClientError> {
    let api_key = ApiKey::ListTransactions;
    let mut found = Vec::new();
    for broker_id in cluster.broker_ids() {
        let broker = cluster.broker(broker_id)?;
        let version = broker.version(api_key, i16::MAX)?;
        let request = ListTransactionsRequest {
            state_filters: states.iter().map(String::as_str).collect(),
            producer_id_filters: producer_ids.to_vec(),
            ..ListTransactionsRequest::default()
        };
        let response = broker.call(
            api_key,
            version,
            |out, version| request.encode(out, version),
            ListTransactionsResponse::decode,
        )?;
        ClientError::check(api_key, response.error_code, None)?;
        found.extend(response.transaction_states.iter().map(|state| ListedTransaction {
            transactional_id: state.transactional_id.to_owned(),
            coordinator: broker_id,
            producer_id: state.producer_id,
            state: state.transaction_state.to_owned(),
        }));
    }
    found.sort();
    Ok(found)
}

/// What the coordinator knows of a transactional id.
pub fn describe(cluster: &mut Cluster, transactional_id: &str, limit: Duration) -> Result<Transaction, ClientError> {
    let kind = CoordinatorKind::Transaction;
    at_coordinator(cluster, kind, transactional_id, limit, |coordinator, broker_id| {
        let api_key = ApiKey::DescribeTransactions;
        let version = coordinator.version(api_key, i16::MAX)?;
        let request = DescribeTransactionsRequest { transactional_ids: vec![transactional_id] };
        let response = coordinator.call(
            api_key,
            version,
            |out, version| request.encode(out, version),
            DescribeTransactionsResponse::decode,
        )?;
        let Some(state) = response.transaction_states.first() else {
            return Err(ClientError::Refusal { api: api_key.name(), code: -1, message: None });
        };
        ClientError::check(api_key, state.error_code, Some(transactional_id))?;
        let partitions = state.topics.iter();
        Ok(Transaction {
            coordinator: broker_id,
            producer_id: state.producer_id,
            producer_epoch: state.producer_epoch,
            state: state.transaction_state.to_owned(),
            timeout_ms: state.transaction_timeout_ms,
            started_at_ms: Some(state.transaction_start_time_ms).filter(|ms| *ms >= 0),
            partitions: partitions
                .flat_map(|topic| topic.partitions.iter().map(|partition| (topic.topic.to_owned(), *partition)))
                .collect(),
        })
    })
}

/// The producers that the leaders of a topic's partitions know.
pub fn producers(cluster: &mut Cluster, topic: &Topic) -> Result<Vec<Producer>, ClientError> {
    let api_key = ApiKey::DescribeProducers;
    let mut found = Vec::new();
    for led in &topic.partitions {
        if led.leader_id < 0 {
            return Err(ClientError::NoLeader { topic: topic.name.clone(), partition: led.index });
        }
        let leader = cluster.broker(led.leader_id)?;
        let version = leader.version(api_key, i16::MAX)?;
        let topics = vec![TopicRequest { name: &topic.name, partition_indexes: vec![led.index] }];
        let request = DescribeProducersRequest { topics };
        let response = leader.call(
            api_key,
            version,
            |out, version| request.encode(out, version),
            DescribeProducersResponse::decode,
        )?;
        for partition in response.topics.iter().flat_map(|topic| &topic.partitions) {
            ClientError::check(api_key, partition.error_code, partition.error_message)?;
            found.extend(partition.active_producers.iter().map(|producer| Producer {
                partition: partition.partition_index,
                producer_id: producer.producer_id,
                producer_epoch: producer.producer_epoch,
                last_sequence: producer.last_sequence,
                last_timestamp_ms: producer.last_timestamp,
                coordinator_epoch: producer.coordinator_epoch,
                transaction_start: Some(producer.current_txn_start_offset).filter(|offset| *offset >= 0),
            }));
        }
    }
    found.sort_by_key(|producer| (producer.partition, producer.producer_id));
    Ok(found)
}

/// Writes an abort marker for a producer's open transaction to one partition, as its coordinator would.
pub fn abort(cluster: &mut Cluster, topic: &Topic, producer: &Producer) -> Result<(), ClientError> {
    let api_key = ApiKey::WriteTxnMarkers;
    let partition = producer.partition;
    let led = topic.partitions.iter().find(|led| led.index == partition && led.leader_id >= 0);
    let led = led.ok_or_else(|| ClientError::NoLeader { topic: topic.name.clone(), partition })?;
    let leader = cluster.broker(led.leader_id)?;
    let version = leader.version(api_key, MARKERS_VERSION_MAX)?;
    let request = WriteTxnMarkersRequest {
        markers: vec![WritableTxnMarker {
            producer_id: producer.producer_id,
            producer_epoch: i16::try_from(producer.producer_epoch).unwrap_or(i16::MAX),
            transaction_result: false,
            topics: vec![WritableTxnMarkerTopic { name: &topic.name, partition_indexes: vec![partition] }],
            // As Kafka's tool: the epoch that the partition knows, or the first.
            coordinator_epoch: producer.coordinator_epoch.max(0),
            ..WritableTxnMarker::default()
        }],
    };
    let response =
        leader.call(api_key, version, |out, version| request.encode(out, version), WriteTxnMarkersResponse::decode)?;
    let answered = response.markers.iter().flat_map(|marker| &marker.topics).flat_map(|topic| &topic.partitions);
    for partition in answered {
        ClientError::check(api_key, partition.error_code, None)?;
    }
    Ok(())
}

/// The next one says which transaction version the producer speaks, which nobody knows here.
const MARKERS_VERSION_MAX: i16 = 1;
