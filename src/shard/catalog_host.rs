//! The controller's core keeps the catalog: one writer, one change at a time, each durable before it is in force.
//!
//! Plan, write, sync, apply, then every core takes the new snapshot; only when all have it, and can serve what it places
//! on them, is the change answered. So a topic can be written to as soon as its creation is.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::rc::Rc;
use std::task::Poll;

use tracing::{error, info};

use crate::control::catalog::{Catalog, Command, Rules};
use crate::control::catalog_file;
use crate::control::catalog_record::CatalogRecord;
use crate::control::id::{ClusterId, CoreIndex, DirectoryId};
use crate::control::snapshot::Snapshot;
use crate::ring::buffer::Buffer;
use crate::ring::io::{File, Io, OpenHow, read_file, replace_file};
use crate::ring::task::WaitList;
use crate::shard::core::Shard;
use crate::shard::error::StartError;
use crate::shard::hosting;
use crate::shard::message::{Answer, ProposeError, Question};

/// The catalog and its file. On the controller's core alone.
pub struct CatalogHost {
    catalog: RefCell<Catalog>,
    path: PathBuf,
    file: RefCell<File>,
    /// Where the next frame goes; all before is durable.
    end_bytes: Cell<u64>,
    /// A sync failed: nobody knows what the file holds, so nothing more is promised.
    failed: Cell<bool>,
    /// Changes that wait for their turn.
    changes: RefCell<VecDeque<Change>>,
    change_waiters: WaitList,
}

struct Change {
    command: Command,
    validate_only: bool,
    outcome: Rc<RefCell<Option<Result<Changed, ProposeError>>>>,
    waiter: crate::ring::task::TaskId,
}

/// What a change made.
#[derive(Clone)]
struct Changed {
    snapshot: Snapshot,
    producer_ids: Option<Range<i64>>,
    /// The cores have to hear of it.
    publish: bool,
}

impl CatalogHost {
    /// Reads the catalog's file, and cuts a torn last frame off.
    ///
    /// # Errors
    /// The file is damaged, not a catalog, or a newer server's: nothing is changed.
    pub async fn load(shard: &Rc<Shard>) -> Result<Rc<Self>, StartError> {
        let io = shard.io();
        let path = shard.options().catalog_dir.join(CATALOG_FILE);
        let failed = |path: &PathBuf, source| StartError::CatalogDisk { path: path.clone(), source };
        let bytes = match read_file(io, &path, CATALOG_BYTES_MAX).await {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(failed(&path, error)),
        };
        let replayed =
            catalog_file::replay(&bytes).map_err(|source| StartError::Catalog { path: path.clone(), source })?;
        let mut end_bytes = replayed.valid_bytes;
        if end_bytes == 0 {
            let image = catalog_file::image(&replayed.catalog);
            end_bytes = image.len() as u64;
            replace_file(io, &path, image).await.map_err(|error| failed(&path, error))?;
        }
        let file = io.open(&path, OpenHow::ReadWrite).await.map_err(|error| failed(&path, error))?;
        if (bytes.len() as u64) > end_bytes {
            info!(path = %path.display(), cut_bytes = bytes.len() as u64 - end_bytes, "a torn change was cut off the catalog");
            file.set_len(end_bytes).await.map_err(|error| failed(&path, error))?;
            file.sync_data().await.map_err(|error| failed(&path, error))?;
        }
        let host = Rc::new(Self {
            catalog: RefCell::new(replayed.catalog),
            path,
            file: RefCell::new(file),
            end_bytes: Cell::new(end_bytes),
            failed: Cell::new(false),
            changes: RefCell::new(VecDeque::new()),
            change_waiters: WaitList::default(),
        });
        shard.set_catalog_host(host.clone());
        io.spawn(work(shard.clone(), host.clone()));
        Ok(host)
    }

    /// Raises all leader epochs and takes this start's cores and directories into the catalog; on return every core has
    /// it and serves what it places there.
    ///
    /// # Errors
    /// The catalog cannot be written, or does not fit the command line.
    pub async fn start(&self, shard: &Rc<Shard>) -> Result<(), StartError> {
        let options = shard.options();
        let command = Command::StartServer {
            cluster_id: ClusterId(options.cluster_id_bytes),
            cores: CoreIndex::first(u16::try_from(options.core_count).unwrap_or(u16::MAX)),
            directories: options.data_dirs.iter().map(|dir| DirectoryId(dir.id)).collect(),
        };
        self.change(shard, command, false).await.map_err(|source| StartError::Change { source })?;
        Ok(())
    }

