//! Which core owns a partition, and which directory keeps it.

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

use crate::control::id::{BrokerId, CoreIndex, DirectoryId};
use crate::control::topic::{Partition, Topic};
use crate::record::offset::TopicId;

/// Why a topic cannot have the shape that was asked for; the text is Kafka's.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PlacementError {
    /// INVALID_PARTITIONS (37).
    #[error("Number of partitions was set to an invalid non-positive value.")]
    PartitionCount,
    /// INVALID_PARTITIONS (37).
    #[error("Topic already has {count} partition(s).")]
    SameCount {
        /// What it has, and what was asked for.
        count: i32,
    },
    /// INVALID_PARTITIONS (37).
    #[error("The topic {name} currently has {current} partition(s); {asked} would not be an increase.")]
    NoIncrease {
        /// The topic.
        name: String,
        /// What it has.
        current: i32,
        /// What was asked for.
        asked: i32,
    },
    /// POLICY_VIOLATION (44).
    #[error("Excessively large number of partitions per request.")]
    TooManyPartitions,
    /// INVALID_REPLICATION_FACTOR (38).
    #[error("Replication factor must be larger than 0, or -1 to use the default value.")]
    ReplicationFactor,
    /// INVALID_REPLICATION_FACTOR (38).
    #[error(
        "Unable to replicate the partition {factor} time(s): The target replication factor of {factor} cannot be reached \
         because only {machines} broker(s) are registered or some brokers have all their log directories cordoned. \
         The cores of one machine count as one; a server started with --clamp-replication makes {machines} replica(s) instead."
    )]
    TooFewMachines {
        /// The factor asked for.
        factor: i16,
        /// The machines there are.
        machines: i16,
    },
    /// INVALID_REPLICA_ASSIGNMENT (39).
    #[error("{0}")]
    Assignment(#[from] AssignmentError),
}

/// Why replicas placed by hand are refused: INVALID_REPLICA_ASSIGNMENT (39).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AssignmentError {
    /// Partition numbers with gaps.
    #[error("partitions should be a consecutive 0-based integer sequence")]
    Gap,
    /// A partition with no broker.
    #[error("The manual partition assignment includes an empty replica list.")]
    Empty,
    /// A broker named twice for one partition.
    #[error("The manual partition assignment includes the broker {broker} more than once.")]
    Repeated {
        /// The broker.
        broker: BrokerId,
    },
    /// A broker that is no core of this server.
    #[error("The manual partition assignment includes broker {broker}, but no such broker is registered.")]
    UnknownBroker {
        /// The broker.
        broker: BrokerId,
    },
    /// Two replicas on one machine.
    #[error(
        "The manual partition assignment includes brokers {first} and {second}, which are cores of one machine; a server \
         started with --clamp-replication keeps only the first."
    )]
    OneMachine {
        /// The first broker.
        first: BrokerId,
        /// The one that is too many.
        second: BrokerId,
    },
    /// CreatePartitions with another number of assignments than new partitions.
    #[error("Attempted to add {added} additional partition(s), but only {assigned} assignment(s) were specified.")]
    Count {
        /// New partitions.
        added: i32,
        /// Assignments.
        assigned: usize,
    },
}

/// The most partitions that one request may make, as in Kafka.
pub const PARTITIONS_PER_REQUEST_MAX: i32 = 10_000;

/// The replication factor that a topic gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicationFactor {
    /// Replicas.
    pub replicas: i16,
    /// True where fewer were made than asked for (worth a line in the server's log).
    pub clamped: bool,
}

/// Judges a replication factor; -1 asks for `default_factor`. `clamp` is `--clamp-replication`.
///
/// # Errors
/// 0 and below -1; more than `machines`, unless clamped.
pub fn replication_factor(
    asked: i16,
    default_factor: i16,
    machines: i16,
    clamp: bool,
) -> Result<ReplicationFactor, PlacementError> {
    let factor = if asked == -1 { default_factor } else { asked };
    if factor < 1 {
        Err(PlacementError::ReplicationFactor)
    } else if factor <= machines {
        Ok(ReplicationFactor { replicas: factor, clamped: false })
    } else if clamp {
        Ok(ReplicationFactor { replicas: machines, clamped: true })
    } else {
        Err(PlacementError::TooFewMachines { factor, machines })
    }
}

