//! Random requests to the coordinator of a classic group, with time, crashes and replays in between: each answer, whenever it
//! comes, and all that can be seen after it, is what the model says.

use std::collections::BTreeMap;

use alluvium::group::reply::GroupReply;
use alluvium::group::request::{GroupRequest, Join, Leaver, Protocol, Speaker, Sync};
use alluvium::group::stage::{Stage, commit, join_request, subscription};
use alluvium::ring::sim::random::Random;

use crate::membership_model::Model;
use crate::membership_rules::Phase;
use crate::seeds::seeds;

const GROUP: &str = "g";
const TOPICS: [&str; 2] = ["t", "u"];
const INSTANCES: [&str; 2] = ["i", "j"];

/// One seed: what is asked, of the server and of the model.
struct Walk {
    random: Random,
    stage: Stage,
    model: Model,
    /// Ids that were given out, newest last, with their instances.
    known: Vec<(String, Option<String>)>,
    clients: u32,
    /// How often each answer came.
    answers: BTreeMap<String, u32>,
}

impl Walk {
    fn new(seed: u64) -> Self {
        let (random, stage) = (Random::new(seed), Stage::new());
        let model = Model::new(stage.now_ms());
        Self { random, stage, model, known: Vec::new(), clients: 0, answers: BTreeMap::new() }
    }

    fn pick<T: Copy>(&self, from: &[T]) -> T {
        from[self.random.index(from.len())]
    }

    /// Mostly a member that there is, else one that was, or that never was.
    fn who(&self) -> (String, Option<String>) {
        let group = self.model.group.as_ref();
        let members: Vec<_> = group.iter().flat_map(|group| &group.members).collect();
        match self.random.below(12) {
            0 => ("nobody".to_owned(), None),
            1..4 if !self.known.is_empty() => self.known[self.random.index(self.known.len())].clone(),
            4 => {
                // An instance alone, or one that is another's.
                let (id, _) = self.known.last().filter(|_| self.random.coin()).cloned().unwrap_or_default();
                (id, Some(self.pick(&INSTANCES).to_owned()))
            }
            _ if members.is_empty() => self.known.last().cloned().unwrap_or_default(),
            _ => {
                let (id, member) = members[self.random.index(members.len())];
                (id.clone(), member.instance.clone())
            }
        }
    }

    fn speaker(&self) -> Speaker {
        let (member_id, instance_id) = self.who();
        let generation = self.model.group.as_ref().map_or(0, |group| group.generation);
        let generation = if self.random.below(10) == 0 { generation - 1 } else { generation };
        Speaker { member_id, instance_id, generation }
    }

    fn join_of(&mut self, member_id: &str, instance_id: Option<String>) -> Join {
        self.clients += 1;
        let offers: &[&str] = match self.random.below(12) {
            0 => &["sticky"],
            1..4 => &["sticky", "range"],
            4..8 => &["range", "sticky"],
            8 => &[],
            _ => &["range"],
        };
        let reads = self.pick(&[&TOPICS[..1], &TOPICS[..1], &TOPICS]);
        let protocols = offers.iter().map(|name| Protocol { name: (*name).to_owned(), metadata: subscription(reads) });
        Join {
            instance_id,
            protocols: protocols.collect(),
            protocol_type: if self.random.below(15) == 0 { "connect" } else { "consumer" }.to_owned(),
            session_timeout_ms: self.pick(&[6_000, 10_000, 10_001, 30_000]),
            rebalance_timeout_ms: self.pick(&[500, 5_000, 20_000, 60_000]),
            requires_known_member_id: self.random.below(5) > 0,
            supports_skipping_assignment: self.random.coin(),
            ..join_request(member_id, &format!("c{}", self.clients))
        }
    }

