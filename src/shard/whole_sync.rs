//! Whether a data directory's file system is synced as a whole.
//!
//! Fifty files that want a sync cost the disk fifty flushes one after the other, and its file system one if it is asked as
//! a whole (syncfs). But a whole sync also waits for what is nobody's business here: a backup that writes to the same disk,
//! say. So both ways are timed, the quicker is taken, and one that takes too long is not waited for.

use std::cell::{Cell, RefCell};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use tracing::{debug, warn};

use crate::ring::file_system::FileSystem;
use crate::ring::io::Io;
use crate::ring::task::WaitList;
use crate::ring::timer::Nanos;
use crate::shard::deadline::within;

/// The file system of one data directory, as one core sees it.
pub struct WholeSync {
    folder: PathBuf,
    system: RefCell<Option<Rc<FileSystem>>>,
    choice: RefCell<Choice>,
    ended: Rc<Ended>,
}

/// How a sync of the whole ended.
#[derive(Debug)]
pub enum WholeSyncEnd {
    /// All that had been written is durable.
    Durable,
    /// It failed, or was not waited for: each file is to be synced by itself, which tells what is lost.
    EachFile,
}

/// Shared with the task that asks for a sync, which may outlive whoever waits.
#[derive(Default)]
struct Ended {
    runs: Cell<bool>,
    result: RefCell<Option<io::Result<()>>>,
    waiting: WaitList,
}

impl WholeSync {
    /// Of the data directory at `folder`, for `files_min` files and more; before it is opened, none.
    pub fn new(folder: &Path, files_min: usize) -> Self {
        let choice = RefCell::new(Choice::new(files_min));
        Self { folder: folder.to_owned(), system: RefCell::new(None), choice, ended: Rc::default() }
    }

    /// The data directory.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// True where `count` files are better synced as a whole, from what is known.
    pub fn is_worth(&self, count: usize, now: Nanos) -> bool {
        self.system.borrow().is_some() && !self.ended.runs.get() && self.choice.borrow_mut().is_worth(count, now)
    }

    /// Notes how long the sync of one file took, `at_once` of them at a time.
    pub fn note_one(&self, elapsed_ns: u64, at_once: usize) {
        self.choice.borrow_mut().note_one(elapsed_ns, at_once);
    }

    /// Opens the file system, once; where it cannot be had, each file is synced.
    pub async fn open(&self, io: &Io) {
        match io.file_system(&self.folder).await {
            Ok(system) => *self.system.borrow_mut() = system.map(Rc::new),
            Err(error) => {
                debug!(dir = %self.folder.display(), %error, "the file system could not be opened for a sync of all of it");
            }
        }
    }

    /// Syncs the file system in the place of `count` files.
    pub async fn run(&self, io: &Io, count: usize) -> WholeSyncEnd {
        let Some(system) = self.system.borrow().clone() else { return WholeSyncEnd::EachFile };
        let began = io.now();
        self.ended.runs.set(true);
        // Of one that was not waited for.
        self.ended.result.take();
        let (ended, task_io) = (self.ended.clone(), io.clone());
        io.spawn(async move {
            let result = system.sync().await;
            ended.runs.set(false);
            *ended.result.borrow_mut() = Some(result);
            task_io.wake_all(&ended.waiting);
        });
        let wait_ns = self.choice.borrow().wait_ns(count);
        let result = within(io, began.plus_us(wait_ns / 1000), self.ended.wait(io)).await;
        let elapsed_ns = io.now().since(began);
        match result {
            Some(Ok(())) => {
                self.choice.borrow_mut().note_whole(elapsed_ns);
                WholeSyncEnd::Durable
            }
            Some(Err(error)) => {
                warn!(
                    dir = %self.folder.display(), %error,
                    "the file system could not be synced as a whole: each file is, and one whose bytes are lost says so; check the disk"
                );
                self.choice.borrow_mut().failed(io.now());
                WholeSyncEnd::EachFile
            }
            None => {
                debug!(dir = %self.folder.display(), elapsed_us = elapsed_ns / 1000, count, "a sync of the whole file system takes too long");
                self.choice.borrow_mut().failed(io.now());
                WholeSyncEnd::EachFile
            }
        }
    }
}

impl Ended {
    async fn wait(&self, io: &Io) -> io::Result<()> {
        std::future::poll_fn(|_| match self.result.borrow_mut().take() {
            Some(result) => std::task::Poll::Ready(result),
            None => {
                self.waiting.wait(io.current_task());
                std::task::Poll::Pending
            }
        })
        .await
    }
}

/// What was timed, and what follows.
#[derive(Debug)]
struct Choice {
    /// Fewer files are synced one by one.
    files_min: usize,
    /// Mean time that one file costs, where several are synced at a time.
    one_ns: u64,
    /// Mean time of a sync of the whole, less with each decision against it: it is tried again now and then.
    whole_ns: u64,
    /// Not as a whole until then.
    not_before: Nanos,
    /// How long it is left alone when it fails again, or takes too long.
    pause_ms: u64,
}

