//! What people type.

use coxswain_tests::fixtures::with;
use coxswain_tests::kubectl::Kubectl;
use coxswain_tests::{Need, Test};
use serde_json::json;

use super::objects::{BAD, annotated, deployment, image, image_of, name, names, revision, steps};
use super::stage::{Deployment, Stage};

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    let tests = vec![
        staged!(rollout_status_waits_until_it_is_complete),
        staged!(rollout_status_tells_what_it_waits_for),
        staged!(rollout_status_fails_when_it_has_timed_out),
        staged!(rollout_history_shows_revisions_and_causes),
        staged!(rollout_undo_goes_back),
        staged!(rollout_pause_and_resume),
        staged!(rollout_restart_replaces_all_pods),
        staged!(scale_set_image_and_wait),
        staged!(apply_twice_changes_nothing),
        staged!(describe_names_the_replica_sets),
    ];
    tests.into_iter().map(|test| test.needs(Need::Kubectl)).collect()
}

fn kubectl(s: &Stage) -> Kubectl {
    Kubectl::new(&s.c, &s.ns)
}

/// Waits as people do.
fn status(s: &Stage) -> String {
    kubectl(s).run("rollout status deployment/a --timeout=2m").ok()
}

const DONE: &str = "deployment \"a\" successfully rolled out\n";

async fn rollout_status_waits_until_it_is_complete(s: Stage) {
    let d = s.create(deployment("a", 3)).await;
    let told = status(&s);
    assert!(told.ends_with(DONE), "{told}");
    assert_eq!(s.get(&d).await["status"]["availableReplicas"], 3);
    s.change(&d, image("i:2")).await;
    let told = status(&s);
    assert!(told.ends_with(DONE), "{told}");
    assert_eq!(s.get(&d).await["status"]["updatedReplicas"], 3);
    s.has_pods("i:1", 0).await;
}

async fn rollout_status_tells_what_it_waits_for(s: Stage) {
    let d = s.completed(with(deployment("a", 3), steps(1, 0))).await;
    s.change(&d, image(BAD)).await;
    s.sized(&d, &[("i:1", 3), (BAD, 1)]).await;
    s.status(&d, "one is new", |status| status["updatedReplicas"] == 1)
        .await;
    let told = kubectl(&s).run("rollout status deployment/a --watch=false").ok();
    let wanted =
        "Waiting for deployment \"a\" rollout to finish: 1 out of 3 new replicas have been updated...\n";
    assert_eq!(told, wanted);
}

async fn rollout_status_fails_when_it_has_timed_out(s: Stage) {
    let soon = json!({"spec": {"progressDeadlineSeconds": 1}});
    let d = s.create(with(with(deployment("a", 1), image(BAD)), soon)).await;
    let told = kubectl(&s)
        .run("rollout status deployment/a --timeout=2m")
        .refused();
    assert!(
        told.contains("deployment \"a\" exceeded its progress deadline"),
        "{told}"
    );
    s.says(&d, "Progressing", "ProgressDeadlineExceeded").await;
}

async fn rollout_history_shows_revisions_and_causes(s: Stage) {
    let cause = |cause: &str| annotated(json!({"kubernetes.io/change-cause": cause}));
    let d = s.completed(with(deployment("a", 1), cause("first"))).await;
    s.change(&d, with(image("i:2"), cause("second"))).await;
    s.complete(&d).await;
    let k = kubectl(&s);
    let table = k.run("rollout history deployment/a").ok();
    let rows: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert!(
        rows.contains(&vec!["1", "first"]) && rows.contains(&vec!["2", "second"]),
        "{table}"
    );
    let one = k.run("rollout history deployment/a --revision=1").ok();
    assert!(one.contains("i:1") && one.contains("pod-template-hash"), "{one}");
}

async fn now(s: &Stage, d: &Deployment) -> (String, String) {
    let now = s.complete(d).await;
    (image_of(&now["spec"]["template"]), revision(&now))
}