    /// Makes one change; see [`Shard::propose`].
    async fn change(&self, shard: &Rc<Shard>, command: Command, validate_only: bool) -> Result<Changed, ProposeError> {
        if self.changes.borrow().len() >= CHANGES_MAX {
            return Err(ProposeError::Busy);
        }
        let outcome = Rc::new(RefCell::new(None));
        let waiter = shard.io().current_task();
        self.changes.borrow_mut().push_back(Change { command, validate_only, outcome: outcome.clone(), waiter });
        shard.io().wake_all(&self.change_waiters);
        poll_fn(|_| outcome.borrow_mut().take().map_or(Poll::Pending, Poll::Ready)).await
    }

    /// Plans a command, and makes its records durable and in force on this core's catalog.
    async fn commit(&self, shard: &Shard, change: &Change) -> Result<Changed, ProposeError> {
        if self.failed.get() {
            return Err(ProposeError::Storage { reason: "an earlier write of it failed; restart the server".into() });
        }
        let options = shard.options();
        let failed = shard.failed_directories();
        let rules = Rules {
            failed_directories: &failed,
            config: &options.broker_config,
            node_id: options.node_id,
            clamp_replication: options.clamp_replication,
        };
        let records = self.catalog.borrow().plan(&change.command, &rules)?;
        if change.validate_only {
            let mut preview = self.catalog.borrow().clone();
            preview.apply(&records).expect("records apply to the state that they were planned on");
            return Ok(Changed { snapshot: preview.snapshot(), producer_ids: None, publish: false });
        }
        let mut frame = Vec::new();
        catalog_file::encode_frame(&self.catalog.borrow(), &records, &mut frame);
        let len_bytes = frame.len() as u64;
        let file = self.file.borrow().clone();
        let storage = |error: io::Error| ProposeError::Storage { reason: error.to_string() };
        if let Err(error) = file.write_at(Buffer::from_vec(frame), self.end_bytes.get()).await.0 {
            // What was written of the frame is cut off; it was promised to nobody.
            if file.set_len(self.end_bytes.get()).await.is_err() {
                self.failed.set(true);
            }
            return Err(storage(error));
        }
        if let Err(error) = file.sync_data().await {
            self.failed.set(true);
            error!(path = %self.path.display(), %error, "the catalog could not be synced: topics cannot be changed until a restart; check the disk");
            return Err(storage(error));
        }
        self.end_bytes.set(self.end_bytes.get() + len_bytes);
        let mut catalog = self.catalog.borrow_mut();
        catalog.apply(&records).expect("records apply to the state that they were planned on");
        let producer_ids = records.iter().find_map(|record| match record {
            CatalogRecord::ProducerIdsAllocated { first, count, .. } => Some(*first..*first + i64::from(*count)),
            _ => None,
        });
        Ok(Changed { snapshot: catalog.snapshot(), publish: producer_ids.is_none(), producer_ids })
    }

    /// The version of the catalog.
    pub(in crate::shard) fn version(&self) -> u64 {
        self.catalog.borrow().snapshot().version()
    }

    /// All of it as bytes.
    pub(in crate::shard) fn image(&self) -> Vec<u8> {
        catalog_file::image(&self.catalog.borrow())
    }

    /// Replaces a file that has grown by an image of the state.
    async fn compact(&self, io: &Io) {
        if !catalog_file::wants_compaction(&self.catalog.borrow(), self.end_bytes.get()) {
            return;
        }
        let image = catalog_file::image(&self.catalog.borrow());
        let len_bytes = image.len() as u64;
        let replaced = async {
            replace_file(io, &self.path, image).await?;
            io.open(&self.path, OpenHow::ReadWrite).await
        };
        match replaced.await {
            Ok(file) => {
                *self.file.borrow_mut() = file;
                self.end_bytes.set(len_bytes);
            }
            Err(error) => {
                // Either file may be the one with the name now: a frame appended to the other would be lost.
                self.failed.set(true);
                error!(path = %self.path.display(), %error, "the catalog could not be compacted: topics cannot be changed until a restart; check the disk");
            }
        }
    }
}

/// Makes the changes, one after the other.
async fn work(shard: Rc<Shard>, host: Rc<CatalogHost>) {
    let io = shard.io();
    loop {
        let change = poll_fn(|_| match host.changes.borrow_mut().pop_front() {
            Some(change) => Poll::Ready(change),
            None => {
                host.change_waiters.wait(io.current_task());
                Poll::Pending
            }
        })
        .await;
        let changed = host.commit(&shard, &change).await;
        if let Ok(changed) = &changed
            && changed.publish
        {
            publish(&shard, &changed.snapshot).await;
        }
        *change.outcome.borrow_mut() = Some(changed);
        io.wake(change.waiter);
        host.compact(io).await;
    }
}

