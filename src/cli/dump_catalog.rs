//! `alluvium dump` of `alluvium.catalog`: topics, their settings, their partitions.

use serde_json::Value;

use super::dump_error::DumpError;
use super::dump_sink::{FileDump, Row};
use crate::control::catalog_file;

/// Prints the state after the last whole frame.
pub fn dump(bytes: &[u8], mut out: FileDump<'_>) -> Result<Option<String>, DumpError> {
    let output = DumpError::Output;
    let replayed = match catalog_file::replay(bytes) {
        Ok(replayed) => replayed,
        Err(error) => {
            let position = match &error {
                catalog_file::CatalogFileError::NotOurs | catalog_file::CatalogFileError::Newer { .. } => 0,
                catalog_file::CatalogFileError::Damaged { position }
                | catalog_file::CatalogFileError::Records { position, .. }
                | catalog_file::CatalogFileError::Mismatch { position, .. } => *position,
            };
            out.problem(position, error.to_string()).map_err(output)?;
            return out.end(|row| row).map_err(output);
        }
    };
    let snapshot = replayed.catalog.snapshot();
    let row = Row::new("catalog")
        .with("version", snapshot.version())
        .maybe("cluster_id", snapshot.cluster_id().map(|id| id.to_string()))
        .with("cores", snapshot.cores().len())
        .with("directories", snapshot.directories().len())
        .with("topics", snapshot.topics().len());
    out.row(&row).map_err(output)?;
    for topic in snapshot.topics() {
        if out.is_full() {
            break;
        }
        let configs = topic.configs.iter().map(|(key, value)| (key.to_string(), Value::from(value.to_string())));
        let row = Row::new("topic")
            .with("topic", topic.name.to_string())
            .with("topic_id", topic.id.to_string())
            .with("created", topic.created_ms)
            .with("partitions", topic.partitions.len())
            .with("configs", Value::Object(configs.collect()));
        out.entry(&row).map_err(output)?;
        for (index, partition) in topic.partitions.iter().enumerate() {
            let row = Row::new("partition")
                .with("topic", topic.name.to_string())
                .with("partition", index)
                .with("core", partition.core.index())
                .with("directory", partition.directory.to_string())
                .with("leader_epoch", partition.leader_epoch)
                .with("placed_by_hand", partition.placed_by_hand);
            out.row(&row).map_err(output)?;
        }
    }
    if replayed.torn_bytes > 0 {
        let what = format!("{} bytes behind the last whole frame: a write that was cut short", replayed.torn_bytes);
        out.problem(replayed.valid_bytes, what).map_err(output)?;
    }
    out.end(|row| row.with("bytes", replayed.valid_bytes)).map_err(output)
}
