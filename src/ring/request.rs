//! What is asked of the ring, together with all the memory that the kernel uses for it.

use std::ffi::CString;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::rc::Rc;

use io_uring::{opcode, squeue, types};

use crate::ring::buffer::Buffer;
use crate::ring::descriptor::Descriptor;
use crate::ring::pipe::Pipe;
use crate::ring::syscall;

/// An operation to be submitted.
///
/// The invariant on which the ring's `unsafe` rests: every address in `entry` points into `payload` (memory on the heap,
/// which does not move with its owner), every descriptor is held by `descriptors`, and both stay in the ring's table
/// until the last completion. Only this file makes requests.
pub(in crate::ring) struct Request {
    pub(in crate::ring) entry: squeue::Entry,
    pub(in crate::ring) payload: Payload,
    pub(in crate::ring) descriptors: [Option<Rc<Descriptor>>; 2],
    pub(in crate::ring) lane: Lane,
    /// A result is a new descriptor, to be closed where nobody takes it.
    pub(in crate::ring) makes_descriptor: bool,
}

/// Memory that the kernel reads or writes until the completion.
pub(in crate::ring) enum Payload {
    Nothing,
    Buffer(Buffer),
    #[allow(dead_code)] // held, not read
    Path(CString),
    #[allow(dead_code)]
    TwoPaths(CString, CString),
    #[allow(dead_code)]
    Address(Box<libc::sockaddr_storage>),
    Status(Box<libc::statx>),
    Pipe(Pipe),
}

/// What an operation waits for, so that the slow ones do not crowd out the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ring) enum Lane {
    /// Sockets, notices: as many as there are.
    Free,
    /// Disk: so many that submission never waits for a request of the block layer.
    Disk,
    /// Flushes: each holds a worker for long; few, so that lookups find one.
    Sync,
}

impl Request {
    fn new(entry: squeue::Entry, lane: Lane) -> Self {
        Self { entry, payload: Payload::Nothing, descriptors: [None, None], lane, makes_descriptor: false }
    }

    fn on(mut self, descriptor: &Rc<Descriptor>) -> Self {
        self.descriptors[0] = Some(descriptor.clone());
        self
    }

    fn holding(mut self, payload: Payload) -> Self {
        self.payload = payload;
        self
    }

    pub(in crate::ring) fn open(path: CString, flags: i32) -> Self {
        let entry = opcode::OpenAt::new(HERE, path.as_ptr()).flags(flags | libc::O_CLOEXEC).mode(0o644).build();
        let request = Self::new(entry, Lane::Disk).holding(Payload::Path(path));
        Self { makes_descriptor: true, ..request }
    }

    /// Closes a number that nobody else holds.
    pub(in crate::ring) fn close(fd: RawFd) -> Self {
        Self::new(opcode::Close::new(types::Fd(fd)).build(), Lane::Free)
    }

    pub(in crate::ring) fn make_dir(path: CString) -> Self {
        let entry = opcode::MkDirAt::new(HERE, path.as_ptr()).mode(0o755).build();
        Self::new(entry, Lane::Disk).holding(Payload::Path(path))
    }

    pub(in crate::ring) fn rename(from: CString, to: CString) -> Self {
        let entry = opcode::RenameAt::new(HERE, from.as_ptr(), HERE, to.as_ptr()).build();
        Self::new(entry, Lane::Disk).holding(Payload::TwoPaths(from, to))
    }

    pub(in crate::ring) fn unlink(path: CString, is_dir: bool) -> Self {
        let flags = if is_dir { libc::AT_REMOVEDIR } else { 0 };
        let entry = opcode::UnlinkAt::new(HERE, path.as_ptr()).flags(flags).build();
        Self::new(entry, Lane::Disk).holding(Payload::Path(path))
    }

    /// Reads into `buffer[filled..]`.
    pub(in crate::ring) fn read(file: &Rc<Descriptor>, mut buffer: Buffer, filled: usize, position_bytes: u64) -> Self {
        let room = &mut buffer[filled..];
        let len = u32::try_from(room.len().min(TRANSFER_BYTES_MAX)).unwrap_or(u32::MAX);
        let entry = opcode::Read::new(types::Fd(file.fd()), room.as_mut_ptr(), len).offset(position_bytes).build();
        Self::new(entry, Lane::Disk).on(file).holding(Payload::Buffer(buffer))
    }

    /// Writes `buffer[written..]`.
    pub(in crate::ring) fn write(file: &Rc<Descriptor>, buffer: Buffer, written: usize, position_bytes: u64) -> Self {
        let rest = &buffer[written..];
        let len = u32::try_from(rest.len().min(TRANSFER_BYTES_MAX)).unwrap_or(u32::MAX);
        let entry = opcode::Write::new(types::Fd(file.fd()), rest.as_ptr(), len).offset(position_bytes).build();
        Self::new(entry, Lane::Disk).on(file).holding(Payload::Buffer(buffer))
    }

    pub(in crate::ring) fn sync(file: &Rc<Descriptor>, data_only: bool) -> Self {
        let flags = if data_only { types::FsyncFlags::DATASYNC } else { types::FsyncFlags::empty() };
        Self::new(opcode::Fsync::new(types::Fd(file.fd())).flags(flags).build(), Lane::Sync).on(file)
    }

