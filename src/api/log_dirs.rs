//! DescribeLogDirs: the data directories, and the partitions of this core in each.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::api::context::RequestContext;
use crate::api::reply::Outcome;
use crate::shard::core::Shard;
use crate::shard::partition::Partition;
use crate::wire::error_code::ErrorCode;
use crate::wire::messages::describe_log_dirs_request::DescribeLogDirsRequest;
use crate::wire::messages::describe_log_dirs_response::{
    DescribeLogDirsPartition, DescribeLogDirsResponse, DescribeLogDirsResult, DescribeLogDirsTopic,
};
use crate::wire::reader::Reader;

/// One partition, as it crosses from the core that leads it.
struct Row {
    dir: Option<PathBuf>,
    topic: String,
    partition: DescribeLogDirsPartition,
}

fn rows(shard: &Shard) -> Vec<Row> {
    let row = |partition: Rc<Partition>| Row {
        dir: partition.folder().parent().map(Path::to_path_buf),
        topic: partition.topic().to_owned(),
        partition: describe(&partition),
    };
    shard.partitions().into_iter().map(row).collect()
}

/// Answers DescribeLogDirs. Each core is a broker, and answers for the partitions that it leads; where all cores are one
/// broker, it answers for all of them.
pub async fn handle(shard: &Rc<Shard>, context: &RequestContext, body: &[u8]) -> Outcome {
    let request = match DescribeLogDirsRequest::decode(&mut Reader::new(body), context.api_version) {
        Ok(request) => request,
        Err(error) => return Outcome::Close(error.to_string()),
    };
    // No list asks for all.
    let wanted: Option<BTreeSet<(&str, i32)>> = request.topics.as_ref().map(|topics| {
        topics.iter().flat_map(|topic| topic.partitions.iter().map(|partition| (topic.topic, *partition))).collect()
    });
    let mut rows = rows(shard);
    if shard.options().listen_mode.is_one_broker() {
        let own_core = shard.io().core_index();
        for core in (0..shard.options().core_count as usize).filter(|core| *core != own_core) {
            // A core that is gone has nothing to show.
            rows.extend(shard.on_core(core, |there| async move { self::rows(&there) }).await.unwrap_or_default());
        }
    }
    if let Some(wanted) = &wanted {
        rows.retain(|row| wanted.contains(&(&*row.topic, row.partition.partition_index)));
    }
    rows.sort_by(|a, b| (&a.topic, a.partition.partition_index).cmp(&(&b.topic, b.partition.partition_index)));
    let options = shard.options().clone();
    let names: Vec<String> = options.data_dirs.iter().map(|dir| dir.path.display().to_string()).collect();
    let unusable: Vec<String> = options.unusable_dirs.iter().map(|path| path.display().to_string()).collect();
    let mut results = Vec::with_capacity(names.len() + unusable.len());
    for (dir, name) in options.data_dirs.iter().zip(&names) {
        results.push(one(shard, &dir.path, name, &rows).await);
    }
    results.extend(unusable.iter().map(|name| failed(name)));
    let response = DescribeLogDirsResponse { results, ..DescribeLogDirsResponse::default() };
    Outcome::message(context, |out, version| response.encode(out, version))
}

async fn one<'a>(shard: &Rc<Shard>, path: &Path, name: &'a str, rows: &'a [Row]) -> DescribeLogDirsResult<'a> {
    if shard.directory_has_failed(path) {
        return failed(name);
    }
    let Ok(space) = shard.directory_space(path).await else { return failed(name) };
    let mut by_topic: BTreeMap<&str, Vec<DescribeLogDirsPartition>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.dir.as_deref() == Some(path)) {
        by_topic.entry(&row.topic).or_default().push(row.partition.clone());
    }
    DescribeLogDirsResult {
        log_dir: name,
        topics: by_topic.into_iter().map(|(name, partitions)| DescribeLogDirsTopic { name, partitions }).collect(),
        total_bytes: i64::try_from(space.total_bytes).unwrap_or(i64::MAX),
        usable_bytes: i64::try_from(space.usable_bytes).unwrap_or(i64::MAX),
        ..DescribeLogDirsResult::default()
    }
}

fn failed(name: &str) -> DescribeLogDirsResult<'_> {
    DescribeLogDirsResult {
        error_code: ErrorCode::KafkaStorageError.code(),
        log_dir: name,
        ..DescribeLogDirsResult::default()
    }
}

fn describe(partition: &Partition) -> DescribeLogDirsPartition {
    let log = partition.log().borrow();
    let size_bytes: u64 = log.segments().iter().map(|segment| segment.size_bytes()).sum();
    let offsets = log.offsets();
    DescribeLogDirsPartition {
        partition_index: partition.id().partition,
        partition_size: i64::try_from(size_bytes).unwrap_or(i64::MAX),
        // Kafka's: how far the log's end is behind the high watermark, which on its leader it never is.
        offset_lag: offsets.high_watermark.since(offsets.log_end).max(0),
        is_future_key: false,
    }
}
