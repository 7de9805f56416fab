//! Discovery: groups, versions and resources, and the answers for unknown paths.

mod aggregated;

use coxswain_tests::{Cluster, Reply, Test, test};
use http::Method;
use serde_json::{Value, json};

/// The tests of this folder.
pub fn tests() -> Vec<Test> {
    let tests = vec![
        test!(version_has_fields_of_a_release),
        test!(health_endpoints_return_ok),
        test!(core_group_has_one_version),
        test!(group_list_contains_stable_groups),
        test!(group_has_versions_and_preferred_version),
        test!(resource_lists_contain_built_in_resources),
        test!(storage_version_hash_is_stable),
        test!(trailing_slash_is_ignored),
        // Before, the answer was 404 with a list of all paths.
        test!(unknown_path_is_a_plain_404).since(1, 23),
        test!(unknown_group_is_a_plain_404),
        test!(unknown_resource_of_known_group_is_a_status),
        test!(unsupported_method_is_405),
    ];
    [tests, aggregated::tests()].concat()
}

/// Rows of resource lists: name, singular name, scope, kind, verbs, short name, category. `-` means none.
const CORE: &str = "
    configmaps                   configmap             Namespaced ConfigMap             all    cm    -
    events                       event                 Namespaced Event                 all    ev    -
    namespaces                   namespace             Cluster    Namespace             single ns    -
    namespaces/finalize          -                     Cluster    Namespace             update -     -
    namespaces/status            -                     Cluster    Namespace             part   -     -
    nodes                        node                  Cluster    Node                  all    no    -
    nodes/status                 -                     Cluster    Node                  part   -     -
    persistentvolumeclaims       persistentvolumeclaim Namespaced PersistentVolumeClaim all    pvc   -
    pods                         pod                   Namespaced Pod                   all    po    all
    pods/binding                 -                     Namespaced Binding               create -     -
    pods/eviction                -                     Namespaced Eviction              create -     -
    pods/status                  -                     Namespaced Pod                   part   -     -
    replicationcontrollers       replicationcontroller Namespaced ReplicationController all    rc    all
    replicationcontrollers/scale -                     Namespaced Scale                 part   -     -
    resourcequotas               resourcequota         Namespaced ResourceQuota         all    quota -
    secrets                      secret                Namespaced Secret                all    -     -
    serviceaccounts              serviceaccount        Namespaced ServiceAccount        all    sa    -
    serviceaccounts/token        -                     Namespaced TokenRequest          create -     -
    services/status              -                     Namespaced Service               part   -     -
";
const APPS: &str = "
    controllerrevisions controllerrevision Namespaced ControllerRevision all  -      -
    daemonsets          daemonset          Namespaced DaemonSet          all  ds     all
    daemonsets/status   -                  Namespaced DaemonSet          part -      -
    deployments         deployment         Namespaced Deployment         all  deploy all
    deployments/scale   -                  Namespaced Scale              part -      -
    deployments/status  -                  Namespaced Deployment         part -      -
    replicasets         replicaset         Namespaced ReplicaSet         all  rs     all
    replicasets/scale   -                  Namespaced Scale              part -      -
    replicasets/status  -                  Namespaced ReplicaSet         part -      -
    statefulsets        statefulset        Namespaced StatefulSet        all  sts    all
    statefulsets/scale  -                  Namespaced Scale              part -      -
    statefulsets/status -                  Namespaced StatefulSet        part -      -
";
const TOKENS: &str = "
    tokenreviews tokenreview Cluster TokenReview create - -
";
const REVIEWS: &str = "
    localsubjectaccessreviews localsubjectaccessreview Namespaced LocalSubjectAccessReview create - -
    selfsubjectaccessreviews  selfsubjectaccessreview  Cluster    SelfSubjectAccessReview  create - -
    selfsubjectrulesreviews   selfsubjectrulesreview   Cluster    SelfSubjectRulesReview   create - -
    subjectaccessreviews      subjectaccessreview      Cluster    SubjectAccessReview      create - -
";
const BATCH: &str = "
    cronjobs        cronjob Namespaced CronJob all  cj all
    cronjobs/status -       Namespaced CronJob part -  -
    jobs            job     Namespaced Job     all  -  all
    jobs/status     -       Namespaced Job     part -  -
";

async fn version_has_fields_of_a_release(c: Cluster) {
    let version = c.read("/version").await;
    for field in ["major", "minor", "gitVersion", "platform"] {
        assert!(
            version[field].as_str().is_some_and(|text| !text.is_empty()),
            "{field} of {version:#}"
        );
    }
    let (major, minor) = c.version();
    let git_version = version["gitVersion"].as_str().unwrap_or_default();
    assert!(
        git_version.starts_with(&format!("v{major}.{minor}.")),
        "{git_version}"
    );
}

