//! Anything at any time: users change their mind, sets are changed and deleted by hand, pods fail, answers get lost, watches
//! lag, the controller is killed. What must never happen is looked for after every write of the controller; when the storm
//! is over, every rollout must come to its end, and nothing be asked for after it.
//!
//! `STORM_SEED` runs one seed, `STORM_SEEDS` so many.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use coxswain_manager::env::{Clock, Rng};
use coxswain_sandbox::{Door, ResponseBody};
use futures_util::future::BoxFuture;
use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use kube::client::Body;
use tokio::time::Instant;
use tower_service::Service;

use super::*;

/// How many seeds are run if nobody says.
const SEEDS: u64 = 20;
/// How long a sync may go on with what it has seen: the requests of a step, each with its timeout.
const SYNC: Duration = Duration::from_mins(1);

/// The controller's way to the API, with somebody who looks at what each write has done.
#[derive(Clone)]
struct Audited {
    way: Watched,
    plain: Door,
    audit: Audit,
}

/// What may be, and what was wrong.
#[derive(Clone)]
struct Audit {
    clock: Clock,
    book: Arc<Mutex<Book>>,
}

/// How far a step may go.
#[derive(Clone, Copy, Debug)]
struct Reach {
    most: i64,
    /// None if all may go at once.
    least: Option<i64>,
}

#[derive(Default)]
struct Book {
    /// What was asked for, since when.
    wants: Vec<(Instant, Reach)>,
    /// When the controller could not see what is asked for: from, to.
    held: Vec<(Instant, Option<Instant>)>,
    /// Nobody but the controller touches sets, and pods only come to serve.
    quiet: bool,
    /// Templates of sets are changed by hand.
    edited: bool,
    wrong: Vec<String>,
    commits: usize,
}

/// What there is.
struct World {
    deployment: Value,
    sets: Vec<Value>,
}

impl World {
    fn total(&self) -> i64 {
        self.sets.iter().map(size).sum()
    }

    /// How many pods serve, and will when all have followed.
    fn serving(&self) -> i64 {
        let of = |it: &Value| {
            it["status"]["availableReplicas"]
                .as_i64()
                .unwrap_or(0)
                .min(size(it))
        };
        self.sets.iter().map(of).sum()
    }
}

