//! What can go wrong with the tier, by what the caller does about it.

use std::io;

use thiserror::Error;

/// A call of a store that did not do what was asked.
#[derive(Debug, Error)]
pub enum StoreError {
    /// There is no file of that name: it will not help to ask again.
    #[error("{path}: not in the store")]
    NotFound {
        /// Within the store.
        path: String,
    },
    /// The store could not do it now: ask again later.
    #[error("{path}: {source}")]
    Io {
        /// Within the store.
        path: String,
        /// Its answer.
        source: io::Error,
    },
    /// What the store says it has is not what was given to it.
    #[error("{path}: has {found_bytes} bytes, {expected_bytes} were written")]
    Length {
        /// Within the store.
        path: String,
        /// What it says.
        found_bytes: u64,
        /// What it should say.
        expected_bytes: u64,
    },
}

impl StoreError {
    /// What a call on `path` came to.
    #[must_use]
    pub fn of(path: &str, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::NotFound => Self::NotFound { path: path.to_owned() },
            _ => Self::Io { path: path.to_owned(), source },
        }
    }

    /// True where nothing of that name is there.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }
}

/// A segment file that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SegmentFileError {
    /// A later version, or no segment file.
    #[error("version byte {found}: this server reads version 0 of segment files alone")]
    Version {
        /// The first byte.
        found: u8,
    },
    /// The positions in its header are not in order.
    #[error("its header places the sections wrongly")]
    Sections,
    /// Shorter than its header says.
    #[error("{len_bytes} bytes long, and its header needs {needed_bytes}")]
    Short {
        /// What there is.
        len_bytes: u64,
        /// What there should be.
        needed_bytes: u64,
    },
    /// A section is too long for the format.
    #[error("a section of {len_bytes} bytes does not fit into the format")]
    TooLong {
        /// Its length.
        len_bytes: u64,
    },
}

/// A segment whose batches are not whole: it is not copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the batch at {position_bytes} is damaged: {what}")]
pub struct BatchDamage {
    /// Where it begins in the log.
    pub position_bytes: u64,
    /// What is wrong.
    pub what: &'static str,
}

/// Metadata of remote segments that cannot be used.
#[derive(Debug, Error)]
pub enum MetadataError {
    /// The disk refused.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// Its answer.
        source: io::Error,
    },
    /// A later version, or another file.
    #[error("{path}: {what}; it is left as it is")]
    Unreadable {
        /// The file.
        path: String,
        /// What is wrong.
        what: &'static str,
    },
}

/// A manifest that cannot be used. Nothing was changed.
#[derive(Debug, Error)]
pub enum ManifestError {
    /// The store does not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A newer server wrote it.
    #[error("{path} has version {found} of manifests, this server knows up to {known}: use the alluvium that wrote it")]
    Newer {
        /// Within the store.
        path: String,
        /// Its version.
        found: u16,
        /// The latest known here.
        known: u16,
    },
    /// Not what was written.
    #[error("{path}: {what}")]
    Damaged {
        /// Within the store.
        path: String,
        /// What is wrong.
        what: &'static str,
    },
}

/// Why a base folder may not be used.
#[derive(Debug, Error)]
pub enum OwnerError {
    /// It is another cluster's.
    #[error("{url} belongs to cluster {found}, this server is of cluster {expected}: choose another folder for --tier")]
    Other {
        /// The tier.
        url: String,
        /// Whose it is.
        found: String,
        /// Who we are.
        expected: String,
    },
    /// Segments of ours should be there, and not even the owner's file is.
    #[error("{url} has no owner file, though segments were copied there: is the right disk mounted?")]
    Missing {
        /// The tier.
        url: String,
    },
    /// The store does not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}
