//! Limits how often the same is written, where it does not last: a `ReplicaSet` that is deleted again and again or that a
//! webhook makes unusable, a field or a status that another client overwrites.
//!
//! From the fourth write on each waits for longer than the one before, until something else is written or nothing was
//! written for a while.

use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::time::Duration;

use coxswain_manager::backoff::Backoff;
use tokio::time::Instant;

/// The number of writes that need not wait.
const FREE: u32 = 3;
/// The first wait. Each is twice as long as the one before.
const WAIT_FIRST: Duration = Duration::from_secs(10);
/// The longest wait.
const WAIT_MAX: Duration = Duration::from_hours(1);
/// The longest wait of a write that users wait for.
const DELAY_MAX: Duration = Duration::from_mins(1);

/// The writes of the same content, which `K` identifies.
#[derive(Clone, Debug)]
pub struct WriteBackoff<K> {
    last: Option<(K, Instant)>,
    written: u32,
    told: bool,
}

/// A write that has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delay {
    /// The time that is left.
    pub left: Duration,
    /// The number of writes before it.
    pub written: u32,
    /// Whether this wait was not asked for before.
    pub is_new: bool,
}

impl<K> Default for WriteBackoff<K> {
    fn default() -> Self {
        Self {
            last: None,
            written: 0,
            told: false,
        }
    }
}

impl<K: Copy + PartialEq> WriteBackoff<K> {
    /// Returns the time that another write of this content has to wait, up to an hour.
    #[must_use]
    pub fn wait(&self, content: K, now: Instant) -> Duration {
        self.left(content, now, WAIT_MAX)
    }

    /// Returns the wait of another write of this content, up to a minute; none if it need not wait.
    pub fn delay(&mut self, content: K, now: Instant) -> Option<Delay> {
        let left = self.left(content, now, DELAY_MAX);
        (!left.is_zero()).then(|| Delay {
            left,
            written: self.written,
            is_new: !std::mem::replace(&mut self.told, true),
        })
    }

    /// Counts a write.
    pub fn wrote(&mut self, content: K, now: Instant) {
        let goes_on = |(last, at): (K, Instant)| last == content && now - at < 2 * WAIT_MAX;
        self.written = if self.last.is_some_and(goes_on) {
            self.written.saturating_add(1)
        } else {
            1
        };
        self.last = Some((content, now));
        self.told = false;
    }

    fn left(&self, content: K, now: Instant, max: Duration) -> Duration {
        let Some((_, at)) = self.last.filter(|(it, _)| *it == content) else {
            return Duration::ZERO;
        };
        let interval = match self.written.checked_sub(FREE) {
            None => Duration::ZERO,
            Some(failures) => Backoff::exponential(WAIT_FIRST, max).after(failures),
        };
        interval.saturating_sub(now - at)
    }
}

/// Identifies a content within one process.
#[must_use]
pub fn digest(content: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    use coxswain_manager::env::Clock;
    use jiff::Timestamp;

    #[test]
    fn only_the_same_content_again_and_again_has_to_wait() {
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
                let again = backoff.delay(one, now).expect("it waits");
                assert!(delay.is_new && !again.is_new, "told once");
            }
            let wait = delay.map_or(Duration::ZERO, |it| it.left);
            waits.push(wait.as_secs());
            now += wait;
            assert_eq!(backoff.delay(one, now), None, "no longer than that");
        }
        assert_eq!(waits[..6], [0, 0, 10, 20, 40, 60]);
        assert!(waits[6..].iter().all(|it| *it == 60), "{waits:?}");
        now += 2 * WAIT_MAX;
        backoff.wrote(one, now);
        assert_eq!(backoff.delay(one, now), None, "it starts over");
    }
}
