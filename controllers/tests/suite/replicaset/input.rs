//! What people ask for and cannot have: it is said, and nobody runs in circles.

use http::Method;

use super::*;

/// The longest backoff of an object.
const BACKOFF_MAX: Duration = Duration::from_secs(1000);

fn refuse_pods(f: &Fixture, code: u16, status: &Value) {
    let answer = Fault::Status(code, status.clone());
    f.api.inject(move |method, path, _| {
        if *method == Method::POST && path.ends_with("/pods") {
            answer.clone()
        } else {
            Fault::None
        }
    });
}

fn failure(owner: &Value) -> Option<&Value> {
    let conditions = owner["status"]["conditions"].as_array()?;
    conditions.iter().find(|it| it["type"] == "ReplicaFailure")
}

#[tokio::test(start_paused = true)]
async fn pods_that_are_refused_are_said_once_and_tried_ever_more_slowly() {
    for kind in kinds() {
        for (code, reason) in [
            (403, "Forbidden"),
            (422, "Invalid"),
            (400, "BadRequest"),
            (500, "InternalError"),
        ] {
            let f = fixture(kind.clone()).await;
            refuse_pods(
                &f,
                code,
                &json!({"reason": reason, "message": "pods are not to be had"}),
            );
            f.create_owner(&f.owner("web", 50)).await;
            f.sleep(Duration::from_mins(10)).await;
            let owner = f.get("web").await;
            let said = failure(&owner).expect("a condition");
            assert_eq!(said["reason"], "FailedCreate");
            assert_eq!(said["message"], "pods are not to be had");
            assert_eq!(owner["status"]["observedGeneration"], 1);
            let posts = f.api.count("POST pods");
            assert!((5..30).contains(&posts), "{posts}");
            let status = format!("PATCH {}/status", f.kind.resource.plural);
            assert_eq!(f.api.count(&status), 1);
            assert!(f.reasons().await.iter().all(|it| it == "FailedCreate"));

            // No event follows: the next attempt comes from the backoff.
            f.api.inject(|_, _, _| Fault::None);
            f.sleep(BACKOFF_MAX).await;
            f.ready("web", 50).await;
            assert_eq!(failure(&f.get("web").await), None);
        }
    }
}

/// The answer to a create in a namespace that is being deleted.
fn namespace_terminating() -> Value {
    let causes =
        json!([{"reason": "NamespaceTerminating", "message": "it goes", "field": "metadata.namespace"}]);
    json!({"reason": "Forbidden", "message": "it goes", "details": {"causes": causes}})
}

#[tokio::test(start_paused = true)]
async fn terminating_namespace_gets_one_create_in_minutes_and_no_condition() {
    for kind in kinds() {
        let f = fixture(kind).await;
        f.create_owner(&f.owner("web", 50)).await;
        f.ready("web", 50).await;
        f.api.reset();
        refuse_pods(&f, 403, &namespace_terminating());
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
async fn owner_of_a_deleted_namespace_starts_anew() {
    let f = fixture(REPLICA_SET).await;
    refuse_pods(&f, 403, &namespace_terminating());
    let owner = f.create_owner(&f.owner("web", 3)).await;
    f.sleep(Duration::from_secs(1)).await;
    assert_eq!(f.api.count("POST pods"), 1);
    f.api.inject(|_, _, _| Fault::None);
    f.delete(&f.kind.resource, &owner).await;
    f.create_owner(&f.owner("web", 3)).await;
    f.sleep(Duration::from_secs(1)).await;
    assert_eq!(f.pods().await.len(), 3, "another object under the same name");
}

#[tokio::test(start_paused = true)]
async fn pods_that_the_manager_is_not_to_see_are_not_made_again_and_again() {
    let f = bare(REPLICA_SET).await;
    f.run_hollow_kubelet(Duration::ZERO);
    f.engine_in(Scope {
        label_selector: "seen=yes".to_owned(),
        ..Scope::default()
    });
    let mut owner = f.owner("web", 5);
    owner["metadata"]["labels"] = json!({"seen": "yes"});
    f.create_owner(&owner).await;
    for scaled in [5, 7] {
        f.scale("web", scaled).await;
        f.sleep(Duration::from_mins(30)).await;
        let made = f.list(&PODS).await.len();
        assert_eq!(made, usize::try_from(scaled).expect("small"));
    }
}

#[tokio::test(start_paused = true)]
async fn pods_that_cannot_be_read_make_nobody_delete_those_that_can() {
    let f = bare(REPLICA_SET).await;
    f.api
        .replace_in_reads(r#""labels":{"app":"other"}"#, r#""labels":7"#);
    f.run_hollow_kubelet(Duration::ZERO);
    f.engine();
    f.create_owner(&f.owner("web", 3)).await;
    f.ready("web", 3).await;
    f.api.reset();
    // Somebody else's, by the form of their names; and some that could be ours.
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
    assert_eq!(f.api.count("POST pods"), 0, "two may be ours");
    f.scale("web", 6).await;
    f.sleep(Duration::from_mins(1)).await;
    assert_eq!(f.api.count("POST pods"), 1);
    f.scale("web", 3).await;
    f.sleep(Duration::from_mins(1)).await;
    assert_eq!(f.api.count("DELETE pods"), 1);
}
