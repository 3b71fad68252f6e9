//! A data directory made out of what a tier says: the catalog, a folder for each partition, committed offsets.
//!
//! The last file to be written is `meta.properties`: a directory whose restore did not come to its end is no server's.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::restore_source::TieredPartition;
use crate::control::catalog::Catalog;
use crate::control::catalog_error::RecordMismatch;
use crate::control::catalog_file;
use crate::control::catalog_record::CatalogRecord;
use crate::control::id::{ClusterId, CoreIndex, DirectoryId};
use crate::control::topic::Topic;
use crate::group::records::{self, GroupRecord};
use crate::log::core_checkpoint::{self, CorePoints};
use crate::log::error::RecoveryError;
use crate::log::layout;
use crate::log::plan::SegmentId;
use crate::log::producer_snapshot;
use crate::log::segment_files;
use crate::record::batch::{batch_len_bytes, stamp};
use crate::record::control::EndMarker;
use crate::record::coordination::CoordinatorRecord;
use crate::record::offset::{LeaderEpoch, Offset, PartitionId, ProducerId, TopicId};
use crate::record::record_reader::{check_crc, read_records};
use crate::ring::io::{Io, replace_file};
use crate::server::data_dir::{self, DataDirError};
use crate::shard::catalog_host::CATALOG_FILE;
use crate::shard::checkpoints::CORE_LOG_STARTS;
use crate::shard::manifest_writer::put_batch;
use crate::tier::error::MetadataError;
use crate::tier::metadata_file::MetadataHeader;
use crate::tier::metadata_image;

/// Why a restore came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// There is something in the directory.
    #[error("{} is not empty: a restore fills an empty directory; name another one with --data-dir", path.display())]
    NotEmpty {
        /// The directory.
        path: PathBuf,
    },
    /// Another process has the directory.
    #[error(transparent)]
    Lock(#[from] crate::ring::dir_lock::LockError),
    /// The directory cannot be used.
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    /// There is no such folder.
    #[error("{url} is not there, or is empty: is it the right URL, and is the disk mounted?")]
    NothingThere {
        /// The tier.
        url: String,
    },
    /// Nothing that was asked for is in the tier.
    #[error("{url} has no topic {topic}")]
    NoTopic {
        /// The tier.
        url: String,
        /// As it was asked for.
        topic: String,
    },
    /// The disk refuses.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Its answer.
        source: io::Error,
    },
    /// The disk refuses.
    #[error(transparent)]
    Partition(#[from] RecoveryError),
    /// The disk refuses.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// A topic that no catalog takes.
    #[error("a topic of the tier cannot be: {0}")]
    Catalog(#[from] RecordMismatch),
}

/// The directories that are filled.
pub(in crate::cli) struct RestoredDirs<'a> {
    /// The world.
    pub io: &'a Io,
    /// Each with its id.
    pub dirs: Vec<(PathBuf, DirectoryId)>,
    /// The store's URL.
    pub store_url: String,
}

