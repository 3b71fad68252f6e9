//! One core's way to the tier: its store, its mover, and the remote files that it has open.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::num::NonZeroUsize;
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
use crate::tier::error::{SegmentFileError, StoreError};
#[cfg(feature = "hdfs")]
use crate::tier::hdfs_store::HdfsStore;
use crate::tier::metadata::RemoteSegmentId;
use crate::tier::mover::{Mover, MoverLimits};
use crate::tier::remote_segments::RemoteSpan;
use crate::tier::segment_file::{HEADER_BYTES, Section, SegmentFileHeader};
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
    files: RefCell<LruCache<(PartitionId, RemoteSegmentId), RemoteFile, RandomState>>,
}

/// An open remote segment.
#[derive(Clone)]
pub struct RemoteFile {
    /// Its file.
    pub file: StoredFile,
    /// Where its sections are.
    pub header: SegmentFileHeader,
}

impl Tier {
    /// The tier of a core, where the server has one.
    pub fn new(io: &Io, options: &ShardOptions) -> Option<Self> {
        let tier = options.tier.as_ref()?;
        let seeds = || RandomState::with_seeds(io.random_u64(), io.random_u64(), io.random_u64(), io.random_u64());
        let config = &options.broker_config;
        let limits = MoverLimits {
            at_once_max: (tier.memory_bytes / MEMORY_A_COPY).clamp(1, COPIES_AT_ONCE_MAX),
            backoff_ms: config.remote_retry_backoff_ms(),
            backoff_ms_max: config.remote_retry_backoff_ms_max(),
            jitter_permille: config.remote_retry_jitter_permille(),
            bytes_per_second: config.remote_copy_bytes_per_second() / u64::from(options.core_count.max(1)),
        };
        Some(Self {
            store: store_of(io, tier)?,
            mover: RefCell::new(Mover::new(limits, seeds())),
            is_claimed: Cell::new(false),
            news: Cell::new(true),
            waiting: WaitList::default(),
            ended: WaitList::default(),
            manifest_news: ManifestNews::default(),
            files: RefCell::new(LruCache::with_hasher(OPEN_FILES_MAX, seeds())),
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

    /// The file of a segment, opened where it is not.
    ///
    /// # Errors
    /// It is not there, does not answer, or is not what the metadata says.
    pub(in crate::shard) async fn open(
        &self,
        io: &Io,
        topic: &str,
        id: PartitionId,
        span: &RemoteSpan,
    ) -> Result<RemoteFile, RemoteReadError> {
        if let Some(file) = self.files.borrow_mut().get(&(id, span.id())) {
            return Ok(file.clone());
        }
        let path = segment_path(topic, id, span.id());
        let opened = self.open_anew(io, &path, span).await.map_err(|source| match source {
            OpenError::Store(source) => RemoteReadError::Store(source),
            OpenError::File(source) => RemoteReadError::Segment { path, source },
        })?;
        self.files.borrow_mut().put((id, span.id()), opened.clone());
        Ok(opened)
    }

    async fn open_anew(&self, io: &Io, path: &str, span: &RemoteSpan) -> Result<RemoteFile, OpenError> {
        let file = self.store.open(path).await?;
        let head = file.read(io.buffer(HEADER_BYTES), 0).await?;
        let header = SegmentFileHeader::parse(&head, file.len_bytes())?;
        let needed_bytes = header.position_bytes(Section::Log) + u64::from(span.segment_bytes());
        if header.len_bytes() != needed_bytes {
            return Err(SegmentFileError::Short { len_bytes: header.len_bytes(), needed_bytes }.into());
        }
        Ok(RemoteFile { file, header })
    }

    /// Closes the file of a segment that goes.
    pub(in crate::shard) fn forget(&self, id: PartitionId, segment: RemoteSegmentId) {
        self.files.borrow_mut().pop(&(id, segment));
    }
}

/// The store that the options name; `None` where this program was built without it.
pub fn store_of(io: &Io, tier: &TierOptions) -> Option<Store> {
    match &tier.url {
        TierUrl::Directory(base) => Some(Store::directory(io, base)),
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

#[derive(Debug, thiserror::Error)]
enum OpenError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    File(#[from] SegmentFileError),
}

/// Shares the tier of a core.
pub(in crate::shard) type SharedTier = Option<Rc<Tier>>;

/// What a copy holds at most: a writer of the store's client, and its own buffers.
const MEMORY_A_COPY: usize = 16 << 20;
const COPIES_AT_ONCE_MAX: usize = 4;
const OPEN_FILES_MAX: NonZeroUsize = NonZeroUsize::new(256).expect("not zero");
