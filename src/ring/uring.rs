//! The real ring of one core: submission, completion, and what its files and sockets share.
#![allow(unsafe_code)] // entries with addresses go into the submission queue

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ffi::CString;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;

use io_uring::{EnterFlags, IoUring, opcode, squeue, types};

use crate::ring::core::CoreOptions;
use crate::ring::descriptor::Descriptor;
use crate::ring::file::UringFile;
use crate::ring::file_system::{FileSystem, UringFileSystem};
use crate::ring::helper::Helper;
use crate::ring::io::{DirEntry, DiskSpace, Io, OpenHow};
use crate::ring::mesh::{CoreSeat, Wake};
use crate::ring::operation::{Completion, Key, Operation, Operations, RESERVED_INDEX_MIN};
use crate::ring::pipe::PipePool;
use crate::ring::receive_ring::ReceiveRing;
use crate::ring::request::{Payload, Request};
use crate::ring::ring_mask::RingMask;
use crate::ring::socket::{UringListener, UringStream};
use crate::ring::syscall;
use crate::ring::task::{Executor, TaskId, WaitList};
use crate::ring::timer::Nanos;
use crate::ring::turn::TurnStats;

/// The driver behind [`Io`] on a real machine.
pub(in crate::ring) struct Uring {
    ring: Rc<Ring>,
}

/// One core's io_uring, and what its files and sockets share.
pub(in crate::ring) struct Ring {
    // Dropped first: closing the io_uring ends what is in flight, before any memory below goes.
    uring: RefCell<IoUring>,
    operations: Operations,
    receive_ring: Option<Rc<ReceiveRing>>,
    /// Entries that the submission queue had no room for.
    backlog: RefCell<VecDeque<squeue::Entry>>,
    pub(in crate::ring) pipes: Rc<PipePool>,
    pub(in crate::ring) options: CoreOptions,
    pub(in crate::ring) stats: RefCell<TurnStats>,
    /// Kernel features in use: what it has, less what the options hide.
    features: RingMask,
    seat: CoreSeat,
    noted: WaitList,
    helper: RefCell<Option<Helper>>,
    random_words: RefCell<([u64; 32], usize)>,
    /// Until when small writes go through the ring, after one was slow.
    pub(in crate::ring) writes_throttled_until: Cell<Nanos>,
    /// Until then, slow writes are looked at for whether the thread slept in them.
    pub(in crate::ring) writes_watched_until: Cell<Nanos>,
    reaped: RefCell<Vec<(u64, i32, u32)>>,
}

impl Uring {
    /// Makes the ring on the thread that will run it.
    pub(in crate::ring) fn new(options: CoreOptions, seat: CoreSeat) -> io::Result<Self> {
        Ring::new(options, seat).map(|ring| Self { ring: Rc::new(ring) })
    }

    pub(in crate::ring) fn ring(&self) -> &Rc<Ring> {
        &self.ring
    }

    pub(in crate::ring) fn now(&self) -> Nanos {
        syscall::monotonic()
    }

    pub(in crate::ring) fn wall_ms(&self) -> i64 {
        syscall::wall_ms()
    }

    pub(in crate::ring) fn random_u64(&self) -> u64 {
        let (words, used) = &mut *self.ring.random_words.borrow_mut();
        if *used == words.len() {
            syscall::random(words);
            *used = 0;
        }
        *used += 1;
        // Taken, so that no two callers ever see the same word.
        std::mem::take(&mut words[*used - 1])
    }

    pub(in crate::ring) async fn open(&self, io: &Io, path: &Path, how: OpenHow) -> io::Result<UringFile> {
        let flags = match how {
            OpenHow::Read => libc::O_RDONLY,
            OpenHow::ReadWrite => libc::O_RDWR,
            OpenHow::ReadWriteOrCreate => libc::O_RDWR | libc::O_CREAT,
            OpenHow::CreateNew => libc::O_RDWR | libc::O_CREAT | libc::O_EXCL,
            OpenHow::CreateOrTruncate => libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC,
        };
        let descriptor = self.open_descriptor(io, path, flags).await?;
        Ok(UringFile::new(io.clone(), self.ring.clone(), descriptor))
    }

