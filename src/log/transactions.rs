//! The transactions of one partition that hold readers back: open ones, and ended ones whose marker is not durable yet.

use std::collections::BTreeMap;

use crate::log::partition_log::Place;
use crate::log::plan::SegmentId;
use crate::log::producer_state::TransactionChange;
use crate::log::transaction_index::AbortedTransaction;
use crate::record::offset::{Offset, ProducerId};

/// By planned state, like the producers: an append that fails is taken back here too.
#[derive(Debug, Default)]
pub(in crate::log) struct Transactions {
    /// By first offset, with the place where its first batch begins.
    open: BTreeMap<Offset, (ProducerId, Place)>,
    /// The same, with the offset of the marker. They go when the high watermark has passed that.
    ended: BTreeMap<Offset, (ProducerId, Place, Offset)>,
}

impl Transactions {
    /// Those that were open when the partition was opened.
    pub(in crate::log) fn opened(open: impl IntoIterator<Item = (Offset, ProducerId, Place)>) -> Self {
        let open = open.into_iter().map(|(first, producer_id, at)| (first, (producer_id, at))).collect();
        Self { open, ended: BTreeMap::new() }
    }

    /// Takes in what a batch at `offset`, which begins at `at`, has changed; for an abort says what the index gets.
    pub(in crate::log) fn apply(
        &mut self,
        producer_id: ProducerId,
        change: TransactionChange,
        offset: Offset,
        at: Place,
    ) -> Option<AbortedTransaction> {
        match change {
            TransactionChange::Begun => {
                self.open.insert(offset, (producer_id, at));
                None
            }
            TransactionChange::Ended { first_offset, is_commit } => {
                if let Some((producer_id, at)) = self.open.remove(&first_offset) {
                    self.ended.insert(first_offset, (producer_id, at, offset));
                }
                let next_open = self.open.keys().next().copied();
                (!is_commit).then(|| AbortedTransaction {
                    producer_id,
                    first_offset,
                    last_offset: offset,
                    last_stable_offset: next_open.unwrap_or(offset.plus(1)),
                })
            }
        }
    }

    /// The batch at `offset` was not written: what it changed is undone. The latest first.
    pub(in crate::log) fn take_back(&mut self, change: TransactionChange, offset: Offset) {
        match change {
            TransactionChange::Begun => {
                self.open.remove(&offset);
            }
            TransactionChange::Ended { first_offset, .. } => {
                if let Some((producer_id, at, _)) = self.ended.remove(&first_offset) {
                    self.open.insert(first_offset, (producer_id, at));
                }
            }
        }
    }

    /// Markers below it are durable: the transactions that they ended hold nobody back any more.
    pub(in crate::log) fn passed(&mut self, high_watermark: Offset) {
        if !self.ended.is_empty() {
            self.ended.retain(|_, (.., marker)| *marker >= high_watermark);
        }
    }

    /// First offset of the oldest transaction that readers may not pass, and where it lies.
    pub(in crate::log) fn first_unstable(&self) -> Option<(Offset, Place)> {
        let open = self.open.first_key_value().map(|(first, (_, at))| (*first, *at));
        let ended = self.ended.first_key_value().map(|(first, (_, at, _))| (*first, *at));
        open.into_iter().chain(ended).min_by_key(|(first, _)| *first)
    }

    /// Those that are open.
    pub(in crate::log) fn into_open(self) -> Vec<(Offset, ProducerId, Place)> {
        self.open.into_iter().map(|(first, (producer_id, at))| (first, producer_id, at)).collect()
    }

    /// Segments below `first` are gone; what began there is no longer where it was.
    pub(in crate::log) fn removed_below(&mut self, first: SegmentId) {
        let places = self.open.values_mut().map(|(_, at)| at).chain(self.ended.values_mut().map(|(_, at, _)| at));
        for at in places.filter(|at| at.segment < first) {
            *at = Place { segment: first, position_bytes: 0 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(position_bytes: u64) -> Place {
        Place { segment: SegmentId(Offset(0)), position_bytes }
    }

    fn begin(transactions: &mut Transactions, producer_id: i64, offset: i64) {
        let place = at(offset.cast_unsigned() * 100);
        assert_eq!(transactions.apply(ProducerId(producer_id), TransactionChange::Begun, Offset(offset), place), None);
    }

    fn end(transactions: &mut Transactions, producer_id: i64, first: i64, offset: i64, is_commit: bool) -> Option<i64> {
        let change = TransactionChange::Ended { first_offset: Offset(first), is_commit };
        let aborted = transactions.apply(ProducerId(producer_id), change, Offset(offset), at(0));
        aborted.map(|aborted| aborted.last_stable_offset.0)
    }

    /// C119: readers wait for the oldest open transaction, whatever ends behind it.
    #[test]
    fn c119_the_oldest_open_transaction_holds_readers_back() {
        let mut transactions = Transactions::default();
        begin(&mut transactions, 1, 0);
        begin(&mut transactions, 2, 1);
        assert_eq!(end(&mut transactions, 2, 1, 2, true), None);
        transactions.passed(Offset(3));
        assert_eq!(transactions.first_unstable(), Some((Offset(0), at(0))));
        begin(&mut transactions, 3, 3);
        assert_eq!(end(&mut transactions, 1, 0, 4, false), Some(3), "the next one that is open");
        assert_eq!(transactions.first_unstable(), Some((Offset(0), at(0))), "the marker is not durable");
        transactions.passed(Offset(4));
        assert_eq!(transactions.first_unstable(), Some((Offset(0), at(0))), "the marker's own offset is not passed");
        transactions.passed(Offset(5));
        assert_eq!(transactions.first_unstable(), Some((Offset(3), at(300))));
        assert_eq!(end(&mut transactions, 3, 3, 5, false), Some(6));
        transactions.passed(Offset(6));
        assert_eq!(transactions.first_unstable(), None);
    }

    #[test]
    fn what_failed_is_undone() {
        let mut transactions = Transactions::default();
        begin(&mut transactions, 1, 0);
        end(&mut transactions, 1, 0, 1, true);
        begin(&mut transactions, 1, 2);
        transactions.take_back(TransactionChange::Begun, Offset(2));
        transactions.take_back(TransactionChange::Ended { first_offset: Offset(0), is_commit: true }, Offset(1));
        transactions.passed(Offset(100));
        assert_eq!(transactions.first_unstable(), Some((Offset(0), at(0))), "it is open again");
        transactions.take_back(TransactionChange::Begun, Offset(0));
        assert_eq!(transactions.first_unstable(), None);
    }
}
