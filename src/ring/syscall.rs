//! The system calls that a core makes by itself, wrapped.
//!
//! None of them sleeps: sockets are non-blocking, reads say RWF_NOWAIT, and what may wait for a disk (`write_at`) is
//! small and watched by its caller.
#![allow(unsafe_code)] // calls into libc, each with its arguments in view

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

use crate::ring::timer::Nanos;

/// The result of a call, with EINTR left to the caller.
fn check(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Makes a call again as long as a signal interrupts it.
fn uninterrupted(mut call: impl FnMut() -> isize) -> io::Result<usize> {
    loop {
        match check(call()) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is writable for the length of the call.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    assert_eq!(result, 0, "the clock exists");
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// CLOCK_MONOTONIC, the clock that the ring's timeouts run by. The same on all cores.
pub(in crate::ring) fn monotonic() -> Nanos {
    Nanos(clock_ns(libc::CLOCK_MONOTONIC))
}

/// Nanoseconds for which this thread has run.
pub(in crate::ring) fn thread_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Milliseconds since 1970.
pub(in crate::ring) fn wall_ms() -> i64 {
    (clock_ns(libc::CLOCK_REALTIME) / 1_000_000).cast_signed()
}

/// How much the allocator of glibc keeps of what is freed at the end of a heap, and from which size on a buffer is mapped by
/// itself. Other C libraries have no such limits.
pub(in crate::ring) fn set_malloc_limits(kept_bytes: usize, mapped_bytes_min: usize) {
    #[cfg(target_env = "gnu")]
    for (limit, bytes) in [(libc::M_TRIM_THRESHOLD, kept_bytes), (libc::M_MMAP_THRESHOLD, mapped_bytes_min)] {
        // SAFETY: numbers alone; the allocator takes its own lock. What it refuses it leaves as it was.
        unsafe { libc::mallopt(limit, i32::try_from(bytes).unwrap_or(i32::MAX)) };
    }
    #[cfg(not(target_env = "gnu"))]
    let _ = (kept_bytes, mapped_bytes_min);
}

/// Fills `words` with random bits of the kernel.
pub(in crate::ring) fn random(words: &mut [u64; 32]) {
    // SAFETY: the array is writable over its whole length.
    let filled = uninterrupted(|| unsafe { libc::getrandom(words.as_mut_ptr().cast(), size_of::<[u64; 32]>(), 0) });
    // Up to 256 bytes are never cut short.
    assert_eq!(filled.ok(), Some(size_of::<[u64; 32]>()), "the kernel has random bits");
}

/// Lets this thread run on `cpu` only.
pub(in crate::ring) fn pin_to(cpu: usize) -> io::Result<()> {
    let set = cpu_set(cpu)?;
    // SAFETY: `set` is a whole cpu_set_t; pid 0 is this thread.
    check(unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) } as isize)?;
    Ok(())
}

/// A set with one CPU in it.
pub(in crate::ring) fn cpu_set(cpu: usize) -> io::Result<libc::cpu_set_t> {
    if cpu >= libc::CPU_SETSIZE as usize {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    // SAFETY: all zeros is the empty set; `cpu` is within it.
    unsafe {
        let mut set: libc::cpu_set_t = MaybeUninit::zeroed().assume_init();
        libc::CPU_SET(cpu, &mut set);
        Ok(set)
    }
}

/// The CPUs on which this thread may run.
pub(in crate::ring) fn allowed_cpus() -> io::Result<Vec<usize>> {
    // SAFETY: all zeros is the empty set, and the call writes no more than its size.
    let set = unsafe {
        let mut set: libc::cpu_set_t = MaybeUninit::zeroed().assume_init();
        check(libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) as isize)?;
        set
    };
    // SAFETY: each number is below CPU_SETSIZE.
    Ok((0..libc::CPU_SETSIZE as usize).filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &set) }).collect())
}

/// Closes a descriptor that nobody else knows.
pub(in crate::ring) fn close(fd: RawFd) {
    // SAFETY: the caller owns `fd`. An error leaves nothing to do: Linux has released the number in any case.
    unsafe { libc::close(fd) };
}

/// A counter that wakes the ring of a sleeping core.
pub(in crate::ring) fn event_fd() -> io::Result<RawFd> {
    // SAFETY: no memory is passed. Blocking, so that a read through the ring waits instead of failing with EAGAIN.
    check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) } as isize).map(|fd| fd as RawFd)
}

