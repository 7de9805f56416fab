//! Tenants that try to take the memory or the time of the product from other tenants: the largest objects that the API admits,
//! and very many of them in one namespace.
//!
//! The bounds are on figures that a busy machine does not change: the peak of the heap, the bytes that a change makes the
//! product allocate, the order of the keys of two tenants, and the CPU time of the longest poll of a task. The last one is
//! compared with the decoding of a large document by the same optimized build on the same machine. Unit tests do not bound it.
//!
//! At scale 1 the objects are the largest ones, in the numbers of the descriptions. A smaller scale reduces the numbers; the
//! sizes stay, unless a description says so.

mod app_services;
mod fields;
mod history;
mod lists;
mod references;
mod reviews;

use std::time::Duration;

use serde_json::{Value, json};
use steersman_controllers::{deployment, replicaset};
use tokio::time::Instant;

use super::cases::Case;
use super::memory::{self, Work, outside, thread_cpu, work};
use super::product::Product;
use super::report::Report;
use super::{Load, QUIET};

/// All cases.
pub const HOSTILE: &[Case] = &[
    Case {
        name: "hostile-lists",
        about: "95 ReplicaSets of 1.5 MB of `<` (9 MB in JSON) over a slow connection: pages shrink until they arrive in time, \
                items are decoded while they arrive, and what the projection does not keep is never in memory",
        run: |load| Box::pin(lists::run(load)),
    },
    Case {
        name: "hostile-appservices",
        about: "4 AppServices with as many env and ports entries as the CRD admits (at most 20,000), which is scaled: no \
                comparison is quadratic",
        run: |load| Box::pin(app_services::run(load)),
    },
    Case {
        name: "hostile-history",
        about: "a Deployment without a history limit and 60 ReplicaSets with 700,000 empty args: a template is canonicalized \
                once, when it is decoded",
        run: |load| Box::pin(history::run(load)),
    },
    Case {
        name: "hostile-references",
        about: "10 objects with 13,000 ownerReferences: an evaluation is linear, and does not hold up other tenants",
        run: |load| Box::pin(references::many(load)),
    },
    Case {
        name: "hostile-owners",
        about: "10,000 ReplicaSets and pods whose controller reference names an unknown owner: an owner is found without a scan, \
                and a change of all ReplicaSets does not delay the key of another tenant",
        run: |load| Box::pin(references::unknown(load)),
    },
    Case {
        name: "hostile-fields",
        about: "for lists and maps that the controllers read, an object of 1.5 MB of smallest entries: decoding takes linear \
                memory",
        run: |load| Box::pin(fields::run(load)),
    },
    Case {
        name: "hostile-reviews",
        about: "admission reviews of 7 MiB at any scale: at most two bytes of memory for a byte of the body",
        run: |load| Box::pin(reviews::run(load)),
    },
];

/// All controllers that read large objects.
const CONTROLLERS: &str =
    "appservice,deployment,replicaset,appreplicaset,replicationcontroller,garbagecollector";
/// The largest object in etcd, about.
const OBJECT_BYTES: usize = 1_500_000;
/// The longest poll in an optimized build on a fast machine.
const POLL_MAX: Duration = Duration::from_millis(50);
/// The longest poll in decodings of a document of [`OBJECT_BYTES`].
const POLL_MAX_DECODINGS: u32 = 4;
/// The controllers of a Deployment, each of which writes after the one before.
const SERVING: [&str; 2] = [deployment::NAME, replicaset::NAME];
/// The writes of a controller for the hostile tenant between a cause and its write for another tenant: those of two rounds of its
/// five workers, and as many while the cause is on its way.
const OVERTAKING_MAX: u64 = 20;
/// The time in which another tenant is served. Virtual: it counts the waits, not the work.
const SERVED: Duration = Duration::from_secs(10);
/// The namespace of the hostile tenant.
const TENANT: &str = "tenant";
/// The namespace of another tenant.
const OTHER: &str = "other";

/// Returns the CPU time in which this build decodes a document of [`OBJECT_BYTES`].
fn decoding() -> Duration {
    outside(|| {
        let document = format!("[{}\"\"]", "\"\",".repeat(OBJECT_BYTES / 3));
        let decode = || {
            let start = thread_cpu();
            let decoded: Result<Value, _> = serde_json::from_str(&document);
            assert!(decoded.is_ok_and(|it| it.is_array()));
            thread_cpu().saturating_sub(start)
        };
        (0..3).map(|_| decode()).min().unwrap_or_default()
    })
}

/// Returns the path of the objects of a resource in a namespace.
fn path(resource: &str, namespace: &str) -> String {
    let group = match resource {
        "replicasets" | "deployments" => "/apis/apps/v1",
        "appservices" | "appreplicasets" => "/apis/appcontroller.k8s.io/v1alpha1",
        _ => "/api/v1",
    };
    format!("{group}/namespaces/{namespace}/{resource}")
}

impl Load {
    /// Creates the namespaces. The bounds of the case are those of a hostile tenant.
    async fn prepare_hostile(&mut self) {
        self.is_hostile = true;
        for namespace in [TENANT, OTHER] {
            self.cluster.create_namespace(namespace).await;
        }
    }