impl RestoredDirs<'_> {
    fn path_of(&self, directory: DirectoryId) -> &Path {
        let found = self.dirs.iter().find(|(_, id)| *id == directory).or(self.dirs.first());
        found.map_or(Path::new("."), |(path, _)| path)
    }

    async fn make_folder(&self, directory: DirectoryId, topic: &str, id: PartitionId) -> Result<PathBuf, RestoreError> {
        let folder = layout::partition_folder(self.path_of(directory), topic, id.partition);
        self.io.create_dir(&folder).await.map_err(at(&folder))?;
        segment_files::write_metadata(self.io, &folder, id.topic_id).await?;
        Ok(folder)
    }

    /// The folder of a partition whose records are in the tier. Says how many transactions were open at the end of these:
    /// their ends are lost, and they are aborted here.
    ///
    /// # Errors
    /// The disk refuses.
    pub(in crate::cli) async fn write_partition(
        &self,
        directory: DirectoryId,
        id: PartitionId,
        partition: &TieredPartition,
    ) -> Result<usize, RestoreError> {
        let folder = self.make_folder(directory, &partition.topic, id).await?;
        let end = partition.end();
        if !partition.epochs.entries().is_empty() {
            segment_files::write_epochs(self.io, &folder, partition.epochs.to_text()).await?;
        }
        let entries = producer_snapshot::parse(&partition.producers).unwrap_or_default();
        if !entries.is_empty() {
            let path = layout::producer_snapshot_path(&folder, end);
            replace_file(self.io, &path, partition.producers.clone()).await.map_err(at(&path))?;
        }
        // Of an id the last entry says what its state is.
        let latest: BTreeMap<ProducerId, _> = entries.iter().map(|entry| (entry.producer_id, entry)).collect();
        let open: Vec<_> = latest.into_values().filter(|entry| entry.transaction_first_offset >= Offset(0)).collect();
        if !open.is_empty() {
            let mut log = Vec::new();
            for (entry, at) in open.iter().zip(0..) {
                let coordinator_epoch = entry.coordinator_epoch.max(0);
                let marker = EndMarker { is_commit: false, coordinator_epoch, transaction_version: 0 };
                let mut batch = marker.to_batch(entry.producer_id, entry.epoch, self.io.wall_ms());
                stamp(&mut batch, end.plus(at), LeaderEpoch(partition.leader_epoch));
                log.extend_from_slice(&batch);
            }
            self.write_log(&folder, end, log).await?;
        }
        let header = MetadataHeader { id, topic: partition.topic.clone(), store_url: self.store_url.clone() };
        metadata_image::write(self.io, &folder, &header, end, &partition.segments).await?;
        self.io.sync_dir(&folder).await.map_err(at(&folder))?;
        Ok(open.len())
    }

    /// The folder of a partition of `__consumer_offsets`.
    ///
    /// # Errors
    /// The disk refuses.
    pub(in crate::cli) async fn write_group_offsets(
        &self,
        directory: DirectoryId,
        topic: &str,
        id: PartitionId,
        batches: Vec<u8>,
    ) -> Result<(), RestoreError> {
        let folder = self.make_folder(directory, topic, id).await?;
        self.write_log(&folder, Offset(0), batches).await?;
        self.io.sync_dir(&folder).await.map_err(at(&folder))
    }

    async fn write_log(&self, folder: &Path, base: Offset, batches: Vec<u8>) -> Result<(), RestoreError> {
        let path = layout::segment_path(folder, SegmentId(base));
        replace_file(self.io, &path, batches).await.map_err(at(&path))
    }

    /// Where logs begin within a segment.
    ///
    /// # Errors
    /// The disk refuses.
    pub(in crate::cli) async fn write_log_starts(
        &self,
        directory: DirectoryId,
        points: &CorePoints,
    ) -> Result<(), RestoreError> {
        if points.is_empty() {
            return Ok(());
        }
        let path = self.path_of(directory).join(format!("{CORE_LOG_STARTS}0"));
        replace_file(self.io, &path, core_checkpoint::to_text(points).into_bytes()).await.map_err(at(&path))
    }

    /// The catalog, and last what makes the directories a server's.
    ///
    /// # Errors
    /// The disk refuses, or a topic cannot be.
    pub(in crate::cli) async fn finish(
        &self,
        cluster_id: &str,
        node_id: i32,
        restored: RestoredCatalog,
    ) -> Result<(), RestoreError> {
        let image = restored.image(self.dirs.iter().map(|(_, id)| *id).collect())?;
        if let Some((first, _)) = self.dirs.first() {
            let path = first.join(CATALOG_FILE);
            replace_file(self.io, &path, image).await.map_err(at(&path))?;
        }
        for (path, id) in &self.dirs {
            self.io.sync_dir(path).await.map_err(at(path))?;
            data_dir::make_ours(self.io, path, cluster_id, node_id, id.0).await?;
        }
        Ok(())
    }
}

/// The catalog of a restored server.
pub(in crate::cli) struct RestoredCatalog {
    /// The cluster's id, where it is a uuid as all of ours are.
    pub cluster_id: Option<ClusterId>,
    /// The version that it goes on from.
    pub version: u64,
    /// The first producer id that was given to nobody.
    pub next_producer_id: i64,
    /// The cores that the topics name.
    pub cores: Vec<CoreIndex>,
    /// The topics, placed.
    pub topics: Vec<Topic>,
}

