//! A producer: gathers records by partition, sends batches to the leaders, tries again without making duplicates.
#![allow(clippy::disallowed_methods)] // a command's own clock and pauses

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use super::address::Address;
use super::client_error::{self, ClientError};
use super::cluster::Cluster;
use super::partitioner::{self, Sticky};
use super::record_input::NewRecord;
use crate::record::builder::BatchBuilder;
use crate::record::compression::Compression;
use crate::record::offset::ProducerId;
use crate::wire::api_keys::ApiKey;
use crate::wire::error_code::ErrorCode;
use crate::wire::messages::init_producer_id_request::InitProducerIdRequest;
use crate::wire::messages::init_producer_id_response::InitProducerIdResponse;
use crate::wire::messages::produce_request::{PartitionProduceData, ProduceRequest, TopicProduceData};
use crate::wire::messages::produce_response::ProduceResponse;

/// How a producer works.
#[derive(Clone, Debug)]
pub struct ProducerOptions {
    /// Whom to ask first.
    pub bootstrap: Vec<Address>,
    /// How long an answer may take.
    pub answer_limit: Duration,
    /// How long a batch is tried again.
    pub delivery_limit: Duration,
    /// The topic.
    pub topic: String,
    /// As requests carry it.
    pub acks: i16,
    /// With an id and sequence numbers.
    pub idempotent: bool,
    /// The codec of batches.
    pub compression: Compression,
    /// Most bytes of a batch before compression.
    pub batch_bytes: usize,
}

/// What has been acknowledged of one partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Records.
    pub records: u64,
    /// Their keys, values and headers.
    pub bytes: u64,
    /// Batches as they were sent.
    pub batch_bytes: u64,
    /// The first offset; `None` where no answer named one.
    pub first_offset: Option<i64>,
    /// The last offset.
    pub last_offset: Option<i64>,
}

/// Why a producer gives up.
#[derive(Debug, thiserror::Error)]
pub enum ProducerError {
    /// The server, or the way to it.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The record names a partition that is not there.
    #[error("partition {partition} is not there: topic {topic} has {partitions}")]
    NoPartition {
        /// Which.
        partition: i32,
        /// Of this topic.
        topic: String,
        /// How many it has.
        partitions: i32,
    },
    /// The server refuses a batch, now and ever.
    #[error("partition {partition} refuses {records} records: {refusal}")]
    Refused {
        /// Which partition.
        partition: i32,
        /// Records in the batch.
        records: i32,
        /// What it says.
        refusal: String,
    },
    /// Tried until the limit.
    #[error("{records} records could not be written in {seconds} s; the last reason: {reason}")]
    GaveUp {
        /// Records without an acknowledgement.
        records: u64,
        /// The limit.
        seconds: u64,
        /// Why the last attempt failed.
        reason: String,
    },
    /// A batch cannot be made.
    #[error("a batch cannot be compressed: {0}")]
    Compress(std::io::Error),
}

/// One producer of one topic.
pub struct Producer {
    options: ProducerOptions,
    cluster: Cluster,
    leaders: BTreeMap<i32, i32>,
    partition_count: i32,
    id: Option<(ProducerId, i16)>,
    sticky: Sticky,
    open: BTreeMap<i32, OpenBatch>,
    open_bytes: usize,
    sequences: BTreeMap<i32, i32>,
    written: BTreeMap<i32, Written>,
    retry_count: u64,
}

/// Records that wait for more.
struct OpenBatch {
    builder: BatchBuilder,
    record_bytes: u64,
}

/// A batch that is on its way until it is acknowledged.
struct Pending {
    partition: i32,
    records: i32,
    record_bytes: u64,
    batch: Vec<u8>,
}

