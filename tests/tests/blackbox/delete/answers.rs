//! What DELETE answers: the object or a `Status`, by kind; preconditions; what a watch shows of it.

use coxswain_tests::{Cluster, Test, test};
use serde_json::{Value, json};

use crate::support::{
    assert_gone, config_map, core, create, deployment, held, is_marked, name, object, of, template, version,
    with,
};

pub fn tests() -> Vec<Test> {
    vec![
        test!(most_kinds_answer_a_status),
        test!(some_kinds_answer_the_object),
        test!(services_answer_the_object).since(1, 36),
        test!(claims_are_held_by_their_own_finalizer),
        test!(held_object_is_answered),
        test!(missing_object_is_not_found),
        test!(wrong_uid_is_a_conflict),
        test!(wrong_resource_version_is_a_conflict),
        test!(right_preconditions_pass),
        test!(preconditions_hold_for_marked_objects_too),
        test!(watch_shows_removal_with_its_own_version),
        test!(watch_shows_marking_then_removal),
        test!(object_that_goes_carries_the_version_of_its_removal).since(1, 36),
    ]
}

async fn most_kinds_answer_a_status(c: Cluster) {
    let ns = c.namespace().await;
    let role = with(
        object("rbac.authorization.k8s.io/v1", "Role", "a"),
        "/rules",
        json!([]),
    );
    for (path, object, group) in [
        (core(&ns, "configmaps"), config_map("a"), ""),
        (core(&ns, "secrets"), object("v1", "Secret", "a"), ""),
        (of("apps/v1", &ns, "deployments"), deployment("a"), "apps"),
        (
            of("rbac.authorization.k8s.io/v1", &ns, "roles"),
            role,
            "rbac.authorization.k8s.io",
        ),
    ] {
        let made = create(&c, &path, &object).await;
        let answer = c.api().delete(&format!("{path}/a"), ()).await.expect(200);
        let resource = path.rsplit('/').next().unwrap_or_default();
        let mut details = json!({"name": "a", "kind": resource, "uid": made["metadata"]["uid"]});
        if !group.is_empty() {
            details["group"] = json!(group);
        }
        let expected = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details});
        assert_eq!(answer, expected);
        assert_gone(&c, &format!("{path}/a")).await;
    }
}

async fn some_kinds_answer_the_object(c: Cluster) {
    let ns = c.namespace().await;
    let podtemplate = with(object("v1", "PodTemplate", "a"), "/template", template());
    for (resource, object) in [
        ("serviceaccounts", object("v1", "ServiceAccount", "a")),
        ("resourcequotas", object("v1", "ResourceQuota", "a")),
        ("podtemplates", podtemplate),
    ] {
        // The sandbox has no pod templates.
        if resource == "podtemplates" && c.is_sandbox() {
            continue;
        }
        assert_answers_the_object(&c, &core(&ns, resource), &object).await;
    }
}

/// Older servers answer a `Status` (1.20 even ignores finalizers of services).
async fn services_answer_the_object(c: Cluster) {
    let ns = c.namespace().await;
    let service = with(
        object("v1", "Service", "a"),
        "/spec",
        json!({"ports": [{"port": 80}]}),
    );
    assert_answers_the_object(&c, &core(&ns, "services"), &service).await;
}

/// The object as it was: removed at once, it never was marked.
async fn assert_answers_the_object(c: &Cluster, path: &str, object: &Value) {
    let made = create(c, path, object).await;
    let answer = c.api().delete(&format!("{path}/a"), ()).await.expect(200);
    assert_eq!(answer["kind"], object["kind"], "{answer:#}");
    assert_eq!(answer["metadata"]["uid"], made["metadata"]["uid"]);
    assert!(!is_marked(&answer), "{answer:#}");
    assert_gone(c, &format!("{path}/a")).await;
}

async fn claims_are_held_by_their_own_finalizer(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "persistentvolumeclaims");
    let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let claim = with(object("v1", "PersistentVolumeClaim", "a"), "/spec", spec);
    let made = create(&c, &path, &claim).await;
    assert_eq!(
        made["metadata"]["finalizers"],
        json!(["kubernetes.io/pvc-protection"])
    );
    let answer = c.api().delete(&format!("{path}/a"), ()).await.expect(200);
    assert_eq!(answer["kind"], "PersistentVolumeClaim");
    assert!(is_marked(&answer), "{answer:#}");
}

async fn held_object_is_answered(c: Cluster) {
    let ns = c.namespace().await;
    let path = of("apps/v1", &ns, "deployments");
    create(&c, &path, &held(deployment("a"))).await;
    let answer = c.api().delete(&format!("{path}/a"), ()).await.expect(200);
    assert_eq!(
        (&answer["kind"], &answer["apiVersion"]),
        (&json!("Deployment"), &json!("apps/v1"))
    );
    assert!(is_marked(&answer));
}

