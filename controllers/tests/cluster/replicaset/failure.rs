//! Pods that cannot be made, or do not last.

use std::time::Duration;

use coxswain_controllers::hollow_kubelet::FAIL;
use coxswain_tests::fixtures::{self, with};
use coxswain_tests::{Need, Test, Watch, time};
use serde_json::{Value, json};

use super::stage::{Owner, Stage, condition, counter_of, drain, name, text};

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    [
        each!(a_template_that_is_refused_is_told_and_mended),
        each!(a_refusal_is_not_tried_in_a_circle),
        each!(a_failing_owner_does_not_hold_up_another),
        each!(what_admission_denies_is_told, needs(Need::Real)),
        each!(what_a_limit_range_denies_is_told, needs(Need::Real)),
        each!(what_a_quota_allows_is_made),
        // KCM says each time what name it was that was not made.
        each!(a_refusal_is_said_once, needs(Need::Ours)),
        each!(a_denial_is_said_once, needs(Need::Ours)).map(|test| test.needs(Need::Real)),
        each!(an_exceeded_quota_is_said_once, needs(Need::Ours)),
        each!(a_failure_for_another_reason_is_told, needs(Need::Ours)),
        each!(
            pods_that_fail_at_once_are_not_replaced_without_end,
            needs(Need::Ours)
        ),
    ]
    .concat()
}

/// A template that is fine, until a pod is made of it: nobody looks at the finalizers in it.
fn refused(s: &Stage, name: &str, replicas: u32) -> Value {
    let finalizers = json!({"metadata": {"finalizers": ["unqualified"]}});
    with(s.owner(name, replicas), json!({"spec": {"template": finalizers}}))
}

async fn fails(s: &Stage, owner: &Owner) -> Value {
    let now = s
        .status(owner, "it fails", |status| {
            condition(status, "ReplicaFailure").is_some()
        })
        .await;
    let failure = condition(&now["status"], "ReplicaFailure").expect("it is there");
    assert_eq!(failure["status"], "True", "{now:#}");
    assert_eq!(failure["reason"], "FailedCreate", "{now:#}");
    assert!(failure["lastTransitionTime"].is_string(), "{now:#}");
    now
}

/// Waits until there is an event of a failure with these words.
async fn says(s: &Stage, owner: &Owner, words: &str) {
    let said = s.until("a FailedCreate", async || {
        let events = s.events(owner).await;
        let mut failed = events
            .into_iter()
            .filter(|(_, reason, _)| reason == "FailedCreate");
        // After ten that differ KCM writes one for all that follow, which begins with other words.
        failed.find(|(_, _, message)| message.starts_with("Error creating: ") && message.contains(words))
    });
    let (kind, ..) = said.await;
    assert_eq!(kind, "Warning");
}

async fn a_template_that_is_refused_is_told_and_mended(s: Stage) {
    let owner = s.create(refused(&s, "a", 2)).await;
    let now = fails(&s, &owner).await;
    let words = "name is neither a standard finalizer name nor is it fully qualified";
    let message = text(&condition(&now["status"], "ReplicaFailure").expect("it fails")["message"]);
    assert!(message.contains(words), "{message}");
    assert_eq!(counter_of(&now["status"], "replicas"), 0);
    says(&s, &owner, words).await;

    let finalizers = json!({"metadata": {"finalizers": null}});
    s.change(&owner, json!({"spec": {"template": finalizers}})).await;
    let now = s.counts(&owner, "readyReplicas", 2).await;
    assert!(condition(&now["status"], "ReplicaFailure").is_none(), "{now:#}");
    assert_eq!(s.all_pods().await.len(), 2);
}

async fn a_refusal_is_not_tried_in_a_circle(s: Stage) {
    let owner = s.create(refused(&s, "a", 50)).await;
    fails(&s, &owner).await;
    time::pause(Duration::from_secs(5)).await;
    // Events may come late, if there are many.
    says(&s, &owner, "unqualified").await;
    let events = s.raw_events(&owner).await;
    let times: u64 = events.iter().map(|it| it["count"].as_u64().unwrap_or(1)).sum();
    // One at a time, and each time after twice as long: 5 ms, 10 ms, and so on.
    assert!((1..=15).contains(&times), "{times} times: {events:#?}");
    assert_eq!(s.all_pods().await.len(), 0);
}

async fn a_failing_owner_does_not_hold_up_another(s: Stage) {
    let bad = s.create(refused(&s, "a", 3)).await;
    fails(&s, &bad).await;
    let good = s.create(s.owner("b", 3)).await;
    s.counts(&good, "readyReplicas", 3).await;
    fails(&s, &bad).await;
}

