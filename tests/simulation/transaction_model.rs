//! What transactions must come to: a table of stages, and who may do what in each. Knows nothing of how they are done.

use std::collections::{BTreeMap, BTreeSet};

use alluvium::txn::stage::Identity;
use alluvium::wire::error_code::ErrorCode;

/// How far a transactional id is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Nothing is open; how the last transaction ended, where its producer has had one.
    Idle(Option<bool>),
    Open,
    /// Decided: a commit, or an abort.
    Ending(bool),
}

/// A transactional id.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    /// Who may go on.
    pub(crate) now: Identity,
    pub(crate) stage: Stage,
    /// Where it has records or offsets.
    pub(crate) partitions: BTreeSet<String>,
    pub(crate) timeout_ms: i64,
    pub(crate) began_ms: i64,
    pub(crate) changed_ms: i64,
    /// The producer id that follows the end, where epochs are used up.
    next_id: Option<i64>,
    /// The producer id before the last thing that happened.
    id_before: i64,
    /// The epoch of who was told of `now`, or will be: it may ask for that once more. Not written down.
    asked_from: Option<i16>,
}

/// Offsets of one partition of the group: the place of each commit, and what it says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Offsets {
    pub(crate) committed: Option<(u64, i64)>,
    pub(crate) pending: BTreeMap<i64, (u64, i64)>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    pub(crate) ids: BTreeMap<&'static str, Known>,
    pub(crate) offsets: BTreeMap<i32, Offsets>,
    commits: u64,
}

impl Model {
    /// InitProducerId. `fresh` is the producer id that it gets where it needs one.
    pub(crate) fn init(
        &mut self,
        id: &'static str,
        expected: Option<Identity>,
        timeout_ms: i32,
        fresh: i64,
        now_ms: i64,
    ) -> Result<Identity, ErrorCode> {
        if !(1..=TIMEOUT_MS_MAX).contains(&timeout_ms) {
            return Err(ErrorCode::InvalidTransactionTimeout);
        }
        let Some(known) = self.ids.get_mut(id) else {
            self.ids.insert(id, Known::new((fresh, 0), timeout_ms, now_ms));
            return Ok((fresh, 0));
        };
        if matches!(known.stage, Stage::Ending(_)) {
            return Err(ErrorCode::ConcurrentTransactions);
        }
        let is_heir = |expected: Identity| {
            expected.0 == known.now.0 || (expected.0 == known.id_before && expected.1 >= LAST_EPOCH)
        };
        if expected.is_some_and(|expected| !is_heir(expected)) {
            return Err(ErrorCode::ProducerFenced);
        }
        if known.stage == Stage::Open {
            known.decide(false, true, fresh, now_ms);
            return Err(ErrorCode::ConcurrentTransactions);
        }
        let epoch = expected.map(|(_, epoch)| epoch);
        let told = match epoch {
            Some(epoch) if epoch != known.now.1 && Some(epoch) == known.asked_from => known.now,
            Some(epoch) if epoch != known.now.1 => return Err(ErrorCode::ProducerFenced),
            _ if known.now.1 >= LAST_EPOCH => (fresh, 0),
            _ => (known.now.0, known.now.1 + 1),
        };
        let id_before = known.now.0;
        *known = Known { id_before, asked_from: epoch, ..Known::new(told, timeout_ms, now_ms) };
        Ok(told)
    }

    /// Who may ask for partitions.
    fn asker(&mut self, id: &'static str, who: Identity) -> Result<&mut Known, ErrorCode> {
        let known = self.ids.get_mut(id).ok_or(ErrorCode::InvalidProducerIdMapping)?;
        match (who, known.stage) {
            ((producer, _), _) if producer != known.now.0 => Err(ErrorCode::InvalidProducerIdMapping),
            ((_, epoch), _) if epoch != known.now.1 => Err(ErrorCode::ProducerFenced),
            (_, Stage::Ending(_)) => Err(ErrorCode::ConcurrentTransactions),
            _ => Ok(known),
        }
    }

    /// AddPartitionsToTxn, AddOffsetsToTxn, and what a partition's core asks in version 2.
    pub(crate) fn add(&mut self, id: &'static str, who: Identity, partition: &str, now_ms: i64) -> ErrorCode {
        if self.ids.get(id).is_some_and(|known| matches!(known.stage, Stage::Ending(_))) {
            return ErrorCode::ConcurrentTransactions;
        }
        let known = match self.asker(id, who) {
            Ok(known) => known,
            Err(error) => return error,
        };
        if known.stage == Stage::Open && known.partitions.contains(partition) {
            return ErrorCode::None;
        }
        if known.stage != Stage::Open {
            known.began_ms = now_ms;
        }
        (known.stage, known.changed_ms, known.id_before) = (Stage::Open, now_ms, known.now.0);
        known.partitions.insert(partition.to_owned());
        ErrorCode::None
    }

    /// What a partition's core asks in version 1.
    pub(crate) fn verify(&mut self, id: &'static str, who: Identity, partition: &str) -> ErrorCode {
        match self.asker(id, who) {
            Ok(known) if known.partitions.contains(partition) => ErrorCode::None,
            Ok(_) => ErrorCode::TransactionAbortable,
            Err(error) => error,
        }
    }