    pub(in crate::ring) fn truncate(file: &Rc<Descriptor>, len_bytes: u64) -> Self {
        Self::new(opcode::Ftruncate::new(types::Fd(file.fd()), len_bytes).build(), Lane::Disk).on(file)
    }

    /// Says what will be, or will not be, wanted of a range of a file (posix_fadvise).
    pub(in crate::ring) fn advise(file: &Rc<Descriptor>, position_bytes: u64, len_bytes: usize, advice: i32) -> Self {
        let len = libc::off_t::try_from(len_bytes).unwrap_or(libc::off_t::MAX);
        let entry = opcode::Fadvise::new(types::Fd(file.fd()), len, advice).offset(position_bytes).build();
        Self::new(entry, Lane::Disk).on(file)
    }

    /// Allocates blocks; the length stays.
    pub(in crate::ring) fn allocate(file: &Rc<Descriptor>, from_bytes: u64, len_bytes: u64) -> Self {
        let entry = opcode::Fallocate::new(types::Fd(file.fd()), len_bytes)
            .offset(from_bytes)
            .mode(libc::FALLOC_FL_KEEP_SIZE)
            .build();
        Self::new(entry, Lane::Disk).on(file)
    }

    /// The length and the times of an open file.
    pub(in crate::ring) fn status(file: &Rc<Descriptor>) -> Self {
        let mut status = Box::new(syscall::empty_status());
        let address: *mut libc::statx = &raw mut *status;
        let entry = opcode::Statx::new(types::Fd(file.fd()), c"".as_ptr(), address.cast())
            .flags(libc::AT_EMPTY_PATH)
            .mask(libc::STATX_SIZE | libc::STATX_MTIME)
            .build();
        Self::new(entry, Lane::Disk).on(file).holding(Payload::Status(status))
    }

    /// Fills an empty pipe from a file.
    pub(in crate::ring) fn fill_pipe(file: &Rc<Descriptor>, pipe: Pipe, position_bytes: u64, count: u32) -> Self {
        let from = i64::try_from(position_bytes).unwrap_or(i64::MAX);
        let entry = opcode::Splice::new(types::Fd(file.fd()), from, types::Fd(pipe.write_fd()), -1, count)
            .flags(libc::SPLICE_F_MOVE)
            .build();
        Self::new(entry, Lane::Disk).on(file).holding(Payload::Pipe(pipe))
    }

    /// The next connection, or (`multishot`) all that come.
    pub(in crate::ring) fn accept(listener: &Rc<Descriptor>, multishot: bool) -> Self {
        let (fd, flags) = (types::Fd(listener.fd()), libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC);
        let entry = if multishot {
            opcode::AcceptMulti::new(fd).flags(flags).build()
        } else {
            opcode::Accept::new(fd, std::ptr::null_mut(), std::ptr::null_mut()).flags(flags).build()
        };
        Self { makes_descriptor: true, ..Self::new(entry, Lane::Free).on(listener) }
    }

    pub(in crate::ring) fn connect(socket: &Rc<Descriptor>, address: &SocketAddr) -> Self {
        let (encoded, len) = syscall::encode_address(address);
        let encoded = Box::new(encoded);
        let entry = opcode::Connect::new(types::Fd(socket.fd()), (&raw const *encoded).cast(), len).build();
        Self::new(entry, Lane::Free).on(socket).holding(Payload::Address(encoded))
    }

    /// Receives into a buffer of the receive ring, which comes with the completion. `poll_first`: nothing is there yet.
    pub(in crate::ring) fn receive(socket: &Rc<Descriptor>, group: u16, poll_first: bool) -> Self {
        const POLL_FIRST: u16 = 1; // IORING_RECVSEND_POLL_FIRST
        let entry = opcode::Recv::new(types::Fd(socket.fd()), std::ptr::null_mut(), 0)
            .buf_group(group)
            .ioprio(if poll_first { POLL_FIRST } else { 0 })
            .build()
            .flags(squeue::Flags::BUFFER_SELECT);
        Self::new(entry, Lane::Free).on(socket)
    }

    /// Waits until the socket can be read (`POLLIN`) or written (`POLLOUT`).
    pub(in crate::ring) fn poll(socket: &Rc<Descriptor>, events: i16) -> Self {
        let events = u32::from(events.cast_unsigned());
        Self::new(opcode::PollAdd::new(types::Fd(socket.fd()), events).build(), Lane::Free).on(socket)
    }

    /// Waits for an eventfd and takes its count (8 bytes).
    pub(in crate::ring) fn read_event(event: &Rc<Descriptor>) -> Self {
        let mut buffer = Buffer::zeroed(8);
        let entry = opcode::Read::new(types::Fd(event.fd()), buffer.as_mut_ptr(), 8).build();
        Self::new(entry, Lane::Free).on(event).holding(Payload::Buffer(buffer))
    }
}

const HERE: types::Fd = types::Fd(libc::AT_FDCWD);
/// Most bytes of one read or write: keeps its length a `u32`, and a short result is asked for again.
const TRANSFER_BYTES_MAX: usize = 1 << 30;
