//! Bytes of a core that another thread has for a while, and whose memory comes back.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut, Range};
use std::sync::mpsc;

use crate::ring::buffer::{Absent, Buffer};

/// Lends buffers of one core to other threads. What has come back goes to where it belongs (the core's pool) when the core
/// [looks](Self::collect); what comes back after this is gone is freed where it is.
pub struct Lender {
    give_back: mpsc::Sender<Returned>,
    come_back: mpsc::Receiver<Returned>,
    lent: RefCell<BTreeMap<Loan, Absent>>,
    next: Cell<u64>,
}

/// One lending of a buffer; of a lender no two are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Loan(u64);

/// Bytes that are lent: nobody else reads or writes them. Their memory goes back when this is dropped.
pub struct LentBytes {
    bytes: Box<[u8]>,
    range: Range<usize>,
    loan: Loan,
    /// To whom; none once it was handed back.
    back: Option<mpsc::Sender<Returned>>,
}

/// Memory on its way back.
type Returned = (Loan, Box<[u8]>);

impl Default for Lender {
    fn default() -> Self {
        let (give_back, come_back) = mpsc::channel();
        Self { give_back, come_back, lent: RefCell::default(), next: Cell::default() }
    }
}

impl Lender {
    /// Lends a buffer; a copy of it where others have ranges of the same memory.
    pub fn lend(&self, buffer: Buffer) -> LentBytes {
        self.collect();
        let (bytes, range, absent) = buffer
            .into_memory()
            .unwrap_or_else(|shared| (shared.to_vec().into_boxed_slice(), 0..shared.len(), Absent::of_copy(&shared)));
        let loan = Loan(self.next.replace(self.next.get() + 1));
        self.lent.borrow_mut().insert(loan, absent);
        LentBytes { bytes, range, loan, back: Some(self.give_back.clone()) }
    }

    /// A buffer of what was lent, when it was handed back itself.
    pub fn restore(&self, mut lent: LentBytes) -> Buffer {
        let bytes = std::mem::take(&mut lent.bytes);
        let range = lent.range.clone();
        let absent = lent.back.take().and_then(|_| self.lent.borrow_mut().remove(&lent.loan));
        absent.unwrap_or_default().into_buffer(bytes, range)
    }

    /// Puts what has come back where it belongs, and lets go of what is tied to it.
    pub fn collect(&self) {
        for (loan, bytes) in self.come_back.try_iter() {
            let absent = self.lent.borrow_mut().remove(&loan);
            if let Some(absent) = absent {
                absent.take_back(bytes);
            }
        }
    }

    /// True where another thread has the memory of that lending yet.
    pub fn is_away(&self, loan: Loan) -> bool {
        self.collect();
        self.lent.borrow().contains_key(&loan)
    }

    /// How many buffers are away.
    pub fn count(&self) -> usize {
        self.lent.borrow().len()
    }
}

impl LentBytes {
    /// Which lending it is.
    pub fn loan(&self) -> Loan {
        self.loan
    }

    /// Drops all but the first `len` bytes; nothing where it is shorter already.
    pub fn truncate(&mut self, len: usize) {
        self.range.end = self.range.end.min(self.range.start.saturating_add(len));
    }
}

impl Deref for LentBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.get(self.range.clone()).unwrap_or_default()
    }
}

impl DerefMut for LentBytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.bytes.get_mut(self.range.clone()).unwrap_or_default()
    }
}