async fn missing_object_is_not_found(c: Cluster) {
    let ns = c.namespace().await;
    let reply = c.api().delete(&core(&ns, "configmaps/nope"), ()).await;
    reply.expect_error(404, "NotFound");
    reply.check(
        reply.message() == "configmaps \"nope\" not found",
        "another message",
    );
    reply.check(
        reply.json()["details"] == json!({"name": "nope", "kind": "configmaps"}),
        "other details",
    );
    let reply = c.api().delete(&of("apps/v1", &ns, "deployments/nope"), ()).await;
    reply.expect_error(404, "NotFound");
    reply.check(
        reply.message() == "deployments.apps \"nope\" not found",
        "another message",
    );
    reply.check(
        reply.json()["details"] == json!({"name": "nope", "group": "apps", "kind": "deployments"}),
        "other details",
    );
}

async fn wrong_uid_is_a_conflict(c: Cluster) {
    let ns = c.namespace().await;
    let path = of("apps/v1", &ns, "deployments");
    let made = create(&c, &path, &deployment("a")).await;
    let path = format!("{path}/a");
    let reply = c
        .api()
        .delete(&path, json!({"preconditions": {"uid": "other"}}))
        .await;
    reply.expect_error(409, "Conflict");
    // Here the kind stands where other conflicts have the resource.
    let message = format!(
        "Operation cannot be fulfilled on Deployment.apps \"a\": the UID in the precondition (other) does not match the UID \
         in record ({}). The object might have been deleted and then recreated",
        made["metadata"]["uid"].as_str().unwrap_or_default()
    );
    reply.check(reply.message() == message, "another message");
    assert_eq!(c.api().get(&path).await.expect(200), made);
}

async fn wrong_resource_version_is_a_conflict(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let made = create(&c, &path, &config_map("a")).await;
    let path = format!("{path}/a");
    let options = json!({"preconditions": {"resourceVersion": "1"}});
    let reply = c.api().delete(&path, options).await;
    reply.expect_error(409, "Conflict");
    let message = format!(
        "Operation cannot be fulfilled on ConfigMap \"a\": the ResourceVersion in the precondition (1) does not match the \
         ResourceVersion in record ({}). The object might have been modified",
        version(&made)
    );
    reply.check(reply.message() == message, "another message");
    assert_eq!(c.api().get(&path).await.expect(200), made);
}

async fn right_preconditions_pass(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let made = create(&c, &path, &config_map("a")).await;
    let (uid, version) = (&made["metadata"]["uid"], &made["metadata"]["resourceVersion"]);
    let options = json!({"preconditions": {"uid": uid, "resourceVersion": version}});
    c.api().delete(&format!("{path}/a"), options).await.expect(200);
    assert_gone(&c, &format!("{path}/a")).await;
}

async fn preconditions_hold_for_marked_objects_too(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let made = create(&c, &path, &held(config_map("a"))).await;
    let path = format!("{path}/a");
    let options = json!({"preconditions": {"resourceVersion": made["metadata"]["resourceVersion"]}});
    let marked = c.api().delete(&path, &options).await.expect(200);
    assert!(version(&marked) > version(&made));
    c.api()
        .delete(&path, &options)
        .await
        .expect_error(409, "Conflict");
    assert_eq!(c.api().get(&path).await.expect(200), marked);
}

async fn watch_shows_removal_with_its_own_version(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let made = create(&c, &path, &with(config_map("a"), "/data", json!({"k": "v"}))).await;
    let mut watch = c
        .api()
        .watch(&format!("{path}?watch=1&resourceVersion={}", version(&made)))
        .await;
    c.api().delete(&format!("{path}/a"), ()).await.expect(200);
    let removed = watch.expect("DELETED").await;
    assert_eq!((name(&removed), &removed["data"]), ("a", &made["data"]));
    assert!(!is_marked(&removed), "{removed:#}");
    assert!(version(&removed) > version(&made), "{removed:#}");
}

/// The last state, finalizer included, with the version of the removal.
async fn watch_shows_marking_then_removal(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let made = create(&c, &path, &held(config_map("a"))).await;
    let mut watch = c
        .api()
        .watch(&format!("{path}?watch=1&resourceVersion={}", version(&made)))
        .await;
    let path = format!("{path}/a");
    let marked = c.api().delete(&path, ()).await.expect(200);
    // Changes nothing, so no watch shows it.
    c.api().delete(&path, ()).await.expect(200);
    let change = json!({"metadata": {"finalizers": null}});
    c.api()
        .patch(&path, crate::support::MERGE, change)
        .await
        .expect(200);
    assert_eq!(watch.expect("MODIFIED").await, marked);
    let removed = watch.expect("DELETED").await;
    assert_eq!(
        removed["metadata"]["finalizers"],
        marked["metadata"]["finalizers"]
    );
    assert!(version(&removed) > version(&marked));
}

/// Before, the answer had the last version it was stored with.
async fn object_that_goes_carries_the_version_of_its_removal(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "serviceaccounts");
    let made = create(&c, &path, &object("v1", "ServiceAccount", "a")).await;
    // The account that every namespace gets may come at any time.
    let only_it = "fieldSelector=metadata.name%3Da";
    let mut watch = c
        .api()
        .watch(&format!(
            "{path}?watch=1&{only_it}&resourceVersion={}",
            version(&made)
        ))
        .await;
    let answer = c.api().delete(&format!("{path}/a"), ()).await.expect(200);
    let removed = watch.expect("DELETED").await;
    assert_eq!(version(&answer), version(&removed));
}