impl Audit {
    fn with<T>(&self, with: impl FnOnce(&mut Book) -> T) -> T {
        with(&mut self.book.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A Deployment is what is asked for from now on.
    fn wants(&self, deployment: &Value) {
        let (now, reach) = (self.clock.now(), reach(deployment));
        self.with(|it| it.wants.push((now, reach)));
    }

    fn held(&self, held: bool) {
        let now = self.clock.now();
        self.with(|it| match it.held.last_mut() {
            Some((_, to @ None)) if !held => *to = Some(now),
            Some((_, None)) => {}
            _ if held => it.held.push((now, None)),
            _ => {}
        });
    }

    /// How far a write that arrives now may have been made to go.
    fn reach(&self) -> Reach {
        let now = self.clock.now();
        self.with(|it| {
            let mut from = now.checked_sub(SYNC).unwrap_or(now);
            for (begin, end) in it.held.iter().rev() {
                if end.is_none_or(|end| end >= from) {
                    from = from.min(*begin);
                }
            }
            let before = it.wants.iter().rev().find(|(at, _)| *at <= from);
            let since = it.wants.iter().filter(|(at, _)| *at > from);
            let all = before.into_iter().chain(since).map(|(_, it)| *it);
            all.reduce(|a, b| Reach {
                most: a.most.max(b.most),
                least: a.least.zip(b.least).map(|(a, b)| a.min(b)),
            })
            .expect("something is asked for")
        })
    }

    fn wrong(&self, what: String) {
        self.with(|it| it.wrong.push(what));
    }

    /// Looks at what a write has done.
    fn look(&self, what: &str, before: &World, after: &World) {
        let Reach { most, least } = self.reach();
        let (quiet, edited) = self.with(|it| {
            it.commits += 1;
            (it.quiet, it.edited)
        });
        let (were, are) = (before.total(), after.total());
        if quiet && are > were && are > most {
            self.wrong(format!("{are} pods of at most {most}, by {what}"));
        }
        let (served, serve) = (before.serving(), after.serving());
        if quiet && least.is_some_and(|least| serve < served && serve < least) {
            self.wrong(format!("{serve} serve of at least {least:?}, by {what}"));
        }
        let mut images: BTreeMap<String, usize> = BTreeMap::new();
        for set in &after.sets {
            *images.entry(image_of(set)).or_default() += 1;
        }
        if !edited && images.values().any(|it| *it > 1) {
            self.wrong(format!("more than one of a template, by {what}: {images:?}"));
        }
        let observed = |it: &World| {
            it.deployment["status"]["observedGeneration"]
                .as_i64()
                .unwrap_or(0)
        };
        if observed(after) < observed(before)
            || observed(after) > after.deployment["metadata"]["generation"].as_i64().unwrap_or(0)
        {
            self.wrong(format!("the observed generation goes astray, by {what}"));
        }
        let went = |it: &&Value| {
            !after
                .sets
                .iter()
                .any(|that| that["metadata"]["uid"] == it["metadata"]["uid"])
        };
        for set in before.sets.iter().filter(went) {
            if size(set) + set["status"]["replicas"].as_i64().unwrap_or(0) > 0 {
                self.wrong(format!("a set that has pods went, by {what}"));
            }
        }
    }
}

/// How far a Deployment may go.
fn reach(deployment: &Value) -> Reach {
    let spec = &deployment["spec"];
    let replicas = spec["replicas"].as_i64().unwrap_or(1);
    let rolling = &spec["strategy"]["rollingUpdate"];
    let amount = |field: &str, round: i64| match &rolling[field] {
        Value::String(share) => {
            let share: i64 = share.trim_end_matches('%').parse().expect("a percentage");
            (share * replicas + round) / 100
        }
        number => number.as_i64().unwrap_or(0),
    };
    let (surge, unavailable) = (amount("maxSurge", 99), amount("maxUnavailable", 0));
    let unavailable = if surge + unavailable == 0 { 1 } else { unavailable };
    Reach {
        most: replicas + surge,
        least: (spec["strategy"]["type"] == "RollingUpdate").then_some(replicas - unavailable),
    }
}

fn image_of(object: &Value) -> String {
    let image = &object["spec"]["template"]["spec"]["containers"][0]["image"];
    image.as_str().unwrap_or_default().to_owned()
}

impl Audited {
    async fn read(&mut self, path: &str) -> Value {
        let path = format!("/apis/apps/v1/namespaces/default/{path}");
        let request = Request::get(path).body(Body::empty()).expect("a request");
        let response = self.plain.call(request).await.expect("an answer");
        let body = response.into_body().collect().await.expect("a body").to_bytes();
        serde_json::from_slice(&body).expect("JSON")
    }

    async fn world(&mut self) -> World {
        let deployment = self.read("deployments/web").await;
        let uid = &deployment["metadata"]["uid"];
        let ours = |it: &Value| it["metadata"]["ownerReferences"][0]["uid"] == *uid;
        let list = self.read("replicasets").await;
        let sets = list["items"].as_array().cloned().unwrap_or_default();
        World {
            sets: sets.into_iter().filter(ours).collect(),
            deployment,
        }
    }
}

impl Service<Request<Body>> for Audited {
    type Response = Response<ResponseBody>;
    type Error = Box<dyn std::error::Error + Send + Sync>;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let mut this = self.clone();
        Box::pin(async move {
            let (method, path) = (request.method().clone(), request.uri().path().to_owned());
            if method == Method::GET || !path.contains("/apps/") {
                return this.way.call(request).await;
            }
            let before = this.world().await;
            let mut answer = Box::pin(this.way.call(request));
            // One that never answers has done what it does at once.
            let answer = tokio::select! {
                biased;
                answer = &mut answer => Some(answer),
                () = tokio::task::yield_now() => None,
            };
            let after = this.world().await;
            this.audit.look(&format!("{method} {path}"), &before, &after);
            match answer {
                Some(answer) => answer,
                None => std::future::pending().await,
            }
        })
    }
}

/// One storm.
struct Storm {
    bed: Bed,
    way: Transport,
    audit: Audit,
    chance: Rng,
    controller: Option<TaskSet>,
}

impl Storm {
    fn new(seed: u64) -> Self {
        let mut bed = apart();
        let clock = bed.env.clock.clone();
        let audit = Audit {
            clock: clock.clone(),
            book: Arc::default(),
        };
        let way = Audited {
            way: bed.door.clone(),
            plain: bed.sandbox.door(),
            audit: audit.clone(),
        };
        bed.env.rng = Rng::from_seed(seed);
        Self {
            way: Transport::over(way, "sandbox", "test", &clock, &Registry::new()).expect("a way"),
            bed,
            audit,
            chance: Rng::from_seed(seed),
            controller: None,
        }
    }

    /// A new process, as its manager would begin: with caches that have seen what the one before has written.
    fn start(&mut self) {
        let tasks = TaskSet::new();
        self.bed.door.cut();
        let env = Env {
            tasks: tasks.handle(),
            ..self.bed.env.clone()
        };
        let registry = Registry::new();
        let reader = self.way.client("reader", None);
        let caches = Caches::new(&env, reader, Scope::default(), &registry).expect("caches");
        let events = self.way.unfenced("events", None);
        let recorder = Recorder::start(&env, events, "deployment-controller", "test", &registry);
        let client = self.way.client("engine", None);
        let recorder = recorder.expect("a recorder");
        let controller =
            deployment::build(&env, &caches, client, &registry, recorder, 5).expect("a controller");
        let fence = Fence::new(env.clock.clone());
        let run = async move {
            let _ = caches.catch_up(&BTreeMap::new()).await;
            let term = fence.open_for_ever();
            controller.run(&fence, term, CancellationToken::new()).await
        };
        drop(env.tasks.spawn(run));
        self.controller = Some(tasks);
    }

