//! The status subresource: what each kind takes from it, and that the main endpoint leaves the status alone.

use coxswain_tests::{
    Cluster, Test,
    fixtures::{
        MERGE, STRATEGIC, apps, budget, budgets, core, define, deployment, group, job, named, owner, pod,
        replica_set, replication_controller, service, undefine, with, workload,
    },
    test,
};
use serde_json::{Value, json};

use crate::expect::{invalid, not_found, stale, unchanged};
use crate::support::soon;

/// What is registered of this part.
pub fn tests() -> Vec<Test> {
    vec![
        test!(status_takes_metadata_and_no_spec),
        test!(deployment_status_keeps_labels),
        test!(pod_status_keeps_owners_and_spec),
        test!(custom_resource_status_takes_nothing_else),
        test!(main_endpoint_leaves_status_alone),
        test!(put_status_without_version),
        test!(stale_status_is_a_conflict),
        test!(status_of_a_missing_object_is_not_found),
        test!(status_needs_no_valid_spec),
        test!(status_is_read_as_the_whole_object),
        test!(status_that_changes_nothing_writes_nothing),
        test!(ignored_fields_write_nothing).since(1, 22),
    ]
}

/// Metadata that a status update tries to write.
fn meta() -> Value {
    json!({
        "labels": {"l": "1"}, "annotations": {"an": "1"}, "finalizers": ["example.com/a"], "ownerReferences": [owner("u")],
    })
}

async fn status_takes_metadata_and_no_spec(c: Cluster) {
    let ns = c.namespace().await;
    let daemons = json!({"currentNumberScheduled": 1, "numberMisscheduled": 0, "desiredNumberScheduled": 1, "numberReady": 1});
    let healthy =
        json!({"disruptionsAllowed": 1, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1});
    let storage =
        json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let claim = with(named("v1", "PersistentVolumeClaim", "a"), storage);
    let quota = with(
        named("v1", "ResourceQuota", "a"),
        json!({"spec": {"hard": {"pods": "5"}}}),
    );
    for (path, body, status) in [
        (apps(&ns, "replicasets"), replica_set("a"), json!({"replicas": 1})),
        (
            apps(&ns, "statefulsets"),
            workload("StatefulSet", "a"),
            json!({"replicas": 1}),
        ),
        (apps(&ns, "daemonsets"), workload("DaemonSet", "a"), daemons),
        (
            core(&ns, "replicationcontrollers"),
            replication_controller("a"),
            json!({"replicas": 1}),
        ),
        (
            group("batch/v1", &ns, "jobs"),
            job("a"),
            json!({"active": 1, "startTime": "2024-01-01T00:00:00Z"}),
        ),
        (core(&ns, "services"), service("a"), json!({"loadBalancer": {}})),
        (
            core(&ns, "persistentvolumeclaims"),
            claim,
            json!({"phase": "Bound"}),
        ),
        (core(&ns, "resourcequotas"), quota, json!({"hard": {"pods": "5"}})),
        (budgets(&c, &ns), budget(&c, "a"), healthy),
        (
            "/api/v1/nodes".to_owned(),
            named("v1", "Node", "objects-status"),
            json!({"phase": "Running"}),
        ),
    ] {
        let name = body["metadata"]["name"].as_str().expect("a name").to_owned();
        let made = c.api().post(&path, body).await.expect(201);
        let path = format!("{path}/{name}");
        if made["kind"] == "ResourceQuota" && c.has_kcm() {
            // Somebody else writes this one, once: before us.
            soon("it is counted", async || {
                let quota = c.api().get(&path).await.expect(200);
                quota["status"]["used"]["pods"].is_string().then_some(())
            })
            .await;
        }
        let change = json!({"metadata": meta(), "spec": {"replicas": 7, "unschedulable": true, "selector": null}, "status": status});
        let changed = c
            .api()
            .patch(&format!("{path}/status?fieldValidation=Ignore"), MERGE, change)
            .await
            .expect(200);
        assert_eq!(changed["spec"], made["spec"], "{path}");
        let taken = &changed["metadata"];
        assert_eq!(
            (&taken["labels"]["l"], &taken["annotations"]["an"]),
            (&json!("1"), &json!("1")),
            "{path}"
        );
        assert_eq!(taken["finalizers"], json!(["example.com/a"]), "{path}");
        assert_eq!(taken["ownerReferences"], json!([owner("u")]), "{path}");
        assert_eq!(taken["generation"], made["metadata"]["generation"], "{path}");
        for (field, value) in status.as_object().expect("an object") {
            assert_eq!(&changed["status"][field], value, "{path} {field}");
        }
        unchanged(&c, &path, &changed).await;
    }
    c.api()
        .patch(
            "/api/v1/nodes/objects-status",
            MERGE,
            json!({"metadata": {"finalizers": null}}),
        )
        .await
        .expect(200);
    c.api()
        .delete("/api/v1/nodes/objects-status", ())
        .await
        .expect(200);
}

