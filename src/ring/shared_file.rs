//! An open file on its way from one core to another.
//!
//! A handle belongs to one core: its ring closes it and its operations complete there. What crosses is a descriptor of
//! its own, adopted by the other core's ring.

use std::io;
#[cfg(any(test, feature = "sim"))]
use std::thread::ThreadId;
use std::{fmt, os::fd::OwnedFd};

use crate::ring::io::{File, Io};
#[cfg(any(test, feature = "sim"))]
use crate::ring::sim::file::SimFile;

/// A file that no core has; [`Io::adopt_file`] makes it one core's. Closed where nobody adopts it.
pub struct SharedFile {
    pub(in crate::ring) kind: SharedKind,
}

pub(in crate::ring) enum SharedKind {
    Uring(OwnedFd),
    #[cfg(any(test, feature = "sim"))]
    Sim(SameThread<SimFile>),
}

impl fmt::Debug for SharedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedFile")
    }
}

/// All cores of a simulation run in one thread, so nothing of it ever crosses one.
#[cfg(any(test, feature = "sim"))]
pub(in crate::ring) struct SameThread<T> {
    value: Option<T>,
    thread: ThreadId,
}

#[cfg(any(test, feature = "sim"))]
#[allow(unsafe_code)]
// SAFETY: the value is only touched (read, or dropped) on the thread that made it: `take` checks it, and so does `drop`,
// which leaks the value elsewhere.
unsafe impl<T> Send for SameThread<T> {}

#[cfg(any(test, feature = "sim"))]
impl<T> SameThread<T> {
    pub(in crate::ring) fn new(value: T) -> Self {
        Self { value: Some(value), thread: std::thread::current().id() }
    }

    pub(in crate::ring) fn take(mut self) -> T {
        assert_eq!(self.thread, std::thread::current().id(), "a simulation runs in one thread");
        self.value.take().expect("taken once")
    }
}

#[cfg(any(test, feature = "sim"))]
impl<T> Drop for SameThread<T> {
    fn drop(&mut self) {
        if self.thread != std::thread::current().id() {
            std::mem::forget(self.value.take());
        }
    }
}

impl File {
    /// Makes the file ready to cross to another core; this handle stays usable. One fcntl(2), which does not wait.
    ///
    /// # Errors
    /// As dup(2): too many open files.
    pub fn share(&self) -> io::Result<SharedFile> {
        let kind = match self {
            Self::Uring(file) => SharedKind::Uring(file.duplicate()?),
            #[cfg(any(test, feature = "sim"))]
            Self::Sim(file) => SharedKind::Sim(SameThread::new(file.clone())),
        };
        Ok(SharedFile { kind })
    }
}

impl Io {
    /// Takes over a file that another core shared.
    pub fn adopt_file(&self, shared: SharedFile) -> File {
        self.adopt(shared.kind)
    }
}
