//! Every command and flag, with its help.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use tracing_subscriber::EnvFilter;

use super::address::Address;
use super::byte_size;
use super::consume_args::ConsumeArgs;
use super::cores::CoresWanted;
use super::dump_args::DumpArgs;
use super::group_args::GroupArgs;
use super::hdfs_args::HdfsArgs;
use super::produce_args::ProduceArgs;
use super::tier_args::TierArgs;
use super::txn_args::TxnArgs;
use crate::record::compression::Compression;
use crate::ring::ring_mask::RingMask;
use crate::tier::tier_url::TierUrl;

/// The whole command line.
#[derive(Debug, Parser)]
#[command(name = "alluvium", version, about = ABOUT, after_help = EXAMPLES, max_term_width = 110)]
pub struct CommandLine {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the server.
    Serve(ServeArgs),
    /// Make, list, describe and delete topics of a running server.
    Topic(TopicArgs),
    /// List, describe and delete consumer groups, and move their offsets.
    Group(GroupArgs),
    /// List and describe transactions, and abort one that hangs.
    Txn(TxnArgs),
    /// Write lines to a topic of a running server.
    Produce(ProduceArgs),
    /// Read a topic of a running server, or check it.
    Consume(ConsumeArgs),
    /// Print what is in files of a data directory, and whether they are whole.
    Dump(DumpArgs),
    /// Look at the tier: list it, check it, read all of it back.
    Tier(TierArgs),
    /// Load a running server (this one or Apache Kafka) and measure it.
    Bench(BenchArgs),
}

/// Flags of `alluvium serve`.
#[derive(Clone, Debug, Default, Args)]
#[command(after_help = SERVE_EXAMPLES)]
pub struct ServeArgs {
    /// Where the first core listens; core i listens on the port + i (see --listen-mode) [default: 127.0.0.1:9092]
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: Option<Address>,
    /// What clients are told to connect to; core i is told with the port + i [default: as --listen]
    #[arg(long, value_name = "HOST[:PORT]", value_parser = parse_advertise)]
    pub advertise: Option<Advertise>,
    /// How clients reach the cores [default: per-core]
    #[arg(long, value_enum, value_name = "MODE")]
    pub listen_mode: Option<ListenMode>,
    /// How many cores (2), or which processors (0,2,4-7) [default: one of each physical core, 16 at most]
    #[arg(long, value_name = "N|LIST")]
    pub cores: Option<CoresWanted>,
    /// The machine's number; core i is broker NODE_ID * 1000 + i [default: 1]
    #[arg(long, value_name = "NODE_ID", value_parser = clap::value_parser!(u32).range(0..=2_000_000))]
    pub node_id: Option<u32>,
    /// Where topics are kept; may be given several times, one for each disk [default: ./data]
    #[arg(long = "data-dir", value_name = "DIR")]
    pub data_dirs: Vec<PathBuf>,
    /// When a write is acknowledged [default: segment]
    #[arg(long, value_enum, value_name = "MODE")]
    pub durability: Option<Durability>,
    /// Memory for requests, answers and caches, all cores together: 512M, 2G [default: an eighth of the machine's, from
    /// 128M to 1G a core]
    #[arg(long, value_name = "SIZE", value_parser = byte_size::parse)]
    pub memory: Option<u64>,
    /// Where topics with remote.storage.enable keep their sealed segments: a folder of a second disk, file:///mnt/hdd/base, or
    /// HDFS, hdfs://namenode:8020/base
    #[arg(long, value_name = "URL")]
    pub tier: Option<TierUrl>,
    /// Do not start where the tier does not answer; otherwise the server starts, says so, and tries again
    #[arg(long, requires = "tier")]
    pub tier_required: bool,
    /// Memory of each core for the tier's work [default: 128M]
    #[arg(long, value_name = "SIZE", value_parser = byte_size::parse, requires = "tier")]
    pub tier_memory: Option<u64>,
    /// How HDFS is reached
    #[command(flatten)]
    pub hdfs: HdfsArgs,
    /// A broker setting, spelled as in Kafka's server.properties; may be given several times
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = parse_setting)]
    pub settings: Vec<(String, String)>,
    /// Make replication factor 1 of a higher one, instead of refusing it
    #[arg(long)]
    pub clamp_replication: bool,
    /// What to log: error, warn, info, debug, trace, or a filter such as info,alluvium::log=debug [default: info]
    #[arg(long, value_name = "LEVEL|FILTER", value_parser = parse_log_filter)]
    pub log: Option<String>,
    /// How long an idle core polls before it sleeps, in microseconds; 20 suits cores that do nothing else [default: 0]
    #[arg(long, value_name = "US", value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub spin_us: Option<u32>,
    /// Kernel features to do without, with commas between them (for tests of the fallbacks)
    #[arg(long, value_name = "LIST")]
    pub ring_mask: Option<RingMask>,
}

