//! Anything at any time: objects come, go and change owners, kinds come and go, answers get lost, watches lag and end, the
//! collector is killed. Each of its writes is judged by what is in the store when it comes; when the storm is over, all
//! must come to rest.

mod audit;
mod way;

use coxswain_controllers::garbage_collector::discovery::Discovery;
use coxswain_manager::env::Rng;
use tokio::sync::Notify;

use self::audit::{Audit, Looked, has_finalizer, is_terminating, uid, unsettled};
use self::way::{KINDS, Way, Weather};
use super::*;
use crate::randomized;

const GADGETS: Resource = Resource::cluster("more.dev", "v1", "gadgets", "Gadget");
const NAMESPACES: Resource = Resource::cluster("", "v1", "namespaces", "Namespace");
/// Number of seeds by default.
const SEEDS: u64 = 10;
/// How many things happen in a storm.
const STEPS: usize = 60;
/// How long it may take to come to rest: a minute, and the longest that anything waits for its next try.
const REST: Duration = Duration::from_secs(60 + 1000);
const HELD: &str = "test.dev/held";

/// One storm.
struct Storm {
    env: Env,
    sandbox: Sandbox,
    admin: Client,
    way: Way,
    audit: Audit,
    chance: Rng,
    /// All that ever were: their references are of those who are gone, too.
    known: Vec<Value>,
    /// The process of the collector, and the end of its term.
    process: Option<(TaskSet, Arc<Notify>)>,
    lagging: bool,
    _tasks: TaskSet,
}

impl Storm {
    async fn new(seed: u64) -> Self {
        let (start, sandbox) = sandbox();
        let tasks = TaskSet::new();
        let env = Env::starting_at(start, seed, &tasks);
        let chance = Rng::from_seed(seed);
        let audit = Audit::new(&env.clock);
        let (door, plain) = (sandbox.door(), sandbox.door());
        let admin = Transport::from_service(plain.clone(), "sandbox", "test", &env.clock, &Registry::new());
        let admin = admin.expect("a way").unfenced("admin", None);
        let way = Way::new(
            door,
            plain,
            &env.clock,
            tasks.handle(),
            Rng::from_seed(seed ^ 0xabc),
            &audit,
        );
        let storm = Self {
            env,
            sandbox,
            admin,
            way,
            audit,
            chance,
            known: Vec::new(),
            process: None,
            lagging: false,
            _tasks: tasks,
        };
        let other = object(&NAMESPACES, "other", &[]).to_string();
        let created: Result<Value, _> = storm.admin.create(&NAMESPACES, "", other.into()).await;
        created.expect("created");
        storm.define(&WIDGETS).await;
        storm.define(&GADGETS).await;
        storm
    }

    /// A new process. What was under way in the one before may still arrive.
    fn start(&mut self) {
        self.process = None;
        self.audit.restarted();
        let tasks = TaskSet::new();
        let env = Env {
            tasks: tasks.handle(),
            ..self.env.clone()
        };
        let registry = Registry::new();
        let transport = intercept::transport(self.way.clone(), &env.clock, &Registry::new());
        let reader = transport.client("reader", None);
        let caches = Caches::new(&env, reader, Scope::default(), &registry).expect("caches");
        let discovery = transport.client("discovery", None);
        let discovery = Discovery::start(&env, &caches, discovery, &registry).expect("discovery");
        let events = transport.unfenced("events", None);
        let name = "garbage-collector-controller";
        let recorder = Recorder::start(&env, events, name, "test", &registry).expect("a recorder");
        let client = transport.client("generic-garbage-collector", None);
        let options = Options::default();
        let collector =
            GarbageCollector::build(&env, &caches, client, &registry, recorder, discovery, options)
                .expect("a collector");
        let fence = Fence::new(env.clock.clone());
        let (over, audit) = (Arc::new(Notify::new()), self.audit.clone());
        let ends = Arc::clone(&over);
        let run = async move {
            loop {
                let (term, stop) = (fence.open_forever(), CancellationToken::new());
                let run = collector.run(&fence, term, stop.clone());
                let end = async {
                    ends.notified().await;
                    stop.cancel();
                };
                let (ended, ()) = tokio::join!(run, end);
                ended.expect("no part of it has failed");
                fence.close();
                audit.restarted();
            }
        };
        drop(env.tasks.spawn(run));
        self.process = Some((tasks, over));
    }

