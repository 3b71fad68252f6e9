//! What the manifests of a tier say together: each row replayed, then the rows held against each other.

use std::collections::BTreeMap;

use crate::control::catalog::Catalog;
use crate::control::catalog_file;
use crate::record::offset::PartitionId;
use crate::tier::error::ManifestError;
use crate::tier::manifest::{Manifest, ManifestEntry, ManifestPartition};
use crate::tier::metadata::{RemoteSegment, RemoteSegmentId, SegmentEvent};

/// A tier as its manifests have it.
#[derive(Clone, Debug, Default)]
pub struct ManifestView {
    /// Topics, ids, settings: the newest catalog of all.
    pub catalog: Option<Catalog>,
    /// What is known of partitions.
    pub partitions: BTreeMap<PartitionId, KnownPartition>,
    /// Committed offsets by partition of `__consumer_offsets`, with the epoch of its leader.
    pub group_offsets: BTreeMap<i32, (i32, Vec<u8>)>,
    /// When the newest manifest was written, in milliseconds since 1970.
    pub written_ms: i64,
}

/// A partition as the manifests have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownPartition {
    /// What is said of it.
    pub said: ManifestPartition,
    /// Its segments that are read.
    pub segments: BTreeMap<RemoteSegmentId, RemoteSegment>,
}

impl ManifestView {
    /// Takes in the next manifest of one row, of a view that has this row alone. A full one replaces all that came before.
    ///
    /// # Errors
    /// A catalog in it cannot be read: `path` names the manifest.
    pub fn replay(&mut self, path: &str, manifest: Manifest) -> Result<(), ManifestError> {
        if manifest.header.is_full {
            *self = Self::default();
        }
        self.written_ms = self.written_ms.max(manifest.header.written_ms);
        let mut current = None;
        for entry in manifest.entries {
            match entry {
                ManifestEntry::Catalog(image) => self.catalog = Some(catalog_of(path, &image)?),
                ManifestEntry::Partition(said) => {
                    current = Some(said.id);
                    let known = self
                        .partitions
                        .entry(said.id)
                        .or_insert_with(|| KnownPartition { said: said.clone(), segments: BTreeMap::new() });
                    known.said = said;
                }
                ManifestEntry::Segment(event) => {
                    let known = current.and_then(|id| self.partitions.get_mut(&id));
                    match (known, event) {
                        (Some(known), SegmentEvent::Image(segment)) => {
                            known.segments.insert(segment.id, segment);
                        }
                        (Some(known), SegmentEvent::Delete { id, .. }) => {
                            known.segments.remove(&id);
                        }
                        _ => {
                            let what = "it has a segment of no partition";
                            return Err(ManifestError::Damaged { path: path.to_owned(), what });
                        }
                    }
                }
                ManifestEntry::GroupOffsets { partition, leader_epoch, batches } => {
                    self.group_offsets.insert(partition, (leader_epoch, batches));
                }
            }
        }
        Ok(())
    }

    /// Takes another row in: of two that speak of the same, the one of the later leader knows better.
    pub fn join(&mut self, other: Self) {
        let version = |catalog: &Option<Catalog>| catalog.as_ref().map(|catalog| catalog.snapshot().version());
        if version(&other.catalog) > version(&self.catalog) {
            self.catalog = other.catalog;
        }
        self.written_ms = self.written_ms.max(other.written_ms);
        for (id, theirs) in other.partitions {
            let is_newer =
                self.partitions.get(&id).is_none_or(|known| known.said.leader_epoch < theirs.said.leader_epoch);
            if is_newer {
                self.partitions.insert(id, theirs);
            }
        }
        for (partition, theirs) in other.group_offsets {
            let is_newer = self.group_offsets.get(&partition).is_none_or(|known| known.0 < theirs.0);
            if is_newer {
                self.group_offsets.insert(partition, theirs);
            }
        }
    }
}

fn catalog_of(path: &str, image: &[u8]) -> Result<Catalog, ManifestError> {
    let damaged = |what| ManifestError::Damaged { path: path.to_owned(), what };
    let replayed = catalog_file::replay(image).map_err(|_| damaged("its catalog cannot be read by this server"))?;
    let is_whole = replayed.torn_bytes == 0 && replayed.valid_bytes > 0;
    is_whole.then_some(replayed.catalog).ok_or_else(|| damaged("its catalog is cut short"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::offset::Offset;
    use crate::tier::manifest::tests::{header, partition};
    use crate::tier::metadata::tests::segment;
    use crate::tier::segment_state::SegmentState;

    fn image(number: u8, start: i64) -> ManifestEntry {
        ManifestEntry::Segment(SegmentEvent::Image(segment(number, start, start + 99, SegmentState::CopyFinished)))
    }

    fn gone(number: u8) -> ManifestEntry {
        let id = segment(number, 0, 0, SegmentState::CopyStarted).id;
        ManifestEntry::Segment(SegmentEvent::Delete { id, state: SegmentState::DeleteStarted })
    }

    fn row(epoch: i32, manifests: Vec<(bool, Vec<ManifestEntry>)>) -> ManifestView {
        let mut view = ManifestView::default();
        for (number, (is_full, entries)) in (0..).zip(manifests) {
            let entries =
                std::iter::once(ManifestEntry::Partition(partition(epoch, number * 1000))).chain(entries).collect();
            let number = u64::try_from(number).expect("small");
            view.replay("m", Manifest { header: header(number, is_full), entries }).expect("right");
        }
        view
    }

    fn starts(view: &ManifestView) -> Vec<i64> {
        let known = view.partitions.values().next().expect("one");
        known.segments.values().map(|segment| segment.start_offset.0).collect()
    }

    #[test]
    fn deltas_add_to_a_full_one_and_a_full_one_replaces_all() {
        let view = row(3, vec![(true, vec![image(1, 0)]), (false, vec![image(2, 100), gone(1)])]);
        assert_eq!(starts(&view), [100]);
        assert_eq!(view.partitions.values().next().map(|known| known.said.log_end), Some(Offset(1000)));
        let view = row(3, vec![(true, vec![image(1, 0)]), (false, vec![image(2, 100)]), (true, vec![image(3, 200)])]);
        assert_eq!(starts(&view), [200]);
        // Said twice, or of what is not known: no matter, since a full one may have it already.
        let view = row(3, vec![(true, vec![image(1, 0)]), (false, vec![image(1, 0), gone(9)])]);
        assert_eq!(starts(&view), [0]);
    }

    #[test]
    fn of_two_rows_the_later_leader_knows_better() {
        let old = row(3, vec![(true, vec![image(1, 0), image(2, 100)])]);
        let new = row(4, vec![(true, vec![image(2, 100)])]);
        for (mut first, second) in [(old.clone(), new.clone()), (new, old)] {
            first.join(second);
            assert_eq!(starts(&first), [100]);
        }
    }

    #[test]
    fn a_segment_without_its_partition_is_refused() {
        let mut view = ManifestView::default();
        let manifest = Manifest { header: header(0, true), entries: vec![image(1, 0)] };
        assert!(view.replay("m", manifest).expect_err("nobody's").to_string().contains("of no partition"));
    }
}