async fn health_endpoints_return_ok(c: Cluster) {
    for path in ["/healthz", "/livez", "/readyz"] {
        let reply = c.api().get(path).await;
        reply.check(reply.status == 200 && reply.text() == "ok", "expected a plain ok");
        reply.check(is_plain_text(&reply), "expected plain text");
    }
}

async fn core_group_has_one_version(c: Cluster) {
    let versions = c.read("/api").await;
    assert_eq!(versions["kind"], "APIVersions");
    assert_eq!(versions["versions"], json!(["v1"]));
}

/// Each group with the release in which it became stable.
async fn group_list_contains_stable_groups(c: Cluster) {
    let served = served_versions(&c).await;
    for (minor, version) in [
        (16, "admissionregistration.k8s.io/v1"),
        (16, "apiextensions.k8s.io/v1"),
        (9, "apps/v1"),
        (2, "batch/v1"),
        (14, "coordination.k8s.io/v1"),
        (19, "events.k8s.io/v1"),
        (7, "networking.k8s.io/v1"),
        (8, "rbac.authorization.k8s.io/v1"),
        (14, "scheduling.k8s.io/v1"),
        (21, "policy/v1"),
        (23, "autoscaling/v2"),
        (29, "flowcontrol.apiserver.k8s.io/v1"),
    ] {
        let expected = c.version() >= (1, minor);
        assert!(
            !expected || served.iter().any(|it| it == version),
            "{version} is not in {served:?}"
        );
    }
}

async fn group_has_versions_and_preferred_version(c: Cluster) {
    let group = c.read("/apis/apps").await;
    let version = json!({"groupVersion": "apps/v1", "version": "v1"});
    assert_eq!(
        group,
        json!({"kind": "APIGroup", "apiVersion": "v1", "name": "apps", "versions": [version], "preferredVersion": version}),
    );
}

async fn resource_lists_contain_built_in_resources(c: Cluster) {
    assert_rows(&c, "/api/v1", CORE).await;
    assert_rows(&c, "/apis/authentication.k8s.io/v1", TOKENS).await;
    assert_rows(&c, "/apis/authorization.k8s.io/v1", REVIEWS).await;
    if c.version() >= (1, 21) {
        assert_rows(&c, "/apis/batch/v1", BATCH).await;
    }
    let list = assert_rows(&c, "/apis/apps/v1", APPS).await;
    // The group of a scale is not that of the list.
    let scales = list.iter().filter(|row| row["kind"] == "Scale");
    let groups: Vec<(&Value, &Value)> = scales.map(|row| (&row["group"], &row["version"])).collect();
    assert_eq!(groups, [(&json!("autoscaling"), &json!("v1")); 3]);
}

async fn trailing_slash_is_ignored(c: Cluster) {
    for path in [
        "/version",
        "/api",
        "/api/v1",
        "/apis",
        "/apis/apps",
        "/apis/apps/v1",
    ] {
        // Other tests create and delete groups.
        let get = async |path: &str| {
            let mut document = c.read(path).await;
            if let Some(groups) = document["groups"].as_array_mut() {
                let name = |group: &Value| group["name"].as_str().unwrap_or_default().to_owned();
                groups.retain(|group| !name(group).ends_with(".example.com"));
            }
            document
        };
        assert_eq!(get(path).await, get(&format!("{path}/")).await, "{path}");
    }
}

async fn unknown_path_is_a_plain_404(c: Cluster) {
    for path in ["/nope", "/nope?watch=1", "/healthz/nope", "/livez/nope"] {
        assert_plain_404(&c.api().get(path).await);
    }
    assert_plain_404(&c.api().post("/nope", json!({})).await);
}

async fn unknown_group_is_a_plain_404(c: Cluster) {
    for path in [
        "/apis/nope.example.com",
        "/apis/nope.example.com/v1",
        "/apis/nope.example.com/v1/things",
    ] {
        assert_plain_404(&c.api().get(path).await);
    }
}

async fn unknown_resource_of_known_group_is_a_status(c: Cluster) {
    for path in [
        "/api/v2",
        "/api/v1/nopes",
        "/api/v1/namespaces/default/nopes",
        "/api/v1/namespaces/default/pods/a/nope",
        "/apis/apps/v9",
        "/apis/apps/v1/nopes",
        "/apis/apps/v1/namespaces/default/nopes/a",
    ] {
        let reply = c.api().get(path).await;
        reply.expect_error(404, "NotFound");
        reply.check(
            reply.message() == "the server could not find the requested resource",
            "another message",
        );
        reply.check(reply.json()["details"] == json!({}), "expected empty details");
    }
}

