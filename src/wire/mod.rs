//! Kafka's wire protocol: frames, headers, versions, messages.
//!
//! The messages in [`messages`] are generated from Kafka's own descriptors by `scripts/generate-wire`; [`produce`],
//! [`fetch`] and [`fetch_reply`] read and write the two hot bodies by hand so that record bytes are never copied. Everything here is pure:
//! bytes in, values out. [`metadata_reply`] writes its message in parts. Nothing panics or allocates beyond a small multiple of the bytes at hand, whatever a client sends,
//! so each `parse` and `decode` may be given to a fuzzer as it is.

pub mod api_keys;
pub mod error_code;
pub mod fetch;
pub mod fetch_reply;
pub mod frame;
pub mod messages;
pub mod metadata_reply;
pub mod produce;
pub mod reader;
pub mod topic_ref;
pub mod uuid;
pub mod writer;
