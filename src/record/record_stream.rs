//! The check of records that come in pieces, out of a decompressor.

use crate::record::batch_error::{BatchError, Invalidity};
use crate::record::record_fields::{
    RecordSketch, VARINT_BYTES_MAX, VARLONG_BYTES_MAX, sketch_record, varint, zigzag32, zigzag64,
};
use crate::record::record_tally::{RecordSink, RecordTally};

/// Where a stream of records stands. Keeps nothing of keys and values, so its memory does not depend on them.
#[derive(Debug, Default)]
pub(in crate::record) struct RecordStream {
    partial: Option<Partial>,
}

/// A record whose bytes do not lie in one piece, read byte by byte (keys and values are stepped over).
#[derive(Debug)]
struct Partial {
    field: Field,
    value: u64,
    value_bytes: usize,
    left_bytes: u32,
    skip_bytes: u32,
    headers_left: u32,
    sketch: RecordSketch,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Length,
    Attributes,
    Timestamp,
    OffsetDelta,
    KeyLength,
    ValueLength,
    HeaderCount,
    HeaderKeyLength,
    HeaderValueLength,
    End,
}

impl RecordStream {
    /// Takes the next bytes in.
    pub(in crate::record) fn feed(&mut self, bytes: &[u8], sink: &mut impl RecordSink) -> Result<(), BatchError> {
        let mut at = 0;
        loop {
            if let Some(partial) = &mut self.partial {
                if !partial.feed(bytes, &mut at)? {
                    return Ok(());
                }
                sink.add(partial.sketch);
                self.partial = None;
            }
            if at == bytes.len() {
                return Ok(());
            }
            if sink.left() <= 0 {
                return Err(Invalidity::Record.into());
            }
            let mut body_at = at;
            let whole = match varint(bytes, &mut body_at) {
                Some(body_bytes) => usize::try_from(body_bytes).is_ok_and(|len| len <= bytes.len() - body_at),
                None => false,
            };
            if whole {
                sink.add(sketch_record(bytes, &mut at).ok_or(Invalidity::Record)?);
            } else {
                self.partial = Some(Partial::new());
            }
        }
    }

    /// No more bytes come.
    pub(in crate::record) fn finish(&self, tally: &RecordTally) -> Result<(), BatchError> {
        if self.partial.is_some() || tally.left > 0 {
            return Err(Invalidity::Record.into());
        }
        if tally.has_gap() {
            return Err(Invalidity::InnerOffsets.into());
        }
        Ok(())
    }
}

impl Partial {
    fn new() -> Self {
        Self {
            field: Field::Length,
            value: 0,
            value_bytes: 0,
            left_bytes: 0,
            skip_bytes: 0,
            headers_left: 0,
            sketch: RecordSketch { timestamp_delta_ms: 0, offset_delta: 0, keyless: false },
        }
    }

    /// True where the record is whole.
    fn feed(&mut self, bytes: &[u8], at: &mut usize) -> Result<bool, BatchError> {
        loop {
            if self.skip_bytes > 0 {
                let skipped = (bytes.len() - *at).min(self.skip_bytes as usize);
                *at += skipped;
                self.skip_bytes -= skipped as u32;
                if self.skip_bytes > 0 {
                    return Ok(false);
                }
            }
            if self.field == Field::End {
                return if self.left_bytes == 0 { Ok(true) } else { Err(Invalidity::Record.into()) };
            }
            let Some(byte) = bytes.get(*at) else { return Ok(false) };
            *at += 1;
            self.take(*byte).ok_or(Invalidity::Record)?;
        }
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        if self.field != Field::Length {
            self.left_bytes = self.left_bytes.checked_sub(1)?;
        }
        if self.field == Field::Attributes {
            self.field = Field::Timestamp;
            return Some(());
        }
        let bytes_max = if self.field == Field::Timestamp { VARLONG_BYTES_MAX } else { VARINT_BYTES_MAX };
        self.value |= u64::from(byte & 0x7f) << (7 * self.value_bytes);
        self.value_bytes += 1;
        if byte >= 0x80 {
            return (self.value_bytes < bytes_max).then_some(());
        }
        let value = std::mem::take(&mut self.value);
        self.value_bytes = 0;
        // Bits beyond the 32nd fall off, as in Kafka's reader.
        let number = zigzag32((value & u64::from(u32::MAX)) as u32);
        self.field = match self.field {
            Field::Length => {
                self.left_bytes = u32::try_from(number).ok()?;
                Field::Attributes
            }
            Field::Attributes | Field::End => return None,
            Field::Timestamp => {
                self.sketch.timestamp_delta_ms = zigzag64(value);
                Field::OffsetDelta
            }
            Field::OffsetDelta => {
                self.sketch.offset_delta = number;
                Field::KeyLength
            }
            Field::KeyLength => {
                self.sketch.keyless = number < 0;
                self.skip(number)?;
                Field::ValueLength
            }
            Field::ValueLength => {
                self.skip(number)?;
                Field::HeaderCount
            }
            Field::HeaderCount => {
                self.headers_left = u32::try_from(number).ok().filter(|count| *count <= self.left_bytes)?;
                self.next_header()
            }
            Field::HeaderKeyLength => {
                if number < 0 {
                    return None;
                }
                self.skip(number)?;
                Field::HeaderValueLength
            }
            Field::HeaderValueLength => {
                self.skip(number)?;
                self.headers_left -= 1;
                self.next_header()
            }
        };
        Some(())
    }

    fn next_header(&self) -> Field {
        if self.headers_left == 0 { Field::End } else { Field::HeaderKeyLength }
    }

    /// Steps over a field of `len_bytes` (negative: null) within the record.
    fn skip(&mut self, len_bytes: i32) -> Option<()> {
        self.skip_bytes = u32::try_from(len_bytes).unwrap_or(0);
        self.left_bytes = self.left_bytes.checked_sub(self.skip_bytes)?;
        Some(())
    }
}
