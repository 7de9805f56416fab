//! The outcomes of the items that a controller has processed, across terms: their numbers and the last errors.
//!
//! Memory is bounded: the last [`ERRORS_MAX`] different errors are kept, and messages are cut off.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use crate::env::Clock;
use crate::object::Key;

/// The number of different errors that are kept per controller.
const ERRORS_MAX: usize = 50;
/// The number of characters of a message that are kept.
const MESSAGE_MAX: usize = 500;
const MINUTE: Duration = Duration::from_mins(1);

/// The activity of a controller: its queues now, and the items it has processed since the start of the process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// The number of items that are ready. Delayed items are not.
    pub queued: usize,
    /// The ready item that has waited for the longest time.
    pub oldest: Option<Waiting>,
    /// The number of items that workers are processing.
    pub processing: usize,
    /// The number of items that were processed, failed ones included.
    pub processed: u64,
    /// The number of items that failed.
    pub failed: u64,
    /// The number of times that the most processed item was processed in the last full minute.
    pub max_per_item: u64,
}

/// An item that waits for a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "plain data")]
pub struct Waiting {
    pub item: Key,
    pub age: Duration,
}

/// An error of an item. Repeated ones are counted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "plain data")]
pub struct RecentError {
    pub item: Key,
    /// On one line, cut off after some hundred characters.
    pub message: String,
    pub first: Timestamp,
    pub last: Timestamp,
    /// The number of times that this item failed with this message.
    pub count: u64,
}

/// Counts outcomes and keeps the last errors.
#[derive(Debug)]
pub struct Outcomes {
    clock: Clock,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    processed: u64,
    minute: Minute,
    failed: u64,
    /// In the order of their last occurrence.
    errors: VecDeque<RecentError>,
}

/// The number of times that each item was processed in the current minute.
#[derive(Debug)]
struct Minute {
    start: Instant,
    counts: BTreeMap<Key, u64>,
    /// The maximum of the minute before.
    last_max: u64,
}

impl Minute {
    /// Begins another minute if the current one is over.
    fn advance(&mut self, now: Instant) {
        let passed = now.duration_since(self.start);
        if passed < MINUTE {
            return;
        }
        // Taking the map frees its memory: after a list it has an entry for each object.
        let counts = std::mem::take(&mut self.counts);
        let max = counts.into_values().max().unwrap_or(0);
        self.last_max = if passed < 2 * MINUTE { max } else { 0 };
        let minutes = u32::try_from(passed.as_secs() / MINUTE.as_secs()).unwrap_or(u32::MAX);
        self.start += MINUTE * minutes;
    }
}

impl Outcomes {
    pub(super) fn new(clock: &Clock) -> Self {
        let state = State {
            processed: 0,
            minute: Minute {
                start: clock.now(),
                counts: BTreeMap::new(),
                last_max: 0,
            },
            failed: 0,
            errors: VecDeque::new(),
        };
        Self {
            clock: clock.clone(),
            state: Mutex::new(state),
        }
    }

    pub(super) fn processed(&self, item: Key) {
        let now = self.clock.now();
        self.lock(|state| {
            state.processed += 1;
            state.minute.advance(now);
            *state.minute.counts.entry(item).or_default() += 1;
        });
    }

    /// Records the error of an item.
    pub fn failed(&self, item: &Key, error: &dyn fmt::Display) {
        let (now, message) = (self.clock.wall(), line(&error.to_string()));
        self.lock(|state| {
            state.failed += 1;
            let same = |known: &RecentError| known.item == *item && known.message == message;
            let known = state.errors.iter().rposition(same);
            let mut error = match known.and_then(|at| state.errors.remove(at)) {
                Some(known) => known,
                None => RecentError {
                    item: item.clone(),
                    message,
                    first: now,
                    last: now,
                    count: 0,
                },
            };
            error.last = now;
            error.count += 1;
            state.errors.push_back(error);
            if state.errors.len() > ERRORS_MAX {
                state.errors.pop_front();
            }
        });
    }

    /// Returns the numbers of processed and failed items.
    pub(super) fn totals(&self) -> (u64, u64) {
        self.lock(|state| (state.processed, state.failed))
    }

    /// See [`Activity::max_per_item`].
    pub(super) fn max_per_item(&self) -> u64 {
        let now = self.clock.now();
        self.lock(|state| {
            state.minute.advance(now);
            state.minute.last_max
        })
    }

    /// Returns the last errors, the latest one last.
    pub(super) fn errors(&self) -> Vec<RecentError> {
        self.lock(|state| state.errors.iter().cloned().collect())
    }

    fn lock<T>(&self, with: impl FnOnce(&mut State) -> T) -> T {
        with(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Returns the start of a text without control characters.
fn line(text: &str) -> String {
    let printable = |char: char| if char.is_control() { ' ' } else { char };
    let mut line: String = text.chars().take(MESSAGE_MAX).map(printable).collect();
    if line.len() < text.len() {
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn repeated_errors_are_counted_and_the_oldest_one_is_dropped() {
        let clock = Clock::starting_at(Timestamp::UNIX_EPOCH);
        let outcomes = Outcomes::new(&clock);
        let key = |number: usize| Key::new("ns", number.to_string());
        for number in 0..ERRORS_MAX {
            outcomes.failed(&key(number), &"conflict");
        }
        clock.sleep(Duration::from_secs(7)).await;
        outcomes.failed(&key(0), &"conflict");
        outcomes.failed(&key(0), &"line\nbreak");
        let errors = outcomes.errors();
        assert_eq!(errors.len(), ERRORS_MAX);
        assert_eq!(errors[0].item, key(2), "of 1 and 2, the older one is dropped");
        let [.., repeated, last] = &errors[..] else {
            panic!("two errors")
        };
        assert_eq!(
            (repeated.count, repeated.first, &repeated.item),
            (2, Timestamp::UNIX_EPOCH, &key(0))
        );
        assert_eq!(repeated.last.as_second(), 7);
        assert_eq!((last.count, last.message.as_str()), (1, "line break"));
        assert_eq!(outcomes.totals(), (0, 52));
    }

    #[tokio::test(start_paused = true)]
    async fn most_processed_item_of_the_last_minute_is_counted() {
        let clock = Clock::starting_at(Timestamp::UNIX_EPOCH);
        let outcomes = Outcomes::new(&clock);
        let process = |item: &str, times: usize| {
            for _ in 0..times {
                outcomes.processed(Key::new("ns", item));
            }
        };
        process("a", 3);
        process("b", 5);
        assert_eq!(outcomes.max_per_item(), 0, "the minute is not over");
        clock.sleep(MINUTE).await;
        assert_eq!(outcomes.max_per_item(), 5);
        process("a", 4);
        assert_eq!(outcomes.max_per_item(), 5);
        clock.sleep(MINUTE).await;
        assert_eq!(
            outcomes.max_per_item(),
            4,
            "counts of another minute are not added"
        );
        process("a", 9);
        clock.sleep(3 * MINUTE).await;
        assert_eq!(outcomes.max_per_item(), 0, "the last full minute was idle");
    }

    #[tokio::test(start_paused = true)]
    async fn long_message_is_cut_off() {
        let outcomes = Outcomes::new(&Clock::starting_at(Timestamp::UNIX_EPOCH));
        outcomes.failed(&Key::new("ns", "a"), &"ä".repeat(100_000));
        let errors = outcomes.errors();
        assert_eq!(errors[0].message.chars().count(), MESSAGE_MAX + 1);
        assert!(errors[0].message.ends_with("ä…"));
    }
}