/// Adds 1 to an eventfd.
pub(in crate::ring) fn event_add(fd: RawFd) {
    let one = 1_u64;
    // SAFETY: reads 8 bytes of `one`. The counter would have to reach 2^64 - 2 before this waits.
    let _ = uninterrupted(|| unsafe { libc::write(fd, (&raw const one).cast(), 8) });
}

/// Reads what the page cache holds; `WouldBlock` where the first byte is not there. May be short.
pub(in crate::ring) fn read_cached(fd: RawFd, into: &mut [u8], position_bytes: u64) -> io::Result<usize> {
    let vector = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let position = offset(position_bytes)?;
    // SAFETY: `vector` covers `into`, writable for the length of the call.
    uninterrupted(|| unsafe { libc::preadv2(fd, &raw const vector, 1, position, libc::RWF_NOWAIT) })
}

/// Writes into the page cache; may be short. Waits where the kernel throttles writers.
pub(in crate::ring) fn write_at(fd: RawFd, bytes: &[u8], position_bytes: u64) -> io::Result<usize> {
    let position = offset(position_bytes)?;
    // SAFETY: reads `bytes` only.
    uninterrupted(|| unsafe { libc::pwrite(fd, bytes.as_ptr().cast(), bytes.len(), position) })
}

/// How many pages of a range the page cache holds (cachestat(2), Linux 6.5).
pub(in crate::ring) fn cached_pages(fd: RawFd, position_bytes: u64, len_bytes: u64) -> io::Result<u64> {
    const CACHESTAT: libc::c_long = 451; // the same number on each architecture
    let range = [position_bytes, len_bytes];
    let mut counts = [0_u64; 5];
    // SAFETY: the call reads two words of `range` and writes five words of `counts`.
    let result = unsafe { libc::syscall(CACHESTAT, fd, range.as_ptr(), counts.as_mut_ptr(), 0) };
    check(result as isize)?;
    Ok(counts[0])
}

/// Sends `parts` in one call; `WouldBlock` where the socket is full. May be short.
pub(in crate::ring) fn send(fd: RawFd, parts: &[io::IoSlice<'_>], more_follows: bool) -> io::Result<usize> {
    // SAFETY: all zeros is a message without address and control data.
    let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    // An IoSlice has the layout of an iovec.
    message.msg_iov = parts.as_ptr().cast_mut().cast();
    message.msg_iovlen = parts.len() as _;
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | if more_follows { libc::MSG_MORE } else { 0 };
    // SAFETY: `parts` and what they point to live for the length of the call, which only reads them.
    uninterrupted(|| unsafe { libc::sendmsg(fd, &raw const message, flags) })
}

/// Receives what is there; 0 at the end of the stream, `WouldBlock` where there is nothing.
pub(in crate::ring) fn receive(fd: RawFd, into: &mut [u8]) -> io::Result<usize> {
    // SAFETY: writes `into` only.
    uninterrupted(|| unsafe { libc::recv(fd, into.as_mut_ptr().cast(), into.len(), libc::MSG_DONTWAIT) })
}

/// Sends a range of a file; 0 where the file ends before it. May be short.
pub(in crate::ring) fn send_file(socket: RawFd, file: RawFd, position_bytes: u64, count: usize) -> io::Result<usize> {
    let mut position = offset(position_bytes)?;
    // SAFETY: reads and writes `position` only.
    uninterrupted(|| unsafe { libc::sendfile(socket, file, &raw mut position, count) })
}

/// Moves bytes of a pipe to a socket; `WouldBlock` where the socket is full. May be short.
pub(in crate::ring) fn send_pipe(socket: RawFd, pipe: RawFd, count: usize, more_follows: bool) -> io::Result<usize> {
    let flags = libc::SPLICE_F_NONBLOCK | libc::SPLICE_F_MOVE | if more_follows { libc::SPLICE_F_MORE } else { 0 };
    // SAFETY: no memory is passed.
    uninterrupted(|| unsafe { libc::splice(pipe, ptr::null_mut(), socket, ptr::null_mut(), count, flags) })
}

/// The reading and the writing end of a new pipe, and its capacity: `bytes_wanted` where the user may have so much.
pub(in crate::ring) fn pipe(bytes_wanted: usize) -> io::Result<(RawFd, RawFd, usize)> {
    let mut ends = [0; 2];
    // SAFETY: writes two descriptors. Their use: one splice in, then splices out that must not wait.
    check(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) } as isize)?;
    let wanted = libc::c_int::try_from(bytes_wanted).unwrap_or(libc::c_int::MAX);
    // SAFETY: no memory is passed. Refused (EPERM) past the user's share of pipe memory: then the default is used.
    let capacity = unsafe {
        let _ = libc::fcntl(ends[0], libc::F_SETPIPE_SZ, wanted);
        libc::fcntl(ends[0], libc::F_GETPIPE_SZ)
    };
    Ok((ends[0], ends[1], usize::try_from(capacity).unwrap_or(4096)))
}

