//! Frames: length prefix, request header, response header.

use thiserror::Error;

use super::api_keys::ApiKey;
use super::reader::{DecodeError, Reader};
use super::writer;

/// Why a frame cannot be read. Kafka closes the connection on each of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    /// The length prefix is negative, zero, or above what the server takes. Also what HTTP or TLS bytes look like.
    #[error("frame length {length} is not between 1 and {bytes_max}")]
    Length {
        /// The announced length.
        length: i32,
        /// The longest frame allowed (`socket.request.max.bytes`).
        bytes_max: u32,
    },
    /// A key that Kafka 4.4.0 does not have.
    #[error("unknown API key {api_key}, version {api_version}")]
    UnknownApiKey {
        /// The key.
        api_key: i16,
        /// The version that came with it.
        api_version: i16,
    },
    /// The header is cut off or ill-formed.
    #[error("request header: {0}")]
    Header(#[from] DecodeError),
}

/// The header of a request, versions 1 and 2 (Kafka 4 has no request with version 0).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHeader<'a> {
    /// The API.
    pub api_key: ApiKey,
    /// The version of the request; not yet checked against what is served.
    pub api_version: i16,
    /// Goes back in the response as it is.
    pub correlation_id: i32,
    /// What the client calls itself. Kafka treats null like an empty name; bytes that are no UTF-8 become
    /// [`ILL_FORMED`](super::reader::ILL_FORMED).
    pub client_id: Option<&'a str>,
    /// Where the body begins in the frame.
    pub body_start: usize,
}

/// Checks the four bytes before a frame; returns how many bytes follow.
pub fn frame_length(prefix: [u8; FRAME_PREFIX_BYTES], bytes_max: u32) -> Result<usize, FrameError> {
    let length = i32::from_be_bytes(prefix);
    match u32::try_from(length) {
        Ok(bytes) if bytes > 0 && bytes <= bytes_max => Ok(bytes as usize),
        _ => Err(FrameError::Length { length, bytes_max }),
    }
}

impl<'a> RequestHeader<'a> {
    /// Reads the header at the start of a frame (without its length prefix).
    ///
    /// An unserved version of a known API is no error here: for ApiVersions it has an answer of its own.
    pub fn parse(frame: &'a [u8]) -> Result<Self, FrameError> {
        let mut reader = Reader::new(frame);
        let key = reader.int16("request_api_key")?;
        let api_version = reader.int16("request_api_version")?;
        let correlation_id = reader.int32("correlation_id")?;
        let api_key = ApiKey::from_key(key).ok_or(FrameError::UnknownApiKey { api_key: key, api_version })?;
        // The client id has a 16-bit length even in the flexible header, so that an old server can read it.
        let client_id = reader.nullable_string("client_id", false)?;
        if api_key.request_header_version(api_version) >= 2 {
            reader.skip_tagged_fields()?;
        }
        Ok(Self { api_key, api_version, correlation_id, client_id, body_start: reader.position_bytes() })
    }

    /// Appends the header as a client sends it.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), writer::EncodeError> {
        writer::int16(out, self.api_key.key());
        writer::int16(out, self.api_version);
        writer::int32(out, self.correlation_id);
        writer::nullable_string(out, "client_id", self.client_id, false)?;
        if self.api_key.request_header_version(self.api_version) >= 2 {
            writer::unsigned_varint(out, 0);
        }
        Ok(())
    }
}

/// A frame begun in an output buffer whose length is not yet known. Dropping it leaves a frame of length zero.
#[derive(Debug)]
#[must_use = "end the frame, or its length stays zero"]
pub struct OpenFrame {
    start: usize,
}

/// Appends a length of zero and a response header of this version (0 or 1); the body is appended after it.
#[inline]
pub fn begin_frame(out: &mut Vec<u8>, correlation_id: i32, header_version: i16) -> OpenFrame {
    let frame = begin_request_frame(out);
    writer::int32(out, correlation_id);
    if header_version >= 1 {
        writer::unsigned_varint(out, 0);
    }
    frame
}

