//! Flags of `alluvium group`.

use clap::{Args, Subcommand};

use super::args::ConnectArgs;
use super::offset_place::OffsetPlace;

/// Flags of `alluvium group`.
#[derive(Clone, Debug, Args)]
pub struct GroupArgs {
    /// What to do with groups.
    #[command(subcommand)]
    pub command: GroupCommand,
}

/// The commands about consumer groups.
#[derive(Clone, Debug, Subcommand)]
pub enum GroupCommand {
    /// Print the groups of all brokers.
    List(GroupListArgs),
    /// Print a group's state, members, offsets and lag.
    Describe(GroupDescribeArgs),
    /// Show where a group's offsets would be moved to; move them with --execute.
    #[command(after_help = RESET_EXAMPLES)]
    ResetOffsets(GroupResetArgs),
    /// Delete groups that have no members, with their offsets.
    Delete(GroupDeleteArgs),
}

/// Flags of `alluvium group list`.
#[derive(Clone, Debug, Args)]
pub struct GroupListArgs {
    /// Only groups in this state (Stable, Empty, ...); may be given several times
    #[arg(long = "state", value_name = "STATE")]
    pub states: Vec<String>,
    /// Which server, and how to print.
    #[command(flatten)]
    pub connect: ConnectArgs,
}

/// Flags of `alluvium group describe`.
#[derive(Clone, Debug, Args)]
pub struct GroupDescribeArgs {
    /// The group
    pub group: String,
    /// Which server, and how to print.
    #[command(flatten)]
    pub connect: ConnectArgs,
}

/// Flags of `alluvium group reset-offsets`.
#[derive(Clone, Debug, Args)]
pub struct GroupResetArgs {
    /// The group; it may have no members
    pub group: String,
    /// A topic, or some of its partitions: orders, orders:0,1; may be given several times [default: all with an offset]
    #[arg(long = "topic", value_name = "TOPIC[:PARTITION,...]")]
    pub topics: Vec<String>,
    /// Where to: earliest, latest, an offset, -N (N before the end), or time:TIME
    #[arg(
        long,
        value_name = "PLACE",
        allow_hyphen_values = true,
        required_unless_present = "shift",
        conflicts_with = "shift"
    )]
    pub to: Option<OffsetPlace>,
    /// By how many records forwards, or (negative) backwards
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub shift: Option<i64>,
    /// Do it; without this it is only shown
    #[arg(long)]
    pub execute: bool,
    /// Which server, and how to print.
    #[command(flatten)]
    pub connect: ConnectArgs,
}

/// Flags of `alluvium group delete`.
#[derive(Clone, Debug, Args)]
pub struct GroupDeleteArgs {
    /// The groups
    #[arg(required = true)]
    pub groups: Vec<String>,
    /// Which server, and how to print.
    #[command(flatten)]
    pub connect: ConnectArgs,
}

const RESET_EXAMPLES: &str = "\
Examples:
  alluvium group reset-offsets billing --topic orders --to earliest
  alluvium group reset-offsets billing --topic orders:0,1 --to time:2026-01-31T12:00:00Z --execute
  alluvium group reset-offsets billing --shift -100 --execute";
