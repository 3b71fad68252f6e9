//! Which partition a record goes to: murmur2 of its key, as the Java client does, or one after another.

/// The partition of a key among `partition_count`.
pub fn of_key(key: &[u8], partition_count: i32) -> i32 {
    assert!(partition_count > 0, "a topic has partitions");
    // The sign bit is cut off, not the absolute value taken: so does Kafka's `toPositive`.
    let positive = (murmur2(key) & 0x7fff_ffff).cast_signed();
    positive % partition_count
}

/// MurmurHash2 with Kafka's seed.
pub fn murmur2(bytes: &[u8]) -> u32 {
    let mut hash = SEED ^ u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let (words, rest) = bytes.as_chunks::<4>();
    for word in words {
        let mut mixed = u32::from_le_bytes(*word).wrapping_mul(MULTIPLIER);
        mixed ^= mixed >> 24;
        hash = hash.wrapping_mul(MULTIPLIER) ^ mixed.wrapping_mul(MULTIPLIER);
    }
    if !rest.is_empty() {
        for (at, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * at);
        }
        hash = hash.wrapping_mul(MULTIPLIER);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(MULTIPLIER);
    hash ^ (hash >> 15)
}

/// The partition of records without a key: the same one until a batch is sent, then another.
#[derive(Clone, Debug)]
pub struct Sticky {
    partition: i32,
    random: u64,
}

impl Sticky {
    /// Begins somewhere.
    pub fn new(seed: u64, partition_count: i32) -> Self {
        let mut sticky = Self { partition: -1, random: seed | 1 };
        sticky.move_on(partition_count);
        sticky
    }

    /// Where records go now.
    pub const fn partition(&self) -> i32 {
        self.partition
    }

    /// A batch was sent: on to another partition, where there is one.
    pub fn move_on(&mut self, partition_count: i32) {
        let count = u64::try_from(partition_count).unwrap_or(1).max(1);
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let chosen = i32::try_from((self.random >> 33) % count).unwrap_or(0);
        self.partition = match chosen {
            same if same == self.partition => (same + 1) % partition_count.max(1),
            other => other,
        };
    }
}

const SEED: u32 = 0x9747_b28c;
const MULTIPLIER: u32 = 0x5bd1_e995;

#[cfg(test)]
mod tests {
    use super::*;

    /// The values of the Java client's own test of its murmur2.
    #[test]
    fn murmur2_is_the_java_clients() {
        let cases: [(&[u8], i32); 7] = [
            (b"21", -973_932_308),
            (b"foobar", -790_332_482),
            (b"a-little-bit-long-string", -985_981_536),
            (b"a-little-bit-longer-string", -1_486_304_829),
            (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            (b"abc", 479_470_107),
            (b"", 275_646_681),
        ];
        for (key, hash) in cases {
            assert_eq!(murmur2(key).cast_signed(), hash, "{}", String::from_utf8_lossy(key));
        }
        assert_eq!(of_key(b"21", 10), (-973_932_308_i32 & 0x7fff_ffff) % 10);
    }

    #[test]
    fn records_without_a_key_stay_and_then_move() {
        let mut sticky = Sticky::new(7, 4);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..100 {
            let before = sticky.partition();
            assert!((0..4).contains(&before));
            seen.insert(before);
            sticky.move_on(4);
            assert_ne!(sticky.partition(), before);
        }
        assert_eq!(seen.len(), 4);
        let mut alone = Sticky::new(7, 1);
        alone.move_on(1);
        assert_eq!(alone.partition(), 0);
    }
}
