//! Owners whose pods cannot be created or read: the status reports it, and retries back off.

use http::Method;

use super::*;

/// The longest backoff of an object.
const BACKOFF_MAX: Duration = Duration::from_secs(1000);

fn reject_pods(f: &Fixture, code: u16, status: &Value) {
    let answer = status_reply(code, status.clone());
    f.api.inject(move |method, path, _| {
        if *method == Method::POST && path.ends_with("/pods") {
            answer.clone()
        } else {
            Effect::Pass
        }
    });
}

fn failure(owner: &Value) -> Option<&Value> {
    let conditions = owner["status"]["conditions"].as_array()?;
    conditions.iter().find(|it| it["type"] == "ReplicaFailure")
}

#[tokio::test(start_paused = true)]
async fn rejected_pods_are_reported_once_and_retried_with_backoff() {
    for kind in kinds() {
        for (code, reason) in [
            (403, "Forbidden"),
            (422, "Invalid"),
            (400, "BadRequest"),
            (500, "InternalError"),
        ] {
            let f = fixture(kind.clone()).await;
            reject_pods(
                &f,
                code,
                &json!({"reason": reason, "message": "pods are rejected"}),
            );
            f.create_owner(&f.owner("web", 50)).await;
            f.sleep(Duration::from_mins(10)).await;
            let owner = f.get("web").await;
            let condition = failure(&owner).expect("a condition");
            assert_eq!(condition["reason"], "FailedCreate");
            assert_eq!(condition["message"], "pods are rejected");
            assert_eq!(owner["status"]["observedGeneration"], 1);
            let posts = f.api.count("POST pods");
            assert!((5..30).contains(&posts), "{posts}");
            let status = format!("PATCH {}/status", f.kind.resource.plural);
            assert_eq!(f.api.count(&status), 1);
            assert!(f.reasons().await.iter().all(|it| it == "FailedCreate"));

            // No event follows: the next attempt comes from the backoff.
            f.api.inject(|_, _, _| Effect::Pass);
            f.sleep(BACKOFF_MAX).await;
            f.ready("web", 50).await;
            assert_eq!(failure(&f.get("web").await), None);
        }
    }
}

/// The answer to a create in a namespace that is being deleted.
fn namespace_terminating() -> Value {
    let causes = json!([{"reason": "NamespaceTerminating", "message": "namespace is terminating", "field": "metadata.namespace"}]);
    json!({"reason": "Forbidden", "message": "namespace is terminating", "details": {"causes": causes}})
}

#[tokio::test(start_paused = true)]
async fn terminating_namespace_suspends_creates_without_condition() {
    for kind in kinds() {
        let f = fixture(kind).await;
        f.create_ready("web", 50).await;
        f.api.reset();
        reject_pods(&f, 403, &namespace_terminating());
        let events = f.reasons().await;
        for pod in f.pods().await {
            f.delete(&PODS, &pod).await;
            f.sleep(Duration::from_secs(1)).await;
        }
        assert_eq!(f.api.count("POST pods"), 1, "for fifty deleted pods");
        f.sleep(Duration::from_mins(10)).await;
        let posts = f.api.count("POST pods");
        assert!((2..=4).contains(&posts), "{posts} in ten minutes");
        let owner = f.get("web").await;
        assert_eq!(failure(&owner), None);
        assert_eq!(owner["status"]["replicas"], 0);
        assert_eq!(f.reasons().await, events, "no event");
        let status = format!("PATCH {}/status", f.kind.resource.plural);
        assert!(f.api.count(&status) <= 110, "two for each pod");
    }
}

#[tokio::test(start_paused = true)]
async fn recreated_owner_is_not_suspended() {
    let f = fixture(REPLICA_SET).await;
    reject_pods(&f, 403, &namespace_terminating());
    let owner = f.create_owner(&f.owner("web", 3)).await;
    f.sleep(Duration::from_secs(1)).await;
    assert_eq!(f.api.count("POST pods"), 1);
    f.api.inject(|_, _, _| Effect::Pass);
    f.delete(&f.kind.resource, &owner).await;
    f.create_owner(&f.owner("web", 3)).await;
    f.sleep(Duration::from_secs(1)).await;
    assert_eq!(f.pods().await.len(), 3, "another object under the same name");
}

#[tokio::test(start_paused = true)]
async fn pods_outside_the_cache_scope_are_not_recreated() {
    let f = bare(REPLICA_SET).await;
    f.run_hollow_kubelet(Duration::ZERO);
    f.start_in(Scope {
        label_selector: "seen=yes".to_owned(),
        ..Scope::default()
    });
    let mut owner = f.owner("web", 5);
    owner["metadata"]["labels"] = json!({"seen": "yes"});
    f.create_owner(&owner).await;
    for scaled in [5, 7] {
        f.scale("web", scaled).await;
        f.sleep(Duration::from_mins(30)).await;
        let pods = f.list(&PODS).await.len();
        assert_eq!(pods, usize::try_from(scaled).expect("small"));
    }
}

#[tokio::test(start_paused = true)]
async fn undecodable_pods_prevent_creates_and_cause_no_deletes() {
    let f = bare(REPLICA_SET).await;
    f.api
        .replace_in_reads(r#""labels":{"app":"other"}"#, r#""labels":7"#);
    f.run_hollow_kubelet(Duration::ZERO);
    f.start();
    f.create_ready("web", 3).await;
    f.api.reset();
    // Three names of other owners, and two that the owner could have generated.
    for name in ["web-front-bcdfg", "web-0", "web-bcdfgh", "web-bcdfg", "web-hjklm"] {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "other"}},
            "spec": {"containers": [{"name": "main", "image": "nginx"}]},
        });
        f.create(&PODS, &pod).await;
    }
    f.sleep(Duration::from_mins(1)).await;
    f.scale("web", 4).await;
    f.sleep(Duration::from_mins(1)).await;
    assert_eq!(f.api.count("DELETE pods"), 0);
    assert_eq!(
        f.api.count("POST pods"),
        0,
        "two undecodable pods may belong to the owner"
    );
    f.scale("web", 6).await;
    f.sleep(Duration::from_mins(1)).await;
    assert_eq!(f.api.count("POST pods"), 1);
    f.scale("web", 3).await;
    f.sleep(Duration::from_mins(1)).await;
    assert_eq!(f.api.count("DELETE pods"), 1);
}
