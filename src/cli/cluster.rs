//! A cluster seen from outside: its brokers, its controller, its partitions' leaders.

use std::collections::BTreeMap;
use std::time::Duration;

use super::address::Address;
use super::client_error::ClientError;
use super::connection::Connection;
use crate::wire::api_keys::ApiKey;
use crate::wire::messages::metadata_request::{MetadataRequest, MetadataRequestTopic};
use crate::wire::messages::metadata_response::{MetadataResponse, MetadataResponseTopic};
use crate::wire::uuid::Uuid;

/// Connections to a cluster, opened at need, one for each broker.
#[derive(Debug)]
pub struct Cluster {
    limit: Duration,
    first: Connection,
    brokers: BTreeMap<i32, Address>,
    controller_id: i32,
    connections: BTreeMap<i32, Connection>,
}

/// A topic as Metadata shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    /// Its name.
    pub name: String,
    /// Its id, all zeros where the server has none.
    pub topic_id: Uuid,
    /// Kafka's error code, 0 for none.
    pub error_code: i16,
    /// Whether it is the server's own.
    pub is_internal: bool,
    /// Its partitions, by index.
    pub partitions: Vec<Partition>,
}

/// A partition as Metadata shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Its index in the topic.
    pub index: i32,
    /// Kafka's error code, 0 for none.
    pub error_code: i16,
    /// The broker that leads it, or -1.
    pub leader_id: i32,
    /// How often it has had a new leader.
    pub leader_epoch: i32,
    /// The brokers that keep it.
    pub replicas: Vec<i32>,
    /// Those among them that have all of it.
    pub in_sync: Vec<i32>,
}

impl Cluster {
    /// Connects to the first bootstrap address that answers, and learns the brokers.
    pub fn connect(bootstrap: &[Address], limit: Duration) -> Result<Self, ClientError> {
        let mut first = Err(ClientError::Refused { address: Address::new("127.0.0.1", super::address::KAFKA_PORT) });
        for address in bootstrap {
            first = Connection::connect(address, limit);
            if first.is_ok() {
                break;
            }
        }
        let mut cluster =
            Self { limit, first: first?, brokers: BTreeMap::new(), controller_id: -1, connections: BTreeMap::new() };
        cluster.topics(Some(&[]))?;
        Ok(cluster)
    }

    /// Asks for these topics, or for all of them, and learns brokers and controller anew. Never makes a topic.
    pub fn topics(&mut self, names: Option<&[&str]>) -> Result<Vec<Topic>, ClientError> {
        let api_key = ApiKey::Metadata;
        let version = self.first.version(api_key, METADATA_VERSION_MAX)?;
        let request = MetadataRequest {
            topics: names.map(|names| names.iter().map(|name| by_name(name)).collect()),
            // Versions before 4 have no such field and always allow it, which the encoder insists on.
            allow_auto_topic_creation: version < 4,
            ..MetadataRequest::default()
        };
        let response =
            self.first.call(api_key, version, |out, version| request.encode(out, version), MetadataResponse::decode)?;
        ClientError::check(api_key, response.error_code, None)?;
        self.controller_id = response.controller_id;
        self.brokers = response
            .brokers
            .iter()
            .filter_map(|broker| {
                let port = u16::try_from(broker.port).ok()?;
                Some((broker.node_id, Address::new(broker.host, port)))
            })
            .collect();
        Ok(response.topics.iter().map(Topic::read).collect())
    }

    /// Asks for one topic; an error where it is not there.
    pub fn topic(&mut self, name: &str) -> Result<Topic, ClientError> {
        let topics = self.topics(Some(&[name]))?;
        let missing = || ClientError::Refusal {
            api: ApiKey::Metadata.name(),
            code: crate::wire::error_code::ErrorCode::UnknownTopicOrPartition.code(),
            message: Some(format!("there is no topic {name}; `alluvium topic list` shows those there are")),
        };
        let topic = topics.into_iter().find(|topic| topic.name == name).ok_or_else(missing)?;
        if topic.partitions.is_empty() {
            if topic.error_code == crate::wire::error_code::ErrorCode::UnknownTopicOrPartition.code() {
                return Err(missing());
            }
            ClientError::check(ApiKey::Metadata, topic.error_code, Some(name))?;
        }
        Ok(topic)
    }

    /// How many brokers there are.
    pub fn broker_count(&self) -> usize {
        self.brokers.len()
    }

    /// Their ids.
    pub fn broker_ids(&self) -> Vec<i32> {
        self.brokers.keys().copied().collect()
    }

    /// Where a broker listens, as the last Metadata has it.
    pub fn broker_address(&self, broker_id: i32) -> Option<&Address> {
        self.brokers.get(&broker_id)
    }

    /// A connection to the controller; to whoever was asked first where Metadata names none.
    pub fn controller(&mut self) -> Result<&mut Connection, ClientError> {
        if self.brokers.contains_key(&self.controller_id) {
            self.broker(self.controller_id)
        } else {
            Ok(&mut self.first)
        }
    }

    /// The connection that was opened first; it can answer what any broker can.
    pub fn any(&mut self) -> &mut Connection {
        &mut self.first
    }

    /// A connection to this broker.
    pub fn broker(&mut self, broker_id: i32) -> Result<&mut Connection, ClientError> {
        let Some(address) = self.brokers.get(&broker_id) else {
            return Ok(&mut self.first);
        };
        if *address == *self.first.address() {
            return Ok(&mut self.first);
        }
        // A broker may have come back elsewhere.
        let known = self.connections.get(&broker_id);
        if known.is_none_or(|connection| connection.address() != address) {
            let connection = Connection::connect(address, self.limit)?;
            self.connections.insert(broker_id, connection);
        }
        let known = self.connections.get_mut(&broker_id);
        Ok(known.unwrap_or(&mut self.first))
    }
}

impl Topic {
    fn read(topic: &MetadataResponseTopic<'_>) -> Self {
        let mut partitions: Vec<_> = topic
            .partitions
            .iter()
            .map(|partition| Partition {
                index: partition.partition_index,
                error_code: partition.error_code,
                leader_id: partition.leader_id,
                leader_epoch: partition.leader_epoch,
                replicas: partition.replica_nodes.clone(),
                in_sync: partition.isr_nodes.clone(),
            })
            .collect();
        partitions.sort_by_key(|partition| partition.index);
        Self {
            name: topic.name.unwrap_or_default().to_owned(),
            topic_id: topic.topic_id,
            error_code: topic.error_code,
            is_internal: topic.is_internal,
            partitions,
        }
    }
}

fn by_name(name: &str) -> MetadataRequestTopic<'_> {
    MetadataRequestTopic { name: Some(name), topic_id: Uuid::ZERO }
}

/// Version 13 adds only an error for a whole answer; 12 asks by name or id.
const METADATA_VERSION_MAX: i16 = 12;
