//! kubectl rollout, scale, set image, apply and describe.

use serde_json::json;
use steersman_harness::fixtures::with;
use steersman_harness::kubectl::Kubectl;
use steersman_harness::{Need, Test};

use super::fixture::{Deployment, Fixture};
use super::objects::{BAD, annotated, deployment, image, image_of, name, names, revision, steps};

pub fn tests() -> Vec<Test> {
    let tests = vec![
        fixture_test!(rollout_status_waits_until_it_is_complete),
        fixture_test!(rollout_status_reports_pending_pods),
        fixture_test!(rollout_status_fails_when_it_has_timed_out),
        fixture_test!(rollout_history_shows_revisions_and_causes),
        fixture_test!(rollout_undo_goes_back),
        fixture_test!(rollout_pause_and_resume),
        fixture_test!(rollout_restart_replaces_all_pods),
        fixture_test!(scale_set_image_and_wait),
        fixture_test!(apply_twice_changes_nothing),
        fixture_test!(describe_names_the_replica_sets),
    ];
    tests.into_iter().map(|test| test.needs(Need::Kubectl)).collect()
}

fn kubectl(s: &Fixture) -> Kubectl {
    Kubectl::new(&s.c, &s.ns)
}

/// Runs `kubectl rollout status`.
fn status(s: &Fixture) -> String {
    kubectl(s).run("rollout status deployment/a --timeout=2m").ok()
}

const DONE: &str = "deployment \"a\" successfully rolled out\n";

async fn rollout_status_waits_until_it_is_complete(s: Fixture) {
    let d = s.create(deployment("a", 3)).await;
    let output = status(&s);
    assert!(output.ends_with(DONE), "{output}");
    assert_eq!(s.get(&d).await["status"]["availableReplicas"], 3);
    s.change(&d, image("i:2")).await;
    let output = status(&s);
    assert!(output.ends_with(DONE), "{output}");
    assert_eq!(s.get(&d).await["status"]["updatedReplicas"], 3);
    s.has_pods("i:1", 0).await;
}

async fn rollout_status_reports_pending_pods(s: Fixture) {
    let d = s.completed(with(deployment("a", 3), steps(1, 0))).await;
    s.change(&d, image(BAD)).await;
    s.has_sizes(&d, &[("i:1", 3), (BAD, 1)]).await;
    s.status(&d, "one is new", |status| status["updatedReplicas"] == 1)
        .await;
    let output = kubectl(&s).run("rollout status deployment/a --watch=false").ok();
    let wanted =
        "Waiting for deployment \"a\" rollout to finish: 1 out of 3 new replicas have been updated...\n";
    assert_eq!(output, wanted);
}

async fn rollout_status_fails_when_it_has_timed_out(s: Fixture) {
    let soon = json!({"spec": {"progressDeadlineSeconds": 1}});
    let d = s.create(with(with(deployment("a", 1), image(BAD)), soon)).await;
    let output = kubectl(&s)
        .run("rollout status deployment/a --timeout=2m")
        .refused();
    assert!(
        output.contains("deployment \"a\" exceeded its progress deadline"),
        "{output}"
    );
    s.has_reason(&d, "Progressing", "ProgressDeadlineExceeded").await;
}

async fn rollout_history_shows_revisions_and_causes(s: Fixture) {
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

async fn now(s: &Fixture, d: &Deployment) -> (String, String) {
    let now = s.complete(d).await;
    (image_of(&now["spec"]["template"]), revision(&now))
}

async fn rollout_undo_goes_back(s: Fixture) {
    let d = s.completed(deployment("a", 2)).await;
    for to in ["i:2", "i:3"] {
        s.rolled_out(&d, to).await;
    }
    let k = kubectl(&s);
    assert_eq!(
        k.run("rollout undo deployment/a").ok(),
        "deployment.apps/a rolled back\n"
    );
    assert!(status(&s).ends_with(DONE));
    assert_eq!(now(&s, &d).await, ("i:2".to_owned(), "4".to_owned()));
    let output = k.run("rollout undo deployment/a --to-revision=1").ok();
    assert_eq!(output, "deployment.apps/a rolled back\n");
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
    let output = k.run("rollout undo deployment/a --to-revision=1").refused();
    assert!(
        output.contains("unable to find specified revision 1 in history"),
        "{output}"
    );
}

async fn rollout_pause_and_resume(s: Fixture) {
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
    s.has_reason(&d, "Progressing", "DeploymentPaused").await;
    s.has_sizes(&d, &[("i:1", 2)]).await;
    assert_eq!(
        k.run("rollout resume deployment/a").ok(),
        "deployment.apps/a resumed\n"
    );
    let output = status(&s);
    assert!(output.ends_with(DONE), "{output}");
    s.has_sizes(&d, &[("i:1", 0), ("i:2", 2)]).await;
}

async fn rollout_restart_replaces_all_pods(s: Fixture) {
    let d = s.completed(deployment("a", 2)).await;
    let before = names(&s.all_pods().await);
    let output = kubectl(&s).run("rollout restart deployment/a").ok();
    assert_eq!(output, "deployment.apps/a restarted\n");
    let output = status(&s);
    assert!(output.ends_with(DONE), "{output}");
    assert_eq!(now(&s, &d).await.1, "2");
    s.until("the old ones are gone", async || {
        let now = names(&s.all_pods().await);
        (now.len() == 2 && now.is_disjoint(&before)).then_some(())
    })
    .await;
}

async fn scale_set_image_and_wait(s: Fixture) {
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
    let output = status(&s);
    assert!(output.ends_with(DONE), "{output}");
    let output = k
        .run("wait deployment/a --for=condition=Available --timeout=2m")
        .ok();
    assert_eq!(output, "deployment.apps/a condition met\n");
    s.has_sizes(&d, &[("i:1", 0), ("i:2", 3)]).await;
    let table = k.run("get deployment a --no-headers").ok();
    let cells: Vec<&str> = table.split_whitespace().take(4).collect();
    assert_eq!(cells, ["a", "3/3", "3", "3"]);
}

async fn apply_twice_changes_nothing(s: Fixture) {
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

async fn describe_names_the_replica_sets(s: Fixture) {
    let d = s.completed(deployment("a", 2)).await;
    s.rolled_out(&d, "i:2").await;
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
