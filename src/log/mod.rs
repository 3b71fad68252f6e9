//! One partition's log: segments, indexes, producers, epochs, recovery.
//!
//! Nothing here waits for the disk: a [`partition_log::PartitionLog`] hands out owned plans, the shard has the ring
//! carry them out, and the completion commits them. Only [`recovery`] reads and writes, at open.

pub mod batch_retention;
pub mod clean_plan;
pub mod cleaned_segment;
pub mod cleaned_transactions;
pub mod core_checkpoint;
pub mod core_places;
pub mod error;
pub mod index_recovery;
pub mod layout;
pub mod leader_epochs;
pub mod log_offsets;
pub mod lookup;
pub mod offset_index;
pub mod offset_map;
pub mod partition_indexes;
pub mod partition_log;
pub mod partition_metadata;
pub mod partition_places;
pub mod partition_reads;
pub mod partition_snapshots;
pub mod partition_transactions;
pub mod plan;
pub mod producer_recovery;
pub mod producer_snapshot;
pub mod producer_snapshots;
pub mod producer_state;
pub mod recovery;
pub mod recovery_point;
pub mod replacement;
pub mod retention;
pub mod scan;
pub mod segment;
pub mod segment_files;
pub mod swap_recovery;
pub mod time_index;
pub mod time_lookup;
pub mod time_places;
pub mod transaction_index;
mod transaction_recovery;
mod transactions;
