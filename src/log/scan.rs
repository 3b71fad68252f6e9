//! A walk over the bytes of a segment: which batches are whole, and where it stops being a log.

use crate::record::batch::{BatchHeader, CRC_COVERS_FROM, Crc32c, HEADER_BYTES, parse_header};
use crate::record::offset::Offset;

/// Takes the bytes of a segment in pieces and checks batch after batch, in memory of one header.
pub struct SegmentScan {
    /// Length of the file.
    file_bytes: u64,
    /// Where the current batch begins: all before is whole.
    valid_bytes: u64,
    /// Offsets go on from here.
    next_offset: Offset,
    /// The segment cannot hold offsets from here on.
    last_offset_max: Offset,
    checks_crc: bool,
    batch: Batch,
    damage: Option<Damage>,
}

// One lives at a time, in the scan; a box would cost an allocation a batch.
#[allow(clippy::large_enum_variant)]
enum Batch {
    /// Bytes of a header.
    Head { bytes: [u8; HEADER_BYTES], filled: usize },
    /// Bytes of the records.
    Body { header: BatchHeader, crc: Crc32c, left_bytes: u64 },
}

/// Why a segment ends before its file does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// No header, or one that cannot be.
    Header,
    /// The batch is longer than the rest of the file.
    Cut,
    /// The records are not those that were written.
    Crc,
    /// The offsets go back, or out of the segment.
    Offsets,
}

/// What a scan found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanEnd {
    /// The segment is a log up to here.
    pub valid_bytes: u64,
    /// The offset after its last whole batch.
    pub next_offset: Offset,
    /// Why it ends there, if the file is longer.
    pub damage: Option<Damage>,
}

impl SegmentScan {
    /// A scan of a segment with base offset `base` from `position_bytes`, where a batch begins that holds `next_offset`
    /// or later ones. Without `checks_crc` only headers are looked at.
    pub fn new(base: Offset, position_bytes: u64, next_offset: Offset, file_bytes: u64, checks_crc: bool) -> Self {
        assert!(position_bytes <= file_bytes, "scan from {position_bytes} of {file_bytes} bytes");
        assert!(base <= next_offset, "scan from offset {next_offset} in segment {base}");
        Self {
            file_bytes,
            valid_bytes: position_bytes,
            next_offset,
            last_offset_max: base.plus(i64::from(i32::MAX)),
            checks_crc,
            batch: Batch::EMPTY,
            damage: None,
        }
    }

    /// Takes the next bytes. `each` gets the position and header of each batch that is whole. False: enough, the rest
    /// need not be read.
    pub fn feed(&mut self, mut bytes: &[u8], mut each: impl FnMut(u64, &BatchHeader)) -> bool {
        while self.damage.is_none() && !bytes.is_empty() {
            match &mut self.batch {
                Batch::Head { bytes: head, filled } => {
                    let taken = bytes.len().min(HEADER_BYTES - *filled);
                    head[*filled..*filled + taken].copy_from_slice(&bytes[..taken]);
                    *filled += taken;
                    bytes = &bytes[taken..];
                    if *filled == HEADER_BYTES {
                        let head = *head;
                        self.begin(&head);
                    }
                }
                Batch::Body { crc, left_bytes, .. } => {
                    let taken = usize::try_from(*left_bytes).unwrap_or(usize::MAX).min(bytes.len());
                    if self.checks_crc {
                        crc.update(&bytes[..taken]);
                    }
                    *left_bytes -= taken as u64;
                    bytes = &bytes[taken..];
                }
            }
            if let Batch::Body { header, crc, left_bytes: 0 } = &self.batch {
                if self.checks_crc && crc.value() != header.crc {
                    self.damage = Some(Damage::Crc);
                    break;
                }
                each(self.valid_bytes, header);
                self.valid_bytes += u64::from(header.len_bytes);
                self.next_offset = header.last_offset().plus(1);
                self.batch = Batch::EMPTY;
            }
        }
        self.damage.is_none()
    }

    /// The offset after the last whole batch so far.
    pub fn next_offset(&self) -> Offset {
        self.next_offset
    }

