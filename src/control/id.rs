//! Ids of brokers, cores, topics, directories and the cluster.

use std::fmt;

/// A core of this machine, counted from 0; at most [`CoreIndex::MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CoreIndex(u16);

impl CoreIndex {
    /// The highest index: broker ids give a machine a thousand.
    pub const MAX: u16 = 999;

    /// The core with this index, or `None` above [`CoreIndex::MAX`].
    #[must_use]
    pub const fn new(index: u16) -> Option<Self> {
        if index <= Self::MAX { Some(Self(index)) } else { None }
    }

    /// The index, from 0.
    #[must_use]
    pub const fn index(self) -> u16 {
        self.0
    }

    /// The cores 0 to `count - 1`; counts above a thousand stop there.
    #[must_use]
    pub fn first(count: u16) -> Vec<Self> {
        (0..count.min(Self::MAX + 1)).map(Self).collect()
    }
}

impl fmt::Display for CoreIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A broker as clients see it: `node id * 1000 + core index`. May be any number that a client sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BrokerId(pub i32);

impl BrokerId {
    /// The highest node id whose brokers all fit in an `i32`.
    pub const NODE_ID_MAX: i32 = i32::MAX / 1000 - 1;

    /// The broker of a core; `None` unless `node_id` is in `0..=`[`BrokerId::NODE_ID_MAX`].
    #[must_use]
    pub fn of(node_id: i32, core: CoreIndex) -> Option<Self> {
        (0..=Self::NODE_ID_MAX).contains(&node_id).then(|| Self(node_id * 1000 + i32::from(core.0)))
    }

    /// The node id of the machine that the broker is a core of.
    #[must_use]
    pub const fn machine(self) -> i32 {
        self.0.div_euclid(1000)
    }

    /// The core on that machine.
    #[must_use]
    pub fn core(self) -> CoreIndex {
        let index = self.0.rem_euclid(1000);
        CoreIndex(u16::try_from(index).unwrap_or(CoreIndex::MAX))
    }
}

impl fmt::Display for BrokerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The id of a data directory, 16 bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DirectoryId(pub [u8; 16]);

/// The id of the cluster, made once; clients see its base64 text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterId(pub [u8; 16]);

macro_rules! base64_text {
    ($($id:ident)*) => {$(
        impl fmt::Display for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write_base64(&self.0, f)
            }
        }

        impl fmt::Debug for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({self})", stringify!($id))
            }
        }
    )*};
}

base64_text!(DirectoryId ClusterId);

/// Writes 22 characters of URL-safe base64 without padding, as Kafka prints its uuids.
fn write_base64(id: &[u8; 16], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for group in id.chunks(3) {
        let mut bits = 0u32;
        for place in 0..3 {
            bits = bits << 8 | u32::from(group.get(place).copied().unwrap_or(0));
        }
        for place in 0..=group.len() {
            let letter = (bits >> (18 - 6 * place)) & 63;
            let letter = match letter {
                0..=25 => b'A' + letter as u8,
                26..=51 => b'a' + (letter - 26) as u8,
                52..=61 => b'0' + (letter - 52) as u8,
                62 => b'-',
                _ => b'_',
            };
            write!(f, "{}", char::from(letter))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{BrokerId, ClusterId, CoreIndex, DirectoryId};

    #[test]
    fn a_broker_is_a_core_of_a_machine() {
        let core = CoreIndex::new(7).expect("in range");
        for (node_id, broker) in
            [(0, Some(7)), (1, Some(1007)), (2_147_482, Some(2_147_482_007)), (2_147_483, None), (-1, None)]
        {
            assert_eq!(BrokerId::of(node_id, core).map(|id| id.0), broker, "node {node_id}");
        }
        for (id, machine, core) in
            [(0, 0, 0), (1007, 1, 7), (-1, -1, 999), (i32::MAX, 2_147_483, 647), (i32::MIN, -2_147_484, 352)]
        {
            assert_eq!((BrokerId(id).machine(), BrokerId(id).core().index()), (machine, core), "broker {id}");
        }
        assert_eq!(CoreIndex::new(1000), None);
    }

    #[test]
    fn ids_print_as_kafka_prints_them() {
        let mut one = [0u8; 16];
        one[15] = 1;
        assert_eq!(ClusterId(one).to_string(), "AAAAAAAAAAAAAAAAAAAAAQ");
        assert_eq!(DirectoryId([0xff; 16]).to_string(), "_____________________w");
    }
}