/// A non-blocking TCP socket of the family of `address`.
pub(in crate::ring) fn socket(address: &SocketAddr) -> io::Result<RawFd> {
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    // SAFETY: no memory is passed.
    let fd = unsafe { libc::socket(family, libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC, 0) };
    check(fd as isize).map(|fd| fd as RawFd)
}

/// How often this thread has given its CPU up to wait for something.
pub(in crate::ring) fn voluntary_switches() -> i64 {
    // SAFETY: all zeros is a valid rusage; the call writes one and keeps no reference to it.
    let usage = unsafe {
        let mut usage: libc::rusage = MaybeUninit::zeroed().assume_init();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage
    };
    usage.ru_nvcsw
}

/// Sends small pieces at once, without waiting for the other end's acknowledgement.
pub(in crate::ring) fn set_no_delay(fd: RawFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    set_option(fd, libc::TCP_NODELAY, (&raw const on).cast(), size_of::<libc::c_int>())
}

/// Holds segments that are not full back (for 200 ms at most), or lets them go.
pub(in crate::ring) fn set_cork(fd: RawFd, on: bool) -> io::Result<()> {
    let on = libc::c_int::from(on);
    set_option(fd, libc::TCP_CORK, (&raw const on).cast(), size_of::<libc::c_int>())
}

/// Picks the congestion control of a connection by its name in the kernel.
pub(in crate::ring) fn set_congestion(fd: RawFd, name: &str) -> io::Result<()> {
    set_option(fd, libc::TCP_CONGESTION, name.as_ptr().cast(), name.len())
}

fn set_option(fd: RawFd, option: i32, value: *const libc::c_void, len: usize) -> io::Result<()> {
    // SAFETY: all callers pass `len` readable bytes that outlive the call.
    let result = unsafe { libc::setsockopt(fd, libc::IPPROTO_TCP, option, value, len as libc::socklen_t) };
    check(result as isize).map(|_| ())
}

/// A socket that listens on an address that it shares with others of this user (SO_REUSEPORT). Blocking, as std's are.
pub(in crate::ring) fn listen_shared(address: &SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let (storage, len) = encode_address(address);
    let on: libc::c_int = 1;
    // SAFETY: the options' value and the address are readable for the length of their calls; the descriptor is new and
    // owned by nobody else.
    unsafe {
        let fd = check(libc::socket(family, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) as isize)?;
        let socket = OwnedFd::from_raw_fd(fd as RawFd);
        let raw = socket.as_raw_fd();
        for option in [libc::SO_REUSEADDR, libc::SO_REUSEPORT] {
            let value = (&raw const on).cast();
            let size = size_of::<libc::c_int>() as libc::socklen_t;
            check(libc::setsockopt(raw, libc::SOL_SOCKET, option, value, size) as isize)?;
        }
        check(libc::bind(raw, (&raw const storage).cast(), len) as isize)?;
        check(libc::listen(raw, LISTEN_BACKLOG) as isize)?;
        Ok(socket)
    }
}

/// As std listens with.
const LISTEN_BACKLOG: i32 = 4096;

/// Lengthens the queue of connections that wait to be accepted, on a socket that listens already.
pub(in crate::ring) fn listen(fd: RawFd, backlog: i32) -> io::Result<()> {
    // SAFETY: no memory is passed.
    check(unsafe { libc::listen(fd, backlog) } as isize).map(|_| ())
}

