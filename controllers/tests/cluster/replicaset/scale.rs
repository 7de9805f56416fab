//! The desired number of pods after scaling, deletions and failures.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use steersman_harness::Test;
use steersman_harness::fixtures::with;

use super::fixture::{Fixture, Owner, counter_of, name, names};

pub fn tests() -> Vec<Test> {
    [
        each!(pods_are_created_and_counted),
        each!(replicas_default_to_one),
        each!(zero_replicas_create_no_pods),
        each!(owner_scales_up_down_and_to_zero),
        each!(scale_beyond_one_burst_completes),
        each!(deleted_pods_are_replaced),
        each!(terminating_pod_is_replaced_at_once),
        each!(finished_pods_are_replaced_and_kept),
    ]
    .concat()
}

async fn pods_are_created_and_counted(s: Fixture) {
    let owner = s.create(s.owner("a", 3)).await;
    let full = s.status(&owner, "all are available", |status| {
        let counters = [
            "replicas",
            "fullyLabeledReplicas",
            "readyReplicas",
            "availableReplicas",
        ];
        counters.iter().all(|it| counter_of(status, it) == 3)
    });
    assert!(full.await["status"]["conditions"].is_null());
    let pods = s.pods().await;
    assert_eq!(pods.len(), 3, "{pods:#?}");
    assert_eq!(names(&s.pods_of(&owner).await), names(&pods));
    has_events(&s, &owner, "SuccessfulCreate", "Created pod", &names(&pods)).await;
}

async fn replicas_default_to_one(s: Fixture) {
    let body = with(s.owner("a", 0), json!({"spec": {"replicas": null}}));
    let owner = s.create(body).await;
    s.counts(&owner, "readyReplicas", 1).await;
    assert_eq!(s.pods().await.len(), 1);
}

async fn zero_replicas_create_no_pods(s: Fixture) {
    let owner = s.create(s.owner("a", 0)).await;
    let now = s.status(&owner, "the controller observes it", |_| true).await;
    for counter in [
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
    ] {
        assert_eq!(counter_of(&now["status"], counter), 0, "{now:#}");
    }
    s.synced(&owner).await;
    assert!(s.all_pods().await.is_empty());
    assert!(s.events(&owner).await.is_empty());
}

async fn owner_scales_up_down_and_to_zero(s: Fixture) {
    let owner = s.settled(s.owner("a", 2)).await;
    let two = names(&s.pods_of(&owner).await);
    s.scale(&owner, 5).await;
    s.counts(&owner, "readyReplicas", 5).await;
    let five = names(&s.pods().await);
    assert!(five.len() == 5 && two.is_subset(&five), "{two:?} {five:?}");

    s.scale(&owner, 1).await;
    s.counts(&owner, "replicas", 1).await;
    let one = names(&s.owns(&owner, 1).await);
    assert!(one.is_subset(&five));
    let gone = five.difference(&one).cloned().collect();
    has_events(&s, &owner, "SuccessfulDelete", "Deleted pod", &gone).await;

    s.scale(&owner, 0).await;
    let now = s.counts(&owner, "replicas", 0).await;
    assert_eq!(counter_of(&now["status"], "readyReplicas"), 0, "{now:#}");
    assert!(s.pods().await.is_empty());
    has_events(&s, &owner, "SuccessfulDelete", "Deleted pod", &five).await;
    has_events(&s, &owner, "SuccessfulCreate", "Created pod", &five).await;
}

async fn scale_beyond_one_burst_completes(s: Fixture) {
    const MANY: u32 = 503;
    let owner = s.create(s.owner_on_unmanaged_node("a", MANY)).await;
    // Slow on a small machine: each part has its own timeout.
    for part in [100, 200, 300, 400, 503] {
        s.status(&owner, &format!("{part} are created"), |status| {
            counter_of(status, "replicas") >= part
        })
        .await;
    }
    s.synced(&owner).await;
    let all = s.all_pods().await;
    assert_eq!((all.len(), s.pods_of(&owner).await.len()), (503, 503));
    s.scale(&owner, 1).await;
    for part in [400, 300, 200, 100, 1] {
        s.status(&owner, &format!("{part} are left"), |status| {
            counter_of(status, "replicas") <= part
        })
        .await;
    }
    s.synced(&owner).await;
    assert_eq!(s.pods().await.len(), 1);
    assert_eq!(names(&s.all_pods().await), names(&all), "no pod was replaced");
}

