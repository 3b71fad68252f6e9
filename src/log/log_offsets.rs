//! The offsets of one partition, which move together.

use crate::record::offset::Offset;

/// Where a log begins, how far it is durable, written, planned and readable.
///
/// `log_start <= local_log_start <= high_watermark <= written <= log_end` and `durable <= written`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOffsets {
    /// First offset that can be asked for, here or in the tier.
    pub log_start: Offset,
    /// First offset on this machine's disk.
    pub local_log_start: Offset,
    /// Consumers read below it.
    pub high_watermark: Offset,
    /// Consumers with read_committed read below it: no transaction that began earlier is open.
    pub last_stable: Offset,
    /// All below is on stable storage.
    pub durable: Offset,
    /// All below is written, without holes.
    pub written: Offset,
    /// The next plan gets this offset.
    pub log_end: Offset,
}

impl LogOffsets {
    /// The one way to change offsets.
    ///
    /// # Panics
    /// Where they are out of order.
    pub(in crate::log) fn set(&mut self, to: Self) {
        assert!(to.log_start <= to.local_log_start, "{to:?}");
        assert!(to.local_log_start <= to.high_watermark, "{to:?}");
        assert!(to.log_start <= to.last_stable && to.last_stable <= to.high_watermark, "{to:?}");
        assert!(to.last_stable >= self.last_stable, "the last stable offset went back: {self:?} -> {to:?}");
        assert!(to.high_watermark <= to.written, "{to:?}");
        assert!(to.durable <= to.written, "{to:?}");
        assert!(to.written <= to.log_end, "{to:?}");
        assert!(to.log_start >= self.log_start, "the log start went back: {self:?} -> {to:?}");
        assert!(to.high_watermark >= self.high_watermark, "the high watermark went back: {self:?} -> {to:?}");
        *self = to;
    }
}
