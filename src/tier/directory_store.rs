//! A folder as a store: a second, larger disk, or a mount.

use std::io;
use std::path::{Path, PathBuf};

use crate::ring::buffer::Buffer;
use crate::ring::io::{File, Io, OpenHow};
use crate::tier::error::StoreError;
use crate::tier::store::StoreEntry;

/// A folder, through the core's ring.
#[derive(Clone)]
pub struct DirectoryStore {
    io: Io,
    base: PathBuf,
}

/// A file that is being written.
pub struct DirectoryUpload {
    file: File,
    path: String,
    written_bytes: u64,
}

/// An open file.
#[derive(Clone)]
pub struct DirectoryFile {
    file: File,
    path: String,
    len_bytes: u64,
}

impl DirectoryStore {
    /// The folder `base`, which may have to be made.
    pub fn new(io: &Io, base: &Path) -> Self {
        Self { io: io.clone(), base: base.to_path_buf() }
    }

    pub(in crate::tier) fn url(&self) -> String {
        format!("file://{}", self.base.display())
    }

    fn full(&self, path: &str) -> PathBuf {
        if path.is_empty() { self.base.clone() } else { self.base.join(path) }
    }

    pub(in crate::tier) async fn create(&self, path: &str, _len_bytes: u64) -> Result<DirectoryUpload, StoreError> {
        let file =
            self.io.open(&self.full(path), OpenHow::CreateOrTruncate).await.map_err(|e| StoreError::of(path, e))?;
        Ok(DirectoryUpload { file, path: path.to_owned(), written_bytes: 0 })
    }

    pub(in crate::tier) async fn make_folder(&self, path: &str) -> Result<(), StoreError> {
        let mut folder = self.base.clone();
        // The base too, where the folder above it is there.
        for part in std::iter::once("").chain(path.split('/').filter(|part| !part.is_empty())) {
            if !part.is_empty() {
                folder.push(part);
            }
            match self.io.create_dir(&folder).await {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(StoreError::of(path, error)),
            }
            // Also where it was there: whoever made it may not have come to this, and a power cut would take all that is in it.
            if let Some(above) = folder.parent() {
                self.io.sync_dir(above).await.map_err(|e| StoreError::of(path, e))?;
            }
        }
        Ok(())
    }

    pub(in crate::tier) async fn rename(&self, from: &str, to: &str) -> Result<(), StoreError> {
        let (from_path, to_path) = (self.full(from), self.full(to));
        self.io.rename(&from_path, &to_path).await.map_err(|e| StoreError::of(from, e))?;
        for folder in [to_path.parent(), from_path.parent()].into_iter().flatten() {
            self.io.sync_dir(folder).await.map_err(|e| StoreError::of(to, e))?;
        }
        Ok(())
    }

    pub(in crate::tier) async fn len_bytes(&self, path: &str) -> Result<u64, StoreError> {
        Ok(self.open(path).await?.len_bytes)
    }

    pub(in crate::tier) async fn modified_ms(&self, path: &str) -> Result<i64, StoreError> {
        let opened = self.open(path).await?;
        opened.file.modified_ms().await.map_err(|e| StoreError::of(path, e))
    }

    pub(in crate::tier) async fn open(&self, path: &str) -> Result<DirectoryFile, StoreError> {
        let file = self.io.open(&self.full(path), OpenHow::Read).await.map_err(|e| StoreError::of(path, e))?;
        let len_bytes = file.len().await.map_err(|e| StoreError::of(path, e))?;
        Ok(DirectoryFile { file, path: path.to_owned(), len_bytes })
    }

    pub(in crate::tier) async fn remove(&self, path: &str, is_dir: bool) -> Result<bool, StoreError> {
        let full = self.full(path);
        let removed = if is_dir { self.io.remove_dir(&full).await } else { self.io.remove_file(&full).await };
        match removed {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(StoreError::of(path, error)),
        }
        // What is gone does not come back after a power cut, when nothing knows it any more.
        if let Some(folder) = full.parent() {
            self.io.sync_dir(folder).await.map_err(|e| StoreError::of(path, e))?;
        }
        Ok(true)
    }

