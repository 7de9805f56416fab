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
        test!(trailing_slashes_do_not_matter),
        // Before, the answer was 404 with a list of the paths there are.
        test!(unknown_path_is_a_plain_404).since(1, 23),
        test!(unknown_group_is_a_plain_404),
        test!(unknown_resource_of_a_known_group_is_a_status),
        test!(method_that_a_path_does_not_have_is_405),
    ]
}

const ALL: &str = "create delete deletecollection get list patch update watch";
const STATUS: &str = "get patch update";

async fn version_is_a_json_object_of_texts(c: Cluster) {
    let version = c.api().get("/version").await.expect(200);
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
    let versions = c.api().get("/api").await.expect(200);
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
    let group = c.api().get("/apis/apps").await.expect(200);
    let version = json!({"groupVersion": "apps/v1", "version": "v1"});
    assert_eq!(
        group,
        json!({"kind": "APIGroup", "apiVersion": "v1", "name": "apps", "versions": [version], "preferredVersion": version}),
    );
}

async fn core_resources(c: Cluster) {
    let list = c.api().get("/api/v1").await.expect(200);
    assert_eq!(
        (&list["kind"], &list["groupVersion"]),
        (&json!("APIResourceList"), &json!("v1"))
    );
    let rows = Rows {
        cluster: &c,
        list: &list,
    };
    rows.has("configmaps", "configmap", true, "ConfigMap", ALL, &["cm"], &[]);
    rows.has("events", "event", true, "Event", ALL, &["ev"], &[]);
    // No deletecollection: namespaces go one by one.
    let verbs = "create delete get list patch update watch";
    rows.has("namespaces", "namespace", false, "Namespace", verbs, &["ns"], &[]);
    rows.has("namespaces/finalize", "", false, "Namespace", "update", &[], &[]);
    rows.has("namespaces/status", "", false, "Namespace", STATUS, &[], &[]);
    rows.has("nodes", "node", false, "Node", ALL, &["no"], &[]);
    rows.has("nodes/status", "", false, "Node", STATUS, &[], &[]);
    rows.has(
        "persistentvolumeclaims",
        "persistentvolumeclaim",
        true,
        "PersistentVolumeClaim",
        ALL,
        &["pvc"],
        &[],
    );
    rows.has("pods", "pod", true, "Pod", ALL, &["po"], &["all"]);
    rows.has("pods/binding", "", true, "Binding", "create", &[], &[]);
    rows.has("pods/eviction", "", true, "Eviction", "create", &[], &[]);
    rows.has("pods/status", "", true, "Pod", STATUS, &[], &[]);
    rows.has(
        "replicationcontrollers",
        "replicationcontroller",
        true,
        "ReplicationController",
        ALL,
        &["rc"],
        &["all"],
    );
    rows.has(
        "replicationcontrollers/scale",
        "",
        true,
        "Scale",
        STATUS,
        &[],
        &[],
    );
    rows.has(
        "resourcequotas",
        "resourcequota",
        true,
        "ResourceQuota",
        ALL,
        &["quota"],
        &[],
    );
    rows.has("secrets", "secret", true, "Secret", ALL, &[], &[]);
    rows.has(
        "serviceaccounts",
        "serviceaccount",
        true,
        "ServiceAccount",
        ALL,
        &["sa"],
        &[],
    );
    rows.has("services/status", "", true, "Service", STATUS, &[], &[]);
}

async fn apps_resources(c: Cluster) {
    let list = c.api().get("/apis/apps/v1").await.expect(200);
    assert_eq!(
        (&list["kind"], &list["groupVersion"]),
        (&json!("APIResourceList"), &json!("apps/v1"))
    );
    let rows = Rows {
        cluster: &c,
        list: &list,
    };
    rows.has(
        "controllerrevisions",
        "controllerrevision",
        true,
        "ControllerRevision",
        ALL,
        &[],
        &[],
    );
    rows.has(
        "daemonsets",
        "daemonset",
        true,
        "DaemonSet",
        ALL,
        &["ds"],
        &["all"],
    );
    rows.has(
        "deployments",
        "deployment",
        true,
        "Deployment",
        ALL,
        &["deploy"],
        &["all"],
    );
    rows.has(
        "replicasets",
        "replicaset",
        true,
        "ReplicaSet",
        ALL,
        &["rs"],
        &["all"],
    );
    rows.has(
        "statefulsets",
        "statefulset",
        true,
        "StatefulSet",
        ALL,
        &["sts"],
        &["all"],
    );
    for kind in ["Deployment", "ReplicaSet", "StatefulSet"] {
        let plural = format!("{}s", kind.to_lowercase());
        rows.has(&format!("{plural}/status"), "", true, kind, STATUS, &[], &[]);
        let scale = rows.has(&format!("{plural}/scale"), "", true, "Scale", STATUS, &[], &[]);
        // The scale is of another group than the list it stands in.
        assert_eq!(
            (&scale["group"], &scale["version"]),
            (&json!("autoscaling"), &json!("v1")),
            "{scale:#}"
        );
    }
}

async fn batch_resources(c: Cluster) {
    let list = c.api().get("/apis/batch/v1").await.expect(200);
    let rows = Rows {
        cluster: &c,
        list: &list,
    };
    rows.has("cronjobs", "cronjob", true, "CronJob", ALL, &["cj"], &["all"]);
    rows.has("cronjobs/status", "", true, "CronJob", STATUS, &[], &[]);
    rows.has("jobs", "job", true, "Job", ALL, &[], &["all"]);
    rows.has("jobs/status", "", true, "Job", STATUS, &[], &[]);
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
        let (without, with) = (
            c.api().get(path).await.expect(200),
            c.api().get(&format!("{path}/")).await.expect(200),
        );
        assert_eq!(without, with, "{path}");
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

/// Every `groupVersion` of the group list.
async fn served_versions(c: &Cluster) -> Vec<String> {
    let list = c.api().get("/apis").await.expect(200);
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

/// A resource list to look into.
struct Rows<'a> {
    cluster: &'a Cluster,
    list: &'a Value,
}

impl Rows<'_> {
    /// Asserts that the row of `name` is exactly this, and returns it.
    #[track_caller]
    #[expect(
        clippy::too_many_arguments,
        reason = "a row of a table; the names are in every kubectl user's head"
    )]
    fn has(
        &self,
        name: &str,
        singular: &str,
        namespaced: bool,
        kind: &str,
        verbs: &str,
        short: &[&str],
        categories: &[&str],
    ) -> Value {
        let rows = self.list["resources"].as_array().expect("resources is a list");
        let row = rows.iter().find(|row| row["name"] == name);
        let row = row.unwrap_or_else(|| panic!("no {name} in {:#}", self.list));
        // Built-in kinds have their singular name in discovery since 1.27.
        let singular = if self.cluster.version() < (1, 27) {
            ""
        } else {
            singular
        };
        let texts = |field: &str| row[field].as_array().cloned().unwrap_or_default();
        let same = row["singularName"] == singular
            && row["namespaced"] == namespaced
            && row["kind"] == kind
            && texts("verbs") == verbs.split(' ').collect::<Vec<_>>()
            && texts("shortNames") == short
            && texts("categories") == categories;
        assert!(same, "another row for {name}: {row:#}");
        row.clone()
    }
}
