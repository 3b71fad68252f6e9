//! Groups that go from one protocol to the other, under test.

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::group::config::{GroupConfig, MigrationPolicy};
use crate::group::coordinator::GroupCoordinator;
use crate::group::reply::{DescribedConsumers, GroupReply, Joined, Synced};
use crate::group::request::{ConsumerHeartbeat, GroupRequest, Join, Leaver, Protocol, Sync};
use crate::group::stage::{Stage, commit, committed_code, config, join_request, speaker};
use crate::group::subscription;
use crate::group::topics::{Partitions, TopicInfo, Topics};
use crate::wire::error_code::ErrorCode;
use crate::wire::messages::consumer_protocol_subscription::{ConsumerProtocolSubscription, TopicPartition};

/// Two topics of four partitions; `u` is there from the second version on.
pub(super) struct Catalog(pub(super) u64);

impl Topics for Catalog {
    fn by_name(&self, name: &str) -> Option<TopicInfo> {
        let id = match name {
            "t" => 1,
            "u" if self.0 > 1 => 2,
            _ => return None,
        };
        Some(TopicInfo { id: [id; 16], partition_count: 4 })
    }

    fn name_of(&self, id: [u8; 16]) -> Option<String> {
        let name = match id[0] {
            1 => "t",
            2 => "u",
            _ => return None,
        };
        Some(name.to_owned())
    }

    fn version(&self) -> u64 {
        self.0
    }

    fn each_name(&self, found: &mut dyn FnMut(&str)) {
        ["t", "u"].into_iter().filter(|name| self.by_name(name).is_some()).for_each(found);
    }
}

fn stage(config: GroupConfig) -> Stage {
    let mut stage = Stage::new();
    stage.coordinator = GroupCoordinator::new(config);
    stage.coordinator.set_topics(Rc::new(Catalog(1)));
    stage
}

fn reloaded(stage: &Stage) -> Stage {
    let mut stage = stage.reloaded();
    stage.coordinator.set_topics(Rc::new(Catalog(1)));
    stage
}

pub(super) fn parts(of: &[i32]) -> Partitions {
    if of.is_empty() { Partitions::new() } else { Partitions::from([([1; 16], of.iter().copied().collect())]) }
}

fn protocol(owned: &[i32]) -> Protocol {
    let mut metadata = vec![0, 1];
    let owned_partitions = vec![TopicPartition { topic: "t", partitions: owned.to_vec() }];
    let said = ConsumerProtocolSubscription { topics: vec!["t"], owned_partitions, ..Default::default() };
    said.encode(&mut metadata, 1).expect("short names");
    Protocol { name: "range".into(), metadata }
}

pub(super) fn join(member_id: &str, owned: &[i32]) -> Join {
    Join { protocols: vec![protocol(owned)], ..join_request(member_id, "c") }
}

fn beat(member_id: &str, member_epoch: i32) -> ConsumerHeartbeat {
    let is_joining = member_epoch == 0;
    ConsumerHeartbeat {
        group_id: "g".into(),
        member_id: member_id.into(),
        member_epoch,
        rebalance_timeout_ms: if is_joining { 30_000 } else { -1 },
        topics: is_joining.then(|| vec!["t".to_owned()]),
        owned: is_joining.then(Partitions::new),
        client_host: "/127.0.0.1".into(),
        ..ConsumerHeartbeat::default()
    }
}

impl Stage {
    fn joins(&mut self, join: Join) -> Joined {
        match self.answer(GroupRequest::Join(join)) {
            GroupReply::Joined(joined) => joined,
            other => panic!("{other:?}"),
        }
    }

    fn syncs(&mut self, member_id: &str, generation: i32, assignments: Vec<(String, Vec<u8>)>) -> Synced {
        let (protocol_type, protocol_name) = (Some("consumer".to_owned()), Some("range".to_owned()));
        let speaker = speaker(member_id, generation);
        let sync = Sync { group_id: "g".into(), speaker, protocol_type, protocol_name, assignments };
        match self.answer(GroupRequest::Sync(sync)) {
            GroupReply::Synced(synced) => synced,
            other => panic!("{other:?}"),
        }
    }