impl RestoredCatalog {
    fn image(self, directories: Vec<DirectoryId>) -> Result<Vec<u8>, RecordMismatch> {
        let started = CatalogRecord::ImageStarted {
            version: self.version,
            next_producer_id: self.next_producer_id,
            cores: self.cores,
            directories,
        };
        let cluster = self.cluster_id.map(|cluster_id| CatalogRecord::ClusterCreated { cluster_id });
        let topics = self.topics.into_iter().map(|topic| CatalogRecord::TopicCreated { topic: topic.into() });
        let records: Vec<CatalogRecord> = std::iter::once(started).chain(cluster).chain(topics).collect();
        let mut catalog = Catalog::new();
        catalog.apply(&records)?;
        Ok(catalog_file::image(&catalog))
    }
}

/// Committed offsets as a restored server has them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::cli) struct FittedOffsets {
    /// Batches for the log of the partition of `__consumer_offsets`.
    pub batches: Vec<u8>,
    /// Offsets that are kept.
    pub kept: u64,
    /// Those of them that lay beyond what is left of their log, and were taken back to its end: what is written there from
    /// now on would be passed over else.
    pub taken_back: u64,
    /// Batches that could not be read.
    pub unreadable: u64,
}

/// Holds committed offsets against the logs that there are: `end_of` says where one ends, `None` of a topic that is not
/// restored.
pub(in crate::cli) fn fit_offsets(
    batches: &[u8],
    end_of: impl Fn(&str, i32) -> Option<(TopicId, Offset)>,
) -> FittedOffsets {
    let mut fitted = FittedOffsets::default();
    let mut kept: Vec<CoordinatorRecord> = Vec::new();
    let mut rest = batches;
    while let Some(batch) = batch_len_bytes(rest).ok().and_then(|len_bytes| rest.get(..len_bytes as usize)) {
        rest = rest.get(batch.len()..).unwrap_or_default();
        let read = check_crc(batch).and_then(|_| {
            read_records(batch, RECORD_BYTES_MAX, |record| {
                let decoded = record.key.and_then(|key| records::decode(key, record.value).ok());
                let Some(GroupRecord::Offset { group_id, topic, partition, value: Some(mut stored) }) = decoded else {
                    return;
                };
                let Some((topic_id, end)) = end_of(&topic, partition) else { return };
                if stored.offset > end.0 {
                    stored.offset = end.0;
                    // Of the record before it nothing is known.
                    stored.leader_epoch = -1;
                    fitted.taken_back += 1;
                }
                stored.topic_id = topic_id.0;
                if let Ok(record) = records::offset(&group_id, &topic, partition, &stored) {
                    kept.push(record);
                    fitted.kept += 1;
                }
            })
        });
        fitted.unreadable += u64::from(read.is_err());
    }
    fitted.unreadable += u64::from(!rest.is_empty());
    let mut next_offset = Offset(0);
    for records in kept.chunks(RECORDS_A_BATCH) {
        put_batch(&mut fitted.batches, &mut next_offset, records);
    }
    fitted
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> RestoreError + '_ {
    move |source| RestoreError::Io { path: path.to_path_buf(), source }
}

