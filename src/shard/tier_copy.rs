//! One sealed segment on its way to the tier.
//!
//! 1. COPY_SEGMENT_STARTED, durable here: whatever follows, a start after a crash knows what to clean up.
//! 2. The file, under a temporary name; each batch is checked on the way.
//! 3. Its length, as the store says it; then its name, and the length under that name.
//! 4. COPY_SEGMENT_FINISHED, durable here: it is read and counted from now on, and the local segment may go.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::mem;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use tracing::{info, warn};

use crate::log::layout;
use crate::log::leader_epochs::{EpochEntry, LeaderEpochs};
use crate::log::plan::SegmentId;
use crate::record::batch::Crc32c;
use crate::record::offset::{Offset, TimestampMs};
use crate::ring::buffer::Buffer;
use crate::ring::io::{File, OpenHow, read_file};
use crate::shard::core::Shard;
use crate::shard::partition::Partition;
use crate::shard::remote_partition::RemotePartition;
use crate::shard::tier::Tier;
use crate::shard::tier_work::{WorkError, check_goes_on};
use crate::tier::batch_walk::BatchWalk;
use crate::tier::error::StoreError;
use crate::tier::index_check::{IndexCheck, MadeIndexes};
use crate::tier::metadata::{RemoteSegment, RemoteSegmentId, SegmentEvent};
use crate::tier::segment_file::SegmentFileHeader;
use crate::tier::segment_state::SegmentState;
use crate::tier::store::{Upload, partition_folder, segment_path, temporary_path};

/// A segment that is to be copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The segment.
    pub segment: SegmentId,
    /// Where the next one begins.
    pub next_base: Offset,
    /// Length of its log.
    pub log_bytes: u64,
    /// Largest timestamp of its records.
    pub max_timestamp: TimestampMs,
}

/// Copies one segment.
///
/// # Errors
/// It is not copied: what is left of it in the store does not count, and is removed at the next try.
pub(in crate::shard) async fn copy(
    shard: &Rc<Shard>,
    partition: &Rc<Partition>,
    remote: &Rc<RemotePartition>,
    candidate: &Candidate,
) -> Result<(), WorkError> {
    shard.counters().remote_copy_requests.add(1);
    let copied = match copy_with(shard, partition, remote, candidate, None).await {
        Err(WorkError::WrongIndex { indexes, .. }) => {
            let (topic, index) = (partition.topic(), partition.id().partition);
            warn!(topic, partition = index, segment = %candidate.segment, "an index of the segment is wrong: it is copied with one made anew; the next start that looks at it mends the local one");
            copy_with(shard, partition, remote, candidate, Some(indexes)).await
        }
        done => done,
    };
    match &copied {
        Ok(()) => shard.counters().remote_copy_bytes.add(candidate.log_bytes),
        Err(WorkError::GivenUp) => {}
        Err(_) => shard.counters().remote_copy_errors.add(1),
    }
    copied
}

/// Copies one segment, with `indexes` in the place of its own where they are given.
async fn copy_with(
    shard: &Rc<Shard>,
    partition: &Rc<Partition>,
    remote: &Rc<RemotePartition>,
    candidate: &Candidate,
    indexes: Option<MadeIndexes>,
) -> Result<(), WorkError> {
    let Some(tier) = shard.tier() else { return Err(WorkError::GivenUp) };
    let io = shard.io();
    let (topic, id) = (partition.topic(), partition.id());
    let began_at = io.now();
    // With what is sent, for as long as the store has it.
    let memory: Rc<dyn Any> = Rc::new(tier.reserve_copy(io).await);
    let epochs = epochs_within(partition.log().borrow().epochs(), candidate);
    let mut sections = Sections::open(shard, partition, candidate, &epochs, indexes).await?;
    let header = SegmentFileHeader::of(sections.len_bytes())?;
    let segment_id = RemoteSegmentId::from_random(u128::from(io.random_u64()) << 64 | u128::from(io.random_u64()));
    let mut segment = RemoteSegment {
        id: segment_id,
        start_offset: candidate.segment.base_offset(),
        end_offset: candidate.next_base.plus(-1),
        max_timestamp: candidate.max_timestamp,
        event_time_ms: io.wall_ms(),
        broker_id: shard.broker_id(),
        segment_bytes: u32::try_from(candidate.log_bytes).unwrap_or(u32::MAX),
        file_bytes: 0,
        file_crc: 0,
        state: SegmentState::CopyStarted,
        has_transaction_index: sections.has_transaction_index(),
        epochs: epochs.1,
    };
    info!(topic, partition = id.partition, segment = %candidate.segment, remote_segment = %segment_id, bytes = header.len_bytes(), "copying a segment to the tier");
    remote.record(io, SegmentEvent::Copy(segment.clone())).await?;
    let temporary = temporary_path(segment_id);
    let path = segment_path(topic, id, segment_id);
    let copied = async {
        let upload = tier.store().create(&temporary, header.len_bytes()).await?;
        let mut sending = Sending {
            shard,
            partition,
            tier,
            memory: memory.clone(),
            writing: Writing::Idle(upload),
            crc: Crc32c::new(),
            sent_bytes: 0,
        };
        sending.send(Buffer::from_vec(header.encode().to_vec())).await?;
        let max_timestamp = sections.send(&mut sending, candidate).await?;
        let (sent_bytes, file_crc) = (sending.sent_bytes, sending.crc.value());
        sending.written().await?.close(sent_bytes).await?;
        tier.store().check_len_bytes(&temporary, header.len_bytes()).await?;
        tier.store().make_folder(&partition_folder(topic, id)).await?;
        check_goes_on(shard, partition)?;
        tier.store().rename(&temporary, &path).await?;
        tier.store().check_len_bytes(&path, header.len_bytes()).await?;
        Ok::<_, WorkError>((file_crc, max_timestamp))
    }
    .await;
    let (file_crc, max_timestamp) = copied?;
    segment.state = SegmentState::CopyFinished;
    segment.event_time_ms = io.wall_ms();
    segment.file_bytes = header.len_bytes();
    segment.file_crc = file_crc;
    // Of the batches themselves: retention goes by it for years.
    segment.max_timestamp = max_timestamp;
    check_goes_on(shard, partition)?;
    remote.record(io, SegmentEvent::Copy(segment.clone())).await?;
    tier.manifest_news().note(id, SegmentEvent::Image(segment));
    shard.counters().segments_copied.add(1);
    let elapsed_ms = io.now().since(began_at) / 1_000_000;
    info!(topic, partition = id.partition, segment = %candidate.segment, remote_segment = %segment_id, bytes = header.len_bytes(), elapsed_ms, "copied a segment to the tier");
    Ok(())
}