/// Appends a length of zero; header and body are appended after it.
#[inline]
pub fn begin_request_frame(out: &mut Vec<u8>) -> OpenFrame {
    let start = out.len();
    out.extend_from_slice(&[0; FRAME_PREFIX_BYTES]);
    OpenFrame { start }
}

impl OpenFrame {
    /// Where the length prefix is in the output; cutting the output here undoes the frame.
    pub const fn start(&self) -> usize {
        self.start
    }

    /// Writes the length of all that was appended since the frame was begun.
    #[inline]
    pub fn end(self, out: &mut [u8]) -> Result<(), writer::EncodeError> {
        self.end_with(out, 0)
    }

    /// The same where `extra_bytes` belong to the frame that are not in `out`: file ranges sent between its parts.
    #[inline]
    pub fn end_with(self, out: &mut [u8], extra_bytes: u64) -> Result<(), writer::EncodeError> {
        let written = out.len().saturating_sub(self.start + FRAME_PREFIX_BYTES) as u64;
        let total = written.saturating_add(extra_bytes);
        let too_long = writer::EncodeError::TooLong { field: "frame", length: total as usize };
        let length = i32::try_from(total).map_err(|_| too_long)?;
        if let Some(prefix) = out.get_mut(self.start..).and_then(|rest| rest.first_chunk_mut()) {
            *prefix = length.to_be_bytes();
        }
        Ok(())
    }
}

/// How many bytes of length come before a frame.
pub const FRAME_PREFIX_BYTES: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_bounded() {
        let cases =
            [(1, true), (100, true), (101, false), (0, false), (-1, false), (i32::MIN, false), (i32::MAX, false)];
        for (length, good) in cases {
            assert_eq!(frame_length(length.to_be_bytes(), 100).is_ok(), good, "{length}");
        }
        for garbage in [*b"GET ", [0x16, 3, 1, 2]] {
            assert!(frame_length(garbage, 100 << 20).is_err(), "{garbage:?}");
        }
    }

    #[test]
    fn headers_come_back() {
        for (api_key, api_version, client_id) in [
            (ApiKey::Metadata, 4, Some("kcat")),
            (ApiKey::Metadata, 9, None),
            (ApiKey::ApiVersions, 99, Some("")),
            (ApiKey::SaslHandshake, -5, Some("x")),
        ] {
            let header = RequestHeader { api_key, api_version, correlation_id: -7, client_id, body_start: 0 };
            let mut out = Vec::new();
            header.encode(&mut out).expect("short client id");
            for cut in 0..out.len() {
                assert!(RequestHeader::parse(&out[..cut]).is_err(), "{header:?} cut at {cut}");
            }
            assert_eq!(RequestHeader::parse(&out), Ok(RequestHeader { body_start: out.len(), ..header }));
        }
    }

    #[test]
    fn an_ill_formed_client_id_is_no_error() {
        let frame = [0, 18, 0, 0, 0, 0, 0, 1, 0, 2, 0xff, 0xfe];
        let header = RequestHeader::parse(&frame).expect("header");
        assert_eq!((header.client_id, header.body_start), (Some("\u{fffd}"), 12));
    }

    #[test]
    fn unknown_keys_are_errors() {
        let frame = [0x27, 0x0f, 0, 3, 0, 0, 0, 1, 0, 0];
        assert_eq!(RequestHeader::parse(&frame), Err(FrameError::UnknownApiKey { api_key: 9999, api_version: 3 }));
    }

    #[test]
    fn the_length_counts_file_ranges_too() {
        let mut out = vec![9; 3];
        let frame = begin_frame(&mut out, 0x0102_0304, 1);
        out.extend_from_slice(b"body");
        frame.end_with(&mut out, 1000).expect("fits");
        assert_eq!(out, [&[9, 9, 9], &1009_i32.to_be_bytes()[..], &[1, 2, 3, 4, 0], b"body"].concat());

        let frame = begin_frame(&mut out, 0, 0);
        assert!(frame.end_with(&mut out, i32::MAX as u64).is_err());
    }
}
