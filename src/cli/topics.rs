//! `alluvium topic`: create, list, describe and delete, printed.

use std::time::Duration;

use serde_json::json;

use super::args::{ConnectArgs, OutputFormat, TopicCommand, TopicCreateArgs, TopicDeleteArgs, TopicDescribeArgs};
use super::client_error::{self, ClientError};
use super::cluster::{Cluster, Partition, Topic};
use super::output;
use super::topic_admin::{self, EARLIEST, LATEST, NewTopic, OffsetAnswer};
use crate::wire::error_code::ErrorCode;

/// Runs one command about topics.
pub fn run(command: &TopicCommand) -> Result<(), ClientError> {
    match command {
        TopicCommand::Create(args) => create(args),
        TopicCommand::List(args) => list(args),
        TopicCommand::Describe(args) => describe(args),
        TopicCommand::Delete(args) => delete(args),
    }
}

/// Connects as the flags say.
pub fn connect(args: &ConnectArgs) -> Result<(Cluster, Duration), ClientError> {
    let limit = Duration::from_secs(args.timeout_seconds.into());
    Ok((Cluster::connect(&args.bootstrap, limit)?, limit))
}

fn create(args: &TopicCreateArgs) -> Result<(), ClientError> {
    let (mut cluster, limit) = connect(&args.connect)?;
    let new = NewTopic {
        name: &args.name,
        partitions: args.partitions,
        replication_factor: args.replication_factor,
        configs: &args.configs,
    };
    let (topic, created) = match topic_admin::create(&mut cluster, &new, limit) {
        Ok(topic) => (topic, true),
        Err(error) if args.if_not_exists && error.is_refusal(ErrorCode::TopicAlreadyExists) => {
            (cluster.topic(&args.name)?, false)
        }
        Err(error) => return Err(error),
    };
    let partitions = topic.partitions.len();
    match args.connect.output {
        OutputFormat::Json => output::print_json(&json!({
            "topic": topic.name,
            "topic_id": topic.topic_id.to_string(),
            "partitions": partitions,
            "created": created,
        })),
        OutputFormat::Table => {
            let verb = if created { "Created" } else { "There already is" };
            let line = format!("{verb} topic {}, {partitions} partitions.", topic.name);
            output::print_lines([line.as_str()]);
        }
    }
    Ok(())
}

fn list(args: &ConnectArgs) -> Result<(), ClientError> {
    let (mut cluster, _) = connect(args)?;
    let mut topics = cluster.topics(None)?;
    topics.sort_by(|a, b| a.name.cmp(&b.name));
    match args.output {
        OutputFormat::Json => {
            let topics: Vec<_> = topics
                .iter()
                .map(|topic| {
                    json!({
                        "topic": topic.name,
                        "topic_id": topic.topic_id.to_string(),
                        "partitions": topic.partitions.len(),
                        "internal": topic.is_internal,
                    })
                })
                .collect();
            output::print_json(&json!(topics));
        }
        OutputFormat::Table => {
            let rows = topics.iter().map(|topic| {
                let name = topic.name.clone();
                let partitions = topic.partitions.len().to_string();
                vec![name, partitions, topic.topic_id.to_string()]
            });
            let header = ["TOPIC", "PARTITIONS", "ID"];
            output::print_table(&output::table(&header, &[1], rows));
        }
    }
    Ok(())
}

fn describe(args: &TopicDescribeArgs) -> Result<(), ClientError> {
    let (mut cluster, _) = connect(&args.connect)?;
    let topics = match &args.name {
        Some(name) => vec![cluster.topic(name)?],
        None => {
            let mut topics = cluster.topics(None)?;
            topics.sort_by(|a, b| a.name.cmp(&b.name));
            topics
        }
    };
    let mut described = Vec::with_capacity(topics.len());
    for topic in topics {
        described.push(Description::ask(&mut cluster, topic)?);
    }
    match args.connect.output {
        OutputFormat::Json => {
            let all: Vec<_> = described.iter().map(Description::to_json).collect();
            output::print_json(&json!(all));
        }
        OutputFormat::Table => described.iter().for_each(Description::print),
    }
    Ok(())
}

fn delete(args: &TopicDeleteArgs) -> Result<(), ClientError> {
    let (mut cluster, limit) = connect(&args.connect)?;
    let deleted = match topic_admin::delete(&mut cluster, &args.name, limit) {
        Ok(()) => true,
        Err(error) if args.if_exists && error.is_refusal(ErrorCode::UnknownTopicOrPartition) => false,
        Err(error) => return Err(error),
    };
    match args.connect.output {
        OutputFormat::Json => {
            output::print_json(&json!({"topic": args.name, "deleted": deleted}));
        }
        OutputFormat::Table => {
            let verb = if deleted { "Deleted" } else { "There is no" };
            output::print_lines([format!("{verb} topic {}.", args.name).as_str()]);
        }
    }
    Ok(())
}

/// All that `describe` shows about one topic.
struct Description {
    topic: Topic,
    configs: Vec<(String, Option<String>)>,
    rows: Vec<PartitionRow>,
}

