//! Random lives of groups whose members speak either protocol, as cooperative clients do: nothing is ever read by two.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::group::conversion_rehearsal::{Catalog, join, parts};
use crate::group::reply::{GroupReply, Joined};
use crate::group::request::{ConsumerHeartbeat, GroupRequest, Leaver, Sync};
use crate::group::stage::{Stage, config, speaker};
use crate::group::subscription;
use crate::group::topics::Partitions;
use crate::record::coordination::Ticket;
use crate::ring::sim::random::Random;
use crate::wire::error_code::ErrorCode;

/// What a client waits for.
#[derive(Default)]
enum Waits {
    #[default]
    Nothing,
    Join(Ticket),
    Sync(Ticket),
}

/// A member, by either protocol.
#[derive(Default)]
struct Life {
    name: String,
    is_consumer: bool,
    id: String,
    epoch: i32,
    /// It has joined, and has to be told what it has.
    is_in: bool,
    owned: BTreeSet<i32>,
    waits: Waits,
}

impl Life {
    fn new(name: String, is_consumer: bool) -> Self {
        let id = if is_consumer { name.clone() } else { String::new() };
        Self { name, is_consumer, id, ..Self::default() }
    }

    fn owned(&self) -> Vec<i32> {
        self.owned.iter().copied().collect()
    }

    /// It was thrown out: it gives up all that it has, and begins anew.
    fn lose(&mut self) {
        *self = Self::new(self.name.clone(), self.is_consumer);
    }

    /// One step, as a client takes it.
    fn act(&mut self, stage: &mut Stage) {
        if self.is_consumer {
            return self.beat(stage);
        }
        match self.waits {
            Waits::Join(ticket) => {
                if let Some(GroupReply::Joined(joined)) = stage.take(ticket) {
                    self.joined(stage, &joined);
                }
            }
            Waits::Sync(ticket) => {
                if let Some(GroupReply::Synced(synced)) = stage.take(ticket) {
                    self.waits = Waits::Nothing;
                    match synced.error {
                        ErrorCode::None => self.assigned(stage, &synced.assignment),
                        ErrorCode::RebalanceInProgress => self.join(stage),
                        _ => self.lose(),
                    }
                }
            }
            Waits::Nothing if !self.is_in => self.join(stage),
            Waits::Nothing => match stage.heartbeat(&self.id, self.epoch) {
                GroupReply::Done => {}
                GroupReply::Refused(ErrorCode::RebalanceInProgress) => self.join(stage),
                _ => self.lose(),
            },
        }
    }

    fn join(&mut self, stage: &mut Stage) {
        let mut request = join(&self.id, &self.owned());
        request.new_member_id = format!("{}-id", self.name);
        self.waits = Waits::Join(stage.ask(GroupRequest::Join(request)));
    }

    fn joined(&mut self, stage: &mut Stage, joined: &Joined) {
        self.waits = Waits::Nothing;
        match joined.error {
            ErrorCode::None => {
                (self.id, self.epoch, self.is_in) = (joined.member_id.clone(), joined.generation, true);
                let assignments = if joined.leader == self.id { assign(joined) } else { Vec::new() };
                let sync = Sync {
                    group_id: "g".into(),
                    speaker: speaker(&self.id, self.epoch),
                    protocol_type: Some("consumer".into()),
                    protocol_name: Some("range".into()),
                    assignments,
                };
                self.waits = Waits::Sync(stage.ask(GroupRequest::Sync(sync)));
            }
            ErrorCode::MemberIdRequired => {
                self.id.clone_from(&joined.member_id);
                self.join(stage);
            }
            ErrorCode::RebalanceInProgress => {}
            _ => self.lose(),
        }
    }

    fn assigned(&mut self, stage: &mut Stage, assignment: &[u8]) {
        let assigned = subscription::assigned(assignment, &Catalog(1)).expect("an assignment");
        let assigned: BTreeSet<i32> = assigned.into_values().flatten().collect();
        let gives_back = !self.owned.is_subset(&assigned);
        self.owned = assigned;
        if gives_back {
            // As cooperative clients: what it has given back is for others, in another rebalance.
            self.join(stage);
        }
    }

    fn beat(&mut self, stage: &mut Stage) {
        let is_joining = self.epoch == 0;
        let beat = ConsumerHeartbeat {
            group_id: "g".into(),
            member_id: self.id.clone(),
            member_epoch: self.epoch,
            rebalance_timeout_ms: if is_joining { 60_000 } else { -1 },
            topics: is_joining.then(|| vec!["t".to_owned()]),
            owned: Some(if is_joining { Partitions::new() } else { parts(&self.owned()) }),
            ..ConsumerHeartbeat::default()
        };
        match stage.answer(GroupRequest::ConsumerHeartbeat(beat)) {
            GroupReply::Beat(beat) => {
                self.epoch = beat.member_epoch;
                if let Some(assignment) = beat.assignment {
                    self.owned = assignment.into_values().flatten().collect();
                }
            }
            _ => self.lose(),
        }
    }