    fn below(&self, of: u64) -> i64 {
        i64::try_from(self.chance.below(of)).expect("small")
    }

    /// So many in a hundred of the controller's requests go wrong, in some way.
    fn faults(&self, percent: u64) {
        let chance = self.chance.clone();
        self.bed.door.judge(move |method, path, _| {
            let write = *method != Method::GET;
            if !path.contains("/apps/") || chance.below(100) >= percent {
                return Answer::Done;
            }
            let refused =
                |code, reason: &str| Answer::Refused(code, json!({"reason": reason, "message": "no"}));
            match chance.below(if write { 10 } else { 3 }) {
                0 => Answer::Broken,
                1 => refused(500, "InternalError"),
                2 => refused(429, "TooManyRequests"),
                3 => refused(409, "Conflict"),
                4 if *method == Method::POST => refused(409, "AlreadyExists"),
                5 if *method == Method::POST => Answer::Late,
                6 => Answer::Hung,
                _ => Answer::Lost,
            }
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
            .bed
            .admin
            .patch::<Value>(&DEPLOYMENTS, &key, Patch::merge(wish))
            .await
        {
            self.audit.wants(&deployment);
        }
    }

    async fn step(&mut self) {
        let (quiet, edited) = self.audit.with(|it| (it.quiet, it.edited));
        let (bed, lag) = (&self.bed, self.bed.door.lag());
        match self.chance.below(16) {
            0..=4 => self.want(&self.wish()).await,
            5 | 6 => lag.hold_at("replicasets.apps", bed.sandbox.revision()),
            7 => {
                // A bit further, unless it is not held.
                let newest = bed.sandbox.revision();
                let shown = lag.visible("replicasets.apps", newest);
                lag.hold_at("replicasets.apps", shown + self.chance.below(newest - shown + 1));
            }
            8 => {
                self.audit.held(true);
                lag.hold_at("deployments.apps", bed.sandbox.revision());
            }
            9 => lag.hold_at("pods", bed.sandbox.revision()),
            10 => {
                lag.release();
                self.audit.held(false);
            }
            11 => bed.sandbox.compact(bed.sandbox.revision()),
            12 if !quiet => self.meddle(edited).await,
            13 if !quiet => {
                let pods = bed.list(&PODS).await;
                for pod in pods.iter().filter(|_| self.chance.below(3) == 0) {
                    bed.delete(&PODS, pod).await;
                }
            }
            14 if !quiet => {
                if let Some(pod) = bed.list(&PODS).await.first() {
                    let key = Key::new("default", pod["metadata"]["name"].as_str().expect("a name"));
                    let failed = json!({"status": {"phase": "Failed"}});
                    let failed = Patch::merge(&failed).of("status");
                    let _: Value = bed.admin.patch(&PODS, &key, failed).await.expect("patched");
                }
            }
            _ if self.chance.below(2) == 0 => self.start(),
            _ => {}
        }
        let millis = match self.chance.below(3) {
            0 => self.chance.below(20),
            1 => self.chance.below(2000),
            _ => self.chance.below(20_000),
        };
        self.bed.sleep(Duration::from_millis(millis)).await;
    }

    /// Does something to a set, by hand.
    async fn meddle(&self, edited: bool) {
        let bed = &self.bed;
        let mut sets = bed.list(&SETS).await;
        if sets.is_empty() {
            return;
        }
        let set = sets.remove(usize::try_from(self.chance.below(sets.len() as u64)).expect("small"));
        let name = set["metadata"]["name"].as_str().expect("a name");
        match self.chance.below(4) {
            0 => bed.delete(&SETS, &set).await,
            1 if edited => drop(bed.patch(&SETS, name, &json!({"spec": image("by-hand")})).await),
            2 => {
                let note =
                    json!({"metadata": {"annotations": {"deployment.kubernetes.io/desired-replicas": null}}});
                drop(bed.patch(&SETS, name, &note).await);
            }
            _ => drop(
                bed.patch(&SETS, name, &json!({"spec": {"replicas": self.below(9)}}))
                    .await,
            ),
        }
    }

    /// When the storm is over, it comes to what is asked for, and then nothing is written any more.
    async fn settle(&mut self) -> Result<(), String> {
        self.bed.door.judge(|_, _, _| Answer::Done);
        self.bed.door.lag().release();
        self.audit.held(false);
        self.want(&json!({"spec": {"paused": false}})).await;
        let mut waited = 0;
        while let Err(not_yet) = self.at_rest().await {
            waited += 1;
            if waited > 300 {
                let counts = self.bed.door.counts();
                return Err(format!("not at rest after five minutes: {not_yet}, {counts:?}"));
            }
            self.bed.sleep(Duration::from_secs(1)).await;
        }
        // What was not answered in the storm is given up, and looked at once more.
        self.bed.sleep(SYNC).await;
        self.at_rest().await?;
        self.bed.door.reset();
        self.bed.sleep(Duration::from_mins(10)).await;
        let counts = self.bed.door.counts();
        if counts.is_empty() {
            Ok(())
        } else {
            Err(format!("it is at rest, and asks: {counts:?}"))
        }
    }

    /// The images of the pods of these sets: those of others are the garbage collector's, which is not here.
    async fn images(&self, sets: &[Value]) -> Vec<String> {
        let mut pods = self.bed.list(&PODS).await;
        pods.retain(|pod| {
            let owner = &pod["metadata"]["ownerReferences"][0]["uid"];
            pod["status"]["phase"] != "Failed" && sets.iter().any(|it| it["metadata"]["uid"] == *owner)
        });
        let image = |it: &Value| it["spec"]["containers"][0]["image"].as_str().map(str::to_owned);
        pods.iter().filter_map(image).collect()
    }

    async fn at_rest(&self) -> Result<(), String> {
        let (it, sets) = (self.bed.get("web").await, self.bed.sets().await);
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
        let right = new.len() == 1
            && size(new[0]) == all
            && sets.iter().map(size).sum::<i64>() == all
            && i64::try_from(sets.len()).expect("few") <= limit + 1
            && self.images(&sets).await == vec![image_of(&it); usize::try_from(all).expect("few")];
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
async fn weather(seed: u64) -> Result<usize, String> {
    let mut storm = Storm::new(seed);
    let (quiet, edited) = (seed.is_multiple_of(2), seed % 4 == 1);
    storm.audit.with(|it| (it.quiet, it.edited) = (quiet, edited));
    let web = web(1 + storm.below(8), "image-0");
    let web = storm.bed.create(&DEPLOYMENTS, &web).await;
    storm.audit.wants(&web);
    storm.faults(storm.chance.below(60));
    storm.start();
    for _ in 0..30 {
        storm.step().await;
    }
    let settled = storm.settle().await;
    let (mut wrong, commits) = storm.audit.with(|it| (it.wrong.clone(), it.commits));
    wrong.extend(settled.err());
    if wrong.is_empty() {
        Ok(commits)
    } else {
        Err(wrong.join("; "))
    }
}

/// The first create is on its way when another template is wanted, and arrives with the create for that.
#[tokio::test(start_paused = true)]
async fn a_create_that_may_still_arrive_counts() {
    for answer in [Answer::Late, Answer::Lost] {
        let mut storm = Storm::new(0);
        storm.audit.with(|it| it.quiet = true);
        let web = storm.bed.create(&DEPLOYMENTS, &web(4, "image-0")).await;
        storm.audit.wants(&web);
        storm.start();
        storm.bed.complete("web").await;
        storm.bed.door.reset();
        let lag = storm.bed.door.lag();
        lag.hold_at("replicasets.apps", storm.bed.sandbox.revision());
        storm.bed.door.judge(move |method, path, before| {
            if *method == Method::POST && path.ends_with("/replicasets") && before == 0 {
                answer.clone()
            } else {
                Answer::Done
            }
        });
        storm.want(&json!({"spec": image("image-1")})).await;
        storm.bed.sleep(Duration::from_millis(1)).await;
        assert_eq!(storm.bed.door.count("POST replicasets"), 1);
        storm.want(&json!({"spec": image("image-2")})).await;
        storm.bed.sleep(Duration::from_secs(1)).await;
        storm.settle().await.expect("it comes to rest");
        assert_eq!(storm.audit.with(|it| it.wrong.clone()), [""; 0]);
    }
}

fn told(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[tokio::test(start_paused = true)]
async fn whatever_happens_no_step_leaves_the_bounds_and_every_rollout_ends() {
    let seeds = match told("STORM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..told("STORM_SEEDS").unwrap_or(SEEDS),
    };
    let (mut commits, mut bad) = (0, Vec::new());
    for seed in seeds.clone() {
        match weather(seed).await {
            Ok(looked) => commits += looked,
            Err(wrong) => bad.push(format!("seed {seed}: {wrong}")),
        }
    }
    println!("{} seeds, {commits} commits looked at", seeds.count());
    assert!(bad.is_empty(), "{} bad seeds:\n{}", bad.len(), bad.join("\n"));
}
