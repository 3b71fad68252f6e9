//! Operations in flight: who waits for each, and what each owns.
//!
//! An operation lives in the table from its submission to its last completion, whoever asks for it. Dropping the
//! [`Operation`] handle only gives up the answer: the kernel is asked to cancel, and buffer, descriptors and pipe stay in
//! the table until it has said that it is done with them.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::Poll;

use io_uring::squeue;
use slab::Slab;

use crate::ring::descriptor::Descriptor;
use crate::ring::request::{Lane, Payload, Request};
use crate::ring::syscall;
use crate::ring::task::TaskId;
use crate::ring::uring::Ring;

/// Names one operation: the place in the table and which of its users, in the completion's `user_data`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ring) struct Key {
    index: u32,
    generation: u32,
}

impl Key {
    pub(in crate::ring) fn to_user_data(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    fn of_user_data(user_data: u64) -> Self {
        Self { index: user_data as u32, generation: (user_data >> 32) as u32 }
    }
}

/// The answer to an operation.
pub(in crate::ring) struct Completion {
    /// As in the completion queue: a count or descriptor, or a negated error number.
    pub(in crate::ring) result: i32,
    pub(in crate::ring) flags: u32,
    pub(in crate::ring) payload: Payload,
}

impl Completion {
    pub(in crate::ring) fn count(&self) -> std::io::Result<usize> {
        usize::try_from(self.result).map_err(|_| std::io::Error::from_raw_os_error(-self.result))
    }
}

/// The operations of one core.
pub(in crate::ring) struct Operations {
    table: RefCell<Slab<Entry>>,
    generation: std::cell::Cell<u32>,
    lanes: RefCell<Lanes>,
}

struct Entry {
    generation: u32,
    task: TaskId,
    lane: Lane,
    /// Results not taken yet.
    results: Results,
    state: State,
    /// Nobody wants the answer.
    abandoned: bool,
    makes_descriptor: bool,
    payload: Payload,
    /// Held until the last completion.
    #[allow(dead_code)]
    descriptors: [Option<Rc<Descriptor>>; 2],
}

/// One result, and only for a multishot operation more: so the others allocate nothing.
#[derive(Default)]
struct Results {
    first: Option<(i32, u32)>,
    more: VecDeque<(i32, u32)>,
}

impl Results {
    fn push(&mut self, result: (i32, u32)) {
        if self.first.is_none() {
            self.first = Some(result);
        } else {
            self.more.push_back(result);
        }
    }

    fn pop(&mut self) -> Option<(i32, u32)> {
        let first = self.first.take();
        self.first = self.more.pop_front();
        first
    }
}

enum State {
    /// Waits for room in its lane.
    Queued(Box<squeue::Entry>),
    /// The kernel has it, or finds it in the submission queue.
    InFlight,
    /// The last completion has come.
    Finished,
}

/// How many operations of the slow kinds are in flight, and which wait.
struct Lanes {
    disk: LaneState,
    sync: LaneState,
}

struct LaneState {
    in_flight: usize,
    in_flight_max: usize,
    waiting: VecDeque<Key>,
}

impl Operations {
    pub(in crate::ring) fn new(disk_max: usize, sync_max: usize) -> Self {
        let lane = |in_flight_max| LaneState { in_flight: 0, in_flight_max, waiting: VecDeque::new() };
        Self {
            table: RefCell::new(Slab::new()),
            generation: std::cell::Cell::new(0),
            lanes: RefCell::new(Lanes { disk: lane(disk_max.max(1)), sync: lane(sync_max.max(1)) }),
        }
    }

    /// Operations alive, waiting ones and finished ones whose answer nobody took included.
    pub(in crate::ring) fn count(&self) -> usize {
        self.table.borrow().len()
    }

