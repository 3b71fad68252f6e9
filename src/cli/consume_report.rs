//! What `alluvium consume` says at its end.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;

use super::args::OutputFormat;
use super::consume_args::ConsumeArgs;
use super::output;
use super::partition_reader::PartitionReader;

/// Prints the counts: to standard error, or, where they are the result (`--verify`), to standard output.
pub fn print(args: &ConsumeArgs, readers: &BTreeMap<i32, PartitionReader>, took: Duration) {
    let text = match args.connect.output {
        OutputFormat::Json => as_json(args, readers, took),
        OutputFormat::Table => as_text(args, readers, took),
    };
    if args.verify {
        output::print_lines(text.lines());
    } else {
        text.lines().for_each(|line| eprintln!("{line}"));
    }
}

fn as_json(args: &ConsumeArgs, readers: &BTreeMap<i32, PartitionReader>, took: Duration) -> String {
    let rows: Vec<_> = readers
        .iter()
        .map(|(partition, reader)| {
            let counts = &reader.counts;
            json!({
                "partition": partition,
                "records": counts.records,
                "batches": counts.batches,
                "batch_bytes": counts.bytes,
                "aborted": counts.aborted,
                "first_offset": counts.first_offset,
                "last_offset": counts.last_offset,
                "next_offset": reader.next_offset(),
                "problem_count": counts.problem_count,
                "problems": counts.problems,
            })
        })
        .collect();
    json!({
        "topic": args.topic,
        "records": total(readers, |reader| reader.counts.records),
        "batch_bytes": total(readers, |reader| reader.counts.bytes),
        "problems": total(readers, |reader| reader.counts.problem_count),
        "seconds": took.as_secs_f64(),
        "partitions": rows,
    })
    .to_string()
}

fn as_text(args: &ConsumeArgs, readers: &BTreeMap<i32, PartitionReader>, took: Duration) -> String {
    let mut text = format!(
        "Read {} records, {} bytes of batches, from {} partitions of {} in {:.3} s.\n",
        total(readers, |reader| reader.counts.records),
        total(readers, |reader| reader.counts.bytes),
        readers.len(),
        args.topic,
        took.as_secs_f64()
    );
    if !args.verify {
        return text;
    }
    let offset = |offset: Option<i64>| offset.map_or_else(|| "-".to_owned(), |offset| offset.to_string());
    let rows = readers.iter().map(|(partition, reader)| {
        let counts = &reader.counts;
        vec![
            partition.to_string(),
            counts.records.to_string(),
            counts.batches.to_string(),
            offset(counts.first_offset),
            offset(counts.last_offset),
            counts.problem_count.to_string(),
        ]
    });
    let header = ["partition", "records", "batches", "first offset", "last offset", "problems"];
    for line in output::table(&header, &[0, 1, 2, 3, 4, 5], rows).lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    for (partition, reader) in readers {
        let counts = &reader.counts;
        for problem in &counts.problems {
            text.push_str(&format!("partition {partition}: {problem}\n"));
        }
        let more = counts.problem_count - counts.problems.len() as u64;
        if more > 0 {
            text.push_str(&format!("partition {partition}: and {more} more\n"));
        }
    }
    text
}

fn total(readers: &BTreeMap<i32, PartitionReader>, of: impl Fn(&PartitionReader) -> u64) -> u64 {
    readers.values().map(of).sum()
}
