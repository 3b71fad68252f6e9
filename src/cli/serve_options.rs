//! What `alluvium serve` was told, resolved: a value and its source for each.
#![allow(clippy::disallowed_methods)] // reads the machine's memory size and resolves names before any core runs

use std::fmt;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use thiserror::Error;

use super::address::{Address, KAFKA_PORT};
use super::args::{Durability, ListenMode, ServeArgs};
use super::byte_size;
use super::cores::{self, CORES_MAX, CoresError, Processor};
use super::tier_settings::{self, TierSettingError};
use crate::control::broker_config::BrokerConfigError;
use crate::ring::ring_mask::RingMask;
use crate::tier::hdfs_options::HdfsOptions;
use crate::tier::tier_url::TierUrl;

/// All that the server needs to know, resolved once and handed down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServeOptions {
    /// Where core 0 listens; core i listens on the port + i.
    pub listen: Resolved<SocketAddr>,
    /// What clients are told for core 0; core i is told with the port + i.
    pub advertise: Resolved<Address>,
    /// How clients reach the cores.
    pub listen_mode: Resolved<ListenMode>,
    /// The processor of each core, by core index.
    pub cores: Resolved<Vec<usize>>,
    /// The machine's number; broker ids are `node_id * 1000 + core index`.
    pub node_id: Resolved<u32>,
    /// Where partitions are kept, at least one.
    pub data_dirs: Resolved<Vec<PathBuf>>,
    /// When a write is acknowledged.
    pub durability: Resolved<Durability>,
    /// Memory for requests, answers and caches, all cores together.
    pub memory_bytes: Resolved<u64>,
    /// The tier, where there is one.
    pub tier: Resolved<Option<TierUrl>>,
    /// How HDFS is reached, where the tier is there.
    pub hdfs: HdfsOptions,
    /// Whether a server whose tier does not answer starts.
    pub tier_required: Resolved<bool>,
    /// Memory of each core for the tier's work.
    pub tier_memory_bytes: Resolved<u64>,
    /// Kafka's broker settings, in the order given; a later one of the same key wins.
    pub settings: Resolved<Vec<(String, String)>>,
    /// Whether a replication factor above the number of machines becomes 1 instead of an error.
    pub clamp_replication: Resolved<bool>,
    /// What to log, as tracing's filter.
    pub log_filter: Resolved<String>,
    /// How long an idle core polls before it sleeps.
    pub spin_us: Resolved<u32>,
    /// Kernel features to do without.
    pub ring_mask: Resolved<RingMask>,
}

/// A value and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved<T> {
    /// The value in force.
    pub value: T,
    /// Who says so.
    pub source: Source,
}

/// Where an option's value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Nobody said anything.
    Default,
    /// The command line.
    Flag,
    /// Derived from this flag.
    From(&'static str),
    /// Chosen for this machine.
    Machine,
}

/// Why the options cannot be resolved.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The name in `--listen` leads nowhere.
    #[error("--listen {address}: {source}; write an address of this machine, for example 0.0.0.0:9092")]
    Listen {
        /// As given.
        address: Address,
        /// What the resolver says.
        source: io::Error,
    },
    /// Core i listens on port + i, and that runs past the last port.
    #[error("{flag}: port {port} and {cores} cores go past port 65535; each core takes the next port")]
    Ports {
        /// The flag.
        flag: &'static str,
        /// The first port.
        port: u16,
        /// How many cores.
        cores: usize,
    },
    /// The same directory twice.
    #[error("--data-dir {} is given twice", path.display())]
    DataDirTwice {
        /// The directory.
        path: PathBuf,
    },
    /// Built without HDFS.
    #[error(
        "--tier: this server was built without HDFS; build it with `--features hdfs`, or name a folder, file:///..."
    )]
    NoHdfs,
    /// Settings of the tier.
    #[error("--set: {0}")]
    TierSetting(#[from] TierSettingError),
    /// Processors.
    #[error("--cores: {0}")]
    Cores(#[from] CoresError),
    /// A `--set` that is refused.
    #[error("--set: {0}")]
    Setting(BrokerConfigError),
    /// A core's share of the memory is below the largest request.
    #[error(
        "--memory is too small: {cores} cores that may each hold a request of {request_bytes_max} bytes \
         (socket.request.max.bytes) need {}; give more, or lower it with --set socket.request.max.bytes=BYTES",
        byte_size::display(*needed_bytes)
    )]
    Memory {
        /// The largest request.
        request_bytes_max: u32,
        /// Cores that serve.
        cores: usize,
        /// What they need together.
        needed_bytes: u64,
    },
    /// Signals cannot be waited for.
    #[error("signals cannot be handled: {0}")]
    Signals(io::Error),
    /// The server itself.
    #[error(transparent)]
    Server(crate::server::boot::ServeError),
}

