//! Groups of the consumer protocol under test.

use std::collections::BTreeSet;

use crate::group::coordinator::GroupCoordinator;
use crate::group::reply::GroupReply;
use crate::group::request::{ConsumerHeartbeat, GroupRequest};
use crate::group::stage::{Stage, commit, committed_code, config, speaker};
use crate::group::topics::{Partitions, TopicInfo, Topics};
use crate::record::coordination::ReplayedRecord;
use crate::record::offset::Offset;
use crate::record::record_reader::{check_crc, read_records};
use crate::wire::error_code::ErrorCode;

fn beat(member_id: &str, member_epoch: i32, owned: Option<Partitions>) -> ConsumerHeartbeat {
    let is_joining = member_epoch == 0;
    ConsumerHeartbeat {
        group_id: "g".into(),
        member_id: member_id.into(),
        member_epoch,
        rebalance_timeout_ms: if is_joining { 30_000 } else { -1 },
        topics: is_joining.then(|| vec!["t".to_owned()]),
        owned: if is_joining { Some(Partitions::new()) } else { owned },
        client_host: "/127.0.0.1".into(),
        ..ConsumerHeartbeat::default()
    }
}

/// One topic, `t`, of six partitions.
struct OneTopic;

impl Topics for OneTopic {
    fn by_name(&self, name: &str) -> Option<TopicInfo> {
        (name == "t").then_some(TopicInfo { id: [1; 16], partition_count: 6 })
    }

    fn name_of(&self, id: [u8; 16]) -> Option<String> {
        (id == [1; 16]).then(|| "t".to_owned())
    }

    fn version(&self) -> u64 {
        1
    }

    fn each_name(&self, found: &mut dyn FnMut(&str)) {
        found("t");
    }
}

/// A member of the consumer protocol, as a client behaves: it takes what it is given, and gives back what it has to.
#[derive(Default)]
struct Consumer {
    id: String,
    epoch: i32,
    owned: Partitions,
}

impl Consumer {
    fn beat(&mut self, stage: &mut Stage) -> Result<(), ErrorCode> {
        let request = beat(&self.id, self.epoch, Some(self.owned.clone()));
        match stage.answer(GroupRequest::ConsumerHeartbeat(request)) {
            GroupReply::Beat(beat) => {
                self.epoch = beat.member_epoch;
                if let Some(assignment) = beat.assignment {
                    self.owned = assignment;
                }
                Ok(())
            }
            GroupReply::Refused(error) => {
                self.epoch = 0;
                self.owned = Partitions::new();
                Err(error)
            }
            other => panic!("{other:?}"),
        }
    }

    fn partitions(&self) -> BTreeSet<i32> {
        self.owned.values().flatten().copied().collect()
    }
}

#[test]
fn consumers_are_assigned_by_the_server_and_give_back_before_others_get() {
    let mut stage = Stage::new();
    stage.coordinator.set_topics(std::rc::Rc::new(OneTopic));
    let mut consumers: Vec<Consumer> =
        ["a", "b", "c"].into_iter().map(|id| Consumer { id: id.into(), ..Consumer::default() }).collect();
    for count in 1..=3 {
        for round in 0..6 {
            for at in 0..count {
                consumers[at].beat(&mut stage).expect("it goes on");
                let mut all: Vec<i32> = consumers.iter().flat_map(Consumer::partitions).collect();
                all.sort_unstable();
                let has_twice = all.windows(2).any(|pair| pair[0] == pair[1]);
                assert!(!has_twice, "{count} members, round {round}: {all:?}");
            }
        }
        let sizes: Vec<usize> = consumers[..count].iter().map(|one| one.partitions().len()).collect();
        assert_eq!(sizes, vec![6 / count; count], "{count} members");
    }
    assert_eq!(
        stage.heartbeat("a", 3),
        GroupReply::Refused(ErrorCode::UnknownMemberId),
        "it speaks the other protocol"
    );
    let commit_at = |epoch| GroupRequest::CommitOffsets(commit(speaker("a", epoch), "t", 0, 5));
    let epoch = consumers[0].epoch;
    assert_eq!(committed_code(stage.answer(commit_at(epoch - 1))), ErrorCode::StaleMemberEpoch);
    assert_eq!(committed_code(stage.answer(commit_at(epoch))), ErrorCode::None);

    // Another coordinator reads the log, and knows them all.
    let mut reloaded = stage.reloaded();
    reloaded.coordinator.set_topics(std::rc::Rc::new(OneTopic));
    for one in &mut consumers {
        let before = one.partitions();
        one.beat(&mut reloaded).expect("it is known");
        assert_eq!(one.partitions(), before, "a replay moves nothing");
    }
    assert_eq!(reloaded.committed("t", 0), 5);
    // One leaves, one is silent: the last has all in the end.
    let leave = beat("c", -1, None);
    assert!(matches!(stage.answer(GroupRequest::ConsumerHeartbeat(leave)), GroupReply::Beat(_)));
    for _ in 0..10 {
        stage.pass_ms(6_000);
        consumers[0].beat(&mut stage).expect("it goes on");
    }
    assert_eq!(consumers[0].partitions().len(), 6);
    assert_eq!(consumers[1].beat(&mut stage), Err(ErrorCode::UnknownMemberId));
    consumers[1].beat(&mut stage).expect("it joins again");
    for one in &consumers[..2] {
        let id = one.id.clone();
        assert!(matches!(stage.answer(GroupRequest::ConsumerHeartbeat(beat(&id, -1, None))), GroupReply::Beat(_)));
    }
    assert_eq!(stage.answer(GroupRequest::Delete { group_id: "g".into() }), GroupReply::Done);
    let mut reloaded = stage.reloaded();
    assert_eq!(
        reloaded.answer(GroupRequest::List { states: Vec::new(), types: Vec::new() }),
        GroupReply::Listed(Vec::new())
    );
}

