//! A namespace is deleted in two steps: it is Terminating until all that is in it is gone.

use coxswain_tests::{Cluster, Need, Test, test};
use serde_json::{Value, json};

use crate::support::{
    MERGE, bound_pod, config_map, core, create, deployment, finalizers, held, is_marked, of, soon,
};

pub fn tests() -> Vec<Test> {
    vec![
        test!(deletion_marks_it_terminating),
        test!(second_deletion_changes_nothing),
        test!(dry_run_changes_nothing),
        test!(wrong_uid_is_a_conflict),
        test!(policy_sets_a_finalizer_on_it),
        test!(nothing_new_in_a_terminating_namespace),
        test!(what_is_there_can_still_change),
        test!(name_of_a_terminating_namespace_is_taken),
        test!(system_namespaces_may_not_be_deleted),
        test!(contents_go_with_it).needs(Need::Kcm),
        test!(finalizer_inside_holds_it).needs(Need::Kcm),
        test!(graceful_pod_inside_holds_it).needs(Need::Kcm),
    ]
}

fn path(ns: &str) -> String {
    format!("/api/v1/namespaces/{ns}")
}

/// A namespace with something in it that holds it, marked for deletion.
async fn terminating(c: &Cluster) -> (String, Value) {
    let ns = c.namespace().await;
    create(c, &core(&ns, "configmaps"), &held(config_map("held"))).await;
    let answer = c.api().delete(&path(&ns), ()).await.expect(200);
    (ns, answer)
}

async fn deletion_marks_it_terminating(c: Cluster) {
    let (_, answer) = terminating(&c).await;
    assert_eq!(answer["kind"], "Namespace");
    assert_eq!(answer["status"]["phase"], "Terminating");
    assert_eq!(answer["spec"]["finalizers"], json!(["kubernetes"]));
    assert!(is_marked(&answer));
    // Unlike every other marked object it has no grace period.
    assert_eq!(answer["metadata"]["deletionGracePeriodSeconds"], Value::Null);
    assert_eq!(finalizers(&answer), [""; 0]);
}

async fn second_deletion_changes_nothing(c: Cluster) {
    let (ns, first) = terminating(&c).await;
    let again = c.api().delete(&path(&ns), ()).await.expect(200);
    assert_eq!(
        again["metadata"]["deletionTimestamp"],
        first["metadata"]["deletionTimestamp"]
    );
    assert_eq!(again["status"]["phase"], "Terminating");
    assert_eq!(again["spec"]["finalizers"], json!(["kubernetes"]));
}

async fn dry_run_changes_nothing(c: Cluster) {
    let ns = c.namespace().await;
    let before = c.api().get(&path(&ns)).await.expect(200);
    let answer = c
        .api()
        .delete(&format!("{}?dryRun=All", path(&ns)), ())
        .await
        .expect(200);
    assert_eq!(answer["status"]["phase"], "Terminating");
    assert_eq!(c.api().get(&path(&ns)).await.expect(200), before);
}

async fn wrong_uid_is_a_conflict(c: Cluster) {
    let ns = c.namespace().await;
    let before = c.api().get(&path(&ns)).await.expect(200);
    let options = json!({"preconditions": {"uid": "other"}});
    let reply = c.api().delete(&path(&ns), options).await;
    reply.expect_error(409, "Conflict");
    // Its own words, and here the resource.
    let message = format!(
        "Operation cannot be fulfilled on namespaces \"{ns}\": Precondition failed: UID in precondition: other, UID in \
         object meta: {}",
        before["metadata"]["uid"].as_str().unwrap_or_default()
    );
    reply.check(reply.message() == message, "another message");
    assert_eq!(c.api().get(&path(&ns)).await.expect(200), before);
}

async fn policy_sets_a_finalizer_on_it(c: Cluster) {
    let ns = c.namespace().await;
    let options = json!({"propagationPolicy": "Foreground"});
    let answer = c.api().delete(&path(&ns), options).await.expect(200);
    assert_eq!(finalizers(&answer), ["foregroundDeletion"]);
    assert_eq!(answer["status"]["phase"], "Terminating");
}

async fn nothing_new_in_a_terminating_namespace(c: Cluster) {
    let (ns, _) = terminating(&c).await;
    for (path, object, resource) in [
        (core(&ns, "configmaps"), config_map("a"), "configmaps"),
        (
            of("apps/v1", &ns, "deployments"),
            deployment("a"),
            "deployments.apps",
        ),
    ] {
        // The server may need a moment to learn of it.
        let reply = soon("creation is refused", async || {
            let reply = c.api().post(&format!("{path}?dryRun=All"), &object).await;
            (reply.status != 201).then_some(reply)
        })
        .await;
        reply.expect_error(403, "Forbidden");
        let message = format!(
            "{resource} \"a\" is forbidden: unable to create new content in namespace {ns} because it is being terminated"
        );
        reply.check(reply.message() == message, "another message");
        let causes = reply.causes();
        reply.check(causes.len() == 1, "expected one cause");
        assert_eq!(
            (&*causes[0].reason, &*causes[0].field),
            ("NamespaceTerminating", "metadata.namespace")
        );
        assert_eq!(causes[0].message, format!("namespace {ns} is being terminated"));
    }
}

