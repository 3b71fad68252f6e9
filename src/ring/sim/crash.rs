//! What a power cut leaves of a file: a legal state, chosen by seed.
//!
//! ```text
//! sector (512 bytes)   each holds what it held after some number of the pending changes that touch it, chosen for each
//!                      sector by itself: a later write may be there and an earlier one, elsewhere in the file, not
//! length               that after some prefix of the changes; lengthened without its data, the file reads zeros there
//! cut (set_len)        comes before the writes after it: if one of those is there, the cut is, too
//! ```

use std::collections::BTreeMap;

use crate::ring::sim::random::Random;

/// One change of a file that is in the page cache, but not yet durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileChange {
    /// These bytes at this position.
    Write {
        /// Where.
        position_bytes: u64,
        /// What.
        bytes: Vec<u8>,
    },
    /// Cut, or extended with zeros.
    SetLen(u64),
}

impl FileChange {
    /// Changes `bytes` as the page cache is changed: whole.
    pub fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Write { position_bytes, bytes: written } => {
                let start = *position_bytes as usize;
                let end = start + written.len();
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
                bytes[start..end].copy_from_slice(written);
            }
            Self::SetLen(len_bytes) => bytes.resize(*len_bytes as usize, 0),
        }
    }

    /// Bytes that it holds.
    pub fn written_bytes(&self) -> u64 {
        match self {
            Self::Write { bytes, .. } => bytes.len() as u64,
            Self::SetLen(_) => 0,
        }
    }

    fn len_after(&self, len_bytes: u64) -> u64 {
        match self {
            Self::Write { position_bytes, bytes } => len_bytes.max(position_bytes + bytes.len() as u64),
            Self::SetLen(len_bytes) => *len_bytes,
        }
    }

    /// The sectors it touches. A cut touches the sector it goes through and all after it, up to `file_len_bytes`.
    fn sectors(&self, file_len_bytes: u64) -> std::ops::Range<u64> {
        match self {
            Self::Write { position_bytes, bytes } => {
                position_bytes / SECTOR_BYTES..(position_bytes + bytes.len() as u64).div_ceil(SECTOR_BYTES)
            }
            Self::SetLen(len_bytes) => len_bytes / SECTOR_BYTES..file_len_bytes.div_ceil(SECTOR_BYTES),
        }
    }
}

/// The file as found after the power cut, with `changes` pending over `durable`.
pub fn after_power_cut(durable: &[u8], changes: &[FileChange], random: &Random) -> Vec<u8> {
    let mut lens = vec![durable.len() as u64];
    for change in changes {
        lens.push(change.len_after(lens[lens.len() - 1]));
    }
    let len_max = lens.iter().copied().max().unwrap_or(0);

    // For each sector, how many of the changes (a prefix of all) it has seen; absent: none.
    let mut seen: BTreeMap<u64, usize> = BTreeMap::new();
    let mut kept_count = 0;
    let fates = Fates::draw(changes.len(), random);
    for (index, change) in changes.iter().enumerate() {
        let fate = fates.of(index, random);
        if fate == Fate::Lost {
            continue;
        }
        if let FileChange::SetLen(_) = change {
            // One transaction of the file system's journal: whole or not at all.
            kept_count = index + 1;
            continue;
        }
        for sector in change.sectors(len_max) {
            if fate == Fate::Kept || random.coin() {
                seen.insert(sector, index + 1);
                kept_count = index + 1;
            }
        }
    }
    let mut len_count = kept_count;
    if random.below(4) == 0 {
        len_count = random.between(kept_count as u64, changes.len() as u64) as usize;
    }
    for (index, change) in changes.iter().enumerate().take(len_count) {
        if let FileChange::SetLen(_) = change {
            for sector in change.sectors(len_max) {
                let count = seen.entry(sector).or_insert(0);
                *count = (*count).max(index + 1);
            }
        }
    }

    let mut image = durable.to_vec();
    image.resize(len_max as usize, 0);
    for (index, change) in changes.iter().enumerate() {
        for sector in change.sectors(len_max) {
            if seen.get(&sector).is_some_and(|count| index < *count) {
                apply_in_sector(change, sector, &mut image);
            }
        }
    }
    image.resize(lens[len_count] as usize, 0);
    image
}

fn apply_in_sector(change: &FileChange, sector: u64, image: &mut [u8]) {
    let sector_start = (sector * SECTOR_BYTES) as usize;
    let sector_end = (sector_start + SECTOR_BYTES as usize).min(image.len());
    match change {
        FileChange::Write { position_bytes, bytes } => {
            let start = (*position_bytes as usize).max(sector_start);
            let end = (*position_bytes as usize + bytes.len()).min(sector_end);
            let from = start - *position_bytes as usize;
            image[start..end].copy_from_slice(&bytes[from..from + (end - start)]);
        }
        FileChange::SetLen(len_bytes) => {
            let start = (*len_bytes as usize).max(sector_start);
            if start < sector_end {
                image[start..sector_end].fill(0);
            }
        }
    }
}