async fn deleted_pods_are_replaced(s: Fixture) {
    let owner = s.settled(s.owner("a", 3)).await;
    let before = s.pods_of(&owner).await;
    let (gone, kept) = before.split_at(2);
    for pod in gone {
        s.delete_pod(&name(pod)).await;
    }
    let now = s
        .until("the pods are replaced", async || {
            let now = names(&s.pods_of(&owner).await);
            let replaced = now.len() == 3 && now.is_disjoint(&names(gone));
            replaced.then_some(now)
        })
        .await;
    assert!(names(kept).is_subset(&now));
    s.counts(&owner, "readyReplicas", 3).await;
    s.synced(&owner).await;
    assert_eq!(names(&s.pods().await), now);
}

async fn terminating_pod_is_replaced_at_once(s: Fixture) {
    let owner = s.settled(s.owner_on_unmanaged_node("a", 2)).await;
    let old = name(&s.pods_of(&owner).await[0]);
    s.delete_pod(&old).await;
    s.owns(&owner, 2).await;
    s.counts(&owner, "replicas", 2).await;
    // Without a kubelet it still exists.
    assert!(s.get_pod(&old).await["metadata"]["deletionTimestamp"].is_string());
    s.synced(&owner).await;
    assert_eq!(s.all_pods().await.len(), 3);
}

async fn finished_pods_are_replaced_and_kept(s: Fixture) {
    let owner = s.settled(s.owner_on_unmanaged_node("a", 2)).await;
    let mut finished = BTreeSet::new();
    for phase in ["Failed", "Succeeded"] {
        let pods = s.pods_of(&owner).await;
        let fresh = pods.iter().find(|pod| !finished.contains(&name(pod)));
        let old = name(fresh.expect("a running pod"));
        s.change_pod_status(&old, json!({"phase": phase})).await;
        finished.insert(old);
        s.owns(&owner, 2 + finished.len()).await;
        s.counts(&owner, "replicas", 2).await;
    }
    s.scale(&owner, 0).await;
    s.counts(&owner, "replicas", 0).await;
    s.synced(&owner).await;
    assert_eq!(names(&s.pods().await), finished);
}

/// Waits until exactly these pods have an event with this reason.
async fn has_events(s: &Fixture, owner: &Owner, reason: &str, words: &str, pods: &BTreeSet<String>) {
    let wanted: BTreeSet<String> = pods.iter().map(|pod| format!("{words}: {pod}")).collect();
    let matching = async || {
        let mut events = s.raw_events(owner).await;
        events.retain(|event| event["reason"] == reason);
        events
    };
    let all = s
        .until(&format!("{reason} of {pods:?}"), async || {
            let events = matching().await;
            let messages: BTreeSet<String> = events
                .iter()
                .map(|it| super::fixture::text(&it["message"]))
                .collect();
            wanted.is_subset(&messages).then_some(events)
        })
        .await;
    assert_eq!(all.len(), wanted.len(), "{all:#?}");
    for event in all {
        let object = &event["involvedObject"];
        let about: [&Value; 5] = ["kind", "apiVersion", "name", "namespace", "uid"].map(|it| &object[it]);
        let (kind, version) = (s.kind.name(), s.kind.api_version());
        assert_eq!(
            about,
            [kind, version, &owner.name, &s.ns, &owner.uid],
            "{event:#}"
        );
        assert_eq!(event["type"], "Normal", "{event:#}");
        assert_eq!(event["source"]["component"], s.kind.component(), "{event:#}");
        assert_eq!(event["reportingComponent"], s.kind.component(), "{event:#}");
    }
}
