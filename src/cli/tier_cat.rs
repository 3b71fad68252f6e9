//! `alluvium tier cat`: the records of one file of the tier, with no server.

use std::io::{self, BufWriter, Write};

use super::record_format::{Placed, RecordPrinter};
use super::tier::{TierCommandError, open_store};
use super::tier_args::TierCatArgs;
use crate::record::batch::{HEADER_BYTES, parse_header};
use crate::record::offset::PartitionId;
use crate::record::record_reader::{check_crc, read_records};
use crate::ring::io::Io;
use crate::tier::segment_file::Section;
use crate::tier::store::parse_partition_folder;
use crate::tier::survey::SegmentReader;
use crate::tier::tier_url::TierUrl;

/// Why the records of a file cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum CatError {
    /// Not the place of a file.
    #[error(
        "{file:?} is no file of a tier: write file:///base/topic-0-ID/SEGMENT, hdfs://namenode/base/topic-0-ID/SEGMENT, or a path"
    )]
    Place {
        /// As it was given.
        file: String,
    },
    /// What it holds cannot be read.
    #[error("{file}: {what}")]
    Unreadable {
        /// As it was given.
        file: String,
        /// What is wrong.
        what: String,
    },
}

/// Prints them.
pub(in crate::cli) async fn cat(io: Io, args: TierCatArgs) -> Result<(), TierCommandError> {
    let unreadable = |what: String| CatError::Unreadable { file: args.file.clone(), what };
    let (url, folder, name) = place_of(&args.file)?;
    let store = open_store(&io, &url, &args.hdfs)?;
    let (topic, id) = parse_partition_folder(&folder).map_or((folder.as_str(), None), |(topic, id)| (topic, Some(id)));
    let partition = id.map_or(0, |id: PartitionId| id.partition);
    let reader = SegmentReader::open(&io, &store, &name).await.map_err(|error| unreadable(error.to_string()))?;
    let log_bytes = reader.header().section_bytes(Section::Log);
    let printer =
        RecordPrinter::of(args.format, args.key_separator.clone(), args.null_value.clone(), args.template.clone());
    let mut out = BufWriter::new(io::stdout());
    let (mut position_bytes, mut left) = (0_u64, args.count.unwrap_or(u64::MAX));
    while position_bytes < log_bytes && left > 0 {
        let at = |what: &str| unreadable(format!("the batch at {position_bytes} of its records: {what}"));
        let head = reader.range(Section::Log, position_bytes, HEADER_BYTES).await;
        let head = head.map_err(|error| unreadable(error.to_string()))?;
        let header = parse_header(&head).map_err(|error| at(&error.to_string()))?;
        let end_bytes = position_bytes + u64::from(header.len_bytes);
        if end_bytes > log_bytes {
            return Err(at("it is cut short").into());
        }
        let is_wanted = args.offset.is_none_or(|offset| header.last_offset().0 >= offset);
        if is_wanted && !header.attributes.is_control() {
            let batch = reader.range(Section::Log, position_bytes, header.len_bytes as usize).await;
            let batch = batch.map_err(|error| unreadable(error.to_string()))?;
            check_crc(&batch).map_err(|error| at(&error.to_string()))?;
            let mut printed = Ok(());
            let end = read_records(&batch, RECORD_BYTES_MAX, |record| {
                let offset = header.base_offset.0.saturating_add(i64::from(record.offset_delta));
                if left == 0 || printed.is_err() || args.offset.is_some_and(|from| offset < from) {
                    return;
                }
                let log_append_time = header.attributes.is_log_append_time();
                let created_ms = header.base_timestamp.0.wrapping_add(record.timestamp_delta_ms);
                let timestamp_ms = if log_append_time { header.max_timestamp.0 } else { created_ms };
                let placed = Placed { topic, partition, offset, timestamp_ms, log_append_time, record };
                printed = printer.print(&placed, &mut out);
                left -= 1;
            });
            end.map_err(|error| at(&error.to_string()))?;
            match printed {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
                printed => printed?,
            }
        }
        position_bytes = end_bytes;
    }
    match out.flush() {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        flushed => Ok(flushed?),
    }
}

/// The folder as a store of its own, the folder's name, the file's name.
fn place_of(file: &str) -> Result<(TierUrl, String, String), CatError> {
    let refused = || CatError::Place { file: file.to_owned() };
    let url = if file.contains("://") {
        file.to_owned()
    } else {
        let path = std::path::absolute(file).map_err(|_| refused())?;
        format!("file://{}", path.display())
    };
    let (folder_url, name) = url.rsplit_once('/').ok_or_else(refused)?;
    let (_, folder) = folder_url.rsplit_once('/').ok_or_else(refused)?;
    let parsed = folder_url.parse().map_err(|_| refused())?;
    if name.is_empty() { Err(refused()) } else { Ok((parsed, folder.to_owned(), name.to_owned())) }
}

const RECORD_BYTES_MAX: usize = 256 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_as_the_store_names_it() {
        let (url, folder, name) = place_of("hdfs://nn:8020/base/t-0-abc/-seg").expect("a place");
        assert_eq!(
            (url.to_string(), folder.as_str(), name.as_str()),
            ("hdfs://nn:8020/base/t-0-abc".to_owned(), "t-0-abc", "-seg")
        );
        let (url, folder, name) = place_of("/mnt/tier/t-0-abc/seg").expect("a place");
        assert_eq!(
            (url.to_string(), folder.as_str(), name.as_str()),
            ("file:///mnt/tier/t-0-abc".to_owned(), "t-0-abc", "seg")
        );
        for file in ["s3://bucket/x/y", "hdfs://nn/file", "file:///x/"] {
            assert!(place_of(file).is_err(), "{file}");
        }
    }
}
