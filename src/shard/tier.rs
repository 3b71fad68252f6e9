//! One core's way to the tier: its store, its mover, and the remote files that it has open.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::rc::Rc;
use std::task::Poll;

use ahash::RandomState;
use lru::LruCache;

use crate::record::offset::PartitionId;
use crate::ring::io::Io;
use crate::ring::task::WaitList;
use crate::shard::error::RemoteReadError;
use crate::shard::manifest_writer::ManifestNews;
use crate::shard::options::{ShardOptions, TierOptions};
use crate::shard::piece_source::{PieceSource, Region, log_pieces_begin};
use crate::shard::remote_bytes::RemoteBytes;
use crate::shard::remote_cache::RemoteCache;
use crate::shard::tier_memory::{TierMemory, TierReservation};
use crate::tier::error::SegmentFileError;
#[cfg(feature = "hdfs")]
use crate::tier::hdfs_store::HdfsStore;
use crate::tier::metadata::RemoteSegmentId;
use crate::tier::mover::{Mover, MoverLimits};
use crate::tier::remote_segments::RemoteSpan;
use crate::tier::segment_file::{HEADER_BYTES, Section, SegmentFileHeader};
#[cfg(any(test, feature = "sim"))]
use crate::tier::sim_store::SimStore;
use crate::tier::store::{Store, StoredFile, segment_path};
use crate::tier::tier_url::TierUrl;

/// The tier, on one core.
pub struct Tier {
    store: Store,
    mover: RefCell<Mover>,
    /// The base folder is known to be ours: until then nothing is written there.
    is_claimed: Cell<bool>,
    /// There is work, perhaps.
    news: Cell<bool>,
    waiting: WaitList,
    ended: WaitList,
    manifest_news: ManifestNews,
    files: RefCell<LruCache<RemoteSegmentId, RemoteFile, RandomState>>,
    /// Files on their way: who comes later waits for the same opening.
    opening: RefCell<HashMap<RemoteSegmentId, Rc<Opening>, RandomState>>,
    cache: Rc<RemoteCache>,
    /// What copies have of the memory at most.
    copies: Rc<TierMemory>,
    /// What one copy holds of it.
    copy_bytes: usize,
}

#[derive(Default)]
struct Opening {
    waiters: WaitList,
    outcome: RefCell<Option<Result<RemoteFile, RemoteReadError>>>,
}

/// An open remote segment.
#[derive(Clone)]
pub struct RemoteFile {
    /// Whose it is.
    pub segment: RemoteSegmentId,
    /// Its file.
    pub file: StoredFile,
    /// Where its sections are.
    pub header: SegmentFileHeader,
    /// The header was read. Else only the place of the records is known, from the metadata.
    is_whole: bool,
}

impl Tier {
    /// The tier of a core, where the server has one.
    pub fn new(io: &Io, options: &ShardOptions) -> Option<Self> {
        let tier = options.tier.as_ref()?;
        let seeds = || RandomState::with_seeds(io.random_u64(), io.random_u64(), io.random_u64(), io.random_u64());
        let config = &options.broker_config;
        // Reads have the other half at least.
        let copies_bytes = tier.memory_bytes / 2;
        let limits = MoverLimits {
            at_once_max: (copies_bytes / MEMORY_A_COPY).clamp(1, COPIES_AT_ONCE_MAX),
            backoff_ms: config.remote_retry_backoff_ms(),
            backoff_ms_max: config.remote_retry_backoff_ms_max(),
            jitter_permille: config.remote_retry_jitter_permille(),
            bytes_per_second: config.remote_copy_bytes_per_second() / u64::from(options.core_count.max(1)),
        };
        let store = store_of(io, tier)?;
        let memory = TierMemory::new(tier.memory_bytes);
        let index_bytes_max = config.remote_index_cache_bytes() / u64::from(options.core_count.max(1));
        let open_files_max = if store.is_local() { OPEN_FILES_MAX } else { OPEN_READERS_MAX };
        Some(Self {
            store,
            mover: RefCell::new(Mover::new(limits, seeds())),
            is_claimed: Cell::new(false),
            news: Cell::new(true),
            waiting: WaitList::default(),
            ended: WaitList::default(),
            manifest_news: ManifestNews::default(),
            files: RefCell::new(LruCache::with_hasher(open_files_max, seeds())),
            opening: RefCell::new(HashMap::with_hasher(seeds())),
            cache: RemoteCache::new(memory, index_bytes_max, seeds),
            copies: TierMemory::new(copies_bytes),
            copy_bytes: MEMORY_A_COPY.min(copies_bytes),
        })
    }

