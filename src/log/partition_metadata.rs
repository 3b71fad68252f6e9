//! Kafka's `partition.metadata`: the topic id of a partition's folder.

use crate::record::offset::TopicId;

/// The text of the file, version 0; like Kafka's, without a line end after the last line.
pub fn to_text(topic_id: TopicId) -> String {
    format!("version: 0\ntopic_id: {topic_id}")
}

/// Reads that text; `None` where it is not right or of another version.
pub fn parse(text: &str) -> Option<TopicId> {
    let mut lines = text.lines();
    let version = lines.next()?.strip_prefix("version: ")?;
    if version.trim() != "0" {
        return None;
    }
    lines.next()?.strip_prefix("topic_id: ")?.trim().parse().ok()
}
