//! What one core tells of its tier, by the names of Kafka's metrics.

use tracing::info;

use crate::shard::core::Shard;

/// Sums since the start, and what is so now. Names and meanings are those of Kafka's metrics, which are rates of the sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierFigures {
    /// `RemoteCopyBytesPerSec`: bytes of segments copied.
    pub copy_bytes: u64,
    /// `RemoteCopyRequestsPerSec`: copies begun.
    pub copy_requests: u64,
    /// `RemoteCopyErrorsPerSec`: copies that failed.
    pub copy_errors: u64,
    /// `RemoteFetchBytesPerSec`: bytes of records found in the tier.
    pub fetch_bytes: u64,
    /// `RemoteFetchRequestsPerSec`: partitions of fetches that were looked for in the tier.
    pub fetch_requests: u64,
    /// `RemoteFetchErrorsPerSec`: those of them that failed.
    pub fetch_errors: u64,
    /// `RemoteDeleteRequestsPerSec`: deletions begun.
    pub delete_requests: u64,
    /// `RemoteDeleteErrorsPerSec`: deletions that failed.
    pub delete_errors: u64,
    /// `RemoteCopyLagSegments`: sealed segments that the tier has not yet.
    pub copy_lag_segments: u64,
    /// `RemoteCopyLagBytes`: their bytes.
    pub copy_lag_bytes: u64,
    /// `RemoteDeleteLagSegments`: segments whose deletion, or the deletion of whose failed copy, is not finished.
    pub delete_lag_segments: u64,
    /// `RemoteLogMetadataCount`: segments that are known.
    pub metadata_count: u64,
    /// `RemoteLogSizeBytes`: length of the logs in the tier.
    pub log_size_bytes: u64,
    /// `DelayedRemoteFetchMetrics`, `ExpiresPerSec`: fetches that the tier did not answer in time.
    pub expired_fetches: u64,
    /// `DelayedRemoteListOffsetsMetrics`, `ExpiresPerSec`: lookups by time, likewise.
    pub expired_list_offsets: u64,
    /// Reads of a store that is elsewhere.
    pub store_reads: u64,
    /// Their bytes.
    pub store_read_bytes: u64,
    /// The most that was held of `--tier-memory` at once.
    pub memory_held_bytes_max: u64,
    /// How often somebody had to wait for it.
    pub memory_waits: u64,
}

impl TierFigures {
    /// Of a core; nothing where it has no tier.
    pub fn of(shard: &Shard) -> Self {
        let Some(tier) = shard.tier() else { return Self::default() };
        let counters = shard.counters();
        let cache = tier.cache();
        let mut figures = Self {
            copy_bytes: counters.remote_copy_bytes.get(),
            copy_requests: counters.remote_copy_requests.get(),
            copy_errors: counters.remote_copy_errors.get(),
            fetch_bytes: counters.remote_fetch_bytes.get(),
            fetch_requests: counters.remote_fetch_requests.get(),
            fetch_errors: counters.remote_fetch_errors.get(),
            delete_requests: counters.remote_delete_requests.get(),
            delete_errors: counters.remote_delete_errors.get(),
            expired_fetches: counters.remote_fetches_expired.get(),
            expired_list_offsets: counters.remote_list_offsets_expired.get(),
            store_reads: cache.counters.loads.get(),
            store_read_bytes: cache.counters.loaded_bytes.get(),
            memory_held_bytes_max: cache.memory().held_bytes_max() as u64,
            memory_waits: cache.memory().wait_count(),
            ..Self::default()
        };
        for partition in shard.partitions() {
            let Some(remote) = partition.remote() else { continue };
            let segments = remote.segments();
            figures.metadata_count += (segments.finished().len() + segments.unfinished_count()) as u64;
            figures.delete_lag_segments += segments.unfinished_count() as u64;
            figures.log_size_bytes += segments.finished_bytes();
            drop(segments);
            if !partition.limits().tier.enabled {
                continue;
            }
            let copied_below = partition.copied_below();
            let log = partition.log().borrow();
            let sealed = log.segments().len().saturating_sub(1);
            for segment in log.segments().iter().take(sealed).filter(|segment| segment.base_offset() >= copied_below) {
                figures.copy_lag_segments += 1;
                figures.copy_lag_bytes += segment.size_bytes();
            }
        }
        figures
    }

    /// Writes them to the log.
    pub fn log(&self, core: u32) {
        info!(
            core,
            RemoteCopyBytes = self.copy_bytes,
            RemoteCopyRequests = self.copy_requests,
            RemoteCopyErrors = self.copy_errors,
            RemoteFetchBytes = self.fetch_bytes,
            RemoteFetchRequests = self.fetch_requests,
            RemoteFetchErrors = self.fetch_errors,
            RemoteDeleteRequests = self.delete_requests,
            RemoteDeleteErrors = self.delete_errors,
            RemoteCopyLagSegments = self.copy_lag_segments,
            RemoteCopyLagBytes = self.copy_lag_bytes,
            RemoteDeleteLagSegments = self.delete_lag_segments,
            RemoteLogMetadataCount = self.metadata_count,
            RemoteLogSizeBytes = self.log_size_bytes,
            DelayedRemoteFetchExpires = self.expired_fetches,
            DelayedRemoteListOffsetsExpires = self.expired_list_offsets,
            store_reads = self.store_reads,
            store_read_bytes = self.store_read_bytes,
            memory_held_bytes_max = self.memory_held_bytes_max,
            memory_waits = self.memory_waits,
            "the tier's figures"
        );
    }
}
