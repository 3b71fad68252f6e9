//! The states of a transaction, by Kafka's names and numbers.

/// How far a transactional id's latest transaction is.
///
/// ```text
/// Empty -> Ongoing -> PrepareCommit -> CompleteCommit -> Ongoing ...
///             |  '---> PrepareAbort --> CompleteAbort --> Ongoing ...
///             '- (time-out, or a new producer of the same id: its epoch rises, then PrepareAbort)
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionState {
    /// It has a producer and no transaction.
    Empty,
    /// Partitions were added.
    Ongoing,
    /// It will be committed, whatever happens: markers are being written.
    PrepareCommit,
    /// It will be aborted.
    PrepareAbort,
    /// Committed; all markers are durable.
    CompleteCommit,
    /// Aborted; all markers are durable.
    CompleteAbort,
    /// Its id has expired. In no log.
    Dead,
    /// Its producer is being fenced. In no log.
    PrepareEpochFence,
}

impl TransactionState {
    /// All of them, by number.
    pub const ALL: [Self; 8] = [
        Self::Empty,
        Self::Ongoing,
        Self::PrepareCommit,
        Self::PrepareAbort,
        Self::CompleteCommit,
        Self::CompleteAbort,
        Self::Dead,
        Self::PrepareEpochFence,
    ];

    /// The number in a record.
    pub fn code(self) -> i8 {
        match self {
            Self::Empty => 0,
            Self::Ongoing => 1,
            Self::PrepareCommit => 2,
            Self::PrepareAbort => 3,
            Self::CompleteCommit => 4,
            Self::CompleteAbort => 5,
            Self::Dead => 6,
            Self::PrepareEpochFence => 7,
        }
    }

    /// The state of this number.
    pub fn of_code(code: i8) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.code() == code)
    }

    /// As Kafka's tools print it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::Ongoing => "Ongoing",
            Self::PrepareCommit => "PrepareCommit",
            Self::PrepareAbort => "PrepareAbort",
            Self::CompleteCommit => "CompleteCommit",
            Self::CompleteAbort => "CompleteAbort",
            Self::Dead => "Dead",
            Self::PrepareEpochFence => "PrepareEpochFence",
        }
    }

    /// The state of this name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }

    /// Decided, and not all markers are known to be durable.
    pub fn is_prepared(self) -> bool {
        matches!(self, Self::PrepareCommit | Self::PrepareAbort)
    }
}
