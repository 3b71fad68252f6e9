//! Files of the real ring: small reads and writes at once, the rest through the ring.

use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use crate::ring::buffer::Buffer;
use crate::ring::descriptor::Descriptor;
use crate::ring::io::Io;
use crate::ring::request::{Payload, Request};
use crate::ring::residency::is_resident;
use crate::ring::ring_mask::RingMask;
use crate::ring::syscall;
use crate::ring::uring::Ring;

/// An open file. Clones share the descriptor, which is closed through the ring after the last of them and after the
/// last operation on it.
#[derive(Clone)]
pub struct UringFile {
    io: Io,
    ring: Rc<Ring>,
    descriptor: Rc<Descriptor>,
}

impl UringFile {
    pub(in crate::ring) fn new(io: Io, ring: Rc<Ring>, descriptor: Rc<Descriptor>) -> Self {
        Self { io, ring, descriptor }
    }

    pub(in crate::ring) fn duplicate(&self) -> io::Result<OwnedFd> {
        syscall::duplicate(self.descriptor.fd())
    }

    pub(in crate::ring) fn descriptor(&self) -> &Rc<Descriptor> {
        &self.descriptor
    }

    /// See [`crate::ring::io::File::read_at`].
    pub(in crate::ring) async fn read_at(
        &self,
        mut buffer: Buffer,
        position_bytes: u64,
    ) -> (io::Result<usize>, Buffer) {
        let mut filled = 0;
        if buffer.len() <= INLINE_BYTES_MAX && self.ring.has(RingMask::READ_NOWAIT) {
            while filled < buffer.len() {
                let at = position_bytes + filled as u64;
                match syscall::read_cached(self.descriptor.fd(), &mut buffer[filled..], at) {
                    Ok(0) => return (Ok(filled), buffer),
                    Ok(count) => filled += count,
                    // Not in the page cache, or a file system that cannot tell: the ring waits for it.
                    Err(_) => break,
                }
            }
        }
        while filled < buffer.len() {
            let at = position_bytes + filled as u64;
            let done = self.ring.call(&self.io, Request::read(&self.descriptor, buffer, filled, at)).await;
            let count = done.count();
            buffer = buffer_of(done.payload);
            match count {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if is_transient(&error) => {}
                Err(error) => return (Err(error), buffer),
            }
        }
        (Ok(filled), buffer)
    }

    /// See [`crate::ring::io::File::read_once`].
    ///
    /// Not O_DIRECT: what is read once was most often written a moment ago and is in the page cache, perhaps not yet on the
    /// disk, and there it costs no read. Without read-ahead, or the next piece would seem to have been there before.
    pub(in crate::ring) async fn read_once(&self, buffer: Buffer, position_bytes: u64) -> (io::Result<usize>, Buffer) {
        let len_bytes = buffer.len();
        if is_resident(&self.ring, self.descriptor.fd(), position_bytes, len_bytes as u64) {
            return self.read_at(buffer, position_bytes).await;
        }
        // Where it is not understood, the page cache takes it in: nothing is wrong then.
        let advise = async |advice| {
            let request = Request::advise(&self.descriptor, position_bytes, len_bytes, advice);
            let _ = self.ring.call(&self.io, request).await.count();
        };
        advise(libc::POSIX_FADV_RANDOM).await;
        let read = self.read_at(buffer, position_bytes).await;
        advise(libc::POSIX_FADV_DONTNEED).await;
        read
    }