    /// The partitions of `t` that a classic member is told of.
    fn assigned(&mut self, member_id: &str, generation: i32) -> Vec<i32> {
        let synced = self.syncs(member_id, generation, Vec::new());
        assert_eq!(synced.error, ErrorCode::None);
        let assigned = subscription::assigned(&synced.assignment, &Catalog(2)).expect("an assignment");
        assigned.into_values().flatten().collect()
    }

    fn beats(&mut self, beat: ConsumerHeartbeat) -> Result<(i32, Option<Vec<i32>>), ErrorCode> {
        match self.answer(GroupRequest::ConsumerHeartbeat(beat)) {
            GroupReply::Beat(beat) => {
                let parts = beat.assignment.map(|parts| parts.into_values().flatten().collect());
                Ok((beat.member_epoch, parts))
            }
            GroupReply::Refused(error) => Err(error),
            other => panic!("{other:?}"),
        }
    }

    fn described(&mut self) -> Option<Box<DescribedConsumers>> {
        match self.answer(GroupRequest::DescribeConsumer { group_id: "g".into() }) {
            GroupReply::ConsumerDescribed(group) => Some(group),
            GroupReply::Refused(ErrorCode::GroupIdNotFound) => None,
            other => panic!("{other:?}"),
        }
    }

    /// A classic group of one member that has all of `t`.
    fn classic_group(&mut self) -> String {
        let member_id = self.joins(join("", &[])).member_id;
        let ticket = self.ask(GroupRequest::Join(join(&member_id, &[])));
        self.pass_ms(4_000);
        assert_eq!(self.joined(ticket).error, ErrorCode::None);
        let all = subscription::assignment(&parts(&[0, 1, 2, 3]), &protocol(&[]).metadata, &Catalog(1));
        assert_eq!(self.syncs(&member_id, 1, vec![(member_id.clone(), all)]).error, ErrorCode::None);
        member_id
    }
}

#[test]
fn a_classic_group_is_upgraded_one_member_at_a_time_and_nothing_is_read_twice() {
    let mut stage = stage(config());
    let old = stage.classic_group();
    assert_eq!(stage.beats(beat("n", 5)), Err(ErrorCode::GroupIdNotFound), "it does not join");
    assert_eq!(stage.beats(beat("n", 0)), Ok((2, Some(vec![]))), "all is taken yet");
    let group = stage.described().expect("it speaks the other protocol now");
    let members: Vec<_> = group.members.iter().map(|one| (one.member_id.as_str(), one.epoch, one.is_classic)).collect();
    assert_eq!(members, [(old.as_str(), 1, true), ("n", 2, false)]);
    // What the old one has committed and says stays valid until it joins again.
    assert_eq!(stage.heartbeat(&old, 1), GroupReply::Refused(ErrorCode::RebalanceInProgress));
    let commit_at = |epoch| GroupRequest::CommitOffsets(commit(speaker("c-id", epoch), "t", 0, 5));
    assert_eq!(committed_code(stage.answer(commit_at(1))), ErrorCode::None);
    assert_eq!(committed_code(stage.answer(commit_at(0))), ErrorCode::IllegalGeneration);
    assert_eq!(stage.syncs(&old, 1, Vec::new()).error, ErrorCode::RebalanceInProgress);

    for mut stage in [reloaded(&stage), stage] {
        // Kafka's answers to the same: it is told to give two back, gives them back, and the other one gets them.
        let joined = stage.joins(join(&old, &[0, 1, 2, 3]));
        assert_eq!((joined.error, joined.generation, joined.leader.as_str()), (ErrorCode::None, 1, ""));
        assert_eq!(stage.assigned(&old, 1).len(), 2);
        let kept = stage.assigned(&old, 1);
        assert_eq!(stage.beats(beat("n", 2)), Ok((2, None)), "they are not free yet");
        assert_eq!(stage.heartbeat(&old, 1), GroupReply::Refused(ErrorCode::RebalanceInProgress));
        let joined = stage.joins(join(&old, &kept));
        assert_eq!(joined.generation, 2);
        assert_eq!(stage.assigned(&old, 2), kept);
        assert_eq!(stage.heartbeat(&old, 2), GroupReply::Done);
        let (epoch, others) = stage.beats(beat("n", 2)).expect("it goes on");
        let all: BTreeSet<i32> = kept.iter().copied().chain(others.expect("the others")).collect();
        assert_eq!((epoch, all.len()), (2, 4));
        assert_eq!(stage.described().map(|group| group.state), Some("Stable"));
        // The old one is restarted with the new protocol.
        let leaver = Leaver { member_id: old.clone(), ..Leaver::default() };
        let left = stage.answer(GroupRequest::Leave { group_id: "g".into(), members: vec![leaver] });
        assert_eq!(left, GroupReply::Left(vec![ErrorCode::None]));
        assert!(
            stage.described().is_some_and(|group| group.members.len() == 1),
            "no way back: it has no classic member"
        );
        assert_eq!(stage.committed("t", 0), 5);
    }
}