    pub(in crate::ring) fn adopt_file(&self, io: &Io, fd: OwnedFd) -> UringFile {
        UringFile::new(io.clone(), self.ring.clone(), Descriptor::of_file(fd.into_raw_fd(), &self.ring))
    }

    pub(in crate::ring) async fn file_system(&self, io: &Io, path: &Path) -> io::Result<Option<FileSystem>> {
        Ok(UringFileSystem::open(io, &self.ring, path).await?.map(FileSystem::Uring))
    }

    async fn open_descriptor(&self, io: &Io, path: &Path, flags: i32) -> io::Result<Rc<Descriptor>> {
        let fd = self.ring.call(io, Request::open(c_path(path)?, flags)).await;
        fd.count().map(|fd| Descriptor::of_file(fd as i32, &self.ring))
    }

    pub(in crate::ring) async fn create_dir(&self, io: &Io, path: &Path) -> io::Result<()> {
        self.ring.call(io, Request::make_dir(c_path(path)?)).await.count().map(drop)
    }

    pub(in crate::ring) async fn rename(&self, io: &Io, from: &Path, to: &Path) -> io::Result<()> {
        self.ring.call(io, Request::rename(c_path(from)?, c_path(to)?)).await.count().map(drop)
    }

    pub(in crate::ring) async fn remove_file(&self, io: &Io, path: &Path) -> io::Result<()> {
        self.ring.call(io, Request::unlink(c_path(path)?, false)).await.count().map(drop)
    }

    pub(in crate::ring) async fn remove_dir(&self, io: &Io, path: &Path) -> io::Result<()> {
        self.ring.call(io, Request::unlink(c_path(path)?, true)).await.count().map(drop)
    }

    pub(in crate::ring) async fn sync_dir(&self, io: &Io, path: &Path) -> io::Result<()> {
        let folder = self.open_descriptor(io, path, libc::O_RDONLY | libc::O_DIRECTORY).await?;
        self.ring.call(io, Request::sync(&folder, false)).await.count().map(drop)
    }

    pub(in crate::ring) async fn read_dir(&self, io: &Io, path: &Path) -> io::Result<Vec<DirEntry>> {
        let path = path.to_owned();
        self.ring.help(io, move || crate::ring::helper::read_dir(&path)).await?
    }

    pub(in crate::ring) async fn disk_space(&self, io: &Io, path: &Path) -> io::Result<DiskSpace> {
        let path = path.to_owned();
        self.ring.help(io, move || crate::ring::helper::disk_space(&path)).await?
    }

    #[allow(clippy::disallowed_types)]
    pub(in crate::ring) fn listen(&self, io: &Io, address: SocketAddr) -> io::Result<UringListener> {
        self.adopt_listener(io, std::net::TcpListener::bind(address)?)
    }

    #[allow(clippy::disallowed_types)]
    pub(in crate::ring) fn adopt_listener(
        &self,
        io: &Io,
        listener: std::net::TcpListener,
    ) -> io::Result<UringListener> {
        UringListener::adopt(io.clone(), self.ring.clone(), listener)
    }

    pub(in crate::ring) async fn connect(&self, io: &Io, address: SocketAddr) -> io::Result<UringStream> {
        let socket = Descriptor::of_socket(syscall::socket(&address)?);
        self.ring.call(io, Request::connect(&socket, &address)).await.count()?;
        UringStream::new(io.clone(), self.ring.clone(), socket)
    }

    pub(in crate::ring) fn notify(&self, _io: &Io, core: usize) {
        if let Wake::Ring(fd) = self.ring.seat.leave_notice(core) {
            self.ring.wake_core(core, fd);
        }
    }

    pub(in crate::ring) fn note_notified(&self, task: TaskId) {
        self.ring.noted.wait(task);
    }
}

