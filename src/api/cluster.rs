//! DescribeCluster: the brokers, which are the cores of this machine.

use crate::api::authorized_operations::CLUSTER_OPERATIONS;
use crate::api::context::RequestContext;
use crate::api::reply::Outcome;
use crate::shard::core::Shard;
use crate::wire::error_code::ErrorCode;
use crate::wire::messages::describe_cluster_request::DescribeClusterRequest;
use crate::wire::messages::describe_cluster_response::{DescribeClusterBroker, DescribeClusterResponse};
use crate::wire::reader::Reader;

/// Answers DescribeCluster.
pub fn handle(shard: &Shard, context: &RequestContext, body: &[u8]) -> Outcome {
    let request = match DescribeClusterRequest::decode(&mut Reader::new(body), context.api_version) {
        Ok(request) => request,
        Err(error) => return Outcome::Close(error.to_string()),
    };
    let options = shard.options();
    let (error, message) = match request.endpoint_type {
        ENDPOINT_BROKERS => (ErrorCode::None, None),
        ENDPOINT_CONTROLLERS => (
            ErrorCode::MismatchedEndpointType,
            Some("The request was sent to an endpoint of the wrong type: this endpoint is a broker's."),
        ),
        _ => (ErrorCode::UnsupportedEndpointType, Some("The endpoint type is not supported.")),
    };
    let broker = |address: &'_ crate::shard::options::BrokerAddress| (address.id, i32::from(address.port));
    let brokers = options
        .brokers
        .iter()
        .map(|address| {
            let (broker_id, port) = broker(address);
            DescribeClusterBroker { broker_id, host: &address.host, port, ..DescribeClusterBroker::default() }
        })
        .collect();
    let mut response = DescribeClusterResponse {
        error_code: error.code(),
        error_message: message,
        endpoint_type: if context.api_version >= 1 { request.endpoint_type } else { ENDPOINT_BROKERS },
        cluster_id: &options.cluster_id,
        controller_id: options.brokers[0].id,
        brokers: if error == ErrorCode::None { brokers } else { Vec::new() },
        ..DescribeClusterResponse::default()
    };
    if request.include_cluster_authorized_operations && error == ErrorCode::None {
        response.cluster_authorized_operations = CLUSTER_OPERATIONS;
    }
    Outcome::message(context, |out, version| response.encode(out, version))
}

const ENDPOINT_BROKERS: i8 = 1;
const ENDPOINT_CONTROLLERS: i8 = 2;
