//! What a classic group and its committed offsets must come to: the answer to each request, and what falls due when.

use std::collections::BTreeMap;

use alluvium::group::reply::{GroupReply, Joined, Synced};
use alluvium::group::request::{CommitOffsets, Join, Leaver, Speaker, Sync};
use alluvium::record::coordination::Ticket;
use alluvium::wire::error_code::ErrorCode;

use crate::membership_rules::{Group, Phase, Step};

/// The group `g`, and its committed offsets.
pub(crate) struct Model {
    now_ms: u64,
    pub(crate) group: Option<Group>,
    /// The group as it was written down last.
    kept: Option<Group>,
    /// Something was committed since there is a group.
    has_committed: bool,
    pub(crate) offsets: BTreeMap<(String, i32), i64>,
    sweep_ms: u64,
    answers: BTreeMap<Ticket, GroupReply>,
}

impl Model {
    pub(crate) fn new(now_ms: u64) -> Self {
        Self {
            now_ms,
            group: None,
            kept: None,
            has_committed: false,
            offsets: BTreeMap::new(),
            sweep_ms: now_ms + SWEEP_EVERY_MS,
            answers: BTreeMap::new(),
        }
    }

    /// The answers since the last time.
    pub(crate) fn take_all(&mut self) -> BTreeMap<Ticket, GroupReply> {
        std::mem::take(&mut self.answers)
    }

    pub(crate) fn join(&mut self, ticket: Ticket, join: &Join) {
        if self.group.is_none() {
            if !join.member_id.is_empty() {
                self.answers.insert(ticket, Joined::refused(&join.member_id, ErrorCode::UnknownMemberId));
                return;
            }
            self.group = Some(Group::new());
            self.kept = Some(Group::new());
        }
        self.in_group(|group, step| group.join(ticket, join, step));
    }

    pub(crate) fn sync(&mut self, ticket: Ticket, sync: &Sync) {
        let refused = self.in_group(|group, step| group.sync(ticket, sync, step));
        if let Err(error) = refused.unwrap_or(Err(ErrorCode::UnknownMemberId)) {
            self.answers.insert(ticket, Synced::refused(error));
        }
    }

    pub(crate) fn heartbeat(&mut self, ticket: Ticket, speaker: &Speaker) {
        let answered = self.in_group(|group, step| group.heartbeat(speaker, step));
        let answered = answered.unwrap_or(Err(ErrorCode::UnknownMemberId));
        self.answers.insert(ticket, answered.map_or_else(GroupReply::Refused, |()| GroupReply::Done));
    }

    pub(crate) fn leave(&mut self, ticket: Ticket, leavers: &[Leaver]) {
        let codes = self.in_group(|group, step| group.leave(leavers, step));
        let codes = codes.unwrap_or_else(|| vec![ErrorCode::UnknownMemberId; leavers.len()]);
        self.answers.insert(ticket, GroupReply::Left(codes));
    }

    /// One offset.
    pub(crate) fn commit(&mut self, ticket: Ticket, commit: &CommitOffsets) {
        let (topic, partition) = (&commit.topics[0].name, &commit.topics[0].partitions[0]);
        let judged = self.in_group(|group, step| group.commit(&commit.speaker, step));
        let judged = judged.unwrap_or(match commit.speaker.generation {
            ..0 => Ok(()),
            _ if commit.tells_unknown_group => Err(ErrorCode::GroupIdNotFound),
            _ => Err(ErrorCode::IllegalGeneration),
        });
        let answer = match judged {
            Err(error) => GroupReply::Refused(error),
            Ok(()) if partition.metadata.len() > 4_096 => {
                one(topic, partition.index, ErrorCode::OffsetMetadataTooLarge)
            }
            Ok(()) => {
                self.group.get_or_insert_with(Group::new);
                self.has_committed = true;
                self.offsets.insert((topic.clone(), partition.index), partition.offset);
                one(topic, partition.index, ErrorCode::None)
            }
        };
        self.answers.insert(ticket, answer);
    }

