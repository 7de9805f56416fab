//! The metrics of queues, syncs and requests.
//!
//! All tests share the registry: a test asserts only that metrics exist and grow.

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_harness::fixtures::with;
use steersman_harness::{Need, Test, time};

use super::fixture::{Fixture, Kind, name, text};
use crate::controllers::{WAIT_MAX, metric};

/// KCM has its own metrics.
pub fn tests() -> Vec<Test> {
    [
        each!(queue_has_the_name_of_kube_controller_manager, needs(Need::Ours)),
        each!(retries_are_counted, needs(Need::Ours)),
        each!(age_of_deleted_pods_is_observed, needs(Need::Ours)),
        each!(sync_with_a_stale_cache_is_skipped_and_counted, needs(Need::Ours)),
        each!(requests_are_counted, needs(Need::Ours)),
    ]
    .concat()
}

fn queue(s: &Fixture) -> &'static str {
    match s.kind {
        Kind::ReplicaSet => "replicaset",
        Kind::ReplicationController => "replicationmanager",
        Kind::AppReplicaSet => "appreplicaset",
    }
}

/// Returns the value of an existing metric.
fn value(name: &str, labels: &[(&str, &str)]) -> f64 {
    metric(name, labels).unwrap_or_else(|| panic!("no series {name} with {labels:?}"))
}

async fn queue_has_the_name_of_kube_controller_manager(s: Fixture) {
    let of = |metric: &str| value(&format!("workqueue_{metric}"), &[("name", queue(&s))]);
    let growing = [
        "adds_total",
        "queue_duration_seconds_count",
        "work_duration_seconds_count",
    ];
    let before = growing.map(of);
    s.settled(s.owner_on_unmanaged_node("a", 2)).await;
    s.until("all counters have grown", async || {
        let mut pairs = growing.iter().zip(before);
        pairs.all(|(it, before)| of(it) > before).then_some(())
    })
    .await;
    for gauge in [
        "depth",
        "unfinished_work_seconds",
        "longest_running_processor_seconds",
    ] {
        assert!(of(gauge) >= 0.0);
    }
}

async fn retries_are_counted(s: Fixture) {
    let controller = match s.kind {
        Kind::ReplicaSet => "replicaset-controller",
        Kind::ReplicationController => "replicationcontroller-controller",
        Kind::AppReplicaSet => "appreplicaset-controller",
    };
    let errors = || {
        let labels = [("controller", controller)];
        value("controller_runtime_reconcile_errors_total", &labels)
    };
    let retries = || value("workqueue_retries_total", &[("name", queue(&s))]);
    let before = (retries(), errors());
    // Only the create of a pod validates finalizers.
    let refused = json!({"spec": {"template": {"metadata": {"finalizers": ["unqualified"]}}}});
    s.create(with(s.owner("a", 1), refused)).await;
    s.until("the retries are counted", async || {
        (retries() > before.0 && errors() > before.1).then_some(())
    })
    .await;
}

/// All kinds share the histogram.
async fn age_of_deleted_pods_is_observed(s: Fixture) {
    let series = "replicaset_controller_sorting_deletion_age_ratio";
    for le in ["0.25", "0.5", "1", "2", "4", "8", "+Inf"] {
        value(&format!("{series}_bucket"), &[("le", le)]);
    }
    let owner = s.settled(s.owner_on_unmanaged_node("a", 3)).await;
    let pods = s.pods_of(&owner).await;
    for pod in &pods {
        s.make_ready(&name(pod), 10).await;
    }
    s.counts(&owner, "readyReplicas", 3).await;
    // The ratio needs ages above zero, and creationTimestamp has whole seconds.
    s.until("the pods are a second old", async || {
        let made = |pod: &Value| text(&pod["metadata"]["creationTimestamp"]).parse::<Timestamp>();
        let old = |pod| made(pod).is_ok_and(|it| it < s.now());
        pods.iter().all(old).then_some(())
    })
    .await;
    let count = || value(&format!("{series}_count"), &[]);
    let before = count();
    s.scale(&owner, 1).await;
    s.counts(&owner, "replicas", 1).await;
    let grown = count() - before;
    assert!(grown >= 2.0, "by {grown}");
}

/// Every pod event and every change enqueues the owner, eventually before the cache shows all creates.
async fn sync_with_a_stale_cache_is_skipped_and_counted(s: Fixture) {
    let skips = || {
        let labels = [("group", ""), ("resource", "pods")];
        metric("replicaset_controller_stale_sync_skips_total", &labels).unwrap_or_default()
    };
    let owner = s.settled(s.owner_on_unmanaged_node("a", 0)).await;
    let (before, mut wanted) = (skips(), 0);
    s.until("a sync was skipped", async || {
        wanted += 5;
        s.scale(&owner, wanted).await;
        for wake in 0..5 {
            let note = json!({"metadata": {"annotations": {"example.com/wake": wake.to_string()}}});
            s.change(&owner, note).await;
        }
        s.counts(&owner, "replicas", wanted.into()).await;
        (skips() > before).then_some(())
    })
    .await;
    let wanted = usize::try_from(wanted).expect("few");
    assert_eq!(s.all_pods().await.len(), wanted, "no surplus pod was created");
}

async fn requests_are_counted(s: Fixture) {
    let sent = || {
        [("POST", "201"), ("DELETE", "200"), ("PATCH", "200")].map(|(method, code)| {
            let labels = [("method", method), ("code", code)];
            metric("rest_client_requests_total", &labels).unwrap_or_default()
        })
    };
    let before = sent();
    let owner = s.settled(s.owner_on_unmanaged_node("a", 7)).await;
    s.scale(&owner, 2).await;
    s.counts(&owner, "replicas", 2).await;
    // The effect of a request is visible before its response is counted.
    let counted = time::eventually(WAIT_MAX, async || {
        let grown = [7.0, 5.0, 2.0].into_iter().zip(before).zip(sent());
        grown
            .into_iter()
            .all(|((least, before), now)| now >= before + least)
            .then_some(())
    });
    assert!(counted.await.is_some(), "{before:?}, then {:?}", sent());
}
