//! The states of all items, without locks, clocks or waiting. The caller holds the lock, passes the time and wakes workers.
//!
//! Invariants: an item is never processing twice at once; any number of adds while it is queued or processing cause one
//! further run; an add while processing is not lost.

use std::time::Duration;

use tokio::time::Instant;

use super::Item;
use super::fair_queue::Position;
use super::ready_queue::{Priority, ReadyQueue};
use super::seeded_map::{Entry, Map, seeded_map};

/// The result of an add.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Added {
    /// The queue is shutting down.
    Refused,
    /// It is queued already, or will be when it is done.
    Duplicate,
    /// It is queued when it is done.
    WhileProcessing,
    /// A worker must be woken.
    Queued,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next<K> {
    /// The item and its time in the queue.
    Item(K, Duration),
    Wait,
    /// The queue is shut down and empty.
    End,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Done {
    /// The processing time.
    pub(super) took: Duration,
    /// The item is queued again: a worker must be woken.
    pub(super) queued: bool,
    /// No item is processing: a drain must be woken.
    pub(super) idle: bool,
}

#[derive(Debug)]
pub(super) struct StateMachine<K> {
    /// Items that are dirty (need processing) or processing. An item that is neither is removed.
    items: Map<K, State>,
    /// The queued items: dirty and not processing.
    ready: ReadyQueue<K>,
    /// The number of dirty items, including those that are processing.
    dirty: usize,
    /// The start time of each processing item, indexed by `Processing::slot`. Its length is the maximum number of
    /// concurrently processing items so far.
    started: Vec<Option<Instant>>,
    /// The number of processing items.
    processing: usize,
    shutting_down: bool,
}

#[derive(Debug)]
struct State {
    dirty: Option<Dirty>,
    processing: Option<Processing>,
}

#[derive(Debug)]
struct Dirty {
    /// The first add since the item was last handed out.
    since: Instant,
    priority: Priority,
    /// Whether the item is put before the others of its namespace when it is done.
    first: bool,
    /// None while the item is processing.
    position: Option<Position>,
}

#[derive(Clone, Copy, Debug)]
struct Processing {
    since: Instant,
    priority: Priority,
    /// The index in `started`.
    slot: usize,
}

impl<K: Item> StateMachine<K> {
    /// `seed` affects the memory layout only.
    pub(super) fn new(seed: u64) -> Self {
        Self {
            items: seeded_map(seed),
            ready: ReadyQueue::new(seed),
            dirty: 0,
            started: Vec::new(),
            processing: 0,
            shutting_down: false,
        }
    }

    pub(super) fn add(&mut self, item: K, priority: Priority, now: Instant) -> Added {
        if self.shutting_down {
            return Added::Refused;
        }
        let mut dirty = Dirty {
            since: now,
            priority,
            first: false,
            position: None,
        };
        match self.items.entry(item) {
            Entry::Vacant(entry) => {
                dirty.position = Some(self.ready.push(entry.key().clone(), priority));
                entry.insert(State {
                    dirty: Some(dirty),
                    processing: None,
                });
                self.dirty += 1;
                Added::Queued
            }
            Entry::Occupied(mut entry) => {
                let Some(known) = &mut entry.get_mut().dirty else {
                    entry.get_mut().dirty = Some(dirty);
                    self.dirty += 1;
                    return Added::WhileProcessing;
                };
                if priority > known.priority {
                    known.priority = priority;
                    known.position = known.position.and_then(|position| self.ready.raise(position));
                }
                Added::Duplicate
            }
        }
    }

    /// [`StateMachine::add`] with normal priority, before the other items of its namespace. A queued item keeps its position.
    pub(super) fn add_first(&mut self, item: K, now: Instant) -> Added {
        if self.shutting_down {
            return Added::Refused;
        }
        let mut dirty = Dirty {
            since: now,
            priority: Priority::Normal,
            first: true,
            position: None,
        };
        match self.items.entry(item) {
            Entry::Vacant(entry) => {
                dirty.position = Some(self.ready.push_first(entry.key().clone(), dirty.priority));
                entry.insert(State {
                    dirty: Some(dirty),
                    processing: None,
                });
                self.dirty += 1;
                Added::Queued
            }
            Entry::Occupied(entry) if entry.get().dirty.is_some() => Added::Duplicate,
            Entry::Occupied(mut entry) => {
                entry.get_mut().dirty = Some(dirty);
                self.dirty += 1;
                Added::WhileProcessing
            }
        }
    }

    pub(super) fn next(&mut self, now: Instant) -> Next<K> {
        let Some(item) = self.ready.pop() else {
            return if self.shutting_down { Next::End } else { Next::Wait };
        };
        let Some(state) = self.items.get_mut(&item) else {
            debug_assert!(false, "queued item without state");
            return Next::Wait;
        };
        let (since, priority) = state
            .dirty
            .take()
            .map_or((now, Priority::Normal), |w| (w.since, w.priority));
        let slot = self.started.iter().position(Option::is_none).unwrap_or_else(|| {
            self.started.push(None);
            self.started.len() - 1
        });
        self.started[slot] = Some(now);
        state.processing = Some(Processing {
            since: now,
            priority,
            slot,
        });
        self.processing += 1;
        self.dirty -= 1;
        Next::Item(item, now.duration_since(since))
    }

    /// Returns none if the item is not processing. client-go would queue such an item twice, and so hand it to two workers.
    pub(super) fn done(&mut self, item: &K, now: Instant) -> Option<Done> {
        // Remove and reinsert: usually the item is not dirty, and one lookup suffices.
        let (item, mut state) = self.items.remove_entry(item)?;
        let Some(processing) = state.processing.take() else {
            self.items.insert(item, state);
            return None;
        };
        self.started[processing.slot] = None;
        self.processing -= 1;
        let queued = state.dirty.is_some();
        if let Some(dirty) = &mut state.dirty {
            dirty.position = Some(if dirty.first {
                self.ready.push_first(item.clone(), dirty.priority)
            } else {
                self.ready.push(item.clone(), dirty.priority)
            });
            self.items.insert(item, state);
        }
        Some(Done {
            took: now.duration_since(processing.since),
            queued,
            idle: self.processing == 0,
        })
    }

    /// Takes back the add of an item that is processing. Returns its priority; none if it was not added.
    pub(super) fn withdraw(&mut self, item: &K) -> Option<Priority> {
        let state = self.items.get_mut(item)?;
        state.processing?;
        let dirty = state.dirty.take()?;
        self.dirty -= 1;
        Some(dirty.priority)
    }

    /// Returns the priority of a processing item, which its retry keeps.
    pub(super) fn processing_priority(&self, item: &K) -> Option<Priority> {
        self.items
            .get(item)?
            .processing
            .map(|processing| processing.priority)
    }

    pub(super) fn shut_down(&mut self) {
        self.shutting_down = true;
    }

    pub(super) fn is_shutting_down(&self) -> bool {
        self.shutting_down
    }

    pub(super) fn is_idle(&self) -> bool {
        self.processing == 0
    }

    /// Returns the number of queued items.
    pub(super) fn len(&self) -> usize {
        self.ready.len()
    }

    /// Returns the number of dirty items, including those that are processing.
    pub(super) fn dirty(&self) -> usize {
        self.dirty
    }

    /// Returns the item that has been queued for the longest time among the first items of all namespaces, with that time.
    pub(super) fn oldest(&self, now: Instant) -> Option<(K, Duration)> {
        let since = |item| Some((item, self.items.get(item)?.dirty.as_ref()?.since));
        let oldest = self
            .ready
            .firsts()
            .filter_map(since)
            .min_by_key(|(_, since)| *since);
        oldest.map(|(item, since)| (item.clone(), now.duration_since(since)))
    }

    /// Returns how long each processing item has been processing.
    pub(super) fn processing_times(&self, now: Instant) -> impl Iterator<Item = Duration> {
        self.started
            .iter()
            .flatten()
            .map(move |since| now.duration_since(*since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::disallowed_methods, reason = "any time")]
    fn empty() -> (StateMachine<&'static str>, Instant) {
        (StateMachine::new(1), Instant::now())
    }

    fn item(next: Next<&'static str>) -> &'static str {
        match next {
            Next::Item(item, _) => item,
            other => panic!("no item: {other:?}"),
        }
    }

    #[test]
    fn item_added_again_has_the_higher_priority() {
        let (mut it, now) = empty();
        for (item, priority) in [
            ("a", Priority::Low),
            ("b", Priority::Low),
            ("c", Priority::Low),
            ("b", Priority::Low),
            ("c", Priority::Normal),
            ("c", Priority::Low),
        ] {
            it.add(item, priority, now);
        }
        assert_eq!((it.len(), it.dirty()), (3, 3));
        let order = [(); 3].map(|()| item(it.next(now)));
        assert_eq!(order, ["c", "a", "b"]);
        let priorities = ["a", "c", "d"].map(|item| it.processing_priority(&item));
        assert_eq!(priorities, [Some(Priority::Low), Some(Priority::Normal), None]);
    }

    #[test]
    fn item_added_first_is_handed_out_before_the_others() {
        let (mut it, now) = empty();
        assert_eq!(it.add("a", Priority::Normal, now), Added::Queued);
        assert_eq!(it.add("b", Priority::Normal, now), Added::Queued);
        assert_eq!(it.add_first("c", now), Added::Queued);
        assert_eq!(it.add_first("b", now), Added::Duplicate, "it keeps its position");
        assert_eq!((it.len(), it.dirty()), (3, 3));
        assert_eq!(item(it.next(now)), "c");
        assert_eq!(it.add_first("c", now), Added::WhileProcessing);
        assert_eq!(it.add_first("c", now), Added::Duplicate);
        assert_eq!((it.len(), it.dirty()), (2, 3));
        assert!(it.done(&"c", now).expect("it was processing").queued);
        let order = [(); 3].map(|()| item(it.next(now)));
        assert_eq!(order, ["c", "a", "b"]);
        assert_eq!((it.len(), it.dirty()), (0, 0));
    }

    #[test]
    fn queue_is_idle_when_no_item_is_processing() {
        let (mut it, start) = empty();
        let later = start + Duration::from_secs(1);
        assert!(it.is_idle());
        for item in ["a", "b"] {
            it.add(item, Priority::Normal, start);
        }
        assert!(it.is_idle(), "no item is processing yet");
        assert_eq!(it.next(later), Next::Item("a", Duration::from_secs(1)));
        assert_eq!(item(it.next(start)), "b");
        for (item, took, idle) in [("a", Duration::ZERO, false), ("b", Duration::from_secs(1), true)] {
            assert!(!it.is_idle());
            let done = Done {
                took,
                queued: false,
                idle,
            };
            assert_eq!(it.done(&item, later), Some(done));
        }
        assert!(it.is_idle());
        assert_eq!(it.done(&"b", later), None, "it is not processing");
    }

    #[test]
    fn shut_down_queue_refuses_items_and_hands_out_the_queued_ones() {
        let (mut it, now) = empty();
        it.add("a", Priority::Normal, now);
        assert!(!it.is_shutting_down());
        it.shut_down();
        assert!(it.is_shutting_down());
        assert_eq!(it.add("b", Priority::Normal, now), Added::Refused);
        assert_eq!(it.add_first("b", now), Added::Refused);
        assert_eq!(item(it.next(now)), "a");
        assert_eq!(it.next(now), Next::End);
    }
}
