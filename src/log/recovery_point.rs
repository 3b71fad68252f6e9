//! Kafka's checkpoints of one offset a partition: recovery points, log starts.

use std::collections::BTreeMap;

use crate::record::offset::Offset;

/// One offset for each partition of a data directory, by topic and partition.
pub type PartitionOffsets = BTreeMap<(String, i32), Offset>;

/// The text of such a file: version 0, count, then a line for each partition.
pub fn to_text(offsets: &PartitionOffsets) -> String {
    use std::fmt::Write;
    let mut text = format!("0\n{}\n", offsets.len());
    for ((topic, partition), offset) in offsets {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{topic} {partition} {offset}");
    }
    text
}

/// Reads that text; `None` where it is not right. Without it, recovery points are 0: all is scanned.
pub fn parse(text: &str) -> Option<PartitionOffsets> {
    let mut lines = text.lines();
    if lines.next()?.trim() != "0" {
        return None;
    }
    let count: usize = lines.next()?.trim().parse().ok()?;
    let mut offsets = PartitionOffsets::new();
    for line in lines {
        let mut words = line.split_whitespace();
        let key = (words.next()?.to_owned(), words.next()?.parse().ok()?);
        let offset = Offset(words.next()?.parse().ok().filter(|offset| *offset >= 0)?);
        if words.next().is_some() {
            return None;
        }
        offsets.insert(key, offset);
    }
    (offsets.len() == count).then_some(offsets)
}
