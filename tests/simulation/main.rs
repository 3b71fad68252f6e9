//! The broker's code in a world that fails, from seeds, judged by an oracle.
//!
//! ```text
//! seeds.rs    which seeds to run: all of a range, or the one that failed
//! oracle.rs   what was promised, and whether it was kept: knows no server and no simulator
//! canary.rs   a tiny store, right and wrong, to show that the oracle can fail
//! ```
//!
//! `scripts/simulate SEED` runs one seed again.

mod canary;
mod oracle;
mod seeds;