async fn deployment_status_keeps_labels(c: Cluster) {
    let ns = c.namespace().await;
    let path = apps(&ns, "deployments/a");
    let body = with(deployment("a"), json!({"metadata": {"labels": {"x": "y"}}}));
    let made = c.api().post(&apps(&ns, "deployments"), body).await.expect(201);
    let change = json!({"metadata": meta(), "spec": {"replicas": 7}, "status": {"replicas": 1, "observedGeneration": 1}});
    let changed = c
        .api()
        .patch(&format!("{path}/status"), MERGE, change)
        .await
        .expect(200);
    let taken = &changed["metadata"];
    assert_eq!(taken["labels"], json!({"x": "y"}));
    assert_eq!(taken["annotations"], json!({"an": "1"}));
    assert_eq!(taken["finalizers"], json!(["example.com/a"]));
    assert_eq!(taken["ownerReferences"], json!([owner("u")]));
    assert_eq!(taken["generation"], 1);
    assert_eq!(changed["spec"], made["spec"]);
    assert_eq!(changed["status"], json!({"replicas": 1, "observedGeneration": 1}));
}

async fn pod_status_keeps_owners_and_spec(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "pods/a");
    let made = c.api().post(&core(&ns, "pods"), pod("a")).await.expect(201);
    let spec = json!({"nodeName": "n", "activeDeadlineSeconds": 1});
    let change = json!({"metadata": meta(), "spec": spec, "status": {"phase": "Running"}});
    let changed = c
        .api()
        .patch(&format!("{path}/status"), STRATEGIC, change)
        .await
        .expect(200);
    let taken = &changed["metadata"];
    assert_eq!(taken["labels"], json!({"app": "a", "l": "1"}));
    assert_eq!(taken["annotations"], json!({"an": "1"}));
    assert_eq!(taken["finalizers"], json!(["example.com/a"]));
    assert_eq!(taken["ownerReferences"], Value::Null);
    assert_eq!(changed["spec"], made["spec"]);
    assert_eq!(
        changed["status"],
        json!({"phase": "Running", "qosClass": "BestEffort"})
    );
}

async fn custom_resource_status_takes_nothing_else(c: Cluster) {
    let ns = c.namespace().await;
    define(&c, "stateful", &json!({"status": {}})).await;
    let path = group("example.com/v1", &ns, "statefuls");
    let body = with(
        named("example.com/v1", "Stateful", "a"),
        json!({"spec": {"x": 1}, "other": 1}),
    );
    let made = c.api().post(&path, body).await.expect(201);
    let path = format!("{path}/a");
    let change = json!({"metadata": meta(), "spec": {"x": 2}, "other": 2, "more": 3, "status": {"y": 1}});
    let changed = c
        .api()
        .patch(&format!("{path}/status"), MERGE, change)
        .await
        .expect(200);
    assert_eq!(changed["status"], json!({"y": 1}));
    assert_ne!(
        changed["metadata"]["resourceVersion"],
        made["metadata"]["resourceVersion"]
    );
    let mut same = changed.clone();
    same["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"].clone();
    same.as_object_mut().expect("an object").remove("status");
    let unmanaged = |object: Value| with(object, json!({"metadata": {"managedFields": null}}));
    assert_eq!(unmanaged(same), unmanaged(made), "all else is as it was");
    let put = with(changed.clone(), json!({"status": {"y": 2}, "spec": {"x": 5}}));
    let put = c.api().put(&format!("{path}/status"), put).await.expect(200);
    assert_eq!(
        (&put["status"], &put["spec"]),
        (&json!({"y": 2}), &json!({"x": 1}))
    );
    undefine(&c, "stateful").await;
}

async fn main_endpoint_leaves_status_alone(c: Cluster) {
    let ns = c.namespace().await;
    for (path, body, status) in [
        (apps(&ns, "deployments"), deployment("a"), json!({"replicas": 1})),
        (apps(&ns, "replicasets"), replica_set("a"), json!({"replicas": 1})),
        (
            core(&ns, "pods"),
            pod("a"),
            json!({"phase": "Running", "qosClass": "BestEffort"}),
        ),
        (
            core(&ns, "replicationcontrollers"),
            replication_controller("a"),
            json!({"replicas": 1}),
        ),
    ] {
        c.api().post(&path, &body).await.expect(201);
        let path = format!("{path}/a");
        let written = c
            .api()
            .patch(&format!("{path}/status"), MERGE, json!({"status": status}))
            .await
            .expect(200);
        assert_eq!(written["status"], status);
        for change in [
            json!({"status": null}),
            json!({"status": {"replicas": 5, "phase": "Failed"}}),
        ] {
            let reply = c
                .api()
                .patch(&format!("{path}?fieldValidation=Ignore"), MERGE, change)
                .await;
            assert_eq!(reply.expect(200)["status"], status, "{path}");
        }
        let labelled = with(body, json!({"metadata": {"labels": {"x": "y"}}}));
        let changed = c.api().put(&path, labelled).await.expect(200);
        assert_eq!(changed["status"], status, "{path}");
    }
}

