//! Files of the real ring: small reads and writes at once, the rest through the ring.

use std::io;
use std::rc::Rc;

use crate::ring::buffer::Buffer;
use crate::ring::descriptor::Descriptor;
use crate::ring::io::Io;
use crate::ring::request::{Payload, Request};
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

    /// See [`crate::ring::io::File::write_at`].
    ///
    /// Small writes are plain calls: ext4 hands each buffered write of a ring to a worker, at twice the CPU. A plain call
    /// waits when the kernel throttles whoever dirties pages faster than the disk takes them. So after a call that took
    /// longer than [`SLOW_WRITE_NS`], writes go through the ring for [`THROTTLED_NS`]: then a worker waits, not the core.
    pub(in crate::ring) async fn write_at(&self, mut buffer: Buffer, position_bytes: u64) -> (io::Result<()>, Buffer) {
        let mut written = 0;
        if buffer.len() <= INLINE_BYTES_MAX && self.ring.has(RingMask::INLINE_WRITE) {
            let before = self.io.now();
            if before >= self.ring.writes_throttled_until.get() {
                while written < buffer.len() {
                    let at = position_bytes + written as u64;
                    match syscall::write_at(self.descriptor.fd(), &buffer[written..], at) {
                        Ok(0) => return (Err(io::Error::from(io::ErrorKind::WriteZero)), buffer),
                        Ok(count) => written += count,
                        Err(error) => return (Err(error), buffer),
                    }
                }
                let after = self.io.now();
                if after.since(before) > SLOW_WRITE_NS {
                    self.ring.writes_throttled_until.set(after.plus_us(THROTTLED_NS / 1000));
                    tracing::debug!(elapsed_us = after.since(before) / 1000, "writes are slow: through the ring");
                }
                return (Ok(()), buffer);
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

    pub(in crate::ring) async fn len(&self) -> io::Result<u64> {
        let done = self.ring.call(&self.io, Request::status(&self.descriptor)).await;
        done.count()?;
        match done.payload {
            Payload::Status(status) => Ok(status.stx_size),
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
const SLOW_WRITE_NS: u64 = 2_000_000;
const THROTTLED_NS: u64 = 1_000_000_000;
