//! `alluvium group`: list, describe, reset offsets and delete, printed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};

use super::args::OutputFormat;
use super::client_error::ClientError;
use super::cluster::{Cluster, Topic};
use super::group_admin::{self, Committed, Group};
use super::group_args::{GroupCommand, GroupDeleteArgs, GroupDescribeArgs, GroupListArgs, GroupResetArgs};
use super::offset_place::OffsetPlace;
use super::output;
use super::topic_admin::{self, EARLIEST, LATEST, OffsetAnswer};
use super::topics::connect;
use crate::wire::error_code::ErrorCode;

/// Runs one command about groups.
pub fn run(command: &GroupCommand) -> Result<(), ClientError> {
    match command {
        GroupCommand::List(args) => list(args),
        GroupCommand::Describe(args) => describe(args),
        GroupCommand::ResetOffsets(args) => reset_offsets(args),
        GroupCommand::Delete(args) => delete(args),
    }
}

fn list(args: &GroupListArgs) -> Result<(), ClientError> {
    let (mut cluster, _) = connect(&args.connect)?;
    let groups = group_admin::list(&mut cluster, &args.states)?;
    match args.connect.output {
        OutputFormat::Json => {
            let rows: Vec<_> = groups
                .iter()
                .map(|group| {
                    json!({
                        "group": group.group,
                        "type": group.group_type,
                        "protocol": group.protocol_type,
                        "state": group.state,
                    })
                })
                .collect();
            output::print_json(&json!(rows));
        }
        OutputFormat::Table => {
            let rows =
                groups.into_iter().map(|group| vec![group.group, group.group_type, group.protocol_type, group.state]);
            output::print_table(&output::table(&["GROUP", "TYPE", "PROTOCOL", "STATE"], &[], rows));
        }
    }
    Ok(())
}

/// One partition that a group reads or has an offset of.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Reading {
    topic: String,
    partition: i32,
    committed: Option<i64>,
    log_start: Option<i64>,
    log_end: Option<i64>,
    member: Option<String>,
}

impl Reading {
    fn lag(&self) -> Option<i64> {
        lag(self.committed?, self.log_start?, self.log_end?)
    }

    fn to_json(&self) -> Value {
        json!({
            "topic": self.topic,
            "partition": self.partition,
            "offset": self.committed,
            "log_start_offset": self.log_start,
            "log_end_offset": self.log_end,
            "lag": self.lag(),
            "member": self.member,
        })
    }
}

/// Records between a committed offset and the end. What was deleted before it was read is not waited for (C179).
fn lag(committed: i64, log_start: i64, log_end: i64) -> Option<i64> {
    (log_start <= log_end).then(|| (log_end - committed.max(log_start)).max(0))
}

fn describe(args: &GroupDescribeArgs) -> Result<(), ClientError> {
    let (mut cluster, limit) = connect(&args.connect)?;
    let group = group_admin::describe(&mut cluster, &args.group, limit)?;
    let committed = group_admin::committed(&mut cluster, &args.group, limit)?;
    let readings = readings(&mut cluster, &group, &committed)?;
    match args.connect.output {
        OutputFormat::Json => {
            let members = group.members.iter().map(|member| {
                json!({
                    "member": member.id,
                    "instance": member.instance_id,
                    "client": member.client_id,
                    "host": member.host,
                    "partitions": member.partitions.iter().map(|(topic, at)| format!("{topic}-{at}")).collect::<Vec<_>>(),
                })
            });
            output::print_json(&json!({
                "group": args.group,
                "type": group.group_type,
                "state": group.state,
                "assignor": group.assignor,
                "coordinator": group.coordinator,
                "members": members.collect::<Vec<_>>(),
                "offsets": readings.iter().map(Reading::to_json).collect::<Vec<_>>(),
            }));
        }
        OutputFormat::Table => {
            let line = format!(
                "Group {} is {} ({}{}), coordinated by broker {}, {} members.",
                args.group,
                group.state,
                group.group_type,
                if group.assignor.is_empty() { String::new() } else { format!(", {}", group.assignor) },
                group.coordinator,
                group.members.len()
            );
            output::print_lines([line.as_str(), ""]);
            let shown = |number: Option<i64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
            let rows = readings.iter().map(|reading| {
                vec![
                    reading.topic.clone(),
                    reading.partition.to_string(),
                    shown(reading.committed),
                    shown(reading.log_end),
                    shown(reading.lag()),
                    reading.member.clone().unwrap_or_else(|| "-".to_owned()),
                ]
            });
            let header = ["TOPIC", "PARTITION", "OFFSET", "END", "LAG", "MEMBER"];
            output::print_table(&output::table(&header, &[1, 2, 3, 4], rows));
            if !group.members.is_empty() {
                output::print_lines([""]);
                let rows = group.members.iter().map(|member| {
                    let instance = member.instance_id.clone().unwrap_or_else(|| "-".to_owned());
                    let partitions = member.partitions.len().to_string();
                    vec![member.id.clone(), instance, member.client_id.clone(), member.host.clone(), partitions]
                });
                let header = ["MEMBER", "INSTANCE", "CLIENT", "HOST", "PARTITIONS"];
                output::print_table(&output::table(&header, &[4], rows));
            }
        }
    }
    Ok(())
}