    pub(in crate::tier) async fn list(&self, path: &str) -> Result<Vec<StoreEntry>, StoreError> {
        let entries = self.io.read_dir(&self.full(path)).await.map_err(|e| StoreError::of(path, e))?;
        let entry = |entry: crate::ring::io::DirEntry| StoreEntry {
            name: entry.name,
            is_dir: entry.is_dir,
            len_bytes: entry.len_bytes,
        };
        Ok(entries.into_iter().map(entry).collect())
    }
}

impl DirectoryUpload {
    pub(in crate::tier) async fn append(&mut self, bytes: Buffer) -> Result<Buffer, StoreError> {
        let len_bytes = bytes.len() as u64;
        let (written, bytes) = self.file.write_at(bytes, self.written_bytes).await;
        written.map_err(|e| StoreError::of(&self.path, e))?;
        self.written_bytes += len_bytes;
        Ok(bytes)
    }

    pub(in crate::tier) async fn close(self, len_bytes: u64) -> Result<(), StoreError> {
        self.file.sync_data().await.map_err(|e| StoreError::of(&self.path, e))?;
        let found_bytes = self.file.len().await.map_err(|e| StoreError::of(&self.path, e))?;
        if found_bytes != len_bytes {
            return Err(StoreError::Length { path: self.path, found_bytes, expected_bytes: len_bytes });
        }
        Ok(())
    }
}

impl DirectoryFile {
    pub(in crate::tier) fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    pub(in crate::tier) fn local(&self) -> &File {
        &self.file
    }

    pub(in crate::tier) async fn read(&self, buffer: Buffer, position_bytes: u64) -> Result<Buffer, StoreError> {
        let (read, mut buffer) = self.file.read_at(buffer, position_bytes).await;
        buffer.truncate(read.map_err(|e| StoreError::of(&self.path, e))?);
        Ok(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::sim::options::{Crash, DiskOp, SimOptions};
    use crate::ring::sim::world::Sim;

    /// Two cores make the same folders at once and one of the syncs fails, whichever: what is written into folders that were
    /// said to be made outlives a power cut.
    #[test]
    fn folders_that_somebody_else_makes_are_lasting_too() {
        let mut promised = 0;
        for seed in 0..120 {
            let sim = Sim::new(SimOptions::calm(seed));
            let machine = sim.machine();
            machine.fail_nth(DiskOp::SyncDir, "/", 1 + (seed % 6) as u32);
            let mut writers = Vec::new();
            for core in 0..2 {
                let store = DirectoryStore::new(&machine.core(core), Path::new("/tier"));
                let io = store.io.clone();
                let name = format!("a/b/{core}");
                let write = async move {
                    store.make_folder("a/b").await?;
                    let upload = store.create(&format!("{name}.tmp"), 0).await?;
                    upload.close(0).await?;
                    store.rename(&format!("{name}.tmp"), &name).await
                };
                let done = std::rc::Rc::new(std::cell::Cell::new(None));
                let told = done.clone();
                io.spawn(async move { told.set(Some(write.await.is_ok())) });
                writers.push(done);
            }
            sim.run_until(|| writers.iter().all(|done| done.get().is_some()), 60_000_000_000).expect("they end");
            machine.crash(Crash::PowerCut);
            for (core, done) in writers.iter().enumerate() {
                let is_there = machine.peek(format!("/tier/a/b/{core}")).is_some();
                assert!(is_there || done.get() == Some(false), "seed {seed}: what core {core} wrote is gone");
                promised += usize::from(done.get() == Some(true));
            }
        }
        assert!(promised > 60, "only {promised} files were promised");
    }
}
