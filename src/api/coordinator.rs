//! FindCoordinator: which broker has the state of a group or a transactional id.

use std::rc::Rc;

use crate::api::context::RequestContext;
use crate::api::reply::Outcome;
use crate::control::internal_topics::InternalTopic;
use crate::shard::core::Shard;
use crate::shard::options::BrokerAddress;
use crate::wire::error_code::ErrorCode;
use crate::wire::messages::find_coordinator_request::FindCoordinatorRequest;
use crate::wire::messages::find_coordinator_response::{Coordinator, FindCoordinatorResponse};
use crate::wire::reader::Reader;

/// Answers FindCoordinator, in the form for one key or for many (from version 4). The first question makes the topic that
/// holds the state, and is answered when that can be used.
pub async fn handle(shard: &Rc<Shard>, context: &RequestContext, body: &[u8]) -> Outcome {
    let request = match FindCoordinatorRequest::decode(&mut Reader::new(body), context.api_version) {
        Ok(request) => request,
        Err(error) => return Outcome::Close(error.to_string()),
    };
    let topic = match request.key_type {
        GROUP => Ok(InternalTopic::ConsumerOffsets),
        TRANSACTION => Ok(InternalTopic::TransactionState),
        // Share groups are not served: as Kafka, where it has no coordinator of theirs.
        _ => Err(ErrorCode::InvalidRequest),
    };
    let is_asked = context.api_version < BATCHED_MIN || !request.coordinator_keys.is_empty();
    let topic = match topic {
        Ok(topic) if is_asked => match shard.ensure_internal_topic(topic).await {
            Ok(()) => Ok(topic),
            Err(error) => {
                tracing::warn!(topic = topic.name(), %error, "an internal topic could not be made");
                Err(ErrorCode::CoordinatorNotAvailable)
            }
        },
        other => other,
    };
    let options = shard.options().clone();
    let find = |key: &str| -> Result<&BrokerAddress, ErrorCode> {
        let place = shard.locate_coordinator(topic?, key).map_err(|_| ErrorCode::CoordinatorNotAvailable)?;
        options.broker_of(place.core).ok_or(ErrorCode::CoordinatorNotAvailable)
    };
    let mut response = FindCoordinatorResponse::default();
    if context.api_version >= BATCHED_MIN {
        response.coordinators = request.coordinator_keys.iter().map(|key| row(key, find(key))).collect();
    } else {
        let found = row(request.key, find(request.key));
        response.error_code = found.error_code;
        response.node_id = found.node_id;
        response.host = found.host;
        response.port = found.port;
        if context.api_version >= MESSAGE_MIN {
            let error = ErrorCode::from_code(found.error_code).unwrap_or_default();
            // Kafka says so in words where all is well, too.
            response.error_message = Some(match error {
                ErrorCode::None => "NONE",
                error => error.default_message(),
            });
        }
    }
    Outcome::message(context, |out, version| response.encode(out, version))
}

fn row<'a>(key: &'a str, found: Result<&'a BrokerAddress, ErrorCode>) -> Coordinator<'a> {
    match found {
        Ok(broker) => Coordinator {
            key,
            node_id: broker.id,
            host: &broker.host,
            port: i32::from(broker.port),
            ..Coordinator::default()
        },
        Err(error) => {
            Coordinator { key, node_id: NO_NODE, port: NO_NODE, error_code: error.code(), ..Coordinator::default() }
        }
    }
}

const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;
const NO_NODE: i32 = -1;
const MESSAGE_MIN: i16 = 1;
const BATCHED_MIN: i16 = 4;
