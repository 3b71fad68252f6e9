//! FindCoordinator: there are no groups and no transactions yet, and the answer says so.

use crate::api::context::RequestContext;
use crate::api::reply::Outcome;
use crate::wire::error_code::ErrorCode;
use crate::wire::messages::find_coordinator_request::FindCoordinatorRequest;
use crate::wire::messages::find_coordinator_response::{Coordinator, FindCoordinatorResponse};
use crate::wire::reader::Reader;

/// Answers FindCoordinator, in the form for one key or for many (from version 4).
pub fn handle(context: &RequestContext, body: &[u8]) -> Outcome {
    let request = match FindCoordinatorRequest::decode(&mut Reader::new(body), context.api_version) {
        Ok(request) => request,
        Err(error) => return Outcome::Close(error.to_string()),
    };
    let known_type = (0..=2).contains(&request.key_type);
    let error = if known_type { ErrorCode::CoordinatorNotAvailable } else { ErrorCode::InvalidRequest };
    let message =
        known_type.then_some("Consumer groups and transactions are not served by this version of the server.");
    let coordinators = request
        .coordinator_keys
        .iter()
        .map(|key| Coordinator {
            key,
            node_id: NO_NODE,
            port: NO_NODE,
            error_code: error.code(),
            error_message: message,
            ..Coordinator::default()
        })
        .collect();
    let mut response = FindCoordinatorResponse { coordinators, ..FindCoordinatorResponse::default() };
    if context.api_version < 4 {
        response.error_code = error.code();
        response.error_message = message.filter(|_| context.api_version >= 1);
        response.node_id = NO_NODE;
        response.port = NO_NODE;
    }
    Outcome::message(context, |out, version| response.encode(out, version))
}

const NO_NODE: i32 = -1;