    /// Enters a request; says what to submit now, if its lane has room.
    pub(in crate::ring) fn enter(
        &self,
        request: Request,
        task: TaskId,
        abandoned: bool,
    ) -> (Key, Option<squeue::Entry>) {
        let generation = self.generation.get().wrapping_add(1);
        self.generation.set(generation);
        let Request { entry, payload, descriptors, lane, makes_descriptor } = request;
        let mut table = self.table.borrow_mut();
        let vacant = table.vacant_entry();
        let index = u32::try_from(vacant.key()).expect("a core has under 2^32 operations");
        assert!(index < RESERVED_INDEX_MIN, "too many operations");
        let key = Key { index, generation };
        let entry = entry.user_data(key.to_user_data());
        let starts = self.lanes.borrow_mut().claim(lane, key);
        let (state, submit) =
            if starts { (State::InFlight, Some(entry)) } else { (State::Queued(Box::new(entry)), None) };
        vacant.insert(Entry {
            generation,
            task,
            lane,
            results: Results::default(),
            state,
            abandoned,
            makes_descriptor,
            payload,
            descriptors,
        });
        (key, submit)
    }

    /// Takes a completion in; says which task waits for it. `payload` replaces the operation's own (a received buffer).
    pub(in crate::ring) fn complete(
        &self,
        user_data: u64,
        result: i32,
        flags: u32,
        payload: Option<Payload>,
    ) -> Option<TaskId> {
        let key = Key::of_user_data(user_data);
        let mut table = self.table.borrow_mut();
        let entry = table.get_mut(key.index as usize).filter(|entry| entry.generation == key.generation);
        // An entry leaves the table only after its last completion.
        let Some(entry) = entry else { unreachable!("a completion of no operation: {key:?}") };
        if let Some(payload) = payload {
            entry.payload = payload;
        }
        let more_come = io_uring::cqueue::more(flags);
        if !more_come {
            entry.state = State::Finished;
            self.lanes.borrow_mut().release(entry.lane);
        }
        if !entry.abandoned {
            entry.results.push((result, flags));
            return Some(entry.task);
        }
        let unwanted_fd = (entry.makes_descriptor && result >= 0).then_some(result);
        let ended = (!more_come).then(|| table.remove(key.index as usize));
        drop(table);
        drop(ended);
        if let Some(fd) = unwanted_fd {
            syscall::close(fd);
        }
        None
    }

    /// The next operation that its lane has room for now.
    pub(in crate::ring) fn next_to_submit(&self) -> Option<squeue::Entry> {
        loop {
            let key = self.lanes.borrow_mut().next()?;
            let mut table = self.table.borrow_mut();
            let Some(entry) = table.get_mut(key.index as usize).filter(|entry| entry.generation == key.generation)
            else {
                unreachable!("a queued operation left the table: {key:?}")
            };
            if entry.abandoned {
                // Never submitted: the kernel knows nothing of its memory.
                self.lanes.borrow_mut().release(entry.lane);
                let ended = table.remove(key.index as usize);
                drop(table);
                drop(ended);
                continue;
            }
            let State::Queued(submit) = std::mem::replace(&mut entry.state, State::InFlight) else {
                unreachable!("an operation in flight was queued: {key:?}")
            };
            return Some(*submit);
        }
    }

    /// The keys of all that the kernel has.
    pub(in crate::ring) fn in_flight(&self) -> Vec<Key> {
        let table = self.table.borrow();
        let in_flight = table.iter().filter(|(_, entry)| matches!(entry.state, State::InFlight));
        in_flight.map(|(index, entry)| Key { index: index as u32, generation: entry.generation }).collect()
    }

    /// Gives up all memory of what is in flight without freeing it: the kernel may still use it.
    pub(in crate::ring) fn leak(&self) {
        std::mem::forget(std::mem::take(&mut *self.table.borrow_mut()));
    }
}

impl Lanes {
    fn lane(&mut self, lane: Lane) -> Option<&mut LaneState> {
        match lane {
            Lane::Free => None,
            Lane::Disk => Some(&mut self.disk),
            Lane::Sync => Some(&mut self.sync),
        }
    }

