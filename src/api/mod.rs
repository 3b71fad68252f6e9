//! Kafka's requests, one file for each family of them.
//!
//! [`dispatch`] is the one `match` on the API key. A handler gets the request's bytes and the core it arrived on, and
//! makes the reply; it reaches partitions only through the shard's router.

pub mod authorized_operations;
pub mod client_append;
pub mod cluster;
pub mod committed_offsets;
pub mod configs;
pub mod consumer_groups;
pub mod context;
pub mod coordinator;
pub mod delete_records;
pub mod dispatch;
pub mod epoch_ends;
pub mod error_map;
pub mod fetch;
pub mod fetch_session;
pub mod forwarded_append;
pub mod group_listing;
pub mod group_members;
pub mod group_offsets;
pub mod list_offsets;
pub mod log_dirs;
pub mod metadata;
pub mod partition_read;
pub mod produce;
pub mod produce_check;
pub mod producer_id;
pub mod producers;
pub mod remote_fetch;
pub mod reply;
pub mod tier_reads;
pub mod topics;
pub mod transaction_listing;
pub mod transactions;
pub mod txn_markers;
pub mod txn_offsets;
pub mod versions;
