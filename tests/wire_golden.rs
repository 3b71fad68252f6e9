//! Bytes that Kafka's own classes wrote, read and written again by ours.
//!
//! `scripts/generate-wire-golden` made the files and says what they mean.

use alluvium::wire::api_keys::{ApiKey, FLEXIBLE_NEVER, KAFKA_RANGES};
use alluvium::wire::error_code::ErrorCode;
use alluvium::wire::fetch::FetchFrame;
use alluvium::wire::fetch_reply::{FetchRecords, FetchResponseEncoder, FetchResponseHead};
use alluvium::wire::messages::fetch_request::FetchRequest;
use alluvium::wire::messages::fetch_response::FetchResponse;
use alluvium::wire::messages::metadata_response::MetadataResponse;
use alluvium::wire::messages::produce_request::ProduceRequest;
use alluvium::wire::messages::produce_response::ProduceResponse;
use alluvium::wire::metadata_reply::MetadataReplyEncoder;
use alluvium::wire::produce::{ProduceFrame, ProduceResponseEncoder};
use alluvium::wire::reader::Reader;
use alluvium::wire::topic_ref::Topic;
use alluvium::wire::uuid::Uuid;
use alluvium::wire::{fetch, produce};
use kafka_protocol::protocol::{Decodable, Encodable, Message};

#[path = "golden/wire/recode.rs"]
mod recode;

use recode::recode;

const MESSAGES: &str = include_str!("golden/wire/messages.txt");
const ERRORS: &str = include_str!("golden/wire/errors.txt");
const API_KEYS: &str = include_str!("golden/wire/api_keys.txt");

/// A line of `messages.txt`.
struct Golden {
    name: &'static str,
    version: i16,
    bytes: Vec<u8>,
}

fn golden() -> Vec<Golden> {
    MESSAGES.lines().map(parse_line).collect()
}

fn golden_of(name: &str) -> Vec<Golden> {
    let lines: Vec<_> = golden().into_iter().filter(|line| line.name == name).collect();
    assert!(!lines.is_empty(), "{name}");
    lines
}

fn parse_line(line: &'static str) -> Golden {
    let mut words = line.split(' ');
    let name = words.next().expect("a name");
    let version = words.next().expect("a version").parse().expect("a number");
    let hex = words.next().expect("hex digits");
    let byte = |index| u8::from_str_radix(&hex[index..index + 2], 16).expect("hex digits");
    Golden { name, version, bytes: (0..hex.len()).step_by(2).map(byte).collect() }
}

impl Golden {
    /// How far apart the damaged places are: long lines repeat themselves, and their cost grows with the square.
    fn stride(&self) -> usize {
        1 + self.bytes.len() / 150
    }

    /// What a failure should say.
    fn place(&self) -> String {
        format!("{} version {} of {} bytes", self.name, self.version, self.bytes.len())
    }
}

#[test]
fn every_line_comes_back_byte_for_byte() {
    for line in golden() {
        let place = line.place();
        let (consumed, again) = recode(line.name, line.version, &line.bytes).expect(&place);
        assert_eq!(consumed, line.bytes.len(), "{place}");
        assert_eq!(again.expect(&place), line.bytes, "{place}");
    }
}

/// Bytes after a message are not looked at.
#[test]
fn trailing_bytes_are_left_alone() {
    for mut line in golden() {
        let length = line.bytes.len();
        line.bytes.extend_from_slice(&[0xff; 3]);
        let (consumed, _) = recode(line.name, line.version, &line.bytes).expect("decodes");
        assert_eq!(consumed, length, "{}", line.place());
    }
}

/// A message has no optional end: whatever is cut off is missed.
#[test]
fn every_truncation_is_an_error() {
    for line in golden() {
        for cut in 0..line.bytes.len() {
            let result = recode(line.name, line.version, &line.bytes[..cut]);
            assert!(result.is_err(), "{} cut at {cut}", line.place());
        }
    }
}

/// Every byte in turn takes values that make lengths huge, negative, null or off by one. The outcome may be anything but
/// a panic or a reservation without end (which would abort the test).
#[test]
fn damaged_bytes_do_no_harm() {
    for line in golden() {
        for position in (0..line.bytes.len()).step_by(line.stride()) {
            let byte = line.bytes[position];
            for damage in [0, 1, 0x7f, 0x80, 0xff, byte.wrapping_add(1), byte.wrapping_sub(1), byte ^ 0x80] {
                let mut bytes = line.bytes.clone();
                bytes[position] = damage;
                let _ = recode(line.name, line.version, &bytes);
                match line.name {
                    "ProduceRequest" => drop(ProduceFrame::parse(&bytes, line.version)),
                    "FetchRequest" => drop(FetchFrame::parse(&bytes, line.version)),
                    _ => {}
                }
            }
        }
    }
}