    /// EndTxn. `fresh` as in [`Model::init`].
    pub(crate) fn end(
        &mut self,
        id: &'static str,
        who: Identity,
        commits: bool,
        raises: bool,
        fresh: i64,
        now_ms: i64,
    ) -> Result<Identity, ErrorCode> {
        let known = self.ids.get_mut(id).ok_or(ErrorCode::InvalidProducerIdMapping)?;
        if raises && matches!(known.stage, Stage::Ending(_)) {
            return Err(ErrorCode::ConcurrentTransactions);
        }
        // Who comes by version 2 with the epoch before, has ended what was ended, whoever it was.
        let was_last = raises && who == (known.id_before, LAST_EPOCH) && known.now.1 == 0;
        let was_before = raises && who.1 < i16::MAX && known.now == (who.0, who.1 + 1);
        if who.0 != known.now.0 && !was_last {
            return Err(ErrorCode::InvalidProducerIdMapping);
        }
        if let Stage::Idle(Some(ended)) = known.stage
            && (was_last || was_before)
        {
            return if ended == commits { Ok(known.now) } else { Err(ErrorCode::InvalidTxnState) };
        }
        if who != known.now {
            return Err(ErrorCode::ProducerFenced);
        }
        match known.stage {
            Stage::Open => {}
            Stage::Ending(_) => return Err(ErrorCode::ConcurrentTransactions),
            // Version 2 does not say when it begins: it may abort nothing. Version 1 asks once more, with the same epoch.
            Stage::Idle(_) if raises && !commits => {}
            Stage::Idle(Some(ended)) if !raises && ended == commits => return Ok(known.now),
            Stage::Idle(_) => return Err(ErrorCode::InvalidTxnState),
        }
        Ok(known.decide(commits, raises, fresh, now_ms))
    }

    /// All markers are written.
    pub(crate) fn completed(&mut self, id: &str, now_ms: i64) {
        let known = self.ids.get_mut(id).expect("it was decided");
        let Stage::Ending(commits) = known.stage else { panic!("{id} is {known:?}") };
        if known.partitions.contains(OFFSETS) {
            for offsets in self.offsets.values_mut() {
                let pending = offsets.pending.remove(&known.now.0);
                if commits && pending.is_some_and(|pending| offsets.committed.is_none_or(|old| old.0 < pending.0)) {
                    offsets.committed = pending;
                }
            }
        }
        (known.stage, known.changed_ms) = (Stage::Idle(Some(commits)), now_ms);
        known.partitions.clear();
        known.id_before = known.now.0;
        if let Some(next_id) = known.next_id.take() {
            known.now = (next_id, 0);
        }
    }

    /// An offset is committed, by itself or in a transaction that was asked for.
    pub(crate) fn commit(&mut self, partition: i32, offset: i64, producer: Option<i64>) {
        self.commits += 1;
        let offsets = self.offsets.entry(partition).or_default();
        match producer {
            Some(producer) => _ = offsets.pending.insert(producer, (self.commits, offset)),
            None => offsets.committed = Some((self.commits, offset)),
        }
    }

    /// Time has passed: what is open for too long is aborted, what is idle for long is forgotten. `fresh` as in
    /// [`Model::init`], and those after it.
    pub(crate) fn tick(&mut self, now_ms: i64, mut fresh: i64) {
        for known in self.ids.values_mut() {
            if known.stage == Stage::Open && known.began_ms + known.timeout_ms < now_ms {
                fresh += i64::from(known.now.1 >= LAST_EPOCH);
                known.decide(false, true, fresh - 1, now_ms);
            }
        }
        self.ids.retain(|_, known| !matches!(known.stage, Stage::Idle(_)) || known.changed_ms + EXPIRATION_MS > now_ms);
    }

    /// What is not written down is forgotten.
    pub(crate) fn restart(&mut self) {
        for known in self.ids.values_mut() {
            known.asked_from = None;
        }
    }
}

impl Known {
    pub(crate) fn new(now: Identity, timeout_ms: i32, now_ms: i64) -> Self {
        Self {
            now,
            stage: Stage::Idle(None),
            partitions: BTreeSet::new(),
            timeout_ms: i64::from(timeout_ms),
            began_ms: 0,
            changed_ms: now_ms,
            next_id: None,
            id_before: -1,
            asked_from: None,
        }
    }

    /// The transaction will end so. Says who goes on.
    fn decide(&mut self, commits: bool, raises: bool, fresh: i64, now_ms: i64) -> Identity {
        (self.stage, self.changed_ms, self.id_before) = (Stage::Ending(commits), now_ms, self.now.0);
        if !raises {
            return self.now;
        }
        self.asked_from = Some(self.now.1);
        self.next_id = (self.now.1 >= LAST_EPOCH).then_some(fresh);
        self.now.1 = self.now.1.saturating_add(1);
        self.next_id.map_or(self.now, |next_id| (next_id, 0))
    }
}

/// Where offsets of the group are.
pub(crate) const OFFSETS: &str = "__consumer_offsets";
/// A producer with this epoch gets another id.
pub(crate) const LAST_EPOCH: i16 = i16::MAX - 1;
pub(crate) const TIMEOUT_MS_MAX: i32 = 60_000;
pub(crate) const EXPIRATION_MS: i64 = 1_000_000;
