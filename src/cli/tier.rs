//! `alluvium tier`: what is in the tier, whether it is whole, whether it answers.

use std::path::PathBuf;

use serde_json::json;

use super::args::OutputFormat;
use super::hdfs_args::HdfsArgs;
use super::output;
use super::restore_files::RestoreError;
use super::tier_args::{TierCheckArgs, TierCommand, TierListArgs};
use super::tier_cat::{self, CatError};
use super::tier_rebuild;
use super::tier_restore;
use super::tier_scrub;
use super::tier_verify;
use crate::ring::buffer::Buffer;
use crate::ring::core::{self as ring_core, CoreOptions, RunError};
use crate::ring::io::Io;
use crate::ring::mesh::CoreMesh;
use crate::shard::options::TierOptions;
use crate::shard::tier;
#[cfg(feature = "hdfs")]
use crate::tier::companion::{Companion, CompanionOptions};
use crate::tier::error::{ManifestError, MetadataError, OwnerError, StoreError};
use crate::tier::metadata_file::{LoadedMetadata, MetadataFile};
use crate::tier::store::{Store, TEMPORARY_FOLDER};
use crate::tier::tier_url::TierUrl;

/// Why a command came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum TierCommandError {
    /// This machine has no ring.
    #[error(transparent)]
    Ring(#[from] RunError),
    /// Descriptors, or the companion's thread.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// A data directory cannot be listed.
    #[error("{}: {source}", path.display())]
    DataDir {
        /// The directory.
        path: PathBuf,
        /// Its answer.
        source: std::io::Error,
    },
    /// What is known of remote segments cannot be read.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// The store does not do it.
    #[error("the tier: {0}")]
    Store(#[from] StoreError),
    /// Its manifests cannot be used.
    #[error("the tier: {0}")]
    Manifest(#[from] ManifestError),
    /// It is nobody's, or another one's.
    #[error("the tier: {0}")]
    Owner(#[from] OwnerError),
    /// A restore came to nothing.
    #[error(transparent)]
    Restore(#[from] RestoreError),
    /// The records of a file cannot be shown.
    #[error(transparent)]
    Cat(#[from] CatError),
    /// Built without HDFS.
    #[error("this program was built without HDFS; build it with `--features hdfs`")]
    NoHdfs,
    /// Not what was written.
    #[error("the tier gave back other bytes than it was given")]
    OtherBytes,
    /// Segments that are not whole, missing or unknown.
    #[error("{count} problems")]
    Problems {
        /// How many.
        count: u64,
    },
}

/// Runs `alluvium tier`.
///
/// # Errors
/// In words for the operator.
pub fn run(command: &TierCommand) -> Result<(), TierCommandError> {
    match command.clone() {
        TierCommand::Ls(args) => on_a_ring(move |io| list(io, args)),
        TierCommand::Check(args) => on_a_ring(move |io| check(io, args)),
        TierCommand::Cat(args) => on_a_ring(move |io| tier_cat::cat(io, args)),
        TierCommand::Scrub(args) => on_a_ring(move |io| tier_scrub::scrub(io, args)),
        TierCommand::Restore(args) if args.metadata_only => on_a_ring(move |io| tier_rebuild::rebuild(io, args)),
        TierCommand::Restore(args) => on_a_ring(move |io| tier_restore::restore(io, args)),
        TierCommand::Verify(args) => on_a_ring(move |io| tier_verify::verify(io, args)),
    }
}

fn on_a_ring<F>(main: impl FnOnce(Io) -> F) -> Result<(), TierCommandError>
where
    F: Future<Output = Result<(), TierCommandError>> + 'static,
{
    let mesh = CoreMesh::new(1)?;
    let options = CoreOptions { receive_buffer_count: 1, receive_buffer_bytes: 4096, ..CoreOptions::default() };
    ring_core::run(options, mesh.seat(0), main)?
}

/// The store that the operator names.
pub(in crate::cli) fn open_store(io: &Io, url: &TierUrl, hdfs: &HdfsArgs) -> Result<Store, TierCommandError> {
    let hdfs = hdfs.options();
    let options = TierOptions {
        url: url.clone(),
        is_required: true,
        memory_bytes: 0,
        #[cfg(feature = "hdfs")]
        companion: match url {
            TierUrl::Hdfs { .. } => Some(Companion::start(&CompanionOptions::new(0, None, &hdfs))?),
            _ => None,
        },
        hdfs,
    };
    tier::store_of(io, &options).ok_or(TierCommandError::NoHdfs)
}

/// What each partition of the data directories has in the tier, in order of the folders' names.
pub(in crate::cli) async fn load_all(io: &Io, args: &TierListArgs) -> Result<Vec<LoadedMetadata>, TierCommandError> {
    let default = [PathBuf::from("./data")];
    let dirs = if args.data_dirs.is_empty() { &default[..] } else { &args.data_dirs[..] };
    let mut found = Vec::new();
    for dir in dirs {
        let entries = io.read_dir(dir).await;
        let entries = entries.map_err(|source| TierCommandError::DataDir { path: dir.clone(), source })?;
        for entry in entries.into_iter().filter(|entry| entry.is_dir) {
            let Some(loaded) = MetadataFile::load(io, &dir.join(&entry.name)).await? else { continue };
            if args.topic.as_ref().is_none_or(|topic| loaded.file.header().topic == *topic) {
                found.push(loaded);
            }
        }
    }
    Ok(found)
}

async fn list(io: Io, args: TierListArgs) -> Result<(), TierCommandError> {
    let mut rows = Vec::new();
    for loaded in load_all(&io, &args).await? {
        let header = loaded.file.header();
        for span in loaded.segments.finished() {
            let (start, end) = (span.start_offset().get(), span.end_offset().get());
            match args.output {
                OutputFormat::Json => output::print_json(&json!({
                    "topic": header.topic, "partition": header.id.partition, "topic_id": header.id.topic_id.to_string(),
                    "segment": span.id().to_string(), "start_offset": start, "end_offset": end,
                    "bytes": span.segment_bytes(), "max_timestamp": span.max_timestamp().get(), "store": header.store_url,
                })),
                OutputFormat::Table => rows.push(vec![
                    header.topic.clone(),
                    header.id.partition.to_string(),
                    start.to_string(),
                    end.to_string(),
                    span.segment_bytes().to_string(),
                    span.id().to_string(),
                ]),
            }
        }
    }
    if args.output == OutputFormat::Table {
        let header = ["TOPIC", "PARTITION", "START", "END", "BYTES", "SEGMENT"];
        output::print_table(&output::table(&header, &[1, 2, 3, 4], rows));
    }
    Ok(())
}

/// Writes, reads, renames and deletes a file of its own.
async fn check(io: Io, args: TierCheckArgs) -> Result<(), TierCommandError> {
    let store = open_store(&io, &args.tier, &args.hdfs)?;
    let unique = io.random_u64();
    let (first, second) =
        (format!("{TEMPORARY_FOLDER}/check-{unique:016x}"), format!("{TEMPORARY_FOLDER}/checked-{unique:016x}"));
    let bytes: Vec<u8> = (0..CHECK_BYTES).map(|at| (at % 251) as u8).collect();
    let mut at = io.now();
    let mut took = |what: &str| {
        let now = io.now();
        output::print_lines([
            format!("{what:<12} {:>8} us", now.since(std::mem::replace(&mut at, now)) / 1000).as_str()
        ]);
    };
    store.make_folder(TEMPORARY_FOLDER).await?;
    took("make folder");
    let mut upload = store.create(&first, bytes.len() as u64).await?;
    took("create");
    upload.append(Buffer::from_vec(bytes.clone())).await?;
    took("write 64K");
    upload.close(bytes.len() as u64).await?;
    took("close");
    store.rename(&first, &second).await?;
    took("rename");
    let file = store.open(&second).await?;
    took("open");
    let read = file.read(io.buffer(bytes.len()), 0).await?;
    took("read 64K");
    store.remove(&second, false).await?;
    took("delete");
    if read[..] != bytes[..] {
        return Err(TierCommandError::OtherBytes);
    }
    output::print_lines([format!("{} answers, and may be written to", store.url()).as_str()]);
    Ok(())
}

const CHECK_BYTES: usize = 64 * 1024;
