//! CRC-32 and CRC-32C by the interface of the `crc` crate, fast.
//!
//! The client of HDFS checks every 512 bytes that it sends or gets by the `crc` crate, whose tables take a sixth of a copy's
//! time. This stands in its place in the server's build (`[patch.crates-io]`): the same names, carried out by `crc32c`, which is
//! the quicker one for so few bytes, and by `crc-fast`. It has what the tree uses and no more, so that whatever else is asked
//! for does not compile: two algorithms of 32 bits.

use std::marker::PhantomData;

/// An algorithm, by its name in the catalogue of CRCs. There are no others than those below.
#[derive(Debug)]
pub struct Algorithm<W: 'static> {
    kind: Kind,
    width: PhantomData<W>,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Iscsi,
    IsoHdlc,
}

/// CRC-32C, as in HDFS's packets and Kafka's batches.
pub const CRC_32_ISCSI: Algorithm<u32> = Algorithm { kind: Kind::Iscsi, width: PhantomData };

/// The CRC-32 of zip and Ethernet, as in Kafka's messages before batches and in older files of HDFS.
pub const CRC_32_ISO_HDLC: Algorithm<u32> = Algorithm { kind: Kind::IsoHdlc, width: PhantomData };

/// How many tables the `crc` crate would make; of no meaning here.
#[derive(Clone, Copy, Debug)]
pub struct Table<const L: usize>;

/// An algorithm to be applied.
#[derive(Clone, Debug)]
pub struct Crc<W, I = Table<1>> {
    kind: Kind,
    means: PhantomData<(W, I)>,
}

/// A checksum of bytes that come piece by piece.
#[derive(Clone, Debug)]
pub struct Digest<'a, W, I = Table<1>> {
    kind: Kind,
    /// Of the bytes so far.
    checksum: u32,
    crc: PhantomData<&'a Crc<W, I>>,
}

impl<const L: usize> Crc<u32, Table<L>> {
    /// For an algorithm.
    #[must_use]
    pub const fn new(algorithm: &'static Algorithm<u32>) -> Self {
        Self { kind: algorithm.kind, means: PhantomData }
    }

    /// The checksum of `bytes`.
    #[must_use]
    pub fn checksum(&self, bytes: &[u8]) -> u32 {
        self.kind.checksum(bytes)
    }

    /// Begins a checksum of several pieces.
    #[must_use]
    pub const fn digest(&self) -> Digest<'_, u32, Table<L>> {
        Digest { kind: self.kind, checksum: OF_NOTHING, crc: PhantomData }
    }
}

impl<const L: usize> Digest<'_, u32, Table<L>> {
    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.checksum = match self.checksum {
            // Also where there were bytes of this checksum: they leave the same state.
            OF_NOTHING => self.kind.checksum(bytes),
            checksum => self.kind.goes_on(checksum, bytes),
        };
    }

    /// The checksum of all of them.
    #[must_use]
    pub const fn finalize(self) -> u32 {
        self.checksum
    }
}

impl Kind {
    fn checksum(self, bytes: &[u8]) -> u32 {
        match self {
            Self::Iscsi => crc32c::crc32c(bytes),
            Self::IsoHdlc => crc_fast::crc32_iso_hdlc(bytes),
        }
    }

    fn goes_on(self, checksum: u32, bytes: &[u8]) -> u32 {
        let algorithm = match self {
            Self::Iscsi => crc_fast::CrcAlgorithm::Crc32Iscsi,
            Self::IsoHdlc => crc_fast::CrcAlgorithm::Crc32IsoHdlc,
        };
        let mut digest = crc_fast::Digest::new_with_init_state(algorithm, u64::from(checksum ^ XOR_OUT));
        digest.update(bytes);
        digest.finalize() as u32
    }
}

/// Both algorithms end by turning all bits over, and begin with all set.
const XOR_OUT: u32 = u32::MAX;
const OF_NOTHING: u32 = 0;

#[cfg(test)]
mod tests {
    use super::*;

    const CRC32C: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISCSI);
    const CRC32: Crc<u32> = Crc::<u32>::new(&CRC_32_ISO_HDLC);

    /// Bit by bit, from the polynomial with its bits in reverse order.
    fn reference(polynomial: u32, bytes: &[u8]) -> u32 {
        let mut state = u32::MAX;
        for byte in bytes {
            state ^= u32::from(*byte);
            for _ in 0..8 {
                state = (state >> 1) ^ if state & 1 == 1 { polynomial } else { 0 };
            }
        }
        !state
    }

    #[test]
    fn the_check_values_of_the_catalogue() {
        assert_eq!(CRC32C.checksum(b"123456789"), 0xe306_9283);
        assert_eq!(CRC32.checksum(b"123456789"), 0xcbf4_3926);
        assert_eq!((CRC32C.checksum(b""), CRC32.checksum(b"")), (0, 0));
        assert_eq!((CRC32C.digest().finalize(), CRC32.digest().finalize()), (0, 0));
    }

    #[test]
    fn pieces_give_what_the_whole_gives() {
        let bytes: Vec<u8> = (0..1500_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for len in [1, 3, 15, 16, 17, 63, 255, 256, 257, 511, 512, 513, 1024, 1500] {
            let whole = &bytes[..len];
            let (castagnoli, zip) = (reference(0x82f6_3b78, whole), reference(0xedb8_8320, whole));
            assert_eq!((CRC32C.checksum(whole), CRC32.checksum(whole)), (castagnoli, zip), "{len} bytes");
            for step in [1, 7, 16, 100, 512] {
                let (mut one, mut other) = (CRC32C.digest(), CRC32.digest());
                for piece in whole.chunks(step) {
                    one.update(piece);
                    other.update(&[]);
                    other.update(piece);
                }
                assert_eq!((one.finalize(), other.finalize()), (castagnoli, zip), "{len} bytes by {step}");
            }
        }
    }
}
