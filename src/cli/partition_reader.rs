//! One partition being read: batches checked, records handed on in order, all counted.

use std::collections::BTreeSet;

use super::fetch_loop::Fetched;
use crate::record::batch::{BatchHeader, batch_len_bytes};
use crate::record::record_fields::Record;
use crate::record::record_reader::{check_crc, read_records};

/// What was read of a partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartitionCounts {
    /// Records handed on.
    pub records: u64,
    /// Batches as they came.
    pub bytes: u64,
    /// Batches.
    pub batches: u64,
    /// Records of aborted transactions, not handed on.
    pub aborted: u64,
    /// The first offset handed on.
    pub first_offset: Option<i64>,
    /// The last offset handed on.
    pub last_offset: Option<i64>,
    /// What is wrong, the first of it in words.
    pub problem_count: u64,
    /// Those words, [`PROBLEMS_KEPT_MAX`] at most.
    pub problems: Vec<String>,
}

/// Reads one partition from an offset to another one, or for ever.
#[derive(Debug)]
pub struct PartitionReader {
    next_offset: i64,
    end_offset: Option<i64>,
    holes_are_normal: bool,
    read_committed: bool,
    aborting: BTreeSet<i64>,
    /// What was read.
    pub counts: PartitionCounts,
}

impl PartitionReader {
    /// From `next_offset` to the one before `end_offset`. A compacted topic has holes.
    pub fn new(next_offset: i64, end_offset: Option<i64>, holes_are_normal: bool, read_committed: bool) -> Self {
        Self {
            next_offset,
            end_offset,
            holes_are_normal,
            read_committed,
            aborting: BTreeSet::new(),
            counts: PartitionCounts::default(),
        }
    }

    /// The offset to be read next.
    pub const fn next_offset(&self) -> i64 {
        self.next_offset
    }

    /// Where to stop.
    pub const fn end_offset(&self) -> Option<i64> {
        self.end_offset
    }

    /// All of it was read.
    pub fn is_done(&self) -> bool {
        self.end_offset.is_some_and(|end| self.next_offset >= end)
    }

