//! The health checks of one manager: who is asked, on which path, and how often that is logged.
//!
//! A check is a cheap question about what is known already: it is asked on every probe, on the task that answers it, and
//! must not wait for anything. One that panics has failed.

use std::ops::BitOr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::panics;

/// What a check says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// All is well.
    Ok,
    /// All is well, and there is something to know: why a controller does nothing, say. `?verbose` shows it to clients on this
    /// machine.
    Note(String),
    /// It is not. The reason goes to the log and to the path of the check itself, not to the paths that everybody may ask.
    Failed(String),
}

/// The paths that a check counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probes(u8);

impl Probes {
    /// `/livez`: what fails here is mended by a restart. Never the API server.
    pub const LIVEZ: Self = Self(1);
    /// `/readyz`: what fails here is mended by waiting.
    pub const READYZ: Self = Self(2);
    /// `/healthz`: everything that somebody should look at.
    pub const HEALTHZ: Self = Self(4);
    /// All three.
    pub const ALL: Self = Self(7);

    fn overlaps(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Probes {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The checks of a manager, in the order in which they were added, after `ping`, which is always there and always passes.
/// Clones are the same list.
#[derive(Clone)]
pub struct Checks(Arc<Mutex<Vec<Arc<Check>>>>);

/// Takes the check away again when dropped.
#[must_use = "the check is taken away when this is dropped"]
pub struct Registration {
    list: Weak<Mutex<Vec<Arc<Check>>>>,
    check: Arc<Check>,
}

pub(super) struct Check {
    pub(super) name: String,
    kinds: Probes,
    ask: Box<dyn Fn() -> Health + Send + Sync>,
    /// How the last answer was, so that only a change is logged: probes come every few seconds.
    failing: AtomicBool,
}

impl Checks {
    /// Only `ping`.
    #[must_use]
    pub fn new() -> Self {
        let ping = Check::new("ping".to_owned(), Probes::ALL, || Health::Ok);
        Self(Arc::new(Mutex::new(vec![Arc::new(ping)])))
    }

    /// Adds a check, until the registration is dropped. One of the same name and kind makes way: a controller that starts
    /// again does not wait for the last trace of its predecessor.
    pub fn add(
        &self,
        name: impl Into<String>,
        kinds: Probes,
        check: impl Fn() -> Health + Send + Sync + 'static,
    ) -> Registration {
        let check = Arc::new(Check::new(name.into(), kinds, check));
        {
            let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let same =
                |known: &&mut Arc<Check>| known.name == check.name && known.kinds.overlaps(check.kinds);
            match list.iter_mut().skip(1).find(same) {
                Some(known) => *known = check.clone(),
                None => list.push(check.clone()),
            }
        }
        Registration {
            list: Arc::downgrade(&self.0),
            check,
        }
    }

    /// What each check of one kind says now, by name.
    #[must_use]
    pub fn run(&self, kind: Probes) -> Vec<(String, Health)> {
        let of_kind = self.of(kind).into_iter();
        of_kind.map(|check| (check.name.clone(), check.run())).collect()
    }

    /// Those of one kind. They are asked without the lock: a check may take as long as it likes, or add another.
    pub(super) fn of(&self, kind: Probes) -> Vec<Arc<Check>> {
        let list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_kind = list.iter().filter(|check| check.kinds.contains(kind));
        of_kind.cloned().collect()
    }
}

impl Default for Checks {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Some(list) = self.list.upgrade() {
            let mut list = list.lock().unwrap_or_else(PoisonError::into_inner);
            list.retain(|check| !Arc::ptr_eq(check, &self.check));
        }
    }
}

impl Check {
    fn new(name: String, kinds: Probes, ask: impl Fn() -> Health + Send + Sync + 'static) -> Self {
        Self {
            name,
            kinds,
            ask: Box::new(ask),
            failing: AtomicBool::new(false),
        }
    }

    pub(super) fn run(&self) -> Health {
        let health = catch_unwind(AssertUnwindSafe(|| (self.ask)())).unwrap_or_else(|panic| {
            Health::Failed(format!("the check panicked: {}", panics::message(&*panic)))
        });
        let name = &self.name;
        match (&health, self.turned(&health)) {
            (Health::Failed(reason), true) => tracing::warn!(check = name, reason, "A health check failed"),
            (_, true) => tracing::info!(check = name, "A health check passes again"),
            (_, false) => {}
        }
        health
    }

    /// Whether the check passed and now fails, or the other way round. Of probes at the same time, one is told.
    fn turned(&self, health: &Health) -> bool {
        let failing = matches!(health, Health::Failed(_));
        self.failing.swap(failing, Ordering::Relaxed) != failing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(checks: &Checks, kind: Probes) -> Vec<String> {
        let of_kind = checks.of(kind).into_iter();
        of_kind.map(|check| check.name.clone()).collect()
    }

    #[test]
    fn a_check_counts_for_its_kinds_only() {
        let checks = Checks::new();
        let _caches = checks.add("caches", Probes::READYZ | Probes::HEALTHZ, || Health::Ok);
        let _all = checks.add("all", Probes::ALL, || Health::Ok);
        assert_eq!(names(&checks, Probes::LIVEZ), ["ping", "all"]);
        assert_eq!(names(&checks, Probes::READYZ), ["ping", "caches", "all"]);
        assert_eq!(names(&checks, Probes::HEALTHZ), ["ping", "caches", "all"]);
    }

    #[test]
    fn a_check_goes_with_its_registration_and_clones_see_it() {
        let checks = Checks::new();
        let a = checks.add("a", Probes::ALL, || Health::Ok);
        let _b = checks.clone().add("b", Probes::ALL, || Health::Ok);
        drop(a);
        assert_eq!(names(&checks, Probes::ALL), ["ping", "b"]);
    }

    #[test]
    fn a_successor_of_the_same_name_outlives_its_predecessor() {
        let checks = Checks::new();
        let old = checks.add("a", Probes::ALL, || Health::Failed("old".to_owned()));
        let _b = checks.add("b", Probes::ALL, || Health::Ok);
        let _new = checks.add("a", Probes::ALL, || Health::Ok);
        drop(old);
        assert_eq!(names(&checks, Probes::ALL), ["ping", "a", "b"]);
        assert_eq!(checks.of(Probes::ALL)[1].run(), Health::Ok);
    }

    #[test]
    fn ping_cannot_be_taken_away() {
        let checks = Checks::new();
        drop(checks.add("ping", Probes::ALL, || Health::Failed("no".to_owned())));
        assert_eq!(names(&checks, Probes::ALL), ["ping"]);
    }

    #[test]
    fn a_check_may_add_another_and_a_panic_is_a_failure() {
        let checks = Checks::new();
        let inner = checks.clone();
        let _adds = checks.add("adds", Probes::ALL, move || {
            drop(inner.add("more", Probes::ALL, || Health::Ok));
            Health::Ok
        });
        let _panics = checks.add("panics", Probes::ALL, || panic!("number {}", 7));
        let answers: Vec<Health> = checks.of(Probes::ALL).iter().map(|check| check.run()).collect();
        let failed = Health::Failed("the check panicked: number 7".to_owned());
        assert_eq!(answers, [Health::Ok, Health::Ok, failed]);
    }

    #[test]
    fn only_a_change_is_worth_a_line_in_the_log() {
        let check = Check::new("a".to_owned(), Probes::ALL, || Health::Ok);
        let failed = |reason: &str| Health::Failed(reason.to_owned());
        let answers = [
            Health::Ok,
            failed("1 s"),
            failed("2 s"),
            Health::Note("waits".to_owned()),
            Health::Ok,
            failed("1 s"),
        ];
        let turned = answers.each_ref().map(|health| check.turned(health));
        assert_eq!(turned, [false, true, false, true, false, true]);
    }
}
