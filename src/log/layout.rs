//! Names of the folders and files of partitions, as Kafka spells them.

use std::path::{Path, PathBuf};

use crate::log::plan::SegmentId;
use crate::record::offset::Offset;

/// What a file in a partition's folder is, by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartitionFile {
    /// Records.
    Log(SegmentId),
    /// Offset index.
    OffsetIndex(SegmentId),
    /// Time index.
    TimeIndex(SegmentId),
    /// Aborted transactions.
    TransactionIndex(SegmentId),
    /// Producer state at this offset.
    ProducerSnapshot(Offset),
    /// Leader epochs.
    LeaderEpochs,
    /// Topic id.
    Metadata,
    /// A file of a compacted segment that is to be swapped in (`.swap`).
    Swap(SegmentId),
    /// What is known of the segments in the tier.
    RemoteSegments,
    /// A file on its way to be removed (`.deleted`) or that was never finished (`.tmp`, `.cleaned`).
    Leftover,
    /// Something else.
    Unknown,
}

impl PartitionFile {
    /// Judges a name.
    pub fn parse(name: &str) -> Self {
        match name {
            LEADER_EPOCH_CHECKPOINT => return Self::LeaderEpochs,
            PARTITION_METADATA => return Self::Metadata,
            REMOTE_SEGMENTS => return Self::RemoteSegments,
            _ => {}
        }
        let Some((stem, extension)) = name.split_once('.') else {
            return Self::Unknown;
        };
        let number = (stem.len() == OFFSET_DIGITS && stem.bytes().all(|byte| byte.is_ascii_digit()))
            .then(|| stem.parse().ok())
            .flatten()
            .map(Offset);
        match (number, extension) {
            (Some(base), "log") => Self::Log(SegmentId(base)),
            (Some(base), "index") => Self::OffsetIndex(SegmentId(base)),
            (Some(base), "timeindex") => Self::TimeIndex(SegmentId(base)),
            (Some(base), "txnindex") => Self::TransactionIndex(SegmentId(base)),
            (Some(base), "snapshot") => Self::ProducerSnapshot(base),
            (Some(_), extension) if extension.ends_with(DELETED_SUFFIX) || extension.ends_with(CLEANED_SUFFIX) => {
                Self::Leftover
            }
            (Some(base), extension) if extension.ends_with(SWAP_SUFFIX) => Self::Swap(SegmentId(base)),
            _ if name == "leader-epoch-checkpoint.tmp" || name == "partition.metadata.tmp" => Self::Leftover,
            _ if name == "remote-segments.tmp" => Self::Leftover,
            _ => Self::Unknown,
        }
    }
}

/// What a folder in a data directory is, by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartitionFolder {
    /// A partition that is served.
    Partition {
        /// Its topic.
        topic: String,
        /// Its index.
        partition: i32,
    },
    /// On its way to be removed (`topic-0.<id>-delete`).
    Deleted,
    /// A replica that is being moved (`-future`) or belongs to nobody (`-stray`): not served, left alone.
    SetAside,
    /// Something else.
    Unknown,
}

impl PartitionFolder {
    /// Judges a name: the topic may have dashes and dots, the partition comes after the last dash.
    pub fn parse(name: &str) -> Self {
        if let Some((front, kind)) = name.rsplit_once('-')
            && let Some((partition, id)) = front.rsplit_once('.')
            && id.len() == FOLDER_ID_LEN
            && id.bytes().all(|byte| byte.is_ascii_hexdigit())
            && matches!(Self::parse_plain(partition), Self::Partition { .. })
        {
            match kind {
                "delete" => return Self::Deleted,
                "future" | "stray" => return Self::SetAside,
                _ => {}
            }
        }
        // Kafka shortens `topic` where the name with its suffix would be too long: the number may be missing then.
        match name.rsplit_once('-') {
            Some((front, "delete")) if front.contains('.') => Self::Deleted,
            Some((front, "future" | "stray")) if front.contains('.') => Self::SetAside,
            _ => Self::parse_plain(name),
        }
    }

    fn parse_plain(name: &str) -> Self {
        let Some((topic, digits)) = name.rsplit_once('-') else {
            return Self::Unknown;
        };
        let canonical = digits == "0" || (!digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit()));
        match digits.parse() {
            Ok(partition) if canonical && is_topic_name(topic) => {
                Self::Partition { topic: topic.to_owned(), partition }
            }
            _ => Self::Unknown,
        }
    }
}

/// True for names that Kafka accepts: 1 to 249 letters, digits, `.`, `_`, `-`, not `.` or `..`.
pub fn is_topic_name(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    !name.is_empty() && name.len() <= TOPIC_NAME_BYTES_MAX && name != "." && name != ".." && name.bytes().all(legal)
}

/// The folder of a partition within its data directory.
pub fn partition_folder(data_dir: &Path, topic: &str, partition: i32) -> PathBuf {
    data_dir.join(format!("{topic}-{partition}"))
}

/// The records of a segment.
pub fn segment_path(folder: &Path, segment: SegmentId) -> PathBuf {
    file_path(folder, segment, "log")
}

/// The offset index of a segment.
pub fn offset_index_path(folder: &Path, segment: SegmentId) -> PathBuf {
    file_path(folder, segment, "index")
}

/// The producers of the partition at an offset.
pub fn producer_snapshot_path(folder: &Path, offset: Offset) -> PathBuf {
    file_path(folder, SegmentId(offset), "snapshot")
}

/// Names of all files that a segment may have, the log last: without the others it can be opened, they without it go.
pub fn segment_file_names(segment: SegmentId) -> [String; 5] {
    ["index", "timeindex", "txnindex", "snapshot", "log"].map(|extension| format!("{:020}.{extension}", segment.0.0))
}

