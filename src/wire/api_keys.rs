//! Kafka's APIs: keys, names, versions and the header versions they imply.

/// Declares [`ApiKey`] and the tables about it; one row an API, as in Kafka 4.4.0's `ApiKeys`.
macro_rules! api_keys {
    ($($name:ident = $key:literal, versions $min:literal to $max:literal, flexible $flexible:literal;)*) => {
        /// An API of Kafka 4.4.0. Keys that Kafka has retired (4 to 7) are not among them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(i16)]
        pub enum ApiKey {
            $(#[doc = concat!("`", stringify!($name), "`, key ", $key, ".")] $name = $key,)*
        }

        /// The versions of each API that Kafka 4.4.0 knows and calls stable, by key.
        ///
        /// What a server serves is its own choice of these. Produce begins at 3 here: Kafka announces it from 0 (for old
        /// librdkafka) and refuses 0 to 2.
        pub const KAFKA_RANGES: &[ServedRange] =
            &[$(ServedRange { key: ApiKey::$name, min: $min, max: $max },)*];

        impl ApiKey {
            /// The API with this key, if Kafka 4.4.0 has one.
            pub const fn from_key(key: i16) -> Option<Self> {
                match key {
                    $($key => Some(Self::$name),)*
                    _ => None,
                }
            }

            /// The name as Kafka's tools print it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }

            /// The first version with compact lengths and tagged fields; [`FLEXIBLE_NEVER`] where there is none.
            pub const fn flexible_min(self) -> i16 {
                match self {
                    $(Self::$name => $flexible,)*
                }
            }
        }
    };
}

/// Versions of one API, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServedRange {
    /// The API.
    pub key: ApiKey,
    /// The lowest version.
    pub min: i16,
    /// The highest version.
    pub max: i16,
}

impl ServedRange {
    /// Whether the version lies in the range.
    pub const fn contains(&self, version: i16) -> bool {
        self.min <= version && version <= self.max
    }
}

impl ApiKey {
    /// The number on the wire.
    pub const fn key(self) -> i16 {
        self as i16
    }

    /// Whether messages of this version have compact lengths and tagged fields.
    pub const fn is_flexible(self, version: i16) -> bool {
        version >= self.flexible_min()
    }

    /// The version of the request header that comes before a request of this version, known or not.
    pub const fn request_header_version(self, version: i16) -> i16 {
        if self.is_flexible(version) { 2 } else { 1 }
    }

    /// The version of the response header that comes before a response of this version.
    ///
    /// ApiVersions always has the oldest: a client reads that answer before it knows what the server speaks.
    pub const fn response_header_version(self, version: i16) -> i16 {
        if self.is_flexible(version) && !matches!(self, Self::ApiVersions) { 1 } else { 0 }
    }
}

/// What [`ApiKey::flexible_min`] is for an API that never got flexible versions.
pub const FLEXIBLE_NEVER: i16 = i16::MAX;