impl Choice {
    fn new(files_min: usize) -> Self {
        Self { files_min, one_ns: ONE_NS_FIRST, whole_ns: 0, not_before: Nanos::default(), pause_ms: PAUSE_MS_MIN }
    }

    fn is_worth(&mut self, count: usize, now: Nanos) -> bool {
        if count < self.files_min || now < self.not_before {
            return false;
        }
        let is_worth = self.whole_ns <= self.each_ns(count);
        if !is_worth {
            self.whole_ns -= self.whole_ns / FORGETS_A_PART;
        }
        is_worth
    }

    fn note_one(&mut self, elapsed_ns: u64, at_once: usize) {
        let one_ns = elapsed_ns.min(ONE_NS_MAX) / at_once.max(1) as u64;
        self.one_ns = (self.one_ns * (MEAN_OF - 1) + one_ns) / MEAN_OF;
    }

    /// What the files would have cost one by one.
    fn each_ns(&self, count: usize) -> u64 {
        self.one_ns.saturating_mul(count as u64)
    }

    /// How long a sync of the whole is waited for: a wrong try costs its callers twice what the other way costs.
    fn wait_ns(&self, count: usize) -> u64 {
        self.each_ns(count).saturating_mul(2).max(WAIT_NS_MIN)
    }

    fn note_whole(&mut self, elapsed_ns: u64) {
        self.whole_ns = if self.whole_ns == 0 { elapsed_ns } else { (self.whole_ns * 3 + elapsed_ns) / 4 };
        self.pause_ms = PAUSE_MS_MIN;
    }

    fn failed(&mut self, now: Nanos) {
        self.not_before = now.plus_ms(self.pause_ms);
        self.pause_ms = (self.pause_ms * 2).min(PAUSE_MS_MAX);
    }
}

/// Some fifty decisions halve what is remembered.
const FORGETS_A_PART: u64 = 64;
/// Until one was timed.
const ONE_NS_FIRST: u64 = 500_000;
/// A disk that hangs for a moment says little of the next sync.
const ONE_NS_MAX: u64 = 50_000_000;
/// The mean is of about so many.
const MEAN_OF: u64 = 16;
const WAIT_NS_MIN: u64 = 10_000_000;
const PAUSE_MS_MIN: u64 = 200;
const PAUSE_MS_MAX: u64 = 60_000;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn the_quicker_way_is_taken_and_the_other_tried_now_and_then() {
        let mut choice = Choice::new(4);
        let now = Nanos::default().plus_ms(1);
        assert!(choice.is_worth(50, now) && !choice.is_worth(3, now));
        (0..200).for_each(|_| choice.note_one(MS, 2));
        assert!((MS * 24..MS * 26).contains(&choice.each_ns(50)), "{choice:?}");
        // 3 ms: quicker than 50 files, and slower than five.
        choice.note_whole(3 * MS);
        assert!(choice.is_worth(50, now) && !choice.is_worth(5, now), "{choice:?}");
        // Some other writer keeps the disk busy: not for 50 files either, until some decisions later.
        (0..20).for_each(|_| choice.note_whole(60 * MS));
        let against = (0..1000).take_while(|_| !choice.is_worth(50, now)).count();
        assert!((40..80).contains(&against), "{against} decisions against it, {choice:?}");
        // Quick again: it stays.
        (0..20).for_each(|_| choice.note_whole(3 * MS));
        assert!((0..100).all(|_| choice.is_worth(50, now)), "{choice:?}");
    }

    #[test]
    fn what_fails_is_left_alone_longer_each_time() {
        let mut choice = Choice::new(4);
        let mut now = Nanos::default().plus_ms(1);
        let mut pauses = Vec::new();
        for _ in 0..12 {
            assert!(choice.is_worth(50, now));
            choice.failed(now);
            let begin = now;
            while !choice.is_worth(50, now) {
                now = now.plus_ms(100);
            }
            pauses.push(now.since(begin) / MS);
        }
        assert_eq!(pauses[..4], [200, 400, 800, 1600]);
        assert_eq!(pauses.last(), Some(&60_000));
        // Done once: the next failure costs little again.
        choice.note_whole(3 * MS);
        choice.failed(now);
        assert!(choice.is_worth(50, now.plus_ms(200)));
    }

    #[test]
    fn a_wait_is_bounded_by_what_the_other_way_costs() {
        let mut choice = Choice::new(4);
        (0..200).for_each(|_| choice.note_one(10 * MS, 2));
        assert!((490 * MS..510 * MS).contains(&choice.wait_ns(50)), "{choice:?}");
        (0..200).for_each(|_| choice.note_one(0, 2));
        assert_eq!(choice.wait_ns(50), WAIT_NS_MIN);
        // A disk that hung says little.
        choice.note_one(u64::MAX, 1);
        assert!(choice.wait_ns(50) <= 400 * MS, "{choice:?}");
    }
}
