//! How much may be said about one object: [`BURST`] events of each type, then one every [`INTERVAL`]. Whoever makes 5,000
//! pods must not write 5,000 events.

use std::time::Duration;

use tokio::time::Instant;

use super::recent::Recent;

/// How many need not wait.
const BURST: u32 = 25;
/// How long until another one may be written.
const INTERVAL: Duration = Duration::from_mins(5);
/// How many objects are kept apart. One that was forgotten begins anew.
const OBJECTS: usize = 4096;

/// When each object may be spoken of as much as ever.
#[derive(Debug)]
pub(super) struct Limit(Recent<Instant>);

impl Limit {
    pub(super) fn new() -> Self {
        Self(Recent::of(OBJECTS))
    }

    /// Whether one more may be written `about` this.
    pub(super) fn allow(&mut self, about: &str, now: Instant) -> bool {
        let Some(full) = self.0.get(about) else {
            self.0.insert(about.to_owned(), now + INTERVAL);
            return true;
        };
        let after = now.max(*full) + INTERVAL;
        let allowed = after - now <= INTERVAL * BURST;
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
    fn a_burst_and_then_one_every_five_minutes_for_each_object() {
        let start = Clock::starting_at(Timestamp::UNIX_EPOCH).now();
        let mut limit = Limit::new();
        let mut written = Vec::new();
        for second in 0..3600 {
            let now = start + Duration::from_secs(second);
            assert!(limit.allow(&second.to_string(), now), "others are not in the way");
            written.extend(limit.allow("web", now).then_some(second));
        }
        // One came back while the burst was used up.
        let after: Vec<u64> = (1..12).map(|it| it * 300).collect();
        assert_eq!(written[..25], (0..25).collect::<Vec<_>>());
        assert_eq!(written[25..], after);
        let rested = start + Duration::from_hours(10);
        assert_eq!((0..100).filter(|_| limit.allow("web", rested)).count(), 25);
    }
}
