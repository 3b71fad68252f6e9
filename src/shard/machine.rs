//! What a coordinator must be able to do, so that a core can host it.

use std::future::ready;
use std::rc::Rc;
use std::sync::Arc;

use crate::control::broker_config::BrokerConfig;
use crate::control::internal_topics::InternalTopic;
use crate::control::snapshot::Snapshot;
use crate::record::coordination::{Effects, Moment, ReplayError, ReplayedRecord, Ticket};
use crate::record::offset::{PartitionId, ProducerId};
use crate::shard::coordinators::Coordinators;
use crate::shard::core::Shard;
use crate::shard::partition::Partition;

/// The state of one partition of an internal topic, and what changes it: pure, without clock, I/O or randomness.
///
/// The host appends the records of each step, in order, and sends the replies when these are safe. Where that fails it
/// throws the state away and replays the partition.
pub trait Machine: Sized + 'static {
    /// What is asked; it may have come from another core.
    type Request: Send + 'static;
    /// What is answered.
    type Reply: Send + 'static;

    /// The topic whose partitions hold the state.
    const TOPIC: InternalTopic;

    /// Where a core has its coordinators of this kind.
    fn coordinators(shard: &Shard) -> &Coordinators<Self>;

    /// Called once when the partition is taken up: what works for the coordinator from outside begins.
    fn taken_up(_shard: &Rc<Shard>, _partition: PartitionId) {}

    /// A coordinator that knows nothing yet.
    fn new(config: &BrokerConfig) -> Self;

    /// What has to be asked elsewhere before a request is handled; it is handled at once where there is nothing.
    ///
    /// # Errors
    /// The answer to who asked: the request is not handled.
    fn admit(
        _shard: &Rc<Shard>,
        _partition: &Rc<Partition>,
        request: Self::Request,
    ) -> impl Future<Output = Result<Self::Request, Self::Reply>> {
        ready(Ok(request))
    }

    /// Takes one record in, before [`Machine::loaded`].
    ///
    /// # Errors
    /// What it does not understand.
    fn replay(&mut self, record: &ReplayedRecord<'_>) -> Result<(), ReplayError>;

    /// A transaction ended in the partition: at the replay, and when its marker has become durable.
    fn transaction_ended(&mut self, producer_id: ProducerId, committed: bool);

    /// All was replayed: deadlines begin now.
    fn loaded(&mut self, now: Moment, effects: &mut Effects<Self::Reply>);

    /// Takes one request in. The reply comes now or in a later step.
    fn handle(&mut self, ticket: Ticket, request: Self::Request, now: Moment, effects: &mut Effects<Self::Reply>);

    /// The next time at which [`Machine::tick`] has something to do, by the monotonic clock.
    fn next_deadline_ms(&self) -> Option<u64>;

    /// Does what is due.
    fn tick(&mut self, now: Moment, effects: &mut Effects<Self::Reply>);

    /// The core stood still for `stall_ms`: what others could not tell it meanwhile is not held against them.
    fn stalled(&mut self, now: Moment, stall_ms: u64);

    /// The catalog has changed: topics of these names are gone. Called with none when the coordinator begins to serve.
    fn catalog_changed(&mut self, gone: &[Arc<str>], after: &Snapshot, now: Moment, effects: &mut Effects<Self::Reply>);
}

/// Why a coordinator did not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CoordinatorFailure {
    /// It is still being read; try again soon.
    #[error("the coordinator is being loaded")]
    Loading,
    /// It is elsewhere, or its partition cannot be used.
    #[error("this core does not have the coordinator")]
    NotHere,
    /// The topic that holds its state is not there yet, or the server stops.
    #[error("the coordinator is not available")]
    NotAvailable,
}

/// The moment by a core's clocks.
pub fn moment(shard: &Rc<Shard>) -> Moment {
    Moment { now_ms: shard.io().now().0 / 1_000_000, wall_ms: shard.io().wall_ms() }
}
