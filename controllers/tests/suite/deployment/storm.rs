//! Anything at any time: users change their mind, sets are changed and deleted by hand, pods fail, answers get lost, watches
//! lag, the controller is killed. What must never happen is looked for after every write of the controller; when the storm
//! is over, every rollout must come to its end, and nothing be asked for after it.

mod audit;

use std::sync::Arc;

use coxswain_manager::cache::{Caches, Scope};
use coxswain_manager::env::Rng;
use coxswain_manager::events::Recorder;
use http::Method;

use super::*;
use crate::{intercept, randomized};
use audit::{Audit, Audited, image_of};

/// Number of seeds by default.
const SEEDS: u64 = 20;
/// The minimum number of commits that a seed guarantees: at rest there is a `ReplicaSet` of the template, which a commit
/// created. Of 250 seeds the worst has 7.
const LEAST_COMMITS: usize = 1;
/// The minimum number of commits per seed, on average over a full run. 250 seeds have 34 on average, with a standard deviation
/// of 14. The ten fixed seeds of a full run have 348 together, which is more than 20 x 15: no choice of fresh seeds fails it.
const MEAN_COMMITS: usize = 15;
/// How long a sync may go on with what it has seen: the requests of a step, each with its timeout.
const SYNC: Duration = Duration::from_mins(1);

/// One storm.
struct Storm {
    fixture: Fixture,
    way: Transport,
    audit: Audit,
    chance: Rng,
    controller: Option<TaskSet>,
}

impl Storm {
    fn new(seed: u64) -> Self {
        let mut f = apart();
        let clock = f.env.clock.clone();
        let audit = Audit {
            clock: clock.clone(),
            book: Arc::default(),
        };
        let way = Audited {
            way: f.api.clone(),
            plain: f.sandbox.door(),
            audit: audit.clone(),
        };
        f.env.rng = Rng::from_seed(seed);
        Self {
            way: intercept::transport(way, &clock, &Registry::new()),
            fixture: f,
            audit,
            chance: Rng::from_seed(seed),
            controller: None,
        }
    }

    /// A new process.
    fn start(&mut self) {
        let (env, tasks) = randomized::new_process(&self.fixture);
        let registry = Registry::new();
        let reader = self.way.client("reader", None);
        let caches = Caches::new(&env, reader, Scope::default(), &registry).expect("caches");
        let events = self.way.unfenced("events", None);
        let recorder = Recorder::start(&env, events, "deployment-controller", "test", &registry);
        let client = self.way.client("controller", None);
        let recorder = recorder.expect("a recorder");
        let controller = deployment::build(&env, &caches, client, &registry, recorder, 5);
        randomized::run_controller(&env, caches, controller.expect("a controller"));
        self.controller = Some(tasks);
    }

    fn below(&self, of: u64) -> i64 {
        i64::try_from(self.chance.below(of)).expect("small")
    }

    /// So many in a hundred of the controller's requests go wrong, in some way.
    fn faults(&self, percent: u64) {
        let chance = self.chance.clone();
        self.fixture.api.inject(move |method, path, _| {
            if !path.contains("/apps/") || chance.below(100) >= percent {
                return Fault::None;
            }
            randomized::random_fault(&chance, method)
        });
    }

    /// What a user may want, of any kind.
    fn wish(&self) -> Value {
        let amount = || match self.chance.below(2) {
            0 => json!(self.below(4)),
            _ => json!(format!("{}%", self.below(120))),
        };
        match self.chance.below(10) {
            0..=3 => json!({"spec": image(&format!("image-{}", self.chance.below(4)))}),
            4 | 5 => json!({"spec": {"replicas": self.below(9)}}),
            6 => json!({"spec": {"paused": self.chance.below(2) == 0}}),
            7 => json!({"spec": {"strategy": {"type": "RollingUpdate",
                        "rollingUpdate": {"maxSurge": amount(), "maxUnavailable": amount()}}}}),
            8 if self.chance.below(2) == 0 => {
                json!({"spec": {"strategy": {"type": "Recreate", "rollingUpdate": null}}})
            }
            8 => json!({"spec": {"revisionHistoryLimit": self.below(3)}}),
            _ => {
                json!({"metadata": {"annotations": {"deprecated.deployment.rollback.to": self.below(4).to_string()}}})
            }
        }
    }

    async fn want(&self, wish: &Value) {
        let key = Key::new("default", "web");
        // Some of what is wanted at random cannot be had.
        if let Ok(deployment) = self
            .fixture
            .admin
            .patch::<Value>(&DEPLOYMENTS, &key, Patch::merge(wish))
            .await
        {
            self.audit.wants(&deployment);
        }
    }

