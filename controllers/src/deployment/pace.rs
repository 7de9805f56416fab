//! How often `ReplicaSets` are made for one template: the last guard against whoever makes each of them useless.
//!
//! Normally it is one. If what was made is deleted, or taken away, another is made at once; but from the fourth on each
//! waits for longer than the one before, until the template changes or nothing was made for a while.

use std::time::Duration;

use tokio::time::Instant;

use super::hash::Hash;

/// How many need not wait.
const FREE: u32 = 3;
/// How long the first one waits that has to. Each waits for twice as long as the one before.
const FIRST: Duration = Duration::from_secs(10);
/// How long one waits at most.
const LONGEST: Duration = Duration::from_hours(1);

/// What was made for a template.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    last: Option<(Hash, Instant)>,
    made: u32,
}

impl Pace {
    /// How long another one for this template has to wait.
    #[must_use]
    pub fn wait(&self, template: Hash, now: Instant) -> Duration {
        let Some((_, at)) = self.last.filter(|(it, _)| *it == template) else {
            return Duration::ZERO;
        };
        self.interval().saturating_sub(now - at)
    }

    /// One was made.
    pub fn made(&mut self, template: Hash, now: Instant) {
        let goes_on = |(last, at): (Hash, Instant)| last == template && now - at < 2 * LONGEST;
        self.made = if self.last.is_some_and(goes_on) {
            self.made.saturating_add(1)
        } else {
            1
        };
        self.last = Some((template, now));
    }

    fn interval(&self) -> Duration {
        match self.made.checked_sub(FREE) {
            None => Duration::ZERO,
            Some(doubled) => FIRST.saturating_mul(1 << doubled.min(20)).min(LONGEST),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use coxswain_manager::env::Clock;
    use jiff::Timestamp;

    use crate::deployment::template::Canonical;

    #[test]
    fn only_one_template_again_and_again_has_to_wait() {
        let mut now = Clock::starting_at(Timestamp::UNIX_EPOCH).now();
        let hash = |image: &str| Hash::of(&Canonical::of(&format!("{image:?}")));
        let (one, two) = (hash("one"), hash("two"));
        let mut pace = Pace::default();
        for _ in 0..20 {
            assert_eq!(pace.wait(one, now), Duration::ZERO);
            pace.made(one, now);
            assert_eq!(pace.wait(two, now), Duration::ZERO);
            pace.made(two, now);
        }
        let start = now;
        let mut made = 0;
        while now - start < Duration::from_hours(24) {
            pace.made(one, now);
            made += 1;
            now += pace.wait(one, now);
        }
        assert!((25..40).contains(&made), "{made} a day");
        now += 2 * LONGEST;
        pace.made(one, now);
        assert_eq!(pace.wait(one, now), Duration::ZERO, "all is forgiven");
    }
}
