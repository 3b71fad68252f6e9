//! Why a command or a record is refused.

use thiserror::Error;

use crate::control::config_value::ConfigError;
use crate::control::id::CoreIndex;
use crate::control::placement::PlacementError;
use crate::control::topic_name::TopicNameError;
use crate::record::offset::TopicId;

/// Why a command is refused; the text is Kafka's, the code is in each variant's words.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CatalogError {
    /// INVALID_TOPIC_EXCEPTION (17).
    #[error(transparent)]
    TopicName(#[from] TopicNameError),
    /// TOPIC_ALREADY_EXISTS (36).
    #[error("Topic '{name}' already exists.")]
    TopicExists {
        /// The topic.
        name: String,
    },
    /// INVALID_REQUEST (42).
    #[error("Creation of internal topic {name} is prohibited.")]
    InternalTopic {
        /// The topic.
        name: String,
    },
    /// UNKNOWN_TOPIC_OR_PARTITION (3), or UNKNOWN_TOPIC_ID (100) where the request named an id.
    #[error("This server does not host this topic-partition.")]
    UnknownTopic,
    /// Counts, factors and assignments: codes in [`PlacementError`].
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// INVALID_CONFIG (40).
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// INVALID_REPLICA_ASSIGNMENT (39): a move to a core that the server does not run.
    #[error("Core {core} does not run on this server.")]
    UnknownCore {
        /// The core.
        core: CoreIndex,
    },
    /// Make another id, or refuse a second topic that a client wants under one.
    #[error("The topic id {topic_id} is taken.")]
    TopicIdTaken {
        /// The id.
        topic_id: TopicId,
    },
    /// A start needs at least one core and one directory; other commands need a start.
    #[error("The server has no core or no data directory to place partitions on.")]
    NoPlace,
    /// Nothing is left: producer ids to 2^63, epochs to 2^31.
    #[error("The {what} are used up.")]
    UsedUp {
        /// Producer ids or leader epochs.
        what: &'static str,
    },
}

/// A record that does not fit the state that it meets: from a file, damage that no CRC shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RecordMismatch {
    /// It is about a topic or a partition that is not there.
    #[error("it changes a topic or partition that is not there")]
    Unknown,
    /// It makes what is there already, or has no partition.
    #[error("it makes something that is there already or cannot be")]
    Exists,
    /// An epoch or a producer id would go back or past its end.
    #[error("an epoch or a producer id goes back or past its end")]
    Order,
}
