//! The only place that talks to the kernel or reads a clock.
//!
//! A core is one pinned thread with one [`io::Io`]: tasks, timers, files, sockets and mail from other cores. Everything
//! above asks the world through it, so the simulator can stand in for the kernel.

pub mod affinity;
pub mod buffer;
pub mod core;
mod descriptor;
pub mod dir_lock;
mod file;
pub mod file_system;
pub mod heap;
mod helper;
pub mod inbox;
pub mod io;
pub mod lent_bytes;
pub mod mailbox;
pub mod mesh;
mod operation;
mod pipe;
pub mod port;
mod receive_ring;
mod request;
mod residency;
pub mod ring_mask;
mod send;
pub mod send_queue;
pub mod shared_bytes;
pub mod shared_file;
#[cfg(any(test, feature = "sim"))]
pub mod sim;
mod socket;
pub mod startup_check;
mod syscall;
pub mod task;
pub mod thread_priority;
pub mod timer;
pub mod turn;
mod uring;