struct PartitionRow {
    partition: Partition,
    /// Where its leader listens.
    address: String,
    earliest: Option<OffsetAnswer>,
    latest: Option<OffsetAnswer>,
}

impl Description {
    fn ask(cluster: &mut Cluster, topic: Topic) -> Result<Self, ClientError> {
        let mut earliest = topic_admin::offsets(cluster, &topic, EARLIEST)?;
        let mut latest = topic_admin::offsets(cluster, &topic, LATEST)?;
        let configs = topic_admin::overridden_configs(cluster, &topic.name)?;
        let row = |partition: &Partition| PartitionRow {
            partition: partition.clone(),
            address: cluster.broker_address(partition.leader_id).map_or_else(|| "-".to_owned(), ToString::to_string),
            earliest: earliest.remove(&partition.index),
            latest: latest.remove(&partition.index),
        };
        let rows = topic.partitions.iter().map(row).collect();
        Ok(Self { topic, configs, rows })
    }

    fn print(&self) {
        let settings: Vec<_> = self
            .configs
            .iter()
            .map(|(key, value)| format!("{key}={}", value.as_deref().unwrap_or("(secret)")))
            .collect();
        let settings = if settings.is_empty() { "none of its own".to_owned() } else { settings.join(" ") };
        let head = format!(
            "topic {}  id {}  partitions {}  settings: {settings}",
            self.topic.name,
            self.topic.topic_id,
            self.topic.partitions.len(),
        );
        output::print_lines([head.as_str()]);
        let rows = self.rows.iter().map(|row| {
            let leader_id = row.partition.leader_id;
            vec![
                row.partition.index.to_string(),
                leader_id.to_string(),
                row.address.clone(),
                core_of(leader_id).map_or_else(|| "-".to_owned(), |core| core.to_string()),
                row.partition.leader_epoch.to_string(),
                offset_text(row.earliest.as_ref()),
                offset_text(row.latest.as_ref()),
                join(&row.partition.replicas),
                join(&row.partition.in_sync),
            ]
        });
        let header = ["PARTITION", "LEADER", "ADDRESS", "CORE", "EPOCH", "EARLIEST", "LATEST", "REPLICAS", "IN-SYNC"];
        output::print_table(&output::table(&header, &[0, 1, 3, 4, 5, 6], rows));
    }

    fn to_json(&self) -> serde_json::Value {
        let partitions: Vec<_> = self
            .rows
            .iter()
            .map(|row| {
                json!({
                    "partition": row.partition.index,
                    "leader": row.partition.leader_id,
                    "address": row.address,
                    "core": core_of(row.partition.leader_id),
                    "leader_epoch": row.partition.leader_epoch,
                    "earliest_offset": offset_json(row.earliest.as_ref()),
                    "latest_offset": offset_json(row.latest.as_ref()),
                    "replicas": row.partition.replicas,
                    "in_sync": row.partition.in_sync,
                })
            })
            .collect();
        let configs: serde_json::Map<_, _> =
            self.configs.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
        json!({
            "topic": self.topic.name,
            "topic_id": self.topic.topic_id.to_string(),
            "internal": self.topic.is_internal,
            "configs": configs,
            "partitions": partitions,
        })
    }
}

/// The core behind a broker id of this server; a small id is another server's.
fn core_of(broker_id: i32) -> Option<i32> {
    (broker_id >= BROKER_IDS_A_NODE).then_some(broker_id % BROKER_IDS_A_NODE)
}

fn offset_text(answer: Option<&OffsetAnswer>) -> String {
    match answer {
        Some(OffsetAnswer::Offset(offset)) => offset.to_string(),
        Some(OffsetAnswer::Error(code)) => {
            let text = client_error::refusal(*code, None);
            text.split(':').next().unwrap_or_default().to_owned()
        }
        None => "-".to_owned(),
    }
}

fn offset_json(answer: Option<&OffsetAnswer>) -> serde_json::Value {
    match answer {
        Some(OffsetAnswer::Offset(offset)) => json!(offset),
        _ => serde_json::Value::Null,
    }
}

fn join(ids: &[i32]) -> String {
    let ids: Vec<_> = ids.iter().map(i32::to_string).collect();
    ids.join(",")
}

/// Broker ids are `node_id * 1000 + core index`.
const BROKER_IDS_A_NODE: i32 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_read_off_broker_ids() {
        let cases = [(1000, Some(0)), (1001, Some(1)), (7015, Some(15)), (1, None), (-1, None)];
        for (broker_id, core) in cases {
            assert_eq!(core_of(broker_id), core, "{broker_id}");
        }
    }

    #[test]
    fn offsets_print_as_numbers_or_errors() {
        let cases = [
            (Some(OffsetAnswer::Offset(7)), "7"),
            (Some(OffsetAnswer::Error(6)), "NOT_LEADER_OR_FOLLOWER"),
            (None, "-"),
        ];
        for (answer, text) in cases {
            assert_eq!(offset_text(answer.as_ref()), text);
        }
    }
}