/// Four bytes of 0xff or 0x7fffffff at any place: an array length that a trusting decoder would reserve memory for.
#[test]
fn huge_lengths_are_refused() {
    for line in golden() {
        for position in (0..line.bytes.len().saturating_sub(4)).step_by(line.stride()) {
            for damage in [[0x7f, 0xff, 0xff, 0xff], [0xff, 0xff, 0xff, 0x7f], [0x80; 4], [0xff; 4]] {
                let mut bytes = line.bytes.clone();
                bytes[position..position + 4].copy_from_slice(&damage);
                let _ = recode(line.name, line.version, &bytes);
            }
        }
    }
    // The five bytes that abort a server built on kafka-protocol 0.18.
    assert!(recode("MetadataRequest", 4, &[0x7f, 0xff, 0xff, 0xff, 0]).is_err());
    assert!(recode("MetadataRequest", 12, &[0xff, 0xff, 0xff, 0xff, 0x07]).is_err());
    // Any negative length is null: all topics.
    let (_, again) = recode("MetadataRequest", 4, &[0xff, 0xff, 0xff, 0xf9, 0]).expect("null");
    assert_eq!(again.expect("encodes"), [0xff, 0xff, 0xff, 0xff, 0]);
}

#[test]
fn versions_beyond_the_range_are_errors() {
    for name in ["MetadataRequest", "ProduceRequest", "FetchRequest"] {
        for version in [-5, -1, 99, i16::MAX, i16::MIN] {
            assert!(recode(name, version, &[0; 64]).is_err(), "{name} {version}");
            assert!(ProduceFrame::parse(&[0; 64], version).is_err(), "{version}");
            assert!(FetchFrame::parse(&[0; 64], version).is_err(), "{version}");
        }
    }
}

#[test]
fn the_produce_walk_finds_what_the_codec_finds() {
    for line in golden_of("ProduceRequest") {
        let place = line.place();
        let body = &line.bytes[..];
        let message = ProduceRequest::decode(&mut Reader::new(body), line.version).expect(&place);
        let frame = ProduceFrame::parse(body, line.version).expect(&place);
        assert_eq!(frame.transactional_id.map(|range| range.text(body)), message.transactional_id, "{place}");
        assert_eq!((frame.acks, frame.timeout_ms), (message.acks, message.timeout_ms), "{place}");
        assert_eq!(frame.topics.len(), message.topic_data.len(), "{place}");
        for (found, topic) in frame.topics.iter().zip(&message.topic_data) {
            let by_id = line.version >= produce::TOPIC_ID_MIN;
            assert_eq!(found.topic.resolve(body), name_or_id(by_id, topic.name, topic.topic_id), "{place}");
            let partitions = &frame.partitions[found.partitions.clone()];
            assert_eq!(partitions.len(), topic.partition_data.len(), "{place}");
            for (found_partition, partition) in partitions.iter().zip(&topic.partition_data) {
                assert_eq!((found_partition.topic, found_partition.index), (found.topic, partition.index), "{place}");
                assert_eq!(found_partition.records.clone().map(|range| &body[range]), partition.records, "{place}");
            }
        }
        for cut in 0..body.len() {
            assert!(ProduceFrame::parse(&body[..cut], line.version).is_err(), "{place} cut at {cut}");
        }
    }
}

#[test]
fn the_produce_response_is_written_as_kafka_writes_it() {
    for line in golden_of("ProduceResponse") {
        let place = line.place();
        let message = ProduceResponse::decode(&mut Reader::new(&line.bytes), line.version).expect(&place);
        let mut out = Vec::new();
        let topics = &message.responses;
        let mut encoder = ProduceResponseEncoder::new(&mut out, line.version, topics.len()).expect(&place);
        for topic in topics {
            let by_id = line.version >= produce::TOPIC_ID_MIN;
            let name = name_or_id(by_id, topic.name, topic.topic_id);
            encoder.topic(name, topic.partition_responses.len()).expect(&place);
            for partition in &topic.partition_responses {
                encoder.partition(partition).expect(&place);
            }
        }
        encoder.end(message.throttle_time_ms, &message.node_endpoints).expect(&place);
        assert_eq!(out, line.bytes, "{place}");
    }
}