/// How clients reach the cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ListenMode {
    /// Each core is a broker with its own port, and clients connect to the core that has their partition: the quickest
    #[default]
    PerCore,
    /// One broker with one port, which all cores accept on; requests cross to the core that has the partition: for NAT,
    /// containers and firewalls with one port
    Single,
    /// One broker with one port, which core 0 accepts on
    FirstCore,
}

impl ListenMode {
    /// The word on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::PerCore => "per-core",
            Self::Single => "single",
            Self::FirstCore => "first-core",
        }
    }
}

/// When a write is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Durability {
    /// Once the segment file is on stable storage (one fdatasync for all that came in meanwhile)
    #[default]
    Segment,
    /// Once the operating system has it, as Kafka does by default: a power cut can lose it
    Os,
}

impl Durability {
    /// The word on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Segment => "segment",
            Self::Os => "os",
        }
    }
}

/// What `--advertise` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advertise {
    /// The host that clients connect to.
    pub host: String,
    /// The first core's port; as in `--listen` where it is not given.
    pub port: Option<u16>,
}

/// Flags of `alluvium topic`.
#[derive(Clone, Debug, Args)]
pub struct TopicArgs {
    /// What to do with topics.
    #[command(subcommand)]
    pub command: TopicCommand,
}

/// The commands about topics.
#[derive(Clone, Debug, Subcommand)]
pub enum TopicCommand {
    /// Make a topic; returns when it can be written to.
    #[command(after_help = TOPIC_EXAMPLES)]
    Create(TopicCreateArgs),
    /// Print the topics.
    List(ConnectArgs),
    /// Print partitions, leaders, offsets and the settings that differ from the defaults.
    Describe(TopicDescribeArgs),
    /// Delete a topic and all that is in it.
    Delete(TopicDeleteArgs),
}

/// Which server, and how to print.
#[derive(Clone, Debug, Args)]
pub struct ConnectArgs {
    /// A server to ask first, or several with commas between them
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',', default_value = "127.0.0.1:9092")]
    pub bootstrap: Vec<Address>,
    /// How long an answer may take, in seconds
    #[arg(long, value_name = "S", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub timeout_seconds: u32,
    /// How to print
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub output: OutputFormat,
}

/// How results are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// For people
    Table,
    /// For programs
    Json,
}

/// Flags of `alluvium topic create`.
#[derive(Clone, Debug, Args)]
pub struct TopicCreateArgs {
    /// The topic's name
    pub name: String,
    /// How many partitions; the server's num.partitions where absent
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    pub partitions: Option<i32>,
    /// How many machines keep a copy
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(i16).range(1..))]
    pub replication_factor: i16,
    /// A topic setting, spelled as in Kafka; may be given several times
    #[arg(long = "config", value_name = "KEY=VALUE", value_parser = parse_setting)]
    pub configs: Vec<(String, String)>,
    /// Leave a topic of that name as it is, and succeed
    #[arg(long)]
    pub if_not_exists: bool,
    /// Which server, and how to print.
    #[command(flatten)]
    pub connect: ConnectArgs,
}

/// Flags of `alluvium topic describe`.
#[derive(Clone, Debug, Args)]
pub struct TopicDescribeArgs {
    /// The topic; all of them where absent
    pub name: Option<String>,
    /// Which server, and how to print.
    #[command(flatten)]
    pub connect: ConnectArgs,
}

/// Flags of `alluvium topic delete`.
#[derive(Clone, Debug, Args)]
pub struct TopicDeleteArgs {
    /// The topic
    pub name: String,
    /// Succeed where there is no such topic
    #[arg(long)]
    pub if_exists: bool,
    /// Which server, and how to print.
    #[command(flatten)]
    pub connect: ConnectArgs,
}

