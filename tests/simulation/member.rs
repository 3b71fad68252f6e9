//! A member of a group: joins, commits what it has read, comes again after every crash. What was acknowledged stays.

use alluvium::wire::api_keys::ApiKey;
use alluvium::wire::error_code::ErrorCode;
use alluvium::wire::messages::join_group_request::{JoinGroupRequest, JoinGroupRequestProtocol};
use alluvium::wire::messages::join_group_response::JoinGroupResponse;
use alluvium::wire::messages::offset_commit_request::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use alluvium::wire::messages::offset_commit_response::OffsetCommitResponse;
use alluvium::wire::messages::sync_group_request::{SyncGroupRequest, SyncGroupRequestAssignment};
use alluvium::wire::messages::sync_group_response::SyncGroupResponse;
use alluvium::wire::reader::Reader;

use crate::client::{CallError, Connection, nonsense};
use crate::ledger::count;
use crate::workload::Client;

/// What one member knows of its commits. It alone commits for its group.
#[derive(Default)]
struct Commits {
    /// The last one that was acknowledged.
    acknowledged: i64,
    /// The last one that was asked for.
    asked: i64,
    member_id: String,
    generation: i32,
}

/// Lives until the run is over, then looks once more.
pub(crate) async fn run(client: Client, group: String) {
    let mut commits = Commits { acknowledged: -1, asked: -1, ..Commits::default() };
    while !client.ledger.is_violated() {
        let is_over = client.ledger.is_over();
        let looked = match live(&client, &group, &mut commits).await {
            Ok(()) => true,
            Err(error) => {
                client.judge(&error);
                false
            }
        };
        if is_over && looked {
            return;
        }
        client.pause_us(1_000, 30_000).await;
    }
}

/// One stay in the group: finds the coordinator, looks at what is committed, joins, commits some.
async fn live(client: &Client, group: &str, commits: &mut Commits) -> Result<(), CallError> {
    let mut connection = Connection::to_coordinator(client, group, 0).await?;
    let topic = topic_of(group);
    let committed = connection.offset(group, &topic, false).await?;
    if committed < commits.acknowledged || committed > commits.asked {
        let Commits { acknowledged, asked, .. } = commits;
        client.ledger.violate(format!(
            "{group} has committed {committed}; {acknowledged} was acknowledged, {asked} the last that was asked for"
        ));
    }
    commits.acknowledged = committed;
    if client.ledger.is_over() {
        return Ok(());
    }
    match connection.create_topic(&topic, 1, &[]).await {
        Ok(_) => {}
        Err(CallError::Refused(code)) if code == ErrorCode::TopicAlreadyExists.code() => {}
        Err(error) => return Err(error),
    }
    let joined = connection.join(group, &commits.member_id).await?;
    (commits.member_id, commits.generation) = joined;
    connection.sync(group, &commits.member_id, commits.generation).await?;
    for _ in 0..client.random.between(1, 12) {
        commits.asked += 1;
        connection.commit(group, &topic, commits).await?;
        commits.acknowledged = commits.asked;
        count(&client.ledger.counts.commits_acknowledged);
        client.pause_us(0, 5_000).await;
    }
    Ok(())
}

/// Each group has a topic of its own, which nobody deletes.
fn topic_of(group: &str) -> String {
    format!("read-by-{group}")
}

impl Connection {
    /// Joins alone; says the member's id and the generation.
    async fn join(&mut self, group: &str, member_id: &str) -> Result<(String, i32), CallError> {
        let mut member_id = member_id.to_owned();
        loop {
            let request = JoinGroupRequest {
                group_id: group,
                session_timeout_ms: 6_000,
                rebalance_timeout_ms: 1_000,
                member_id: &member_id,
                protocol_type: "consumer",
                protocols: vec![JoinGroupRequestProtocol { name: "range", metadata: b"any" }],
                ..JoinGroupRequest::default()
            };
            let body = self.call(ApiKey::JoinGroup, 9, |out| request.encode(out, 9)).await?;
            let response = JoinGroupResponse::decode(&mut Reader::new(&body), 9).map_err(nonsense)?;
            match ErrorCode::from_code(response.error_code) {
                Some(ErrorCode::None) => return Ok((response.member_id.to_owned(), response.generation_id)),
                Some(ErrorCode::MemberIdRequired) => member_id = response.member_id.to_owned(),
                Some(ErrorCode::UnknownMemberId) if !member_id.is_empty() => member_id = String::new(),
                _ => return Err(CallError::Refused(response.error_code)),
            }
        }
    }

    async fn sync(&mut self, group: &str, member_id: &str, generation: i32) -> Result<(), CallError> {
        let request = SyncGroupRequest {
            group_id: group,
            generation_id: generation,
            member_id,
            group_instance_id: None,
            protocol_type: Some("consumer"),
            protocol_name: Some("range"),
            assignments: vec![SyncGroupRequestAssignment { member_id, assignment: b"all" }],
        };
        let body = self.call(ApiKey::SyncGroup, 5, |out| request.encode(out, 5)).await?;
        let response = SyncGroupResponse::decode(&mut Reader::new(&body), 5).map_err(nonsense)?;
        match response.error_code {
            0 if response.assignment == b"all" => Ok(()),
            0 => Err(CallError::Nonsense(format!("the assignment {:?}", response.assignment))),
            code => Err(CallError::Refused(code)),
        }
    }

    async fn commit(&mut self, group: &str, topic: &str, commits: &Commits) -> Result<(), CallError> {
        let partitions = vec![OffsetCommitRequestPartition {
            partition_index: 0,
            committed_offset: commits.asked,
            ..OffsetCommitRequestPartition::default()
        }];
        let request = OffsetCommitRequest {
            group_id: group,
            generation_id_or_member_epoch: commits.generation,
            member_id: &commits.member_id,
            topics: vec![OffsetCommitRequestTopic {
                name: topic,
                partitions,
                topic_id: alluvium::wire::uuid::Uuid::ZERO,
            }],
            ..OffsetCommitRequest::default()
        };
        let body = self.call(ApiKey::OffsetCommit, 8, |out| request.encode(out, 8)).await?;
        let response = OffsetCommitResponse::decode(&mut Reader::new(&body), 8).map_err(nonsense)?;
        match response.topics.first().and_then(|topic| topic.partitions.first()) {
            Some(partition) if partition.error_code == 0 => Ok(()),
            Some(partition) => Err(CallError::Refused(partition.error_code)),
            None => Err(CallError::Nonsense("no partition in the answer".into())),
        }
    }
}
