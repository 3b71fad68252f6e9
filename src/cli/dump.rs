//! `alluvium dump`: what is in a file of a data directory, and whether it is whole.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // a command's own files

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use super::dump_args::DumpArgs;
use super::dump_error::DumpError;
use super::dump_segment::SegmentPlace;
use super::dump_sink::FileDump;
use super::dump_text::{self, Checkpoint};
use super::{dump_catalog, dump_index, dump_producers, dump_segment, dump_tier};
use crate::log::layout::{
    CLEANED_SUFFIX, CLEANER_CHECKPOINT, DELETED_SUFFIX, HIGH_WATERMARK_CHECKPOINT, LEADER_EPOCH_CHECKPOINT,
    LOG_START_CHECKPOINT, PARTITION_METADATA, PartitionFile, RECOVERY_POINT_CHECKPOINT, SWAP_SUFFIX,
};
use crate::record::offset::Offset;
use crate::tier::store::parse_partition_folder;
use crate::wire::uuid::Uuid;

/// Dumps files and folders, in the order named; an error where one of them is not whole.
pub fn run(args: &DumpArgs) -> Result<(), DumpError> {
    let mut out = BufWriter::new(io::stdout().lock());
    let dumped = dump_to(args, &mut out);
    let flushed = out.flush().map_err(DumpError::Output);
    match dumped.and(flushed) {
        Err(error) if error.is_closed_pipe() => Ok(()),
        other => other,
    }
}

/// The same into any sink.
pub fn dump_to(args: &DumpArgs, out: &mut dyn Write) -> Result<(), DumpError> {
    let mut known = Vec::new();
    for path in &args.files {
        gather(path, 0, &mut known)?;
    }
    let (mut damaged, mut first) = (0, None);
    for (path, kind) in &known {
        let problem = dump_file(path, *kind, args, out)?;
        damaged += usize::from(problem.is_some());
        first = first.or(problem);
    }
    match first {
        Some(first) => Err(DumpError::NotWhole { damaged, files: known.len(), first }),
        None => Ok(()),
    }
}

/// What a file is, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Segment(Offset),
    OffsetIndex(Offset),
    TimeIndex(Offset),
    TransactionIndex,
    Snapshot,
    Checkpoint(Checkpoint),
    PartitionMetadata,
    Properties,
    Catalog,
    TierSegment,
}

impl Kind {
    fn of(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        // On its way in or out, and still what it was.
        let name = [DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX]
            .iter()
            .find_map(|suffix| name.strip_suffix(suffix))
            .unwrap_or(name);
        match name {
            LEADER_EPOCH_CHECKPOINT => return Some(Self::Checkpoint(Checkpoint::LeaderEpochs)),
            RECOVERY_POINT_CHECKPOINT | LOG_START_CHECKPOINT | HIGH_WATERMARK_CHECKPOINT | CLEANER_CHECKPOINT => {
                return Some(Self::Checkpoint(Checkpoint::Offsets));
            }
            PARTITION_METADATA => return Some(Self::PartitionMetadata),
            META_PROPERTIES => return Some(Self::Properties),
            CATALOG => return Some(Self::Catalog),
            _ if [RECOVERY_POINT_CHECKPOINT, LOG_START_CHECKPOINT, CLEANER_CHECKPOINT]
                .iter()
                .any(|kind| name.starts_with(kind)) =>
            {
                let core = name.rsplit_once(".core-")?.1;
                return core.parse::<u16>().is_ok().then_some(Self::Checkpoint(Checkpoint::Core));
            }
            _ => {}
        }
        // In the tier a file's name is its segment's id, and its folder names the partition.
        let folder = path.parent().and_then(Path::file_name).and_then(|name| name.to_str());
        if Uuid::from_base64(name).is_some() && folder.and_then(parse_partition_folder).is_some() {
            return Some(Self::TierSegment);
        }
        match PartitionFile::parse(name) {
            PartitionFile::Log(segment) => Some(Self::Segment(segment.0)),
            PartitionFile::OffsetIndex(segment) => Some(Self::OffsetIndex(segment.0)),
            PartitionFile::TimeIndex(segment) => Some(Self::TimeIndex(segment.0)),
            PartitionFile::TransactionIndex(_) => Some(Self::TransactionIndex),
            PartitionFile::ProducerSnapshot(_) => Some(Self::Snapshot),
            PartitionFile::LeaderEpochs
            | PartitionFile::Metadata
            | PartitionFile::Swap(_)
            | PartitionFile::RemoteSegments
            | PartitionFile::Leftover
            | PartitionFile::Unknown => None,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Segment(_) => "segment",
            Self::OffsetIndex(_) => "offset_index",
            Self::TimeIndex(_) => "time_index",
            Self::TransactionIndex => "transaction_index",
            Self::Snapshot => "producer_snapshot",
            Self::Checkpoint(Checkpoint::LeaderEpochs) => "leader_epochs",
            Self::Checkpoint(_) => "offset_checkpoint",
            Self::PartitionMetadata => "partition_metadata",
            Self::Properties => "meta_properties",
            Self::Catalog => "catalog",
            Self::TierSegment => "tier_segment",
        }
    }
}

