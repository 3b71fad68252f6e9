//! One partition's log: segments, indexes, producers, epochs, recovery.
