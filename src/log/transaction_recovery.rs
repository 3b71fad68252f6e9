//! The transaction indexes of a partition that is opened: read, and made right from the markers in the log.
//!
//! Below the recovery point each entry is on stable storage. The markers above it were seen by the scan, and the replay for
//! the producers says what they ended. An index that is missing says that nothing was aborted, as in Kafka; where another
//! index of the segment is missing too, all are made anew.

use std::collections::BTreeMap;
use std::path::Path;

use crate::log::error::RecoveryError;
use crate::log::layout::transaction_index_path;
use crate::log::plan::SegmentId;
use crate::log::recovery::RecoveryOptions;
use crate::log::segment::Segment;
use crate::log::segment_files::{at_path, remove_if_there};
use crate::log::transaction_index::{AbortedTransaction, TRANSACTION_ENTRY_BYTES, TransactionIndex};
use crate::record::offset::Offset;
use crate::ring::buffer::Buffer;
use crate::ring::io::{Io, OpenHow, read_file};

/// Reads and mends the transaction indexes of one partition.
pub(in crate::log) struct TransactionRecovery<'a> {
    pub(in crate::log) io: &'a Io,
    pub(in crate::log) folder: &'a Path,
    pub(in crate::log) options: &'a RecoveryOptions,
    pub(in crate::log) log_end: Offset,
    /// What markers from here on have ended comes from the log.
    pub(in crate::log) markers_from: Option<Offset>,
    /// The files in the folder, with their lengths.
    pub(in crate::log) found: BTreeMap<SegmentId, u64>,
}

impl TransactionRecovery<'_> {
    /// Reads the indexes that may be wrong, and that of the active segment. Where one is damaged, its segment's markers
    /// are to be replayed: `markers_from` says so on return.
    pub(in crate::log) async fn read(
        &mut self,
        segments: &[Segment],
    ) -> Result<BTreeMap<SegmentId, Vec<AbortedTransaction>>, RecoveryError> {
        let mut all = BTreeMap::new();
        for (at, segment) in segments.iter().enumerate() {
            let id = segment.id();
            let next_base = segments.get(at + 1).map(Segment::base_offset);
            let end = next_base.unwrap_or(self.log_end);
            let len_bytes = self.found.get(&id).copied().unwrap_or(0);
            let is_trusted = next_base.is_some() && (self.options.clean || end <= self.options.recovery_point);
            let is_whole = len_bytes.is_multiple_of(TRANSACTION_ENTRY_BYTES as u64);
            let is_replayed = self.markers_from.is_some_and(|markers| markers < end);
            if is_trusted && is_whole && !is_replayed {
                continue;
            }
            let mut entries = Vec::new();
            if len_bytes > 0 {
                let path = transaction_index_path(self.folder, id);
                let bytes = read_file(self.io, &path, INDEX_BYTES_MAX).await.map_err(at_path(&path))?;
                entries.extend(rising(&bytes, id.base_offset(), end));
                // What a crash tore lies past the recovery point, and its markers were seen. Else it is damage.
                let is_damaged = bytes.len() != entries.len() * TRANSACTION_ENTRY_BYTES;
                if is_damaged && (is_trusted || self.options.clean) {
                    let from = id.base_offset();
                    self.markers_from = Some(self.markers_from.map_or(from, |markers| markers.min(from)));
                }
            }
            all.insert(id, entries);
        }
        Ok(all)
    }

    /// Brings segments and files to what is right: of what was read, all below the markers that were replayed, and what
    /// those have aborted. Says how many files were changed.
    pub(in crate::log) async fn write(
        &self,
        segments: &mut [Segment],
        mut read: BTreeMap<SegmentId, Vec<AbortedTransaction>>,
        aborted: &[AbortedTransaction],
    ) -> Result<u32, RecoveryError> {
        let mut changed = 0;
        let mut found = self.found.clone();
        for at in 0..segments.len() {
            let id = segments[at].id();
            let next_base = segments.get(at + 1).map(Segment::base_offset);
            let end = next_base.unwrap_or(self.log_end);
            let len_bytes = found.remove(&id);
            let Some(mut entries) = read.remove(&id) else {
                let count = len_bytes.unwrap_or(0) / TRANSACTION_ENTRY_BYTES as u64;
                let index = TransactionIndex::opened(u32::try_from(count).unwrap_or(u32::MAX));
                *segments[at].transaction_index_mut() = index;
                continue;
            };
            let kept = entries.clone();
            if let Some(markers) = self.markers_from {
                entries.truncate(entries.partition_point(|entry| entry.last_offset < markers));
                let from = markers.max(id.base_offset());
                entries.extend(aborted.iter().filter(|entry| entry.last_offset >= from && entry.last_offset < end));
            }
            let same = entries.iter().zip(&kept).take_while(|(one, other)| one == other).count();
            let right_bytes = (entries.len() * TRANSACTION_ENTRY_BYTES) as u64;
            let is_wrong = same < entries.len() || len_bytes.is_some_and(|len_bytes| len_bytes != right_bytes);
            // What a crash left behind the recovery point may be in the page cache alone, and no later start looks again.
            let durable_below = if self.options.clean { self.log_end } else { self.options.recovery_point };
            let durable = entries.partition_point(|entry| entry.last_offset < durable_below);
            if is_wrong || durable < entries.len() {
                // What is right is not cut: a full disk has no room for it then.
                let cut_from_bytes = len_bytes.filter(|_| is_wrong).unwrap_or(0);
                self.replace(id, &entries, same.min(durable), cut_from_bytes).await?;
                changed += u32::from(is_wrong);
            }
            *segments[at].transaction_index_mut() = match next_base {
                None => TransactionIndex::loaded(entries),
                Some(_) => TransactionIndex::opened(u32::try_from(entries.len()).unwrap_or(u32::MAX)),
            };
        }
        for id in found.into_keys() {
            // Of a segment that is gone.
            remove_if_there(self.io, &transaction_index_path(self.folder, id)).await?;
            changed += 1;
        }
        Ok(changed)
    }

    /// The first `same` entries stay; durable on return. A full disk is an error: without it readers see what was aborted.
    async fn replace(
        &self,
        id: SegmentId,
        entries: &[AbortedTransaction],
        same: usize,
        file_bytes: u64,
    ) -> Result<(), RecoveryError> {
        let path = transaction_index_path(self.folder, id);
        if entries.is_empty() {
            return remove_if_there(self.io, &path).await;
        }
        let replaced = async {
            let file = self.io.open(&path, OpenHow::ReadWriteOrCreate).await?;
            let kept_bytes = (same * TRANSACTION_ENTRY_BYTES) as u64;
            if file_bytes > kept_bytes {
                file.set_len(kept_bytes).await?;
            }
            let mut bytes = Vec::new();
            entries.iter().skip(same).for_each(|entry| entry.encode(&mut bytes));
            if !bytes.is_empty() {
                file.write_at(Buffer::from_vec(bytes), kept_bytes).await.0?;
            }
            file.sync_data().await
        };
        replaced.await.map_err(at_path(&path))
    }
}