    /// Its store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Decides what may be done when; never borrowed across an await.
    pub(in crate::shard) fn mover(&self) -> &RefCell<Mover> {
        &self.mover
    }

    /// What the next manifest has to say.
    pub(in crate::shard) fn manifest_news(&self) -> &ManifestNews {
        &self.manifest_news
    }

    /// True once the base folder is known to be ours.
    pub fn is_claimed(&self) -> bool {
        self.is_claimed.get()
    }

    pub(in crate::shard) fn set_claimed(&self) {
        self.is_claimed.set(true);
    }

    /// There may be something to copy or to delete: whoever waits in [`take_news`](Self::take_news) looks.
    pub(in crate::shard) fn tell(&self, io: &Io) {
        self.news.set(true);
        io.wake_all(&self.waiting);
    }

    /// True where something was told since the last look; else the current task is polled when it is.
    pub(in crate::shard) fn take_news(&self, io: &Io) -> bool {
        if self.news.replace(false) {
            return true;
        }
        self.waiting.wait(io.current_task());
        false
    }

    /// A piece of work has ended.
    pub(in crate::shard) fn note_ended(&self, io: &Io) {
        io.wake_all(&self.ended);
    }

    /// Waits until nothing is under way for a partition.
    pub(in crate::shard) async fn wait_idle(&self, io: &Io, id: PartitionId) {
        poll_fn(|_| {
            if !self.mover.borrow().is_under_way(id) {
                return Poll::Ready(());
            }
            self.ended.wait(io.current_task());
            Poll::Pending
        })
        .await;
    }

    /// What was read of the store.
    pub fn cache(&self) -> &Rc<RemoteCache> {
        &self.cache
    }

    /// Memory for one copy, when its turn has come: of what copies may have, for one that has failed holds what the store has of
    /// it yet, and of the whole.
    pub(in crate::shard) async fn reserve_copy(&self, io: &Io) -> (TierReservation, TierReservation) {
        let of_copies = self.copies.reserve(io, self.copy_bytes, |_| ()).await;
        (of_copies, self.cache.reserve(io, self.copy_bytes).await)
    }

    /// The file of a segment, opened where it is not, and its header. `guess`, a range of its log, will probably be wanted: it
    /// is read meanwhile.
    ///
    /// # Errors
    /// It is not there, does not answer, or is not what the metadata says.
    pub(in crate::shard) async fn open(
        self: &Rc<Self>,
        io: &Io,
        topic: &str,
        id: PartitionId,
        span: &RemoteSpan,
        guess: Option<Range<u64>>,
    ) -> Result<RemoteFile, RemoteReadError> {
        let file = self.open_log(io, topic, id, span, guess).await?;
        if file.is_whole {
            return Ok(file);
        }
        match self.read_header(io, &file.file, segment_path(topic, id, span.id()), span).await {
            Ok(header) => {
                let whole = RemoteFile { header, is_whole: true, ..file };
                self.files.borrow_mut().put(span.id(), whole.clone());
                Ok(whole)
            }
            Err(error) => {
                // It may be another file the next time.
                self.forget(span.id());
                Err(error)
            }
        }
    }

    /// True where the file of a segment is open.
    pub(in crate::shard) fn is_open(&self, segment: RemoteSegmentId) -> bool {
        self.files.borrow().contains(&segment)
    }

    /// The same for who wants its records alone, and knows where: a store that is elsewhere is not asked for its header. By
    /// one for all who want it, to its end although they go away.
    ///
    /// # Errors
    /// It is not there, or does not answer.
    pub(in crate::shard) async fn open_log(
        self: &Rc<Self>,
        io: &Io,
        topic: &str,
        id: PartitionId,
        span: &RemoteSpan,
        guess: Option<Range<u64>>,
    ) -> Result<RemoteFile, RemoteReadError> {
        let opened = self.files.borrow_mut().get(&span.id()).cloned();
        if let Some(file) = opened {
            self.begin_guess(io, &file.file, span, guess);
            return Ok(file);
        }
        let known = self.opening.borrow().get(&span.id()).cloned();
        let opening = known.unwrap_or_else(|| {
            let opening: Rc<Opening> = Rc::default();
            self.opening.borrow_mut().insert(span.id(), opening.clone());
            let (this, told, io_of_task) = (self.clone(), opening.clone(), io.clone());
            let (path, span) = (segment_path(topic, id, span.id()), *span);
            io.spawn(async move {
                let opened = this.store.open(&path).await.map_err(RemoteReadError::from);
                let opened = opened.map(|file| RemoteFile {
                    segment: span.id(),
                    header: SegmentFileHeader::of_log_at_end(file.len_bytes(), u64::from(span.segment_bytes())),
                    is_whole: false,
                    file,
                });
                this.opening.borrow_mut().remove(&span.id());
                if let Ok(file) = &opened {
                    this.begin_guess(&io_of_task, &file.file, &span, guess);
                    this.files.borrow_mut().put(span.id(), file.clone());
                }
                *told.outcome.borrow_mut() = Some(opened);
                io_of_task.wake_all(&told.waiters);
            });
            opening
        });
        poll_fn(|_| {
            if let Some(outcome) = &*opening.outcome.borrow() {
                return Poll::Ready(outcome.clone());
            }
            opening.waiters.wait(io.current_task());
            Poll::Pending
        })
        .await
    }

