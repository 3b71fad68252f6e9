//! A raw client: one connection, frames out, frames in, nothing hidden.
#![allow(clippy::disallowed_types, reason = "a client's own sockets")]

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use alluvium::cli::connection::{encode_request, read_response_header};
use alluvium::record::batch::batch_len_bytes;
use alluvium::record::builder::BatchBuilder;
use alluvium::record::offset::ProducerId;
use alluvium::record::record_walk::RecordWalk;
use alluvium::wire::api_keys::ApiKey;
use alluvium::wire::messages::api_versions_request::ApiVersionsRequest;
use alluvium::wire::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig, CreateTopicsRequest};
use alluvium::wire::messages::create_topics_response::CreateTopicsResponse;
use alluvium::wire::messages::delete_records_request::{
    DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic,
};
use alluvium::wire::messages::delete_records_response::DeleteRecordsResponse;
use alluvium::wire::messages::delete_topics_request::DeleteTopicsRequest;
use alluvium::wire::messages::delete_topics_response::DeleteTopicsResponse;
use alluvium::wire::messages::fetch_request::{FetchPartition, FetchRequest, FetchTopic};
use alluvium::wire::messages::fetch_response::FetchResponse;
use alluvium::wire::messages::init_producer_id_request::InitProducerIdRequest;
use alluvium::wire::messages::init_producer_id_response::InitProducerIdResponse;
use alluvium::wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic};
use alluvium::wire::messages::list_offsets_response::ListOffsetsResponse;
use alluvium::wire::messages::metadata_request::{MetadataRequest, MetadataRequestTopic};
use alluvium::wire::messages::metadata_response::MetadataResponse;
use alluvium::wire::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderEpochRequest, OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use alluvium::wire::messages::offset_for_leader_epoch_response::OffsetForLeaderEpochResponse;
use alluvium::wire::messages::produce_request::{PartitionProduceData, ProduceRequest, TopicProduceData};
use alluvium::wire::messages::produce_response::ProduceResponse;
use alluvium::wire::reader::{DecodeError, Reader};
use alluvium::wire::uuid::Uuid;
use alluvium::wire::writer::EncodeError;

/// One connection.
#[derive(Debug)]
pub(crate) struct Client {
    /// The socket, for what is no request.
    pub(crate) stream: TcpStream,
    correlation_id: i32,
}

/// What a produce to one partition came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Produced {
    pub(crate) error_code: i16,
    pub(crate) base_offset: i64,
}

/// What a fetch of one partition brought.
#[derive(Clone, Debug)]
pub(crate) struct Fetched {
    pub(crate) error_code: i16,
    pub(crate) high_watermark: i64,
    pub(crate) records: Vec<u8>,
}

/// A partition as Metadata shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Led {
    pub(crate) error_code: i16,
    /// The core of its leader.
    pub(crate) core: u16,
    pub(crate) leader_epoch: i32,
}

