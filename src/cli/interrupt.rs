//! Ctrl-C and SIGTERM: a flag to look at, so that a command ends with its counts.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// True from the first signal on; a second one ends the process at once.
pub fn watch() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // In this order: the first signal finds the flag still unset. Where the system refuses, signals do what they did.
        let _ = flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&stop));
        let _ = flag::register(signal, Arc::clone(&stop));
    }
    stop
}
