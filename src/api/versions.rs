//! ApiVersions: which requests this server answers, and in which versions.

use crate::api::context::RequestContext;
use crate::api::reply::Outcome;
use crate::shard::transaction_machine::TRANSACTION_VERSION;
use crate::wire::api_keys::{ApiKey, ServedRange};
use crate::wire::error_code::ErrorCode;
use crate::wire::frame;
use crate::wire::messages::api_versions_request::ApiVersionsRequest;
use crate::wire::messages::api_versions_response::{
    ApiVersion, ApiVersionsResponse, FinalizedFeatureKey, SupportedFeatureKey,
};
use crate::wire::reader::Reader;

/// What is served. A row stands here when its API works, not before: clients that find a row rely on it.
pub const SERVED: &[ServedRange] = &[
    served(ApiKey::Produce, 3, 13),
    served(ApiKey::Fetch, 4, 18),
    served(ApiKey::ListOffsets, 1, 11),
    served(ApiKey::Metadata, 0, 13),
    served(ApiKey::OffsetCommit, 2, 10),
    served(ApiKey::OffsetFetch, 1, 10),
    served(ApiKey::FindCoordinator, 0, 6),
    served(ApiKey::JoinGroup, 0, 9),
    served(ApiKey::Heartbeat, 0, 4),
    served(ApiKey::LeaveGroup, 0, 5),
    served(ApiKey::SyncGroup, 0, 5),
    served(ApiKey::DescribeGroups, 0, 6),
    served(ApiKey::ListGroups, 0, 5),
    served(ApiKey::ApiVersions, 0, 4),
    served(ApiKey::CreateTopics, 2, 7),
    served(ApiKey::DeleteTopics, 1, 6),
    served(ApiKey::DeleteRecords, 0, 2),
    served(ApiKey::InitProducerId, 0, 5),
    served(ApiKey::OffsetForLeaderEpoch, 2, 4),
    served(ApiKey::AddPartitionsToTxn, 0, 5),
    served(ApiKey::AddOffsetsToTxn, 0, 4),
    served(ApiKey::EndTxn, 0, 5),
    served(ApiKey::WriteTxnMarkers, 1, 2),
    served(ApiKey::TxnOffsetCommit, 0, 6),
    served(ApiKey::DescribeConfigs, 1, 4),
    served(ApiKey::DescribeLogDirs, 1, 5),
    served(ApiKey::DeleteGroups, 0, 3),
    served(ApiKey::OffsetDelete, 0, 0),
    served(ApiKey::DescribeCluster, 0, 2),
    served(ApiKey::DescribeProducers, 0, 0),
    served(ApiKey::DescribeTransactions, 0, 0),
    served(ApiKey::ListTransactions, 0, 2),
    served(ApiKey::ConsumerGroupHeartbeat, 0, 1),
    served(ApiKey::ConsumerGroupDescribe, 0, 1),
];

const fn served(key: ApiKey, min: i16, max: i16) -> ServedRange {
    ServedRange { key, min, max }
}

/// The versions served of one API; `None` where it is not served.
pub fn range_of(key: ApiKey) -> Option<ServedRange> {
    SERVED.iter().copied().find(|range| range.key == key)
}

/// Answers ApiVersions in a version that is served.
pub fn handle(context: &RequestContext, body: &[u8]) -> Outcome {
    let error = match ApiVersionsRequest::decode(&mut Reader::new(body), context.api_version) {
        Err(error) => return Outcome::Close(error.to_string()),
        Ok(request) if context.api_version >= 3 && !names_are_valid(&request) => ErrorCode::InvalidRequest,
        Ok(_) => ErrorCode::None,
    };
    let mut response = ApiVersionsResponse {
        error_code: error.code(),
        api_keys: if error == ErrorCode::None { rows() } else { Vec::new() },
        ..ApiVersionsResponse::default()
    };
    if error == ErrorCode::None && context.api_version >= FEATURES_MIN {
        // Before version 4 a feature that may be off is not shown as supported, as in Kafka.
        if context.api_version >= ZERO_FEATURES_MIN {
            let supported =
                SupportedFeatureKey { name: TRANSACTION_FEATURE, min_version: 0, max_version: TRANSACTION_VERSION };
            response.supported_features = vec![supported];
        }
        response.finalized_features_epoch = 0;
        response.finalized_features = vec![FinalizedFeatureKey {
            name: TRANSACTION_FEATURE,
            min_version_level: TRANSACTION_VERSION,
            max_version_level: TRANSACTION_VERSION,
        }];
    }
    Outcome::message(context, |out, version| response.encode(out, version))
}

/// Answers ApiVersions in a version that nobody here knows: a v0 body with one row, on a connection that stays usable
/// (KIP-511). The client tries again with what the row says.
pub fn handle_unknown_version(context: &RequestContext) -> Outcome {
    let rows = rows().into_iter().filter(|row| row.api_key == ApiKey::ApiVersions.key()).collect();
    let response = ApiVersionsResponse {
        error_code: ErrorCode::UnsupportedVersion.code(),
        api_keys: rows,
        ..ApiVersionsResponse::default()
    };
    let mut out = Vec::with_capacity(32);
    let open = frame::begin_frame(&mut out, context.correlation_id, 0);
    match response.encode(&mut out, 0).and_then(|()| open.end(&mut out)) {
        Ok(()) => Outcome::Bytes(out),
        Err(error) => Outcome::Close(error.to_string()),
    }
}

fn rows() -> Vec<ApiVersion> {
    let row = |range: &ServedRange| ApiVersion {
        api_key: range.key.key(),
        // librdkafka before the fix of its issue 4956 compresses only where Produce is shown from version 0; like
        // Kafka, versions 0 to 2 are shown and refused (KAFKA-18659).
        min_version: if range.key == ApiKey::Produce { 0 } else { range.min },
        max_version: range.max,
    };
    SERVED.iter().map(row).collect()
}

/// Kafka's rule for the names of client software: letters, digits, dots and dashes, not at the ends.
fn names_are_valid(request: &ApiVersionsRequest<'_>) -> bool {
    let valid = |name: &str| {
        let inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'-';
        let bytes = name.as_bytes();
        match (bytes.first(), bytes.last()) {
            (Some(first), Some(last)) => {
                first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric() && bytes.iter().all(|byte| inner(*byte))
            }
            _ => false,
        }
    };
    valid(request.client_software_name) && valid(request.client_software_version)
}

/// Kafka's name of what decides how clients take part in transactions.
const TRANSACTION_FEATURE: &str = "transaction.version";
const FEATURES_MIN: i16 = 3;
const ZERO_FEATURES_MIN: i16 = 4;
