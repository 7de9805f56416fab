//! The queue itself: a plain state machine, without lock, clock or waiting.
//!
//! It promises that an item is never in two workers at once, that any number of adds while it is queued or in process
//! make one further run, that an add during processing is not lost, and first in, first out inside a priority. Its caller
//! holds the lock, tells the time, and wakes who must be woken.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

/// While items of both priorities wait, every so many-th hand-out is a low one.
///
/// So an item of low priority with `n` others before it is handed out by the `(n + 1) * LOW_TURN`-th hand-out at the
/// latest, however many of normal priority come in. One in eight keeps most of the way free for fresh changes, and still
/// gets through an initial list in the end.
pub const LOW_TURN: u32 = 8;

/// Who goes first. An item that is added again has the higher of its priorities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// For what merely exists: the items of an initial list, or of a resync. It gives way, but is never starved: see
    /// [`LOW_TURN`].
    Low,
    /// For what has changed.
    Normal,
}

/// What an add came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Added {
    /// The queue shuts down.
    Refused,
    /// It was already going to be processed.
    Known,
    /// It is in process, and is queued again when that is done.
    Later,
    /// It is queued: wake a worker.
    Queued,
}

/// What a worker gets.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next<K> {
    /// This item, and how long it has waited.
    Item(K, Duration),
    /// Nothing yet.
    Wait,
    /// Nothing any more.
    End,
}

/// What became of an item that is done.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Done {
    /// How long it was in process.
    pub(super) took: Duration,
    /// It is queued again: wake a worker.
    pub(super) queued: bool,
    /// Nothing is in process now: wake who waits for that.
    pub(super) idle: bool,
}

/// Items and where they are.
#[derive(Debug)]
pub(super) struct Core<K> {
    /// What needs processing, also when it is in process at the moment.
    dirty: BTreeMap<K, Wanted>,
    /// What workers have and have not said to be done.
    processing: BTreeMap<K, Running>,
    /// What can be handed out. Every item here or in `low` is in `dirty`, is not in `processing`, and is here once.
    normal: VecDeque<K>,
    /// The same for low priority, by arrival; a map, because an item can be raised out of its middle.
    low: BTreeMap<u64, K>,
    /// The next place in `low`.
    next_place: u64,
    /// Normal items handed out since the last low one, while there were low ones. Below [`LOW_TURN`].
    passed_over: u32,
    shutting_down: bool,
}

#[derive(Debug)]
struct Wanted {
    /// The first add since the item was last handed out.
    since: Instant,
    priority: Priority,
    /// Its key in `low`, while it is there.
    place: Option<u64>,
}

#[derive(Debug)]
struct Running {
    since: Instant,
    priority: Priority,
}

impl<K: Clone + Ord> Core<K> {
    pub(super) fn new() -> Self {
        Self {
            dirty: BTreeMap::new(),
            processing: BTreeMap::new(),
            normal: VecDeque::new(),
            low: BTreeMap::new(),
            next_place: 0,
            passed_over: 0,
            shutting_down: false,
        }
    }

    pub(super) fn add(&mut self, item: K, priority: Priority, now: Instant) -> Added {
        if self.shutting_down {
            return Added::Refused;
        }
        if let Some(wanted) = self.dirty.get_mut(&item) {
            wanted.priority = wanted.priority.max(priority);
            if priority > Priority::Low
                && let Some(queued) = wanted.place.take().and_then(|place| self.low.remove(&place))
            {
                self.normal.push_back(queued);
            }
            return Added::Known;
        }
        let in_process = self.processing.contains_key(&item);
        let place = if in_process {
            None
        } else {
            self.enqueue(item.clone(), priority)
        };
        let wanted = Wanted {
            since: now,
            priority,
            place,
        };
        self.dirty.insert(item, wanted);
        if in_process { Added::Later } else { Added::Queued }
    }

    pub(super) fn next(&mut self, now: Instant) -> Next<K> {
        let Some(item) = self.dequeue() else {
            return if self.shutting_down { Next::End } else { Next::Wait };
        };
        let Some((key, wanted)) = self.dirty.remove_entry(&item) else {
            debug_assert!(false, "an item is queued and not in dirty");
            return Next::Wait;
        };
        let running = Running {
            since: now,
            priority: wanted.priority,
        };
        self.processing.insert(key, running);
        Next::Item(item, now.duration_since(wanted.since))
    }

    /// None if the item is not in process. client-go would queue it a second time if it was queued already, and so hand it
    /// to two workers; here nothing happens.
    pub(super) fn done(&mut self, item: &K, now: Instant) -> Option<Done> {
        let (item, running) = self.processing.remove_entry(item)?;
        let wanted = self.dirty.get(&item).map(|wanted| wanted.priority);
        if let Some(priority) = wanted {
            let place = self.enqueue(item.clone(), priority);
            if let Some(wanted) = self.dirty.get_mut(&item) {
                wanted.place = place;
            }
        }
        Some(Done {
            took: now.duration_since(running.since),
            queued: wanted.is_some(),
            idle: self.processing.is_empty(),
        })
    }

    /// The priority with which an item in process was handed out: what its retry should have.
    pub(super) fn priority_in_process(&self, item: &K) -> Option<Priority> {
        self.processing.get(item).map(|running| running.priority)
    }

    pub(super) fn shut_down(&mut self) {
        self.shutting_down = true;
    }

    pub(super) fn is_shutting_down(&self) -> bool {
        self.shutting_down
    }

    pub(super) fn is_idle(&self) -> bool {
        self.processing.is_empty()
    }

    /// What can be handed out: not what is wanted again while it is in process.
    pub(super) fn len(&self) -> usize {
        self.normal.len() + self.low.len()
    }

    /// How long each item in process has been there.
    pub(super) fn ages(&self, now: Instant) -> impl Iterator<Item = Duration> {
        self.processing
            .values()
            .map(move |running| now.duration_since(running.since))
    }

    /// Puts an item at the end of its line, and says where in `low` that is.
    fn enqueue(&mut self, item: K, priority: Priority) -> Option<u64> {
        match priority {
            Priority::Normal => {
                self.normal.push_back(item);
                None
            }
            Priority::Low => {
                let place = self.next_place;
                self.next_place += 1;
                self.low.insert(place, item);
                Some(place)
            }
        }
    }

    fn dequeue(&mut self) -> Option<K> {
        let low_turn = self.normal.is_empty() || self.passed_over + 1 >= LOW_TURN;
        if low_turn && let Some((_, item)) = self.low.pop_first() {
            self.passed_over = 0;
            return Some(item);
        }
        let item = self.normal.pop_front()?;
        self.passed_over = if self.low.is_empty() {
            0
        } else {
            self.passed_over + 1
        };
        Some(item)
    }
}