/// Judges a number of partitions; -1 asks for `default_count`.
///
/// # Errors
/// Not above 0; above [`PARTITIONS_PER_REQUEST_MAX`].
pub fn partition_count(asked: i32, default_count: i32) -> Result<i32, PlacementError> {
    let count = if asked == -1 { default_count } else { asked };
    if count < 1 {
        Err(PlacementError::PartitionCount)
    } else if count > PARTITIONS_PER_REQUEST_MAX {
        Err(PlacementError::TooManyPartitions)
    } else {
        Ok(count)
    }
}

/// The core for each partition of a new topic whose placement was made by hand.
///
/// # Errors
/// Gaps between partition numbers, or brokers that [`assigned_core`] refuses.
pub fn assigned_cores(
    assignments: &[(i32, Vec<i32>)],
    node_id: i32,
    cores: &[CoreIndex],
    clamp: bool,
) -> Result<Vec<CoreIndex>, PlacementError> {
    let mut by_partition: Vec<(i32, &Vec<i32>)> =
        assignments.iter().map(|(partition, brokers)| (*partition, brokers)).collect();
    by_partition.sort_by_key(|(partition, _)| *partition);
    let mut placed = Vec::with_capacity(by_partition.len());
    for (_, brokers) in &by_partition {
        placed.push(assigned_core(brokers, node_id, cores, clamp)?);
    }
    let numbers_are_whole = by_partition.iter().zip(0i32..).all(|((partition, _), number)| *partition == number);
    if !numbers_are_whole {
        return Err(AssignmentError::Gap.into());
    }
    if by_partition.len() > PARTITIONS_PER_REQUEST_MAX as usize {
        return Err(PlacementError::TooManyPartitions);
    }
    Ok(placed)
}

/// The core that a list of brokers names.
///
/// # Errors
/// No broker, one named twice, one that is no core of this machine, more than one unless `clamp`.
pub fn assigned_core(
    brokers: &[i32],
    node_id: i32,
    cores: &[CoreIndex],
    clamp: bool,
) -> Result<CoreIndex, AssignmentError> {
    let mut seen = BTreeSet::new();
    let mut sorted = brokers.to_vec();
    sorted.sort_unstable();
    for broker in sorted.into_iter().map(BrokerId) {
        if !seen.insert(broker) {
            return Err(AssignmentError::Repeated { broker });
        }
        if broker.machine() != node_id || !cores.contains(&broker.core()) {
            return Err(AssignmentError::UnknownBroker { broker });
        }
    }
    match brokers {
        [] => Err(AssignmentError::Empty),
        [first, second, ..] if !clamp => {
            Err(AssignmentError::OneMachine { first: BrokerId(*first), second: BrokerId(*second) })
        }
        [first, ..] => Ok(BrokerId(*first).core()),
    }
}

/// How many partitions each core and each directory has; new ones are placed by it.
#[derive(Clone, Debug)]
pub struct Load {
    cores: BTreeMap<CoreIndex, usize>,
    directories: BTreeMap<DirectoryId, usize>,
    directory_order: Vec<DirectoryId>,
}