    /// Takes a place in the lane, or queues for one.
    fn claim(&mut self, lane: Lane, key: Key) -> bool {
        let Some(lane) = self.lane(lane) else {
            return true;
        };
        // Those that wait go first.
        let starts = lane.waiting.is_empty() && lane.in_flight < lane.in_flight_max;
        if starts {
            lane.in_flight += 1;
        } else {
            lane.waiting.push_back(key);
        }
        starts
    }

    fn release(&mut self, lane: Lane) {
        if let Some(lane) = self.lane(lane) {
            lane.in_flight = lane.in_flight.checked_sub(1).expect("each place is given back once");
        }
    }

    fn next(&mut self) -> Option<Key> {
        [&mut self.sync, &mut self.disk].into_iter().find_map(|lane| {
            if lane.in_flight >= lane.in_flight_max {
                return None;
            }
            let key = lane.waiting.pop_front()?;
            lane.in_flight += 1;
            Some(key)
        })
    }
}

/// The right to an operation's answer. Dropping it abandons the operation.
pub(in crate::ring) struct Operation {
    ring: Rc<Ring>,
    key: Option<Key>,
}

impl Operation {
    pub(in crate::ring) fn new(ring: Rc<Ring>, key: Key) -> Self {
        Self { ring, key: Some(key) }
    }

    /// The answer of a one-shot operation; else notes `task`, which is polled when it has come. Not to be called again
    /// after it was ready.
    pub(in crate::ring) fn poll(&mut self, task: TaskId) -> Poll<Completion> {
        let key = self.key.expect("an operation answers once");
        let mut table = self.ring.operations().table.borrow_mut();
        let entry = &mut table[key.index as usize];
        if !matches!(entry.state, State::Finished) {
            entry.task = task;
            return Poll::Pending;
        }
        let mut entry = table.remove(key.index as usize);
        drop(table);
        self.key = None;
        let (result, flags) = entry.results.pop().expect("a finished operation has a result");
        let payload = std::mem::replace(&mut entry.payload, Payload::Nothing);
        Poll::Ready(Completion { result, flags, payload })
    }

    /// The next answer of a multishot operation; `None` after its last one.
    pub(in crate::ring) fn poll_next(&mut self, task: TaskId) -> Poll<Option<i32>> {
        let Some(key) = self.key else {
            return Poll::Ready(None);
        };
        let mut table = self.ring.operations().table.borrow_mut();
        let entry = &mut table[key.index as usize];
        if let Some((result, _)) = entry.results.pop() {
            return Poll::Ready(Some(result));
        }
        if !matches!(entry.state, State::Finished) {
            entry.task = task;
            return Poll::Pending;
        }
        let ended = table.remove(key.index as usize);
        drop(table);
        drop(ended);
        self.key = None;
        Poll::Ready(None)
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        let Some(key) = self.key.take() else { return };
        let mut table = self.ring.operations().table.borrow_mut();
        // Gone where `leak` has emptied the table.
        let Some(entry) = table.get_mut(key.index as usize) else {
            return;
        };
        assert_eq!(entry.generation, key.generation, "a handle outlived its operation");
        entry.abandoned = true;
        let mut results = std::mem::take(&mut entry.results);
        let makes_descriptor = entry.makes_descriptor;
        let (ended, cancel) = match entry.state {
            State::Finished => (Some(table.remove(key.index as usize)), false),
            State::InFlight => (None, true),
            State::Queued(_) => (None, false),
        };
        drop(table);
        drop(ended);
        while let Some((result, _)) = results.pop() {
            if makes_descriptor && result >= 0 {
                syscall::close(result);
            }
        }
        if cancel {
            self.ring.cancel(key);
        }
    }
}

/// Indices from here on mark completions that belong to no operation.
pub(in crate::ring) const RESERVED_INDEX_MIN: u32 = u32::MAX - 15;
