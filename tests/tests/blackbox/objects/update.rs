//! Replacing an object: optimistic concurrency, what may not change, and what a write that changes nothing does.

use coxswain_tests::{
    Cluster, Test,
    fixtures::{
        MERGE, apps, budget, budgets, config_map, core, define, deployment, group, lease, leases, named, pod,
        service, undefine, with, workload,
    },
    test,
};
use serde_json::{Value, json};

use crate::expect::{bad_request, invalid, not_found, speaks_1_36, unchanged, wrong_uid};

/// What is registered of this part.
pub fn tests() -> Vec<Test> {
    vec![
        test!(update_replaces_and_gets_a_new_version),
        test!(name_and_namespace_must_be_those_of_the_path),
        test!(update_that_changes_nothing_writes_nothing),
        test!(defaults_are_no_change),
        test!(system_fields_stay),
        test!(deletion_timestamp_may_not_be_set),
        test!(missing_object_is_not_found),
        test!(missing_object_with_a_uid_is_not_found).since(1, 36),
        test!(lease_event_and_role_are_created_by_an_update),
        test!(service_is_created_by_an_update).since(1, 22),
        test!(created_by_an_update_needs_no_wrong_uid),
        test!(created_by_an_update_of_no_version).since(1, 22),
        test!(another_namespace_is_refused_before_anything_is_looked_for).since(1, 36),
        test!(kind_of_a_custom_resource_is_checked),
    ]
}

async fn update_replaces_and_gets_a_new_version(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps/a");
    let body = with(config_map("a"), json!({"metadata": {"labels": {"x": "y"}}}));
    let made = c.api().post(&core(&ns, "configmaps"), body).await.expect(201);
    let mut body = made.clone();
    body["data"] = json!({"l": "2"});
    body["metadata"]["labels"] = Value::Null;
    let changed = c.api().put(&path, &body).await.expect(200);
    assert_eq!(changed["data"], json!({"l": "2"}), "replaced, not merged");
    assert_eq!(changed["metadata"]["labels"], Value::Null);
    assert_eq!(changed["metadata"]["uid"], made["metadata"]["uid"]);
    assert_ne!(
        changed["metadata"]["resourceVersion"],
        made["metadata"]["resourceVersion"]
    );
    unchanged(&c, &path, &changed).await;
}

async fn name_and_namespace_must_be_those_of_the_path(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps/a");
    let made = c
        .api()
        .post(&core(&ns, "configmaps"), config_map("a"))
        .await
        .expect(201);
    let reply = c.api().put(&path, config_map("b")).await;
    bad_request(
        &reply,
        "the name of the object (b) does not match the name on the URL (a)",
    );
    let message = "the name of the object (a based on URL) was undeterminable: name must be provided";
    bad_request(&c.api().put(&path, json!({"metadata": {}})).await, message);
    let reply = c
        .api()
        .put(
            &path,
            with(config_map("a"), json!({"metadata": {"namespace": "default"}})),
        )
        .await;
    if speaks_1_36(&c) {
        bad_request(
            &reply,
            "the namespace of the provided object does not match the namespace sent on the request",
        );
    } else {
        let message = format!(
            "the namespace of the object (default) does not match the namespace on the request ({ns})"
        );
        bad_request(&reply, &message);
    }
    unchanged(&c, &path, &made).await;
}

async fn update_that_changes_nothing_writes_nothing(c: Cluster) {
    let ns = c.namespace().await;
    for (path, body) in [
        (core(&ns, "configmaps"), config_map("a")),
        (core(&ns, "pods"), pod("a")),
        (core(&ns, "services"), service("a")),
        (apps(&ns, "deployments"), deployment("a")),
        (leases(&ns), lease("a")),
    ] {
        let made = c.api().post(&path, body).await.expect(201);
        let path = format!("{path}/a");
        assert_eq!(c.api().put(&path, &made).await.expect(200), made, "{path}");
        unchanged(&c, &path, &made).await;
    }
}

