//! Memory of one core for the tier: copies and reads draw on it, in order.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use crate::ring::io::Io;
use crate::ring::task::TaskId;

/// The bytes that copies, reads and what is kept of them may hold at once. Who comes first is served first, so a large
/// wish is not overtaken for ever by small ones.
pub struct TierMemory {
    total_bytes: usize,
    held_bytes: Cell<usize>,
    held_bytes_max: Cell<usize>,
    waiting: RefCell<VecDeque<Waiting>>,
    next_number: Cell<u64>,
    wait_count: Cell<u64>,
}

/// Several may wait within one task.
struct Waiting {
    number: u64,
    task: TaskId,
}

impl TierMemory {
    /// A budget of `total_bytes`.
    pub fn new(total_bytes: usize) -> Rc<Self> {
        Rc::new(Self {
            total_bytes: total_bytes.max(1),
            held_bytes: Cell::new(0),
            held_bytes_max: Cell::new(0),
            waiting: RefCell::default(),
            next_number: Cell::new(0),
            wait_count: Cell::new(0),
        })
    }

    /// All there is.
    pub fn total_bytes(&self) -> usize {
        self.total_bytes
    }

    /// What is held now: by copies, by reads, and by pieces that are kept for later ones.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes.get()
    }

    /// The most that was ever held.
    pub fn held_bytes_max(&self) -> usize {
        self.held_bytes_max.get()
    }

    /// How often somebody had to wait.
    pub fn wait_count(&self) -> u64 {
        self.wait_count.get()
    }

    /// Waits for its turn, then for room; `make_room` is asked to let go of as many bytes that nobody needs. A wish for more
    /// than all there is gets all. Dropped, it waits no longer.
    pub async fn reserve(self: &Rc<Self>, io: &Io, len_bytes: usize, make_room: impl Fn(usize)) -> TierReservation {
        let len_bytes = len_bytes.min(self.total_bytes);
        let mut place = Place { memory: self, io, number: None };
        poll_fn(|_| {
            let is_first = self.waiting.borrow().front().is_none_or(|first| Some(first.number) == place.number);
            if is_first && self.fits(len_bytes, &make_room) {
                return Poll::Ready(());
            }
            if place.number.is_none() {
                let number = self.next_number.get();
                self.next_number.set(number + 1);
                self.wait_count.set(self.wait_count.get() + 1);
                self.waiting.borrow_mut().push_back(Waiting { number, task: io.current_task() });
                place.number = Some(number);
            }
            Poll::Pending
        })
        .await;
        let reserved = self.take(io, len_bytes);
        drop(place);
        reserved
    }

    /// Reserves now, or not at all: nobody who waits is overtaken.
    pub fn try_reserve(
        self: &Rc<Self>,
        io: &Io,
        len_bytes: usize,
        make_room: impl Fn(usize),
    ) -> Option<TierReservation> {
        let may = self.waiting.borrow().is_empty() && self.fits(len_bytes, &make_room);
        may.then(|| self.take(io, len_bytes))
    }

    fn fits(&self, len_bytes: usize, make_room: &impl Fn(usize)) -> bool {
        let missing_bytes = || (self.held_bytes.get() + len_bytes).saturating_sub(self.total_bytes);
        if missing_bytes() > 0 {
            make_room(missing_bytes());
        }
        missing_bytes() == 0
    }

    fn take(self: &Rc<Self>, io: &Io, len_bytes: usize) -> TierReservation {
        self.held_bytes.set(self.held_bytes.get() + len_bytes);
        self.held_bytes_max.set(self.held_bytes_max.get().max(self.held_bytes.get()));
        TierReservation { memory: self.clone(), io: io.clone(), len_bytes: Cell::new(len_bytes) }
    }

    /// There may be room, or something that can be let go: whoever is first looks.
    pub(in crate::shard) fn wake_first(&self, io: &Io) {
        if let Some(first) = self.waiting.borrow().front() {
            io.wake(first.task);
        }
    }
}