/// The address of the other end.
pub(in crate::ring) fn peer_address(fd: RawFd) -> io::Result<SocketAddr> {
    // SAFETY: all zeros is a valid sockaddr_storage; the call writes no more than `len` of it.
    let (storage, family) = unsafe {
        let mut storage: libc::sockaddr_storage = MaybeUninit::zeroed().assume_init();
        let mut len = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
        check(libc::getpeername(fd, (&raw mut storage).cast(), &raw mut len) as isize)?;
        (storage, i32::from(storage.ss_family))
    };
    match family {
        libc::AF_INET => {
            // SAFETY: the kernel said that the storage holds this family.
            let address: &libc::sockaddr_in = unsafe { &*(&raw const storage).cast() };
            let ip = Ipv4Addr::from_bits(u32::from_be(address.sin_addr.s_addr));
            Ok(SocketAddrV4::new(ip, u16::from_be(address.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let address: &libc::sockaddr_in6 = unsafe { &*(&raw const storage).cast() };
            let ip = Ipv6Addr::from(address.sin6_addr.s6_addr);
            let port = u16::from_be(address.sin6_port);
            Ok(SocketAddrV6::new(ip, port, address.sin6_flowinfo, address.sin6_scope_id).into())
        }
        _ => Err(io::Error::from(io::ErrorKind::Unsupported)),
    }
}

/// An address as the kernel takes it, and its length.
pub(in crate::ring) fn encode_address(address: &SocketAddr) -> (libc::sockaddr_storage, libc::socklen_t) {
    // SAFETY: all zeros is a valid sockaddr_storage, large and aligned enough for each family.
    let mut storage: libc::sockaddr_storage = unsafe { MaybeUninit::zeroed().assume_init() };
    match address {
        SocketAddr::V4(address) => {
            let encoded = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: address.port().to_be(),
                sin_addr: libc::in_addr { s_addr: address.ip().to_bits().to_be() },
                sin_zero: [0; 8],
            };
            // SAFETY: see above.
            unsafe { (&raw mut storage).cast::<libc::sockaddr_in>().write(encoded) };
            (storage, size_of::<libc::sockaddr_in>() as libc::socklen_t)
        }
        SocketAddr::V6(address) => {
            let encoded = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: address.port().to_be(),
                sin6_flowinfo: address.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
                sin6_scope_id: address.scope_id(),
            };
            // SAFETY: see above.
            unsafe { (&raw mut storage).cast::<libc::sockaddr_in6>().write(encoded) };
            (storage, size_of::<libc::sockaddr_in6>() as libc::socklen_t)
        }
    }
}

/// The soft and the hard limit of a resource of this process.
pub(in crate::ring) fn limit(resource: libc::__rlimit_resource_t) -> io::Result<(u64, u64)> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: writes `limit` only.
    check(unsafe { libc::getrlimit(resource, &raw mut limit) } as isize)?;
    Ok((limit.rlim_cur, limit.rlim_max))
}

/// Sets the soft limit of a resource, up to the hard one.
pub(in crate::ring) fn set_soft_limit(resource: libc::__rlimit_resource_t, soft: u64) -> io::Result<()> {
    let (_, hard) = limit(resource)?;
    let limit = libc::rlimit { rlim_cur: soft.min(hard), rlim_max: hard };
    // SAFETY: reads `limit` only.
    check(unsafe { libc::setrlimit(resource, &raw const limit) } as isize).map(|_| ())
}

/// A second descriptor of the same open file.
pub(in crate::ring) fn duplicate(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: no memory is passed; the new descriptor is owned by nobody else.
    unsafe { check(libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0) as isize).map(|fd| OwnedFd::from_raw_fd(fd as RawFd)) }
}

/// Cuts or extends a file. May wait for a disk: not on a core.
pub(in crate::ring) fn truncate(file: &OwnedFd, len_bytes: u64) -> io::Result<()> {
    let len = offset(len_bytes)?;
    // SAFETY: no memory is passed.
    uninterrupted(|| unsafe { libc::ftruncate(file.as_raw_fd(), len) } as isize).map(|_| ())
}

/// Drops a file's clean pages from the page cache.
#[cfg(test)]
pub(in crate::ring) fn drop_from_cache(fd: RawFd) {
    // SAFETY: no memory is passed.
    let result = unsafe { libc::posix_fadvise(fd, 0, 0, libc::POSIX_FADV_DONTNEED) };
    assert_eq!(result, 0);
}

/// The kernel's release, such as `6.18.44`.
pub(in crate::ring) fn kernel_release() -> String {
    // SAFETY: all zeros is a valid utsname; the call fills it with texts that end in a zero within their arrays.
    unsafe {
        let mut names: libc::utsname = MaybeUninit::zeroed().assume_init();
        libc::uname(&raw mut names);
        std::ffi::CStr::from_ptr(names.release.as_ptr()).to_string_lossy().into_owned()
    }
}

/// A status without contents, to be filled by the ring.
pub(in crate::ring) fn empty_status() -> libc::statx {
    // SAFETY: a statx is made of integers; all zeros is one.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

fn offset(position_bytes: u64) -> io::Result<i64> {
    i64::try_from(position_bytes).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
}
