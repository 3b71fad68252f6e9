//! A whole world from one seed: clocks, disks and a network that fail.
//!
//! [`world::Sim`] holds machines; each machine has a disk and cores, each core an ordinary `Io`. All run in one thread,
//! and everything that may come out one way or another (which core goes next, how long an operation takes, what a power
//! cut leaves of unsynced writes) comes from the seed, so a failure is found again with it. There are no statics and no
//! thread-locals; what is above `Io` must have none either.

pub mod core;
pub mod crash;
pub mod disk;
pub mod file;
pub mod machine;
pub mod net;
pub mod operation;
pub mod options;
pub mod pipe;
pub mod random;
pub mod stream;
pub mod world;
