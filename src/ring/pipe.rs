//! Pipes that carry cold file pages to a socket, kept for the next use.

use std::cell::RefCell;
use std::io;
use std::os::fd::RawFd;
use std::rc::{Rc, Weak};

use crate::ring::syscall;

/// A pipe. Goes back to its pool when dropped, unless bytes are left in it: another stream must never get those, so
/// such a pipe is closed.
pub(in crate::ring) struct Pipe {
    read_fd: RawFd,
    write_fd: RawFd,
    capacity_bytes: usize,
    /// Bytes in it, or that may be: a splice in flight counts as all it may bring.
    residue_bytes: usize,
    pool: Weak<PipePool>,
}

impl Pipe {
    pub(in crate::ring) fn write_fd(&self) -> RawFd {
        self.write_fd
    }

    pub(in crate::ring) fn capacity_bytes(&self) -> usize {
        self.capacity_bytes
    }

    pub(in crate::ring) fn residue_bytes(&self) -> usize {
        self.residue_bytes
    }

    /// Says what the pipe holds now.
    pub(in crate::ring) fn set_residue(&mut self, bytes: usize) {
        self.residue_bytes = bytes;
    }

    /// Sends at most `count` bytes of what it holds.
    pub(in crate::ring) fn send_to(&mut self, socket: RawFd, count: usize, more_follows: bool) -> io::Result<usize> {
        let sent = syscall::send_pipe(socket, self.read_fd, count.min(self.residue_bytes), more_follows)?;
        self.residue_bytes = self.residue_bytes.checked_sub(sent).expect("a pipe gives no more than it holds");
        Ok(sent)
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        if self.residue_bytes == 0
            && let Some(pool) = self.pool.upgrade()
            && pool.keep((self.read_fd, self.write_fd, self.capacity_bytes))
        {
            return;
        }
        syscall::close(self.read_fd);
        syscall::close(self.write_fd);
    }
}

/// Empty pipes of one core. Each of 1 MiB counts against the user's share (fs.pipe-user-pages-soft, 64 MiB).
pub(in crate::ring) struct PipePool {
    idle: RefCell<Vec<(RawFd, RawFd, usize)>>,
    kept_max: usize,
}

impl PipePool {
    pub(in crate::ring) fn new(kept_max: usize) -> Rc<Self> {
        Rc::new(Self { idle: RefCell::new(Vec::new()), kept_max })
    }

    /// An empty pipe.
    pub(in crate::ring) fn take(self: &Rc<Self>) -> io::Result<Pipe> {
        let idle = self.idle.borrow_mut().pop();
        let (read_fd, write_fd, capacity_bytes) = match idle {
            Some(kept) => kept,
            None => syscall::pipe(PIPE_BYTES)?,
        };
        Ok(Pipe { read_fd, write_fd, capacity_bytes, residue_bytes: 0, pool: Rc::downgrade(self) })
    }

    fn keep(&self, pipe: (RawFd, RawFd, usize)) -> bool {
        let mut idle = self.idle.borrow_mut();
        let room = idle.len() < self.kept_max;
        if room {
            idle.push(pipe);
        }
        room
    }
}

impl Drop for PipePool {
    fn drop(&mut self) {
        for (read_fd, write_fd, _) in self.idle.get_mut().drain(..) {
            syscall::close(read_fd);
            syscall::close(write_fd);
        }
    }
}

/// What a pipe is asked to hold; the kernel may give less.
const PIPE_BYTES: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_with_residue_is_not_used_again() {
        let pool = PipePool::new(4);
        let clean = pool.take().unwrap();
        let fd = clean.write_fd();
        drop(clean);
        let mut reused = pool.take().unwrap();
        assert_eq!(reused.write_fd(), fd);
        reused.set_residue(1);
        drop(reused);
        assert_eq!(pool.idle.borrow().len(), 0);
    }

    #[test]
    fn the_pool_keeps_no_more_than_its_bound() {
        let pool = PipePool::new(1);
        let pipes = [pool.take().unwrap(), pool.take().unwrap()];
        drop(pipes);
        assert_eq!(pool.idle.borrow().len(), 1);
    }
}
