//! Optimistic concurrency: the resourceVersion and the uid of a body, and which kinds insist on the first.

use coxswain_tests::{
    Cluster, Test,
    fixtures::{
        CRDS, apps, budget, budgets, config_map, core, define, definition, deployment, group, lease, leases,
        named, pod, replica_set, undefine, with, workload,
    },
    test,
};
use serde_json::{Value, json};

use crate::expect::{invalid, speaks_1_36, stale, unchanged, wrong_uid};

/// What is registered of this part.
pub fn tests() -> Vec<Test> {
    vec![
        test!(stale_version_is_a_conflict),
        test!(version_that_is_no_number_is_an_error),
        test!(most_kinds_may_be_updated_without_a_version),
        test!(leases_and_budgets_need_a_version),
        test!(custom_resources_need_a_version),
        test!(definitions_need_a_version),
        test!(uid_of_the_body_is_a_precondition),
    ]
}

async fn stale_version_is_a_conflict(c: Cluster) {
    let ns = c.namespace().await;
    for (path, body, resource) in [
        (core(&ns, "configmaps"), config_map("a"), "configmaps"),
        (apps(&ns, "deployments"), deployment("a"), "deployments.apps"),
        (leases(&ns), lease("a"), "leases.coordination.k8s.io"),
    ] {
        let made = c.api().post(&path, body).await.expect(201);
        let path = format!("{path}/a");
        let changed = c
            .api()
            .put(
                &path,
                with(made.clone(), json!({"metadata": {"labels": {"x": "1"}}})),
            )
            .await
            .expect(200);
        stale(&c.api().put(&path, &made).await, resource, "a");
        // Also one that the server has not reached yet.
        for version in ["1", "99999999999"] {
            let body = with(made.clone(), json!({"metadata": {"resourceVersion": version}}));
            stale(&c.api().put(&path, body).await, resource, "a");
        }
        unchanged(&c, &path, &changed).await;
    }
}

async fn version_that_is_no_number_is_an_error(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps/a");
    let made = c
        .api()
        .post(&core(&ns, "configmaps"), config_map("a"))
        .await
        .expect(201);
    let body = with(config_map("a"), json!({"metadata": {"resourceVersion": "abc"}}));
    let reply = c.api().put(&path, body).await;
    reply.expect_error(500, "");
    let message = "strconv.ParseUint: parsing \"abc\": invalid syntax";
    reply.check(reply.message() == message, &format!("expected {message}"));
    unchanged(&c, &path, &made).await;
}

async fn most_kinds_may_be_updated_without_a_version(c: Cluster) {
    let ns = c.namespace().await;
    let claim =
        json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let event = json!({"involvedObject": {"namespace": ns}});
    for (path, body) in [
        (core(&ns, "configmaps"), config_map("a")),
        (core(&ns, "secrets"), named("v1", "Secret", "a")),
        (core(&ns, "pods"), pod("a")),
        (core(&ns, "serviceaccounts"), named("v1", "ServiceAccount", "a")),
        (core(&ns, "resourcequotas"), named("v1", "ResourceQuota", "a")),
        (
            core(&ns, "persistentvolumeclaims"),
            with(named("v1", "PersistentVolumeClaim", "a"), claim),
        ),
        (core(&ns, "events"), with(named("v1", "Event", "a"), event)),
        (apps(&ns, "deployments"), deployment("a")),
        (apps(&ns, "replicasets"), replica_set("a")),
        (apps(&ns, "statefulsets"), workload("StatefulSet", "a")),
        (apps(&ns, "daemonsets"), workload("DaemonSet", "a")),
        (
            apps(&ns, "controllerrevisions"),
            with(
                named("apps/v1", "ControllerRevision", "a"),
                json!({"revision": 1, "data": {}}),
            ),
        ),
        (
            group("rbac.authorization.k8s.io/v1", &ns, "roles"),
            named("rbac.authorization.k8s.io/v1", "Role", "a"),
        ),
    ] {
        let made = c.api().post(&path, &body).await.expect(201);
        let body = with(body, json!({"metadata": {"labels": {"x": "y"}}}));
        let changed = c.api().put(&format!("{path}/a"), body).await.expect(200);
        assert_eq!(changed["metadata"]["labels"]["x"], "y");
        assert_ne!(
            changed["metadata"]["resourceVersion"],
            made["metadata"]["resourceVersion"]
        );
    }
}