    fn step(&mut self) -> String {
        // Nothing happens at the same time as something else, but what is due at the same time.
        self.pass_ms(1);
        match self.random.below(100) {
            0..12 => {
                let instance = (self.random.below(4) == 0).then(|| self.pick(&INSTANCES).to_owned());
                let join = self.join_of("", instance);
                self.join(join)
            }
            12..32 => {
                let (id, instance) = self.who();
                let mut join = self.join_of(&id, instance);
                // As it said before, mostly.
                if let Some(member) = self.model.group.as_ref().and_then(|group| group.members.get(&id))
                    && self.random.coin()
                {
                    join.protocols = member.protocols.clone();
                }
                self.join(join)
            }
            32..54 => {
                let mut speaker = self.speaker();
                let group = self.model.group.as_ref();
                if let Some(leader) = group.and_then(|group| group.leader.clone())
                    && self.random.below(3) == 0
                {
                    speaker.instance_id = group.and_then(|group| group.members.get(&leader)?.instance.clone());
                    speaker.member_id = leader;
                }
                let assignments = group.iter().flat_map(|group| group.members.keys());
                let assignments: Vec<(String, Vec<u8>)> = assignments
                    .filter(|_| self.random.below(6) > 0)
                    .map(|id| (id.clone(), vec![self.random.below(256) as u8]))
                    .collect();
                let name = self.pick(&[None, Some("range"), Some("sticky")]).map(str::to_owned);
                let name = if self.random.below(4) > 0 { group.and_then(|group| group.protocol.clone()) } else { name };
                let sync = Sync {
                    group_id: GROUP.to_owned(),
                    speaker,
                    protocol_type: self.pick(&[None, Some("consumer")]).map(str::to_owned),
                    protocol_name: name,
                    assignments,
                };
                let ticket = self.stage.ask(GroupRequest::Sync(sync.clone()));
                self.model.sync(ticket, &sync);
                format!("{ticket:?} {sync:?}")
            }
            54..66 => {
                let speaker = self.speaker();
                let group_id = GROUP.to_owned();
                let ticket = self.stage.ask(GroupRequest::Heartbeat { group_id, speaker: speaker.clone() });
                self.model.heartbeat(ticket, &speaker);
                format!("{ticket:?} heartbeat of {speaker:?}")
            }
            66..71 => {
                let leaver = |(member_id, instance_id)| Leaver { member_id, instance_id, reason: None };
                let count = 1 + self.random.index(2);
                let members: Vec<Leaver> = (0..count).map(|_| leaver(self.who())).collect();
                let group_id = GROUP.to_owned();
                let ticket = self.stage.ask(GroupRequest::Leave { group_id, members: members.clone() });
                self.model.leave(ticket, &members);
                format!("{ticket:?} leave of {members:?}")
            }
            71..80 => {
                let speaker = match self.random.below(4) {
                    0 => Speaker { generation: -1, ..Speaker::default() },
                    _ => self.speaker(),
                };
                let mut commit = commit(speaker, self.pick(&TOPICS), 0, self.random.below(1_000) as i64);
                commit.tells_unknown_group = self.random.coin();
                if self.random.below(8) == 0 {
                    commit.topics[0].partitions[0].metadata = "x".repeat(4_097);
                }
                let ticket = self.stage.ask(GroupRequest::CommitOffsets(commit.clone()));
                self.model.commit(ticket, &commit);
                format!("{ticket:?} commit of {:?}", commit.speaker)
            }
            80..84 => {
                let (group_id, topic) = (GROUP.to_owned(), self.pick(&TOPICS));
                let topics = vec![(topic.to_owned(), vec![0])];
                let ticket = self.stage.ask(GroupRequest::DeleteOffsets { group_id, topics });
                self.model.delete_offset(ticket, topic, 0);
                format!("{ticket:?} the offset of {topic} goes")
            }
            84 => {
                let ticket = self.stage.ask(GroupRequest::Delete { group_id: GROUP.to_owned() });
                self.model.delete(ticket);
                format!("{ticket:?} the group goes")
            }
            85..98 => {
                let ms = self.random.below(self.pick(&[100, 1_000, 3_000, 3_000, 12_000, 70_000]));
                let ms = if self.random.below(40) == 0 { 700_000 } else { ms };
                self.pass_ms(ms);
                format!("{ms} ms")
            }
            _ => {
                self.stage = self.stage.reloaded();
                self.model.crash();
                "crash".to_owned()
            }
        }
    }

    fn pass_ms(&mut self, ms: u64) {
        self.stage.pass_ms(ms);
        self.model.pass_ms(ms);
    }

    fn join(&mut self, join: Join) -> String {
        let ticket = self.stage.ask(GroupRequest::Join(join.clone()));
        self.model.join(ticket, &join);
        format!("{ticket:?} {join:?}")
    }

