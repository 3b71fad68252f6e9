//! Files that a real Kafka 4.4.0 wrote (`scripts/generate-log-golden`): we read them, and would write the same.

use alluvium::log::leader_epochs::LeaderEpochs;
use alluvium::log::offset_index::IndexEntry;
use alluvium::log::partition_log::{LogConfig, PartitionLog};
use alluvium::log::plan::{Append, IndexKind, SegmentId};
use alluvium::log::producer_recovery::RecoveredProducers;
use alluvium::log::recovery::{RecoveredLog, RecoveryReport};
use alluvium::log::scan::SegmentScan;
use alluvium::log::time_index::TimeIndexEntry;
use alluvium::log::{partition_metadata, recovery_point};
use alluvium::record::batch::{BatchHeader, stamp};
use alluvium::record::check::{CheckedBatch, check_for_append};
use alluvium::record::compression::Compression;
use alluvium::record::offset::{LeaderEpoch, Offset, TopicId};
use alluvium::record::record_tally::AppendLimits;
use alluvium::record::record_walk::RecordWalk;

const LOG: &[u8] = include_bytes!("../golden/log/golden-log-0/00000000000000000000.log");
const INDEX: &[u8] = include_bytes!("../golden/log/golden-log-0/00000000000000000000.index");
const TIME_INDEX: &[u8] = include_bytes!("../golden/log/golden-log-0/00000000000000000000.timeindex");
const EPOCHS: &str = include_str!("../golden/log/golden-log-0/leader-epoch-checkpoint");
const METADATA: &str = include_str!("../golden/log/golden-log-0/partition.metadata");
const RECOVERY_POINTS: &str = include_str!("../golden/log/recovery-point-offset-checkpoint");
/// What Kafka's own dump tool says of the log.
const DUMP: &str = include_str!("../golden/log/dump.txt");

fn batches() -> Vec<(u64, BatchHeader)> {
    let mut batches = Vec::new();
    let mut scan = SegmentScan::new(Offset(0), 0, Offset(0), LOG.len() as u64, true);
    assert!(scan.feed(LOG, |position_bytes, header| batches.push((position_bytes, *header))));
    let end = scan.finish();
    assert_eq!((end.valid_bytes, end.damage), (LOG.len() as u64, None));
    batches
}

#[test]
fn the_log_is_what_kafkas_dump_tool_says() {
    let field = |line: &str, name: &str| -> String {
        let mut words = line.split_whitespace();
        words.find(|word| *word == name).unwrap_or_else(|| panic!("no {name} in {line}"));
        words.next().unwrap_or_default().to_owned()
    };
    let lines: Vec<&str> = DUMP.lines().filter(|line| line.starts_with("baseOffset: ")).collect();
    let batches = batches();
    assert_eq!(lines.len(), batches.len());
    assert!(batches.len() > 15);
    for (line, (position_bytes, header)) in lines.iter().zip(&batches) {
        let ours = [
            ("baseOffset:", header.base_offset.to_string()),
            ("lastOffset:", header.last_offset().to_string()),
            ("count:", header.record_count.to_string()),
            ("baseSequence:", header.base_sequence.to_string()),
            ("producerId:", header.producer_id.to_string()),
            ("producerEpoch:", header.producer_epoch.to_string()),
            ("partitionLeaderEpoch:", header.leader_epoch.to_string()),
            ("isTransactional:", header.attributes.is_transactional().to_string()),
            ("isControl:", header.attributes.is_control().to_string()),
            ("position:", position_bytes.to_string()),
            ("CreateTime:", header.max_timestamp.to_string()),
            ("size:", header.len_bytes.to_string()),
            ("compresscodec:", header.attributes.compression().map_or("?", Compression::name).to_owned()),
            ("crc:", header.crc.to_string()),
        ];
        for (name, value) in ours {
            assert_eq!(field(line, name), value, "{name} of {line}");
        }
    }
}

