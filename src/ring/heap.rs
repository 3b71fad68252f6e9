//! What the C library's allocator does with memory that was freed.

use crate::ring::syscall;

/// From now on up to `kept_bytes` that were freed at the end of each of the allocator's heaps stay with the process, where it
/// is glibc's; by default 128 KiB do. For work that takes many small buffers and frees them soon after, again and again: each
/// time the kernel would have to find, clear and map the pages anew. Buffers of 4 MiB and more are mapped by themselves.
pub fn keep_freed(kept_bytes: usize) {
    syscall::set_malloc_limits(kept_bytes, MAPPED_BYTES_MIN);
}

/// Once the one limit is set, glibc no longer raises the other by itself as such buffers are freed.
const MAPPED_BYTES_MIN: usize = 4 << 20;
