//! Which leader epoch began at which offset, and Kafka's checkpoint of it.

use crate::record::offset::{LeaderEpoch, Offset};

/// Epochs of one partition with the first offset of each; both rise. Kafka's `LeaderEpochFileCache`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaderEpochs {
    entries: Vec<EpochEntry>,
}

/// One epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochEntry {
    /// The epoch.
    pub epoch: LeaderEpoch,
    /// Offset of its first record.
    pub start_offset: Offset,
}

impl LeaderEpochs {
    /// All entries, oldest first.
    pub fn entries(&self) -> &[EpochEntry] {
        &self.entries
    }

    /// The latest epoch that has records.
    pub fn latest(&self) -> Option<LeaderEpoch> {
        self.entries.last().map(|entry| entry.epoch)
    }

    /// Notes that a batch of `epoch` begins at `start_offset`; true where that made an entry. Entries that contradict
    /// it (a later offset or epoch) go, as in Kafka.
    pub(in crate::log) fn assign(&mut self, epoch: LeaderEpoch, start_offset: Offset) -> bool {
        if epoch < LeaderEpoch(0) || self.latest() == Some(epoch) {
            return false;
        }
        self.entries.retain(|entry| entry.epoch < epoch && entry.start_offset < start_offset);
        self.entries.push(EpochEntry { epoch, start_offset });
        true
    }

    /// Drops entries that begin at or after `end`; true where there were any.
    pub(in crate::log) fn truncate_from_end(&mut self, end: Offset) -> bool {
        let before = self.entries.len();
        self.entries.retain(|entry| entry.start_offset < end);
        before != self.entries.len()
    }

    /// Drops entries that end at or before `start`; the one that holds it begins there then. True where it changed.
    pub(in crate::log) fn truncate_from_start(&mut self, start: Offset) -> bool {
        let before = self.entries.clone();
        let kept_from = self.entries.partition_point(|entry| entry.start_offset <= start).saturating_sub(1);
        self.entries.drain(..kept_from);
        if let Some(first) = self.entries.first_mut()
            && first.start_offset < start
        {
            first.start_offset = start;
        }
        before != self.entries
    }

    /// The epoch of the record at `offset`.
    pub fn epoch_of(&self, offset: Offset) -> Option<LeaderEpoch> {
        let after = self.entries.partition_point(|entry| entry.start_offset <= offset);
        after.checked_sub(1).and_then(|at| self.entries.get(at)).map(|entry| entry.epoch)
    }

    /// Largest epoch at or below `epoch`, and the offset after its last record (`log_end` for the latest); `None` where
    /// Kafka answers -1, -1. KIP-279.
    ///
    /// Kafka notes an epoch when its leader begins, we at its first record: until that comes, `leader_epoch`, the current
    /// one, begins at the end of the log.
    pub fn end_offset_for(
        &self,
        epoch: LeaderEpoch,
        leader_epoch: LeaderEpoch,
        log_end: Offset,
    ) -> Option<(LeaderEpoch, Offset)> {
        // Kafka takes other epochs below zero for ones before the first.
        if epoch == LeaderEpoch::NONE || epoch > leader_epoch {
            return None;
        }
        if epoch == leader_epoch {
            return Some((epoch, log_end));
        }
        let after = self.entries.partition_point(|entry| entry.epoch <= epoch);
        let floor = after.checked_sub(1).and_then(|at| self.entries.get(at));
        let end = self.entries.get(after).map_or(log_end, |higher| higher.start_offset);
        Some((floor.map_or(epoch, |floor| floor.epoch), end))
    }

    /// The text of Kafka's `leader-epoch-checkpoint`: version 0, count, then a line for each epoch.
    pub fn to_text(&self) -> String {
        use std::fmt::Write;
        let mut text = format!("0\n{}\n", self.entries.len());
        for entry in &self.entries {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{} {}", entry.epoch, entry.start_offset);
        }
        text
    }

