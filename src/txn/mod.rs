//! The transaction coordinator as a pure machine: requests, ticks and replayed records in; records, replies, deadlines out.
//!
//! One [`coordinator::TransactionCoordinator`] has the transactional ids of one partition of `__transaction_state`. It writes
//! no marker itself: a transaction that is decided becomes a job, whoever asks for it writes the markers and says when they
//! are durable. A job is handed out when the decision is safe, and again after a replay, so none is lost.

pub mod coordinator;
mod ending;
mod listing;
mod producer_ids;
pub mod records;
#[cfg(test)]
mod rehearsal;
pub mod reply;
pub mod request;
#[cfg(any(test, feature = "sim"))]
pub mod stage;
pub mod state;
pub mod transaction;
