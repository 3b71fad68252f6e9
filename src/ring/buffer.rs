//! Owned, exclusive ranges of memory, pooled by core.
//!
//! A [`Buffer`] is the only way to its bytes: nobody else reads or writes them while it lives, so an operation in flight
//! owns its buffer and hands it back with the completion. Splitting gives disjoint ranges of the same memory, which goes
//! back to where it came from (the core's pool, or a receive buffer ring) when the last range is dropped.

use std::any::Any;
use std::cell::{RefCell, UnsafeCell};
use std::ops::{Deref, DerefMut, Range};
use std::rc::{Rc, Weak};

/// An owned, exclusive range of bytes. Not `Send`: it belongs to one core.
pub struct Buffer {
    memory: Rc<Memory>,
    start: usize,
    end: usize,
}

/// One allocation, shared by the disjoint ranges cut from it.
struct Memory {
    bytes: UnsafeCell<Box<[u8]>>,
    home: Option<Weak<dyn Home>>,
    /// Number within `home` (a receive ring's buffer id).
    number: u16,
    /// Dropped with the bytes, wherever they are then.
    held: Option<Rc<dyn Any>>,
}

/// All bytes of a buffer's memory, the range of the buffer in them, and where they belong.
pub(in crate::ring) type TakenOut = (Box<[u8]>, Range<usize>, Absent);

/// Memory without its bytes, which are elsewhere for a while: where they go when they are back.
#[derive(Default)]
pub(in crate::ring) struct Absent {
    home: Option<Weak<dyn Home>>,
    number: u16,
    held: Option<Rc<dyn Any>>,
}

impl Absent {
    /// Of a copy of a buffer: it has no home, and counts as the buffer does.
    pub(in crate::ring) fn of_copy(buffer: &Buffer) -> Self {
        Self { home: None, number: 0, held: buffer.held() }
    }

    /// The bytes are back, and go on as a buffer of `range`.
    pub(in crate::ring) fn into_buffer(self, bytes: Box<[u8]>, range: Range<usize>) -> Buffer {
        let Self { home, number, held } = self;
        let end = bytes.len();
        let memory = Rc::new(Memory { bytes: UnsafeCell::new(bytes), home, number, held });
        let mut buffer = Buffer { memory, start: 0, end };
        buffer.truncate(range.end);
        buffer.advance(range.start.min(buffer.len()));
        buffer
    }

    /// The bytes are back.
    pub(in crate::ring) fn take_back(self, bytes: Box<[u8]>) {
        if let Some(home) = self.home.and_then(|home| home.upgrade()) {
            home.take_back(bytes, self.number);
        }
    }
}

/// Where memory goes back to when its last [`Buffer`] is dropped.
pub(in crate::ring) trait Home {
    /// Takes `bytes` back. Must not panic, and must not touch any `Buffer`.
    fn take_back(&self, bytes: Box<[u8]>, number: u16);
}

impl Buffer {
    /// A buffer of zeros that belongs to no pool.
    pub fn zeroed(len: usize) -> Self {
        Self::from_vec(vec![0; len])
    }

    /// A buffer over the bytes of `bytes`, without a copy where its capacity equals its length.
    pub fn from_vec(bytes: Vec<u8>) -> Self {
        Self::with_home(bytes.into_boxed_slice(), None, 0)
    }

    pub(in crate::ring) fn with_home(bytes: Box<[u8]>, home: Option<Weak<dyn Home>>, number: u16) -> Self {
        let end = bytes.len();
        Self { memory: Rc::new(Memory { bytes: UnsafeCell::new(bytes), home, number, held: None }), start: 0, end }
    }

    /// Ties `held` to the memory: it is dropped when the memory goes home or is freed, and not before, though another thread
    /// has the bytes by then. So what was reserved for a buffer is held for as long as there is the buffer.
    ///
    /// # Panics
    /// Where others have ranges of the same memory.
    #[must_use]
    pub fn holding(mut self, held: Rc<dyn Any>) -> Self {
        Rc::get_mut(&mut self.memory).expect("the only range of its memory").held = Some(held);
        self
    }

    /// What is tied to the memory.
    pub fn held(&self) -> Option<Rc<dyn Any>> {
        self.memory.held.clone()
    }

    /// Cuts the first `at` bytes off into a buffer of their own; the rest stays in `self`. No copy.
    ///
    /// # Panics
    /// Where `at` is more than the length.
    #[must_use]
    pub fn split_to(&mut self, at: usize) -> Self {
        assert!(at <= self.len(), "split at {at} of a buffer of {} bytes", self.len());
        let front = Self { memory: self.memory.clone(), start: self.start, end: self.start + at };
        self.start += at;
        front
    }

    /// Drops all but the first `len` bytes; nothing where it is shorter already.
    pub fn truncate(&mut self, len: usize) {
        self.end = self.end.min(self.start.saturating_add(len));
    }

    /// Drops the first `count` bytes.
    ///
    /// # Panics
    /// Where `count` is more than the length.
    pub fn advance(&mut self, count: usize) {
        assert!(count <= self.len(), "advance by {count} in a buffer of {} bytes", self.len());
        self.start += count;
    }

    /// Takes the memory itself out: all its bytes, the range of this buffer in them, and where they belong. The buffer again
    /// where others have ranges of the same memory.
    pub(in crate::ring) fn into_memory(mut self) -> Result<TakenOut, Self> {
        let range = self.start..self.end;
        let Some(memory) = Rc::get_mut(&mut self.memory) else { return Err(self) };
        let bytes = std::mem::take(memory.bytes.get_mut());
        // Without its home, what is left of the memory goes nowhere when it is dropped.
        let absent = Absent { home: memory.home.take(), number: memory.number, held: memory.held.take() };
        // No range of what is empty now.
        (self.start, self.end) = (0, 0);
        Ok((bytes, range, absent))
    }