async fn put_status_without_version(c: Cluster) {
    let ns = c.namespace().await;
    let path = apps(&ns, "replicasets/a");
    c.api()
        .post(&apps(&ns, "replicasets"), replica_set("a"))
        .await
        .expect(201);
    c.api()
        .patch(&format!("{path}/status"), MERGE, json!({"metadata": meta()}))
        .await
        .expect(200);
    let body = with(replica_set("a"), json!({"status": {"replicas": 2}}));
    let changed = c.api().put(&format!("{path}/status"), body).await.expect(200);
    assert_eq!(changed["status"]["replicas"], 2);
    assert_eq!(
        changed["metadata"]["labels"],
        Value::Null,
        "metadata is replaced as well"
    );
    assert_eq!(changed["metadata"]["finalizers"], Value::Null);
    let path = format!("{}/a", budgets(&c, &ns));
    c.api().post(&budgets(&c, &ns), budget(&c, "a")).await.expect(201);
    let reply = c.api().put(&format!("{path}/status"), budget(&c, "a")).await;
    invalid(
        &reply,
        &["Invalid metadata.resourceVersion: must be specified for an update"],
    );
}

async fn stale_status_is_a_conflict(c: Cluster) {
    let ns = c.namespace().await;
    let path = apps(&ns, "deployments/a");
    let made = c
        .api()
        .post(&apps(&ns, "deployments"), deployment("a"))
        .await
        .expect(201);
    let changed = c
        .api()
        .patch(&path, MERGE, json!({"spec": {"replicas": 2}}))
        .await
        .expect(200);
    let old = with(made, json!({"status": {"replicas": 1}}));
    stale(
        &c.api().put(&format!("{path}/status"), old).await,
        "deployments.apps",
        "a",
    );
    unchanged(&c, &path, &changed).await;
}

async fn status_of_a_missing_object_is_not_found(c: Cluster) {
    let ns = c.namespace().await;
    let path = apps(&ns, "deployments/a/status");
    not_found(&c.api().get(&path).await, "deployments.apps", "a");
    not_found(
        &c.api().put(&path, deployment("a")).await,
        "deployments.apps",
        "a",
    );
    not_found(
        &c.api().patch(&path, MERGE, json!({})).await,
        "deployments.apps",
        "a",
    );
}

async fn status_needs_no_valid_spec(c: Cluster) {
    let ns = c.namespace().await;
    let path = apps(&ns, "deployments/a");
    let made = c
        .api()
        .post(&apps(&ns, "deployments"), deployment("a"))
        .await
        .expect(201);
    let body = with(
        named("apps/v1", "Deployment", "a"),
        json!({"status": {"replicas": 2}}),
    );
    let changed = c.api().put(&format!("{path}/status"), body).await.expect(200);
    assert_eq!(changed["spec"], made["spec"]);
    assert_eq!(changed["status"], json!({"replicas": 2}));
}

async fn status_is_read_as_the_whole_object(c: Cluster) {
    let ns = c.namespace().await;
    let made = c
        .api()
        .post(&apps(&ns, "deployments"), deployment("a"))
        .await
        .expect(201);
    unchanged(&c, &apps(&ns, "deployments/a/status"), &made).await;
}

async fn status_that_changes_nothing_writes_nothing(c: Cluster) {
    let ns = c.namespace().await;
    let path = apps(&ns, "deployments/a/status");
    c.api()
        .post(&apps(&ns, "deployments"), deployment("a"))
        .await
        .expect(201);
    let written = c
        .api()
        .patch(&path, MERGE, json!({"status": {"replicas": 1}}))
        .await
        .expect(200);
    assert_eq!(
        c.api()
            .patch(&path, MERGE, json!({"status": {"replicas": 1}}))
            .await
            .expect(200),
        written
    );
    assert_eq!(c.api().put(&path, &written).await.expect(200), written);
}

/// Before, such a write was recorded in managedFields, and by that it was one.
async fn ignored_fields_write_nothing(c: Cluster) {
    let ns = c.namespace().await;
    let path = apps(&ns, "deployments/a");
    let made = c
        .api()
        .post(&apps(&ns, "deployments"), deployment("a"))
        .await
        .expect(201);
    let change = json!({"spec": {"replicas": 4}, "metadata": {"labels": {"x": "y"}}});
    let same = c
        .api()
        .patch(&format!("{path}/status"), MERGE, change)
        .await
        .expect(200);
    assert_eq!(same, made);
    for change in [json!({"status": null}), json!({"status": {"replicas": 5}})] {
        assert_eq!(c.api().patch(&path, MERGE, change).await.expect(200), made);
    }
    unchanged(&c, &path, &made).await;
}