    async fn step(&mut self) {
        let (quiet, edited) = self.audit.with(|it| (it.quiet, it.edited));
        let (f, lag) = (&self.fixture, self.fixture.api.lag());
        match self.chance.below(16) {
            0..=4 => self.want(&self.wish()).await,
            5 | 6 => lag.hold_at("replicasets.apps", f.sandbox.revision()),
            7 => {
                // A bit further, unless it is not held.
                let newest = f.sandbox.revision();
                let shown = lag.visible("replicasets.apps", newest);
                lag.hold_at("replicasets.apps", shown + self.chance.below(newest - shown + 1));
            }
            8 => {
                self.audit.held(true);
                lag.hold_at("deployments.apps", f.sandbox.revision());
            }
            9 => lag.hold_at("pods", f.sandbox.revision()),
            10 => {
                lag.release();
                self.audit.held(false);
            }
            11 => f.sandbox.compact(f.sandbox.revision()),
            12 if !quiet => self.meddle(edited).await,
            13 if !quiet => {
                let pods = f.list(&PODS).await;
                for pod in pods.iter().filter(|_| self.chance.below(3) == 0) {
                    f.delete(&PODS, pod).await;
                }
            }
            14 if !quiet => {
                if let Some(pod) = f.list(&PODS).await.first() {
                    let key = Key::new("default", pod["metadata"]["name"].as_str().expect("a name"));
                    let failed = json!({"status": {"phase": "Failed"}});
                    let failed = Patch::merge(&failed).of("status");
                    let _: Value = f.admin.patch(&PODS, &key, failed).await.expect("patched");
                }
            }
            _ if self.chance.below(2) == 0 => self.start(),
            _ => {}
        }
        self.fixture.sleep(randomized::random_pause(&self.chance)).await;
    }

    /// Does something to a set, by hand.
    async fn meddle(&self, edited: bool) {
        let f = &self.fixture;
        let mut sets = f.list(&SETS).await;
        if sets.is_empty() {
            return;
        }
        let set = sets.remove(usize::try_from(self.chance.below(sets.len() as u64)).expect("small"));
        let name = set["metadata"]["name"].as_str().expect("a name");
        match self.chance.below(4) {
            0 => f.delete(&SETS, &set).await,
            1 if edited => drop(f.patch(&SETS, name, &json!({"spec": image("by-hand")})).await),
            2 => {
                let note =
                    json!({"metadata": {"annotations": {"deployment.kubernetes.io/desired-replicas": null}}});
                drop(f.patch(&SETS, name, &note).await);
            }
            _ => drop(
                f.patch(&SETS, name, &json!({"spec": {"replicas": self.below(9)}}))
                    .await,
            ),
        }
    }

    /// When the storm is over, it comes to what is asked for, and then nothing is written any more.
    async fn settle(&mut self) -> Result<(), String> {
        self.fixture.api.inject(|_, _, _| Fault::None);
        self.fixture.api.lag().release();
        self.audit.held(false);
        self.want(&json!({"spec": {"paused": false}})).await;
        let mut waited = 0;
        while let Err(not_yet) = self.at_rest().await {
            waited += 1;
            if waited > 300 {
                let counts = self.fixture.api.counts();
                return Err(format!("not at rest after five minutes: {not_yet}, {counts:?}"));
            }
            self.fixture.sleep(Duration::from_secs(1)).await;
        }
        // What was not answered in the storm is given up, and looked at once more.
        self.fixture.sleep(SYNC).await;
        self.at_rest().await?;
        randomized::check_idle(&self.fixture).await
    }

    /// The images of the pods of these sets: those of others are the garbage collector's, which is not here.
    async fn images(&self, sets: &[Value]) -> Vec<String> {
        let mut pods = self.fixture.list(&PODS).await;
        pods.retain(|pod| {
            let owner = &pod["metadata"]["ownerReferences"][0]["uid"];
            pod["status"]["phase"] != "Failed" && sets.iter().any(|it| it["metadata"]["uid"] == *owner)
        });
        let image = |it: &Value| it["spec"]["containers"][0]["image"].as_str().map(str::to_owned);
        pods.iter().filter_map(image).collect()
    }

