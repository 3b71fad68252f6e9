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
        "AlterConfigsRequest" => {
            recode!(alter_configs_request::AlterConfigsRequest, bytes, version)
        }
        "AlterConfigsResponse" => {
            recode!(alter_configs_response::AlterConfigsResponse, bytes, version)
        }
        "ApiVersionsRequest" => recode!(api_versions_request::ApiVersionsRequest, bytes, version),
        "ApiVersionsResponse" => {
            recode!(api_versions_response::ApiVersionsResponse, bytes, version)
        }
        "CreatePartitionsRequest" => recode!(create_partitions_request::CreatePartitionsRequest, bytes, version),
        "CreatePartitionsResponse" => recode!(create_partitions_response::CreatePartitionsResponse, bytes, version),
        "CreateTopicsRequest" => {
            recode!(create_topics_request::CreateTopicsRequest, bytes, version)
        }
        "CreateTopicsResponse" => {
            recode!(create_topics_response::CreateTopicsResponse, bytes, version)
        }
        "DeleteRecordsRequest" => {
            recode!(delete_records_request::DeleteRecordsRequest, bytes, version)
        }
        "DeleteRecordsResponse" => recode!(delete_records_response::DeleteRecordsResponse, bytes, version),
        "DeleteTopicsRequest" => {
            recode!(delete_topics_request::DeleteTopicsRequest, bytes, version)
        }
        "DeleteTopicsResponse" => {
            recode!(delete_topics_response::DeleteTopicsResponse, bytes, version)
        }
        "DescribeClusterRequest" => recode!(describe_cluster_request::DescribeClusterRequest, bytes, version),
        "DescribeClusterResponse" => recode!(describe_cluster_response::DescribeClusterResponse, bytes, version),
        "DescribeConfigsRequest" => recode!(describe_configs_request::DescribeConfigsRequest, bytes, version),
        "DescribeConfigsResponse" => recode!(describe_configs_response::DescribeConfigsResponse, bytes, version),
        "DescribeLogDirsRequest" => recode!(describe_log_dirs_request::DescribeLogDirsRequest, bytes, version),
        "DescribeLogDirsResponse" => recode!(describe_log_dirs_response::DescribeLogDirsResponse, bytes, version),
        "DescribeTopicPartitionsRequest" => {
            recode!(describe_topic_partitions_request::DescribeTopicPartitionsRequest, bytes, version)
        }
        "DescribeTopicPartitionsResponse" => {
            recode!(describe_topic_partitions_response::DescribeTopicPartitionsResponse, bytes, version)
        }
        "FetchRequest" => recode!(fetch_request::FetchRequest, bytes, version),
        "FetchResponse" => recode!(fetch_response::FetchResponse, bytes, version),
        "FindCoordinatorRequest" => recode!(find_coordinator_request::FindCoordinatorRequest, bytes, version),
        "FindCoordinatorResponse" => recode!(find_coordinator_response::FindCoordinatorResponse, bytes, version),
        "IncrementalAlterConfigsRequest" => {
            recode!(incremental_alter_configs_request::IncrementalAlterConfigsRequest, bytes, version)
        }
        "IncrementalAlterConfigsResponse" => {
            recode!(incremental_alter_configs_response::IncrementalAlterConfigsResponse, bytes, version)
        }
        "InitProducerIdRequest" => recode!(init_producer_id_request::InitProducerIdRequest, bytes, version),
        "InitProducerIdResponse" => recode!(init_producer_id_response::InitProducerIdResponse, bytes, version),
        "ListOffsetsRequest" => recode!(list_offsets_request::ListOffsetsRequest, bytes, version),
        "ListOffsetsResponse" => {
            recode!(list_offsets_response::ListOffsetsResponse, bytes, version)
        }
        "MetadataRequest" => recode!(metadata_request::MetadataRequest, bytes, version),
        "MetadataResponse" => recode!(metadata_response::MetadataResponse, bytes, version),
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
        _ => panic!("scripts/generate-wire makes no {name}"),
    }
}
