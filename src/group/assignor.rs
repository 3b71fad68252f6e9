//! Who reads which partitions: Kafka's server-side assignors `uniform` and `range`.

use std::collections::{BTreeMap, BTreeSet};

use crate::group::topics::{Partitions, TopicInfo};

/// A way to assign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Assignor {
    /// As many partitions for each as for the others; what somebody has stays where it is as far as that goes.
    Uniform,
    /// Of each topic a range for each, in the order of members.
    Range,
}

impl Assignor {
    /// The one that is used where nobody asks for another.
    pub const DEFAULT: Self = Self::Uniform;

    /// Kafka's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Range => "range",
        }
    }

    /// The one of this name.
    pub fn of(name: &str) -> Option<Self> {
        [Self::Uniform, Self::Range].into_iter().find(|assignor| assignor.name() == name)
    }

    /// Assigns all partitions of all topics that members subscribe to.
    pub fn assign(self, members: &[Subscriber<'_>]) -> BTreeMap<String, Partitions> {
        match self {
            Self::Uniform => uniform(members),
            Self::Range => range(members),
        }
    }
}

/// A member, as an assignor sees it.
#[derive(Clone, Debug)]
pub struct Subscriber<'a> {
    /// Its id.
    pub member_id: &'a str,
    /// Set for a static member.
    pub instance_id: Option<&'a str>,
    /// The topics that it reads and that there are.
    pub topics: Vec<TopicInfo>,
    /// What it was assigned before.
    pub target: &'a Partitions,
}

