//! Flags of `alluvium tier`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::args::OutputFormat;
use super::hdfs_args::HdfsArgs;
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

const TIER_EXAMPLES: &str = "\
Nothing here needs a running server, and nothing is changed (but for the file that `check` makes and deletes). Beside a running
server, a segment that is being copied or deleted at that moment may be told as unknown or missing: ask again.

Examples:
  alluvium tier ls --data-dir /ssd/alluvium orders
  alluvium tier verify --data-dir /ssd/alluvium --tier file:///mnt/hdd/alluvium
  alluvium tier check --tier hdfs://namenode:8020/alluvium";
