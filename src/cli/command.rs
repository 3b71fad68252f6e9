//! Run what the command line asks for, and give the process its exit code.

use std::process::ExitCode;

use super::args::{BenchCommand, Command, CommandLine};
use super::{bench_fetch, bench_produce, consume, dump, groups, produce, serve, tier, topics, txns};

/// Runs the command: 0 where it did what was asked, 1 where it could not (2 is clap's, for a wrong command line).
pub fn run(line: CommandLine) -> ExitCode {
    let (name, done) = match line.command {
        Command::Serve(args) => return serve::run(&args),
        Command::Topic(args) => ("topic", said(topics::run(&args.command))),
        Command::Group(args) => ("group", said(groups::run(&args.command))),
        Command::Txn(args) => ("txn", said(txns::run(&args.command))),
        Command::Produce(args) => ("produce", said(produce::run(&args))),
        Command::Consume(args) => ("consume", said(consume::run(&args))),
        Command::Dump(args) => ("dump", said(dump::run(&args))),
        Command::Tier(args) => ("tier", said(tier::run(&args.command))),
        Command::Bench(args) => match args.command {
            BenchCommand::Produce(args) => ("bench produce", said(bench_produce::run(&args))),
            BenchCommand::Fetch(args) => ("bench fetch", said(bench_fetch::run(&args))),
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

fn said<E: std::fmt::Display>(done: Result<(), E>) -> Result<(), String> {
    done.map_err(|error| error.to_string())
}
