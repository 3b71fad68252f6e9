//! Bytes of a remote segment, as they lie in memory.

use std::borrow::Cow;
use std::rc::Rc;

use crate::ring::buffer::Buffer;
use crate::ring::shared_bytes::SharedBytes;

/// A range of a remote segment's file, in one slice or several. What it holds of the tier's memory is given back with the
/// last of them.
#[derive(Default)]
pub struct RemoteBytes {
    slices: Vec<SharedBytes>,
}

impl RemoteBytes {
    /// In this order.
    pub(in crate::shard) fn new(slices: Vec<SharedBytes>) -> Self {
        Self { slices }
    }

    /// Of a buffer alone.
    pub fn of(buffer: Buffer) -> Self {
        let len = buffer.len();
        Self::new(vec![SharedBytes::new(Rc::new(buffer), 0..len)])
    }

    /// Their number.
    pub fn len(&self) -> usize {
        self.slices.iter().map(|slice| slice.len()).sum()
    }

    /// True where there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All in one piece; copied where they lie in several.
    pub fn joined(&self) -> Cow<'_, [u8]> {
        match self.slices.as_slice() {
            [one] => Cow::Borrowed(one),
            several => Cow::Owned(several.iter().map(|slice| &**slice).collect::<Vec<&[u8]>>().concat()),
        }
    }

    /// Copies from `at` on until `into` is full or they end; says how many.
    pub fn copy_from(&self, mut at: usize, into: &mut [u8]) -> usize {
        let mut copied = 0;
        for slice in &self.slices {
            let Some(rest) = slice.get(at..) else {
                at -= slice.len();
                continue;
            };
            let count = rest.len().min(into.len() - copied);
            into[copied..copied + count].copy_from_slice(&rest[..count]);
            copied += count;
            at = 0;
        }
        copied
    }

    /// Drops all but the first `len` bytes, and what held the others.
    pub fn truncate(&mut self, len: usize) {
        let mut left = len;
        self.slices.retain_mut(|slice| {
            slice.truncate(left);
            left -= slice.len();
            !slice.is_empty()
        });
    }

    /// The slices, to be sent.
    pub fn into_slices(self) -> Vec<SharedBytes> {
        self.slices
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_read_as_one() {
        let slice = |bytes: &[u8]| SharedBytes::new(Rc::new(bytes.to_vec()), 0..bytes.len());
        let mut bytes = RemoteBytes::new(vec![slice(&[1, 2, 3]), slice(&[4]), slice(&[5, 6])]);
        assert_eq!(&*bytes.joined(), [1, 2, 3, 4, 5, 6]);
        for at in 0..8 {
            let mut into = [0; 3];
            let count = bytes.copy_from(at, &mut into);
            assert_eq!(into[..count], [1, 2, 3, 4, 5, 6][at.min(6)..(at + 3).min(6)], "from {at}");
        }
        bytes.truncate(4);
        assert_eq!((bytes.len(), bytes.slices.len()), (4, 2));
        bytes.truncate(9);
        assert_eq!(&*bytes.joined(), [1, 2, 3, 4]);
        bytes.truncate(0);
        assert!(bytes.is_empty() && bytes.into_slices().is_empty());
    }
}
