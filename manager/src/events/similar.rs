//! Events about one object that differ only in their words: after [`APART`] of them the others are one event, which says what
//! the last one said.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

use super::recent::Recent;

/// How many messages have an event of their own.
const APART: usize = 9;
/// After how long without any of them it begins anew.
const WINDOW: Duration = Duration::from_mins(10);
/// How many kinds of events are kept apart. One that was forgotten begins anew.
const KINDS: usize = 1000;

/// What was said, by all that similar events have in common.
#[derive(Debug)]
pub(super) struct Similar(Recent<Said>);

#[derive(Debug)]
struct Said {
    messages: BTreeSet<String>,
    last: Instant,
}

impl Similar {
    pub(super) fn new() -> Self {
        Self(Recent::of(KINDS))
    }

    /// Whether `message` has to share an event with others that are `like` it.
    pub(super) fn shares(&mut self, like: &str, message: &str, now: Instant) -> bool {
        let Some(said) = self.0.get(like) else {
            let messages = BTreeSet::from([message.to_owned()]);
            self.0.insert(like.to_owned(), Said { messages, last: now });
            return false;
        };
        if now.duration_since(said.last) > WINDOW {
            said.messages.clear();
        }
        said.last = now;
        if said.messages.contains(message) {
            return false;
        }
        let shares = said.messages.len() >= APART;
        if !shares {
            said.messages.insert(message.to_owned());
        }
        shares
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use jiff::Timestamp;

    use crate::env::Clock;

    #[test]
    fn the_tenth_message_and_those_after_it_share_an_event() {
        let mut now = Clock::starting_at(Timestamp::UNIX_EPOCH).now();
        let mut similar = Similar::new();
        for _ in 0..2 {
            for i in 0..30 {
                // With pauses that are short enough.
                now += WINDOW;
                assert_eq!(similar.shares("created web", &i.to_string(), now), i >= 9, "{i}");
                assert!(!similar.shares("failed web", "no", now), "another reason");
                assert!(
                    !similar.shares("created web", "3", now) || i < 3,
                    "it has its own"
                );
            }
            now += WINDOW + Duration::from_millis(1);
        }
    }
}
