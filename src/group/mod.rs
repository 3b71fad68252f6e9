//! Consumer groups and committed offsets, as a pure state machine.
//!
//! One [`coordinator::GroupCoordinator`] has the groups whose ids fall on one partition of `__consumer_offsets`. Requests, replayed
//! records and the time come in; records to append, replies and the next deadline go out. Nothing here does I/O, reads a clock
//! or makes randomness. The rules are those of Kafka's group coordinator.

pub mod assignor;
pub mod classic_client;
pub mod classic_group;
pub mod classic_member;
pub mod committed;
pub mod config;
pub mod consumer_group;
pub mod consumer_member;
pub mod consumer_records;
#[cfg(test)]
mod consumer_rehearsal;
pub mod conversion;
#[cfg(test)]
mod conversion_rehearsal;
pub mod coordinator;
pub mod deadlines;
pub mod expiry;
pub mod join;
pub mod leave;
pub mod listing;
pub mod members;
#[cfg(test)]
mod mixed_rehearsal;
pub mod offsets;
pub mod rebalance;
pub mod records;
#[cfg(test)]
mod rehearsal;
pub mod reply;
pub mod request;
#[cfg(any(test, feature = "sim"))]
pub mod stage;
pub mod stored_offsets;
pub mod subscription;
pub mod sync;
pub mod topic_regex;
pub mod topics;
pub mod turn;
