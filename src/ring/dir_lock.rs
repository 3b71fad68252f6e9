//! A data directory belongs to one server at a time.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // std's file lock; taken before any core runs

use std::fs::{File, TryLockError, create_dir_all};
use std::io;
use std::path::{Path, PathBuf};

/// Held while the server lives; the kernel gives it back when the process ends, however it ends.
#[derive(Debug)]
pub struct DirLock {
    _file: File,
}

/// Why a directory cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another server has it.
    #[error("{} is in use by another server; stop that one, or name another --data-dir", path.display())]
    Taken {
        /// The directory.
        path: PathBuf,
    },
    /// It cannot be made, or written to.
    #[error("{}: {source}; check that it is a directory that this user may write to", path.display())]
    Io {
        /// The directory, or the file in it.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

impl DirLock {
    /// Makes the directory where it is missing, and locks the file `name` in it. Blocks for the length of a few system
    /// calls; for boot, before any core runs.
    ///
    /// # Errors
    /// Another process has the lock, or the disk refuses.
    pub fn take(path: &Path, name: &str) -> Result<Self, LockError> {
        create_dir_all(path).map_err(|source| LockError::Io { path: path.to_path_buf(), source })?;
        let file_path = path.join(name);
        let opened = File::options().create(true).truncate(false).write(true).open(&file_path);
        let file = opened.map_err(|source| LockError::Io { path: file_path.clone(), source })?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => Err(LockError::Taken { path: path.to_path_buf() }),
            Err(TryLockError::Error(source)) => Err(LockError::Io { path: file_path, source }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time() {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let inner = folder.path().join("made/here");
        let held = DirLock::take(&inner, ".lock").expect("free");
        assert!(matches!(DirLock::take(&inner, ".lock"), Err(LockError::Taken { .. })));
        drop(held);
        DirLock::take(&inner, ".lock").expect("free again");
    }

    #[test]
    fn a_file_in_its_place_is_said_so() {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let file = folder.path().join("file");
        drop(File::create(&file).expect("writable"));
        let error = DirLock::take(&file, ".lock").expect_err("no directory").to_string();
        assert!(error.contains("check that it is a directory"), "{error}");
    }
}
