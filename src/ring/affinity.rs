//! Which CPUs the cores run on: one of each SMT pair first.

use std::io;
use std::str::FromStr;

use crate::ring::syscall;

/// What was asked for by `--cores`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CoresWanted {
    /// One core for each physical core that this process may use, at most [`CORES_MAX_BY_DEFAULT`].
    #[default]
    Physical,
    /// So many cores: on physical cores first, then on their second threads.
    Count(usize),
    /// These CPUs, in this order.
    Cpus(Vec<usize>),
}

/// More cores than this are started only where they are asked for: each is a broker to the clients.
pub const CORES_MAX_BY_DEFAULT: usize = 16;

/// A `--cores` that cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum CoresError {
    /// Not a number and not a list.
    #[error("{text:?} is neither a number of cores nor a list of CPUs such as 0,2,4-7")]
    Syntax {
        /// What was given.
        text: String,
    },
    /// A CPU twice.
    #[error("CPU {cpu} is listed twice: each core needs a CPU of its own")]
    Repeated {
        /// The CPU.
        cpu: usize,
    },
    /// A CPU that is not there, or not for this process.
    #[error(
        "CPU {cpu} is not one that this process may run on ({allowed:?}); see `taskset -p` and the cpuset of its cgroup"
    )]
    NotAllowed {
        /// The CPU.
        cpu: usize,
        /// Those that are.
        allowed: Vec<usize>,
    },
    /// More cores than CPUs.
    #[error(
        "{wanted} cores are asked for and this process may run on {allowed} CPUs; see `taskset -p` and the cpuset of its cgroup"
    )]
    TooMany {
        /// How many were asked for.
        wanted: usize,
        /// How many there are.
        allowed: usize,
    },
    /// The kernel does not say.
    #[error("cannot learn on which CPUs this process may run: {0}")]
    Unknown(#[from] io::Error),
}

impl FromStr for CoresWanted {
    type Err = CoresError;

    /// `4` is a count; `0,2`, `4-7` and `3-3` are lists.
    fn from_str(text: &str) -> Result<Self, CoresError> {
        let syntax = || CoresError::Syntax { text: text.to_owned() };
        if let Ok(count) = text.parse::<usize>() {
            return if count == 0 { Err(syntax()) } else { Ok(Self::Count(count)) };
        }
        let cpus = parse_cpu_list(text).ok_or_else(syntax)?;
        let repeated = cpus.iter().enumerate().find(|(at, cpu)| cpus[..*at].contains(cpu));
        match repeated {
            Some((_, cpu)) => Err(CoresError::Repeated { cpu: *cpu }),
            None => Ok(Self::Cpus(cpus)),
        }
    }
}

/// The CPUs for the cores, core 0 first.
///
/// # Errors
/// Where they cannot be had.
pub fn choose_cpus(wanted: &CoresWanted) -> Result<Vec<usize>, CoresError> {
    choose(wanted, &syscall::allowed_cpus()?, siblings_of)
}

fn choose(
    wanted: &CoresWanted,
    allowed: &[usize],
    siblings_of: impl Fn(usize) -> Vec<usize>,
) -> Result<Vec<usize>, CoresError> {
    let (mut first_threads, mut second_threads) = (Vec::new(), Vec::new());
    for cpu in allowed {
        let siblings = siblings_of(*cpu);
        let taken = first_threads.iter().any(|first| siblings.contains(first));
        if taken { &mut second_threads } else { &mut first_threads }.push(*cpu);
    }
    match wanted {
        CoresWanted::Physical => {
            first_threads.truncate(CORES_MAX_BY_DEFAULT);
            Ok(first_threads)
        }
        CoresWanted::Count(count) if *count > allowed.len() => {
            Err(CoresError::TooMany { wanted: *count, allowed: allowed.len() })
        }
        CoresWanted::Count(count) => Ok(first_threads.into_iter().chain(second_threads).take(*count).collect()),
        CoresWanted::Cpus(cpus) => match cpus.iter().find(|cpu| !allowed.contains(cpu)) {
            Some(cpu) => Err(CoresError::NotAllowed { cpu: *cpu, allowed: allowed.to_vec() }),
            None => Ok(cpus.clone()),
        },
    }
}

/// The threads of the physical core of `cpu`, itself included; none where the kernel does not say.
#[allow(clippy::disallowed_methods)] // at start, from a file system in memory
fn siblings_of(cpu: usize) -> Vec<usize> {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    let list = std::fs::read_to_string(path).ok().and_then(|text| parse_cpu_list(text.trim()));
    list.unwrap_or_default()
}

/// A list as the kernel writes it: `0,4-6`.
fn parse_cpu_list(text: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for word in text.split(',') {
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || last > CPU_MAX {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

/// Past any machine; keeps a mistyped range from filling memory.
const CPU_MAX: usize = 65_535;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_lists_parse() {
        for (text, want) in [
            ("4", Some(CoresWanted::Count(4))),
            ("0,2", Some(CoresWanted::Cpus(vec![0, 2]))),
            ("3-3", Some(CoresWanted::Cpus(vec![3]))),
            ("6,1-3", Some(CoresWanted::Cpus(vec![6, 1, 2, 3]))),
            ("0", None),
            ("", None),
            ("1,", None),
            ("3-1", None),
            ("1,0-2", None),
            ("0-99999999999", None),
            ("two", None),
        ] {
            assert_eq!(text.parse::<CoresWanted>().ok(), want, "{text:?}");
        }
    }

    #[test]
    fn one_of_each_smt_pair_comes_first() {
        // CPUs 0..4 are first threads of four cores, 4..8 their second ones.
        let siblings = |cpu: usize| vec![cpu % 4, cpu % 4 + 4];
        let allowed = [1, 2, 3, 4, 5, 6];
        for (wanted, want) in [
            (CoresWanted::Physical, Some(vec![1, 2, 3, 4])),
            (CoresWanted::Count(2), Some(vec![1, 2])),
            (CoresWanted::Count(6), Some(vec![1, 2, 3, 4, 5, 6])),
            (CoresWanted::Count(5), Some(vec![1, 2, 3, 4, 5])),
            (CoresWanted::Count(7), None),
            (CoresWanted::Cpus(vec![6, 1]), Some(vec![6, 1])),
            (CoresWanted::Cpus(vec![0]), None),
        ] {
            assert_eq!(choose(&wanted, &allowed, siblings).ok(), want, "{wanted:?}");
        }
        let many: Vec<usize> = (0..64).collect();
        let chosen = choose(&CoresWanted::Physical, &many, |cpu| vec![cpu]).unwrap();
        assert_eq!(chosen.len(), CORES_MAX_BY_DEFAULT);
        // A kernel without topology: each CPU is a core.
        assert_eq!(choose(&CoresWanted::Physical, &[0, 1], |_| Vec::new()).unwrap(), [0, 1]);
    }

    #[test]
    fn this_machine_has_cpus() {
        assert!(!choose_cpus(&CoresWanted::Physical).unwrap().is_empty());
    }
}
