//! Whether a range of a file lies in the page cache, so that sending it will not wait for a disk.

use crate::ring::ring_mask::RingMask;
use crate::ring::syscall;
use crate::ring::uring::Ring;

/// True where all of the range is in memory, as far as can be told without touching it (1.2 us).
///
/// cachestat(2) counts pages that are still being read, so the last page is also tried with a read that does not wait:
/// read-ahead fills a range in order. Without cachestat (before Linux 6.5) a page in each [`SAMPLE_BYTES`] is tried.
pub(in crate::ring) fn is_resident(ring: &Ring, fd: i32, position_bytes: u64, len_bytes: u64) -> bool {
    if len_bytes == 0 {
        return true;
    }
    if !ring.has(RingMask::READ_NOWAIT) {
        return false;
    }
    let last = position_bytes + len_bytes - 1;
    if ring.has(RingMask::CACHESTAT) {
        let pages = last / PAGE_BYTES - position_bytes / PAGE_BYTES + 1;
        match syscall::cached_pages(fd, position_bytes, len_bytes) {
            // Folios larger than a page count whole: more than asked for is possible.
            Ok(cached) => return cached >= pages && is_readable(fd, last),
            Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {}
            Err(_) => return false,
        }
    }
    (position_bytes..last).step_by(SAMPLE_BYTES).all(|at| is_readable(fd, at)) && is_readable(fd, last)
}

fn is_readable(fd: i32, position_bytes: u64) -> bool {
    syscall::read_cached(fd, &mut [0], position_bytes).is_ok()
}

const PAGE_BYTES: u64 = 4096;
const SAMPLE_BYTES: usize = 32 * 1024;
