//! The health checks of one manager, which `/healthz`, `/livez` and `/readyz` of a server report.
//!
//! A check runs on every probe, on the task that serves it, so it must not block. A check that panics has failed.
//!
//! ```
//! use steersman_manager::health::{Checks, Health, Probes};
//! use std::sync::{Arc, atomic::{AtomicBool, Ordering::Relaxed}};
//!
//! let (checks, connected) = (Checks::new(), Arc::new(AtomicBool::new(false)));
//! let of_check = Arc::clone(&connected);
//! let _registration = checks.add("database", Probes::READYZ | Probes::HEALTHZ, move || match of_check.load(Relaxed) {
//!     true => Health::Ok,
//!     false => Health::Failed("not connected".to_owned()),
//! });
//! connected.store(true, Relaxed);
//! assert!(checks.run(Probes::READYZ).contains(&("database".to_owned(), Health::Ok)));
//! assert_eq!(checks.run(Probes::LIVEZ).len(), 1); // `ping`, which always passes
//! ```

use std::ops::BitOr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::panics;

/// The result of a health check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// The check passes.
    Ok,
    /// The check passes with a note, such as the reason why a controller is idle. `?verbose` shows it to authorized clients.
    Note(String),
    /// The check fails. The reason is logged and shown on the path of the check itself, but not on the paths of all checks.
    Failed(String),
}

/// A set of probe endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probes(u8);

impl Probes {
    /// `/livez`: a failure is fixed by a restart. The state of the API server must not affect it.
    pub const LIVEZ: Self = Self(1);
    /// `/readyz`: a failure is fixed by waiting.
    pub const READYZ: Self = Self(2);
    /// `/healthz`: all checks that an administrator should know of.
    pub const HEALTHZ: Self = Self(4);
    /// All three endpoints.
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

/// The health checks of a manager in registration order, after `ping`, which always passes. Clones share the list.
#[derive(Clone)]
pub struct Checks(Arc<Mutex<Vec<Arc<Check>>>>);

/// Removes the check on drop.
#[must_use = "the check is removed when this is dropped"]
pub struct Registration {
    list: Weak<Mutex<Vec<Arc<Check>>>>,
    check: Arc<Check>,
}

pub(crate) struct Check {
    pub(crate) name: String,
    probes: Probes,
    evaluate: Box<dyn Fn() -> Health + Send + Sync>,
    /// The last result, so that only changes are logged.
    failing: AtomicBool,
}

impl Checks {
    /// Returns a list with `ping` only.
    #[must_use]
    pub fn new() -> Self {
        let ping = Check::new("ping".to_owned(), Probes::ALL, || Health::Ok);
        Self(Arc::new(Mutex::new(vec![Arc::new(ping)])))
    }

