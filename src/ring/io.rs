//! All that a core may ask of the world: `Io`, with its files and sockets.
//!
//! `Io` is the one seam: the real ring, or the simulator in tests. There are two kinds of calls. `async` ones (files)
//! own what they need until the completion: dropping such a future cancels the wait, never the safety. `poll_` ones
//! (sockets) return [`Poll::Pending`] after noting the task that is being polled; it is polled again when the answer may
//! have changed. Neither looks at a waker.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::task::Poll;

use crate::ring::buffer::{Buffer, BufferPool};
use crate::ring::file::UringFile;
use crate::ring::file_system::FileSystem;
use crate::ring::send_queue::SendQueue;
use crate::ring::shared_file::SharedKind;
#[cfg(any(test, feature = "sim"))]
use crate::ring::sim::core::SimCore;
#[cfg(any(test, feature = "sim"))]
use crate::ring::sim::file::SimFile;
#[cfg(any(test, feature = "sim"))]
use crate::ring::sim::net::SimListener;
#[cfg(any(test, feature = "sim"))]
use crate::ring::sim::stream::SimStream;
use crate::ring::socket::{UringListener, UringStream};
use crate::ring::task::{Executor, TaskId, WaitList};
use crate::ring::timer::{Nanos, Timers};
use crate::ring::turn::TurnStats;
use crate::ring::uring::Uring;

/// One core's view of the world. Cheap to clone; never leaves its thread.
#[derive(Clone)]
pub struct Io {
    core: Rc<Core>,
}

struct Core {
    index: usize,
    executor: Executor,
    timers: Timers,
    pool: Rc<BufferPool>,
    driver: Driver,
}

pub(in crate::ring) enum Driver {
    Uring(Uring),
    #[cfg(any(test, feature = "sim"))]
    Sim(SimCore),
}

/// Hands a call to the driver in force: one arm in a release.
macro_rules! drive {
    ($on:expr, $kind:ident, $inner:ident => $call:expr) => {
        match $on {
            $kind::Uring($inner) => $call,
            #[cfg(any(test, feature = "sim"))]
            $kind::Sim($inner) => $call,
        }
    };
}

impl Io {
    pub(in crate::ring) fn new(index: usize, pool_bytes_max: usize, driver: Driver) -> Self {
        let core = Core {
            index,
            executor: Executor::new(),
            timers: Timers::default(),
            pool: BufferPool::new(pool_bytes_max),
            driver,
        };
        Self { core: Rc::new(core) }
    }

    pub(in crate::ring) fn timers(&self) -> &Timers {
        &self.core.timers
    }

    /// Index of this core, from 0.
    pub fn core_index(&self) -> usize {
        self.core.index
    }

    /// The tasks of this core.
    pub fn executor(&self) -> &Executor {
        &self.core.executor
    }

    /// The monotonic clock, read now.
    pub fn now(&self) -> Nanos {
        drive!(&self.core.driver, Driver, driver => driver.now())
    }

    /// The wall clock: milliseconds since 1970, as in Kafka's timestamps.
    pub fn wall_ms(&self) -> i64 {
        drive!(&self.core.driver, Driver, driver => driver.wall_ms())
    }

    /// 64 random bits, for ids, hash seeds and jitter. The simulator's come from its seed.
    pub fn random_u64(&self) -> u64 {
        drive!(&self.core.driver, Driver, driver => driver.random_u64())
    }

    /// Starts a task on this core.
    pub fn spawn(&self, future: impl Future<Output = ()> + 'static) -> TaskId {
        self.core.executor.spawn(future)
    }

    /// The task being polled now.
    pub fn current_task(&self) -> TaskId {
        self.core.executor.current()
    }

    /// Has `task` polled in this turn or the next.
    pub fn wake(&self, task: TaskId) {
        self.core.executor.wake(task);
    }

    /// Wakes all that wait on `list`.
    pub fn wake_all(&self, list: &WaitList) {
        list.wake_all(&self.core.executor);
    }

