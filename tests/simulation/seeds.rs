//! Which seeds a run goes through.

/// `SIMULATION_SEED=n` runs that one; otherwise `count` from 0, or `SIMULATION_SEED_COUNT` of them.
pub(crate) fn seeds(count: u64) -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match number("SIMULATION_SEED") {
        Some(seed) => {
            // One seed is looked at closely: what the server says helps.
            let _ = tracing_subscriber::fmt().with_target(false).without_time().with_ansi(false).try_init();
            seed..seed + 1
        }
        None => 0..number("SIMULATION_SEED_COUNT").unwrap_or(count),
    }
}
