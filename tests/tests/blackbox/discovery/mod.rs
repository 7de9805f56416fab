//! Discovery: what a client finds out before it sends its first object, and what it gets for a path that leads nowhere.

use coxswain_tests::{Cluster, Reply, Test, test};
use http::Method;
use serde_json::{Value, json};

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    vec![
        test!(version_is_a_json_object_of_texts),
        test!(health_says_ok_in_plain_text),
        test!(core_has_one_version),
        test!(group_list_names_the_groups),
        test!(newer_groups_are_served).since(1, 29),
        test!(group_has_versions_and_a_preferred_one),
        test!(core_resources),
        test!(apps_resources),
        test!(batch_resources).since(1, 21),
        test!(review_resources),
        test!(what_is_stored_says_in_which_version),
        test!(trailing_slashes_do_not_matter),
        // Before, the answer was 404 with a list of the paths there are.
        test!(unknown_path_is_a_plain_404).since(1, 23),
        test!(unknown_group_is_a_plain_404),
        test!(unknown_resource_of_a_known_group_is_a_status),
        test!(method_that_a_path_does_not_have_is_405),
        test!(all_in_one_document).since(1, 30),
        test!(all_in_one_goes_before_one_by_one).since(1, 30),
        test!(whoever_has_it_is_spared_a_copy).since(1, 30),
        test!(custom_resources_are_in_it_while_they_are_served).since(1, 30),
    ]
}

/// Rows of resource lists: name, singular name, scope, kind, verbs, short name, category; `-` is nothing.
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