/// The server says so in the words of its storage layer: the resource, not the kind.
fn needs_version(c: &Cluster) -> &'static str {
    if speaks_1_36(c) {
        "Invalid metadata.resourceVersion: Invalid value: 0: must be specified for an update"
    } else {
        "Invalid metadata.resourceVersion: must be specified for an update"
    }
}

async fn leases_and_budgets_need_a_version(c: Cluster) {
    let ns = c.namespace().await;
    for (path, body, kind) in [
        (leases(&ns), lease("a"), "leases"),
        (budgets(&c, &ns), budget(&c, "a"), "poddisruptionbudgets"),
    ] {
        let made = c.api().post(&path, &body).await.expect(201);
        let path = format!("{path}/a");
        let reply = c
            .api()
            .put(&path, with(body, json!({"metadata": {"labels": {"x": "y"}}})))
            .await;
        invalid(&reply, &[needs_version(&c)]);
        reply.check(
            reply.json()["details"]["kind"] == kind,
            "expected the resource in the details",
        );
        unchanged(&c, &path, &made).await;
        let changed = with(made, json!({"metadata": {"labels": {"x": "y"}}}));
        c.api().put(&path, changed).await.expect(200);
    }
}

async fn custom_resources_need_a_version(c: Cluster) {
    let ns = c.namespace().await;
    define(&c, "updatable", &json!({})).await;
    let path = group("example.com/v1", &ns, "updatables");
    let body = named("example.com/v1", "Updatable", "a");
    let made = c.api().post(&path, &body).await.expect(201);
    let path = format!("{path}/a");
    invalid(
        &c.api()
            .put(&path, with(body.clone(), json!({"spec": {"x": 1}})))
            .await,
        &[needs_version(&c)],
    );
    let old = with(body, json!({"metadata": {"resourceVersion": "1"}}));
    stale(&c.api().put(&path, old).await, "updatables.example.com", "a");
    let other = with(made.clone(), json!({"metadata": {"uid": "other"}}));
    wrong_uid(&c.api().put(&path, other).await, "updatables.example.com", "a");
    unchanged(&c, &path, &made).await;
    let changed = c
        .api()
        .put(&path, with(made, json!({"spec": {"x": 1}})))
        .await
        .expect(200);
    assert_eq!(changed["spec"], json!({"x": 1}));
    undefine(&c, "updatable").await;
}

async fn definitions_need_a_version(c: Cluster) {
    define(&c, "redefinable", &json!({})).await;
    let body = definition("redefinable", &json!({}));
    let path = format!("{CRDS}/redefinables.example.com");
    invalid(&c.api().put(&path, body).await, &[needs_version(&c)]);
    undefine(&c, "redefinable").await;
}

async fn uid_of_the_body_is_a_precondition(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps/a");
    let made = c
        .api()
        .post(&core(&ns, "configmaps"), config_map("a"))
        .await
        .expect(201);
    let body = |meta: Value| with(config_map("a"), json!({"metadata": meta, "data": {"k": "2"}}));
    wrong_uid(
        &c.api().put(&path, body(json!({"uid": "1234"}))).await,
        "configmaps",
        "a",
    );
    // It comes before the version.
    let reply = c
        .api()
        .put(&path, body(json!({"uid": "1234", "resourceVersion": "1"})))
        .await;
    wrong_uid(&reply, "configmaps", "a");
    unchanged(&c, &path, &made).await;
    c.api()
        .put(&path, body(json!({"uid": made["metadata"]["uid"]})))
        .await
        .expect(200);
}