#[test]
fn the_metadata_response_is_written_topic_by_topic_as_kafka_writes_it() {
    for line in golden_of("MetadataResponse") {
        let place = line.place();
        let message = MetadataResponse::decode(&mut Reader::new(&line.bytes), line.version).expect(&place);
        let mut out = Vec::new();
        let topics = &message.topics;
        let mut encoder = MetadataReplyEncoder::new(&mut out, line.version, &message, topics.len()).expect(&place);
        for topic in topics {
            encoder.topic(topic).expect(&place);
        }
        encoder.end(&message);
        assert_eq!(out, line.bytes, "{place}");
    }
}

#[test]
fn the_fetch_walk_finds_what_the_codec_finds() {
    for line in golden_of("FetchRequest") {
        let place = line.place();
        let body = &line.bytes[..];
        let message = FetchRequest::decode(&mut Reader::new(body), line.version).expect(&place);
        let frame = FetchFrame::parse(body, line.version).expect(&place);
        let by_id = line.version >= fetch::TOPIC_ID_MIN;
        let state = &message.replica_state;
        let replica_id = if line.version >= 15 { state.replica_id } else { message.replica_id };
        assert_eq!(frame.cluster_id.map(|range| range.text(body)), message.cluster_id, "{place}");
        assert_eq!((frame.replica_id, frame.replica_epoch), (replica_id, state.replica_epoch), "{place}");
        assert_eq!((frame.max_wait_ms, frame.min_bytes), (message.max_wait_ms, message.min_bytes), "{place}");
        assert_eq!((frame.max_bytes, frame.isolation_level), (message.max_bytes, message.isolation_level), "{place}");
        assert_eq!((frame.session_id, frame.session_epoch), (message.session_id, message.session_epoch), "{place}");
        assert_eq!(frame.rack_id.text(body), message.rack_id, "{place}");
        assert_eq!(frame.topics.len(), message.topics.len(), "{place}");
        for (found, topic) in frame.topics.iter().zip(&message.topics) {
            assert_eq!(found.topic.resolve(body), name_or_id(by_id, topic.topic, topic.topic_id), "{place}");
            let partitions = &frame.partitions[found.partitions.clone()];
            assert_eq!(partitions.len(), topic.partitions.len(), "{place}");
            for (ours, kafkas) in partitions.iter().zip(&topic.partitions) {
                let expected = fetch::FetchPartition {
                    topic: found.topic,
                    partition: kafkas.partition,
                    current_leader_epoch: kafkas.current_leader_epoch,
                    fetch_offset: kafkas.fetch_offset,
                    last_fetched_epoch: kafkas.last_fetched_epoch,
                    log_start_offset: kafkas.log_start_offset,
                    partition_max_bytes: kafkas.partition_max_bytes,
                    replica_directory_id: kafkas.replica_directory_id,
                    high_watermark: kafkas.high_watermark,
                };
                assert_eq!(*ours, expected, "{place}");
            }
        }
        let mut forgotten = frame.forgotten.iter();
        for topic in &message.forgotten_topics_data {
            for &partition in &topic.partitions {
                let ours = forgotten.next().expect(&place);
                let name = name_or_id(by_id, topic.topic, topic.topic_id);
                assert_eq!((ours.topic.resolve(body), ours.partition), (name, partition), "{place}");
            }
        }
        assert_eq!(forgotten.next(), None, "{place}");
        for cut in 0..body.len() {
            assert!(FetchFrame::parse(&body[..cut], line.version).is_err(), "{place} cut at {cut}");
        }
    }
}

