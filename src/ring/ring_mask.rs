//! Optional features of the kernel, by name, and which of them are hidden.

use std::fmt;
use std::str::FromStr;

/// A set of kernel features that the ring uses where they exist. Each has a fallback; hiding one tests the fallback.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingMask(u32);

impl RingMask {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// cachestat(2), 6.5: else pages are sampled with RWF_NOWAIT reads.
    pub const CACHESTAT: Self = Self(1);
    /// `IORING_SETUP_NO_SQARRAY`, 6.6: else the ring has its array of indices.
    pub const NO_SQARRAY: Self = Self(1 << 1);
    /// `IORING_ENTER_NO_IOWAIT`, 6.15: else an idle core may be counted as waiting for I/O.
    pub const NO_IOWAIT: Self = Self(1 << 2);
    /// `IORING_OP_FTRUNCATE`, 6.9: else the core's helper thread truncates.
    pub const FTRUNCATE: Self = Self(1 << 3);
    /// `IORING_SETUP_DEFER_TASKRUN` and `SINGLE_ISSUER`, 6.1: else completions interrupt the core.
    pub const DEFER_TASKRUN: Self = Self(1 << 4);
    /// Multishot accept, 5.19: else one accept at a time.
    pub const MULTISHOT_ACCEPT: Self = Self(1 << 5);
    /// Provided-buffer rings, 5.19: else poll and recv(2).
    pub const BUFFER_RING: Self = Self(1 << 6);
    /// `IORING_OP_SPLICE` for cold file ranges: else they are read into a buffer and sent.
    pub const SPLICE: Self = Self(1 << 7);
    /// `IORING_OP_MSG_RING`, 5.18: else cores wake each other by eventfd.
    pub const MSG_RING: Self = Self(1 << 8);
    /// preadv2(2) with RWF_NOWAIT: else each read goes through the ring, and files are sent as if cold.
    pub const READ_NOWAIT: Self = Self(1 << 9);
    /// sendfile(2) of hot ranges: else they are sent as if cold.
    pub const SENDFILE: Self = Self(1 << 10);
    /// Small writes by pwrite(2): else each write goes through the ring.
    pub const INLINE_WRITE: Self = Self(1 << 11);
    /// syncfs(2) on ext4 or XFS where many files wait for a sync: else each file is synced.
    pub const SYNCFS: Self = Self(1 << 12);

    /// All features.
    pub const ALL: Self = Self((1 << 13) - 1);

    /// Each feature with its name on the command line.
    pub const NAMES: [(&'static str, Self); 13] = [
        ("cachestat", Self::CACHESTAT),
        ("no_sqarray", Self::NO_SQARRAY),
        ("no_iowait", Self::NO_IOWAIT),
        ("ftruncate", Self::FTRUNCATE),
        ("defer_taskrun", Self::DEFER_TASKRUN),
        ("multishot_accept", Self::MULTISHOT_ACCEPT),
        ("buffer_ring", Self::BUFFER_RING),
        ("splice", Self::SPLICE),
        ("msg_ring", Self::MSG_RING),
        ("read_nowait", Self::READ_NOWAIT),
        ("sendfile", Self::SENDFILE),
        ("inline_write", Self::INLINE_WRITE),
        ("syncfs", Self::SYNCFS),
    ];

    /// True where all of `other` is in the set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both sets together.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The set less `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl FromStr for RingMask {
    type Err = UnknownFeature;

    /// Names with commas between them; an empty text is the empty set.
    fn from_str(text: &str) -> Result<Self, UnknownFeature> {
        let mut mask = Self::NONE;
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let Some((_, feature)) = Self::NAMES.iter().find(|(name, _)| *name == word) else {
                return Err(UnknownFeature { name: word.to_owned() });
            };
            mask = mask.with(*feature);
        }
        Ok(mask)
    }
}

impl fmt::Display for RingMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names = Self::NAMES.iter().filter(|(_, feature)| self.contains(*feature)).map(|(name, _)| *name);
        f.write_str(names.next().unwrap_or_default())?;
        names.try_for_each(|name| write!(f, ",{name}"))
    }
}

/// A name that is no feature.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{name:?} is no feature of the ring; known: {}", RingMask::NAMES.map(|(name, _)| name).join(", "))]
pub struct UnknownFeature {
    /// The word that was given.
    pub name: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_and_print() {
        let mask: RingMask = "splice, cachestat,".parse().unwrap();
        assert_eq!(mask, RingMask::SPLICE.with(RingMask::CACHESTAT));
        assert_eq!(mask.to_string(), "cachestat,splice");
        assert_eq!("".parse::<RingMask>(), Ok(RingMask::NONE));
        assert_eq!("warp".parse::<RingMask>().unwrap_err().name, "warp");
        for (index, (_, feature)) in RingMask::NAMES.iter().enumerate() {
            assert_eq!(feature.0, 1 << index, "each feature has a bit of its own");
            assert!(RingMask::ALL.contains(*feature));
        }
    }
}
