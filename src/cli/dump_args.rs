//! Flags of `alluvium dump`.

use std::path::PathBuf;

use clap::Args;

use super::args::OutputFormat;

/// Flags of `alluvium dump`.
#[derive(Clone, Debug, Args)]
#[command(after_help = DUMP_EXAMPLES)]
pub struct DumpArgs {
    /// Files of a data directory or of a tier, known by their names, or folders of them
    #[arg(required = true, value_name = "FILE|DIR")]
    pub files: Vec<PathBuf>,
    /// table: a line for each entry; json: the same as an object on each line
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub output: OutputFormat,
    /// Decompress and check every record, not only the CRC of each batch
    #[arg(long)]
    pub deep: bool,
    /// Print every record with key, value and headers; implies --deep
    #[arg(long)]
    pub print_records: bool,
    /// Of segments and indexes, only from this offset on; what lies before is not checked
    #[arg(long, value_name = "OFFSET", value_parser = clap::value_parser!(i64).range(0..))]
    pub offset: Option<i64>,
    /// Of each file, so many entries or batches; what follows is not checked
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
}

const DUMP_EXAMPLES: &str = "\
Known are segments (.log), their indexes (.index, .timeindex, .txnindex), producer snapshots (.snapshot), the checkpoints of
Kafka and of alluvium, partition.metadata, meta.properties and alluvium.catalog. An index is checked against the segment
beside it. A segment of the tier ({topic}-{partition}-{topic id}/{segment id}, on a file:// tier) is shown section by section. The last line of each file says whether it is whole; the exit code is 1 where one is not.

Files of a running server may be read: the newest batch of a segment can then be cut short.

Examples:
  alluvium dump data/orders-0/00000000000000000000.log
  alluvium dump --deep data/orders-0                        every file of a partition
  alluvium dump --output json data | jq -c 'select(.kind == \"problem\")'
  alluvium dump --print-records --offset 5000 --limit 1 data/orders-0/00000000000000000000.log";
