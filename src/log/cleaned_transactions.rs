//! The transactions that a compaction walks past: which records were aborted, which markers are of use.
//!
//! Kafka's `CleanedTransactionMetadata`: records of an aborted transaction go at once; its marker, as that of a committed
//! one, stays as long as the same pass still met a batch of the transaction, and is spent afterwards.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::log::transaction_index::AbortedTransaction;
use crate::record::batch::BatchHeader;
use crate::record::control::EndMarker;
use crate::record::offset::{Offset, ProducerId};

/// What is known of transactions at one place of the walk, which goes from the log's beginning or from a clean offset on.
#[derive(Debug, Default)]
pub struct CleanedTransactions {
    /// Aborted ones whose first record comes later, in order of that.
    pending: VecDeque<AbortedTransaction>,
    /// Aborted ones whose marker comes later, and whether a batch of theirs was met.
    aborted: BTreeMap<ProducerId, (AbortedTransaction, bool)>,
    /// Producers of whom a batch was met since their last marker, of a transaction that was not aborted.
    committed: BTreeSet<ProducerId>,
}

/// What becomes of a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkerFate {
    /// Its transaction has no records left.
    pub is_spent: bool,
    /// What the transaction index says of it, where readers may still meet records that it aborted.
    pub aborted: Option<AbortedTransaction>,
}

impl CleanedTransactions {
    /// Before a walk from `from` on. `aborted`: of all segments, in any order.
    pub fn new(aborted: &[AbortedTransaction], from: Offset) -> Self {
        let mut pending: Vec<AbortedTransaction> =
            aborted.iter().filter(|aborted| aborted.last_offset >= from).copied().collect();
        pending.sort_by_key(|aborted| (aborted.first_offset, aborted.last_offset));
        Self { pending: pending.into(), ..Self::default() }
    }

    /// A batch of records is walked past: true where its transaction was aborted.
    pub fn pass_batch(&mut self, header: &BatchHeader) -> bool {
        self.begin_up_to(header.last_offset());
        if !header.attributes.is_transactional() {
            return false;
        }
        match self.aborted.get_mut(&header.producer_id) {
            Some((_, was_met)) => {
                *was_met = true;
                true
            }
            None => {
                self.committed.insert(header.producer_id);
                false
            }
        }
    }

    /// A control batch is walked past. `batch` is all of it.
    pub fn pass_marker(&mut self, header: &BatchHeader, batch: &[u8]) -> MarkerFate {
        self.begin_up_to(header.last_offset());
        if header.record_count == 0 {
            // Compaction has emptied it.
            return MarkerFate { is_spent: true, aborted: None };
        }
        match EndMarker::parse(header, batch) {
            None => MarkerFate { is_spent: false, aborted: None },
            Some(marker) if marker.is_commit => {
                MarkerFate { is_spent: !self.committed.remove(&header.producer_id), aborted: None }
            }
            Some(_) => {
                let met = self.aborted.remove(&header.producer_id).filter(|(_, was_met)| *was_met);
                MarkerFate { is_spent: met.is_none(), aborted: met.map(|(aborted, _)| aborted) }
            }
        }
    }

    fn begin_up_to(&mut self, offset: Offset) {
        while let Some(aborted) = self.pending.pop_front_if(|next| next.first_offset <= offset) {
            self.aborted.entry(aborted.producer_id).or_insert((aborted, false));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::batch::{TRANSACTIONAL_BIT, parse_header};
    use crate::record::builder::BatchBuilder;

    fn aborted(producer_id: i64, first: i64, last: i64) -> AbortedTransaction {
        AbortedTransaction {
            producer_id: ProducerId(producer_id),
            first_offset: Offset(first),
            last_offset: Offset(last),
            last_stable_offset: Offset(last + 1),
        }
    }

    fn batch(producer_id: i64, offset: i64, attributes: i16) -> BatchHeader {
        let mut builder = BatchBuilder::new().producer(ProducerId(producer_id), 0, 0).attributes(attributes);
        builder.add(1, Some(b"k"), None);
        let header = parse_header(&builder.build().expect("uncompressed")).expect("built");
        BatchHeader { base_offset: Offset(offset), ..header }
    }

    fn marker(
        transactions: &mut CleanedTransactions,
        producer_id: i64,
        offset: i64,
        is_commit: bool,
    ) -> (bool, Option<i64>) {
        let marker = EndMarker { is_commit, coordinator_epoch: 1, transaction_version: 0 };
        let bytes = marker.to_batch(ProducerId(producer_id), 0, 1);
        let header = BatchHeader { base_offset: Offset(offset), ..parse_header(&bytes).expect("built") };
        let fate = transactions.pass_marker(&header, &bytes);
        (fate.is_spent, fate.aborted.map(|aborted| aborted.first_offset.0))
    }

    #[test]
    fn aborted_records_go_and_markers_stay_while_records_were_met() {
        let index = [aborted(1, 0, 4), aborted(2, 10, 14), aborted(1, 11, 15)];
        let mut walk = CleanedTransactions::new(&index, Offset(0));
        assert!(walk.pass_batch(&batch(1, 0, TRANSACTIONAL_BIT)));
        assert!(!walk.pass_batch(&batch(2, 1, TRANSACTIONAL_BIT)), "aborted later, not this one");
        assert!(!walk.pass_batch(&batch(1, 2, 0)), "in no transaction");
        assert_eq!(marker(&mut walk, 2, 3, true), (false, None));
        assert_eq!(marker(&mut walk, 1, 4, false), (false, Some(0)));
        assert_eq!(marker(&mut walk, 1, 5, false), (true, None), "nothing of it was met");
        assert_eq!(marker(&mut walk, 2, 6, true), (true, None), "nothing of it was met");
        assert!(!walk.pass_batch(&batch(1, 7, TRANSACTIONAL_BIT)), "a new transaction");
        assert!(walk.pass_batch(&batch(1, 12, TRANSACTIONAL_BIT)));
        assert_eq!(marker(&mut walk, 2, 14, false), (true, None));
        assert_eq!(marker(&mut walk, 1, 15, false), (false, Some(11)));
        let empty = BatchHeader { record_count: 0, ..batch(1, 16, TRANSACTIONAL_BIT | 1 << 5) };
        assert!(walk.pass_marker(&empty, &[]).is_spent);
    }

    /// A walk that begins later does not take what was aborted before for what comes.
    #[test]
    fn what_ended_before_the_walk_does_not_count() {
        let index = [aborted(1, 0, 4)];
        assert!(!CleanedTransactions::new(&index, Offset(5)).pass_batch(&batch(1, 5, TRANSACTIONAL_BIT)));
        assert!(CleanedTransactions::new(&index, Offset(3)).pass_batch(&batch(1, 3, TRANSACTIONAL_BIT)));
    }
}