/// How the changes of one file fare; drawn by file, so that the plain cases (all, none, a prefix) are common.
enum Fates {
    All,
    None,
    Prefix(usize),
    EachWhole,
    EachTorn,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Kept,
    Lost,
    /// Each sector by itself.
    Torn,
}

impl Fates {
    fn draw(change_count: usize, random: &Random) -> Self {
        match random.below(6) {
            0 => Self::All,
            1 => Self::None,
            2 => Self::Prefix(random.index(change_count + 1)),
            3 => Self::EachWhole,
            _ => Self::EachTorn,
        }
    }

    fn of(&self, index: usize, random: &Random) -> Fate {
        let kept = match self {
            Self::All => true,
            Self::None => false,
            Self::Prefix(count) => index < *count,
            Self::EachWhole => random.coin(),
            Self::EachTorn => match random.below(3) {
                0 => return Fate::Torn,
                1 => true,
                _ => false,
            },
        };
        if kept { Fate::Kept } else { Fate::Lost }
    }
}

const SECTOR_BYTES: u64 = 512;

#[cfg(test)]
mod tests {
    use super::*;

    fn write(position_bytes: u64, byte: u8, len: usize) -> FileChange {
        FileChange::Write { position_bytes, bytes: vec![byte; len] }
    }

    /// Runs `seeds` power cuts and says how often each of `wanted` was seen; every image goes to `check`.
    fn cuts(durable: &[u8], changes: &[FileChange], mut check: impl FnMut(u64, &[u8])) {
        for seed in 0..2000 {
            check(seed, &after_power_cut(durable, changes, &Random::new(seed)));
        }
    }

    #[test]
    fn with_nothing_pending_nothing_is_lost() {
        cuts(b"durable", &[], |seed, image| assert_eq!(image, b"durable", "seed {seed}"));
    }

    #[test]
    fn a_small_append_is_there_or_not_or_reads_zeros() {
        let (mut kept, mut lost, mut zeros) = (0, 0, 0);
        cuts(&[1; 100], &[write(100, 2, 50)], |seed, image| {
            assert_eq!(image[..100], [1; 100], "seed {seed}: durable bytes changed");
            match &image[100..] {
                [] => lost += 1,
                tail if tail == [2; 50] => kept += 1,
                tail if tail == [0; 50] => zeros += 1,
                tail => panic!("seed {seed}: torn inside a sector: {tail:?}"),
            }
        });
        assert!(kept > 100, "{kept}");
        assert!(lost > 100, "{lost}");
        assert!(zeros > 10, "{zeros}");
    }

    #[test]
    fn a_large_write_tears_at_sectors_only() {
        let mut torn = 0;
        cuts(&[1; 4096], &[write(0, 2, 4096)], |seed, image| {
            assert_eq!(image.len(), 4096, "seed {seed}");
            let sectors: Vec<&[u8]> = image.chunks(512).collect();
            assert!(sectors.iter().all(|sector| *sector == [1; 512] || *sector == [2; 512]), "seed {seed}");
            torn += usize::from(sectors.windows(2).any(|pair| pair[0] != pair[1]));
        });
        assert!(torn > 100, "{torn}");
    }

    #[test]
    fn a_later_write_may_survive_an_earlier_one_in_another_sector_but_not_in_the_same() {
        let mut out_of_order = 0;
        cuts(&[], &[write(0, 1, 512), write(512, 2, 512)], |_, image| {
            out_of_order += usize::from(image.len() == 1024 && image[0] == 0 && image[512] == 2);
        });
        assert!(out_of_order > 50, "{out_of_order}");
        cuts(&[9; 100], &[write(0, 1, 10), write(10, 2, 10)], |seed, image| {
            assert!(
                image[10] != 2 || image[0] == 1,
                "seed {seed}: a sector is written whole, as the page cache had it"
            );
        });
    }

    #[test]
    fn a_cut_is_there_when_what_was_written_after_it_is() {
        let (mut cut, mut uncut) = (0, 0);
        cuts(&[7; 2048], &[FileChange::SetLen(600), write(600, 8, 100)], |seed, image| {
            assert_eq!(image[..512], [7; 512], "seed {seed}");
            match image.len() {
                2048 => {
                    uncut += 1;
                    assert_eq!(image, [7; 2048], "seed {seed}");
                }
                600 => cut += 1,
                700 => assert!(image[600..] == [8; 100] || image[600..] == [0; 100], "seed {seed}"),
                len => panic!("seed {seed}: length {len}"),
            }
        });
        assert!(cut > 50, "{cut}");
        assert!(uncut > 50, "{uncut}");
    }
}
