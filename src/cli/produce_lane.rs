//! One connection of the produce load: requests out, answers in, never blocking.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // a load's own sockets and clock

use std::collections::VecDeque;
use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::bench_batch::PrebuiltBatch;
use super::bench_meter::{self, Meter};
use super::client_error;
use super::connection;
use crate::wire::api_keys::ApiKey;
use crate::wire::error_code::ErrorCode;
use crate::wire::frame::{self, FRAME_PREFIX_BYTES};
use crate::wire::messages::produce_request::{PartitionProduceData, ProduceRequest, TopicProduceData};
use crate::wire::messages::produce_response::ProduceResponse;
use crate::wire::reader::{DecodeError, Reader};
use crate::wire::writer::EncodeError;

/// A whole produce request but for its batches, which are sent from where they lie; only the correlation id changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestTemplate {
    /// What comes before each batch and, last, after all of them.
    pieces: Vec<Vec<u8>>,
    /// How many batches.
    batch_count: usize,
    /// The frame with its batches.
    bytes: usize,
}

/// When requests are sent whether or not answers come.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    /// The next one is due then.
    pub next: Instant,
    /// And the others after it.
    pub every: Duration,
}

/// What makes a lane give up its connection.
#[derive(Debug)]
pub enum LaneEnd {
    /// The socket broke or was closed.
    Broken(io::Error),
    /// Bytes that are no answer to what was asked.
    NotAnAnswer(Option<DecodeError>),
    /// Another broker leads the partition now.
    LeaderMoved,
}

/// Where acknowledged offsets go, if anybody asked.
pub type OnAcknowledged<'a> = &'a dyn Fn(i32, i64);

/// One connection with its requests.
#[derive(Debug)]
pub struct ProduceLane {
    stream: TcpStream,
    version: i16,
    acks: i16,
    templates: Vec<RequestTemplate>,
    turn: usize,
    sending: Option<Sending>,
    in_flight: VecDeque<InFlight>,
    in_flight_max: usize,
    correlation_id: i32,
    received: Vec<u8>,
    received_bytes: usize,
    schedule: Option<Schedule>,
}

/// A request that is not yet wholly in the socket.
#[derive(Clone, Copy, Debug)]
struct Sending {
    template: usize,
    position: usize,
    since: Instant,
}

#[derive(Clone, Copy, Debug)]
struct InFlight {
    correlation_id: i32,
    since: Instant,
}

impl RequestTemplate {
    /// Encodes a request for these partitions and cuts the batches out of it.
    pub fn build(version: i16, topic: &str, acks: i16, partitions: &[i32], batch: &[u8]) -> Result<Self, EncodeError> {
        let request = ProduceRequest {
            acks,
            timeout_ms: PRODUCE_TIMEOUT_MS,
            topic_data: vec![TopicProduceData {
                name: topic,
                partition_data: partitions
                    .iter()
                    .map(|&index| PartitionProduceData { index, records: Some(batch) })
                    .collect(),
                ..TopicProduceData::default()
            }],
            ..ProduceRequest::default()
        };
        let mut frame = Vec::new();
        connection::encode_request(&mut frame, ApiKey::Produce, version, 0, |out| request.encode(out, version))?;
        let bytes = frame.len();
        let mut pieces = Vec::with_capacity(partitions.len() + 1);
        let mut rest = frame.as_slice();
        while pieces.len() < partitions.len() {
            // The batch ends with a CRC's worth of entropy; nothing before it in a request looks like it.
            let at = rest.windows(batch.len()).position(|window| window == batch);
            let at = at.unwrap_or_else(|| unreachable!("the request holds its batches"));
            pieces.push(rest[..at].to_vec());
            rest = &rest[at + batch.len()..];
        }
        pieces.push(rest.to_vec());
        Ok(Self { batch_count: partitions.len(), pieces, bytes })
    }

    fn set_correlation_id(&mut self, correlation_id: i32) {
        let head = self.pieces.first_mut();
        if let Some(place) = head.and_then(|head| head.get_mut(CORRELATION_ID_AT..CORRELATION_ID_AT + 4)) {
            place.copy_from_slice(&correlation_id.to_be_bytes());
        }
    }

    /// What is left to send, from a position in the frame on.
    fn slices<'a>(&'a self, batch: &'a [u8], position: usize) -> Vec<IoSlice<'a>> {
        let mut skip = position;
        let mut slices = Vec::with_capacity(2 * self.batch_count + 1);
        for (index, piece) in self.pieces.iter().enumerate() {
            let after = if index < self.batch_count { batch } else { &[] };
            for part in [piece.as_slice(), after] {
                if skip < part.len() {
                    slices.push(IoSlice::new(&part[skip..]));
                    skip = 0;
                } else {
                    skip -= part.len();
                }
            }
        }
        slices
    }
}

