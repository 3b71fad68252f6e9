//! The text files of a data directory, and the names in it.

use std::path::Path;

use alluvium::log::layout::{self, PartitionFile, PartitionFolder};
use alluvium::log::leader_epochs::LeaderEpochs;
use alluvium::log::{partition_metadata, recovery_point};
use alluvium::record::offset::{LeaderEpoch, Offset};

/// A text, read as each of them.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Some(offsets) = recovery_point::parse(text) {
        assert_eq!(recovery_point::parse(&recovery_point::to_text(&offsets)), Some(offsets));
    }
    if let Some(topic_id) = partition_metadata::parse(text) {
        assert_eq!(partition_metadata::parse(&partition_metadata::to_text(topic_id)), Some(topic_id));
    }
    if let Some(epochs) = LeaderEpochs::parse(text) {
        let again = LeaderEpochs::parse(&epochs.to_text()).expect("what was written is read");
        assert_eq!(again.entries(), epochs.entries());
        for entry in epochs.entries() {
            // Epochs without records begin where the next one does.
            assert!(epochs.epoch_of(entry.start_offset) >= Some(entry.epoch));
            let _ = epochs.end_offset_for(LeaderEpoch(entry.epoch.0), LeaderEpoch(i32::MAX), Offset(i64::MAX));
        }
    }
    for name in text.lines() {
        if let PartitionFolder::Partition { topic, partition } = PartitionFolder::parse(name) {
            let folder = layout::partition_folder(Path::new("data"), &topic, partition);
            assert_eq!(folder, Path::new("data").join(name), "another folder than the one that was read");
        }
        let (path, base) = match PartitionFile::parse(name) {
            PartitionFile::Log(base) => (layout::segment_path(Path::new("p"), base), base),
            PartitionFile::OffsetIndex(base) => (layout::offset_index_path(Path::new("p"), base), base),
            _ => continue,
        };
        assert_eq!(path, Path::new("p").join(name), "another file than the one that was read: {base:?}");
    }
}

/// Kafka's own files, and names of all kinds.
pub fn seeds() -> Vec<Vec<u8>> {
    let texts = [
        include_str!("../../golden/log/log-start-offset-checkpoint"),
        include_str!("../../golden/log/recovery-point-offset-checkpoint"),
        include_str!("../../golden/log/golden-log-0/leader-epoch-checkpoint"),
        include_str!("../../golden/log/golden-log-0/partition.metadata"),
        "0\n3\n0 0\n4 100\n9 2000\n",
        "0\n2\norders 0 90\norders 1 17\n",
        "00000000000000000090.snapshot\n00000000000000000000.log\n00000000000000000000.index\n",
        "orders-0\norders-3.0123456789abcdef0123456789abcdef-delete\norders-1.0123456789abcdef0123456789abcdef-future\n",
        "00000000000000000000.timeindex.deleted\nleader-epoch-checkpoint.tmp\npartition.metadata\n",
    ];
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}
