//! The changes of one collection, oldest first, bounded in number and bytes.
//!
//! The history is the only record of past states: watches read it forward, and lists at an old revision read it backward.
//! Compaction drops its oldest entries.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::storage::object::Object;

/// One change of one object.
#[derive(Debug)]
pub struct Change {
    /// The revision of the write.
    pub revision: u64,
    /// The previous version; `None` for a create.
    pub before: Option<Arc<Object>>,
    /// The new version; `None` for a delete.
    pub after: Option<Arc<Object>>,
    /// The last state with the revision of the delete; `None` for other changes.
    pub removed: Option<Arc<Object>>,
}

impl Change {
    /// Returns the key of the object.
    #[must_use]
    pub fn key(&self) -> &str {
        [&self.after, &self.removed, &self.before]
            .into_iter()
            .flatten()
            .next()
            .map_or("", |o| o.key.as_str())
    }

    fn weight(&self) -> usize {
        // The change retains the replaced version, so both versions count.
        let kept = [&self.before, &self.after, &self.removed];
        kept.into_iter().flatten().map(|o| o.weight()).sum::<usize>() + size_of::<Self>()
    }
}

/// The history limits of each collection.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The maximum number of changes.
    pub entries: usize,
    /// The maximum memory of the changes, in bytes.
    pub bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            entries: 20_000,
            bytes: 128 << 20,
        }
    }
}

/// The bounded log of changes.
#[derive(Debug, Clone, Default)]
pub(super) struct History {
    changes: VecDeque<Arc<Change>>,
    bytes: usize,
    /// The newest revision that was compacted. The log contains every later change.
    pub compacted: u64,
}

impl History {
    pub fn push(&mut self, change: Change, limits: Limits) {
        self.bytes += change.weight();
        self.changes.push_back(Arc::new(change));
        // The newest change is always retained, because watchers still have to receive it.
        while self.changes.len() > 1 && (self.changes.len() > limits.entries || self.bytes > limits.bytes) {
            self.drop_oldest();
        }
    }

    pub fn compact(&mut self, revision: u64) {
        while self.changes.front().is_some_and(|c| c.revision <= revision) {
            self.drop_oldest();
        }
        self.compacted = self.compacted.max(revision);
    }

    fn drop_oldest(&mut self) {
        if let Some(change) = self.changes.pop_front() {
            self.bytes -= change.weight();
            self.compacted = self.compacted.max(change.revision);
        }
    }

    /// Returns the changes after `revision`, oldest first.
    pub fn after(&self, revision: u64) -> impl DoubleEndedIterator<Item = &Arc<Change>> {
        let start = self.changes.partition_point(|c| c.revision <= revision);
        self.changes.range(start..)
    }
}