    /// Waits until the clock has reached `deadline`.
    pub async fn sleep_until(&self, deadline: Nanos) {
        let mut timer = TimerGuard { io: self, timer: None };
        poll_fn(|_| {
            if self.now() >= deadline {
                return Poll::Ready(());
            }
            if timer.timer.is_none() {
                timer.timer = Some(self.core.timers.set(deadline, self.current_task()));
            }
            Poll::Pending
        })
        .await;
    }

    /// Waits `ms` milliseconds.
    pub async fn sleep_ms(&self, ms: u64) {
        self.sleep_until(self.now().plus_ms(ms)).await;
    }

    /// Lets the other ready tasks and the completions go first: the place to cut long work into slices.
    pub async fn yield_now(&self) {
        let mut yielded = false;
        poll_fn(|_| {
            if std::mem::replace(&mut yielded, true) {
                return Poll::Ready(());
            }
            self.wake(self.current_task());
            Poll::Pending
        })
        .await;
    }

    /// Sets a deadline for the current task and returns at once; the guard takes it back when dropped.
    pub fn wake_at(&self, deadline: Nanos) -> WakeAt {
        WakeAt { io: self.clone(), timer: Some(self.core.timers.set(deadline, self.current_task())) }
    }

    /// Memory of exactly `len` bytes from this core's pool; its contents are arbitrary.
    pub fn buffer(&self, len: usize) -> Buffer {
        self.core.pool.take(len)
    }

    /// Opens a file. Through the ring: the core does not wait.
    ///
    /// # Errors
    /// As open(2). A dropped future closes the file if it was opened meanwhile.
    pub async fn open(&self, path: &Path, how: OpenHow) -> io::Result<File> {
        match &self.core.driver {
            Driver::Uring(driver) => driver.open(self, path, how).await.map(File::Uring),
            #[cfg(any(test, feature = "sim"))]
            Driver::Sim(driver) => driver.open(self, path, how).await.map(File::Sim),
        }
    }

    pub(in crate::ring) fn adopt(&self, shared: SharedKind) -> File {
        match (&self.core.driver, shared) {
            (Driver::Uring(driver), SharedKind::Uring(fd)) => File::Uring(driver.adopt_file(self, fd)),
            #[cfg(any(test, feature = "sim"))]
            (Driver::Sim(driver), SharedKind::Sim(file)) => File::Sim(driver.adopt_file(self, &file.take())),
            #[cfg(any(test, feature = "sim"))]
            _ => unreachable!("one process has one kind of ring"),
        }
    }

    /// Makes a directory (its parent exists). An existing one is `AlreadyExists`.
    ///
    /// # Errors
    /// As mkdir(2).
    pub async fn create_dir(&self, path: &Path) -> io::Result<()> {
        drive!(&self.core.driver, Driver, driver => driver.create_dir(self, path).await)
    }

