//! `alluvium dump` of a segment of the tier: its header, then each section as the file that it is a copy of.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // a command's own files

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use super::dump_args::DumpArgs;
use super::dump_error::DumpError;
use super::dump_segment::{BatchCursor, Found, SegmentPlace};
use super::dump_sink::{FileDump, Row};
use super::dump_text::{self, Checkpoint};
use super::{dump_index, dump_producers, dump_segment};
use crate::record::offset::Offset;
use crate::tier::segment_file::{HEADER_BYTES, Section, SegmentFileHeader};

/// Prints the file at `path`; says what is wrong first, where something is.
pub fn dump(path: &Path, args: &DumpArgs, out: &mut dyn Write) -> Result<Option<String>, DumpError> {
    let read = DumpError::of_file(path);
    let mut file = File::open(path).map_err(&read)?;
    let file_bytes = file.metadata().map_err(&read)?.len();
    let name = path.display().to_string();
    let mut head = Vec::with_capacity(HEADER_BYTES);
    Read::by_ref(&mut file).take(HEADER_BYTES as u64).read_to_end(&mut head).map_err(&read)?;
    let mut whole = FileDump::begin(out, args.output, name.clone(), "tier_segment", file_bytes, args.limit)
        .map_err(DumpError::Output)?;
    let header = match SegmentFileHeader::parse(&head, file_bytes) {
        Ok(header) => header,
        Err(error) => {
            whole.problem(0, error.to_string()).map_err(DumpError::Output)?;
            return whole.end(|row| row).map_err(DumpError::Output);
        }
    };
    for (section, what) in SECTIONS {
        let row = Row::new("section").with("name", what).with("position", header.position_bytes(section));
        whole.row(&row.with("bytes", header.section_bytes(section))).map_err(DumpError::Output)?;
    }
    let mut problem = whole.end(|row| row).map_err(DumpError::Output)?;
    let log = SegmentPlace::part(path, header.position_bytes(Section::Log), header.section_bytes(Section::Log));
    let base = base_of(&log).map_err(&read)?;
    for (section, what) in SECTIONS {
        let len_bytes = header.section_bytes(section);
        let part = format!("{name}#{what}");
        let dump = FileDump::begin(out, args.output, part, what, len_bytes, args.limit).map_err(DumpError::Output)?;
        let found = if section == Section::Log {
            dump_segment::dump(&log, base, args, dump)?
        } else {
            let bytes = section_of(&mut file, &header, section).map_err(&read)?;
            match section {
                Section::OffsetIndex => dump_index::dump_offsets(&log, &bytes, base, args, dump)?,
                Section::TimeIndex => dump_index::dump_times(&log, &bytes, base, args, dump)?,
                Section::TransactionIndex => dump_producers::dump_aborted(&bytes, args.offset, dump)?,
                // A segment of no producers may come without a snapshot.
                Section::ProducerSnapshot if bytes.is_empty() => dump.end(|row| row).map_err(DumpError::Output)?,
                Section::ProducerSnapshot => dump_producers::dump_snapshot(&bytes, dump)?,
                Section::LeaderEpochs | Section::Log => {
                    let text = String::from_utf8_lossy(&bytes);
                    dump_text::dump_checkpoint(Checkpoint::LeaderEpochs, &text, dump)?
                }
            }
        };
        problem = problem.or(found);
    }
    Ok(problem)
}

/// The first batch's offset, to which the offsets of the indexes are relative.
fn base_of(log: &SegmentPlace) -> io::Result<Offset> {
    Ok(match BatchCursor::open(log)?.read_header()? {
        Found::Batch(header) => header.base_offset,
        Found::End | Found::Problem(_) => Offset(0),
    })
}

fn section_of(file: &mut File, header: &SegmentFileHeader, section: Section) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(header.position_bytes(section)))?;
    file.take(header.section_bytes(section)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

const SECTIONS: [(Section, &str); 6] = [
    (Section::OffsetIndex, "offset_index"),
    (Section::TimeIndex, "time_index"),
    (Section::LeaderEpochs, "leader_epochs"),
    (Section::ProducerSnapshot, "producer_snapshot"),
    (Section::TransactionIndex, "transaction_index"),
    (Section::Log, "segment"),
];
