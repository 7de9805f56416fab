//! Limits how often `ReplicaSets` are created for one template, where none of them remains: each is deleted, or made
//! unusable by a webhook.
//!
//! From the fourth on each waits for longer than the one before, until the template changes or nothing was created for a
//! while. A Deployment waits for `DELAY_MAX` at most, and tells it.

use std::time::Duration;

use tokio::time::Instant;

use super::hash::Hash;

/// The number of creations that need not wait.
const FREE: u32 = 3;
/// The first wait. Each is twice as long as the one before.
const WAIT_FIRST: Duration = Duration::from_secs(10);
/// The longest wait.
const WAIT_MAX: Duration = Duration::from_hours(1);
/// The longest wait of a Deployment.
const DELAY_MAX: Duration = Duration::from_mins(1);

/// The creations for a template.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    last: Option<(Hash, Instant)>,
    created: u32,
    told: bool,
}

/// A creation that has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delay {
    /// The time that is left.
    pub left: Duration,
    /// The number of creations before it.
    pub created: u32,
    /// Whether this wait was not asked for before.
    pub is_new: bool,
}

impl Pace {
    /// Returns the time that another creation for this template has to wait.
    #[must_use]
    pub fn wait(&self, template: Hash, now: Instant) -> Duration {
        self.left(template, now, WAIT_MAX)
    }

    /// Returns the wait of another creation for this template by a Deployment; none if it need not wait.
    pub fn delay(&mut self, template: Hash, now: Instant) -> Option<Delay> {
        let left = self.left(template, now, DELAY_MAX);
        (!left.is_zero()).then(|| Delay {
            left,
            created: self.created,
            is_new: !std::mem::replace(&mut self.told, true),
        })
    }

    /// Counts a creation.
    pub fn made(&mut self, template: Hash, now: Instant) {
        let goes_on = |(last, at): (Hash, Instant)| last == template && now - at < 2 * WAIT_MAX;
        self.created = if self.last.is_some_and(goes_on) {
            self.created.saturating_add(1)
        } else {
            1
        };
        self.last = Some((template, now));
        self.told = false;
    }

    fn left(&self, template: Hash, now: Instant, max: Duration) -> Duration {
        let Some((_, at)) = self.last.filter(|(it, _)| *it == template) else {
            return Duration::ZERO;
        };
        let interval = match self.created.checked_sub(FREE) {
            None => Duration::ZERO,
            Some(doubled) => WAIT_FIRST.saturating_mul(1 << doubled.min(20)).min(max),
        };
        interval.saturating_sub(now - at)
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
            assert_eq!(pace.delay(one, now), None);
            pace.made(one, now);
            assert_eq!(pace.delay(two, now), None);
            pace.made(two, now);
        }
        let mut waits = Vec::new();
        for _ in 0..100 {
            pace.made(one, now);
            let delay = pace.delay(one, now);
            if let Some(delay) = delay {
                let again = pace.delay(one, now).expect("it waits");
                assert!(delay.is_new && !again.is_new, "told once");
            }
            let wait = delay.map_or(Duration::ZERO, |it| it.left);
            waits.push(wait.as_secs());
            now += wait;
            assert_eq!(pace.delay(one, now), None, "no longer than that");
        }
        assert_eq!(waits[..6], [0, 0, 10, 20, 40, 60]);
        assert!(waits[6..].iter().all(|it| *it == 60), "{waits:?}");
        now += 2 * WAIT_MAX;
        pace.made(one, now);
        assert_eq!(pace.delay(one, now), None, "it starts over");
    }
}