/// Adds a file, or the known files of a folder and of the folders in it.
fn gather(path: &Path, depth: usize, known: &mut Vec<(PathBuf, Kind)>) -> Result<(), DumpError> {
    let meta = fs::metadata(path).map_err(DumpError::of_file(path))?;
    if !meta.is_dir() {
        return match Kind::of(path) {
            Some(kind) => {
                known.push((path.to_path_buf(), kind));
                Ok(())
            }
            // Beside known ones, unknown files are nobody's business.
            None if depth > 0 => Ok(()),
            None => Err(DumpError::UnknownName { path: path.to_path_buf() }),
        };
    }
    let before = known.len();
    let entries = fs::read_dir(path).map_err(DumpError::of_file(path))?;
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(entry.map_err(DumpError::of_file(path))?.path());
    }
    paths.sort();
    for inner in paths {
        if depth < FOLDERS_DEEP_MAX || !inner.is_dir() {
            gather(&inner, depth + 1, known)?;
        }
    }
    if depth == 0 && known.len() == before {
        return Err(DumpError::NothingIn { path: path.to_path_buf() });
    }
    Ok(())
}

fn dump_file(path: &Path, kind: Kind, args: &DumpArgs, out: &mut dyn Write) -> Result<Option<String>, DumpError> {
    if kind == Kind::TierSegment {
        return dump_tier::dump(path, args, out);
    }
    let read = DumpError::of_file(path);
    let file_bytes = fs::metadata(path).map_err(&read)?.len();
    let name = path.display().to_string();
    let file =
        FileDump::begin(out, args.output, name, kind.name(), file_bytes, args.limit).map_err(DumpError::Output)?;
    if let Kind::Segment(base) = kind {
        return dump_segment::dump(&SegmentPlace::file(path), base, args, file);
    }
    // Everything but a segment is small: an index has an entry for every few kilobytes of its segment.
    let mut bytes = Vec::new();
    let opened = File::open(path).map_err(&read)?;
    opened.take(SMALL_FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(&read)?;
    if bytes.len() as u64 > SMALL_FILE_BYTES_MAX {
        return Err(read(io::Error::new(io::ErrorKind::FileTooLarge, "over 1 GiB: no such file is that large")));
    }
    let text = || String::from_utf8_lossy(&bytes);
    let beside = SegmentPlace::file(&path.with_extension("log"));
    match kind {
        Kind::Segment(_) | Kind::TierSegment => Ok(None),
        Kind::OffsetIndex(base) => dump_index::dump_offsets(&beside, &bytes, base, args, file),
        Kind::TimeIndex(base) => dump_index::dump_times(&beside, &bytes, base, args, file),
        Kind::TransactionIndex => dump_producers::dump_aborted(&bytes, args.offset, file),
        Kind::Snapshot => dump_producers::dump_snapshot(&bytes, file),
        Kind::Checkpoint(kind) => dump_text::dump_checkpoint(kind, &text(), file),
        Kind::PartitionMetadata => dump_text::dump_partition_metadata(&text(), file),
        Kind::Properties => dump_text::dump_properties(&text(), file),
        Kind::Catalog => dump_catalog::dump(&bytes, file),
    }
}

const META_PROPERTIES: &str = "meta.properties";
const CATALOG: &str = "alluvium.catalog";
/// A data directory, its partitions, their files.
const FOLDERS_DEEP_MAX: usize = 2;
const SMALL_FILE_BYTES_MAX: u64 = 1 << 30;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::OutputFormat;

    const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/log");
    const LOG: &str = "golden-log-0/00000000000000000000.log";

    fn args(files: Vec<PathBuf>) -> DumpArgs {
        DumpArgs { files, output: OutputFormat::Json, deep: true, print_records: true, offset: None, limit: None }
    }

    fn dump(args: &DumpArgs) -> (Result<(), DumpError>, Vec<serde_json::Value>) {
        let mut out = Vec::new();
        let done = dump_to(args, &mut out);
        let text = String::from_utf8(out).expect("text");
        (done, text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect())
    }

    /// A copy of the golden folder.
    fn copied() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a scratch folder");
        for entry in fs::read_dir(Path::new(GOLDEN).join("golden-log-0")).expect("golden files") {
            let path = entry.expect("golden files").path();
            fs::copy(&path, folder.path().join(path.file_name().expect("a name"))).expect("a copy");
        }
        folder
    }

    #[test]
    fn all_that_kafka_wrote_is_whole() {
        let (done, rows) = dump(&args(vec![PathBuf::from(GOLDEN)]));
        done.expect("whole");
        let of_kind = |kind: &str| rows.iter().filter(|row| row["kind"] == kind).count();
        assert_eq!((of_kind("batch"), of_kind("record"), of_kind("problem")), (18, 90, 0));
        assert_eq!((of_kind("producer"), of_kind("epoch")), (6, 1));
        assert_eq!(of_kind("file"), 9);
        assert_eq!(of_kind("end"), 9);
        assert_eq!(of_kind("entry"), 22);
    }

    #[test]
    fn a_segment_reads_as_kafkas_dump_tool_reads_it() {
        let (done, rows) = dump(&args(vec![Path::new(GOLDEN).join(LOG)]));
        done.expect("whole");
        let theirs = fs::read_to_string(Path::new(GOLDEN).join("dump.txt")).expect("golden");
        let theirs: Vec<&str> = theirs.lines().filter(|line| line.starts_with("baseOffset: ")).collect();
        let ours: Vec<_> = rows.iter().filter(|row| row["kind"] == "batch").collect();
        assert_eq!(ours.len(), theirs.len());
        let names = [
            ("baseOffset:", "base_offset"),
            ("lastOffset:", "last_offset"),
            ("count:", "count"),
            ("baseSequence:", "base_sequence"),
            ("lastSequence:", "last_sequence"),
            ("producerId:", "producer_id"),
            ("producerEpoch:", "producer_epoch"),
            ("partitionLeaderEpoch:", "leader_epoch"),
            ("isTransactional:", "transactional"),
            ("isControl:", "control"),
            ("position:", "position"),
            ("CreateTime:", "max_timestamp"),
            ("size:", "size"),
            ("compresscodec:", "codec"),
            ("isvalid:", "crc_ok"),
        ];
        for (ours, theirs) in ours.iter().zip(theirs) {
            for (name, field) in names {
                let word = theirs.split_whitespace().skip_while(|word| *word != name).nth(1);
                let value = ours[field].as_str().map_or_else(|| ours[field].to_string(), str::to_owned);
                assert_eq!(Some(value.as_str()), word, "{name} in {theirs}");
            }
        }
    }

    #[test]
    fn a_segment_of_the_tier_is_shown_section_by_section() {
        let tier = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/tier");
        let (done, rows) = dump(&args(vec![tier.clone()]));
        done.expect("whole");
        let of_kind = |kind: &str| rows.iter().filter(|row| row["kind"] == kind).count();
        assert_eq!((of_kind("section"), of_kind("file"), of_kind("problem")), (6, 7, 0), "{rows:?}");
        assert_eq!((of_kind("producer"), of_kind("epoch"), of_kind("aborted")), (3, 1, 9));
        let folder = tempfile::tempdir().expect("a scratch folder");
        let inner = folder.path().join("orders-3--_v7-_v7-_v7-_v7-_v7-w");
        fs::create_dir(&inner).expect("a scratch folder");
        let good =
            fs::read(tier.join(inner.file_name().expect("a name")).join("AAECAwQFBgcICQoLDA0ODw")).expect("golden");
        let path = inner.join("AAECAwQFBgcICQoLDA0ODw");
        for at in (0..good.len()).step_by(29) {
            let mut flipped = good.clone();
            flipped[at] ^= 1 << (at % 7);
            fs::write(&path, &flipped).expect("a scratch file");
            let _ = dump(&args(vec![path.clone()]));
        }
        fs::write(&path, [&[1], &good[1..]].concat()).expect("a scratch file");
        let error = dump(&args(vec![path])).0.expect_err("another version").to_string();
        assert!(error.contains("version byte 1"), "{error}");
    }

    #[test]
    fn a_range_shows_what_it_names() {
        let mut args = args(vec![Path::new(GOLDEN).join(LOG)]);
        (args.offset, args.limit, args.print_records) = (Some(47), Some(2), false);
        let (done, rows) = dump(&args);
        done.expect("whole");
        let bases: Vec<_> = rows.iter().filter_map(|row| row["base_offset"].as_i64()).collect();
        assert_eq!(bases, [45, 50]);
        assert!(rows.last().is_some_and(|row| row["stopped_by_limit"] == true && row["unchecked_before"] == 9));
    }

    /// Whatever a byte becomes and wherever a file ends: an answer, never a panic; and where a checksum or a neighbour can
    /// tell, the answer is that it is not whole.
    #[test]
    fn damaged_files_say_so_and_never_panic() {
        let folder = copied();
        let names = ["log", "index", "timeindex"].map(|extension| format!("00000000000000000000.{extension}"));
        let names =
            names.into_iter().chain(["00000000000000000090.snapshot", "leader-epoch-checkpoint"].map(str::to_owned));
        for name in names {
            let path = folder.path().join(&name);
            let good = fs::read(&path).expect("a copy");
            let args = args(vec![path.clone()]);
            for cut in (0..good.len()).step_by(if good.len() > 1000 { 37 } else { 1 }) {
                fs::write(&path, &good[..cut]).expect("a scratch file");
                let (done, rows) = dump(&args);
                let at_entry = match name.rsplit('.').next() {
                    Some("log") => rows.last().is_some_and(|row| row["bytes"] == cut),
                    Some("index") => cut % 8 == 0,
                    Some("timeindex") => cut % 12 == 0,
                    // The last digit and the line's end may go without a trace.
                    Some("leader-epoch-checkpoint") => cut + 1 >= good.len(),
                    _ => false,
                };
                assert_eq!(done.is_ok(), at_entry, "{name} cut at {cut}: {rows:?}");
            }
            for at in (0..good.len()).step_by(if good.len() > 1000 { 13 } else { 1 }) {
                let mut flipped = good.clone();
                flipped[at] ^= 1 << (at % 7);
                fs::write(&path, &flipped).expect("a scratch file");
                let (done, _) = dump(&args);
                // An entry's offset may become another one of the same batch: nothing can tell.
                let must_show = match name.rsplit('.').next() {
                    Some("index") => at % 8 >= 4,
                    Some("timeindex") => at % 12 < 8,
                    Some("snapshot") => true,
                    _ => false,
                };
                assert!(done.is_err() || !must_show, "{name} with a flip at {at}");
            }
            fs::write(&path, &good).expect("a scratch file");
            let (done, _) = dump(&args);
            done.unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }

    #[test]
    fn every_flip_under_a_crc_is_found() {
        let folder = copied();
        let path = folder.path().join("00000000000000000000.log");
        let good = fs::read(&path).expect("a copy");
        let args = args(vec![path.clone()]);
        // The first batch: all of it but base offset and leader epoch.
        for at in (8..12).chain(16..395) {
            let mut flipped = good.clone();
            flipped[at] ^= 0x10;
            fs::write(&path, &flipped).expect("a scratch file");
            let (done, rows) = dump(&args);
            let error = done.expect_err("not whole").to_string();
            assert!(error.contains("at byte 0"), "flip at {at}: {error}");
            assert!(rows.last().is_some_and(|row| row["whole"] == false && row["good_until"] == 0), "flip at {at}");
        }
    }

    #[test]
    fn unknown_names_are_refused_with_what_to_do() {
        let folder = copied();
        let path = folder.path().join("copy.log");
        fs::write(&path, "").expect("a scratch file");
        let error = dump(&args(vec![path])).0.expect_err("unknown").to_string();
        assert!(error.contains("00000000000000000000.log"), "{error}");
        assert!(dump(&args(vec![folder.path().join("none")])).0.is_err());
        // In a folder they are passed over.
        dump(&args(vec![folder.path().to_path_buf()])).0.expect("whole");
    }
}
