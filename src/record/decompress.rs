//! Decompression in bounded memory, piece by piece, into the check of records.
//!
//! Memory for one batch: gzip 32 KiB and 1 MiB of output, snappy one block (at most `SNAPPY_BLOCK_BYTES_MAX`), lz4 one
//! block (at most 4 MiB, by its format), zstd the window that the frame asks for (at most 128 MiB, the default limit of
//! Kafka's own library; 2 MiB at the default level).

use std::io::Write;

use zstd::stream::raw::Operation;

use crate::record::batch_error::BatchError;
use crate::record::compression::Compression;
use crate::record::record_stream::RecordStream;
use crate::record::record_tally::{RecordSink, RecordTally};

/// The records of a compressed batch on their way into the check.
pub(in crate::record) struct Decompressor {
    codec: Codec,
    records: RecordStream,
}

enum Codec {
    Gzip(Box<flate2::write::MultiGzDecoder<Vec<u8>>>),
    Snappy(Snappy),
    Lz4(Lz4),
    Zstd { decoder: zstd::stream::raw::Decoder<'static>, output: Vec<u8>, frame_left: bool },
}

#[derive(Default)]
struct Snappy {
    framed: Option<bool>,
    output: Vec<u8>,
}

#[derive(Default)]
struct Lz4 {
    frame: Option<Lz4Frame>,
    ended: bool,
    output: Vec<u8>,
}

#[derive(Clone, Copy)]
struct Lz4Frame {
    block_bytes_max: usize,
    block_checksum: bool,
}

impl Decompressor {
    pub(in crate::record) fn new(codec: Compression) -> Result<Self, BatchError> {
        let codec = match codec {
            Compression::None => return Err(BatchError::Undecodable),
            Compression::Gzip => Codec::Gzip(Box::new(flate2::write::MultiGzDecoder::new(Vec::new()))),
            Compression::Snappy => Codec::Snappy(Snappy::default()),
            Compression::Lz4 => Codec::Lz4(Lz4::default()),
            Compression::Zstd => {
                let decoder = zstd::stream::raw::Decoder::new().map_err(|_| BatchError::Undecodable)?;
                Codec::Zstd { decoder, output: vec![0; ZSTD_OUTPUT_BYTES], frame_left: false }
            }
        };
        Ok(Self { codec, records: RecordStream::default() })
    }

    /// Decompresses one piece from the front of `bytes`, which is all the rest of the batch. Says how many bytes it
    /// took and how many it made; neither at the end of the stream.
    pub(in crate::record) fn step(
        &mut self,
        bytes: &[u8],
        sink: &mut impl RecordSink,
    ) -> Result<(usize, usize), BatchError> {
        match &mut self.codec {
            Codec::Gzip(decoder) => {
                let piece = &bytes[..bytes.len().min(GZIP_PIECE_BYTES)];
                decoder.write_all(piece).map_err(|_| BatchError::Undecodable)?;
                decoder.flush().map_err(|_| BatchError::Undecodable)?;
                let output = decoder.get_mut();
                let made_bytes = output.len();
                self.records.feed(output, sink)?;
                output.clear();
                Ok((piece.len(), made_bytes))
            }
            Codec::Snappy(snappy) => {
                let used_bytes = snappy.step(bytes).ok_or(BatchError::Undecodable)?;
                self.records.feed(&snappy.output, sink)?;
                Ok((used_bytes, snappy.output.len()))
            }
            Codec::Lz4(lz4) => {
                let used_bytes = lz4.step(bytes).ok_or(BatchError::Undecodable)?;
                self.records.feed(&lz4.output, sink)?;
                Ok((used_bytes, lz4.output.len()))
            }
            Codec::Zstd { decoder, output, frame_left } => {
                let status = decoder.run_on_buffers(bytes, output).map_err(|_| BatchError::Undecodable)?;
                if status.bytes_read > 0 || status.bytes_written > 0 {
                    *frame_left = status.remaining != 0;
                }
                self.records.feed(&output[..status.bytes_written], sink)?;
                Ok((status.bytes_read, status.bytes_written))
            }
        }
    }

    /// No bytes are left.
    pub(in crate::record) fn finish(&mut self, tally: &mut RecordTally) -> Result<(), BatchError> {
        match &mut self.codec {
            Codec::Gzip(decoder) => {
                decoder.try_finish().map_err(|_| BatchError::Undecodable)?;
                self.records.feed(decoder.get_ref(), tally)?;
            }
            Codec::Snappy(_) => {}
            Codec::Lz4(lz4) if lz4.ended => {}
            Codec::Zstd { frame_left: false, .. } => {}
            Codec::Lz4(_) | Codec::Zstd { .. } => return Err(BatchError::Undecodable),
        }
        self.records.finish(tally)
    }
}

impl Snappy {
    /// One block: framed as xerial's Java library does (a header, then blocks with their lengths), or all in one.
    fn step(&mut self, bytes: &[u8]) -> Option<usize> {
        self.output.clear();
        if bytes.is_empty() {
            return Some(0);
        }
        let framed = *self.framed.get_or_insert_with(|| is_xerial_header(bytes));
        if !framed {
            self.decode(bytes)?;
            return Some(bytes.len());
        }
        // The header may come again in the middle, where streams were put together.
        if is_xerial_header(bytes) {
            return Some(XERIAL_HEADER.len());
        }
        let (length, rest) = bytes.split_first_chunk::<4>()?;
        let len_bytes = usize::try_from(i32::from_be_bytes(*length)).ok()?;
        self.decode(rest.get(..len_bytes)?)?;
        Some(length.len() + len_bytes)
    }

