//! Which connection of a load works on which partitions.

use std::collections::BTreeMap;

/// One connection: to one broker, working on some of the partitions that it leads, in turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LanePlan {
    /// The broker.
    pub broker_id: i32,
    /// The partitions, at least one.
    pub partitions: Vec<i32>,
}

/// A partition and the broker that leads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Led {
    /// The partition's index.
    pub partition: i32,
    /// Its leader.
    pub leader_id: i32,
}

/// Spreads partitions over connections.
///
/// With more connections than partitions, several work on the same partition. With fewer, each has its share of the
/// partitions of one leader; a leader that would be left without a connection gets one more.
pub fn plan(partitions: &[Led], connections: usize) -> Vec<LanePlan> {
    let mut lanes: Vec<LanePlan> = partitions
        .iter()
        .cycle()
        .take(if partitions.is_empty() { 0 } else { connections.max(1) })
        .map(|led| LanePlan { broker_id: led.leader_id, partitions: vec![led.partition] })
        .collect();
    // Where the next partition of each leader goes.
    let mut turns: BTreeMap<i32, usize> = BTreeMap::new();
    for led in partitions.iter().skip(connections.max(1)) {
        let same: Vec<usize> = lanes
            .iter()
            .enumerate()
            .filter(|(_, lane)| lane.broker_id == led.leader_id)
            .map(|(index, _)| index)
            .collect();
        let turn = turns.entry(led.leader_id).or_insert(0);
        match same.get(*turn % same.len().max(1)) {
            Some(&index) => {
                *turn += 1;
                if let Some(lane) = lanes.get_mut(index) {
                    lane.partitions.push(led.partition);
                }
            }
            None => lanes.push(LanePlan { broker_id: led.leader_id, partitions: vec![led.partition] }),
        }
    }
    lanes
}

/// The same connections after leaders have changed: each goes to its partitions' new leader, split where there are several.
pub fn follow(lanes: &[LanePlan], partitions: &[Led]) -> Vec<LanePlan> {
    let mut followed = Vec::with_capacity(lanes.len());
    for lane in lanes {
        let mut by_leader: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
        for &partition in &lane.partitions {
            let led = partitions.iter().find(|led| led.partition == partition);
            let leader_id = led.map_or(lane.broker_id, |led| led.leader_id);
            by_leader.entry(leader_id).or_default().push(partition);
        }
        followed.extend(by_leader.into_iter().map(|(broker_id, partitions)| LanePlan { broker_id, partitions }));
    }
    followed
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Partition i led by `leaders[i]`.
    fn led(leaders: &[i32]) -> Vec<Led> {
        let one = |(partition, &leader_id)| Led { partition: partition as i32, leader_id };
        leaders.iter().enumerate().map(one).collect()
    }

    fn lanes(list: &[(i32, &[i32])]) -> Vec<LanePlan> {
        let one = |&(broker_id, partitions): &(i32, &[i32])| LanePlan { broker_id, partitions: partitions.to_vec() };
        list.iter().map(one).collect()
    }

    #[test]
    fn connections_are_spread_over_leaders() {
        type Case = (&'static [i32], usize, &'static [(i32, &'static [i32])]);
        let cases: &[Case] = &[
            (&[1, 1], 2, &[(1, &[0]), (1, &[1])]),
            (&[1, 1], 4, &[(1, &[0]), (1, &[1]), (1, &[0]), (1, &[1])]),
            (&[1, 1, 1, 1], 1, &[(1, &[0, 1, 2, 3])]),
            (&[1, 2, 1, 2, 1, 2], 2, &[(1, &[0, 2, 4]), (2, &[1, 3, 5])]),
            (&[1, 2, 1, 2], 1, &[(1, &[0, 2]), (2, &[1, 3])]),
            (&[1, 1, 1, 1, 1], 2, &[(1, &[0, 2, 4]), (1, &[1, 3])]),
            (&[], 3, &[]),
        ];
        for (leaders, connections, expected) in cases {
            let planned = plan(&led(leaders), *connections);
            assert_eq!(planned, lanes(expected), "{leaders:?} {connections}");
        }
    }

    #[test]
    fn connections_follow_their_partitions() {
        let before = plan(&led(&[1, 1, 1, 1]), 2);
        assert_eq!(before, lanes(&[(1, &[0, 2]), (1, &[1, 3])]));
        let after = follow(&before, &led(&[1, 2, 2, 2]));
        assert_eq!(after, lanes(&[(1, &[0]), (2, &[2]), (2, &[1, 3])]));
    }
}