/// One record read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReadRecord {
    pub(crate) offset: i64,
    pub(crate) leader_epoch: i32,
    pub(crate) value: Vec<u8>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> io::Result<Self> {
        Self::over(TcpStream::connect_timeout(&address, ANSWER_LIMIT)?)
    }

    /// Over a socket that is connected.
    pub(crate) fn over(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_LIMIT))?;
        stream.set_write_timeout(Some(ANSWER_LIMIT))?;
        Ok(Self { stream, correlation_id: 0 })
    }

    /// Sends one request; its answer is still to be taken. Returns the correlation id.
    pub(crate) fn send(
        &mut self,
        api_key: ApiKey,
        version: i16,
        encode: impl FnOnce(&mut Vec<u8>) -> Result<(), EncodeError>,
    ) -> io::Result<i32> {
        self.correlation_id += 1;
        let mut frame = Vec::new();
        encode_request(&mut frame, api_key, version, self.correlation_id, encode).expect("a test's request is short");
        self.stream.write_all(&frame)?;
        Ok(self.correlation_id)
    }

    /// The next frame, without its length.
    pub(crate) fn receive(&mut self) -> io::Result<Vec<u8>> {
        let mut prefix = [0; 4];
        self.stream.read_exact(&mut prefix)?;
        let mut frame = vec![0; u32::from_be_bytes(prefix) as usize];
        self.stream.read_exact(&mut frame)?;
        Ok(frame)
    }

    /// Asks, waits, decodes.
    pub(crate) fn call<T>(
        &mut self,
        api_key: ApiKey,
        version: i16,
        encode: impl FnOnce(&mut Vec<u8>) -> Result<(), EncodeError>,
        decode: impl FnOnce(&mut Reader<'_>) -> Result<T, DecodeError>,
    ) -> io::Result<T> {
        let sent = self.send(api_key, version, encode)?;
        let frame = self.receive()?;
        let mut reader = Reader::new(&frame);
        let answered = read_response_header(&mut reader, api_key, version).map_err(io::Error::other)?;
        assert_eq!(answered, sent, "answers come in the order of the requests");
        decode(&mut reader).map_err(io::Error::other)
    }

    /// Asks for the versions: the smallest question there is.
    pub(crate) fn ping(&mut self) -> io::Result<()> {
        let request = ApiVersionsRequest::default();
        self.call(ApiKey::ApiVersions, 0, |out| request.encode(out, 0), |reader| reader.int16("error_code")).map(
            |code| {
                assert_eq!(code, 0, "ApiVersions works");
            },
        )
    }

    /// Sends a produce without waiting for its answer.
    pub(crate) fn send_produce(&mut self, topic: &str, partition: i32, acks: i16, batch: &[u8]) -> io::Result<i32> {
        let request = produce_request(topic, partition, acks, batch);
        self.send(ApiKey::Produce, PRODUCE_VERSION, |out| request.encode(out, PRODUCE_VERSION))
    }

    /// Takes the answer of a produce.
    pub(crate) fn receive_produced(&mut self) -> io::Result<(i32, Produced)> {
        let frame = self.receive()?;
        let mut reader = Reader::new(&frame);
        let id = read_response_header(&mut reader, ApiKey::Produce, PRODUCE_VERSION).map_err(io::Error::other)?;
        let response = ProduceResponse::decode(&mut reader, PRODUCE_VERSION).map_err(io::Error::other)?;
        let answer = &response.responses[0].partition_responses[0];
        Ok((id, Produced { error_code: answer.error_code, base_offset: answer.base_offset }))
    }

    /// Writes one batch to one partition.
    pub(crate) fn produce(&mut self, topic: &str, partition: i32, acks: i16, batch: &[u8]) -> io::Result<Produced> {
        let sent = self.send_produce(topic, partition, acks, batch)?;
        let (answered, produced) = self.receive_produced()?;
        assert_eq!(answered, sent, "answers come in the order of the requests");
        Ok(produced)
    }

    /// Sends a fetch without waiting for its answer.
    pub(crate) fn send_fetch(&mut self, topic: &str, partition: i32, offset: i64, bytes_max: i32) -> io::Result<i32> {
        let request = FetchRequest {
            max_wait_ms: 0,
            min_bytes: 1,
            max_bytes: bytes_max,
            session_epoch: -1,
            topics: vec![FetchTopic {
                topic,
                partitions: vec![FetchPartition {
                    partition,
                    fetch_offset: offset,
                    partition_max_bytes: bytes_max,
                    ..FetchPartition::default()
                }],
                ..FetchTopic::default()
            }],
            ..FetchRequest::default()
        };
        self.send(ApiKey::Fetch, FETCH_VERSION, |out| request.encode(out, FETCH_VERSION))
    }

    /// Takes the answer of a fetch.
    pub(crate) fn receive_fetched(&mut self) -> io::Result<(i32, Fetched)> {
        let frame = self.receive()?;
        let mut reader = Reader::new(&frame);
        let id = read_response_header(&mut reader, ApiKey::Fetch, FETCH_VERSION).map_err(io::Error::other)?;
        let response = FetchResponse::decode(&mut reader, FETCH_VERSION).map_err(io::Error::other)?;
        assert_eq!(response.error_code, 0, "no sessions were asked for");
        let answer = &response.responses[0].partitions[0];
        let records = answer.records.unwrap_or_default().to_vec();
        Ok((id, Fetched { error_code: answer.error_code, high_watermark: answer.high_watermark, records }))
    }

    /// Reads one partition from an offset on; does not wait for records.
    pub(crate) fn fetch(&mut self, topic: &str, partition: i32, offset: i64, bytes_max: i32) -> io::Result<Fetched> {
        let sent = self.send_fetch(topic, partition, offset, bytes_max)?;
        let (answered, fetched) = self.receive_fetched()?;
        assert_eq!(answered, sent, "answers come in the order of the requests");
        Ok(fetched)
    }

    /// Reads a partition from an offset to its high watermark.
    pub(crate) fn read_from(&mut self, topic: &str, partition: i32, from: i64) -> io::Result<Vec<ReadRecord>> {
        let mut records: Vec<ReadRecord> = Vec::new();
        loop {
            let next = records.last().map_or(from, |record| record.offset + 1);
            let fetched = self.fetch(topic, partition, next, 4 << 20)?;
            if fetched.error_code != 0 {
                return Err(io::Error::other(format!("{topic}-{partition} at {next}: error {}", fetched.error_code)));
            }
            let read = records_of(&fetched.records);
            if read.is_empty() {
                assert_eq!(next, fetched.high_watermark, "{topic}-{partition} is read to its high watermark");
                return Ok(records);
            }
            records.extend(read.into_iter().filter(|record| record.offset >= next));
        }
    }

    /// Makes a topic; the error code.
    pub(crate) fn create_topic(&mut self, name: &str, partitions: i32, configs: &[(&str, &str)]) -> io::Result<i16> {
        let request = CreateTopicsRequest {
            topics: vec![CreatableTopic {
                name,
                num_partitions: partitions,
                replication_factor: 1,
                assignments: Vec::new(),
                configs: configs
                    .iter()
                    .map(|(name, value)| CreatableTopicConfig { name, value: Some(value) })
                    .collect(),
            }],
            timeout_ms: 30_000,
            validate_only: false,
        };
        self.call(
            ApiKey::CreateTopics,
            CREATE_VERSION,
            |out| request.encode(out, CREATE_VERSION),
            |reader| CreateTopicsResponse::decode(reader, CREATE_VERSION).map(|response| response.topics[0].error_code),
        )
    }

    /// Deletes a topic; the error code.
    pub(crate) fn delete_topic(&mut self, name: &str) -> io::Result<i16> {
        let request = DeleteTopicsRequest { topic_names: vec![name], timeout_ms: 30_000, ..Default::default() };
        self.call(
            ApiKey::DeleteTopics,
            DELETE_VERSION,
            |out| request.encode(out, DELETE_VERSION),
            |reader| {
                DeleteTopicsResponse::decode(reader, DELETE_VERSION).map(|response| response.responses[0].error_code)
            },
        )
    }

    /// Deletes a partition's records below `offset`; the error code and where the log begins then.
    pub(crate) fn delete_records(&mut self, topic: &str, partition: i32, offset: i64) -> io::Result<(i16, i64)> {
        let partitions = vec![DeleteRecordsPartition { partition_index: partition, offset }];
        let topics = vec![DeleteRecordsTopic { name: topic, partitions }];
        let request = DeleteRecordsRequest { topics, timeout_ms: 30_000 };
        self.call(
            ApiKey::DeleteRecords,
            DELETE_RECORDS_VERSION,
            |out| request.encode(out, DELETE_RECORDS_VERSION),
            |reader| {
                DeleteRecordsResponse::decode(reader, DELETE_RECORDS_VERSION).map(|response| {
                    let found = &response.topics[0].partitions[0];
                    (found.error_code, found.low_watermark)
                })
            },
        )
    }

    /// ListOffsets of one partition: offset, leader epoch and error code.
    pub(crate) fn list_offset(&mut self, topic: &str, partition: i32, timestamp: i64) -> io::Result<(i64, i32, i16)> {
        let request = ListOffsetsRequest {
            replica_id: -1,
            topics: vec![ListOffsetsTopic {
                name: topic,
                partitions: vec![ListOffsetsPartition {
                    partition_index: partition,
                    current_leader_epoch: -1,
                    timestamp,
                }],
            }],
            ..ListOffsetsRequest::default()
        };
        self.call(
            ApiKey::ListOffsets,
            LIST_OFFSETS_VERSION,
            |out| request.encode(out, LIST_OFFSETS_VERSION),
            |reader| {
                let response = ListOffsetsResponse::decode(reader, LIST_OFFSETS_VERSION)?;
                let found = &response.topics[0].partitions[0];
                Ok((found.offset, found.leader_epoch, found.error_code))
            },
        )
    }

    /// OffsetForLeaderEpoch of one partition: error code, the epoch that is known, and where it ends.
    pub(crate) fn epoch_end(&mut self, topic: &str, partition: i32, leader_epoch: i32) -> io::Result<(i16, i32, i64)> {
        let asked = OffsetForLeaderPartition { partition, current_leader_epoch: -1, leader_epoch };
        let request = OffsetForLeaderEpochRequest {
            replica_id: -1,
            topics: vec![OffsetForLeaderTopic { topic, partitions: vec![asked] }],
        };
        self.call(
            ApiKey::OffsetForLeaderEpoch,
            EPOCH_END_VERSION,
            |out| request.encode(out, EPOCH_END_VERSION),
            |reader| {
                let response = OffsetForLeaderEpochResponse::decode(reader, EPOCH_END_VERSION)?;
                let found = &response.topics[0].partitions[0];
                Ok((found.error_code, found.leader_epoch, found.end_offset))
            },
        )
    }

    /// The partitions of a topic by index; the topic's error code where it has one.
    pub(crate) fn partitions(&mut self, topic: &str) -> io::Result<Result<Vec<Led>, i16>> {
        let request = MetadataRequest {
            topics: Some(vec![MetadataRequestTopic { name: Some(topic), topic_id: Uuid::ZERO }]),
            allow_auto_topic_creation: false,
            ..MetadataRequest::default()
        };
        self.call(
            ApiKey::Metadata,
            METADATA_VERSION,
            |out| request.encode(out, METADATA_VERSION),
            |reader| {
                let response = MetadataResponse::decode(reader, METADATA_VERSION)?;
                let topic = &response.topics[0];
                if topic.error_code != 0 {
                    return Ok(Err(topic.error_code));
                }
                let mut partitions: Vec<_> = topic.partitions.iter().collect();
                partitions.sort_by_key(|partition| partition.partition_index);
                let led = |partition: &alluvium::wire::messages::metadata_response::MetadataResponsePartition| Led {
                    error_code: partition.error_code,
                    core: u16::try_from(partition.leader_id % 1000).unwrap_or(u16::MAX),
                    leader_epoch: partition.leader_epoch,
                };
                Ok(Ok(partitions.into_iter().map(led).collect()))
            },
        )
    }

    /// A producer id of its own, and its epoch.
    pub(crate) fn init_producer_id(&mut self) -> io::Result<(ProducerId, i16)> {
        let request =
            InitProducerIdRequest { transactional_id: None, transaction_timeout_ms: 1000, ..Default::default() };
        let answer = self.call(
            ApiKey::InitProducerId,
            INIT_PRODUCER_VERSION,
            |out| request.encode(out, INIT_PRODUCER_VERSION),
            |reader| InitProducerIdResponse::decode(reader, INIT_PRODUCER_VERSION),
        )?;
        match answer.error_code {
            0 => Ok((ProducerId(answer.producer_id), answer.producer_epoch)),
            code => Err(io::Error::other(format!("InitProducerId: error {code}"))),
        }
    }
}