impl Producer {
    /// Finds the topic and its leaders, and gets a producer id where that is wanted.
    ///
    /// # Errors
    /// Where nobody answers, or there is no such topic.
    pub fn connect(options: ProducerOptions, seed: u64) -> Result<Self, ProducerError> {
        let mut cluster = Cluster::connect(&options.bootstrap, options.answer_limit)?;
        let topic = cluster.topic(&options.topic)?;
        let partition_count = i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX).max(1);
        let leaders = topic.partitions.iter().map(|partition| (partition.index, partition.leader_id)).collect();
        let mut producer = Self {
            sticky: Sticky::new(seed, partition_count),
            options,
            cluster,
            leaders,
            partition_count,
            id: None,
            open: BTreeMap::new(),
            open_bytes: 0,
            sequences: BTreeMap::new(),
            written: BTreeMap::new(),
            retry_count: 0,
        };
        if producer.options.idempotent {
            producer.id = Some(producer.init_id()?);
        }
        Ok(producer)
    }

    /// Takes a record; sends what is gathered where its batch is full.
    pub fn add(&mut self, record: &NewRecord, now_ms: i64) -> Result<(), ProducerError> {
        let partition = match (record.partition, &record.key) {
            (Some(partition), _) if partition < self.partition_count => partition,
            (Some(partition), _) => {
                let topic = self.options.topic.clone();
                return Err(ProducerError::NoPartition { partition, topic, partitions: self.partition_count });
            }
            (None, Some(key)) => partitioner::of_key(key, self.partition_count),
            (None, None) => self.sticky.partition(),
        };
        let record_bytes = record_bytes(record);
        let full = self.open.get(&partition).is_some_and(|open| {
            open.builder.len_bytes() + record_bytes + RECORD_HEAD_BYTES_MAX > self.options.batch_bytes
        });
        if full || self.open_bytes + record_bytes > OPEN_BYTES_MAX {
            self.send_all()?;
        }
        let compression = self.options.compression;
        let open = self
            .open
            .entry(partition)
            .or_insert_with(|| OpenBatch { builder: BatchBuilder::new().compression(compression), record_bytes: 0 });
        let headers: Vec<(&[u8], Option<&[u8]>)> =
            record.headers.iter().map(|(key, value)| (key.as_slice(), value.as_deref())).collect();
        let timestamp_ms = record.timestamp_ms.unwrap_or(now_ms);
        open.builder.add_with_headers(timestamp_ms, record.key.as_deref(), record.value.as_deref(), &headers);
        open.record_bytes += record_bytes as u64;
        self.open_bytes += record_bytes;
        Ok(())
    }

    /// Whether records wait.
    pub fn has_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Sends all that is gathered; returns when it is acknowledged.
    pub fn send_all(&mut self) -> Result<(), ProducerError> {
        let mut pending = Vec::with_capacity(self.open.len());
        self.open_bytes = 0;
        for (partition, open) in std::mem::take(&mut self.open) {
            let records = open.builder.record_count();
            let builder = match self.id {
                Some((id, epoch)) => {
                    let next = self.sequences.entry(partition).or_insert(0);
                    let base = std::mem::replace(next, crate::record::batch::sequence_after(*next, records));
                    open.builder.producer(id, epoch, base)
                }
                None => open.builder,
            };
            let batch = builder.build().map_err(ProducerError::Compress)?;
            pending.push(Pending { partition, records, record_bytes: open.record_bytes, batch });
        }
        if pending.iter().any(|batch| batch.partition == self.sticky.partition()) {
            self.sticky.move_on(self.partition_count);
        }
        self.deliver(pending)
    }

    /// What was acknowledged, by partition.
    pub const fn written(&self) -> &BTreeMap<i32, Written> {
        &self.written
    }

    /// How often requests were sent again.
    pub const fn retry_count(&self) -> u64 {
        self.retry_count
    }

    /// The id, where it has one.
    pub fn producer_id(&self) -> Option<i64> {
        self.id.map(|(id, _)| id.0)
    }

    /// The same bytes again and again, so that sequence numbers show the server what it has already.
    fn deliver(&mut self, mut pending: Vec<Pending>) -> Result<(), ProducerError> {
        let deadline = Instant::now() + self.options.delivery_limit;
        let mut reason = String::new();
        while !pending.is_empty() {
            if !reason.is_empty() {
                if Instant::now() >= deadline {
                    let records = pending.iter().map(|batch| u64::from(batch.records.unsigned_abs())).sum();
                    let seconds = self.options.delivery_limit.as_secs();
                    return Err(ProducerError::GaveUp { records, seconds, reason });
                }
                self.retry_count += 1;
                thread::sleep(RETRY_PAUSE);
                if let Err(error) = self.look_again() {
                    reason = retriable(error)?.to_string();
                    continue;
                }
            }
            pending = self.attempt(pending, &mut reason)?;
        }
        Ok(())
    }

    /// Sends each batch to its leader once; returns those that are to be sent again, and why.
    fn attempt(&mut self, pending: Vec<Pending>, reason: &mut String) -> Result<Vec<Pending>, ProducerError> {
        let mut by_leader: BTreeMap<i32, Vec<Pending>> = BTreeMap::new();
        let mut left = Vec::new();
        for batch in pending {
            match self.leaders.get(&batch.partition).copied().filter(|leader| *leader >= 0) {
                Some(leader) => by_leader.entry(leader).or_default().push(batch),
                None => {
                    *reason = format!("partition {} has no leader", batch.partition);
                    left.push(batch);
                }
            }
        }
        for (leader, batches) in by_leader {
            let mut batches = batches.into_iter().peekable();
            while batches.peek().is_some() {
                let mut request = Vec::new();
                let mut bytes = 0;
                while let Some(batch) =
                    batches.next_if(|batch| bytes == 0 || bytes + batch.batch.len() <= REQUEST_BYTES_MAX)
                {
                    bytes += batch.batch.len();
                    request.push(batch);
                }
                match self.send(leader, &request) {
                    Ok(answers) => self.settle(request, &answers, reason, &mut left)?,
                    Err(error) => {
                        *reason = retriable(error)?.to_string();
                        left.extend(request);
                    }
                }
            }
        }
        Ok(left)
    }

    /// One request; the answers by partition: error code, base offset, message.
    fn send(&mut self, leader: i32, batches: &[Pending]) -> Result<BTreeMap<i32, Answer>, ClientError> {
        let api_key = ApiKey::Produce;
        let connection = self.cluster.broker(leader)?;
        let version = connection.version(api_key, PRODUCE_VERSION_MAX)?;
        let data = |batch: &'_ Pending| (batch.partition, batch.batch.len());
        debug_assert!(batches.iter().map(data).all(|(_, bytes)| bytes > 0));
        let request = ProduceRequest {
            acks: self.options.acks,
            timeout_ms: i32::try_from(self.options.answer_limit.as_millis()).unwrap_or(i32::MAX),
            topic_data: vec![TopicProduceData {
                name: &self.options.topic,
                partition_data: batches
                    .iter()
                    .map(|batch| PartitionProduceData { index: batch.partition, records: Some(&batch.batch) })
                    .collect(),
                ..TopicProduceData::default()
            }],
            ..ProduceRequest::default()
        };
        if self.options.acks == 0 {
            connection.send(api_key, version, |out, version| request.encode(out, version))?;
            let accepted = |batch: &Pending| (batch.partition, Answer { code: 0, base_offset: -1, message: None });
            return Ok(batches.iter().map(accepted).collect());
        }
        let response =
            connection.call(api_key, version, |out, version| request.encode(out, version), ProduceResponse::decode)?;
        let answers = response.responses.iter().flat_map(|topic| &topic.partition_responses).map(|partition| {
            let message = partition.error_message.map(str::to_owned);
            (partition.index, Answer { code: partition.error_code, base_offset: partition.base_offset, message })
        });
        Ok(answers.collect())
    }

    /// Counts what is acknowledged, keeps what may be tried again, gives up on the rest.
    fn settle(
        &mut self,
        batches: Vec<Pending>,
        answers: &BTreeMap<i32, Answer>,
        reason: &mut String,
        left: &mut Vec<Pending>,
    ) -> Result<(), ProducerError> {
        for batch in batches {
            let Some(answer) = answers.get(&batch.partition) else {
                *reason = format!("no answer for partition {}", batch.partition);
                left.push(batch);
                continue;
            };
            let error = ErrorCode::from_code(answer.code);
            // The server has that batch already: its first answer was lost.
            if answer.code == 0 || (self.id.is_some() && error == Some(ErrorCode::DuplicateSequenceNumber)) {
                self.count(&batch, answer.base_offset);
                continue;
            }
            let refusal = client_error::refusal(answer.code, answer.message.as_deref());
            if error.is_some_and(ErrorCode::is_retriable) {
                *reason = format!("partition {}: {refusal}", batch.partition);
                left.push(batch);
                continue;
            }
            return Err(ProducerError::Refused { partition: batch.partition, records: batch.records, refusal });
        }
        Ok(())
    }

    fn count(&mut self, batch: &Pending, base_offset: i64) {
        let written = self.written.entry(batch.partition).or_default();
        written.records += u64::from(batch.records.unsigned_abs());
        written.bytes += batch.record_bytes;
        written.batch_bytes += batch.batch.len() as u64;
        if base_offset >= 0 {
            written.first_offset.get_or_insert(base_offset);
            written.last_offset = Some(base_offset + i64::from(batch.records) - 1);
        }
    }

    /// Connects anew and asks who leads what: connections may be broken, leaders may have moved.
    fn look_again(&mut self) -> Result<(), ClientError> {
        let mut cluster = Cluster::connect(&self.options.bootstrap, self.options.answer_limit)?;
        let topic = cluster.topic(&self.options.topic)?;
        self.leaders = topic.partitions.iter().map(|partition| (partition.index, partition.leader_id)).collect();
        self.cluster = cluster;
        Ok(())
    }

    fn init_id(&mut self) -> Result<(ProducerId, i16), ProducerError> {
        let api_key = ApiKey::InitProducerId;
        let deadline = Instant::now() + self.options.delivery_limit;
        let request = InitProducerIdRequest {
            transactional_id: None,
            transaction_timeout_ms: i32::MAX,
            ..InitProducerIdRequest::default()
        };
        loop {
            let connection = self.cluster.any();
            let version = connection.version(api_key, INIT_PRODUCER_ID_VERSION_MAX)?;
            let encode = |out: &mut Vec<u8>, version| request.encode(out, version);
            let answer = connection.call(api_key, version, encode, InitProducerIdResponse::decode)?;
            let retry = ErrorCode::from_code(answer.error_code).is_some_and(ErrorCode::is_retriable);
            if answer.error_code == 0 {
                return Ok((ProducerId(answer.producer_id), answer.producer_epoch));
            }
            if !retry || Instant::now() >= deadline {
                ClientError::check(api_key, answer.error_code, None)?;
            }
            thread::sleep(RETRY_PAUSE);
        }
    }
}

