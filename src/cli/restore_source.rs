//! What a tier says of a lost server: its manifests held against the files that are there.

use std::collections::{BTreeMap, BTreeSet};

use super::tier::TierCommandError;
use crate::control::catalog::Catalog;
use crate::log::leader_epochs::LeaderEpochs;
use crate::record::offset::{Offset, PartitionId, TopicId};
use crate::ring::io::Io;
use crate::tier::error::StoreError;
use crate::tier::lineage;
use crate::tier::manifest_folder;
use crate::tier::manifest_view::{KnownPartition, ManifestView};
use crate::tier::metadata::{RemoteSegment, RemoteSegmentId};
use crate::tier::segment_file::Section;
use crate::tier::store::{Store, parse_partition_folder, partition_folder, segment_path};
use crate::tier::survey::{SegmentReader, SurveyError};
use crate::wire::uuid::Uuid;

/// All that can be known.
pub(in crate::cli) struct RestoreSource {
    /// Topics and settings; `None` where no manifest says them.
    pub catalog: Option<Catalog>,
    /// Partitions with records in the tier.
    pub partitions: BTreeMap<PartitionId, TieredPartition>,
    /// Committed offsets by partition of `__consumer_offsets`, as batches.
    pub group_offsets: BTreeMap<i32, Vec<u8>>,
    /// When the newest manifest was written, in milliseconds since 1970.
    pub written_ms: Option<i64>,
    /// What is not as it should be, in words.
    pub notes: Vec<String>,
}

/// A partition with records in the tier.
#[derive(Clone, Debug)]
pub(in crate::cli) struct TieredPartition {
    /// Its topic's name.
    pub topic: String,
    /// The highest epoch that a leader of it is known to have had.
    pub leader_epoch: i32,
    /// Where its log begins.
    pub log_start: Offset,
    /// Where its log ended when a manifest last said so.
    pub known_end: Option<Offset>,
    /// Its segments, by start offset; at least one.
    pub segments: Vec<RemoteSegment>,
    /// Its epochs, up to the end of the last segment.
    pub epochs: LeaderEpochs,
    /// Its producers at that end: the bytes of a `.snapshot`.
    pub producers: Vec<u8>,
}

impl TieredPartition {
    /// The offset after the last record that the tier has.
    pub(in crate::cli) fn end(&self) -> Offset {
        lineage::end(&self.segments).max(self.log_start)
    }
}

/// Which topics.
pub(in crate::cli) struct Wanted {
    /// Their names; all where there is none.
    pub topics: Vec<String>,
    /// The files alone are looked at.
    pub is_slow: bool,
}

impl Wanted {
    /// True where this topic is one.
    pub(in crate::cli) fn has(&self, topic: &str) -> bool {
        self.topics.is_empty() || self.topics.iter().any(|wanted| wanted == topic)
    }
}

/// Gathers it. Reads one small piece of the last segment of each partition, and of each file that no manifest knows.
pub(in crate::cli) async fn gather(
    io: &Io,
    store: &Store,
    wanted: &Wanted,
    mut progress: impl FnMut(&str),
) -> Result<RestoreSource, TierCommandError> {
    let mut notes = Vec::new();
    let view = if wanted.is_slow { None } else { manifest_folder::load_all(io, store, &mut notes).await? };
    let is_slow = view.is_none();
    if is_slow && !wanted.is_slow {
        notes.push("the tier has no manifests: the segments' own files are looked at; settings of topics and committed offsets of groups are not in them".to_owned());
    }
    let ManifestView { catalog, mut partitions, group_offsets, written_ms } = view.unwrap_or_default();
    let mut source = RestoreSource {
        catalog,
        partitions: BTreeMap::new(),
        group_offsets: group_offsets.into_iter().map(|(partition, (_, batches))| (partition, batches)).collect(),
        written_ms: (!is_slow).then_some(written_ms),
        notes,
    };
    let folders = store.list("").await?;
    for entry in folders.iter().filter(|entry| entry.is_dir) {
        let Some((topic, id)) = parse_partition_folder(&entry.name) else { continue };
        if !wanted.has(topic) {
            continue;
        }
        let in_catalog = source.catalog.as_ref().is_none_or(|catalog| {
            catalog.snapshot().topic_by_id(id.topic_id).is_some_and(|known| *known.name == *topic)
        });
        if !in_catalog {
            let note = "its topic was deleted, as the manifests say: it is left alone (--slow restores it)";
            source.notes.push(format!("{}: {note}", entry.name));
            continue;
        }
        progress(&entry.name);
        let known = partitions.remove(&id);
        if let Some(partition) = gather_partition(io, store, topic, id, known, &mut source.notes).await? {
            source.partitions.insert(id, partition);
        }
        io.yield_now().await;
    }
    for known in partitions.into_values().filter(|known| wanted.has(&known.said.topic) && !known.segments.is_empty()) {
        let (folder, count) = (partition_folder(&known.said.topic, known.said.id), known.segments.len());
        source.notes.push(format!("{folder}: {count} segments should be there, and the folder is not: they are lost"));
    }
    if is_slow {
        drop_namesakes(&mut source);
    }
    Ok(source)
}

