//! The status of a cache.

use std::fmt;

/// The status of the list and watch of a cache, or of one of its partitions. Cached objects stay readable in any status.
#[expect(missing_docs, reason = "plain data")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// The first list is not complete.
    Syncing,
    /// The watch is open.
    Synced,
    /// The list or watch failed and is retried. The cache may be stale.
    Retrying { reason: String },
    /// The resource is not served or forbidden, and is retried.
    Unavailable { reason: String },
}

impl Status {
    /// Returns true if the resource is not served or forbidden.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }

    /// Returns the more severe status.
    pub(super) fn worse(self, other: Self) -> Self {
        if other.rank() > self.rank() { other } else { self }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Synced => 0,
            Self::Syncing => 1,
            Self::Retrying { .. } => 2,
            Self::Unavailable { .. } => 3,
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syncing => f.write_str("syncing"),
            Self::Synced => f.write_str("synced"),
            Self::Retrying { reason } => write!(f, "retrying: {reason}"),
            Self::Unavailable { reason } => write!(f, "unavailable: {reason}"),
        }
    }
}