/// Flags of `alluvium bench`.
#[derive(Clone, Debug, Args)]
pub struct BenchArgs {
    /// Which load.
    #[command(subcommand)]
    pub command: BenchCommand,
}

/// The loads.
#[derive(Clone, Debug, Subcommand)]
pub enum BenchCommand {
    /// Write one prebuilt record batch over and over.
    #[command(after_help = PRODUCE_EXAMPLES)]
    Produce(BenchProduceArgs),
    /// Read partitions from their start; record bytes are dropped in the kernel.
    #[command(after_help = FETCH_EXAMPLES)]
    Fetch(BenchFetchArgs),
}

/// What both loads share.
#[derive(Clone, Debug, Args)]
pub struct BenchLoadArgs {
    /// The topic
    #[arg(long, default_value = "bench")]
    pub topic: String,
    /// Use the first N partitions of the topic; all of them where absent
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub partitions: Option<u32>,
    /// How many connections, spread over the partitions' leaders (at least one to each leader)
    #[arg(long, value_name = "C", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub connections: u32,
    /// How long to measure, in seconds
    #[arg(long, value_name = "S", default_value_t = 10.0, value_parser = parse_seconds)]
    pub seconds: f64,
    /// How long to load before measuring, in seconds
    #[arg(long, value_name = "S", default_value_t = 1.0, value_parser = parse_seconds)]
    pub warmup_seconds: f64,
    /// Stop after so many record bytes
    #[arg(long, value_name = "SIZE", value_parser = byte_size::parse)]
    pub bytes_max: Option<u64>,
    /// Processes of the server whose CPU time and memory are added up in the report
    #[arg(long, value_name = "PID[,PID]", value_delimiter = ',')]
    pub server_pid: Vec<u32>,
    /// What the row is called in the report
    #[arg(long)]
    pub name: Option<String>,
    /// Which server, and how to print.
    #[command(flatten)]
    pub connect: ConnectArgs,
}

/// Flags of `alluvium bench produce`.
#[derive(Clone, Debug, Args)]
pub struct BenchProduceArgs {
    /// What both loads share.
    #[command(flatten)]
    pub load: BenchLoadArgs,
    /// Make the topic first with N partitions, where it does not exist
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    pub create_partitions: Option<i32>,
    /// Size of a record batch before compression
    #[arg(long, value_name = "SIZE", default_value = "16K", value_parser = byte_size::parse_int32)]
    pub batch_bytes: u32,
    /// Size of each record's value
    #[arg(long, value_name = "SIZE", default_value = "1K", value_parser = byte_size::parse_int32)]
    pub record_bytes: u32,
    /// How many partitions of a leader each request writes to, a batch for each
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub partitions_per_request: u32,
    /// Requests under way on each connection
    #[arg(long, value_name = "I", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub in_flight: u32,
    /// What the server waits for before it answers
    #[arg(long, value_enum, default_value_t = Acks::Leader)]
    pub acks: Acks,
    /// Requests a second, all connections together, sent on time whether or not answers come (latency counts from the time
    /// intended); as fast as possible where absent
    #[arg(long, value_name = "PER_S", value_parser = parse_rate)]
    pub rate: Option<f64>,
    /// How batches are compressed
    #[arg(long, value_enum, default_value_t = BenchCompression::None)]
    pub compression: BenchCompression,
    /// Write the last acknowledged offset of each partition to this file at the end, also when the server dies
    #[arg(long, value_name = "FILE")]
    pub acked_file: Option<PathBuf>,
}

/// What the server waits for before it answers a produce.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Acks {
    /// No answer at all
    #[value(name = "0")]
    None,
    /// The leader
    #[value(name = "1")]
    Leader,
    /// All replicas in sync
    #[value(name = "all", alias = "-1")]
    All,
}

impl Acks {
    /// As requests carry it.
    pub const fn code(self) -> i16 {
        match self {
            Self::None => 0,
            Self::Leader => 1,
            Self::All => -1,
        }
    }
}

