//! Randomized changes and faults: objects and CRDs are created and deleted, owners change, responses are lost, watches lag and
//! end, the collector crashes. An audit checks each write against the store; after the faults the cluster must converge.

mod audit;
mod fault_injector;

use steersman_controllers::garbage_collector::discovery::Discovery;
use steersman_manager::env::Rng;
use tokio::sync::Notify;

use self::audit::{Audit, Audited, has_finalizer, is_terminating, uid, unsettled};
use self::fault_injector::{FaultInjector, KINDS, Settings};
use super::*;
use crate::randomized::run_seeds;

const GADGETS: Resource = Resource::cluster("more.dev", "v1", "gadgets", "Gadget");
/// Number of seeds by default.
const SEEDS: u64 = 10;
const STEPS: usize = 60;
/// A minute, and the maximum backoff.
const CONVERGENCE_MAX: Duration = Duration::from_secs(60 + 1000);
const HOLD: &str = "test.dev/held";

struct Run {
    env: Env,
    sandbox: Sandbox,
    admin: Client,
    api: FaultInjector,
    audit: Audit,
    rng: Rng,
    /// All objects ever created, also deleted ones.
    created: Vec<Value>,
    /// The process of the collector, and a notification that ends its term.
    process: Option<(TaskSet, Arc<Notify>)>,
    lagging: bool,
    _tasks: TaskSet,
}

impl Run {
    async fn new(seed: u64) -> Self {
        let (start, sandbox) = sandbox();
        let tasks = TaskSet::new();
        let env = Env::starting_at(start, seed, &tasks);
        let rng = Rng::from_seed(seed);
        let audit = Audit::new(&env.clock);
        let (service, direct) = (sandbox.service(), sandbox.service());
        let admin = Transport::from_service(
            direct.clone(),
            "sandbox",
            "test",
            &env.clock,
            &Registry::new("steersman"),
        );
        let admin = admin.expect("unregistered metrics").unfenced("admin", None);
        let api = FaultInjector::new(service, direct, Rng::from_seed(seed ^ 0xabc), &audit);
        let run = Self {
            env,
            sandbox,
            admin,
            api,
            audit,
            rng,
            created: Vec::new(),
            process: None,
            lagging: false,
            _tasks: tasks,
        };
        let other = object(&NAMESPACES, "other", &[]).to_string();
        let created: Result<Value, _> = run.admin.create(&NAMESPACES, "", other.into()).await;
        created.expect("created");
        run.define(&WIDGETS).await;
        run.define(&GADGETS).await;
        run
    }

    /// Starts a new process. Delayed requests of the previous one may still arrive.
    fn start(&mut self) {
        self.process = None;
        self.audit.restarted();
        let tasks = TaskSet::new();
        let env = Env {
            tasks: tasks.handle(),
            ..self.env.clone()
        };
        let registry = Registry::new("steersman");
        let transport = self.api.transport(&env.clock);
        let reader = transport.reader("reader", None);
        let caches = Caches::new(&env, reader, Scope::default(), &registry).expect("caches");
        let discovery = transport.reader("discovery", None);
        let discovery = Discovery::start(&env, &caches, discovery, &registry).expect("discovery");
        let events = transport.unfenced("events", None);
        let name = "garbage-collector-controller";
        let recorder = Recorder::start(&env, events, name, "test", &registry).expect("a recorder");
        let client = transport.reader("generic-garbage-collector", None);
        let options = Options::default();
        let collector =
            GarbageCollector::build(&env, &caches, client, &registry, recorder, discovery, options)
                .expect("a collector");
        let fence = Fence::new(env.clock.clone());
        let (end_term, audit) = (Arc::new(Notify::new()), self.audit.clone());
        let ends = Arc::clone(&end_term);
        let run = async move {
            loop {
                let (term, stop) = (fence.open_forever(), CancellationToken::new());
                let run = collector.run(&fence, term, stop.clone());
                let end = async {
                    ends.notified().await;
                    stop.cancel();
                };
                let (ended, ()) = tokio::join!(run, end);
                ended.expect("no error");
                fence.close();
                audit.restarted();
            }
        };
        drop(env.tasks.spawn(run));
        self.process = Some((tasks, end_term));
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
        // The CRD may exist.
        let _: Result<Value, _> = self.admin.create(&CRDS, "", crd.to_string().into()).await;
        self.audit.mark_stale(&resource.kind);
    }

