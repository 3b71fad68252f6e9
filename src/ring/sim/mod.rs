//! A whole world from one seed: clocks, disks and a network that fail.
//!
//! [`world::Sim`] holds machines; each machine has a disk and cores, each core an ordinary `Io`. All run in one thread,
//! and everything that may come out one way or another (which core goes next, how long an operation takes, what a power
//! cut leaves of unsynced writes) comes from the seed, so a failure is found again with it. There are no statics and no
//! thread-locals; what is above `Io` must have none either.
//!
//! ```
//! use alluvium::ring::io::OpenHow;
//! use alluvium::ring::sim::{options::Crash, options::SimOptions, world::Sim};
//!
//! let sim = Sim::new(SimOptions::calm(1));
//! let server = sim.machine();
//! let io = server.core(0);
//! let task = io.clone();
//! let opened = sim.run(&io, 1_000_000_000, async move { task.open("/log".as_ref(), OpenHow::CreateNew).await.is_ok() });
//! assert_eq!(opened, Ok(true), "{}", sim.trace_tail());
//! server.crash(Crash::PowerCut);
//! let _booted_again_on_the_same_disk = server.core(0);
//! ```

pub mod core;
pub mod crash;
pub mod disk;
pub mod events;
pub mod file;
pub mod folder;
pub mod machine;
pub mod net;
pub mod operation;
pub mod options;
pub mod pipe;
pub mod random;
pub mod stream;
pub mod world;
