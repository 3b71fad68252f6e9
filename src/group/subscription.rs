//! The topics that consumers subscribe to, read from what they say to each other.

use std::collections::BTreeSet;

use crate::wire::messages::consumer_protocol_subscription::ConsumerProtocolSubscription;
use crate::wire::reader::Reader;

/// The topics of a consumer's subscription; `None` where the bytes are not one.
pub fn subscribed_topics(metadata: &[u8]) -> Option<BTreeSet<String>> {
    let mut reader = Reader::new(metadata);
    let version = reader.int16("version").ok()?;
    if version < ConsumerProtocolSubscription::VERSION_MIN {
        return None;
    }
    // The beginning is the same in all versions, so that newer ones can be read: as Kafka, no more of it is looked at.
    let subscription = ConsumerProtocolSubscription::decode(&mut reader, 0).ok()?;
    Some(subscription.topics.iter().map(|topic| (*topic).to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_is_read_and_rubbish_is_none() {
        let mut bytes = vec![0, 3];
        let subscription = ConsumerProtocolSubscription { topics: vec!["b", "a"], ..Default::default() };
        subscription.encode(&mut bytes, 3).expect("short names");
        let topics = subscribed_topics(&bytes).expect("a subscription");
        assert_eq!(topics.into_iter().collect::<Vec<_>>(), ["a", "b"]);
        for cut in 0..bytes.len().min(12) {
            assert_eq!(subscribed_topics(&bytes[..cut]), None, "{cut}");
        }
        assert_eq!(subscribed_topics(b"\xff\xff"), None);
    }
}