    pub(crate) fn delete_offset(&mut self, ticket: Ticket, topic: &str, partition: i32) {
        let answer = match &self.group {
            None => GroupReply::Refused(ErrorCode::GroupIdNotFound),
            Some(group) if group.phase != Phase::Empty && !group.is_of_consumers() => {
                GroupReply::Refused(ErrorCode::NonEmptyGroup)
            }
            Some(group) if group.reads(topic) => one(topic, partition, ErrorCode::GroupSubscribedToTopic),
            Some(_) => {
                self.offsets.remove(&(topic.to_owned(), partition));
                one(topic, partition, ErrorCode::None)
            }
        };
        self.answers.insert(ticket, answer);
    }

    pub(crate) fn delete(&mut self, ticket: Ticket) {
        let answer = match &self.group {
            None => GroupReply::Refused(ErrorCode::GroupIdNotFound),
            Some(group) if group.phase != Phase::Empty => GroupReply::Refused(ErrorCode::NonEmptyGroup),
            Some(_) => {
                self.forget();
                GroupReply::Done
            }
        };
        self.answers.insert(ticket, answer);
    }

    fn forget(&mut self) {
        (self.group, self.kept, self.has_committed) = (None, None, false);
        self.offsets.clear();
    }

    /// Time goes by: of what is due at the same time, members come first, by id.
    pub(crate) fn pass_ms(&mut self, ms: u64) {
        let end_ms = self.now_ms + ms;
        while let Some((at_ms, due)) = self.next_due().filter(|(at_ms, _)| *at_ms <= end_ms) {
            self.now_ms = at_ms;
            match due {
                Due::Session(id) => self.in_group(|group, step| group.session_ended(&id, step)),
                Due::Join => self.in_group(|group, step| group.joins_are_due(step)),
                Due::Sync => self.in_group(|group, step| group.syncs_are_due(step)),
                Due::Sweep => {
                    self.sweep_ms = at_ms + SWEEP_EVERY_MS;
                    if self.group.as_ref().is_some_and(|group| group.phase == Phase::Empty) && self.offsets.is_empty() {
                        self.forget();
                    }
                    None
                }
            };
        }
        self.now_ms = end_ms;
    }

    fn next_due(&self) -> Option<(u64, Due)> {
        let mut all = vec![(self.sweep_ms, Due::Sweep)];
        if let Some(group) = &self.group {
            let members = group.members.iter().filter_map(|(id, member)| Some((member.heard_by_ms?, id)));
            let given_out = group.given_out.iter().map(|(id, by_ms)| (*by_ms, id));
            all.extend(members.chain(given_out).map(|(at_ms, id)| (at_ms, Due::Session(id.clone()))));
            all.extend(group.join_by_ms.map(|at_ms| (at_ms, Due::Join)));
            all.extend(group.sync_by_ms.map(|at_ms| (at_ms, Due::Sync)));
        }
        all.into_iter().min()
    }

    /// Another coordinator has read what was written down. Who waits is not answered any more.
    pub(crate) fn crash(&mut self) {
        self.group = self.kept.clone().or_else(|| self.has_committed.then(Group::new));
        for member in self.group.iter_mut().flat_map(|group| group.members.values_mut()) {
            member.heard_by_ms = Some(self.now_ms + member.session_ms);
        }
        self.sweep_ms = self.now_ms + SWEEP_EVERY_MS;
    }

    fn in_group<T>(&mut self, act: impl FnOnce(&mut Group, &mut Step<'_>) -> T) -> Option<T> {
        let group = self.group.as_mut()?;
        let mut step = Step { now_ms: self.now_ms, answers: &mut self.answers, kept: &mut self.kept };
        Some(act(group, &mut step))
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Session(String),
    Join,
    Sync,
    Sweep,
}

fn one(topic: &str, partition: i32, code: ErrorCode) -> GroupReply {
    GroupReply::Partitions(vec![(topic.to_owned(), vec![(partition, code)])])
}

/// `offsets.retention.check.interval.ms`.
const SWEEP_EVERY_MS: u64 = 600_000;
