//! One run: a scenario, a seed for the order of messages, and faults.

use std::fmt;

use super::fault::{Class, Fault, Target};
use super::random::Random;
use super::scenario::{SCENARIOS, Scenario};

/// The input of a run. Equal schedules give equal runs.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// The scenario.
    pub scenario: &'static Scenario,
    /// Chooses the order of messages, the times of the user's steps, and all other random values.
    pub seed: u64,
    /// The number of processes of the product. Several processes have Leases of the usual duration, and one has a long one.
    pub processes: usize,
    /// The number of steps whose order is chosen by the seed. Later messages are delivered in the order of sending.
    pub permuted: usize,
    /// The faults.
    pub faults: Vec<Fault>,
}

/// The number of schedules that the same processes run one after another: the start of a process takes as long as several
/// schedules.
pub const CHAIN: u64 = 16;

/// Returns the schedules from the start of the chain of a seed to the seed.
#[must_use]
pub fn chain_to(seed: u64) -> Vec<Schedule> {
    (seed - seed % CHAIN..=seed).map(Schedule::of_seed).collect()
}

impl Schedule {
    /// Returns the schedule of a seed: any scenario with the controllers of its chain, and up to four faults of any class.
    #[must_use]
    pub fn of_seed(seed: u64) -> Self {
        let mut random = Random::new((seed / CHAIN) ^ 0xc4a1);
        let controllers = random.pick(SCENARIOS).controllers;
        let processes = *random.pick(&[1, 1, 1, 2, 3]);
        let is_first = seed.is_multiple_of(CHAIN);
        let suits = |it: &&Scenario| it.controllers == controllers && (is_first || it.prepare.is_none());
        let scenarios: Vec<&'static Scenario> = SCENARIOS.iter().filter(suits).collect();
        let mut random = Random::new(seed ^ 0x5eed);
        let scenario = *random.pick(&scenarios);
        let count = *random.pick(&[0, 1, 1, 1, 2, 2, 3, 4]);
        let most = if is_first {
            120
        } else {
            *random.pick(&[15, 30, 60])
        };
        let faults = (0..count).map(|_| {
            let class = *random.pick(Class::ALL);
            let at = match class.target() {
                Target::Request | Target::Event => random.below(most),
                Target::Step => random.below(4 * most),
            };
            Fault {
                class,
                at,
                variant: u32::try_from(random.below(10_000)).unwrap_or_default(),
            }
        });
        let faults = faults.collect();
        Self {
            scenario,
            seed,
            processes,
            permuted: usize::MAX,
            faults,
        }
    }
}

impl fmt::Display for Schedule {
    /// Writes the arguments of `simulate` that replay the schedule.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--scenario {} --seed {}", self.scenario.name, self.seed)?;
        if self.processes != 1 {
            write!(f, " --processes {}", self.processes)?;
        }
        if self.permuted != usize::MAX {
            write!(f, " --permuted-steps {}", self.permuted)?;
        }
        self.faults.iter().try_for_each(|it| write!(f, " --fault {it}"))
    }
}
