//! What is known of one remote segment, and its bytes in the metadata's file.

use std::fmt;

use crate::log::leader_epochs::EpochEntry;
use crate::record::offset::{LeaderEpoch, Offset, TimestampMs};
use crate::tier::segment_state::SegmentState;
use crate::wire::uuid::Uuid;

/// Names one remote segment for ever: a copy that is made again has another id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RemoteSegmentId(pub Uuid);

impl RemoteSegmentId {
    /// A new id out of 128 random bits.
    #[must_use]
    pub fn from_random(bits: u128) -> Self {
        Self(Uuid::from_random_bytes(bits.to_be_bytes()))
    }
}

impl fmt::Display for RemoteSegmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One remote segment: the fields of Kafka's RemoteLogSegmentMetadata, and what ours adds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteSegment {
    /// Its id.
    pub id: RemoteSegmentId,
    /// Offset of its first record, or where it would be.
    pub start_offset: Offset,
    /// Offset of its last record, or where it would be: the next segment begins behind it.
    pub end_offset: Offset,
    /// Largest timestamp of its records.
    pub max_timestamp: TimestampMs,
    /// When its state came about, by the wall clock.
    pub event_time_ms: i64,
    /// The broker that copied it.
    pub broker_id: i32,
    /// Length of its log.
    pub segment_bytes: u32,
    /// Length of its file in the store; 0 while it is not copied.
    pub file_bytes: u64,
    /// CRC-32C of its file in the store; 0 while it is not copied.
    pub file_crc: u32,
    /// Its state.
    pub state: SegmentState,
    /// It has aborted transactions.
    pub has_transaction_index: bool,
    /// The leader epochs of its records, each with the first offset of it in this segment.
    pub epochs: Vec<EpochEntry>,
}

/// One change of what is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SegmentEvent {
    /// A copy was begun, or finished.
    Copy(RemoteSegment),
    /// A deletion was begun, or finished.
    Delete {
        /// The segment.
        id: RemoteSegmentId,
        /// `DeleteStarted` or `DeleteFinished`.
        state: SegmentState,
    },
    /// A segment as a compacted file has it, whatever came before.
    Image(RemoteSegment),
    /// The local log begins here: files of segments below may still be there, and do not count.
    LocalStart(Offset),
}

impl SegmentEvent {
    /// Its bytes, without the frame.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(SEGMENT_BYTES_GUESS);
        match self {
            Self::Copy(segment) => encode_segment(&mut out, KIND_COPY, segment),
            Self::Image(segment) => encode_segment(&mut out, KIND_IMAGE, segment),
            Self::LocalStart(offset) => {
                out.push(KIND_LOCAL_START);
                out.extend_from_slice(&offset.0.to_be_bytes());
            }
            Self::Delete { id, state } => {
                out.push(KIND_DELETE);
                out.extend_from_slice(&id.0.0);
                out.push(*state as u8);
            }
        }
        out
    }

    /// Reads what [`encode`](Self::encode) made; `None` for anything else.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (kind, mut rest) = bytes.split_first()?;
        let event = match *kind {
            KIND_COPY => Self::Copy(decode_segment(&mut rest)?),
            KIND_IMAGE => Self::Image(decode_segment(&mut rest)?),
            KIND_LOCAL_START => {
                let offset = Offset(i64::from_be_bytes(take(&mut rest)?));
                (offset >= Offset(0)).then_some(Self::LocalStart(offset))?
            }
            KIND_DELETE => {
                let id = RemoteSegmentId(Uuid(take(&mut rest)?));
                let [state] = take(&mut rest)?;
                let state = SegmentState::from_id(state)?;
                let is_deletion = matches!(state, SegmentState::DeleteStarted | SegmentState::DeleteFinished);
                is_deletion.then_some(Self::Delete { id, state })?
            }
            _ => return None,
        };
        rest.is_empty().then_some(event)
    }
}

fn encode_segment(out: &mut Vec<u8>, kind: u8, segment: &RemoteSegment) {
    out.push(kind);
    out.extend_from_slice(&segment.id.0.0);
    out.push(segment.state as u8);
    out.extend_from_slice(&segment.start_offset.0.to_be_bytes());
    out.extend_from_slice(&segment.end_offset.0.to_be_bytes());
    out.extend_from_slice(&segment.max_timestamp.0.to_be_bytes());
    out.extend_from_slice(&segment.event_time_ms.to_be_bytes());
    out.extend_from_slice(&segment.broker_id.to_be_bytes());
    out.extend_from_slice(&segment.segment_bytes.to_be_bytes());
    out.extend_from_slice(&segment.file_bytes.to_be_bytes());
    out.extend_from_slice(&segment.file_crc.to_be_bytes());
    out.push(u8::from(segment.has_transaction_index));
    // A segment of more epochs than that has another one for almost each batch; the file in the store has them all.
    let count = u16::try_from(segment.epochs.len()).unwrap_or(u16::MAX);
    out.extend_from_slice(&count.to_be_bytes());
    for entry in segment.epochs.iter().take(usize::from(count)) {
        out.extend_from_slice(&entry.epoch.0.to_be_bytes());
        out.extend_from_slice(&entry.start_offset.0.to_be_bytes());
    }
}