impl Ring {
    fn new(options: CoreOptions, seat: CoreSeat) -> io::Result<Self> {
        let (uring, mut features) = build(&options)?;
        if let Some(cpu) = options.cpu {
            let submitter = uring.submitter();
            // Workers of this ring stay on its core; few of them, so that a burst of slow calls does not swamp it.
            submitter.register_iowq_aff(&syscall::cpu_set(cpu)?)?;
        }
        let mut worker_counts_max = options.worker_counts_max;
        uring.submitter().register_iowq_max_workers(&mut worker_counts_max)?;
        let mut receive_ring = None;
        if features.contains(RingMask::BUFFER_RING) {
            match ReceiveRing::register(&uring, options.receive_buffer_count, options.receive_buffer_bytes) {
                Ok(ring) => receive_ring = Some(ring),
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                    features = features.without(RingMask::BUFFER_RING);
                }
                Err(error) => return Err(error),
            }
        }
        seat.publish_ring(uring.as_raw_fd());
        Ok(Self {
            uring: RefCell::new(uring),
            operations: Operations::new(options.disk_operations_max, options.sync_operations_max),
            receive_ring,
            backlog: RefCell::new(VecDeque::new()),
            pipes: PipePool::new(options.kept_pipes_max),
            options,
            stats: RefCell::new(TurnStats::default()),
            features,
            seat,
            noted: WaitList::default(),
            helper: RefCell::new(None),
            random_words: RefCell::new(([0; 32], 32)),
            writes_throttled_until: Cell::new(Nanos(0)),
            writes_watched_until: Cell::new(Nanos(0)),
            reaped: RefCell::new(Vec::new()),
        })
    }

    pub(in crate::ring) fn operations(&self) -> &Operations {
        &self.operations
    }

    pub(in crate::ring) fn seat(&self) -> &CoreSeat {
        &self.seat
    }

    pub(in crate::ring) fn has(&self, feature: RingMask) -> bool {
        self.features.contains(feature)
    }

    /// A descriptor of this core's eventfd, closed apart from the mesh's own.
    pub(in crate::ring) fn share_event(&self, fd: i32) -> io::Result<Rc<Descriptor>> {
        syscall::duplicate(fd).map(|fd| Descriptor::of_socket(fd.into_raw_fd()))
    }

    /// The buffers for receiving, where the kernel offers such.
    pub(in crate::ring) fn receive_ring(&self) -> Option<&Rc<ReceiveRing>> {
        self.receive_ring.as_ref()
    }

    /// Starts an operation; its handle is polled by `task`.
    pub(in crate::ring) fn start(self: &Rc<Self>, request: Request, task: TaskId) -> Operation {
        let (key, entry) = self.operations.enter(request, task, false);
        if let Some(entry) = entry {
            self.push(entry);
        }
        Operation::new(self.clone(), key)
    }

    /// Starts an operation whose answer nobody waits for.
    pub(in crate::ring) fn start_unowned(&self, request: Request) {
        let (_, entry) = self.operations.enter(request, TaskId::NONE, true);
        if let Some(entry) = entry {
            self.push(entry);
        }
    }

    /// Starts an operation and waits for its answer.
    pub(in crate::ring) async fn call(self: &Rc<Self>, io: &Io, request: Request) -> Completion {
        let mut operation = self.start(request, io.current_task());
        std::future::poll_fn(|_| operation.poll(io.current_task())).await
    }

    /// Has the helper thread of this core make a call that the ring does not offer.
    pub(in crate::ring) async fn help<T: Send + 'static>(
        &self,
        io: &Io,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        self.ask(&self.helper, "helper", io, job).await
    }

    /// As [`help`](Self::help), by a thread of the caller's, which is started where there is none.
    pub(in crate::ring) async fn ask<T: Send + 'static>(
        &self,
        helper: &RefCell<Option<Helper>>,
        name: &str,
        io: &Io,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        let answer = {
            let mut helper = helper.borrow_mut();
            let helper = match &mut *helper {
                Some(helper) => helper,
                None => helper.insert(Helper::start(name, self.seat.notifier())?),
            };
            helper.ask(job)?
        };
        std::future::poll_fn(|_| {
            io.note_notified();
            answer.poll()
        })
        .await
    }

    /// Asks the kernel to end an operation early; its completion comes in any case.
    pub(in crate::ring) fn cancel(&self, key: Key) {
        self.push(opcode::AsyncCancel::new(key.to_user_data()).build().user_data(IGNORED));
    }

    /// Wakes a core that sleeps.
    fn wake_core(&self, core: usize, ring_fd: i32) {
        if ring_fd < 0 || !self.has(RingMask::MSG_RING) {
            return self.seat.wake_by_event(core);
        }
        let entry = opcode::MsgRingData::new(types::Fd(ring_fd), 0, IGNORED, None)
            .build()
            .flags(squeue::Flags::SKIP_SUCCESS)
            .user_data((core as u64) << 32 | u64::from(MESSAGE_INDEX));
        self.push(entry);
    }

    fn push(&self, entry: squeue::Entry) {
        let mut backlog = self.backlog.borrow_mut();
        if !backlog.is_empty() || !self.try_push(&entry) {
            backlog.push_back(entry);
        }
    }

    fn try_push(&self, entry: &squeue::Entry) -> bool {
        let mut uring = self.uring.borrow_mut();
        // SAFETY: entries are made by `Request` (see its invariant: the table of operations keeps all memory and
        // descriptors until the last completion) or above, without any address.
        if unsafe { uring.submission().push(entry) }.is_ok() {
            return true;
        }
        // Full: hand it over now. Where the kernel cannot take more (EBUSY, EAGAIN), the turn reaps first.
        let _ = uring.submit();
        // SAFETY: as above.
        unsafe { uring.submission().push(entry) }.is_ok()
    }

    /// Moves what waits for room (in the queue, or in a lane) into the submission queue.
    pub(in crate::ring) fn refill(&self) {
        {
            let mut backlog = self.backlog.borrow_mut();
            while let Some(entry) = backlog.front() {
                if !self.try_push(entry) {
                    return;
                }
                backlog.pop_front();
            }
        }
        while let Some(entry) = self.operations.next_to_submit() {
            self.push(entry);
        }
    }

    /// Takes all completions that have come; wakes the tasks that wait for them. Returns how many there were.
    pub(in crate::ring) fn reap(&self, executor: &Executor) -> usize {
        let mut reaped = self.reaped.take();
        reaped.extend(
            self.uring.borrow_mut().completion().map(|entry| (entry.user_data(), entry.result(), entry.flags())),
        );
        let count = reaped.len();
        for (user_data, result, flags) in reaped.drain(..) {
            if user_data as u32 >= RESERVED_INDEX_MIN {
                if user_data as u32 == MESSAGE_INDEX && result < 0 {
                    self.seat.wake_by_event((user_data >> 32) as usize);
                }
                continue;
            }
            let buffer = io_uring::cqueue::buffer_select(flags).map(|number| {
                let ring = self.receive_ring.as_ref().expect("a buffer comes from the receive ring");
                Payload::Buffer(ring.received(number, usize::try_from(result).unwrap_or(0)))
            });
            if let Some(task) = self.operations.complete(user_data, result, flags, buffer) {
                executor.wake(task);
            }
        }
        self.reaped.replace(reaped);
        count
    }

    /// Wakes the tasks that wait for a notice, if one came, and those for which a receive buffer came back.
    pub(in crate::ring) fn wake_waiting(&self, executor: &Executor) {
        if self.seat.take_notice() {
            self.noted.wake_all(executor);
        }
        if let Some(ring) = &self.receive_ring {
            let mut given = 0;
            while let Some(task) = ring.next_waiting(given) {
                executor.wake(task);
                given += 1;
            }
        }
    }

    /// True where the kernel has something for us, or we for it, that needs no sleep.
    pub(in crate::ring) fn has_work(&self) -> bool {
        if !self.backlog.borrow().is_empty() {
            return true;
        }
        let mut uring = self.uring.borrow_mut();
        !uring.completion().is_empty()
    }

    /// True where an enter has something to do: entries to submit, or completions to be run.
    pub(in crate::ring) fn needs_enter(&self) -> bool {
        let mut uring = self.uring.borrow_mut();
        let queue = uring.submission();
        // Without deferred task work (masked, or refused) completions come by themselves.
        !queue.is_empty() || queue.taskrun() || queue.cq_overflow()
    }

    /// Submits, and waits for a completion until `wait` has passed (`None`: for ever).
    pub(in crate::ring) fn enter_and_wait(&self, wait: Option<u64>) -> io::Result<()> {
        let span = wait.map(|ns| types::Timespec::new().sec(ns / 1_000_000_000).nsec((ns % 1_000_000_000) as u32));
        let mut arguments = types::SubmitArgs::new();
        if let Some(span) = &span {
            arguments = arguments.timespec(span);
        }
        let no_iowait = self.has(RingMask::NO_IOWAIT);
        let flags = if no_iowait { EnterFlags::NO_IOWAIT } else { EnterFlags::empty() };
        let entered = self.uring.borrow().submitter().submit_with_args_and_flags(1, &arguments, flags);
        ignore_busy(entered)
    }

    /// Submits, and runs completions, without waiting.
    pub(in crate::ring) fn enter(&self) -> io::Result<()> {
        let entered = self.uring.borrow().submitter().submit();
        ignore_busy(entered)
    }

    /// Asks the kernel to end all that it has.
    pub(in crate::ring) fn cancel_all(&self) {
        for key in self.operations.in_flight() {
            self.cancel(key);
        }
    }

    /// Keeps all memory that the kernel may still use, for ever: the last resort of a core that must end.
    pub(in crate::ring) fn leak(&self) {
        self.operations.leak();
        std::mem::forget(self.receive_ring.clone());
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.seat.publish_ring(-1);
        if self.operations.count() > 0 {
            self.leak();
        }
    }
}

