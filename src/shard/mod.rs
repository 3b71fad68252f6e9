//! All that one core owns, and what it does with it.
//!
//! A [`core::Shard`] has the partitions placed on its core, their files, the memory for their frames, and the mail to and
//! from the other cores. It carries out the plans that [`crate::log`] makes.

pub mod append;
pub mod catalog_host;
pub mod checkpoints;
mod clean_sink;
mod clean_source;
mod clean_swap;
mod clean_turns;
pub mod cleaner;
mod cleaning;
pub mod coordinator;
pub mod coordinator_replay;
pub mod coordinators;
pub mod core;
pub mod counters;
pub mod deletion;
pub mod directories;
pub mod durability;
pub mod error;
pub mod exclusive;
pub mod files;
pub mod forward;
pub mod group_machine;
pub mod hosting;
pub mod lane;
pub mod machine;
pub mod markers;
pub mod memory;
pub mod message;
pub mod opening;
pub mod options;
pub mod partition;
pub mod producer_snapshots;
pub mod read;
pub mod recompression;
pub mod remote_aborted;
pub mod remote_partition;
pub mod remote_read;
pub mod remote_time;
pub mod reservation;
pub mod retention;
pub mod router;
pub mod tier;
pub mod tier_copy;
pub mod tier_removal;
pub mod tier_work;
pub mod time_lookup;
pub mod topic_limits;
mod transaction_driver;
pub mod transaction_machine;
pub mod verification;
pub mod watch;
