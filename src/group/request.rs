//! What is asked of a group coordinator.

use crate::group::topics::Partitions;
use crate::record::coordination::TransactionalWriter;

/// A request to the coordinator of one group, or to all of a core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupRequest {
    /// JoinGroup.
    Join(Join),
    /// SyncGroup.
    Sync(Sync),
    /// Heartbeat.
    Heartbeat {
        /// The group.
        group_id: String,
        /// Who speaks.
        speaker: Speaker,
    },
    /// ConsumerGroupHeartbeat.
    ConsumerHeartbeat(ConsumerHeartbeat),
    /// ConsumerGroupDescribe, for one group.
    DescribeConsumer {
        /// The group.
        group_id: String,
    },
    /// LeaveGroup.
    Leave {
        /// The group.
        group_id: String,
        /// Who leaves.
        members: Vec<Leaver>,
    },
    /// OffsetCommit, or TxnOffsetCommit where there is a writer.
    CommitOffsets(CommitOffsets),
    /// OffsetFetch, for one group.
    FetchOffsets {
        /// The group.
        group_id: String,
        /// Topics with partitions; `None`: all that there are.
        topics: Option<Vec<(String, Vec<i32>)>>,
        /// The member of a group of the consumer protocol that asks, where it says so; its generation is its epoch.
        speaker: Option<Speaker>,
        /// Offsets that a transaction may still change are refused.
        require_stable: bool,
    },
    /// OffsetDelete.
    DeleteOffsets {
        /// The group.
        group_id: String,
        /// Topics with partitions.
        topics: Vec<(String, Vec<i32>)>,
    },
    /// DescribeGroups, for one group.
    Describe {
        /// The group.
        group_id: String,
    },
    /// DeleteGroups, for one group.
    Delete {
        /// The group.
        group_id: String,
    },
    /// ListGroups.
    List {
        /// Names of states in lower case; empty: all.
        states: Vec<String>,
        /// Names of types in lower case; empty: all.
        types: Vec<String>,
    },
}

/// JoinGroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Join {
    /// The group.
    pub group_id: String,
    /// Who joins; empty where it has no id yet.
    pub member_id: String,
    /// Set for a static member.
    pub instance_id: Option<String>,
    /// The id that it gets where it has none.
    pub new_member_id: String,
    /// What it calls itself.
    pub client_id: String,
    /// Where it is, as Kafka writes it.
    pub client_host: String,
    /// Silent for longer, it is out.
    pub session_timeout_ms: u32,
    /// It has this long to join again in a rebalance.
    pub rebalance_timeout_ms: u32,
    /// `consumer`, for consumers.
    pub protocol_type: String,
    /// Names of protocols with what it says in each, the preferred first.
    pub protocols: Vec<Protocol>,
    /// A member without an id is given one, and has to come again with it.
    pub requires_known_member_id: bool,
    /// A leader that comes back may be told that the assignment stays.
    pub supports_skipping_assignment: bool,
    /// Why it joins, for the log.
    pub reason: Option<String>,
}

/// One protocol that a member offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protocol {
    /// Its name.
    pub name: String,
    /// Opaque to the server, but for what consumers subscribe to.
    pub metadata: Vec<u8>,
}

/// SyncGroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sync {
    /// The group.
    pub group_id: String,
    /// Who speaks.
    pub speaker: Speaker,
    /// The protocol type that it believes in, where it says so.
    pub protocol_type: Option<String>,
    /// The protocol that it believes in, where it says so.
    pub protocol_name: Option<String>,
    /// From the leader: assignments by member id.
    pub assignments: Vec<(String, Vec<u8>)>,
}

/// Who speaks to its group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Speaker {
    /// Its id.
    pub member_id: String,
    /// Set for a static member.
    pub instance_id: Option<String>,
    /// The generation, or the member's epoch, that it knows.
    pub generation: i32,
}

/// One who leaves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leaver {
    /// Its id; empty where only the instance is known.
    pub member_id: String,
    /// Set for a static member.
    pub instance_id: Option<String>,
    /// For the log.
    pub reason: Option<String>,
}

/// OffsetCommit or TxnOffsetCommit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitOffsets {
    /// The group.
    pub group_id: String,
    /// Who commits.
    pub speaker: Speaker,
    /// Set for TxnOffsetCommit.
    pub writer: Option<TransactionalWriter>,
    /// Set until the coordinator of the writer's transaction was asked.
    pub transactional: Option<TransactionalCommit>,
    /// How long they stay, where an old client says so.
    pub retention_ms: Option<u64>,
    /// An unknown group is said to be one, rather than a generation to be wrong.
    pub tells_unknown_group: bool,
    /// What is committed, by topic.
    pub topics: Vec<CommitTopic>,
}

/// The transaction that offsets are part of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionalCommit {
    /// Its id.
    pub transactional_id: String,
    /// The client relies on the group's partition being added (transaction version 2); else it was added before.
    pub adds: bool,
}

/// The offsets of one topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitTopic {
    /// Its name.
    pub name: String,
    /// Its id; zeros where nobody knows.
    pub topic_id: [u8; 16],
    /// Its partitions.
    pub partitions: Vec<CommitPartition>,
}

/// One offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitPartition {
    /// The partition.
    pub index: i32,
    /// The offset.
    pub offset: i64,
    /// The leader epoch of the last record before it; -1: not said.
    pub leader_epoch: i32,
    /// Any text.
    pub metadata: String,
}

/// ConsumerGroupHeartbeat. What is `None` is as it was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConsumerHeartbeat {
    /// The group.
    pub group_id: String,
    /// Who speaks; never empty.
    pub member_id: String,
    /// The epoch that it is in; 0: it joins, -1: it leaves, -2: it is static and comes back.
    pub member_epoch: i32,
    /// Set for a static member.
    pub instance_id: Option<String>,
    /// Where it is.
    pub rack_id: Option<String>,
    /// It has this long to give partitions back; -1: as it was.
    pub rebalance_timeout_ms: i32,
    /// What it reads.
    pub topics: Option<Vec<String>>,
    /// A regular expression of what it reads besides, which has been checked; empty: none.
    pub regex: Option<String>,
    /// The assignor that it prefers.
    pub server_assignor: Option<String>,
    /// What it has.
    pub owned: Option<Partitions>,
    /// What it calls itself.
    pub client_id: String,
    /// Where it is, as Kafka writes it.
    pub client_host: String,
}
