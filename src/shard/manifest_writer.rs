//! One core's manifests in the store: what has changed, now and then; all of it, at each start and where deltas are many.
//!
//! A manifest only makes a restore quick: a store that does not take one holds nothing up, and what a manifest does not say
//! yet is found in the segments' own files. So they are written by a task of its own, at most one in each
//! `remote.log.manager.task.interval.ms`, however many segments were copied meanwhile.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use tracing::{info, warn};

use crate::group::committed::CommittedSlice;
use crate::group::coordinator::GroupCoordinator;
use crate::record::batch::{crc32c, stamp};
use crate::record::builder::BatchBuilder;
use crate::record::coordination::CoordinatorRecord;
use crate::record::offset::{LeaderEpoch, Offset, PartitionId};
use crate::shard::coordinator::Coordinator;
use crate::shard::core::Shard;
use crate::shard::partition::Partition;
use crate::shard::tier::Tier;
use crate::tier::error::ManifestError;
use crate::tier::manifest::{ManifestEncoder, ManifestEntry, ManifestHeader, ManifestPartition};
use crate::tier::manifest_folder::{ManifestName, ManifestRow};
use crate::tier::metadata::SegmentEvent;
use crate::tier::metadata_image;

/// Changes of segments that no manifest says yet. Bounded: where there are too many, the next manifest says all.
#[derive(Debug, Default)]
pub struct ManifestNews {
    events: RefCell<Vec<(PartitionId, SegmentEvent)>>,
    has_overflown: Cell<bool>,
}

impl ManifestNews {
    /// A change that is durable beside its partition.
    pub(in crate::shard) fn note(&self, id: PartitionId, event: SegmentEvent) {
        let mut events = self.events.borrow_mut();
        if events.len() >= EVENTS_MAX {
            events.clear();
            self.has_overflown.set(true);
        }
        if !self.has_overflown.get() {
            events.push((id, event));
        }
    }

    /// Takes all that was noted, in order; `None` where that was too much.
    fn take(&self) -> Option<Vec<(PartitionId, SegmentEvent)>> {
        let events = self.events.take();
        (!self.has_overflown.replace(false)).then_some(events)
    }
}

/// Writes this core's manifests until the stop.
pub async fn keep(shard: Rc<Shard>) {
    let Some(tier) = shard.tier().cloned() else { return };
    let interval_ms = shard.options().broker_config.remote_task_interval_ms();
    let mut writer: Option<Writer> = None;
    let mut failures = 0_u32;
    while !shard.is_stopping() {
        shard.io().sleep_ms(interval_ms << failures.min(BACKOFF_DOUBLINGS_MAX)).await;
        if !tier.is_claimed() {
            continue;
        }
        match write_due(&shard, &tier, &mut writer).await {
            Ok(()) => {
                if failures > 0 {
                    info!(core = shard.core_index(), "manifests of the tier are written again");
                }
                failures = 0;
            }
            Err(error @ ManifestError::Newer { .. }) => {
                warn!(%error, "no manifests of the tier are written by this server; segments are copied all the same");
                return;
            }
            Err(error) => {
                if failures == 0 {
                    warn!(%error, "a manifest of the tier could not be written; segments are copied all the same, and it is tried again");
                }
                failures = failures.saturating_add(1);
            }
        }
    }
}

async fn write_due(shard: &Rc<Shard>, tier: &Rc<Tier>, kept: &mut Option<Writer>) -> Result<(), ManifestError> {
    if kept.is_none() {
        // Of the core, also where clients see one broker.
        let core = i32::try_from(shard.core_index()).unwrap_or(i32::MAX);
        let row =
            ManifestRow { broker_id: shard.options().node_id.saturating_mul(CORES_OF_A_NODE).saturating_add(core) };
        let next_number = row.take_up(shard.io(), tier.store()).await?;
        *kept = Some(Writer::new(row, next_number));
    }
    let Some(writer) = kept.as_mut() else { return Ok(()) };
    writer.turns += 1;
    if writer.wants_full() {
        return writer.write_full(shard, tier).await;
    }
    if writer.unsent.is_none() {
        let Some(events) = tier.manifest_news().take() else {
            writer.needs_full = true;
            return writer.write_full(shard, tier).await;
        };
        writer.unsent = writer.delta(shard, events).await;
    }
    writer.send_delta(tier).await
}

/// One core's row of manifests.
struct Writer {
    row: ManifestRow,
    next_number: u64,
    needs_full: bool,
    /// A delta that the store has not taken yet.
    unsent: Option<Vec<u8>>,
    turns: u64,
    deltas: u32,
    deltas_bytes: u64,
    full_bytes: u64,
    /// What the manifests say by now.
    catalog_version: u64,
    partitions: BTreeMap<PartitionId, ManifestPartition>,
    group_offsets: BTreeMap<i32, NotedOffsets>,
}

#[derive(Clone, Copy, Debug, Default)]
struct NotedOffsets {
    leader_epoch: i32,
    commits: u64,
    batches_crc: u32,
}

