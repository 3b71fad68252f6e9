//! An open descriptor of one core, closed when nothing uses it any more.

use std::cell::Cell;
use std::os::fd::RawFd;
use std::rc::{Rc, Weak};

use crate::ring::request::Request;
use crate::ring::syscall;
use crate::ring::uring::Ring;

/// Owns a descriptor. Handles and operations in flight share it by `Rc`, so its number is never closed, and never given
/// to another file, before the last completion.
pub(in crate::ring) struct Descriptor {
    fd: RawFd,
    /// Whose ring closes it. Empty for sockets and pipes: their close never waits for a disk, so it is a plain call.
    closer: Weak<Ring>,
    /// An operation holds the file's lock for long: a write at once would wait for it.
    is_locked: Cell<bool>,
}

impl Descriptor {
    /// A file: closing one may write to a disk (an unlinked file frees its blocks), so the ring does that.
    pub(in crate::ring) fn of_file(fd: RawFd, ring: &Rc<Ring>) -> Rc<Self> {
        Rc::new(Self { fd, closer: Rc::downgrade(ring), is_locked: Cell::new(false) })
    }

    /// A socket, a pipe or an eventfd.
    pub(in crate::ring) fn of_socket(fd: RawFd) -> Rc<Self> {
        Rc::new(Self { fd, closer: Weak::new(), is_locked: Cell::new(false) })
    }

    /// True while the kernel has the file locked for an operation that this core asked for.
    pub(in crate::ring) fn is_locked(&self) -> bool {
        self.is_locked.get()
    }

    pub(in crate::ring) fn set_locked(&self, is_locked: bool) {
        self.is_locked.set(is_locked);
    }

    /// The number, valid while this lives.
    pub(in crate::ring) fn fd(&self) -> RawFd {
        self.fd
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        match self.closer.upgrade() {
            Some(ring) => ring.start_unowned(Request::close(self.fd)),
            None => syscall::close(self.fd),
        }
    }
}
