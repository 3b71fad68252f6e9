//! Flags of `alluvium consume`.

use clap::{Args, ValueEnum};

use super::args::ConnectArgs;
use super::byte_size;
use super::offset_place::OffsetPlace;
use super::produce_args::parse_separator;
use super::record_format::Template;

/// Flags of `alluvium consume`.
#[derive(Clone, Debug, Args)]
#[command(after_help = CONSUME_EXAMPLES)]
pub struct ConsumeArgs {
    /// The topic
    pub topic: String,
    /// Only these partitions, with commas between them; all of them where absent
    #[arg(long, value_name = "N[,N]", value_delimiter = ',', value_parser = clap::value_parser!(i32).range(0..))]
    pub partition: Vec<i32>,
    /// Where to begin in each partition: earliest, latest, an offset, -N (the last N), or time:TIME (RFC 3339 or ms)
    #[arg(long, value_name = "PLACE", default_value = "earliest", allow_hyphen_values = true)]
    pub offset: OffsetPlace,
    /// Where to stop in each partition, before that offset: latest (as it is now), an offset, or time:TIME
    #[arg(long, value_name = "PLACE", allow_hyphen_values = true)]
    pub until: Option<OffsetPlace>,
    /// Stop after so many records, all partitions together
    #[arg(long, value_name = "N")]
    pub count: Option<u64>,
    /// Wait for new records at the end; what is done unless something says where to stop
    #[arg(long, conflicts_with_all = ["exit_at_end", "until"])]
    pub follow: bool,
    /// Stop at the end as it is now: --until latest
    #[arg(long, conflicts_with = "until")]
    pub exit_at_end: bool,
    /// How records are printed
    #[arg(long, value_enum, default_value_t = RecordFormat::Lines)]
    pub format: RecordFormat,
    /// With --format lines: print the key and this before each value
    #[arg(long, value_name = "TEXT", value_parser = parse_separator)]
    pub key_separator: Option<String>,
    /// With --format lines or template: what a null is printed as
    #[arg(long, value_name = "MARKER", default_value = "")]
    pub null_value: String,
    /// With --format template: %k key, %v or %s value, %h headers, %p partition, %o offset, %t topic, %T time in ms, %K and %S
    /// lengths of key and value (-1 for null), %% a percent sign, and \n, \t, \0, \xHH
    #[arg(long, value_name = "TEXT", default_value = r"%v\n")]
    pub template: Template,
    /// Print no records, but check them: CRC, decompression, record counts, offsets without holes or going back. Stops at
    /// the end unless --follow is given; exit code 1 where anything is wrong
    #[arg(long)]
    pub verify: bool,
    /// Whether records of transactions that are open or were aborted are read
    #[arg(long, value_enum, default_value_t = Isolation::ReadUncommitted)]
    pub isolation: Isolation,
    /// The most bytes of records in an answer of each broker
    #[arg(long, value_name = "SIZE", default_value = "4M", value_parser = byte_size::parse_int32)]
    pub max_bytes: u32,
    /// Which server, and how to print the counts at the end.
    #[command(flatten)]
    pub connect: ConnectArgs,
}

/// How records are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RecordFormat {
    /// The value and a line's end
    Lines,
    /// A JSON object on each line; other bytes than text as {"base64": "..."}
    Json,
    /// As --template says
    Template,
}

/// Which records are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Isolation {
    /// All of them
    ReadUncommitted,
    /// Those of no transaction, or of a committed one
    ReadCommitted,
}

impl Isolation {
    /// As requests carry it.
    pub const fn level(self) -> i8 {
        match self {
            Self::ReadUncommitted => 0,
            Self::ReadCommitted => 1,
        }
    }
}

const CONSUME_EXAMPLES: &str = "\
At the end, also after Ctrl-C, standard error has the counts of what was read.

Examples:
  alluvium consume numbers --exit-at-end
  alluvium consume pairs --offset -10 --key-separator ' => '
  alluvium consume events --offset time:2026-01-31T12:00:00Z --until time:2026-01-31T13:00:00Z --format json
  alluvium consume events --format template --template '%p %o %T %k %v\\n' --count 100
  alluvium consume events --verify                      reads it all and checks it";