/// What the machine offers; read by [`Machine::read`], made up in tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Processors that this process may use.
    pub processors: Vec<Processor>,
    /// Memory of the machine, or of the control group where that is less; 0 where unknown.
    pub memory_bytes: u64,
}

impl ServeOptions {
    /// Fills in what the command line leaves open, and checks what flags say about each other.
    pub fn resolve(args: &ServeArgs, machine: &Machine) -> Result<Self, ServeError> {
        let source = if args.cores.is_some() { Source::Flag } else { Source::Machine };
        let cores = Resolved { value: cores::choose(args.cores.as_ref(), &machine.processors)?, source };
        let listen_mode = Resolved::or(args.listen_mode, ListenMode::default());
        let ports = if listen_mode.value == ListenMode::PerCore { cores.value.len() } else { 1 };
        let listen = resolve_listen(args, ports)?;
        let advertise = resolve_advertise(args, &listen, ports)?;
        let data_dirs = match args.data_dirs.as_slice() {
            [] => Resolved::default_of(vec![PathBuf::from("./data")]),
            dirs => Resolved::flag(dirs.to_vec()),
        };
        for (index, path) in data_dirs.value.iter().enumerate() {
            if data_dirs.value.iter().take(index).any(|other| other == path) {
                return Err(ServeError::DataDirTwice { path: path.clone() });
            }
        }
        let tier = match tier_settings::tier_of(args.tier.as_ref(), &args.settings)? {
            Some(url) => Resolved { value: Some(url), source: Source::From("--set") },
            None => args.tier.clone().map_or_else(|| Resolved::default_of(None), |url| Resolved::flag(Some(url))),
        };
        if !cfg!(feature = "hdfs") && matches!(tier.value, Some(TierUrl::Hdfs { .. })) {
            return Err(ServeError::NoHdfs);
        }
        let memory_bytes = match args.memory {
            Some(bytes) => Resolved::flag(bytes),
            None => Resolved {
                value: default_memory_bytes(machine.memory_bytes, cores.value.len()),
                source: Source::Machine,
            },
        };
        let settings = if args.settings.is_empty() {
            Resolved::default_of(Vec::new())
        } else {
            Resolved::flag(args.settings.clone())
        };
        Ok(Self {
            listen,
            advertise,
            listen_mode,
            cores,
            node_id: Resolved::or(args.node_id, 1),
            data_dirs,
            durability: Resolved::or(args.durability, Durability::default()),
            memory_bytes,
            tier,
            hdfs: args.hdfs.options(),
            tier_required: Resolved::or(args.tier_required.then_some(true), false),
            tier_memory_bytes: Resolved::or(args.tier_memory, TIER_MEMORY_BYTES),
            settings,
            clamp_replication: Resolved::or(args.clamp_replication.then_some(true), false),
            log_filter: Resolved::or(args.log.clone(), "info".to_owned()),
            spin_us: Resolved::or(args.spin_us, 0),
            ring_mask: Resolved::or(args.ring_mask, RingMask::NONE),
        })
    }
}

