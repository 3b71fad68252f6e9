//! What a log promised to its clients, and whether it kept it.
//!
//! Told of each record sent, acknowledged and read, in the order in which the clients saw it. A record that was sent and
//! not acknowledged may be there or not. One that was acknowledged, or that a reader has seen, is there for ever at its
//! offset, through any crash (with `--durability os`: any crash that spares the page cache).

use std::collections::BTreeMap;

/// The history of all partitions.
#[derive(Default)]
pub(crate) struct Oracle {
    partitions: BTreeMap<(String, i32), History>,
}

#[derive(Default)]
struct History {
    /// For each payload: how many times it may be there, and the place of its first sending among all.
    sent: BTreeMap<Vec<u8>, Sent>,
    sent_count: u64,
    promised: BTreeMap<i64, Vec<u8>>,
    /// Records below may be deleted.
    log_start_offset: i64,
    /// Records below were deleted, and that was acknowledged.
    deleted_below: i64,
}

struct Sent {
    attempts_max: u32,
    producer: u32,
    place: u64,
}

/// All records of a partition from its log start offset, as one reader got them.
pub(crate) struct Contents<'a> {
    pub(crate) log_start_offset: i64,
    /// The offset after the last record.
    pub(crate) high_watermark: i64,
    /// Offset and payload, in the order in which they came.
    pub(crate) records: &'a [(i64, Vec<u8>)],
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Violation {
    /// Promised, and not there.
    Lost { offset: i64 },
    /// Promised, and something else is there; or one offset promised to two records.
    Replaced { offset: i64 },
    /// Nobody sent it.
    NeverSent { offset: i64 },
    /// It is there more often than it was sent.
    Doubled { offset: i64 },
    /// The offset does not follow the one before, or the first is not the log start.
    Misnumbered { offset: i64 },
    /// It was sent before its neighbour of the same producer, and comes after it.
    OutOfOrder { offset: i64 },
    /// The log starts before where it was made to, or after where anything was deleted.
    LogStartMoved { log_start_offset: i64 },
}

impl Oracle {
    /// `producer` sends a record; every payload of a partition is its own. Sent again under the same sequence (an
    /// idempotent producer's retry), it is not told again; sent again without, it is, and may be there twice.
    pub(crate) fn sent(&mut self, topic: &str, partition: i32, producer: u32, payload: &[u8]) {
        let history = self.history(topic, partition);
        let place = history.sent_count;
        history.sent_count += 1;
        let sent = history.sent.entry(payload.to_vec()).or_insert(Sent { attempts_max: 0, producer, place });
        sent.attempts_max += 1;
    }

    /// The log has acknowledged a record at `offset`.
    pub(crate) fn acknowledged(
        &mut self,
        topic: &str,
        partition: i32,
        offset: i64,
        payload: &[u8],
    ) -> Result<(), Violation> {
        self.history(topic, partition).promise(offset, payload)
    }

    /// A reader was given a record: it lies below the high watermark, so it may not vanish either.
    pub(crate) fn read(&mut self, topic: &str, partition: i32, offset: i64, payload: &[u8]) -> Result<(), Violation> {
        let history = self.history(topic, partition);
        if !history.sent.contains_key(payload) {
            return Err(Violation::NeverSent { offset });
        }
        history.promise(offset, payload)
    }

    /// Records below `log_start_offset` may be deleted from now on (DeleteRecords, retention).
    pub(crate) fn may_delete(&mut self, topic: &str, partition: i32, log_start_offset: i64) {
        let history = self.history(topic, partition);
        history.log_start_offset = history.log_start_offset.max(log_start_offset);
    }

    /// The log has acknowledged that it starts at `log_start_offset` or later.
    pub(crate) fn deleted(&mut self, topic: &str, partition: i32, log_start_offset: i64) -> Result<(), Violation> {
        let history = self.history(topic, partition);
        if log_start_offset > history.log_start_offset || log_start_offset < history.deleted_below {
            return Err(Violation::LogStartMoved { log_start_offset });
        }
        history.deleted_below = log_start_offset;
        Ok(())
    }

    /// True where a reader at `offset` may be overtaken by what was deleted.
    pub(crate) fn may_be_deleted(&self, topic: &str, partition: i32, offset: i64) -> bool {
        let history = self.partitions.get(&(topic.to_owned(), partition));
        history.is_some_and(|history| offset < history.log_start_offset)
    }