impl AsRef<[u8]> for LentBytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Drop for LentBytes {
    fn drop(&mut self) {
        if let Some(back) = self.back.take() {
            // The core may be gone.
            let _ = back.send((self.loan, std::mem::take(&mut self.bytes)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::ring::buffer::BufferPool;

    #[test]
    #[allow(clippy::disallowed_methods, reason = "the other thread")]
    fn lent_memory_comes_home_from_another_thread() {
        let (pool, lender) = (BufferPool::new(1 << 20), Lender::default());
        let mut buffer = pool.take(5000);
        buffer[..3].copy_from_slice(&[1, 2, 3]);
        buffer.truncate(3);
        buffer.advance(1);
        let lent = lender.lend(buffer);
        let (there, read) = mpsc::channel();
        std::thread::spawn(move || there.send(lent.as_ref().to_vec())).join().expect("it ends").expect("it is read");
        assert_eq!(read.recv(), Ok(vec![2, 3]));
        assert_eq!((pool.kept_bytes(), lender.count()), (0, 1), "the core has not looked");
        lender.collect();
        assert_eq!((pool.kept_bytes(), lender.count()), (8192, 0));
        assert_eq!(pool.take(8000).len(), 8000);
        assert_eq!(pool.kept_bytes(), 8192, "the same memory");
    }

    #[test]
    fn a_loan_is_away_until_its_memory_has_come_back() {
        let (pool, lender) = (BufferPool::new(1 << 20), Lender::default());
        let (first, second) = (lender.lend(pool.take(100)), lender.lend(pool.take(100)));
        let (one, other) = (first.loan(), second.loan());
        assert!(lender.is_away(one) && lender.is_away(other));
        drop(first);
        assert!(!lender.is_away(one) && lender.is_away(other));
        // A later loan is another one, though the memory is the same.
        let third = lender.lend(pool.take(100));
        assert!(!lender.is_away(one) && lender.is_away(third.loan()));
        drop(lender.restore(second));
        assert!(!lender.is_away(other));
    }

    #[test]
    fn what_another_thread_filled_is_a_buffer_again() {
        let (pool, lender) = (BufferPool::new(1 << 20), Lender::default());
        for is_shared in [false, true] {
            let mut buffer = pool.take(5000);
            buffer.advance(10);
            let other = is_shared.then(|| buffer.split_to(10));
            let mut lent = lender.lend(buffer);
            lent.truncate(100);
            lent.fill(3);
            let restored = lender.restore(lent);
            assert_eq!((&*restored, lender.count()), (&[3; 100][..], 0));
            drop((restored, other));
            assert_eq!(pool.kept_bytes(), 8192);
        }
    }

    #[test]
    fn what_was_reserved_for_a_buffer_is_held_until_its_bytes_are_back() {
        let (pool, lender) = (BufferPool::new(1 << 20), Lender::default());
        let reserved: Rc<()> = Rc::default();
        for is_shared in [false, true] {
            let mut buffer = pool.take(5000).holding(reserved.clone());
            let other = is_shared.then(|| buffer.split_to(10));
            let lent = lender.lend(buffer);
            drop(other);
            assert_eq!(Rc::strong_count(&reserved), 2, "whoever asked is gone, the bytes are not back");
            drop(lent);
            lender.collect();
            assert_eq!(Rc::strong_count(&reserved), 1);
        }
        let restored = lender.restore(lender.lend(pool.take(5000).holding(reserved.clone())));
        assert_eq!(Rc::strong_count(&reserved), 2);
        drop(restored);
        assert_eq!(Rc::strong_count(&reserved), 1);
        let late = lender.lend(pool.take(5000).holding(reserved.clone()));
        drop(lender);
        assert_eq!(Rc::strong_count(&reserved), 1, "nobody is left to be told");
        drop(late);
    }

    #[test]
    fn what_others_have_too_is_copied_and_nothing_is_lost_with_its_lender() {
        let (pool, lender) = (BufferPool::new(1 << 20), Lender::default());
        let mut rest = pool.take(100);
        rest.fill(7);
        let front = rest.split_to(40);
        let lent = lender.lend(front);
        assert_eq!((lent.as_ref(), lender.count()), (&[7; 40][..], 1));
        drop((rest, lent));
        lender.collect();
        assert_eq!((pool.kept_bytes(), lender.count()), (4096, 0));
        let late = lender.lend(Buffer::from_vec(vec![5; 10]));
        drop((lender, pool));
        assert_eq!(late.as_ref(), [5; 10]);
    }
}