    async fn define(&self, resource: &Resource) {
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let name = format!("{}.{}", resource.plural, resource.group);
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": name},
            "spec": {
                "group": resource.group,
                "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
                "names": {"plural": resource.plural, "kind": resource.kind},
                "versions": [{"name": "v1", "served": true, "storage": true,
                              "schema": {"openAPIV3Schema": schema}}],
            },
        });
        // It may be there.
        let _: Result<Value, _> = self.admin.create(&CRDS, "", crd.to_string().into()).await;
        self.audit.disturb(&resource.kind);
    }

    fn one_of<'a, T>(&self, all: &'a [T]) -> Option<&'a T> {
        let count = u64::try_from(all.len()).expect("few");
        let at = (count > 0).then(|| self.chance.below(count))?;
        all.get(usize::try_from(at).expect("small"))
    }

    fn chance(&self, of: u64) -> bool {
        self.chance.below(of) == 0
    }

    /// Some references: most of them are to whoever there is, some to whom there is not.
    fn references(&self, world: &[Value]) -> Vec<Value> {
        let mut references: Vec<Value> = Vec::new();
        for _ in 0..self.chance.below(4) {
            let from = if self.chance(4) { &self.known } else { world };
            let Some(owner) = self.one_of(from) else { continue };
            let mut it = if self.chance(2) {
                blocking(owner)
            } else {
                reference(owner)
            };
            match self.chance.below(25) {
                0 => it["uid"] = json!("00000000-0000-4000-8000-000000000001"),
                1 => it["kind"] = json!("ConfigMap"),
                2 => it["name"] = json!("somebody"),
                3 => it["apiVersion"] = json!("nobody.dev/v1"),
                4 => it["apiVersion"] = json!("v1"),
                _ => {}
            }
            // One reference to each, or the server complains.
            if !references.iter().any(|other| other["uid"] == it["uid"]) {
                references.push(it);
            }
        }
        references
    }

    async fn create(&mut self, resource: &Resource, namespace: &str, name: &str, owners: &[Value]) {
        let body = object(resource, name, owners);
        let namespace = if resource.namespaced { namespace } else { "" };
        let created: Result<Value, _> = self
            .admin
            .create(resource, namespace, body.to_string().into())
            .await;
        // The name may be taken, or the kind gone.
        if let Ok(mut created) = created {
            created["apiVersion"] = json!(resource.api_version());
            created["kind"] = json!(resource.kind);
            self.audit.touched(&created);
            self.known.push(created);
        }
    }

    async fn patch(&self, object: &Value, patch: &Value) {
        let (resource, key) = place(object);
        self.audit.touched(object);
        let _: Result<Value, _> = self.admin.patch(&resource, &key, Patch::merge(patch)).await;
    }

    async fn delete(&self, object: &Value, policy: Propagation) {
        let (resource, key) = place(object);
        let delete = Delete::of(Uid::from(uid(object).as_str())).propagating(policy);
        self.audit.touched(object);
        let _ = self.admin.delete(&resource, &key, &delete).await;
        let world = self.way.world().await;
        let left = world.iter().find(|it| uid(it) == uid(object));
        if let Some(owner) = left.filter(|it| is_terminating(it) && has_finalizer(it, "orphan")) {
            self.audit.let_go(owner, &world);
        }
    }

    async fn happen(&mut self) {
        let world = self.way.world().await;
        let policies = [
            Propagation::Background,
            Propagation::Foreground,
            Propagation::Orphan,
        ];
        let policy = *self.one_of(&policies).expect("one");
        let some = self.one_of(&world).cloned();
        match (self.chance.below(12), some) {
            (0..=3, _) => {
                let resource = self.one_of(&KINDS).expect("one").clone();
                let namespace = if self.chance(4) { "other" } else { "default" };
                let name = format!("object-{}", self.chance.below(6));
                let owners = self.references(&world);
                self.create(&resource, namespace, &name, &owners).await;
            }
            (4..=6, Some(object)) => self.delete(&object, policy).await,
            (7, Some(object)) => {
                // Gone, and another one in its place at once.
                let none = json!({"metadata": {"finalizers": null}});
                self.patch(&object, &none).await;
                self.delete(&object, Propagation::Background).await;
                let (resource, key) = place(&object);
                let owners = self.references(&world);
                self.create(&resource, &key.namespace, &key.name, &owners).await;
            }
            (8 | 9, Some(object)) => {
                let owners = self.references(&world);
                self.patch(&object, &json!({"metadata": {"ownerReferences": owners}}))
                    .await;
            }
            (10, Some(object)) => {
                let label = json!({"metadata": {"labels": {"a": self.chance.number().to_string()}}});
                self.patch(&object, &label).await;
            }
            (11, Some(object)) if !is_terminating(&object) => {
                self.patch(&object, &json!({"metadata": {"finalizers": [HELD]}}))
                    .await;
            }
            (_, Some(object)) => self.free(&object).await,
            _ => {}
        }
    }

    /// Takes the foreign finalizer from an object.
    async fn free(&self, object: &Value) {
        if !has_finalizer(object, HELD) {
            return;
        }
        let finalizers = object["metadata"]["finalizers"].as_array().into_iter().flatten();
        let rest: Vec<_> = finalizers.filter(|it| *it != HELD).collect();
        let version = &object["metadata"]["resourceVersion"];
        let patch = json!({"metadata": {"finalizers": rest, "resourceVersion": version}});
        self.patch(object, &patch).await;
    }

    async fn break_something(&mut self) {
        let kind = self.one_of(&KINDS).expect("one").clone();
        match self.chance.below(12) {
            0..=2 => {
                self.audit.disturb(&kind.kind);
                let dot = if kind.group.is_empty() { "" } else { "." };
                let collection = format!("{}{dot}{}", kind.plural, kind.group);
                self.way.lag().hold_at(&collection, self.sandbox.revision());
                self.lagging = true;
            }
            3 | 4 => self.clear(),
            5 => self.way.cut(),
            6 => {
                self.sandbox.compact(self.sandbox.revision());
                self.way.cut();
            }
            7 => {
                self.audit.unlisted();
                self.way.with(|it| it.forbidden = Some(kind));
            }
            8 => self.way.with(|it| it.dark = Some("rbac.authorization.k8s.io")),
            9 if self.chance(2) => {
                let crd = if self.chance(2) { &WIDGETS } else { &GADGETS };
                let name = Key::cluster(format!("{}.{}", crd.plural, crd.group));
                let there: Result<Value, _> = self.admin.get(&CRDS, &name).await;
                match there {
                    Ok(it) => {
                        // All of them are deleted, whoever was to be let go.
                        let world = self.way.world().await;
                        let gone = world.iter().filter(|it| it["kind"] == *crd.kind);
                        gone.for_each(|it| self.audit.touched(it));
                        let delete = Delete::of(Uid::from(uid(&it).as_str()));
                        let _ = self.admin.delete(&CRDS, &name, &delete).await;
                    }
                    Err(_) => self.define(crd).await,
                }
            }
            10 if self.chance(2) => self.start(),
            11 => {
                // The term ends in order, and another one begins.
                if let Some((_, over)) = &self.process {
                    over.notify_one();
                }
            }
            _ => {}
        }
    }

    /// All can be seen again.
    fn clear(&mut self) {
        self.disturb_all();
        self.way.lag().release();
        self.lagging = false;
        self.way.with(|it| (it.forbidden, it.dark) = (None, None));
    }

    /// Notes what cannot be seen now.
    fn disturb_all(&self) {
        let weather = self.way.with(|it| it.clone());
        if self.lagging || weather.forbidden.is_some() || weather.dark.is_some() {
            for kind in &KINDS {
                self.audit.disturb(&kind.kind);
            }
        }
        if weather.forbidden.is_some() {
            self.audit.unlisted();
        }
    }

    async fn sleep(&self, millis: u64) {
        self.env.clock.sleep(Duration::from_millis(millis)).await;
    }

    /// When the storm is over, everything that nobody owns goes, and then nothing is asked for any more.
    async fn settle(&mut self) -> Result<(), String> {
        self.clear();
        self.way.with(|it| *it = Weather::default());
        let start = self.env.clock.now();
        loop {
            // One that was deleted is there as long as its last object.
            self.define(&WIDGETS).await;
            self.define(&GADGETS).await;
            let world = self.way.world().await;
            for object in &world {
                self.free(object).await;
            }
            let wrong = unsettled(&world);
            if wrong.is_empty() {
                break;
            }
            if self.env.clock.now() - start > REST {
                let asked = self.way.with(|it| it.asked.clone());
                let last = asked.len().saturating_sub(20);
                return Err(format!(
                    "not at rest: {wrong:#?}\nasked for {} times: {:#?}",
                    asked.len(),
                    &asked[last..]
                ));
            }
            self.sleep(1000).await;
        }
        self.sleep(120_000).await;
        self.way.with(|it| it.asked.clear());
        self.sleep(600_000).await;
        let asked = self.way.with(|it| it.asked.clone());
        if asked.is_empty() {
            Ok(())
        } else {
            Err(format!("it is at rest, and asks: {asked:#?}"))
        }
    }
}