/// All partitions that the group has an offset of, or that a member reads.
fn readings(cluster: &mut Cluster, group: &Group, committed: &Committed) -> Result<Vec<Reading>, ClientError> {
    let mut wanted: BTreeMap<(String, i32), Option<String>> = BTreeMap::new();
    wanted.extend(committed.keys().map(|key| (key.clone(), None)));
    for member in &group.members {
        wanted.extend(member.partitions.iter().map(|key| (key.clone(), Some(member.id.clone()))));
    }
    let names: BTreeSet<&str> = wanted.keys().map(|(topic, _)| topic.as_str()).collect();
    let mut ends = BTreeMap::new();
    for name in names {
        ends.insert(name.to_owned(), Ends::ask(cluster, name)?);
    }
    let rows = wanted.iter().map(|((topic, partition), member)| {
        let ends = ends.get(topic);
        Reading {
            topic: topic.clone(),
            partition: *partition,
            committed: committed.get(&(topic.clone(), *partition)).copied(),
            log_start: ends.and_then(|ends| ends.start.get(partition).copied()),
            log_end: ends.and_then(|ends| ends.end.get(partition).copied()),
            member: member.clone(),
        }
    });
    Ok(rows.collect())
}

/// Where the partitions of a topic begin and end; nothing of one that is not there.
#[derive(Default)]
struct Ends {
    topic: Option<Topic>,
    start: BTreeMap<i32, i64>,
    end: BTreeMap<i32, i64>,
}

impl Ends {
    fn ask(cluster: &mut Cluster, name: &str) -> Result<Self, ClientError> {
        let topic = match cluster.topic(name) {
            Ok(topic) => topic,
            Err(error) if error.is_refusal(ErrorCode::UnknownTopicOrPartition) => return Ok(Self::default()),
            Err(error) => return Err(error),
        };
        let start = known(topic_admin::offsets(cluster, &topic, EARLIEST)?);
        let end = known(topic_admin::offsets(cluster, &topic, LATEST)?);
        Ok(Self { topic: Some(topic), start, end })
    }
}

fn known(answers: BTreeMap<i32, OffsetAnswer>) -> BTreeMap<i32, i64> {
    let offset = |(partition, answer)| match answer {
        OffsetAnswer::Offset(offset) => Some((partition, offset)),
        OffsetAnswer::Error(_) => None,
    };
    answers.into_iter().filter_map(offset).collect()
}

