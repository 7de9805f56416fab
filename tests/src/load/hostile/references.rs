//! References to owners: very many of one object, and of many objects to unknown owners.

use serde_json::{Value, json};

use super::super::Load;
use super::super::cluster::map;
use super::{TENANT, path, work};

/// The references of an object of 1.5 MB.
const REFERENCES: u64 = 13_000;
/// The references of an object that is deleted after all its owners were read.
const GARBAGE_REFERENCES: u64 = 1000;
const CHANGES: u64 = 20;
/// Bound on the bytes that the product allocates for a reference of a changed object.
const REFERENCE_BYTES: u64 = 2048;
/// The keys of the tenant that are queued before that of another one, at least.
const QUEUED_MIN: f64 = 100.0;
/// Bound on the bytes that the product allocates for a changed pod.
const POD_BYTES: u64 = 32 << 10;

/// Objects with very many references: some to absent owners, some to an owner of an unknown kind, which keeps the object.
pub(super) async fn many(load: &mut Load) {
    load.prepare_hostile().await;
    let count = load.scaled(10);
    let cluster = load.cluster.clone();
    let maps = path("configmaps", TENANT);
    for n in 0..count {
        let owners = |count| {
            (0..count)
                .map(|it| absent("Secret", "v1", n, it))
                .collect::<Vec<_>>()
        };
        let kept = || {
            let mut owners = owners(REFERENCES);
            owners.push(absent("Unknown", "example.com/v1", n, REFERENCES));
            map(&format!("kept-{n}"), &Value::from(owners))
        };
        cluster.create(&maps, kept).await;
        let garbage = || map(&format!("garbage-{n}"), &Value::from(owners(GARBAGE_REFERENCES)));
        cluster.create(&maps, garbage).await;
    }
    load.memory_limit = 2 * count * REFERENCES * REFERENCE_BYTES;
    load.start_hostile();
    load.cached_within("configmaps", count, super::SERVED).await;
    load.serve_other("web").await;
    for n in 0..count {
        let garbage = format!("{maps}/garbage-{n}");
        load.until("the garbage is deleted", async |load| {
            !load.cluster.exists(&garbage).await
        })
        .await;
    }
    load.bound_poll("collection");
    let before = work();
    for change in 0..CHANGES {
        let labels = json!({"metadata": {"labels": {"change": change.to_string()}}});
        for n in 0..count {
            cluster.patch(&format!("{maps}/kept-{n}"), &labels).await;
        }
        if change == 1 {
            load.serve_other("db").await;
        }
        load.sleep(std::time::Duration::from_secs(1)).await;
    }
    load.bound_allocated(
        "changes of objects with many references",
        before,
        CHANGES * count * REFERENCES * REFERENCE_BYTES,
    );
    load.bound_poll("changes");
    load.report.objects = 2 * count;
}

/// Many `ReplicaSets`, and pods whose controller is not one of them.
pub(super) async fn unknown(load: &mut Load) {
    load.prepare_hostile().await;
    let count = load.scaled(10_000);
    let cluster = load.cluster.clone();
    let (sets, pods) = (path("replicasets", TENANT), path("pods", TENANT));
    for n in 0..count {
        let set = format!("set-{n}");
        cluster
            .create(&sets, || super::super::cluster::replica_set(&set, 0))
            .await;
        let make = || {
            let mut owner = absent("ReplicaSet", "apps/v1", 0, n);
            owner["controller"] = json!(true);
            let mut pod = super::super::cluster::template("web");
            pod["metadata"] = json!({
                "name": format!("pod-{n}"), "ownerReferences": [owner],
                // Not garbage.
                "finalizers": ["example.com/kept"],
            });
            pod["apiVersion"] = json!("v1");
            pod["kind"] = json!("Pod");
            pod
        };
        cluster.create(&pods, make).await;
    }
    load.memory_limit = 2 * count * 8192;
    load.start_hostile_with(&[("replicasets", count), ("pods", count)])
        .await;
    load.bound_poll("start");
    let before = work();
    let changed = count.min(100);
    for n in 0..changed {
        let labels = json!({"metadata": {"labels": {"changed": "true"}}});
        cluster.patch(&format!("{pods}/pod-{n}"), &labels).await;
    }
    load.serve_other("web").await;
    load.settle("changes").await;
    load.bound_allocated(
        "changed pods of unknown owners",
        before,
        (changed + 20) * POD_BYTES,
    );
    load.bound_poll("changes");
    for n in 0..count {
        let seconds = json!({"spec": {"minReadySeconds": 1}});
        cluster.patch(&format!("{sets}/set-{n}"), &seconds).await;
    }
    load.within("the ReplicaSets are queued", super::SERVED, async |load| {
        load.product().sum("workqueue_depth", |it| it == "replicaset") >= QUEUED_MIN
    })
    .await;
    load.serve_other_in_turn("db").await;
    load.settle("changes of the ReplicaSets").await;
    load.bound_poll("changes of the ReplicaSets");
}

/// Returns a reference to an owner that does not exist.
fn absent(kind: &str, api_version: &str, of: u64, number: u64) -> Value {
    json!({
        "apiVersion": api_version, "kind": kind, "name": format!("o{number}"),
        "uid": format!("00000000-0000-4000-8{of:03x}-{number:012x}"),
    })
}
