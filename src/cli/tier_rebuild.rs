//! `alluvium tier restore --metadata-only`: a stopped server whose partitions lost what they knew of the tier.

use std::path::{Path, PathBuf};

use super::output;
use super::restore_files::RestoreError;
use super::restore_source::{self, RestoreSource, TieredPartition, Wanted};
use super::tier::{TierCommandError, open_store};
use super::tier_args::TierRestoreArgs;
use crate::log::layout::{PartitionFile, PartitionFolder, REMOTE_SEGMENTS};
use crate::log::partition_metadata;
use crate::record::offset::{Offset, PartitionId, TopicId};
use crate::ring::dir_lock::DirLock;
use crate::ring::io::{Io, read_file};
use crate::server::data_dir::{self, LOCK_FILE};
use crate::tier::error::OwnerError;
use crate::tier::metadata_file::MetadataHeader;
use crate::tier::metadata_image;
use crate::tier::owner;

/// Writes `remote-segments` of each partition that is here, has records in the tier, and has no such file. All else stays.
pub(in crate::cli) async fn rebuild(io: Io, args: TierRestoreArgs) -> Result<(), TierCommandError> {
    let default = [PathBuf::from("./data")];
    let paths = if args.data_dirs.is_empty() { &default[..] } else { &args.data_dirs[..] };
    let store = open_store(&io, &args.from, &args.hdfs)?;
    let found = owner::find(&io, &store).await?.unwrap_or_default();
    let mut locks = Vec::new();
    for path in paths {
        locks.push(DirLock::take(path, LOCK_FILE).map_err(RestoreError::from)?);
        let expected = data_dir::cluster_of(&io, path).await.map_err(RestoreError::from)?.unwrap_or_default();
        if expected != found {
            return Err(OwnerError::Other { url: store.url(), found, expected }.into());
        }
    }
    let wanted = Wanted { topics: args.topics.clone(), is_slow: args.slow };
    let source = restore_source::gather(&io, &store, &wanted, |_| {}).await?;
    let mut lines = source.notes.clone();
    let mut rebuilt = 0;
    for path in paths {
        let at = |source| RestoreError::Io { path: path.clone(), source };
        for entry in io.read_dir(path).await.map_err(at)?.into_iter().filter(|entry| entry.is_dir) {
            let folder = path.join(&entry.name);
            let Some((id, partition)) = partition_of(&io, &folder, &entry.name, &source).await else { continue };
            match rebuild_partition(&io, &folder, id, partition, store.url()).await? {
                Rebuilt::Has => lines.push(format!("{}: has its own {REMOTE_SEGMENTS}: left as it is", entry.name)),
                Rebuilt::Apart => {
                    let end = partition.end();
                    lines.push(format!(
                        "{}: the tier ends at {end}, before its first record here: left as it is",
                        entry.name
                    ));
                }
                Rebuilt::Written => {
                    rebuilt += 1;
                    let (count, end) = (partition.segments.len(), partition.end().plus(-1));
                    lines.push(format!("{}: {count} segments, up to offset {end}", entry.name));
                }
            }
        }
    }
    lines.push(format!("{rebuilt} partitions know their segments in the tier again"));
    output::print_lines(lines.iter().map(String::as_str));
    Ok(())
}

/// What was done with a partition.
enum Rebuilt {
    /// It has the file.
    Has,
    /// The tier ends before its first record here: the log begins here.
    Apart,
    /// It has it again.
    Written,
}

async fn rebuild_partition(
    io: &Io,
    folder: &Path,
    id: PartitionId,
    partition: &TieredPartition,
    store_url: String,
) -> Result<Rebuilt, RestoreError> {
    let at = |source| RestoreError::Io { path: folder.to_path_buf(), source };
    let entries = io.read_dir(folder).await.map_err(at)?;
    if entries.iter().any(|entry| entry.name == REMOTE_SEGMENTS) {
        return Ok(Rebuilt::Has);
    }
    let bases = entries.iter().filter_map(|entry| match PartitionFile::parse(&entry.name) {
        PartitionFile::Log(segment) => Some(segment.0),
        _ => None,
    });
    // What is here stays: the local log begins where its first segment does.
    let local_start = bases.min().unwrap_or_else(|| partition.end());
    if local_start > partition.end() {
        return Ok(Rebuilt::Apart);
    }
    let header = MetadataHeader { id, topic: partition.topic.clone(), store_url };
    metadata_image::write(io, folder, &header, local_start, &partition.segments).await?;
    Ok(Rebuilt::Written)
}

/// The partition that a folder is, where the tier has records of it: by its topic's id.
async fn partition_of<'a>(
    io: &Io,
    folder: &Path,
    name: &str,
    source: &'a RestoreSource,
) -> Option<(PartitionId, &'a TieredPartition)> {
    let PartitionFolder::Partition { partition, .. } = PartitionFolder::parse(name) else { return None };
    let text = read_file(io, &folder.join("partition.metadata"), METADATA_BYTES_MAX).await.ok()?;
    let topic_id: TopicId = partition_metadata::parse(std::str::from_utf8(&text).ok()?)?;
    let id = PartitionId { topic_id, partition };
    source.partitions.get(&id).filter(|known| known.end() > Offset(0)).map(|known| (id, known))
}

const METADATA_BYTES_MAX: u64 = 4096;
