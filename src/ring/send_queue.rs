//! What a connection still has to send: bytes, and ranges of files.

use std::collections::VecDeque;

use crate::ring::io::File;
use crate::ring::send::LoadedPipe;
use crate::ring::shared_bytes::SharedBytes;

/// A piece of what is sent.
pub enum Part {
    /// Bytes in memory.
    Bytes(Vec<u8>),
    /// Bytes of memory that others have too.
    Shared(SharedBytes),
    /// `len_bytes` of a file from `position_bytes`; all of it is there.
    File {
        /// The file; a deleted one stays readable until this part is sent.
        file: File,
        /// Where the range starts.
        position_bytes: u64,
        /// Length of the range.
        len_bytes: u64,
    },
}

impl Part {
    /// Its bytes, where they are in memory.
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Shared(bytes) => Some(bytes),
            Self::File { .. } => None,
        }
    }

    /// Its length.
    pub fn len_bytes(&self) -> u64 {
        match self {
            Self::File { len_bytes, .. } => *len_bytes,
            part => part.bytes().map_or(0, |bytes| bytes.len() as u64),
        }
    }
}

/// Parts to be sent in order, and how far the first has gone.
#[derive(Default)]
pub struct SendQueue {
    pub(in crate::ring) parts: VecDeque<Part>,
    /// Bytes of the first part that were sent.
    pub(in crate::ring) sent_bytes: u64,
    pub(in crate::ring) queued_bytes: u64,
    /// Bytes of the parts that are in memory; a part counts whole until it is sent.
    pub(in crate::ring) memory_bytes: u64,
    /// Parts of memory that others have too.
    shared_parts: usize,
    /// Up to here (counted as `sent_bytes`) the first part is known to be in the page cache.
    pub(in crate::ring) resident_bytes: u64,
    /// What a driver keeps between calls (a pipe with residue).
    pub(in crate::ring) pipe: Option<LoadedPipe>,
}

impl SendQueue {
    /// Adds a part at the end; empty parts are left out.
    pub fn push(&mut self, part: Part) {
        let len_bytes = part.len_bytes();
        self.memory_bytes += part.bytes().map_or(0, |bytes| bytes.len() as u64);
        if len_bytes > 0 {
            self.queued_bytes += len_bytes;
            self.shared_parts += usize::from(matches!(part, Part::Shared(_)));
            self.parts.push_back(part);
        }
    }

    /// True where all was sent.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Bytes not sent yet.
    pub fn queued_bytes(&self) -> u64 {
        self.queued_bytes
    }

    /// Bytes that the parts not sent yet hold in memory: ranges of files hold none.
    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    /// True where a part is of memory that others have too, and may be waiting for.
    pub fn holds_shared(&self) -> bool {
        self.shared_parts > 0
    }

    /// Drops the first part, which was sent whole.
    pub(in crate::ring) fn pop_sent(&mut self) {
        let sent = self.parts.pop_front();
        self.shared_parts -= usize::from(matches!(sent, Some(Part::Shared(_))));
        self.memory_bytes -= sent.as_ref().and_then(Part::bytes).map_or(0, |bytes| bytes.len() as u64);
    }
}