async fn unsupported_method_is_405(c: Cluster) {
    for (method, path) in [
        (Method::PUT, "/api/v1/namespaces/default/pods"),
        (Method::POST, "/api/v1/namespaces/default/pods/a"),
        (Method::DELETE, "/api/v1/namespaces"),
        (Method::DELETE, "/apis/apps/v1"),
    ] {
        let reply = c.api().request(method, path, &[], ()).await;
        reply.expect_error(405, "MethodNotAllowed");
        let message = "the server does not allow this method on the requested resource";
        reply.check(reply.message() == message, "another message");
    }
}

/// Returns each `groupVersion` of the group list.
async fn served_versions(c: &Cluster) -> Vec<String> {
    let list = c.read("/apis").await;
    assert_eq!(list["kind"], "APIGroupList");
    let groups = list["groups"].as_array().expect("a list of groups");
    let versions = groups.iter().filter_map(|group| group["versions"].as_array());
    let text = |version: &Value| version["groupVersion"].as_str().unwrap_or_default().to_owned();
    versions.flatten().map(text).collect()
}

fn is_plain_text(reply: &Reply) -> bool {
    reply.header("content-type") == Some("text/plain; charset=utf-8")
}

#[track_caller]
fn assert_plain_404(reply: &Reply) {
    let plain = reply.status == 404 && is_plain_text(reply) && reply.text() == "404 page not found\n";
    reply.check(plain, "expected the plain-text 404");
}

/// Asserts that the resource list at `path` contains each row of `table`. Returns all rows.
async fn assert_rows(c: &Cluster, path: &str, table: &str) -> Vec<Value> {
    let list = c.read(path).await;
    assert_eq!(list["kind"], "APIResourceList");
    assert_eq!(
        list["groupVersion"],
        path.trim_start_matches("/apis/").trim_start_matches("/api/")
    );
    let rows = list["resources"].as_array().expect("resources is a list");
    for line in table.lines().filter(|line| !line.trim().is_empty()) {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let [name, singular, scope, kind, verbs, short, category] = columns[..] else {
            panic!("a row has seven columns: {line}");
        };
        let verbs = match verbs {
            "all" => "create delete deletecollection get list patch update watch",
            "single" => "create delete get list patch update watch",
            "part" => "get patch update",
            verb => verb,
        };
        // Built-in kinds have their singular name in discovery since 1.27.
        let singular = if c.version() < (1, 27) { "-" } else { singular };
        let row = rows.iter().find(|row| row["name"] == name);
        let row = row.unwrap_or_else(|| panic!("no {name} in {list:#}"));
        let texts = |field: &str| row[field].as_array().cloned().unwrap_or_default();
        let same = row["singularName"] == singular.trim_matches('-')
            && row["namespaced"] == (scope == "Namespaced")
            && row["kind"] == kind
            && texts("verbs") == verbs.split(' ').collect::<Vec<_>>()
            && texts("shortNames") == optional(short)
            && texts("categories") == optional(category);
        assert!(same, "expected {line}, got {row:#}");
    }
    rows.clone()
}

/// A column as a list of at most one element.
fn optional(column: &str) -> Vec<&str> {
    Some(column).filter(|text| *text != "-").into_iter().collect()
}

/// The hash is the same for all versions of a resource.
async fn storage_version_hash_is_stable(c: Cluster) {
    for (path, resource, hash) in [
        ("/api/v1", "configmaps", json!("qFsyl6wFWjQ=")),
        ("/api/v1", "pods", json!("xPOwRZ+Yhw8=")),
        ("/api/v1", "pods/status", Value::Null),
        ("/apis/apps/v1", "deployments", json!("8aSe+NMegvE=")),
        ("/apis/events.k8s.io/v1", "events", json!("r2yiGXH7wu8=")),
        (
            "/apis/apiextensions.k8s.io/v1",
            "customresourcedefinitions",
            json!("jfWCUB31mvA="),
        ),
        (
            "/apis/authorization.k8s.io/v1",
            "subjectaccessreviews",
            Value::Null,
        ),
    ] {
        let list = c.read(path).await;
        let rows = list["resources"].as_array().expect("resources");
        let row = rows.iter().find(|row| row["name"] == resource).expect(resource);
        assert_eq!(row["storageVersionHash"], hash, "{resource}");
    }
}
