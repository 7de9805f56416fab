//! Managers, an API server and nodes in one thread, on a virtual clock, with every order chosen by a seed.
//!
//! [`run`] executes a [`Schedule`]: a scenario with a seed and faults. The processes are the product's own
//! wiring on a [link] instead of a socket; the [network] owns every message; the [checker] sees every commit.

pub mod body;
pub mod checker;
pub mod coverage;
pub mod fault;
#[cfg(feature = "incidents")]
pub mod incidents;
pub mod link;
pub mod network;
mod panics;
mod processes;
pub mod random;
pub mod record;
pub mod scenario;
pub mod schedule;
pub mod shrink;
#[cfg(test)]
mod tests;
pub mod user;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use checker::{BUILT_IN, Checker, LeaseRules, Rules};
use coverage::Coverage;
use jiff::Timestamp;
use network::{Counts, Network, Options};
use record::Violation;
use schedule::Schedule;
use steersman_config::{Config, Parsed};
use steersman_controllers::api::{self, crd};
use steersman_sandbox::{InternalController, Sandbox};
use user::User;

/// The wall time at the start of a run.
pub const START: Timestamp = Timestamp::constant(1_767_225_600, 0);

/// The time without writes after which the state is checked: that of one process, and of several ones. These send many messages for
/// their Lease meanwhile.
const STILL: [Duration; 2] = [Duration::from_secs(30), Duration::from_secs(10)];
/// The time until the next check if the desired state is not reached: it often takes as long as a Lease.
const CHECK_INTERVAL: Duration = Duration::from_secs(30);
/// The longest time until the desired state is reached, after the last fault and the expiry of a Lease.
const LIMIT: Duration = Duration::from_mins(10);

/// The result of a run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The broken invariants; empty if the run is correct.
    pub violations: Vec<Violation>,
    /// The counts.
    pub counts: Counts,
    /// The covered write sites.
    pub coverage: Coverage,
    /// One line for each message, if asked for.
    pub trace: Vec<String>,
    /// The virtual time.
    pub time: Duration,
}

/// The resources that the API serves. Each one costs the garbage collector a watch.
const SERVED: [(&str, &str); 12] = [
    ("", "configmaps"),
    ("", "events"),
    ("", "namespaces"),
    ("", "nodes"),
    ("", "pods"),
    ("", "replicationcontrollers"),
    ("", "services"),
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("apps", "deployments"),
    ("apps", "replicasets"),
    ("coordination.k8s.io", "leases"),
    ("events.k8s.io", "events"),
];

/// Returns the configuration of the processes of a schedule. Parsing is slow, so a configuration is parsed once.
fn config(schedule: &Schedule) -> Arc<Config> {
    static PARSED: Mutex<BTreeMap<(&str, bool), Arc<Config>>> = Mutex::new(BTreeMap::new());
    let key = (schedule.scenario.controllers, schedule.processes > 1);
    let mut parsed = PARSED.lock().unwrap_or_else(PoisonError::into_inner);
    parsed
        .entry(key)
        .or_insert_with(|| Arc::new(parse(key.0, key.1)))
        .clone()
}

/// Returns the times of the election: the defaults, and longer ones for a single process, because each renewal takes as long as a
/// write.
fn lease_times(several: bool) -> [Duration; 3] {
    let seconds = if several { [15, 10, 2] } else { [600, 400, 100] };
    seconds.map(Duration::from_secs)
}

/// Returns the longest time until the desired state is reached, after the last fault: by a clock with half the rate, a Lease takes
/// twice as long to expire.
fn limit(schedule: &Schedule) -> Duration {
    let [lease_duration, ..] = lease_times(schedule.processes > 1);
    2 * lease_duration + LIMIT
}