const RECORDS_A_BATCH: usize = 500;
const RECORD_BYTES_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::stored_offsets::StoredOffset;
    use crate::log::leader_epochs::LeaderEpochs;
    use crate::log::partition_log::{LogConfig, PartitionLog};
    use crate::log::producer_snapshot::SnapshotEntry;
    use crate::log::recovery::{self, RecoveryOptions, RemoteRange};
    use crate::record::offset::TimestampMs;
    use crate::ring::io::OpenHow;
    use crate::ring::sim::options::SimOptions;
    use crate::ring::sim::world::Sim;
    use crate::tier::metadata::tests::segment;
    use crate::tier::segment_state::SegmentState;

    #[test]
    fn committed_offsets_are_fitted_to_what_is_left() {
        let stored = |offset| StoredOffset {
            offset,
            leader_epoch: 7,
            metadata: "m".into(),
            committed_ms: 1234,
            expires_ms: None,
            topic_id: [9; 16],
        };
        let record = |group: &str, topic: &str, partition, offset| {
            records::offset(group, topic, partition, &stored(offset)).expect("short")
        };
        let all =
            [record("g", "t", 0, 40), record("g", "t", 1, 90), record("g", "gone", 0, 5), record("h", "t", 0, 50)];
        let (mut batches, mut next_offset) = (Vec::new(), Offset(0));
        put_batch(&mut batches, &mut next_offset, &all);
        let end_of = |topic: &str, _| (topic == "t").then_some((TopicId([3; 16]), Offset(50)));
        let fitted = fit_offsets(&batches, end_of);
        assert_eq!((fitted.kept, fitted.taken_back, fitted.unreadable), (3, 1, 0));
        let mut found = Vec::new();
        read_records(&fitted.batches, RECORD_BYTES_MAX, |record| {
            let decoded = records::decode(record.key.expect("a key"), record.value).expect("ours");
            let GroupRecord::Offset { group_id, partition, value: Some(value), .. } = decoded else { return };
            assert_eq!(value.topic_id, [3; 16]);
            found.push((group_id, partition, value.offset, value.leader_epoch));
        })
        .expect("built");
        let expected = [("g", 0, 40, 7), ("g", 1, 50, -1), ("h", 0, 50, 7)];
        assert_eq!(
            found,
            expected.map(|(group, partition, offset, epoch)| (group.to_owned(), partition, offset, epoch))
        );
        // Damage is told, and what is whole is kept.
        let mut damaged = batches.clone();
        *damaged.last_mut().expect("not empty") ^= 1;
        damaged.extend_from_slice(&batches);
        let fitted = fit_offsets(&damaged, end_of);
        assert_eq!((fitted.kept, fitted.unreadable), (3, 1));
        assert_eq!(fit_offsets(&batches[..batches.len() - 1], end_of).unreadable, 1);
    }

    #[test]
    fn a_transaction_whose_end_is_lost_is_aborted() {
        let sim = Sim::new(SimOptions::default());
        let io = sim.machine().core(0);
        let run = io.clone();
        sim.run(&io, 1 << 40, async move {
            let id = PartitionId { topic_id: TopicId([3; 16]), partition: 0 };
            let entry = |producer: i64, transaction: i64| SnapshotEntry {
                producer_id: ProducerId(producer),
                epoch: 2,
                last_sequence: 4,
                last_offset: Offset(80),
                offset_delta: 4,
                timestamp: TimestampMs(run.wall_ms()),
                coordinator_epoch: -1,
                transaction_first_offset: Offset(transaction),
            };
            let partition = TieredPartition {
                topic: "t".to_owned(),
                leader_epoch: 5,
                log_start: Offset(0),
                known_end: Some(Offset(130)),
                segments: vec![segment(1, 0, 99, SegmentState::CopyFinished)],
                epochs: LeaderEpochs::parse("0\n1\n3 0\n").expect("right"),
                producers: producer_snapshot::to_bytes([entry(7, -1), entry(8, 50), entry(9, 60)].into_iter()),
            };
            let (path, directory) = (PathBuf::from("/d"), DirectoryId([1; 16]));
            run.create_dir(&path).await.expect("new");
            let dirs =
                RestoredDirs { io: &run, dirs: vec![(path.clone(), directory)], store_url: "file:///tier".to_owned() };
            assert_eq!(dirs.write_partition(directory, id, &partition).await.expect("space"), 2);
            let options = RecoveryOptions {
                recovery_point: Offset(0),
                clean: false,
                log_start: Offset(0),
                topic_id: Some(id.topic_id),
                index_interval_bytes: 4096,
                producer_expiration_ms: 1 << 40,
                remote: Some(RemoteRange { start: Offset(0), end: Offset(100), local_start: Offset(100) }),
            };
            let folder = path.join("t-0");
            let recovered = recovery::open_partition(&run, &folder, &options).await.expect("right");
            assert_eq!((recovered.log_start, recovered.log_end), (Offset(0), Offset(102)), "a marker for each");
            let log = PartitionLog::new(recovered, LogConfig::default(), LeaderEpoch(6));
            assert_eq!(log.offsets().last_stable, Offset(102), "nobody waits for them");
            let index = folder.join("00000000000000000100.txnindex");
            let len_bytes = run.open(&index, OpenHow::Read).await.expect("there").len().await.expect("a length");
            assert_eq!(len_bytes, 2 * 34, "readers of committed records pass both over");
        })
        .expect("ends");
    }
}
