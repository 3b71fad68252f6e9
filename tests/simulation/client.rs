//! A client of Kafka's protocol over a simulated network: connections, frames, and what is asked.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::task::Poll;

use alluvium::record::record_walk::RecordWalk;
use alluvium::ring::io::{Io, Stream};
use alluvium::ring::send_queue::{Part, SendQueue};
use alluvium::ring::timer::Nanos;
use alluvium::wire::api_keys::ApiKey;
use alluvium::wire::frame::{self, RequestHeader};
use alluvium::wire::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig, CreateTopicsRequest};
use alluvium::wire::messages::create_topics_response::CreateTopicsResponse;
use alluvium::wire::messages::delete_records_request::{
    DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic,
};
use alluvium::wire::messages::delete_records_response::DeleteRecordsResponse;
use alluvium::wire::messages::delete_topics_request::{DeleteTopicState, DeleteTopicsRequest};
use alluvium::wire::messages::delete_topics_response::DeleteTopicsResponse;
use alluvium::wire::messages::fetch_request::{FetchPartition, FetchRequest, FetchTopic};
use alluvium::wire::messages::fetch_response::FetchResponse;
use alluvium::wire::messages::init_producer_id_request::InitProducerIdRequest;
use alluvium::wire::messages::init_producer_id_response::InitProducerIdResponse;
use alluvium::wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic};
use alluvium::wire::messages::list_offsets_response::ListOffsetsResponse;
use alluvium::wire::messages::metadata_request::MetadataRequest;
use alluvium::wire::messages::metadata_response::MetadataResponse;
use alluvium::wire::messages::produce_request::{PartitionProduceData, ProduceRequest, TopicProduceData};
use alluvium::wire::messages::produce_response::ProduceResponse;
use alluvium::wire::reader::{DecodeError, Reader};
use alluvium::wire::uuid::Uuid;
use alluvium::wire::writer::EncodeError;

/// One connection. Requests may be pipelined; answers come in order.
pub(crate) struct Connection {
    io: Io,
    stream: Stream,
    received: Vec<u8>,
    next_correlation_id: i32,
    awaited_correlation_id: i32,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CallError {
    /// Nobody listens, the connection broke, or the answer took too long: nobody knows what was done.
    Lost,
    /// Kafka's error code.
    Refused(i16),
    /// Bytes that are no answer: a bug of the server.
    Nonsense(String),
}

/// A topic as Metadata shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TopicView {
    pub(crate) id: Uuid,
    /// Leading broker and leader epoch, by partition.
    pub(crate) leaders: BTreeMap<i32, (i32, i32)>,
}

/// How a produce came out: base offset, or Kafka's error code.
pub(crate) type Produced = Result<i64, i16>;

/// What a fetch of one partition brought.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fetched {
    pub(crate) high_watermark: i64,
    pub(crate) log_start_offset: i64,
    /// The offset after the last whole batch; the one asked for where there is none.
    pub(crate) next_offset: i64,
    /// Offset, leader epoch and value of each record.
    pub(crate) records: Vec<(i64, i32, Vec<u8>)>,
}

impl Connection {
    pub(crate) async fn open(io: &Io, address: SocketAddr) -> Result<Self, CallError> {
        let stream = io.connect(address).await.map_err(|_| CallError::Lost)?;
        let io = io.clone();
        Ok(Self { io, stream, received: Vec::new(), next_correlation_id: 0, awaited_correlation_id: 0 })
    }

    /// Sends a request whose answer is [`Connection::receive`]d later.
    pub(crate) async fn send(
        &mut self,
        api_key: ApiKey,
        api_version: i16,
        encode: impl FnOnce(&mut Vec<u8>) -> Result<(), EncodeError>,
    ) -> Result<(), CallError> {
        let mut out = Vec::new();
        let open = frame::begin_request_frame(&mut out);
        let correlation_id = self.next_correlation_id;
        let header =
            RequestHeader { api_key, api_version, correlation_id, client_id: Some("simulated"), body_start: 0 };
        header.encode(&mut out).expect("a header fits");
        encode(&mut out).expect("a request fits");
        open.end(&mut out).expect("a frame fits");
        self.next_correlation_id += 1;
        let mut queue = SendQueue::default();
        queue.push(Part::Bytes(out));
        let deadline = self.io.now().plus_ms(ANSWER_MS_MAX);
        self.within(deadline, |stream, _| stream.poll_send(&mut queue).map_err(|_| CallError::Lost)).await
    }

