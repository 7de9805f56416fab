//! Runs schedules of the simulation, or replays one.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use clap::Parser;
use steersman_tests::simulation::coverage::{Coverage, Site};
use steersman_tests::simulation::fault::{Class, Fault};
use steersman_tests::simulation::schedule::{self, CHAIN, Schedule};
use steersman_tests::simulation::{self, Outcome, scenario, shrink};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The number of schedules by default.
const SEEDS: u64 = 1000;
/// The number of schedules between two lines of progress.
const PROGRESS: u64 = 1000;

/// Runs the product under faults, in one thread per core, and checks every commit.
#[derive(Parser)]
#[command(name = "simulate")]
struct Arguments {
    /// The number of schedules; by default, 1000.
    #[arg(long)]
    seeds: Option<u64>,
    /// The seed of the first schedule, rounded down to the start of its chain.
    #[arg(long, default_value_t = 0)]
    first_seed: u64,
    /// Runs schedules again with a crash before or after each write site that had none.
    #[arg(long)]
    sites: bool,
    /// The number of threads; by default, one per core.
    #[arg(long)]
    threads: Option<NonZeroUsize>,
    /// Runs the schedules of a chain up to this seed, and prints the messages of the last one.
    #[arg(long)]
    seed: Option<u64>,
    /// Runs this scenario with the seed in processes of its own.
    #[arg(long, requires = "seed")]
    scenario: Option<String>,
    /// The number of the processes.
    #[arg(long, requires = "scenario", default_value_t = NonZeroUsize::MIN)]
    processes: NonZeroUsize,
    /// A fault: CLASS@POSITION:VARIANT. Without a scenario, before those of the seed.
    #[arg(long = "fault", requires = "seed")]
    faults: Vec<Fault>,
    /// The number of steps whose order is chosen by the seed.
    #[arg(long, requires = "scenario")]
    permuted_steps: Option<usize>,
    /// Searches all known incidents, each revived: after the schedules of --seeds, if that is set.
    #[cfg(feature = "incidents")]
    #[arg(long)]
    incidents: bool,
    /// Revives an incident. Without a seed, searches it.
    #[cfg(feature = "incidents")]
    #[arg(long)]
    incident: Option<String>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    #[cfg(feature = "incidents")]
    if let Some(code) = revived::run(&arguments) {
        return code;
    }
    match arguments.seed {
        Some(seed) => replay(&arguments, seed),
        None => volume(&arguments),
    }
}

