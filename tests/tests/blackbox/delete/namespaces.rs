//! A namespace is deleted in two steps: it is Terminating until all that is in it is gone.

use coxswain_tests::{Cluster, Need, Test, test, time};
use serde_json::{Value, json};

use crate::support::{
    MERGE, SOON, bound_pod, config_map, core, create, deployment, finalizers, held, is_marked, of, soon,
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
        test!(conditions_say_what_remains).needs(Need::Kcm),
        test!(pods_go_before_all_else).needs(Need::Kcm).since(1, 33),
        test!(held_pod_keeps_all_else).needs(Need::Kcm).since(1, 33),
        test!(others_may_hold_it_too).needs(Need::Kcm),
        test!(finalize_takes_what_holds_it),
        test!(finalize_is_an_update),
        test!(finalize_of_odd_names),
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

/// Type, status, reason and message of the conditions.
fn conditions(namespace: &Value) -> Vec<[&str; 4]> {
    namespace["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|c| ["type", "status", "reason", "message"].map(|field| c[field].as_str().unwrap_or_default()))
        .collect()
}

const GOOD: [[&str; 4]; 5] = [
    [
        "NamespaceDeletionDiscoveryFailure",
        "False",
        "ResourcesDiscovered",
        "All resources successfully discovered",
    ],
    [
        "NamespaceDeletionGroupVersionParsingFailure",
        "False",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ],
    [
        "NamespaceDeletionContentFailure",
        "False",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ],
    [
        "NamespaceContentRemaining",
        "False",
        "ContentRemoved",
        "All content successfully removed",
    ],
    [
        "NamespaceFinalizersRemaining",
        "False",
        "ContentHasNoFinalizers",
        "All content-preserving finalizers finished",
    ],
];

async fn conditions_say_what_remains(c: Cluster) {
    let ns = c.namespace().await;
    for name in ["a", "b"] {
        create(&c, &core(&ns, "configmaps"), &held(config_map(name))).await;
    }
    create(&c, &of("apps/v1", &ns, "deployments"), &held(deployment("a"))).await;
    c.api().delete(&path(&ns), ()).await.expect(200);
    let expected = [
        GOOD[0],
        GOOD[1],
        GOOD[2],
        [
            "NamespaceContentRemaining",
            "True",
            "SomeResourcesRemain",
            "Some resources are remaining: configmaps. has 2 resource instances, deployments.apps has 1 resource instances",
        ],
        [
            "NamespaceFinalizersRemaining",
            "True",
            "SomeFinalizersRemain",
            "Some content in the namespace has finalizers remaining: example.com/hold in 3 resource instances",
        ],
    ];
    // A real server's controller may not find all kinds at first, while those of other tests come and go.
    let mut last = Value::Null;
    let told = time::eventually(SOON, async || {
        last = c.api().get(&path(&ns)).await.expect(200);
        (conditions(&last) == expected).then_some(())
    });
    assert!(told.await.is_some(), "expected {expected:#?}: {last:#}");
    for released in [core(&ns, "configmaps/a"), of("apps/v1", &ns, "deployments/a")] {
        let change = json!({"metadata": {"finalizers": null}});
        c.api().patch(&released, MERGE, change).await.expect(200);
    }
    let message = "Some resources are remaining: configmaps. has 1 resource instances";
    soon("the namespace says what still remains", async || {
        let namespace = c.api().get(&path(&ns)).await.expect(200);
        conditions(&namespace)
            .iter()
            .any(|c| c[3] == message)
            .then_some(())
    })
    .await;
}

async fn pods_go_before_all_else(c: Cluster) {
    let ns = c.namespace().await;
    let pod = core(&ns, "pods/a");
    create(&c, &core(&ns, "pods"), &bound_pod("a")).await;
    create(&c, &core(&ns, "configmaps"), &config_map("a")).await;
    c.api().delete(&path(&ns), ()).await.expect(200);
    let namespace = soon("the namespace has conditions", async || {
        let namespace = c.api().get(&path(&ns)).await.expect(200);
        (!conditions(&namespace).is_empty()).then_some(namespace)
    })
    .await;
    // Of what is not deleted yet, nothing is said.
    assert_eq!(conditions(&namespace), GOOD);
    assert!(is_marked(&c.api().get(&pod).await.expect(200)));
    // What the pod may use is there as long as the pod is.
    let map = c.api().get(&core(&ns, "configmaps/a")).await.expect(200);
    assert!(!is_marked(&map), "{map:#}");
    c.api()
        .delete(&format!("{pod}?gracePeriodSeconds=0"), ())
        .await
        .expect(200);
    assert_goes(&c, &core(&ns, "configmaps/a")).await;
    assert_goes(&c, &path(&ns)).await;
}

async fn held_pod_keeps_all_else(c: Cluster) {
    let ns = c.namespace().await;
    create(&c, &core(&ns, "pods"), &held(crate::support::pod("a"))).await;
    create(&c, &core(&ns, "configmaps"), &config_map("a")).await;
    c.api().delete(&path(&ns), ()).await.expect(200);
    soon("the pod is marked", async || {
        is_marked(&c.api().get(&core(&ns, "pods/a")).await.expect(200)).then_some(())
    })
    .await;
    let namespace = soon("the namespace has conditions", async || {
        let namespace = c.api().get(&path(&ns)).await.expect(200);
        (!conditions(&namespace).is_empty()).then_some(namespace)
    })
    .await;
    assert_eq!(conditions(&namespace), GOOD);
    assert!(!is_marked(
        &c.api().get(&core(&ns, "configmaps/a")).await.expect(200)
    ));
    let change = json!({"metadata": {"finalizers": null}});
    c.api()
        .patch(&core(&ns, "pods/a"), MERGE, change)
        .await
        .expect(200);
    assert_goes(&c, &path(&ns)).await;
}

async fn others_may_hold_it_too(c: Cluster) {
    let ns = format!("{}-held", c.namespace().await);
    let spec = json!({"finalizers": ["example.com/other"]});
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ns}, "spec": spec});
    let made = create(&c, "/api/v1/namespaces", &body).await;
    assert_eq!(
        made["spec"]["finalizers"],
        json!(["example.com/other", "kubernetes"])
    );
    create(&c, &core(&ns, "configmaps"), &config_map("a")).await;
    c.api().delete(&path(&ns), ()).await.expect(200);
    let emptied = soon("it is emptied", async || {
        let namespace = c.api().get(&path(&ns)).await.expect(200);
        (namespace["spec"]["finalizers"] == json!(["example.com/other"])).then_some(namespace)
    })
    .await;
    assert_eq!(emptied["status"]["phase"], "Terminating");
    assert_eq!(conditions(&emptied), GOOD);
    c.api()
        .get(&core(&ns, "configmaps/a"))
        .await
        .expect_error(404, "NotFound");
    let again = c.api().delete(&path(&ns), ()).await.expect(200);
    assert_eq!(again["spec"]["finalizers"], json!(["example.com/other"]));
    let mut freed = emptied.clone();
    freed["spec"] = json!({});
    c.api()
        .put(&format!("{}/finalize", path(&ns)), freed)
        .await
        .expect(200);
    assert_goes(&c, &path(&ns)).await;
}