async fn rollout_undo_goes_back(s: Stage) {
    let d = s.completed(deployment("a", 2)).await;
    for to in ["i:2", "i:3"] {
        s.rolled(&d, to).await;
    }
    let k = kubectl(&s);
    assert_eq!(
        k.run("rollout undo deployment/a").ok(),
        "deployment.apps/a rolled back\n"
    );
    assert!(status(&s).ends_with(DONE));
    assert_eq!(now(&s, &d).await, ("i:2".to_owned(), "4".to_owned()));
    let told = k.run("rollout undo deployment/a --to-revision=1").ok();
    assert_eq!(told, "deployment.apps/a rolled back\n");
    assert!(status(&s).ends_with(DONE));
    assert_eq!(now(&s, &d).await, ("i:1".to_owned(), "5".to_owned()));
    let table = k.run("rollout history deployment/a").ok();
    let numbers: Vec<&str> = table
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(
        numbers.ends_with(&["3", "4", "5"]) && !numbers.contains(&"1"),
        "{table}"
    );
    let told = k.run("rollout undo deployment/a --to-revision=1").refused();
    assert!(
        told.contains("unable to find specified revision 1 in history"),
        "{told}"
    );
}

async fn rollout_pause_and_resume(s: Stage) {
    let d = s.completed(deployment("a", 2)).await;
    let k = kubectl(&s);
    assert_eq!(
        k.run("rollout pause deployment/a").ok(),
        "deployment.apps/a paused\n"
    );
    assert_eq!(
        k.run("set image deployment/a c=i:2").ok(),
        "deployment.apps/a image updated\n"
    );
    s.says(&d, "Progressing", "DeploymentPaused").await;
    s.sized(&d, &[("i:1", 2)]).await;
    assert_eq!(
        k.run("rollout resume deployment/a").ok(),
        "deployment.apps/a resumed\n"
    );
    let told = status(&s);
    assert!(told.ends_with(DONE), "{told}");
    s.sized(&d, &[("i:1", 0), ("i:2", 2)]).await;
}

async fn rollout_restart_replaces_all_pods(s: Stage) {
    let d = s.completed(deployment("a", 2)).await;
    let before = names(&s.all_pods().await);
    let told = kubectl(&s).run("rollout restart deployment/a").ok();
    assert_eq!(told, "deployment.apps/a restarted\n");
    let told = status(&s);
    assert!(told.ends_with(DONE), "{told}");
    assert_eq!(now(&s, &d).await.1, "2");
    s.until("the old ones are gone", async || {
        let now = names(&s.all_pods().await);
        (now.len() == 2 && now.is_disjoint(&before)).then_some(())
    })
    .await;
}

async fn scale_set_image_and_wait(s: Stage) {
    let d = s.completed(deployment("a", 1)).await;
    let k = kubectl(&s);
    assert_eq!(
        k.run("scale deployment/a --replicas=3").ok(),
        "deployment.apps/a scaled\n"
    );
    assert_eq!(
        k.run("set image deployment/a c=i:2").ok(),
        "deployment.apps/a image updated\n"
    );
    let told = status(&s);
    assert!(told.ends_with(DONE), "{told}");
    let told = k
        .run("wait deployment/a --for=condition=Available --timeout=2m")
        .ok();
    assert_eq!(told, "deployment.apps/a condition met\n");
    s.sized(&d, &[("i:1", 0), ("i:2", 3)]).await;
    let table = k.run("get deployment a --no-headers").ok();
    let cells: Vec<&str> = table.split_whitespace().take(4).collect();
    assert_eq!(cells, ["a", "3/3", "3", "3"]);
}

async fn apply_twice_changes_nothing(s: Stage) {
    let k = kubectl(&s);
    let manifest = deployment("a", 2).to_string();
    let apply = |manifest: &str| k.run_with(&["apply", "-f", "-"], manifest).ok();
    assert_eq!(apply(&manifest), "deployment.apps/a created\n");
    assert!(status(&s).ends_with(DONE));
    assert_eq!(apply(&manifest), "deployment.apps/a unchanged\n");
    let next = manifest.replace("i:1", "i:2");
    assert_eq!(apply(&next), "deployment.apps/a configured\n");
    assert!(status(&s).ends_with(DONE));
    assert_eq!(apply(&next), "deployment.apps/a unchanged\n");
    assert_eq!(s.all_sets().await.len(), 2);
}

async fn describe_names_the_replica_sets(s: Stage) {
    let d = s.completed(deployment("a", 2)).await;
    s.rolled(&d, "i:2").await;
    let new = name(&s.set_of(&d, "i:2").await);
    let message = format!("Scaled up replica set {new} from 0 to 1");
    s.event(&d, "Normal", "ScalingReplicaSet", &message).await;
    let text = kubectl(&s).run("describe deployment/a").ok();
    for part in [
        &*format!("{new} (2/2 replicas created)"),
        "NewReplicaSetAvailable",
        "MinimumReplicasAvailable",
        "2 desired | 2 updated | 2 total | 2 available | 0 unavailable",
        &message,
    ] {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
}
