//! The soak: processes of the product on a real kube-apiserver, behind proxies that inject faults, for a given time.
//!
//! Each round runs some scenarios of the simulation at the same time, under faults. Then the faults end, and the desired state
//! has to be reached. The simulation's checker evaluates every commit of etcd and every request at the proxies.

mod etcd;
mod history;
mod injector;
mod managers;
mod nodes;
mod proxy;
mod recorder;
mod user;

use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;
use steersman_controllers::api;
use steersman_harness::endpoint::{self, ClientError};
use steersman_harness::real::{self, KUBECONFIG};
use steersman_harness::{Api, cluster::StartError, fixtures, time};
use steersman_manager::env::{TaskSet, Tasks};
use tokio::sync::mpsc;

use crate::simulation::random::Random;
use crate::simulation::record::Violation;
use crate::simulation::scenario::{SCENARIOS, Scenario};
use crate::simulation::user::User;
use injector::Injector;
pub use managers::MANAGER;
use managers::{Managers, Parts};
use proxy::Upstream;
use recorder::{Counts, Recorder};
use user::RealUser;

/// The scenarios of one round.
const SCENARIOS_PER_ROUND: usize = 6;
/// Scenarios with cluster-scoped objects, whose names are the same in each round.
const EXCLUDED: [&str; 2] = ["gc-cluster", "gc-versions"];
/// The longest time of faults after the last step.
const FAULTS_AFTER_STEPS: Duration = Duration::from_secs(20);
/// The number of processes.
const PROCESSES: usize = 3;
/// The longest time until the desired state is reached after the last fault.
const CONVERGES_WITHIN: Duration = Duration::from_mins(3);
/// The longest time of the steps of a round.
const STEPS_MAX: Duration = Duration::from_mins(3);
/// The longest time until the objects of a round are deleted.
const CLEANUP_MAX: Duration = Duration::from_mins(3);
/// The longest time until the CRDs are served.
const SERVED_WITHIN: Duration = Duration::from_mins(1);
/// The number of requests of the processes after which the run ends.
const REQUESTS_MAX: usize = 2_000_000;
/// The longest delay of a step of a node.
const NODE_DELAY_MAX: Duration = Duration::from_millis(500);
const POLL: Duration = Duration::from_millis(250);

/// The options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The directory of kube-apiserver and etcd.
    pub assets: PathBuf,
    /// The executable of the processes: see [`MANAGER`].
    pub binary: PathBuf,
    /// Chooses scenarios and faults.
    pub seed: u64,
    /// The time after which no round starts.
    pub time: Duration,
    /// The largest number of rounds.
    pub rounds: usize,
}

/// The result of a run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The number of rounds.
    pub rounds: usize,
    /// The number of broken invariants.
    pub violations: usize,
}

/// The run cannot continue. Not retryable.
#[derive(Debug, thiserror::Error)]
pub enum SoakError {
    /// The servers did not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// A client could not be created.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The proxies could not connect.
    #[error("cannot connect the proxies: {0}")]
    Proxy(Box<dyn std::error::Error + Send + Sync>),
    /// The directory could not be created.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The record is not complete.
    #[error("{0}")]
    Record(String),
}

/// The parts of a run.
struct Soak {
    api: Api,
    recorder: Recorder,
    injector: Injector,
    managers: Managers,
    random: Random,
    seed: u64,
    tasks: Tasks,
}

/// Runs rounds, and prints a line for each one. All processes end with the returned future, also if it is dropped.
pub async fn run(options: &Options) -> Result<Outcome, SoakError> {
    let dir = tempfile::Builder::new().prefix("steersman-soak-").tempdir()?;
    let servers = real::start_with(&options.assets, &dir, &["--storage-media-type=application/json"]).await?;
    let kubeconfig = dir.path().join(KUBECONFIG);
    let api = Api::new(endpoint::client(&kubeconfig).await?);
    let tasks = TaskSet::new();
    let recorder = Recorder::new(CONVERGES_WITHIN);
    let mut random = Random::new(options.seed);
    let injector = Injector::new(random.next(), recorder.clone(), api.clone(), tasks.handle());
    let ended = tasks.handle().spawn(record(
        servers.etcd.clone(),
        recorder.clone(),
        injector.clone(),
        api.clone(),
        tasks.handle(),
    ));
    install_crds(&api).await?;
    let upstream = Upstream::new(&kubeconfig, recorder.clone(), injector.clone(), tasks.handle());
    let managers = Managers::new(Parts {
        recorder: recorder.clone(),
        injector: injector.clone(),
        upstream: upstream.await.map_err(SoakError::Proxy)?,
        endpoint: servers.endpoint.clone(),
        binary: options.binary.clone(),
        dir: dir.path(),
    });
    let processes = managers.clone();
    let soak = Soak {
        api,
        recorder,
        injector,
        managers,
        random,
        seed: options.seed,
        tasks: tasks.handle(),
    };
    tokio::select! {
        biased;
        ended = ended => Err(SoakError::Record(ended.unwrap_or_else(|error| error.to_string()))),
        () = processes.run(PROCESSES) => Err(SoakError::Record("the processes have ended".to_owned())),
        outcome = Box::pin(soak.rounds(options)) => outcome,
    }
}