/// What a client leaves out is filled in again before anything is compared.
async fn defaults_are_no_change(c: Cluster) {
    let ns = c.namespace().await;
    for (path, body) in [
        (core(&ns, "configmaps"), config_map("a")),
        (core(&ns, "pods"), pod("a")),
        (apps(&ns, "deployments"), deployment("a")),
        (apps(&ns, "daemonsets"), workload("DaemonSet", "a")),
    ] {
        let made = c.api().post(&path, &body).await.expect(201);
        let path = format!("{path}/a");
        let same = c.api().put(&path, body).await.expect(200);
        assert_eq!(
            same["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"],
            "{path}"
        );
    }
}

async fn system_fields_stay(c: Cluster) {
    let ns = c.namespace().await;
    let path = apps(&ns, "deployments/a");
    let body = with(deployment("a"), json!({"metadata": {"generateName": "gen-"}}));
    let made = c.api().post(&apps(&ns, "deployments"), body).await.expect(201);
    let meta = json!({
        "creationTimestamp": "2001-01-01T00:00:00Z", "generation": 99, "selfLink": "/z", "labels": {"x": "y"},
        "deletionGracePeriodSeconds": null,
    });
    let body = with(deployment("a"), json!({"metadata": meta}));
    let changed = c.api().put(&path, body).await.expect(200);
    for field in ["uid", "creationTimestamp", "generation"] {
        assert_eq!(changed["metadata"][field], made["metadata"][field], "{field}");
    }
    assert_eq!(changed["metadata"]["labels"], json!({"x": "y"}));
    assert_eq!(changed["metadata"]["selfLink"], Value::Null);
}

async fn deletion_timestamp_may_not_be_set(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps/a");
    let made = c
        .api()
        .post(&core(&ns, "configmaps"), config_map("a"))
        .await
        .expect(201);
    let body = with(
        config_map("a"),
        json!({"metadata": {"deletionTimestamp": "2001-01-01T00:00:00Z"}}),
    );
    invalid(
        &c.api().put(&path, body).await,
        &["Invalid metadata.deletionTimestamp: field is immutable"],
    );
    let body = with(
        config_map("a"),
        json!({"metadata": {"deletionGracePeriodSeconds": 5}}),
    );
    invalid(
        &c.api().put(&path, body).await,
        &["Invalid metadata.deletionGracePeriodSeconds: field is immutable"],
    );
    unchanged(&c, &path, &made).await;
}

async fn missing_object_is_not_found(c: Cluster) {
    let ns = c.namespace().await;
    for (path, body, resource) in [
        (core(&ns, "configmaps"), config_map("a"), "configmaps"),
        (core(&ns, "secrets"), named("v1", "Secret", "a"), "secrets"),
        (core(&ns, "pods"), pod("a"), "pods"),
        (
            core(&ns, "serviceaccounts"),
            named("v1", "ServiceAccount", "a"),
            "serviceaccounts",
        ),
        (apps(&ns, "deployments"), deployment("a"), "deployments.apps"),
        (budgets(&c, &ns), budget(&c, "a"), "poddisruptionbudgets.policy"),
    ] {
        let path = format!("{path}/a");
        not_found(&c.api().put(&path, &body).await, resource, "a");
        let body = with(body, json!({"metadata": {"resourceVersion": "5"}}));
        not_found(&c.api().put(&path, body).await, resource, "a");
        not_found(&c.api().get(&path).await, resource, "a");
    }
}

/// Before, it was a conflict: the uid was compared with none.
async fn missing_object_with_a_uid_is_not_found(c: Cluster) {
    let ns = c.namespace().await;
    let body = with(
        config_map("a"),
        json!({"metadata": {"uid": "1234", "resourceVersion": "5"}}),
    );
    not_found(
        &c.api().put(&core(&ns, "configmaps/a"), body).await,
        "configmaps",
        "a",
    );
}

