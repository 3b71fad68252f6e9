//! Classic groups under test: scenes, and random lives.

use std::collections::{BTreeMap, BTreeSet};

use crate::group::reply::{GroupReply, Joined, Synced};
use crate::group::request::{GroupRequest, Join, Leaver, Protocol, Speaker, Sync};
use crate::group::stage::{Stage, commit, committed_code, join_request, speaker};
use crate::record::coordination::{Ticket, TransactionalWriter};
use crate::record::offset::ProducerId;
use crate::ring::sim::random::Random;
use crate::wire::error_code::ErrorCode;

impl Stage {
    fn synced(&mut self, ticket: Ticket) -> Synced {
        match self.replies.remove(&ticket) {
            Some(GroupReply::Synced(synced)) => synced,
            other => panic!("no answer to a sync: {other:?}"),
        }
    }

    fn waits(&self, ticket: Ticket) -> bool {
        !self.replies.contains_key(&ticket)
    }

    /// A dynamic member that is given its id and comes again with it.
    fn enter(&mut self, client: &str) -> (String, Ticket) {
        let first = self.ask(join("", client));
        let refused = self.joined(first);
        assert_eq!(refused.error, ErrorCode::MemberIdRequired);
        let ticket = self.ask(join(&refused.member_id, client));
        (refused.member_id, ticket)
    }

    /// A stable group of these clients; says the members' ids, the leader first, and the generation.
    fn stable(&mut self, clients: &[&str]) -> (Vec<String>, i32) {
        let entered: Vec<(String, Ticket)> = clients.iter().map(|client| self.enter(client)).collect();
        self.pass_ms(60_000.min(3_000 * (clients.len() as u64 + 1)));
        let joined: Vec<Joined> = entered.iter().map(|(_, ticket)| self.joined(*ticket)).collect();
        let generation = joined[0].generation;
        let mut ids: Vec<String> = entered.iter().map(|(id, _)| id.clone()).collect();
        ids.sort_by_key(|id| *id != joined[0].leader);
        self.sync_all(&ids, generation);
        (ids, generation)
    }

    fn sync_all(&mut self, ids: &[String], generation: i32) {
        let assignments: Vec<(String, Vec<u8>)> =
            ids.iter().map(|id| (id.clone(), format!("for {id}").into_bytes())).collect();
        let mut tickets = Vec::new();
        for id in ids.iter().rev() {
            let is_leader = *id == ids[0];
            tickets
                .push((id, self.ask(sync(id, generation, if is_leader { assignments.clone() } else { Vec::new() }))));
        }
        for (id, ticket) in tickets {
            let synced = self.synced(ticket);
            assert_eq!((synced.error, synced.assignment), (ErrorCode::None, format!("for {id}").into_bytes()));
        }
    }

    pub(super) fn heartbeat(&mut self, id: &str, generation: i32) -> GroupReply {
        self.answer(GroupRequest::Heartbeat { group_id: "g".into(), speaker: speaker(id, generation) })
    }

    fn state(&mut self) -> String {
        match self.answer(GroupRequest::Describe { group_id: "g".into() }) {
            GroupReply::Described(group) => group.state,
            other => panic!("{other:?}"),
        }
    }
}

fn join(member_id: &str, client: &str) -> GroupRequest {
    GroupRequest::Join(join_request(member_id, client))
}

fn static_join(instance: &str, client: &str) -> GroupRequest {
    GroupRequest::Join(Join { instance_id: Some(instance.into()), ..join_request("", client) })
}

fn sync(member_id: &str, generation: i32, assignments: Vec<(String, Vec<u8>)>) -> GroupRequest {
    GroupRequest::Sync(Sync {
        group_id: "g".into(),
        speaker: speaker(member_id, generation),
        protocol_type: Some("consumer".into()),
        protocol_name: Some("range".into()),
        assignments,
    })
}

