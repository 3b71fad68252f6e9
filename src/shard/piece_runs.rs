//! Which neighbouring pieces one read of the store brings.

use std::ops::Range;

/// Pieces of `numbers` that are neither there nor on their way, as neighbours that are read at once: up to `count_max`.
/// Memory comes in powers of two, so a run that would leave much of its memory unused is two.
pub(in crate::shard) fn missing_runs(
    numbers: Range<u64>,
    count_max: usize,
    is_known: impl Fn(u64) -> bool,
) -> Vec<(u64, usize)> {
    let mut runs: Vec<(u64, usize)> = Vec::new();
    for number in numbers.filter(|number| !is_known(*number)) {
        match runs.last_mut() {
            Some((first, count)) if *first + *count as u64 == number && *count < count_max => *count += 1,
            _ => runs.push((number, 1)),
        }
    }
    let in_powers = |(first, count): (u64, usize)| {
        let whole = count.next_power_of_two();
        let half = whole / 2;
        match count * 4 < whole * 3 {
            true => vec![(first, half), (first + half as u64, count - half)],
            false => vec![(first, count)],
        }
    };
    runs.into_iter().flat_map(in_powers).collect()
}

/// `numbers` without the pieces at their end that would be a run of less than `count_min`, where runs have up to `count_max`:
/// they wait for more, for each read of the store is a connection.
pub(in crate::shard) fn without_short_run(
    numbers: Range<u64>,
    count_min: usize,
    count_max: usize,
    is_known: impl Fn(u64) -> bool,
) -> Range<u64> {
    let missing = numbers.clone().rev().take_while(|number| !is_known(*number)).count();
    let short = missing % count_max;
    let left_out = if short < count_min { short as u64 } else { 0 };
    numbers.start..numbers.end - left_out
}

/// Where an answer stops that could have `numbers`, so that it costs one read of up to `count_max` pieces at most: before the
/// second gap, and before the first where more than half is there without it.
pub(in crate::shard) fn reach(numbers: Range<u64>, count_max: usize, is_known: impl Fn(u64) -> bool) -> u64 {
    let half = (numbers.end - numbers.start) / 2;
    let mut at = numbers.start;
    let walk = |at: &mut u64, count_max: u64, wants_known: bool| {
        let end = numbers.end.min(at.saturating_add(count_max));
        while *at < end && is_known(*at) == wants_known {
            *at += 1;
        }
    };
    walk(&mut at, u64::MAX, true);
    if at - numbers.start <= half {
        walk(&mut at, count_max as u64, false);
        walk(&mut at, u64::MAX, true);
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `x`: there, or on its way.
    fn known(pieces: &str) -> impl Fn(u64) -> bool {
        move |number| pieces.as_bytes()[number as usize] == b'x'
    }

    #[test]
    fn neighbours_are_read_at_once() {
        let cases = [
            ("", 4, vec![]),
            ("xx", 4, vec![]),
            ("...", 4, vec![(0, 3)]),
            ("x....", 4, vec![(1, 4)]),
            (".....", 4, vec![(0, 4), (4, 1)]),
            ("..x.", 4, vec![(0, 2), (3, 1)]),
            (".....", 8, vec![(0, 4), (4, 1)]),
            ("......", 8, vec![(0, 6)]),
            ("x.........", 8, vec![(1, 8), (9, 1)]),
            ("...", 1, vec![(0, 1), (1, 1), (2, 1)]),
        ];
        for (pieces, count_max, runs) in cases {
            assert_eq!(missing_runs(0..pieces.len() as u64, count_max, known(pieces)), runs, "{pieces} by {count_max}");
        }
    }

    #[test]
    fn a_short_run_at_the_end_waits_for_more() {
        let cases = [("", 0), ("xx", 2), ("xx...", 2), ("x.x...", 3), ("x....", 5), ("x......", 5), ("xx...x", 6)];
        for (pieces, end) in cases {
            let numbers = without_short_run(0..pieces.len() as u64, 4, 4, known(pieces));
            assert_eq!(numbers, 0..end, "{pieces}");
        }
        assert_eq!(without_short_run(0..4, 2, 4, known("xx..")), 0..4);
    }

    #[test]
    fn an_answer_costs_one_read() {
        let cases = [
            ("", 0),
            // Nothing is there, or all is.
            (".....", 4),
            ("xxxxx", 5),
            // It was thought to begin one piece earlier, or later.
            ("xxx..", 3),
            (".xxxx", 5),
            (".xx..", 3),
            // The end of the last answer is there.
            ("x....", 5),
            ("x.....", 5),
            ("x.", 2),
            ("x.x.x", 3),
        ];
        for (pieces, end) in cases {
            let reached = reach(0..pieces.len() as u64, 4, known(pieces));
            assert_eq!(reached, end, "{pieces}");
            let runs = missing_runs(0..reached, 4, known(pieces));
            assert!(runs.len() <= 1, "{pieces}: {runs:?}");
        }
    }
}