struct Answer {
    code: i16,
    base_offset: i64,
    message: Option<String>,
}

/// Passes on what another attempt cannot mend.
fn retriable(error: ClientError) -> Result<ClientError, ClientError> {
    let again = match &error {
        ClientError::Refused { .. }
        | ClientError::Unreachable { .. }
        | ClientError::Closed { .. }
        | ClientError::TimedOut { .. }
        | ClientError::Broken { .. } => true,
        ClientError::Refusal { code, .. } => ErrorCode::from_code(*code).is_some_and(ErrorCode::is_retriable),
        _ => false,
    };
    if again { Ok(error) } else { Err(error) }
}

fn record_bytes(record: &NewRecord) -> usize {
    let len = |field: &Option<Vec<u8>>| field.as_ref().map_or(0, Vec::len);
    let headers: usize = record.headers.iter().map(|(key, value)| key.len() + len(value) + HEADER_HEAD_BYTES_MAX).sum();
    len(&record.key) + len(&record.value) + headers
}

/// By name; version 12 is for transactions, 13 is by id.
const PRODUCE_VERSION_MAX: i16 = 11;
/// What follows is for transactions.
const INIT_PRODUCER_ID_VERSION_MAX: i16 = 4;
const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// Of all partitions together, so that memory does not grow with their number.
const OPEN_BYTES_MAX: usize = 64 << 20;
/// Of batches in a request; a server takes 100 MiB by default.
const REQUEST_BYTES_MAX: usize = 8 << 20;
const RECORD_HEAD_BYTES_MAX: usize = 32;
const HEADER_HEAD_BYTES_MAX: usize = 10;