    /// Renames a file or a directory, replacing a file at `to`. Durable after [`Io::sync_dir`] of the folders.
    ///
    /// # Errors
    /// As renameat2(2).
    pub async fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        drive!(&self.core.driver, Driver, driver => driver.rename(self, from, to).await)
    }

    /// Removes a file.
    ///
    /// # Errors
    /// As unlink(2).
    pub async fn remove_file(&self, path: &Path) -> io::Result<()> {
        drive!(&self.core.driver, Driver, driver => driver.remove_file(self, path).await)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// As rmdir(2).
    pub async fn remove_dir(&self, path: &Path) -> io::Result<()> {
        drive!(&self.core.driver, Driver, driver => driver.remove_dir(self, path).await)
    }

    /// Makes the entries of a directory durable (fsync of the directory).
    ///
    /// # Errors
    /// As fsync(2).
    pub async fn sync_dir(&self, path: &Path) -> io::Result<()> {
        drive!(&self.core.driver, Driver, driver => driver.sync_dir(self, path).await)
    }

    /// The entries of a directory, in order of name, without `.` and `..`.
    ///
    /// The ring has no such operation: the real driver asks a helper thread of its core and waits for its word, so the
    /// core itself does not block.
    ///
    /// # Errors
    /// As readdir(3).
    pub async fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        drive!(&self.core.driver, Driver, driver => driver.read_dir(self, path).await)
    }

    /// The size of the disk that holds `path`, and what is free of it. By a helper thread, as [`Io::read_dir`].
    ///
    /// # Errors
    /// As statvfs(3).
    pub async fn disk_space(&self, path: &Path) -> io::Result<DiskSpace> {
        drive!(&self.core.driver, Driver, driver => driver.disk_space(self, path).await)
    }

    /// The file system that holds the folder at `path`, where a sync of all of it is as good as one of each file; `None`
    /// elsewhere. By a helper thread, as [`Io::read_dir`].
    ///
    /// # Errors
    /// As open(2).
    pub async fn file_system(&self, path: &Path) -> io::Result<Option<FileSystem>> {
        drive!(&self.core.driver, Driver, driver => driver.file_system(self, path).await)
    }

    /// Listens on `address`. Blocks for the length of a few system calls; for boot, before `ready`.
    ///
    /// # Errors
    /// As bind(2) and listen(2).
    pub fn listen(&self, address: SocketAddr) -> io::Result<Listener> {
        match &self.core.driver {
            Driver::Uring(driver) => driver.listen(self, address).map(Listener::Uring),
            #[cfg(any(test, feature = "sim"))]
            Driver::Sim(driver) => driver.listen(self, address).map(Listener::Sim),
        }
    }

    /// Takes over a socket that listens already: all ports are bound before any core starts.
    ///
    /// # Errors
    /// Where the socket cannot be made non-blocking.
    #[allow(clippy::disallowed_types)]
    pub fn adopt_listener(&self, listener: std::net::TcpListener) -> io::Result<Listener> {
        match &self.core.driver {
            Driver::Uring(driver) => driver.adopt_listener(self, listener).map(Listener::Uring),
            #[cfg(any(test, feature = "sim"))]
            Driver::Sim(_) => Err(io::Error::from(io::ErrorKind::Unsupported)),
        }
    }

    /// Connects to `address`.
    ///
    /// # Errors
    /// As connect(2).
    pub async fn connect(&self, address: SocketAddr) -> io::Result<Stream> {
        match &self.core.driver {
            Driver::Uring(driver) => driver.connect(self, address).await.map(Stream::Uring),
            #[cfg(any(test, feature = "sim"))]
            Driver::Sim(driver) => driver.connect(self, address).await.map(Stream::Sim),
        }
    }

    /// Tells core `core` of this process that there is mail: tasks there that wait in [`Io::note_notified`] are polled.
    /// Never blocks; notices sent before the other core looks are one.
    pub fn notify(&self, core: usize) {
        drive!(&self.core.driver, Driver, driver => driver.notify(self, core));
    }

    /// What this core's loop has done so far, for metrics. The simulator has no turns to speak of.
    pub fn turn_stats(&self) -> TurnStats {
        match &self.core.driver {
            Driver::Uring(driver) => driver.ring().stats.borrow().clone(),
            #[cfg(any(test, feature = "sim"))]
            Driver::Sim(_) => TurnStats::default(),
        }
    }

    /// Wakes this core from any thread; `None` in the simulator, which has no other threads.
    pub fn notifier(&self) -> Option<crate::ring::mesh::Notifier> {
        match &self.core.driver {
            Driver::Uring(driver) => Some(driver.ring().seat().notifier()),
            #[cfg(any(test, feature = "sim"))]
            Driver::Sim(_) => None,
        }
    }

    /// Has the current task polled at the next notice from another core (or thread). Always returns at once; look at
    /// the inbox after this call, not before, and no notice is lost.
    pub fn note_notified(&self) {
        drive!(&self.core.driver, Driver, driver => driver.note_notified(self.current_task()));
    }
}

/// How to open a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenHow {
    /// To read; it exists.
    Read,
    /// To read and write; it exists.
    ReadWrite,
    /// To read and write; made where it is missing.
    ReadWriteOrCreate,
    /// To read and write; made anew, `AlreadyExists` where it is there.
    CreateNew,
    /// To read and write; made, or emptied.
    CreateOrTruncate,
}

