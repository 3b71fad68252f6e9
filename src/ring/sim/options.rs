//! What a simulated world does wrong, how often, and how long things take.

/// All that a world is made from; two worlds from equal options are the same.
#[derive(Clone, Copy, Debug, Default)]
pub struct SimOptions {
    /// Names the run.
    pub seed: u64,
    /// What goes wrong.
    pub faults: Faults,
    /// How long things take.
    pub delays: Delays,
}

impl SimOptions {
    /// A world of `seed` where nothing goes wrong, except by a crash.
    pub fn calm(seed: u64) -> Self {
        Self { seed, ..Self::default() }
    }
}

/// How often things go wrong, in cases of a million; 0 (the default) is never.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// EIO at a read.
    pub read_error_per_million: u32,
    /// EIO at a write; a part of it may have been written.
    pub write_error_per_million: u32,
    /// EIO at `sync_data` or `sync_dir`; what was to be synced is forgotten, as Linux does, and the next sync succeeds.
    pub sync_error_per_million: u32,
    /// EIO at open, mkdir, rename, unlink, readdir, statx, ftruncate.
    pub metadata_error_per_million: u32,
    /// The connection is reset, at each delivery of a piece.
    pub stream_reset_per_million: u32,
    /// A connect is refused though somebody listens.
    pub connect_refused_per_million: u32,
    /// The core stands still for a while, at each poll of a task.
    pub core_stall_per_million: u32,
    /// Longest such standstill.
    pub core_stall_ms_max: u64,
    /// How far the wall clock may be from the true time, either way; it jumps within that. 0: it never jumps.
    pub wall_jump_ms_max: u64,
}

/// Ranges of latencies; one in a hundred takes up to 20 times as long.
#[derive(Clone, Copy, Debug)]
pub struct Delays {
    /// A read that is not in the page cache.
    pub read_ns: (u64, u64),
    /// Each 256 KiB of a large write.
    pub write_ns: (u64, u64),
    /// `sync_data` and `sync_dir`.
    pub sync_ns: (u64, u64),
    /// Operations on names.
    pub metadata_ns: (u64, u64),
    /// One way through the network.
    pub network_ns: (u64, u64),
    /// From `notify` to the other core's wake.
    pub notify_ns: (u64, u64),
}

impl Default for Delays {
    fn default() -> Self {
        Self {
            read_ns: (20_000, 200_000),
            write_ns: (10_000, 200_000),
            sync_ns: (200_000, 5_000_000),
            metadata_ns: (5_000, 100_000),
            network_ns: (5_000, 300_000),
            notify_ns: (500, 10_000),
        }
    }
}

/// A kind of operation of the disk, for [`crate::ring::sim::machine::Machine::fail_nth`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskOp {
    /// `read_at`.
    Read,
    /// `write_at`.
    Write,
    /// `sync_data`.
    Sync,
    /// `sync_dir`.
    SyncDir,
    /// Open, mkdir, rename, unlink, rmdir, readdir, statx, ftruncate.
    Metadata,
}

/// How the cores of a machine end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// The power fails: of what was not synced, anything may be lost.
    PowerCut,
    /// SIGKILL: the page cache survives, so all that was written is there; operations in flight may be done or not.
    Kill,
    /// The process ends by itself: operations in flight are done, connections closed in order.
    Stop,
}