    /// See [`crate::ring::io::File::write_at`].
    ///
    /// Writes are plain calls in slices: ext4 hands each buffered write of a ring to a worker, at twice the CPU, and the
    /// worker finds the bytes gone from the core's cache. A plain call waits when the kernel throttles whoever dirties
    /// pages faster than the disk takes them. So after a slice that took longer than [`SLOW_WRITE_NS`], slices are watched
    /// for a while; when one is slow again and the thread slept in it (rather than lost its CPU to somebody else), writes
    /// go through the ring for [`THROTTLED_NS`]: then a worker waits, not the core.
    pub(in crate::ring) async fn write_at(&self, mut buffer: Buffer, position_bytes: u64) -> (io::Result<()>, Buffer) {
        let mut written = 0;
        let mut left_of_turn = TURN_BYTES_MAX;
        while written < buffer.len() && self.writes_inline() {
            if left_of_turn == 0 {
                // The other connections have their turn; the first slices were written at once, as promised for small writes.
                self.io.yield_now().await;
                left_of_turn = TURN_BYTES_MAX;
                continue;
            }
            let slice = &buffer[written..buffer.len().min(written + left_of_turn)];
            let before = self.io.now();
            let sleeps_before = (before < self.ring.writes_watched_until.get()).then(syscall::voluntary_switches);
            match syscall::write_at(self.descriptor.fd(), slice, position_bytes + written as u64) {
                Ok(0) => return (Err(io::Error::from(io::ErrorKind::WriteZero)), buffer),
                Ok(count) => {
                    written += count;
                    left_of_turn -= count;
                }
                Err(error) => return (Err(error), buffer),
            }
            let after = self.io.now();
            if after.since(before) > SLOW_WRITE_NS {
                self.ring.writes_watched_until.set(after.plus_us(WATCHED_NS / 1000));
                if sleeps_before.is_some_and(|sleeps| syscall::voluntary_switches() > sleeps) {
                    self.ring.writes_throttled_until.set(after.plus_us(THROTTLED_NS / 1000));
                    tracing::debug!(elapsed_us = after.since(before) / 1000, "writes are throttled: through the ring");
                }
            }
        }
        while written < buffer.len() {
            let at = position_bytes + written as u64;
            let done = self.ring.call(&self.io, Request::write(&self.descriptor, buffer, written, at)).await;
            let count = done.count();
            buffer = buffer_of(done.payload);
            match count {
                Ok(0) => return (Err(io::Error::from(io::ErrorKind::WriteZero)), buffer),
                Ok(count) => written += count,
                Err(error) if is_transient(&error) => {}
                Err(error) => return (Err(error), buffer),
            }
        }
        (Ok(()), buffer)
    }

    fn writes_inline(&self) -> bool {
        self.ring.has(RingMask::INLINE_WRITE)
            && !self.descriptor.is_locked()
            && self.io.now() >= self.ring.writes_throttled_until.get()
    }

    pub(in crate::ring) async fn sync_data(&self) -> io::Result<()> {
        self.ring.call(&self.io, Request::sync(&self.descriptor, true)).await.count().map(drop)
    }

    pub(in crate::ring) async fn set_len(&self, len_bytes: u64) -> io::Result<()> {
        if self.ring.has(RingMask::FTRUNCATE) {
            return self.ring.call(&self.io, Request::truncate(&self.descriptor, len_bytes)).await.count().map(drop);
        }
        // The helper gets a descriptor of its own, so that this one may be closed meanwhile.
        let own = syscall::duplicate(self.descriptor.fd())?;
        self.ring.help(&self.io, move || syscall::truncate(&own, len_bytes)).await?
    }

    pub(in crate::ring) async fn allocate(&self, from_bytes: u64, len_bytes: u64) -> io::Result<()> {
        // Until the answer writes go through the ring: a worker waits for the file's lock, not the core.
        self.descriptor.set_locked(true);
        let done = self.ring.call(&self.io, Request::allocate(&self.descriptor, from_bytes, len_bytes)).await;
        self.descriptor.set_locked(false);
        done.count().map(drop)
    }

    pub(in crate::ring) async fn len(&self) -> io::Result<u64> {
        Ok(self.status().await?.stx_size)
    }

    pub(in crate::ring) async fn modified_ms(&self) -> io::Result<i64> {
        let modified = self.status().await?.stx_mtime;
        Ok(modified.tv_sec.saturating_mul(1000).saturating_add(i64::from(modified.tv_nsec / 1_000_000)))
    }

    async fn status(&self) -> io::Result<Box<libc::statx>> {
        let done = self.ring.call(&self.io, Request::status(&self.descriptor)).await;
        done.count()?;
        match done.payload {
            Payload::Status(status) => Ok(status),
            _ => unreachable!("a status comes back as one"),
        }
    }
}

fn buffer_of(payload: Payload) -> Buffer {
    match payload {
        Payload::Buffer(buffer) => buffer,
        _ => unreachable!("a buffer comes back as one"),
    }
}

/// An operation that a signal or a full queue of the kernel ended before it did anything.
fn is_transient(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN))
}

