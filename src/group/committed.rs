//! All committed offsets of a coordinator, in slices: for copies of them elsewhere.

use std::ops::Bound;
use std::rc::Rc;

use crate::group::coordinator::{GroupCoordinator, push};
use crate::group::records;
use crate::record::coordination::CoordinatorRecord;

/// Some of the committed offsets.
#[derive(Debug, Default)]
pub struct CommittedSlice {
    /// Their records, as `__consumer_offsets` has them.
    pub records: Vec<CoordinatorRecord>,
    /// Where the next slice begins; `None`: that was all.
    pub next: Option<Rc<str>>,
}

impl GroupCoordinator {
    /// Commits so far: where it is what it was, nothing new was committed. Offsets that were taken back do not count.
    pub fn commit_count(&self) -> u64 {
        self.commits
    }

    /// The committed offsets of the groups from `from` on: whole groups, until there are `offsets_max` or more. Those of
    /// transactions that have not ended are left out.
    pub fn committed(&self, from: Option<&str>, offsets_max: usize) -> CommittedSlice {
        let begin = from.map_or(Bound::Unbounded, Bound::Included);
        let mut slice = CommittedSlice::default();
        for (group_id, group) in self.groups.range::<str, _>((begin, Bound::Unbounded)) {
            if slice.records.len() >= offsets_max {
                slice.next = Some(group_id.clone());
                break;
            }
            for (topic, partitions) in group.offsets.topics() {
                for (partition, (_, stored)) in partitions {
                    push(&mut slice.records, records::offset(group_id, topic, *partition, stored));
                }
            }
        }
        slice
    }
}