impl ProduceLane {
    /// A lane over a connected socket with no answer outstanding.
    pub fn new(
        stream: TcpStream,
        version: i16,
        acks: i16,
        templates: Vec<RequestTemplate>,
        in_flight_max: usize,
        schedule: Option<Schedule>,
    ) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            version,
            acks,
            templates,
            turn: 0,
            sending: None,
            in_flight: VecDeque::with_capacity(in_flight_max),
            in_flight_max,
            correlation_id: 0,
            received: vec![0; RECEIVE_BYTES],
            received_bytes: 0,
            schedule,
        })
    }

    /// The socket, to be watched.
    pub const fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Whether the socket's becoming writable is what the lane waits for: it is full, or nobody answers.
    pub const fn wants_write(&self) -> bool {
        self.sending.is_some() || (self.acks == 0 && self.schedule.is_none())
    }

    /// When the next request is due, where a schedule says so and there is room for it.
    pub fn next_due(&self) -> Option<Instant> {
        let schedule = self.schedule.as_ref()?;
        (self.sending.is_none() && self.in_flight.len() < self.in_flight_max).then_some(schedule.next)
    }

    /// Sends as much as window, schedule and socket allow.
    pub fn send(&mut self, batch: &PrebuiltBatch, meter: &Meter) -> Result<(), LaneEnd> {
        // Without answers the window never fills: then other connections and the end of the load need their turn.
        for _ in 0..SENDS_A_TURN_MAX.max(self.in_flight_max) * 2 {
            if self.sending.is_none() && !self.begin() {
                return Ok(());
            }
            let Some(sending) = self.sending.as_mut() else {
                return Ok(());
            };
            let Some(template) = self.templates.get(sending.template) else {
                return Ok(());
            };
            let slices = template.slices(&batch.bytes, sending.position);
            match self.stream.write_vectored(&slices) {
                Ok(written) => sending.position += written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(LaneEnd::Broken(error)),
            }
            if sending.position == template.bytes {
                let since = sending.since;
                self.sending = None;
                if self.acks == 0 {
                    meter.count((batch.bytes.len() * template.batch_count) as u64);
                } else {
                    let correlation_id = self.correlation_id;
                    self.in_flight.push_back(InFlight { correlation_id, since });
                }
            }
        }
        Ok(())
    }

    /// Takes all answers that have arrived.
    pub fn receive(
        &mut self,
        batch: &PrebuiltBatch,
        meter: &Meter,
        latencies: &mut Histogram<u64>,
        on_acknowledged: Option<OnAcknowledged<'_>>,
    ) -> Result<(), LaneEnd> {
        loop {
            let free = self.received.get_mut(self.received_bytes..).unwrap_or_default();
            let free_bytes = free.len();
            let read = match self.stream.read(free) {
                Ok(0) => return Err(LaneEnd::Broken(io::ErrorKind::UnexpectedEof.into())),
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(LaneEnd::Broken(error)),
            };
            self.received_bytes += read;
            self.take_answers(batch, meter, latencies, on_acknowledged)?;
            if read < free_bytes {
                return Ok(());
            }
        }
    }

    /// Starts the next request, if there may be one now.
    fn begin(&mut self) -> bool {
        if self.in_flight.len() >= self.in_flight_max || self.templates.is_empty() {
            return false;
        }
        let now = Instant::now();
        let since = match self.schedule.as_mut() {
            None => now,
            Some(schedule) if schedule.next > now => return false,
            Some(schedule) => {
                // Latency counts from when the request was due, so that a stall is not forgotten.
                let due = schedule.next;
                schedule.next += schedule.every;
                due
            }
        };
        let template = self.turn % self.templates.len();
        self.turn = template + 1;
        self.correlation_id = self.correlation_id.wrapping_add(1);
        if let Some(request) = self.templates.get_mut(template) {
            request.set_correlation_id(self.correlation_id);
        }
        self.sending = Some(Sending { template, position: 0, since });
        true
    }

    fn take_answers(
        &mut self,
        batch: &PrebuiltBatch,
        meter: &Meter,
        latencies: &mut Histogram<u64>,
        on_acknowledged: Option<OnAcknowledged<'_>>,
    ) -> Result<(), LaneEnd> {
        let bytes_max = self.received.len() - FRAME_PREFIX_BYTES;
        let mut start = 0;
        let mut leader_moved = false;
        while let Some(prefix) = self.received.get(start..self.received_bytes).and_then(|rest| rest.first_chunk()) {
            let length = frame::frame_length(*prefix, bytes_max as u32).map_err(|_| LaneEnd::NotAnAnswer(None))?;
            let body_start = start + FRAME_PREFIX_BYTES;
            let Some(body) = self.received.get(body_start..self.received_bytes).and_then(|rest| rest.get(..length))
            else {
                break;
            };
            let Some(asked) = self.in_flight.pop_front() else {
                return Err(LaneEnd::NotAnAnswer(None));
            };
            let answer = Answer { batch, meter, on_acknowledged };
            leader_moved |= answer.take(body, self.version, asked.correlation_id)?;
            if meter.is_timing() {
                bench_meter::record(latencies, asked.since.elapsed());
            }
            start = body_start + length;
        }
        self.received.copy_within(start..self.received_bytes, 0);
        self.received_bytes -= start;
        if leader_moved {
            return Err(LaneEnd::LeaderMoved);
        }
        Ok(())
    }
}

