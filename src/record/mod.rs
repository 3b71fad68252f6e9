//! Record batch v2 in place: bounds, checks, CRC-32C, stamping.

pub mod batch;
pub mod batch_error;
pub mod builder;
pub mod check;
pub mod compression;
pub mod compressor;
pub mod control;
pub mod coordination;
pub mod decompress;
pub mod keyed_record;
pub mod name_pattern;
pub mod offset;
pub mod rebuild;
pub mod recompress;
pub mod record_fields;
pub mod record_reader;
pub mod record_search;
mod record_stream;
pub mod record_tally;
pub mod record_walk;
pub mod sole_batch;
pub mod unpack;
