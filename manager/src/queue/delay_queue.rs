//! Delayed items, ordered by due time. Each item has one entry.

use std::collections::BTreeMap;

use tokio::time::Instant;

use super::ready_queue::Priority;

#[derive(Debug)]
pub(super) struct DelayQueue<K> {
    /// By due time, then by arrival. Holds exactly the items of `entries`.
    order: BTreeMap<(Instant, u64), K>,
    entries: BTreeMap<K, Entry>,
    arrivals: u64,
}

#[derive(Debug)]
struct Entry {
    /// The key in `order`.
    slot: (Instant, u64),
    priority: Priority,
    /// See [`DelayQueue::hold`].
    held_until: Option<Instant>,
}

impl<K: Clone + Ord> DelayQueue<K> {
    pub(super) fn new() -> Self {
        Self {
            order: BTreeMap::new(),
            entries: BTreeMap::new(),
            arrivals: 0,
        }
    }

    /// Delays an item until `due`. An item that is delayed already keeps the earlier time and the higher priority.
    pub(super) fn push(&mut self, item: K, due: Instant, priority: Priority) {
        let slot = (due, self.arrivals);
        self.arrivals += 1;
        if let Some(entry) = self.entries.get_mut(&item) {
            let slot = (entry.held_until.map_or(due, |until| due.max(until)), slot.1);
            entry.priority = entry.priority.max(priority);
            if slot.0 < entry.slot.0 {
                self.order.remove(&entry.slot);
                entry.slot = slot;
                self.order.insert(slot, item);
            }
            return;
        }
        self.order.insert(slot, item.clone());
        let held_until = None;
        let entry = Entry {
            slot,
            priority,
            held_until,
        };
        self.entries.insert(item, entry);
    }

    /// Holds a delayed item: it is due at `until` at the earliest.
    pub(super) fn hold(&mut self, item: &K, until: Instant) {
        let Some(entry) = self.entries.get_mut(item) else {
            return;
        };
        entry.held_until = Some(until);
        if entry.slot.0 < until {
            self.order.remove(&entry.slot);
            entry.slot.0 = until;
            self.order.insert(entry.slot, item.clone());
        }
    }

    /// Reports whether an item is held at `now`.
    pub(super) fn is_held(&self, item: &K, now: Instant) -> bool {
        let held_until = self.entries.get(item).and_then(|it| it.held_until);
        held_until.is_some_and(|until| until > now)
    }

    /// Removes the next due item.
    pub(super) fn pop(&mut self, now: Instant) -> Option<(K, Priority)> {
        let first = self.order.first_entry().filter(|first| first.key().0 <= now)?;
        let item = first.remove();
        let priority = self
            .entries
            .remove(&item)
            .map_or(Priority::Normal, |entry| entry.priority);
        Some((item, priority))
    }

    /// Returns the earliest due time.
    pub(super) fn first_due(&self) -> Option<Instant> {
        self.order.keys().next().map(|(due, _)| *due)
    }

    pub(super) fn clear(&mut self) {
        self.order.clear();
        self.entries.clear();
    }
}
