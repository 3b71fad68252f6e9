//! `alluvium dump` of checkpoints, `partition.metadata` and `meta.properties`.

use super::dump_error::DumpError;
use super::dump_sink::{FileDump, Row};
use crate::log::partition_metadata;

/// What the lines of a checkpoint hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checkpoint {
    /// Kafka's: epoch, start offset.
    LeaderEpochs,
    /// Kafka's: topic, partition, offset.
    Offsets,
    /// A core's own: topic, partition, offset, topic id.
    Core,
}

/// Prints a checkpoint: version, count, then a line for each entry.
pub fn dump_checkpoint(kind: Checkpoint, text: &str, mut out: FileDump<'_>) -> Result<Option<String>, DumpError> {
    if let Some((position, what)) = checkpoint(kind, text, &mut out)? {
        out.problem(position, what).map_err(DumpError::Output)?;
    }
    out.end(|row| row).map_err(DumpError::Output)
}

/// Prints a partition's topic id.
pub fn dump_partition_metadata(text: &str, mut out: FileDump<'_>) -> Result<Option<String>, DumpError> {
    match partition_metadata::parse(text) {
        Some(topic_id) => out.entry(&Row::new("partition").with("topic_id", topic_id.to_string())),
        None => out.problem(0, "not `version: 0` and a line `topic_id: ` with 22 digits of base64"),
    }
    .map_err(DumpError::Output)?;
    out.end(|row| row).map_err(DumpError::Output)
}

/// Prints keys and values.
pub fn dump_properties(text: &str, mut out: FileDump<'_>) -> Result<Option<String>, DumpError> {
    for (position, line) in lines(text) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match line.split_once('=') {
            Some((key, value)) => out.entry(&Row::new("property").with("key", key.trim()).with("value", value.trim())),
            None => out.problem(position, "a line without `=`"),
        }
        .map_err(DumpError::Output)?;
    }
    out.end(|row| row).map_err(DumpError::Output)
}

fn checkpoint(kind: Checkpoint, text: &str, out: &mut FileDump<'_>) -> Result<Option<(u64, String)>, DumpError> {
    let mut lines = lines(text);
    let version = lines.next().map(|(_, line)| line.trim()).unwrap_or_default();
    if version != kind.version() {
        return Ok(Some((0, format!("the first line is {version:?} and not {:?}", kind.version()))));
    }
    let Some((count_at, count)) = lines.next() else {
        return Ok(Some((text.len() as u64, "no line with a count".to_owned())));
    };
    let Ok(count) = count.trim().parse::<u64>() else {
        return Ok(Some((count_at, "the second line is no count".to_owned())));
    };
    let mut last_epoch = None;
    let mut seen = 0;
    for (position, line) in lines {
        let Some((row, epoch)) = kind.entry(line) else {
            let what = format!("{line:?} is no line of {}", kind.fields());
            return Ok(Some((position, what)));
        };
        seen += 1;
        if out.is_full() {
            continue;
        }
        out.entry(&row).map_err(DumpError::Output)?;
        if epoch.is_some() && last_epoch >= epoch {
            return Ok(Some((position, "the epoch does not rise, or its offset goes back".to_owned())));
        }
        last_epoch = epoch.or(last_epoch);
    }
    if seen != count {
        return Ok(Some((count_at, format!("{count} entries are announced, and there are {seen}"))));
    }
    Ok(None)
}

impl Checkpoint {
    const fn version(self) -> &'static str {
        match self {
            Self::LeaderEpochs | Self::Offsets => "0",
            Self::Core => "alluvium 1",
        }
    }

    const fn fields(self) -> &'static str {
        match self {
            Self::LeaderEpochs => "EPOCH START_OFFSET",
            Self::Offsets => "TOPIC PARTITION OFFSET",
            Self::Core => "TOPIC PARTITION OFFSET TOPIC_ID",
        }
    }

    /// A line as a row; an epoch too, where the lines have one.
    fn entry(self, line: &str) -> Option<(Row, Option<i64>)> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| words.get(at)?.parse::<i64>().ok().filter(|number| *number >= 0);
        let right = words.len() == self.fields().split(' ').count();
        right.then_some(())?;
        Some(match self {
            Self::LeaderEpochs => {
                let row = Row::new("epoch").with("epoch", number(0)?).with("start_offset", number(1)?);
                (row, number(0))
            }
            Self::Offsets | Self::Core => {
                let row = Row::new("partition")
                    .with("topic", *words.first()?)
                    .with("partition", number(1)?)
                    .with("offset", number(2)?);
                (row.maybe("topic_id", words.get(3).copied()), None)
            }
        })
    }
}

/// Lines and the bytes where they begin.
fn lines(text: &str) -> impl Iterator<Item = (u64, &str)> {
    let mut position = 0;
    text.split_inclusive('\n').map(move |line| {
        let at = position;
        position += line.len() as u64;
        (at, line.trim_end_matches(['\n', '\r']))
    })
}