impl Writer {
    fn new(row: ManifestRow, next_number: u64) -> Self {
        Self {
            row,
            next_number,
            needs_full: true,
            unsent: None,
            turns: 0,
            deltas: 0,
            deltas_bytes: 0,
            full_bytes: 0,
            catalog_version: 0,
            partitions: BTreeMap::new(),
            group_offsets: BTreeMap::new(),
        }
    }

    fn wants_full(&self) -> bool {
        let is_long = self.deltas_bytes > self.full_bytes.max(DELTAS_BYTES_MIN);
        self.needs_full || self.deltas >= DELTAS_MAX || is_long
    }

    fn header(&self, shard: &Shard, is_full: bool) -> ManifestHeader {
        ManifestHeader {
            is_full,
            broker_id: self.row.broker_id,
            number: self.next_number,
            written_ms: shard.io().wall_ms(),
            cluster_id: shard.options().cluster_id.clone(),
        }
    }

    /// All that this core knows, streamed: of the segments one partition's are in memory at a time.
    async fn write_full(&mut self, shard: &Rc<Shard>, tier: &Rc<Tier>) -> Result<(), ManifestError> {
        self.needs_full = true;
        self.unsent = None;
        // Whatever was noted is durable beside its partition, and is read there.
        let _ = tier.manifest_news().take();
        let (io, store) = (shard.io(), tier.store());
        let partitions: Vec<Rc<Partition>> =
            shard.partitions().into_iter().filter(|partition| partition.remote().is_some()).collect();
        let segments: usize =
            partitions.iter().filter_map(|partition| Some(partition.remote()?.segments().finished().len())).sum();
        let name = ManifestName { number: self.next_number, is_full: true };
        let mut encoder = ManifestEncoder::new(&self.header(shard, true));
        self.catalog_version = 0;
        self.partitions.clear();
        self.group_offsets.clear();
        self.add_catalog(shard, &mut encoder);
        self.add_group_offsets(shard, &mut encoder).await;
        if encoder.is_empty() && partitions.is_empty() && self.next_number == 0 {
            // Nothing to say yet: the row begins with a full one when there is.
            return Ok(());
        }
        let len_bytes = encoder.len_bytes() + segments * SEGMENT_BYTES_GUESS + PARTITION_BYTES_GUESS * partitions.len();
        let mut upload = self.row.begin(store, name, len_bytes as u64).await?;
        for partition in partitions {
            let said = said_of(&partition);
            let read = metadata_image::read_finished(io, partition.folder()).await;
            let segments = match read {
                Ok(segments) => segments,
                Err(error) => {
                    warn!(topic = partition.topic(), partition = partition.id().partition, %error, "a partition is left out of the tier's manifest: a restore finds its segments in their files");
                    continue;
                }
            };
            encoder.add(&ManifestEntry::Partition(said.clone()));
            self.partitions.insert(said.id, said);
            for segment in segments {
                encoder.add(&ManifestEntry::Segment(SegmentEvent::Image(segment)));
                if encoder.len_bytes() >= PIECE_BYTES {
                    upload.append(encoder.take()).await?;
                }
            }
            io.yield_now().await;
        }
        encoder.end();
        upload.append(encoder.take()).await?;
        self.full_bytes = upload.finish(store).await?;
        self.next_number += 1;
        (self.needs_full, self.deltas, self.deltas_bytes) = (false, 0, 0);
        if let Err(error) = self.row.remove_before(store, name).await {
            warn!(%error, "old manifests of the tier could not be removed; the next full one tries again");
        }
        Ok(())
    }

    /// What has changed; `None` where nothing has.
    async fn delta(&mut self, shard: &Rc<Shard>, events: Vec<(PartitionId, SegmentEvent)>) -> Option<Vec<u8>> {
        let mut encoder = ManifestEncoder::new(&self.header(shard, false));
        self.add_catalog(shard, &mut encoder);
        let mut changed: BTreeMap<PartitionId, Vec<SegmentEvent>> = BTreeMap::new();
        for (id, event) in events {
            changed.entry(id).or_default().push(event);
        }
        let is_slow_turn = self.turns.is_multiple_of(TURNS_OF_SLOW_NEWS);
        for partition in shard.partitions().iter().filter(|partition| partition.remote().is_some()) {
            let said = said_of(partition);
            let events = changed.remove(&said.id);
            let has_moved = is_slow_turn && self.partitions.get(&said.id) != Some(&said);
            if events.is_some() || has_moved {
                encoder.add(&ManifestEntry::Partition(said.clone()));
                self.partitions.insert(said.id, said);
                events.into_iter().flatten().for_each(|event| encoder.add(&ManifestEntry::Segment(event)));
            }
        }
        // Those that are left have gone from this core: whoever has them now says all of them, or nobody does any more.
        if is_slow_turn {
            self.add_group_offsets(shard, &mut encoder).await;
        }
        if encoder.is_empty() {
            return None;
        }
        encoder.end();
        Some(encoder.take())
    }

    async fn send_delta(&mut self, tier: &Rc<Tier>) -> Result<(), ManifestError> {
        let Some(bytes) = &self.unsent else { return Ok(()) };
        let name = ManifestName { number: self.next_number, is_full: false };
        let mut upload = self.row.begin(tier.store(), name, bytes.len() as u64).await?;
        upload.append(bytes.clone()).await?;
        self.deltas_bytes += upload.finish(tier.store()).await?;
        self.deltas += 1;
        self.next_number += 1;
        self.unsent = None;
        Ok(())
    }

