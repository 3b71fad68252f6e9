//! A store of remote segments: what may be asked of it.
//!
//! Names are of its own: parts with `/` between them, below the base. A file is written under a name in `.tmp` and gets its
//! own by a rename, so that a name stands for a whole file.

use std::path::Path;

use crate::record::offset::PartitionId;
use crate::ring::buffer::Buffer;
use crate::ring::io::{File, Io};
use crate::tier::directory_store::{DirectoryFile, DirectoryStore, DirectoryUpload};
use crate::tier::error::StoreError;
#[cfg(feature = "hdfs")]
use crate::tier::hdfs_store::{HdfsFile, HdfsStore, HdfsUpload};
use crate::tier::metadata::RemoteSegmentId;
#[cfg(any(test, feature = "sim"))]
use crate::tier::sim_store::{SimStore, SimStoredFile, SimUpload};

/// A store, on its core.
#[derive(Clone)]
pub enum Store {
    /// A folder: `file://`.
    Directory(DirectoryStore),
    /// `hdfs://`.
    #[cfg(feature = "hdfs")]
    Hdfs(HdfsStore),
    /// A simulated one.
    #[cfg(any(test, feature = "sim"))]
    Sim(SimStore),
}

/// A file that is being written.
pub enum Upload {
    /// In a folder.
    Directory(DirectoryUpload),
    /// In HDFS.
    #[cfg(feature = "hdfs")]
    Hdfs(HdfsUpload),
    /// In a simulated store.
    #[cfg(any(test, feature = "sim"))]
    Sim(SimUpload),
}

/// A file that is read.
#[derive(Clone)]
pub enum StoredFile {
    /// In a folder.
    Directory(DirectoryFile),
    /// In HDFS.
    #[cfg(feature = "hdfs")]
    Hdfs(HdfsFile),
    /// In a simulated store.
    #[cfg(any(test, feature = "sim"))]
    Sim(SimStoredFile),
}

/// One entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreEntry {
    /// Its name in the folder.
    pub name: String,
    /// It is a folder.
    pub is_dir: bool,
    /// Length of a file.
    pub len_bytes: u64,
}

impl Store {
    /// The folder as a store.
    pub fn directory(io: &Io, base: &Path) -> Self {
        Self::Directory(DirectoryStore::new(io, base))
    }

