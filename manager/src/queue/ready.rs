//! The order in which items are handed out: two priorities, each fair between namespaces.

use super::Item;
use super::fair::{FairQueue, Position};

/// While items of both priorities are queued, every so many-th hand-out is a low one.
///
/// So the `n`-th item of low priority is handed out by the `n * LOW_PRIORITY_INTERVAL`-th hand-out at the latest, however many items of
/// normal priority are added. One in eight leaves most hand-outs to fresh changes, and an initial list is still processed.
pub const LOW_PRIORITY_INTERVAL: u32 = 8;

/// The order of items. An item that is added again has the higher of its priorities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// For objects that merely exist: the items of an initial list, or of a resync. Items of normal priority precede it,
    /// but never starve it: see [`LOW_PRIORITY_INTERVAL`].
    Low,
    /// For objects that have changed.
    Normal,
}

/// Items that can be handed out. The caller makes sure that each is in it once.
#[derive(Debug)]
pub(super) struct Ready<K> {
    normal: FairQueue<K>,
    low: FairQueue<K>,
    /// Normal items handed out since the last low one, while there were low ones. Below [`LOW_PRIORITY_INTERVAL`].
    passed_over: u32,
}

impl<K: Item> Ready<K> {
    /// `seed` decides the memory layout only.
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

    /// Moves an item from low to normal priority, behind the normal items of its namespace.
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

    /// The next item of each priority.
    pub(super) fn first(&self) -> impl Iterator<Item = &K> {
        self.normal.first().into_iter().chain(self.low.first())
    }

    pub(super) fn len(&self) -> usize {
        self.normal.len() + self.low.len()
    }
}
