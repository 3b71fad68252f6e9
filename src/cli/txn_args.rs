//! Flags of `alluvium txn`.

use clap::{Args, Subcommand};

use super::args::ConnectArgs;

/// Flags of `alluvium txn`.
#[derive(Clone, Debug, Args)]
pub struct TxnArgs {
    /// What to do with transactions.
    #[command(subcommand)]
    pub command: TxnCommand,
}

/// The commands about transactions.
#[derive(Clone, Debug, Subcommand)]
pub enum TxnCommand {
    /// Print the transactional ids of all brokers.
    List(TxnListArgs),
    /// Print one transactional id's transaction, or the producers of a topic's partitions.
    #[command(after_help = DESCRIBE_EXAMPLES)]
    Describe(TxnDescribeArgs),
    /// Abort a transaction that is open in a partition and that no coordinator ends: consumers wait behind it.
    #[command(after_help = ABORT_EXAMPLES)]
    Abort(TxnAbortArgs),
}

/// Flags of `alluvium txn list`.
#[derive(Clone, Debug, Args)]
pub struct TxnListArgs {
    /// Only those in this state (Ongoing, CompleteCommit, ...); may be given several times
    #[arg(long = "state", value_name = "STATE")]
    pub states: Vec<String>,
    /// Only those of this producer id; may be given several times
    #[arg(long = "producer-id", value_name = "ID")]
    pub producer_ids: Vec<i64>,
    /// Which server, and how to print.
    #[command(flatten)]
    pub connect: ConnectArgs,
}

/// Flags of `alluvium txn describe`.
#[derive(Clone, Debug, Args)]
pub struct TxnDescribeArgs {
    /// The transactional id
    #[arg(required_unless_present = "topic", conflicts_with = "topic")]
    pub transactional_id: Option<String>,
    /// Print the producers of this topic's partitions instead, and which of them have a transaction open
    #[arg(long, value_name = "TOPIC")]
    pub topic: Option<String>,
    /// Which server, and how to print.
    #[command(flatten)]
    pub connect: ConnectArgs,
}

/// Flags of `alluvium txn abort`.
#[derive(Clone, Debug, Args)]
pub struct TxnAbortArgs {
    /// The topic
    #[arg(long)]
    pub topic: String,
    /// The partition
    #[arg(long, value_name = "N")]
    pub partition: i32,
    /// Where the transaction begins in it, as `txn describe --topic` shows
    #[arg(long, value_name = "OFFSET")]
    pub start_offset: i64,
    /// Which server, and how to print.
    #[command(flatten)]
    pub connect: ConnectArgs,
}

const DESCRIBE_EXAMPLES: &str = "\
Examples:
  alluvium txn describe billing-1
  alluvium txn describe --topic orders";

const ABORT_EXAMPLES: &str = "\
Example:
  alluvium txn abort --topic orders --partition 3 --start-offset 17340";
