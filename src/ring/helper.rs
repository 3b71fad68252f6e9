//! A thread beside each core that needs it, for the rare calls that a ring does not offer.
//!
//! Made at the first such call: listing a directory, asking for the room of a disk, truncating where the kernel's ring cannot.
//! Others sync whole file systems, one each: that may take long.

use std::io;
use std::path::Path;
use std::sync::mpsc;
use std::task::Poll;

use crate::ring::io::{DirEntry, DiskSpace};
use crate::ring::mesh::Notifier;

/// The thread's end on the core. The thread ends when this is dropped, after what it was asked.
pub(in crate::ring) struct Helper {
    jobs: mpsc::SyncSender<Job>,
    notifier: Notifier,
}

type Job = Box<dyn FnOnce() + Send>;

/// What a job will have answered.
pub(in crate::ring) struct Answer<T> {
    receiver: mpsc::Receiver<T>,
}

impl Helper {
    /// Starts the thread; `notifier` wakes the core at each answer.
    pub(in crate::ring) fn start(name: &str, notifier: Notifier) -> io::Result<Self> {
        let (jobs, waiting) = mpsc::sync_channel::<Job>(JOBS_MAX);
        std::thread::Builder::new().name(name.to_owned()).spawn(move || waiting.iter().for_each(|job| job()))?;
        Ok(Self { jobs, notifier })
    }

    /// Queues a job. Fails where too many wait already.
    pub(in crate::ring) fn ask<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<Answer<T>> {
        let (sender, receiver) = mpsc::sync_channel(1);
        let notifier = self.notifier.clone();
        let job = Box::new(move || {
            // Nobody may want it any more.
            let _ = sender.send(job());
            notifier.notify();
        });
        self.jobs.try_send(job).map_err(|_| io::Error::from(io::ErrorKind::ResourceBusy))?;
        Ok(Answer { receiver })
    }
}

impl<T> Answer<T> {
    /// The answer, if it is there; an error where the thread died of the job.
    pub(in crate::ring) fn poll(&self) -> Poll<io::Result<T>> {
        match self.receiver.try_recv() {
            Ok(answer) => Poll::Ready(Ok(answer)),
            Err(mpsc::TryRecvError::Empty) => Poll::Pending,
            Err(mpsc::TryRecvError::Disconnected) => Poll::Ready(Err(io::Error::from(io::ErrorKind::BrokenPipe))),
        }
    }
}

/// Lists a directory, waiting for the disk: on the helper thread only.
#[allow(clippy::disallowed_methods)]
pub(in crate::ring) fn read_dir(path: &Path) -> io::Result<Vec<DirEntry>> {
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        // One that was removed since is left out.
        let Ok(metadata) = entry.metadata() else {
            continue;
        };
        entries.push(DirEntry {
            name: entry.file_name().to_string_lossy().into_owned(),
            is_dir: metadata.is_dir(),
            len_bytes: if metadata.is_file() { metadata.len() } else { 0 },
        });
    }
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(entries)
}

/// Asks a disk for its room, waiting for it: on the helper thread only.
pub(in crate::ring) fn disk_space(path: &Path) -> io::Result<DiskSpace> {
    let status = rustix::fs::statvfs(path)?;
    let bytes = |blocks: u64| blocks.saturating_mul(status.f_frsize);
    Ok(DiskSpace { total_bytes: bytes(status.f_blocks), usable_bytes: bytes(status.f_bavail) })
}

const JOBS_MAX: usize = 256;
