//! Which processors the server takes, one thread on each.
#![allow(clippy::disallowed_methods)] // reads the topology from /sys before any core runs

use std::collections::BTreeSet;
use std::fs;
use std::str::FromStr;

use thiserror::Error;

/// What `--cores` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CoresWanted {
    /// So many, chosen by the server.
    Count(usize),
    /// These processors.
    List(Vec<usize>),
}

/// Why `--cores` cannot be done.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CoresError {
    /// Neither a count nor a list.
    #[error("write how many (2), or which ones as `lscpu -e` numbers them (0,2,4-7; one alone: 3-3)")]
    IllFormed,
    /// Not so many.
    #[error("{wanted} cores are asked for, but this process may use {usable} processors")]
    TooMany {
        /// As asked.
        wanted: usize,
        /// What the affinity mask leaves.
        usable: usize,
    },
    /// Not that one.
    #[error("processor {processor} does not exist or this process may not use it (see `taskset -p $$`)")]
    NotUsable {
        /// Its number.
        processor: usize,
    },
    /// The kernel does not say which processors there are.
    #[error("the kernel does not tell which processors this process may use; name them: --cores 0,1")]
    Unknown,
}

/// One processor that this process may use, and those that share its physical core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Processor {
    /// Its number, as in /proc/cpuinfo.
    pub number: usize,
    /// The lowest number among the hardware threads of its core.
    pub first_sibling: usize,
}

impl FromStr for CoresWanted {
    type Err = CoresError;

    fn from_str(text: &str) -> Result<Self, CoresError> {
        if let Ok(count) = text.trim().parse::<usize>() {
            return if (1..=CORES_MAX).contains(&count) { Ok(Self::Count(count)) } else { Err(CoresError::IllFormed) };
        }
        let list = parse_list(text).ok_or(CoresError::IllFormed)?;
        if list.is_empty() {
            return Err(CoresError::IllFormed);
        }
        Ok(Self::List(list))
    }
}

/// The processors that this process may use, by number.
pub fn usable_processors() -> Vec<Processor> {
    let mut processors: Vec<_> = core_affinity::get_core_ids()
        .unwrap_or_default()
        .into_iter()
        .map(|core| Processor { number: core.id, first_sibling: first_sibling(core.id) })
        .collect();
    processors.sort_by_key(|processor| processor.number);
    processors
}

/// Chooses processors: as wanted, or else one of each physical core, [`CORES_DEFAULT_MAX`] at most.
pub fn choose(wanted: Option<&CoresWanted>, usable: &[Processor]) -> Result<Vec<usize>, CoresError> {
    if usable.is_empty() && !matches!(wanted, Some(CoresWanted::List(_))) {
        return Err(CoresError::Unknown);
    }
    match wanted {
        None => {
            let mut chosen = one_of_each_core(usable);
            chosen.truncate(CORES_DEFAULT_MAX);
            Ok(chosen)
        }
        Some(CoresWanted::Count(count)) => {
            // Second hardware threads come last: they add less than a core does.
            let mut chosen = one_of_each_core(usable);
            let rest = usable.iter().map(|processor| processor.number).filter(|number| !chosen.contains(number));
            let rest: Vec<_> = rest.collect();
            chosen.extend(rest);
            if *count > chosen.len() {
                return Err(CoresError::TooMany { wanted: *count, usable: chosen.len() });
            }
            chosen.truncate(*count);
            Ok(chosen)
        }
        Some(CoresWanted::List(list)) => {
            for &processor in list {
                let known = usable.iter().any(|usable| usable.number == processor);
                if !known && !usable.is_empty() {
                    return Err(CoresError::NotUsable { processor });
                }
            }
            Ok(list.clone())
        }
    }
}

fn one_of_each_core(usable: &[Processor]) -> Vec<usize> {
    let mut seen = BTreeSet::new();
    usable.iter().filter(|processor| seen.insert(processor.first_sibling)).map(|processor| processor.number).collect()
}