async fn lease_event_and_role_are_created_by_an_update(c: Cluster) {
    let ns = c.namespace().await;
    let rbac = "rbac.authorization.k8s.io/v1";
    for (path, body) in [
        (leases(&ns), lease("a")),
        (
            core(&ns, "events"),
            with(
                named("v1", "Event", "a"),
                json!({"involvedObject": {"namespace": ns}}),
            ),
        ),
        (group(rbac, &ns, "roles"), named(rbac, "Role", "a")),
    ] {
        let path = format!("{path}/a");
        let made = c.api().put(&path, body).await.expect(201);
        assert!(
            made["metadata"]["uid"].is_string() && made["metadata"]["creationTimestamp"].is_string(),
            "{made:#}"
        );
        unchanged(&c, &path, &made).await;
    }
    let body = with(lease("b"), json!({"metadata": {"resourceVersion": "5"}}));
    c.api().put(&format!("{}/b", leases(&ns)), body).await.expect(201);
    let body = with(lease("c"), json!({"spec": {"leaseDurationSeconds": 0}}));
    let reply = c.api().put(&format!("{}/c", leases(&ns)), body).await;
    invalid(
        &reply,
        &["Invalid spec.leaseDurationSeconds: 0: must be greater than 0"],
    );
}

async fn service_is_created_by_an_update(c: Cluster) {
    let ns = c.namespace().await;
    let made = c
        .api()
        .put(&core(&ns, "services/a"), service("a"))
        .await
        .expect(201);
    assert!(made["spec"]["clusterIP"].is_string(), "{made:#}");
}

async fn created_by_an_update_needs_no_wrong_uid(c: Cluster) {
    let ns = c.namespace().await;
    let path = format!("{}/a", leases(&ns));
    let body = with(lease("a"), json!({"metadata": {"uid": "1234"}}));
    wrong_uid(&c.api().put(&path, body).await, "leases.coordination.k8s.io", "a");
    not_found(&c.api().get(&path).await, "leases.coordination.k8s.io", "a");
}

async fn kind_of_a_custom_resource_is_checked(c: Cluster) {
    let ns = c.namespace().await;
    define(&c, "kindly", &json!({})).await;
    let path = group("example.com/v1", &ns, "kindlys");
    let made = c
        .api()
        .post(&path, named("example.com/v1", "Kindly", "a"))
        .await
        .expect(201);
    let path = format!("{path}/a");
    let reply = c
        .api()
        .put(&path, with(made.clone(), json!({"kind": "Other"})))
        .await;
    reply.expect_error(422, "Invalid");
    reply.check(
        reply
            .message()
            .contains("kind: Invalid value: \"Other\": must be Kindly"),
        "another message",
    );
    let reply = c
        .api()
        .put(&path, with(made.clone(), json!({"kind": null})))
        .await;
    reply.expect_error(400, "BadRequest");
    let start = "the object provided is unrecognized (must be of type Kindly): Object 'Kind' is missing in ";
    let found = !speaks_1_36(&c) || reply.message().starts_with(start);
    reply.check(found, &format!("expected {start}"));
    unchanged(&c, &path, &made).await;
    undefine(&c, "kindly").await;
}

/// Whatever version it was made for, there is none; but it must be one.
async fn created_by_an_update_of_no_version(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "services/a");
    let of = |version: &str| with(service("a"), json!({"metadata": {"resourceVersion": version}}));
    let reply = c.api().put(&path, of("abc")).await;
    reply.expect_error(500, "");
    let message = "strconv.ParseUint: parsing \"abc\": invalid syntax";
    reply.check(reply.message() == message, message);
    let dry = c.api().put(&format!("{path}?dryRun=All"), of("7")).await;
    assert_eq!(dry.expect(201)["metadata"]["resourceVersion"], "7");
    let made = c.api().put(&path, of("7")).await.expect(201);
    assert_ne!(made["metadata"]["resourceVersion"], "7");
}

async fn another_namespace_is_refused_before_anything_is_looked_for(c: Cluster) {
    let ns = c.namespace().await;
    let change = json!({"metadata": {"namespace": "elsewhere", "name": "b", "uid": "other"}});
    let message = "the namespace of the provided object does not match the namespace sent on the request";
    for (path, body) in [
        (core(&ns, "configmaps/a"), config_map("a")),
        (leases(&ns) + "/a", lease("a")),
        (
            apps(&ns, "deployments/a/scale"),
            named("autoscaling/v1", "Scale", "a"),
        ),
    ] {
        let reply = c.api().put(&path, with(body, change.clone())).await;
        bad_request(&reply, message);
    }
    c.api()
        .post(&core(&ns, "configmaps"), config_map("a"))
        .await
        .expect(201);
    let reply = c.api().patch(&core(&ns, "configmaps/a"), MERGE, change).await;
    bad_request(&reply, message);
}
