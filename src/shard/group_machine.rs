//! The coordinator of groups, as a core hosts it.

use std::rc::Rc;
use std::sync::Arc;

use crate::control::broker_config::BrokerConfig;
use crate::control::internal_topics::InternalTopic;
use crate::control::snapshot::Snapshot;
use crate::group::config::{GroupConfig, MigrationPolicy};
use crate::group::coordinator::GroupCoordinator;
use crate::group::reply::GroupReply;
use crate::group::request::GroupRequest;
use crate::group::topics::{TopicInfo, Topics};
use crate::record::coordination::{Effects, Moment, ReplayError, ReplayedRecord, Ticket};
use crate::record::offset::{ProducerId, TopicId};
use crate::shard::coordinators::Coordinators;
use crate::shard::core::Shard;
use crate::shard::machine::Machine;
use crate::shard::partition::Partition;
use crate::shard::verification::{self, Transactional, VerificationFailure};
use crate::wire::error_code::ErrorCode;

impl Machine for GroupCoordinator {
    type Request = GroupRequest;
    type Reply = GroupReply;

    const TOPIC: InternalTopic = InternalTopic::ConsumerOffsets;

    fn coordinators(shard: &Shard) -> &Coordinators<Self> {
        shard.groups()
    }

    fn new(config: &BrokerConfig) -> Self {
        Self::new(group_config(config))
    }

    /// Offsets of a transaction need the word of its coordinator, as the first batch of one does in any other partition.
    async fn admit(
        shard: &Rc<Shard>,
        partition: &Rc<Partition>,
        request: GroupRequest,
    ) -> Result<GroupRequest, GroupReply> {
        let GroupRequest::CommitOffsets(mut commit) = request else { return Ok(request) };
        if let (Some(writer), Some(transactional)) = (commit.writer.as_mut(), commit.transactional.take()) {
            let producer = (writer.producer_id, writer.producer_epoch);
            let transactional =
                Transactional { transactional_id: transactional.transactional_id, adds: transactional.adds };
            let verifying = verification::verify_offsets(shard, partition, producer, &transactional);
            let verified = Box::pin(verifying).await;
            writer.marker_count = Some(verified.map_err(|failure| match failure {
                VerificationFailure::Refused(code) => GroupReply::Refused(code),
                VerificationFailure::NoAnswer(_) => GroupReply::Refused(ErrorCode::CoordinatorLoadInProgress),
            })?);
        }
        Ok(GroupRequest::CommitOffsets(commit))
    }

    fn replay(&mut self, record: &ReplayedRecord<'_>) -> Result<(), ReplayError> {
        self.replay(record)
    }

    fn transaction_ended(&mut self, producer_id: ProducerId, committed: bool) {
        self.transaction_ended(producer_id, committed);
    }

    fn loaded(&mut self, now: Moment, effects: &mut Effects<GroupReply>) {
        self.loaded(now, effects);
    }

    fn handle(&mut self, ticket: Ticket, request: GroupRequest, now: Moment, effects: &mut Effects<GroupReply>) {
        self.handle(ticket, request, now, effects);
    }

    fn next_deadline_ms(&self) -> Option<u64> {
        self.next_deadline_ms()
    }

    fn tick(&mut self, now: Moment, effects: &mut Effects<GroupReply>) {
        self.tick(now, effects);
    }

    fn stalled(&mut self, now: Moment, stall_ms: u64) {
        self.stalled(now, stall_ms);
    }

    fn catalog_changed(
        &mut self,
        gone: &[Arc<str>],
        after: &Snapshot,
        _now: Moment,
        effects: &mut Effects<GroupReply>,
    ) {
        self.set_topics(Rc::new(CatalogTopics(after.clone())));
        if !gone.is_empty() {
            self.topics_deleted(gone, effects);
        }
    }
}

/// The catalog as groups look at it.
struct CatalogTopics(Snapshot);

impl Topics for CatalogTopics {
    fn by_name(&self, name: &str) -> Option<TopicInfo> {
        let topic = self.0.topic(name)?;
        let partition_count = i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX);
        Some(TopicInfo { id: topic.id.0, partition_count })
    }

    fn name_of(&self, id: [u8; 16]) -> Option<String> {
        self.0.topic_by_id(TopicId(id)).map(|topic| topic.name.to_string())
    }

    fn version(&self) -> u64 {
        self.0.version()
    }

    fn each_name(&self, found: &mut dyn FnMut(&str)) {
        self.0.topics().for_each(|topic| found(&topic.name));
    }
}

/// What the server's settings say of groups.
pub fn group_config(config: &BrokerConfig) -> GroupConfig {
    GroupConfig {
        group_min_session_timeout_ms: config.group_min_session_timeout_ms(),
        group_max_session_timeout_ms: config.group_max_session_timeout_ms(),
        group_initial_rebalance_delay_ms: config.group_initial_rebalance_delay_ms(),
        group_max_size: config.group_max_size(),
        group_consumer_session_timeout_ms: config.group_consumer_session_timeout_ms(),
        group_consumer_heartbeat_interval_ms: config.group_consumer_heartbeat_interval_ms(),
        group_consumer_max_size: config.group_consumer_max_size(),
        group_consumer_assignment_interval_ms: config.group_consumer_assignment_interval_ms(),
        group_consumer_migration_policy: MigrationPolicy::of(config.group_consumer_migration_policy())
            .unwrap_or_default(),
        offset_metadata_max_bytes: config.offset_metadata_max_bytes(),
        offsets_retention_ms: config.offsets_retention_ms(),
        offsets_retention_check_interval_ms: config.offsets_retention_check_interval_ms(),
    }
}
