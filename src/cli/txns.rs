//! `alluvium txn`: list, describe and abort, printed.

use jiff::Timestamp;
use serde_json::json;

use super::args::OutputFormat;
use super::client_error::ClientError;
use super::output;
use super::topics::connect;
use super::txn_admin::{self, Producer};
use super::txn_args::{TxnAbortArgs, TxnCommand, TxnDescribeArgs, TxnListArgs};
use crate::wire::api_keys::ApiKey;
use crate::wire::error_code::ErrorCode;

/// Runs one command about transactions.
pub fn run(command: &TxnCommand) -> Result<(), ClientError> {
    match command {
        TxnCommand::List(args) => list(args),
        TxnCommand::Describe(args) => match (&args.transactional_id, &args.topic) {
            (Some(transactional_id), _) => describe(args, transactional_id),
            (None, Some(topic)) => describe_topic(args, topic),
            // The command line asks for one of both.
            (None, None) => Ok(()),
        },
        TxnCommand::Abort(args) => abort(args),
    }
}

fn list(args: &TxnListArgs) -> Result<(), ClientError> {
    let (mut cluster, _) = connect(&args.connect)?;
    let transactions = txn_admin::list(&mut cluster, &args.states, &args.producer_ids)?;
    match args.connect.output {
        OutputFormat::Json => {
            let rows: Vec<_> = transactions
                .iter()
                .map(|found| {
                    json!({
                        "transactional_id": found.transactional_id,
                        "producer_id": found.producer_id,
                        "state": found.state,
                        "coordinator": found.coordinator,
                    })
                })
                .collect();
            output::print_json(&json!(rows));
        }
        OutputFormat::Table => {
            let rows = transactions.into_iter().map(|found| {
                let (producer, coordinator) = (found.producer_id.to_string(), found.coordinator.to_string());
                vec![found.transactional_id, producer, found.state, coordinator]
            });
            let header = ["TRANSACTIONAL ID", "PRODUCER", "STATE", "COORDINATOR"];
            output::print_table(&output::table(&header, &[1, 3], rows));
        }
    }
    Ok(())
}

fn describe(args: &TxnDescribeArgs, transactional_id: &str) -> Result<(), ClientError> {
    let (mut cluster, limit) = connect(&args.connect)?;
    let found = txn_admin::describe(&mut cluster, transactional_id, limit)?;
    let partitions: Vec<_> = found.partitions.iter().map(|(topic, partition)| format!("{topic}-{partition}")).collect();
    match args.connect.output {
        OutputFormat::Json => output::print_json(&json!({
            "transactional_id": transactional_id,
            "coordinator": found.coordinator,
            "producer_id": found.producer_id,
            "producer_epoch": found.producer_epoch,
            "state": found.state,
            "timeout_ms": found.timeout_ms,
            "started_at_ms": found.started_at_ms,
            "partitions": partitions,
        })),
        OutputFormat::Table => {
            let began = found.started_at_ms.map_or_else(|| "-".to_owned(), time);
            let lines = [
                format!(
                    "Transactional id {transactional_id} is {}, coordinated by broker {}.",
                    found.state, found.coordinator
                ),
                format!(
                    "Producer {}, epoch {}; time-out {} ms.",
                    found.producer_id, found.producer_epoch, found.timeout_ms
                ),
                format!(
                    "Began: {began}. Partitions: {}.",
                    if partitions.is_empty() { "-".to_owned() } else { partitions.join(", ") }
                ),
            ];
            output::print_lines(lines.iter().map(String::as_str));
        }
    }
    Ok(())
}

fn describe_topic(args: &TxnDescribeArgs, name: &str) -> Result<(), ClientError> {
    let (mut cluster, _) = connect(&args.connect)?;
    let topic = cluster.topic(name)?;
    let producers = txn_admin::producers(&mut cluster, &topic)?;
    match args.connect.output {
        OutputFormat::Json => {
            let rows: Vec<_> = producers
                .iter()
                .map(|producer| {
                    json!({
                        "partition": producer.partition,
                        "producer_id": producer.producer_id,
                        "producer_epoch": producer.producer_epoch,
                        "last_sequence": producer.last_sequence,
                        "last_timestamp_ms": producer.last_timestamp_ms,
                        "coordinator_epoch": producer.coordinator_epoch,
                        "transaction_start_offset": producer.transaction_start,
                    })
                })
                .collect();
            output::print_json(&json!(rows));
        }
        OutputFormat::Table => {
            let rows = producers.iter().map(|producer| {
                vec![
                    producer.partition.to_string(),
                    producer.producer_id.to_string(),
                    producer.producer_epoch.to_string(),
                    producer.last_sequence.to_string(),
                    time(producer.last_timestamp_ms),
                    producer.transaction_start.map_or_else(|| "-".to_owned(), |start| start.to_string()),
                ]
            });
            let header = ["PARTITION", "PRODUCER", "EPOCH", "LAST SEQUENCE", "LAST WRITE", "OPEN SINCE OFFSET"];
            output::print_table(&output::table(&header, &[0, 1, 2, 3, 5], rows));
        }
    }
    Ok(())
}

fn abort(args: &TxnAbortArgs) -> Result<(), ClientError> {
    let (mut cluster, _) = connect(&args.connect)?;
    let topic = cluster.topic(&args.topic)?;
    let producers = txn_admin::producers(&mut cluster, &topic)?;
    let is_meant = |producer: &&Producer| {
        producer.partition == args.partition && producer.transaction_start == Some(args.start_offset)
    };
    let producer = producers.iter().find(is_meant).ok_or_else(|| ClientError::Refusal {
        api: ApiKey::WriteTxnMarkers.name(),
        code: ErrorCode::InvalidTxnState.code(),
        message: Some(format!(
            "no transaction is open in {}-{} from offset {}; `alluvium txn describe --topic {}` shows those that are",
            args.topic, args.partition, args.start_offset, args.topic
        )),
    })?;
    txn_admin::abort(&mut cluster, &topic, producer)?;
    match args.connect.output {
        OutputFormat::Json => output::print_json(&json!({
            "topic": args.topic,
            "partition": args.partition,
            "producer_id": producer.producer_id,
            "producer_epoch": producer.producer_epoch,
            "aborted": true,
        })),
        OutputFormat::Table => {
            let line = format!(
                "Aborted the transaction of producer {} in {}-{}.",
                producer.producer_id, args.topic, args.partition
            );
            output::print_lines([line.as_str()]);
        }
    }
    Ok(())
}

fn time(ms: i64) -> String {
    Timestamp::from_millisecond(ms).map_or_else(|_| ms.to_string(), |time| time.to_string())
}