fn parse(controllers: &str, several: bool) -> Config {
    let [lease_duration, renew_deadline, retry_period] =
        lease_times(several).map(|it| format!("{}s", it.as_secs()));
    let yields = controllers == "*";
    let arguments = [
        format!("--controllers={controllers}"),
        format!("--assume-no-kube-controller-manager={}", !yields),
        format!("--leader-elect-lease-duration={lease_duration}"),
        format!("--leader-elect-renew-deadline={renew_deadline}"),
        format!("--leader-elect-retry-period={retry_period}"),
    ];
    match steersman_config::parse(arguments.map(Into::into), &steersman::known()) {
        Ok(Parsed::Run(config)) => *config,
        Ok(_) => unreachable!("the arguments run a manager"),
        Err(error) => unreachable!("{error}"),
    }
}

/// Returns a sandbox with the CRDs of the product, and a checker that knows its objects. Schedules run on forks of it. Only the
/// `AppService` controller needs managed fields, which make the other schedules slower.
fn started(controllers: &str) -> &'static (Sandbox, Checker) {
    static STARTED: [OnceLock<(Sandbox, Checker)>; 2] = [OnceLock::new(), OnceLock::new()];
    let applies = controllers.contains("appservice");
    STARTED[usize::from(applies)].get_or_init(|| {
        let serves = |group: &str, resource: &str| SERVED.contains(&(group, resource));
        let sandbox = Sandbox::builder()
            .env(steersman_sandbox::Env::starting_at(START, 0))
            .crds(crd::yaml::documents(&api::crds()))
            .journal(true)
            .managed_fields(applies)
            .delayed(InternalController::NamespaceDeletion)
            .serve_only(serves)
            .start()
            .expect("a sandbox with valid CRDs");
        let checker = checker(&sandbox);
        (sandbox, checker)
    })
}

/// Returns a checker that knows the objects of a sandbox.
fn checker(sandbox: &Sandbox) -> Checker {
    let served = |kind: &&checker::Kind| {
        let (resource, group) = kind.collection.split_once('.').unwrap_or((kind.collection, ""));
        SERVED.contains(&(group, resource))
    };
    let mut checker = Checker::new(Rules {
        kinds: BUILT_IN.iter().filter(served).copied().collect(),
        ..Rules::default()
    });
    for commit in sandbox.take_commits() {
        if let Some(after) = commit.after {
            checker
                .load(&commit.collection, &commit.key, after)
                .expect("a valid initial state");
        }
    }
    checker
}

/// Returns the rules of a schedule.
fn rules(schedule: &Schedule) -> Rules {
    let [lease_duration, renew_deadline, retry_period] = lease_times(schedule.processes > 1);
    let lease = LeaseRules {
        lease_duration,
        renew_deadline,
        retry_period,
        ..LeaseRules::default()
    };
    let is_immediate = !network::has_latency(schedule.seed);
    let mut rules = Rules {
        lease: Some(lease),
        collects: schedule.scenario.controllers.contains("garbage"),
        has_one_cache: schedule.scenario.controllers == scenario::GARBAGE && is_immediate,
        takes_over_at_once: is_immediate,
        converges_within: limit(schedule),
        ..Rules::default()
    };
    (schedule.scenario.rules)(schedule, &mut rules);
    rules
}

/// Runs a schedule in processes of its own. With `trace`, the outcome has a line for each message.
#[must_use]
pub fn run(schedule: &Schedule, trace: bool) -> Outcome {
    let mut outcomes = run_chain(std::slice::from_ref(schedule), trace);
    outcomes.pop().unwrap_or_default()
}

