//! A core's own checkpoint: recovery points by topic id, so that a name that is used again starts anew.
//!
//! ```text
//! alluvium 1
//! <count>
//! <topic> <partition> <offset> <topic id>     for each partition
//! ```

use std::collections::BTreeMap;

use crate::record::offset::{Offset, PartitionId, TopicId};

/// The topic's name and the recovery point of each partition.
pub type CorePoints = BTreeMap<PartitionId, (String, Offset)>;

/// The text of the file.
pub fn to_text(points: &CorePoints) -> String {
    use std::fmt::Write;
    let mut text = format!("{FIRST_LINE}\n{}\n", points.len());
    for (id, (topic, offset)) in points {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{topic} {} {offset} {}", id.partition, id.topic_id);
    }
    text
}

/// Reads that text; `None` where it is not right. Without it, recovery points are 0: all is scanned.
pub fn parse(text: &str) -> Option<CorePoints> {
    let mut lines = text.lines();
    if lines.next()?.trim() != FIRST_LINE {
        return None;
    }
    let count: usize = lines.next()?.trim().parse().ok()?;
    let mut points = CorePoints::new();
    for line in lines {
        let mut words = line.split_whitespace();
        let topic = words.next()?.to_owned();
        let partition = words.next()?.parse().ok()?;
        let offset = Offset(words.next()?.parse().ok().filter(|offset| *offset >= 0)?);
        let topic_id: TopicId = words.next()?.parse().ok()?;
        if words.next().is_some() {
            return None;
        }
        points.insert(PartitionId { topic_id, partition }, (topic, offset));
    }
    (points.len() == count).then_some(points)
}

const FIRST_LINE: &str = "alluvium 1";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back_and_two_topics_of_one_name_are_two() {
        let id = |byte, partition| PartitionId { topic_id: TopicId([byte; 16]), partition };
        let points: CorePoints =
            [(id(7, 0), ("t".to_owned(), Offset(5))), (id(9, 0), ("t".to_owned(), Offset(1)))].into();
        assert_eq!(parse(&to_text(&points)), Some(points));
        assert_eq!(parse(&to_text(&CorePoints::new())), Some(CorePoints::new()));
    }

    #[test]
    fn what_is_torn_or_not_ours_is_nothing() {
        let right =
            to_text(&[(PartitionId { topic_id: TopicId([7; 16]), partition: 3 }, ("t".to_owned(), Offset(5)))].into());
        for wrong in [
            "",
            "0\n0\n",
            "alluvium 1\n",
            "alluvium 1\n2\n",
            &right[..right.len() - 3],
            &right.replace("5", "-5"),
            &format!("{right}{right}"),
        ] {
            assert_ne!(parse(wrong), parse(&right), "{wrong:?}");
        }
    }
}