#[test]
fn each_codec_of_real_clients_passes_the_checks() {
    let limits = AppendLimits {
        max_message_bytes: 1 << 20,
        segment_bytes: 1 << 30,
        compact: true,
        log_append_time: false,
        timestamp_before_max_ms: i64::MAX,
        timestamp_after_max_ms: i64::MAX,
        now_ms: 0,
        codec: None,
        record_bytes_max: i32::MAX as u32,
    };
    let mut seen = Vec::new();
    for (position_bytes, header) in batches() {
        let at = position_bytes as usize;
        let mut bytes = LOG[at..at + header.len_bytes as usize].to_vec();
        stamp(&mut bytes, Offset(0), LeaderEpoch(-1));
        let checked = check_for_append(&bytes, &limits).unwrap_or_else(|error| panic!("{header:?}: {error}"));
        assert_eq!(checked.max_timestamp, header.max_timestamp);
        seen.push(checked.compression());
        if checked.compression() == Compression::None {
            let (_, walk) = RecordWalk::new(&bytes).expect("uncompressed");
            let records: Vec<_> = walk.map(|record| record.expect("well-formed")).collect();
            assert_eq!(records.len(), header.record_count as usize);
            assert!(records.iter().all(|record| record.key.is_some_and(|key| key.starts_with(b"key-"))));
            assert!(records.iter().all(|record| record.headers().next() == Some((b"codec", Some(b"none")))));
        }
    }
    assert!(Compression::ALL.iter().all(|codec| seen.contains(codec)), "{seen:?}");
}

#[test]
fn our_indexes_of_the_same_batches_are_kafkas() {
    let recovered = RecoveredLog {
        leftovers: Vec::new(),
        log_start: Offset::ZERO,
        log_end: Offset::ZERO,
        segments: Vec::new(),
        epochs: LeaderEpochs::default(),
        epochs_unwritten: false,
        producers: RecoveredProducers::default(),
        topic_id: TopicId::ZERO,
        report: RecoveryReport::default(),
    };
    let config = LogConfig { index_interval_bytes: 300, ..LogConfig::default() };
    let mut log = PartitionLog::new(recovered, config, LeaderEpoch(0));
    for (position_bytes, header) in batches() {
        let Ok(Append::Plan(plan)) = log.plan_append(&CheckedBatch::from_header(&header), 0) else {
            panic!("no plan for {header:?}");
        };
        assert_eq!((plan.base_offset, plan.position_bytes), (header.base_offset, position_bytes));
        log.commit_append(&plan);
    }
    let writes = log.take_all_index_writes();
    let kinds: Vec<IndexKind> = writes.iter().map(|write| write.kind).collect();
    assert_eq!(kinds, [IndexKind::Time, IndexKind::Offset]);
    assert!(writes.iter().all(|write| (write.segment, write.position_bytes) == (SegmentId(Offset(0)), 0)));
    let times = |bytes: &[u8]| TimeIndexEntry::decode_all(bytes).collect::<Vec<_>>();
    assert_eq!(times(&writes[0].bytes), times(TIME_INDEX));
    assert_eq!(writes[0].bytes, TIME_INDEX);
    let entries = |bytes: &[u8]| IndexEntry::decode_all(bytes).collect::<Vec<_>>();
    assert_eq!(entries(&writes[1].bytes), entries(INDEX));
    assert_eq!(writes[1].bytes, INDEX);
}

#[test]
fn the_texts_are_read_and_written_alike() {
    let epochs = LeaderEpochs::parse(EPOCHS).expect("Kafka's");
    assert_eq!(epochs.to_text(), EPOCHS);
    let topic_id = partition_metadata::parse(METADATA).expect("Kafka's");
    assert_eq!(partition_metadata::to_text(topic_id), METADATA);
    let points = recovery_point::parse(RECOVERY_POINTS).expect("Kafka's");
    let end = batches().last().map(|(_, header)| header.last_offset().plus(1));
    assert_eq!(points.get(&("golden-log".to_owned(), 0)).copied(), end);
    assert_eq!(recovery_point::parse(&recovery_point::to_text(&points)), Some(points));
}