    async fn at_rest(&self) -> Result<(), String> {
        let (it, sets) = (self.fixture.get("web").await, self.fixture.sets().await);
        let all = it["spec"]["replicas"].as_i64().unwrap_or(0);
        let count = |field: &str| it["status"][field].as_i64().unwrap_or(0);
        let counted = [
            "replicas",
            "updatedReplicas",
            "availableReplicas",
            "readyReplicas",
        ];
        let told = it["status"]["observedGeneration"] == it["metadata"]["generation"]
            && counted.iter().all(|it| count(it) == all)
            && count("unavailableReplicas") + count("terminatingReplicas") == 0
            && condition(&it, "Progressing").1 == "NewReplicaSetAvailable"
            && condition(&it, "Available").0 == "True"
            && it["metadata"]["annotations"]
                .get("deprecated.deployment.rollback.to")
                .is_none();
        let limit = it["spec"]["revisionHistoryLimit"].as_i64().unwrap_or(10);
        let new = sets.iter().filter(|set| image_of(set) == image_of(&it));
        let new: Vec<&Value> = new.filter(|set| revision(set) == revision(&it)).collect();
        let images = self.images(&sets).await;
        let right = new.len() == 1
            && size(new[0]) == all
            && sets.iter().map(size).sum::<i64>() == all
            && i64::try_from(sets.len()).expect("few") <= limit + 1
            && images.len() == usize::try_from(all).expect("few")
            // A set whose template was edited keeps its pods, as with kube-controller-manager; a rollback may choose it.
            && (self.audit.with(|it| it.edited) || images.iter().all(|image| *image == image_of(&it)));
        if told && right {
            return Ok(());
        }
        let sets: Vec<String> = sets
            .iter()
            .map(|it| format!("{} {} {}", image_of(it), size(it), it["status"]))
            .collect();
        Err(format!("{} {} {sets:?}", it["spec"], it["status"]))
    }
}

/// One seed. Answers how many commits were looked at.
async fn storm(seed: u64) -> Result<usize, String> {
    let mut storm = Storm::new(seed);
    let (quiet, edited) = (seed.is_multiple_of(2), seed % 4 == 1);
    storm.audit.with(|it| (it.quiet, it.edited) = (quiet, edited));
    let web = web(1 + storm.below(8), "image-0");
    let web = storm.fixture.create(&DEPLOYMENTS, &web).await;
    storm.audit.wants(&web);
    storm.faults(storm.chance.below(60));
    storm.start();
    for _ in 0..30 {
        storm.step().await;
    }
    let settled = storm.settle().await;
    let (mut wrong, commits) = storm.audit.with(|it| (it.wrong.clone(), it.commits));
    wrong.extend(settled.err());
    if commits < LEAST_COMMITS {
        wrong.push(format!("{commits} commits are no storm"));
    }
    if wrong.is_empty() {
        Ok(commits)
    } else {
        Err(wrong.join("; "))
    }
}

/// The first create is on its way when another template is wanted, and arrives with the create for that.
#[tokio::test(start_paused = true)]
async fn a_create_that_may_still_arrive_counts() {
    for answer in [Fault::DelayedUntilPost, Fault::ResponseLost] {
        let mut storm = Storm::new(0);
        storm.audit.with(|it| it.quiet = true);
        let web = storm.fixture.create(&DEPLOYMENTS, &web(4, "image-0")).await;
        storm.audit.wants(&web);
        storm.start();
        storm.fixture.complete("web").await;
        storm.fixture.api.reset();
        let lag = storm.fixture.api.lag();
        lag.hold_at("replicasets.apps", storm.fixture.sandbox.revision());
        storm.fixture.api.inject(move |method, path, before| {
            if *method == Method::POST && path.ends_with("/replicasets") && before == 0 {
                answer.clone()
            } else {
                Fault::None
            }
        });
        storm.want(&json!({"spec": image("image-1")})).await;
        storm.fixture.sleep(Duration::from_millis(1)).await;
        assert_eq!(storm.fixture.api.count("POST replicasets"), 1);
        storm.want(&json!({"spec": image("image-2")})).await;
        storm.fixture.sleep(Duration::from_secs(1)).await;
        storm.settle().await.expect("it comes to rest");
        assert_eq!(storm.audit.with(|it| it.wrong.clone()), [""; 0]);
    }
}

#[test]
fn whatever_happens_no_step_leaves_the_bounds_and_every_rollout_ends() {
    let (seeds, commits) = randomized::run_seeds(SEEDS, storm);
    println!("{seeds} seeds, {commits} commits looked at");
    let full = seeds >= usize::try_from(SEEDS).expect("few");
    assert!(!full || commits >= seeds * MEAN_COMMITS, "that is too few");
}
