//! The numbers of a log that must not be swapped: offsets, epochs, times, ids.

use std::fmt;
use std::str::FromStr;

/// Position of a record in its partition, counted in records from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Offset(pub i64);

impl Offset {
    /// The first offset of a new partition.
    pub const ZERO: Self = Self(0);
    /// What Kafka answers where there is no offset.
    pub const NONE: Self = Self(-1);

    /// The plain number.
    pub fn get(self) -> i64 {
        self.0
    }

    /// This offset and `count` more; stays at the largest one instead of wrapping.
    #[must_use]
    pub fn plus(self, count: i64) -> Self {
        Self(self.0.saturating_add(count))
    }

    /// How many offsets lie from `earlier` to this one; negative where `earlier` is later.
    pub fn since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How often a partition's leader has changed; never goes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LeaderEpoch(pub i32);

impl LeaderEpoch {
    /// Where no epoch is known, or the client does not say one.
    pub const NONE: Self = Self(-1);

    /// The plain number.
    pub fn get(self) -> i32 {
        self.0
    }
}

impl fmt::Display for LeaderEpoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Milliseconds since 1970, as in Kafka's records; -1 where there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TimestampMs(pub i64);

impl TimestampMs {
    /// No timestamp.
    pub const NONE: Self = Self(-1);

    /// The plain number.
    pub fn get(self) -> i64 {
        self.0
    }
}

impl fmt::Display for TimestampMs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Names an idempotent or transactional producer; -1 where the producer is neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProducerId(pub i64);

impl ProducerId {
    /// A producer without an id: no sequences are kept.
    pub const NONE: Self = Self(-1);

    /// The plain number.
    pub fn get(self) -> i64 {
        self.0
    }

    /// True for a producer with an id.
    pub fn is_some(self) -> bool {
        self.0 >= 0
    }
}

impl fmt::Display for ProducerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The 128-bit id of a topic. Its text is Kafka's: URL-safe base64 without padding, 22 characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicId(pub [u8; 16]);

impl TopicId {
    /// All zeros: no topic.
    pub const ZERO: Self = Self([0; 16]);
}

impl fmt::Display for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::with_capacity(TOPIC_ID_TEXT_LEN);
        let bits = u128::from_be_bytes(self.0);
        // 128 bits are 21 digits of 6 bits and one of 2 bits, whose low bits are zeros.
        for digit in 0..TOPIC_ID_TEXT_LEN {
            let six = if digit < 21 { (bits >> (122 - 6 * digit)) & 63 } else { (bits & 3) << 4 };
            text.push(char::from(BASE64_URL[six as usize]));
        }
        f.write_str(&text)
    }
}

impl FromStr for TopicId {
    type Err = TopicIdError;

    fn from_str(text: &str) -> Result<Self, TopicIdError> {
        let digits = text.as_bytes();
        if digits.len() != TOPIC_ID_TEXT_LEN {
            return Err(TopicIdError);
        }
        let mut bits: u128 = 0;
        for (at, digit) in digits.iter().enumerate() {
            let six = BASE64_URL.iter().position(|known| known == digit).ok_or(TopicIdError)? as u128;
            bits = if at < 21 { (bits << 6) | six } else { (bits << 2) | (six >> 4) };
            if at == 21 && six & 15 != 0 {
                return Err(TopicIdError);
            }
        }
        Ok(Self(bits.to_be_bytes()))
    }
}

/// The text is not 22 digits of URL-safe base64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a topic id is 22 characters of URL-safe base64")]
pub struct TopicIdError;

/// Names one partition of one topic for as long as the topic lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PartitionId {
    /// The topic; one made again under the same name has another id.
    pub topic_id: TopicId,
    /// Index of the partition within the topic, from 0.
    pub partition: i32,
}

const TOPIC_ID_TEXT_LEN: usize = 22;
const BASE64_URL: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topic_id_text_is_kafkas() {
        // Kafka's Uuid.METADATA_TOPIC_ID is 0x0000000000000001 in its low half.
        let mut one = TopicId::ZERO;
        one.0[15] = 1;
        assert_eq!(one.to_string(), "AAAAAAAAAAAAAAAAAAAAAQ");
        assert_eq!("AAAAAAAAAAAAAAAAAAAAAQ".parse(), Ok(one));
        let all = TopicId([0xff; 16]);
        assert_eq!(all.to_string(), "_____________________w");
        for id in [one, all, TopicId::ZERO, TopicId(*b"sixteen bytes ok")] {
            assert_eq!(id.to_string().parse(), Ok(id));
        }
        for bad in
            ["", "AAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAR", "AAAAAAAAAAAAAAAAAAAA+A", "AAAAAAAAAAAAAAAAAAAAAQ="]
        {
            assert_eq!(bad.parse::<TopicId>(), Err(TopicIdError), "{bad}");
        }
    }

    #[test]
    fn offsets_do_not_wrap() {
        assert_eq!(Offset(i64::MAX).plus(1), Offset(i64::MAX));
        assert_eq!(Offset(7).since(Offset(9)), -2);
    }
}
