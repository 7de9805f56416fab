//! One run: a scenario, a seed for the order of messages, and faults.

use std::fmt;
use std::ops::Range;

use super::fault::{Class, Fault, Target};
use super::network::AIMS;
use super::random::Random;
use super::scenario::{ALL, BUILT_IN, GARBAGE, REPLICAS, SCENARIOS, Scenario, WORKLOADS};

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

/// The part of the chains whose schedules have processes of their own, in percent: such a schedule takes as long as three others.
const UNCHAINED: usize = 12;

/// The controllers of the other chains. More controllers have more write sites.
const CONTROLLERS: [&str; 8] = [
    REPLICAS, WORKLOADS, WORKLOADS, GARBAGE, GARBAGE, BUILT_IN, BUILT_IN, ALL,
];

/// Returns the schedules from the start of the chain of a seed to the seed. Scenarios that change the rules of a run, or its
/// start, have chains of one schedule.
#[must_use]
pub fn chain_to(seed: u64) -> Vec<Schedule> {
    let last = Schedule::from_seed(seed);
    if !last.scenario.is_chained {
        return vec![last];
    }
    let before = (seed - seed % CHAIN..seed).map(Schedule::from_seed);
    before.chain([last]).collect()
}

/// Returns the chains of seeds that begin with a chain.
#[must_use]
pub fn chains(seeds: Range<u64>) -> Vec<Vec<Schedule>> {
    let mut chains: Vec<Vec<Schedule>> = Vec::new();
    for schedule in seeds.map(Schedule::from_seed) {
        match chains.last_mut() {
            Some(chain) if schedule.scenario.is_chained && !schedule.seed.is_multiple_of(CHAIN) => {
                chain.push(schedule);
            }
            _ => chains.push(vec![schedule]),
        }
    }
    chains
}

impl Schedule {
    /// Returns the schedule of a seed: any scenario with the controllers of its chain, and up to four faults of any class.
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        let mut random = Random::new((seed / CHAIN) ^ 0xc4a1);
        let is_chained = !random.percent(UNCHAINED);
        let controllers = *random.pick(&CONTROLLERS);
        let processes = *random.pick(&[1, 1, 1, 2, 3]);
        let suits =
            |it: &&Scenario| it.is_chained == is_chained && (!is_chained || it.controllers == controllers);
        let scenarios: Vec<&'static Scenario> = SCENARIOS.iter().filter(suits).collect();
        let is_first = !is_chained || seed.is_multiple_of(CHAIN);
        let mut random = Random::new(seed ^ 0x5eed);
        let scenario = *random.pick(&scenarios);
        let count = *random.pick(&[0, 1, 1, 1, 2, 2, 3, 4]);
        let most = if is_first {
            120
        } else {
            *random.pick(&[15, 30, 60])
        };
        let faults = (0..count).map(|_| {
            // Crashes at write sites, which an odd variant counts, are drawn more often: all sites have to be covered.
            if random.percent(25) {
                let aim = random.below(AIMS.len());
                return Fault {
                    class: *random.pick(&[Class::F01, Class::F02]),
                    at: random.below(if aim == 0 { 16 } else { 6 }),
                    variant: u32::try_from(2 * aim + 1).unwrap_or(1),
                };
            }
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
