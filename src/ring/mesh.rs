//! How cores and threads of one process wake each other.
//!
//! A core publishes that it sleeps; who leaves something for it sets `NOTIFIED` and wakes it only if it slept and nobody
//! did so before. A core that works looks at the flag each turn, so a busy mesh makes no system calls for its notices.

use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU8, Ordering};

use std::io;

use crate::ring::syscall;

/// The cores of one process, before they run. Made first, so that mailboxes and notifiers can be handed out.
pub struct CoreMesh {
    slots: Arc<[CoreSlot]>,
}

/// What other threads see of one core.
struct CoreSlot {
    state: AtomicU8,
    /// Its ring, -1 while there is none.
    ring_fd: AtomicI32,
    event_fd: RawFd,
}

impl Drop for CoreSlot {
    fn drop(&mut self) {
        syscall::close(self.event_fd);
    }
}

impl CoreMesh {
    /// A mesh of `count` cores.
    ///
    /// # Errors
    /// Where there is no descriptor left.
    pub fn new(count: usize) -> io::Result<Self> {
        let slot = |_| {
            let event_fd = syscall::event_fd()?;
            Ok(CoreSlot { state: AtomicU8::new(0), ring_fd: AtomicI32::new(-1), event_fd })
        };
        Ok(Self { slots: (0..count).map(slot).collect::<io::Result<Vec<_>>>()?.into() })
    }

    /// The place of core `index`, for [`crate::ring::core::run`] on its thread.
    ///
    /// # Panics
    /// Where there is no such core.
    pub fn seat(&self, index: usize) -> CoreSeat {
        assert!(index < self.slots.len(), "core {index} of {}", self.slots.len());
        CoreSeat { slots: self.slots.clone(), index }
    }

    /// Wakes core `index` from any thread.
    ///
    /// # Panics
    /// Where there is no such core.
    pub fn notifier(&self, index: usize) -> Notifier {
        Notifier { seat: self.seat(index) }
    }
}

/// One core's place in the mesh.
#[derive(Clone)]
pub struct CoreSeat {
    slots: Arc<[CoreSlot]>,
    index: usize,
}

/// How a core that sleeps is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ring) enum Wake {
    /// It is awake and will see the notice.
    Unneeded,
    /// By a message to this ring.
    Ring(RawFd),
}

impl CoreSeat {
    /// The index of the core.
    pub fn core_index(&self) -> usize {
        self.index
    }

    /// Cores in the mesh.
    pub fn core_count(&self) -> usize {
        self.slots.len()
    }

    /// Wakes this core from any thread.
    pub fn notifier(&self) -> Notifier {
        Notifier { seat: self.clone() }
    }

    fn own(&self) -> &CoreSlot {
        &self.slots[self.index]
    }

    pub(in crate::ring) fn event_fd(&self) -> RawFd {
        self.own().event_fd
    }

    /// Lets the others send messages to this ring; -1 takes it back.
    pub(in crate::ring) fn publish_ring(&self, fd: RawFd) {
        self.own().ring_fd.store(fd, Ordering::Release);
    }

    /// Leaves a notice for `core`; says how to wake it.
    pub(in crate::ring) fn leave_notice(&self, core: usize) -> Wake {
        let Some(slot) = self.slots.get(core) else {
            return Wake::Unneeded;
        };
        // Release: what was left for the core is there before the notice. Only the first notice to a sleeper wakes it.
        if slot.state.fetch_or(NOTIFIED, Ordering::AcqRel) != ASLEEP {
            return Wake::Unneeded;
        }
        Wake::Ring(slot.ring_fd.load(Ordering::Acquire))
    }

    /// Wakes `core` by its eventfd: for threads without a ring, and where messages between rings fail.
    pub(in crate::ring) fn wake_by_event(&self, core: usize) {
        if let Some(slot) = self.slots.get(core) {
            syscall::event_add(slot.event_fd);
        }
    }

    /// Takes the notices for this core; false where there were none.
    pub(in crate::ring) fn take_notice(&self) -> bool {
        let state = &self.own().state;
        // A plain load first: each turn looks, and most find nothing.
        state.load(Ordering::Relaxed) & NOTIFIED != 0 && state.fetch_and(!NOTIFIED, Ordering::AcqRel) & NOTIFIED != 0
    }

    /// Publishes that this core is about to sleep; false where a notice came first: then it must not.
    pub(in crate::ring) fn fall_asleep(&self) -> bool {
        let slept = self.own().state.compare_exchange(0, ASLEEP, Ordering::AcqRel, Ordering::Acquire);
        slept.is_ok()
    }

    /// Takes [`CoreSeat::fall_asleep`] back; a notice that came meanwhile stays.
    pub(in crate::ring) fn awake(&self) {
        self.own().state.fetch_and(!ASLEEP, Ordering::AcqRel);
    }
}

/// Wakes one core's tasks that noted [`crate::ring::io::Io::note_notified`]. For any thread.
#[derive(Clone)]
pub struct Notifier {
    seat: CoreSeat,
}

impl Notifier {
    /// Has the core look at its inboxes. Never blocks; a notice before the core runs is kept.
    pub fn notify(&self) {
        if self.seat.leave_notice(self.seat.index) != Wake::Unneeded {
            self.seat.wake_by_event(self.seat.index);
        }
    }
}

const NOTIFIED: u8 = 1;
const ASLEEP: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_notice_to_a_sleeper_wakes_it() {
        let mesh = CoreMesh::new(2).unwrap();
        let (sender, sleeper) = (mesh.seat(0), mesh.seat(1));
        sleeper.publish_ring(77);
        assert_eq!(sender.leave_notice(1), Wake::Unneeded, "awake");
        assert!(!sleeper.fall_asleep(), "a notice came first");
        assert!(sleeper.take_notice());
        assert!(!sleeper.take_notice());
        assert!(sleeper.fall_asleep());
        assert_eq!(sender.leave_notice(1), Wake::Ring(77));
        assert_eq!(sender.leave_notice(1), Wake::Unneeded, "already woken");
        sleeper.awake();
        assert!(sleeper.take_notice());
        assert_eq!(sender.leave_notice(9), Wake::Unneeded, "no such core");
    }
}
