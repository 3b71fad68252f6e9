//! Compression of a batch's records, piece by piece, as the Java client writes each codec.
//!
//! Memory for one batch, besides its output: gzip 300 KiB, snappy and lz4 two blocks (32 and 64 KiB), zstd its window and
//! tables, which `ZSTD_WINDOW_LOG_MAX` bounds at the levels where they would grow without a bound of use.

use std::io::{self, Write};

use crate::record::compression::Compression;
use crate::record::decompress::{LZ4_MAGIC, LZ4_PLAIN_BIT, XERIAL_HEADER};

/// A codec and how hard it tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Codec {
    /// The codec.
    pub compression: Compression,
    /// Kafka's `compression.gzip.level`, `.lz4.level` or `.zstd.level`; the others have none.
    pub level: i32,
}

impl Codec {
    /// At the level that Kafka's clients take by themselves.
    pub fn new(compression: Compression) -> Self {
        let level = match compression {
            Compression::None | Compression::Snappy => 0,
            Compression::Gzip => GZIP_LEVEL_DEFAULT,
            Compression::Lz4 => LZ4_LEVEL_DEFAULT,
            Compression::Zstd => zstd::DEFAULT_COMPRESSION_LEVEL,
        };
        Self { compression, level }
    }
}

/// Takes records and gathers them compressed.
pub(in crate::record) struct Compressor {
    encoder: Encoder,
}

enum Encoder {
    Plain(Vec<u8>),
    Gzip(Box<flate2::write::GzEncoder<Vec<u8>>>),
    Snappy { block: Vec<u8>, output: Vec<u8> },
    Lz4 { block: Vec<u8>, output: Vec<u8>, level: i32, scratch: Vec<u8> },
    Zstd(Box<zstd::stream::write::Encoder<'static, Vec<u8>>>),
}

impl Compressor {
    /// What is compressed goes to the end of `output`. `len_bytes_guess`: how much there will be to compress, about.
    ///
    /// # Errors
    /// Where a library refuses the level, or has no memory.
    pub(in crate::record) fn new(codec: Codec, mut output: Vec<u8>, len_bytes_guess: u64) -> io::Result<Self> {
        let encoder = match codec.compression {
            Compression::None => Encoder::Plain(output),
            Compression::Gzip => {
                let level = u32::try_from(codec.level).map_or(flate2::Compression::default(), flate2::Compression::new);
                Encoder::Gzip(Box::new(flate2::write::GzEncoder::new(output, level)))
            }
            Compression::Snappy => {
                output.extend_from_slice(&XERIAL_HEADER);
                Encoder::Snappy { block: Vec::new(), output }
            }
            Compression::Lz4 => {
                output.extend_from_slice(&LZ4_MAGIC.to_le_bytes());
                let descriptor = [LZ4_INDEPENDENT_BLOCKS, LZ4_BLOCKS_OF_64_KIB];
                output.extend_from_slice(&descriptor);
                output.push((twox_hash::XxHash32::oneshot(0, &descriptor) >> 8) as u8);
                Encoder::Lz4 { block: Vec::new(), output, level: codec.level, scratch: Vec::new() }
            }
            Compression::Zstd => {
                let mut encoder = zstd::stream::write::Encoder::new(output, codec.level)?;
                // The library sizes its tables by the window, and the window by the level alone.
                let window_log = (64 - len_bytes_guess.leading_zeros()).clamp(ZSTD_WINDOW_LOG_MIN, ZSTD_WINDOW_LOG_MAX);
                if window_log < ZSTD_WINDOW_LOG_FASTEST || codec.level > ZSTD_LEVEL_THRIFTY_MAX {
                    encoder.window_log(window_log)?;
                }
                Encoder::Zstd(Box::new(encoder))
            }
        };
        Ok(Self { encoder })
    }

    /// Bytes of the output so far, with what was there before.
    pub(in crate::record) fn len_bytes(&self) -> usize {
        match &self.encoder {
            Encoder::Plain(output) | Encoder::Snappy { output, .. } | Encoder::Lz4 { output, .. } => output.len(),
            Encoder::Gzip(encoder) => encoder.get_ref().len(),
            Encoder::Zstd(encoder) => encoder.get_ref().len(),
        }
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    /// Where a library fails.
    pub(in crate::record) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.encoder {
            Encoder::Plain(output) => output.extend_from_slice(bytes),
            Encoder::Gzip(encoder) => encoder.write_all(bytes)?,
            Encoder::Zstd(encoder) => encoder.write_all(bytes)?,
            Encoder::Snappy { block, output } => {
                in_blocks(block, bytes, XERIAL_BLOCK_BYTES, |block| snappy_block(block, output))?;
            }
            Encoder::Lz4 { block, output, level, scratch } => {
                in_blocks(block, bytes, LZ4_BLOCK_BYTES, |block| lz4_block(block, *level, scratch, output))?;
            }
        }
        Ok(())
    }

