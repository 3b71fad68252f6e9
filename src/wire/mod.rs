//! Kafka's wire protocol: frames, headers, versions, messages.
