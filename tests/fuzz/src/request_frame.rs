//! Frames of requests and responses: each message in each version, and the two that are walked in place.

use alluvium::api::dispatch;
use alluvium::ring::buffer::Buffer;
use alluvium::wire::api_keys::{ApiKey, KAFKA_RANGES};
use alluvium::wire::fetch::FetchFrame;
use alluvium::wire::frame::{FRAME_PREFIX_BYTES, RequestHeader, frame_length};
use alluvium::wire::messages::fetch_request::FetchRequest;
use alluvium::wire::messages::produce_request::ProduceRequest;
use alluvium::wire::produce::ProduceFrame;
use alluvium::wire::reader::Reader;

#[path = "../../golden/wire/recode.rs"]
mod recode;

const MESSAGES: &str = include_str!("../../golden/wire/messages.txt");

/// Bytes as a client sends them after the length. A negative key means a response of that API: key, version, body.
pub fn run(data: &[u8]) {
    if let Some(prefix) = data.first_chunk::<FRAME_PREFIX_BYTES>()
        && let Ok(length) = frame_length(*prefix, BYTES_MAX)
    {
        assert!(length > 0 && length <= BYTES_MAX as usize);
    }
    if let [key_high, key_low, version_high, version_low, body @ ..] = data
        && key_high & 0x80 != 0
    {
        let key = i16::from_be_bytes([key_high & 0x7f, *key_low]);
        let version = i16::from_be_bytes([*version_high, *version_low]);
        if let Some(api_key) = ApiKey::from_key(key) {
            message(&format!("{}Response", api_key.name()), version, body);
        }
        return;
    }
    let dispatched = dispatch::parse(Buffer::from_vec(data.to_vec()));
    let Ok(header) = RequestHeader::parse(data) else {
        assert!(dispatched.is_err(), "dispatch takes a header that cannot be read");
        return;
    };
    let body = &data[header.body_start..];
    if let Ok(request) = dispatched {
        assert_eq!(&request.body[..], body, "dispatch cuts the frame elsewhere");
    }
    message(&format!("{}Request", header.api_key.name()), header.api_version, body);
    match header.api_key {
        ApiKey::Produce => produce(body, header.api_version),
        ApiKey::Fetch => fetch(body, header.api_version),
        _ => {}
    }
}

/// What was decoded and encoded again must say the same when it is decoded once more.
fn message(name: &str, version: i16, body: &[u8]) {
    // The messages that are generated are those with golden bytes.
    if !MESSAGES.lines().any(|line| line.split(' ').next() == Some(name)) {
        return;
    }
    let Ok((consumed, Ok(again))) = recode::recode(name, version, body) else { return };
    assert!(consumed <= body.len());
    match recode::recode(name, version, &again) {
        Ok((length, Ok(third))) => {
            assert_eq!(length, again.len(), "{name} {version}: part of what was written is not read");
            assert_eq!(third, again, "{name} {version}: not the same when written twice");
        }
        other => panic!("{name} {version}: what was written is not read: {other:?}"),
    }
}

/// The walk in place and the generated message agree on what is a request, and on what it asks.
fn produce(body: &[u8], version: i16) {
    let walked = ProduceFrame::parse(body, version);
    let decoded = ProduceRequest::decode(&mut Reader::new(body), version);
    assert_eq!(walked.is_ok(), decoded.is_ok(), "version {version}: {walked:?} and {decoded:?}");
    let (Ok(walked), Ok(decoded)) = (walked, decoded) else { return };
    assert_eq!((walked.acks, walked.timeout_ms), (decoded.acks, decoded.timeout_ms));
    let places = walked.partitions.iter().map(|partition| {
        (partition.index, partition.records.clone().map(|range| body.get(range).expect("ranges lie in the body")))
    });
    let said = decoded.topic_data.iter().flat_map(|topic| &topic.partition_data);
    assert!(places.eq(said.map(|partition| (partition.index, partition.records))), "other partitions: {walked:?}");
}

fn fetch(body: &[u8], version: i16) {
    let walked = FetchFrame::parse(body, version);
    let decoded = FetchRequest::decode(&mut Reader::new(body), version);
    assert_eq!(walked.is_ok(), decoded.is_ok(), "version {version}: {walked:?} and {decoded:?}");
    let (Ok(walked), Ok(decoded)) = (walked, decoded) else { return };
    assert_eq!((walked.max_bytes, walked.session_id), (decoded.max_bytes, decoded.session_id));
    let places = walked.partitions.iter().map(|partition| (partition.partition, partition.fetch_offset));
    let said = decoded.topics.iter().flat_map(|topic| &topic.partitions);
    assert!(places.eq(said.map(|partition| (partition.partition, partition.fetch_offset))), "{walked:?}");
}

/// Every golden line as a frame.
pub fn seeds() -> Vec<Vec<u8>> {
    MESSAGES.lines().filter_map(seed).filter(|seed| seed.len() <= SEED_BYTES_MAX).collect()
}

fn seed(line: &str) -> Option<Vec<u8>> {
    let mut words = line.split(' ');
    let (name, version, hex) = (words.next()?, words.next()?.parse::<i16>().ok()?, words.next()?);
    let api_of = |end| KAFKA_RANGES.iter().find(|range| name.strip_suffix(end) == Some(range.key.name()));
    let mut seed = Vec::new();
    if let Some(range) = api_of("Request") {
        let header = RequestHeader {
            api_key: range.key,
            api_version: version,
            correlation_id: 7,
            client_id: Some("seed"),
            body_start: 0,
        };
        header.encode(&mut seed).ok()?;
    } else {
        seed.extend((api_of("Response")?.key.key() | i16::MIN).to_be_bytes());
        seed.extend(version.to_be_bytes());
    }
    let byte = |index| u8::from_str_radix(hex.get(index..index + 2)?, 16).ok();
    seed.extend((0..hex.len()).step_by(2).map_while(byte));
    Some(seed)
}

/// `socket.request.max.bytes` as Kafka sets it.
const BYTES_MAX: u32 = 100 << 20;
const SEED_BYTES_MAX: usize = 4096;