    fn begin(&mut self, head: &[u8; HEADER_BYTES]) {
        let Ok(header) = parse_header(head) else {
            self.damage = Some(Damage::Header);
            return;
        };
        if u64::from(header.len_bytes) > self.file_bytes - self.valid_bytes {
            self.damage = Some(Damage::Cut);
        } else if header.last_offset_delta < 0
            || header.base_offset < self.next_offset
            || header.last_offset() > self.last_offset_max
        {
            self.damage = Some(Damage::Offsets);
        } else {
            let mut crc = Crc32c::new();
            crc.update(&head[CRC_COVERS_FROM..]);
            let left_bytes = u64::from(header.len_bytes) - HEADER_BYTES as u64;
            self.batch = Batch::Body { header, crc, left_bytes };
        }
    }

    /// All bytes were fed, or a feed said that it is enough.
    pub fn finish(self) -> ScanEnd {
        let cut = (self.valid_bytes < self.file_bytes).then_some(Damage::Cut);
        ScanEnd { valid_bytes: self.valid_bytes, next_offset: self.next_offset, damage: self.damage.or(cut) }
    }
}

impl Batch {
    const EMPTY: Self = Self::Head { bytes: [0; HEADER_BYTES], filled: 0 };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::builder::BatchBuilder;

    fn three_batches() -> Vec<Vec<u8>> {
        [0_i64, 2, 5]
            .into_iter()
            .map(|base| {
                let mut builder = BatchBuilder::new();
                for number in 0..2 {
                    builder.add(1000 + number, Some(b"key"), Some(&[7; 40]));
                }
                let mut batch = builder.build().expect("uncompressed batches can be built");
                crate::record::batch::stamp(&mut batch, Offset(base), crate::record::offset::LeaderEpoch(3));
                batch
            })
            .collect()
    }

    fn scan(bytes: &[u8], piece: usize, checks_crc: bool) -> (ScanEnd, Vec<(u64, i64)>) {
        let mut scan = SegmentScan::new(Offset(0), 0, Offset(0), bytes.len() as u64, checks_crc);
        let mut seen = Vec::new();
        for piece in bytes.chunks(piece) {
            if !scan.feed(piece, |position, header| seen.push((position, header.base_offset.0))) {
                break;
            }
        }
        (scan.finish(), seen)
    }

    /// C050: whatever the last write left, whole batches stay and the rest goes.
    #[test]
    fn c050_a_tail_cut_anywhere_leaves_the_whole_batches() {
        let batches = three_batches();
        let whole = batches.concat();
        let ends: Vec<usize> = batches
            .iter()
            .scan(0, |end, batch| {
                *end += batch.len();
                Some(*end)
            })
            .collect();
        for cut in 0..=whole.len() {
            let kept = ends.iter().filter(|end| **end <= cut).count();
            for piece in [1, 7, 61, 1 << 20] {
                let (end, seen) = scan(&whole[..cut], piece, true);
                let valid = kept.checked_sub(1).map_or(0, |at| ends[at]);
                assert_eq!(end.valid_bytes, valid as u64, "cut at {cut}, pieces of {piece}");
                assert_eq!(end.next_offset, Offset([0, 2, 4, 7][kept]), "cut at {cut}, pieces of {piece}");
                assert_eq!(end.damage.is_some(), cut != valid, "cut at {cut}, pieces of {piece}");
                assert_eq!(seen.len(), kept, "cut at {cut}, pieces of {piece}");
            }
        }
    }

    #[test]
    fn each_flipped_bit_ends_the_log_before_its_batch() {
        let batches = three_batches();
        let whole = batches.concat();
        let second = batches[0].len();
        // Bits that no CRC covers: base offset and leader epoch; a flip there may pass, or go back.
        for at in second..second + batches[1].len() {
            let within = at - second;
            let covered = within >= CRC_COVERS_FROM || (16..21).contains(&within);
            if !covered {
                continue;
            }
            for bit in 0..8 {
                let mut bytes = whole.clone();
                bytes[at] ^= 1 << bit;
                let (end, _) = scan(&bytes, 4096, true);
                assert_eq!(end.valid_bytes, second as u64, "bit {bit} of byte {at}");
                assert!(end.damage.is_some(), "bit {bit} of byte {at}");
            }
        }
    }

    #[test]
    fn zeros_and_offsets_that_go_back_are_no_log() {
        let batches = three_batches();
        let mut zeros = batches[0].clone();
        zeros.resize(zeros.len() + 4096, 0);
        assert_eq!(scan(&zeros, 512, false).0.damage, Some(Damage::Header));
        let twice = [batches[0].clone(), batches[0].clone()].concat();
        let (end, _) = scan(&twice, 512, true);
        assert_eq!((end.valid_bytes, end.damage), (batches[0].len() as u64, Some(Damage::Offsets)));
    }
}