    /// All answers, and all that can be seen, are as the model has it.
    fn check(&mut self) -> String {
        let (found, meant) = (self.stage.take_all(), self.model.take_all());
        assert!(found == meant, "answered: {found:#?}, and the model says {meant:#?}");
        for reply in found.values() {
            let name = match reply {
                GroupReply::Joined(joined) => {
                    let known = self.known.iter().any(|(id, _)| *id == joined.member_id);
                    if !known && !joined.member_id.is_empty() {
                        self.known.push((joined.member_id.clone(), None));
                    }
                    format!("joined {:?}", joined.error)
                }
                GroupReply::Synced(synced) => format!("synced {:?}", synced.error),
                GroupReply::Left(codes) => format!("left {:?}", codes[0]),
                GroupReply::Partitions(topics) => format!("offset {:?}", topics[0].1[0].1),
                other => format!("{other:?}"),
            };
            *self.answers.entry(name).or_default() += 1;
        }
        for topic in TOPICS {
            let meant = self.model.offsets.get(&(topic.to_owned(), 0)).copied().unwrap_or(-1);
            assert_eq!(self.stage.committed(topic, 0), meant, "offset of {topic}");
        }
        let described = self.stage.answer(GroupRequest::Describe { group_id: GROUP.to_owned() });
        let GroupReply::Described(described) = described else { panic!("{described:?}") };
        let members = described.members.into_iter().map(|one| (one.member_id, one.instance_id, one.assignment));
        let group = self.model.group.as_ref();
        let meant = group.iter().flat_map(|group| &group.members);
        let meant = meant.map(|(id, one)| (id.clone(), one.instance.clone(), one.assignment.clone()));
        assert_eq!(members.collect::<Vec<_>>(), meant.collect::<Vec<_>>());
        let state = match group.map(|group| group.phase) {
            None => "Dead",
            Some(Phase::Empty) => "Empty",
            Some(Phase::Joining { .. }) => "PreparingRebalance",
            Some(Phase::Assigning) => "CompletingRebalance",
            Some(Phase::Stable) => "Stable",
        };
        assert_eq!(described.state, state);
        let kind = group.and_then(|group| group.kind.clone()).unwrap_or_default();
        assert_eq!(described.protocol_type, kind);
        format!("  -> {found:?}, {state}")
    }
}

#[test]
fn a_classic_group_and_its_offsets_are_as_a_simple_model_says() {
    let mut answers: BTreeMap<String, u32> = BTreeMap::new();
    let range = seeds(200);
    let is_whole = range.end - range.start >= 200;
    for seed in range {
        let mut story = Vec::new();
        let walked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut walk = Walk::new(seed);
            for _ in 0..200 {
                story.push(walk.step());
                story.push(walk.check());
            }
            // Whoever waits is answered in the end, and nobody is left.
            walk.pass_ms(1_000_000);
            story.push(walk.check());
            let group = walk.model.group.as_ref();
            assert!(group.is_none_or(|group| group.phase == Phase::Empty), "{group:?} after a long time");
            walk.answers
        }));
        match walked {
            Ok(given) => given.into_iter().for_each(|(answer, count)| *answers.entry(answer).or_default() += count),
            Err(_) => panic!("seed {seed}, after:\n  {}", story[story.len().saturating_sub(30)..].join("\n  ")),
        }
    }
    for wanted in EACH_COMES {
        assert!(!is_whole || answers.contains_key(wanted), "{wanted} never came: {answers:#?}");
    }
}

/// A walk that never comes to one of these shows less than it says.
const EACH_COMES: [&str; 27] = [
    "joined None",
    "joined MemberIdRequired",
    "joined UnknownMemberId",
    "joined InconsistentGroupProtocol",
    "joined GroupMaxSizeReached",
    "joined RebalanceInProgress",
    "joined FencedInstanceId",
    "joined UnknownServerError",
    "synced None",
    "synced UnknownMemberId",
    "synced IllegalGeneration",
    "synced InconsistentGroupProtocol",
    "synced RebalanceInProgress",
    "synced FencedInstanceId",
    "Done",
    "Refused(UnknownMemberId)",
    "Refused(IllegalGeneration)",
    "Refused(RebalanceInProgress)",
    "Refused(FencedInstanceId)",
    "Refused(GroupIdNotFound)",
    "Refused(NonEmptyGroup)",
    "left None",
    "left UnknownMemberId",
    "left FencedInstanceId",
    "offset None",
    "offset OffsetMetadataTooLarge",
    "offset GroupSubscribedToTopic",
];