async fn what_is_there_can_still_change(c: Cluster) {
    let (ns, _) = terminating(&c).await;
    let answer = c
        .api()
        .patch(&core(&ns, "configmaps/held"), MERGE, json!({"data": {"k": "v"}}))
        .await
        .expect(200);
    assert_eq!(answer["data"]["k"], "v");
}

async fn name_of_a_terminating_namespace_is_taken(c: Cluster) {
    let (ns, _) = terminating(&c).await;
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ns}});
    let reply = c.api().post("/api/v1/namespaces", body).await;
    reply.expect_error(409, "AlreadyExists");
    let message = format!("object is being deleted: namespaces \"{ns}\" already exists");
    reply.check(reply.message() == message, "another message");
}

async fn system_namespaces_may_not_be_deleted(c: Cluster) {
    for ns in ["default", "kube-system", "kube-public"] {
        let reply = c.api().delete(&path(ns), ()).await;
        reply.expect_error(403, "Forbidden");
        let message = format!("namespaces \"{ns}\" is forbidden: this namespace may not be deleted");
        reply.check(reply.message() == message, "another message");
        let namespace = c.api().get(&path(ns)).await.expect(200);
        assert_eq!(namespace["status"]["phase"], "Active");
    }
}

async fn assert_goes(c: &Cluster, path: &str) {
    soon(&format!("{path} is gone"), async || {
        (c.api().get(path).await.status == 404).then_some(())
    })
    .await;
}

async fn contents_go_with_it(c: Cluster) {
    let ns = c.namespace().await;
    create(&c, &core(&ns, "configmaps"), &config_map("a")).await;
    create(&c, &of("apps/v1", &ns, "deployments"), &deployment("a")).await;
    c.api().delete(&path(&ns), ()).await.expect(200);
    assert_goes(&c, &path(&ns)).await;
    for gone in [core(&ns, "configmaps/a"), of("apps/v1", &ns, "deployments/a")] {
        c.api().get(&gone).await.expect_error(404, "NotFound");
    }
    // The name is free, and nothing of the old one is in the new one.
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ns}});
    create(&c, "/api/v1/namespaces", &body).await;
    let list = c.api().get(&core(&ns, "configmaps")).await.expect(200);
    assert_eq!(list["items"], json!([]));
}

async fn finalizer_inside_holds_it(c: Cluster) {
    let ns = c.namespace().await;
    let configmaps = core(&ns, "configmaps");
    create(&c, &configmaps, &config_map("free")).await;
    create(&c, &configmaps, &held(config_map("held"))).await;
    c.api().delete(&path(&ns), ()).await.expect(200);
    assert_goes(&c, &format!("{configmaps}/free")).await;
    let namespace = soon("the namespace says what remains", async || {
        let namespace = c.api().get(&path(&ns)).await.expect(200);
        (condition(&namespace, "NamespaceContentRemaining") == "True").then_some(namespace)
    })
    .await;
    assert_eq!(condition(&namespace, "NamespaceFinalizersRemaining"), "True");
    assert_eq!(namespace["status"]["phase"], "Terminating");
    let object = c.api().get(&format!("{configmaps}/held")).await.expect(200);
    assert!(is_marked(&object), "{object:#}");
    let change = json!({"metadata": {"finalizers": null}});
    c.api()
        .patch(&format!("{configmaps}/held"), MERGE, change)
        .await
        .expect(200);
    assert_goes(&c, &path(&ns)).await;
}

/// The status of a condition, or nothing.
fn condition<'a>(object: &'a Value, kind: &str) -> &'a str {
    let conditions = object["status"]["conditions"].as_array();
    let found = conditions.into_iter().flatten().find(|c| c["type"] == kind);
    found.and_then(|c| c["status"].as_str()).unwrap_or_default()
}

async fn graceful_pod_inside_holds_it(c: Cluster) {
    let ns = c.namespace().await;
    let pod = core(&ns, "pods/a");
    create(&c, &core(&ns, "pods"), &bound_pod("a")).await;
    c.api().delete(&path(&ns), ()).await.expect(200);
    soon("the pod is marked", async || {
        is_marked(&c.api().get(&pod).await.expect(200)).then_some(())
    })
    .await;
    let marked = c.api().get(&pod).await.expect(200);
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 30);
    c.api().get(&path(&ns)).await.expect(200);
    let forced = format!("{pod}?gracePeriodSeconds=0");
    c.api().delete(&forced, ()).await.expect(200);
    assert_goes(&c, &pod).await;
}
