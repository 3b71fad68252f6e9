//! A simulated file: what readers see, what is durable, and what is in between.

use std::cell::{Cell, RefCell};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::rc::Rc;

use crate::ring::buffer::Buffer;
use crate::ring::io::Io;
use crate::ring::sim::core::{CoreState, eio};
use crate::ring::sim::crash::{FileChange, after_power_cut};
use crate::ring::sim::events::World;
use crate::ring::sim::operation::Completion;
use crate::ring::sim::options::DiskOp;
use crate::ring::sim::random::Random;

/// The bytes behind any number of names and open files.
#[derive(Default)]
pub(in crate::ring::sim) struct FileNode {
    state: RefCell<FileState>,
    /// When it was last written, by the wall clock of who wrote.
    modified_ms: Cell<i64>,
    /// Changes were lost, and no sync of the file has said so yet.
    has_lost: Cell<bool>,
}

#[derive(Default)]
struct FileState {
    visible: Vec<u8>,
    durable: Vec<u8>,
    /// Numbered; `visible` is `durable` with all of them, except what a failed sync forgot.
    pending: Vec<(u64, FileChange)>,
    pending_bytes: u64,
}

impl FileNode {
    pub(in crate::ring::sim) fn len_bytes(&self) -> u64 {
        self.state.borrow().visible.len() as u64
    }

    pub(in crate::ring::sim) fn visible_bytes(&self) -> Vec<u8> {
        self.state.borrow().visible.clone()
    }

    /// Copies what is there at `position_bytes`, as far as `into` or the file goes.
    pub(in crate::ring::sim) fn read(&self, position_bytes: u64, into: &mut [u8]) -> usize {
        let state = self.state.borrow();
        let start = usize::try_from(position_bytes).unwrap_or(usize::MAX).min(state.visible.len());
        let count = into.len().min(state.visible.len() - start);
        into[..count].copy_from_slice(&state.visible[start..start + count]);
        count
    }

    pub(in crate::ring::sim) fn set_len(&self, number: u64, len_bytes: u64) {
        self.change(number, FileChange::SetLen(len_bytes));
    }

    pub(in crate::ring::sim) fn damage(&self, change: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.state.borrow_mut();
        change(&mut state.visible);
        state.durable = state.visible.clone();
        state.pending.clear();
        state.pending_bytes = 0;
    }

    fn change(&self, number: u64, change: FileChange) {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        change.apply(&mut state.visible);
        if let FileChange::Write { bytes, .. } = &change {
            state.pending_bytes += bytes.len() as u64;
        }
        state.pending.push((number, change));
        // The kernel writes back by itself when too much is dirty.
        if state.pending_bytes > DIRTY_BYTES_MAX || state.pending.len() > DIRTY_COUNT_MAX {
            let until = state.pending[state.pending.len() / 2].0;
            state.make_durable(until);
        }
    }

    fn cut_power(&self, random: &Random, until: u64) {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let count = state.pending.partition_point(|(number, _)| *number <= until);
        let changes: Vec<FileChange> = state.pending.drain(..count).map(|(_, change)| change).collect();
        state.durable = after_power_cut(&state.durable, &changes, random);
        state.pending_bytes = state.pending.iter().map(|(_, change)| change.written_bytes()).sum();
    }

    /// A sync failed: some of what was dirty got to the disk, and all of it counts as clean.
    fn forget_changes(&self, random: &Random, until: u64) {
        self.cut_power(random, until);
    }

    /// The file system could not write what was dirty.
    pub(in crate::ring::sim) fn lose_changes(&self, random: &Random, until: u64) {
        if self.state.borrow().pending.first().is_some_and(|(number, _)| *number <= until) {
            self.forget_changes(random, until);
            self.has_lost.set(true);
        }
    }

    pub(in crate::ring::sim) fn make_durable(&self, until: u64) {
        self.state.borrow_mut().make_durable(until);
    }

    pub(in crate::ring::sim) fn lose_power(&self, random: &Random) {
        self.cut_power(random, u64::MAX);
        self.has_lost.set(false);
        let mut state = self.state.borrow_mut();
        state.visible = state.durable.clone();
    }
}

impl FileState {
    fn make_durable(&mut self, until: u64) {
        let count = self.pending.partition_point(|(number, _)| *number <= until);
        for (_, change) in self.pending.drain(..count) {
            self.pending_bytes -= change.written_bytes();
            change.apply(&mut self.durable);
        }
    }
}