    /// Takes an answer. `each` gets every record that is wanted, with its offset, and says whether it wants more.
    pub fn take(&mut self, fetched: &Fetched, mut each: impl FnMut(&BatchHeader, i64, &Record<'_>) -> bool) {
        let mut aborted = fetched.aborted.iter().copied().peekable();
        let mut rest = fetched.records.as_slice();
        let mut wanted = true;
        let mut seen = false;
        while wanted && !self.is_done() {
            // The last batch of an answer may be cut short.
            let Some(batch) = batch_len_bytes(rest).ok().and_then(|len_bytes| rest.get(..len_bytes as usize)) else {
                break;
            };
            rest = rest.get(batch.len()..).unwrap_or_default();
            seen = true;
            match check_crc(batch) {
                Ok(header) => {
                    let last_offset = header.last_offset().0;
                    while let Some((producer_id, _)) = aborted.next_if(|(_, first_offset)| *first_offset <= last_offset)
                    {
                        self.aborting.insert(producer_id);
                    }
                    wanted = self.take_batch(batch, &header, &mut each);
                }
                Err(error) => {
                    self.problem(format!("the batch at offset {} or later: {error}", self.next_offset));
                    // Its own header, as far as it can be believed, says where the next one begins.
                    if let Ok(header) = crate::record::batch::parse_header(batch) {
                        self.next_offset = self.next_offset.max(header.last_offset().plus(1).0);
                    }
                }
            }
        }
        if !seen && !fetched.records.is_empty() {
            let bytes = fetched.records.len();
            self.problem(format!("no whole batch in {bytes} bytes for offset {}", self.next_offset));
        }
    }

    fn take_batch(
        &mut self,
        batch: &[u8],
        header: &BatchHeader,
        each: &mut impl FnMut(&BatchHeader, i64, &Record<'_>) -> bool,
    ) -> bool {
        let (first, last) = (header.base_offset.0, header.last_offset().0);
        self.counts.batches += 1;
        self.counts.bytes += batch.len() as u64;
        if last < self.next_offset {
            self.problem(format!("offsets {first} to {last} came again: {} was next", self.next_offset));
            return true;
        }
        if first > self.next_offset && !self.holes_are_normal {
            self.problem(format!("a hole: offsets {} to {} are missing", self.next_offset, first - 1));
        }
        let count = i64::from(header.record_count);
        if count != last - first + 1 && !self.holes_are_normal {
            self.problem(format!("{count} records in a batch of offsets {first} to {last}"));
        }
        let hidden = self.read_committed
            && header.attributes.is_transactional()
            && self.aborting.contains(&header.producer_id.0);
        if header.attributes.is_control() {
            self.take_marker(batch, header);
            self.next_offset = last + 1;
            return true;
        }
        let (from, to) = (self.next_offset, self.end_offset.unwrap_or(i64::MAX));
        let counts = &mut self.counts;
        let mut wanted = true;
        let mut before = i64::MIN;
        let mut disorder = None;
        let end = read_records(batch, RECORD_BYTES_MAX, |record| {
            let offset = first.saturating_add(i64::from(record.offset_delta));
            if offset <= before || offset > last {
                disorder = disorder.or(Some(offset));
            }
            before = before.max(offset);
            if offset < from || offset >= to || !wanted {
                return;
            }
            if hidden {
                counts.aborted += 1;
                return;
            }
            counts.records += 1;
            counts.first_offset.get_or_insert(offset);
            counts.last_offset = Some(offset);
            wanted = each(header, offset, record);
        });
        if let Err(error) = end {
            self.problem(format!("the batch of offsets {first} to {last}: {error}"));
        } else if let Some(offset) = disorder {
            self.problem(format!("offset {offset} is out of order in the batch of offsets {first} to {last}"));
        }
        // Whoever has enough goes on behind the last record that it took.
        self.next_offset = match (wanted, self.counts.last_offset) {
            (false, Some(taken)) => taken + 1,
            _ => last + 1,
        };
        wanted
    }

    /// The end of a transaction: after an abort, the producer's next records count again.
    fn take_marker(&mut self, batch: &[u8], header: &BatchHeader) {
        let mut is_abort = false;
        let end = read_records(batch, RECORD_BYTES_MAX, |record| {
            let kind = record.key.and_then(|key| key.get(2..4));
            is_abort = kind == Some(&ABORT_MARKER.to_be_bytes()[..]);
        });
        if let Err(error) = end {
            self.problem(format!("the marker at offset {}: {error}", header.base_offset));
        }
        if is_abort {
            self.aborting.remove(&header.producer_id.0);
        }
    }

    fn problem(&mut self, what: String) {
        self.counts.problem_count += 1;
        if self.counts.problems.len() < PROBLEMS_KEPT_MAX {
            self.counts.problems.push(what);
        }
    }
}

/// Longest record that a compressed batch may unfold.
const RECORD_BYTES_MAX: usize = 256 << 20;
/// The type of an abort's control record.
const ABORT_MARKER: i16 = 0;
/// Problems kept in words; all are counted.
pub const PROBLEMS_KEPT_MAX: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::batch::{CONTROL_BIT, TRANSACTIONAL_BIT, stamp};
    use crate::record::builder::BatchBuilder;
    use crate::record::compression::Compression;
    use crate::record::offset::{LeaderEpoch, Offset, ProducerId};

    fn batch(base: i64, count: usize) -> Vec<u8> {
        let mut builder = BatchBuilder::new().compression(Compression::Lz4);
        (0..count).for_each(|number| builder.add(1, None, Some(&[number as u8])));
        stamped(builder, base)
    }

    fn stamped(builder: BatchBuilder, base: i64) -> Vec<u8> {
        let mut bytes = builder.build().expect("the codecs work");
        stamp(&mut bytes, Offset(base), LeaderEpoch(1));
        bytes
    }

    fn fetched(batches: &[Vec<u8>], aborted: &[(i64, i64)]) -> Fetched {
        Fetched {
            partition: 0,
            error_code: 0,
            high_watermark: 100,
            log_start_offset: 0,
            aborted: aborted.to_vec(),
            records: batches.concat(),
        }
    }

    fn read(reader: &mut PartitionReader, fetched: &Fetched, wanted: usize) -> Vec<i64> {
        let mut offsets = Vec::new();
        reader.take(fetched, |_, offset, _| {
            offsets.push(offset);
            offsets.len() < wanted
        });
        offsets
    }

    #[test]
    fn records_between_two_offsets_come_once() {
        let mut reader = PartitionReader::new(3, Some(11), false, false);
        let answer = fetched(&[batch(0, 5), batch(5, 5), batch(10, 5)], &[]);
        assert_eq!(read(&mut reader, &answer, 99), (3..11).collect::<Vec<_>>());
        assert!(reader.is_done());
        assert_eq!((reader.counts.records, reader.counts.problem_count), (8, 0));
        let mut few = PartitionReader::new(0, None, false, false);
        assert_eq!(read(&mut few, &answer, 2), [0, 1]);
        assert_eq!((few.counts.records, few.next_offset()), (2, 2));
    }

    #[test]
    fn a_batch_that_is_cut_waits_for_the_next_answer() {
        let mut reader = PartitionReader::new(0, None, false, false);
        let mut answer = fetched(&[batch(0, 5), batch(5, 5)], &[]);
        answer.records.truncate(answer.records.len() - 1);
        assert_eq!(read(&mut reader, &answer, 99), [0, 1, 2, 3, 4]);
        assert_eq!((reader.next_offset(), reader.counts.problem_count), (5, 0));
    }

    #[test]
    fn whatever_is_wrong_is_counted_and_named() {
        let flipped = |at: usize| {
            let mut bytes = batch(0, 3);
            bytes[at] ^= 1;
            bytes
        };
        let miscounted = {
            let mut bytes = batch(0, 3);
            bytes[crate::record::batch::LAST_OFFSET_DELTA_AT + 3] = 7;
            crate::record::batch::stamp_crc(&mut bytes);
            bytes
        };
        let cases = [
            ("crc", vec![flipped(70)], "wrong CRC"),
            ("a hole", vec![batch(0, 3), batch(4, 1)], "offsets 3 to 3 are missing"),
            ("again", vec![batch(0, 3), batch(0, 3)], "came again"),
            ("count", vec![miscounted], "3 records in a batch"),
            ("garbage", vec![vec![7; 40]], "no whole batch"),
        ];
        for (name, batches, words) in cases {
            let mut reader = PartitionReader::new(0, None, false, false);
            read(&mut reader, &fetched(&batches, &[]), 99);
            assert_eq!(reader.counts.problem_count, 1, "{name}: {:?}", reader.counts.problems);
            assert!(reader.counts.problems[0].contains(words), "{name}: {:?}", reader.counts.problems);
        }
        let mut compacted = PartitionReader::new(0, None, true, false);
        read(&mut compacted, &fetched(&[batch(0, 3), batch(9, 1)], &[]), 99);
        assert_eq!(compacted.counts.problem_count, 0);
    }

    #[test]
    fn aborted_records_are_hidden_up_to_their_marker() {
        let producer = |base: i64, bits: i16, key: Option<&[u8]>| {
            let mut builder = BatchBuilder::new().producer(ProducerId(7), 0, 0).attributes(TRANSACTIONAL_BIT | bits);
            builder.add(1, key, Some(b"v"));
            stamped(builder, base)
        };
        let marker = |base, kind: u8| producer(base, CONTROL_BIT, Some(&[0, 0, 0, kind]));
        let batches = [producer(0, 0, None), batch(1, 1), marker(2, 0), producer(3, 0, None), marker(4, 1)];
        for (read_committed, offsets) in [(true, vec![1, 3]), (false, vec![0, 1, 3])] {
            let mut reader = PartitionReader::new(0, Some(5), false, read_committed);
            assert_eq!(read(&mut reader, &fetched(&batches, &[(7, 0)]), 99), offsets, "{read_committed}");
            assert!(reader.is_done());
            assert_eq!(reader.counts.problem_count, 0, "{:?}", reader.counts.problems);
        }
    }
}