/// One partition: what a manifest says of it, less what is missing, with what the manifest does not know yet.
async fn gather_partition(
    io: &Io,
    store: &Store,
    topic: &str,
    id: PartitionId,
    known: Option<KnownPartition>,
    notes: &mut Vec<String>,
) -> Result<Option<TieredPartition>, TierCommandError> {
    let files: BTreeSet<RemoteSegmentId> = match store.list(&partition_folder(topic, id)).await {
        Ok(entries) => {
            let id_of = |name: &str| Uuid::from_base64(name).map(RemoteSegmentId);
            entries.iter().filter(|entry| !entry.is_dir).filter_map(|entry| id_of(&entry.name)).collect()
        }
        Err(StoreError::NotFound { .. }) => BTreeSet::new(),
        Err(error) => return Err(error.into()),
    };
    let (said, known_segments) = match known {
        Some(known) => (Some(known.said), known.segments),
        None => (None, BTreeMap::new()),
    };
    let log_start = said.as_ref().map_or(Offset(0), |said| said.log_start);
    let mut segments = Vec::with_capacity(files.len());
    for (segment_id, segment) in known_segments {
        if files.contains(&segment_id) {
            segments.push(segment);
        } else {
            let path = segment_path(topic, id, segment_id);
            let (start, end) = (segment.start_offset, segment.end_offset);
            notes.push(format!("{path}: not in the store, though it was copied: offsets {start} to {end} are lost"));
        }
    }
    let known_ids: BTreeSet<RemoteSegmentId> = segments.iter().map(|segment| segment.id).collect();
    for segment_id in files.into_iter().filter(|file| !known_ids.contains(file)) {
        let path = segment_path(topic, id, segment_id);
        match survey(io, store, &path, segment_id).await {
            Ok(segment) if segment.end_offset < log_start => {
                notes.push(format!("{path}: below the log's start: left alone (a deletion was under way)"));
            }
            Ok(segment) => segments.push(segment),
            Err(SurveyError::Store(error)) => return Err(error.into()),
            Err(error) => notes.push(format!("{path}: {error}: left alone")),
        }
    }
    let Some(last) = lineage::latest(&segments) else { return Ok(None) };
    let path = segment_path(topic, id, last.id);
    let tail = async {
        let reader = SegmentReader::open(io, store, &path).await?;
        Ok::<_, SurveyError>((reader.epochs().await?, reader.section(Section::ProducerSnapshot).await?))
    };
    let (epochs, producers) = match tail.await {
        Ok(tail) => tail,
        Err(SurveyError::Store(error)) => return Err(error.into()),
        Err(error) => {
            notes.push(format!("{path}: {error}: producers and epochs of the partition are not restored"));
            (LeaderEpochs::default(), Vec::new())
        }
    };
    segments.retain(|segment| {
        let is_within = lineage::is_within(segment, &epochs);
        if !is_within {
            let path = segment_path(topic, id, segment.id);
            notes.push(format!("{path}: of a leader whose records were replaced by the next one's: left alone"));
        }
        is_within
    });
    let segments = without_doubles(segments, topic, id, notes);
    let in_files = epochs.latest().map_or(0, |epoch| epoch.0);
    let in_segments = segments.iter().flat_map(|segment| &segment.epochs).map(|entry| entry.epoch.0).max();
    let leader_epoch = said.as_ref().map_or(0, |said| said.leader_epoch).max(in_files).max(in_segments.unwrap_or(0));
    for pair in segments.windows(2) {
        let next = pair[0].end_offset.plus(1);
        if pair[1].start_offset > next {
            let (topic, partition) = (topic, id.partition);
            notes.push(format!(
                "{topic}-{partition}: no segment has the offsets from {next} to {}",
                pair[1].start_offset.plus(-1)
            ));
        }
    }
    Ok(Some(TieredPartition {
        topic: topic.to_owned(),
        leader_epoch: leader_epoch.max(0),
        log_start: log_start.max(segments.first().map_or(Offset(0), |first| first.start_offset)),
        known_end: said.map(|said| said.log_end),
        segments,
        epochs,
        producers,
    }))
}

async fn survey(io: &Io, store: &Store, path: &str, id: RemoteSegmentId) -> Result<RemoteSegment, SurveyError> {
    let reader = SegmentReader::open(io, store, path).await?;
    Ok(reader.survey(id, io.wall_ms()).await?.segment)
}

/// Of segments with the same offsets one stays: a copy that was made again after a crash.
fn without_doubles(
    mut segments: Vec<RemoteSegment>,
    topic: &str,
    id: PartitionId,
    notes: &mut Vec<String>,
) -> Vec<RemoteSegment> {
    // The longest first of those that begin together; of equal ones that which metadata knew, which has a checksum.
    segments.sort_by_key(|segment| {
        (segment.start_offset, std::cmp::Reverse(segment.end_offset), segment.file_crc == 0, segment.id)
    });
    let mut covered = Offset(0);
    segments.retain(|segment| {
        let is_new = segment.end_offset >= covered;
        if is_new {
            covered = segment.end_offset.plus(1);
        } else {
            let path = segment_path(topic, id, segment.id);
            notes.push(format!("{path}: other segments have all of its offsets: left alone"));
        }
        is_new
    });
    segments
}

/// Where a topic was deleted and made again, the files of both may be there: the one with the latest records is it.
fn drop_namesakes(source: &mut RestoreSource) {
    let mut latest: BTreeMap<String, (i64, TopicId)> = BTreeMap::new();
    for (id, partition) in &source.partitions {
        let newest = partition.segments.iter().map(|segment| segment.max_timestamp.0).max().unwrap_or(-1);
        let known = latest.entry(partition.topic.clone()).or_insert((newest, id.topic_id));
        *known = (*known).max((newest, id.topic_id));
    }
    let mut notes = Vec::new();
    source.partitions.retain(|id, partition| {
        let is_latest = latest.get(&partition.topic).is_some_and(|(_, topic_id)| *topic_id == id.topic_id);
        if !is_latest {
            let folder = partition_folder(&partition.topic, *id);
            notes.push(format!("{folder}: a later topic has the name: it is left alone"));
        }
        is_latest
    });
    source.notes.append(&mut notes);
}