    /// Compares all that is there with all that was promised. What is there is promised from now on.
    pub(crate) fn check(&mut self, topic: &str, partition: i32, contents: &Contents<'_>) -> Result<(), Violation> {
        let history = self.history(topic, partition);
        history.check_offsets(contents)?;
        history.check_payloads(contents)?;
        for (offset, payload) in contents.records {
            history.promise(*offset, payload)?;
        }
        let is_there = |offset: i64| (contents.log_start_offset..contents.high_watermark).contains(&offset);
        match history.promised.range(contents.log_start_offset..).find(|(offset, _)| !is_there(**offset)) {
            Some((offset, _)) => Err(Violation::Lost { offset: *offset }),
            None => Ok(()),
        }
    }

    /// Records promised so far: a run that promised none has shown nothing.
    pub(crate) fn promised_count(&self) -> usize {
        self.partitions.values().map(|history| history.promised.len()).sum()
    }

    fn history(&mut self, topic: &str, partition: i32) -> &mut History {
        self.partitions.entry((topic.to_owned(), partition)).or_default()
    }
}

impl History {
    fn promise(&mut self, offset: i64, payload: &[u8]) -> Result<(), Violation> {
        let before = self.promised.entry(offset).or_insert_with(|| payload.to_vec());
        if before == payload { Ok(()) } else { Err(Violation::Replaced { offset }) }
    }

    /// Offsets run from the log start to the high watermark without a gap (no compaction, no transactions here).
    fn check_offsets(&self, contents: &Contents<'_>) -> Result<(), Violation> {
        if contents.log_start_offset > self.log_start_offset || contents.log_start_offset < self.deleted_below {
            return Err(Violation::LogStartMoved { log_start_offset: contents.log_start_offset });
        }
        let mut next = contents.log_start_offset;
        for (offset, _) in contents.records {
            if *offset != next {
                return Err(Violation::Misnumbered { offset: *offset });
            }
            next += 1;
        }
        if next == contents.high_watermark { Ok(()) } else { Err(Violation::Misnumbered { offset: next }) }
    }

