//! Spam filter: [`BURST`] events per object and type, then one every [`REFILL_INTERVAL`].

use std::time::Duration;

use tokio::time::Instant;

use super::lru::Lru;

/// The number of events without delay.
const BURST: u32 = 25;
/// The time until one more event is allowed.
const REFILL_INTERVAL: Duration = Duration::from_mins(5);
/// The number of objects. An object that was evicted starts with a full burst.
const CAPACITY: usize = 4096;

/// The time at which the token bucket of each object is full again.
#[derive(Debug)]
pub(super) struct SpamFilter(Lru<Instant>);

impl SpamFilter {
    pub(super) fn new() -> Self {
        Self(Lru::new(CAPACITY))
    }

    /// Takes a token for one event. Returns whether there was one.
    pub(super) fn allow(&mut self, key: &str, now: Instant) -> bool {
        let Some(full) = self.0.get(key) else {
            self.0.insert(key.to_owned(), now + REFILL_INTERVAL);
            return true;
        };
        let after = now.max(*full) + REFILL_INTERVAL;
        let allowed = after - now <= REFILL_INTERVAL * BURST;
        if allowed {
            *full = after;
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use jiff::Timestamp;

    use crate::env::Clock;

    #[test]
    fn each_object_gets_a_burst_and_then_one_event_per_interval() {
        let start = Clock::starting_at(Timestamp::UNIX_EPOCH).now();
        let mut filter = SpamFilter::new();
        let mut written = Vec::new();
        for second in 0..3600 {
            let now = start + Duration::from_secs(second);
            assert!(filter.allow(&second.to_string(), now), "objects are independent");
            written.extend(filter.allow("web", now).then_some(second));
        }
        // One token was refilled during the burst.
        let after: Vec<u64> = (1..12).map(|it| it * 300).collect();
        assert_eq!(written[..25], (0..25).collect::<Vec<_>>());
        assert_eq!(written[25..], after);
        let rested = start + Duration::from_hours(10);
        assert_eq!((0..100).filter(|_| filter.allow("web", rested)).count(), 25);
    }
}