#[test]
fn members_wait_for_each_other_and_for_the_leader() {
    let mut stage = Stage::new();
    let (a, a_joins) = stage.enter("a");
    stage.pass_ms(2_000);
    let (b, b_joins) = stage.enter("b");
    stage.pass_ms(2_500);
    assert!(stage.waits(a_joins), "somebody has come in the delay, so it is waited for more");
    stage.pass_ms(3_000);
    let (for_a, for_b) = (stage.joined(a_joins), stage.joined(b_joins));
    assert_eq!((for_a.generation, for_b.generation, &for_a.leader), (1, 1, &a));
    assert_eq!((for_a.members.len(), for_b.members.len()), (2, 0));
    assert_eq!(stage.state(), "CompletingRebalance");
    let b_syncs = stage.ask(sync(&b, 1, Vec::new()));
    assert!(stage.waits(b_syncs));
    let a_syncs = stage.ask(sync(&a, 1, vec![(b.clone(), vec![2]), (a.clone(), vec![1])]));
    assert_eq!((stage.synced(a_syncs).assignment, stage.synced(b_syncs).assignment), (vec![1], vec![2]));
    assert_eq!(stage.state(), "Stable");
    assert_eq!(stage.heartbeat(&a, 1), GroupReply::Done);
    assert_eq!(stage.heartbeat(&a, 0), GroupReply::Refused(ErrorCode::IllegalGeneration));
    assert_eq!(stage.heartbeat("x", 1), GroupReply::Refused(ErrorCode::UnknownMemberId));

    // A third one comes: the others hear of it and join again.
    let (_, c_joins) = stage.enter("c");
    assert_eq!(stage.heartbeat(&a, 1), GroupReply::Refused(ErrorCode::RebalanceInProgress));
    let (a_joins, b_joins) = (stage.ask(join(&a, "a")), stage.ask(join(&b, "b")));
    let generations = [a_joins, b_joins, c_joins].map(|ticket| stage.joined(ticket).generation);
    assert_eq!(generations, [2, 2, 2]);
}

#[test]
fn who_leaves_or_is_silent_is_not_waited_for() {
    let mut stage = Stage::new();
    let (ids, generation) = stage.stable(&["a", "b", "c"]);
    let leaver = Leaver { member_id: ids[2].clone(), ..Leaver::default() };
    let unknown = Leaver { member_id: "x".into(), ..Leaver::default() };
    let left = stage.answer(GroupRequest::Leave { group_id: "g".into(), members: vec![leaver, unknown] });
    assert_eq!(left, GroupReply::Left(vec![ErrorCode::None, ErrorCode::UnknownMemberId]));
    let again = stage.ask(join(&ids[0], "a"));
    assert!(stage.waits(again), "the other one may still come");
    // The session of the other one ends.
    stage.pass_ms(10_000);
    let joined = stage.joined(again);
    assert_eq!((joined.generation, joined.members.len()), (generation + 1, 1));
    // Nobody asks for the assignment: the group is empty in the end.
    stage.pass_ms(200_000);
    assert_eq!(stage.state(), "Empty");
    assert_eq!(stage.reloaded().state(), "Empty");
}

#[test]
fn a_static_member_that_restarts_disturbs_nobody() {
    let mut stage = Stage::new();
    let a_joins = stage.ask(static_join("i", "a1"));
    let b_joins = stage.ask(static_join("j", "b1"));
    stage.pass_ms(9_000);
    let (a, b) = (stage.joined(a_joins), stage.joined(b_joins));
    assert_eq!((a.generation, b.generation), (1, 1));
    let ids =
        if a.leader == a.member_id { [a.member_id.clone(), b.member_id] } else { [b.member_id, a.member_id.clone()] };
    stage.sync_all(&ids, 1);
    let back = stage.ask(static_join("i", "a2"));
    let back = stage.joined(back);
    assert_eq!((back.error, back.generation, back.member_id.as_str()), (ErrorCode::None, 1, "a2-id"));
    assert_eq!(back.skip_assignment, back.leader == back.member_id);
    let stored = stage.ask(sync("a2-id", 1, Vec::new()));
    assert_eq!(stage.synced(stored).assignment, format!("for {}", a.member_id).into_bytes());
    let fenced = GroupRequest::Heartbeat {
        group_id: "g".into(),
        speaker: Speaker { member_id: a.member_id, instance_id: Some("i".into()), generation: 1 },
    };
    assert_eq!(stage.answer(fenced), GroupReply::Refused(ErrorCode::FencedInstanceId));
    let mut reloaded = stage.reloaded();
    assert_eq!(reloaded.heartbeat("a2-id", 1), GroupReply::Done, "the new id was written down");
    // It leaves by its instance alone.
    let leaver = Leaver { instance_id: Some("i".into()), ..Leaver::default() };
    let left = stage.answer(GroupRequest::Leave { group_id: "g".into(), members: vec![leaver] });
    assert_eq!(left, GroupReply::Left(vec![ErrorCode::None]));
    assert_eq!(stage.state(), "PreparingRebalance");
}

