//! What coordinators take and give: the time, replayed records, records to append, replies.

use crate::record::offset::{Offset, ProducerId};

/// What the clocks of a core said when something happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// Milliseconds of the monotonic clock: time-outs are measured by it.
    pub now_ms: u64,
    /// Milliseconds since 1970: what is written down.
    pub wall_ms: i64,
}

/// Names a request that waits for its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// A record that a coordinator wants appended to its partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoordinatorRecord {
    /// Begins with the record's type.
    pub key: Vec<u8>,
    /// `None` takes back what had the key.
    pub value: Option<Vec<u8>>,
}

/// The producer that records belong to, where they are part of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionalWriter {
    /// Its id.
    pub producer_id: ProducerId,
    /// Its epoch.
    pub producer_epoch: i16,
    /// How many markers of it the partition had when the coordinator of its transaction was asked; `None`: nobody was.
    pub marker_count: Option<u32>,
}

/// What came of one step of a coordinator. Its state has changed already; the replies, these and all later ones, wait until
/// the records are safe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effects<R> {
    /// To be appended, in order, all or none.
    pub records: Vec<CoordinatorRecord>,
    /// Set where the records are part of a transaction: they are a batch of their own then.
    pub writer: Option<TransactionalWriter>,
    /// Answers, to this request or to earlier ones.
    pub replies: Vec<(Ticket, R)>,
}

impl<R> Default for Effects<R> {
    fn default() -> Self {
        Self { records: Vec::new(), writer: None, replies: Vec::new() }
    }
}

impl<R> Effects<R> {
    /// Answers a request.
    pub fn reply(&mut self, ticket: Ticket, reply: R) {
        self.replies.push((ticket, reply));
    }

    /// True where nothing came of it.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty() && self.replies.is_empty()
    }
}

/// A record read back from a coordinator's partition, oldest first.
#[derive(Clone, Copy, Debug)]
pub struct ReplayedRecord<'a> {
    /// Where it is.
    pub offset: Offset,
    /// Who wrote it, where it is part of a transaction.
    pub writer: Option<TransactionalWriter>,
    /// Its key.
    pub key: &'a [u8],
    /// Its value; `None` takes back what had the key.
    pub value: Option<&'a [u8]>,
}

/// A record that says nothing that a coordinator understands.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// Of a type that only a newer server knows; Kafka passes over it.
    #[error("a record of the unknown type {0}")]
    UnknownType(i16),
    /// Its bytes make no sense.
    #[error("{0}")]
    Corrupt(String),
}
