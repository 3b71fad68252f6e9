//! A simulated file: what readers see, what is durable, and what is in between.

use std::cell::RefCell;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::rc::Rc;

use crate::ring::buffer::Buffer;
use crate::ring::io::Io;
use crate::ring::sim::core::{CoreState, eio};
use crate::ring::sim::crash::{FileChange, after_power_cut};
use crate::ring::sim::operation::Completion;
use crate::ring::sim::options::DiskOp;
use crate::ring::sim::random::Random;
use crate::ring::sim::world::World;

/// The bytes behind any number of names and open files.
#[derive(Default)]
pub(in crate::ring::sim) struct FileNode {
    state: RefCell<FileState>,
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

    pub(in crate::ring::sim) fn lose_power(&self, random: &Random) {
        self.cut_power(random, u64::MAX);
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
        let delay_ns = world.draw_delay(world.delays.sync_ns);
        world.schedule(Some(&self.open.core), delay_ns, "sync", move |world| {
            let fails = open.fails(DiskOp::Sync, world.faults.get().sync_error_per_million);
            if fails {
                open.node.forget_changes(&world.random, until);
            } else {
                open.node.state.borrow_mut().make_durable(until);
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

    pub(in crate::ring) async fn len(&self) -> io::Result<u64> {
        self.on_metadata("len", |open| open.node.len_bytes()).await
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
        let free = self.core.machine().disk().free_bytes();
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
