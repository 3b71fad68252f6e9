//! The head of a Fetch answer for one partition: all that comes before its records.

use crate::wire::api_keys::ApiKey;
use crate::wire::frame::FRAME_PREFIX_BYTES;
use crate::wire::reader::{DecodeError, Reader};

use super::connection;

/// What a Fetch answer of versions 4 to 12 says before the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchHead {
    /// Kafka's error code, of the partition or of the whole answer.
    pub error_code: i16,
    /// The request that it answers.
    pub correlation_id: i32,
    /// Readable up to here.
    pub high_watermark: i64,
    /// How many bytes of records follow.
    pub records_bytes: usize,
    /// Where they begin, the length prefix of the frame included.
    pub records_start: usize,
    /// Where the frame ends, its length prefix included.
    pub frame_bytes: usize,
}

impl FetchHead {
    /// Reads the head of a frame that may be cut off anywhere; `None` until enough of it is there.
    pub fn parse(bytes: &[u8], version: i16) -> Result<Option<Self>, DecodeError> {
        let Some((prefix, rest)) = bytes.split_first_chunk::<FRAME_PREFIX_BYTES>() else {
            return Ok(None);
        };
        let frame_bytes = FRAME_PREFIX_BYTES + u32::from_be_bytes(*prefix) as usize;
        match Self::parse_body(rest, version) {
            Ok(mut head) => {
                head.frame_bytes = frame_bytes;
                Ok(Some(head))
            }
            // More of the frame may yet come.
            Err(DecodeError::Truncated { .. } | DecodeError::ArrayTooLong { .. }) if bytes.len() < frame_bytes => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn parse_body(body: &[u8], version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= 12;
        let mut reader = Reader::new(body);
        let correlation_id = connection::read_response_header(&mut reader, ApiKey::Fetch, version)?;
        reader.int32("throttle_time_ms")?;
        let mut head = Self {
            error_code: 0,
            correlation_id,
            high_watermark: -1,
            records_bytes: 0,
            records_start: 0,
            frame_bytes: 0,
        };
        if version >= 7 {
            head.error_code = reader.int16("error_code")?;
            reader.int32("session_id")?;
        }
        if reader.array_length("responses", flexible, 0)? == 0 {
            return Ok(head);
        }
        reader.string("topic", flexible)?;
        if reader.array_length("partitions", flexible, 0)? == 0 {
            return Ok(head);
        }
        reader.int32("partition_index")?;
        let code = reader.int16("error_code")?;
        if head.error_code == 0 {
            head.error_code = code;
        }
        head.high_watermark = reader.int64("high_watermark")?;
        reader.int64("last_stable_offset")?;
        if version >= 5 {
            reader.int64("log_start_offset")?;
        }
        let aborted = reader.nullable_array_length("aborted_transactions", flexible, 0)?;
        for _ in 0..aborted.unwrap_or(0) {
            reader.int64("producer_id")?;
            reader.int64("first_offset")?;
            if flexible {
                reader.skip_tagged_fields()?;
            }
        }
        if version >= 11 {
            reader.int32("preferred_read_replica")?;
        }
        let length = if flexible {
            i64::from(reader.unsigned_varint("records")?) - 1
        } else {
            i64::from(reader.int32("records")?)
        };
        head.records_bytes = usize::try_from(length).unwrap_or(0);
        head.records_start = FRAME_PREFIX_BYTES + reader.position_bytes();
        Ok(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::frame;
    use crate::wire::messages::fetch_response::{
        AbortedTransaction, FetchResponse, FetchableTopicResponse, PartitionData,
    };

    fn answer(version: i16, records: Option<&[u8]>, error_code: i16) -> Vec<u8> {
        let mut out = Vec::new();
        let header = ApiKey::Fetch.response_header_version(version);
        let open = frame::begin_frame(&mut out, 77, header);
        let response = FetchResponse {
            responses: vec![FetchableTopicResponse {
                topic: "topic",
                partitions: vec![PartitionData {
                    partition_index: 3,
                    error_code,
                    high_watermark: 1000,
                    aborted_transactions: Some(vec![AbortedTransaction { producer_id: 1, first_offset: 2 }]),
                    records,
                    ..PartitionData::default()
                }],
                ..FetchableTopicResponse::default()
            }],
            ..FetchResponse::default()
        };
        response.encode(&mut out, version).expect("short");
        open.end(&mut out).expect("short");
        out
    }

    #[test]
    fn heads_end_where_records_begin() {
        let records = [0xab; 300];
        for version in 4..=12 {
            let frame = answer(version, Some(&records), 0);
            let head = FetchHead::parse(&frame, version).expect("well-formed").expect("whole");
            assert_eq!((head.correlation_id, head.error_code, head.high_watermark), (77, 0, 1000), "{version}");
            assert_eq!(head.frame_bytes, frame.len(), "{version}");
            let end = head.records_start + head.records_bytes;
            assert_eq!(frame.get(head.records_start..end), Some(&records[..]), "{version}");
            for cut in 0..head.records_start {
                assert_eq!(FetchHead::parse(&frame[..cut], version), Ok(None), "{version} cut at {cut}");
            }
            let cut = FetchHead::parse(&frame[..head.records_start], version);
            assert_eq!(cut, Ok(Some(head)), "{version}");
        }
    }

    #[test]
    fn errors_and_empty_answers_have_no_records() {
        for version in [4, 11, 12] {
            let frame = answer(version, None, 6);
            let head = FetchHead::parse(&frame, version).expect("well-formed").expect("whole");
            assert_eq!((head.error_code, head.records_bytes), (6, 0), "{version}");
        }
        let mut out = Vec::new();
        let open = frame::begin_frame(&mut out, 1, 0);
        FetchResponse { error_code: 70, ..FetchResponse::default() }.encode(&mut out, 7).expect("short");
        open.end(&mut out).expect("short");
        let head = FetchHead::parse(&out, 7).expect("well-formed").expect("whole");
        assert_eq!((head.error_code, head.records_bytes, head.frame_bytes), (70, 0, out.len()));
    }
}
