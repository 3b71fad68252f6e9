//! Kafka's error codes: number, name, retriability, default message.

use std::fmt;

/// Declares [`ErrorCode`]; one row an error, as in Kafka 4.4.0's `Errors`.
macro_rules! error_codes {
    ($($variant:ident = $code:literal, $name:literal, $kind:ident, $message:literal;)*) => {
        /// An error as responses carry it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(i16)]
        pub enum ErrorCode {
            $(#[doc = $message] $variant = $code,)*
        }

        impl Default for ErrorCode {
            fn default() -> Self {
                Self::None
            }
        }

        impl ErrorCode {
            /// Every code, in the order of numbers.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The error with this number, if Kafka 4.4.0 has one.
            pub const fn from_code(code: i16) -> Option<Self> {
                match code {
                    $($code => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// The name as Kafka's documentation and tools print it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// The text that Kafka gives with the error where nothing more precise is said.
            pub const fn default_message(self) -> &'static str {
                match self {
                    $(Self::$variant => $message,)*
                }
            }

            /// Whether a client may send the same request again and hope.
            pub const fn is_retriable(self) -> bool {
                match self {
                    $(Self::$variant => error_codes!(@$kind),)*
                }
            }
        }
    };
    (@retriable) => { true };
    (@final) => { false };
}

impl ErrorCode {
    /// The number on the wire.
    pub const fn code(self) -> i16 {
        self as i16
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

error_codes! {
    UnknownServerError = -1, "UNKNOWN_SERVER_ERROR", final,
        "The server experienced an unexpected error when processing the request.";
    None = 0, "NONE", final, "NONE";
    OffsetOutOfRange = 1, "OFFSET_OUT_OF_RANGE", final,
        "The requested offset is not within the range of offsets maintained by the server.";
    CorruptMessage = 2, "CORRUPT_MESSAGE", retriable,
        "This message has failed its CRC checksum, exceeds the valid size, has a null key for a compacted topic, \
        or is otherwise corrupt.";
    UnknownTopicOrPartition = 3, "UNKNOWN_TOPIC_OR_PARTITION", retriable,
        "This server does not host this topic-partition.";
    InvalidFetchSize = 4, "INVALID_FETCH_SIZE", final, "The requested fetch size is invalid.";
    LeaderNotAvailable = 5, "LEADER_NOT_AVAILABLE", retriable,
        "There is no leader for this topic-partition as we are in the middle of a leadership election.";
    NotLeaderOrFollower = 6, "NOT_LEADER_OR_FOLLOWER", retriable,
        "For requests intended only for the leader, this error indicates that the broker is not the current \
        leader. For requests intended for any replica, this error indicates that the broker is not a replica of \
        the topic partition.";
    RequestTimedOut = 7, "REQUEST_TIMED_OUT", retriable, "The request timed out.";
    BrokerNotAvailable = 8, "BROKER_NOT_AVAILABLE", final, "The broker is not available.";
    ReplicaNotAvailable = 9, "REPLICA_NOT_AVAILABLE", retriable,
        "The replica is not available for the requested topic-partition. Produce/Fetch requests and other \
        requests intended only for the leader or follower return NOT_LEADER_OR_FOLLOWER if the broker is not a \
        replica of the topic-partition.";
    MessageTooLarge = 10, "MESSAGE_TOO_LARGE", final,
        "The request included a message larger than the max message size the server will accept.";
    StaleControllerEpoch = 11, "STALE_CONTROLLER_EPOCH", final, "The controller moved to another broker.";
    OffsetMetadataTooLarge = 12, "OFFSET_METADATA_TOO_LARGE", final,
        "The metadata field of the offset request was too large.";
    NetworkException = 13, "NETWORK_EXCEPTION", retriable, "The server disconnected before a response was received.";
    CoordinatorLoadInProgress = 14, "COORDINATOR_LOAD_IN_PROGRESS", retriable,
        "The coordinator is loading and hence can't process requests.";
    CoordinatorNotAvailable = 15, "COORDINATOR_NOT_AVAILABLE", retriable, "The coordinator is not available.";
    NotCoordinator = 16, "NOT_COORDINATOR", retriable, "This is not the correct coordinator.";
    InvalidTopicException = 17, "INVALID_TOPIC_EXCEPTION", final,
        "The request attempted to perform an operation on an invalid topic.";
    RecordListTooLarge = 18, "RECORD_LIST_TOO_LARGE", final,
        "The request included message batch larger than the configured segment size on the server.";
    NotEnoughReplicas = 19, "NOT_ENOUGH_REPLICAS", retriable,
        "Messages are rejected since there are fewer in-sync replicas than required.";
    NotEnoughReplicasAfterAppend = 20, "NOT_ENOUGH_REPLICAS_AFTER_APPEND", retriable,
        "Messages are written to the log, but to fewer in-sync replicas than required.";
    InvalidRequiredAcks = 21, "INVALID_REQUIRED_ACKS", final,
        "Produce request specified an invalid value for required acks.";
    IllegalGeneration = 22, "ILLEGAL_GENERATION", final, "Specified group generation id is not valid.";
    InconsistentGroupProtocol = 23, "INCONSISTENT_GROUP_PROTOCOL", final,
        "The group member's supported protocols are incompatible with those of existing members or first group \
        member tried to join with empty protocol type or empty protocol list.";
    InvalidGroupId = 24, "INVALID_GROUP_ID", final, "The group id is invalid.";
    UnknownMemberId = 25, "UNKNOWN_MEMBER_ID", final, "The coordinator is not aware of this member.";
    InvalidSessionTimeout = 26, "INVALID_SESSION_TIMEOUT", final,
        "The session timeout is not within the range allowed by the broker (as configured by \
        group.min.session.timeout.ms and group.max.session.timeout.ms).";
    RebalanceInProgress = 27, "REBALANCE_IN_PROGRESS", final, "The group is rebalancing, so a rejoin is needed.";
    InvalidCommitOffsetSize = 28, "INVALID_COMMIT_OFFSET_SIZE", final, "The committing offset data size is not valid.";
    TopicAuthorizationFailed = 29, "TOPIC_AUTHORIZATION_FAILED", final, "Topic authorization failed.";
    GroupAuthorizationFailed = 30, "GROUP_AUTHORIZATION_FAILED", final, "Group authorization failed.";
    ClusterAuthorizationFailed = 31, "CLUSTER_AUTHORIZATION_FAILED", final, "Cluster authorization failed.";
    InvalidTimestamp = 32, "INVALID_TIMESTAMP", final, "The timestamp of the message is out of acceptable range.";
    UnsupportedSaslMechanism = 33, "UNSUPPORTED_SASL_MECHANISM", final,
        "The broker does not support the requested SASL mechanism.";
    IllegalSaslState = 34, "ILLEGAL_SASL_STATE", final, "Request is not valid given the current SASL state.";
    UnsupportedVersion = 35, "UNSUPPORTED_VERSION", final, "The version of API is not supported.";
    TopicAlreadyExists = 36, "TOPIC_ALREADY_EXISTS", final, "Topic with this name already exists.";
    InvalidPartitions = 37, "INVALID_PARTITIONS", final, "Number of partitions is below 1.";
    InvalidReplicationFactor = 38, "INVALID_REPLICATION_FACTOR", final,
        "Replication factor is below 1 or larger than the number of available brokers.";
    InvalidReplicaAssignment = 39, "INVALID_REPLICA_ASSIGNMENT", final, "Replica assignment is invalid.";
    InvalidConfig = 40, "INVALID_CONFIG", final, "Configuration is invalid.";
    NotController = 41, "NOT_CONTROLLER", retriable, "This is not the correct controller for this cluster.";
    InvalidRequest = 42, "INVALID_REQUEST", final,
        "This most likely occurs because of a request being malformed by the client library or the message was \
        sent to an incompatible broker. See the broker logs for more details.";
    UnsupportedForMessageFormat = 43, "UNSUPPORTED_FOR_MESSAGE_FORMAT", final,
        "The message format version on the broker does not support the request.";
    PolicyViolation = 44, "POLICY_VIOLATION", final, "Request parameters do not satisfy the configured policy.";
    OutOfOrderSequenceNumber = 45, "OUT_OF_ORDER_SEQUENCE_NUMBER", final,
        "The broker received an out of order sequence number.";
    DuplicateSequenceNumber = 46, "DUPLICATE_SEQUENCE_NUMBER", final,
        "The broker received a duplicate sequence number.";
    InvalidProducerEpoch = 47, "INVALID_PRODUCER_EPOCH", final, "Producer attempted to produce with an old epoch.";
    InvalidTxnState = 48, "INVALID_TXN_STATE", final,
        "The producer attempted a transactional operation in an invalid state.";
    InvalidProducerIdMapping = 49, "INVALID_PRODUCER_ID_MAPPING", final,
        "The producer attempted to use a producer id which is not currently assigned to its transactional id.";
    InvalidTransactionTimeout = 50, "INVALID_TRANSACTION_TIMEOUT", final,
        "The transaction timeout is larger than the maximum value allowed by the broker (as configured by \
        transaction.max.timeout.ms).";
    ConcurrentTransactions = 51, "CONCURRENT_TRANSACTIONS", retriable,
        "The producer attempted to update a transaction while another concurrent operation on the same \
        transaction was ongoing.";
    TransactionCoordinatorFenced = 52, "TRANSACTION_COORDINATOR_FENCED", final,
        "Indicates that the transaction coordinator sending a WriteTxnMarker is no longer the current coordinator \
        for a given producer.";
    TransactionalIdAuthorizationFailed = 53, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", final,
        "Transactional Id authorization failed.";
    SecurityDisabled = 54, "SECURITY_DISABLED", final, "Security features are disabled.";
    OperationNotAttempted = 55, "OPERATION_NOT_ATTEMPTED", final,
        "The broker did not attempt to execute this operation. This may happen for batched RPCs where some \
        operations in the batch failed, causing the broker to respond without trying the rest.";
    KafkaStorageError = 56, "KAFKA_STORAGE_ERROR", retriable, "Disk error when trying to access log file on the disk.";
    LogDirNotFound = 57, "LOG_DIR_NOT_FOUND", final,
        "The user-specified log directory is not found in the broker config.";
    SaslAuthenticationFailed = 58, "SASL_AUTHENTICATION_FAILED", final, "SASL Authentication failed.";
    UnknownProducerId = 59, "UNKNOWN_PRODUCER_ID", final,
        "This exception is raised by the broker if it could not locate the producer metadata associated with the \
        producerId in question. This could happen if, for instance, the producer's records were deleted because \
        their retention time had elapsed. Once the last records of the producerId are removed, the producer's \
        metadata is removed from the broker, and future appends by the producer will return this exception.";
    ReassignmentInProgress = 60, "REASSIGNMENT_IN_PROGRESS", final, "A partition reassignment is in progress.";
    DelegationTokenAuthDisabled = 61, "DELEGATION_TOKEN_AUTH_DISABLED", final,
        "Delegation Token feature is not enabled.";
    DelegationTokenNotFound = 62, "DELEGATION_TOKEN_NOT_FOUND", final, "Delegation Token is not found on server.";
    DelegationTokenOwnerMismatch = 63, "DELEGATION_TOKEN_OWNER_MISMATCH", final,
        "Specified Principal is not valid Owner/Renewer.";
    DelegationTokenRequestNotAllowed = 64, "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED", final,
        "Delegation Token requests are not allowed on PLAINTEXT/1-way SSL channels and on delegation token \
        authenticated channels.";
    DelegationTokenAuthorizationFailed = 65, "DELEGATION_TOKEN_AUTHORIZATION_FAILED", final,
        "Delegation Token authorization failed.";
    DelegationTokenExpired = 66, "DELEGATION_TOKEN_EXPIRED", final, "Delegation Token is expired.";
    InvalidPrincipalType = 67, "INVALID_PRINCIPAL_TYPE", final, "Supplied principalType is not supported.";
    NonEmptyGroup = 68, "NON_EMPTY_GROUP", final, "The group is not empty.";
    GroupIdNotFound = 69, "GROUP_ID_NOT_FOUND", final, "The group id does not exist.";
    FetchSessionIdNotFound = 70, "FETCH_SESSION_ID_NOT_FOUND", retriable, "The fetch session ID was not found.";
    InvalidFetchSessionEpoch = 71, "INVALID_FETCH_SESSION_EPOCH", retriable, "The fetch session epoch is invalid.";
    ListenerNotFound = 72, "LISTENER_NOT_FOUND", retriable,
        "There is no listener on the leader broker that matches the listener on which metadata request was \
        processed.";
    TopicDeletionDisabled = 73, "TOPIC_DELETION_DISABLED", final, "Topic deletion is disabled.";
    FencedLeaderEpoch = 74, "FENCED_LEADER_EPOCH", retriable,
        "The leader epoch in the request is older than the epoch on the broker.";
    UnknownLeaderEpoch = 75, "UNKNOWN_LEADER_EPOCH", retriable,
        "The leader epoch in the request is newer than the epoch on the broker.";
    UnsupportedCompressionType = 76, "UNSUPPORTED_COMPRESSION_TYPE", final,
        "The requesting client does not support the compression type of given partition.";
    StaleBrokerEpoch = 77, "STALE_BROKER_EPOCH", final, "Broker epoch has changed.";
    OffsetNotAvailable = 78, "OFFSET_NOT_AVAILABLE", retriable,
        "The leader high watermark has not caught up from a recent leader election so the offsets cannot be \
        guaranteed to be monotonically increasing.";
    MemberIdRequired = 79, "MEMBER_ID_REQUIRED", final,
        "The group member needs to have a valid member id before actually entering a consumer group.";
    PreferredLeaderNotAvailable = 80, "PREFERRED_LEADER_NOT_AVAILABLE", retriable,
        "The preferred leader was not available.";
    GroupMaxSizeReached = 81, "GROUP_MAX_SIZE_REACHED", final, "The group has reached its maximum size.";
    FencedInstanceId = 82, "FENCED_INSTANCE_ID", final,
        "The broker rejected this static consumer since another consumer with the same group.instance.id has \
        registered with a different member.id.";
    EligibleLeadersNotAvailable = 83, "ELIGIBLE_LEADERS_NOT_AVAILABLE", retriable,
        "Eligible topic partition leaders are not available.";
    ElectionNotNeeded = 84, "ELECTION_NOT_NEEDED", retriable, "Leader election not needed for topic partition.";
    NoReassignmentInProgress = 85, "NO_REASSIGNMENT_IN_PROGRESS", final, "No partition reassignment is in progress.";
    GroupSubscribedToTopic = 86, "GROUP_SUBSCRIBED_TO_TOPIC", final,
        "Deleting offsets of a topic is forbidden while the consumer group is actively subscribed to it.";
    InvalidRecord = 87, "INVALID_RECORD", final,
        "This record has failed the validation on broker and hence will be rejected.";
    UnstableOffsetCommit = 88, "UNSTABLE_OFFSET_COMMIT", retriable,
        "There are unstable offsets that need to be cleared.";
    ThrottlingQuotaExceeded = 89, "THROTTLING_QUOTA_EXCEEDED", retriable, "The throttling quota has been exceeded.";
    ProducerFenced = 90, "PRODUCER_FENCED", final,
        "There is a newer producer with the same transactionalId which fences the current one.";
    ResourceNotFound = 91, "RESOURCE_NOT_FOUND", final,
        "A request illegally referred to a resource that does not exist.";
    DuplicateResource = 92, "DUPLICATE_RESOURCE", final, "A request illegally referred to the same resource twice.";
    UnacceptableCredential = 93, "UNACCEPTABLE_CREDENTIAL", final,
        "Requested credential would not meet criteria for acceptability.";
    InconsistentVoterSet = 94, "INCONSISTENT_VOTER_SET", final,
        "Indicates that the either the sender or recipient of a voter-only request is not one of the expected \
        voters.";
    InvalidUpdateVersion = 95, "INVALID_UPDATE_VERSION", final, "The given update version was invalid.";
    FeatureUpdateFailed = 96, "FEATURE_UPDATE_FAILED", final,
        "Unable to update finalized features due to an unexpected server error.";
    PrincipalDeserializationFailure = 97, "PRINCIPAL_DESERIALIZATION_FAILURE", final,
        "Request principal deserialization failed during forwarding. This indicates an internal error on the \
        broker cluster security setup.";
    SnapshotNotFound = 98, "SNAPSHOT_NOT_FOUND", final, "Requested snapshot was not found.";
    PositionOutOfRange = 99, "POSITION_OUT_OF_RANGE", final,
        "Requested position is not greater than or equal to zero, and less than the size of the snapshot.";
    UnknownTopicId = 100, "UNKNOWN_TOPIC_ID", retriable, "This server does not host this topic ID.";
    DuplicateBrokerRegistration = 101, "DUPLICATE_BROKER_REGISTRATION", final, "This broker ID is already in use.";
    BrokerIdNotRegistered = 102, "BROKER_ID_NOT_REGISTERED", final, "The given broker ID was not registered.";
    InconsistentTopicId = 103, "INCONSISTENT_TOPIC_ID", retriable,
        "The log's topic ID did not match the topic ID in the request.";
    InconsistentClusterId = 104, "INCONSISTENT_CLUSTER_ID", final,
        "The clusterId in the request does not match that found on the server.";
    TransactionalIdNotFound = 105, "TRANSACTIONAL_ID_NOT_FOUND", final, "The transactionalId could not be found.";
    FetchSessionTopicIdError = 106, "FETCH_SESSION_TOPIC_ID_ERROR", retriable,
        "The fetch session encountered inconsistent topic ID usage.";
    IneligibleReplica = 107, "INELIGIBLE_REPLICA", final, "The new ISR contains at least one ineligible replica.";
    NewLeaderElected = 108, "NEW_LEADER_ELECTED", final,
        "The AlterPartition request successfully updated the partition state but the leader has changed.";
    OffsetMovedToTieredStorage = 109, "OFFSET_MOVED_TO_TIERED_STORAGE", final,
        "The requested offset is moved to tiered storage.";
    FencedMemberEpoch = 110, "FENCED_MEMBER_EPOCH", final,
        "The member epoch is fenced by the group coordinator. The member must abandon all its partitions and \
        rejoin.";
    UnreleasedInstanceId = 111, "UNRELEASED_INSTANCE_ID", final,
        "The instance ID is still used by another member in the consumer group. That member must leave first.";
    UnsupportedAssignor = 112, "UNSUPPORTED_ASSIGNOR", final,
        "The assignor or its version range is not supported by the consumer group.";
    StaleMemberEpoch = 113, "STALE_MEMBER_EPOCH", final,
        "The member epoch is stale. The member must retry after receiving its updated member epoch via the \
        ConsumerGroupHeartbeat API.";
    MismatchedEndpointType = 114, "MISMATCHED_ENDPOINT_TYPE", final,
        "The request was sent to an endpoint of the wrong type.";
    UnsupportedEndpointType = 115, "UNSUPPORTED_ENDPOINT_TYPE", final, "This endpoint type is not supported yet.";
    UnknownControllerId = 116, "UNKNOWN_CONTROLLER_ID", final, "This controller ID is not known.";
    UnknownSubscriptionId = 117, "UNKNOWN_SUBSCRIPTION_ID", final,
        "Client sent a push telemetry request with an invalid or outdated subscription ID.";
    TelemetryTooLarge = 118, "TELEMETRY_TOO_LARGE", final,
        "Client sent a push telemetry request larger than the maximum size the broker will accept.";
    InvalidRegistration = 119, "INVALID_REGISTRATION", final,
        "The controller has considered the broker registration to be invalid.";
    TransactionAbortable = 120, "TRANSACTION_ABORTABLE", final,
        "The server encountered an error with the transaction. The client can abort the transaction to continue \
        using this transactional ID.";
    InvalidRecordState = 121, "INVALID_RECORD_STATE", final,
        "The record state is invalid. The acknowledgement of delivery could not be completed.";
    ShareSessionNotFound = 122, "SHARE_SESSION_NOT_FOUND", retriable, "The share session was not found.";
    InvalidShareSessionEpoch = 123, "INVALID_SHARE_SESSION_EPOCH", retriable, "The share session epoch is invalid.";
    FencedStateEpoch = 124, "FENCED_STATE_EPOCH", final,
        "The coordinator rejected the request because the state epoch did not match.";
    InvalidVoterKey = 125, "INVALID_VOTER_KEY", final, "The voter key doesn't match the receiving replica's key.";
    DuplicateVoter = 126, "DUPLICATE_VOTER", final, "The voter is already part of the set of voters.";
    VoterNotFound = 127, "VOTER_NOT_FOUND", final, "The voter is not part of the set of voters.";
    InvalidRegularExpression = 128, "INVALID_REGULAR_EXPRESSION", final, "The regular expression is not valid.";
    RebootstrapRequired = 129, "REBOOTSTRAP_REQUIRED", final,
        "Client metadata is stale. The client should rebootstrap to obtain new metadata.";
    StreamsInvalidTopology = 130, "STREAMS_INVALID_TOPOLOGY", final, "The supplied topology is invalid.";
    StreamsInvalidTopologyEpoch = 131, "STREAMS_INVALID_TOPOLOGY_EPOCH", final,
        "The supplied topology epoch is invalid.";
    StreamsTopologyFenced = 132, "STREAMS_TOPOLOGY_FENCED", final, "The supplied topology epoch is outdated.";
    ShareSessionLimitReached = 133, "SHARE_SESSION_LIMIT_REACHED", retriable,
        "The limit of share sessions has been reached.";
    GroupDeletionFailed = 134, "GROUP_DELETION_FAILED", final,
        "DeleteGroups could not complete; see the error message on the per-group result for details.";
    StreamsTopologyDescriptionUpdateFailed = 135, "STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED", final,
        "The broker could not process the topology description update; see the error message for details.";
    ControllerIdNotRegistered = 136, "CONTROLLER_ID_NOT_REGISTERED", final,
        "The given controller ID was not registered.";
}

#[cfg(test)]
mod tests {
    use super::ErrorCode;

    #[test]
    fn codes_come_back() {
        for &error in ErrorCode::ALL {
            assert_eq!(ErrorCode::from_code(error.code()), Some(error));
        }
        assert!(ErrorCode::ALL.is_sorted_by_key(|error| error.code()));
        assert_eq!(ErrorCode::from_code(-2), None);
    }
}
