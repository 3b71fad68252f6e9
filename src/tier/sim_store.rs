//! A store for the simulator: elsewhere, slow, and at times failing or lying.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::ring::buffer::Buffer;
use crate::ring::io::{Io, OpenHow};
use crate::tier::directory_store::{DirectoryFile, DirectoryStore, DirectoryUpload};
use crate::tier::error::StoreError;
use crate::tier::store::StoreEntry;

/// What a simulated store does wrong, in cases of a million, and how slow it is. The default is quick and right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreFaults {
    /// A call fails before anything was done, or after all or half of it was.
    pub error_per_million: u32,
    /// A call takes `hang_us`.
    pub hang_per_million: u32,
    /// How long such a call takes.
    pub hang_us: u64,
    /// A read or write has taken too long for whoever asked, and has its bytes for `hang_us` yet.
    pub late_per_million: u32,
    /// Every other call takes up to so long.
    pub delay_us_max: u64,
    /// A rename is said to be done, and is not.
    pub lost_rename_per_million: u32,
    /// A close is said to be done, and the file is shorter than what was written.
    pub short_close_per_million: u32,
    /// A deletion is said to be done, and is not.
    pub lost_remove_per_million: u32,
    /// A listing leaves its last entries out.
    pub stale_list_per_million: u32,
    /// The length of a file is said to be what was written, whatever is there: who believes it deletes before the check.
    pub hides_lies: bool,
}

/// The store of a core: a folder of the simulated machine.
#[derive(Clone)]
pub struct SimStore {
    inner: Rc<Inner>,
}

struct Inner {
    io: Io,
    base: PathBuf,
    folder: DirectoryStore,
    faults: StoreFaults,
    /// What was written to each name.
    written: RefCell<HashMap<String, u64>>,
    /// Bytes of calls that nobody waits for any more.
    late_bytes: Cell<usize>,
    late_bytes_max: Cell<usize>,
}

/// A file that is being written.
pub struct SimUpload {
    store: SimStore,
    upload: DirectoryUpload,
    path: String,
}

/// An open file.
#[derive(Clone)]
pub struct SimStoredFile {
    store: SimStore,
    file: DirectoryFile,
    path: String,
}

impl SimStore {
    /// The folder `base` as a store of its kind.
    pub fn new(io: &Io, base: &Path, faults: StoreFaults) -> Self {
        let folder = DirectoryStore::new(io, base);
        let inner = Inner {
            io: io.clone(),
            base: base.to_path_buf(),
            folder,
            faults,
            written: RefCell::default(),
            late_bytes: Cell::new(0),
            late_bytes_max: Cell::new(0),
        };
        Self { inner: Rc::new(inner) }
    }

    pub(in crate::tier) fn url(&self) -> String {
        format!("sim://{}", self.inner.base.display())
    }

    fn chance(&self, per_million: u32) -> bool {
        per_million > 0 && self.inner.io.random_u64() % 1_000_000 < u64::from(per_million)
    }

    /// The time that a call takes, and whether it fails: first what fails before it, then what fails after.
    async fn begin(&self, path: &str) -> Result<bool, StoreError> {
        let Inner { io, faults, .. } = &*self.inner;
        let us = if self.chance(faults.hang_per_million) {
            faults.hang_us
        } else {
            io.random_u64() % faults.delay_us_max.saturating_add(1)
        };
        if us > 0 {
            io.sleep_until(io.now().plus_us(us)).await;
        }
        let fails = self.chance(faults.error_per_million);
        if fails && io.random_u64().is_multiple_of(2) {
            return Err(self.failed(path));
        }
        Ok(fails)
    }

    /// The bytes of a call, or that it is late: they come back when it ends.
    fn in_time(&self, path: &str, bytes: Buffer) -> Result<Buffer, StoreError> {
        if !self.chance(self.inner.faults.late_per_million) {
            return Ok(bytes);
        }
        let inner = self.inner.clone();
        inner.late_bytes.set(inner.late_bytes.get() + bytes.len());
        inner.late_bytes_max.set(inner.late_bytes_max.get().max(inner.late_bytes.get()));
        self.inner.io.spawn(async move {
            inner.io.sleep_until(inner.io.now().plus_us(inner.faults.hang_us)).await;
            inner.late_bytes.set(inner.late_bytes.get() - bytes.len());
        });
        Err(StoreError::of(path, io::Error::from(io::ErrorKind::TimedOut)))
    }

    /// The most that calls had at once for which nobody waited any more.
    #[cfg(test)]
    pub(crate) fn late_bytes_max(&self) -> usize {
        self.inner.late_bytes_max.get()
    }

    fn failed(&self, path: &str) -> StoreError {
        StoreError::of(path, io::Error::other("the simulated store failed"))
    }

