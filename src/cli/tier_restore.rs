//! `alluvium tier restore`: an empty server gets its topics back from the tier alone.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::output;
use super::progress::Progress;
use super::restore_files::{RestoreError, RestoredCatalog, RestoredDirs, fit_offsets};
use super::restore_source::{self, RestoreSource, TieredPartition, Wanted};
use super::tier::{TierCommandError, open_store};
use super::tier_args::TierRestoreArgs;
use crate::control::id::{ClusterId, CoreIndex, DirectoryId};
use crate::control::internal_topics::InternalTopic;
use crate::control::topic::{ConfigOverrides, Partition, Topic};
use crate::log::core_checkpoint::CorePoints;
use crate::log::producer_snapshot;
use crate::record::offset::{Offset, PartitionId, TopicId};
use crate::ring::dir_lock::DirLock;
use crate::ring::io::Io;
use crate::server::data_dir::{self, LOCK_FILE};
use crate::tier::owner;
use crate::tier::store::Store;
use crate::wire::uuid::Uuid;

/// Restores.
pub(in crate::cli) async fn restore(io: Io, args: TierRestoreArgs) -> Result<(), TierCommandError> {
    let mut locks = Vec::new();
    for path in paths_of(&args) {
        locks.push(DirLock::take(&path, LOCK_FILE).map_err(RestoreError::from)?);
    }
    restore_into(&io, &args).await
}

/// Restores into directories that nobody else uses.
///
/// # Errors
/// In words for the operator. What was written until then is no server's data: the directories are to be emptied.
pub async fn restore_into(io: &Io, args: &TierRestoreArgs) -> Result<(), TierCommandError> {
    let began_at = io.now();
    let dirs = empty_dirs(io, args).await?;
    let store = open_store(io, &args.from, &args.hdfs)?;
    let wanted = Wanted { topics: args.topics.clone(), is_slow: args.slow };
    let entries = match store.list("").await {
        Ok(entries) => entries.len(),
        Err(error) if error.is_not_found() => 0,
        Err(error) => return Err(error.into()),
    };
    if entries == 0 {
        return Err(RestoreError::NothingThere { url: store.url() }.into());
    }
    let cluster_id = owner::find(io, &store).await?;
    let progress = Progress::of_count(entries as u64);
    let looked_at = |folder: &str| {
        progress.at(folder);
        progress.add(1);
    };
    let source = restore_source::gather(io, &store, &wanted, looked_at).await?;
    drop(progress);
    let cluster_id = take_owner(io, &store, cluster_id).await?;
    let files = RestoredDirs { io, dirs, store_url: store.url() };
    let mut report = Report { lines: source.notes.clone(), ..Report::default() };
    let catalog = plan_catalog(&source, &wanted, &cluster_id, &files, &mut report);
    for topic in &wanted.topics {
        if !catalog.topics.iter().any(|restored| *restored.name == **topic) {
            return Err(RestoreError::NoTopic { url: store.url(), topic: topic.clone() }.into());
        }
    }
    write_partitions(&files, &source, &catalog, &mut report).await?;
    write_group_offsets(&files, &source, &catalog, &mut report).await?;
    let node_id = i32::try_from(args.node_id.unwrap_or(NODE_ID)).unwrap_or(i32::MAX);
    files.finish(&cluster_id, node_id, catalog).await?;
    let elapsed_ms = io.now().since(began_at) / 1_000_000;
    report.print(&source, &files, args, elapsed_ms);
    Ok(())
}

fn paths_of(args: &TierRestoreArgs) -> Vec<PathBuf> {
    if args.data_dirs.is_empty() { vec![PathBuf::from("./data")] } else { args.data_dirs.clone() }
}

/// The directories, in which nothing is.
async fn empty_dirs(io: &Io, args: &TierRestoreArgs) -> Result<Vec<(PathBuf, DirectoryId)>, TierCommandError> {
    let mut dirs = Vec::new();
    for path in paths_of(args) {
        let is_free = match data_dir::is_free(io, &path).await {
            Ok(is_free) => is_free,
            Err(data_dir::DataDirError::NotOurs { .. }) => false,
            Err(error) => return Err(RestoreError::from(error).into()),
        };
        if !is_free {
            return Err(RestoreError::NotEmpty { path }.into());
        }
        dirs.push((path, DirectoryId(random_id(io))));
    }
    Ok(dirs)
}

fn random_id(io: &Io) -> [u8; 16] {
    let bits = u128::from(io.random_u64()) << 64 | u128::from(io.random_u64());
    Uuid::from_random_bytes(bits.to_be_bytes()).0
}

/// The restored server is the cluster that the tier belongs to. A tier of nobody (the plugin's) becomes ours.
async fn take_owner(io: &Io, store: &Store, found: Option<String>) -> Result<String, TierCommandError> {
    let cluster_id = found.unwrap_or_else(|| Uuid(random_id(io)).to_string());
    owner::claim(io, store, &cluster_id, false).await?;
    Ok(cluster_id)
}