fn reset_offsets(args: &GroupResetArgs) -> Result<(), ClientError> {
    let (mut cluster, limit) = connect(&args.connect)?;
    refuse_active(&mut cluster, &args.group, limit)?;
    let committed = match group_admin::committed(&mut cluster, &args.group, limit) {
        // A group that is made by this.
        Err(error) if error.is_refusal(ErrorCode::GroupIdNotFound) => Committed::new(),
        other => other?,
    };
    let mut wanted: BTreeMap<String, Option<BTreeSet<i32>>> = BTreeMap::new();
    for text in &args.topics {
        let (topic, partitions) = parse_topic(text)?;
        wanted.insert(topic, partitions);
    }
    if args.topics.is_empty() {
        for (topic, partition) in committed.keys() {
            wanted
                .entry(topic.clone())
                .or_insert_with(|| Some(BTreeSet::new()))
                .get_or_insert_default()
                .insert(*partition);
        }
    }
    let mut moves = Vec::new();
    for (name, partitions) in wanted {
        moves.extend(plan_topic(&mut cluster, args, &committed, &name, partitions.as_ref())?);
    }
    if args.execute && !moves.is_empty() {
        let offsets = moves.iter().map(|step| ((step.topic.clone(), step.partition), step.to)).collect();
        group_admin::commit(&mut cluster, &args.group, &offsets, limit)?;
    }
    print_moves(args, &moves);
    Ok(())
}

/// Where one partition's offset goes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Move {
    topic: String,
    partition: i32,
    from: Option<i64>,
    to: i64,
}

/// A member would go on from where it is, and commit over it.
fn refuse_active(cluster: &mut Cluster, group: &str, limit: Duration) -> Result<(), ClientError> {
    match group_admin::describe(cluster, group, limit) {
        Ok(found) if !found.members.is_empty() => Err(ClientError::Refusal {
            api: "OffsetCommit",
            code: ErrorCode::NonEmptyGroup.code(),
            message: Some(format!(
                "group {group} has {} members and is {}; stop them first",
                found.members.len(),
                found.state
            )),
        }),
        Err(error) if !error.is_refusal(ErrorCode::GroupIdNotFound) => Err(error),
        _ => Ok(()),
    }
}

fn plan_topic(
    cluster: &mut Cluster,
    args: &GroupResetArgs,
    committed: &Committed,
    name: &str,
    partitions: Option<&BTreeSet<i32>>,
) -> Result<Vec<Move>, ClientError> {
    let ends = Ends::ask(cluster, name)?;
    let Some(topic) = &ends.topic else {
        // The topic was deleted; what is committed of it says nothing.
        return if args.topics.is_empty() { Ok(Vec::new()) } else { cluster.topic(name).map(|_| Vec::new()) };
    };
    let by_time = match args.to {
        Some(OffsetPlace::Time(time_ms)) => known(topic_admin::offsets(cluster, topic, time_ms)?),
        _ => BTreeMap::new(),
    };
    let mut moves = Vec::new();
    for partition in topic.partitions.iter().map(|partition| partition.index) {
        if partitions.is_some_and(|partitions| !partitions.contains(&partition)) {
            continue;
        }
        let from = committed.get(&(name.to_owned(), partition)).copied();
        let (Some(start), Some(end)) = (ends.start.get(&partition), ends.end.get(&partition)) else {
            return Err(ClientError::NoLeader { topic: name.to_owned(), partition });
        };
        // A time after the last record is the end, as in Kafka.
        let at_time = by_time.get(&partition).copied().filter(|offset| *offset >= 0);
        if let Some(to) = target(args.to, args.shift, from, *start, *end, at_time) {
            moves.push(Move { topic: name.to_owned(), partition, from, to });
        }
    }
    Ok(moves)
}

/// Where to; never outside the log. `None`: there is nothing to shift.
fn target(
    to: Option<OffsetPlace>,
    shift: Option<i64>,
    from: Option<i64>,
    start: i64,
    end: i64,
    at_time: Option<i64>,
) -> Option<i64> {
    let wanted = match (to, shift) {
        (Some(OffsetPlace::Earliest), _) => start,
        (Some(OffsetPlace::Latest), _) => end,
        (Some(OffsetPlace::Offset(offset)), _) => offset,
        (Some(OffsetPlace::FromEnd(count)), _) => end.saturating_sub(count),
        (Some(OffsetPlace::Time(_)), _) => at_time.unwrap_or(end),
        (None, Some(shift)) => from?.saturating_add(shift),
        (None, None) => return None,
    };
    Some(wanted.min(end).max(start))
}

