//! The order of hand-out: two priorities, each fair between namespaces.

use super::Item;
use super::fair_queue::{FairQueue, Position};

/// While items of both priorities are queued, every eighth item that is handed out has low priority.
///
/// So the `n`-th item of low priority is handed out after at most `n * LOW_PRIORITY_INTERVAL` items, however many items of
/// normal priority are added. Most workers handle recent changes, and an initial list still makes progress.
pub const LOW_PRIORITY_INTERVAL: u32 = 8;

/// The priority of an item. An item that is added again has the higher of its priorities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// For objects that have not changed: the items of an initial list or a resync. Never starved: see
    /// [`LOW_PRIORITY_INTERVAL`].
    Low,
    /// For objects that have changed.
    Normal,
}

/// The queued items. The caller ensures that each is queued once.
#[derive(Debug)]
pub(super) struct ReadyQueue<K> {
    normal: FairQueue<K>,
    low: FairQueue<K>,
    /// Items of normal priority handed out since the last one of low priority, while there were some of low priority.
    passed_over: u32,
}

impl<K: Item> ReadyQueue<K> {
    /// `seed` affects the memory layout only.
    pub(super) fn new(seed: u64) -> Self {
        Self {
            normal: FairQueue::new(seed),
            low: FairQueue::new(seed),
            passed_over: 0,
        }
    }

    pub(super) fn push(&mut self, item: K, priority: Priority) -> Position {
        match priority {
            Priority::Normal => self.normal.push(item),
            Priority::Low => self.low.push(item),
        }
    }

    /// Puts an item before the others of its namespace and priority.
    pub(super) fn push_first(&mut self, item: K, priority: Priority) -> Position {
        match priority {
            Priority::Normal => self.normal.push_first(item),
            Priority::Low => self.low.push_first(item),
        }
    }

    /// Moves an item from low to normal priority, behind the items of its namespace.
    pub(super) fn raise(&mut self, position: Position) -> Option<Position> {
        let item = self.low.remove(position)?;
        Some(self.normal.push(item))
    }

    pub(super) fn pop(&mut self) -> Option<K> {
        let low_turn = self.normal.len() == 0 || self.passed_over + 1 >= LOW_PRIORITY_INTERVAL;
        if low_turn && let Some(item) = self.low.pop() {
            self.passed_over = 0;
            return Some(item);
        }
        let item = self.normal.pop()?;
        self.passed_over = if self.low.len() == 0 {
            0
        } else {
            self.passed_over + 1
        };
        Some(item)
    }

    /// Returns the first item of each namespace and priority.
    pub(super) fn firsts(&self) -> impl Iterator<Item = &K> {
        self.normal.firsts().chain(self.low.firsts())
    }

    pub(super) fn len(&self) -> usize {
        self.normal.len() + self.low.len()
    }
}