/// The room of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpace {
    /// All of it.
    pub total_bytes: u64,
    /// What this process may still write.
    pub usable_bytes: u64,
}

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// Its name, without the folder; ill-formed UTF-8 replaced.
    pub name: String,
    /// A directory (else a file or something else).
    pub is_dir: bool,
    /// Length of a file.
    pub len_bytes: u64,
}

/// An open file; closed through the ring when the last clone is dropped. Of one core.
#[derive(Clone)]
pub enum File {
    #[doc(hidden)]
    Uring(UringFile),
    #[doc(hidden)]
    #[cfg(any(test, feature = "sim"))]
    Sim(SimFile),
}

impl File {
    /// Reads at `position_bytes` until the buffer is full or the file ends; says how many bytes were read.
    /// What the page cache has comes without a wait, the rest through the ring.
    pub async fn read_at(&self, buffer: Buffer, position_bytes: u64) -> (io::Result<usize>, Buffer) {
        drive!(self, File, file => file.read_at(buffer, position_bytes).await)
    }

    /// As [`File::read_at`], for what is read once: pages that were not in the page cache before do not stay there.
    pub async fn read_once(&self, buffer: Buffer, position_bytes: u64) -> (io::Result<usize>, Buffer) {
        match self {
            Self::Uring(file) => file.read_once(buffer, position_bytes).await,
            #[cfg(any(test, feature = "sim"))]
            Self::Sim(file) => file.read_at(buffer, position_bytes).await,
        }
    }

    /// Writes the whole buffer at `position_bytes`, and hands it back. On return the bytes are in the page cache and
    /// visible to reads, not durable. Small writes are done before the first await returns, in the order of the calls.
    ///
    /// After an error, any part of the range may have been written. A dropped future may still write.
    pub async fn write_at(&self, buffer: Buffer, position_bytes: u64) -> (io::Result<()>, Buffer) {
        drive!(self, File, file => file.write_at(buffer, position_bytes).await)
    }

    /// Makes all that was written before this call durable, with the length (fdatasync).
    ///
    /// # Errors
    /// After an error nothing is known of what lies on disk: never try again and acknowledge.
    pub async fn sync_data(&self) -> io::Result<()> {
        drive!(self, File, file => file.sync_data().await)
    }

    /// Cuts or extends (with zeros) the file.
    ///
    /// # Errors
    /// As ftruncate(2).
    pub async fn set_len(&self, len_bytes: u64) -> io::Result<()> {
        drive!(self, File, file => file.set_len(len_bytes).await)
    }

    /// Allocates blocks for a range past the file's end; its length stays. [`set_len`](Self::set_len) gives them back.
    ///
    /// # Errors
    /// As fallocate(2): no space, or a file system that cannot. Nothing else depends on it.
    pub async fn allocate(&self, from_bytes: u64, len_bytes: u64) -> io::Result<()> {
        drive!(self, File, file => file.allocate(from_bytes, len_bytes).await)
    }

    /// Length in bytes.
    ///
    /// # Errors
    /// As statx(2).
    pub async fn len(&self) -> io::Result<u64> {
        drive!(self, File, file => file.len().await)
    }

    /// When it was last written: milliseconds since 1970, of the wall clock.
    ///
    /// # Errors
    /// As statx(2).
    pub async fn modified_ms(&self) -> io::Result<i64> {
        drive!(self, File, file => file.modified_ms().await)
    }
}

/// A socket that listens. Of one core.
pub enum Listener {
    #[doc(hidden)]
    Uring(UringListener),
    #[doc(hidden)]
    #[cfg(any(test, feature = "sim"))]
    Sim(SimListener),
}

impl Listener {
    /// The next connection. An error is of that one connection or of a limit (open files): go on after a pause.
    pub fn poll_accept(&self) -> Poll<io::Result<Stream>> {
        match self {
            Self::Uring(listener) => listener.poll_accept().map_ok(Stream::Uring),
            #[cfg(any(test, feature = "sim"))]
            Self::Sim(listener) => listener.poll_accept().map_ok(Stream::Sim),
        }
    }

