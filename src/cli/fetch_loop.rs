//! A thread that fetches from one broker, and hands on what comes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use super::address::Address;
use super::client_error::ClientError;
use super::connection::Connection;
use crate::record::batch::{batch_len_bytes, parse_header};
use crate::wire::api_keys::ApiKey;
use crate::wire::messages::fetch_request::{FetchPartition, FetchRequest, FetchTopic};
use crate::wire::messages::fetch_response::FetchResponse;

/// An answer for one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// The partition.
    pub partition: i32,
    /// Kafka's error code.
    pub error_code: i16,
    /// Readable up to here.
    pub high_watermark: i64,
    /// The first offset there is; -1 where the server does not say.
    pub log_start_offset: i64,
    /// Aborted transactions: producer id and first offset, by offset.
    pub aborted: Vec<(i64, i64)>,
    /// Batches; the last may be cut short.
    pub records: Vec<u8>,
}

/// What a thread hands on.
#[derive(Debug)]
pub enum Arrival {
    /// An answer with records or an error.
    Fetched(Fetched),
    /// The broker cannot be asked any more; the thread has ended.
    Lost(ClientError),
}

/// What one thread fetches.
#[derive(Clone, Debug)]
pub struct FetchPlan {
    /// From this broker.
    pub address: Address,
    /// Of this topic.
    pub topic: String,
    /// Partition, next offset, and where to stop.
    pub partitions: Vec<(i32, i64, Option<i64>)>,
    /// Most bytes of records in an answer.
    pub bytes_max: i32,
    /// As requests carry it.
    pub isolation_level: i8,
    /// How long an answer may take.
    pub answer_limit: Duration,
}

/// Fetches until everything is read, somebody says stop, or nobody listens any more.
pub fn run(mut plan: FetchPlan, arrivals: &SyncSender<Arrival>, stop: &Arc<AtomicBool>) {
    let mut connection = match Connection::connect(&plan.address, plan.answer_limit) {
        Ok(connection) => connection,
        Err(error) => {
            // Nobody listens: nobody misses it.
            let _ = arrivals.send(Arrival::Lost(error));
            return;
        }
    };
    loop {
        plan.partitions.retain(|(_, next, end)| end.is_none_or(|end| *next < end));
        if plan.partitions.is_empty() || stop.load(Ordering::Relaxed) {
            return;
        }
        let answers = match fetch(&mut connection, &plan) {
            Ok(answers) => answers,
            Err(error) => {
                let _ = arrivals.send(Arrival::Lost(error));
                return;
            }
        };
        for fetched in answers {
            if fetched.error_code == 0 && fetched.records.is_empty() {
                continue;
            }
            let failed = fetched.error_code != 0;
            if let Some(at) = plan.partitions.iter().position(|(partition, _, _)| *partition == fetched.partition) {
                // To the end of the list, so that the others have their turn.
                let (partition, next, end) = plan.partitions.remove(at);
                plan.partitions.push((partition, offset_after(&fetched.records, next), end));
            }
            if arrivals.send(Arrival::Fetched(fetched)).is_err() || failed {
                return;
            }
        }
    }
}

fn fetch(connection: &mut Connection, plan: &FetchPlan) -> Result<Vec<Fetched>, ClientError> {
    let api_key = ApiKey::Fetch;
    let version = connection.version(api_key, FETCH_VERSION_MAX)?;
    let request = FetchRequest {
        max_wait_ms: MAX_WAIT_MS,
        min_bytes: 1,
        max_bytes: plan.bytes_max,
        isolation_level: plan.isolation_level,
        session_epoch: -1,
        topics: vec![FetchTopic {
            topic: &plan.topic,
            partitions: plan
                .partitions
                .iter()
                .map(|&(partition, fetch_offset, _)| FetchPartition {
                    partition,
                    fetch_offset,
                    partition_max_bytes: plan.bytes_max,
                    ..FetchPartition::default()
                })
                .collect(),
            ..FetchTopic::default()
        }],
        ..FetchRequest::default()
    };
    let response =
        connection.call(api_key, version, |out, version| request.encode(out, version), FetchResponse::decode)?;
    ClientError::check(api_key, response.error_code, None)?;
    let answers = response.responses.iter().flat_map(|topic| &topic.partitions).map(|partition| Fetched {
        partition: partition.partition_index,
        error_code: partition.error_code,
        high_watermark: partition.high_watermark,
        log_start_offset: partition.log_start_offset,
        aborted: partition
            .aborted_transactions
            .iter()
            .flatten()
            .map(|transaction| (transaction.producer_id, transaction.first_offset))
            .collect(),
        records: partition.records.unwrap_or_default().to_vec(),
    });
    let mut answers: Vec<_> = answers.collect();
    answers.iter_mut().for_each(|fetched| fetched.aborted.sort_by_key(|(_, first_offset)| *first_offset));
    Ok(answers)
}

/// The offset after the last whole batch, by the headers alone.
fn offset_after(mut records: &[u8], next: i64) -> i64 {
    let mut after = next;
    while let Ok(len_bytes) = batch_len_bytes(records)
        && let Some(rest) = records.get(len_bytes as usize..)
    {
        if let Ok(header) = parse_header(records) {
            after = after.max(header.last_offset().plus(1).0);
        }
        records = rest;
    }
    after
}

/// The last version that names topics.
const FETCH_VERSION_MAX: i16 = 12;
/// Also the longest time until a thread sees that it should stop.
const MAX_WAIT_MS: i32 = 500;