    /// Address of the first byte, for an operation of the ring that owns this buffer until its completion.
    pub(in crate::ring) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.deref_mut().as_mut_ptr()
    }
}

impl Deref for Buffer {
    type Target = [u8];

    #[allow(unsafe_code)]
    fn deref(&self) -> &[u8] {
        // SAFETY: the ranges of one `Memory` are disjoint (only `split_to` makes a second one, and it divides), so no
        // other `Buffer` writes these bytes; the borrow of `self` keeps this one from writing. `Rc` keeps them alive.
        unsafe {
            let base = (*self.memory.bytes.get()).as_ptr();
            std::slice::from_raw_parts(base.add(self.start), self.end - self.start)
        }
    }
}

impl DerefMut for Buffer {
    #[allow(unsafe_code)]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; and `&mut self` is the only way to this range.
        unsafe {
            let base = (*self.memory.bytes.get()).as_mut_ptr();
            std::slice::from_raw_parts_mut(base.add(self.start), self.end - self.start)
        }
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer({} bytes)", self.len())
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Some(home) = self.home.take().and_then(|home| home.upgrade()) {
            home.take_back(std::mem::take(self.bytes.get_mut()), self.number);
        }
    }
}

/// Memory for frames and reads of one core, kept for the next one: by powers of two, at most `kept_bytes_max` idle.
pub struct BufferPool {
    idle: RefCell<Idle>,
    kept_bytes_max: usize,
}

struct Idle {
    classes: [Vec<Box<[u8]>>; CLASS_COUNT],
    kept_bytes: usize,
}

impl BufferPool {
    /// An empty pool.
    pub fn new(kept_bytes_max: usize) -> Rc<Self> {
        Rc::new(Self {
            idle: RefCell::new(Idle { classes: std::array::from_fn(|_| Vec::new()), kept_bytes: 0 }),
            kept_bytes_max,
        })
    }

    /// A buffer of exactly `len` bytes. What is in it is arbitrary (an earlier use's bytes), but initialised.
    pub fn take(self: &Rc<Self>, len: usize) -> Buffer {
        let Some(class) = class_of(len) else {
            return Buffer::zeroed(len);
        };
        let reused = {
            let mut idle = self.idle.borrow_mut();
            let reused = idle.classes[class].pop();
            if let Some(bytes) = &reused {
                idle.kept_bytes -= bytes.len();
            }
            reused
        };
        let bytes = reused.unwrap_or_else(|| vec![0; CLASS_MIN_BYTES << class].into_boxed_slice());
        let home: Weak<Self> = Rc::downgrade(self);
        let mut buffer = Buffer::with_home(bytes, Some(home as Weak<dyn Home>), 0);
        buffer.truncate(len);
        buffer
    }

    /// Bytes that lie idle in the pool.
    pub fn kept_bytes(&self) -> usize {
        self.idle.borrow().kept_bytes
    }
}

impl Home for BufferPool {
    fn take_back(&self, bytes: Box<[u8]>, _number: u16) {
        let mut idle = self.idle.borrow_mut();
        if idle.kept_bytes + bytes.len() <= self.kept_bytes_max
            && let Some(class) = class_of(bytes.len())
            && CLASS_MIN_BYTES << class == bytes.len()
        {
            idle.kept_bytes += bytes.len();
            idle.classes[class].push(bytes);
        }
    }
}

/// The smallest class that holds `len`; `None` where it is larger than all: such a buffer is not kept.
fn class_of(len: usize) -> Option<usize> {
    let rounded = len.max(CLASS_MIN_BYTES).checked_next_power_of_two()?;
    let class = (rounded.trailing_zeros() - CLASS_MIN_BYTES.trailing_zeros()) as usize;
    (class < CLASS_COUNT).then_some(class)
}

const CLASS_MIN_BYTES: usize = 4 * 1024;
/// 4 KiB to 4 MiB.
const CLASS_COUNT: usize = 11;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_ranges_are_disjoint_and_writable() {
        let mut rest = Buffer::from_vec((0..10).collect());
        let mut front = rest.split_to(4);
        front[0] = 100;
        rest[0] = 200;
        assert_eq!(&*front, [100, 1, 2, 3]);
        assert_eq!(&*rest, [200, 5, 6, 7, 8, 9]);
        rest.advance(2);
        rest.truncate(3);
        assert_eq!(&*rest, [6, 7, 8]);
    }

    #[test]
    fn memory_comes_home_with_the_last_range() {
        let pool = BufferPool::new(1 << 20);
        let mut whole = pool.take(5000);
        assert_eq!(whole.len(), 5000);
        let part = whole.split_to(10);
        drop(whole);
        assert_eq!(pool.kept_bytes(), 0, "a range still lives");
        drop(part);
        assert_eq!(pool.kept_bytes(), 8192);
        assert_eq!(pool.take(8192).len(), 8192);
        assert_eq!(pool.kept_bytes(), 8192, "reused, then back again");
    }

    #[test]
    fn the_pool_keeps_no_more_than_its_bound() {
        let pool = BufferPool::new(8192);
        let held: Vec<Buffer> = (0..5).map(|_| pool.take(4096)).collect();
        drop(held);
        assert_eq!(pool.kept_bytes(), 8192);
        drop(pool.take(64 << 20));
        assert_eq!(pool.kept_bytes(), 8192, "larger than the largest class: not kept");
    }

    #[test]
    fn a_buffer_outlives_its_pool() {
        let pool = BufferPool::new(8192);
        let mut buffer = pool.take(16);
        drop(pool);
        buffer[15] = 1;
        assert_eq!(buffer[15], 1);
    }
}