#[test]
fn c175_join_rules() {
    let mut stage = Stage::new();
    let unknown = stage.ask(join("nobody", "a"));
    assert_eq!(stage.joined(unknown).error, ErrorCode::UnknownMemberId);
    let (ids, generation) = stage.stable(&["a", "b"]);
    let other = Join { protocol_type: "connect".into(), ..join_request("", "x") };
    let other = stage.ask(GroupRequest::Join(other));
    assert_eq!(stage.joined(other).error, ErrorCode::InconsistentGroupProtocol);
    let none_in_common = Protocol { name: "sticky".into(), metadata: Vec::new() };
    let other = stage.ask(GroupRequest::Join(Join { protocols: vec![none_in_common], ..join_request("", "x") }));
    assert_eq!(stage.joined(other).error, ErrorCode::InconsistentGroupProtocol);
    let stale = stage.ask(sync(&ids[0], generation - 1, Vec::new()));
    assert_eq!(stage.synced(stale).error, ErrorCode::IllegalGeneration);
    // An old client is taken in at once, without an id of its own.
    let old = Join { requires_known_member_id: false, ..join_request("", "old") };
    let old = stage.ask(GroupRequest::Join(old));
    assert!(stage.waits(old));
    // The same again from a member that is not the leader is answered again; the group holds five.
    for (at, client) in ["d", "e"].iter().enumerate() {
        let (_, ticket) = stage.enter(client);
        assert!(stage.waits(ticket), "{at}");
    }
    let again: Vec<Ticket> = ids.iter().map(|id| stage.ask(join(id, "a"))).collect();
    assert_eq!(stage.joined(again[0]).generation, generation + 1);
    let sixth = stage.ask(join("", "f"));
    assert_eq!(stage.joined(sixth).error, ErrorCode::GroupMaxSizeReached);
}

#[test]
fn a_core_that_stood_still_holds_nothing_against_members() {
    let mut stage = Stage::new();
    let (ids, generation) = stage.stable(&["a", "b"]);
    let late_ms = stage.now.now_ms + 60_000;
    stage.move_clock(late_ms);
    stage.step(|coordinator, now, _| coordinator.stalled(now, 50_000));
    stage.step(|coordinator, now, effects| coordinator.tick(now, effects));
    for id in &ids {
        assert_eq!(stage.heartbeat(id, generation), GroupReply::Done);
    }
    // After a replay they have a full time-out as well.
    let mut reloaded = stage.reloaded();
    reloaded.pass_ms(9_000);
    assert_eq!(reloaded.heartbeat(&ids[1], generation), GroupReply::Done);
    reloaded.pass_ms(9_000);
    assert_eq!(reloaded.heartbeat(&ids[0], generation), GroupReply::Refused(ErrorCode::UnknownMemberId));
}