/// A request that writes one batch to one partition.
pub(crate) fn produce_request<'a>(topic: &'a str, partition: i32, acks: i16, batch: &'a [u8]) -> ProduceRequest<'a> {
    ProduceRequest {
        acks,
        timeout_ms: 30_000,
        topic_data: vec![TopicProduceData {
            name: topic,
            partition_data: vec![PartitionProduceData { index: partition, records: Some(batch) }],
            ..TopicProduceData::default()
        }],
        ..ProduceRequest::default()
    }
}

/// A batch of plain records with these values.
pub(crate) fn batch(values: &[Vec<u8>]) -> Vec<u8> {
    build(BatchBuilder::new(), values)
}

/// A batch of an idempotent producer.
pub(crate) fn idempotent_batch(producer: (ProducerId, i16), base_sequence: i32, values: &[Vec<u8>]) -> Vec<u8> {
    build(BatchBuilder::new().producer(producer.0, producer.1, base_sequence), values)
}

fn build(mut builder: BatchBuilder, values: &[Vec<u8>]) -> Vec<u8> {
    // The present: what is old is deleted, and its producers are forgotten.
    let timestamp_ms = now_ms();
    for value in values {
        builder.add(timestamp_ms, None, Some(value));
    }
    builder.build().expect("no compressor")
}

