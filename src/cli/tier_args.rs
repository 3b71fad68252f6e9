//! Flags of `alluvium tier`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::args::OutputFormat;
use super::consume_args::RecordFormat;
use super::hdfs_args::HdfsArgs;
use super::produce_args::parse_separator;
use super::record_format::Template;
use crate::tier::tier_url::TierUrl;

/// Flags of `alluvium tier`.
#[derive(Clone, Debug, Args)]
#[command(after_help = TIER_EXAMPLES)]
pub struct TierArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: TierCommand,
}

/// The commands.
#[derive(Clone, Debug, Subcommand)]
pub enum TierCommand {
    /// List the segments that are in the tier, as the data directories know them
    Ls(TierListArgs),
    /// Read back every segment of the tier and check it; the exit code is 1 where one is not whole, missing or unknown
    Verify(TierVerifyArgs),
    /// Print the records of one file of the tier
    Cat(TierCatArgs),
    /// Compare what is in the tier with what is known of it; the exit code is 1 where something is unknown or missing
    Scrub(TierScrubArgs),
    /// Fill an empty data directory from the tier alone: topics, settings, offsets, producers, committed offsets of groups
    Restore(TierRestoreArgs),
    /// Write, rename, read and delete a file in the tier, and say how long each took
    Check(TierCheckArgs),
}

/// Which partitions.
#[derive(Clone, Debug, Args)]
pub struct TierListArgs {
    /// Only this topic
    pub topic: Option<String>,
    /// A data directory; may be given several times [default: ./data]
    #[arg(long = "data-dir", value_name = "DIR")]
    pub data_dirs: Vec<PathBuf>,
    /// table: a line for each segment; json: the same as an object on each line
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub output: OutputFormat,
}

/// Which partitions, and where the tier is.
#[derive(Clone, Debug, Args)]
pub struct TierVerifyArgs {
    /// Which partitions.
    #[command(flatten)]
    pub which: TierListArgs,
    /// The tier
    #[arg(long, value_name = "URL")]
    pub tier: TierUrl,
    /// How HDFS is reached
    #[command(flatten)]
    pub hdfs: HdfsArgs,
}

/// Which file, and how its records are printed.
#[derive(Clone, Debug, Args)]
pub struct TierCatArgs {
    /// The file: a path, or a URL as --tier has it, with the partition's folder and the segment
    pub file: String,
    /// Only from this offset on
    #[arg(long, value_name = "OFFSET", value_parser = clap::value_parser!(i64).range(0..))]
    pub offset: Option<i64>,
    /// Stop after so many records
    #[arg(long, value_name = "N")]
    pub count: Option<u64>,
    /// How records are printed
    #[arg(long, value_enum, default_value_t = RecordFormat::Lines)]
    pub format: RecordFormat,
    /// With --format lines: print the key and this before each value
    #[arg(long, value_name = "TEXT", value_parser = parse_separator)]
    pub key_separator: Option<String>,
    /// With --format lines or template: what a null is printed as
    #[arg(long, value_name = "MARKER", default_value = "")]
    pub null_value: String,
    /// With --format template: as `alluvium consume` has it
    #[arg(long, value_name = "TEXT", default_value = r"%v\n")]
    pub template: Template,
    /// How HDFS is reached
    #[command(flatten)]
    pub hdfs: HdfsArgs,
}

/// What is compared, and what may be deleted.
#[derive(Clone, Debug, Args)]
#[command(after_help = SCRUB_NOTES)]
pub struct TierScrubArgs {
    /// Which partitions.
    #[command(flatten)]
    pub which: TierListArgs,
    /// The tier
    #[arg(long, value_name = "URL")]
    pub tier: TierUrl,
    /// Delete files that nobody knows, where they are old enough
    #[arg(long)]
    pub delete_orphans: bool,
    /// How old they have to be, in hours
    #[arg(long, value_name = "HOURS", default_value_t = 24)]
    pub older_than: u32,
    /// Take partitions that no data directory has for unknown files too: name every --data-dir of the server
    #[arg(long)]
    pub unknown_partitions: bool,
    /// How HDFS is reached
    #[command(flatten)]
    pub hdfs: HdfsArgs,
}

/// What is restored, from where, and into which directories.
#[derive(Clone, Debug, Args)]
#[command(after_help = RESTORE_NOTES)]
pub struct TierRestoreArgs {
    /// The tier
    #[arg(long, value_name = "URL")]
    pub from: TierUrl,
    /// Only this topic; may be given several times [default: all]
    #[arg(long = "topic", value_name = "TOPIC")]
    pub topics: Vec<String>,
    /// An empty data directory; may be given several times [default: ./data]
    #[arg(long = "data-dir", value_name = "DIR")]
    pub data_dirs: Vec<PathBuf>,
    /// The machine's number, as the server will be started with [default: 1]
    #[arg(long, value_name = "NODE_ID", value_parser = clap::value_parser!(u32).range(0..=2_000_000))]
    pub node_id: Option<u32>,
    /// Of a stopped server whose directories are there: write anew what its partitions know of the tier, where that is lost
    #[arg(long)]
    pub metadata_only: bool,
    /// Look at the segments' files alone, although there are manifests: settings and committed offsets are not in them
    #[arg(long)]
    pub slow: bool,
    /// How HDFS is reached
    #[command(flatten)]
    pub hdfs: HdfsArgs,
}

/// Where the tier is.
#[derive(Clone, Debug, Args)]
pub struct TierCheckArgs {
    /// The tier
    #[arg(long, value_name = "URL")]
    pub tier: TierUrl,
    /// How HDFS is reached
    #[command(flatten)]
    pub hdfs: HdfsArgs,
}

const SCRUB_NOTES: &str = "\
Files that a copy under way has begun are known, and what is younger than --older-than is never deleted. Of a partition that no
data directory has, nothing is deleted unless --unknown-partitions says so: it may be another server's, or not restored yet.

Examples:
  alluvium tier scrub --data-dir /ssd/alluvium --tier file:///mnt/hdd/alluvium
  alluvium tier scrub --data-dir /ssd/alluvium --tier file:///mnt/hdd/alluvium --delete-orphans";

const RESTORE_NOTES: &str = "\
Records stay in the tier: only what a server must know of them is written, so that a restore takes seconds. What had not been
copied is lost; the command says what that is. The restored server is the same cluster: the old one must not run again. With
--topic the settings and committed offsets of the other topics are lost once the restored server writes its own manifests.

Example:
  alluvium tier restore --from hdfs://namenode:8020/alluvium --data-dir /ssd/alluvium
  alluvium serve --data-dir /ssd/alluvium --tier hdfs://namenode:8020/alluvium
  alluvium tier restore --metadata-only --from file:///mnt/hdd/alluvium --data-dir /ssd/alluvium";

const TIER_EXAMPLES: &str = "\
Nothing here needs a running server. `ls`, `verify` and `check` change nothing (but for the file that `check` makes and deletes). Beside a running
server, a segment that is being copied or deleted at that moment may be told as unknown or missing: ask again.

Examples:
  alluvium tier ls --data-dir /ssd/alluvium orders
  alluvium tier verify --data-dir /ssd/alluvium --tier file:///mnt/hdd/alluvium
  alluvium tier check --tier hdfs://namenode:8020/alluvium";