#[test]
fn offsets_are_for_members_and_for_those_without_a_group() {
    let mut stage = Stage::new();
    let ask = |stage: &mut Stage, speaker: Speaker| {
        committed_code(stage.answer(GroupRequest::CommitOffsets(commit(speaker, "t", 0, 5))))
    };
    assert_eq!(ask(&mut stage, speaker("x", 4)), ErrorCode::GroupIdNotFound);
    assert_eq!(ask(&mut stage, speaker("", -1)), ErrorCode::None);
    let (ids, generation) = stage.stable(&["a"]);
    assert_eq!(ask(&mut stage, speaker("", -1)), ErrorCode::UnknownMemberId);
    assert_eq!(ask(&mut stage, speaker(&ids[0], generation + 1)), ErrorCode::IllegalGeneration);
    assert_eq!(ask(&mut stage, speaker("x", generation)), ErrorCode::UnknownMemberId);
    assert_eq!(ask(&mut stage, speaker(&ids[0], generation)), ErrorCode::None);
    let mut long = commit(speaker(&ids[0], generation), "t", 1, 5);
    long.topics[0].partitions[0].metadata = "x".repeat(4_097);
    let long = stage.answer(GroupRequest::CommitOffsets(long));
    assert_eq!(committed_code(long), ErrorCode::OffsetMetadataTooLarge);
    assert_eq!((stage.committed("t", 0), stage.committed("t", 1)), (5, -1));
    // What its members read may not be taken back.
    let delete =
        |topic: &str| GroupRequest::DeleteOffsets { group_id: "g".into(), topics: vec![(topic.into(), vec![0])] };
    assert_eq!(committed_code(stage.answer(delete("t"))), ErrorCode::GroupSubscribedToTopic);
    assert_eq!(
        stage.answer(GroupRequest::Delete { group_id: "g".into() }),
        GroupReply::Refused(ErrorCode::NonEmptyGroup)
    );
    let leaver = Leaver { member_id: ids[0].clone(), ..Leaver::default() };
    stage.answer(GroupRequest::Leave { group_id: "g".into(), members: vec![leaver] });
    assert_eq!(committed_code(stage.answer(delete("t"))), ErrorCode::None);
    assert_eq!(stage.reloaded().committed("t", 0), -1);
    assert_eq!(stage.answer(GroupRequest::Delete { group_id: "g".into() }), GroupReply::Done);
    assert_eq!(stage.reloaded().state(), "Dead");
}

#[test]
fn offsets_expire_when_their_group_has_long_been_empty() {
    let mut stage = Stage::new();
    let (ids, generation) = stage.stable(&["a"]);
    let of_member = |topic: &str| GroupRequest::CommitOffsets(commit(speaker(&ids[0], generation), topic, 0, 5));
    stage.answer(of_member("t"));
    stage.answer(of_member("other"));
    let day_ms = 86_400_000;
    for _ in 0..8 * 24 * 60 * 10 {
        stage.pass_ms(6_000);
        assert_eq!(stage.heartbeat(&ids[0], generation), GroupReply::Done);
    }
    assert_eq!((stage.committed("t", 0), stage.committed("other", 0)), (5, -1), "it no longer reads the other topic");
    let leaver = Leaver { member_id: ids[0].clone(), ..Leaver::default() };
    stage.answer(GroupRequest::Leave { group_id: "g".into(), members: vec![leaver] });
    stage.pass_ms(6 * day_ms);
    assert_eq!(stage.committed("t", 0), 5);
    stage.pass_ms(2 * day_ms);
    assert_eq!((stage.committed("t", 0), stage.state().as_str()), (-1, "Dead"));
    assert_eq!(stage.reloaded().state(), "Dead");
}

#[test]
fn offsets_of_a_transaction_count_when_it_is_committed() {
    for committed in [true, false] {
        let mut stage = Stage::new();
        let writer = TransactionalWriter { producer_id: ProducerId(9), producer_epoch: 0, marker_count: None };
        let plain = |offset| GroupRequest::CommitOffsets(commit(speaker("", -1), "t", 0, offset));
        let mut pending = commit(speaker("", -1), "t", 1, 20);
        pending.writer = Some(writer);
        stage.answer(plain(1));
        stage.answer(GroupRequest::CommitOffsets(pending.clone()));
        pending.topics[0].partitions[0].index = 0;
        stage.answer(GroupRequest::CommitOffsets(pending));
        stage.answer(plain(30));
        assert_eq!((stage.committed("t", 0), stage.committed("t", 1)), (30, -1));
        let fetch = GroupRequest::FetchOffsets {
            group_id: "g".into(),
            topics: Some(vec![("t".into(), vec![1])]),
            speaker: None,
            require_stable: true,
        };
        let GroupReply::Offsets(unstable) = stage.answer(fetch) else { panic!("offsets") };
        assert_eq!(unstable[0].1[0].error, ErrorCode::UnstableOffsetCommit);
        let mut reloaded = stage.reloaded();
        for stage in [&mut stage, &mut reloaded] {
            stage.coordinator.transaction_ended(ProducerId(9), committed);
            assert_eq!(stage.committed("t", 1), if committed { 20 } else { -1 });
            assert_eq!(stage.committed("t", 0), 30, "a later commit stays");
        }
    }
}

