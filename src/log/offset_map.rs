//! The newest offset of each key, in bounded memory.
//!
//! A key is known by 128 bits of a keyed hash (SipHash with a key from the ring's randomness): two keys that collide would
//! lose the older one's record, and nobody who does not know the hash's key can make them. Kafka's `SkimpyOffsetMap`.

use std::hash::Hasher;

use siphasher::sip128::{Hasher128, SipHasher13};

use crate::record::offset::Offset;

/// Keys of a part of a log, each with the offset of its newest record there. Nothing is removed.
pub struct OffsetMap {
    /// Two words of hash, then the offset and one; all zeros where there is none. Memory that is not used yet costs nothing:
    /// it comes from the kernel as zeros.
    slots: Vec<[u64; 3]>,
    hash_key: (u64, u64),
    key_count: usize,
    key_count_max: usize,
    latest: Offset,
}

impl OffsetMap {
    /// A map of at most `bytes_max`, of which `load_factor` may be used; no larger than `keys_expected` keys need. It
    /// has room for one key at least.
    pub fn new(hash_key: (u64, u64), bytes_max: u64, load_factor: f64, keys_expected: u64) -> Self {
        let load_factor = load_factor.clamp(LOAD_FACTOR_MIN, LOAD_FACTOR_MAX);
        let slots_max = (bytes_max / SLOT_BYTES as u64).max(SLOTS_MIN);
        let slots_needed = (keys_expected as f64 / load_factor.min(LOAD_FACTOR_EASY)) as u64;
        let slot_count =
            usize::try_from(slots_needed.saturating_add(1).clamp(SLOTS_MIN, slots_max)).unwrap_or(usize::MAX);
        // One slot at least stays free, so that every search ends.
        let key_count_max = ((slot_count as f64 * load_factor) as usize).clamp(1, slot_count - 1);
        Self { slots: vec![[0; 3]; slot_count], hash_key, key_count: 0, key_count_max, latest: Offset::NONE }
    }

    /// Notes that the newest record of `key` so far is at `offset`; false where there is no room for one more key.
    pub fn put(&mut self, key: &[u8], offset: Offset) -> bool {
        assert!(offset >= Offset::ZERO, "{offset} is no offset");
        let hash = self.hash(key);
        let at = self.find(hash);
        let Some(slot) = self.slots.get_mut(at) else { return false };
        if slot[2] == 0 {
            if self.key_count == self.key_count_max {
                return false;
            }
            self.key_count += 1;
        }
        *slot = [hash[0], hash[1], offset.0.cast_unsigned() + 1];
        self.latest = self.latest.max(offset);
        true
    }

    /// The newest record of `key`, where it has one here.
    pub fn get(&self, key: &[u8]) -> Option<Offset> {
        let slot = self.slots.get(self.find(self.hash(key)))?;
        slot[2].checked_sub(1).map(|offset| Offset(offset.cast_signed()))
    }

    /// All records up to this offset were looked at; -1 where none was.
    pub fn latest(&self) -> Offset {
        self.latest
    }

    /// All records up to `offset` were looked at, those without keys too.
    pub fn note_latest(&mut self, offset: Offset) {
        self.latest = self.latest.max(offset);
    }

    /// How many keys it knows.
    pub fn key_count(&self) -> usize {
        self.key_count
    }

    fn hash(&self, key: &[u8]) -> [u64; 2] {
        let mut hasher = SipHasher13::new_with_keys(self.hash_key.0, self.hash_key.1);
        hasher.write(key);
        let hash = hasher.finish128();
        [hash.h1, hash.h2]
    }

    /// The slot that has the hash, or the free one that would get it.
    fn find(&self, hash: [u64; 2]) -> usize {
        let count = self.slots.len();
        // The high bits choose: a multiplication instead of a division.
        let mut at = ((u128::from(hash[0]) * count as u128) >> 64) as usize;
        while let Some(slot) = self.slots.get(at) {
            if slot[2] == 0 || (slot[0] == hash[0] && slot[1] == hash[1]) {
                break;
            }
            at = if at + 1 == count { 0 } else { at + 1 };
        }
        at
    }
}

/// The memory of one key.
pub const SLOT_BYTES: usize = 24;
const SLOTS_MIN: u64 = 16;
/// Kafka takes any factor; a map that is full to the last slot would search all of it for each new key.
const LOAD_FACTOR_MIN: f64 = 0.01;
const LOAD_FACTOR_MAX: f64 = 0.95;
/// Where memory allows, slots are this full at most: a search looks at two of them then.
const LOAD_FACTOR_EASY: f64 = 0.6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_offset_of_each_key_is_found() {
        let mut map = OffsetMap::new((1, 2), 1 << 20, 0.9, 10_000);
        for offset in 0..20_000_i64 {
            assert!(map.put(&(offset % 7_000).to_be_bytes(), Offset(offset)), "offset {offset}");
        }
        assert_eq!((map.key_count(), map.latest()), (7_000, Offset(19_999)));
        for key in 0..7_000_i64 {
            let newest = if key < 6_000 { key + 14_000 } else { key + 7_000 };
            assert_eq!(map.get(&key.to_be_bytes()), Some(Offset(newest)), "key {key}");
        }
        assert_eq!(map.get(b"unknown"), None);
        map.note_latest(Offset(5));
        assert_eq!(map.latest(), Offset(19_999));
    }

    #[test]
    fn a_full_map_takes_known_keys_only() {
        for (bytes_max, load_factor) in [(0, 0.9), (16 * 24, 0.9), (2400, 0.5), (2400, 5.0), (2400, 0.0)] {
            let mut map = OffsetMap::new((3, 4), bytes_max, load_factor, u64::MAX);
            let mut put = 0_u64;
            while map.put(&put.to_be_bytes(), Offset(put as i64)) {
                put += 1;
            }
            assert!((1..=100).contains(&put), "{put} keys in {bytes_max} bytes at {load_factor}");
            assert!(map.put(&0_u64.to_be_bytes(), Offset(1000)));
            assert_eq!(map.get(&0_u64.to_be_bytes()), Some(Offset(1000)));
            assert_eq!(map.get(&put.to_be_bytes()), None);
        }
    }
}
