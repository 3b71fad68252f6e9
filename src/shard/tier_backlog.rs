//! What waits for the tier on each disk, and the room that is left there.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use tracing::{error, warn};

use crate::log::segment::Segment;
use crate::shard::core::Shard;
use crate::shard::tier::Tier;
use crate::tier::backlog_watch::{Backlog, BacklogNews, BacklogWatch};

/// What a core has seen of the disks of its partitions.
#[derive(Debug, Default)]
pub(in crate::shard) struct BacklogReport {
    watches: Vec<(PathBuf, BacklogWatch)>,
}

impl BacklogReport {
    /// Looks at all of them, and says what an operator should know. Each core speaks of its own partitions.
    pub(in crate::shard) async fn look(&mut self, shard: &Rc<Shard>, tier: &Tier) {
        let is_failing = !tier.is_claimed() || tier.mover().borrow().is_failing();
        if !is_failing {
            self.watches.clear();
            return;
        }
        for (dir, waiting_bytes) in waiting(shard) {
            let Ok(space) = shard.io().disk_space(&dir).await else { continue };
            let seen = Backlog { waiting_bytes, free_bytes: space.usable_bytes, disk_bytes: space.total_bytes };
            match self.watch(&dir).look(shard.io().now(), seen, is_failing) {
                Some(BacklogNews::Behind { full_in_s }) => {
                    warn!(core = shard.core_index(), data_dir = %dir.display(), waiting_bytes, free_bytes = seen.free_bytes, full_in_s, "segments wait for the tier and stay here until it takes them");
                }
                Some(BacklogNews::Filling { full_in_s }) => {
                    error!(core = shard.core_index(), data_dir = %dir.display(), waiting_bytes, free_bytes = seen.free_bytes, full_in_s, "the disk fills up with segments that wait for the tier: bring the tier back, or make room; when the disk is full, producers are refused");
                }
                None => {}
            }
        }
    }

    fn watch(&mut self, dir: &Path) -> &mut BacklogWatch {
        let at = self.watches.iter().position(|(known, _)| known == dir).unwrap_or_else(|| {
            self.watches.push((dir.to_owned(), BacklogWatch::default()));
            self.watches.len() - 1
        });
        &mut self.watches[at].1
    }
}

/// Bytes of sealed segments that the tier has not.
pub(in crate::shard) fn waiting_bytes(shard: &Shard) -> u64 {
    waiting(shard).into_iter().map(|(_, waiting_bytes)| waiting_bytes).sum()
}

/// Bytes of sealed segments that the tier has not, by data directory.
fn waiting(shard: &Shard) -> Vec<(PathBuf, u64)> {
    let mut found: Vec<(PathBuf, u64)> = Vec::new();
    for partition in shard.partitions() {
        let tier = partition.limits().tier;
        if !tier.enabled || tier.copy_disabled || partition.remote().is_none() {
            continue;
        }
        let Some(dir) = partition.folder().parent() else { continue };
        let copied_below = partition.copied_below();
        let log = partition.log().borrow();
        let sealed = log.segments().split_last().map_or(&[][..], |(_, sealed)| sealed);
        let bytes: u64 = sealed
            .iter()
            .rev()
            .take_while(|segment| segment.base_offset() >= copied_below)
            .map(Segment::size_bytes)
            .sum();
        match found.iter_mut().find(|(known, _)| known == dir) {
            Some((_, waiting_bytes)) => *waiting_bytes += bytes,
            None => found.push((dir.to_owned(), bytes)),
        }
    }
    found
}