/// Up to here a read or write in the page cache is cheaper at once (14 us for 64 KiB) than through the ring.
const INLINE_BYTES_MAX: usize = 64 * 1024;
const SLOW_WRITE_NS: u64 = 5_000_000;
const WATCHED_NS: u64 = 1_000_000_000;
/// Throttling comes and goes with the disk's queue.
const THROTTLED_NS: u64 = 500_000_000;
/// Bytes of one write before the core's other tasks have their turn.
const TURN_BYTES_MAX: usize = 256 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::core::tests::{masks, run_alone};
    use crate::ring::io::{OpenHow, read_file, replace_file};
    use std::future::Future;
    use std::task::{Context, Poll, Waker};

    /// What was not in the page cache before a copy is not there after it, and what was stays. On the disk of the source
    /// tree: a folder in memory forgets nothing.
    #[test]
    fn what_is_read_once_takes_nothing_of_the_page_cache() {
        const FILE_BYTES: u64 = 2 << 20;
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = folder.path().join("x");
        run_alone(RingMask::NONE, |io| async move {
            let file = io.open(&path, OpenHow::CreateNew).await.unwrap();
            file.write_at(Buffer::from_vec(vec![7; FILE_BYTES as usize]), 0).await.0.unwrap();
            file.sync_data().await.unwrap();
            let resident = || syscall::cached_pages(file_descriptor(&file), 0, FILE_BYTES);
            let read_all = async || {
                let mut at = 0;
                while at < FILE_BYTES {
                    let (read, piece) = file.read_once(io.buffer(256 << 10), at).await;
                    assert!(read.unwrap() == 256 << 10 && piece.iter().all(|byte| *byte == 7));
                    at += 256 << 10;
                }
            };
            // Before Linux 6.5 nobody can tell.
            let Ok(before) = resident() else { return };
            read_all().await;
            assert_eq!(resident().unwrap(), before, "it was written a moment ago");
            syscall::drop_from_cache(file_descriptor(&file));
            let cold = resident().unwrap();
            if cold < before / 4 {
                read_all().await;
                assert!(resident().unwrap() <= before / 4, "{cold} pages before, {} after", resident().unwrap());
            }
        });
    }

    fn file_descriptor(file: &crate::ring::io::File) -> i32 {
        match file {
            crate::ring::io::File::Uring(file) => file.descriptor.fd(),
            #[allow(unreachable_patterns)]
            _ => unreachable!("the real ring"),
        }
    }

    #[test]
    fn files_are_written_read_cut_renamed_and_removed() {
        for mask in masks() {
            let folder = tempfile::tempdir().unwrap();
            let base = folder.path().to_owned();
            run_alone(mask, |io| async move {
                let dir = base.join("a");
                io.create_dir(&dir).await.unwrap();
                assert_eq!(io.create_dir(&dir).await.unwrap_err().kind(), io::ErrorKind::AlreadyExists);
                let path = dir.join("x");
                let file = io.open(&path, OpenHow::CreateNew).await.unwrap();
                let again = io.open(&path, OpenHow::CreateNew).await.err().unwrap();
                assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
                let missing = io.open(&dir.join("y"), OpenHow::Read).await.err().unwrap();
                assert_eq!(missing.kind(), io::ErrorKind::NotFound);
                for (len, position) in [(10, 0), (100_000, 10), (3_000_000, 100_010)] {
                    let bytes: Vec<u8> = (0..len).map(|at| ((position + at) % 251) as u8).collect();
                    file.write_at(Buffer::from_vec(bytes), position as u64).await.0.unwrap();
                }
                file.sync_data().await.unwrap();
                assert_eq!(file.len().await.unwrap(), 3_100_010);
                for (position, len, want) in
                    [(0_usize, 10_usize, 10_usize), (5, 200_000, 200_000), (3_100_000, 100, 10), (4_000_000, 1, 0)]
                {
                    let (count, buffer) = file.read_at(io.buffer(len), position as u64).await;
                    assert_eq!(count.unwrap(), want, "mask {mask}, at {position}");
                    assert!(
                        (0..want).all(|at| buffer[at] == ((position + at) % 251) as u8),
                        "mask {mask}, at {position}"
                    );
                }
                file.allocate(3_100_010, 1 << 20).await.unwrap();
                assert_eq!(file.len().await.unwrap(), 3_100_010, "mask {mask}");
                file.set_len(7).await.unwrap();
                assert_eq!(file.len().await.unwrap(), 7, "mask {mask}");
                drop(file);
                io.rename(&path, &dir.join("z")).await.unwrap();
                io.sync_dir(&dir).await.unwrap();
                replace_file(&io, &dir.join("b"), vec![1, 2, 3]).await.unwrap();
                assert_eq!(read_file(&io, &dir.join("b"), 3).await.unwrap(), [1, 2, 3]);
                let listed = io.read_dir(&dir).await.unwrap();
                let names: Vec<_> = listed.iter().map(|entry| (entry.name.as_str(), entry.len_bytes)).collect();
                assert_eq!(names, [("b", 3), ("z", 7)], "mask {mask}");
                assert_eq!(io.remove_file(&dir.join("none")).await.unwrap_err().kind(), io::ErrorKind::NotFound);
                io.remove_file(&dir.join("b")).await.unwrap();
                io.remove_file(&dir.join("z")).await.unwrap();
                io.remove_dir(&dir).await.unwrap();
                assert!(io.read_dir(&base).await.unwrap().is_empty());
            });
        }
    }

    /// Polls `future` once, in the task that runs, and drops it there.
    fn poll_and_drop(future: impl Future) {
        let mut future = Box::pin(future);
        let _ = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    }

    /// Descriptors of this process that lead to `path` (other tests of the process open and close their own).
    #[allow(clippy::disallowed_methods)]
    fn open_under(path: &std::path::Path) -> usize {
        let all = std::fs::read_dir("/proc/self/fd").unwrap();
        all.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok()).filter(|at| at.starts_with(path)).count()
    }

    #[test]
    fn dropped_operations_leak_no_descriptor_and_free_no_memory() {
        for mask in masks() {
            let folder = tempfile::tempdir().unwrap();
            let base = folder.path().to_owned();
            run_alone(mask, |io| async move {
                let path = base.join("x");
                let file = io.open(&path, OpenHow::CreateNew).await.unwrap();
                file.write_at(Buffer::from_vec(vec![7; 1 << 20]), 0).await.0.unwrap();
                for round in 0..20_usize {
                    poll_and_drop(io.open(&path, OpenHow::Read));
                    poll_and_drop(io.open(&base.join(format!("n{round}")), OpenHow::CreateNew));
                    poll_and_drop(io.create_dir(&base.join(format!("d{round}"))));
                    poll_and_drop(file.read_at(io.buffer(1 << 20), 0));
                    poll_and_drop(file.write_at(Buffer::from_vec(vec![7; 300_000]), 100 + round as u64));
                    poll_and_drop(file.sync_data());
                    poll_and_drop(file.len());
                    poll_and_drop(file.set_len(1 << 20));
                    poll_and_drop(io.rename(&base.join("none"), &base.join("other")));
                    poll_and_drop(io.remove_file(&base.join("none")));
                    poll_and_drop(io.remove_dir(&base.join("none")));
                    poll_and_drop(io.sync_dir(&base));
                    poll_and_drop(io.read_dir(&base));
                    if round % 3 == 0 {
                        io.yield_now().await;
                    }
                }
                // The ring goes on, and what it reads is whole.
                let (count, buffer) = file.read_at(io.buffer(1 << 20), 0).await;
                assert_eq!(count.unwrap(), 1 << 20);
                assert!(buffer.iter().all(|byte| *byte == 7), "mask {mask}");
                drop(file);
                let deadline = io.now().plus_ms(5000);
                while open_under(&base) > 0 && io.now() < deadline {
                    io.sleep_ms(1).await;
                }
                assert_eq!(open_under(&base), 0, "mask {mask}: descriptors are left");
            });
        }
    }

    #[test]
    fn more_operations_than_fit_wait_for_their_turn() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        run_alone(RingMask::READ_NOWAIT.with(RingMask::INLINE_WRITE), |io| async move {
            let file = io.open(&path, OpenHow::CreateNew).await.unwrap();
            let left = Rc::new(std::cell::Cell::new(3000));
            for at in 0..3000_u64 {
                let (io, file, left) = (io.clone(), file.clone(), left.clone());
                io.clone().spawn(async move {
                    file.write_at(Buffer::from_vec(vec![at as u8; 16]), at * 16).await.0.unwrap();
                    if at % 500 == 0 {
                        file.sync_data().await.unwrap();
                    }
                    let (count, buffer) = file.read_at(io.buffer(16), at * 16).await;
                    assert_eq!((count.unwrap(), &*buffer), (16, &[at as u8; 16][..]));
                    left.set(left.get() - 1);
                });
            }
            while left.get() > 0 {
                io.sleep_ms(1).await;
            }
        });
    }

    #[test]
    fn a_core_that_ends_leaves_nothing_in_flight() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().to_owned();
        let path = base.clone();
        run_alone(RingMask::NONE, |io| async move {
            let file = io.open(&path.join("x"), OpenHow::CreateNew).await.unwrap();
            for _ in 0..10 {
                let (io, file) = (io.clone(), file.clone());
                io.spawn(async move {
                    file.write_at(Buffer::from_vec(vec![1; 4 << 20]), 0).await.0.unwrap();
                    std::future::poll_fn(|_| Poll::<()>::Pending).await;
                });
            }
            io.yield_now().await;
        });
        assert_eq!(open_under(&base), 0);
    }
}