impl Load {
    /// Counts the partitions of `topics` over the cores and directories of the server.
    pub fn of<'a>(topics: impl Iterator<Item = &'a Topic>, cores: &[CoreIndex], directories: &[DirectoryId]) -> Self {
        let mut load = Self {
            cores: cores.iter().map(|core| (*core, 0)).collect(),
            directories: directories.iter().map(|directory| (*directory, 0)).collect(),
            directory_order: directories.to_vec(),
        };
        for partition in topics.flat_map(|topic| &topic.partitions) {
            load.count(partition.core, partition.directory);
        }
        load
    }

    /// Places `count` more partitions of a topic that has `existing` already.
    ///
    /// Each goes to the core with the fewest of this topic, then the fewest in all, then the next
    /// in a rotation that begins at `seed`: so a topic is spread even where cores are unevenly
    /// full, and small topics do not all begin on core 0. Returns nothing where there is no core
    /// or no directory.
    pub fn place(&mut self, existing: &[Partition], count: i32, seed: u64) -> Vec<Partition> {
        let cores: Vec<CoreIndex> = self.cores.keys().copied().collect();
        let mut of_topic: BTreeMap<CoreIndex, usize> = BTreeMap::new();
        for partition in existing {
            *of_topic.entry(partition.core).or_default() += 1;
        }
        let mut placed = Vec::new();
        for _ in 0..count.max(0) {
            let rank = |(place, core): &(usize, CoreIndex)| {
                let in_topic = of_topic.get(core).copied().unwrap_or(0);
                (in_topic, self.cores.get(core).copied().unwrap_or(0), rotated(*place, cores.len(), seed))
            };
            let Some((_, core)) = cores.iter().copied().enumerate().min_by_key(rank) else {
                break;
            };
            let Some(directory) = self.emptiest_directory() else {
                break;
            };
            *of_topic.entry(core).or_default() += 1;
            self.count(core, directory);
            placed.push(Partition { core, directory, leader_epoch: 0, placed_by_hand: false });
        }
        placed
    }

    /// Places partitions on the cores that somebody named; only directories are chosen here.
    pub fn place_by_hand(&mut self, cores: &[CoreIndex]) -> Vec<Partition> {
        let mut placed = Vec::with_capacity(cores.len());
        for &core in cores {
            let Some(directory) = self.emptiest_directory() else {
                break;
            };
            self.count(core, directory);
            placed.push(Partition { core, directory, leader_epoch: 0, placed_by_hand: true });
        }
        placed
    }

    /// The directory with the fewest partitions, the first of those.
    fn emptiest_directory(&self) -> Option<DirectoryId> {
        self.directory_order
            .iter()
            .copied()
            .min_by_key(|directory| self.directories.get(directory).copied().unwrap_or(0))
    }

    fn count(&mut self, core: CoreIndex, directory: DirectoryId) {
        if let Some(count) = self.cores.get_mut(&core) {
            *count += 1;
        }
        if let Some(count) = self.directories.get_mut(&directory) {
            *count += 1;
        }
    }
}

/// A partition that changes its core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// Its topic.
    pub topic_id: TopicId,
    /// Its number.
    pub partition: i32,
    /// Its new core.
    pub core: CoreIndex,
}

/// The fewest moves after which every partition has a core of `cores`.
///
/// Partitions whose core is gone move, also those placed by hand, each to the emptiest core. Where
/// `cores` has some that `cores_before` had not, the fullest cores also give partitions away until
/// no two differ by more than one, but never one that was placed by hand. With unchanged cores
/// nothing moves. The data stays in its directory, so that a move costs an epoch and no copy.
#[must_use]
pub fn replace<'a>(
    topics: impl Iterator<Item = &'a Topic>,
    cores_before: &[CoreIndex],
    cores: &[CoreIndex],
) -> Vec<Move> {
    let mut owned: BTreeMap<CoreIndex, Vec<Owned>> = cores.iter().map(|core| (*core, Vec::new())).collect();
    let mut homeless = Vec::new();
    for topic in topics {
        for (partition, number) in topic.partitions.iter().zip(0i32..) {
            let this = Owned { topic_id: topic.id, partition: number, fixed: partition.placed_by_hand, moved: false };
            match owned.get_mut(&partition.core) {
                Some(partitions) => partitions.push(this),
                None => homeless.push(this),
            }
        }
    }
    for partition in homeless {
        let Some(emptiest) = owned.values_mut().min_by_key(|partitions| partitions.len()) else {
            break;
        };
        emptiest.push(Owned { fixed: false, moved: true, ..partition });
    }
    if cores.iter().any(|core| !cores_before.contains(core)) {
        level(&mut owned);
    }
    let mut moves: Vec<Move> = Vec::new();
    for (core, partitions) in owned {
        for this in partitions.into_iter().filter(|this| this.moved) {
            moves.push(Move { topic_id: this.topic_id, partition: this.partition, core });
        }
    }
    moves.sort_by_key(|this| (this.topic_id, this.partition));
    moves
}

/// A partition in the hands of a core while cores are levelled.
#[derive(Clone, Copy)]
struct Owned {
    topic_id: TopicId,
    partition: i32,
    fixed: bool,
    moved: bool,
}