    /// The next answer, without its header.
    pub(crate) async fn receive(&mut self, api_key: ApiKey, api_version: i16) -> Result<Vec<u8>, CallError> {
        let deadline = self.io.now().plus_ms(ANSWER_MS_MAX);
        let frame = self
            .within(deadline, |stream, received| {
                loop {
                    if let Some((prefix, rest)) = received.split_first_chunk::<4>() {
                        let len_bytes = u32::from_be_bytes(*prefix) as usize;
                        if rest.len() >= len_bytes {
                            let frame = rest[..len_bytes].to_vec();
                            received.drain(..4 + len_bytes);
                            return Poll::Ready(Ok(frame));
                        }
                    }
                    match stream.poll_receive() {
                        Poll::Pending => return Poll::Pending,
                        Poll::Ready(Ok(piece)) if !piece.is_empty() => received.extend_from_slice(&piece),
                        Poll::Ready(_) => return Poll::Ready(Err(CallError::Lost)),
                    }
                }
            })
            .await?;
        let mut reader = Reader::new(&frame);
        let correlation_id = reader.int32("correlation_id").map_err(nonsense)?;
        if correlation_id != self.awaited_correlation_id {
            return Err(CallError::Nonsense(format!("answer {correlation_id} for {}", self.awaited_correlation_id)));
        }
        self.awaited_correlation_id += 1;
        if api_key.response_header_version(api_version) >= 1 {
            reader.skip_tagged_fields().map_err(nonsense)?;
        }
        Ok(frame[reader.position_bytes()..].to_vec())
    }

    pub(crate) async fn call(
        &mut self,
        api_key: ApiKey,
        api_version: i16,
        encode: impl FnOnce(&mut Vec<u8>) -> Result<(), EncodeError>,
    ) -> Result<Vec<u8>, CallError> {
        self.send(api_key, api_version, encode).await?;
        self.receive(api_key, api_version).await
    }

    async fn within<T>(
        &mut self,
        deadline: Nanos,
        mut poll: impl FnMut(&Stream, &mut Vec<u8>) -> Poll<Result<T, CallError>>,
    ) -> Result<T, CallError> {
        let _timer = self.io.wake_at(deadline);
        let (io, stream, received) = (&self.io, &self.stream, &mut self.received);
        poll_fn(|_| match poll(stream, received) {
            Poll::Pending if io.now() >= deadline => Poll::Ready(Err(CallError::Lost)),
            polled => polled,
        })
        .await
    }

    /// All topics, or those named.
    pub(crate) async fn metadata(&mut self) -> Result<BTreeMap<String, TopicView>, CallError> {
        let request = MetadataRequest { topics: None, allow_auto_topic_creation: false, ..MetadataRequest::default() };
        let body = self.call(ApiKey::Metadata, 12, |out| request.encode(out, 12)).await?;
        let response = MetadataResponse::decode(&mut Reader::new(&body), 12).map_err(nonsense)?;
        let mut topics = BTreeMap::new();
        for topic in &response.topics {
            let leaders =
                topic.partitions.iter().map(|found| (found.partition_index, (found.leader_id, found.leader_epoch)));
            let view = TopicView { id: topic.topic_id, leaders: leaders.collect() };
            topics.insert(topic.name.unwrap_or_default().to_owned(), view);
        }
        Ok(topics)
    }