    /// The address listened on.
    pub fn local_address(&self) -> SocketAddr {
        drive!(self, Listener, listener => listener.local_address())
    }
}

/// A connected socket; closed when dropped. One task reads and writes it.
pub enum Stream {
    #[doc(hidden)]
    Uring(UringStream),
    #[doc(hidden)]
    #[cfg(any(test, feature = "sim"))]
    Sim(SimStream),
}

impl Stream {
    /// The bytes that arrived next, in a buffer of the core's receive ring; an empty buffer is the end of the stream.
    /// While a caller keeps the buffers, others may have to wait: copy what must be kept long.
    pub fn poll_receive(&self) -> Poll<io::Result<Buffer>> {
        drive!(self, Stream, stream => stream.poll_receive())
    }

    /// Fills `buffer[*filled..]` straight from the socket, for frames larger than a receive buffer. Ready when it is
    /// full, or with `UnexpectedEof`. Takes at most the turn's budget at once.
    pub fn poll_receive_into(&self, buffer: &mut Buffer, filled: &mut usize) -> Poll<io::Result<()>> {
        drive!(self, Stream, stream => stream.poll_receive_into(buffer, filled))
    }

    /// Sends from the front of `queue` until it is empty (ready) or the socket or the turn's budget is full (pending).
    /// Bytes are copied by the kernel; file ranges go from the page cache to the socket without a copy. An error ends
    /// the stream; so does dropping it in the middle of a part.
    pub fn poll_send(&self, queue: &mut SendQueue) -> Poll<io::Result<()>> {
        drive!(self, Stream, stream => stream.poll_send(queue))
    }

    /// The other end's address.
    pub fn peer_address(&self) -> SocketAddr {
        drive!(self, Stream, stream => stream.peer_address())
    }
}

/// Takes a deadline of the current task back when dropped.
pub struct WakeAt {
    io: Io,
    timer: Option<crate::ring::timer::TimerId>,
}

impl Drop for WakeAt {
    fn drop(&mut self) {
        if let Some(timer) = self.timer.take() {
            self.io.core.timers.cancel(timer);
        }
    }
}

struct TimerGuard<'a> {
    io: &'a Io,
    timer: Option<crate::ring::timer::TimerId>,
}

impl Drop for TimerGuard<'_> {
    fn drop(&mut self) {
        if let Some(timer) = self.timer.take() {
            self.io.core.timers.cancel(timer);
        }
    }
}

/// Reads a whole file of at most `len_bytes_max` bytes.
///
/// # Errors
/// As open(2) and read(2); a longer file is `FileTooLarge`.
pub async fn read_file(io: &Io, path: &Path, len_bytes_max: u64) -> io::Result<Vec<u8>> {
    let file = io.open(path, OpenHow::Read).await?;
    let len_bytes = file.len().await?;
    if len_bytes > len_bytes_max {
        return Err(io::Error::from(io::ErrorKind::FileTooLarge));
    }
    let (read, buffer) = file.read_at(io.buffer(usize::try_from(len_bytes).unwrap_or(usize::MAX)), 0).await;
    Ok(buffer[..read?].to_vec())
}

/// Puts `bytes` at `path` so that a crash leaves the old or the new file, never a mix; durable on return.
/// Written beside it as `NAME.tmp`, synced, renamed, the folder synced (as Kafka's checkpoints are).
///
/// # Errors
/// As the calls it is made of; the old file is then still there.
pub async fn replace_file(io: &Io, path: &Path, bytes: Vec<u8>) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".tmp");
    let beside: PathBuf = path.with_file_name(name);
    let file = io.open(&beside, OpenHow::CreateOrTruncate).await?;
    file.write_at(Buffer::from_vec(bytes), 0).await.0?;
    file.sync_data().await?;
    drop(file);
    io.rename(&beside, path).await?;
    match path.parent() {
        Some(folder) => io.sync_dir(folder).await,
        None => Ok(()),
    }
}
