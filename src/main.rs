//! Parse the command line, run the command, exit with its code.

use std::process::ExitCode;

use alluvium::cli::args::CommandLine;
use alluvium::cli::command;
use clap::Parser;

fn main() -> ExitCode {
    command::run(CommandLine::parse())
}
