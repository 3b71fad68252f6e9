//! A simulated machine: a disk, cores that come and go, and clocks.

use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;

use crate::ring::io::{Driver, Io};
use crate::ring::sim::core::{CoreState, SimCore};
use crate::ring::sim::disk::Disk;
use crate::ring::sim::events::{BootedCore, World};
use crate::ring::sim::options::{Crash, DiskOp};

/// A machine of a world, which runs one process with any number of cores. Cheap to clone.
#[derive(Clone)]
pub struct Machine {
    world: Rc<World>,
    state: Rc<MachineState>,
}

impl Machine {
    pub(in crate::ring::sim) fn new(world: Rc<World>, state: Rc<MachineState>) -> Self {
        Self { world, state }
    }

    /// Boots core `index` of this machine: from now on it polls the tasks spawned on its `Io`.
    ///
    /// # Panics
    /// Where that core runs already.
    pub fn core(&self, index: usize) -> Io {
        let running = self.world.find_core(self.state.number, index);
        assert!(running.is_none(), "core {index} of machine {} runs already", self.state.number);
        let number = self.world.next_sequence();
        let core = Rc::new(CoreState::new(number, index, self.state.clone(), self.world.random.fork()));
        let io = Io::new(index, POOL_BYTES_MAX, Driver::Sim(SimCore::new(self.world.clone(), core.clone())));
        self.world.add_core(BootedCore { state: core, io: io.clone() });
        io
    }

    /// Ends all cores of this machine: their tasks are dropped, operations in flight happen or not, connections end as
    /// the others see it, and after [`Crash::PowerCut`] the disk is one that a power cut can leave.
    pub fn crash(&self, how: Crash) {
        self.world.trace("crash", self.state.number as u64, how as u64);
        let cores = self.world.take_cores(self.state.number);
        // A process that ends by itself waits for what it has begun, and for what that begins.
        while how == Crash::Stop && self.world.settle_events(&cores, true) {}
        for core in &cores {
            core.state.end();
        }
        self.world.settle_events(&cores, false);
        self.world.net.end_cores(&self.world, &cores, how);
        for core in &cores {
            core.clear();
        }
        if how == Crash::PowerCut {
            self.state.disk.cut_power(&self.world.random);
        }
    }

    /// Stops polling the tasks of core `index` (SIGSTOP, a hung thread) until [`Machine::resume`]; the kernel's part of
    /// it goes on.
    pub fn pause(&self, index: usize) {
        self.set_paused(index, true);
    }

    /// Goes on with a paused core.
    pub fn resume(&self, index: usize) {
        self.set_paused(index, false);
    }

    fn set_paused(&self, index: usize, paused: bool) {
        if let Some((core, _)) = self.world.find_core(self.state.number, index) {
            core.set_paused(paused);
        }
    }

    /// Bounds the bytes of all files; what would go over fails with ENOSPC. `None`: no bound.
    pub fn set_disk_bytes_max(&self, bytes_max: Option<u64>) {
        self.state.disk.set_bytes_max(bytes_max);
    }

    /// From now on files whose path contains `path_part` do not grow: ENOSPC. `None`: all do again.
    pub fn deny_space(&self, path_part: Option<&str>) {
        self.state.disk.deny_space(path_part);
    }

    /// Bytes of all files.
    pub fn disk_bytes(&self) -> u64 {
        self.state.disk.used_bytes()
    }

    /// Has the `nth` (from 1) operation `op` from now, on a path that contains `path_part`, fail with EIO.
    pub fn fail_nth(&self, op: DiskOp, path_part: &str, nth: u32) {
        self.state.disk.fail_nth(op, path_part, nth);
    }

    /// Has each sync from now, on a path that contains `path_part`, take `more_ns` longer.
    pub fn slow_syncs(&self, path_part: &str, more_ns: u64) {
        self.state.disk.slow_syncs(path_part, more_ns);
    }

    /// The bytes of a file as a reader sees them now, without a core; `None` where it is not there.
    pub fn peek(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        self.state.disk.peek(path.as_ref())
    }

    /// Changes a file behind everyone's back, durably: damage to be found. False where it is not there.
    pub fn damage(&self, path: impl AsRef<Path>, change: impl FnOnce(&mut Vec<u8>)) -> bool {
        self.state.disk.damage(path.as_ref(), change)
    }
}

pub(in crate::ring::sim) struct MachineState {
    number: usize,
    disk: Disk,
    clock_offset_ns: u64,
    wall_offset_ms: Cell<i64>,
    wall_jump_ns: Cell<u64>,
}

impl MachineState {
    pub(in crate::ring::sim) fn new(number: usize, world: &Rc<World>) -> Self {
        Self {
            number,
            disk: Disk::new(world),
            clock_offset_ns: world.random.between(1, 1_000_000_000_000),
            wall_offset_ms: Cell::new(0),
            wall_jump_ns: Cell::new(0),
        }
    }

    pub(in crate::ring::sim) fn number(&self) -> usize {
        self.number
    }

    pub(in crate::ring::sim) fn disk(&self) -> &Disk {
        &self.disk
    }

    pub(in crate::ring::sim) fn clock_offset_ns(&self) -> u64 {
        self.clock_offset_ns
    }

    pub(in crate::ring::sim) fn wall_ms(&self, world: &World) -> i64 {
        let jump_ms_max = world.faults.get().wall_jump_ms_max;
        if jump_ms_max == 0 {
            self.wall_offset_ms.set(0);
        } else if world.now_ns() >= self.wall_jump_ns.get() {
            let bound_ms = jump_ms_max.min(i64::MAX as u64 / 4);
            self.wall_offset_ms.set(world.random.between(0, 2 * bound_ms) as i64 - bound_ms as i64);
            self.wall_jump_ns.set(world.now_ns() + world.random.between(1, WALL_JUMP_EVERY_NS_MAX));
        }
        WALL_START_MS + (world.now_ns() / 1_000_000) as i64 + self.wall_offset_ms.get()
    }
}

const POOL_BYTES_MAX: usize = 8 << 20;
/// 2027-01-01: the world begins.
const WALL_START_MS: i64 = 1_798_761_600_000;
const WALL_JUMP_EVERY_NS_MAX: u64 = 2_000_000_000;
