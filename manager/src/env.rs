//! Time, chance and tasks, injected: the only folder that asks the machine for any of them.
//!
//! One [`Env`] per manager is passed down to everything that it starts. Two managers in one process have two of them, so
//! that a simulation can give each its own clock, and can repeat a run exactly from its seed.

mod clock;
mod rng;
mod tasks;

pub use clock::{Clock, Fault, Mark, later};
pub use rng::Rng;
pub use tasks::{TaskSet, Tasks};

use jiff::Timestamp;

/// What a part of a manager may use of the world. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Env {
    /// Monotonic time, wall time and sleep.
    pub clock: Clock,
    /// The seeded generator.
    pub rng: Rng,
    /// Where tasks are spawned; they end with the [`TaskSet`].
    pub tasks: Tasks,
}

impl Env {
    /// The machine's clock and a seed from its entropy.
    #[must_use]
    pub fn system(tasks: &TaskSet) -> Self {
        Self {
            clock: Clock::system(),
            rng: Rng::from_entropy(),
            tasks: tasks.handle(),
        }
    }

    /// A given wall time and seed, for runs that can be repeated. Time passes as the runtime's clock says, which a test
    /// may have paused.
    #[must_use]
    pub fn starting_at(wall: Timestamp, seed: u64, tasks: &TaskSet) -> Self {
        Self {
            clock: Clock::starting_at(wall),
            rng: Rng::from_seed(seed),
            tasks: tasks.handle(),
        }
    }
}
