//! Run what the command line asks for, and give the process its exit code.

use std::process::ExitCode;

use super::args::{BenchCommand, Command, CommandLine};
use super::{bench_fetch, bench_produce, serve, topics};

/// Runs the command: 0 where it did what was asked, 1 where it could not (2 is clap's, for a wrong command line).
pub fn run(line: CommandLine) -> ExitCode {
    let (name, done) = match line.command {
        Command::Serve(args) => return serve::run(&args),
        Command::Topic(args) => ("topic", topics::run(&args.command)),
        Command::Bench(args) => match args.command {
            BenchCommand::Produce(args) => ("bench produce", bench_produce::run(&args)),
            BenchCommand::Fetch(args) => ("bench fetch", bench_fetch::run(&args)),
        },
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("alluvium {name}: {error}");
            ExitCode::FAILURE
        }
    }
}