api_keys! {
    Produce = 0, versions 3 to 13, flexible 9;
    Fetch = 1, versions 4 to 18, flexible 12;
    ListOffsets = 2, versions 1 to 11, flexible 6;
    Metadata = 3, versions 0 to 13, flexible 9;
    OffsetCommit = 8, versions 2 to 10, flexible 8;
    OffsetFetch = 9, versions 1 to 10, flexible 6;
    FindCoordinator = 10, versions 0 to 6, flexible 3;
    JoinGroup = 11, versions 0 to 9, flexible 6;
    Heartbeat = 12, versions 0 to 4, flexible 4;
    LeaveGroup = 13, versions 0 to 5, flexible 4;
    SyncGroup = 14, versions 0 to 5, flexible 4;
    DescribeGroups = 15, versions 0 to 6, flexible 5;
    ListGroups = 16, versions 0 to 5, flexible 3;
    SaslHandshake = 17, versions 0 to 1, flexible 32767;
    ApiVersions = 18, versions 0 to 5, flexible 3;
    CreateTopics = 19, versions 2 to 7, flexible 5;
    DeleteTopics = 20, versions 1 to 6, flexible 4;
    DeleteRecords = 21, versions 0 to 2, flexible 2;
    InitProducerId = 22, versions 0 to 5, flexible 2;
    OffsetForLeaderEpoch = 23, versions 2 to 4, flexible 4;
    AddPartitionsToTxn = 24, versions 0 to 5, flexible 3;
    AddOffsetsToTxn = 25, versions 0 to 4, flexible 3;
    EndTxn = 26, versions 0 to 5, flexible 3;
    WriteTxnMarkers = 27, versions 1 to 2, flexible 1;
    TxnOffsetCommit = 28, versions 0 to 6, flexible 3;
    DescribeAcls = 29, versions 1 to 3, flexible 2;
    CreateAcls = 30, versions 1 to 3, flexible 2;
    DeleteAcls = 31, versions 1 to 3, flexible 2;
    DescribeConfigs = 32, versions 1 to 4, flexible 4;
    AlterConfigs = 33, versions 0 to 2, flexible 2;
    AlterReplicaLogDirs = 34, versions 1 to 2, flexible 2;
    DescribeLogDirs = 35, versions 1 to 5, flexible 2;
    SaslAuthenticate = 36, versions 0 to 2, flexible 2;
    CreatePartitions = 37, versions 0 to 3, flexible 2;
    CreateDelegationToken = 38, versions 1 to 3, flexible 2;
    RenewDelegationToken = 39, versions 1 to 2, flexible 2;
    ExpireDelegationToken = 40, versions 1 to 2, flexible 2;
    DescribeDelegationToken = 41, versions 1 to 3, flexible 2;
    DeleteGroups = 42, versions 0 to 3, flexible 2;
    ElectLeaders = 43, versions 0 to 2, flexible 2;
    IncrementalAlterConfigs = 44, versions 0 to 1, flexible 1;
    AlterPartitionReassignments = 45, versions 0 to 1, flexible 0;
    ListPartitionReassignments = 46, versions 0 to 0, flexible 0;
    OffsetDelete = 47, versions 0 to 0, flexible 32767;
    DescribeClientQuotas = 48, versions 0 to 1, flexible 1;
    AlterClientQuotas = 49, versions 0 to 1, flexible 1;
    DescribeUserScramCredentials = 50, versions 0 to 0, flexible 0;
    AlterUserScramCredentials = 51, versions 0 to 0, flexible 0;
    Vote = 52, versions 0 to 2, flexible 0;
    BeginQuorumEpoch = 53, versions 0 to 1, flexible 1;
    EndQuorumEpoch = 54, versions 0 to 1, flexible 1;
    DescribeQuorum = 55, versions 0 to 2, flexible 0;
    AlterPartition = 56, versions 2 to 3, flexible 2;
    UpdateFeatures = 57, versions 0 to 2, flexible 0;
    Envelope = 58, versions 0 to 0, flexible 0;
    FetchSnapshot = 59, versions 0 to 1, flexible 0;
    DescribeCluster = 60, versions 0 to 2, flexible 0;
    DescribeProducers = 61, versions 0 to 0, flexible 0;
    BrokerRegistration = 62, versions 0 to 4, flexible 0;
    BrokerHeartbeat = 63, versions 0 to 2, flexible 0;
    UnregisterBroker = 64, versions 0 to 0, flexible 0;
    DescribeTransactions = 65, versions 0 to 0, flexible 0;
    ListTransactions = 66, versions 0 to 2, flexible 0;
    AllocateProducerIds = 67, versions 0 to 0, flexible 0;
    ConsumerGroupHeartbeat = 68, versions 0 to 1, flexible 0;
    ConsumerGroupDescribe = 69, versions 0 to 1, flexible 0;
    ControllerRegistration = 70, versions 0 to 0, flexible 0;
    GetTelemetrySubscriptions = 71, versions 0 to 0, flexible 0;
    PushTelemetry = 72, versions 0 to 0, flexible 0;
    AssignReplicasToDirs = 73, versions 0 to 0, flexible 0;
    ListConfigResources = 74, versions 0 to 1, flexible 0;
    DescribeTopicPartitions = 75, versions 0 to 0, flexible 0;
    ShareGroupHeartbeat = 76, versions 1 to 1, flexible 1;
    ShareGroupDescribe = 77, versions 1 to 1, flexible 1;
    ShareFetch = 78, versions 1 to 2, flexible 1;
    ShareAcknowledge = 79, versions 1 to 2, flexible 1;
    AddRaftVoter = 80, versions 0 to 1, flexible 0;
    RemoveRaftVoter = 81, versions 0 to 0, flexible 0;
    UpdateRaftVoter = 82, versions 0 to 0, flexible 0;
    InitializeShareGroupState = 83, versions 0 to 0, flexible 0;
    ReadShareGroupState = 84, versions 0 to 0, flexible 0;
    WriteShareGroupState = 85, versions 0 to 1, flexible 0;
    DeleteShareGroupState = 86, versions 0 to 0, flexible 0;
    ReadShareGroupStateSummary = 87, versions 0 to 1, flexible 0;
    StreamsGroupHeartbeat = 88, versions 0 to 1, flexible 0;
    StreamsGroupDescribe = 89, versions 0 to 1, flexible 0;
    DescribeShareGroupOffsets = 90, versions 0 to 1, flexible 0;
    AlterShareGroupOffsets = 91, versions 0 to 0, flexible 0;
    DeleteShareGroupOffsets = 92, versions 0 to 0, flexible 0;
    StreamsGroupTopologyDescriptionUpdate = 93, versions 0 to 0, flexible 0;
    UnregisterController = 94, versions 0 to 0, flexible 0;
}

#[cfg(test)]
mod tests {
    use super::{ApiKey, KAFKA_RANGES};

    #[test]
    fn ranges_are_in_the_order_of_their_keys() {
        assert!(KAFKA_RANGES.is_sorted_by_key(|range| range.key.key()));
        for range in KAFKA_RANGES {
            assert_eq!(ApiKey::from_key(range.key.key()), Some(range.key));
            assert!(range.min <= range.max && range.contains(range.max), "{}", range.key.name());
        }
    }

    #[test]
    fn unknown_keys_are_none() {
        for key in [-5, 4, 7, 95, 9999, i16::MIN, i16::MAX] {
            assert_eq!(ApiKey::from_key(key), None, "{key}");
        }
    }
}
