//! Controllers that kube-controller-manager runs as well yield to it: two owners of one kind fight.
//!
//! [`Yields`] is a controller that runs only while kube-controller-manager does not, which [`Yielding`] tells by the Lease
//! of its election, `kube-system/kube-controller-manager`: one look at it per process, however many controllers yield. While
//! the Lease is held, and while it is not known, they are dormant, and say so; when nobody holds it, they work. When
//! kube-controller-manager comes back they stop at once: what has begun is finished, nothing is begun. A sync that has many
//! pods left to make or to delete leaves them.
//!
//! What it does not see: a kube-controller-manager that runs without leader election, and one whose own controller of that
//! name is switched off. Both are for the user to settle, by naming the controller or switching it off.

mod board;
mod observer;
#[cfg(test)]
mod tests;
mod view;
mod yields;

pub use yields::Yields;

use std::fmt;

use coxswain_manager::cache::Caches;
use coxswain_manager::env::Clock;
use coxswain_manager::manager::Manager;
use coxswain_manager::object::Key;

use self::board::Board;
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
    /// There is no Lease.
    Absent,
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
}

impl State {
    /// Whether those who yield may run: what is not known is no permission.
    fn is_free(&self) -> bool {
        match self {
            Self::Expired | Self::Absent => true,
            Self::Alive { .. } | Self::Unread | Self::Unknown { .. } => false,
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Alive { holder } => write!(f, "held by {holder}"),
            Self::Expired => f.write_str("held by nobody"),
            Self::Absent => f.write_str("absent"),
            Self::Unread => f.write_str("not read yet"),
            Self::Unknown { why } => write!(f, "unknown: {why}"),
        }
    }
}

impl Yielding {
    /// Begins to look, with a client of its own, until the tasks of the manager end.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[must_use]
    pub fn start(manager: &Manager) -> Self {
        let env = manager.env();
        let lease = Key::new("kube-system", "kube-controller-manager");
        let (writer, board) = Board::new();
        let observer = Observer::new(env, manager.client("yielding"), lease.clone(), writer);
        // It is ended with the manager's tasks.
        drop(env.tasks.spawn(observer.run()));
        Self {
            board,
            lease,
            clock: env.clock.clone(),
            caches: manager.caches().clone(),
        }
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
            State::Expired | State::Absent => None,
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