/// Moves partitions from the fullest core that may give to the emptiest, while that helps.
fn level(owned: &mut BTreeMap<CoreIndex, Vec<Owned>>) {
    loop {
        let emptiest =
            owned.iter().min_by_key(|(_, partitions)| partitions.len()).map(|(core, list)| (*core, list.len()));
        let movable = |list: &Vec<Owned>| list.iter().any(|this| !this.fixed);
        let fullest = owned
            .iter()
            .filter(|(_, list)| movable(list))
            .max_by_key(|(core, list)| (list.len(), std::cmp::Reverse(**core)))
            .map(|(core, list)| (*core, list.len()));
        let (Some((taker, few)), Some((giver, many))) = (emptiest, fullest) else {
            return;
        };
        if many < few + 2 {
            return;
        }
        let Some(list) = owned.get_mut(&giver) else {
            return;
        };
        // One that moved already costs nothing more; else one of the topic with most partitions here.
        let mut of_topic: BTreeMap<TopicId, usize> = BTreeMap::new();
        for this in list.iter() {
            *of_topic.entry(this.topic_id).or_default() += 1;
        }
        let best =
            (0..list.len()).filter(|place| list.get(*place).is_some_and(|this| !this.fixed)).max_by_key(|place| {
                list.get(*place).map(|this| (this.moved, of_topic.get(&this.topic_id).copied(), this.partition))
            });
        let Some(place) = best else { return };
        let given = list.swap_remove(place);
        if let Some(taken) = owned.get_mut(&taker) {
            taken.push(Owned { moved: true, ..given });
        }
    }
}

