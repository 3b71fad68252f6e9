//! Waiting for a condition, with a limit.
#![allow(clippy::disallowed_methods, reason = "tests look at a process from outside")]

use std::thread;
use std::time::{Duration, Instant};

/// Asks again and again until there is an answer; panics with `what` when there is none in time.
pub(crate) fn until<T>(what: &str, limit: Duration, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "not within {limit:?}: {what}");
        thread::sleep(PAUSE);
    }
}

const PAUSE: Duration = Duration::from_millis(5);