/// Gives a snapshot to every core, and waits until all serve what it places on them.
async fn publish(shard: &Rc<Shard>, snapshot: &Snapshot) {
    let others = (0..shard.options().core_count as usize).filter(|core| *core != shard.io().core_index());
    let calls: Vec<_> = others.map(|core| shard.mailbox().try_call(core, Question::Take(snapshot.clone()))).collect();
    hosting::take(shard, snapshot.clone()).await;
    for call in calls {
        // One change is under way at a time, and the credits of a pair are many; jobs have a mailbox of their own.
        let Ok(call) = call else { unreachable!("there is a credit for a snapshot") };
        // A core that is gone (it stops) needs no snapshot.
        let _ = call.await;
    }
}

/// Answers the questions of the other cores.
pub async fn answer_mail(shard: Rc<Shard>, host: Option<Rc<CatalogHost>>) {
    loop {
        let incoming = poll_fn(|_| shard.mailbox().poll_request()).await;
        let (shard, host) = (shard.clone(), host.clone());
        // A task for each: a slow one (a disk) does not hold the others up. The credits bound them.
        shard.io().clone().spawn(async move {
            let answer = match incoming.request {
                Question::Take(snapshot) => {
                    hosting::take(&shard, snapshot).await;
                    Answer::Taken
                }
                Question::DirectoryFailed { at } => {
                    shard.take_directory_offline(at);
                    Answer::Taken
                }
                Question::Propose { command, validate_only } => Answer::Proposed(match &host {
                    Some(host) => host.change(&shard, command, validate_only).await.map(|changed| changed.snapshot),
                    None => Err(ProposeError::Busy),
                }),
                Question::ProducerIds => Answer::ProducerIds(match &host {
                    Some(host) => host.producer_ids(&shard, incoming.from).await,
                    None => Err(ProposeError::Busy),
                }),
            };
            incoming.reply.send(answer);
        });
    }
}

impl CatalogHost {
    async fn producer_ids(&self, shard: &Rc<Shard>, core: usize) -> Result<Range<i64>, ProposeError> {
        let core = u16::try_from(core).ok().and_then(CoreIndex::new).unwrap_or_else(|| CoreIndex::first(1)[0]);
        let changed = self.change(shard, Command::AllocateProducerIds { core }, false).await?;
        Ok(changed.producer_ids.expect("an allocation gives a block"))
    }
}

impl Shard {
    /// Changes the catalog, from any core. On return the change is durable, every core has it, and new partitions can be
    /// written to.
    ///
    /// # Errors
    /// Nothing was changed; after a storage error the change may be found made at the next start.
    pub async fn propose(self: &Rc<Self>, command: Command) -> Result<Snapshot, ProposeError> {
        self.ask_controller(command, false).await
    }

    /// Judges a change without making it: the catalog as it would be.
    ///
    /// # Errors
    /// As the change itself.
    pub async fn validate(self: &Rc<Self>, command: Command) -> Result<Snapshot, ProposeError> {
        self.ask_controller(command, true).await
    }

    async fn ask_controller(self: &Rc<Self>, command: Command, validate_only: bool) -> Result<Snapshot, ProposeError> {
        if let Some(host) = self.catalog_host() {
            return host.change(self, command, validate_only).await.map(|changed| changed.snapshot);
        }
        let question = Question::Propose { command, validate_only };
        match self.mailbox().call(CONTROLLER, question).await.map_err(|_| ProposeError::Stopping)? {
            Answer::Proposed(proposed) => proposed,
            Answer::ProducerIds(_) | Answer::Taken => unreachable!("a proposal is answered as one"),
        }
    }

    /// A producer id that nobody has. From a block that was given to this core durably.
    ///
    /// # Errors
    /// The block is used up, and no other can be had now.
    pub async fn next_producer_id(self: &Rc<Self>) -> Result<i64, ProposeError> {
        loop {
            if let Some(id) = self.producer_ids.borrow_mut().next() {
                return Ok(id);
            }
            let block = match self.catalog_host() {
                Some(host) => host.producer_ids(self, CONTROLLER).await?,
                None => {
                    match self
                        .mailbox()
                        .call(CONTROLLER, Question::ProducerIds)
                        .await
                        .map_err(|_| ProposeError::Stopping)?
                    {
                        Answer::ProducerIds(block) => block?,
                        Answer::Proposed(_) | Answer::Taken => unreachable!("a block is answered as one"),
                    }
                }
            };
            // Two requests may have asked at once: the ids of the other block are not lost, they are used first.
            let mut kept = self.producer_ids.borrow_mut();
            if kept.is_empty() {
                *kept = block;
            }
        }
    }
}

/// Index of the core that keeps the catalog.
const CONTROLLER: usize = 0;
/// The catalog, in one of the data directories.
pub const CATALOG_FILE: &str = "alluvium.catalog";
/// A catalog of a million partitions is about 60 MiB.
const CATALOG_BYTES_MAX: u64 = 1 << 30;
/// Changes that wait for their turn; more are refused.
const CHANGES_MAX: usize = 4096;
