//! Backoff for repeated writes of the same content, such as a `ReplicaSet` that is deleted or changed each time, or a
//! field or status that another client overwrites.
//!
//! After a number of writes, each waits twice as long as the one before, until other content is written, or nothing was
//! written for twice as long.

use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::time::Duration;

use steersman_manager::backoff::Backoff;
use tokio::time::Instant;

/// The first wait.
const WAIT_FIRST: Duration = Duration::from_secs(10);
/// The number of writes without a [`WriteBackoff::wait`], and its maximum.
const WAIT: (u32, Duration) = (5, Duration::from_mins(10));
/// The number of writes without a [`WriteBackoff::delay`], and its maximum.
const DELAY: (u32, Duration) = (3, Duration::from_mins(1));
/// After this time without a write, at the earliest, the writes are counted anew: five writes without a wait happen within
/// ten minutes.
const RESET_AFTER_MIN: Duration = Duration::from_mins(2);

/// The writes of one content, which `K` identifies.
#[derive(Clone, Debug)]
pub struct WriteBackoff<K> {
    last: Option<(K, Instant)>,
    written: u32,
    reported: bool,
}

/// A write that has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delay {
    /// The remaining time.
    pub left: Duration,
    /// The number of writes so far.
    pub written: u32,
    /// False if [`WriteBackoff::delay`] has returned this wait before.
    pub is_new: bool,
}

impl<K> Default for WriteBackoff<K> {
    fn default() -> Self {
        Self {
            last: None,
            written: 0,
            reported: false,
        }
    }
}

impl<K: Copy + PartialEq> WriteBackoff<K> {
    /// Returns the time until this content may be written again, up to ten minutes.
    #[must_use]
    pub fn wait(&self, content: K, now: Instant) -> Duration {
        self.left(content, now, WAIT)
    }

    /// Returns the time until the content that was written last may be written again, up to ten minutes.
    #[must_use]
    pub fn wait_of_last(&self, now: Instant) -> Duration {
        self.last
            .map_or(Duration::ZERO, |(content, _)| self.wait(content, now))
    }

    /// Returns the wait until this content may be written again, up to a minute; none if it may be written now.
    pub fn delay(&mut self, content: K, now: Instant) -> Option<Delay> {
        let left = self.left(content, now, DELAY);
        (!left.is_zero()).then(|| Delay {
            left,
            written: self.written,
            is_new: !std::mem::replace(&mut self.reported, true),
        })
    }

    /// Records a write.
    pub fn wrote(&mut self, content: K, now: Instant) {
        let reset_after = RESET_AFTER_MIN.max(2 * self.interval(WAIT));
        let continues = |(last, at): (K, Instant)| last == content && now - at < reset_after;
        self.written = if self.last.is_some_and(continues) {
            self.written.saturating_add(1)
        } else {
            1
        };
        self.last = Some((content, now));
        self.reported = false;
    }

    fn left(&self, content: K, now: Instant, limits: (u32, Duration)) -> Duration {
        let Some((_, at)) = self.last.filter(|(it, _)| *it == content) else {
            return Duration::ZERO;
        };
        self.interval(limits).saturating_sub(now - at)
    }

    /// Returns the wait between the last write and the next.
    fn interval(&self, (free, max): (u32, Duration)) -> Duration {
        match self.written.checked_sub(free) {
            None => Duration::ZERO,
            Some(failures) => Backoff::exponential(WAIT_FIRST, max).after(failures),
        }
    }
}

/// Returns a hash that identifies content within one process.
#[must_use]
pub fn digest(content: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    use jiff::Timestamp;
    use steersman_manager::env::Clock;

    #[test]
    fn repeated_content_waits_longer_each_time() {
        let mut now = Clock::starting_at(Timestamp::UNIX_EPOCH).now();
        let (one, two) = (1, 2);
        let mut backoff = WriteBackoff::default();
        for _ in 0..20 {
            assert_eq!(backoff.delay(one, now), None);
            backoff.wrote(one, now);
            assert_eq!(backoff.delay(two, now), None);
            backoff.wrote(two, now);
        }
        let mut waits = Vec::new();
        for _ in 0..100 {
            backoff.wrote(one, now);
            let delay = backoff.delay(one, now);
            if let Some(delay) = delay {
                let again = backoff.delay(one, now).expect("a wait");
                assert!(delay.is_new && !again.is_new, "reported once");
            }
            let wait = delay.map_or(Duration::ZERO, |it| it.left);
            waits.push(wait.as_secs());
            now += wait;
            assert_eq!(backoff.delay(one, now), None, "the wait has passed");
        }
        assert_eq!(waits[..6], [0, 0, 10, 20, 40, 60]);
        assert!(waits[6..].iter().all(|it| *it == 60), "{waits:?}");
        now += 2 * WAIT.1;
        backoff.wrote(one, now);
        assert_eq!(backoff.delay(one, now), None, "the backoff is reset");
    }

    #[test]
    fn writes_that_are_minutes_apart_never_wait() {
        let mut now = Clock::starting_at(Timestamp::UNIX_EPOCH).now();
        let mut backoff = WriteBackoff::default();
        for _ in 0..100 {
            backoff.wrote(1, now);
            assert_eq!(backoff.wait(1, now), Duration::ZERO);
            now += RESET_AFTER_MIN;
        }
        for _ in 0..5 {
            backoff.wrote(1, now);
            now += RESET_AFTER_MIN / 2;
        }
        backoff.wrote(1, now);
        assert!(!backoff.wait(1, now).is_zero());
    }
}
