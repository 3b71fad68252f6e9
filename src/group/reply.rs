//! What a group coordinator answers.

use crate::group::topics::Partitions;
use crate::wire::error_code::ErrorCode;

/// The answer to a [`GroupRequest`](super::request::GroupRequest), of the same kind; `Refused` instead of any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupReply {
    /// The request as a whole is refused.
    Refused(ErrorCode),
    /// To Join.
    Joined(Joined),
    /// To Sync.
    Synced(Synced),
    /// To Heartbeat, and to whatever needs no more.
    Done,
    /// To Leave: a code for each who wanted to.
    Left(Vec<ErrorCode>),
    /// To CommitOffsets and DeleteOffsets: by topic, partition and code.
    Partitions(Vec<(String, Vec<(i32, ErrorCode)>)>),
    /// To FetchOffsets.
    Offsets(Vec<(String, Vec<FetchedOffset>)>),
    /// To Describe.
    Described(DescribedGroup),
    /// To ConsumerHeartbeat.
    Beat(ConsumerBeat),
    /// To DescribeConsumer.
    ConsumerDescribed(Box<DescribedConsumers>),
    /// To List.
    Listed(Vec<ListedGroup>),
}

/// What a member is told when the group is together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Joined {
    /// None where it has joined.
    pub error: ErrorCode,
    /// The generation; -1 where there is none to tell.
    pub generation: i32,
    /// The group's protocol type.
    pub protocol_type: Option<String>,
    /// The protocol that all have.
    pub protocol_name: Option<String>,
    /// Who assigns.
    pub leader: String,
    /// Told to a leader whose group goes on with the assignment that it has.
    pub skip_assignment: bool,
    /// The member's id.
    pub member_id: String,
    /// For the leader: who is in the group.
    pub members: Vec<JoinedMember>,
}

/// A member, as the leader sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinedMember {
    /// Its id.
    pub member_id: String,
    /// Set for a static member.
    pub instance_id: Option<String>,
    /// What it says in the chosen protocol.
    pub metadata: Vec<u8>,
}

impl Joined {
    /// Not joined.
    pub fn refused(member_id: &str, error: ErrorCode) -> GroupReply {
        GroupReply::Joined(Self { error, generation: -1, member_id: member_id.to_owned(), ..Self::default() })
    }
}

/// A member's assignment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Synced {
    /// None where there is one.
    pub error: ErrorCode,
    /// The group's protocol type.
    pub protocol_type: Option<String>,
    /// The protocol that all have.
    pub protocol_name: Option<String>,
    /// Opaque to the server.
    pub assignment: Vec<u8>,
}

impl Synced {
    /// No assignment.
    pub fn refused(error: ErrorCode) -> GroupReply {
        GroupReply::Synced(Self { error, ..Self::default() })
    }
}

/// What is committed for a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedOffset {
    /// The partition.
    pub index: i32,
    /// The offset; -1: none.
    pub offset: i64,
    /// The leader epoch; -1: not known.
    pub leader_epoch: i32,
    /// The text that came with it.
    pub metadata: String,
    /// Why there is none.
    pub error: ErrorCode,
}

/// A group for DescribeGroups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DescribedGroup {
    /// False where there is no classic group of this name.
    pub is_known: bool,
    /// Kafka's name of its state.
    pub state: String,
    /// Its protocol type.
    pub protocol_type: String,
    /// The protocol in use.
    pub protocol_data: String,
    /// Its members.
    pub members: Vec<DescribedMember>,
}

/// A member for DescribeGroups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedMember {
    /// Its id.
    pub member_id: String,
    /// Set for a static member.
    pub instance_id: Option<String>,
    /// What it calls itself.
    pub client_id: String,
    /// Where it is.
    pub client_host: String,
    /// What it says in the protocol in use.
    pub metadata: Vec<u8>,
    /// What it was given.
    pub assignment: Vec<u8>,
}

/// A group for ListGroups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedGroup {
    /// Its name.
    pub group_id: String,
    /// Its protocol type.
    pub protocol_type: String,
    /// Kafka's name of its state.
    pub state: &'static str,
    /// Kafka's name of its type.
    pub group_type: &'static str,
}

/// What a member of a group of the consumer protocol is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerBeat {
    /// Its id.
    pub member_id: String,
    /// The epoch that it is in now.
    pub member_epoch: i32,
    /// What it may read, where it has to be told.
    pub assignment: Option<Partitions>,
}

/// A group for ConsumerGroupDescribe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedConsumers {
    /// Kafka's name of its state.
    pub state: &'static str,
    /// Its epoch.
    pub epoch: i32,
    /// The epoch of its assignment.
    pub assignment_epoch: i32,
    /// How it assigns.
    pub assignor: &'static str,
    /// Its members.
    pub members: Vec<DescribedConsumer>,
}

/// A member for ConsumerGroupDescribe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedConsumer {
    /// Its id.
    pub member_id: String,
    /// Set for a static member.
    pub instance_id: Option<String>,
    /// Where it says that it is.
    pub rack_id: Option<String>,
    /// The epoch that it is in.
    pub epoch: i32,
    /// What it calls itself.
    pub client_id: String,
    /// Where it is.
    pub client_host: String,
    /// What it reads.
    pub topics: Vec<String>,
    /// The regular expression of what it reads besides; empty: none.
    pub regex: String,
    /// It speaks the classic protocol.
    pub is_classic: bool,
    /// What it has.
    pub assigned: Partitions,
    /// What it shall have.
    pub target: Partitions,
}
