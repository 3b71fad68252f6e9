//! Records as compaction sees them: key, whether there is a value, bytes.

use std::ops::Range;

use crate::record::batch::BatchHeader;
use crate::record::batch_error::{BatchError, Invalidity};
use crate::record::record_fields::{varint, varlong};

/// One record of a batch. What follows its key and value is not looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyedRecord<'a> {
    /// Its key; `None` is null.
    pub key: Option<&'a [u8]>,
    /// False for a tombstone.
    pub has_value: bool,
    /// Offset, less the batch's base offset.
    pub offset_delta: i32,
    /// Timestamp, less the batch's base timestamp.
    pub timestamp_delta_ms: i64,
    /// Where it lies among the batch's plain records, its length field included.
    pub range: Range<usize>,
    /// Where its key's length begins.
    pub(in crate::record) key_at: usize,
}

/// A walk over the plain records of a batch that can stop between any two.
#[derive(Clone, Debug)]
pub struct RecordCursor {
    at: usize,
    left: i32,
}

impl RecordCursor {
    /// At the first record of a batch with this header.
    pub fn new(header: &BatchHeader) -> Self {
        Self { at: 0, left: header.record_count.max(0) }
    }

    /// How far it has come among the records' bytes.
    pub fn position(&self) -> usize {
        self.at
    }

    /// The next record; `records` are all plain records of the batch, the same at each call.
    ///
    /// # Errors
    /// `Invalid(Record)` where a record is malformed, or there are more or fewer than the header says.
    pub fn next<'a>(&mut self, records: &'a [u8]) -> Result<Option<KeyedRecord<'a>>, BatchError> {
        if self.left == 0 {
            return if self.at == records.len() { Ok(None) } else { Err(Invalidity::Record.into()) };
        }
        let record = parse(records, self.at).ok_or(Invalidity::Record)?;
        self.at = record.range.end;
        self.left -= 1;
        Ok(Some(record))
    }
}

#[inline]
fn parse(records: &[u8], start: usize) -> Option<KeyedRecord<'_>> {
    let mut at = start;
    let body_bytes = usize::try_from(varint(records, &mut at)?).ok()?;
    let end = at.checked_add(body_bytes)?;
    let record = records.get(..end)?;
    at += 1; // attributes: no bit of them is in use
    let timestamp_delta_ms = varlong(record, &mut at)?;
    let offset_delta = varint(record, &mut at)?;
    let key_at = at;
    let key = match usize::try_from(varint(record, &mut at)?) {
        Ok(key_bytes) => {
            let key = record.get(at..at.checked_add(key_bytes)?)?;
            at += key_bytes;
            Some(key)
        }
        Err(_) => None,
    };
    let has_value = varint(record, &mut at)? >= 0;
    Some(KeyedRecord { key, has_value, offset_delta, timestamp_delta_ms, range: start..end, key_at })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::batch::{HEADER_BYTES, parse_header};
    use crate::record::builder::BatchBuilder;

    #[test]
    fn records_are_walked_and_damage_is_an_error() {
        let mut builder = BatchBuilder::new();
        builder.add(100, Some(b"a"), Some(b"1"));
        builder.add(90, Some(b""), None);
        builder.add_with_headers(300, None, Some(b""), &[(b"h", Some(b"v"))]);
        let bytes = builder.build().expect("uncompressed");
        let (header, records) = (parse_header(&bytes).expect("built"), &bytes[HEADER_BYTES..]);
        let mut cursor = RecordCursor::new(&header);
        let mut seen = Vec::new();
        while let Some(record) = cursor.next(records).expect("well-formed") {
            seen.push((record.key, record.has_value, record.offset_delta, record.timestamp_delta_ms));
        }
        let wanted = [(Some(&b"a"[..]), true, 0, 0), (Some(&b""[..]), false, 1, -10), (None, true, 2, 200)];
        assert_eq!(seen, wanted);
        assert_eq!(cursor.position(), records.len());
        for cut in 0..records.len() {
            let mut cursor = RecordCursor::new(&header);
            let end = loop {
                match cursor.next(&records[..cut]) {
                    Ok(Some(_)) => {}
                    end => break end,
                }
            };
            assert!(end.is_err(), "cut at {cut}");
        }
    }
}
