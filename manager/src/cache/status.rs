//! What a cache says of itself.

use std::fmt;

/// How a cache, or one of its feeds, is doing. Whatever it says, what was read stays readable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// The first list has not been read.
    Filling,
    /// It follows the API server.
    Synced,
    /// Something went wrong, and is tried again; what is read may be old.
    Retrying {
        /// What went wrong.
        reason: String,
    },
    /// The kind is not served, or not to us: it waits until that changes.
    Waiting {
        /// What the server says.
        reason: String,
    },
}

impl Status {
    /// Whether the kind is not served, or not to us.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        matches!(self, Self::Waiting { .. })
    }

    /// The one that says more about what is missing.
    pub(super) fn worse(self, other: Self) -> Self {
        if other.rank() > self.rank() { other } else { self }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Synced => 0,
            Self::Filling => 1,
            Self::Retrying { .. } => 2,
            Self::Waiting { .. } => 3,
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Filling => f.write_str("filling"),
            Self::Synced => f.write_str("synced"),
            Self::Retrying { reason } => write!(f, "retrying: {reason}"),
            Self::Waiting { reason } => write!(f, "waiting: {reason}"),
        }
    }
}