/// The output with the records put in at the cuts is what Kafka writes in one piece.
#[test]
fn the_fetch_response_is_written_around_its_records() {
    let mut cut_count = 0;
    for line in golden_of("FetchResponse") {
        let place = line.place();
        let message = FetchResponse::decode(&mut Reader::new(&line.bytes), line.version).expect(&place);
        for inline in [false, true] {
            // The frame does not begin at the start of the output, and cuts count from there.
            let mut out = vec![0xaa; 7];
            let mut cuts = Vec::new();
            let mut slots = Vec::new();
            let head = FetchResponseHead {
                throttle_time_ms: message.throttle_time_ms,
                error_code: message.error_code,
                session_id: message.session_id,
            };
            let topics = &message.responses;
            let mut encoder =
                FetchResponseEncoder::new(&mut out, &mut cuts, line.version, head, topics.len()).expect(&place);
            for topic in topics {
                let by_id = line.version >= fetch::TOPIC_ID_MIN;
                let name = name_or_id(by_id, topic.topic, topic.topic_id);
                encoder.topic(name, topic.partitions.len()).expect(&place);
                for partition in &topic.partitions {
                    let records = match partition.records {
                        None => FetchRecords::Null,
                        Some(records) if inline => FetchRecords::Inline(records),
                        Some(records) => {
                            slots.push(records);
                            FetchRecords::Range { slot: slots.len() - 1, len_bytes: records.len() as u32 }
                        }
                    };
                    encoder.partition(partition, records).expect(&place);
                }
            }
            let extra_bytes = encoder.end(&message.node_endpoints).expect(&place);
            let mut sent = Vec::new();
            let mut from = 7;
            for cut in &cuts {
                sent.extend_from_slice(&out[from..cut.position_bytes]);
                assert_eq!(slots[cut.slot].len(), cut.len_bytes as usize, "{place}");
                sent.extend_from_slice(slots[cut.slot]);
                from = cut.position_bytes;
            }
            sent.extend_from_slice(&out[from..]);
            assert_eq!(sent, line.bytes, "{place}");
            assert_eq!(out.len() - 7 + extra_bytes as usize, line.bytes.len(), "{place}");
            cut_count += cuts.len();
        }
    }
    assert!(cut_count > 50, "only {cut_count} cuts: the golden lines have lost their records");
}

/// kafka-protocol reads the same lines and writes the same bytes, in the versions that it knows.
#[test]
fn kafka_protocol_agrees() {
    macro_rules! second_opinion {
        ($line:ident, $($message:ident)*) => {
            match $line.name {
                $(stringify!($message) => second_opinion::<kafka_protocol::messages::$message>(&$line),)*
                _ => None,
            }
        };
    }
    let mut count = 0;
    for line in golden() {
        let bytes = second_opinion!(line, ApiVersionsRequest ApiVersionsResponse MetadataRequest MetadataResponse
            CreateTopicsRequest CreateTopicsResponse DeleteTopicsRequest DeleteTopicsResponse ProduceRequest
            ProduceResponse FetchRequest FetchResponse ListOffsetsRequest ListOffsetsResponse InitProducerIdRequest
            InitProducerIdResponse DescribeConfigsRequest DescribeConfigsResponse DescribeClusterRequest
            DescribeClusterResponse FindCoordinatorRequest FindCoordinatorResponse);
        if let Some(bytes) = bytes {
            assert_eq!(bytes, line.bytes, "{}", line.place());
            count += 1;
        }
    }
    assert!(count > 300, "only {count} lines were compared");
}

/// What kafka-protocol makes of a line; none where it does not know the version.
fn second_opinion<M: Message + Decodable + Encodable>(line: &Golden) -> Option<Vec<u8>> {
    if line.version < M::VERSIONS.min || line.version > M::VERSIONS.max {
        return None;
    }
    let place = line.place();
    let message = M::decode(&mut &line.bytes[..], line.version).expect(&place);
    let mut out = Vec::new();
    message.encode(&mut out, line.version).expect(&place);
    Some(out)
}

/// Kafka's `Errors`: code, name, retriable, message.
#[test]
fn error_codes_are_kafkas() {
    let mut count = 0;
    for line in ERRORS.lines() {
        let [code, name, retriable, message] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let error = ErrorCode::from_code(code.parse().expect(line)).expect(line);
        assert_eq!(error.name(), name);
        assert_eq!(error.is_retriable().to_string(), retriable, "{name}");
        assert_eq!(error.default_message(), message, "{name}");
        count += 1;
    }
    assert_eq!(count, ErrorCode::ALL.len());
}

/// Kafka's `ApiKeys`: key, name, lowest and highest stable version, header versions of each.
#[test]
fn api_keys_are_kafkas() {
    let mut count = 0;
    for line in API_KEYS.lines() {
        let [key, name, min, max, headers] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let range = KAFKA_RANGES[count];
        let api = ApiKey::from_key(key.parse().expect(line)).expect(line);
        assert_eq!((range.key, api.name()), (api, name));
        assert_eq!((range.min.to_string(), range.max.to_string()), (min.to_owned(), max.to_owned()), "{name}");
        let ours: String = (range.min..=range.max)
            .map(|version| format!("{}{} ", api.request_header_version(version), api.response_header_version(version)))
            .collect();
        assert_eq!(ours, headers, "{name}");
        assert!(api.flexible_min() <= range.max || api.flexible_min() == FLEXIBLE_NEVER, "{name}");
        count += 1;
    }
    assert_eq!(count, KAFKA_RANGES.len());
}

fn name_or_id(by_id: bool, name: &str, id: Uuid) -> Topic<'_> {
    if by_id { Topic::Id(id) } else { Topic::Name(name) }
}
