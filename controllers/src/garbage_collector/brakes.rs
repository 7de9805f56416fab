//! A kind that the API server does not answer for is asked for by one at a time, and ever less often.
//!
//! Each item has a backoff of its own; with thousands of them, that is still much for a server that is down, or for a kind
//! whose webhook is. Each kind has its own brake, so that one that is broken delays no other. Whoever is held comes again
//! without having failed: when the kind answers, all are tried at once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use coxswain_manager::client::ClientError;
use coxswain_manager::env::later;
use coxswain_manager::object::Resource;
use tokio::time::Instant;

use super::kinds::Kind;

/// The first wait, which doubles.
const FIRST: Duration = Duration::from_secs(1);
/// The longest one.
const LONGEST: Duration = Duration::from_secs(30);

/// The kinds that are not answered for.
#[derive(Debug, Default)]
pub(super) struct Brakes(Mutex<BTreeMap<Resource, Brake>>);

#[derive(Debug)]
struct Brake {
    wait: Duration,
    /// When the next one may ask.
    until: Instant,
}

impl Brakes {
    /// How long to wait before asking for something of these kinds. None: ask now, it is nobody else's turn.
    pub(super) fn hold<'a>(
        &self,
        kinds: impl Iterator<Item = &'a Resource> + Clone,
        now: Instant,
    ) -> Option<Duration> {
        let mut brakes = self.lock();
        if let Some(rest) = rest(&brakes, kinds.clone(), now) {
            return Some(rest);
        }
        for kind in kinds {
            if let Some(brake) = brakes.get_mut(kind) {
                brake.wait = LONGEST.min(2 * brake.wait);
                brake.until = later(now, brake.wait);
            }
        }
        None
    }

    /// The same, of all kinds that `kinds` names, without taking the turn.
    pub(super) fn rest(&self, kinds: impl FnOnce() -> Vec<Arc<Kind>>, now: Instant) -> Option<Duration> {
        if self.lock().is_empty() {
            return None;
        }
        let kinds = kinds();
        rest(&self.lock(), kinds.iter().map(|it| &it.resource), now)
    }

    /// What a request for something of a kind came to.
    pub(super) fn came<T>(&self, kind: &Resource, answer: &Result<T, ClientError>, now: Instant) {
        if answer.as_ref().is_err_and(is_none) {
            self.unanswered(kind, now);
        } else {
            self.answered(kind);
        }
    }

    /// Nobody has answered for a kind.
    pub(super) fn unanswered(&self, kind: &Resource, now: Instant) {
        let mut brakes = self.lock();
        if !brakes.contains_key(kind) {
            let until = later(now, FIRST);
            brakes.insert(kind.clone(), Brake { wait: FIRST, until });
        }
    }

    /// Somebody has.
    pub(super) fn answered(&self, kind: &Resource) {
        self.lock().remove(kind);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Resource, Brake>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn rest<'a>(
    brakes: &BTreeMap<Resource, Brake>,
    kinds: impl Iterator<Item = &'a Resource>,
    now: Instant,
) -> Option<Duration> {
    let held = kinds.filter_map(|it| brakes.get(it));
    let rests = held.map(|it| it.until.saturating_duration_since(now));
    rests.max().filter(|rest| !rest.is_zero())
}

/// Whether it is no answer: nobody can do better with another object of the kind.
fn is_none(error: &ClientError) -> bool {
    match error {
        ClientError::Timeout { .. } | ClientError::Connection { .. } => true,
        _ => error.code().is_some_and(|code| code >= 500),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use coxswain_manager::env::Clock;
    use jiff::Timestamp;

    static MAPS: Resource = Resource::namespaced("", "v1", "configmaps", "ConfigMap");
    static PODS: Resource = Resource::namespaced("", "v1", "pods", "Pod");

    fn refused(code: u16) -> Result<(), ClientError> {
        Err(ClientError::Unexplained {
            what: String::new(),
            code,
            retry_after: None,
        })
    }

    #[test]
    fn one_at_a_time_and_ever_less_often_until_there_is_an_answer() {
        let start = Clock::starting_at(Timestamp::UNIX_EPOCH).now();
        let at = |second| start + Duration::from_secs(second);
        let hold = |brakes: &Brakes, second| brakes.hold([&MAPS].into_iter(), at(second));
        let wait = |seconds| Some(Duration::from_secs(seconds));
        let brakes = Brakes::default();
        for _ in 0..3 {
            assert_eq!(hold(&brakes, 0), None);
        }
        for _ in 0..3 {
            brakes.came(&MAPS, &refused(500), at(0));
        }
        assert_eq!(hold(&brakes, 0), wait(1));
        for (second, next) in [(1, 2), (3, 4), (7, 8), (15, 16), (31, 30), (61, 30), (91, 30)] {
            assert_eq!(hold(&brakes, second), None);
            assert_eq!(hold(&brakes, second), wait(next));
            brakes.came(&MAPS, &refused(503), at(second));
            assert_eq!(hold(&brakes, second), wait(next));
        }
        assert_eq!(brakes.hold([&PODS].into_iter(), at(91)), None);
        assert_eq!(brakes.hold([&PODS, &MAPS].into_iter(), at(91)), wait(30));
        // A refusal is an answer.
        brakes.came(&MAPS, &refused(403), at(92));
        assert_eq!(hold(&brakes, 92), None);
        assert_eq!(hold(&brakes, 92), None);
    }

    #[test]
    fn who_needs_several_takes_the_turn_of_all_or_of_none() {
        let now = Clock::starting_at(Timestamp::UNIX_EPOCH).now();
        let brakes = Brakes::default();
        brakes.came(&MAPS, &refused(500), now);
        brakes.came(&PODS, &refused(500), now + FIRST);
        let both = [&MAPS, &PODS];
        assert_eq!(brakes.hold(both.into_iter(), now + FIRST), Some(FIRST));
        assert_eq!(
            brakes.hold([&MAPS].into_iter(), now + FIRST),
            None,
            "it was not taken"
        );
    }
}