/// Passes the changes of etcd to the record and to the nodes. Returns the reason of its end.
async fn record(etcd: String, recorder: Recorder, injector: Injector, api: Api, tasks: Tasks) -> String {
    let (sender, mut changes) = mpsc::unbounded_channel();
    let watch = tasks.spawn(async move { etcd::watch(&etcd, sender).await });
    while let Some(change) = changes.recv().await {
        if change.collection == "pods" {
            nodes::pod_changed(&change, &api, &tasks, injector.delay(NODE_DELAY_MAX));
        }
        recorder.change(change);
    }
    watch
        .await
        .map_or_else(|error| error.to_string(), |ended| ended.0)
}

/// Creates the CRDs of the product, and waits until they are served.
async fn install_crds(api: &Api) -> Result<(), SoakError> {
    for definition in api::crds() {
        let plural = definition["spec"]["names"]["plural"].as_str().unwrap_or_default();
        let path = format!("/apis/{}/{}/{plural}", api::GROUP, api::VERSION);
        let name = format!("{}/{plural}.{}", fixtures::CRDS, api::GROUP);
        let served = time::eventually(SERVED_WITHIN, async || {
            let reply = api.get(&name).await;
            if reply.status == 404 {
                api.post(fixtures::CRDS, &definition).await;
                return None;
            }
            let is_terminating = !reply.json()["metadata"]["deletionTimestamp"].is_null();
            (!is_terminating && api.get(&path).await.status == 200).then_some(())
        });
        if served.await.is_none() {
            return Err(SoakError::Record(format!("{path} is not served")));
        }
    }
    Ok(())
}

impl Soak {
    async fn rounds(mut self, options: &Options) -> Result<Outcome, SoakError> {
        let begun = time::now();
        let mut outcome = Outcome::default();
        while outcome.rounds < options.rounds && begun.elapsed() < options.time {
            outcome.rounds += 1;
            outcome.violations += self.round(outcome.rounds).await?;
            if self.recorder.counts().requests > REQUESTS_MAX {
                println!("more than {REQUESTS_MAX} requests: the run ends");
                outcome.violations += 1;
                break;
            }
        }
        let Counts {
            requests,
            commits,
            own_commits,
            faults,
        } = self.recorder.counts();
        println!("faults: {faults:?}");
        println!(
            "{} rounds, {requests} requests, {commits} commits ({own_commits} by the processes), {} faults injected, {} \
             processes killed, {} violations, seed {}",
            outcome.rounds,
            faults.values().sum::<usize>(),
            self.managers.crashes(),
            outcome.violations,
            options.seed,
        );
        Ok(outcome)
    }

    /// Runs one round. Returns the number of violations.
    async fn round(&mut self, number: usize) -> Result<usize, SoakError> {
        let begun = time::now();
        let before = self.recorder.counts();
        install_crds(&self.api).await?;
        self.recorder.begin_round();
        let scenarios = self.choose();
        let names: Vec<&str> = scenarios.iter().map(|it| it.name).collect();
        let namespaces = self.run_steps(number, &scenarios).await;
        self.recorder.quiet();
        let quiet = time::now();
        let unmet = self.settle().await;
        let settled = quiet.elapsed();
        self.read_figures().await;
        self.clean_up(&namespaces).await;
        let violations = [self.recorder.take_violations(), unmet].concat();
        let after = self.recorder.counts();
        let faults = |counts: &Counts| counts.faults.values().sum::<usize>();
        println!(
            "round {number}: {}; {:.0?}, at rest after {settled:.0?}, {} requests, {} faults, {} violations",
            names.join(", "),
            begun.elapsed(),
            after.requests - before.requests,
            faults(&after) - faults(&before),
            violations.len(),
        );
        if !violations.is_empty() {
            self.report(number, &violations).await;
        }
        Ok(violations.len())
    }