fn range(members: &[Subscriber<'_>]) -> BTreeMap<String, Partitions> {
    let mut sorted: Vec<&Subscriber<'_>> = members.iter().collect();
    // Static members first, so that their ranges stay when others come and go.
    sorted.sort_by_key(|member| (member.instance_id.is_none(), member.instance_id, member.member_id));
    // Of each topic: members, then how many have had their share, and where the next one begins.
    let mut readers: BTreeMap<[u8; 16], (i32, i32, i32)> = BTreeMap::new();
    for topic in sorted.iter().flat_map(|member| &member.topics) {
        readers.entry(topic.id).or_default().0 += 1;
    }
    let mut assigned = BTreeMap::new();
    for member in sorted {
        let mut parts = Partitions::new();
        for topic in &member.topics {
            let Some((count, served, start)) = readers.get_mut(&topic.id) else { continue };
            let quota = topic.partition_count / *count + i32::from(*served < topic.partition_count % *count);
            let end = (*start + quota).min(topic.partition_count);
            if *start < end {
                parts.insert(topic.id, (*start..end).collect());
            }
            *served += 1;
            *start = end;
        }
        assigned.insert(member.member_id.to_owned(), parts);
    }
    assigned
}

fn uniform(members: &[Subscriber<'_>]) -> BTreeMap<String, Partitions> {
    let mut topics: BTreeMap<[u8; 16], i32> = BTreeMap::new();
    for topic in members.iter().flat_map(|member| &member.topics) {
        topics.insert(topic.id, topic.partition_count);
    }
    let reads: Vec<BTreeSet<[u8; 16]>> =
        members.iter().map(|member| member.topics.iter().map(|topic| topic.id).collect()).collect();
    // What they have and may keep.
    let mut held: Vec<BTreeSet<([u8; 16], i32)>> = vec![BTreeSet::new(); members.len()];
    let mut taken: BTreeSet<([u8; 16], i32)> = BTreeSet::new();
    for (at, member) in members.iter().enumerate() {
        for (topic, partitions) in member.target {
            let count = topics.get(topic).copied().unwrap_or(0);
            for partition in partitions.iter().filter(|partition| **partition < count && reads[at].contains(topic)) {
                if taken.insert((*topic, *partition)) {
                    held[at].insert((*topic, *partition));
                }
            }
        }
    }
    // What nobody has goes to whoever has least.
    for (topic, count) in &topics {
        for partition in 0..*count {
            if !taken.contains(&(*topic, partition)) {
                let least = (0..members.len()).filter(|at| reads[*at].contains(topic)).min_by_key(|at| held[*at].len());
                if let Some(at) = least {
                    held[at].insert((*topic, partition));
                }
            }
        }
    }
    balance(&mut held, &reads);
    let each = members.iter().zip(held).map(|(member, held)| {
        let mut parts = Partitions::new();
        for (topic, partition) in held {
            parts.entry(topic).or_default().insert(partition);
        }
        (member.member_id.to_owned(), parts)
    });
    each.collect()
}

/// Moves partitions from whoever has two more than another who may have them, until there is no such pair.
fn balance(held: &mut [BTreeSet<([u8; 16], i32)>], reads: &[BTreeSet<[u8; 16]>]) {
    // Each move makes the sum of squares smaller, so this ends; who has most gives first.
    loop {
        let mut order: Vec<usize> = (0..held.len()).collect();
        order.sort_by_key(|at| std::cmp::Reverse(held[*at].len()));
        let mut found = None;
        'search: for giver in &order {
            for taker in order.iter().rev() {
                if held[*giver].len() < held[*taker].len() + 2 {
                    break;
                }
                let movable = held[*giver].iter().rev().find(|(topic, _)| reads[*taker].contains(topic));
                if let Some(part) = movable {
                    found = Some((*giver, *taker, *part));
                    break 'search;
                }
            }
        }
        let Some((giver, taker, part)) = found else { return };
        held[giver].remove(&part);
        held[taker].insert(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::sim::random::Random;

    fn topic(number: u8, partition_count: i32) -> TopicInfo {
        TopicInfo { id: [number; 16], partition_count }
    }

    #[test]
    fn range_is_kafkas() {
        let none = Partitions::new();
        let member = |member_id, topics| Subscriber { member_id, instance_id: None, topics, target: &none };
        let members = [
            member("a", vec![topic(1, 3), topic(2, 4)]),
            member("b", vec![topic(1, 3), topic(2, 4)]),
            member("c", vec![topic(1, 3)]),
        ];
        let assigned = Assignor::Range.assign(&members);
        let of = |member: &str, number: u8| -> Vec<i32> {
            assigned[member].get(&[number; 16]).into_iter().flatten().copied().collect()
        };
        assert_eq!((of("a", 1), of("b", 1), of("c", 1)), (vec![0], vec![1], vec![2]));
        assert_eq!((of("a", 2), of("b", 2), of("c", 2)), (vec![0, 1], vec![2, 3], vec![]));
    }

    #[test]
    fn uniform_gives_all_evenly_and_moves_little() {
        for seed in 0..300 {
            let random = Random::new(seed);
            let topics: Vec<TopicInfo> =
                (0..random.between(1, 4)).map(|number| topic(number as u8 + 1, random.between(1, 12) as i32)).collect();
            let mut before: BTreeMap<String, Partitions> = BTreeMap::new();
            for round in 0..4 {
                let count = random.between(1, 6);
                let ids: Vec<String> = (0..count).map(|at| format!("m{}", at + random.below(3))).collect();
                let ids: BTreeSet<String> = ids.into_iter().collect();
                let none = Partitions::new();
                let members: Vec<Subscriber<'_>> = ids
                    .iter()
                    .map(|id| Subscriber {
                        member_id: id,
                        instance_id: None,
                        topics: topics.clone(),
                        target: before.get(id).unwrap_or(&none),
                    })
                    .collect();
                let assigned = Assignor::Uniform.assign(&members);
                let sizes: Vec<usize> =
                    assigned.values().map(|parts| parts.values().map(BTreeSet::len).sum()).collect();
                let total: usize = topics.iter().map(|topic| topic.partition_count as usize).sum();
                assert_eq!(sizes.iter().sum::<usize>(), total, "seed {seed} round {round}: each partition once");
                let (least, most) = (sizes.iter().min(), sizes.iter().max());
                assert!(most.zip(least).is_some_and(|(most, least)| most - least <= 1), "seed {seed}: {sizes:?}");
                let again: Vec<Subscriber<'_>> = members
                    .iter()
                    .map(|member| Subscriber { target: &assigned[member.member_id], ..member.clone() })
                    .collect();
                assert_eq!(Assignor::Uniform.assign(&again), assigned, "seed {seed}: nothing moves for nothing");
                before = assigned;
            }
        }
    }
}
