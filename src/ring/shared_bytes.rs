//! A range of memory that several may read, for as long as any of them lives.

use std::ops::{Deref, Range};
use std::rc::Rc;

/// Bytes within memory that others hold too. Nobody writes them. Of one core.
#[derive(Clone)]
pub struct SharedBytes {
    memory: Rc<dyn AsRef<[u8]>>,
    range: Range<usize>,
}

impl SharedBytes {
    /// The bytes of `memory` in `range`; what reaches beyond its end is left out.
    pub fn new(memory: Rc<dyn AsRef<[u8]>>, range: Range<usize>) -> Self {
        let len = (*memory).as_ref().len();
        let end = range.end.min(len);
        Self { memory, range: range.start.min(end)..end }
    }

    /// Drops all but the first `len` bytes; nothing where it is shorter already.
    pub fn truncate(&mut self, len: usize) {
        self.range.end = self.range.end.min(self.range.start.saturating_add(len));
    }
}

impl Deref for SharedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        (*self.memory).as_ref().get(self.range.clone()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_stays_within_its_memory() {
        let memory: Rc<dyn AsRef<[u8]>> = Rc::new(vec![1_u8, 2, 3, 4]);
        let of = |range| SharedBytes::new(memory.clone(), range).to_vec();
        assert_eq!([of(0..4), of(1..3), of(2..9), of(7..9)], [vec![1, 2, 3, 4], vec![2, 3], vec![3, 4], vec![]]);
        let mut cut = SharedBytes::new(memory.clone(), 1..4);
        cut.truncate(2);
        assert_eq!(&*cut, [2, 3]);
        cut.truncate(9);
        assert_eq!(cut.len(), 2);
    }
}
