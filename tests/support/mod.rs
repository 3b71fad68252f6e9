//! What the tests of the real binary share: a server process, a raw client, seeds.
//!
//! `process` starts the server on free loopback ports, waits for its `ready` line and ends it; `client` speaks the
//! protocol one connection at a time; `random` makes a run repeatable from its seed; `wait` waits for a condition with a
//! limit; `skip` says that a machine lacks what a test needs.
//!
//! Environment: `SEED` repeats a run, `KILLS` says how often `server_kill` kills, `ALLUVIUM_BINARY` names another binary to
//! test than the one just built (a release, say).
#![allow(dead_code, reason = "each test uses a part of it")]

pub(crate) mod client;
pub(crate) mod process;
pub(crate) mod random;
pub(crate) mod skip;
pub(crate) mod wait;