/// One option a line: `key = value (source)`.
impl fmt::Display for ServeOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line =
            |key: &str, value: &dyn fmt::Display, source: Source| writeln!(formatter, "{key} = {value} ({source})");
        let cores: Vec<_> = self.cores.value.iter().map(usize::to_string).collect();
        let dirs: Vec<_> = self.data_dirs.value.iter().map(|dir| dir.display().to_string()).collect();
        let durability = self.durability.value.name();
        let memory = byte_size::display(self.memory_bytes.value);
        let mask = match self.ring_mask.value {
            RingMask::NONE => "none".to_owned(),
            mask => mask.to_string(),
        };
        line("listen", &self.listen.value, self.listen.source)?;
        line("advertise", &self.advertise.value, self.advertise.source)?;
        line("listen_mode", &self.listen_mode.value.name(), self.listen_mode.source)?;
        line("cores", &cores.join(","), self.cores.source)?;
        line("node-id", &self.node_id.value, self.node_id.source)?;
        line("data-dir", &dirs.join(","), self.data_dirs.source)?;
        line("durability", &durability, self.durability.source)?;
        line("memory", &memory, self.memory_bytes.source)?;
        if let Some(url) = &self.tier.value {
            line("tier", url, self.tier.source)?;
            line("tier-required", &self.tier_required.value, self.tier_required.source)?;
            line("tier-memory", &byte_size::display(self.tier_memory_bytes.value), self.tier_memory_bytes.source)?;
        }
        let clamp = &self.clamp_replication;
        line("clamp-replication", &clamp.value, clamp.source)?;
        line("log", &self.log_filter.value, self.log_filter.source)?;
        line("spin-us", &self.spin_us.value, self.spin_us.source)?;
        line("ring-mask", &mask, self.ring_mask.source)?;
        for (key, value) in &self.settings.value {
            line(key, value, self.settings.source)?;
        }
        Ok(())
    }
}

impl<T> Resolved<T> {
    fn flag(value: T) -> Self {
        let source = Source::Flag;
        Self { value, source }
    }

    fn default_of(value: T) -> Self {
        let source = Source::Default;
        Self { value, source }
    }

    fn or(given: Option<T>, default: T) -> Self {
        given.map_or_else(|| Self::default_of(default), Self::flag)
    }
}

impl fmt::Display for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => formatter.write_str("default"),
            Self::Flag => formatter.write_str("flag"),
            Self::From(flag) => write!(formatter, "from {flag}"),
            Self::Machine => formatter.write_str("this machine"),
        }
    }
}

impl Machine {
    /// Asks the kernel.
    pub fn read() -> Self {
        let total = fs::read_to_string("/proc/meminfo").ok().and_then(|text| meminfo_total_bytes(&text)).unwrap_or(0);
        let group = fs::read_to_string("/sys/fs/cgroup/memory.max")
            .ok()
            .and_then(|text| text.trim().parse().ok())
            .unwrap_or(u64::MAX);
        Self { processors: cores::usable_processors(), memory_bytes: total.min(group) }
    }
}

fn resolve_listen(args: &ServeArgs, cores: usize) -> Result<Resolved<SocketAddr>, ServeError> {
    let address = Resolved::or(args.listen.clone(), Address::new("127.0.0.1", KAFKA_PORT));
    check_ports("--listen", address.value.port, cores)?;
    let resolved = address.value.resolve().and_then(|list| {
        let first = list.into_iter().next();
        first.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    });
    match resolved {
        Ok(value) => Ok(Resolved { value, source: address.source }),
        Err(source) => Err(ServeError::Listen { address: address.value, source }),
    }
}

fn resolve_advertise(
    args: &ServeArgs,
    listen: &Resolved<SocketAddr>,
    cores: usize,
) -> Result<Resolved<Address>, ServeError> {
    let port = listen.value.port();
    if let Some(advertise) = &args.advertise {
        let address = Address::new(&advertise.host, advertise.port.unwrap_or(port));
        check_ports("--advertise", address.port, cores)?;
        return Ok(Resolved::flag(address));
    }
    // Nobody can connect to "any address": then the name that this machine calls itself is the best guess.
    if listen.value.ip().is_unspecified() {
        let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let host = match name.trim() {
            "" => "localhost",
            name => name,
        };
        let value = Address::new(host, port);
        let source = Source::Machine;
        return Ok(Resolved { value, source });
    }
    // The name rather than its address, where a name was given.
    let host = match &args.listen {
        Some(address) => address.host.clone(),
        None => listen.value.ip().to_string(),
    };
    Ok(Resolved { value: Address::new(&host, port), source: Source::From("--listen") })
}

fn check_ports(flag: &'static str, port: u16, cores: usize) -> Result<(), ServeError> {
    debug_assert!(cores <= CORES_MAX);
    if usize::from(port) + cores > usize::from(u16::MAX) + 1 {
        return Err(ServeError::Ports { flag, port, cores });
    }
    Ok(())
}

