//! What is going to happen in a world, and who goes next.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use crate::ring::io::Io;
use crate::ring::sim::core::CoreState;
use crate::ring::sim::machine::MachineState;
use crate::ring::sim::net::Net;
use crate::ring::sim::options::{Delays, Faults, SimOptions};
use crate::ring::sim::random::{Random, mix};

/// The insides of a [`Sim`], shared by all that lives in it.
pub(in crate::ring) struct World {
    pub(in crate::ring::sim) random: Random,
    pub(in crate::ring::sim) faults: Cell<Faults>,
    pub(in crate::ring::sim) delays: Delays,
    pub(in crate::ring::sim) net: Net,
    machines: RefCell<Vec<Rc<MachineState>>>,
    cores: RefCell<Vec<BootedCore>>,
    now_ns: Cell<u64>,
    /// By time, then in order of their making.
    events: RefCell<BTreeMap<(u64, u64), Event>>,
    sequence: Cell<u64>,
    trace_hash: Cell<u64>,
    trace_tail: RefCell<VecDeque<(u64, &'static str, u64, u64)>>,
}

/// A core that runs.
pub(in crate::ring::sim) struct BootedCore {
    pub(in crate::ring::sim) state: Rc<CoreState>,
    pub(in crate::ring::sim) io: Io,
}

impl BootedCore {
    /// Drops its tasks and deadlines. A task's destructor may start another one: those go, too.
    pub(in crate::ring::sim) fn clear(&self) {
        for _ in 0..CLEAR_ROUNDS_MAX {
            self.io.executor().clear();
            if self.io.executor().task_count() == 0 {
                break;
            }
        }
        self.io.timers().clear();
    }

    fn is_ready(&self, now_ns: u64) -> bool {
        self.state.ready_from_ns(&self.io, now_ns).is_some_and(|from_ns| from_ns <= now_ns)
    }
}

/// Something that will happen.
struct Event {
    /// Whose operation it is: it may come to nothing when that core crashes. `None`: the network's own.
    core: Option<Rc<CoreState>>,
    what: &'static str,
    effect: Effect,
}

type Effect = Box<dyn FnOnce(&Rc<World>)>;

impl World {
    pub(in crate::ring::sim) fn new(options: SimOptions) -> Self {
        Self {
            random: Random::new(options.seed),
            faults: Cell::new(options.faults),
            delays: options.delays,
            net: Net::default(),
            machines: RefCell::default(),
            cores: RefCell::default(),
            now_ns: Cell::new(0),
            events: RefCell::default(),
            sequence: Cell::new(0),
            trace_hash: Cell::new(mix(options.seed)),
            trace_tail: RefCell::default(),
        }
    }

    pub(in crate::ring::sim) fn now_ns(&self) -> u64 {
        self.now_ns.get()
    }

    /// Adds a machine.
    pub(in crate::ring::sim) fn add_machine(self: &Rc<Self>) -> Rc<MachineState> {
        let mut machines = self.machines.borrow_mut();
        let machine = Rc::new(MachineState::new(machines.len(), self));
        machines.push(machine.clone());
        machine
    }

    /// Ends everything, and takes apart what owns each other: tasks and operations own the world that owns them.
    pub(in crate::ring::sim) fn end(&self) {
        let cores = std::mem::take(&mut *self.cores.borrow_mut());
        for core in &cores {
            core.state.end();
        }
        let events = std::mem::take(&mut *self.events.borrow_mut());
        drop(events);
        for core in &cores {
            core.clear();
        }
        self.net.clear();
    }

    /// Hash over all that happened.
    pub(in crate::ring::sim) fn trace_hash(&self) -> u64 {
        self.trace_hash.get()
    }

    /// The last things that happened, one a line.
    pub(in crate::ring::sim) fn trace_tail(&self) -> String {
        let tail = self.trace_tail.borrow();
        tail.iter().map(|(now_ns, what, one, two)| format!("{now_ns:>14} {what} {one} {two}\n")).collect()
    }

    /// A number that no other call gets, and that rises.
    pub(in crate::ring::sim) fn next_sequence(&self) -> u64 {
        self.sequence.set(self.sequence.get() + 1);
        self.sequence.get()
    }

    /// Notes what happened, for the hash of the run.
    pub(in crate::ring::sim) fn trace(&self, what: &'static str, one: u64, two: u64) {
        let mut hash = self.trace_hash.get();
        for byte in what.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        for number in [self.now_ns(), one, two] {
            hash = mix(hash ^ number).wrapping_add(0x9e37_79b9_7f4a_7c15);
        }
        self.trace_hash.set(hash);
        let mut tail = self.trace_tail.borrow_mut();
        if tail.len() == TRACE_TAIL_MAX {
            tail.pop_front();
        }
        tail.push_back((self.now_ns(), what, one, two));
    }

    /// A latency within `range`, now and then much longer.
    pub(in crate::ring::sim) fn draw_delay(&self, range: (u64, u64)) -> u64 {
        let delay_ns = self.random.between(range.0, range.1);
        if self.random.below(100) == 0 { delay_ns * self.random.between(2, 20) } else { delay_ns }
    }

