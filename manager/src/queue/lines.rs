//! The order in which items are handed out: two lines, first in, first out in each.

use std::collections::{BTreeMap, VecDeque};

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

/// Items that can be handed out. It does not notice an item that is in it twice: its caller does.
#[derive(Debug)]
pub(super) struct Lines<K> {
    normal: VecDeque<K>,
    /// By arrival. A map, because an item can be raised out of its middle.
    low: BTreeMap<Place, K>,
    /// After all in `low`.
    end: Place,
    /// Normal items handed out since the last low one, while there were low ones. Below [`LOW_TURN`].
    passed_over: u32,
}

/// A place in the low line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place(u64);

impl<K> Lines<K> {
    pub(super) fn new() -> Self {
        Self {
            normal: VecDeque::new(),
            low: BTreeMap::new(),
            end: Place(0),
            passed_over: 0,
        }
    }

    /// Puts an item at the end of its line, and says where that is if it is the low one.
    pub(super) fn push(&mut self, item: K, priority: Priority) -> Option<Place> {
        match priority {
            Priority::Normal => {
                self.normal.push_back(item);
                None
            }
            Priority::Low => {
                let place = self.end;
                self.end = Place(place.0 + 1);
                self.low.insert(place, item);
                Some(place)
            }
        }
    }

    /// Moves an item from the low line to the end of the normal one.
    pub(super) fn raise(&mut self, place: Place) {
        self.normal.extend(self.low.remove(&place));
    }

    pub(super) fn pop(&mut self) -> Option<K> {
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

    /// The first of each line: nobody has waited longer than they, but for those who were raised.
    pub(super) fn first(&self) -> impl Iterator<Item = &K> {
        self.normal.front().into_iter().chain(self.low.values().next())
    }

    pub(super) fn len(&self) -> usize {
        self.normal.len() + self.low.len()
    }
}
