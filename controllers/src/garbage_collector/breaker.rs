//! A circuit breaker per resource and namespace.
//!
//! A request without an HTTP answer (a failed connection, a timeout, [`SLOW`] without an answer) or with 503 opens it. Then
//! one item at a time probes, after a wait that doubles. Any other answer closes it, including a rejection: the rejected object
//! has its own backoff in the queue and does not delay others.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use steersman_manager::client::ClientError;
use steersman_manager::env::later;
use steersman_manager::object::{Resource, Text};
use steersman_manager::revived;
use tokio::time::Instant;

/// A request without an answer for this long counts as unanswered, and no longer occupies a worker.
pub(super) const SLOW: Duration = Duration::from_millis(500);
/// The first wait between two probes; it doubles.
const PROBE_WAIT: Duration = Duration::from_secs(1);
const PROBE_WAIT_MAX: Duration = Duration::from_secs(30);

/// A resource in a namespace, which is empty for cluster-scoped resources.
pub(super) type Scope = (Resource, Text);

/// See the module documentation.
#[derive(Debug, Default)]
pub(super) struct CircuitBreaker(Mutex<BTreeMap<Scope, Open>>);

#[derive(Debug)]
struct Open {
    wait: Duration,
    /// The time of the next probe.
    until: Instant,
}

impl CircuitBreaker {
    /// Returns the time that an item has to wait that needs all of these; none if it may send its requests now.
    pub(super) fn hold(&self, scopes: &[Scope], now: Instant) -> Option<Duration> {
        let mut open = self.lock();
        let waits = scopes.iter().filter_map(|it| open.get(it));
        let wait = waits.map(|it| it.until.saturating_duration_since(now)).max();
        if let Some(wait) = wait.filter(|it| !it.is_zero()) {
            return Some(wait);
        }
        for scope in scopes {
            if let Some(open) = open.get_mut(scope) {
                open.wait = PROBE_WAIT_MAX.min(2 * open.wait);
                open.until = later(now, open.wait);
            }
        }
        None
    }

    /// Records the outcome of a request.
    pub(super) fn record<T>(&self, scope: &Scope, outcome: &Result<T, ClientError>, now: Instant) {
        if outcome.as_ref().is_err_and(is_unanswered) {
            self.unanswered(scope, now);
        } else {
            self.lock().remove(scope);
        }
    }

    /// Opens the breaker.
    pub(super) fn unanswered(&self, scope: &Scope, now: Instant) {
        self.lock().entry(scope.clone()).or_insert_with(|| Open {
            wait: PROBE_WAIT,
            until: later(now, PROBE_WAIT),
        });
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Scope, Open>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reports whether a failed request opens the breaker.
pub(super) fn is_unanswered(error: &ClientError) -> bool {
    matches!(
        error,
        ClientError::Timeout { .. } | ClientError::Connection { .. }
    ) || error.code() == Some(503)
        || revived!(A2) && error.code() >= Some(500)
}

#[cfg(test)]
mod tests {
    use super::*;

    use jiff::Timestamp;
    use steersman_manager::env::Clock;

    const MAPS: Resource = Resource::namespaced("", "v1", "configmaps", "ConfigMap");
    const PODS: Resource = Resource::namespaced("", "v1", "pods", "Pod");

    fn refused(code: u16) -> Result<(), ClientError> {
        Err(ClientError::Unexplained {
            request_line: String::new(),
            code,
            retry_after: None,
        })
    }

    fn scope(resource: Resource, namespace: &str) -> Scope {
        (resource, namespace.into())
    }

    #[test]
    fn open_breaker_admits_one_probe_per_wait_until_there_is_an_answer() {
        let start = Clock::starting_at(Timestamp::UNIX_EPOCH).now();
        let at = |second| start + Duration::from_secs(second);
        let maps = scope(MAPS, "a");
        let hold = |breaker: &CircuitBreaker, second| breaker.hold(std::slice::from_ref(&maps), at(second));
        let wait = |seconds| Some(Duration::from_secs(seconds));
        let breaker = CircuitBreaker::default();
        for _ in 0..3 {
            assert_eq!(hold(&breaker, 0), None);
        }
        for _ in 0..3 {
            breaker.record(&maps, &refused(503), at(0));
        }
        assert_eq!(hold(&breaker, 0), wait(1));
        for (second, next) in [(1, 2), (3, 4), (7, 8), (15, 16), (31, 30), (61, 30), (91, 30)] {
            assert_eq!(hold(&breaker, second), None);
            assert_eq!(hold(&breaker, second), wait(next));
            breaker.record(&maps, &refused(503), at(second));
            assert_eq!(hold(&breaker, second), wait(next));
        }
        for other in [scope(PODS, "a"), scope(MAPS, "b")] {
            assert_eq!(breaker.hold(std::slice::from_ref(&other), at(91)), None);
            assert_eq!(breaker.hold(&[other, maps.clone()], at(91)), wait(30));
        }
        // A rejection is an answer, with any code.
        breaker.record(&maps, &refused(500), at(92));
        assert_eq!(hold(&breaker, 92), None);
        assert_eq!(hold(&breaker, 92), None);
    }

    #[test]
    fn refusals_do_not_open_the_breaker() {
        let now = Clock::starting_at(Timestamp::UNIX_EPOCH).now();
        let maps = scope(MAPS, "a");
        for code in [400, 403, 404, 409, 422, 429, 500, 502, 504] {
            let breaker = CircuitBreaker::default();
            breaker.record(&maps, &refused(code), now);
            assert_eq!(breaker.hold(std::slice::from_ref(&maps), now), None, "{code}");
        }
    }

    #[test]
    fn item_that_needs_several_probes_all_or_none() {
        let now = Clock::starting_at(Timestamp::UNIX_EPOCH).now();
        let (maps, pods) = (scope(MAPS, "a"), scope(PODS, "a"));
        let breaker = CircuitBreaker::default();
        breaker.unanswered(&maps, now);
        breaker.unanswered(&pods, now + PROBE_WAIT);
        let later = now + PROBE_WAIT;
        assert_eq!(breaker.hold(&[maps.clone(), pods], later), Some(PROBE_WAIT));
        assert_eq!(breaker.hold(&[maps], later), None, "the probe was not used up");
    }
}
