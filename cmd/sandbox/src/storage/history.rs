//! The changes of one collection, oldest first, bounded in number and bytes.
//!
//! It is the only record of the past: watches read forward in it, lists at an old revision walk backward in it.
//! Dropping its oldest entry is what compaction is.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::storage::object::Object;

/// One change of one object.
#[derive(Debug)]
pub struct Change {
    /// The revision of the write.
    pub revision: u64,
    /// The version before, unless it was created.
    pub before: Option<Arc<Object>>,
    /// The version after, unless it was removed.
    pub after: Option<Arc<Object>>,
    /// The last state with the revision of its removal, if it was removed.
    pub removed: Option<Arc<Object>>,
}

impl Change {
    /// The key of the object.
    #[must_use]
    pub fn key(&self) -> &str {
        [&self.after, &self.removed, &self.before]
            .into_iter()
            .flatten()
            .next()
            .map_or("", |o| o.key.as_str())
    }

    fn weight(&self) -> usize {
        // The change keeps the replaced version, which counts as much.
        let kept = [&self.before, &self.after, &self.removed];
        kept.into_iter().flatten().map(|o| o.weight()).sum::<usize>() + size_of::<Self>()
    }
}

/// How much history is kept per collection.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Changes.
    pub entries: usize,
    /// Bytes.
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

/// The bounded log.
#[derive(Debug, Clone, Default)]
pub(super) struct History {
    changes: VecDeque<Arc<Change>>,
    bytes: usize,
    /// The newest revision that is no longer in the log: every later change is.
    pub compacted: u64,
}

impl History {
    pub fn push(&mut self, change: Change, limits: Limits) {
        self.bytes += change.weight();
        self.changes.push_back(Arc::new(change));
        // The newest change stays, however large it is: its watchers have yet to see it.
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

    /// Changes after `revision`, oldest first.
    pub fn after(&self, revision: u64) -> impl DoubleEndedIterator<Item = &Arc<Change>> {
        let start = self.changes.partition_point(|c| c.revision <= revision);
        self.changes.range(start..)
    }
}