#[allow(clippy::disallowed_methods, reason = "the clock of a client")]
fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    i64::try_from(since.as_millis()).expect("for a long time")
}

/// The records of the whole batches in a fetch's answer.
pub(crate) fn records_of(mut bytes: &[u8]) -> Vec<ReadRecord> {
    let mut records = Vec::new();
    while let Ok(len_bytes) = batch_len_bytes(bytes)
        && bytes.len() >= len_bytes as usize
    {
        let (header, walk) = RecordWalk::new(bytes).expect("a whole batch");
        for record in walk {
            let record = record.expect("a whole record");
            records.push(ReadRecord {
                offset: header.base_offset.get() + i64::from(record.offset_delta),
                leader_epoch: header.leader_epoch.0,
                value: record.value.unwrap_or_default().to_vec(),
            });
        }
        bytes = &bytes[len_bytes as usize..];
    }
    records
}

/// The last with topics by name.
const PRODUCE_VERSION: i16 = 9;
const FETCH_VERSION: i16 = 12;
const CREATE_VERSION: i16 = 7;
/// The last that names topics in a plain list.
const DELETE_RECORDS_VERSION: i16 = 2;
const DELETE_VERSION: i16 = 5;
const METADATA_VERSION: i16 = 12;
/// The last, with all of its questions.
const EPOCH_END_VERSION: i16 = 4;
const LIST_OFFSETS_VERSION: i16 = 11;
const INIT_PRODUCER_VERSION: i16 = 4;
/// Longer than any stall of a busy machine.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
