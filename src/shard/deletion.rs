//! Files on their way out: removed some time after their names were taken, one after the other.
//!
//! Unlinking a large file takes a file system a while. One is removed at a time, through the ring, so that requests do
//! not stand behind a thousand of them. What is left at a stop is found again at the next start.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::task::Poll;

use tracing::warn;

use crate::record::offset::PartitionId;
use crate::ring::task::TaskId;
use crate::ring::timer::Nanos;
use crate::shard::core::Shard;

/// The files of one core that are to be removed, by the time at which they may go. As many as segments were deleted
/// within `file.delete.delay.ms`.
#[derive(Default)]
pub struct Deletions {
    due: RefCell<BTreeMap<(Nanos, u64), Doomed>>,
    next_number: Cell<u64>,
    worker: Cell<Option<TaskId>>,
}

struct Doomed {
    partition: PartitionId,
    /// Renamed already, or of no segment that the log knows.
    paths: Vec<PathBuf>,
}

impl Deletions {
    /// Has `paths`, all of a partition's folder, removed when `delay_ms` has passed. Those that are not there are none.
    pub fn remove_later(&self, shard: &Rc<Shard>, partition: PartitionId, paths: Vec<PathBuf>, delay_ms: u64) {
        if paths.is_empty() {
            return;
        }
        let number = self.next_number.get();
        self.next_number.set(number + 1);
        let due = shard.io().now().plus_ms(delay_ms);
        self.due.borrow_mut().insert((due, number), Doomed { partition, paths });
        match self.worker.get() {
            // It may have to wake earlier now.
            Some(worker) => shard.io().wake(worker),
            None => self.worker.set(Some(shard.io().spawn(work(shard.clone())))),
        }
    }

    /// Segments whose files are still to be removed.
    pub fn count(&self) -> usize {
        self.due.borrow().len()
    }

    fn take_due(&self, now: Nanos) -> Option<Doomed> {
        let mut due = self.due.borrow_mut();
        due.first_entry().filter(|first| first.key().0 <= now).map(|first| first.remove())
    }

    fn next_due(&self) -> Option<Nanos> {
        self.due.borrow().keys().next().map(|(due, _)| *due)
    }
}

/// Removes what is due until nothing is left, or the server stops.
async fn work(shard: Rc<Shard>) {
    let (io, deletions) = (shard.io(), shard.deletions());
    while !shard.is_stopping() {
        let Some(next_due) = deletions.next_due() else { break };
        let Some(doomed) = deletions.take_due(io.now()) else {
            let _timer = io.wake_at(next_due);
            poll_fn(|_| {
                let is_sooner = deletions.next_due() != Some(next_due);
                if is_sooner || shard.is_stopping() || io.now() >= next_due {
                    return Poll::Ready(());
                }
                shard.note_stopping();
                Poll::Pending
            })
            .await;
            shard.forget_stopping();
            continue;
        };
        for path in doomed.paths {
            // Where the partition was deleted meanwhile its folder has another name, and its name may be another's.
            if shard.is_stopping() || shard.hosted(doomed.partition).is_none() {
                break;
            }
            match io.remove_file(&path).await {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    warn!(path = %path.display(), %error, "a file of a deleted segment could not be removed; the next start tries again");
                }
                _ => {}
            }
        }
        io.yield_now().await;
    }
    deletions.worker.set(None);
}
