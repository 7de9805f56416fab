//! The queue itself: a plain state machine, without lock, clock or waiting.
//!
//! It promises that an item is never in two workers at once, that any number of adds while it is queued or in process
//! make one further run, and that an add during processing is not lost. Its caller holds the lock, tells the time, and
//! wakes who must be woken.

use std::time::Duration;

use tokio::time::Instant;

use super::Item;
use super::fair::Position;
use super::map::{self, Entry, Map};
use super::ready::{Priority, Ready};

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
    /// What needs processing or is in process: no state here is neither.
    items: Map<K, State>,
    /// What can be handed out: exactly the items that need processing and are not in process, each once.
    ready: Ready<K>,
    /// How many items need processing, also while they are in process.
    wanted: usize,
    /// When each item in process was handed out; `Running::slot` says whose is whose. As long as there ever were items in
    /// process at once, so a few.
    started: Vec<Option<Instant>>,
    /// How many of `started` there are.
    running: usize,
    shutting_down: bool,
}

#[derive(Debug)]
struct State {
    wanted: Option<Wanted>,
    running: Option<Running>,
}

#[derive(Debug)]
struct Wanted {
    /// The first add since the item was last handed out.
    since: Instant,
    priority: Priority,
    /// Where it is queued; none while it is in process.
    position: Option<Position>,
}

#[derive(Clone, Copy, Debug)]
struct Running {
    since: Instant,
    priority: Priority,
    /// Its place in `started`.
    slot: usize,
}

impl<K: Item> Core<K> {
    /// `seed` decides where items lie in memory, and nothing else.
    pub(super) fn new(seed: u64) -> Self {
        Self {
            items: map::seeded(seed),
            ready: Ready::new(seed),
            wanted: 0,
            started: Vec::new(),
            running: 0,
            shutting_down: false,
        }
    }

    pub(super) fn add(&mut self, item: K, priority: Priority, now: Instant) -> Added {
        if self.shutting_down {
            return Added::Refused;
        }
        let mut wanted = Wanted {
            since: now,
            priority,
            position: None,
        };
        match self.items.entry(item) {
            Entry::Vacant(entry) => {
                wanted.position = Some(self.ready.push(entry.key().clone(), priority));
                entry.insert(State {
                    wanted: Some(wanted),
                    running: None,
                });
                self.wanted += 1;
                Added::Queued
            }
            Entry::Occupied(mut entry) => {
                let Some(known) = &mut entry.get_mut().wanted else {
                    entry.get_mut().wanted = Some(wanted);
                    self.wanted += 1;
                    return Added::Later;
                };
                if priority > known.priority {
                    known.priority = priority;
                    known.position = known.position.and_then(|position| self.ready.raise(position));
                }
                Added::Known
            }
        }
    }

    pub(super) fn next(&mut self, now: Instant) -> Next<K> {
        let Some(item) = self.ready.pop() else {
            return if self.shutting_down { Next::End } else { Next::Wait };
        };
        let Some(state) = self.items.get_mut(&item) else {
            debug_assert!(false, "an item is queued and has no state");
            return Next::Wait;
        };
        let (since, priority) = state
            .wanted
            .take()
            .map_or((now, Priority::Normal), |w| (w.since, w.priority));
        let slot = self.started.iter().position(Option::is_none).unwrap_or_else(|| {
            self.started.push(None);
            self.started.len() - 1
        });
        self.started[slot] = Some(now);
        state.running = Some(Running {
            since: now,
            priority,
            slot,
        });
        self.running += 1;
        self.wanted -= 1;
        Next::Item(item, now.duration_since(since))
    }

    /// None if the item is not in process. client-go would queue it a second time if it was queued already, and so hand it
    /// to two workers; here nothing happens.
    pub(super) fn done(&mut self, item: &K, now: Instant) -> Option<Done> {
        // Taken out and perhaps put back, because mostly it is not: one look-up instead of two.
        let (item, mut state) = self.items.remove_entry(item)?;
        let Some(running) = state.running.take() else {
            self.items.insert(item, state);
            return None;
        };
        self.started[running.slot] = None;
        self.running -= 1;
        let queued = state.wanted.is_some();
        if let Some(wanted) = &mut state.wanted {
            wanted.position = Some(self.ready.push(item.clone(), wanted.priority));
            self.items.insert(item, state);
        }
        Some(Done {
            took: now.duration_since(running.since),
            queued,
            idle: self.running == 0,
        })
    }

    /// The priority with which an item in process was handed out: what its retry should have.
    pub(super) fn priority_in_process(&self, item: &K) -> Option<Priority> {
        self.items.get(item)?.running.map(|running| running.priority)
    }

    pub(super) fn shut_down(&mut self) {
        self.shutting_down = true;
    }

    pub(super) fn is_shutting_down(&self) -> bool {
        self.shutting_down
    }

    pub(super) fn is_idle(&self) -> bool {
        self.running == 0
    }

    /// What can be handed out: not what is wanted again while it is in process.
    pub(super) fn len(&self) -> usize {
        self.ready.len()
    }

    /// What needs processing, also while it is in process.
    pub(super) fn wanted(&self) -> usize {
        self.wanted
    }

    /// How long the next item of either priority has waited, the longer of the two; none if nothing is queued.
    pub(super) fn waited(&self, now: Instant) -> Option<Duration> {
        let wanted = |item| self.items.get(item)?.wanted.as_ref();
        let since = self.ready.first().filter_map(wanted).map(|wanted| wanted.since);
        since.min().map(|since| now.duration_since(since))
    }

    /// How long each item in process has been there.
    pub(super) fn ages(&self, now: Instant) -> impl Iterator<Item = Duration> {
        self.started
            .iter()
            .flatten()
            .map(move |since| now.duration_since(*since))
    }
}