/// A template of a class of pods that there is not.
fn denied(s: &Stage, name: &str, replicas: u32) -> Value {
    let class = json!({"spec": {"template": {"spec": {"priorityClassName": "nobody-knows"}}}});
    with(s.owner(name, replicas), class)
}

async fn what_admission_denies_is_told(s: Stage) {
    let owner = s.create(denied(&s, "a", 2)).await;
    let now = fails(&s, &owner).await;
    let words = "no PriorityClass with name nobody-knows was found";
    let message = text(&condition(&now["status"], "ReplicaFailure").expect("it fails")["message"]);
    assert!(message.contains(words), "{message}");
    says(&s, &owner, words).await;
}

async fn what_a_limit_range_denies_is_told(s: Stage) {
    let range = with(
        fixtures::named("v1", "LimitRange", "r"),
        json!({"spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}}),
    );
    let ranges = fixtures::core(&s.ns, "limitranges");
    s.c.api().post(&ranges, range).await.expect(201);
    let containers = json!([{"name": "c", "image": "i", "resources": {"limits": {"cpu": "2"}}}]);
    let greedy = with(fixtures::pod("p"), json!({"spec": {"containers": containers}}));
    let dry = format!("{}?dryRun=All", fixtures::core(&s.ns, "pods"));
    s.until("the range is known", async || {
        (s.c.api().post(&dry, greedy.clone()).await.status == 403).then_some(())
    })
    .await;

    let template = json!({"spec": {"template": {"spec": {"containers": containers}}}});
    let owner = s.create(with(s.owner("a", 2), template)).await;
    let now = fails(&s, &owner).await;
    let words = "maximum cpu usage per Container is 1, but limit is 2";
    let message = text(&condition(&now["status"], "ReplicaFailure").expect("it fails")["message"]);
    assert!(message.contains(words), "{message}");
    says(&s, &owner, words).await;
    assert!(s.all_pods().await.is_empty());
}

async fn a_refusal_is_said_once(s: Stage) {
    let writes = s.watch_owners().await;
    let bad = s.create(refused(&s, "a", 50)).await;
    fails(&s, &bad).await;
    let good = s.create(s.owner("b", 3)).await;
    s.counts(&good, "readyReplicas", 3).await;
    said_once(&s, &bad, writes, 1).await;
    assert_eq!(s.all_pods().await.len(), 3);
    said_nothing_bad(&s, &good).await;
}

async fn a_denial_is_said_once(s: Stage) {
    let writes = s.watch_owners().await;
    let bad = s.create(denied(&s, "a", 50)).await;
    fails(&s, &bad).await;
    let good = s.create(s.owner("b", 3)).await;
    s.counts(&good, "readyReplicas", 3).await;
    said_once(&s, &bad, writes, 1).await;
    assert_eq!(s.all_pods().await.len(), 3);
    said_nothing_bad(&s, &good).await;
}

async fn an_exceeded_quota_is_said_once(s: Stage) {
    let good = s.create(s.owner("b", 3)).await;
    s.counts(&good, "readyReplicas", 3).await;
    quota(&s, 5, 3).await;
    let writes = s.watch_owners().await;
    let bad = s.create(s.owner_elsewhere("a", 50)).await;
    s.status(&bad, "it has made what it may", |status| {
        counter_of(status, "replicas") == 2 && condition(status, "ReplicaFailure").is_some()
    })
    .await;
    // One write for the failure, and one or two for the pods that it could have.
    said_once(&s, &bad, writes, 3).await;
    assert_eq!(s.all_pods().await.len(), 5);
    said_nothing_bad(&s, &good).await;
}

/// After a while there is one event of a failure, which counts how often it was tried, and no more than so many writes to
/// the owner.
async fn said_once(s: &Stage, owner: &Owner, mut writes: Watch, most: usize) {
    says(s, owner, "").await;
    time::pause(Duration::from_secs(3)).await;
    let mut events = s.raw_events(owner).await;
    events.retain(|it| it["reason"] == "FailedCreate");
    assert_eq!(events.len(), 1, "{events:#?}");
    let times = events[0]["count"].as_u64().unwrap_or_default();
    // Each time after twice as long: 5 ms, 10 ms, and so on.
    assert!((2..=15).contains(&times), "{times} times");
    let mut writes = drain(&mut writes).await;
    writes.retain(|it| it["type"] == "MODIFIED" && name(&it["object"]) == owner.name);
    assert!((1..=most).contains(&writes.len()), "{writes:#?}");
}

async fn said_nothing_bad(s: &Stage, owner: &Owner) {
    let now = s.get(owner).await;
    assert!(condition(&now["status"], "ReplicaFailure").is_none(), "{now:#}");
    let mut events = s.raw_events(owner).await;
    events.retain(|it| it["type"] != "Normal");
    assert!(events.is_empty(), "{events:#?}");
}

/// No more than so many pods, of which so many are there already. Returns the path of the quota.
async fn quota(s: &Stage, hard: u32, used: u32) -> String {
    let quotas = fixtures::core(&s.ns, "resourcequotas");
    let path = format!("{quotas}/q");
    let spec = |pods: u32| json!({"spec": {"hard": {"pods": pods.to_string()}}});
    let dry = format!("{}?dryRun=All", fixtures::core(&s.ns, "pods"));
    let pod = async || s.c.api().post(&dry, fixtures::pod("p")).await;
    // A server that has found no quota remembers that, and does not remember one when it is gone.
    pod().await.expect(201);
    // It learns of it late: that it knows, one can tell when it refuses.
    let full = with(fixtures::named("v1", "ResourceQuota", "q"), spec(used));
    s.c.api().post(&quotas, full).await.expect(201);
    counted(s, &path, used, used).await;
    s.until("the quota is known", async || {
        let reply = pod().await;
        (reply.status == 403 && reply.message().contains("exceeded quota: q")).then_some(())
    })
    .await;
    s.c.api()
        .patch(&path, fixtures::MERGE, spec(hard))
        .await
        .expect(200);
    counted(s, &path, hard, used).await;
    s.until("there is room", async || {
        (pod().await.status == 201).then_some(())
    })
    .await;
    path
}

/// Waits until it is written in a quota what is used of it.
async fn counted(s: &Stage, path: &str, hard: u32, used: u32) {
    let status = json!({"hard": {"pods": hard.to_string()}, "used": {"pods": used.to_string()}});
    if !s.c.has_kcm() {
        // What its controller would write, which does not run here.
        let change = json!({"status": status});
        let path = format!("{path}/status");
        s.c.api().patch(&path, fixtures::MERGE, change).await.expect(200);
    }
    s.until("the quota is counted", async || {
        (s.c.api().get(path).await.expect(200)["status"] == status).then_some(())
    })
    .await;
}

async fn what_a_quota_allows_is_made(s: Stage) {
    let quota = quota(&s, 2, 0).await;
    let owner = s.create(s.owner("a", 5)).await;
    let now = s
        .status(&owner, "it has made what it may", |status| {
            counter_of(status, "replicas") == 2 && condition(status, "ReplicaFailure").is_some()
        })
        .await;
    let failure = condition(&now["status"], "ReplicaFailure").expect("it fails");
    assert_eq!(failure["reason"], "FailedCreate", "{now:#}");
    assert!(text(&failure["message"]).contains("exceeded quota: q"), "{now:#}");
    says(&s, &owner, "exceeded quota: q").await;

    s.c.api().delete(&quota, ()).await.expect(200);
    let now = s.counts(&owner, "readyReplicas", 5).await;
    assert!(condition(&now["status"], "ReplicaFailure").is_none(), "{now:#}");
}

/// KCM leaves the first message for as long as it goes on failing.
async fn a_failure_for_another_reason_is_told(s: Stage) {
    let owner = s.create(refused(&s, "a", 1)).await;
    fails(&s, &owner).await;
    let finalizers = json!({"metadata": {"finalizers": ["example.com/other thing"]}});
    s.change(&owner, json!({"spec": {"template": finalizers}})).await;
    s.status(&owner, "the message is of now", |status| {
        condition(status, "ReplicaFailure").is_some_and(|it| text(&it["message"]).contains("other thing"))
    })
    .await;
}

/// KCM makes as many as it can.
async fn pods_that_fail_at_once_are_not_replaced_without_end(s: Stage) {
    let annotations = json!({"metadata": {"annotations": {FAIL: "true"}}});
    let owner = s
        .create(with(s.owner("a", 1), json!({"spec": {"template": annotations}})))
        .await;
    s.until("it is tried again", async || {
        (s.pods_of(&owner).await.len() > 1).then_some(())
    })
    .await;
    time::pause(Duration::from_secs(20)).await;
    let made = s.all_pods().await.len();
    assert!(made <= 60, "{made} pods in 20 s");
}