fn first_sibling(processor: usize) -> usize {
    let path = format!("/sys/devices/system/cpu/cpu{processor}/topology/thread_siblings_list");
    fs::read_to_string(path).ok().and_then(|text| parse_list(&text)?.into_iter().min()).unwrap_or(processor)
}

/// Reads `0,2,4-7`, as the kernel and `taskset` write it. `None` where it is something else or has a number twice.
fn parse_list(text: &str) -> Option<Vec<usize>> {
    let mut list = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first: usize = first.trim().parse().ok()?;
        let last: usize = last.trim().parse().ok()?;
        if first > last || last >= PROCESSORS_MAX {
            return None;
        }
        list.extend(first..=last);
    }
    let distinct: BTreeSet<_> = list.iter().collect();
    (distinct.len() == list.len() && list.len() <= CORES_MAX).then_some(list)
}

/// A core is a broker, and every client may open a connection to each: more only when asked for.
pub const CORES_DEFAULT_MAX: usize = 16;
/// Broker ids are `node_id * 1000 + core index`.
pub const CORES_MAX: usize = 1000;
const PROCESSORS_MAX: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(siblings: &[usize]) -> Vec<Processor> {
        let number = |(number, &first_sibling)| Processor { number, first_sibling };
        siblings.iter().enumerate().map(number).collect()
    }

    #[test]
    fn counts_and_lists_parse() {
        let list = |list: &[usize]| Ok(CoresWanted::List(list.to_vec()));
        let cases = [
            ("2", Ok(CoresWanted::Count(2))),
            ("0,2,4-7", list(&[0, 2, 4, 5, 6, 7])),
            ("3-3", list(&[3])),
            ("3,", list(&[3])),
            ("0", Err(CoresError::IllFormed)),
            ("1001", Err(CoresError::IllFormed)),
            ("", Err(CoresError::IllFormed)),
            ("7-4", Err(CoresError::IllFormed)),
            ("1,1", Err(CoresError::IllFormed)),
            ("0-99999999999", Err(CoresError::IllFormed)),
            ("all", Err(CoresError::IllFormed)),
        ];
        for (text, wanted) in cases {
            assert_eq!(text.parse(), wanted, "{text}");
        }
    }

    #[test]
    fn one_hardware_thread_of_each_core_comes_first() {
        // Four cores with two threads each, numbered as most machines do: 0-3, then their siblings 4-7.
        let smt = machine(&[0, 1, 2, 3, 0, 1, 2, 3]);
        // Others number siblings next to each other.
        let adjacent = machine(&[0, 0, 2, 2]);
        let many = machine(&(0..40).collect::<Vec<_>>());
        let first_16: Vec<usize> = (0..16).collect();
        let cases = [
            (&smt, None, vec![0, 1, 2, 3]),
            (&smt, Some("6"), vec![0, 1, 2, 3, 4, 5]),
            (&smt, Some("7,0"), vec![7, 0]),
            (&adjacent, None, vec![0, 2]),
            (&adjacent, Some("3"), vec![0, 2, 1]),
            (&many, None, first_16),
            (&many, Some("20"), (0..20).collect()),
        ];
        for (usable, wanted, chosen) in cases {
            let parsed: Option<CoresWanted> = wanted.map(|text| text.parse().expect(text));
            assert_eq!(choose(parsed.as_ref(), usable), Ok(chosen), "{wanted:?}");
        }
    }

    #[test]
    fn what_the_machine_lacks_is_refused() {
        let usable = machine(&[0, 1]);
        let (wanted, usable_count) = (3, 2);
        assert_eq!(
            choose(Some(&CoresWanted::Count(wanted)), &usable),
            Err(CoresError::TooMany { wanted, usable: usable_count })
        );
        assert_eq!(choose(Some(&CoresWanted::List(vec![0, 9])), &usable), Err(CoresError::NotUsable { processor: 9 }));
        assert_eq!(choose(None, &[]), Err(CoresError::Unknown));
    }
}
