//! B4: the replacements of pods that never became ready, or ended within 10 s of their start, are limited to 60 per owner and
//! minute.
//!
//! Creates count as a scale-up or as the replacement of a pod that ran, as long as there are any.

use std::collections::VecDeque;
use std::time::Duration;

use super::model::{Detail, Object};
use super::replicas::Pod;
use super::requests::Actor;
use super::rules::Rules;

/// The time within which the end of a pod is early.
const SHORT_RUN: Duration = Duration::from_secs(10);
const MINUTE: Duration = Duration::from_mins(1);
/// The largest number of replacements in a minute.
const REPLACEMENTS_MAX: f64 = 60.0;

/// The creates of one owner.
#[derive(Clone, Debug, Default)]
pub(super) struct Replacements {
    /// The number of creates that are not limited.
    free: i64,
    /// The number of pods that ended early and were not replaced.
    early: usize,
    /// The times at which pods that ran were lost and were not replaced.
    lost: VecDeque<Duration>,
    /// The times of the replacements in the last minute.
    replaced: VecDeque<Duration>,
    /// The term that they belong to.
    by: Option<Actor>,
}

impl Replacements {
    /// Adds creates that are not limited; a scale-down removes them.
    pub(super) fn allow(&mut self, count: i64) {
        self.free = (self.free + count).max(0);
        if count < 0 {
            self.lost.clear();
        }
    }

    /// Returns the delay of a create that replaces a pod that ran. Called before [`Self::created`].
    pub(super) fn delay(&mut self, at: Duration) -> Option<Duration> {
        self.lost.pop_front().map(|since| at.saturating_sub(since))
    }

    /// Records the end of a pod; `now` is its state if it exists.
    pub(super) fn lost(&mut self, pod: &Pod, now: Option<&Object>, at: Duration) {
        let finished = matches!(now, Some(it) if matches!(it.detail, Detail::Pod { finished: true, .. }));
        let condition = now.is_some_and(|it| {
            matches!(
                it.detail,
                Detail::Pod {
                    ready: Some(false),
                    ..
                }
            )
        });
        let age = |since: Duration| at.saturating_sub(since);
        let early = if pod.ready {
            pod.running.is_some_and(|it| age(it) < SHORT_RUN)
        } else {
            condition || age(pod.created) < SHORT_RUN
        };
        if finished && early {
            self.early += 1;
        } else {
            self.free += 1;
            self.lost.push_back(at);
        }
    }

    /// Records a create. Returns the number of replacements in the last minute if it is too large.
    pub(super) fn created(&mut self, by: Actor, at: Duration, rules: &Rules) -> Result<(), usize> {
        if self.free > 0 {
            self.free -= 1;
            return Ok(());
        }
        if self.early == 0 {
            return Ok(());
        }
        self.early -= 1;
        // The limit is not kept over terms.
        if self.by != Some(by) {
            self.by = Some(by);
            self.replaced.clear();
        }
        self.replaced.push_back(at);
        while self
            .replaced
            .front()
            .is_some_and(|it| at.saturating_sub(*it) >= MINUTE)
        {
            self.replaced.pop_front();
        }
        #[expect(clippy::cast_precision_loss, reason = "a small number")]
        let is_allowed = self.replaced.len() as f64 <= REPLACEMENTS_MAX * rules.clock_rate;
        if is_allowed {
            Ok(())
        } else {
            Err(self.replaced.len())
        }
    }
}