    /// The catalog, on the core that keeps it, where it has changed.
    fn add_catalog(&mut self, shard: &Shard, encoder: &mut ManifestEncoder) {
        let Some(host) = shard.catalog_host() else { return };
        if host.version() != self.catalog_version {
            self.catalog_version = host.version();
            encoder.add(&ManifestEntry::Catalog(host.image()));
        }
    }

    /// Committed offsets of the coordinators of this core, of those where something was committed.
    async fn add_group_offsets(&mut self, shard: &Rc<Shard>, encoder: &mut ManifestEncoder) {
        for coordinator in shard.groups().all() {
            let partition = coordinator.partition().id().partition;
            let known = self.group_offsets.get(&partition).copied();
            let Some(commits) = coordinator.look(GroupCoordinator::commit_count) else { continue };
            if commits == known.map_or(0, |known| known.commits) {
                continue;
            }
            let Some(batches) = committed_batches(shard, &coordinator).await else { continue };
            let leader_epoch = coordinator.partition().log().borrow().leader_epoch().0;
            let noted = NotedOffsets { leader_epoch, commits, batches_crc: crc32c(&batches) };
            self.group_offsets.insert(partition, noted);
            let is_same = known.is_some_and(|known| {
                (known.leader_epoch, known.batches_crc) == (noted.leader_epoch, noted.batches_crc)
            });
            if !is_same {
                encoder.add(&ManifestEntry::GroupOffsets { partition, leader_epoch, batches });
            }
        }
    }
}

fn said_of(partition: &Partition) -> ManifestPartition {
    let log = partition.log().borrow();
    let offsets = log.offsets();
    ManifestPartition {
        id: partition.id(),
        topic: partition.topic().to_owned(),
        leader_epoch: log.leader_epoch().0,
        log_start: offsets.log_start,
        log_end: offsets.written,
    }
}

/// All committed offsets of a coordinator, as the log of its partition would have them; `None` where it has gone.
async fn committed_batches(shard: &Rc<Shard>, coordinator: &Coordinator<GroupCoordinator>) -> Option<Vec<u8>> {
    let mut batches = Vec::new();
    let mut next_offset = Offset(0);
    let mut from = None;
    loop {
        let look = |groups: &GroupCoordinator| groups.committed(from.as_deref(), OFFSETS_A_SLICE);
        let CommittedSlice { records, next } = coordinator.look(look)?;
        for records in records.chunks(OFFSETS_A_SLICE) {
            put_batch(&mut batches, &mut next_offset, records);
        }
        let Some(next) = next else { return Some(batches) };
        from = Some(next);
        shard.io().yield_now().await;
    }
}

/// Adds a batch of these records.
pub fn put_batch(batches: &mut Vec<u8>, next_offset: &mut Offset, records: &[CoordinatorRecord]) {
    let mut builder = BatchBuilder::new();
    for record in records {
        // The records' own times say when they were committed.
        builder.add(0, Some(&record.key), record.value.as_deref());
    }
    let Ok(mut batch) = builder.build() else { return };
    stamp(&mut batch, *next_offset, LeaderEpoch(0));
    batches.extend_from_slice(&batch);
    *next_offset = next_offset.plus(i64::from(builder.record_count()));
}

const CORES_OF_A_NODE: i32 = 1000;
/// Kept until a manifest says them; beyond, the next one says all.
const EVENTS_MAX: usize = 10_000;
/// So many deltas, and what they have outgrown at least, before a full one takes their place.
const DELTAS_MAX: u32 = 100;
const DELTAS_BYTES_MIN: u64 = 1 << 20;
/// Log ends and committed offsets move all the time: they go with every second manifest.
const TURNS_OF_SLOW_NEWS: u64 = 2;
/// After failures, up to 16 intervals.
const BACKOFF_DOUBLINGS_MAX: u32 = 4;
const OFFSETS_A_SLICE: usize = 500;
const PIECE_BYTES: usize = 256 * 1024;
const SEGMENT_BYTES_GUESS: usize = 128;
const PARTITION_BYTES_GUESS: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::offset::TopicId;
    use crate::tier::metadata::tests::segment;
    use crate::tier::segment_state::SegmentState;

    #[test]
    fn news_are_kept_in_order_up_to_a_limit() {
        let news = ManifestNews::default();
        let id = PartitionId { topic_id: TopicId([3; 16]), partition: 0 };
        let event = |number| SegmentEvent::Image(segment(number, 0, 9, SegmentState::CopyFinished));
        news.note(id, event(1));
        news.note(id, event(2));
        assert_eq!(news.take(), Some(vec![(id, event(1)), (id, event(2))]));
        for _ in 0..=EVENTS_MAX {
            news.note(id, event(3));
        }
        assert_eq!(news.take(), None, "too many: all is to be said");
        news.note(id, event(4));
        assert_eq!(news.take().map(|events| events.len()), Some(1));
    }
}