#[test]
fn a_static_consumer_that_restarts_has_what_it_had() {
    let mut stage = Stage::new();
    stage.coordinator.set_topics(std::rc::Rc::new(OneTopic));
    let with_instance = |id: &str, epoch| ConsumerHeartbeat { instance_id: Some("i".into()), ..beat(id, epoch, None) };
    let ask =
        |stage: &mut Stage, id: &str, epoch| stage.answer(GroupRequest::ConsumerHeartbeat(with_instance(id, epoch)));
    let GroupReply::Beat(first) = ask(&mut stage, "x", 0) else { panic!("it joins") };
    let mut other = Consumer { id: "o".into(), ..Consumer::default() };
    other.beat(&mut stage).expect("it joins");
    assert_eq!(ask(&mut stage, "y", 0), GroupReply::Refused(ErrorCode::UnreleasedInstanceId));
    assert!(matches!(ask(&mut stage, "x", -2), GroupReply::Beat(_)));
    let mut stage = stage.reloaded();
    stage.coordinator.set_topics(std::rc::Rc::new(OneTopic));
    let GroupReply::Beat(back) = ask(&mut stage, "y", 0) else { panic!("it is back") };
    assert_eq!(back.assignment.map(|parts| parts.len()), first.assignment.map(|parts| parts.len()));
    assert_eq!(ask(&mut stage, "x", back.member_epoch), GroupReply::Refused(ErrorCode::FencedInstanceId));
}

/// A segment that a real Kafka 4.4.0 wrote for the prober's case of two members of the consumer protocol.
#[test]
fn a_group_of_kafkas_goes_on_here() {
    let segment: &[u8] = include_bytes!("../../tests/golden/groups/consumer.log");
    let mut coordinator = GroupCoordinator::new(config());
    let (mut rest, mut count, mut seen_at_16) = (segment, 0, None);
    while !rest.is_empty() {
        let header = check_crc(rest).expect("Kafka's CRC");
        let (batch, behind) = rest.split_at(header.len_bytes as usize);
        rest = behind;
        read_records(batch, usize::MAX, |record| {
            let (key, value) = (record.key.expect("records of coordinators have keys"), record.value);
            let replayed = ReplayedRecord { offset: Offset(count), writer: None, key, value };
            coordinator.replay(&replayed).unwrap_or_else(|error| panic!("record {count}: {error}"));
            count += 1;
            if count == 16 {
                let group =
                    coordinator.groups.values().next().and_then(|group| group.consumer.as_ref()).expect("a group");
                let each = group.members.values();
                let members: Vec<_> =
                    each.map(|one| (one.member_id.to_string(), one.epoch, one.assigned.clone())).collect();
                seen_at_16 = Some((group.epoch, group.assignment_epoch, group.state(), members));
            }
        })
        .expect("whole batches");
    }
    let (epoch, assignment_epoch, state, members) = seen_at_16.expect("more than 16 records");
    assert_eq!((epoch, assignment_epoch, state), (3, 3, "Stable"));
    let parts: Vec<_> = members
        .iter()
        .map(|(id, epoch, parts)| (id.as_str(), *epoch, parts.values().flatten().copied().collect::<Vec<i32>>()))
        .collect();
    assert_eq!(parts, [("a", 3, vec![0, 1]), ("b", 3, vec![2, 3])]);
    assert!(coordinator.groups.is_empty(), "in the end it was deleted");
}