/// Names of the files of a segment that a compaction writes anew, the log last.
pub fn replaced_file_names(segment: SegmentId, has_aborted: bool) -> Vec<String> {
    let extensions = ["index", "timeindex", "txnindex", "log"].into_iter();
    let written = extensions.filter(|extension| has_aborted || *extension != "txnindex");
    written.map(|extension| format!("{:020}.{extension}", segment.0.0)).collect()
}

/// The time index of a segment.
pub fn time_index_path(folder: &Path, segment: SegmentId) -> PathBuf {
    file_path(folder, segment, "timeindex")
}

/// The aborted transactions of a segment.
pub fn transaction_index_path(folder: &Path, segment: SegmentId) -> PathBuf {
    file_path(folder, segment, "txnindex")
}

fn file_path(folder: &Path, segment: SegmentId, extension: &str) -> PathBuf {
    folder.join(format!("{:020}.{extension}", segment.0.0))
}

/// Kafka's name of the leader epochs' file.
pub const LEADER_EPOCH_CHECKPOINT: &str = "leader-epoch-checkpoint";
/// Kafka's name of the topic id's file.
pub const PARTITION_METADATA: &str = "partition.metadata";
/// The tier's file in a partition's folder (`src/tier/FORMAT.md`).
pub const REMOTE_SEGMENTS: &str = "remote-segments";
/// Kafka's name of the recovery points' file in a data directory.
pub const RECOVERY_POINT_CHECKPOINT: &str = "recovery-point-offset-checkpoint";
/// Kafka's name of the log start offsets' file in a data directory.
pub const LOG_START_CHECKPOINT: &str = "log-start-offset-checkpoint";
/// Kafka's name of the replicated high watermarks' file in a data directory.
pub const HIGH_WATERMARK_CHECKPOINT: &str = "replication-offset-checkpoint";

/// Behind the name of a file that is to be removed after `file.delete.delay.ms`.
pub const DELETED_SUFFIX: &str = ".deleted";
/// Behind the name of a file that a compaction is writing.
pub const CLEANED_SUFFIX: &str = ".cleaned";
/// Behind the name of a file that a compaction has written, and that takes the place of others.
pub const SWAP_SUFFIX: &str = ".swap";
/// Kafka's name of the file of where compaction has come to in a data directory.
pub const CLEANER_CHECKPOINT: &str = "cleaner-offset-checkpoint";

const OFFSET_DIGITS: usize = 20;
/// A random UUID without its dashes.
const FOLDER_ID_LEN: usize = 32;
const TOPIC_NAME_BYTES_MAX: usize = 249;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_told_apart() {
        let partition = |topic: &str, partition| PartitionFolder::Partition { topic: topic.to_owned(), partition };
        let cases = [
            ("t-0", partition("t", 0)),
            ("with-dashes-and.dots-12", partition("with-dashes-and.dots", 12)),
            ("t--3", partition("t-", 3)),
            ("t-1-2", partition("t-1", 2)),
            ("__consumer_offsets-49", partition("__consumer_offsets", 49)),
            ("t-delete", PartitionFolder::Unknown),
            ("t-0.0123456789abcdef0123456789abcdef-delete", PartitionFolder::Deleted),
            ("t-0.0123456789abcdef0123456789abcdef-future", PartitionFolder::SetAside),
            ("t-0.0123456789abcdef0123456789abcdef-stray", PartitionFolder::SetAside),
            ("t-00", PartitionFolder::Unknown),
            ("t-+1", PartitionFolder::Unknown),
            ("t--1", partition("t-", 1)),
            ("t-99999999999", PartitionFolder::Unknown),
            ("-0", PartitionFolder::Unknown),
            ("lost+found", PartitionFolder::Unknown),
            ("no number-x", PartitionFolder::Unknown),
            ("..-0", PartitionFolder::Unknown),
        ];
        for (name, expected) in cases {
            assert_eq!(PartitionFolder::parse(name), expected, "{name}");
        }
    }

    #[test]
    fn files_are_told_apart_and_named_back() {
        let id = SegmentId(Offset(1234));
        let folder = Path::new("t-0");
        assert_eq!(segment_path(folder, id), Path::new("t-0/00000000000000001234.log"));
        assert_eq!(offset_index_path(folder, id), Path::new("t-0/00000000000000001234.index"));
        let cases = [
            ("00000000000000001234.log", PartitionFile::Log(id)),
            ("00000000000000001234.index", PartitionFile::OffsetIndex(id)),
            ("00000000000000001234.timeindex", PartitionFile::TimeIndex(id)),
            ("00000000000000001234.txnindex", PartitionFile::TransactionIndex(id)),
            ("00000000000000001234.snapshot", PartitionFile::ProducerSnapshot(Offset(1234))),
            ("00000000000000001234.log.deleted", PartitionFile::Leftover),
            ("00000000000000001234.log.cleaned", PartitionFile::Leftover),
            ("00000000000000001234.timeindex.swap", PartitionFile::Swap(id)),
            ("leader-epoch-checkpoint", PartitionFile::LeaderEpochs),
            ("leader-epoch-checkpoint.tmp", PartitionFile::Leftover),
            ("partition.metadata", PartitionFile::Metadata),
            ("partition.metadata.tmp", PartitionFile::Leftover),
            ("remote-segments", PartitionFile::RemoteSegments),
            ("remote-segments.tmp", PartitionFile::Leftover),
            ("1234.log", PartitionFile::Unknown),
            ("99999999999999999999.log", PartitionFile::Unknown),
            ("0000000000000000123x.log", PartitionFile::Unknown),
            ("notes.txt", PartitionFile::Unknown),
        ];
        for (name, expected) in cases {
            assert_eq!(PartitionFile::parse(name), expected, "{name}");
        }
    }
}
