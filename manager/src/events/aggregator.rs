//! Aggregator of events about one object that differ only in their message: after [`MAX_MESSAGES`] different messages all
//! others share one event, which has the latest message.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

use super::lru::Lru;

/// The number of messages with an event of their own.
const MAX_MESSAGES: usize = 9;
/// A group without events for this long starts over.
const WINDOW: Duration = Duration::from_mins(10);
/// The number of groups. A group that was evicted starts over.
const CAPACITY: usize = 1000;

/// The messages of each group.
#[derive(Debug)]
pub(super) struct Aggregator(Lru<Group>);

#[derive(Debug)]
struct Group {
    messages: BTreeSet<String>,
    last: Instant,
}

impl Aggregator {
    pub(super) fn new() -> Self {
        Self(Lru::new(CAPACITY))
    }

    /// Records an event. Returns whether it is to be aggregated.
    pub(super) fn observe(&mut self, group_key: &str, message: &str, now: Instant) -> bool {
        let Some(group) = self.0.get(group_key) else {
            let messages = BTreeSet::from([message.to_owned()]);
            self.0.insert(group_key.to_owned(), Group { messages, last: now });
            return false;
        };
        if now.duration_since(group.last) > WINDOW {
            group.messages.clear();
        }
        group.last = now;
        if group.messages.contains(message) {
            return false;
        }
        let aggregated = group.messages.len() >= MAX_MESSAGES;
        if !aggregated {
            group.messages.insert(message.to_owned());
        }
        aggregated
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use jiff::Timestamp;

    use crate::env::Clock;

    #[test]
    fn tenth_and_later_messages_are_aggregated() {
        let mut now = Clock::starting_at(Timestamp::UNIX_EPOCH).now();
        let mut aggregator = Aggregator::new();
        for _ in 0..2 {
            for i in 0..30 {
                // Just within the window.
                now += WINDOW;
                assert_eq!(
                    aggregator.observe("created web", &i.to_string(), now),
                    i >= 9,
                    "{i}"
                );
                assert!(!aggregator.observe("failed web", "no", now), "another reason");
                assert!(
                    !aggregator.observe("created web", "3", now) || i < 3,
                    "has an event of its own"
                );
            }
            now += WINDOW + Duration::from_millis(1);
        }
    }
}