/// Random members do random things for a while; see what must hold at the end of the loop's body.
#[test]
fn random_lives_keep_the_rules() {
    for seed in 0..300 {
        let random = Random::new(seed);
        let mut stage = Stage::new();
        let mut ids: Vec<String> = Vec::new();
        let mut asked: BTreeSet<Ticket> = BTreeSet::new();
        let mut generations: BTreeMap<i32, (String, BTreeSet<String>)> = BTreeMap::new();
        let mut generation = 0;
        let mut acknowledged: BTreeMap<i32, i64> = BTreeMap::new();
        for number in 0..120 {
            let id = if ids.is_empty() { String::new() } else { ids[random.index(ids.len())].clone() };
            match random.below(9) {
                0 => {
                    let ticket = stage.ask(join("", &format!("c{number}")));
                    asked.insert(ticket);
                }
                1 | 2 => {
                    asked.insert(stage.ask(join(&id, "c")));
                }
                3 | 4 => {
                    let assignments = ids.iter().map(|id| (id.clone(), vec![1])).collect();
                    asked.insert(stage.ask(sync(&id, generation, assignments)));
                }
                5 => {
                    let partition = random.index(3) as i32;
                    let request = commit(speaker(&id, generation), "t", partition, number);
                    if committed_code(stage.answer(GroupRequest::CommitOffsets(request))) == ErrorCode::None {
                        acknowledged.insert(partition, number);
                    }
                }
                6 => {
                    let leaver = Leaver { member_id: id, ..Leaver::default() };
                    stage.answer(GroupRequest::Leave { group_id: "g".into(), members: vec![leaver] });
                }
                7 => stage.pass_ms(random.below(12_000)),
                _ => {
                    stage.heartbeat(&id, generation);
                }
            }
            for (ticket, reply) in std::mem::take(&mut stage.replies) {
                assert!(asked.remove(&ticket), "seed {seed}: an answer to {ticket:?} twice");
                let GroupReply::Joined(joined) = reply else { continue };
                if joined.error == ErrorCode::MemberIdRequired {
                    ids.push(joined.member_id.clone());
                }
                if joined.error == ErrorCode::None {
                    generation = generation.max(joined.generation);
                    let known =
                        generations.entry(joined.generation).or_insert((joined.leader.clone(), BTreeSet::new()));
                    assert_eq!(known.0, joined.leader, "seed {seed}: two leaders of generation {}", joined.generation);
                    if joined.member_id == joined.leader {
                        known.1 = joined.members.iter().map(|member| member.member_id.clone()).collect();
                        assert!(known.1.contains(&joined.member_id), "seed {seed}");
                    }
                }
            }
            if number % 20 == 19 {
                let mut reloaded = stage.reloaded();
                for (partition, offset) in &acknowledged {
                    assert_eq!(stage.committed("t", *partition), *offset, "seed {seed}");
                    assert_eq!(reloaded.committed("t", *partition), *offset, "seed {seed}, after a replay");
                }
            }
        }
        // Whoever waits is answered in the end.
        stage.pass_ms(1_000_000);
        asked.retain(|ticket| !stage.replies.contains_key(ticket));
        assert!(asked.is_empty(), "seed {seed}: {asked:?} were never answered");
        assert!(["Empty", "Dead"].contains(&stage.state().as_str()), "seed {seed}");
    }
}