    /// Returns different scenarios.
    fn choose(&mut self) -> Vec<&'static Scenario> {
        let mut all: Vec<&Scenario> = SCENARIOS
            .iter()
            .filter(|it| it.is_chained && !EXCLUDED.contains(&it.name))
            .collect();
        let count = SCENARIOS_PER_ROUND.min(all.len());
        let mut chosen = Vec::new();
        for _ in 0..count {
            chosen.push(all.swap_remove(self.random.below(all.len())));
        }
        chosen
    }

    /// Runs the steps of all scenarios under faults. Returns the namespaces.
    async fn run_steps(&mut self, round: usize, scenarios: &[&'static Scenario]) -> Vec<String> {
        let mut namespaces = Vec::new();
        let mut running = Vec::new();
        for scenario in scenarios {
            let namespace = format!("round-{round}-{}", scenario.name);
            let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
            self.api.post("/api/v1/namespaces", object).await.expect(201);
            namespaces.push(namespace);
        }
        self.injector.begin();
        let injector = self.injector.clone();
        let faults = self.tasks.spawn(async move { injector.run().await });
        for (scenario, namespace) in scenarios.iter().zip(&namespaces) {
            let user = RealUser {
                api: self.api.clone(),
                namespace: namespace.clone(),
            };
            let mut user = User::new(user, self.random.next());
            let steps = scenario.run;
            running.push(self.tasks.spawn(async move { steps(&mut user).await }));
        }
        let recorder = self.recorder.clone();
        let more = self.random.up_to(FAULTS_AFTER_STEPS);
        let all = async {
            for steps in running {
                if let Err(error) = steps.await {
                    recorder.violation("record", format!("the steps of a scenario failed: {error}"));
                }
            }
            time::pause(more).await;
        };
        let done = time::within(STEPS_MAX, self.evaluating(all)).await;
        if done.is_none() {
            self.recorder.violation(
                "record",
                format!("the steps of round {round} took more than {STEPS_MAX:?}"),
            );
        }
        self.injector.end();
        let _ = faults.await;
        namespaces
    }

    /// Evaluates the record while `work` runs.
    async fn evaluating<T>(&self, work: impl Future<Output = T>) -> T {
        let evaluate = async {
            loop {
                self.recorder.evaluate();
                time::pause(POLL).await;
            }
        };
        tokio::select! {
            biased;
            done = work => done,
            () = evaluate => unreachable!("it does not end"),
        }
    }

    /// Waits until the desired state is reached. Returns the unmet conditions after the bound.
    async fn settle(&self) -> Vec<Violation> {
        let end = time::now() + CONVERGES_WITHIN;
        loop {
            time::pause(POLL).await;
            let unmet = self.recorder.at_rest();
            match unmet {
                Some(unmet) if unmet.is_empty() => return unmet,
                unmet if time::now() > end => {
                    return unmet.unwrap_or_else(|| {
                        let message = format!("objects change {CONVERGES_WITHIN:?} after the last fault");
                        vec![Violation {
                            invariant: "L1",
                            message,
                        }]
                    });
                }
                _ => {}
            }
        }
    }

    async fn read_figures(&self) {
        for figures in self.managers.figures().await {
            if let Some(metrics) = figures.metrics {
                self.recorder.figures(figures.process, metrics);
            }
            if let Some(line) = figures.log.lines().find(|it| it.contains("panicked at")) {
                let message = format!("process {}: {line}", figures.process);
                self.recorder.violation("S10", message);
            }
        }
    }

    /// Deletes the namespaces of a round with their objects.
    async fn clean_up(&self, namespaces: &[String]) {
        let mut all: Vec<String> = Vec::new();
        for namespace in namespaces {
            all.extend([namespace.clone(), format!("{namespace}-other")]);
        }
        for namespace in &all {
            self.api
                .delete(&format!("/api/v1/namespaces/{namespace}"), ())
                .await;
        }
        let gone = time::eventually(CLEANUP_MAX, async || {
            for namespace in &all {
                let reply = self.api.get(&format!("/api/v1/namespaces/{namespace}")).await;
                if reply.status != 404 {
                    return None;
                }
            }
            Some(())
        });
        if self.evaluating(gone).await.is_none() {
            let message = format!("namespaces of {all:?} exist {CLEANUP_MAX:?} after their deletion");
            self.recorder.violation("L2", message);
        }
    }

    async fn report(&self, round: usize, violations: &[Violation]) {
        for violation in violations {
            println!(
                "seed {} round {round}: {}: {}",
                self.seed, violation.invariant, violation.message
            );
            for line in self.recorder.report(violation) {
                println!("    {line}");
            }
        }
        for figures in self.managers.figures().await {
            println!(
                "log of process {}:\n{}",
                figures.process,
                managers::tail(&figures.log)
            );
        }
    }
}
