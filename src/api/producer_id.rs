//! InitProducerId: an id for an idempotent producer, or an epoch for a transactional one.

use std::rc::Rc;

use crate::api::context::RequestContext;
use crate::api::reply::Outcome;
use crate::api::transactions;
use crate::record::offset::ProducerId;
use crate::shard::core::Shard;
use crate::wire::error_code::ErrorCode;
use crate::wire::messages::init_producer_id_request::InitProducerIdRequest;
use crate::wire::messages::init_producer_id_response::InitProducerIdResponse;
use crate::wire::reader::Reader;

/// Answers InitProducerId; with a transactional id its coordinator decides.
pub async fn handle(shard: &Rc<Shard>, context: &RequestContext, body: &[u8]) -> Outcome {
    let request = match InitProducerIdRequest::decode(&mut Reader::new(body), context.api_version) {
        Ok(request) => request,
        Err(error) => return Outcome::Close(error.to_string()),
    };
    let given = match request.transactional_id {
        Some("") => Err(ErrorCode::InvalidRequest),
        // An id and its epoch stand together, or neither does.
        _ if (request.producer_id == -1) != (request.producer_epoch == -1) => Err(ErrorCode::InvalidRequest),
        Some(id) => {
            let expected =
                (request.producer_id != -1).then_some((ProducerId(request.producer_id), request.producer_epoch));
            transactions::init_producer_id(shard, id, request.transaction_timeout_ms, expected).await
        }
        // As Kafka: a producer without a transactional id always gets a new id, whatever it had.
        None => transactions::fresh_producer_id(shard).await.map(|id| (id, 0)),
    };
    let given = given.map_err(|error| transactions::fencing_code(error, context.api_version, FENCED_MIN));
    let response = match given {
        Ok((producer_id, producer_epoch)) => {
            InitProducerIdResponse { producer_id: producer_id.0, producer_epoch, ..Default::default() }
        }
        Err(error) => InitProducerIdResponse {
            error_code: error.code(),
            producer_id: -1,
            producer_epoch: -1,
            ..Default::default()
        },
    };
    Outcome::message(context, |out, version| response.encode(out, version))
}

/// The first version whose clients know PRODUCER_FENCED.
const FENCED_MIN: i16 = 4;