/// The topics as they will be, each partition with its place and an epoch that no leader had.
fn plan_catalog(
    source: &RestoreSource,
    wanted: &Wanted,
    cluster_id: &str,
    files: &RestoredDirs<'_>,
    report: &mut Report,
) -> RestoredCatalog {
    let known = source.catalog.as_ref().map(|catalog| catalog.snapshot());
    let cores = known.as_ref().map_or_else(|| CoreIndex::first(1), |known| known.cores().to_vec());
    let mut topics = Vec::new();
    match &known {
        Some(known) => {
            let is_wanted = |topic: &Topic| wanted.has(&topic.name) || InternalTopic::of(&topic.name).is_some();
            topics.extend(known.topics().filter(|topic| is_wanted(topic)).map(|topic| Topic::clone(topic)));
        }
        None => topics.extend(topics_of_files(source, report)),
    }
    // Starts that left no copied record are not seen in the files.
    let unseen_epochs = if known.is_some() { 0 } else { UNSEEN_EPOCHS };
    let mut directories = files.dirs.iter().map(|(_, id)| *id).cycle();
    for topic in &mut topics {
        for (index, partition) in (0..).zip(&mut topic.partitions) {
            let id = PartitionId { topic_id: topic.id, partition: index };
            let known_epoch = source.partitions.get(&id).map_or(0, |tiered| tiered.leader_epoch);
            partition.leader_epoch = partition.leader_epoch.max(known_epoch).saturating_add(unseen_epochs);
            partition.directory = directories.next().unwrap_or(partition.directory);
        }
    }
    let highest_used = source.partitions.values().flat_map(|partition| {
        let entries = producer_snapshot::parse(&partition.producers).unwrap_or_default();
        entries.into_iter().map(|entry| entry.producer_id.0)
    });
    let next_producer_id = highest_used.max().map_or(0, |highest| highest.saturating_add(1));
    let next_known = source.catalog.as_ref().map_or(0, |catalog| catalog.snapshot().next_producer_id());
    RestoredCatalog {
        cluster_id: Uuid::from_base64(cluster_id).map(|id| ClusterId(id.0)),
        version: known.as_ref().map_or(0, |known| known.version()),
        next_producer_id: next_producer_id.max(next_known).saturating_add(UNSEEN_PRODUCER_IDS),
        cores,
        topics,
    }
}

/// Topics put together from the names of folders.
fn topics_of_files(source: &RestoreSource, report: &mut Report) -> Vec<Topic> {
    let mut counts: BTreeMap<(String, TopicId), i32> = BTreeMap::new();
    for (id, partition) in &source.partitions {
        let count = counts.entry((partition.topic.clone(), id.topic_id)).or_default();
        *count = (*count).max(id.partition.saturating_add(1)).min(PARTITIONS_MAX);
    }
    let mut topics = Vec::new();
    for ((name, id), count) in counts {
        report.lines.push(format!("{name}: settings are not known: it is tiered and keeps all records until you set retention.ms; partitions above {} are not known, where there were any", count - 1));
        let configs: ConfigOverrides =
            KEEP_ALL.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let partition = Partition {
            core: CoreIndex::first(1)[0],
            directory: DirectoryId([0; 16]),
            leader_epoch: 0,
            placed_by_hand: false,
        };
        let partitions = vec![partition; usize::try_from(count).unwrap_or(1)];
        topics.push(Topic { name: name.as_str().into(), id, created_ms: 0, partitions, configs });
    }
    topics
}

async fn write_partitions(
    files: &RestoredDirs<'_>,
    source: &RestoreSource,
    catalog: &RestoredCatalog,
    report: &mut Report,
) -> Result<(), TierCommandError> {
    let mut log_starts: BTreeMap<DirectoryId, CorePoints> = BTreeMap::new();
    for topic in &catalog.topics {
        let is_tiered = topic.configs.get(REMOTE_STORAGE_ENABLE).is_some_and(|value| value == "true");
        let mut has_segments = false;
        for (index, placed) in (0..).zip(&topic.partitions) {
            let id = PartitionId { topic_id: topic.id, partition: index };
            let Some(partition) = source.partitions.get(&id) else { continue };
            has_segments = true;
            let mut partition = partition.clone();
            partition.leader_epoch = placed.leader_epoch;
            let aborted = files.write_partition(placed.directory, id, &partition).await?;
            let first = partition.segments.first().map_or(Offset(0), |first| first.start_offset);
            if partition.log_start > first {
                let points = log_starts.entry(placed.directory).or_default();
                points.insert(id, (partition.topic.clone(), partition.log_start));
            }
            report.partition(index, &partition, aborted);
        }
        if !has_segments && InternalTopic::of(&topic.name).is_none() {
            let why = if is_tiered { "nothing of it was in the tier" } else { "it was not tiered" };
            report.lines.push(format!("{}: {why}: it is there again, without its records", topic.name));
        }
        report.topics += u64::from(has_segments);
    }
    for (directory, points) in log_starts {
        files.write_log_starts(directory, &points).await?;
    }
    Ok(())
}