async fn version_is_a_json_object_of_texts(c: Cluster) {
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

async fn health_says_ok_in_plain_text(c: Cluster) {
    for path in ["/healthz", "/livez", "/readyz"] {
        let reply = c.api().get(path).await;
        reply.check(reply.status == 200 && reply.text() == "ok", "expected a plain ok");
        reply.check(is_plain_text(&reply), "expected plain text");
    }
}

async fn core_has_one_version(c: Cluster) {
    let versions = c.read("/api").await;
    assert_eq!(versions["kind"], "APIVersions");
    assert_eq!(versions["versions"], json!(["v1"]));
}

async fn group_list_names_the_groups(c: Cluster) {
    let served = served_versions(&c).await;
    for wanted in [
        "admissionregistration.k8s.io/v1",
        "apiextensions.k8s.io/v1",
        "apps/v1",
        "batch/v1",
        "coordination.k8s.io/v1",
        "events.k8s.io/v1",
        "networking.k8s.io/v1",
        "rbac.authorization.k8s.io/v1",
        "scheduling.k8s.io/v1",
    ] {
        assert!(
            served.iter().any(|version| version == wanted),
            "{wanted} is not in {served:?}"
        );
    }
}

/// policy/v1 came with 1.21, autoscaling/v2 with 1.23, flowcontrol/v1 with 1.29.
async fn newer_groups_are_served(c: Cluster) {
    let served = served_versions(&c).await;
    for wanted in ["policy/v1", "autoscaling/v2", "flowcontrol.apiserver.k8s.io/v1"] {
        assert!(
            served.iter().any(|version| version == wanted),
            "{wanted} is not in {served:?}"
        );
    }
}

async fn group_has_versions_and_a_preferred_one(c: Cluster) {
    let group = c.read("/apis/apps").await;
    let version = json!({"groupVersion": "apps/v1", "version": "v1"});
    assert_eq!(
        group,
        json!({"kind": "APIGroup", "apiVersion": "v1", "name": "apps", "versions": [version], "preferredVersion": version}),
    );
}

async fn core_resources(c: Cluster) {
    assert_rows(&c, "/api/v1", CORE).await;
}

async fn apps_resources(c: Cluster) {
    let list = assert_rows(&c, "/apis/apps/v1", APPS).await;
    // A scale is of another group than the list it stands in.
    let scales = list.iter().filter(|row| row["kind"] == "Scale");
    assert!(
        scales
            .clone()
            .all(|row| row["group"] == "autoscaling" && row["version"] == "v1"),
        "{list:#?}"
    );
    assert_eq!(scales.count(), 3);
}

async fn batch_resources(c: Cluster) {
    assert_rows(&c, "/apis/batch/v1", BATCH).await;
}

async fn review_resources(c: Cluster) {
    assert_rows(&c, "/apis/authentication.k8s.io/v1", TOKENS).await;
    assert_rows(&c, "/apis/authorization.k8s.io/v1", REVIEWS).await;
}

async fn trailing_slashes_do_not_matter(c: Cluster) {
    for path in [
        "/version",
        "/api",
        "/api/v1",
        "/apis",
        "/apis/apps",
        "/apis/apps/v1",
    ] {
        // Groups of other tests come and go meanwhile.
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

async fn unknown_resource_of_a_known_group_is_a_status(c: Cluster) {
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

async fn method_that_a_path_does_not_have_is_405(c: Cluster) {
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

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

async fn get_as(c: &Cluster, path: &str, accept: &str) -> Reply {
    c.api()
        .request(Method::GET, path, &[("accept", accept)], ())
        .await
}

async fn all_in_one_document(c: Cluster) {
    let core = get_as(&c, "/api", AGGREGATED).await;
    core.check(core.header("content-type") == Some(AGGREGATED), "another type");
    let core = core.expect(200);
    assert_eq!(
        (&core["kind"], &core["apiVersion"], &core["metadata"]),
        (
            &json!("APIGroupDiscoveryList"),
            &json!("apidiscovery.k8s.io/v2"),
            &json!({})
        )
    );
    assert_eq!(core["items"].as_array().map(Vec::len), Some(1));
    let v1 = &core["items"][0]["versions"][0];
    assert_eq!(
        (&v1["version"], &v1["freshness"]),
        (&json!("v1"), &json!("Current"))
    );
    // Kinds of the resource's own group and version do not repeat them.
    let namespaces = resource(v1, "namespaces");
    assert_eq!(
        namespaces,
        &json!({
            "resource": "namespaces",
            "responseKind": {"group": "", "version": "", "kind": "Namespace"},
            "scope": "Cluster",
            "singularResource": "namespace",
            "verbs": ["create", "delete", "get", "list", "patch", "update", "watch"],
            "shortNames": ["ns"],
            "subresources": [
                {
                    "subresource": "finalize",
                    "responseKind": {"group": "", "version": "", "kind": "Namespace"},
                    "verbs": ["update"],
                },
                {
                    "subresource": "status",
                    "responseKind": {"group": "", "version": "", "kind": "Namespace"},
                    "verbs": ["get", "patch", "update"],
                },
            ],
        })
    );
    let groups = get_as(&c, "/apis", AGGREGATED).await.expect(200);
    let names: Vec<&str> = groups["items"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|item| item["metadata"]["name"].as_str())
        .collect();
    let plain = c.read("/apis").await;
    let listed: Vec<&str> = plain["groups"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|group| group["name"].as_str())
        .collect();
    let built_in = |names: Vec<&str>| -> Vec<String> {
        names
            .into_iter()
            .filter(|name| !name.ends_with("example.com"))
            .map(str::to_owned)
            .collect()
    };
    assert_eq!(built_in(names), built_in(listed));
    let apps = groups["items"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|item| item["metadata"]["name"] == "apps")
        .expect("apps is served");
    let deployments = resource(&apps["versions"][0], "deployments");
    assert_eq!(
        deployments,
        &json!({
            "resource": "deployments",
            "responseKind": {"group": "", "version": "", "kind": "Deployment"},
            "scope": "Namespaced",
            "singularResource": "deployment",
            "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
            "shortNames": ["deploy"],
            "categories": ["all"],
            "subresources": [
                {
                    "subresource": "scale",
                    "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
                    "verbs": ["get", "patch", "update"],
                },
                {
                    "subresource": "status",
                    "responseKind": {"group": "", "version": "", "kind": "Deployment"},
                    "verbs": ["get", "patch", "update"],
                },
            ],
        })
    );
}

/// An entry of one version of an aggregated document.
#[track_caller]
fn resource<'a>(version: &'a Value, name: &str) -> &'a Value {
    let resources = version["resources"].as_array();
    let found = resources
        .into_iter()
        .flatten()
        .find(|entry| entry["resource"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {version:#}"))
}

async fn all_in_one_goes_before_one_by_one(c: Cluster) {
    let unknown = "application/json;g=apidiscovery.k8s.io;v=v9;as=APIGroupDiscoveryList";
    for (accept, kind) in [
        (format!("{AGGREGATED},application/json"), "APIGroupDiscoveryList"),
        // Whoever would take it gets it.
        (format!("application/json,{AGGREGATED}"), "APIGroupDiscoveryList"),
        (format!("{unknown},{AGGREGATED}"), "APIGroupDiscoveryList"),
        (format!("{unknown},application/json"), "APIGroupList"),
        (
            format!("{AGGREGATED};q=0.5,application/json;q=0.9"),
            "APIGroupDiscoveryList",
        ),
        ("*/*".to_owned(), "APIGroupList"),
    ] {
        let reply = get_as(&c, "/apis", &accept).await;
        let document = reply.expect(200);
        reply.check(document["kind"] == kind, &format!("expected {kind} for {accept}"));
    }
    get_as(&c, "/apis", unknown)
        .await
        .expect_error(406, "NotAcceptable");
    // Below, there is no such form.
    get_as(&c, "/apis/apps", AGGREGATED)
        .await
        .expect_error(406, "NotAcceptable");
}

async fn whoever_has_it_is_spared_a_copy(c: Cluster) {
    let reply = get_as(&c, "/api", AGGREGATED).await;
    reply.expect(200);
    let tag = reply.header("etag").unwrap_or_default().to_owned();
    let hash = tag.trim_matches('"');
    let hexadecimal = |c: char| c.is_ascii_digit() || ('A'..='F').contains(&c);
    reply.check(
        hash.len() == 128 && hash.chars().all(hexadecimal) && tag.starts_with('"'),
        "expected a hash in quotes",
    );
    reply.check(
        reply.header("cache-control") == Some("public"),
        "expected to be cached",
    );
    reply.check(
        reply.header("vary").is_some_and(|vary| vary.contains("Accept")),
        "expected Vary",
    );
    let headers = [("accept", AGGREGATED), ("if-none-match", tag.as_str())];
    let again = c.api().request(Method::GET, "/api", &headers, ()).await;
    again.check(
        again.status == 304 && again.body.is_empty(),
        "expected nothing new",
    );
    let headers = [("accept", AGGREGATED), ("if-none-match", "\"other\"")];
    c.api()
        .request(Method::GET, "/api", &headers, ())
        .await
        .expect(200);
}

async fn custom_resources_are_in_it_while_they_are_served(c: Cluster) {
    let ns = c.namespace().await;
    let group = format!("{ns}.example.com");
    let version = |name: &str, storage: bool| {
        json!({
            "name": name,
            "served": true,
            "storage": storage,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            "subresources": {"status": {}, "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
            }},
        })
    };
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("widgets.{group}")},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {
                "plural": "widgets",
                "singular": "widget",
                "kind": "Widget",
                "shortNames": ["wd"],
                "categories": ["gadgets"],
            },
            "versions": [version("v1beta1", false), version("v1", true)],
        },
    });
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    c.create(path, crd).await;
    let item = async || {
        let all = get_as(&c, "/apis", AGGREGATED).await.expect(200);
        let items = all["items"].as_array().cloned().unwrap_or_default();
        items.into_iter().find(|item| item["metadata"]["name"] == group)
    };
    let found = crate::support::soon("the group is listed with both versions", async || {
        item()
            .await
            .filter(|item| item["versions"].as_array().map(Vec::len) == Some(2))
    })
    .await;
    assert_eq!(found["versions"][0]["version"], "v1");
    assert_eq!(found["versions"][1]["version"], "v1beta1");
    assert_eq!(found["versions"][0]["freshness"], "Current");
    let kind = json!({"group": group, "version": "v1", "kind": "Widget"});
    let part = json!(["get", "patch", "update"]);
    assert_eq!(
        found["versions"][0]["resources"],
        json!([{
            "resource": "widgets",
            "responseKind": kind,
            "scope": "Namespaced",
            "singularResource": "widget",
            "verbs": ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"],
            "shortNames": ["wd"],
            "categories": ["gadgets"],
            "subresources": [
                {"subresource": "status", "responseKind": kind, "verbs": part},
                {
                    "subresource": "scale",
                    "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
                    "verbs": part,
                },
            ],
        }])
    );
    c.delete(&format!("{path}/widgets.{group}")).await;
    crate::support::soon("the group is gone", async || item().await.is_none().then_some(())).await;
}

/// Every `groupVersion` of the group list.
async fn served_versions(c: &Cluster) -> Vec<String> {
    let list = c.read("/apis").await;
    assert_eq!(
        (&list["kind"], &list["apiVersion"]),
        (&json!("APIGroupList"), &json!("v1"))
    );
    let groups = list["groups"].as_array().expect("groups is a list");
    let versions = groups
        .iter()
        .flat_map(|group| group["versions"].as_array().expect("versions is a list"));
    versions
        .map(|version| {
            version["groupVersion"]
                .as_str()
                .expect("groupVersion is a text")
                .to_owned()
        })
        .collect()
}

fn is_plain_text(reply: &Reply) -> bool {
    reply.header("content-type") == Some("text/plain; charset=utf-8")
}

#[track_caller]
fn assert_plain_404(reply: &Reply) {
    let plain = reply.status == 404 && is_plain_text(reply) && reply.text() == "404 page not found\n";
    reply.check(plain, "expected the plain-text 404");
}

/// Asserts that the resource list at `path` has each row of `table` as it stands there; returns all its rows.
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

/// A column as a list of one or none.
fn optional(column: &str) -> Vec<&str> {
    Some(column).filter(|text| *text != "-").into_iter().collect()
}

/// By a hash, which is the same for all versions of a resource.
async fn what_is_stored_says_in_which_version(c: Cluster) {
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