    /// Reads what a guess says, while what it was guessed for is looked up.
    fn begin_guess(&self, io: &Io, file: &StoredFile, span: &RemoteSpan, guess: Option<Range<u64>>) {
        let Some(guess) = guess.filter(|_| file.local().is_none()) else { return };
        let source = PieceSource {
            segment: span.id(),
            // The records are the file's end; where they are not, its header tells.
            begin_bytes: log_pieces_begin(file.len_bytes().saturating_sub(u64::from(span.segment_bytes()))),
            end_bytes: file.len_bytes(),
            file: file.clone(),
            region: Region::Log,
        };
        let len_bytes = usize::try_from(guess.end.saturating_sub(guess.start)).unwrap_or(usize::MAX);
        self.cache.begin(io, &source, source.begin_bytes.saturating_add(guess.start), len_bytes);
    }

    async fn read_header(
        &self,
        io: &Io,
        file: &StoredFile,
        path: String,
        span: &RemoteSpan,
    ) -> Result<SegmentFileHeader, RemoteReadError> {
        let head = match file.local() {
            Some(_) => RemoteBytes::of(file.read(io.buffer(HEADER_BYTES), 0).await?),
            None => {
                // The indexes lie behind it, and will be wanted next.
                let source = PieceSource {
                    segment: span.id(),
                    begin_bytes: 0,
                    end_bytes: file.len_bytes(),
                    file: file.clone(),
                    region: Region::Indexes,
                };
                self.cache.read(io, &source, 0, HEADER_BYTES).await.map_err(RemoteReadError::Store)?
            }
        };
        let wrong = |source| RemoteReadError::Segment { path: path.clone(), source };
        let header = SegmentFileHeader::parse(&head.joined(), file.len_bytes()).map_err(wrong)?;
        let needed_bytes = header.position_bytes(Section::Log) + u64::from(span.segment_bytes());
        if header.len_bytes() != needed_bytes {
            return Err(wrong(SegmentFileError::Short { len_bytes: header.len_bytes(), needed_bytes }));
        }
        Ok(header)
    }

    /// Closes the file of a segment that goes, or that could not be read.
    pub(in crate::shard) fn forget(&self, segment: RemoteSegmentId) {
        self.files.borrow_mut().pop(&segment);
        self.cache.forget(segment);
    }
}

/// The store that the options name; `None` where this program was built without it.
pub fn store_of(io: &Io, tier: &TierOptions) -> Option<Store> {
    match &tier.url {
        TierUrl::Directory(base) => Some(Store::directory(io, base)),
        #[cfg(any(test, feature = "sim"))]
        TierUrl::Simulated { base, faults } => Some(Store::Sim(SimStore::new(io, base, *faults))),
        #[cfg(feature = "hdfs")]
        TierUrl::Hdfs { cluster, base } => {
            let companion = tier.companion.clone()?;
            Some(Store::Hdfs(HdfsStore::new(io, companion, cluster, base, tier.hdfs.clone())))
        }
        // The command line has refused it.
        #[cfg(not(feature = "hdfs"))]
        TierUrl::Hdfs { .. } => None,
    }
}

/// Shares the tier of a core.
pub(in crate::shard) type SharedTier = Option<Rc<Tier>>;

