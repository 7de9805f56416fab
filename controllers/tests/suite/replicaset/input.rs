//! What people ask for and cannot have: it is said, and nobody runs in circles.

use http::Method;

use super::*;

/// The longest backoff of an object.
const BACKOFF_MAX: Duration = Duration::from_secs(1000);

fn refuse_pods(bed: &Bed, code: u16, status: &Value) {
    let answer = Answer::Refused(code, status.clone());
    bed.door.judge(move |method, path, _| {
        if *method == Method::POST && path.ends_with("/pods") {
            answer.clone()
        } else {
            Answer::Done
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
            let bed = bed(kind.clone()).await;
            refuse_pods(
                &bed,
                code,
                &json!({"reason": reason, "message": "pods are not to be had"}),
            );
            bed.create_owner(&bed.owner("web", 50)).await;
            bed.sleep(Duration::from_mins(10)).await;
            let owner = bed.get("web").await;
            let said = failure(&owner).expect("a condition");
            assert_eq!(said["reason"], "FailedCreate");
            assert_eq!(said["message"], "pods are not to be had");
            assert_eq!(owner["status"]["observedGeneration"], 1);
            let posts = bed.door.count("POST pods");
            assert!((5..30).contains(&posts), "{posts}");
            let status = format!("PATCH {}/status", bed.kind.resource.plural);
            assert_eq!(bed.door.count(&status), 1);
            assert!(bed.reasons().await.iter().all(|it| it == "FailedCreate"));

            // No event follows: the next attempt comes from the backoff.
            bed.door.judge(|_, _, _| Answer::Done);
            bed.sleep(BACKOFF_MAX).await;
            bed.ready("web", 50).await;
            assert_eq!(failure(&bed.get("web").await), None);
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
        let bed = bed(kind).await;
        bed.create_owner(&bed.owner("web", 50)).await;
        bed.ready("web", 50).await;
        bed.door.reset();
        refuse_pods(&bed, 403, &namespace_terminating());
        let events = bed.reasons().await;
        for pod in bed.pods().await {
            bed.delete(&PODS, &pod).await;
            bed.sleep(Duration::from_secs(1)).await;
        }
        assert_eq!(bed.door.count("POST pods"), 1, "for fifty deleted pods");
        bed.sleep(Duration::from_mins(10)).await;
        let posts = bed.door.count("POST pods");
        assert!((2..=4).contains(&posts), "{posts} in ten minutes");
        let owner = bed.get("web").await;
        assert_eq!(failure(&owner), None);
        assert_eq!(owner["status"]["replicas"], 0);
        assert_eq!(bed.reasons().await, events, "no event");
        let status = format!("PATCH {}/status", bed.kind.resource.plural);
        assert!(bed.door.count(&status) <= 110, "two for each pod");
    }
}

#[tokio::test(start_paused = true)]
async fn owner_of_a_deleted_namespace_starts_anew() {
    let bed = bed(REPLICA_SET).await;
    refuse_pods(&bed, 403, &namespace_terminating());
    let owner = bed.create_owner(&bed.owner("web", 3)).await;
    bed.sleep(Duration::from_secs(1)).await;
    assert_eq!(bed.door.count("POST pods"), 1);
    bed.door.judge(|_, _, _| Answer::Done);
    bed.delete(&bed.kind.resource, &owner).await;
    bed.create_owner(&bed.owner("web", 3)).await;
    bed.sleep(Duration::from_secs(1)).await;
    assert_eq!(bed.pods().await.len(), 3, "another object under the same name");
}

#[tokio::test(start_paused = true)]
async fn pods_that_the_manager_is_not_to_see_are_not_made_again_and_again() {
    let bed = bare(REPLICA_SET).await;
    bed.cluster(Duration::ZERO);
    bed.engine_in(Scope {
        label_selector: "seen=yes".to_owned(),
        ..Scope::default()
    });
    let mut owner = bed.owner("web", 5);
    owner["metadata"]["labels"] = json!({"seen": "yes"});
    bed.create_owner(&owner).await;
    for scaled in [5, 7] {
        bed.scale("web", scaled).await;
        bed.sleep(Duration::from_mins(30)).await;
        let made = bed.list(&PODS).await.len();
        assert_eq!(made, usize::try_from(scaled).expect("small"));
    }
}

#[tokio::test(start_paused = true)]
async fn pods_that_cannot_be_read_make_nobody_delete_those_that_can() {
    let bed = bare(REPLICA_SET).await;
    bed.door.garble(r#""labels":{"app":"other"}"#, r#""labels":7"#);
    bed.cluster(Duration::ZERO);
    bed.engine();
    bed.create_owner(&bed.owner("web", 3)).await;
    bed.ready("web", 3).await;
    bed.door.reset();
    // Somebody else's, by the form of their names; and some that could be ours.
    for name in ["web-front-bcdfg", "web-0", "web-bcdfgh", "web-bcdfg", "web-hjklm"] {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "other"}},
            "spec": {"containers": [{"name": "main", "image": "nginx"}]},
        });
        bed.create(&PODS, &pod).await;
    }
    bed.sleep(Duration::from_mins(1)).await;
    bed.scale("web", 4).await;
    bed.sleep(Duration::from_mins(1)).await;
    assert_eq!(bed.door.count("DELETE pods"), 0);
    assert_eq!(bed.door.count("POST pods"), 0, "two may be ours");
    bed.scale("web", 6).await;
    bed.sleep(Duration::from_mins(1)).await;
    assert_eq!(bed.door.count("POST pods"), 1);
    bed.scale("web", 3).await;
    bed.sleep(Duration::from_mins(1)).await;
    assert_eq!(bed.door.count("DELETE pods"), 1);
}
