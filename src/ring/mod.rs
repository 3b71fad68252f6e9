//! The only place that talks to the kernel or reads a clock.
//!
//! A core is one pinned thread with one [`io::Io`]: tasks, timers, files, sockets and mail from other cores. Everything
//! above asks the world through it, so the simulator can stand in for the kernel.

pub mod buffer;
pub mod io;
#[cfg(any(test, feature = "sim"))]
pub mod sim;
pub mod task;
pub mod timer;
pub mod uring;
