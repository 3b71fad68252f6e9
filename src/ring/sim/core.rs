//! The driver behind a simulated core's `Io`.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::ring::file_system::FileSystem;
use crate::ring::io::{DirEntry, DiskSpace, Io, OpenHow};
use crate::ring::sim::disk::Disk;
use crate::ring::sim::events::World;
use crate::ring::sim::file::SimFile;
use crate::ring::sim::machine::MachineState;
use crate::ring::sim::net::SimListener;
use crate::ring::sim::operation::Completion;
use crate::ring::sim::options::DiskOp;
use crate::ring::sim::random::Random;
use crate::ring::sim::stream::SimStream;
use crate::ring::task::{TaskId, WaitList};
use crate::ring::timer::Nanos;

/// What the world knows of one core, from its boot to its end.
pub(in crate::ring) struct CoreState {
    /// Counts the boots of the world: a core that boots again is another one.
    number: u64,
    index: usize,
    machine: Rc<MachineState>,
    alive: Cell<bool>,
    paused: Cell<bool>,
    stalled_until_ns: Cell<u64>,
    notified: WaitList,
    random: Random,
}

impl CoreState {
    pub(in crate::ring::sim) fn new(number: u64, index: usize, machine: Rc<MachineState>, random: Random) -> Self {
        Self {
            number,
            index,
            machine,
            alive: Cell::new(true),
            paused: Cell::new(false),
            stalled_until_ns: Cell::new(0),
            notified: WaitList::default(),
            random,
        }
    }

    pub(in crate::ring::sim) fn number(&self) -> u64 {
        self.number
    }

    pub(in crate::ring::sim) fn index(&self) -> usize {
        self.index
    }

    pub(in crate::ring::sim) fn machine(&self) -> &Rc<MachineState> {
        &self.machine
    }

    pub(in crate::ring::sim) fn is_alive(&self) -> bool {
        self.alive.get()
    }

    /// From here on its operations fail or come to nothing.
    pub(in crate::ring::sim) fn end(&self) {
        self.alive.set(false);
    }

    pub(in crate::ring::sim) fn set_paused(&self, paused: bool) {
        self.paused.set(paused);
    }

    pub(in crate::ring::sim) fn stall_until(&self, until_ns: u64) {
        self.stalled_until_ns.set(until_ns);
    }

    /// Its monotonic clock, when the world's time is `now_ns`.
    pub(in crate::ring::sim) fn now(&self, now_ns: u64) -> Nanos {
        Nanos(now_ns + self.machine.clock_offset_ns())
    }

    /// The moment from which it has something to poll: now or later; `None` where only an event can change that.
    pub(in crate::ring::sim) fn ready_from_ns(&self, io: &Io, now_ns: u64) -> Option<u64> {
        if self.paused.get() {
            return None;
        }
        let ready_ns = if io.executor().ready_count() > 0 {
            now_ns
        } else {
            io.timers().next_deadline()?.0.saturating_sub(self.machine.clock_offset_ns())
        };
        Some(ready_ns.max(now_ns).max(self.stalled_until_ns.get()))
    }

    fn ended() -> io::Error {
        io::Error::from_raw_os_error(libc::ESHUTDOWN)
    }
}

/// One core's driver.
pub struct SimCore {
    world: Rc<World>,
    core: Rc<CoreState>,
}

impl SimCore {
    pub(in crate::ring::sim) fn new(world: Rc<World>, core: Rc<CoreState>) -> Self {
        Self { world, core }
    }

    pub(in crate::ring) fn now(&self) -> Nanos {
        self.core.now(self.world.now_ns())
    }

    pub(in crate::ring) fn wall_ms(&self) -> i64 {
        self.core.machine.wall_ms(&self.world)
    }

    pub(in crate::ring) fn random_u64(&self) -> u64 {
        self.core.random.next_u64()
    }

    pub(in crate::ring) async fn open(&self, io: &Io, path: &Path, how: OpenHow) -> io::Result<SimFile> {
        let node = self.on_disk(io, "open", path, move |disk, path| disk.open(path, how)).await?;
        let path: Rc<Path> = path.into();
        Ok(SimFile::new(io.clone(), self.world.clone(), self.core.clone(), node, path, how != OpenHow::Read))
    }

    pub(in crate::ring) fn adopt_file(&self, io: &Io, file: &SimFile) -> SimFile {
        file.adopted(io.clone(), self.core.clone())
    }

    pub(in crate::ring) async fn create_dir(&self, io: &Io, path: &Path) -> io::Result<()> {
        self.on_disk(io, "create_dir", path, Disk::create_dir).await
    }

    pub(in crate::ring) async fn rename(&self, io: &Io, from: &Path, to: &Path) -> io::Result<()> {
        let to = to.to_path_buf();
        self.on_disk(io, "rename", from, move |disk, from| disk.rename(from, &to)).await
    }

    pub(in crate::ring) async fn remove_file(&self, io: &Io, path: &Path) -> io::Result<()> {
        self.on_disk(io, "remove_file", path, Disk::remove_file).await
    }

    pub(in crate::ring) async fn remove_dir(&self, io: &Io, path: &Path) -> io::Result<()> {
        self.on_disk(io, "remove_dir", path, Disk::remove_dir).await
    }

    pub(in crate::ring) async fn read_dir(&self, io: &Io, path: &Path) -> io::Result<Vec<DirEntry>> {
        self.on_disk(io, "read_dir", path, Disk::read_dir).await
    }