    fn leave(&mut self, stage: &mut Stage) {
        if self.is_consumer {
            let beat = ConsumerHeartbeat {
                group_id: "g".into(),
                member_id: self.id.clone(),
                member_epoch: -1,
                ..ConsumerHeartbeat::default()
            };
            stage.answer(GroupRequest::ConsumerHeartbeat(beat));
        } else if !self.id.is_empty() {
            let leaver = Leaver { member_id: self.id.clone(), ..Leaver::default() };
            stage.answer(GroupRequest::Leave { group_id: "g".into(), members: vec![leaver] });
        }
    }
}

/// A cooperative assignor, in the leader: each keeps what it has up to its share; what others have is given to nobody yet.
fn assign(joined: &Joined) -> Vec<(String, Vec<u8>)> {
    let said = joined.members.iter().map(|member| {
        let said = subscription::subscription(&member.metadata, &Catalog(1)).expect("a subscription");
        let owned: BTreeSet<i32> = said.owned.into_values().flatten().collect();
        (member.member_id.clone(), owned)
    });
    let owned: BTreeMap<String, BTreeSet<i32>> = said.collect();
    let share = 4_usize.div_ceil(owned.len());
    let taken: BTreeSet<i32> = owned.values().flatten().copied().collect();
    let mut free: Vec<i32> = (0..4).filter(|partition| !taken.contains(partition)).collect();
    let each = owned.into_iter().map(|(id, owned)| {
        let mut mine: Vec<i32> = owned.into_iter().take(share).collect();
        while mine.len() < share
            && let Some(partition) = free.pop()
        {
            mine.push(partition);
        }
        (id, subscription::assignment(&parts(&mine), &[0, 1], &Catalog(1)))
    });
    each.collect()
}

#[track_caller]
fn judge(lives: &[Life], seed: u64, what: &str) {
    let mut seen = BTreeMap::new();
    for life in lives {
        for partition in &life.owned {
            if let Some(other) = seen.insert(*partition, &life.name) {
                panic!("seed {seed}, {what}: {partition} is read by {other} and {}", life.name);
            }
        }
    }
}

#[test]
fn nothing_is_read_by_two_whatever_protocols_they_speak_and_all_is_read_in_the_end() {
    let (mut upgrades, mut downgrades) = (0, 0);
    for seed in 0..150 {
        let random = Random::new(seed);
        let mut stage = Stage::new();
        stage.coordinator.set_topics(Rc::new(Catalog(1)));
        let mut lives: Vec<Life> = Vec::new();
        let mut was_consumer = false;
        for number in 0..60 {
            match random.below(6) {
                0 | 1 if lives.len() < config().group_max_size as usize => {
                    lives.push(Life::new(format!("m{number}"), random.coin()));
                }
                2 if !lives.is_empty() => {
                    let mut gone = lives.swap_remove(random.index(lives.len()));
                    gone.leave(&mut stage);
                }
                3 if random.below(4) == 0 => {
                    // Another coordinator reads the log; who waits is sent away, and asks again.
                    stage = stage.reloaded();
                    stage.coordinator.set_topics(Rc::new(Catalog(1)));
                    for life in &mut lives {
                        if !matches!(std::mem::take(&mut life.waits), Waits::Nothing) {
                            life.join(&mut stage);
                        }
                    }
                }
                _ => {}
            }
            for _ in 0..random.between(1, 6) {
                if !lives.is_empty() {
                    let at = random.index(lives.len());
                    lives[at].act(&mut stage);
                    judge(&lives, seed, &format!("step {number}"));
                }
                stage.pass_ms(random.below(1_000));
            }
            // Nobody is silent for so long that it is thrown out without knowing.
            for at in 0..lives.len() {
                lives[at].act(&mut stage);
                judge(&lives, seed, &format!("step {number}"));
            }
            let is_consumer = stage.coordinator.groups.get("g").is_some_and(|group| group.consumer.is_some());
            upgrades += usize::from(is_consumer && !was_consumer);
            downgrades += usize::from(!is_consumer && was_consumer);
            was_consumer = is_consumer;
        }
        for _ in 0..60 {
            for life in &mut lives {
                life.act(&mut stage);
            }
            judge(&lives, seed, "the end");
            stage.pass_ms(500);
        }
        let read: usize = lives.iter().map(|life| life.owned.len()).sum();
        assert_eq!(read, if lives.is_empty() { 0 } else { 4 }, "seed {seed}: {} members", lives.len());
    }
    assert!(upgrades > 50 && downgrades > 50, "{upgrades} upgrades, {downgrades} downgrades");
}
