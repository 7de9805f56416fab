//! Injected clock, random number generator and tasks.
//!
//! One [`Env`] per manager is passed down to everything it starts. Two managers in one process have separate ones, so that a
//! simulation can control each clock and reproduce a run from its seed. No other module reads a clock, draws entropy or
//! spawns tasks.
//!
//! In a test with `#[tokio::test(start_paused = true)]` an hour passes at once:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use steersman_manager::env::{Env, TaskSet};
//! use std::time::Duration;
//!
//! let tasks = TaskSet::new();
//! let env = Env::starting_at("2026-01-01T00:00:00Z".parse()?, 7, &tasks);
//! let clock = env.clock.clone();
//! env.tasks.spawn(async move { clock.sleep(Duration::from_hours(1)).await }).await?;
//! assert_eq!(env.clock.wall().to_string(), "2026-01-01T01:00:00Z");
//! # Ok(())
//! # }
//! ```

mod clock;
mod rng;
mod tasks;

pub use clock::{Clock, Fault, Mark, later};
pub use rng::Rng;
pub use tasks::{TaskOrder, TaskSet, Tasks, Turn};

use jiff::Timestamp;

/// The environment of a manager. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Env {
    /// Monotonic time, wall time and sleep.
    pub clock: Clock,
    /// The seeded random number generator.
    pub rng: Rng,
    /// Spawns tasks, which end with the [`TaskSet`].
    pub tasks: Tasks,
}

impl Env {
    /// Returns the machine's clock and a seed from its entropy.
    #[must_use]
    pub fn system(tasks: &TaskSet) -> Self {
        Self {
            clock: Clock::system(),
            rng: Rng::from_entropy(),
            tasks: tasks.handle(),
        }
    }

    /// Returns a clock and a generator for reproducible runs. Time passes with the runtime's clock, which a test may pause.
    #[must_use]
    pub fn starting_at(wall: Timestamp, seed: u64, tasks: &TaskSet) -> Self {
        Self {
            clock: Clock::starting_at(wall),
            rng: Rng::from_seed(seed),
            tasks: tasks.handle(),
        }
    }
}