#[test]
fn a_group_whose_last_consumer_goes_is_a_classic_one_again() {
    for by_leaving in [true, false] {
        let mut stage = stage(config());
        assert_eq!(stage.beats(beat("n", 0)).map(|(_, parts)| parts), Ok(Some(vec![0, 1, 2, 3])));
        let given = stage.joins(join("", &[]));
        assert_eq!((given.error, given.member_id.as_str()), (ErrorCode::MemberIdRequired, "c-id"));
        let joined = stage.joins(join("c-id", &[]));
        assert_eq!(joined.error, ErrorCode::None);
        assert_eq!(stage.assigned("c-id", joined.generation), [0; 0]);
        let mut stage = if by_leaving { reloaded(&stage) } else { stage };
        let epoch = stage.described().expect("it is there").epoch;
        if by_leaving {
            assert_eq!(stage.beats(beat("n", -1)), Ok((-1, None)));
        } else {
            // The consumer is silent; the other one says that it is there.
            for _ in 0..9 {
                stage.pass_ms(5_000);
                stage.heartbeat("c-id", joined.generation);
            }
        }
        assert!(stage.described().is_none());
        let mut stage = reloaded(&stage);
        let told = GroupReply::Refused(ErrorCode::RebalanceInProgress);
        assert_eq!(stage.heartbeat("c-id", joined.generation), told, "also where the coordinator was read again");
        let again = stage.ask(GroupRequest::Join(join("c-id", &[])));
        stage.pass_ms(10_000);
        let again = stage.joined(again);
        assert_eq!((again.error, again.leader.as_str()), (ErrorCode::None, "c-id"), "by leaving: {by_leaving}");
        assert!(again.generation > epoch, "generations go on from epochs");
    }
}

#[test]
fn static_members_go_over_and_back_without_a_rebalance() {
    let mut stage = stage(config());
    let instance = || Some("i".to_owned());
    let ticket = stage.ask(GroupRequest::Join(Join { instance_id: instance(), ..join("", &[]) }));
    stage.pass_ms(4_000);
    let old = stage.joined(ticket).member_id;
    let all = subscription::assignment(&parts(&[0, 1, 2, 3]), &protocol(&[]).metadata, &Catalog(1));
    stage.syncs(&old, 1, vec![(old.clone(), all)]);
    let upgraded = stage.beats(ConsumerHeartbeat { instance_id: instance(), ..beat("n", 0) });
    assert_eq!(upgraded, Ok((1, Some(vec![0, 1, 2, 3]))), "it has what the one before had");
    let back = stage.joins(Join { instance_id: instance(), new_member_id: "back".into(), ..join("", &[]) });
    assert_eq!((back.error, back.generation), (ErrorCode::None, 1));
    assert!(stage.described().is_none(), "all are classic again");
    assert_eq!(stage.heartbeat("back", 1), GroupReply::Done);
    assert_eq!(stage.assigned("back", 1), [0, 1, 2, 3]);
    // Another coordinator cannot know that nobody had to join again.
    assert_eq!(reloaded(&stage).heartbeat("back", 1), GroupReply::Refused(ErrorCode::RebalanceInProgress));
}

#[test]
fn who_does_not_come_in_time_is_out() {
    for syncs in [false, true] {
        let mut stage = stage(config());
        let old = stage.classic_group();
        stage.beats(beat("n", 0)).expect("it joins");
        assert_eq!(stage.heartbeat(&old, 1), GroupReply::Refused(ErrorCode::RebalanceInProgress));
        let generation = if syncs { stage.joins(join(&old, &[0, 1])).generation } else { 1 };
        // It says that it is there, but neither joins again nor asks for its assignment.
        for _ in 0..13 {
            stage.pass_ms(5_000);
            let epoch = stage
                .described()
                .expect("a group")
                .members
                .iter()
                .find(|one| one.member_id == "n")
                .map(|one| one.epoch);
            stage.beats(beat("n", epoch.expect("it is there"))).expect("it goes on");
            stage.heartbeat(&old, generation);
        }
        assert_eq!(
            stage.heartbeat(&old, generation),
            GroupReply::Refused(ErrorCode::UnknownMemberId),
            "syncs: {syncs}"
        );
    }
}