/// How the load's batches are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BenchCompression {
    /// Not at all
    None,
    /// gzip
    Gzip,
    /// Snappy
    Snappy,
    /// LZ4 frames
    Lz4,
    /// Zstandard
    Zstd,
}

impl BenchCompression {
    /// The codec of a record batch.
    pub const fn codec(self) -> Compression {
        match self {
            Self::None => Compression::None,
            Self::Gzip => Compression::Gzip,
            Self::Snappy => Compression::Snappy,
            Self::Lz4 => Compression::Lz4,
            Self::Zstd => Compression::Zstd,
        }
    }
}

/// Flags of `alluvium bench fetch`.
#[derive(Clone, Debug, Args)]
pub struct BenchFetchArgs {
    /// What both loads share.
    #[command(flatten)]
    pub load: BenchLoadArgs,
    /// The most bytes of records in an answer
    #[arg(long, value_name = "SIZE", default_value = "1M", value_parser = byte_size::parse_int32)]
    pub max_bytes: u32,
    /// The server waits for so many bytes
    #[arg(long, value_name = "SIZE", default_value = "1", value_parser = byte_size::parse_int32)]
    pub min_bytes: u32,
    /// ... but not longer than this
    #[arg(long, value_name = "MS", default_value_t = 500, value_parser = clap::value_parser!(u32).range(0..=600_000))]
    pub max_wait_ms: u32,
    /// Start again at the end of a partition, until the time is over
    #[arg(long = "loop")]
    pub again: bool,
    /// Read the records and check each batch's CRC and the order of offsets
    #[arg(long)]
    pub verify: bool,
    /// Fail unless everything is read that this file of `bench produce --acked-file` names
    #[arg(long, value_name = "FILE")]
    pub expect_file: Option<PathBuf>,
}

fn parse_setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.trim().to_owned())),
        _ => Err("write KEY=VALUE, for example retention.ms=86400000".to_owned()),
    }
}

fn parse_advertise(text: &str) -> Result<Advertise, String> {
    let address: Address = text.parse().map_err(|error| format!("{error} (the port may be left out)"))?;
    // An address is printed with its port; where the text has none, the port is the listener's.
    let has_port = text.trim().ends_with(&format!(":{}", address.port)) && text.trim() != address.host;
    if address.host == "0.0.0.0" || address.host == "::" {
        return Err("clients cannot connect to it; write a name or address of this machine".to_owned());
    }
    Ok(Advertise { host: address.host, port: has_port.then_some(address.port) })
}

fn parse_log_filter(text: &str) -> Result<String, String> {
    match EnvFilter::try_new(text) {
        Ok(_) if !text.trim().is_empty() => Ok(text.to_owned()),
        _ => Err("write error, warn, info, debug or trace, or a filter such as info,alluvium::log=debug".to_owned()),
    }
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=86_400.0).contains(&seconds) => Ok(seconds),
        _ => Err("write seconds from 0 to 86400, for example 10 or 0.5".to_owned()),
    }
}

fn parse_rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate > 0.0 && rate <= 1e7 => Ok(rate),
        _ => Err("write requests a second, for example 200".to_owned()),
    }
}

const ABOUT: &str = "A log storage server for bare-metal Linux that speaks Kafka's wire protocol.";

const EXAMPLES: &str = "\
Examples:
  alluvium serve --data-dir /var/lib/alluvium
  alluvium topic create orders --partitions 8
  seq 1000 | alluvium produce orders
  alluvium consume orders --exit-at-end
  alluvium dump data/orders-0
  alluvium bench produce --topic orders --seconds 10";

const SERVE_EXAMPLES: &str = "\
Examples:
  alluvium serve                                   listens on 127.0.0.1:9092 (and up), keeps data in ./data
  alluvium serve --cores 2 --data-dir /mnt/a --data-dir /mnt/b
  alluvium serve --listen 0.0.0.0:9092 --advertise logs-1.example
  alluvium serve --durability os --set log.retention.hours=24 --set num.partitions=8

Each core is a broker with a port of its own, so a firewall lets through as many ports as there are cores.";

const TOPIC_EXAMPLES: &str = "\
Examples:
  alluvium topic create orders --partitions 8 --config retention.ms=86400000
  alluvium topic create orders --if-not-exists --bootstrap 127.0.0.1:9092";