    /// The whole output.
    ///
    /// # Errors
    /// Where a library fails.
    pub(in crate::record) fn finish(self) -> io::Result<Vec<u8>> {
        match self.encoder {
            Encoder::Plain(output) => Ok(output),
            Encoder::Gzip(encoder) => encoder.finish(),
            Encoder::Zstd(encoder) => encoder.finish(),
            Encoder::Snappy { block, mut output } => {
                snappy_block(&block, &mut output)?;
                Ok(output)
            }
            Encoder::Lz4 { block, mut output, level, mut scratch } => {
                lz4_block(&block, level, &mut scratch, &mut output)?;
                output.extend_from_slice(&LZ4_END);
                Ok(output)
            }
        }
    }
}

/// Gathers `bytes` in `block`, and hands each full one on.
fn in_blocks(
    block: &mut Vec<u8>,
    mut bytes: &[u8],
    block_bytes: usize,
    mut full: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    while block.len() + bytes.len() > block_bytes {
        let (now, later) = bytes.split_at(block_bytes - block.len());
        block.extend_from_slice(now);
        full(block)?;
        block.clear();
        bytes = later;
    }
    block.extend_from_slice(bytes);
    Ok(())
}

fn snappy_block(block: &[u8], output: &mut Vec<u8>) -> io::Result<()> {
    if block.is_empty() {
        return Ok(());
    }
    let compressed = snap::raw::Encoder::new().compress_vec(block).map_err(io::Error::other)?;
    output.extend_from_slice(&(compressed.len() as u32).to_be_bytes());
    output.extend_from_slice(&compressed);
    Ok(())
}

fn lz4_block(block: &[u8], level: i32, scratch: &mut Vec<u8>, output: &mut Vec<u8>) -> io::Result<()> {
    if block.is_empty() {
        return Ok(());
    }
    scratch.resize(lz4_flex::block::get_maximum_output_size(block.len()), 0);
    let len_bytes = match level {
        // As in Kafka: its default level is the fast compressor, any other the one that tries harder.
        LZ4_LEVEL_DEFAULT => lz4_flex::block::compress_into(block, scratch).map_err(io::Error::other)?,
        level => lz4::block::compress_to_buffer(
            block,
            Some(lz4::block::CompressionMode::HIGHCOMPRESSION(level)),
            false,
            scratch,
        )?,
    };
    // What does not get smaller is kept as it is.
    let (length, bytes) = match scratch.get(..len_bytes) {
        Some(compressed) if len_bytes < block.len() => (compressed.len() as u32, compressed),
        _ => (block.len() as u32 | LZ4_PLAIN_BIT, block),
    };
    output.extend_from_slice(&length.to_le_bytes());
    output.extend_from_slice(bytes);
    Ok(())
}

/// zlib's own choice, which is 6.
const GZIP_LEVEL_DEFAULT: i32 = -1;
/// Kafka's `compression.lz4.level` where nobody sets it.
const LZ4_LEVEL_DEFAULT: i32 = 9;
/// The Java client's block size.
const XERIAL_BLOCK_BYTES: usize = 32 * 1024;
const LZ4_BLOCK_BYTES: usize = 64 * 1024;
/// Version 1, independent blocks, no checksums of blocks or content.
const LZ4_INDEPENDENT_BLOCKS: u8 = 0x60;
const LZ4_BLOCKS_OF_64_KIB: u8 = 0x40;
const LZ4_END: [u8; 4] = [0; 4];
/// The library takes no smaller one.
const ZSTD_WINDOW_LOG_MIN: u32 = 10;
/// Below this no level's own window lies: a smaller one only saves memory.
const ZSTD_WINDOW_LOG_FASTEST: u32 = 19;
/// 8 MiB, the window of level 19: what every reader takes.
const ZSTD_WINDOW_LOG_MAX: u32 = 23;
/// Up to this level a compressor has at most some 50 MiB; above, the window is fitted to the batch.
const ZSTD_LEVEL_THRIFTY_MAX: i32 = 15;