    /// Starts the product, and does not wait.
    fn start_hostile(&mut self) {
        self.progress("objects prepared");
        self.before = memory::product();
        memory::reset_peak();
        self.started = self.now();
        self.begun = self.now();
        self.product = Some(Product::start(&self.cluster, CONTROLLERS));
    }

    /// Starts the product, and waits until all objects of these resources are cached and it is idle.
    async fn start_hostile_with(&mut self, objects: &[(&str, u64)]) {
        self.start_hostile();
        for (resource, count) in objects {
            self.cached_within(resource, *count, Duration::from_mins(2)).await;
        }
        self.quiet(QUIET).await;
        self.report.objects = objects.iter().map(|(_, count)| count).sum();
        self.progress("product started");
    }

    /// Waits until a cache has this number of objects.
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    async fn cached_within(&mut self, resource: &str, count: u64, limit: Duration) {
        let what = format!("{count} {resource} are cached within {limit:?}");
        self.within(&what, limit, async |load| {
            load.product().cached(resource) >= count as f64
        })
        .await;
    }

    /// Waits until a condition holds. It is broken if it does not hold in time.
    async fn within(&mut self, condition: &str, limit: Duration, holds: impl AsyncFn(&Self) -> bool) {
        let end: Instant = self.now() + limit;
        while !holds(self).await {
            if self.now() > end || self.product().has_ended() {
                self.report.broken.push(format!("not in time: {condition}"));
                return;
            }
            self.sleep(Duration::from_millis(20)).await;
        }
    }

    /// Bounds the bytes that the product has allocated since then.
    fn bound_allocated(&mut self, name: &str, before: Work, limit: u64) {
        let allocated = work().since(before).allocated;
        self.bound(format!("bytes allocated: {name}"), allocated, limit);
    }

    /// Bounds the work of the longest poll so far, and starts over.
    fn bound_poll(&mut self, step: &str) {
        let most = self.product().polls.take_most();
        let decoding = decoding();
        let limit = POLL_MAX.max(decoding * POLL_MAX_DECODINGS);
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.progress(&format!(
            "{step}: the longest poll takes {:?} of at most {limit:?}, and allocates {} KiB",
            most.cpu,
            most.allocated >> 10
        ));
        // Unit tests are not optimized: their time says nothing about that of the product.
        if !cfg!(test) {
            self.bound(
                format!("CPU time of the longest poll in µs: {step}"),
                micros(most.cpu),
                micros(limit),
            );
        }
    }

    /// Creates a Deployment of another tenant. The product creates its `ReplicaSet` in time, without doing all the work of the
    /// hostile tenant first.
    async fn serve_other(&mut self, name: &str) {
        let cluster = self.cluster.clone();
        let before = work();
        cluster
            .create(&path("deployments", OTHER), || deployment(name))
            .await;
        let sets = format!("{}?labelSelector=app%3D{name}", path("replicasets", OTHER));
        self.within(
            &format!("the Deployment {name} of another tenant has a ReplicaSet"),
            SERVED,
            async |load| load.cluster.has_items(&sets).await,
        )
        .await;
        let waited = work().since(before).cpu;
        let limit = 10 * POLL_MAX.max(decoding() * POLL_MAX_DECODINGS);
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        if !cfg!(test) {
            self.bound(
                format!("CPU time in ms before {name} is served"),
                millis(waited),
                millis(limit),
            );
        }
    }

    /// Creates a Deployment of another tenant while many keys of the hostile one are queued. Namespaces take turns, so its keys are
    /// overtaken only by those that workers process and by a turn of each namespace.
    async fn serve_other_in_turn(&mut self, name: &str) {
        outside(|| self.requests().record_writes());
        self.serve_other(name).await;
        let overtaking = |load: &Self| outside(|| load.requests().writes_before(&SERVING, OTHER));
        let served = format!("the ReplicaSet of {name} has a status");
        self.within(&served, SERVED, async |load| overtaking(load).is_some())
            .await;
        let count = overtaking(self).unwrap_or(u64::MAX);
        self.bound(
            format!("writes of a controller for the hostile tenant before that for {name}"),
            count,
            OVERTAKING_MAX,
        );
    }

    /// Evaluates the common bounds, and stops the product.
    pub(super) async fn finish_hostile(mut self) -> Report {
        self.bound_memory();
        self.report.requests = self.requests().by_verb();
        self.report.limits = self.report.requests.clone();
        self.stop().await
    }
}

/// Returns a Deployment.
fn deployment(name: &str) -> Value {
    let labels = json!({"app": name});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": 0, "selector": {"matchLabels": labels},
            "template": super::cluster::template(name),
        },
    })
}

/// Returns a `ReplicaSet` without replicas whose container has these arguments.
fn replica_set(name: &str, args: &Value) -> Value {
    let mut set = super::cluster::replica_set(name, 0);
    set["spec"]["template"]["spec"]["containers"][0]["args"] = args.clone();
    set
}