    fn one_of<'a, T>(&self, all: &'a [T]) -> Option<&'a T> {
        let count = u64::try_from(all.len()).expect("small");
        let at = (count > 0).then(|| self.rng.below(count))?;
        all.get(usize::try_from(at).expect("small"))
    }

    /// Returns true with a probability of 1 / `of`.
    fn happens(&self, of: u64) -> bool {
        self.rng.below(of) == 0
    }

    /// Returns random references, most of them to existing objects.
    fn references(&self, objects: &[Value]) -> Vec<Value> {
        let mut references: Vec<Value> = Vec::new();
        for _ in 0..self.rng.below(4) {
            let from = if self.happens(4) { &self.created } else { objects };
            let Some(owner) = self.one_of(from) else { continue };
            let mut it = if self.happens(2) {
                blocking(owner)
            } else {
                reference(owner)
            };
            match self.rng.below(25) {
                0 => it["uid"] = json!("00000000-0000-4000-8000-000000000001"),
                1 => it["kind"] = json!("ConfigMap"),
                2 => it["name"] = json!("other"),
                3 => it["apiVersion"] = json!("unknown.dev/v1"),
                4 => it["apiVersion"] = json!("v1"),
                _ => {}
            }
            // The API server rejects duplicate references.
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
        // The name may exist, or the kind not be served.
        if let Ok(mut created) = created {
            created["apiVersion"] = json!(resource.api_version());
            created["kind"] = json!(resource.kind);
            self.audit.changed(&created);
            self.created.push(created);
        }
    }

    async fn patch(&self, object: &Value, patch: &Value) {
        let (resource, key) = resource_and_key(object);
        self.audit.changed(object);
        let _: Result<Value, _> = self.admin.patch(&resource, &key, Patch::merge(patch)).await;
    }

    async fn delete(&self, object: &Value, policy: Propagation) {
        let (resource, key) = resource_and_key(object);
        let delete = Delete::of(Uid::from(uid(object).as_str())).propagating(policy);
        self.audit.changed(object);
        let _ = self.admin.delete(&resource, &key, &delete).await;
        let objects = self.api.objects().await;
        let left = objects.iter().find(|it| uid(it) == uid(object));
        if let Some(owner) = left.filter(|it| is_terminating(it) && has_finalizer(it, "orphan")) {
            self.audit.orphaned(owner, &objects);
        }
    }

    async fn change_object(&mut self) {
        let objects = self.api.objects().await;
        let policies = [
            Propagation::Background,
            Propagation::Foreground,
            Propagation::Orphan,
        ];
        let policy = *self.one_of(&policies).expect("one");
        let some = self.one_of(&objects).cloned();
        match (self.rng.below(12), some) {
            (0..=3, _) => {
                let resource = self.one_of(&KINDS).expect("one").clone();
                let namespace = if self.happens(4) { "other" } else { "default" };
                let name = format!("object-{}", self.rng.below(6));
                let owners = self.references(&objects);
                self.create(&resource, namespace, &name, &owners).await;
            }
            (4..=6, Some(object)) => self.delete(&object, policy).await,
            (7, Some(object)) => {
                // The object is deleted and recreated under its name.
                let none = json!({"metadata": {"finalizers": null}});
                self.patch(&object, &none).await;
                self.delete(&object, Propagation::Background).await;
                let (resource, key) = resource_and_key(&object);
                let owners = self.references(&objects);
                self.create(&resource, &key.namespace, &key.name, &owners).await;
            }
            (8 | 9, Some(object)) => {
                let owners = self.references(&objects);
                self.patch(&object, &json!({"metadata": {"ownerReferences": owners}}))
                    .await;
            }
            (10, Some(object)) => {
                let label = json!({"metadata": {"labels": {"a": self.rng.number().to_string()}}});
                self.patch(&object, &label).await;
            }
            (11, Some(object)) if !is_terminating(&object) => {
                self.patch(&object, &json!({"metadata": {"finalizers": [HOLD]}}))
                    .await;
            }
            (_, Some(object)) => self.remove_hold(&object).await,
            _ => {}
        }
    }

    async fn remove_hold(&self, object: &Value) {
        if !has_finalizer(object, HOLD) {
            return;
        }
        let finalizers = object["metadata"]["finalizers"].as_array().into_iter().flatten();
        let rest: Vec<_> = finalizers.filter(|it| *it != HOLD).collect();
        let version = &object["metadata"]["resourceVersion"];
        let patch = json!({"metadata": {"finalizers": rest, "resourceVersion": version}});
        self.patch(object, &patch).await;
    }

    async fn inject_random_fault(&mut self) {
        let kind = self.one_of(&KINDS).expect("one").clone();
        match self.rng.below(12) {
            0..=2 => {
                self.audit.mark_stale(&kind.kind);
                let dot = if kind.group.is_empty() { "" } else { "." };
                let collection = format!("{}{dot}{}", kind.plural, kind.group);
                self.api.lag().hold_at(&collection, self.sandbox.revision());
                self.lagging = true;
            }
            3 | 4 => self.clear_faults(),
            5 => self.api.end_watches(),
            6 => {
                self.sandbox.compact(self.sandbox.revision());
                self.api.end_watches();
            }
            7 => {
                self.audit.list_failed();
                self.api.with(|it| it.forbidden = Some(kind));
            }
            8 => self
                .api
                .with(|it| it.undiscoverable = Some("rbac.authorization.k8s.io")),
            9 if self.happens(2) => {
                let crd = if self.happens(2) { &WIDGETS } else { &GADGETS };
                let name = Key::cluster(format!("{}.{}", crd.plural, crd.group));
                let found: Result<Value, _> = self.admin.get(&CRDS, &name).await;
                match found {
                    Ok(it) => {
                        // The objects of a deleted CRD are deleted, also orphans.
                        let objects = self.api.objects().await;
                        let gone = objects.iter().filter(|it| it["kind"] == *crd.kind);
                        gone.for_each(|it| self.audit.changed(it));
                        let delete = Delete::of(Uid::from(uid(&it).as_str()));
                        let _ = self.admin.delete(&CRDS, &name, &delete).await;
                    }
                    Err(_) => self.define(crd).await,
                }
            }
            10 if self.happens(2) => self.start(),
            11 => {
                // The term ends and the next one begins.
                if let Some((_, end_term)) = &self.process {
                    end_term.notify_one();
                }
            }
            _ => {}
        }
    }

    /// Ends the faults that hide resources.
    fn clear_faults(&mut self) {
        self.mark_stale_resources();
        self.api.lag().release();
        self.lagging = false;
        self.api
            .with(|it| (it.forbidden, it.undiscoverable) = (None, None));
    }

    /// Tells the audit which resources the collector cannot read now.
    fn mark_stale_resources(&self) {
        let faults = self.api.with(|it| it.clone());
        if self.lagging || faults.forbidden.is_some() || faults.undiscoverable.is_some() {
            for kind in &KINDS {
                self.audit.mark_stale(&kind.kind);
            }
        }
        if faults.forbidden.is_some() {
            self.audit.list_failed();
        }
    }

    async fn sleep(&self, millis: u64) {
        self.env.clock.sleep(Duration::from_millis(millis)).await;
    }

    /// Ends all faults; waits until all garbage is collected and asserts that the collector becomes idle.
    async fn settle(&mut self) -> Result<(), String> {
        self.clear_faults();
        self.api.with(|it| *it = Settings::default());
        let start = self.env.clock.now();
        loop {
            // A deleted CRD exists until its last object is deleted.
            self.define(&WIDGETS).await;
            self.define(&GADGETS).await;
            let objects = self.api.objects().await;
            for object in &objects {
                self.remove_hold(object).await;
            }
            let violations = unsettled(&objects);
            if violations.is_empty() {
                break;
            }
            if self.env.clock.now() - start > CONVERGENCE_MAX {
                let sent = self.api.with(|it| it.sent.clone());
                let last = sent.len().saturating_sub(20);
                return Err(format!(
                    "not converged: {violations:#?}\nthe last of {} requests: {:#?}",
                    sent.len(),
                    &sent[last..]
                ));
            }
            self.sleep(1000).await;
        }
        self.sleep(120_000).await;
        self.api.with(|it| it.sent.clear());
        self.sleep(600_000).await;
        let sent = self.api.with(|it| it.sent.clone());
        if sent.is_empty() {
            Ok(())
        } else {
            Err(format!("requests without a change: {sent:#?}"))
        }
    }
}