/// An open file of one core.
#[derive(Clone)]
pub struct SimFile {
    open: Rc<OpenFile>,
}

struct OpenFile {
    io: Io,
    world: Rc<World>,
    core: Rc<CoreState>,
    node: Rc<FileNode>,
    path: Rc<Path>,
    is_writable: bool,
}

impl SimFile {
    pub(in crate::ring::sim) fn new(
        io: Io,
        world: Rc<World>,
        core: Rc<CoreState>,
        node: Rc<FileNode>,
        path: Rc<Path>,
        is_writable: bool,
    ) -> Self {
        Self { open: Rc::new(OpenFile { io, world, core, node, path, is_writable }) }
    }

    /// The same open file, as another core has it.
    pub(in crate::ring::sim) fn adopted(&self, io: Io, core: Rc<CoreState>) -> Self {
        let OpenFile { world, node, path, is_writable, .. } = &*self.open;
        Self::new(io, world.clone(), core, node.clone(), path.clone(), *is_writable)
    }

    pub(in crate::ring::sim) fn node(&self) -> &FileNode {
        &self.open.node
    }

    pub(in crate::ring) async fn read_at(
        &self,
        mut buffer: Buffer,
        position_bytes: u64,
    ) -> (io::Result<usize>, Buffer) {
        let world = &self.open.world;
        // The page cache has it, as often as not.
        if world.random.coin() {
            let result = self.open.read(&mut buffer, position_bytes);
            return (result, buffer);
        }
        let completion = Completion::new(&self.open.io);
        let (done, open) = (completion.clone(), self.open.clone());
        let delay_ns = world.draw_delay(world.delays.read_ns);
        world.schedule(Some(&self.open.core), delay_ns, "read", move |_| {
            let result = open.read(&mut buffer, position_bytes);
            done.complete((result, buffer));
        });
        completion.wait().await
    }

    pub(in crate::ring) async fn write_at(&self, buffer: Buffer, position_bytes: u64) -> (io::Result<()>, Buffer) {
        if !self.open.is_writable {
            return (Err(io::Error::from_raw_os_error(libc::EBADF)), buffer);
        }
        if buffer.len() <= SMALL_WRITE_BYTES_MAX {
            let result = self.open.write(&buffer, position_bytes);
            return (result, buffer);
        }
        let completion = Completion::new(&self.open.io);
        self.open.clone().write_piece(buffer, 0, position_bytes, completion.clone());
        completion.wait().await
    }

    pub(in crate::ring) async fn sync_data(&self) -> io::Result<()> {
        let world = &self.open.world;
        let until = world.next_sequence();
        let completion = Completion::new(&self.open.io);
        let (done, open) = (completion.clone(), self.open.clone());
        let delay_ns = self.open.core.machine().disk().draw_sync_ns(world, &self.open.path);
        world.schedule(Some(&self.open.core), delay_ns, "sync", move |world| {
            let has_lost = open.node.has_lost.take();
            let fails = open.fails(DiskOp::Sync, world.faults.get().sync_error_per_million) || has_lost;
            if fails {
                open.node.forget_changes(&world.random, until);
            } else {
                open.node.make_durable(until);
            }
            done.complete(if fails { Err(eio()) } else { Ok(()) });
        });
        completion.wait().await
    }

    pub(in crate::ring) async fn set_len(&self, len_bytes: u64) -> io::Result<()> {
        if !self.open.is_writable {
            return Err(ErrorKind::InvalidInput.into());
        }
        if len_bytes > FILE_BYTES_MAX {
            return Err(ErrorKind::FileTooLarge.into());
        }
        self.on_metadata("set_len", move |open| {
            open.node.set_len(open.world.next_sequence(), len_bytes);
        })
        .await
    }

    /// Blocks are not simulated: it takes its time, and may fail.
    pub(in crate::ring) async fn allocate(&self, from_bytes: u64, len_bytes: u64) -> io::Result<()> {
        if from_bytes.saturating_add(len_bytes) > FILE_BYTES_MAX {
            return Err(ErrorKind::FileTooLarge.into());
        }
        self.on_metadata("allocate", |_| ()).await
    }

    pub(in crate::ring) async fn len(&self) -> io::Result<u64> {
        self.on_metadata("len", |open| open.node.len_bytes()).await
    }