const PRODUCE_EXAMPLES: &str = "\
Examples:
  alluvium bench produce --create-partitions 4 --batch-bytes 1000000 --server-pid $(pidof alluvium)
  alluvium bench produce --batch-bytes 64K --rate 200        open loop: honest latency at a fixed rate
  alluvium bench produce --batch-bytes 1K --record-bytes 900 --connections 16 --output json";

const FETCH_EXAMPLES: &str = "\
Examples:
  alluvium bench fetch --max-bytes 64K --loop --server-pid $(pidof alluvium)
  alluvium bench fetch --verify                             reads all once and checks it";

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Command, String> {
        let words = std::iter::once("alluvium").chain(line.split_whitespace());
        CommandLine::try_parse_from(words).map(|parsed| parsed.command).map_err(|error| error.to_string())
    }

    #[test]
    fn clap_finds_no_contradiction() {
        use clap::CommandFactory;
        CommandLine::command().debug_assert();
    }

    #[test]
    fn serve_takes_its_flags() {
        let line = "serve --listen [::1]:19092 --advertise a.example --cores 0,2 --node-id 7 --data-dir /a --data-dir /b \
            --durability os --memory 2G --set a.b=c=d --set x= --clamp-replication --log debug --spin-us 20";
        let Command::Serve(args) = parse(line).expect(line) else { panic!("not serve") };
        assert_eq!(args.listen, Some(Address::new("::1", 19092)));
        assert_eq!(args.advertise, Some(Advertise { host: "a.example".to_owned(), port: None }));
        assert_eq!(args.cores, Some(CoresWanted::List(vec![0, 2])));
        assert_eq!(args.data_dirs, [PathBuf::from("/a"), PathBuf::from("/b")]);
        assert_eq!(args.durability, Some(Durability::Os));
        assert_eq!(args.memory, Some(2 << 30));
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(args.settings, [pair("a.b", "c=d"), pair("x", "")]);
        assert_eq!((args.node_id, args.spin_us), (Some(7), Some(20)));
        assert!(args.clamp_replication);
    }

    #[test]
    fn advertised_ports_may_be_left_out() {
        let cases = [
            ("a.example", "a.example", None),
            ("a.example:9092", "a.example", Some(9092)),
            ("10.0.0.1:1", "10.0.0.1", Some(1)),
            ("[::1]", "::1", None),
            ("[::1]:9092", "::1", Some(9092)),
            ("fe80::9092", "fe80::9092", None),
        ];
        for (text, host, port) in cases {
            let advertise = Advertise { host: host.to_owned(), port };
            assert_eq!(parse_advertise(text), Ok(advertise), "{text}");
        }
        assert!(parse_advertise("0.0.0.0:9092").is_err());
    }

    #[test]
    fn mistakes_say_what_to_write() {
        let cases = [
            ("serve --memory lots", "512M"),
            ("serve --cores none", "lscpu"),
            ("serve --listen 127.0.0.1:http", "127.0.0.1:9092"),
            ("serve --set retention", "KEY=VALUE"),
            ("serve --durability journal", "segment, os"),
            ("serve --log a=b=c", "info"),
            ("serve --ring-mask warp", "splice"),
            ("topic create t --partitions 0", "1.."),
            ("bench produce --acks 2", "0, 1, all"),
            ("bench produce --seconds soon", "seconds"),
            ("bench fetch --max-bytes 4G", "2147483647"),
        ];
        for (line, hint) in cases {
            let error = parse(line).expect_err(line);
            assert!(error.contains(hint), "{line}: {error}");
        }
    }

    #[test]
    fn loads_take_their_flags() {
        let line = "bench produce --bootstrap a:1,b:2 --acks -1 --server-pid 1,2 --rate 200 --batch-bytes 64K";
        let line = &line.replace("--acks -1", "--acks=-1");
        let Command::Bench(BenchArgs { command: BenchCommand::Produce(args) }) = parse(line).expect(line) else {
            panic!("not produce")
        };
        assert_eq!(args.load.connect.bootstrap, [Address::new("a", 1), Address::new("b", 2)]);
        assert_eq!(args.load.server_pid, [1, 2]);
        assert_eq!((args.acks, args.batch_bytes, args.rate), (Acks::All, 65536, Some(200.0)));
    }
}