/// The entries that can be of a segment from `base` to `end`, as far as they rise.
fn rising(bytes: &[u8], base: Offset, end: Offset) -> impl Iterator<Item = AbortedTransaction> + '_ {
    let mut next = base;
    AbortedTransaction::decode_all(bytes).take_while(move |entry| {
        let can_be = (next..end).contains(&entry.last_offset) && entry.first_offset < entry.last_offset;
        next = entry.last_offset.plus(1);
        can_be
    })
}

/// No index is larger: 2^31 bytes of log have 14 million aborted transactions at most, 34 bytes each.
const INDEX_BYTES_MAX: u64 = 512 << 20;

#[cfg(all(test, feature = "sim"))]
mod tests {
    use super::*;
    use crate::log::layout::segment_path;
    use crate::log::partition_log::{LogConfig, PartitionLog};
    use crate::log::partition_transactions::AbortedSource;
    use crate::log::plan::{Append, IndexKind, ReadBound, ReadPlan};
    use crate::log::recovery::{RecoveredLog, create_partition, open_partition};
    use crate::log::segment_files::{cut_files, roll_files, write_producer_snapshot};
    use crate::record::batch::{TRANSACTIONAL_BIT, parse_header};
    use crate::record::builder::BatchBuilder;
    use crate::record::check::CheckedBatch;
    use crate::record::control::EndMarker;
    use crate::record::offset::{LeaderEpoch, ProducerId, TopicId};
    use crate::ring::sim::options::SimOptions;
    use crate::ring::sim::random::Random;
    use crate::ring::sim::world::Sim;
    use std::cell::RefCell;
    use std::path::PathBuf;
    use std::rc::Rc;

