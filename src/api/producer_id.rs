//! InitProducerId: an id for an idempotent producer.

use std::rc::Rc;

use crate::api::context::RequestContext;
use crate::api::reply::Outcome;
use crate::shard::core::Shard;
use crate::wire::error_code::ErrorCode;
use crate::wire::messages::init_producer_id_request::InitProducerIdRequest;
use crate::wire::messages::init_producer_id_response::InitProducerIdResponse;
use crate::wire::reader::Reader;

/// Answers InitProducerId without a transactional id. With one, there is no coordinator yet.
pub async fn handle(shard: &Rc<Shard>, context: &RequestContext, body: &[u8]) -> Outcome {
    let request = match InitProducerIdRequest::decode(&mut Reader::new(body), context.api_version) {
        Ok(request) => request,
        Err(error) => return Outcome::Close(error.to_string()),
    };
    let given = match request.transactional_id {
        Some("") => Err(ErrorCode::InvalidRequest),
        // An id and its epoch stand together, or neither does.
        _ if (request.producer_id == -1) != (request.producer_epoch == -1) => Err(ErrorCode::InvalidRequest),
        Some(_) => Err(ErrorCode::CoordinatorNotAvailable),
        // As Kafka: a producer without a transactional id always gets a new id, whatever it had.
        None => shard.next_producer_id().await.map_err(|error| {
            tracing::warn!(%error, "no producer id could be given out");
            ErrorCode::CoordinatorNotAvailable
        }),
    };
    let response = match given {
        Ok(producer_id) => InitProducerIdResponse { producer_id, producer_epoch: 0, ..Default::default() },
        Err(error) => InitProducerIdResponse {
            error_code: error.code(),
            producer_id: -1,
            producer_epoch: -1,
            ..Default::default()
        },
    };
    Outcome::message(context, |out, version| response.encode(out, version))
}