fn decode_segment(rest: &mut &[u8]) -> Option<RemoteSegment> {
    let id = RemoteSegmentId(Uuid(take(rest)?));
    let [state] = take(rest)?;
    let start_offset = Offset(i64::from_be_bytes(take(rest)?));
    let end_offset = Offset(i64::from_be_bytes(take(rest)?));
    let max_timestamp = TimestampMs(i64::from_be_bytes(take(rest)?));
    let event_time_ms = i64::from_be_bytes(take(rest)?);
    let broker_id = i32::from_be_bytes(take(rest)?);
    let segment_bytes = u32::from_be_bytes(take(rest)?);
    let file_bytes = u64::from_be_bytes(take(rest)?);
    let file_crc = u32::from_be_bytes(take(rest)?);
    let [has_transaction_index] = take(rest)?;
    let count = u16::from_be_bytes(take(rest)?);
    let mut epochs = Vec::with_capacity(usize::from(count).min(rest.len() / EPOCH_BYTES));
    for _ in 0..count {
        let epoch = LeaderEpoch(i32::from_be_bytes(take(rest)?));
        let start_offset = Offset(i64::from_be_bytes(take(rest)?));
        epochs.push(EpochEntry { epoch, start_offset });
    }
    // A segment spans under 2^31 offsets: the places in its indexes are 32 bits wide.
    let spans = end_offset.0.checked_sub(start_offset.0)?;
    if start_offset.0 < 0 || !(0..=i64::from(u32::MAX)).contains(&spans) || end_offset.0 == i64::MAX {
        return None;
    }
    Some(RemoteSegment {
        id,
        start_offset,
        end_offset,
        max_timestamp,
        event_time_ms,
        broker_id,
        segment_bytes,
        file_bytes,
        file_crc,
        state: SegmentState::from_id(state)?,
        has_transaction_index: has_transaction_index != 0,
        epochs,
    })
}

/// The next `N` bytes.
pub(in crate::tier) fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, later) = rest.split_first_chunk::<N>()?;
    *rest = later;
    Some(*taken)
}

const KIND_COPY: u8 = 1;
const KIND_DELETE: u8 = 2;
const KIND_IMAGE: u8 = 3;
const KIND_LOCAL_START: u8 = 4;
const EPOCH_BYTES: usize = 12;
const SEGMENT_BYTES_GUESS: usize = 96;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A segment with this number as its id.
    pub(crate) fn segment(number: u8, start: i64, end: i64, state: SegmentState) -> RemoteSegment {
        RemoteSegment {
            id: RemoteSegmentId(Uuid([number; 16])),
            start_offset: Offset(start),
            end_offset: Offset(end),
            max_timestamp: TimestampMs(end * 10),
            event_time_ms: 7,
            broker_id: 1001,
            segment_bytes: 100,
            file_bytes: 225,
            file_crc: 0xdead_beef,
            state,
            has_transaction_index: false,
            epochs: vec![EpochEntry { epoch: LeaderEpoch(3), start_offset: Offset(start) }],
        }
    }

    #[test]
    fn events_come_back_and_damage_does_not() {
        let id = RemoteSegmentId(Uuid([9; 16]));
        let events = [
            SegmentEvent::Copy(segment(1, 0, 99, SegmentState::CopyStarted)),
            SegmentEvent::Image(segment(1, 0, 99, SegmentState::CopyFinished)),
            SegmentEvent::Delete { id, state: SegmentState::DeleteFinished },
            SegmentEvent::LocalStart(Offset(1 << 40)),
        ];
        for event in events {
            let bytes = event.encode();
            assert_eq!(SegmentEvent::decode(&bytes), Some(event));
            for len in 0..bytes.len() {
                assert_eq!(SegmentEvent::decode(&bytes[..len]), None, "{len} of {bytes:?}");
            }
            let longer = [&bytes[..], &[0]].concat();
            assert_eq!(SegmentEvent::decode(&longer), None);
        }
        let backwards = SegmentEvent::Copy(segment(1, 10, 9, SegmentState::CopyStarted));
        assert_eq!(SegmentEvent::decode(&backwards.encode()), None);
        let not_a_deletion = SegmentEvent::Delete { id, state: SegmentState::CopyFinished };
        assert_eq!(SegmentEvent::decode(&not_a_deletion.encode()), None);
    }
}