/// The text of the leader epochs from the log's start to the segment's end, and the epochs within the segment.
fn epochs_within(epochs: &LeaderEpochs, candidate: &Candidate) -> (String, Vec<EpochEntry>) {
    let start = candidate.segment.base_offset();
    let below: Vec<EpochEntry> =
        epochs.entries().iter().filter(|entry| entry.start_offset < candidate.next_base).copied().collect();
    let mut text = format!("0\n{}\n", below.len());
    for entry in &below {
        text.push_str(&format!("{} {}\n", entry.epoch, entry.start_offset));
    }
    let first = below.partition_point(|entry| entry.start_offset <= start).saturating_sub(1);
    let within = below.into_iter().skip(first);
    (text, within.map(|entry| EpochEntry { start_offset: entry.start_offset.max(start), ..entry }).collect())
}

/// The local files of a segment, open.
struct Sections {
    indexes: MadeIndexes,
    index_interval_bytes: u32,
    epochs: String,
    producers: Option<(File, u64)>,
    transactions: Option<(File, u64)>,
    log: (File, u64),
}

impl Sections {
    async fn open(
        shard: &Rc<Shard>,
        partition: &Partition,
        candidate: &Candidate,
        epochs: &(String, Vec<EpochEntry>),
        indexes: Option<MadeIndexes>,
    ) -> Result<Self, WorkError> {
        let (folder, segment) = (partition.folder(), candidate.segment);
        let log_path = layout::segment_path(folder, segment);
        let log = shard.io().open(&log_path, OpenHow::Read).await?;
        let indexes = match indexes {
            Some(indexes) => indexes,
            None => MadeIndexes {
                offset_index: read_index(shard, &layout::offset_index_path(folder, segment)).await?,
                time_index: read_index(shard, &layout::time_index_path(folder, segment)).await?,
            },
        };
        Ok(Self {
            indexes,
            index_interval_bytes: partition.limits().log.index_interval_bytes,
            epochs: epochs.0.clone(),
            producers: open_part(shard, &layout::producer_snapshot_path(folder, candidate.next_base)).await?,
            transactions: open_part(shard, &transaction_index_path(folder, segment)).await?,
            log: (log, candidate.log_bytes),
        })
    }

    fn len_bytes(&self) -> [u64; 6] {
        let len = |part: &Option<(File, u64)>| part.as_ref().map_or(0, |(_, len_bytes)| *len_bytes);
        [
            self.indexes.offset_index.len() as u64,
            self.indexes.time_index.len() as u64,
            self.epochs.len() as u64,
            len(&self.producers),
            len(&self.transactions),
            self.log.1,
        ]
    }

    fn has_transaction_index(&self) -> bool {
        self.transactions.as_ref().is_some_and(|(_, len_bytes)| *len_bytes > 0)
    }