    pub(in crate::ring) async fn modified_ms(&self) -> io::Result<i64> {
        self.on_metadata("modified", |open| open.node.modified_ms.get()).await
    }

    async fn on_metadata<T: 'static>(
        &self,
        what: &'static str,
        effect: impl FnOnce(&OpenFile) -> T + 'static,
    ) -> io::Result<T> {
        let world = &self.open.world;
        let completion = Completion::new(&self.open.io);
        let (done, open) = (completion.clone(), self.open.clone());
        let delay_ns = world.draw_delay(world.delays.metadata_ns);
        world.schedule(Some(&self.open.core), delay_ns, what, move |world| {
            let fails = open.fails(DiskOp::Metadata, world.faults.get().metadata_error_per_million);
            done.complete(if fails { Err(eio()) } else { Ok(effect(&open)) });
        });
        completion.wait().await
    }
}

impl OpenFile {
    fn fails(&self, op: DiskOp, per_million: u32) -> bool {
        self.core.machine().disk().fails(&self.world, op, &self.path, per_million)
    }

    fn read(&self, buffer: &mut Buffer, position_bytes: u64) -> io::Result<usize> {
        if self.fails(DiskOp::Read, self.world.faults.get().read_error_per_million) {
            return Err(eio());
        }
        Ok(self.node.read(position_bytes, buffer))
    }

    /// Writes now. On EIO and ENOSPC a part may be written.
    fn write(&self, bytes: &[u8], position_bytes: u64) -> io::Result<()> {
        if !self.core.is_alive() {
            return Err(io::Error::from_raw_os_error(libc::ESHUTDOWN));
        }
        self.write_alive(bytes, position_bytes)
    }

    fn write_alive(&self, bytes: &[u8], position_bytes: u64) -> io::Result<()> {
        let world = &self.world;
        world.trace("write", position_bytes, checksum(bytes));
        self.node.modified_ms.set(self.io.wall_ms());
        let end = position_bytes.saturating_add(bytes.len() as u64);
        if end > FILE_BYTES_MAX {
            return Err(ErrorKind::FileTooLarge.into());
        }
        let mut count = bytes.len();
        let mut result = Ok(());
        if self.fails(DiskOp::Write, world.faults.get().write_error_per_million) {
            count = world.random.index(bytes.len() + 1);
            result = Err(eio());
        }
        let growth = end.saturating_sub(self.node.len_bytes().max(position_bytes));
        let free = self.core.machine().disk().free_bytes_for(&self.path);
        if growth > free {
            count = count.min(bytes.len() - (growth - free) as usize);
            result = Err(ErrorKind::StorageFull.into());
        }
        if count > 0 {
            let change = FileChange::Write { position_bytes, bytes: bytes[..count].to_vec() };
            self.node.change(world.next_sequence(), change);
        }
        result
    }

    /// Writes the next piece of a large write after a while, and then the rest.
    fn write_piece(
        self: Rc<Self>,
        buffer: Buffer,
        written: usize,
        position_bytes: u64,
        done: Rc<Completion<(io::Result<()>, Buffer)>>,
    ) {
        let world = self.world.clone();
        let delay_ns = world.draw_delay(world.delays.write_ns);
        let core = self.core.clone();
        world.schedule(Some(&core), delay_ns, "write_piece", move |_| {
            let end = buffer.len().min(written + WRITE_PIECE_BYTES);
            let result = self.write_alive(&buffer[written..end], position_bytes + written as u64);
            if result.is_err() || end == buffer.len() {
                done.complete((result, buffer));
            } else {
                self.write_piece(buffer, end, position_bytes, done);
            }
        });
    }
}

/// A checksum for the trace.
pub(in crate::ring::sim) fn checksum(bytes: &[u8]) -> u64 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes)
}

