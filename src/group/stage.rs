//! A group coordinator with its log and a clock in hand, and no server: for tests.

use std::collections::BTreeMap;

use crate::group::config::{GroupConfig, MigrationPolicy};
use crate::group::coordinator::GroupCoordinator;
use crate::group::reply::{FetchedOffset, GroupReply, Joined};
use crate::group::request::{CommitOffsets, CommitPartition, CommitTopic, GroupRequest, Join, Protocol, Speaker};
use crate::record::coordination::{CoordinatorRecord, Effects, Moment, ReplayedRecord, Ticket, TransactionalWriter};
use crate::record::offset::{Offset, ProducerId};
use crate::wire::error_code::ErrorCode;
use crate::wire::messages::consumer_protocol_subscription::ConsumerProtocolSubscription;

/// What the partition of the coordinator has.
#[derive(Clone, Debug)]
enum Logged {
    Record(Option<TransactionalWriter>, CoordinatorRecord),
    Marker(ProducerId, bool),
}

/// A coordinator, its log, and the replies that it has given. Requests that name no group are of the group `g`.
pub struct Stage {
    /// The coordinator.
    pub coordinator: GroupCoordinator,
    config: GroupConfig,
    pub(in crate::group) now: Moment,
    log: Vec<Logged>,
    pub(in crate::group) replies: BTreeMap<Ticket, GroupReply>,
    next_ticket: u64,
}

/// Kafka's defaults, but for small groups.
pub fn config() -> GroupConfig {
    GroupConfig {
        group_min_session_timeout_ms: 6_000,
        group_max_session_timeout_ms: 1_800_000,
        group_initial_rebalance_delay_ms: 3_000,
        group_max_size: 5,
        group_consumer_session_timeout_ms: 45_000,
        group_consumer_heartbeat_interval_ms: 5_000,
        group_consumer_max_size: 5,
        group_consumer_assignment_interval_ms: 0,
        group_consumer_migration_policy: MigrationPolicy::Bidirectional,
        offset_metadata_max_bytes: 4_096,
        offsets_retention_ms: 7 * 86_400_000,
        offsets_retention_check_interval_ms: 600_000,
    }
}

impl Default for Stage {
    fn default() -> Self {
        Self::new()
    }
}

impl Stage {
    /// One with the config of [`config`].
    pub fn new() -> Self {
        Self::with(config())
    }

    /// One that has read an empty log.
    pub fn with(config: GroupConfig) -> Self {
        let now = Moment { now_ms: 1_000, wall_ms: 1_700_000_000_000 };
        let (log, replies) = (Vec::new(), BTreeMap::new());
        let mut stage = Self { coordinator: GroupCoordinator::new(config), config, now, log, replies, next_ticket: 0 };
        stage.step(|coordinator, now, effects| coordinator.loaded(now, effects));
        stage
    }

    /// Another coordinator, which has read the log of this one.
    pub fn reloaded(&self) -> Self {
        let mut stage = Self {
            coordinator: GroupCoordinator::new(self.config),
            config: self.config,
            now: self.now,
            log: self.log.clone(),
            replies: BTreeMap::new(),
            next_ticket: self.next_ticket,
        };
        for (at, logged) in self.log.iter().enumerate() {
            match logged {
                Logged::Record(writer, record) => {
                    let (key, value) = (&record.key[..], record.value.as_deref());
                    let replayed = ReplayedRecord { offset: Offset(at as i64), writer: *writer, key, value };
                    stage.coordinator.replay(&replayed).expect("its own records");
                }
                Logged::Marker(producer_id, committed) => stage.coordinator.transaction_ended(*producer_id, *committed),
            }
        }
        stage.step(|coordinator, now, effects| coordinator.loaded(now, effects));
        stage
    }

    /// Does something to the coordinator, and keeps what comes of it.
    pub fn step(&mut self, step: impl FnOnce(&mut GroupCoordinator, Moment, &mut Effects<GroupReply>)) {
        let mut effects = Effects::default();
        step(&mut self.coordinator, self.now, &mut effects);
        self.log.extend(effects.records.into_iter().map(|record| Logged::Record(effects.writer, record)));
        for (ticket, reply) in effects.replies {
            assert!(ticket.0 < self.next_ticket, "a reply to nobody");
            assert_eq!(self.replies.insert(ticket, reply), None, "a second reply to one request");
        }
    }

    /// Asks; the reply may come later.
    pub fn ask(&mut self, request: GroupRequest) -> Ticket {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.step(|coordinator, now, effects| coordinator.handle(ticket, request, now, effects));
        ticket
    }

