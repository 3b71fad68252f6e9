//! Decodes and encodes a message by its name; written by `scripts/generate-wire`.

use alluvium::wire::messages;
use alluvium::wire::reader::{DecodeError, Reader};
use alluvium::wire::writer::EncodeError;

/// What decoding consumed, and the message encoded again.
pub(crate) type Recoded = (usize, Result<Vec<u8>, EncodeError>);

macro_rules! recode {
    ($module:ident::$message:ident, $bytes:ident, $version:ident) => {{
        let mut reader = Reader::new($bytes);
        let message = messages::$module::$message::decode(&mut reader, $version)?;
        let mut out = Vec::new();
        let encoded = message.encode(&mut out, $version);
        Ok((reader.position_bytes(), encoded.map(|()| out)))
    }};
}

/// Decodes a message and encodes it again.
pub(crate) fn recode(name: &str, version: i16, bytes: &[u8]) -> Result<Recoded, DecodeError> {
    match name {
        "AddOffsetsToTxnRequest" => recode!(add_offsets_to_txn_request::AddOffsetsToTxnRequest, bytes, version),
        "AddOffsetsToTxnResponse" => recode!(add_offsets_to_txn_response::AddOffsetsToTxnResponse, bytes, version),
        "AddPartitionsToTxnRequest" => {
            recode!(add_partitions_to_txn_request::AddPartitionsToTxnRequest, bytes, version)
        }
        "AddPartitionsToTxnResponse" => {
            recode!(add_partitions_to_txn_response::AddPartitionsToTxnResponse, bytes, version)
        }
        "AlterConfigsRequest" => recode!(alter_configs_request::AlterConfigsRequest, bytes, version),
        "AlterConfigsResponse" => recode!(alter_configs_response::AlterConfigsResponse, bytes, version),
        "ApiVersionsRequest" => recode!(api_versions_request::ApiVersionsRequest, bytes, version),
        "ApiVersionsResponse" => recode!(api_versions_response::ApiVersionsResponse, bytes, version),
        "ConsumerGroupCurrentMemberAssignmentKey" => recode!(
            consumer_group_current_member_assignment_key::ConsumerGroupCurrentMemberAssignmentKey,
            bytes,
            version
        ),
        "ConsumerGroupCurrentMemberAssignmentValue" => recode!(
            consumer_group_current_member_assignment_value::ConsumerGroupCurrentMemberAssignmentValue,
            bytes,
            version
        ),
        "ConsumerGroupDescribeRequest" => {
            recode!(consumer_group_describe_request::ConsumerGroupDescribeRequest, bytes, version)
        }
        "ConsumerGroupDescribeResponse" => {
            recode!(consumer_group_describe_response::ConsumerGroupDescribeResponse, bytes, version)
        }
        "ConsumerGroupHeartbeatRequest" => {
            recode!(consumer_group_heartbeat_request::ConsumerGroupHeartbeatRequest, bytes, version)
        }
        "ConsumerGroupHeartbeatResponse" => {
            recode!(consumer_group_heartbeat_response::ConsumerGroupHeartbeatResponse, bytes, version)
        }
        "ConsumerGroupMemberMetadataKey" => {
            recode!(consumer_group_member_metadata_key::ConsumerGroupMemberMetadataKey, bytes, version)
        }
        "ConsumerGroupMemberMetadataValue" => {
            recode!(consumer_group_member_metadata_value::ConsumerGroupMemberMetadataValue, bytes, version)
        }
        "ConsumerGroupMetadataKey" => recode!(consumer_group_metadata_key::ConsumerGroupMetadataKey, bytes, version),
        "ConsumerGroupMetadataValue" => {
            recode!(consumer_group_metadata_value::ConsumerGroupMetadataValue, bytes, version)
        }
        "ConsumerGroupPartitionMetadataKey" => {
            recode!(consumer_group_partition_metadata_key::ConsumerGroupPartitionMetadataKey, bytes, version)
        }
        "ConsumerGroupPartitionMetadataValue" => {
            recode!(consumer_group_partition_metadata_value::ConsumerGroupPartitionMetadataValue, bytes, version)
        }
        "ConsumerGroupRegularExpressionKey" => {
            recode!(consumer_group_regular_expression_key::ConsumerGroupRegularExpressionKey, bytes, version)
        }
        "ConsumerGroupRegularExpressionValue" => {
            recode!(consumer_group_regular_expression_value::ConsumerGroupRegularExpressionValue, bytes, version)
        }
        "ConsumerGroupTargetAssignmentMemberKey" => {
            recode!(consumer_group_target_assignment_member_key::ConsumerGroupTargetAssignmentMemberKey, bytes, version)
        }
        "ConsumerGroupTargetAssignmentMemberValue" => recode!(
            consumer_group_target_assignment_member_value::ConsumerGroupTargetAssignmentMemberValue,
            bytes,
            version
        ),
        "ConsumerGroupTargetAssignmentMetadataKey" => recode!(
            consumer_group_target_assignment_metadata_key::ConsumerGroupTargetAssignmentMetadataKey,
            bytes,
            version
        ),
        "ConsumerGroupTargetAssignmentMetadataValue" => recode!(
            consumer_group_target_assignment_metadata_value::ConsumerGroupTargetAssignmentMetadataValue,
            bytes,
            version
        ),
        "ConsumerProtocolAssignment" => {
            recode!(consumer_protocol_assignment::ConsumerProtocolAssignment, bytes, version)
        }
        "ConsumerProtocolSubscription" => {
            recode!(consumer_protocol_subscription::ConsumerProtocolSubscription, bytes, version)
        }
        "CreatePartitionsRequest" => recode!(create_partitions_request::CreatePartitionsRequest, bytes, version),
        "CreatePartitionsResponse" => recode!(create_partitions_response::CreatePartitionsResponse, bytes, version),
        "CreateTopicsRequest" => recode!(create_topics_request::CreateTopicsRequest, bytes, version),
        "CreateTopicsResponse" => recode!(create_topics_response::CreateTopicsResponse, bytes, version),
        "DeleteGroupsRequest" => recode!(delete_groups_request::DeleteGroupsRequest, bytes, version),
        "DeleteGroupsResponse" => recode!(delete_groups_response::DeleteGroupsResponse, bytes, version),
        "DeleteRecordsRequest" => recode!(delete_records_request::DeleteRecordsRequest, bytes, version),
        "DeleteRecordsResponse" => recode!(delete_records_response::DeleteRecordsResponse, bytes, version),
        "DeleteTopicsRequest" => recode!(delete_topics_request::DeleteTopicsRequest, bytes, version),
        "DeleteTopicsResponse" => recode!(delete_topics_response::DeleteTopicsResponse, bytes, version),
        "DescribeClusterRequest" => recode!(describe_cluster_request::DescribeClusterRequest, bytes, version),
        "DescribeClusterResponse" => recode!(describe_cluster_response::DescribeClusterResponse, bytes, version),
        "DescribeConfigsRequest" => recode!(describe_configs_request::DescribeConfigsRequest, bytes, version),
        "DescribeConfigsResponse" => recode!(describe_configs_response::DescribeConfigsResponse, bytes, version),
        "DescribeGroupsRequest" => recode!(describe_groups_request::DescribeGroupsRequest, bytes, version),
        "DescribeGroupsResponse" => recode!(describe_groups_response::DescribeGroupsResponse, bytes, version),
        "DescribeLogDirsRequest" => recode!(describe_log_dirs_request::DescribeLogDirsRequest, bytes, version),
        "DescribeLogDirsResponse" => recode!(describe_log_dirs_response::DescribeLogDirsResponse, bytes, version),
        "DescribeProducersRequest" => recode!(describe_producers_request::DescribeProducersRequest, bytes, version),
        "DescribeProducersResponse" => recode!(describe_producers_response::DescribeProducersResponse, bytes, version),
        "DescribeTopicPartitionsRequest" => {
            recode!(describe_topic_partitions_request::DescribeTopicPartitionsRequest, bytes, version)
        }
        "DescribeTopicPartitionsResponse" => {
            recode!(describe_topic_partitions_response::DescribeTopicPartitionsResponse, bytes, version)
        }
        "DescribeTransactionsRequest" => {
            recode!(describe_transactions_request::DescribeTransactionsRequest, bytes, version)
        }
        "DescribeTransactionsResponse" => {
            recode!(describe_transactions_response::DescribeTransactionsResponse, bytes, version)
        }
        "EndTxnRequest" => recode!(end_txn_request::EndTxnRequest, bytes, version),
        "EndTxnResponse" => recode!(end_txn_response::EndTxnResponse, bytes, version),
        "FetchRequest" => recode!(fetch_request::FetchRequest, bytes, version),
        "FetchResponse" => recode!(fetch_response::FetchResponse, bytes, version),
        "FindCoordinatorRequest" => recode!(find_coordinator_request::FindCoordinatorRequest, bytes, version),
        "FindCoordinatorResponse" => recode!(find_coordinator_response::FindCoordinatorResponse, bytes, version),
        "GroupMetadataKey" => recode!(group_metadata_key::GroupMetadataKey, bytes, version),
        "GroupMetadataValue" => recode!(group_metadata_value::GroupMetadataValue, bytes, version),
        "HeartbeatRequest" => recode!(heartbeat_request::HeartbeatRequest, bytes, version),
        "HeartbeatResponse" => recode!(heartbeat_response::HeartbeatResponse, bytes, version),
        "IncrementalAlterConfigsRequest" => {
            recode!(incremental_alter_configs_request::IncrementalAlterConfigsRequest, bytes, version)
        }
        "IncrementalAlterConfigsResponse" => {
            recode!(incremental_alter_configs_response::IncrementalAlterConfigsResponse, bytes, version)
        }
        "InitProducerIdRequest" => recode!(init_producer_id_request::InitProducerIdRequest, bytes, version),
        "InitProducerIdResponse" => recode!(init_producer_id_response::InitProducerIdResponse, bytes, version),
        "JoinGroupRequest" => recode!(join_group_request::JoinGroupRequest, bytes, version),
        "JoinGroupResponse" => recode!(join_group_response::JoinGroupResponse, bytes, version),
        "LeaveGroupRequest" => recode!(leave_group_request::LeaveGroupRequest, bytes, version),
        "LeaveGroupResponse" => recode!(leave_group_response::LeaveGroupResponse, bytes, version),
        "ListGroupsRequest" => recode!(list_groups_request::ListGroupsRequest, bytes, version),
        "ListGroupsResponse" => recode!(list_groups_response::ListGroupsResponse, bytes, version),
        "ListOffsetsRequest" => recode!(list_offsets_request::ListOffsetsRequest, bytes, version),
        "ListOffsetsResponse" => recode!(list_offsets_response::ListOffsetsResponse, bytes, version),
        "ListTransactionsRequest" => recode!(list_transactions_request::ListTransactionsRequest, bytes, version),
        "ListTransactionsResponse" => recode!(list_transactions_response::ListTransactionsResponse, bytes, version),
        "MetadataRequest" => recode!(metadata_request::MetadataRequest, bytes, version),
        "MetadataResponse" => recode!(metadata_response::MetadataResponse, bytes, version),
        "OffsetCommitKey" => recode!(offset_commit_key::OffsetCommitKey, bytes, version),
        "OffsetCommitRequest" => recode!(offset_commit_request::OffsetCommitRequest, bytes, version),
        "OffsetCommitResponse" => recode!(offset_commit_response::OffsetCommitResponse, bytes, version),
        "OffsetCommitValue" => recode!(offset_commit_value::OffsetCommitValue, bytes, version),
        "OffsetDeleteRequest" => recode!(offset_delete_request::OffsetDeleteRequest, bytes, version),
        "OffsetDeleteResponse" => recode!(offset_delete_response::OffsetDeleteResponse, bytes, version),
        "OffsetFetchRequest" => recode!(offset_fetch_request::OffsetFetchRequest, bytes, version),
        "OffsetFetchResponse" => recode!(offset_fetch_response::OffsetFetchResponse, bytes, version),
        "OffsetForLeaderEpochRequest" => {
            recode!(offset_for_leader_epoch_request::OffsetForLeaderEpochRequest, bytes, version)
        }
        "OffsetForLeaderEpochResponse" => {
            recode!(offset_for_leader_epoch_response::OffsetForLeaderEpochResponse, bytes, version)
        }
        "ProduceRequest" => recode!(produce_request::ProduceRequest, bytes, version),
        "ProduceResponse" => recode!(produce_response::ProduceResponse, bytes, version),
        "RequestHeader" => recode!(request_header::RequestHeader, bytes, version),
        "ResponseHeader" => recode!(response_header::ResponseHeader, bytes, version),
        "SyncGroupRequest" => recode!(sync_group_request::SyncGroupRequest, bytes, version),
        "SyncGroupResponse" => recode!(sync_group_response::SyncGroupResponse, bytes, version),
        "TransactionLogKey" => recode!(transaction_log_key::TransactionLogKey, bytes, version),
        "TransactionLogValue" => recode!(transaction_log_value::TransactionLogValue, bytes, version),
        "TxnOffsetCommitRequest" => recode!(txn_offset_commit_request::TxnOffsetCommitRequest, bytes, version),
        "TxnOffsetCommitResponse" => recode!(txn_offset_commit_response::TxnOffsetCommitResponse, bytes, version),
        "WriteTxnMarkersRequest" => recode!(write_txn_markers_request::WriteTxnMarkersRequest, bytes, version),
        "WriteTxnMarkersResponse" => recode!(write_txn_markers_response::WriteTxnMarkersResponse, bytes, version),
        _ => panic!("scripts/generate-wire makes no {name}"),
    }
}
