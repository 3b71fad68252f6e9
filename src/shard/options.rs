//! What every core of a server was started with.

use std::path::PathBuf;

use crate::control::broker_config::BrokerConfig;
#[cfg(feature = "hdfs")]
use crate::tier::companion::Companion;
use crate::tier::hdfs_options::HdfsOptions;
use crate::tier::tier_url::TierUrl;

/// What a core was started with. The same on all cores.
#[derive(Clone, Debug)]
pub struct ShardOptions {
    /// `--node-id`: the machine.
    pub node_id: i32,
    /// Cores that serve.
    pub core_count: u32,
    /// Made once, when the first data directory was.
    pub cluster_id: String,
    /// The same as 16 bytes, where it is a uuid as Kafka's are.
    pub cluster_id_bytes: [u8; 16],
    /// `--clamp-replication`: a replication factor above the machines there are is made 1.
    pub clamp_replication: bool,
    /// How connections find the core of their partition.
    pub listen_mode: ListenMode,
    /// Where clients reach each core, by core index; one address where all cores are one broker.
    pub brokers: Vec<BrokerAddress>,
    /// The data directories, in the order of the command line.
    pub data_dirs: Vec<DataDir>,
    /// The data directory that has the catalog.
    pub catalog_dir: PathBuf,
    /// Those of the command line that could not be used at the start.
    pub unusable_dirs: Vec<PathBuf>,
    /// Kafka's broker configs, with `--set` applied.
    pub broker_config: BrokerConfig,
    /// Memory for frames of this core, in bytes.
    pub frame_memory_bytes: usize,
    /// Open segment files of this core at most.
    pub open_files_max: usize,
    /// Partitions of a data directory that wait for a sync together before its file system is synced in their place.
    pub whole_sync_partitions_min: usize,
    /// `socket.request.max.bytes`.
    pub request_bytes_max: u32,
    /// `connections.max.idle.ms`.
    pub connection_idle_ms_max: u64,
    /// This core's share of `max.connections`.
    pub connections_max: usize,
    /// `max.connections.per.ip`.
    pub connections_per_ip_max: usize,
    /// `fetch.max.bytes`: what one fetch may ask for.
    pub fetch_bytes_max: u32,
    /// This core's share of `max.incremental.fetch.session.cache.slots`.
    pub fetch_sessions_max: usize,
    /// `--tier`, where there is one.
    pub tier: Option<TierOptions>,
}

/// [`ShardOptions::whole_sync_partitions_min`] of a server; fewer are synced one by one.
pub const WHOLE_SYNC_PARTITIONS_MIN: usize = 4;

/// Where sealed segments are copied to.
#[derive(Clone, Debug)]
pub struct TierOptions {
    /// `--tier`
    pub url: TierUrl,
    /// `--tier-required`: a server whose tier does not answer does not start.
    pub is_required: bool,
    /// `--tier-memory`: memory of this core for copies and reads of the tier, in bytes.
    pub memory_bytes: usize,
    /// Where it is in HDFS.
    pub hdfs: HdfsOptions,
    /// The thread that speaks to HDFS for this core; made when the core starts.
    #[cfg(feature = "hdfs")]
    pub companion: Option<Companion>,
}

/// How connections find the core of their partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenMode {
    /// Each core is a broker with a port of its own: clients connect to the core that leads.
    PerCore,
    /// One broker; every core accepts on the same port, and requests cross to the core that leads.
    Single,
    /// One broker; core 0 accepts, and requests cross to the core that leads.
    FirstCore,
}

impl ListenMode {
    /// True where clients see one broker, and cores work for each other.
    pub fn is_one_broker(self) -> bool {
        self != Self::PerCore
    }
}

impl ShardOptions {
    /// The broker that clients are told for a core.
    pub fn broker_of(&self, core: u32) -> Option<&BrokerAddress> {
        let at = if self.listen_mode.is_one_broker() { 0 } else { core as usize };
        self.brokers.get(at)
    }
}

/// Where one core is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerAddress {
    /// `node_id * 1000 + core index`.
    pub id: i32,
    /// The host that clients are told.
    pub host: String,
    /// The port that clients are told.
    pub port: u16,
}

/// One `--data-dir`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataDir {
    /// Its id, from its `meta.properties`.
    pub id: [u8; 16],
    /// Where it is.
    pub path: PathBuf,
    /// It was left by a clean stop.
    pub clean: bool,
}
