//! The data directories as one core sees them: which have failed, and how much room they have.

use std::cell::{Cell, RefCell};
use std::io;
use std::path::Path;
use std::rc::Rc;

use tracing::{error, warn};

use crate::control::id::DirectoryId;
use crate::ring::io::DiskSpace;
use crate::ring::timer::Nanos;
use crate::shard::core::Shard;
use crate::shard::message::Question;
use crate::shard::options::DataDir;
use crate::shard::partition::Partition;

/// What a core knows of each data directory, in the order of the options.
pub struct Directories {
    states: Vec<DirectoryState>,
}

#[derive(Default)]
struct DirectoryState {
    failed: Cell<bool>,
    space: RefCell<Option<(Nanos, DiskSpace)>>,
}

impl Directories {
    /// Directories that all work.
    pub fn new(dirs: &[DataDir]) -> Self {
        Self { states: dirs.iter().map(|_| DirectoryState::default()).collect() }
    }
}

impl Shard {
    /// Index of the data directory at this path.
    fn directory_at(&self, path: &Path) -> Option<usize> {
        self.options().data_dirs.iter().position(|dir| dir.path == path)
    }

    /// True where the directory has failed: its partitions are offline until the server is started again.
    pub fn directory_has_failed(&self, path: &Path) -> bool {
        self.directory_at(path).is_some_and(|at| self.directories().states[at].failed.get())
    }

    /// The directories that nothing is placed in any more.
    pub(in crate::shard) fn failed_directories(&self) -> Vec<DirectoryId> {
        let dirs = self.options().data_dirs.iter();
        dirs.filter(|dir| self.directory_has_failed(&dir.path)).map(|dir| DirectoryId(dir.id)).collect()
    }

    /// The disk refused a partition's write or sync: what holds for one file of it holds for all of its directory.
    pub(in crate::shard) fn fail_partition(
        self: &Rc<Self>,
        partition: &Partition,
        what: &'static str,
        error: &io::Error,
    ) {
        if !partition.is_online() {
            // Its folder may be gone with its topic: that says nothing of the others.
            return;
        }
        partition.take_offline(self.io(), what);
        match partition.folder().parent() {
            Some(dir) if blames_directory(error) => self.fail_directory(dir, what, error),
            _ => error!(
                topic = partition.topic(), partition = partition.id().partition, %error, what,
                "the partition is offline; restart the server"
            ),
        }
    }

    /// Something that is derived could not be written: nobody waits for it, but a disk that fails is seen here as well.
    pub(in crate::shard) fn note_unwritten(
        self: &Rc<Self>,
        partition: &Partition,
        what: &'static str,
        error: &io::Error,
    ) {
        if is_disk_failure(error) {
            return self.fail_partition(partition, what, error);
        }
        warn!(
            topic = partition.topic(), partition = partition.id().partition, folder = %partition.folder().display(), %error, what,
            "what is derived from the log could not be written; it is tried again, or made anew at the next start"
        );
    }

    /// The disk of a data directory refused in a way that another try would only hide: its partitions go offline, on all
    /// cores, and nothing new is placed there. As in Kafka, the others go on.
    pub fn fail_directory(self: &Rc<Self>, path: &Path, what: &'static str, error: &io::Error) {
        let Some(at) = self.directory_at(path) else { return };
        if self.directories().states[at].failed.get() {
            return;
        }
        let left = self.options().data_dirs.len() - self.failed_directories().len() - 1;
        error!(
            dir = %path.display(), %error, what, directories_left = left,
            "a data directory has failed: its partitions are offline, the others go on; check the disk and restart the server"
        );
        self.take_directory_offline(at);
        let others = (0..self.options().core_count as usize).filter(|core| *core != self.io().core_index());
        for core in others {
            let shard = self.clone();
            self.io().spawn(async move {
                // A core that is gone (it stops) needs no word.
                let _ = shard.mailbox().call(core, Question::DirectoryFailed { at }).await;
            });
        }
    }

    /// Takes the partitions of a directory offline here.
    pub(in crate::shard) fn take_directory_offline(&self, at: usize) {
        let (Some(state), Some(dir)) = (self.directories().states.get(at), self.options().data_dirs.get(at)) else {
            return;
        };
        state.failed.set(true);
        for partition in self.partitions() {
            if partition.folder().parent() == Some(&dir.path) {
                partition.take_offline(self.io(), "its data directory has failed");
            }
        }
    }

    /// The room of a data directory's disk, at most `SPACE_AGE_MS_MAX` old.
    ///
    /// # Errors
    /// Where the disk does not say.
    pub async fn directory_space(&self, path: &Path) -> io::Result<DiskSpace> {
        let state = self.directory_at(path).and_then(|at| self.directories().states.get(at));
        let state = state.ok_or(io::ErrorKind::NotFound)?;
        if let Some((read_at, space)) = *state.space.borrow()
            && self.io().now() < read_at.plus_ms(SPACE_AGE_MS_MAX)
        {
            return Ok(space);
        }
        let space = self.io().disk_space(path).await?;
        *state.space.borrow_mut() = Some((self.io().now(), space));
        Ok(space)
    }
}

/// True for what a disk says that is no disk any more; other errors are of one file.
pub(in crate::shard) fn is_disk_failure(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(EIO | ENXIO | ENODEV | EROFS | EUCLEAN | ESTALE | ESHUTDOWN))
}

/// True where what was refused to one file is the disk's doing, and not a lack of room, of memory or of descriptors.
pub(in crate::shard) fn blames_directory(error: &io::Error) -> bool {
    !is_no_space(error) && !matches!(error.raw_os_error(), Some(ENOMEM | ENFILE | EMFILE))
}

/// True where there is only no room.
pub(in crate::shard) fn is_no_space(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Asked more often than this, the disk is not asked again.
const SPACE_AGE_MS_MAX: u64 = 1000;
// Linux's numbers; the standard library has no kinds for most of them.
const EIO: i32 = 5;
const ENXIO: i32 = 6;
const ENOMEM: i32 = 12;
const ENODEV: i32 = 19;
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;
const EROFS: i32 = 30;
const ESHUTDOWN: i32 = 108;
const ESTALE: i32 = 116;
const EUCLEAN: i32 = 117;