fn place(object: &Value) -> (Resource, Key) {
    let resource = KINDS.into_iter().find(|it| *it.kind == object["kind"]);
    let text = |it: &str| object["metadata"][it].as_str().unwrap_or_default().to_owned();
    let key = Key::new(text("namespace"), text("name"));
    (resource.expect("one of ours"), key)
}

/// One seed. Answers how many deletes and patches were looked at.
async fn storm(seed: u64) -> Result<Looked, String> {
    let mut storm = Storm::new(seed).await;
    for _ in 0..20 {
        storm.happen().await;
    }
    let (requests, caches) = (storm.chance.below(50), storm.chance.below(30));
    let caches = if storm.chance(2) { 0 } else { caches };
    storm.way.with(|it| (it.requests, it.caches) = (requests, caches));
    storm.start();
    for _ in 0..STEPS {
        storm.disturb_all();
        for _ in 0..storm.chance.below(4) {
            storm.happen().await;
        }
        if storm.chance(3) {
            storm.break_something().await;
        }
        let millis = match storm.chance.below(4) {
            0 => storm.chance.below(20),
            1 | 2 => storm.chance.below(2000),
            _ => storm.chance.below(20_000),
        };
        storm.sleep(millis).await;
    }
    let settled = storm.settle().await;
    let mut wrong = storm.audit.wrong();
    wrong.extend(settled.err());
    if wrong.is_empty() {
        Ok(storm.audit.looked())
    } else {
        Err(wrong.join("\n"))
    }
}

#[test]
fn whatever_happens_nothing_goes_that_is_owned_and_in_the_end_all_goes_that_is_not() {
    let (seeds, looked) = randomized::run_seeds(SEEDS, storm);
    let Looked { deletes, patches } = looked;
    println!("{seeds} seeds, {deletes} deletes and {patches} patches looked at");
    // The average of one seed says nothing.
    assert!(
        seeds == 1 || (deletes > 3 * seeds && patches > 3 * seeds),
        "too little was audited: {deletes} deletes and {patches} patches of {seeds} seeds"
    );
}