    /// Asks what is answered at once.
    pub fn answer(&mut self, request: GroupRequest) -> GroupReply {
        let ticket = self.ask(request);
        self.replies.remove(&ticket).expect("an answer at once")
    }

    /// The answer to a request, where there is one by now.
    pub fn take(&mut self, ticket: Ticket) -> Option<GroupReply> {
        self.replies.remove(&ticket)
    }

    /// All answers that nobody has taken.
    pub fn take_all(&mut self) -> BTreeMap<Ticket, GroupReply> {
        std::mem::take(&mut self.replies)
    }

    /// The answer to a JoinGroup.
    pub fn joined(&mut self, ticket: Ticket) -> Joined {
        match self.replies.remove(&ticket) {
            Some(GroupReply::Joined(joined)) => joined,
            other => panic!("no answer to a join: {other:?}"),
        }
    }

    /// The marker of a transaction with offsets.
    pub fn transaction_ended(&mut self, producer_id: ProducerId, committed: bool) {
        self.log.push(Logged::Marker(producer_id, committed));
        self.coordinator.transaction_ended(producer_id, committed);
    }

    /// By the monotonic clock.
    pub fn now_ms(&self) -> u64 {
        self.now.now_ms
    }

    /// Lets time go by, and does what falls due in it.
    pub fn pass_ms(&mut self, ms: u64) {
        let end_ms = self.now.now_ms + ms;
        while let Some(next_ms) = self.coordinator.next_deadline_ms().filter(|next_ms| *next_ms <= end_ms) {
            self.move_clock(next_ms.max(self.now.now_ms));
            self.step(|coordinator, now, effects| coordinator.tick(now, effects));
            let after = self.coordinator.next_deadline_ms();
            assert!(after.is_none_or(|after_ms| after_ms > self.now.now_ms), "what was due is due again");
        }
        self.move_clock(end_ms);
    }

    pub(in crate::group) fn move_clock(&mut self, to_ms: u64) {
        self.now.wall_ms += (to_ms - self.now.now_ms) as i64;
        self.now.now_ms = to_ms;
    }

    /// What is committed for a partition. With `require_stable`, what a transaction may still change is refused.
    pub fn fetched(&mut self, topic: &str, partition: i32, require_stable: bool) -> FetchedOffset {
        let topics = Some(vec![(topic.to_owned(), vec![partition])]);
        let request = GroupRequest::FetchOffsets { group_id: "g".into(), topics, speaker: None, require_stable };
        match self.answer(request) {
            GroupReply::Offsets(mut topics) => topics.remove(0).1.remove(0),
            other => panic!("{other:?}"),
        }
    }

    /// The offset that is committed for a partition.
    pub fn committed(&mut self, topic: &str, partition: i32) -> i64 {
        self.fetched(topic, partition, false).offset
    }
}

/// The subscription of a consumer.
pub fn subscription(topics: &[&str]) -> Vec<u8> {
    let mut metadata = vec![0, 0];
    let subscription = ConsumerProtocolSubscription { topics: topics.to_vec(), ..Default::default() };
    subscription.encode(&mut metadata, 0).expect("short names");
    metadata
}

/// A consumer of the topic `t` joins; where it has no id, its client's name and `-id` become it.
pub fn join_request(member_id: &str, client: &str) -> Join {
    Join {
        group_id: "g".into(),
        member_id: member_id.into(),
        instance_id: None,
        new_member_id: format!("{client}-id"),
        client_id: client.into(),
        client_host: "/127.0.0.1".into(),
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 60_000,
        protocol_type: "consumer".into(),
        protocols: vec![Protocol { name: "range".into(), metadata: subscription(&["t"]) }],
        requires_known_member_id: true,
        supports_skipping_assignment: true,
        reason: None,
    }
}

/// A member that is not static.
pub fn speaker(member_id: &str, generation: i32) -> Speaker {
    Speaker { member_id: member_id.into(), instance_id: None, generation }
}

/// An offset of one partition is committed.
pub fn commit(speaker: Speaker, topic: &str, partition: i32, offset: i64) -> CommitOffsets {
    CommitOffsets {
        group_id: "g".into(),
        speaker,
        writer: None,
        transactional: None,
        retention_ms: None,
        tells_unknown_group: true,
        topics: vec![CommitTopic {
            name: topic.into(),
            topic_id: [7; 16],
            partitions: vec![CommitPartition { index: partition, offset, leader_epoch: 3, metadata: "m".into() }],
        }],
    }
}

/// The code of the first partition.
pub fn committed_code(reply: GroupReply) -> ErrorCode {
    match reply {
        GroupReply::Partitions(topics) => topics[0].1[0].1,
        GroupReply::Refused(error) => error,
        other => panic!("{other:?}"),
    }
}