    fn check_payloads(&self, contents: &Contents<'_>) -> Result<(), Violation> {
        let mut counts: BTreeMap<&[u8], u32> = BTreeMap::new();
        let mut last_places: BTreeMap<u32, u64> = BTreeMap::new();
        for (offset, payload) in contents.records {
            let Some(sent) = self.sent.get(payload) else { return Err(Violation::NeverSent { offset: *offset }) };
            let count = counts.entry(payload).or_insert(0);
            *count += 1;
            if *count > sent.attempts_max {
                return Err(Violation::Doubled { offset: *offset });
            }
            // A record sent several times may be anywhere among its attempts.
            if sent.attempts_max == 1 {
                let last_place = last_places.entry(sent.producer).or_insert(sent.place);
                if sent.place < *last_place {
                    return Err(Violation::OutOfOrder { offset: *offset });
                }
                *last_place = sent.place;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Producer 1 sends a, b, c, d (d twice); producer 2 sends x. Acknowledged: a at 0, b at 1.
    fn oracle() -> Oracle {
        let mut oracle = Oracle::default();
        for payload in [b"a", b"b", b"c", b"d", b"d"] {
            oracle.sent("t", 0, 1, payload);
        }
        oracle.sent("t", 0, 2, b"x");
        assert_eq!(oracle.acknowledged("t", 0, 0, b"a"), Ok(()));
        assert_eq!(oracle.acknowledged("t", 0, 1, b"b"), Ok(()));
        oracle
    }

    fn check(oracle: &mut Oracle, first: i64, payloads: &str) -> Result<(), Violation> {
        let records: Vec<(i64, Vec<u8>)> =
            payloads.bytes().enumerate().map(|(index, byte)| (first + index as i64, vec![byte])).collect();
        let high_watermark = first + records.len() as i64;
        oracle.check("t", 0, &Contents { log_start_offset: first, high_watermark, records: &records })
    }

    #[test]
    fn each_way_to_break_a_promise_is_seen_and_nothing_else() {
        let cases = [
            ("ab", Ok(())),
            ("abc", Ok(())),
            ("abxc", Ok(())),
            ("abddcx", Ok(())),
            ("abcd", Ok(())),
            ("a", Err(Violation::Lost { offset: 1 })),
            ("", Err(Violation::Lost { offset: 0 })),
            ("ax", Err(Violation::Replaced { offset: 1 })),
            ("abz", Err(Violation::NeverSent { offset: 2 })),
            ("abb", Err(Violation::Doubled { offset: 2 })),
            ("abddd", Err(Violation::Doubled { offset: 4 })),
            ("ba", Err(Violation::OutOfOrder { offset: 1 })),
            ("abxca", Err(Violation::Doubled { offset: 4 })),
        ];
        for (payloads, wanted) in cases {
            assert_eq!(check(&mut oracle(), 0, payloads), wanted, "{payloads:?}");
        }
    }

    #[test]
    fn offsets_have_no_gap_and_end_at_the_high_watermark() {
        for (offsets, high_watermark, wanted) in [
            (&[0, 1][..], 2, Ok(())),
            (&[0, 2], 3, Err(Violation::Misnumbered { offset: 2 })),
            (&[0, 0], 2, Err(Violation::Misnumbered { offset: 0 })),
            (&[1, 2], 3, Err(Violation::Misnumbered { offset: 1 })),
            (&[0, 1], 3, Err(Violation::Misnumbered { offset: 2 })),
        ] {
            let payloads = [b"a".to_vec(), b"b".to_vec()];
            let records: Vec<(i64, Vec<u8>)> = offsets.iter().copied().zip(payloads).collect();
            let contents = Contents { log_start_offset: 0, high_watermark, records: &records };
            assert_eq!(oracle().check("t", 0, &contents), wanted, "{offsets:?} {high_watermark}");
        }
    }

    #[test]
    fn what_was_read_is_promised_too() {
        let mut oracle = oracle();
        assert_eq!(oracle.read("t", 0, 2, b"c"), Ok(()));
        assert_eq!(check(&mut oracle, 0, "ab"), Err(Violation::Lost { offset: 2 }));
        assert_eq!(check(&mut oracle, 0, "abx"), Err(Violation::Replaced { offset: 2 }));
        assert_eq!(check(&mut oracle, 0, "abcx"), Ok(()));
        assert_eq!(check(&mut oracle, 0, "abc"), Err(Violation::Lost { offset: 3 }), "the check has read x");
        assert_eq!(oracle.read("t", 0, 9, b"z"), Err(Violation::NeverSent { offset: 9 }));
        assert_eq!(oracle.acknowledged("t", 0, 1, b"x"), Err(Violation::Replaced { offset: 1 }), "one offset twice");
        assert_eq!(oracle.promised_count(), 4);
    }

    #[test]
    fn only_what_may_be_deleted_may_be_missing_at_the_start() {
        let mut oracle = oracle();
        let moved = Err(Violation::LogStartMoved { log_start_offset: 1 });
        assert_eq!(check(&mut oracle, 1, "b"), moved);
        oracle.may_delete("t", 0, 1);
        assert_eq!(check(&mut oracle, 1, "b"), Ok(()));
        assert_eq!(check(&mut oracle, 0, "ab"), Ok(()), "deleted later");
        assert_eq!(oracle.deleted("t", 0, 2), Err(Violation::LogStartMoved { log_start_offset: 2 }), "nobody asked");
        assert_eq!(oracle.deleted("t", 0, 1), Ok(()));
        let back = Err(Violation::LogStartMoved { log_start_offset: 0 });
        assert_eq!(check(&mut oracle, 0, "ab"), back, "it comes back");
        assert!(oracle.may_be_deleted("t", 0, 0));
        assert!(!oracle.may_be_deleted("t", 0, 1));
        assert_eq!(check(&mut oracle, 1, ""), Err(Violation::Lost { offset: 1 }));
    }

    #[test]
    fn partitions_are_apart() {
        let mut oracle = oracle();
        let nothing = Contents { log_start_offset: 0, high_watermark: 0, records: &[] };
        assert_eq!(oracle.check("t", 1, &nothing), Ok(()));
        assert_eq!(oracle.check("u", 0, &nothing), Ok(()));
        let wrong = [(0, b"a".to_vec())];
        let contents = Contents { log_start_offset: 0, high_watermark: 1, records: &wrong };
        assert_eq!(oracle.check("t", 1, &contents), Err(Violation::NeverSent { offset: 0 }));
    }
}