    /// True where its files are files of this machine.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Directory(_) => true,
            #[cfg(feature = "hdfs")]
            Self::Hdfs(_) => false,
            #[cfg(any(test, feature = "sim"))]
            Self::Sim(_) => false,
        }
    }

    /// How the operator wrote it.
    pub fn url(&self) -> String {
        match self {
            Self::Directory(store) => store.url(),
            #[cfg(feature = "hdfs")]
            Self::Hdfs(store) => store.url(),
            #[cfg(any(test, feature = "sim"))]
            Self::Sim(store) => store.url(),
        }
    }

    /// Tells how much waits to be copied: the more, the less do calls stand behind other work.
    pub fn note_backlog(&self, waiting_bytes: u64) {
        #[cfg(feature = "hdfs")]
        if let Self::Hdfs(store) = self {
            store.note_backlog(waiting_bytes);
        }
        // The others' calls are the core's own.
        #[cfg(not(feature = "hdfs"))]
        let _ = waiting_bytes;
    }

    /// Begins a file that is not there yet. `len_bytes` is what it will have.
    ///
    /// # Errors
    /// The store does not do it now.
    pub async fn create(&self, path: &str, len_bytes: u64) -> Result<Upload, StoreError> {
        match self {
            Self::Directory(store) => store.create(path, len_bytes).await.map(Upload::Directory),
            #[cfg(feature = "hdfs")]
            Self::Hdfs(store) => store.create(path, len_bytes).await.map(Upload::Hdfs),
            #[cfg(any(test, feature = "sim"))]
            Self::Sim(store) => store.create(path, len_bytes).await.map(Upload::Sim),
        }
    }

    /// Makes a folder, and those above it; one that is there is fine.
    ///
    /// # Errors
    /// The store does not do it now.
    pub async fn make_folder(&self, path: &str) -> Result<(), StoreError> {
        match self {
            Self::Directory(store) => store.make_folder(path).await,
            #[cfg(feature = "hdfs")]
            Self::Hdfs(store) => store.make_folder(path).await,
            #[cfg(any(test, feature = "sim"))]
            Self::Sim(store) => store.make_folder(path).await,
        }
    }

    /// Gives a file another name; lasting on return. A file that has the name already is replaced.
    ///
    /// # Errors
    /// The store does not do it now; it may have been done.
    pub async fn rename(&self, from: &str, to: &str) -> Result<(), StoreError> {
        match self {
            Self::Directory(store) => store.rename(from, to).await,
            #[cfg(feature = "hdfs")]
            Self::Hdfs(store) => store.rename(from, to).await,
            #[cfg(any(test, feature = "sim"))]
            Self::Sim(store) => store.rename(from, to).await,
        }
    }

    /// Length of a file.
    ///
    /// # Errors
    /// It is not there, or the store does not say now.
    pub async fn len_bytes(&self, path: &str) -> Result<u64, StoreError> {
        match self {
            Self::Directory(store) => store.len_bytes(path).await,
            #[cfg(feature = "hdfs")]
            Self::Hdfs(store) => store.len_bytes(path).await,
            #[cfg(any(test, feature = "sim"))]
            Self::Sim(store) => store.len_bytes(path).await,
        }
    }

    /// When a file was last written, in milliseconds since 1970.
    ///
    /// # Errors
    /// It is not there, or the store does not say now.
    pub async fn modified_ms(&self, path: &str) -> Result<i64, StoreError> {
        match self {
            Self::Directory(store) => store.modified_ms(path).await,
            #[cfg(feature = "hdfs")]
            Self::Hdfs(store) => store.modified_ms(path).await,
            #[cfg(any(test, feature = "sim"))]
            Self::Sim(store) => store.modified_ms(path).await,
        }
    }

    /// Opens a file to be read.
    ///
    /// # Errors
    /// It is not there, or the store does not do it now.
    pub async fn open(&self, path: &str) -> Result<StoredFile, StoreError> {
        match self {
            Self::Directory(store) => store.open(path).await.map(StoredFile::Directory),
            #[cfg(feature = "hdfs")]
            Self::Hdfs(store) => store.open(path).await.map(StoredFile::Hdfs),
            #[cfg(any(test, feature = "sim"))]
            Self::Sim(store) => store.open(path).await.map(StoredFile::Sim),
        }
    }

    /// Removes a file or an empty folder; false where it is not there.
    ///
    /// # Errors
    /// The store does not do it now.
    pub async fn remove(&self, path: &str, is_dir: bool) -> Result<bool, StoreError> {
        match self {
            Self::Directory(store) => store.remove(path, is_dir).await,
            #[cfg(feature = "hdfs")]
            Self::Hdfs(store) => store.remove(path).await,
            #[cfg(any(test, feature = "sim"))]
            Self::Sim(store) => store.remove(path, is_dir).await,
        }
    }

    /// What is in a folder, by name.
    ///
    /// # Errors
    /// It is not there, or the store does not say now.
    pub async fn list(&self, path: &str) -> Result<Vec<StoreEntry>, StoreError> {
        match self {
            Self::Directory(store) => store.list(path).await,
            #[cfg(feature = "hdfs")]
            Self::Hdfs(store) => store.list(path).await,
            #[cfg(any(test, feature = "sim"))]
            Self::Sim(store) => store.list(path).await,
        }
    }

    /// Writes a small file whole; lasting on return. It gets its name when the store says that it has all of it.
    ///
    /// # Errors
    /// The store does not do it now; there is an old file, or none, or the new one.
    pub async fn put(&self, path: &str, temporary: &str, bytes: Vec<u8>) -> Result<(), StoreError> {
        let len_bytes = bytes.len() as u64;
        let mut upload = self.create(temporary, len_bytes).await?;
        upload.append(Buffer::from_vec(bytes)).await?;
        upload.close(len_bytes).await?;
        self.check_len_bytes(temporary, len_bytes).await?;
        self.rename(temporary, path).await?;
        self.check_len_bytes(path, len_bytes).await
    }

    /// A store may say that it has done what it has not: looks whether a file is there, of this length.
    ///
    /// # Errors
    /// It is not, or the store does not say now.
    pub async fn check_len_bytes(&self, path: &str, expected_bytes: u64) -> Result<(), StoreError> {
        let found_bytes = self.len_bytes(path).await?;
        if found_bytes == expected_bytes {
            return Ok(());
        }
        Err(StoreError::Length { path: path.to_owned(), found_bytes, expected_bytes })
    }
}

impl Upload {
    /// Adds bytes at the end.
    ///
    /// # Errors
    /// The file is to be given up.
    pub async fn append(&mut self, bytes: Buffer) -> Result<(), StoreError> {
        match self {
            Self::Directory(upload) => upload.append(bytes).await.map(drop),
            #[cfg(feature = "hdfs")]
            Self::Hdfs(upload) => upload.append(bytes).await,
            #[cfg(any(test, feature = "sim"))]
            Self::Sim(upload) => upload.append(bytes).await.map(drop),
        }
    }

