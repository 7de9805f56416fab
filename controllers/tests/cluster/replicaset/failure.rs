//! Pods that cannot be created, or fail at once.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_controllers::hollow_kubelet::FAIL;
use steersman_harness::fixtures::{self, with};
use steersman_harness::{Need, Test, Watch, time};

use super::fixture::{Fixture, Owner, condition, counter_of, name, text};

pub fn tests() -> Vec<Test> {
    [
        each!(rejected_template_is_reported_and_recovers),
        each!(rejected_create_is_retried_with_backoff),
        each!(failing_owner_does_not_delay_another),
        each!(admission_denial_is_reported, needs(Need::Real)),
        each!(limit_range_denial_is_reported, needs(Need::Real)),
        each!(pods_within_the_quota_are_created),
        // KCM puts the generated name into each message.
        each!(rejection_is_reported_once, needs(Need::Ours)),
        each!(denial_is_reported_once, needs(Need::Ours)).map(|test| test.needs(Need::Real)),
        each!(exceeded_quota_is_reported_once, needs(Need::Ours)),
        each!(failure_of_a_new_generation_is_reported, needs(Need::Ours)),
        each!(replacements_of_failing_pods_are_limited, needs(Need::Ours)),
    ]
    .concat()
}

/// An owner with an invalid finalizer in its template, which only the create of a pod validates.
fn invalid(s: &Fixture, name: &str, replicas: u32) -> Value {
    let finalizers = json!({"metadata": {"finalizers": ["unqualified"]}});
    with(s.owner(name, replicas), json!({"spec": {"template": finalizers}}))
}

async fn fails(s: &Fixture, owner: &Owner) -> Value {
    let now = s
        .status(owner, "ReplicaFailure is set", |status| {
            condition(status, "ReplicaFailure").is_some()
        })
        .await;
    let failure = condition(&now["status"], "ReplicaFailure").expect("the condition exists");
    assert_eq!(failure["status"], "True", "{now:#}");
    assert_eq!(failure["reason"], "FailedCreate", "{now:#}");
    assert!(failure["lastTransitionTime"].is_string(), "{now:#}");
    now
}

/// Waits for a `FailedCreate` event with these words.
async fn has_event(s: &Fixture, owner: &Owner, words: &str) {
    let event = s.until("a FailedCreate", async || {
        let events = s.events(owner).await;
        let mut failed = events
            .into_iter()
            .filter(|(_, reason, _)| reason == "FailedCreate");
        // KCM aggregates after ten different events, with a prefix.
        failed.find(|(_, _, message)| message.starts_with("Error creating: ") && message.contains(words))
    });
    let (kind, ..) = event.await;
    assert_eq!(kind, "Warning");
}

async fn rejected_template_is_reported_and_recovers(s: Fixture) {
    let owner = s.create(invalid(&s, "a", 2)).await;
    let now = fails(&s, &owner).await;
    let words = "name is neither a standard finalizer name nor is it fully qualified";
    let message = text(&condition(&now["status"], "ReplicaFailure").expect("a failure")["message"]);
    assert!(message.contains(words), "{message}");
    assert_eq!(counter_of(&now["status"], "replicas"), 0);
    has_event(&s, &owner, words).await;

    let finalizers = json!({"metadata": {"finalizers": null}});
    s.change(&owner, json!({"spec": {"template": finalizers}})).await;
    let now = s.counts(&owner, "readyReplicas", 2).await;
    assert!(condition(&now["status"], "ReplicaFailure").is_none(), "{now:#}");
    assert_eq!(s.all_pods().await.len(), 2);
}

async fn rejected_create_is_retried_with_backoff(s: Fixture) {
    let owner = s.create(invalid(&s, "a", 50)).await;
    fails(&s, &owner).await;
    time::pause(Duration::from_secs(5)).await;
    // Events may be delayed.
    has_event(&s, &owner, "unqualified").await;
    let events = s.raw_events(&owner).await;
    let times: u64 = events.iter().map(|it| it["count"].as_u64().unwrap_or(1)).sum();
    // One create per attempt, with a backoff of 5 ms, 10 ms, and so on.
    assert!((1..=15).contains(&times), "{times} times: {events:#?}");
    assert_eq!(s.all_pods().await.len(), 0);
}

async fn failing_owner_does_not_delay_another(s: Fixture) {
    let bad = s.create(invalid(&s, "a", 3)).await;
    fails(&s, &bad).await;
    let good = s.create(s.owner("b", 3)).await;
    s.counts(&good, "readyReplicas", 3).await;
    fails(&s, &bad).await;
}

