//! What cores say to each other: owned values, in questions that each get one answer.

use std::ops::Range;

use crate::control::catalog::Command;
use crate::control::catalog_error::CatalogError;
use crate::control::snapshot::Snapshot;

/// A question from one core to another.
pub enum Question {
    /// To the controller's core: change the catalog.
    Propose {
        /// The change.
        command: Command,
        /// Only say what would come of it.
        validate_only: bool,
    },
    /// To the controller's core: a block of producer ids that nobody else gets.
    ProducerIds,
    /// A data directory has failed.
    DirectoryFailed {
        /// Its index in the options.
        at: usize,
    },
    /// From the controller's core: take this snapshot, and host what it places on you.
    Take(Snapshot),
}

/// The answer to one question.
pub enum Answer {
    /// The change is durable, and every core has it.
    Proposed(Result<Snapshot, ProposeError>),
    /// The block, durably given away.
    ProducerIds(Result<Range<i64>, ProposeError>),
    /// The snapshot, or the failure of a directory, is in force on the core that answers.
    Taken,
}

/// Why the catalog was not changed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ProposeError {
    /// The catalog refuses the command.
    #[error(transparent)]
    Refused(#[from] CatalogError),
    /// The catalog's file could not be written.
    #[error(
        "the catalog could not be written: {reason}; check the disk of the data directory that has it, then try again"
    )]
    Storage {
        /// The error of the disk.
        reason: String,
    },
    /// Too many changes are under way.
    #[error("the controller's core has too many changes under way; try again")]
    Busy,
    /// The server stops.
    #[error("the server is stopping")]
    Stopping,
}
