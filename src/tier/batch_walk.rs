//! The batches of a segment as it goes by in pieces: each one's bounds, CRC and offsets are checked.

use crate::record::batch::{BatchHeader, CRC_COVERS_FROM, Crc32c, HEADER_BYTES, parse_header};
use crate::record::offset::{Offset, TimestampMs};
use crate::tier::error::BatchDamage;

/// A check of a whole segment, fed in pieces of any length. Holds one header at most.
pub struct BatchWalk {
    next_offset: Offset,
    max_timestamp: TimestampMs,
    position_bytes: u64,
    /// The beginning of a batch that is not whole yet: its header, where it is shorter than one.
    head: Vec<u8>,
    batch: Option<Batch>,
}

struct Batch {
    left_bytes: u64,
    crc: u32,
    running: Crc32c,
    position_bytes: u64,
}

impl BatchWalk {
    /// Of a segment whose first batch is at or after `base_offset`.
    #[must_use]
    pub fn new(base_offset: Offset) -> Self {
        Self {
            next_offset: base_offset,
            max_timestamp: TimestampMs::NONE,
            position_bytes: 0,
            head: Vec::with_capacity(HEADER_BYTES),
            batch: None,
        }
    }

    /// Takes the next bytes in; `each` is told of every batch: where it begins, and its header.
    ///
    /// # Errors
    /// The first batch that is not what it says.
    pub fn feed(&mut self, mut bytes: &[u8], mut each: impl FnMut(u64, &BatchHeader)) -> Result<(), BatchDamage> {
        while !bytes.is_empty() {
            if let Some(batch) = &mut self.batch {
                let count = usize::try_from(batch.left_bytes).unwrap_or(usize::MAX).min(bytes.len());
                let (now, later) = bytes.split_at(count);
                batch.running.update(now);
                batch.left_bytes -= count as u64;
                self.position_bytes += count as u64;
                bytes = later;
                if batch.left_bytes == 0 {
                    if batch.running.value() != batch.crc {
                        return Err(BatchDamage { position_bytes: batch.position_bytes, what: "its CRC is wrong" });
                    }
                    self.batch = None;
                }
                continue;
            }
            let count = (HEADER_BYTES - self.head.len()).min(bytes.len());
            let (now, later) = bytes.split_at(count);
            self.head.extend_from_slice(now);
            self.position_bytes += count as u64;
            bytes = later;
            if self.head.len() == HEADER_BYTES {
                self.begin_batch(&mut each)?;
            }
        }
        Ok(())
    }

    fn begin_batch(&mut self, each: &mut impl FnMut(u64, &BatchHeader)) -> Result<(), BatchDamage> {
        let position_bytes = self.position_bytes - HEADER_BYTES as u64;
        let damage = |what| BatchDamage { position_bytes, what };
        let header = parse_header(&self.head).map_err(|_| damage("it has no header"))?;
        if header.base_offset < self.next_offset || header.last_offset_delta < 0 {
            return Err(damage("its offsets do not follow"));
        }
        each(position_bytes, &header);
        self.next_offset = header.last_offset().plus(1);
        self.max_timestamp = self.max_timestamp.max(header.max_timestamp);
        let mut running = Crc32c::new();
        running.update(self.head.get(CRC_COVERS_FROM..).unwrap_or_default());
        self.head.clear();
        let left_bytes = u64::from(header.len_bytes).saturating_sub(HEADER_BYTES as u64);
        if left_bytes > 0 {
            self.batch = Some(Batch { left_bytes, crc: header.crc, running, position_bytes });
        } else if running.value() != header.crc {
            return Err(damage("its CRC is wrong"));
        }
        Ok(())
    }

    /// All was fed. Says the offset after the last record, and the largest timestamp.
    ///
    /// # Errors
    /// Where the last batch is not whole.
    pub fn finish(&self) -> Result<(Offset, TimestampMs), BatchDamage> {
        let position_bytes = match &self.batch {
            Some(batch) => batch.position_bytes,
            None if self.head.is_empty() => return Ok((self.next_offset, self.max_timestamp)),
            None => self.position_bytes - self.head.len() as u64,
        };
        Err(BatchDamage { position_bytes, what: "it is cut short" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::batch::stamp;
    use crate::record::builder::BatchBuilder;
    use crate::record::offset::LeaderEpoch;

    fn segment(batches: &[(i64, i64)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (base_offset, timestamp) in batches {
            let mut builder = BatchBuilder::new();
            builder.add(*timestamp, None, Some(b"some value"));
            let mut batch = builder.build().expect("in memory");
            stamp(&mut batch, Offset(*base_offset), LeaderEpoch(0));
            bytes.extend_from_slice(&batch);
        }
        bytes
    }

    fn walk(bytes: &[u8], piece_bytes: usize) -> Result<(Offset, TimestampMs), BatchDamage> {
        let mut walk = BatchWalk::new(Offset(5));
        for piece in bytes.chunks(piece_bytes) {
            walk.feed(piece, |_, _| {})?;
        }
        walk.finish()
    }

    #[test]
    fn pieces_of_any_length_come_to_the_same() {
        let bytes = segment(&[(5, 10), (6, 30), (9, 20)]);
        for piece_bytes in 1..=bytes.len() {
            assert_eq!(walk(&bytes, piece_bytes), Ok((Offset(10), TimestampMs(30))), "{piece_bytes}");
        }
    }

    #[test]
    fn every_flipped_bit_that_counts_is_seen() {
        let good = segment(&[(5, 10), (6, 30)]);
        let len_bytes = good.len() / 2;
        for at in 0..good.len() {
            let mut bytes = good.clone();
            bytes[at] ^= 0x40;
            // Base offset, leader epoch: outside the CRC, and legal where offsets rise.
            let is_free = matches!(at % len_bytes, 0..8 | 12..16);
            assert!(is_free || walk(&bytes, 7).is_err(), "byte {at}");
        }
        assert!(walk(&good[..good.len() - 1], 64).is_err());
        assert!(walk(&segment(&[(6, 1), (5, 1)]), 64).is_err(), "offsets go back");
        assert!(walk(&segment(&[(4, 1)]), 64).is_err(), "below the segment");
    }
}