struct Answer<'a> {
    batch: &'a PrebuiltBatch,
    meter: &'a Meter,
    on_acknowledged: Option<OnAcknowledged<'a>>,
}

impl Answer<'_> {
    /// Counts what an answer says; true where a leader has moved.
    fn take(&self, body: &[u8], version: i16, correlation_id: i32) -> Result<bool, LaneEnd> {
        let decode_error = |error| LaneEnd::NotAnAnswer(Some(error));
        let mut reader = Reader::new(body);
        let id = connection::read_response_header(&mut reader, ApiKey::Produce, version).map_err(decode_error)?;
        if id != correlation_id {
            return Err(LaneEnd::NotAnAnswer(None));
        }
        let response = ProduceResponse::decode(&mut reader, version).map_err(decode_error)?;
        let mut acknowledged_bytes = 0;
        let mut leader_moved = false;
        for partition in response.responses.iter().flat_map(|topic| &topic.partition_responses) {
            let code = partition.error_code;
            if code == 0 {
                acknowledged_bytes += self.batch.bytes.len() as u64;
                if let Some(on_acknowledged) = self.on_acknowledged {
                    let last = partition.base_offset + i64::from(self.batch.record_count) - 1;
                    on_acknowledged(partition.index, last);
                }
                continue;
            }
            leader_moved |= is_leader_moved(code);
            self.meter.count_error(|| {
                let refusal = client_error::refusal(code, partition.error_message);
                format!("produce to partition {}: {refusal}", partition.index)
            });
        }
        self.meter.count(acknowledged_bytes);
        Ok(leader_moved)
    }
}

/// Whether an error of a partition means that another broker should be asked.
pub fn is_leader_moved(code: i16) -> bool {
    [
        ErrorCode::NotLeaderOrFollower,
        ErrorCode::UnknownTopicOrPartition,
        ErrorCode::LeaderNotAvailable,
        ErrorCode::FencedLeaderEpoch,
    ]
    .iter()
    .any(|error| error.code() == code)
}

impl std::fmt::Display for LaneEnd {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Broken(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                formatter.write_str("the server closed the connection")
            }
            Self::Broken(error) => write!(formatter, "the connection broke: {error}"),
            Self::NotAnAnswer(Some(error)) => write!(formatter, "an answer cannot be read: {error}"),
            Self::NotAnAnswer(None) => formatter.write_str("an answer to something else than was asked"),
            Self::LeaderMoved => formatter.write_str("another broker leads the partition now"),
        }
    }
}

/// Writes on one connection before the others have their turn, where no window bounds them.
const SENDS_A_TURN_MAX: usize = 16;
/// After length, key and version.
const CORRELATION_ID_AT: usize = 8;
const PRODUCE_TIMEOUT_MS: i32 = 30_000;
/// Answers are a few hundred bytes; with thousands of partitions in a request some kibibytes.
const RECEIVE_BYTES: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::compression::Compression;

    fn joined(template: &RequestTemplate, batch: &PrebuiltBatch, position: usize) -> Vec<u8> {
        template.slices(&batch.bytes, position).iter().flat_map(|slice| slice.to_vec()).collect()
    }

    #[test]
    fn templates_give_back_the_whole_request() {
        let batch = PrebuiltBatch::build(2000, 100, Compression::None, 0, 3).expect("no compressor");
        for version in [3, 8, 9, 12] {
            for partitions in [&[7][..], &[0, 1, 2]] {
                let mut template =
                    RequestTemplate::build(version, "topic", 1, partitions, &batch.bytes).expect("short");
                template.set_correlation_id(0x0102_0304);
                let name = format!("version {version}, {partitions:?}");
                let whole: Vec<u8> = joined(&template, &batch, 0);
                assert_eq!(whole.len(), template.bytes, "{name}");
                assert_eq!(whole[..4], (whole.len() as u32 - 4).to_be_bytes(), "{name}");
                assert_eq!(whole[8..12], [1, 2, 3, 4], "{name}");
                for position in [1, 40, 100, whole.len() / 2, whole.len() - 1, whole.len()] {
                    let rest: Vec<u8> = joined(&template, &batch, position);
                    assert_eq!(rest, whole[position..], "{name} from {position}");
                }
                let header = frame::RequestHeader::parse(&whole[4..]).expect("header");
                let mut reader = Reader::new(&whole[4 + header.body_start..]);
                let request = ProduceRequest::decode(&mut reader, version).expect("request");
                let data = &request.topic_data[0].partition_data;
                let sent: Vec<_> = data.iter().map(|partition| partition.index).collect();
                assert_eq!(sent, partitions, "{name}");
                assert!(data.iter().all(|partition| partition.records == Some(&batch.bytes)), "{name}");
            }
        }
    }
}
