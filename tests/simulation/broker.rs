//! The seeds of the real broker, and wrong ones that the oracle has to find out.

use alluvium::ring::sim::options::Crash;
use alluvium::tier::sim_store::StoreFaults;

use crate::scenario::{Outcome, Scenario};
use crate::seeds::seeds;

/// As operators run it.
const SEGMENT: Scenario = Scenario {
    durability: "segment",
    coordinators: "segment",
    crashes: &[Crash::PowerCut, Crash::Kill],
    faults: true,
    store: None,
};

#[track_caller]
fn expect_kept(seed: u64, outcome: &Outcome) {
    if let Some(violation) = &outcome.violation {
        let Outcome { summary, trace_tail, .. } = outcome;
        panic!(
            "seed {seed}: {violation}\n{summary}\n{trace_tail}seed {seed}: {violation}\nrun it again: scripts/simulate {seed}"
        );
    }
}

#[test]
fn every_promise_is_kept_through_crashes_and_faults() {
    let mut promised = 0;
    let range = seeds(200);
    let is_whole = range.end - range.start >= 200;
    for seed in range {
        let outcome = SEGMENT.run(seed);
        expect_kept(seed, &outcome);
        promised += outcome.promised_count;
    }
    assert!(!is_whole || promised > 10_000, "only {promised} promises were made");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in [0, 1, 2, 3, 17] {
        let (first, second) = (SEGMENT.run(seed), SEGMENT.run(seed));
        assert_eq!(first.trace_hash, second.trace_hash, "seed {seed}: {}\n{}", first.summary, second.summary);
        assert_eq!(first.summary, second.summary, "seed {seed}");
    }
}

/// `--durability os` acknowledges from the page cache: exactly "acknowledge before the sync". After a power cut the
/// oracle must see that as records lost; after a kill, which spares the page cache, all is there.
#[test]
fn an_acknowledgement_before_the_sync_is_found_out_by_a_power_cut_and_only_by_it() {
    let cut =
        Scenario { durability: "os", coordinators: "os", crashes: &[Crash::PowerCut], faults: false, store: None };
    let found = (0..20).filter_map(|seed| cut.run(seed).violation).collect::<Vec<_>>();
    assert!(found.len() >= 5, "{found:?}");
    let killed = Scenario { crashes: &[Crash::Kill], ..cut };
    for seed in 0..20 {
        expect_kept(seed, &killed.run(seed));
    }
}

/// Coordinators that answer before their records are durable: after a power cut a group has committed less than its member
/// was told, or a transaction that was committed is not.
#[test]
fn a_coordinator_that_answers_too_soon_is_found_out_by_a_power_cut_and_only_by_it() {
    let cut =
        Scenario { durability: "segment", coordinators: "os", crashes: &[Crash::PowerCut], faults: false, store: None };
    let found = (0..20).filter_map(|seed| cut.run(seed).violation).collect::<Vec<_>>();
    let of_commits = found.iter().filter(|violation| violation.contains("has committed")).count();
    assert!(of_commits >= 3, "{found:?}");
    let killed = Scenario { crashes: &[Crash::Kill], ..cut };
    for seed in 0..10 {
        expect_kept(seed, &killed.run(seed));
    }
}

/// A copy whose rename did not happen, or whose file is short, is noticed by the length that is asked for afterwards. Where
/// that length is a lie as well, what is local is deleted before any check: the oracle must see that as records lost.
#[test]
fn a_local_deletion_before_the_check_of_the_copy_is_found_out() {
    let store =
        StoreFaults { lost_rename_per_million: 100_000, short_close_per_million: 100_000, ..StoreFaults::default() };
    let scenario = |store| Scenario {
        durability: "segment",
        coordinators: "segment",
        crashes: &[Crash::Kill],
        faults: false,
        store: Some(store),
    };
    for seed in 0..10 {
        expect_kept(seed, &scenario(store).run(seed));
    }
    let believed = scenario(StoreFaults { hides_lies: true, ..store });
    let found = (0..10).filter_map(|seed| believed.run(seed).violation).collect::<Vec<_>>();
    assert!(found.len() >= 3, "{found:?}");
}
