//! Connections to coordinators of groups and transactions, and what a group has committed.

use alluvium::wire::api_keys::ApiKey;
use alluvium::wire::messages::find_coordinator_request::FindCoordinatorRequest;
use alluvium::wire::messages::find_coordinator_response::FindCoordinatorResponse;
use alluvium::wire::messages::offset_fetch_request::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics,
};
use alluvium::wire::messages::offset_fetch_response::OffsetFetchResponse;
use alluvium::wire::reader::Reader;

use crate::client::{CallError, Connection, nonsense};
use crate::server::{Server, core_of};
use crate::workload::Client;

impl Connection {
    /// To the coordinator of a group, or of a transactional id (`key_type` 1).
    pub(crate) async fn to_coordinator(client: &Client, key: &str, key_type: i8) -> Result<Self, CallError> {
        let node = client.connect_to_any().await?.coordinator_of(key, key_type).await?;
        let core = core_of(node).ok_or_else(|| CallError::Nonsense(format!("a coordinator on {node}")))?;
        Self::open(&client.io, Server::address(core)).await
    }

    /// The node that has the coordinator of a group, or of a transactional id (`key_type` 1).
    pub(crate) async fn coordinator_of(&mut self, key: &str, key_type: i8) -> Result<i32, CallError> {
        let request =
            FindCoordinatorRequest { key_type, coordinator_keys: vec![key], ..FindCoordinatorRequest::default() };
        let body = self.call(ApiKey::FindCoordinator, 4, |out| request.encode(out, 4)).await?;
        let response = FindCoordinatorResponse::decode(&mut Reader::new(&body), 4).map_err(nonsense)?;
        match response.coordinators.first() {
            Some(found) if found.error_code == 0 => Ok(found.node_id),
            Some(found) => Err(CallError::Refused(found.error_code)),
            None => Err(CallError::Nonsense("no coordinator in the answer".into())),
        }
    }

    /// What is committed for partition 0; -1 where nothing is. With `require_stable`, refused while a transaction may still
    /// change it.
    pub(crate) async fn offset(&mut self, group: &str, topic: &str, require_stable: bool) -> Result<i64, CallError> {
        let topics = vec![OffsetFetchRequestTopics {
            name: topic,
            partition_indexes: vec![0],
            ..OffsetFetchRequestTopics::default()
        }];
        let groups = vec![OffsetFetchRequestGroup {
            group_id: group,
            topics: Some(topics),
            ..OffsetFetchRequestGroup::default()
        }];
        let request = OffsetFetchRequest { groups, require_stable, ..OffsetFetchRequest::default() };
        let body = self.call(ApiKey::OffsetFetch, 8, |out| request.encode(out, 8)).await?;
        let response = OffsetFetchResponse::decode(&mut Reader::new(&body), 8).map_err(nonsense)?;
        let found = response.groups.first().ok_or_else(|| CallError::Nonsense("no group in the answer".into()))?;
        if found.error_code != 0 {
            return Err(CallError::Refused(found.error_code));
        }
        match found.topics.first().and_then(|topic| topic.partitions.first()) {
            Some(partition) if partition.error_code == 0 => Ok(partition.committed_offset),
            Some(partition) => Err(CallError::Refused(partition.error_code)),
            None => Err(CallError::Nonsense("no partition in the answer".into())),
        }
    }
}