    pub(crate) async fn create_topic(
        &mut self,
        name: &str,
        partition_count: i32,
        configs: &[(String, String)],
    ) -> Result<Uuid, CallError> {
        let configs = configs.iter().map(|(name, value)| CreatableTopicConfig { name, value: Some(value) });
        let request = CreateTopicsRequest {
            topics: vec![CreatableTopic {
                name,
                num_partitions: partition_count,
                replication_factor: 1,
                assignments: Vec::new(),
                configs: configs.collect(),
            }],
            timeout_ms: 60_000,
            validate_only: false,
        };
        let body = self.call(ApiKey::CreateTopics, 7, |out| request.encode(out, 7)).await?;
        let response = CreateTopicsResponse::decode(&mut Reader::new(&body), 7).map_err(nonsense)?;
        match response.topics.first() {
            Some(topic) if topic.error_code == 0 => Ok(topic.topic_id),
            Some(topic) => Err(CallError::Refused(topic.error_code)),
            None => Err(CallError::Nonsense("no topic in the answer".into())),
        }
    }

    pub(crate) async fn delete_topic(&mut self, id: Uuid) -> Result<(), CallError> {
        let topics = vec![DeleteTopicState { name: None, topic_id: id }];
        let request = DeleteTopicsRequest { topics, timeout_ms: 60_000, ..DeleteTopicsRequest::default() };
        let body = self.call(ApiKey::DeleteTopics, 6, |out| request.encode(out, 6)).await?;
        let response = DeleteTopicsResponse::decode(&mut Reader::new(&body), 6).map_err(nonsense)?;
        match response.responses.first() {
            Some(topic) if topic.error_code == 0 => Ok(()),
            Some(topic) => Err(CallError::Refused(topic.error_code)),
            None => Err(CallError::Nonsense("no topic in the answer".into())),
        }
    }

    /// Deletes records below `offset`; where the log begins then.
    pub(crate) async fn delete_records(&mut self, name: &str, partition: i32, offset: i64) -> Result<i64, CallError> {
        let partitions = vec![DeleteRecordsPartition { partition_index: partition, offset }];
        let topics = vec![DeleteRecordsTopic { name, partitions }];
        let request = DeleteRecordsRequest { topics, timeout_ms: 30_000 };
        let body = self.call(ApiKey::DeleteRecords, 2, |out| request.encode(out, 2)).await?;
        let response = DeleteRecordsResponse::decode(&mut Reader::new(&body), 2).map_err(nonsense)?;
        match response.topics.first().and_then(|topic| topic.partitions.first()) {
            Some(partition) if partition.error_code == 0 => Ok(partition.low_watermark),
            Some(partition) => Err(CallError::Refused(partition.error_code)),
            None => Err(CallError::Nonsense("no partition in the answer".into())),
        }
    }

    /// Where a partition begins.
    pub(crate) async fn log_start(&mut self, name: &str, partition: i32) -> Result<i64, CallError> {
        let earliest = ListOffsetsPartition { partition_index: partition, current_leader_epoch: -1, timestamp: -2 };
        let topics = vec![ListOffsetsTopic { name, partitions: vec![earliest] }];
        let request = ListOffsetsRequest { replica_id: -1, topics, ..ListOffsetsRequest::default() };
        let body = self.call(ApiKey::ListOffsets, 7, |out| request.encode(out, 7)).await?;
        let response = ListOffsetsResponse::decode(&mut Reader::new(&body), 7).map_err(nonsense)?;
        match response.topics.first().and_then(|topic| topic.partitions.first()) {
            Some(partition) if partition.error_code == 0 => Ok(partition.offset),
            Some(partition) => Err(CallError::Refused(partition.error_code)),
            None => Err(CallError::Nonsense("no partition in the answer".into())),
        }
    }

    pub(crate) async fn producer_id(&mut self) -> Result<(i64, i16), CallError> {
        let request = InitProducerIdRequest {
            transactional_id: None,
            transaction_timeout_ms: i32::MAX,
            ..InitProducerIdRequest::default()
        };
        let body = self.call(ApiKey::InitProducerId, 4, |out| request.encode(out, 4)).await?;
        let response = InitProducerIdResponse::decode(&mut Reader::new(&body), 4).map_err(nonsense)?;
        match response.error_code {
            0 => Ok((response.producer_id, response.producer_epoch)),
            code => Err(CallError::Refused(code)),
        }
    }

