//! The processor and the priority of a thread that works beside a core.

use std::io;

use rustix::process::{getpriority_process, setpriority_process};

use crate::ring::syscall;

/// Lets the calling thread run on `cpu` only.
///
/// # Errors
/// There is no such CPU for this process.
pub fn pin_to(cpu: usize) -> io::Result<()> {
    syscall::pin_to(cpu)
}

/// The priority of a thread: how many steps of `nice` it stands behind the rest of its process.
#[derive(Clone, Copy, Debug)]
pub struct ThreadPriority {
    process_nice: i32,
    can_rise: bool,
}

impl ThreadPriority {
    /// Puts the calling thread `steps` behind, and finds out whether it may come back.
    ///
    /// # Errors
    /// The kernel does not say how the process stands.
    pub fn behind(steps: u8) -> io::Result<Self> {
        let process_nice = getpriority_process(None)?;
        let lowered = Self { process_nice, can_rise: false };
        lowered.put_behind(steps)?;
        let can_rise = lowered.put_behind(0).is_ok();
        lowered.put_behind(steps)?;
        Ok(Self { can_rise, ..lowered })
    }

    /// True where the process may raise the priority of a thread that it has lowered (CAP_SYS_NICE or RLIMIT_NICE).
    #[must_use]
    pub fn can_rise(&self) -> bool {
        self.can_rise
    }

    /// Puts the calling thread `steps` behind. In Linux it is of the thread, though it is called the process's.
    ///
    /// # Errors
    /// It may not rise.
    pub fn put_behind(&self, steps: u8) -> io::Result<()> {
        Ok(setpriority_process(None, (self.process_nice + i32::from(steps)).min(NICE_MAX))?)
    }
}

const NICE_MAX: i32 = 19;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_steps_back_and_comes_forward_where_it_may() {
        // A thread of its own: where it may not rise, it stays behind.
        let thread = std::thread::Builder::new().spawn(|| {
            let before = getpriority_process(None).expect("known");
            let priority = ThreadPriority::behind(5).expect("lowering is always allowed");
            let behind = getpriority_process(None).expect("known");
            assert_eq!(behind, (before + 5).min(NICE_MAX));
            assert_eq!(priority.put_behind(2).is_ok(), priority.can_rise());
            let wanted = if priority.can_rise() { (before + 2).min(NICE_MAX) } else { behind };
            assert_eq!(getpriority_process(None).expect("known"), wanted);
        });
        thread.expect("a thread").join().expect("no failure");
    }
}