/// An eighth of the machine, so that the page cache keeps the rest; a core needs room for its largest request (100 MiB by
/// default) and gains nothing beyond a gibibyte.
fn default_memory_bytes(machine_bytes: u64, cores: usize) -> u64 {
    let cores = cores.max(1) as u64;
    let bytes = (machine_bytes / 8 / cores).clamp(CORE_MEMORY_BYTES_MIN, CORE_MEMORY_BYTES_MAX);
    (bytes >> 20 << 20) * cores
}

fn meminfo_total_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1024)
}

const TIER_MEMORY_BYTES: u64 = 128 << 20;
const CORE_MEMORY_BYTES_MIN: u64 = 128 << 20;
const CORE_MEMORY_BYTES_MAX: u64 = 1 << 30;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::Advertise;

    fn machine() -> Machine {
        let processor = |number| Processor { number, first_sibling: number };
        Machine { processors: (0..4).map(processor).collect(), memory_bytes: 16 << 30 }
    }

    fn resolve(args: &ServeArgs) -> Result<ServeOptions, String> {
        ServeOptions::resolve(args, &machine()).map_err(|error| error.to_string())
    }

    #[test]
    fn defaults_are_printed_with_their_source() {
        let options = resolve(&ServeArgs::default()).expect("defaults");
        let printed = "listen = 127.0.0.1:9092 (default)\n\
            advertise = 127.0.0.1:9092 (from --listen)\n\
            listen_mode = per-core (default)\n\
            cores = 0,1,2,3 (this machine)\n\
            node-id = 1 (default)\n\
            data-dir = ./data (default)\n\
            durability = segment (default)\n\
            memory = 2G (this machine)\n\
            clamp-replication = false (default)\n\
            log = info (default)\n\
            spin-us = 0 (default)\n\
            ring-mask = none (default)\n";
        assert_eq!(options.to_string(), printed);
    }

    #[test]
    fn flags_win() {
        let args = ServeArgs {
            listen: Some(Address::new("::1", 19092)),
            advertise: Some(Advertise { host: "a.example".to_owned(), port: None }),
            cores: Some("2-3".parse().expect("list")),
            memory: Some(512 << 20),
            settings: vec![("num.partitions".to_owned(), "8".to_owned())],
            ..ServeArgs::default()
        };
        let printed = resolve(&args).expect("flags").to_string();
        for line in [
            "listen = [::1]:19092 (flag)",
            "advertise = a.example:19092 (flag)",
            "cores = 2,3 (flag)",
            "memory = 512M (flag)",
            "num.partitions = 8 (flag)",
        ] {
            assert!(printed.lines().any(|printed| printed == line), "{line}:\n{printed}");
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let past_the_ports = ServeArgs { listen: Some(Address::new("127.0.0.1", 65533)), ..ServeArgs::default() };
        let twice = ServeArgs { data_dirs: vec!["/a".into(), "/b".into(), "/a".into()], ..ServeArgs::default() };
        for (args, hint) in [(past_the_ports, "65535"), (twice, "/a is given twice")] {
            let error = resolve(&args).expect_err(hint);
            assert!(error.contains(hint), "{error}");
        }
        let last_ports = ServeArgs { listen: Some(Address::new("127.0.0.1", 65532)), ..ServeArgs::default() };
        assert!(resolve(&last_ports).is_ok());
    }

    #[test]
    fn memory_follows_the_machine() {
        let gib = 1 << 30;
        let mib = 1 << 20;
        let cases = [(0, 2, 256 * mib), (gib, 1, 128 * mib), (16 * gib, 4, 2 * gib), (1024 * gib, 16, 16 * gib)];
        for (machine_bytes, cores, bytes) in cases {
            assert_eq!(default_memory_bytes(machine_bytes, cores), bytes, "{machine_bytes} {cores}");
        }
        let meminfo = "MemTotal:       24689412 kB\nMemFree: 1 kB\n";
        assert_eq!(meminfo_total_bytes(meminfo), Some(24_689_412 * 1024));
        assert_eq!(meminfo_total_bytes("MemFree: 1 kB"), None);
    }
}
