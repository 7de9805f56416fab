//! What operators see of it: the names of queues, counters, requests.
//!
//! The series are those of all tests together: what is asked of them is that they are there, and grow.

use coxswain_tests::fixtures::with;
use coxswain_tests::{Need, Test, time};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::stage::{Kind, Stage, name, text};
use crate::engine::{PATIENCE, metric};

/// What is registered of this surface. The metrics of KCM are its own.
pub fn tests() -> Vec<Test> {
    [
        each!(its_queue_has_the_name_that_dashboards_know, needs(Need::Ours)),
        each!(what_is_tried_again_is_counted, needs(Need::Ours)),
        each!(the_age_of_what_goes_is_measured, needs(Need::Ours)),
        each!(
            a_sync_that_is_behind_its_own_writes_is_put_back_and_counted,
            needs(Need::Ours)
        ),
        each!(its_requests_are_counted, needs(Need::Ours)),
    ]
    .concat()
}

fn queue(s: &Stage) -> &'static str {
    match s.kind {
        Kind::ReplicaSet => "replicaset",
        Kind::ReplicationController => "replicationmanager",
        Kind::AppReplicaSet => "appreplicaset",
    }
}

/// What it is now; it must be there.
fn value(name: &str, labels: &[(&str, &str)]) -> f64 {
    metric(name, labels).unwrap_or_else(|| panic!("no series {name} with {labels:?}"))
}

async fn its_queue_has_the_name_that_dashboards_know(s: Stage) {
    let of = |what: &str| value(&format!("workqueue_{what}"), &[("name", queue(&s))]);
    let growing = [
        "adds_total",
        "queue_duration_seconds_count",
        "work_duration_seconds_count",
    ];
    let before = growing.map(of);
    s.settled(s.owner_elsewhere("a", 2)).await;
    s.until("all that counts up has counted", async || {
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

async fn what_is_tried_again_is_counted(s: Stage) {
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
    // Nobody looks at finalizers before a pod is made of them.
    let refused = json!({"spec": {"template": {"metadata": {"finalizers": ["unqualified"]}}}});
    s.create(with(s.owner("a", 1), refused)).await;
    s.until("it is tried again, and that is counted", async || {
        (retries() > before.0 && errors() > before.1).then_some(())
    })
    .await;
}

/// One series for all kinds.
async fn the_age_of_what_goes_is_measured(s: Stage) {
    let series = "replicaset_controller_sorting_deletion_age_ratio";
    for le in ["0.25", "0.5", "1", "2", "4", "8", "+Inf"] {
        value(&format!("{series}_bucket"), &[("le", le)]);
    }
    let owner = s.settled(s.owner_elsewhere("a", 3)).await;
    let pods = s.pods_of(&owner).await;
    for pod in &pods {
        s.make_ready(&name(pod), 10).await;
    }
    s.counts(&owner, "readyReplicas", 3).await;
    // It is a ratio of ages: they must have one, and servers tell in whole seconds when a pod was made.
    s.until("they have an age", async || {
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

/// Every pod that comes wakes its owner, and so does every change of it: sooner or later before all that was made is shown.
async fn a_sync_that_is_behind_its_own_writes_is_put_back_and_counted(s: Stage) {
    let skips = || {
        let labels = [("group", ""), ("resource", "pods")];
        metric("replicaset_controller_stale_sync_skips_total", &labels).unwrap_or_default()
    };
    let owner = s.settled(s.owner_elsewhere("a", 0)).await;
    let (before, mut wanted) = (skips(), 0);
    s.until("one was put back", async || {
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
    assert_eq!(s.all_pods().await.len(), wanted, "not one too many was made");
}

async fn its_requests_are_counted(s: Stage) {
    let sent = || {
        [("POST", "201"), ("DELETE", "200"), ("PATCH", "200")].map(|(method, code)| {
            let labels = [("method", method), ("code", code)];
            metric("rest_client_requests_total", &labels).unwrap_or_default()
        })
    };
    let before = sent();
    let owner = s.settled(s.owner_elsewhere("a", 7)).await;
    s.scale(&owner, 2).await;
    s.counts(&owner, "replicas", 2).await;
    // What was done is seen before who asked for it has the answer, and counts.
    let told = time::eventually(PATIENCE, async || {
        let grown = [7.0, 5.0, 2.0].into_iter().zip(before).zip(sent());
        grown
            .into_iter()
            .all(|((least, before), now)| now >= before + least)
            .then_some(())
    });
    assert!(told.await.is_some(), "{before:?}, then {:?}", sent());
}
