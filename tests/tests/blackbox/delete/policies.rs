//! Propagation policies are finalizers: `orphan` and `foregroundDeletion` are set and cleared, others are left alone.

use coxswain_tests::{Cluster, Test, test};
use serde_json::{Value, json};

use crate::support::{
    HOLD, assert_gone, config_map, core, create, finalizers, is_marked, object, of, template, version, with,
};

pub fn tests() -> Vec<Test> {
    vec![
        test!(orphan_sets_its_finalizer),
        test!(foreground_sets_its_finalizer),
        test!(background_removes_at_once),
        test!(nothing_given_removes_at_once),
        test!(nothing_given_keeps_what_is_there),
        test!(policy_given_replaces_the_other),
        test!(background_clears_both),
        test!(finalizer_that_is_wanted_stays_in_its_place),
        test!(wanted_finalizer_goes_to_the_end),
        test!(legacy_orphan_dependents_true_is_orphan),
        test!(legacy_orphan_dependents_false_is_background),
        test!(legacy_orphan_dependents_false_on_a_held_object_is_202),
        test!(policy_of_a_marked_object_can_change),
        test!(background_ends_a_foreground_deletion_at_once),
        test!(same_policy_again_changes_nothing),
        test!(replication_controllers_are_orphaners_by_default),
        test!(jobs_are_orphaners_by_default),
        test!(job_deletion_without_policy_warns).since(1, 36),
        test!(cron_jobs_are_not_orphaners).since(1, 21),
        test!(workloads_are_not_orphaners),
        test!(events_never_get_finalizers),
    ]
}

/// Creates a `ConfigMap` with these finalizers, deletes it with these options, and returns path and answer.
async fn deleted(c: &Cluster, with_finalizers: &[&str], options: Value) -> (String, Value) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let object = with(config_map("a"), "/metadata/finalizers", json!(with_finalizers));
    create(c, &path, &object).await;
    let path = format!("{path}/a");
    let answer = c.api().delete(&path, options).await.expect(200);
    (path, answer)
}

