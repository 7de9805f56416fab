//! The scale subresource: the same small object in front of every kind that has replicas.

use coxswain_tests::{
    Cluster, Test,
    fixtures::{
        JSON_PATCH, MERGE, STRATEGIC, apps, core, define, deployment, group, named, replica_set,
        replication_controller, undefine, with, workload,
    },
    test,
};
use serde_json::{Value, json};

use crate::expect::{
    bad_request, bad_request_starting, invalid, not_found, speaks_1_36, stale, unchanged, wrong_uid,
};

/// What is registered of this part.
pub fn tests() -> Vec<Test> {
    vec![
        test!(scale_shows_replicas_and_selector),
        test!(scale_selector_is_text_of_any_selector),
        test!(scale_writes_replicas_and_nothing_else),
        test!(scale_is_patched_in_every_way),
        test!(scale_without_replicas_is_zero),
        test!(scale_refuses_negative_replicas),
        test!(scale_checks_version_uid_and_name),
        test!(scale_of_a_missing_object_is_not_found),
        test!(scale_takes_another_kind_for_no_scale),
        test!(scale_dry_run_changes_nothing),
        test!(scale_that_changes_nothing_counts_nothing),
        test!(scale_is_not_created_nor_deleted),
        test!(custom_resource_scale_follows_its_paths),
        test!(custom_resource_scale_needs_replicas),
        test!(custom_resource_scale_is_judged_by_the_schema),
        test!(what_a_patch_makes_of_a_scale_is_checked_before_its_uid),
    ]
}

