//! Controllers that kube-controller-manager runs too yield to it: two controllers of one kind would conflict.
//!
//! A [`YieldingController`] runs only while kube-controller-manager does not, according to the Lease of its election,
//! `kube-system/kube-controller-manager`. One watch of the Lease serves all controllers of the process. While the Lease is held
//! or cannot be read, the controllers are dormant and their health checks report it; when it has expired, they run. When
//! kube-controller-manager returns they stop at once: writes in flight finish, and no others start.
//!
//! An absent Lease is not proof: kube-controller-manager may run without leader election. The controllers yield, unless the
//! user states that it does not run. Recent writes of kube-controller-manager (`evidence`) are searched and reported.
//!
//! Not detected: an expired Lease beside a kube-controller-manager that runs without leader election, and a
//! kube-controller-manager whose own controller of that name is disabled. In both cases the user enables the controller by name
//! or disables it.

mod controller;
mod evidence;
mod observed_lease;
mod observer;
mod shared_state;
#[cfg(test)]
mod tests;

pub use controller::YieldingController;

use std::fmt;

use steersman_manager::cache::Caches;
use steersman_manager::client::Term;
use steersman_manager::env::Clock;
use steersman_manager::manager::Manager;
use steersman_manager::object::Key;
use steersman_manager::revived;
use steersman_manager::sync::watch;

use self::evidence::{Evidence, Searcher};
use self::observer::Observer;
use self::shared_state::SharedState;

/// The state of kube-controller-manager, according to its Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// The Lease is held, or was until just now.
    Alive { holder: String },
    /// The Lease exists without a holder: it was not renewed, or was released.
    Expired,
    /// The Lease does not exist, which is not proof that kube-controller-manager does not run.
    Absent,
    /// The Lease does not exist, and the user states that kube-controller-manager does not run.
    AssumedAbsent,
    /// The Lease has not been read yet.
    Unread,
    /// The Lease cannot be read or watched.
    Unknown { reason: String },
}

/// Observes kube-controller-manager's Lease. Clones share one watch.
#[derive(Clone, Debug)]
pub struct KcmLease {
    state: SharedState,
    lease: Key,
    clock: Clock,
    caches: Caches,
    terms: watch::Sender<Option<Term>>,
    evidence: watch::Receiver<Evidence>,
}

impl State {
    /// Whether yielding controllers may run.
    fn is_free(&self) -> bool {
        match self {
            Self::Expired | Self::AssumedAbsent => true,
            Self::Absent if revived!(B3) => true,
            Self::Alive { .. } | Self::Absent | Self::Unread | Self::Unknown { .. } => false,
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Alive { holder } => write!(f, "held by {holder}"),
            Self::Expired => f.write_str("not held"),
            Self::Absent => f.write_str("absent"),
            Self::AssumedAbsent => f.write_str("absent, kube-controller-manager is assumed not to run"),
            Self::Unread => f.write_str("not read yet"),
            Self::Unknown { reason } => write!(f, "unknown: {reason}"),
        }
    }
}

impl KcmLease {
    /// Starts watching the Lease, until the tasks of the manager end. With `assume_absent`, an absent Lease means that
    /// kube-controller-manager does not run.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[must_use]
    pub fn start(manager: &Manager, assume_absent: bool) -> Self {
        let env = manager.env();
        let lease = Key::new("kube-system", "kube-controller-manager");
        let (writer, state) = SharedState::new();
        let client = manager.reader("yielding");
        let observer = Observer::new(env, client.clone(), lease.clone(), assume_absent, writer);
        let (terms, new_terms) = watch::channel(None);
        let (found, evidence) = watch::channel(Evidence::Pending);
        let searcher = Searcher {
            env: env.clone(),
            client,
            state: state.clone(),
            terms: new_terms,
            found,
            assume_absent,
        };
        // The tasks end with the manager's tasks.
        drop(env.tasks.spawn(observer.run()));
        drop(env.tasks.spawn(searcher.run()));
        Self {
            state,
            lease,
            clock: env.clock.clone(),
            caches: manager.caches().clone(),
            terms,
            evidence,
        }
    }

    /// Records that a controller runs in this term.
    fn begin(&self, term: Term) {
        self.terms
            .send_if_modified(|last| last.replace(term) != Some(term));
    }

    /// Resolves when yielding controllers may run for the first time.
    pub(crate) fn free(&self) -> impl Future<Output = ()> + Send + 'static {
        let state = self.state.clone();
        async move {
            if state.wait_for(State::is_free).await.is_err() {
                // The process is about to end with an error.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Returns the reason why yielding controllers do not run, if they do not.
    fn reason(&self) -> Option<String> {
        // Without an observer, the controllers are about to end with an error, and the process with them.
        let Ok(state) = self.state.get() else {
            return None;
        };
        match state {
            State::Expired | State::AssumedAbsent => None,
            State::Absent => Some(format!(
                "yields, because kube-controller-manager may run without leader election: lease {} does not exist, {}; \
                 to run it, enable it by name in --controllers, or set --assume-no-kube-controller-manager",
                self.lease,
                *self.evidence.borrow(),
            )),
            State::Alive { .. } => Some(format!(
                "yields to kube-controller-manager, which holds lease {}",
                self.lease
            )),
            State::Unread => Some(format!(
                "yields until lease {} of kube-controller-manager has been read",
                self.lease
            )),
            State::Unknown { reason } => Some(format!(
                "yields, because it is unknown whether kube-controller-manager runs: lease {}: {reason}; \
                 to run it anyway, enable it by name in --controllers",
                self.lease
            )),
        }
    }
}