    /// All was appended: on return the store has all of it, of this length, to stay.
    ///
    /// # Errors
    /// The file is to be given up.
    pub async fn close(self, len_bytes: u64) -> Result<(), StoreError> {
        match self {
            Self::Directory(upload) => upload.close(len_bytes).await,
            #[cfg(feature = "hdfs")]
            Self::Hdfs(upload) => upload.close(len_bytes).await,
            #[cfg(any(test, feature = "sim"))]
            Self::Sim(upload) => upload.close(len_bytes).await,
        }
    }
}

impl StoredFile {
    /// Length of the file.
    pub fn len_bytes(&self) -> u64 {
        match self {
            Self::Directory(file) => file.len_bytes(),
            #[cfg(feature = "hdfs")]
            Self::Hdfs(file) => file.len_bytes(),
            #[cfg(any(test, feature = "sim"))]
            Self::Sim(file) => file.len_bytes(),
        }
    }

    /// Reads at a position until the buffer is full or the file ends.
    ///
    /// # Errors
    /// The store does not do it now.
    pub async fn read(&self, buffer: Buffer, position_bytes: u64) -> Result<Buffer, StoreError> {
        match self {
            Self::Directory(file) => file.read(buffer, position_bytes).await,
            #[cfg(feature = "hdfs")]
            Self::Hdfs(file) => file.read(buffer, position_bytes).await,
            #[cfg(any(test, feature = "sim"))]
            Self::Sim(file) => file.read(buffer, position_bytes).await,
        }
    }

    /// The file itself, where it is one of this machine: its ranges are sent as they lie there.
    pub fn local(&self) -> Option<&File> {
        match self {
            Self::Directory(file) => Some(file.local()),
            #[cfg(feature = "hdfs")]
            Self::Hdfs(_) => None,
            #[cfg(any(test, feature = "sim"))]
            Self::Sim(_) => None,
        }
    }
}

/// The folder of a partition.
pub fn partition_folder(topic: &str, id: PartitionId) -> String {
    format!("{topic}-{}-{}", id.partition, id.topic_id)
}

/// Reads the name of a partition's folder; `None` for any other name. The topic may have dashes, and so may the id.
pub fn parse_partition_folder(name: &str) -> Option<(&str, PartitionId)> {
    let at = name.len().checked_sub(TOPIC_ID_CHARACTERS).filter(|at| name.is_char_boundary(*at))?;
    let (front, topic_id) = name.split_at(at);
    let topic_id = topic_id.parse().ok()?;
    let (topic, partition) = front.strip_suffix('-')?.rsplit_once('-')?;
    let is_number = !partition.is_empty() && partition.bytes().all(|byte| byte.is_ascii_digit());
    let partition: i32 = partition.parse().ok().filter(|_| is_number && !topic.is_empty())?;
    Some((topic, PartitionId { topic_id, partition }))
}

/// The file of a segment.
pub fn segment_path(topic: &str, id: PartitionId, segment: RemoteSegmentId) -> String {
    format!("{}/{segment}", partition_folder(topic, id))
}

/// The name of a segment's file while it is written.
pub fn temporary_path(segment: RemoteSegmentId) -> String {
    format!("{TEMPORARY_FOLDER}/{segment}")
}

/// Where files are that are being written.
pub const TEMPORARY_FOLDER: &str = ".tmp";
const TOPIC_ID_CHARACTERS: usize = 22;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::offset::TopicId;

    #[test]
    fn a_partitions_folder_comes_back_and_other_names_do_not() {
        for topic in ["t", "a-b", "-", "x-1", ".dots"] {
            for byte in [0x07, 0xfb, 0xff] {
                let id = PartitionId { topic_id: TopicId([byte; 16]), partition: 12 };
                assert_eq!(parse_partition_folder(&partition_folder(topic, id)), Some((topic, id)), "{topic}");
            }
        }
        for name in [
            "",
            TEMPORARY_FOLDER,
            ".manifests",
            "alluvium-owner",
            "t-0",
            "t-x-AAAAAAAAAAAAAAAAAAAAAA",
            "-0-AAAAAAAAAAAAAAAAAAAAAA",
            "t-0-AAAAAAAAAAAAAAAAAAAAA!",
            "ääääääääääääääää",
        ] {
            assert_eq!(parse_partition_folder(name), None, "{name}");
        }
    }
}
