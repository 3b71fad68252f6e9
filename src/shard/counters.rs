//! What one core has counted; read by metrics, written by this core alone.

use std::cell::Cell;

/// A number that only grows.
#[derive(Default)]
pub struct Counter(Cell<u64>);

impl Counter {
    /// Adds `count`.
    pub fn add(&self, count: u64) {
        self.0.set(self.0.get().wrapping_add(count));
    }

    /// The sum so far.
    pub fn get(&self) -> u64 {
        self.0.get()
    }
}

/// Counters of one core.
#[derive(Default)]
pub struct Counters {
    /// Connections accepted.
    pub connections_opened: Counter,
    /// Connections ended, for whatever reason.
    pub connections_closed: Counter,
    /// Connections refused by a limit.
    pub connections_refused: Counter,
    /// Batches written.
    pub batches_appended: Counter,
    /// Bytes of batches written.
    pub bytes_appended: Counter,
    /// Syncs done: of partitions, one by one or with others.
    pub syncs: Counter,
    /// Syncs done of a whole file system, each for many partitions.
    pub whole_syncs: Counter,
    /// Bytes of records sent to clients.
    pub bytes_fetched: Counter,
    /// Segments copied to the tier.
    pub segments_copied: Counter,
    /// Segments deleted from the tier, with copies that came to nothing.
    pub remote_segments_deleted: Counter,
    /// Copies to the tier that were begun.
    pub remote_copy_requests: Counter,
    /// Bytes of those that were finished.
    pub remote_copy_bytes: Counter,
    /// Those that failed.
    pub remote_copy_errors: Counter,
    /// Deletions of segments of the tier that were begun.
    pub remote_delete_requests: Counter,
    /// Those that failed.
    pub remote_delete_errors: Counter,
    /// Partitions of fetches that were looked for in the tier.
    pub remote_fetch_requests: Counter,
    /// Bytes of records found there.
    pub remote_fetch_bytes: Counter,
    /// Those that failed.
    pub remote_fetch_errors: Counter,
    /// Fetches whose records the tier did not have ready in time.
    pub remote_fetches_expired: Counter,
    /// Lookups by time that the tier did not answer in time.
    pub remote_list_offsets_expired: Counter,
}
