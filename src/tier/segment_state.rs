//! The states of a remote segment, and which may follow which (KIP-405).

use std::fmt;

/// Where a remote segment is in its life. The numbers are Kafka's ids.
///
/// ```text
/// (none) -> CopyStarted -> CopyFinished -> DeleteStarted -> DeleteFinished
///                |                              ^
///                +------------------------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SegmentState {
    /// A copy was begun; what is in the store, if anything, does not count.
    CopyStarted = 0,
    /// The copy is whole and has its name: it is read, and counts for retention.
    CopyFinished = 1,
    /// It is being deleted, and is not read any more.
    DeleteStarted = 2,
    /// Nothing of it is left.
    DeleteFinished = 3,
}

impl SegmentState {
    /// The state with this id.
    #[must_use]
    pub fn from_id(id: u8) -> Option<Self> {
        match id {
            0 => Some(Self::CopyStarted),
            1 => Some(Self::CopyFinished),
            2 => Some(Self::DeleteStarted),
            3 => Some(Self::DeleteFinished),
            _ => None,
        }
    }

    /// Whether a segment in state `from` (`None`: not known yet) may come to this one. To stay in a state is allowed.
    #[must_use]
    pub fn may_follow(self, from: Option<Self>) -> bool {
        match from {
            None => self == Self::CopyStarted,
            Some(from) if from == self => true,
            Some(Self::CopyStarted) => matches!(self, Self::CopyFinished | Self::DeleteStarted),
            Some(Self::CopyFinished) => self == Self::DeleteStarted,
            Some(Self::DeleteStarted) => self == Self::DeleteFinished,
            Some(Self::DeleteFinished) => false,
        }
    }
}

impl fmt::Display for SegmentState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CopyStarted => "COPY_SEGMENT_STARTED",
            Self::CopyFinished => "COPY_SEGMENT_FINISHED",
            Self::DeleteStarted => "DELETE_SEGMENT_STARTED",
            Self::DeleteFinished => "DELETE_SEGMENT_FINISHED",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transitions_are_kafkas() {
        use SegmentState::{CopyFinished, CopyStarted, DeleteFinished, DeleteStarted};
        let all = [None, Some(CopyStarted), Some(CopyFinished), Some(DeleteStarted), Some(DeleteFinished)];
        let legal: Vec<(Option<SegmentState>, SegmentState)> = all
            .iter()
            .flat_map(|from| all.iter().flatten().map(move |to| (*from, *to)))
            .filter(|(from, to)| to.may_follow(*from))
            .collect();
        let expected = [
            (None, CopyStarted),
            (Some(CopyStarted), CopyStarted),
            (Some(CopyStarted), CopyFinished),
            (Some(CopyStarted), DeleteStarted),
            (Some(CopyFinished), CopyFinished),
            (Some(CopyFinished), DeleteStarted),
            (Some(DeleteStarted), DeleteStarted),
            (Some(DeleteStarted), DeleteFinished),
            (Some(DeleteFinished), DeleteFinished),
        ];
        assert_eq!(legal, expected);
        for id in 0..=u8::MAX {
            assert_eq!(SegmentState::from_id(id).map(|state| state as u8), (id < 4).then_some(id));
        }
    }
}
