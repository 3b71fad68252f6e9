//! What a request comes to: a reply in parts, silence, or the end of its connection.

use crate::ring::send_queue::Part;
use crate::wire::frame;
use crate::wire::writer::EncodeError;

use crate::api::context::RequestContext;

/// How a request ends.
pub enum Outcome {
    /// A whole frame.
    Bytes(Vec<u8>),
    /// A whole frame, some of it ranges of files.
    Parts(Vec<Part>),
    /// Nothing is sent (a produce with acks=0).
    NoReply,
    /// The connection closes, after the replies to the requests before it; the reason goes to the log.
    Close(String),
}

impl Outcome {
    /// A frame with one message, which `encode` appends.
    pub fn message(
        context: &RequestContext,
        encode: impl FnOnce(&mut Vec<u8>, i16) -> Result<(), EncodeError>,
    ) -> Self {
        let mut out = Vec::with_capacity(REPLY_BYTES_GUESS);
        let header_version = context.api_key.response_header_version(context.api_version);
        let open = frame::begin_frame(&mut out, context.correlation_id, header_version);
        match encode(&mut out, context.api_version).and_then(|()| open.end(&mut out)) {
            Ok(()) => Self::Bytes(out),
            Err(error) => Self::Close(format!(
                "the reply to {} v{} could not be encoded: {error}",
                context.api_key.name(),
                context.api_version
            )),
        }
    }
}

/// Most replies are shorter; a longer one grows.
const REPLY_BYTES_GUESS: usize = 256;