/// Writes up to here are done at the first poll, in the order of the calls.
pub(in crate::ring::sim) const SMALL_WRITE_BYTES_MAX: usize = 64 * 1024;
const WRITE_PIECE_BYTES: usize = 256 * 1024;
/// Files live in memory: a length beyond this is a mistake of the caller.
const FILE_BYTES_MAX: u64 = 4 << 30;
const DIRTY_BYTES_MAX: u64 = 64 << 20;
const DIRTY_COUNT_MAX: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::Poll;

    use crate::ring::io::{File, OpenHow};
    use crate::ring::sim::machine::Machine;
    use crate::ring::sim::options::{Crash, Faults, SimOptions};
    use crate::ring::sim::world::Sim;

    const SECOND_NS: u64 = 1_000_000_000;

    /// Runs `body` with a new, durable, empty file "/log".
    fn with_file<F>(seed: u64, body: impl FnOnce(Io, File, Machine) -> F + 'static) -> (Sim, Machine)
    where
        F: Future<Output = ()> + 'static,
    {
        let sim = Sim::new(SimOptions::calm(seed));
        let machine = sim.machine();
        let io = machine.core(0);
        let (task, its_machine) = (io.clone(), machine.clone());
        let ran = sim.run(&io, 100 * SECOND_NS, async move {
            let file = task.open(Path::new("/log"), OpenHow::CreateNew).await.expect("opens");
            task.sync_dir(Path::new("/")).await.expect("syncs");
            body(task, file, its_machine).await;
        });
        ran.unwrap_or_else(|error| panic!("seed {seed}: {error}\n{}", sim.trace_tail()));
        (sim, machine)
    }

    async fn write(file: &File, position_bytes: u64, bytes: Vec<u8>) -> io::Result<()> {
        file.write_at(Buffer::from_vec(bytes), position_bytes).await.0
    }

    /// Polls once, then drops: a wait that is cancelled. True where it was over at once.
    async fn poll_once(future: impl Future) -> bool {
        let mut future = pin!(future);
        poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_ready())).await
    }

    #[test]
    fn a_small_write_is_done_at_its_first_poll() {
        with_file(1, async |_, file, machine| {
            for (index, byte) in [1, 2, 3].into_iter().enumerate() {
                assert!(poll_once(file.write_at(Buffer::from_vec(vec![byte; 10]), index as u64 * 5)).await);
            }
            let wanted = [[1; 5], [2; 5], [3; 5], [3; 5]].concat();
            assert_eq!(machine.peek("/log"), Some(wanted));
        });
    }

    #[test]
    fn reads_stop_at_the_end_of_the_file() {
        for seed in 0..20 {
            with_file(seed, async |_, file, _| {
                write(&file, 0, vec![1; 100]).await.expect("writes");
                for (position_bytes, wanted) in [(0, 64), (90, 10), (100, 0), (u64::MAX, 0)] {
                    let (read, buffer) = file.read_at(Buffer::zeroed(64), position_bytes).await;
                    assert_eq!(read.expect("reads"), wanted);
                    assert_eq!(buffer.len(), 64);
                }
            });
        }
    }

    #[test]
    fn what_was_begun_happens_though_nobody_waits() {
        for seed in 0..50 {
            let (sim, machine) = with_file(seed, async |io, file, _| {
                let path = Path::new;
                assert!(!poll_once(file.write_at(Buffer::from_vec(vec![1; 700_000]), 0)).await);
                assert!(!poll_once(io.create_dir(path("/made"))).await);
                assert!(!poll_once(io.open(path("/created"), OpenHow::CreateNew)).await);
                poll_once(file.read_at(Buffer::zeroed(64), 0)).await;
                let renamed = io.open(path("/from"), OpenHow::CreateNew).await.expect("opens");
                write(&renamed, 0, vec![2; 10]).await.expect("writes");
                assert!(!poll_once(renamed.set_len(5)).await);
                drop(renamed);
                assert!(!poll_once(io.rename(path("/from"), path("/to"))).await);
                assert!(!poll_once(file.len()).await);
                assert!(!poll_once(io.read_dir(path("/"))).await);
            });
            sim.run_for(SECOND_NS);
            assert_eq!(machine.peek("/log"), Some(vec![1; 700_000]), "seed {seed}");
            assert_eq!(machine.peek("/created"), Some(Vec::new()), "seed {seed}");
            assert_eq!(machine.peek("/to"), Some(vec![2; 5]), "seed {seed}");
            let io = machine.core(1);
            let task = io.clone();
            let ran = sim.run(&io, SECOND_NS, async move {
                assert!(task.read_dir(Path::new("/made")).await.is_ok());
                let file = task.open(Path::new("/log"), OpenHow::ReadWrite).await.expect("opens");
                assert!(!poll_once(file.sync_data()).await);
                assert!(!poll_once(task.sync_dir(Path::new("/"))).await);
                assert!(!poll_once(task.remove_file(Path::new("/to"))).await);
                assert!(!poll_once(task.remove_dir(Path::new("/made"))).await);
            });
            ran.expect("ends");
            sim.run_for(SECOND_NS);
            machine.crash(Crash::PowerCut);
            assert_eq!(machine.peek("/log"), Some(vec![1; 700_000]), "seed {seed}: the dropped sync was carried out");
        }
    }

    #[test]
    fn a_sync_covers_what_was_written_before_it_began() {
        let mut lost_count = 0;
        for seed in 0..200 {
            let (_sim, machine) = with_file(seed, async |io, file, _| {
                write(&file, 0, vec![1; 512]).await.expect("writes");
                let (task, other) = (io.clone(), file.clone());
                io.spawn(async move {
                    task.yield_now().await;
                    write(&other, 512, vec![2; 512]).await.expect("writes");
                });
                file.sync_data().await.expect("syncs");
            });
            machine.crash(Crash::PowerCut);
            let log = machine.peek("/log").unwrap_or_default();
            assert_eq!(log[..512], [1; 512], "seed {seed}");
            lost_count += usize::from(log.len() < 1024);
        }
        assert!((20..180).contains(&lost_count), "{lost_count}");
    }

    #[test]
    fn a_failed_sync_is_followed_by_one_that_succeeds_and_data_that_is_gone() {
        let mut lost_count = 0;
        for seed in 0..200 {
            let (_sim, machine) = with_file(seed, async |_, file, machine| {
                machine.fail_nth(DiskOp::Sync, "log", 1);
                write(&file, 0, vec![1; 512]).await.expect("writes");
                let error = file.sync_data().await.expect_err("fails");
                assert_eq!(error.raw_os_error(), Some(libc::EIO));
                assert_eq!(machine.peek("/log"), Some(vec![1; 512]), "the page cache has it still");
                file.sync_data().await.expect("nothing is dirty");
            });
            machine.crash(Crash::PowerCut);
            lost_count += usize::from(machine.peek("/log") != Some(vec![1; 512]));
        }
        assert!((20..180).contains(&lost_count), "{lost_count}");
    }

    #[test]
    fn a_full_disk_takes_a_part_and_goes_on_when_there_is_space() {
        let (_sim, machine) = with_file(1, async |_, file, machine| {
            machine.set_disk_bytes_max(Some(1000));
            write(&file, 0, vec![1; 600]).await.expect("fits");
            let error = write(&file, 600, vec![2; 600]).await.expect_err("does not fit");
            assert_eq!(error.kind(), ErrorKind::StorageFull);
            assert_eq!(file.len().await.expect("says"), 1000);
            write(&file, 0, vec![3; 600]).await.expect("needs no space");
            file.set_len(600).await.expect("cuts");
            write(&file, 600, vec![4; 400]).await.expect("fits");
            assert!(write(&file, 1000, vec![5; 100_000]).await.is_err());
            machine.set_disk_bytes_max(None);
            write(&file, 1000, vec![5; 100_000]).await.expect("fits");
        });
        assert_eq!(machine.disk_bytes(), 101_000);
    }

    #[test]
    fn errors_come_as_often_as_asked() {
        let (sim, machine) = with_file(1, async |_, file, _| write(&file, 0, vec![1; 100]).await.expect("writes"));
        sim.set_faults(Faults {
            read_error_per_million: 100_000,
            write_error_per_million: 100_000,
            sync_error_per_million: 100_000,
            metadata_error_per_million: 100_000,
            ..Faults::default()
        });
        let io = machine.core(1);
        let task = io.clone();
        let counts = sim.run(&io, 100 * SECOND_NS, async move {
            let file = loop {
                if let Ok(file) = task.open(Path::new("/log"), OpenHow::ReadWrite).await {
                    break file;
                }
            };
            let mut counts = [0; 4];
            for _ in 0..1000 {
                counts[0] += usize::from(file.read_at(Buffer::zeroed(64), 0).await.0.is_err());
                counts[1] += usize::from(write(&file, 0, vec![2; 64]).await.is_err());
                counts[2] += usize::from(file.sync_data().await.is_err());
                counts[3] += usize::from(file.len().await.is_err());
            }
            counts
        });
        let counts = counts.expect("ends");
        assert!(counts.iter().all(|count| (50..200).contains(count)), "{counts:?}");
    }
}