    fn decode(&mut self, block: &[u8]) -> Option<()> {
        // What a block claims is believed only as far as the format can keep it: 3 bytes make 64 at most.
        let len_bytes = snap::raw::decompress_len(block).ok()?;
        if len_bytes > SNAPPY_BLOCK_BYTES_MAX || len_bytes / 64 > block.len() / 2 {
            return None;
        }
        self.output.resize(len_bytes, 0);
        let made_bytes = snap::raw::Decoder::new().decompress(block, &mut self.output).ok()?;
        self.output.truncate(made_bytes);
        Some(())
    }
}

impl Lz4 {
    /// The frame's header or one block. Kafka takes frames with independent blocks only, and one of them.
    fn step(&mut self, bytes: &[u8]) -> Option<usize> {
        self.output.clear();
        if self.ended || bytes.is_empty() {
            return Some(bytes.len());
        }
        let Some(frame) = self.frame else {
            let (frame, used_bytes) = Lz4Frame::parse(bytes)?;
            self.frame = Some(frame);
            return Some(used_bytes);
        };
        let (length, rest) = bytes.split_first_chunk::<4>()?;
        let length = u32::from_le_bytes(*length);
        let (plain, len_bytes) = (length & LZ4_PLAIN_BIT != 0, (length & !LZ4_PLAIN_BIT) as usize);
        if len_bytes == 0 {
            // The end. A checksum of the whole may follow; Kafka does not look at it.
            self.ended = true;
            return Some(bytes.len());
        }
        if len_bytes > frame.block_bytes_max {
            return None;
        }
        let block = rest.get(..len_bytes)?;
        let mut used_bytes = 4 + len_bytes;
        if frame.block_checksum {
            let checksum = rest.get(len_bytes..)?.first_chunk::<4>()?;
            if u32::from_le_bytes(*checksum) != twox_hash::XxHash32::oneshot(0, block) {
                return None;
            }
            used_bytes += 4;
        }
        if plain {
            self.output.extend_from_slice(block);
        } else {
            self.output.resize(frame.block_bytes_max, 0);
            let made_bytes = lz4_flex::block::decompress_into(block, &mut self.output).ok()?;
            self.output.truncate(made_bytes);
        }
        Some(used_bytes)
    }
}

impl Lz4Frame {
    fn parse(bytes: &[u8]) -> Option<(Self, usize)> {
        let (magic, rest) = bytes.split_first_chunk::<4>()?;
        if u32::from_le_bytes(*magic) != LZ4_MAGIC {
            return None;
        }
        let flags = *rest.first()?;
        let block_size = *rest.get(1)?;
        let (version, independent, reserved) = (flags >> 6, flags & 0x20 != 0, flags & 0x03);
        if version != 1 || !independent || reserved != 0 || block_size & 0x8f != 0 {
            return None;
        }
        let block_bytes_max = match block_size >> 4 {
            size @ 4..=7 => 1_usize << (8 + 2 * size),
            _ => return None,
        };
        let has_content_size = flags & 0x08 != 0;
        let descriptor_bytes = if has_content_size { 10 } else { 2 };
        let descriptor = rest.get(..descriptor_bytes)?;
        let checksum = *rest.get(descriptor_bytes)?;
        if checksum != (twox_hash::XxHash32::oneshot(0, descriptor) >> 8) as u8 {
            return None;
        }
        let block_checksum = flags & 0x10 != 0;
        Some((Self { block_bytes_max, block_checksum }, 4 + descriptor_bytes + 1))
    }
}

fn is_xerial_header(bytes: &[u8]) -> bool {
    bytes.len() >= XERIAL_HEADER.len() && bytes.starts_with(&XERIAL_HEADER[..8])
}

/// Begins a stream of xerial's snappy: a magic, version 1, readable by version 1.
pub(in crate::record) const XERIAL_HEADER: [u8; 16] = *b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01";
/// Compressed bytes at once; 1 KiB makes 1 MiB at most.
const GZIP_PIECE_BYTES: usize = 1024;
const ZSTD_OUTPUT_BYTES: usize = 128 * 1024;
/// A larger block is refused; the Java client's are 32 KiB, and raw ones are as long as the batch.
const SNAPPY_BLOCK_BYTES_MAX: usize = 64 << 20;
const LZ4_MAGIC: u32 = 0x184d_2204;
const LZ4_PLAIN_BIT: u32 = 1 << 31;