    pub(in crate::ring) async fn disk_space(&self, io: &Io, path: &Path) -> io::Result<DiskSpace> {
        self.on_disk(io, "disk_space", path, |disk, path| disk.folder(path).map(|_| disk.space())).await
    }

    pub(in crate::ring) async fn file_system(&self, io: &Io, path: &Path) -> io::Result<Option<FileSystem>> {
        let path = path.to_path_buf();
        self.on_disk(io, "file_system", &path, |disk, path| disk.folder(path).map(drop)).await?;
        let (world, core) = (self.world.clone(), self.core.clone());
        let losses_told = Rc::new(Cell::new(self.core.machine.disk().losses()));
        Ok(Some(FileSystem::Sim(SimFileSystem { io: io.clone(), world, core, path, losses_told })))
    }

    pub(in crate::ring) async fn sync_dir(&self, io: &Io, path: &Path) -> io::Result<()> {
        if !self.core.is_alive() {
            return Err(CoreState::ended());
        }
        let folder = self.core.machine.disk().folder(path)?;
        let until = self.world.next_sequence();
        let machine = self.core.machine.clone();
        let completion = Completion::new(io);
        let done = completion.clone();
        let path = path.to_path_buf();
        let delay_ns = machine.disk().draw_sync_ns(&self.world, &path);
        self.world.schedule(Some(&self.core), delay_ns, "sync_dir", move |world| {
            let fails = machine.disk().fails(world, DiskOp::SyncDir, &path, world.faults.get().sync_error_per_million);
            // Where it fails the changes wait on: names are in a file system's journal, which ext4, XFS and btrfs give up
            // at the first error, so that no later sync tells of changes that an earlier one lost, as it does of pages.
            if !fails {
                folder.make_durable(until);
            }
            done.complete(if fails { Err(eio()) } else { Ok(()) });
        });
        completion.wait().await
    }

    pub(in crate::ring) fn listen(&self, io: &Io, address: SocketAddr) -> io::Result<SimListener> {
        if !self.core.is_alive() {
            return Err(CoreState::ended());
        }
        SimListener::bind(&self.world, &self.core, io, address)
    }

    pub(in crate::ring) async fn connect(&self, io: &Io, address: SocketAddr) -> io::Result<SimStream> {
        let completion = Completion::new(io);
        let (done, core, io) = (completion.clone(), self.core.clone(), io.clone());
        let delay_ns = self.world.draw_delay(self.world.delays.network_ns);
        self.world.schedule(Some(&self.core), delay_ns, "connect", move |world| {
            done.complete(world.net.connect(world, &core, &io, address));
        });
        completion.wait().await
    }

    pub(in crate::ring) fn notify(&self, _: &Io, core: usize) {
        let machine = self.core.machine.number();
        let delay_ns = self.world.draw_delay(self.world.delays.notify_ns);
        self.world.schedule(Some(&self.core), delay_ns, "notify", move |world| {
            if let Some((state, io)) = world.find_core(machine, core) {
                io.wake_all(&state.notified);
            }
        });
    }

    pub(in crate::ring) fn note_notified(&self, task: TaskId) {
        self.core.notified.wait(task);
    }

    /// An operation on names: it takes effect when it completes, whoever still waits for it.
    async fn on_disk<T: 'static>(
        &self,
        io: &Io,
        what: &'static str,
        path: &Path,
        effect: impl FnOnce(&Disk, &Path) -> io::Result<T> + 'static,
    ) -> io::Result<T> {
        let completion = Completion::new(io);
        let (done, machine) = (completion.clone(), self.core.machine.clone());
        let path: PathBuf = path.to_path_buf();
        let delay_ns = self.world.draw_delay(self.world.delays.metadata_ns);
        self.world.schedule(Some(&self.core), delay_ns, what, move |world| {
            let disk = machine.disk();
            let fails = disk.fails(world, DiskOp::Metadata, &path, world.faults.get().metadata_error_per_million);
            done.complete(if fails { Err(eio()) } else { effect(disk, &path) });
        });
        completion.wait().await
    }
}

/// The disk of a machine, synced as a whole. What its folders say of names stays as it is: those have syncs of their own.
pub struct SimFileSystem {
    io: Io,
    world: Rc<World>,
    core: Rc<CoreState>,
    path: PathBuf,
    /// How often the disk had lost something when that was told here last.
    losses_told: Rc<Cell<u64>>,
}

impl SimFileSystem {
    pub(in crate::ring) async fn sync(&self) -> io::Result<()> {
        let until = self.world.next_sequence();
        let completion = Completion::new(&self.io);
        let (done, machine, path) = (completion.clone(), self.core.machine.clone(), self.path.clone());
        let losses_told = self.losses_told.clone();
        let delay_ns = machine.disk().draw_sync_ns(&self.world, &path);
        self.world.schedule(Some(&self.core), delay_ns, "sync_file_system", move |world| {
            let disk = machine.disk();
            let fails = disk.fails(world, DiskOp::Sync, &path, world.faults.get().sync_error_per_million);
            disk.sync_files(&world.random, until, fails);
            // Also what another core's sync came upon.
            let fails = losses_told.replace(disk.losses()) < disk.losses() || fails;
            done.complete(if fails { Err(eio()) } else { Ok(()) });
        });
        completion.wait().await
    }
}

/// What a broken disk says.
pub(in crate::ring::sim) fn eio() -> io::Error {
    io::Error::from_raw_os_error(libc::EIO)
}