fn replay(arguments: &Arguments, seed: u64) -> ExitCode {
    let mut chain = schedule::chain_to(seed);
    if let Some(name) = &arguments.scenario {
        let Some(scenario) = scenario::find(name) else {
            let names: Vec<_> = scenario::SCENARIOS.iter().map(|it| it.name).collect();
            eprintln!(
                "Error: there is no scenario {name:?}; use one of {}",
                names.join(", ")
            );
            return ExitCode::FAILURE;
        };
        chain = vec![Schedule {
            scenario,
            seed,
            processes: arguments.processes.get(),
            permuted: arguments.permuted_steps.unwrap_or(usize::MAX),
            faults: arguments.faults.clone(),
        }];
    } else if let Some(last) = chain.last_mut() {
        last.faults.splice(0..0, arguments.faults.iter().copied());
    }
    let outcomes = simulation::run_chain(&chain, true);
    let Some((outcome, schedule)) = outcomes.last().zip(chain.get(outcomes.len() - 1)) else {
        eprintln!("Error: no schedule was run");
        return ExitCode::FAILURE;
    };
    for line in &outcome.trace {
        println!("{line}");
    }
    println!("{schedule}");
    println!("{:?} in {:?}", outcome.counts, outcome.time);
    for violation in &outcome.violations {
        println!("{}: {}", violation.invariant, violation.message);
    }
    if outcome.violations.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

#[derive(Default)]
struct Total {
    schedules: u64,
    faults: usize,
    violations: Vec<(Schedule, Outcome)>,
    coverage: Coverage,
    /// The first schedule of each write site with those before it in its chain, and the position of the write.
    first: BTreeMap<Site, (Vec<Schedule>, usize)>,
}

impl Total {
    /// Adds the last schedule of a chain.
    fn add(&mut self, chain: &[Schedule], outcome: Outcome) {
        let Some(schedule) = chain.last() else { return };
        self.schedules += 1;
        self.faults += outcome.counts.faults;
        for (site, position) in &outcome.coverage.positions {
            if !self.first.contains_key(site) {
                self.first.insert(site.clone(), (chain.to_vec(), *position));
            }
        }
        self.coverage.extend(&outcome.coverage);
        if self.schedules.is_multiple_of(PROGRESS) {
            let (done, failed) = (self.schedules, self.violations.len());
            eprintln!("{done} schedules, {failed} violations");
        }
        if !outcome.violations.is_empty() {
            // At once, because the user may stop a long run.
            for violation in outcome.violations.iter().take(3) {
                println!("{}: {}", violation.invariant, violation.message);
            }
            println!("  {schedule}");
            if chain.len() > 1 {
                let drawn = Schedule::from_seed(schedule.seed).faults.len();
                let added = schedule.faults.iter().take(schedule.faults.len() - drawn);
                let added: Vec<_> = added.map(|it| format!(" --fault {it}")).collect();
                let (seed, added) = (schedule.seed, added.concat());
                println!("  with the schedules before it in its chain: --seed {seed}{added}");
            }
            self.violations.push((schedule.clone(), outcome));
        }
    }

    /// Crashes a process before, and after, each write site at which that has not happened.
    fn crash_at_missing_sites(&mut self) {
        let missing: Vec<Site> = self.coverage.missing().into_iter().map(str::to_owned).collect();
        for site in missing {
            let Some((mut chain, at)) = self.first.remove(&site) else {
                continue;
            };
            let covered = [&self.coverage.before, &self.coverage.after].map(|it| it.contains(&site));
            for (class, is_covered) in [Class::F01, Class::F02].into_iter().zip(covered) {
                let variant = 0;
                let Some(last) = chain.last_mut().filter(|_| !is_covered) else {
                    continue;
                };
                // Before the others, which may be due at the same request.
                last.faults.insert(0, Fault { class, at, variant });
                if let Some(outcome) = simulation::run_chain(&chain, false).pop() {
                    self.add(&chain, outcome);
                }
                chain.last_mut().map(|it| it.faults.remove(0));
            }
        }
    }
}

impl Arguments {
    fn thread_count(&self) -> usize {
        let threads = self.threads.or_else(|| thread::available_parallelism().ok());
        threads.map_or(1, NonZeroUsize::get)
    }
}

/// Known incidents.
#[cfg(feature = "incidents")]
mod revived {
    use std::process::ExitCode;

    use steersman_manager::incidents::revive;
    use steersman_tests::simulation::incidents::{HEAD, LIMIT, Search, catch, catch_all, find, summary};

    use super::Arguments;

    /// Searches incidents. Returns nothing if a schedule has to be run; its incident is then revived in this thread.
    pub(super) fn run(arguments: &Arguments) -> Option<ExitCode> {
        let found = if let Some(id) = &arguments.incident {
            let Some(incident) = find(id) else {
                eprintln!("Error: there is no incident {id:?}");
                return Some(ExitCode::FAILURE);
            };
            if arguments.seed.is_some() {
                revive(Some(incident));
                return None;
            }
            vec![catch(incident, arguments.first_seed, LIMIT)]
        } else if arguments.incidents && arguments.seeds.is_none() {
            all(arguments)
        } else {
            return None;
        };
        println!("{HEAD}");
        for search in &found {
            println!("{search}");
        }
        for search in &found {
            for schedule in &search.unclean {
                let id = search.incident.id();
                println!("{id}: a schedule breaks an invariant without the incident: {schedule}");
            }
        }
        println!("{}", summary(&found));
        Some(if is_success(&found) {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }

    /// Returns the last part of the line of a volume run, and whether all incidents were caught.
    pub(super) fn after_volume(arguments: &Arguments) -> (String, bool) {
        if !arguments.incidents {
            return (String::new(), true);
        }
        let found = all(arguments);
        (format!(", {}", summary(&found)), is_success(&found))
    }

    fn all(arguments: &Arguments) -> Vec<Search> {
        let threads = arguments.thread_count();
        // The table in the README has the same seeds.
        catch_all(0, LIMIT, threads, |it| eprintln!("{it}"))
    }

    fn is_success(found: &[Search]) -> bool {
        found
            .iter()
            .all(|it| it.caught.is_some() && it.unclean.is_empty())
    }
}

/// Without the feature, no incident can be revived.
#[cfg(not(feature = "incidents"))]
mod revived {
    pub(super) fn after_volume(_: &super::Arguments) -> (String, bool) {
        (String::new(), true)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn volume(arguments: &Arguments) -> ExitCode {
    let begun = now();
    let threads = arguments.thread_count();
    let first = arguments.first_seed - arguments.first_seed % CHAIN;
    let seeds = arguments.seeds.unwrap_or(SEEDS);
    let end = first.saturating_add(seeds);
    let chains = (first / CHAIN..end.div_ceil(CHAIN)).flat_map(|chain| {
        let seed = chain * CHAIN;
        schedule::chains(seed..end.min(seed.saturating_add(CHAIN)))
    });
    let chains = Mutex::new(chains);
    let next = || lock(&chains).next();
    let total = Mutex::new(Total::default());
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(chain) = next() {
                    let outcomes = simulation::run_chain(&chain, false);
                    let mut total = lock(&total);
                    for (index, outcome) in outcomes.into_iter().enumerate() {
                        total.add(&chain[..=index], outcome);
                    }
                }
            });
        }
    });
    let mut total = total.into_inner().unwrap_or_else(PoisonError::into_inner);
    if arguments.sites {
        total.crash_at_missing_sites();
    }
    let mut groups: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for (schedule, outcome) in &total.violations {
        for violation in outcome.violations.iter().take(1) {
            *groups
                .entry((schedule.scenario.name, violation.invariant))
                .or_default() += 1;
        }
    }
    for ((scenario, invariant), count) in groups {
        println!("{count} times {invariant} in {scenario}");
    }
    for (schedule, _) in total.violations.iter().take(1) {
        let alone = simulation::run(schedule, false);
        if alone.violations.is_empty() {
            println!(
                "  --seed {} breaks only after the schedules before it",
                schedule.seed
            );
        } else {
            let shrunk = shrink::shrink(schedule, &alone, |it| simulation::run(it, false));
            println!("  shrunk: {shrunk}");
        }
    }
    let core_millis = begun.elapsed().as_millis() * threads as u128;
    let rate = u128::from(total.schedules) * 1000 / core_millis.max(1);
    println!(
        "{rate} schedules per second and core; faults: {:?}",
        total.coverage.faults
    );
    let (incidents, all_caught) = revived::after_volume(arguments);
    println!(
        "write sites without both crashes: {}",
        total.coverage.missing().join(", ")
    );
    println!(
        "{} schedules, {} faults injected, {} of {} write sites covered before/after, {} violations{incidents}",
        total.schedules,
        total.faults,
        total.coverage.covered(),
        total.coverage.sites.len(),
        total.violations.len(),
    );
    if total.violations.is_empty() && all_caught {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

#[expect(clippy::disallowed_methods, reason = "the rate of schedules, in true time")]
fn now() -> Instant {
    Instant::now()
}