    /// Adds a check until the registration is dropped. It replaces a check with the same name and endpoint, so that a
    /// restarted controller need not wait for the drop of its predecessor.
    pub fn add(
        &self,
        name: impl Into<String>,
        probes: Probes,
        check: impl Fn() -> Health + Send + Sync + 'static,
    ) -> Registration {
        let check = Arc::new(Check::new(name.into(), probes, check));
        {
            let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let same =
                |known: &&mut Arc<Check>| known.name == check.name && known.probes.overlaps(check.probes);
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

    /// Reports whether there is a check of this name.
    pub(crate) fn contains(&self, name: &str) -> bool {
        let list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        list.iter().any(|check| check.name == name)
    }

    /// Runs the checks of one endpoint. Returns the results by name.
    #[must_use]
    pub fn run(&self, probe: Probes) -> Vec<(String, Health)> {
        let of_probe = self.for_probe(probe).into_iter();
        of_probe.map(|check| (check.name.clone(), check.run())).collect()
    }

    /// Returns the checks of one endpoint. They run without the lock: a check may add another one.
    pub(crate) fn for_probe(&self, probe: Probes) -> Vec<Arc<Check>> {
        let list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_probe = list.iter().filter(|check| check.probes.contains(probe));
        of_probe.cloned().collect()
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
    fn new(name: String, probes: Probes, check: impl Fn() -> Health + Send + Sync + 'static) -> Self {
        Self {
            name,
            probes,
            evaluate: Box::new(check),
            failing: AtomicBool::new(false),
        }
    }

    pub(crate) fn run(&self) -> Health {
        let health = catch_unwind(AssertUnwindSafe(|| (self.evaluate)()))
            .unwrap_or_else(|panic| Health::Failed(format!("check panicked: {}", panics::message(&*panic))));
        let name = &self.name;
        match (&health, self.changed(&health)) {
            (Health::Failed(reason), true) => tracing::warn!(check = name, reason, "Health check failed"),
            (_, true) => tracing::info!(check = name, "Health check recovered"),
            (_, false) => {}
        }
        health
    }

    /// Reports whether the result differs from the last one. Of concurrent probes, only one observes the change.
    fn changed(&self, health: &Health) -> bool {
        let failing = matches!(health, Health::Failed(_));
        self.failing.swap(failing, Ordering::Relaxed) != failing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(checks: &Checks, probe: Probes) -> Vec<String> {
        let of_probe = checks.for_probe(probe).into_iter();
        of_probe.map(|check| check.name.clone()).collect()
    }

    #[test]
    fn check_counts_only_for_its_endpoints() {
        let checks = Checks::new();
        let _caches = checks.add("caches", Probes::READYZ | Probes::HEALTHZ, || Health::Ok);
        let _all = checks.add("all", Probes::ALL, || Health::Ok);
        assert_eq!(names(&checks, Probes::LIVEZ), ["ping", "all"]);
        assert_eq!(names(&checks, Probes::READYZ), ["ping", "caches", "all"]);
        assert_eq!(names(&checks, Probes::HEALTHZ), ["ping", "caches", "all"]);
    }

    #[test]
    fn check_is_removed_with_its_registration() {
        let checks = Checks::new();
        let a = checks.add("a", Probes::ALL, || Health::Ok);
        let _b = checks.clone().add("b", Probes::ALL, || Health::Ok);
        drop(a);
        assert_eq!(names(&checks, Probes::ALL), ["ping", "b"]);
    }

    #[test]
    fn replaced_check_survives_drop_of_the_old_registration() {
        let checks = Checks::new();
        let old = checks.add("a", Probes::ALL, || Health::Failed("old".to_owned()));
        let _b = checks.add("b", Probes::ALL, || Health::Ok);
        let _new = checks.add("a", Probes::ALL, || Health::Ok);
        drop(old);
        assert_eq!(names(&checks, Probes::ALL), ["ping", "a", "b"]);
        assert_eq!(checks.for_probe(Probes::ALL)[1].run(), Health::Ok);
    }

    #[test]
    fn ping_cannot_be_replaced() {
        let checks = Checks::new();
        drop(checks.add("ping", Probes::ALL, || Health::Failed("no".to_owned())));
        assert_eq!(names(&checks, Probes::ALL), ["ping"]);
    }

    #[test]
    fn check_may_add_another_and_panic_is_a_failure() {
        let checks = Checks::new();
        let inner = checks.clone();
        let _adds = checks.add("adds", Probes::ALL, move || {
            drop(inner.add("more", Probes::ALL, || Health::Ok));
            Health::Ok
        });
        let _panics = checks.add("panics", Probes::ALL, || panic!("number {}", 7));
        let results: Vec<Health> = checks
            .for_probe(Probes::ALL)
            .iter()
            .map(|check| check.run())
            .collect();
        let failed = Health::Failed("check panicked: number 7".to_owned());
        assert_eq!(results, [Health::Ok, Health::Ok, failed]);
    }

    #[test]
    fn only_changes_are_logged() {
        let check = Check::new("a".to_owned(), Probes::ALL, || Health::Ok);
        let failed = |reason: &str| Health::Failed(reason.to_owned());
        let results = [
            Health::Ok,
            failed("1 s"),
            failed("2 s"),
            Health::Note("waits".to_owned()),
            Health::Ok,
            failed("1 s"),
        ];
        let changed = results.each_ref().map(|health| check.changed(health));
        assert_eq!(changed, [false, true, false, true, false, true]);
    }
}