/// What a copy holds at most: a writer of the store's client, and its own buffers.
const MEMORY_A_COPY: usize = 16 << 20;
const COPIES_AT_ONCE_MAX: usize = 4;
const OPEN_FILES_MAX: NonZeroUsize = NonZeroUsize::new(256).expect("not zero");
/// Readers of a store that is elsewhere: a few hundred bytes each, and no descriptor.
const OPEN_READERS_MAX: NonZeroUsize = NonZeroUsize::new(4096).expect("not zero");

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::record::offset::{Offset, TimestampMs, TopicId};
    use crate::ring::sim::options::SimOptions;
    use crate::ring::sim::world::Sim;
    use crate::tier::metadata::RemoteSegment;
    use crate::tier::segment_state::SegmentState;
    use crate::tier::sim_store::StoreFaults;

    const LOG_BYTES: usize = 600_000;

    fn tier_of(store: Store) -> Rc<Tier> {
        let seeds = || RandomState::with_seeds(1, 2, 3, 4);
        let limits =
            MoverLimits { at_once_max: 1, backoff_ms: 1, backoff_ms_max: 1, jitter_permille: 0, bytes_per_second: 1 };
        Rc::new(Tier {
            store,
            mover: RefCell::new(Mover::new(limits, seeds())),
            is_claimed: Cell::new(true),
            news: Cell::new(false),
            waiting: WaitList::default(),
            ended: WaitList::default(),
            manifest_news: ManifestNews::default(),
            files: RefCell::new(LruCache::with_hasher(OPEN_READERS_MAX, seeds())),
            opening: RefCell::new(HashMap::with_hasher(seeds())),
            cache: RemoteCache::new(TierMemory::new(16 << 20), 1 << 20, seeds),
            copies: TierMemory::new(0),
            copy_bytes: 0,
        })
    }

    /// A tier that has one segment, whose file is `lacking_bytes` shorter than it should be.
    fn with_a_segment(lacking_bytes: usize, test: impl AsyncFnOnce(Io, Rc<Tier>, PartitionId, RemoteSpan) + 'static) {
        let sim = Sim::new(SimOptions::calm(1));
        let io = sim.machine().core(0);
        let run = io.clone();
        sim.run(&io, 60_000_000_000, async move {
            let store = Store::Sim(SimStore::new(&run, Path::new("/tier"), StoreFaults::default()));
            let id = PartitionId { topic_id: TopicId([7; 16]), partition: 0 };
            let segment_id = RemoteSegmentId::from_random(7);
            let header = SegmentFileHeader::of([800, 276, 8, 0, 0, LOG_BYTES as u64]).expect("it fits");
            let mut bytes = header.encode().to_vec();
            bytes.resize(header.len_bytes() as usize - lacking_bytes, 9);
            let path = segment_path("t", id, segment_id);
            store.make_folder("").await.expect("new");
            store.make_folder(&crate::tier::store::partition_folder("t", id)).await.expect("new");
            store.put(&path, "x", bytes).await.expect("space");
            let segment = RemoteSegment {
                id: segment_id,
                start_offset: Offset(100),
                end_offset: Offset(199),
                max_timestamp: TimestampMs(0),
                event_time_ms: 0,
                broker_id: 0,
                segment_bytes: LOG_BYTES as u32,
                file_bytes: header.len_bytes(),
                file_crc: 0,
                state: SegmentState::CopyFinished,
                has_transaction_index: false,
                epochs: Vec::new(),
            };
            test(run.clone(), tier_of(store), id, RemoteSpan::of(&segment)).await;
        })
        .expect("it ends");
    }

    #[test]
    fn who_knows_the_place_of_records_reads_them_alone() {
        with_a_segment(0, async |io: Io, tier: Rc<Tier>, id, span| {
            let loads = || tier.cache().counters.loads.get();
            let file = tier.open_log(&io, "t", id, &span, None).await.expect("there");
            assert_eq!(loads(), 0, "an opening is no read");
            let begin_bytes = file.header.position_bytes(Section::Log);
            let source = PieceSource {
                segment: span.id(),
                file: file.file.clone(),
                begin_bytes: log_pieces_begin(begin_bytes),
                end_bytes: file.header.len_bytes(),
                region: Region::Log,
            };
            tier.cache().read(&io, &source, begin_bytes, 65_536).await.expect("there");
            assert_eq!(loads(), 1, "one connection for a cold partition");
            // Who wants an index has the header read as well, once, of the file that is open.
            for _ in 0..2 {
                let whole = tier.open(&io, "t", id, &span, None).await.expect("there");
                assert_eq!(whole.header.position_bytes(Section::Log), begin_bytes);
                assert_eq!(whole.header.section_bytes(Section::OffsetIndex), 800);
                assert_eq!(loads(), 2);
            }
            assert!(
                tier.open_log(&io, "t", id, &span, None).await.expect("there").is_whole,
                "what is known stays known"
            );
        });
    }

    #[test]
    fn a_file_that_is_too_short_is_refused_by_its_header_and_not_kept() {
        with_a_segment(5, async |io: Io, tier: Rc<Tier>, id, span| {
            tier.open_log(&io, "t", id, &span, None).await.expect("there");
            let refused = tier.open(&io, "t", id, &span, None).await.err().expect("it is too short");
            assert!(matches!(refused, RemoteReadError::Segment { .. }), "{refused}");
            assert!(tier.files.borrow().is_empty(), "the next one looks anew");
        });
    }
}
