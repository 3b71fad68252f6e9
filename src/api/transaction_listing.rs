//! ListTransactions and DescribeTransactions.

use std::rc::Rc;

use crate::api::context::RequestContext;
use crate::api::error_map::coordinator_failure;
use crate::api::reply::Outcome;
use crate::api::transactions::ask;
use crate::record::name_pattern;
use crate::record::offset::ProducerId;
use crate::shard::core::Shard;
use crate::txn::coordinator::TransactionCoordinator;
use crate::txn::reply::{Listed, TransactionReply};
use crate::txn::request::{Filter, TransactionRequest};
use crate::txn::state::TransactionState as State;
use crate::txn::transaction::Transaction;
use crate::wire::error_code::ErrorCode;
use crate::wire::messages::describe_transactions_request::DescribeTransactionsRequest;
use crate::wire::messages::describe_transactions_response::{
    DescribeTransactionsResponse, TopicData, TransactionState as Described,
};
use crate::wire::messages::list_transactions_request::ListTransactionsRequest;
use crate::wire::messages::list_transactions_response::{ListTransactionsResponse, TransactionState as Row};
use crate::wire::reader::Reader;

/// Answers ListTransactions: of all coordinators of this broker.
pub async fn list(shard: &Rc<Shard>, context: &RequestContext, body: &[u8]) -> Outcome {
    let request = match ListTransactionsRequest::decode(&mut Reader::new(body), context.api_version) {
        Ok(request) => request,
        Err(error) => return Outcome::Close(error.to_string()),
    };
    let known = request.state_filters.iter().copied().filter_map(State::of_name);
    let filter = Filter {
        states: known.collect(),
        producer_ids: request.producer_id_filters.iter().copied().map(ProducerId).collect(),
        duration_ms: request.duration_filter,
    };
    let unknown = request.state_filters.iter().copied().filter(|name| State::of_name(name).is_none());
    let mut response =
        ListTransactionsResponse { unknown_state_filters: unknown.collect(), ..ListTransactionsResponse::default() };
    let pattern = request.transactional_id_pattern.filter(|pattern| !pattern.is_empty()).map(name_pattern::compile);
    let pattern = match pattern.transpose() {
        Ok(pattern) => pattern,
        Err(_) => {
            response.unknown_state_filters.clear();
            response.error_code = ErrorCode::InvalidRegularExpression.code();
            return Outcome::message(context, |out, version| response.encode(out, version));
        }
    };
    // Where only unknown states were named there is nothing to be found.
    let asks_for_nothing = filter.states.is_empty() && !request.state_filters.is_empty();
    let mut listed: Vec<Listed> = Vec::new();
    if !asks_for_nothing {
        match shard.ask_all::<TransactionCoordinator>(|| TransactionRequest::List(filter.clone())).await {
            Err(failure) => response.error_code = coordinator_failure(failure).code(),
            Ok(replies) => {
                for reply in replies {
                    if let TransactionReply::Listed(rows) = reply {
                        listed.extend(rows);
                    }
                }
            }
        }
    }
    response.transaction_states = listed
        .iter()
        .filter(|listed| pattern.as_ref().is_none_or(|pattern| pattern.is_match(&listed.transactional_id)))
        .map(|listed| Row {
            transactional_id: &listed.transactional_id,
            producer_id: listed.producer_id.0,
            transaction_state: listed.state.name(),
        })
        .collect();
    Outcome::message(context, |out, version| response.encode(out, version))
}

/// Answers DescribeTransactions, id by id.
pub async fn describe(shard: &Rc<Shard>, context: &RequestContext, body: &[u8]) -> Outcome {
    let request = match DescribeTransactionsRequest::decode(&mut Reader::new(body), context.api_version) {
        Ok(request) => request,
        Err(error) => return Outcome::Close(error.to_string()),
    };
    let mut found: Vec<(&str, Result<Box<Transaction>, ErrorCode>)> = Vec::new();
    for transactional_id in request.transactional_ids.iter().copied() {
        let asked = TransactionRequest::Describe { transactional_id: transactional_id.to_owned() };
        let described = match ask(shard, transactional_id, asked).await {
            Ok(TransactionReply::Described(transaction)) => Ok(transaction),
            Ok(_) => Err(ErrorCode::UnknownServerError),
            Err(error) => Err(error),
        };
        found.push((transactional_id, described));
    }
    let rows = found.iter().map(|(transactional_id, described)| row(transactional_id, described));
    let response = DescribeTransactionsResponse { throttle_time_ms: 0, transaction_states: rows.collect() };
    Outcome::message(context, |out, version| response.encode(out, version))
}

fn row<'a>(transactional_id: &'a str, described: &'a Result<Box<Transaction>, ErrorCode>) -> Described<'a> {
    let blank = Described { transactional_id, ..Described::default() };
    match described {
        Err(error) => Described { error_code: error.code(), ..blank },
        Ok(transaction) => Described {
            transaction_state: transaction.state.name(),
            transaction_timeout_ms: transaction.timeout_ms,
            transaction_start_time_ms: transaction.started_ms,
            producer_id: transaction.producer_id.0,
            producer_epoch: transaction.producer_epoch,
            topics: transaction
                .partitions
                .iter()
                .map(|(topic, indexes)| TopicData { topic, partitions: indexes.iter().copied().collect() })
                .collect(),
            ..blank
        },
    }
}