/// A namespace that nothing holds goes at once, whatever is in it.
async fn finalize_takes_what_holds_it(c: Cluster) {
    let ns = c.namespace().await;
    create(&c, &core(&ns, "configmaps"), &config_map("a")).await;
    let namespace = c.api().get(&path(&ns)).await.expect(200);
    let mut freed = namespace.clone();
    freed["spec"] = json!({"finalizers": []});
    let answer = c
        .api()
        .put(&format!("{}/finalize", path(&ns)), freed)
        .await
        .expect(200);
    assert_eq!(answer["spec"], json!({}));
    assert_eq!(answer["status"]["phase"], "Active");
    let marked = c.api().delete(&path(&ns), ()).await.expect(200);
    assert_eq!(marked["status"]["phase"], "Terminating");
    // The first request only marks it.
    c.api().delete(&path(&ns), ()).await.expect(200);
    assert_goes(&c, &path(&ns)).await;
}

async fn finalize_is_an_update(c: Cluster) {
    let ns = c.namespace().await;
    let before = c.api().get(&path(&ns)).await.expect(200);
    let finalize = format!("{}/finalize", path(&ns));
    let mut change = before.clone();
    change["metadata"]["labels"]["team"] = "blue".into();
    change["spec"] = json!({"finalizers": ["kubernetes", "example.com/other"]});
    change["status"] = json!({"phase": "Terminating"});
    let dry = c
        .api()
        .put(&format!("{finalize}?dryRun=All"), &change)
        .await
        .expect(200);
    assert_eq!(
        dry["spec"]["finalizers"],
        json!(["kubernetes", "example.com/other"])
    );
    assert_eq!(c.api().get(&path(&ns)).await.expect(200), before);
    let changed = c.api().put(&finalize, &change).await.expect(200);
    assert_eq!(changed["metadata"]["labels"]["team"], "blue");
    assert_eq!(changed["status"], json!({"phase": "Active"}));
    assert_eq!(
        changed["spec"]["finalizers"],
        json!(["kubernetes", "example.com/other"])
    );
    // It was made for an older version.
    crate::expect::stale(&c.api().put(&finalize, &change).await, "namespaces", &ns);
    c.api().get(&finalize).await.expect_error(405, "MethodNotAllowed");
}

async fn finalize_of_odd_names(c: Cluster) {
    let ns = c.namespace().await;
    let before = c.api().get(&path(&ns)).await.expect(200);
    let mut odd = before.clone();
    odd["spec"] = json!({"finalizers": ["kubernetes", "odd"]});
    let reply = c.api().put(&format!("{}/finalize", path(&ns)), odd).await;
    let why = "name is neither a standard finalizer name nor is it fully qualified";
    crate::expect::invalid(&reply, &[&format!("Invalid spec.finalizers[1]: {why}")]);
    assert_eq!(c.api().get(&path(&ns)).await.expect(200), before);
}