#[test]
fn the_policy_and_what_is_not_understood_keep_a_group_as_it_is() {
    let may = |policy| {
        let mut stage = stage(GroupConfig { group_consumer_migration_policy: policy, ..config() });
        stage.classic_group();
        let upgraded = stage.beats(beat("n", 0)).is_ok();
        let mut stage = self::stage(GroupConfig { group_consumer_migration_policy: policy, ..config() });
        stage.beats(beat("n", 0)).expect("a group of its own");
        let joined = stage.joins(join("x", &[])).error == ErrorCode::None;
        stage.beats(beat("n", -1)).expect("it leaves");
        (upgraded, joined, joined && stage.described().is_none())
    };
    let all = [
        MigrationPolicy::Bidirectional,
        MigrationPolicy::Upgrade,
        MigrationPolicy::Downgrade,
        MigrationPolicy::Disabled,
    ];
    let expected = [(true, true, true), (true, true, false), (false, true, true), (false, false, false)];
    assert_eq!(all.map(may), expected);

    let mut stage = stage(config());
    let member_id = stage.joins(join("", &[])).member_id;
    let ticket = stage.ask(GroupRequest::Join(join(&member_id, &[])));
    stage.pass_ms(4_000);
    stage.joined(ticket);
    stage.syncs(&member_id, 1, vec![(member_id.clone(), b"mine".to_vec())]);
    assert_eq!(stage.beats(beat("n", 0)), Err(ErrorCode::GroupIdNotFound));
    assert_eq!(stage.heartbeat(&member_id, 1), GroupReply::Done, "nothing has happened");
}

#[test]
fn regular_expressions_follow_the_topics() {
    let mut stage = stage(config());
    let join = ConsumerHeartbeat { topics: None, regex: Some("[tu]".into()), ..beat("n", 0) };
    assert_eq!(stage.beats(join), Ok((1, Some(vec![0, 1, 2, 3]))));
    assert!(stage.described().is_some_and(|group| group.members[0].regex == "[tu]"));
    for mut stage in [reloaded(&stage), stage] {
        assert_eq!(stage.beats(beat("n", 1)), Ok((1, None)));
        stage.coordinator.set_topics(Rc::new(Catalog(2)));
        let (epoch, all) = stage.beats(beat("n", 1)).expect("it goes on");
        assert_eq!((epoch, all.map(|all| all.len())), (2, Some(8)), "a topic that is new");
        let delete =
            |topic: &str| GroupRequest::DeleteOffsets { group_id: "g".into(), topics: vec![(topic.into(), vec![0])] };
        assert_eq!(committed_code(stage.answer(delete("u"))), ErrorCode::GroupSubscribedToTopic);
        let narrow = ConsumerHeartbeat { regex: Some("u".into()), ..beat("n", 2) };
        let (_, kept) = stage.beats(narrow).expect("it goes on");
        assert_eq!(kept.map(|kept| kept.len()), Some(4));
        assert_eq!(committed_code(stage.answer(delete("t"))), ErrorCode::None);
    }
}

#[test]
fn a_group_is_assigned_anew_only_so_often() {
    let mut stage = stage(GroupConfig { group_consumer_assignment_interval_ms: 1_000, ..config() });
    assert_eq!(stage.beats(beat("a", 0)), Ok((1, Some(vec![0, 1, 2, 3]))));
    assert_eq!(stage.beats(beat("b", 0)), Ok((1, Some(vec![]))), "it is in, and waits");
    assert_eq!(
        stage.described().map(|group| (group.state, group.epoch, group.assignment_epoch)),
        Some(("Assigning", 2, 1))
    );
    stage.pass_ms(999);
    assert_eq!(stage.beats(beat("a", 1)), Ok((1, None)));
    stage.pass_ms(1);
    let (_, kept) = stage.beats(beat("a", 1)).expect("it goes on");
    assert_eq!(kept.map(|kept| kept.len()), Some(2));
}