fn resource_and_key(object: &Value) -> (Resource, Key) {
    let resource = KINDS.into_iter().find(|it| *it.kind == object["kind"]);
    let text = |it: &str| object["metadata"][it].as_str().unwrap_or_default().to_owned();
    let key = Key::new(text("namespace"), text("name"));
    (resource.expect("a kind of the test"), key)
}

/// Runs one seed; returns the number of audited deletes and patches.
async fn run(seed: u64) -> Result<Audited, String> {
    let mut run = Run::new(seed).await;
    for _ in 0..20 {
        run.change_object().await;
    }
    let (requests, caches) = (run.rng.below(50), run.rng.below(30));
    let caches = if run.happens(2) { 0 } else { caches };
    run.api
        .with(|it| (it.request_percent, it.cache_percent) = (requests, caches));
    run.start();
    for _ in 0..STEPS {
        run.mark_stale_resources();
        for _ in 0..run.rng.below(4) {
            run.change_object().await;
        }
        if run.happens(3) {
            run.inject_random_fault().await;
        }
        let millis = match run.rng.below(4) {
            0 => run.rng.below(20),
            1 | 2 => run.rng.below(2000),
            _ => run.rng.below(20_000),
        };
        run.sleep(millis).await;
    }
    let settled = run.settle().await;
    let mut violations = run.audit.violations();
    violations.extend(settled.err());
    if violations.is_empty() {
        Ok(run.audit.audited())
    } else {
        Err(violations.join("\n"))
    }
}

#[test]
fn randomized_faults_delete_nothing_owned_and_all_garbage() {
    let (seeds, audited) = run_seeds(SEEDS, run);
    let Audited { deletes, patches } = audited;
    println!("{seeds} seeds, {deletes} deletes and {patches} patches audited");
    // A single seed has no meaningful average.
    assert!(
        seeds == 1 || (deletes > 3 * seeds && patches > 3 * seeds),
        "too little was audited: {deletes} deletes and {patches} patches of {seeds} seeds"
    );
}