    /// Sends all, in the order of the format; says the largest timestamp of the records.
    async fn send(&mut self, sending: &mut Sending<'_>, candidate: &Candidate) -> Result<TimestampMs, WorkError> {
        let segment = candidate.segment.base_offset();
        let MadeIndexes { offset_index, time_index } = mem::take(&mut self.indexes);
        let mut check = IndexCheck::new(segment, &offset_index, &time_index, self.index_interval_bytes);
        for index in [offset_index, time_index].into_iter().filter(|index| !index.is_empty()) {
            sending.send(Buffer::from_vec(index)).await?;
        }
        let epochs = mem::take(&mut self.epochs);
        if !epochs.is_empty() {
            sending.send(Buffer::from_vec(epochs.into_bytes())).await?;
        }
        for part in [self.producers.take(), self.transactions.take()].into_iter().flatten() {
            sending.send_file(&part, |_| Ok(())).await?;
        }
        let damaged = |source| WorkError::Damaged { segment, source };
        let mut walk = BatchWalk::new(segment);
        sending
            .send_file(&self.log, |bytes| walk.feed(bytes, |at, header| check.batch(at, header)).map_err(damaged))
            .await?;
        let (end, max_timestamp) = walk.finish().map_err(damaged)?;
        if end > candidate.next_base {
            let source =
                crate::tier::error::BatchDamage { position_bytes: 0, what: "its offsets reach into the next segment" };
            return Err(damaged(source));
        }
        match check.finish() {
            Some(indexes) => Err(WorkError::WrongIndex { segment, indexes }),
            None => Ok(max_timestamp),
        }
    }
}

/// An index; one that is missing is made anew.
async fn read_index(shard: &Rc<Shard>, path: &Path) -> Result<Vec<u8>, WorkError> {
    match read_file(shard.io(), path, INDEX_BYTES_MAX).await {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        read => Ok(read?),
    }
}

fn transaction_index_path(folder: &Path, segment: SegmentId) -> PathBuf {
    folder.join(format!("{:020}.txnindex", segment.base_offset().get()))
}

/// A file that may be missing: its section is empty then.
async fn open_part(shard: &Rc<Shard>, path: &Path) -> Result<Option<(File, u64)>, WorkError> {
    match shard.io().open(path, OpenHow::Read).await {
        Ok(file) => {
            let len_bytes = file.len().await?;
            Ok((len_bytes > 0).then_some((file, len_bytes)))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// A file on its way to the store. While a piece is being written, the next one is read and checked.
struct Sending<'a> {
    shard: &'a Rc<Shard>,
    partition: &'a Rc<Partition>,
    tier: &'a Tier,
    memory: Rc<dyn Any>,
    writing: Writing,
    crc: Crc32c,
    sent_bytes: u64,
}

/// What the store does with it.
enum Writing {
    Idle(Upload),
    UnderWay(Pin<Box<dyn Future<Output = Result<Upload, StoreError>>>>),
    Over,
}

impl Writing {
    /// Waits for the piece that is being written.
    async fn idle(self) -> Result<Upload, WorkError> {
        match self {
            Self::Idle(upload) => Ok(upload),
            Self::UnderWay(writing) => Ok(writing.await?),
            Self::Over => Err(WorkError::GivenUp),
        }
    }
}

impl Sending<'_> {
    /// Has one piece written when the mover's rate allows it and the one before is written. On return it is on its way.
    async fn send(&mut self, piece: Buffer) -> Result<(), WorkError> {
        check_goes_on(self.shard, self.partition)?;
        let len_bytes = piece.len() as u64;
        let io = self.shard.io();
        let at = self.tier.mover().borrow_mut().pace(len_bytes, io.now());
        io.sleep_until(at).await;
        self.crc.update(&piece);
        self.sent_bytes += len_bytes;
        let piece = piece.holding(self.memory.clone());
        let mut upload = mem::replace(&mut self.writing, Writing::Over).idle().await?;
        let mut writing: Pin<Box<dyn Future<Output = Result<Upload, StoreError>>>> = Box::pin(async move {
            upload.append(piece).await?;
            Ok(upload)
        });
        // The first poll sends it off.
        self.writing = match poll_fn(|polled| Poll::Ready(writing.as_mut().poll(polled))).await {
            Poll::Ready(done) => Writing::Idle(done?),
            Poll::Pending => Writing::UnderWay(writing),
        };
        Ok(())
    }

    /// The upload, when all of it is written.
    async fn written(self) -> Result<Upload, WorkError> {
        self.writing.idle().await
    }

    /// Sends exactly the bytes that a file had when it was opened.
    async fn send_file(
        &mut self,
        (file, len_bytes): &(File, u64),
        mut look: impl FnMut(&[u8]) -> Result<(), WorkError>,
    ) -> Result<(), WorkError> {
        let mut position_bytes = 0;
        while position_bytes < *len_bytes {
            let piece_bytes = usize::try_from(len_bytes - position_bytes).unwrap_or(usize::MAX).min(PIECE_BYTES);
            let (read, mut piece) = file.read_once(self.shard.io().buffer(piece_bytes), position_bytes).await;
            if read? < piece_bytes {
                return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into());
            }
            piece.truncate(piece_bytes);
            look(&piece)?;
            position_bytes += piece_bytes as u64;
            self.send(piece).await?;
            self.shard.io().yield_now().await;
        }
        Ok(())
    }
}

/// `segment.index.bytes` is a positive 32-bit number, and twice that is no index.
const INDEX_BYTES_MAX: u64 = 1 << 31;
/// Read, checked and sent at once; the core does other things in between.
const PIECE_BYTES: usize = 256 * 1024;
