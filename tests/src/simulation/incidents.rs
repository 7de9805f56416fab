//! Known incidents, each revived as a wrong variant of the product, and the schedules that show it.
//!
//! [`catch`] runs schedules with the incident until the checker reports a violation. It counts only if the same schedule is clean
//! without the incident.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use steersman_manager::incidents::{Incident, revive};

use super::fault::{Class, Fault, Target};
use super::random::Random;
use super::schedule::Schedule;
use super::{run, scenario};

/// The largest number of schedules for one incident.
pub const LIMIT: u64 = 2000;

/// The schedules that show an incident.
struct Row {
    incident: Incident,
    scenario: &'static str,
    /// The classes of the faults; without them, the schedule has no faults.
    classes: &'static [Class],
    processes: usize,
}

const fn row(incident: Incident, scenario: &'static str, classes: &'static [Class], processes: usize) -> Row {
    Row {
        incident,
        scenario,
        classes,
        processes,
    }
}

use Class::{F04, F05, F13, F17, F19, F20, F30, F31};
use Incident as I;

/// One row per incident.
const ROWS: &[Row] = &[
    row(I::G1, "gc-invalid", &[], 1),
    row(I::G2, "gc-virtual", &[], 1),
    row(I::G3, "gc-swap", &[], 1),
    row(I::G4, "gc-invalid", &[], 1),
    row(I::G5, "gc-cluster", &[], 1),
    row(I::G6, "gc-unlistable", &[], 1),
    row(I::G8, "gc-fg", &[], 1),
    row(I::G9, "gc-cycle", &[], 1),
    row(I::G10, "gc-unseen", &[], 1),
    row(I::G11, "gc-crd-removed", &[], 1),
    row(I::G12, "gc-virtual", &[], 1),
    row(I::G13, "gc-virtual", &[], 1),
    row(I::G14, "gc-start", &[], 1),
    row(I::R1, "rs-scale", &[F30], 1),
    row(I::R2, "deploy-webhook", &[], 1),
    row(I::R3, "rs-scale", &[F04, F05, F13], 1),
    row(I::R4, "rs-scale", &[F17, F20], 1),
    row(I::R5, "rs-scale", &[F19], 1),
    row(I::A1, "gc-start", &[], 1),
    row(I::A2, "gc-rejected", &[], 1),
    row(I::A3, "gc-slow", &[], 1),
    row(I::A4, "gc-crd-removed", &[], 1),
    row(I::A5, "gc-versions", &[], 1),
    row(I::A6, "gc-slow", &[], 1),
    row(I::A7, "gc-cluster", &[], 1),
    row(I::A8, "gc-restore", &[], 1),
    row(I::A9, "gc-failover", &[], 2),
    row(I::B1, "rs-evict", &[], 1),
    row(I::B2, "rs-quota", &[], 1),
    row(I::B3, "yielding", &[], 1),
    row(I::B4, "rs-namespace", &[], 1),
    row(I::C1, "gc-fg", &[F31], 2),
    row(I::C3, "hand-over", &[], 2),
];

impl Row {
    /// Returns the schedule of a seed: with up to three faults of the classes.
    fn schedule(&self, seed: u64) -> Schedule {
        let mut random = Random::new(seed ^ 0x001c_1de7);
        let count = match self.classes {
            [] => 0,
            _ => 1 + random.below(3),
        };
        let faults = (0..count).map(|_| {
            let class = *random.pick(self.classes);
            let at = match class.target() {
                Target::Request | Target::Event => random.below(100),
                Target::Step => random.below(500),
            };
            Fault {
                class,
                at,
                variant: u32::try_from(random.below(10_000)).unwrap_or_default(),
            }
        });
        Schedule {
            faults: faults.collect(),
            scenario: scenario::find(self.scenario).unwrap_or(&scenario::SCENARIOS[0]),
            seed,
            processes: self.processes,
            permuted: usize::MAX,
        }
    }
}

/// The search for an incident.
#[derive(Clone, Debug)]
pub struct Search {
    /// The incident.
    pub incident: Incident,
    /// The number of schedules that were run with the incident.
    pub schedules: u64,
    /// The schedule that shows the incident, and the invariant that it breaks.
    pub caught: Option<(Schedule, &'static str)>,
    /// Schedules that break an invariant without the incident.
    pub unclean: Vec<Schedule>,
}

impl fmt::Display for Search {
    /// Writes a row of a Markdown table.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (id, defect) = (self.incident.id(), self.incident.defect());
        match &self.caught {
            Some((schedule, invariant)) => {
                let seeds = self.schedules;
                write!(f, "| {id} | {defect} | {invariant} | {seeds} | `{schedule}` |")
            }
            None => write!(f, "| {id} | {defect} | not caught | {} | |", self.schedules),
        }
    }
}

/// The head of the table of searches.
pub const HEAD: &str = "| id | defect | invariant | seeds | schedule |\n|---|---|---|---|---|";

/// Returns an incident by its id: `G3`.
#[must_use]
pub fn find(id: &str) -> Option<Incident> {
    Incident::ALL.iter().copied().find(|it| it.id() == id)
}

/// Runs up to `limit` schedules with an incident, from a seed on, until one shows it.
#[must_use]
pub fn catch(incident: Incident, first_seed: u64, limit: u64) -> Search {
    let mut search = Search {
        incident,
        schedules: 0,
        caught: None,
        unclean: Vec::new(),
    };
    let Some(row) = ROWS.iter().find(|it| it.incident == incident) else {
        return search;
    };
    for seed in first_seed..first_seed.saturating_add(limit) {
        let schedule = row.schedule(seed);
        search.schedules += 1;
        revive(Some(incident));
        let with = run(&schedule, false);
        revive(None);
        let Some(violation) = with.violations.first() else {
            continue;
        };
        if run(&schedule, false).violations.is_empty() {
            search.caught = Some((schedule, violation.invariant));
            break;
        }
        search.unclean.push(schedule);
    }
    search
}

/// Searches all incidents in several threads. `report` gets each result.
pub fn catch_all(
    first_seed: u64,
    limit: u64,
    threads: usize,
    report: impl Fn(&Search) + Sync,
) -> Vec<Search> {
    let next = AtomicUsize::new(0);
    let found = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(incident) = Incident::ALL.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let search = catch(*incident, first_seed, limit);
                    report(&search);
                    found.lock().unwrap_or_else(PoisonError::into_inner).push(search);
                }
            });
        }
    });
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_by_key(|it| it.incident);
    found
}

/// Returns `31/33 revived incidents caught`.
#[must_use]
pub fn summary(searches: &[Search]) -> String {
    let caught = searches.iter().filter(|it| it.caught.is_some()).count();
    format!("{caught}/{} revived incidents caught", searches.len())
}