    const TOPIC: TopicId = TopicId(*b"the id of topic ");
    const NEVER_MS: i64 = i64::MAX / 2;

    fn folder() -> PathBuf {
        PathBuf::from("/data/a-topic-0")
    }

    /// A batch that the log has.
    #[derive(Clone, Copy, Debug)]
    struct Written {
        producer_id: i64,
        base_offset: i64,
        last_offset: i64,
        sequence: i32,
        is_transactional: bool,
        /// Of a marker: whether it commits.
        marker: Option<bool>,
        segment: SegmentId,
        end_bytes: u64,
    }

    /// What somebody who has read all of the log knows: first offsets of open transactions, and those that were aborted.
    fn model(batches: &[Written]) -> (BTreeMap<i64, i64>, Vec<AbortedTransaction>) {
        let mut open: BTreeMap<i64, i64> = BTreeMap::new();
        let mut aborted = Vec::new();
        for batch in batches {
            let id = batch.producer_id;
            match batch.marker {
                Some(is_commit) => {
                    let Some(first) = open.remove(&id).filter(|_| !is_commit) else { continue };
                    aborted.push(AbortedTransaction {
                        producer_id: ProducerId(id),
                        first_offset: Offset(first),
                        last_offset: Offset(batch.base_offset),
                        last_stable_offset: Offset(open.values().min().copied().unwrap_or(batch.base_offset + 1)),
                    });
                }
                None if batch.is_transactional => {
                    open.entry(id).or_insert(batch.base_offset);
                }
                None => {}
            }
        }
        (open, aborted)
    }

    /// Random batches and markers; some appends fail, with all that was planned behind them.
    async fn append_some(io: &Io, log: &mut PartitionLog, batches: &mut Vec<Written>, random: &Random) {
        for _ in 0..random.between(1, 40) {
            let producer_id = random.below(4) as i64;
            let is_open = model(batches).0.contains_key(&producer_id);
            let last = batches.iter().rev().find(|batch| batch.producer_id == producer_id && batch.marker.is_none());
            let sequence = last.map_or(0, |last| last.sequence + (last.last_offset - last.base_offset) as i32 + 1);
            let is_transactional = is_open || random.below(3) > 0;
            let marker =
                (is_open || random.below(9) == 0).then(|| random.below(2) == 0).filter(|_| random.below(3) == 0);
            let (mut bytes, checked) = match marker {
                Some(is_commit) => {
                    let marker = EndMarker { is_commit, coordinator_epoch: 1, transaction_version: 1 };
                    let bytes = marker.to_batch(ProducerId(producer_id), 0, 1000);
                    let header = parse_header(&bytes).expect("built");
                    (bytes, CheckedBatch::of_marker(&header, marker))
                }
                None => {
                    let builder = BatchBuilder::new().producer(ProducerId(producer_id), 0, sequence);
                    let mut builder = builder.attributes(if is_transactional { TRANSACTIONAL_BIT } else { 0 });
                    for number in 0..random.between(1, 4) {
                        builder.add(number as i64, None, Some(&vec![7; random.below(90) as usize]));
                    }
                    let bytes = builder.build().expect("uncompressed");
                    let checked = CheckedBatch::from_header(&parse_header(&bytes).expect("built"));
                    (bytes, checked)
                }
            };
            let plan = loop {
                match log.plan_append(&checked, 0).expect("it follows") {
                    Append::Plan(plan) => break plan,
                    Append::Roll(roll) => {
                        roll_files(io, &folder(), &roll).await.expect("room");
                        assert!(log.rolled(&roll));
                    }
                    Append::Duplicate { .. } => panic!("no duplicate was sent"),
                }
            };
            if random.below(8) == 0 {
                let cut = log.fail_append(&plan).expect("it was under way");
                cut_files(io, &folder(), &cut).await.expect("a good disk");
                log.truncated(&cut);
                continue;
            }
            plan.stamp(&mut bytes);
            let file = io.open(&segment_path(&folder(), plan.segment), OpenHow::ReadWrite).await.expect("there");
            file.write_at(Buffer::from_vec(bytes), plan.position_bytes).await.0.expect("room");
            log.commit_append(&plan);
            batches.push(Written {
                producer_id,
                base_offset: plan.base_offset.0,
                last_offset: plan.last_offset.0,
                sequence,
                is_transactional,
                marker,
                segment: plan.segment,
                end_bytes: plan.position_bytes + u64::from(plan.len_bytes),
            });
            assert_eq!(log.end_for(ReadBound::LastStable), log.offsets().last_stable);
            if random.below(2) == 0 {
                log.durable(log.offsets().written);
                let stable = model(batches).0.values().min().copied().unwrap_or(log.offsets().written.0);
                assert_eq!(log.offsets().last_stable.0, stable);
            }
            if random.below(10) == 0 {
                log.snapshot_producers();
            }
            if random.below(3) == 0 {
                let writes = log.take_index_writes();
                write(io, log, writes, random.below(2) == 0).await;
            }
        }
    }