/// An owner whose pods have an unknown priority class.
fn denied(s: &Fixture, name: &str, replicas: u32) -> Value {
    let class = json!({"spec": {"template": {"spec": {"priorityClassName": "unknown-class"}}}});
    with(s.owner(name, replicas), class)
}

async fn admission_denial_is_reported(s: Fixture) {
    let owner = s.create(denied(&s, "a", 2)).await;
    let now = fails(&s, &owner).await;
    let words = "no PriorityClass with name unknown-class was found";
    let message = text(&condition(&now["status"], "ReplicaFailure").expect("a failure")["message"]);
    assert!(message.contains(words), "{message}");
    has_event(&s, &owner, words).await;
}

async fn limit_range_denial_is_reported(s: Fixture) {
    let range = with(
        fixtures::named("v1", "LimitRange", "r"),
        json!({"spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}}),
    );
    let ranges = fixtures::core(&s.ns, "limitranges");
    s.c.api().post(&ranges, range).await.expect(201);
    let containers = json!([{"name": "c", "image": "i", "resources": {"limits": {"cpu": "2"}}}]);
    let greedy = with(fixtures::pod("p"), json!({"spec": {"containers": containers}}));
    let dry = format!("{}?dryRun=All", fixtures::core(&s.ns, "pods"));
    s.until("the limit range is enforced", async || {
        (s.c.api().post(&dry, greedy.clone()).await.status == 403).then_some(())
    })
    .await;

    let template = json!({"spec": {"template": {"spec": {"containers": containers}}}});
    let owner = s.create(with(s.owner("a", 2), template)).await;
    let now = fails(&s, &owner).await;
    let words = "maximum cpu usage per Container is 1, but limit is 2";
    let message = text(&condition(&now["status"], "ReplicaFailure").expect("a failure")["message"]);
    assert!(message.contains(words), "{message}");
    has_event(&s, &owner, words).await;
    assert!(s.all_pods().await.is_empty());
}

async fn rejection_is_reported_once(s: Fixture) {
    let writes = s.watch_owners().await;
    let bad = s.create(invalid(&s, "a", 50)).await;
    fails(&s, &bad).await;
    let good = s.create(s.owner("b", 3)).await;
    s.counts(&good, "readyReplicas", 3).await;
    reported_once(&s, &bad, writes, 1).await;
    assert_eq!(s.all_pods().await.len(), 3);
    reports_no_failure(&s, &good).await;
}

async fn denial_is_reported_once(s: Fixture) {
    let writes = s.watch_owners().await;
    let bad = s.create(denied(&s, "a", 50)).await;
    fails(&s, &bad).await;
    let good = s.create(s.owner("b", 3)).await;
    s.counts(&good, "readyReplicas", 3).await;
    reported_once(&s, &bad, writes, 1).await;
    assert_eq!(s.all_pods().await.len(), 3);
    reports_no_failure(&s, &good).await;
}

async fn exceeded_quota_is_reported_once(s: Fixture) {
    let good = s.create(s.owner("b", 3)).await;
    s.counts(&good, "readyReplicas", 3).await;
    quota(&s, 5, 3).await;
    let writes = s.watch_owners().await;
    let bad = s.create(s.owner_on_unmanaged_node("a", 50)).await;
    s.status(&bad, "the quota is used up", |status| {
        counter_of(status, "replicas") == 2 && condition(status, "ReplicaFailure").is_some()
    })
    .await;
    // One write for the failure, and one or two for the created pods.
    reported_once(&s, &bad, writes, 3).await;
    assert_eq!(s.all_pods().await.len(), 5);
    reports_no_failure(&s, &good).await;
}

/// Asserts that there is one `FailedCreate` event, whose count is the number of attempts, and at most `most` writes of the
/// owner.
async fn reported_once(s: &Fixture, owner: &Owner, mut writes: Watch, most: usize) {
    has_event(s, owner, "").await;
    time::pause(Duration::from_secs(3)).await;
    // The count of the second attempt may be delayed.
    let events = s
        .until("a retry is counted", async || {
            let mut events = s.raw_events(owner).await;
            events.retain(|it| it["reason"] == "FailedCreate");
            let is_retry = |it: &Value| it["count"].as_u64() >= Some(2);
            (events.len() > 1 || events.iter().any(is_retry)).then_some(events)
        })
        .await;
    assert_eq!(events.len(), 1, "{events:#?}");
    let times = events[0]["count"].as_u64().unwrap_or_default();
    // With a backoff of 5 ms, 10 ms, and so on.
    assert!((2..=15).contains(&times), "{times} times");
    let mut writes = s.drain_owners(&mut writes).await;
    writes.retain(|it| it["type"] == "MODIFIED" && name(&it["object"]) == owner.name);
    assert!((1..=most).contains(&writes.len()), "{writes:#?}");
}

async fn reports_no_failure(s: &Fixture, owner: &Owner) {
    let now = s.get(owner).await;
    assert!(condition(&now["status"], "ReplicaFailure").is_none(), "{now:#}");
    let mut events = s.raw_events(owner).await;
    events.retain(|it| it["type"] != "Normal");
    assert!(events.is_empty(), "{events:#?}");
}

/// Creates a quota of `hard` pods, of which `used` exist already. Returns its path.
async fn quota(s: &Fixture, hard: u32, used: u32) -> String {
    let quotas = fixtures::core(&s.ns, "resourcequotas");
    let path = format!("{quotas}/q");
    let spec = |pods: u32| json!({"spec": {"hard": {"pods": pods.to_string()}}});
    let dry = format!("{}?dryRun=All", fixtures::core(&s.ns, "pods"));
    let pod = async || s.c.api().post(&dry, fixtures::pod("p")).await;
    // A server caches that a namespace has no quota.
    pod().await.expect(201);
    // The quota is enforced once a create is rejected.
    let full = with(fixtures::named("v1", "ResourceQuota", "q"), spec(used));
    s.c.api().post(&quotas, full).await.expect(201);
    counted(s, &path, used, used).await;
    s.until("the quota is enforced", async || {
        let reply = pod().await;
        (reply.status == 403 && reply.message().contains("exceeded quota: q")).then_some(())
    })
    .await;
    s.c.api()
        .patch(&path, fixtures::MERGE, spec(hard))
        .await
        .expect(200);
    counted(s, &path, hard, used).await;
    s.until("the quota has room", async || {
        (pod().await.status == 201).then_some(())
    })
    .await;
    path
}

/// Waits until the status of a quota shows its usage.
async fn counted(s: &Fixture, path: &str, hard: u32, used: u32) {
    let status = json!({"hard": {"pods": hard.to_string()}, "used": {"pods": used.to_string()}});
    if !s.c.has_kcm() {
        // The quota controller does not run here.
        let change = json!({"status": status});
        let path = format!("{path}/status");
        s.c.api().patch(&path, fixtures::MERGE, change).await.expect(200);
    }
    s.until("the quota shows its usage", async || {
        (s.c.api().get(path).await.expect(200)["status"] == status).then_some(())
    })
    .await;
}

async fn pods_within_the_quota_are_created(s: Fixture) {
    let quota = quota(&s, 2, 0).await;
    let owner = s.create(s.owner("a", 5)).await;
    let now = s
        .status(&owner, "the quota is used up", |status| {
            counter_of(status, "replicas") == 2 && condition(status, "ReplicaFailure").is_some()
        })
        .await;
    let failure = condition(&now["status"], "ReplicaFailure").expect("a failure");
    assert_eq!(failure["reason"], "FailedCreate", "{now:#}");
    assert!(text(&failure["message"]).contains("exceeded quota: q"), "{now:#}");
    has_event(&s, &owner, "exceeded quota: q").await;

    s.c.api().delete(&quota, ()).await.expect(200);
    let now = s.counts(&owner, "readyReplicas", 5).await;
    assert!(condition(&now["status"], "ReplicaFailure").is_none(), "{now:#}");
}

/// KCM keeps the first message while creates fail.
async fn failure_of_a_new_generation_is_reported(s: Fixture) {
    let owner = s.create(invalid(&s, "a", 1)).await;
    fails(&s, &owner).await;
    let finalizers = json!({"metadata": {"finalizers": ["example.com/other thing"]}});
    s.change(&owner, json!({"spec": {"template": finalizers}})).await;
    s.status(&owner, "the message is updated", |status| {
        condition(status, "ReplicaFailure").is_some_and(|it| text(&it["message"]).contains("other thing"))
    })
    .await;
}

/// KCM does not limit replacements.
async fn replacements_of_failing_pods_are_limited(s: Fixture) {
    let annotations = json!({"metadata": {"annotations": {FAIL: "true"}}});
    let owner = s
        .create(with(s.owner("a", 1), json!({"spec": {"template": annotations}})))
        .await;
    s.until("a pod is replaced", async || {
        (s.pods_of(&owner).await.len() > 1).then_some(())
    })
    .await;
    time::pause(Duration::from_secs(20)).await;
    let created = s.all_pods().await.len();
    assert!(created <= 60, "{created} pods in 20 s");
}
