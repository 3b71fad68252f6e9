//! The receive buffers of one core, lent to the kernel until bytes arrive.
//!
//! An idle connection holds no memory: the kernel picks a buffer when there is something to put into it. A buffer comes
//! back when the last [`Buffer`] over it is dropped, and is lent again at once.
#![allow(unsafe_code)] // memory shared with the kernel

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::ptr::NonNull;
use std::rc::{Rc, Weak};
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::IoUring;
use io_uring::types::BufRingEntry;

use crate::ring::buffer::{Buffer, Home};
use crate::ring::task::TaskId;

/// A provided-buffer ring (`IORING_REGISTER_PBUF_RING`) and its buffers.
pub(in crate::ring) struct ReceiveRing {
    entries: NonNull<BufRingEntry>,
    layout: Layout,
    entry_count: u16,
    buffer_bytes: usize,
    tail: Cell<u16>,
    /// Each buffer's address while the kernel has it; `None` while a [`Buffer`] has it.
    lent: RefCell<Vec<Option<NonNull<u8>>>>,
    lent_count: Cell<usize>,
    /// Connections that found no buffer, the longest waiting first.
    waiting: RefCell<VecDeque<TaskId>>,
}

impl ReceiveRing {
    /// Makes `count` (a power of two) buffers of `buffer_bytes` and lends them to `uring`.
    pub(in crate::ring) fn register(uring: &IoUring, count: u16, buffer_bytes: usize) -> io::Result<Rc<Self>> {
        if !count.is_power_of_two() || buffer_bytes == 0 || u32::try_from(buffer_bytes).is_err() {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        let layout = Layout::array::<BufRingEntry>(usize::from(count))
            .and_then(|layout| layout.align_to(PAGE_BYTES))
            .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        // SAFETY: the layout is not empty, since the count is a power of two.
        let memory = unsafe { alloc_zeroed(layout) };
        let Some(entries) = NonNull::new(memory.cast::<BufRingEntry>()) else { handle_alloc_error(layout) };
        let ring = Rc::new(Self {
            entries,
            layout,
            entry_count: count,
            buffer_bytes,
            tail: Cell::new(0),
            lent: RefCell::new(vec![None; usize::from(count)]),
            lent_count: Cell::new(0),
            waiting: RefCell::new(VecDeque::new()),
        });
        // SAFETY: `entries` lives as long as this `ReceiveRing`, and its owner drops that after the io_uring is closed
        // with nothing in flight (or leaks both).
        unsafe { uring.submitter().register_buf_ring_with_flags(entries.as_ptr() as u64, count, GROUP, 0)? };
        for number in 0..count {
            ring.lend(vec![0; buffer_bytes].into_boxed_slice(), number);
        }
        Ok(ring)
    }

    /// The buffer with which a completion came, cut to the `len` bytes received.
    pub(in crate::ring) fn received(self: &Rc<Self>, number: u16, len: usize) -> Buffer {
        let address = self.lent.borrow_mut()[usize::from(number)].take().expect("the kernel had this buffer");
        self.lent_count.set(self.lent_count.get() - 1);
        let bytes = NonNull::slice_from_raw_parts(address, self.buffer_bytes);
        // SAFETY: made from a box of this length by `lend`; the completion says that the kernel is done with it, and
        // taking it out of `lent` makes this the only owner.
        let bytes = unsafe { Box::from_raw(bytes.as_ptr()) };
        assert!(len <= bytes.len(), "received {len} bytes into a buffer of {}", bytes.len());
        let home: Weak<Self> = Rc::downgrade(self);
        let mut buffer = Buffer::with_home(bytes, Some(home as Weak<dyn Home>), number);
        buffer.truncate(len);
        buffer
    }

    /// Queues a task whose receive found no buffer.
    pub(in crate::ring) fn wait(&self, task: TaskId) {
        self.waiting.borrow_mut().push_back(task);
    }

    /// A task that may try again: one for each buffer that the kernel has, `None` where it has none or nobody waits.
    /// Called each turn, so a task that ended meanwhile uses nothing up.
    pub(in crate::ring) fn next_waiting(&self, given: usize) -> Option<TaskId> {
        if given < self.lent_count.get() { self.waiting.borrow_mut().pop_front() } else { None }
    }

    fn lend(&self, bytes: Box<[u8]>, number: u16) {
        assert_eq!(bytes.len(), self.buffer_bytes);
        let address = NonNull::from(Box::leak(bytes)).cast::<u8>();
        let before = self.lent.borrow_mut()[usize::from(number)].replace(address);
        assert!(before.is_none(), "buffer {number} was lent twice");
        self.lent_count.set(self.lent_count.get() + 1);
        let tail = self.tail.get();
        let index = usize::from(tail & (self.entry_count - 1));
        // SAFETY: `index` is within the ring, and at most `entry_count` buffers are lent, so the kernel has consumed this
        // entry. `lent` keeps the buffer's memory until the kernel hands it back. The tail is read by the kernel, so it
        // is stored with release order, after the entry; it lies in the unused field of entry 0, which the setters
        // below leave alone.
        unsafe {
            let entry = &mut *self.entries.as_ptr().add(index);
            entry.set_addr(address.as_ptr() as u64);
            entry.set_len(self.buffer_bytes as u32);
            entry.set_bid(number);
            let shared_tail = BufRingEntry::tail(self.entries.as_ptr()).cast::<AtomicU16>();
            (*shared_tail).store(tail.wrapping_add(1), Ordering::Release);
        }
        self.tail.set(tail.wrapping_add(1));
    }
}

impl Home for ReceiveRing {
    fn take_back(&self, bytes: Box<[u8]>, number: u16) {
        self.lend(bytes, number);
    }
}

impl Drop for ReceiveRing {
    fn drop(&mut self) {
        for address in self.lent.get_mut().drain(..).flatten() {
            let bytes = NonNull::slice_from_raw_parts(address, self.buffer_bytes);
            // SAFETY: made from such a box by `lend`; the io_uring is closed with nothing in flight (see `register`).
            drop(unsafe { Box::from_raw(bytes.as_ptr()) });
        }
        // SAFETY: allocated with this layout; the kernel has let go of it.
        unsafe { dealloc(self.entries.as_ptr().cast(), self.layout) };
    }
}

/// The only buffer group of a core.
pub(in crate::ring) const GROUP: u16 = 0;
/// The kernel wants the ring on a page boundary; 64 KiB is the largest page of the machines we run on.
const PAGE_BYTES: usize = 64 * 1024;