    fn end<T>(&self, path: &str, fails: bool, done: T) -> Result<T, StoreError> {
        if fails { Err(self.failed(path)) } else { Ok(done) }
    }

    pub(in crate::tier) async fn create(&self, path: &str, len_bytes: u64) -> Result<SimUpload, StoreError> {
        let fails = self.begin(path).await?;
        let upload = self.inner.folder.create(path, len_bytes).await?;
        self.inner.written.borrow_mut().insert(path.to_owned(), len_bytes);
        self.end(path, fails, SimUpload { store: self.clone(), upload, path: path.to_owned() })
    }

    pub(in crate::tier) async fn make_folder(&self, path: &str) -> Result<(), StoreError> {
        let fails = self.begin(path).await?;
        self.inner.folder.make_folder(path).await?;
        self.end(path, fails, ())
    }

    pub(in crate::tier) async fn rename(&self, from: &str, to: &str) -> Result<(), StoreError> {
        let fails = self.begin(from).await?;
        let written = self.inner.written.borrow().get(from).copied();
        if let Some(len_bytes) = written {
            self.inner.written.borrow_mut().insert(to.to_owned(), len_bytes);
        }
        if self.chance(self.inner.faults.lost_rename_per_million) {
            return Ok(());
        }
        self.inner.folder.rename(from, to).await?;
        self.end(from, fails, ())
    }

    pub(in crate::tier) async fn len_bytes(&self, path: &str) -> Result<u64, StoreError> {
        let fails = self.begin(path).await?;
        let believed = self.inner.written.borrow().get(path).copied().filter(|_| self.inner.faults.hides_lies);
        let len_bytes = match believed {
            Some(len_bytes) => len_bytes,
            None => self.inner.folder.len_bytes(path).await?,
        };
        self.end(path, fails, len_bytes)
    }

    pub(in crate::tier) async fn modified_ms(&self, path: &str) -> Result<i64, StoreError> {
        let fails = self.begin(path).await?;
        let modified_ms = self.inner.folder.modified_ms(path).await?;
        self.end(path, fails, modified_ms)
    }

    pub(in crate::tier) async fn open(&self, path: &str) -> Result<SimStoredFile, StoreError> {
        let fails = self.begin(path).await?;
        let file = self.inner.folder.open(path).await?;
        self.end(path, fails, SimStoredFile { store: self.clone(), file, path: path.to_owned() })
    }

    pub(in crate::tier) async fn remove(&self, path: &str, is_dir: bool) -> Result<bool, StoreError> {
        let fails = self.begin(path).await?;
        if self.chance(self.inner.faults.lost_remove_per_million) {
            return Ok(true);
        }
        let removed = self.inner.folder.remove(path, is_dir).await?;
        self.end(path, fails, removed)
    }

    pub(in crate::tier) async fn list(&self, path: &str) -> Result<Vec<StoreEntry>, StoreError> {
        let fails = self.begin(path).await?;
        let mut entries = self.inner.folder.list(path).await?;
        if self.chance(self.inner.faults.stale_list_per_million) {
            entries.truncate(entries.len() / 2);
        }
        self.end(path, fails, entries)
    }

    async fn cut(&self, path: &str, len_bytes: u64) -> io::Result<()> {
        let file = self.inner.io.open(&self.inner.base.join(path), OpenHow::ReadWrite).await?;
        file.set_len(len_bytes).await
    }
}

impl SimUpload {
    pub(in crate::tier) async fn append(&mut self, bytes: Buffer) -> Result<Buffer, StoreError> {
        let fails = self.store.begin(&self.path).await?;
        let mut bytes = self.store.in_time(&self.path, bytes)?;
        if fails {
            // Half of it is there.
            bytes.truncate(bytes.len() / 2);
        }
        let bytes = self.upload.append(bytes).await?;
        self.store.end(&self.path, fails, bytes)
    }

    pub(in crate::tier) async fn close(self, len_bytes: u64) -> Result<(), StoreError> {
        let Self { store, upload, path } = self;
        let fails = store.begin(&path).await?;
        upload.close(len_bytes).await?;
        if store.chance(store.inner.faults.short_close_per_million) {
            return store.cut(&path, len_bytes / 2).await.map_err(|error| StoreError::of(&path, error));
        }
        store.end(&path, fails, ())
    }
}

impl SimStoredFile {
    pub(in crate::tier) fn len_bytes(&self) -> u64 {
        self.file.len_bytes()
    }

    pub(in crate::tier) async fn read(&self, buffer: Buffer, position_bytes: u64) -> Result<Buffer, StoreError> {
        let fails = self.store.begin(&self.path).await?;
        let buffer = self.store.in_time(&self.path, buffer)?;
        let mut bytes = self.file.read(buffer, position_bytes).await?;
        if fails {
            // Less than there is.
            bytes.truncate(bytes.len() / 2);
        }
        Ok(bytes)
    }
}