    /// Reads that text; `None` where it is not right (wrong version, count, order). It can be made anew from the log.
    pub fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        if lines.next()?.trim() != "0" {
            return None;
        }
        let count: usize = lines.next()?.trim().parse().ok()?;
        let mut entries: Vec<EpochEntry> = Vec::new();
        for line in lines {
            let mut words = line.split_whitespace();
            let epoch = LeaderEpoch(words.next()?.parse().ok()?);
            let start_offset = Offset(words.next()?.parse().ok()?);
            if words.next().is_some() || start_offset < Offset::ZERO {
                return None;
            }
            let rises = entries.last().is_none_or(|last| last.epoch < epoch && last.start_offset <= start_offset);
            if !rises {
                return None;
            }
            entries.push(EpochEntry { epoch, start_offset });
        }
        (entries.len() == count).then_some(Self { entries })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epochs(entries: &[(i32, i64)]) -> LeaderEpochs {
        let mut epochs = LeaderEpochs::default();
        for (epoch, start) in entries {
            assert!(epochs.assign(LeaderEpoch(*epoch), Offset(*start)));
        }
        epochs
    }

    #[test]
    fn ends_of_epochs_are_kafkas() {
        let epochs = epochs(&[(2, 10), (5, 20), (9, 100)]);
        let end = Offset(150);
        for (asked, answer) in [
            (-1, None),
            (0, Some((0, 10))),
            (2, Some((2, 20))),
            (4, Some((2, 20))),
            (5, Some((5, 100))),
            (9, Some((9, 150))),
            (10, None),
        ] {
            let answer = answer.map(|(epoch, offset)| (LeaderEpoch(epoch), Offset(offset)));
            assert_eq!(epochs.end_offset_for(LeaderEpoch(asked), LeaderEpoch(9), end), answer, "epoch {asked}");
        }
        // The leader of epoch 12 has written nothing yet: its epoch begins at the end.
        for (asked, answer) in
            [(4, Some((2, 20))), (9, Some((9, 150))), (11, Some((9, 150))), (12, Some((12, 150))), (13, None)]
        {
            let answer = answer.map(|(epoch, offset)| (LeaderEpoch(epoch), Offset(offset)));
            assert_eq!(epochs.end_offset_for(LeaderEpoch(asked), LeaderEpoch(12), end), answer, "epoch {asked} of 12");
        }
        let none = LeaderEpochs::default();
        assert_eq!(none.end_offset_for(LeaderEpoch(1), LeaderEpoch(0), end), None);
        assert_eq!(none.end_offset_for(LeaderEpoch(1), LeaderEpoch(3), Offset(0)), Some((LeaderEpoch(1), Offset(0))));
        for (offset, epoch) in [(9, None), (10, Some(2)), (19, Some(2)), (20, Some(5)), (5000, Some(9))] {
            assert_eq!(epochs.epoch_of(Offset(offset)), epoch.map(LeaderEpoch), "offset {offset}");
        }
    }

    /// C073: a start moved to 20 keeps the epoch that holds it, from there on.
    #[test]
    fn truncation_keeps_what_has_records() {
        let mut some = epochs(&[(2, 0), (7, 10), (9, 100)]);
        assert!(some.truncate_from_start(Offset(20)));
        assert_eq!(some, epochs(&[(7, 20), (9, 100)]));
        assert!(!some.truncate_from_start(Offset(20)));
        assert!(some.truncate_from_end(Offset(100)));
        assert_eq!(some, epochs(&[(7, 20)]));
        assert!(some.truncate_from_start(Offset(50)));
        assert_eq!(some, epochs(&[(7, 50)]));
    }

    #[test]
    fn bad_texts_are_none() {
        assert_eq!(LeaderEpochs::parse("0\n2\n1 0\n3 7\n"), Some(epochs(&[(1, 0), (3, 7)])));
        for text in [
            "",
            "1\n0\n",
            "0\n",
            "0\n1\n",
            "0\n2\n1 0\n",
            "0\n2\n3 0\n1 7\n",
            "0\n1\n1 -5\n",
            "0\n1\n1 0 0\n",
            "0\nx\n",
        ] {
            assert_eq!(LeaderEpochs::parse(text), None, "{text:?}");
        }
    }
}
