//! Where a partition is: on this core, on another, or nowhere.

use std::rc::Rc;

use crate::record::offset::{LeaderEpoch, PartitionId};
use crate::shard::core::Shard;
use crate::shard::partition::Partition;

/// The answer of [`Shard::route`].
pub enum Route {
    /// This core leads it.
    Here(Rc<Partition>),
    /// Another core leads it, and works for this one: see [`Shard::send_job`].
    There {
        /// Index of the core that leads.
        core: usize,
    },
    /// Another core leads it: the client is told which.
    Elsewhere {
        /// Index of the core that leads.
        core: u32,
        /// The partition's leader epoch.
        leader_epoch: LeaderEpoch,
    },
    /// This core leads it by the catalog, and does not have it yet, or could not open it.
    NotReady {
        /// True where it could not be opened: its disk is the reason.
        offline: bool,
    },
    /// The catalog has no such partition.
    Unknown,
}

impl Shard {
    /// Where the partition is. The only way from a request to a partition.
    pub fn route(&self, id: PartitionId) -> Route {
        if let Some(partition) = self.hosted(id) {
            return Route::Here(partition);
        }
        let snapshot = self.snapshot();
        let Some(placed) = snapshot.partition_by_id(id.topic_id, id.partition) else { return Route::Unknown };
        let core = u32::from(placed.core.index());
        if core != self.core_index() {
            if self.options().listen_mode.is_one_broker() {
                return Route::There { core: core as usize };
            }
            return Route::Elsewhere { core, leader_epoch: LeaderEpoch(placed.leader_epoch) };
        }
        Route::NotReady { offline: self.open_failed(id) }
    }
}