    /// Writes entries of transaction indexes and snapshots; `syncs` tells the log that they are durable. The other indexes
    /// are left to the recovery.
    async fn write(io: &Io, log: &mut PartitionLog, writes: Vec<crate::log::plan::IndexWrite>, syncs: bool) {
        for write in writes.into_iter().filter(|write| write.kind == IndexKind::Transaction) {
            let path = transaction_index_path(&folder(), write.segment);
            let file = io.open(&path, OpenHow::ReadWriteOrCreate).await.expect("room");
            file.write_at(Buffer::from_vec(write.bytes.clone()), write.position_bytes).await.0.expect("room");
            if syncs {
                log.index_written(&write);
            }
        }
        while let Some(write) = log.next_producer_snapshot() {
            write_producer_snapshot(io, &folder(), write).await.expect("room");
        }
    }

    async fn all_aborted(io: &Io, log: &PartitionLog) -> Vec<AbortedTransaction> {
        let first = log.segments()[0].id();
        let range = ReadPlan {
            segment: first,
            position_bytes: 0,
            len_bytes: u32::MAX,
            start_offset: Offset(0),
            next_hint: None,
        };
        let mut all = Vec::new();
        let Some(plan) = log.plan_aborted(&range) else { return all };
        for source in plan.sources {
            match source {
                AbortedSource::Memory(entries) => all.extend(entries),
                AbortedSource::File { segment, entry_count } => {
                    let bytes = read_file(io, &transaction_index_path(&folder(), segment), 1 << 20).await;
                    let bytes = bytes.expect("it says that it is there");
                    assert_eq!(bytes.len(), entry_count as usize * TRANSACTION_ENTRY_BYTES);
                    all.extend(AbortedTransaction::decode_all(&bytes));
                }
            }
        }
        all
    }

