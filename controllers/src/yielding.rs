//! Controllers that kube-controller-manager runs as well yield to it: two controllers of one kind fight.
//!
//! [`Yields`] is a controller that runs only while kube-controller-manager does not, judged by the Lease of its election,
//! `kube-system/kube-controller-manager`. One watch of it serves all controllers of the process. While the Lease is held,
//! and while it cannot be read, the controllers are dormant, and their health checks say so; when the Lease has expired, they
//! run. When kube-controller-manager comes back they stop at once: writes in flight finish, no others begin.
//!
//! An absent Lease is not proof: kube-controller-manager may run without leader election. The controllers yield, unless the
//! user says that it does not run. Recent writes (`evidence`) of it are looked for, and reported.
//!
//! Not detected: an expired Lease beside a kube-controller-manager that runs without leader election, and a
//! kube-controller-manager that has its own controller of that name switched off. For both the user names or switches off
//! the controller.

mod board;
mod evidence;
mod observer;
#[cfg(test)]
mod tests;
mod view;
mod yields;

pub use yields::Yields;

use std::fmt;

use coxswain_manager::cache::Caches;
use coxswain_manager::client::Term;
use coxswain_manager::env::Clock;
use coxswain_manager::manager::Manager;
use coxswain_manager::object::Key;
use tokio::sync::watch;

use self::board::Board;
use self::evidence::{Evidence, Searcher};
use self::observer::Observer;

/// Whether kube-controller-manager is alive.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// Its Lease is held, or was until just now.
    Alive {
        /// By whom.
        holder: String,
    },
    /// There is a Lease, and nobody holds it: it was not renewed, or was given back.
    Expired,
    /// There is no Lease, which does not prove that kube-controller-manager does not run.
    Absent,
    /// There is no Lease, and the user says that kube-controller-manager does not run.
    Assumed,
    /// The Lease has not been read yet.
    Unread,
    /// The Lease cannot be read, or not followed.
    Unknown {
        /// Why not.
        why: String,
    },
}

/// The look at kube-controller-manager's Lease. Clones share it.
#[derive(Clone, Debug)]
pub struct Yielding {
    board: Board,
    lease: Key,
    clock: Clock,
    caches: Caches,
    terms: watch::Sender<Option<Term>>,
    evidence: watch::Receiver<Evidence>,
}

impl State {
    /// Whether those who yield may run: what is not known is no permission.
    fn is_free(&self) -> bool {
        match self {
            Self::Expired | Self::Assumed => true,
            Self::Alive { .. } | Self::Absent | Self::Unread | Self::Unknown { .. } => false,
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Alive { holder } => write!(f, "held by {holder}"),
            Self::Expired => f.write_str("held by nobody"),
            Self::Absent => f.write_str("absent"),
            Self::Assumed => f.write_str("absent, kube-controller-manager is assumed not to run"),
            Self::Unread => f.write_str("not read yet"),
            Self::Unknown { why } => write!(f, "unknown: {why}"),
        }
    }
}

impl Yielding {
    /// Starts watching the Lease, until the tasks of the manager end. With `assume_absent`, an absent Lease means that
    /// kube-controller-manager does not run.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[must_use]
    pub fn start(manager: &Manager, assume_absent: bool) -> Self {
        let env = manager.env();
        let lease = Key::new("kube-system", "kube-controller-manager");
        let (writer, board) = Board::new();
        let client = manager.client("yielding");
        let observer = Observer::new(env, client.clone(), lease.clone(), assume_absent, writer);
        let (terms, new_terms) = watch::channel(None);
        let (found, evidence) = watch::channel(Evidence::Pending);
        let searcher = Searcher {
            env: env.clone(),
            client,
            board: board.clone(),
            terms: new_terms,
            found,
            assumed: assume_absent,
        };
        // They end with the manager's tasks.
        drop(env.tasks.spawn(observer.run()));
        drop(env.tasks.spawn(searcher.run()));
        Self {
            board,
            lease,
            clock: env.clock.clone(),
            caches: manager.caches().clone(),
            terms,
            evidence,
        }
    }

    /// A controller runs in this term.
    fn begin(&self, term: Term) {
        self.terms
            .send_if_modified(|last| last.replace(term) != Some(term));
    }

    /// Resolves when those who yield may run for the first time.
    pub(crate) fn free(&self) -> impl Future<Output = ()> + Send + 'static {
        let board = self.board.clone();
        async move {
            if board.until(State::is_free).await.is_err() {
                // The process is about to end with an error.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Why those who yield do not run now.
    fn reason(&self) -> Option<String> {
        // Otherwise all who yield are about to end with an error, and the process with them.
        let Ok(state) = self.board.state() else {
            return None;
        };
        match state {
            State::Expired | State::Assumed => None,
            State::Absent => Some(format!(
                "yields, because kube-controller-manager may run without leader election: lease {} does not exist, {}; \
                 to run it, name it in --controllers, or set --assume-no-kube-controller-manager",
                self.lease,
                *self.evidence.borrow(),
            )),
            State::Alive { .. } => Some(format!(
                "yields to kube-controller-manager, which holds the lease {}",
                self.lease
            )),
            State::Unread => Some(format!(
                "yields until it is known whether kube-controller-manager holds the lease {}",
                self.lease
            )),
            State::Unknown { why } => Some(format!(
                "yields, because it cannot tell whether kube-controller-manager runs: lease {}: {why}; \
                 to run it in any case, name it in --controllers",
                self.lease
            )),
        }
    }
}
