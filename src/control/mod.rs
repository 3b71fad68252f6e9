//! The catalog: topics, placement and configs, as pure state machines.
//!
//! Nothing here does I/O, reads a clock or makes randomness: ids, times and seeds are arguments.
//! The one writer plans a command into records, has the ring write and sync their bytes, applies
//! them, and hands each core a new [`snapshot::Snapshot`].

pub mod broker_config;
pub mod broker_config_table;
pub mod catalog;
pub mod catalog_error;
pub mod catalog_file;
pub mod catalog_record;
pub mod config_rows;
pub mod config_value;
pub mod coordinator_config;
pub mod id;
pub mod internal_topics;
pub mod placement;
pub mod snapshot;
pub mod topic;
pub mod topic_config;
pub mod topic_config_table;
pub mod topic_name;