/// A place in the queue; left when dropped.
struct Place<'a> {
    memory: &'a TierMemory,
    io: &'a Io,
    number: Option<u64>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.memory.waiting.borrow_mut().retain(|waiting| waiting.number != number);
            self.memory.wake_first(self.io);
        }
    }
}

/// Memory held of a core's budget; given back when dropped.
pub struct TierReservation {
    memory: Rc<TierMemory>,
    io: Io,
    len_bytes: Cell<usize>,
}

impl TierReservation {
    /// How much it is.
    pub fn len_bytes(&self) -> usize {
        self.len_bytes.get()
    }

    /// Gives back all above `len_bytes`.
    pub fn shrink_to(&self, len_bytes: usize) {
        let surplus_bytes = self.len_bytes.get().saturating_sub(len_bytes);
        if surplus_bytes > 0 {
            self.len_bytes.set(self.len_bytes.get() - surplus_bytes);
            self.memory.held_bytes.set(self.memory.held_bytes.get() - surplus_bytes);
            self.memory.wake_first(&self.io);
        }
    }

    /// Cuts a part off, at most what it has.
    #[must_use]
    pub fn split(&self, len_bytes: usize) -> Self {
        let len_bytes = len_bytes.min(self.len_bytes.get());
        self.len_bytes.set(self.len_bytes.get() - len_bytes);
        Self { memory: self.memory.clone(), io: self.io.clone(), len_bytes: Cell::new(len_bytes) }
    }
}

impl Drop for TierReservation {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::sim::options::SimOptions;
    use crate::ring::sim::world::Sim;
    use std::pin::pin;
    use std::task::{Context, Waker};

    fn in_a_task(test: impl AsyncFnOnce(&Io) + 'static) {
        let sim = Sim::new(SimOptions::calm(1));
        let io = sim.machine().core(0);
        let task = io.clone();
        sim.run(&io, 60_000_000_000, async move { test(&task).await }).expect("it ends");
    }

    fn poll<T>(future: &mut std::pin::Pin<&mut impl Future<Output = T>>) -> Option<T> {
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => Some(done),
            Poll::Pending => None,
        }
    }

    #[test]
    fn who_comes_first_is_served_first_and_who_is_gone_holds_nobody_up() {
        in_a_task(async |io| {
            let memory = TierMemory::new(100);
            let held = memory.reserve(io, 60, |_| ()).await;
            let mut large = Box::pin(memory.reserve(io, 80, |_| ()));
            assert!(poll(&mut large.as_mut()).is_none(), "80 do not fit beside 60");
            {
                let mut small = pin!(memory.reserve(io, 10, |_| ()));
                assert!(poll(&mut small).is_none(), "10 would fit, but 80 came first");
                assert!(memory.try_reserve(io, 10, |_| ()).is_none(), "nobody is overtaken");
            }
            let mut last = pin!(memory.reserve(io, 30, |_| ()));
            assert!(poll(&mut last).is_none());
            drop(large);
            assert_eq!(poll(&mut last).expect("it is first now").len_bytes(), 30);
            held.shrink_to(5);
            assert_eq!(memory.held_bytes(), 5);
            let half = held.split(2);
            assert_eq!((held.len_bytes(), half.len_bytes(), memory.held_bytes()), (3, 2, 5));
            drop((half, held));
            assert_eq!((memory.held_bytes(), memory.held_bytes_max(), memory.wait_count()), (0, 90, 3));
            assert_eq!(memory.reserve(io, 1000, |_| ()).await.len_bytes(), 100, "more than all gets all");
        });
    }

    #[test]
    fn what_nobody_needs_makes_room() {
        in_a_task(async |io| {
            let memory = TierMemory::new(100);
            let idle = RefCell::new(vec![memory.reserve(io, 50, |_| ()).await, memory.reserve(io, 40, |_| ()).await]);
            let asked = Cell::new(0);
            let make_room = |bytes| {
                asked.set(bytes);
                idle.borrow_mut().pop();
            };
            let held = memory.try_reserve(io, 50, make_room).expect("40 were let go");
            assert_eq!((asked.get(), memory.held_bytes()), (40, 100));
            drop(held);
        });
    }
}
