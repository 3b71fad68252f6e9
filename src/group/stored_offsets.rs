//! Committed offsets of one group, by topic and partition.

use std::collections::BTreeMap;

/// One committed offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredOffset {
    /// The offset.
    pub offset: i64,
    /// The leader epoch of the last record before it; -1: not said.
    pub leader_epoch: i32,
    /// Any text.
    pub metadata: Box<str>,
    /// When it was committed, in milliseconds since 1970.
    pub committed_ms: i64,
    /// When it expires, where an old client has said so.
    pub expires_ms: Option<i64>,
    /// The topic's id; zeros where nobody knows.
    pub topic_id: [u8; 16],
}

/// The offsets of a group. `T` is what stands there for a partition.
#[derive(Clone, Debug)]
pub struct ByPartition<T> {
    topics: BTreeMap<Box<str>, BTreeMap<i32, T>>,
}

impl<T> Default for ByPartition<T> {
    fn default() -> Self {
        Self { topics: BTreeMap::new() }
    }
}

impl<T> ByPartition<T> {
    /// What stands there.
    pub fn get(&self, topic: &str, partition: i32) -> Option<&T> {
        self.topics.get(topic)?.get(&partition)
    }

    /// Puts something there.
    pub fn put(&mut self, topic: &str, partition: i32, value: T) {
        match self.topics.get_mut(topic) {
            Some(partitions) => {
                partitions.insert(partition, value);
            }
            None => {
                self.topics.insert(topic.into(), BTreeMap::from([(partition, value)]));
            }
        }
    }

    /// Takes away what stands there.
    pub fn remove(&mut self, topic: &str, partition: i32) -> Option<T> {
        let partitions = self.topics.get_mut(topic)?;
        let removed = partitions.remove(&partition);
        if partitions.is_empty() {
            self.topics.remove(topic);
        }
        removed
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.topics.values().map(BTreeMap::len).sum()
    }

    /// True where nothing stands there.
    pub fn is_empty(&self) -> bool {
        self.topics.is_empty()
    }

    /// All, by topic.
    pub fn topics(&self) -> impl Iterator<Item = (&str, &BTreeMap<i32, T>)> {
        self.topics.iter().map(|(topic, partitions)| (&**topic, partitions))
    }

    /// All partitions for which `is_wanted` holds.
    pub fn places(&self, is_wanted: impl Fn(&str, i32, &T) -> bool) -> Vec<(Box<str>, i32)> {
        let mut places = Vec::new();
        for (topic, partitions) in &self.topics {
            let wanted = partitions.iter().filter(|(partition, value)| is_wanted(topic, **partition, value));
            places.extend(wanted.map(|(partition, _)| (topic.clone(), *partition)));
        }
        places
    }
}