    /// C115 and C119 across restarts: random transactions, failed appends, rolls, clean stops and crashes that take what was
    /// not durable of log and indexes. After each start the open transactions, where they begin, and the aborted ones are
    /// what a reader of the whole log would say.
    #[test]
    fn c119_open_and_aborted_transactions_survive_restarts() {
        let (mut seen_open, mut seen_aborted) = (0, 0);
        for seed in 0..80 {
            let random = Random::new(seed);
            let sim = Sim::new(SimOptions::calm(1));
            let machine = sim.machine();
            let io = machine.core(0);
            let slot: Rc<RefCell<Option<(usize, usize)>>> = Rc::default();
            let (told, io_of_job, machine_of_job) = (slot.clone(), io.clone(), machine.clone());
            io.spawn(async move {
                let (io, machine) = (io_of_job, machine_of_job);
                let (mut open_count, mut aborted_count) = (0, 0);
                io.create_dir(Path::new("/data")).await.expect("an empty disk");
                let mut recovered: RecoveredLog =
                    create_partition(&io, &folder(), TOPIC, 200, NEVER_MS).await.expect("a new folder");
                let mut batches: Vec<Written> = Vec::new();
                for start in 0..6 {
                    let context = format!("seed {seed}, start {start}");
                    let config = LogConfig { segment_bytes: 1500, index_interval_bytes: 200, ..LogConfig::default() };
                    let mut log = PartitionLog::new(recovered, config, LeaderEpoch(3 + start));
                    let (open, aborted) = model(&batches);
                    assert_eq!(all_aborted(&io, &log).await, aborted, "{context}");
                    let first = open.values().min().copied();
                    let stable = first.unwrap_or(log.offsets().log_end.0);
                    assert_eq!(log.offsets().last_stable, Offset(stable), "{context}");
                    if let Some(batch) = batches.iter().find(|batch| Some(batch.base_offset) == first) {
                        let at = log.last_stable_at;
                        let before = batches.iter().rev().find(|other| other.base_offset < batch.base_offset);
                        let begins_at = before.filter(|before| before.segment == batch.segment);
                        assert_eq!(at.segment, batch.segment, "{context}");
                        assert_eq!(at.position_bytes, begins_at.map_or(0, |before| before.end_bytes), "{context}");
                    }
                    (open_count, aborted_count) = (open_count + open.len(), aborted_count + aborted.len());
                    append_some(&io, &mut log, &mut batches, &random).await;
                    let is_clean = random.below(2) == 0;
                    let options = |recovery_point: i64| RecoveryOptions {
                        recovery_point: Offset(recovery_point),
                        clean: is_clean,
                        log_start: Offset::ZERO,
                        topic_id: Some(TOPIC),
                        index_interval_bytes: 200,
                        producer_expiration_ms: NEVER_MS,
                        remote: None,
                    };
                    let end = |batches: &[Written]| batches.last().map_or(0, |batch| batch.last_offset + 1);
                    if is_clean {
                        log.snapshot_producers();
                        let writes = log.take_all_index_writes();
                        write(&io, &mut log, writes, true).await;
                        let indexes = io.read_dir(&folder()).await.expect("there").into_iter();
                        // Not written by this test: made anew, and not from the transaction indexes.
                        for name in indexes.map(|entry| entry.name).filter(|name| name.ends_with(".timeindex")) {
                            let _ = io.remove_file(&folder().join(name)).await;
                        }
                        recovered = open_partition(&io, &folder(), &options(end(&batches))).await.expect("whole");
                        continue;
                    }
                    let unsynced = log.transaction_index_unsynced().map_or(i64::MAX, |offset| offset.0);
                    batches.truncate(batches.len() - random.index(6).min(batches.len()));
                    let recovery_point = random.below(end(&batches) as u64 + 1) as i64;
                    let at_batch = batches.iter().map(|batch| batch.base_offset).filter(|base| *base <= recovery_point);
                    let recovery_point = at_batch.max().unwrap_or(0).min(unsynced);
                    let (segment, end_bytes) =
                        batches.last().map_or((SegmentId(Offset(0)), 0), |last| (last.segment, last.end_bytes));
                    for entry in io.read_dir(&folder()).await.expect("there") {
                        let path = folder().join(&entry.name);
                        if let Some(base) = entry.name.strip_suffix(".log").and_then(|base| base.parse().ok()) {
                            let id = SegmentId(Offset(base));
                            machine.damage(path, |bytes| match id.cmp(&segment) {
                                std::cmp::Ordering::Less => {}
                                std::cmp::Ordering::Equal => bytes.truncate(end_bytes as usize),
                                std::cmp::Ordering::Greater => bytes.clear(),
                            });
                        } else if entry.name.ends_with(".txnindex") {
                            // What is below the recovery point is durable; the rest may be anything.
                            let kind = random.below(4);
                            machine.damage(path, |bytes| {
                                let durable = AbortedTransaction::decode_all(bytes)
                                    .take_while(|entry| entry.last_offset.0 < recovery_point)
                                    .count();
                                let rest = durable * TRANSACTION_ENTRY_BYTES;
                                match kind {
                                    0 => bytes.truncate(rest),
                                    1 => bytes.truncate(bytes.len().min(rest + 17)),
                                    2 => bytes.iter_mut().skip(rest).for_each(|byte| *byte = 0),
                                    _ => {}
                                }
                            });
                        }
                    }
                    let opened = open_partition(&io, &folder(), &options(recovery_point)).await;
                    recovered = opened.unwrap_or_else(|error| panic!("{context}: {error}"));
                    assert_eq!(recovered.log_end, Offset(end(&batches)), "{context}");
                }
                *told.borrow_mut() = Some((open_count, aborted_count));
            });
            let done = sim.run_until(|| slot.borrow().is_some(), 60_000_000_000);
            assert!(done.is_ok(), "seed {seed}: {done:?}");
            let (open, aborted) = slot.borrow_mut().take().expect("it ended");
            (seen_open, seen_aborted) = (seen_open + open, seen_aborted + aborted);
        }
        assert!(seen_open > 100 && seen_aborted > 100, "{seen_open} open, {seen_aborted} aborted");
    }
}