/// `topic` or `topic:0,1`.
fn parse_topic(text: &str) -> Result<(String, Option<BTreeSet<i32>>), ClientError> {
    let Some((topic, list)) = text.rsplit_once(':') else { return Ok((text.to_owned(), None)) };
    let partitions: Result<BTreeSet<i32>, _> = list.split(',').map(|number| number.trim().parse::<i32>()).collect();
    match partitions {
        Ok(partitions) => Ok((topic.to_owned(), Some(partitions))),
        Err(_) => Err(ClientError::Refusal {
            api: "OffsetCommit",
            code: ErrorCode::UnknownTopicOrPartition.code(),
            message: Some(format!("{text:?} is not TOPIC or TOPIC:PARTITION,...")),
        }),
    }
}

fn print_moves(args: &GroupResetArgs, moves: &[Move]) {
    match args.connect.output {
        OutputFormat::Json => {
            let rows = moves.iter().map(|step| {
                json!({ "topic": step.topic, "partition": step.partition, "offset": step.from, "new_offset": step.to })
            });
            output::print_json(&json!({
                "group": args.group,
                "executed": args.execute,
                "offsets": rows.collect::<Vec<_>>(),
            }));
        }
        OutputFormat::Table => {
            let rows = moves.iter().map(|step| {
                let from = step.from.map_or_else(|| "-".to_owned(), |from| from.to_string());
                vec![step.topic.clone(), step.partition.to_string(), from, step.to.to_string()]
            });
            output::print_table(&output::table(&["TOPIC", "PARTITION", "OFFSET", "NEW OFFSET"], &[1, 2, 3], rows));
            if !args.execute {
                output::print_lines(["", "Nothing was changed; add --execute to do it."]);
            }
        }
    }
}

fn delete(args: &GroupDeleteArgs) -> Result<(), ClientError> {
    let (mut cluster, limit) = connect(&args.connect)?;
    for group in &args.groups {
        group_admin::delete(&mut cluster, group, limit)?;
        match args.connect.output {
            OutputFormat::Json => output::print_json(&json!({ "group": group, "deleted": true })),
            OutputFormat::Table => output::print_lines([format!("Deleted group {group}.").as_str()]),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c179_lag_does_not_count_what_was_deleted() {
        for (committed, start, end, wanted) in
            [(0, 1000, 1000, 0), (0, 0, 10, 10), (4, 0, 10, 6), (4, 7, 10, 3), (10, 0, 10, 0), (12, 0, 10, 0)]
        {
            assert_eq!(lag(committed, start, end), Some(wanted), "{committed} in {start} to {end}");
        }
    }

    #[test]
    fn targets_stay_within_the_log() {
        let (start, end) = (10, 100);
        for (to, shift, from, at_time, wanted) in [
            (Some(OffsetPlace::Earliest), None, Some(50), None, Some(10)),
            (Some(OffsetPlace::Latest), None, None, None, Some(100)),
            (Some(OffsetPlace::Offset(5)), None, None, None, Some(10)),
            (Some(OffsetPlace::Offset(500)), None, None, None, Some(100)),
            (Some(OffsetPlace::FromEnd(3)), None, None, None, Some(97)),
            (Some(OffsetPlace::Time(1)), None, None, Some(42), Some(42)),
            (Some(OffsetPlace::Time(1)), None, None, None, Some(100)),
            (None, Some(-7), Some(50), None, Some(43)),
            (None, Some(i64::MIN), Some(50), None, Some(10)),
            (None, Some(7), None, None, None),
        ] {
            assert_eq!(target(to, shift, from, start, end, at_time), wanted, "{to:?} {shift:?} from {from:?}");
        }
    }

    #[test]
    fn topics_are_named_with_or_without_partitions() {
        let some = |numbers: &[i32]| Some(numbers.iter().copied().collect::<BTreeSet<_>>());
        for (text, topic, partitions) in
            [("a", "a", None), ("a:0", "a", some(&[0])), ("a.b-c:2, 1", "a.b-c", some(&[1, 2]))]
        {
            assert_eq!(parse_topic(text).expect(text), (topic.to_owned(), partitions));
        }
        assert!(parse_topic("a:").is_err());
        assert!(parse_topic("a:x").is_err());
    }
}