async fn write_group_offsets(
    files: &RestoredDirs<'_>,
    source: &RestoreSource,
    catalog: &RestoredCatalog,
    report: &mut Report,
) -> Result<(), TierCommandError> {
    let topics: BTreeMap<&str, &Topic> = catalog.topics.iter().map(|topic| (&*topic.name, topic)).collect();
    let name = InternalTopic::ConsumerOffsets.name();
    let Some(offsets_topic) = topics.get(name) else { return Ok(()) };
    let end_of = |topic: &str, partition: i32| {
        let topic = topics.get(topic)?;
        topic.partition(partition)?;
        let tiered = source.partitions.get(&PartitionId { topic_id: topic.id, partition });
        Some((topic.id, tiered.map_or(Offset(0), TieredPartition::end)))
    };
    for (partition, batches) in &source.group_offsets {
        let Some(placed) = offsets_topic.partition(*partition) else { continue };
        let fitted = fit_offsets(batches, end_of);
        report.offsets += fitted.kept;
        report.offsets_taken_back += fitted.taken_back;
        if fitted.unreadable > 0 {
            report.lines.push(format!("{name}-{partition}: some committed offsets in the manifest could not be read"));
        }
        if !fitted.batches.is_empty() {
            let id = PartitionId { topic_id: offsets_topic.id, partition: *partition };
            files.write_group_offsets(placed.directory, name, id, fitted.batches).await?;
        }
    }
    Ok(())
}

/// What is said at the end.
#[derive(Default)]
struct Report {
    lines: Vec<String>,
    topics: u64,
    partitions: u64,
    segments: u64,
    bytes: u64,
    lost: u64,
    offsets: u64,
    offsets_taken_back: u64,
}

impl Report {
    fn partition(&mut self, index: i32, partition: &TieredPartition, aborted: usize) {
        let (topic, end) = (&partition.topic, partition.end());
        self.partitions += 1;
        self.segments += partition.segments.len() as u64;
        self.bytes += partition.segments.iter().map(|segment| u64::from(segment.segment_bytes)).sum::<u64>();
        if let Some(known_end) = partition.known_end.filter(|known_end| *known_end > end) {
            self.lost += known_end.since(end).unsigned_abs();
            self.lines.push(format!(
                "{topic}-{index}: offsets {} to {} are back; {end} to {} had not been copied and are lost",
                partition.log_start,
                end.plus(-1),
                known_end.plus(-1)
            ));
        }
        if aborted > 0 {
            self.lines.push(format!("{topic}-{index}: {aborted} transactions were open at its end; how they ended is lost, and they are aborted"));
        }
    }

    fn print(&self, source: &RestoreSource, files: &RestoredDirs<'_>, args: &TierRestoreArgs, elapsed_ms: u64) {
        let mut lines: Vec<String> = self.lines.clone();
        if let Some(written_ms) = source.written_ms {
            let at = jiff::Timestamp::from_millisecond(written_ms).map(|at| at.to_string()).unwrap_or_default();
            lines.push(format!(
                "the newest manifest is of {at}: what was not copied since then is lost too, and is not counted"
            ));
        }
        let Self { topics, partitions, segments, bytes, lost, offsets, offsets_taken_back, .. } = self;
        lines.push(format!("{topics} topics, {partitions} partitions, {segments} segments, {bytes} bytes of records; {lost} records known to be lost"));
        let beyond =
            format!("{offsets_taken_back} of them lay beyond the end of what is left and were taken back to it");
        lines.push(format!("{offsets} committed offsets of groups; {beyond}"));
        let names: BTreeSet<String> =
            files.dirs.iter().map(|(path, _)| format!("--data-dir {}", path.display())).collect();
        let names: Vec<String> = names.into_iter().collect();
        lines.push(format!(
            "restored in {elapsed_ms} ms; start it with: alluvium serve {} --tier {}",
            names.join(" "),
            args.from
        ));
        if !args.topics.is_empty() {
            lines.push("of the other topics the segments stay; what the manifests say of their settings and committed offsets is lost when this server writes its own: restore them first where they are needed".to_owned());
        }
        lines.push("the server that was lost must not be started again: it would be the same cluster".to_owned());
        output::print_lines(lines.iter().map(String::as_str));
    }
}

/// As `alluvium serve` has it.
const NODE_ID: u32 = 1;
/// Each start of a server raises the epochs by one; the files know only of starts with records.
const UNSEEN_EPOCHS: i32 = 1000;
/// Given to producers since a manifest last said how far they were.
const UNSEEN_PRODUCER_IDS: i64 = 1_000_000;
const PARTITIONS_MAX: i32 = 100_000;
const REMOTE_STORAGE_ENABLE: &str = "remote.storage.enable";
/// Without its settings a topic must not lose what it has to Kafka's default of seven days.
const KEEP_ALL: [(&str, &str); 3] =
    [(REMOTE_STORAGE_ENABLE, "true"), ("retention.bytes", "-1"), ("retention.ms", "-1")];
