//! Items that are to be added later: one entry per item, the earliest first.

use std::collections::BTreeMap;

use tokio::time::Instant;

use super::ready::Priority;

/// The waiting entries.
#[derive(Debug)]
pub(super) struct Delay<K> {
    /// By due time, then by arrival. Holds exactly the items of `entries`, each once.
    order: BTreeMap<(Instant, u64), K>,
    entries: BTreeMap<K, Entry>,
    arrivals: u64,
}

#[derive(Debug)]
struct Entry {
    /// Its key in `order`.
    place: (Instant, u64),
    priority: Priority,
}

impl<K: Clone + Ord> Delay<K> {
    pub(super) fn new() -> Self {
        Self {
            order: BTreeMap::new(),
            entries: BTreeMap::new(),
            arrivals: 0,
        }
    }

    /// Lets an item wait until `due`. One that waits already keeps the earlier time and the higher priority.
    pub(super) fn push(&mut self, item: K, due: Instant, priority: Priority) {
        let place = (due, self.arrivals);
        self.arrivals += 1;
        if let Some(entry) = self.entries.get_mut(&item) {
            entry.priority = entry.priority.max(priority);
            if due < entry.place.0 {
                self.order.remove(&entry.place);
                entry.place = place;
                self.order.insert(place, item);
            }
            return;
        }
        self.order.insert(place, item.clone());
        self.entries.insert(item, Entry { place, priority });
    }

    /// The next item that is due.
    pub(super) fn pop(&mut self, now: Instant) -> Option<(K, Priority)> {
        let first = self.order.first_entry().filter(|first| first.key().0 <= now)?;
        let item = first.remove();
        let priority = self
            .entries
            .remove(&item)
            .map_or(Priority::Normal, |entry| entry.priority);
        Some((item, priority))
    }

    /// When the first item is due.
    pub(super) fn first_due(&self) -> Option<Instant> {
        self.order.keys().next().map(|(due, _)| *due)
    }

    pub(super) fn clear(&mut self) {
        self.order.clear();
        self.entries.clear();
    }
}