    /// Has `effect` happen after `delay_ns`. Nothing where `core` has ended.
    pub(in crate::ring::sim) fn schedule(
        &self,
        core: Option<&Rc<CoreState>>,
        delay_ns: u64,
        what: &'static str,
        effect: impl FnOnce(&Rc<Self>) + 'static,
    ) {
        if core.is_some_and(|core| !core.is_alive()) {
            return;
        }
        let key = (self.now_ns() + delay_ns, self.next_sequence());
        self.events.borrow_mut().insert(key, Event { core: core.cloned(), what, effect: Box::new(effect) });
    }

    /// Takes a booted core into the world.
    pub(in crate::ring::sim) fn add_core(&self, core: BootedCore) {
        self.trace("boot", core.state.number(), core.state.index() as u64);
        self.cores.borrow_mut().push(core);
    }

    /// Takes the cores of a machine out of the world.
    pub(in crate::ring::sim) fn take_cores(&self, machine: usize) -> Vec<BootedCore> {
        let mut cores = self.cores.borrow_mut();
        let (taken, left) = cores.drain(..).partition(|core| core.state.machine().number() == machine);
        *cores = left;
        taken
    }

    /// The `Io` of a machine's core, where it runs.
    pub(in crate::ring::sim) fn find_core(&self, machine: usize, index: usize) -> Option<(Rc<CoreState>, Io)> {
        let cores = self.cores.borrow();
        let found = cores.iter().find(|core| core.state.machine().number() == machine && core.state.index() == index);
        found.map(|core| (core.state.clone(), core.io.clone()))
    }

    /// Ends the operations in flight of `cores`: each happens at once or never.
    /// False where there were none.
    pub(in crate::ring::sim) fn settle_events(self: &Rc<Self>, cores: &[BootedCore], all_happen: bool) -> bool {
        let taken: Vec<Event> = {
            let mut events = self.events.borrow_mut();
            let is_theirs = |event: &Event| {
                event.core.as_ref().is_some_and(|core| cores.iter().any(|ended| Rc::ptr_eq(&ended.state, core)))
            };
            let keys: Vec<(u64, u64)> =
                events.iter().filter(|(_, event)| is_theirs(event)).map(|(key, _)| *key).collect();
            keys.iter().filter_map(|key| events.remove(key)).collect()
        };
        let are_some = !taken.is_empty();
        for event in taken {
            if all_happen || self.random.coin() {
                (event.effect)(self);
            }
        }
        are_some
    }

    /// Lets one thing happen; false where nothing is left.
    pub(in crate::ring::sim) fn step(self: &Rc<Self>) -> bool {
        let now_ns = self.now_ns();
        let event_ns = self.events.borrow().keys().next().map(|(at_ns, _)| *at_ns);
        let is_event_due = event_ns.is_some_and(|at_ns| at_ns <= now_ns);
        let ready_count = self.cores.borrow().iter().filter(|core| core.is_ready(now_ns)).count();
        let choice_count = ready_count + usize::from(is_event_due);
        if choice_count == 0 {
            let cores = self.cores.borrow();
            let ready_ns = cores.iter().filter_map(|core| core.state.ready_from_ns(&core.io, now_ns)).min();
            let Some(next_ns) = [event_ns, ready_ns].into_iter().flatten().min() else { return false };
            self.now_ns.set(next_ns);
            return true;
        }
        let choice = self.random.index(choice_count);
        if choice == ready_count {
            let event = self.events.borrow_mut().pop_first();
            if let Some((key, event)) = event {
                self.trace(event.what, event.core.as_ref().map_or(u64::MAX, |core| core.number()), key.1);
                (event.effect)(self);
            }
        } else {
            let chosen = {
                let cores = self.cores.borrow();
                cores
                    .iter()
                    .filter(|core| core.is_ready(now_ns))
                    .nth(choice)
                    .map(|core| (core.state.clone(), core.io.clone()))
            };
            if let Some((state, io)) = chosen {
                self.poll_core(&state, &io);
            }
        }
        true
    }

    fn poll_core(&self, state: &CoreState, io: &Io) {
        self.trace("poll", state.number(), io.executor().ready_count() as u64);
        let faults = self.faults.get();
        if self.random.chance(faults.core_stall_per_million) {
            state.stall_until(self.now_ns() + self.random.below(faults.core_stall_ms_max * 1_000_000 + 1));
            return;
        }
        while let Some(task) = io.timers().pop_due(state.now(self.now_ns())) {
            io.wake(task);
        }
        io.executor().poll_one();
        // A poll takes time, so that a task that spins reaches the end of the run, too.
        self.now_ns.set(self.now_ns() + self.random.between(100, 2_000));
    }
}

/// Tasks that start others in their destructors, in turn: more rounds than anything sane needs.
const CLEAR_ROUNDS_MAX: usize = 16;
const TRACE_TAIL_MAX: usize = 200;