/// Path, object and resource of every kind that has a scale.
fn kinds(ns: &str) -> [(String, Value, &'static str); 4] {
    [
        (apps(ns, "deployments"), deployment("a"), "deployments.apps"),
        (apps(ns, "replicasets"), replica_set("a"), "replicasets.apps"),
        (
            apps(ns, "statefulsets"),
            workload("StatefulSet", "a"),
            "statefulsets.apps",
        ),
        (
            core(ns, "replicationcontrollers"),
            replication_controller("a"),
            "replicationcontrollers",
        ),
    ]
}

fn scale(ns: &str, replicas: i64) -> Value {
    let change = json!({"metadata": {"namespace": ns}, "spec": {"replicas": replicas}});
    with(named("autoscaling/v1", "Scale", "a"), change)
}

async fn scale_shows_replicas_and_selector(c: Cluster) {
    let ns = c.namespace().await;
    for (path, body, _) in kinds(&ns) {
        c.api().post(&path, body).await.expect(201);
        let status = json!({"status": {"replicas": 2}});
        let made = c
            .api()
            .patch(&format!("{path}/a/status"), MERGE, status)
            .await
            .expect(200);
        let read = c.api().get(&format!("{path}/a/scale")).await.expect(200);
        let meta = &made["metadata"];
        let expected = json!({
            "kind": "Scale", "apiVersion": "autoscaling/v1",
            "metadata": {
                "name": "a", "namespace": ns, "uid": meta["uid"], "resourceVersion": meta["resourceVersion"],
                "creationTimestamp": meta["creationTimestamp"],
            },
            "spec": {"replicas": 1},
            "status": {"replicas": made["status"]["replicas"], "selector": "app=a"},
        });
        assert_eq!(read, expected, "{path}");
    }
}

async fn scale_selector_is_text_of_any_selector(c: Cluster) {
    let ns = c.namespace().await;
    let expressions = json!([{"key": "app", "operator": "In", "values": ["b", "a"]}, {"key": "no", "operator": "DoesNotExist"}]);
    let selector = json!({"matchLabels": {"z": "1", "app": "a"}, "matchExpressions": expressions});
    let labels = json!({"app": "a", "z": "1"});
    let change = json!({"spec": {"selector": selector, "template": {"metadata": {"labels": labels}}}});
    c.api()
        .post(&apps(&ns, "deployments"), with(deployment("a"), change))
        .await
        .expect(201);
    let read = c.api().get(&apps(&ns, "deployments/a/scale")).await.expect(200);
    assert_eq!(read["status"]["selector"], "app=a,app in (a,b),!no,z=1");
}

async fn scale_writes_replicas_and_nothing_else(c: Cluster) {
    let ns = c.namespace().await;
    for (path, body, _) in kinds(&ns) {
        let made = c.api().post(&path, body).await.expect(201);
        let path = format!("{path}/a");
        let change =
            json!({"metadata": {"labels": {"x": "y"}, "annotations": {"x": "y"}}, "status": {"replicas": 9}});
        let written = c
            .api()
            .put(&format!("{path}/scale"), with(scale(&ns, 3), change))
            .await
            .expect(200);
        assert_eq!(written["spec"], json!({"replicas": 3}));
        assert_eq!(written["status"], json!({"replicas": 0, "selector": "app=a"}));
        let read = c.api().get(&path).await.expect(200);
        assert_eq!(
            read["metadata"]["resourceVersion"],
            written["metadata"]["resourceVersion"]
        );
        assert_eq!(
            read["spec"],
            with(made["spec"].clone(), json!({"replicas": 3})),
            "{path}"
        );
        assert_eq!(read["status"], made["status"]);
        assert_eq!(read["metadata"]["generation"], 2);
        for field in ["labels", "annotations"] {
            assert_eq!(read["metadata"][field], made["metadata"][field]);
        }
    }
}

async fn scale_is_patched_in_every_way(c: Cluster) {
    let ns = c.namespace().await;
    for (path, body, _) in kinds(&ns) {
        c.api().post(&path, body).await.expect(201);
        let path = format!("{path}/a/scale");
        for (kind, change, replicas) in [
            (MERGE, json!({"spec": {"replicas": 5}}), 5),
            (STRATEGIC, json!({"spec": {"replicas": 2}}), 2),
            (
                JSON_PATCH,
                json!([{"op": "replace", "path": "/spec/replicas", "value": 4}]),
                4,
            ),
        ] {
            let changed = c.api().patch(&path, kind, change).await.expect(200);
            assert_eq!(
                (&changed["kind"], &changed["spec"]),
                (&json!("Scale"), &json!({"replicas": replicas}))
            );
        }
    }
}

async fn scale_without_replicas_is_zero(c: Cluster) {
    let ns = c.namespace().await;
    c.api()
        .post(&apps(&ns, "deployments"), deployment("a"))
        .await
        .expect(201);
    let change = json!({"spec": {"replicas": null}});
    let changed = c
        .api()
        .patch(&apps(&ns, "deployments/a/scale"), MERGE, change)
        .await
        .expect(200);
    assert_eq!(changed["spec"], json!({}), "zero is left out");
    let read = c.api().get(&apps(&ns, "deployments/a")).await.expect(200);
    assert_eq!(read["spec"]["replicas"], 0);
}

async fn scale_refuses_negative_replicas(c: Cluster) {
    let ns = c.namespace().await;
    for (path, body, _) in kinds(&ns) {
        let made = c.api().post(&path, body).await.expect(201);
        let path = format!("{path}/a");
        for reply in [
            c.api().put(&format!("{path}/scale"), scale(&ns, -1)).await,
            c.api()
                .patch(&format!("{path}/scale"), MERGE, json!({"spec": {"replicas": -1}}))
                .await,
        ] {
            invalid(
                &reply,
                &["Invalid spec.replicas: Invalid value: -1: must be greater than or equal to 0"],
            );
            let details = &reply.json()["details"];
            reply.check(
                details["kind"] == "Scale" && details["group"] == "autoscaling",
                "other details",
            );
        }
        unchanged(&c, &path, &made).await;
    }
}

async fn scale_checks_version_uid_and_name(c: Cluster) {
    let ns = c.namespace().await;
    for (path, body, resource) in kinds(&ns) {
        let made = c.api().post(&path, body).await.expect(201);
        let path = format!("{path}/a");
        let with_meta = |meta: Value| with(scale(&ns, 3), json!({"metadata": meta}));
        let put = async |meta: Value| c.api().put(&format!("{path}/scale"), with_meta(meta)).await;
        stale(&put(json!({"resourceVersion": "1"})).await, resource, "a");
        wrong_uid(&put(json!({"uid": "other"})).await, resource, "a");
        bad_request(
            &put(json!({"name": "b"})).await,
            "the name of the object (b) does not match the name on the URL (a)",
        );
        bad_request(
            &put(json!({"name": null})).await,
            "the name of the object (a based on URL) was undeterminable: name must be provided",
        );
        unchanged(&c, &path, &made).await;
        let current =
            json!({"resourceVersion": made["metadata"]["resourceVersion"], "uid": made["metadata"]["uid"]});
        assert_eq!(put(current).await.expect(200)["spec"]["replicas"], 3);
    }
}

async fn scale_of_a_missing_object_is_not_found(c: Cluster) {
    let ns = c.namespace().await;
    for (path, _, resource) in kinds(&ns) {
        let path = format!("{path}/a/scale");
        let reply = c.api().get(&path).await;
        if speaks_1_36(&c) {
            not_found(&reply, resource, "a");
        } else {
            reply.expect_error(404, "NotFound"); // Of `deployments/scale.apps`.
        }
        not_found(&c.api().put(&path, scale(&ns, 1)).await, resource, "a");
        not_found(
            &c.api()
                .patch(&path, MERGE, json!({"spec": {"replicas": 1}}))
                .await,
            resource,
            "a",
        );
    }
}

async fn scale_takes_another_kind_for_no_scale(c: Cluster) {
    let ns = c.namespace().await;
    let made = c
        .api()
        .post(&apps(&ns, "deployments"), deployment("a"))
        .await
        .expect(201);
    let reply = c
        .api()
        .put(&apps(&ns, "deployments/a/scale"), deployment("a"))
        .await;
    let start = "Deployment in version \"v1\" cannot be handled as a Scale: ";
    bad_request_starting(&reply, start);
    unchanged(&c, &apps(&ns, "deployments/a"), &made).await;
}

async fn scale_dry_run_changes_nothing(c: Cluster) {
    let ns = c.namespace().await;
    let made = c
        .api()
        .post(&apps(&ns, "deployments"), deployment("a"))
        .await
        .expect(201);
    let changed = c
        .api()
        .put(&apps(&ns, "deployments/a/scale?dryRun=All"), scale(&ns, 9))
        .await
        .expect(200);
    assert_eq!(changed["spec"]["replicas"], 9);
    unchanged(&c, &apps(&ns, "deployments/a"), &made).await;
}

/// Its version may: the server keeps book of who wrote replicas last, in managedFields.
async fn scale_that_changes_nothing_counts_nothing(c: Cluster) {
    let ns = c.namespace().await;
    let made = c
        .api()
        .post(&apps(&ns, "deployments"), deployment("a"))
        .await
        .expect(201);
    c.api()
        .put(&apps(&ns, "deployments/a/scale"), scale(&ns, 1))
        .await
        .expect(200);
    let read = c.api().get(&apps(&ns, "deployments/a")).await.expect(200);
    assert_eq!(read["spec"], made["spec"]);
    assert_eq!(read["metadata"]["generation"], 1);
}

async fn scale_is_not_created_nor_deleted(c: Cluster) {
    let ns = c.namespace().await;
    c.api()
        .post(&apps(&ns, "deployments"), deployment("a"))
        .await
        .expect(201);
    let path = apps(&ns, "deployments/a/scale");
    c.api()
        .post(&path, scale(&ns, 1))
        .await
        .expect_error(405, "MethodNotAllowed");
    c.api()
        .delete(&path, ())
        .await
        .expect_error(405, "MethodNotAllowed");
}

fn paths() -> Value {
    json!({"status": {}, "scale": {
        "specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size", "labelSelectorPath": ".status.selector",
    }})
}

async fn custom_resource_scale_follows_its_paths(c: Cluster) {
    let ns = c.namespace().await;
    define(&c, "sizable", &paths()).await;
    let path = group("example.com/v1", &ns, "sizables");
    let body = with(
        named("example.com/v1", "Sizable", "a"),
        json!({"spec": {"size": 2, "x": 1}}),
    );
    c.api().post(&path, body).await.expect(201);
    let path = format!("{path}/a");
    let status = json!({"status": {"size": 1, "selector": "app=a"}});
    c.api()
        .patch(&format!("{path}/status"), MERGE, status)
        .await
        .expect(200);
    let read = c.api().get(&format!("{path}/scale")).await.expect(200);
    assert_eq!(
        (&read["kind"], &read["apiVersion"]),
        (&json!("Scale"), &json!("autoscaling/v1"))
    );
    assert_eq!(read["spec"], json!({"replicas": 2}));
    assert_eq!(read["status"], json!({"replicas": 1, "selector": "app=a"}));
    c.api()
        .put(&format!("{path}/scale"), scale(&ns, 3))
        .await
        .expect(200);
    let patched = c
        .api()
        .patch(&format!("{path}/scale"), MERGE, json!({"spec": {"replicas": 4}}))
        .await
        .expect(200);
    assert_eq!(patched["spec"], json!({"replicas": 4}));
    let read = c.api().get(&path).await.expect(200);
    assert_eq!(read["spec"], json!({"size": 4, "x": 1}));
    assert_eq!(read["metadata"]["generation"], 3);
    undefine(&c, "sizable").await;
}

async fn custom_resource_scale_needs_replicas(c: Cluster) {
    let ns = c.namespace().await;
    define(&c, "unsized", &paths()).await;
    let path = group("example.com/v1", &ns, "unsizeds");
    c.api()
        .post(&path, named("example.com/v1", "Unsized", "a"))
        .await
        .expect(201);
    let reply = c.api().get(&format!("{path}/a/scale")).await;
    reply.expect_error(500, "InternalError");
    let message = "Internal error occurred: the spec replicas field \".spec.size\" does not exist";
    reply.check(reply.message() == message, &format!("expected {message}"));
    undefine(&c, "unsized").await;
}

async fn custom_resource_scale_is_judged_by_the_schema(c: Cluster) {
    let ns = c.namespace().await;
    define(&c, "judged", &paths()).await;
    let path = group("example.com/v1", &ns, "judgeds");
    let bare = named("example.com/v1", "Judged", "a");
    c.api().post(&path, bare).await.expect(201);
    let path = format!("{path}/a");
    let empty = c.api().patch(&format!("{path}/scale"), MERGE, json!({})).await;
    bad_request(&empty, "the spec replicas field \".spec.size\" cannot be empty");
    let made = c
        .api()
        .put(&format!("{path}/scale"), scale(&ns, 3))
        .await
        .expect(200);
    assert_eq!(made["spec"], json!({"replicas": 3}));
    let negative = c.api().put(&format!("{path}/scale"), scale(&ns, -1)).await;
    invalid(
        &negative,
        &["Invalid .spec.size: Invalid value: -1: should be a non-negative integer"],
    );
    let other = with(scale(&ns, 1), json!({"metadata": {"uid": "other"}}));
    let reply = c.api().put(&format!("{path}/scale"), other.clone()).await;
    wrong_uid(&reply, "judgeds.example.com", "a");
    // Whose uid a patch names is nobody's concern.
    let change = json!({"metadata": {"uid": "other"}, "spec": {"replicas": 1}});
    let patched = c.api().patch(&format!("{path}/scale"), MERGE, change).await;
    assert_eq!(patched.expect(200)["spec"], json!({"replicas": 1}));
    undefine(&c, "judged").await;
}

async fn what_a_patch_makes_of_a_scale_is_checked_before_its_uid(c: Cluster) {
    let ns = c.namespace().await;
    let path = apps(&ns, "deployments");
    let made = c.api().post(&path, deployment("a")).await.expect(201);
    let path = format!("{path}/a");
    let change = |replicas: i64| json!({"metadata": {"uid": "other"}, "spec": {"replicas": replicas}});
    let scale_path = format!("{path}/scale");
    let reply = c.api().patch(&scale_path, MERGE, change(-1)).await;
    invalid(
        &reply,
        &["Invalid spec.replicas: Invalid value: -1: must be greater than or equal to 0"],
    );
    let reply = c.api().patch(&scale_path, MERGE, change(1)).await;
    wrong_uid(&reply, "deployments/scale.apps", "a");
    let other = with(scale(&ns, -1), json!({"metadata": {"uid": "other"}}));
    wrong_uid(&c.api().put(&scale_path, other).await, "deployments.apps", "a");
    unchanged(&c, &path, &made).await;
}