    pub(crate) async fn send_produce(
        &mut self,
        topic: Uuid,
        partition: i32,
        acks: i16,
        batch: &[u8],
    ) -> Result<(), CallError> {
        let request = ProduceRequest {
            transactional_id: None,
            acks,
            timeout_ms: 30_000,
            topic_data: vec![TopicProduceData {
                topic_id: topic,
                partition_data: vec![PartitionProduceData { index: partition, records: Some(batch) }],
                ..TopicProduceData::default()
            }],
        };
        self.send(ApiKey::Produce, PRODUCE_VERSION, |out| request.encode(out, PRODUCE_VERSION)).await
    }

    pub(crate) async fn receive_produced(&mut self) -> Result<Produced, CallError> {
        let body = self.receive(ApiKey::Produce, PRODUCE_VERSION).await?;
        let response = ProduceResponse::decode(&mut Reader::new(&body), PRODUCE_VERSION).map_err(nonsense)?;
        let partition = response.responses.first().and_then(|topic| topic.partition_responses.first());
        let partition = partition.ok_or_else(|| CallError::Nonsense("no partition in the answer".into()))?;
        Ok(if partition.error_code == 0 { Ok(partition.base_offset) } else { Err(partition.error_code) })
    }

    pub(crate) async fn fetch(
        &mut self,
        topic: Uuid,
        partition: i32,
        from: i64,
        max_wait_ms: i32,
    ) -> Result<Fetched, CallError> {
        let request = FetchRequest {
            max_wait_ms,
            min_bytes: 1,
            max_bytes: 1 << 20,
            topics: vec![FetchTopic {
                topic_id: topic,
                partitions: vec![FetchPartition {
                    partition,
                    fetch_offset: from,
                    partition_max_bytes: FETCH_BYTES_MAX,
                    ..FetchPartition::default()
                }],
                ..FetchTopic::default()
            }],
            ..FetchRequest::default()
        };
        let body = self.call(ApiKey::Fetch, FETCH_VERSION, |out| request.encode(out, FETCH_VERSION)).await?;
        let response = FetchResponse::decode(&mut Reader::new(&body), FETCH_VERSION).map_err(nonsense)?;
        if response.error_code != 0 {
            return Err(CallError::Refused(response.error_code));
        }
        let found = response.responses.first().and_then(|topic| topic.partitions.first());
        let found = found.ok_or_else(|| CallError::Nonsense("no partition in the answer".into()))?;
        if found.error_code != 0 {
            return Err(CallError::Refused(found.error_code));
        }
        let mut fetched = Fetched {
            high_watermark: found.high_watermark,
            log_start_offset: found.log_start_offset,
            next_offset: from,
            records: Vec::new(),
        };
        read_batches(found.records.unwrap_or_default(), from, &mut fetched)?;
        Ok(fetched)
    }
}

/// The records from `from` on; a batch that is cut off at the end is left out, as clients do.
fn read_batches(mut bytes: &[u8], from: i64, fetched: &mut Fetched) -> Result<(), CallError> {
    let wrong = |what: &str| CallError::Nonsense(format!("fetched bytes: {what}"));
    while let Ok((header, walk)) = RecordWalk::new(bytes) {
        let batch = &bytes[..header.len_bytes as usize];
        let mut checked = batch.to_vec();
        alluvium::record::batch::stamp_crc(&mut checked);
        if checked != batch {
            return Err(wrong("a batch's CRC is wrong"));
        }
        for record in walk {
            let record = record.map_err(|error| wrong(&error.to_string()))?;
            let offset = header.base_offset.get() + i64::from(record.offset_delta);
            if offset >= from {
                let value = record.value.unwrap_or_default().to_vec();
                fetched.records.push((offset, header.leader_epoch.get(), value));
            }
        }
        fetched.next_offset = fetched.next_offset.max(header.last_offset().get() + 1);
        bytes = &bytes[header.len_bytes as usize..];
    }
    Ok(())
}

pub(crate) fn nonsense(error: DecodeError) -> CallError {
    CallError::Nonsense(error.to_string())
}

/// By topic id.
const PRODUCE_VERSION: i16 = 13;
const FETCH_VERSION: i16 = 16;
const FETCH_BYTES_MAX: i32 = 8 * 1024;
/// A client gives an answer up then, and connects anew.
const ANSWER_MS_MAX: u64 = 2_000;