/// A ring with all the setup flags that kernel and mask allow.
pub(in crate::ring) fn build(options: &CoreOptions) -> io::Result<(IoUring, RingMask)> {
    let mut features = RingMask::ALL.without(options.ring_mask);
    loop {
        let mut builder = IoUring::builder();
        builder.setup_submit_all().setup_cqsize(options.completion_entries).setup_clamp();
        if features.contains(RingMask::DEFER_TASKRUN) {
            builder.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag();
        } else {
            builder.setup_coop_taskrun().setup_taskrun_flag();
        }
        if features.contains(RingMask::NO_SQARRAY) {
            builder.setup_no_sqarray();
        }
        match builder.build(options.submission_entries) {
            Ok(uring) => {
                if !uring.params().is_feature_no_iowait() {
                    features = features.without(RingMask::NO_IOWAIT);
                }
                let mut probe = io_uring::Probe::new();
                uring.submitter().register_probe(&mut probe)?;
                for (feature, code) in [
                    (RingMask::FTRUNCATE, opcode::Ftruncate::CODE),
                    (RingMask::SPLICE, opcode::Splice::CODE),
                    (RingMask::MSG_RING, opcode::MsgRingData::CODE),
                ] {
                    if !probe.is_supported(code) {
                        features = features.without(feature);
                    }
                }
                // No such file, or no such call.
                let cachestat = syscall::cached_pages(-1, 0, 1).map_err(|error| error.raw_os_error());
                if cachestat == Err(Some(libc::ENOSYS)) {
                    features = features.without(RingMask::CACHESTAT);
                }
                return Ok((uring, features));
            }
            // An older kernel refuses a flag that it does not know: the youngest goes first.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                let youngest = [RingMask::NO_SQARRAY, RingMask::DEFER_TASKRUN];
                let Some(feature) = youngest.into_iter().find(|feature| features.contains(*feature)) else {
                    return Err(error);
                };
                features = features.without(feature);
            }
            Err(error) => return Err(error),
        }
    }
}

/// A wait that ended by time or a signal is as good as one that ended by a completion; so is a kernel that wants
/// completions reaped before it takes more.
fn ignore_busy(entered: io::Result<usize>) -> io::Result<()> {
    match entered {
        Ok(_) => Ok(()),
        Err(error) => match error.raw_os_error() {
            Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => Ok(()),
            _ => Err(error),
        },
    }
}

fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| io::Error::from(io::ErrorKind::InvalidFilename))
}

/// Completions that say nothing: of cancellations, and messages whose only purpose is to wake.
const IGNORED: u64 = RESERVED_INDEX_MIN as u64;
/// A message to another ring; its generation is the core's index. Completes on this side only where it failed.
const MESSAGE_INDEX: u32 = RESERVED_INDEX_MIN + 1;