/// Asserts that the object answered is held by these finalizers, and that this is what is stored.
async fn assert_held(c: &Cluster, path: &str, answer: &Value, expected: &[&str]) {
    assert_eq!(answer["kind"], "ConfigMap", "{answer:#}");
    assert_eq!(finalizers(answer), expected);
    assert!(is_marked(answer), "{answer:#}");
    assert_eq!(answer["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(&c.api().get(path).await.expect(200), answer);
}

async fn orphan_sets_its_finalizer(c: Cluster) {
    let (path, answer) = deleted(&c, &[], json!({"propagationPolicy": "Orphan"})).await;
    assert_held(&c, &path, &answer, &["orphan"]).await;
}

async fn foreground_sets_its_finalizer(c: Cluster) {
    let (path, answer) = deleted(&c, &[], json!({"propagationPolicy": "Foreground"})).await;
    assert_held(&c, &path, &answer, &["foregroundDeletion"]).await;
}

async fn background_removes_at_once(c: Cluster) {
    let (path, answer) = deleted(&c, &[], json!({"propagationPolicy": "Background"})).await;
    assert_eq!(answer["status"], "Success");
    assert_gone(&c, &path).await;
}

async fn nothing_given_removes_at_once(c: Cluster) {
    let (path, answer) = deleted(&c, &[], json!({})).await;
    assert_eq!(answer["status"], "Success");
    assert_gone(&c, &path).await;
}

async fn nothing_given_keeps_what_is_there(c: Cluster) {
    for there in ["orphan", "foregroundDeletion"] {
        let (path, answer) = deleted(&c, &[there], json!({})).await;
        assert_held(&c, &path, &answer, &[there]).await;
        let (path, answer) = deleted(&c, &["example.com/a", there, "example.com/b"], json!({})).await;
        assert_held(&c, &path, &answer, &["example.com/a", there, "example.com/b"]).await;
    }
}

async fn policy_given_replaces_the_other(c: Cluster) {
    let (path, answer) = deleted(
        &c,
        &["foregroundDeletion"],
        json!({"propagationPolicy": "Orphan"}),
    )
    .await;
    assert_held(&c, &path, &answer, &["orphan"]).await;
    let (path, answer) = deleted(&c, &["orphan"], json!({"propagationPolicy": "Foreground"})).await;
    assert_held(&c, &path, &answer, &["foregroundDeletion"]).await;
}

async fn background_clears_both(c: Cluster) {
    for there in ["orphan", "foregroundDeletion"] {
        let (path, _) = deleted(&c, &[there], json!({"propagationPolicy": "Background"})).await;
        assert_gone(&c, &path).await;
        let (path, answer) = deleted(&c, &[there, HOLD], json!({"propagationPolicy": "Background"})).await;
        assert_held(&c, &path, &answer, &[HOLD]).await;
    }
}

async fn finalizer_that_is_wanted_stays_in_its_place(c: Cluster) {
    let there = ["foregroundDeletion", HOLD];
    let (path, answer) = deleted(&c, &there, json!({"propagationPolicy": "Foreground"})).await;
    assert_held(&c, &path, &answer, &there).await;
}

async fn wanted_finalizer_goes_to_the_end(c: Cluster) {
    let there = ["example.com/a", "orphan", "example.com/b"];
    let (path, answer) = deleted(&c, &there, json!({"propagationPolicy": "Foreground"})).await;
    let expected = ["example.com/a", "example.com/b", "foregroundDeletion"];
    assert_held(&c, &path, &answer, &expected).await;
}

async fn legacy_orphan_dependents_true_is_orphan(c: Cluster) {
    let (path, answer) = deleted(&c, &["foregroundDeletion"], json!({"orphanDependents": true})).await;
    assert_held(&c, &path, &answer, &["orphan"]).await;
}

async fn legacy_orphan_dependents_false_is_background(c: Cluster) {
    for there in ["orphan", "foregroundDeletion"] {
        let (path, _) = deleted(&c, &[there], json!({"orphanDependents": false})).await;
        assert_gone(&c, &path).await;
    }
}

/// The only 202 that DELETE has: the client said that it wants no orphans, and the object is still there.
async fn legacy_orphan_dependents_false_on_a_held_object_is_202(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    create(
        &c,
        &path,
        &with(
            config_map("a"),
            "/metadata/finalizers",
            json!([HOLD, "foregroundDeletion"]),
        ),
    )
    .await;
    let path = format!("{path}/a");
    let answer = c
        .api()
        .delete(&path, json!({"orphanDependents": false}))
        .await
        .expect(202);
    assert_held(&c, &path, &answer, &[HOLD]).await;
}

async fn policy_of_a_marked_object_can_change(c: Cluster) {
    let (path, first) = deleted(&c, &[HOLD], json!({})).await;
    assert_held(&c, &path, &first, &[HOLD]).await;
    for (policy, expected) in [
        ("Foreground", &[HOLD, "foregroundDeletion"][..]),
        ("Orphan", &[HOLD, "orphan"]),
        ("Background", &[HOLD]),
    ] {
        let options = json!({"propagationPolicy": policy});
        let answer = c.api().delete(&path, options).await.expect(200);
        assert_held(&c, &path, &answer, expected).await;
        assert_eq!(
            answer["metadata"]["deletionTimestamp"],
            first["metadata"]["deletionTimestamp"]
        );
    }
}

async fn background_ends_a_foreground_deletion_at_once(c: Cluster) {
    for policy in ["Foreground", "Orphan"] {
        let (path, answer) = deleted(&c, &[], json!({"propagationPolicy": policy})).await;
        assert!(is_marked(&answer));
        let answer = c
            .api()
            .delete(&path, json!({"propagationPolicy": "Background"}))
            .await;
        assert_eq!(answer.expect(200)["status"], "Success");
        assert_gone(&c, &path).await;
    }
}

async fn same_policy_again_changes_nothing(c: Cluster) {
    for policy in ["Foreground", "Orphan"] {
        let (path, first) = deleted(&c, &[], json!({"propagationPolicy": policy})).await;
        for options in [json!({"propagationPolicy": policy}), json!({})] {
            let again = c.api().delete(&path, options).await.expect(200);
            assert_eq!(version(&again), version(&first));
            assert_eq!(again, first);
        }
    }
}

fn job(name: &str) -> Value {
    let template = with(template(), "/spec/restartPolicy", json!("Never"));
    with(
        object("batch/v1", "Job", name),
        "/spec",
        json!({"template": template}),
    )
}

async fn replication_controllers_are_orphaners_by_default(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "replicationcontrollers");
    let object = object("v1", "ReplicationController", "a");
    create(&c, &path, &with(object, "/spec", json!({"template": template()}))).await;
    let path = format!("{path}/a");
    let answer = c.api().delete(&path, ()).await.expect(200);
    assert_eq!(finalizers(&answer), ["orphan"]);
    assert!(is_marked(&answer));
    c.api()
        .delete(&path, json!({"propagationPolicy": "Background"}))
        .await
        .expect(200);
    assert_gone(&c, &path).await;
}

async fn jobs_are_orphaners_by_default(c: Cluster) {
    let ns = c.namespace().await;
    let path = of("batch/v1", &ns, "jobs");
    create(&c, &path, &job("a")).await;
    let path = format!("{path}/a");
    let answer = c.api().delete(&path, ()).await.expect(200);
    assert_eq!(finalizers(&answer), ["orphan"]);
    let answer = c
        .api()
        .delete(&path, json!({"propagationPolicy": "Foreground"}))
        .await;
    assert_eq!(finalizers(&answer.expect(200)), ["foregroundDeletion"]);
}

async fn job_deletion_without_policy_warns(c: Cluster) {
    let ns = c.namespace().await;
    let path = of("batch/v1", &ns, "jobs");
    create(&c, &path, &job("a")).await;
    let reply = c.api().delete(&format!("{path}/a"), ()).await;
    let warning = "299 - \"child pods are preserved by default when jobs are deleted; set propagationPolicy=Background \
                   to remove them or set propagationPolicy=Orphan to suppress this warning\"";
    reply.check(reply.header("warning") == Some(warning), "another warning");
    let reply = c
        .api()
        .delete(&format!("{path}/a"), json!({"propagationPolicy": "Orphan"}))
        .await;
    reply.check(reply.header("warning").is_none(), "a warning");
}

async fn cron_jobs_are_not_orphaners(c: Cluster) {
    let ns = c.namespace().await;
    let path = of("batch/v1", &ns, "cronjobs");
    let spec = json!({"schedule": "* * * * *", "jobTemplate": {"spec": job("a")["spec"]}});
    create(
        &c,
        &path,
        &with(object("batch/v1", "CronJob", "a"), "/spec", spec),
    )
    .await;
    c.api().delete(&format!("{path}/a"), ()).await.expect(200);
    assert_gone(&c, &format!("{path}/a")).await;
}

async fn workloads_are_not_orphaners(c: Cluster) {
    let ns = c.namespace().await;
    let spec = json!({"selector": {"matchLabels": {"a": "b"}}, "serviceName": "s", "template": template()});
    for (kind, resource) in [
        ("Deployment", "deployments"),
        ("ReplicaSet", "replicasets"),
        ("StatefulSet", "statefulsets"),
        ("DaemonSet", "daemonsets"),
    ] {
        let path = of("apps/v1", &ns, resource);
        let mut spec = spec.clone();
        if kind != "StatefulSet" {
            spec.as_object_mut().expect("an object").remove("serviceName");
        }
        create(&c, &path, &with(object("apps/v1", kind, "a"), "/spec", spec)).await;
        c.api().delete(&format!("{path}/a"), ()).await.expect(200);
        assert_gone(&c, &format!("{path}/a")).await;
    }
}

async fn events_never_get_finalizers(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "events");
    let event = with(
        object("v1", "Event", "a"),
        "/involvedObject",
        json!({"namespace": ns}),
    );
    for policy in ["Foreground", "Orphan"] {
        create(&c, &path, &event).await;
        let options = json!({"propagationPolicy": policy});
        let answer = c.api().delete(&format!("{path}/a"), options).await.expect(200);
        assert_eq!(answer["status"], "Success");
        assert_gone(&c, &format!("{path}/a")).await;
    }
}