/// How far `place` is behind the start of the rotation, of `count` places.
fn rotated(place: usize, count: usize, seed: u64) -> usize {
    let start = usize::try_from(seed % count as u64).unwrap_or(0);
    (place + count - start) % count
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::{AssignmentError, Load, PlacementError, assigned_cores, partition_count, replace, replication_factor};
    use crate::control::id::{BrokerId, CoreIndex, DirectoryId};
    use crate::control::topic::{Partition, Topic};
    use crate::record::offset::TopicId;

    const DIRECTORIES: [DirectoryId; 2] = [DirectoryId([1; 16]), DirectoryId([2; 16])];

    fn core(index: u16) -> CoreIndex {
        CoreIndex::new(index).expect("in range")
    }

    fn topic(number: u8, cores: &[(u16, bool)]) -> Topic {
        let partitions = cores
            .iter()
            .map(|&(index, placed_by_hand)| Partition {
                core: core(index),
                directory: DIRECTORIES[0],
                leader_epoch: 0,
                placed_by_hand,
            })
            .collect();
        let name = Arc::from(format!("t{number}"));
        Topic { name, id: TopicId([number; 16]), created_ms: 0, partitions, configs: BTreeMap::new() }
    }

    #[test]
    fn a_topic_is_spread_even_over_uneven_cores() {
        let full = topic(1, &[(0, false), (0, false), (0, false), (1, false)]);
        for seed in 0..7 {
            let mut load = Load::of([&full].into_iter(), &CoreIndex::first(3), &DIRECTORIES);
            let placed = load.place(&[], 6, seed);
            let cores: Vec<u16> = placed.iter().map(|partition| partition.core.index()).collect();
            assert_eq!(cores, [2, 1, 0, 2, 1, 0], "seed {seed}");
            let in_second = placed.iter().filter(|partition| partition.directory == DIRECTORIES[1]).count();
            assert_eq!(in_second, 5, "seed {seed}: the empty directory fills first");
        }
    }

    #[test]
    fn the_first_core_rotates_by_topic() {
        let firsts: Vec<u16> = (0..6)
            .map(|seed| {
                Load::of([].into_iter(), &CoreIndex::first(3), &DIRECTORIES).place(&[], 1, seed)[0].core.index()
            })
            .collect();
        assert_eq!(firsts, [0, 1, 2, 0, 1, 2]);
        assert!(Load::of([].into_iter(), &[], &DIRECTORIES).place(&[], 2, 5).is_empty());
    }

    #[test]
    fn the_fewest_partitions_move_when_cores_change() {
        // (cores before, cores after, placements, moves)
        type Case = (u16, u16, Vec<(u16, bool)>, usize);
        let cases: Vec<Case> = vec![
            (2, 2, vec![(0, false), (0, false), (0, false)], 0),
            (3, 2, vec![(0, false), (1, false), (2, true)], 1),
            (1, 2, vec![(0, false); 4], 2),
            (1, 2, vec![(0, true); 4], 0),
            (1, 3, vec![(0, true), (0, true), (0, false), (0, false)], 2),
            (2, 4, vec![(0, false), (1, false), (0, false), (1, false)], 2),
            (4, 1, vec![(0, false), (1, false), (2, false), (3, false)], 3),
            (1, 0, vec![(0, false)], 0),
        ];
        for (before, after, placements, count) in cases {
            let subject = topic(1, &placements);
            let moves = replace([&subject].into_iter(), &CoreIndex::first(before), &CoreIndex::first(after));
            assert_eq!(moves.len(), count, "{before} -> {after}: {placements:?}");
            assert!(moves.iter().all(|this| this.core.index() < after), "{moves:?}");
        }
    }

    #[test]
    fn shapes_are_judged_with_kafkas_words() {
        let three = "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be reached because only 1 broker(s) are registered or some brokers have all their log directories cordoned.";
        let cases = [
            (3, false, Err(three)),
            (3, true, Ok(1)),
            (1, false, Ok(1)),
            (-1, false, Ok(1)),
            (0, true, Err("Replication factor must be larger than 0, or -1 to use the default value.")),
            (-2, true, Err("Replication factor must be larger than 0, or -1 to use the default value.")),
        ];
        for (asked, clamp, expected) in cases {
            match (replication_factor(asked, 1, 1, clamp), expected) {
                (Ok(factor), Ok(replicas)) => {
                    assert_eq!(factor.replicas, replicas, "factor {asked}")
                }
                (Err(error), Err(text)) => assert!(error.to_string().starts_with(text), "factor {asked}: {error}"),
                (answer, _) => panic!("factor {asked} clamp {clamp}: {answer:?}"),
            }
        }
        for (asked, answer) in [
            (-1, Ok(4)),
            (0, Err(PlacementError::PartitionCount)),
            (-2, Err(PlacementError::PartitionCount)),
            (10_000, Ok(10_000)),
            (10_001, Err(PlacementError::TooManyPartitions)),
        ] {
            assert_eq!(partition_count(asked, 4), answer, "count {asked}");
        }
    }

    #[test]
    fn assignments_by_hand_are_judged() {
        let unknown = |id| Err(AssignmentError::UnknownBroker { broker: BrokerId(id) });
        // (replicas by partition, the cores or why not)
        type Case = (Vec<(i32, Vec<i32>)>, Result<Vec<u16>, AssignmentError>);
        let cases: Vec<Case> = vec![
            (vec![(1, vec![1000]), (0, vec![1001])], Ok(vec![1, 0])),
            (vec![(0, vec![1002])], unknown(1002)),
            (vec![(0, vec![0])], unknown(0)),
            (vec![(0, vec![-1])], unknown(-1)),
            (vec![(0, vec![1000, 1000])], Err(AssignmentError::Repeated { broker: BrokerId(1000) })),
            (vec![(0, vec![])], Err(AssignmentError::Empty)),
            (vec![(1, vec![1000])], Err(AssignmentError::Gap)),
            (vec![(0, vec![1000]), (2, vec![1000])], Err(AssignmentError::Gap)),
            (
                vec![(0, vec![1000, 1001])],
                Err(AssignmentError::OneMachine { first: BrokerId(1000), second: BrokerId(1001) }),
            ),
        ];
        for (assignments, expected) in cases {
            let answer = assigned_cores(&assignments, 1, &CoreIndex::first(2), false);
            let cores = answer.map(|cores| cores.iter().map(|core| core.index()).collect::<Vec<_>>());
            assert_eq!(cores, expected.map_err(PlacementError::from), "{assignments:?}");
        }
        let clamped = assigned_cores(&[(0, vec![1001, 1000])], 1, &CoreIndex::first(2), true);
        assert_eq!(clamped, Ok(vec![core(1)]));
    }
}