/// Runs schedules one after another in the same processes, each in a namespace of its own, until one has a violation. All of
/// them have the controllers and the number of processes of the first one.
///
/// # Panics
/// If the runtime cannot be built.
#[must_use]
pub fn run_chain(schedules: &[Schedule], trace: bool) -> Vec<Outcome> {
    let cell: Arc<OnceLock<Network>> = Arc::default();
    let (hook, ended) = (cell.clone(), cell.clone());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .on_thread_park(move || {
            if let Some(network) = hook.get() {
                network.step();
            }
        })
        .build()
        .expect("a runtime without drivers of the machine");
    panics::record();
    let outcomes: Arc<Mutex<Vec<Outcome>>> = Arc::default();
    let task = drive(schedules.to_vec(), trace, cell, outcomes.clone());
    let driven = runtime.block_on(async move {
        #[expect(clippy::disallowed_methods, reason = "the only task of the simulation itself")]
        let task = tokio::spawn(task);
        task.await
    });
    // The tasks end with the runtime. They may have woken others, whose wakers refer to the runtime, which refers to the network.
    drop(runtime);
    if let Some(network) = ended.get() {
        drop(network.end());
    }
    let mut outcomes = std::mem::take(&mut *outcomes.lock().unwrap_or_else(PoisonError::into_inner));
    if driven.is_err() {
        outcomes.push(Outcome::default());
    }
    if let (Some(last), Some(message)) = (outcomes.last_mut(), panics::take()) {
        last.violations.push(Violation {
            invariant: "S10",
            message,
        });
    }
    outcomes
}

async fn drive(
    schedules: Vec<Schedule>,
    trace: bool,
    cell: Arc<OnceLock<Network>>,
    outcomes: Arc<Mutex<Vec<Outcome>>>,
) {
    let Some(first) = schedules.first() else { return };
    let (sandbox, checker) = started(first.scenario.controllers);
    let network = Network::new(Options {
        sandbox: sandbox.fork_in(steersman_sandbox::Env::starting_at(START, first.seed)),
        servers: 2,
        checker: checker.clone(),
        trace,
    });
    network.set_starter(processes::starter(config(first)));
    let _ = cell.set(network.clone());
    network.start_pump();
    for (number, schedule) in schedules.iter().enumerate() {
        let mut rules = rules(schedule);
        if number > 0 {
            // Faults of the schedules before have effects: a lost history, a process that has just started.
            rules.has_one_cache = false;
            rules.takes_over_at_once = false;
        }
        network.begin(schedule, rules);
        let mut user = User::from_network(network.clone(), schedule.seed ^ 0x00c0_ffee);
        if number == 0 {
            (schedule.scenario.prepare)(&mut user);
            for slot in 0..schedule.processes {
                network.start_later(slot, Duration::ZERO);
            }
            // Some schedules begin before a process leads.
            user.pause(600).await;
        } else {
            user.use_namespace(format!("n{number}"));
            if schedule.scenario.controllers.contains("appservice") {
                user.restore_crds();
            }
        }
        (schedule.scenario.run)(&mut user).await;
        let outcome = settle(&network, &mut user, schedule, number + 1 == schedules.len()).await;
        let is_correct = outcome.violations.is_empty();
        outcomes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(outcome);
        if !is_correct {
            break;
        }
    }
    drop(network.end());
}

/// Ends the faults, and waits until the desired state is reached.
async fn settle(network: &Network, user: &mut User, schedule: &Schedule, is_last: bool) -> Outcome {
    let still = STILL[usize::from(schedule.processes > 1)];
    let limit = limit(schedule);
    network.end_faults();
    let quiet = network::now();
    let mut interval = Duration::from_secs(5);
    let mut remaining = loop {
        user.wait(interval).await;
        let now = network::now();
        let mut state = network.state();
        if now.duration_since(state.last_write) < still {
            continue;
        }
        let at = state.at();
        let unmet = state.checker.at_rest(at);
        if unmet.is_empty() || now.duration_since(quiet) > limit {
            break unmet;
        }
        state.log(|| format!("not at rest: {}", unmet[0].message));
        interval = CHECK_INTERVAL;
    };
    // Rendering the metrics takes long.
    if is_last {
        network.report_figures();
    }
    let mut state = network.state();
    let mut violations = std::mem::take(&mut state.violations);
    violations.append(&mut remaining);
    Outcome {
        violations,
        counts: state.counts.clone(),
        coverage: std::mem::take(&mut state.coverage),
        trace: state.trace.as_mut().map(std::mem::take).unwrap_or_default(),
        time: state.at(),
    }
}
