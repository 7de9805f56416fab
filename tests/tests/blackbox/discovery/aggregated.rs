//! Aggregated discovery: all groups, versions and resources in one document.

use coxswain_tests::{Cluster, Reply, Test, fixtures::CRDS, test};
use http::Method;
use serde_json::{Value, json};

use crate::support::soon;

pub fn tests() -> Vec<Test> {
    let tests = vec![
        test!(aggregated_document_contains_groups_and_resources),
        test!(aggregated_document_is_preferred),
        test!(matching_etag_returns_304),
        test!(custom_resources_are_in_the_document_while_served),
    ];
    tests.into_iter().map(|test| test.since(1, 30)).collect()
}

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

async fn get_as(c: &Cluster, path: &str, accept: &str) -> Reply {
    c.api()
        .request(Method::GET, path, &[("accept", accept)], ())
        .await
}

async fn aggregated_document_contains_groups_and_resources(c: Cluster) {
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
    // A kind of the same group and version does not repeat them.
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
    let groups = groups["items"].as_array().expect("a list of groups");
    let listed = c.read("/apis").await;
    let listed = listed["groups"].as_array().expect("a list of groups");
    // Other tests create and delete groups.
    let built_in = |name: &Value| {
        name.as_str()
            .filter(|name| !name.ends_with("example.com"))
            .map(str::to_owned)
    };
    let names: Vec<String> = groups
        .iter()
        .filter_map(|item| built_in(&item["metadata"]["name"]))
        .collect();
    assert_eq!(
        names,
        listed
            .iter()
            .filter_map(|group| built_in(&group["name"]))
            .collect::<Vec<_>>()
    );
    let apps = groups.iter().find(|item| item["metadata"]["name"] == "apps");
    let deployments = resource(&apps.expect("apps is served")["versions"][0], "deployments");
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

/// Returns a resource of one version of an aggregated document.
#[track_caller]
fn resource<'a>(version: &'a Value, name: &str) -> &'a Value {
    let resources = version["resources"].as_array();
    let found = resources
        .into_iter()
        .flatten()
        .find(|entry| entry["resource"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {version:#}"))
}

async fn aggregated_document_is_preferred(c: Cluster) {
    let unknown = "application/json;g=apidiscovery.k8s.io;v=v9;as=APIGroupDiscoveryList";
    for (accept, kind) in [
        (format!("{AGGREGATED},application/json"), "APIGroupDiscoveryList"),
        // The aggregated form takes precedence if it is acceptable.
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
    // A single group has no aggregated form.
    get_as(&c, "/apis/apps", AGGREGATED)
        .await
        .expect_error(406, "NotAcceptable");
}

async fn matching_etag_returns_304(c: Cluster) {
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
        "expected Cache-Control",
    );
    reply.check(
        reply.header("vary").is_some_and(|vary| vary.contains("Accept")),
        "expected Vary",
    );
    let headers = [("accept", AGGREGATED), ("if-none-match", tag.as_str())];
    let again = c.api().request(Method::GET, "/api", &headers, ()).await;
    again.check(
        again.status == 304 && again.body.is_empty(),
        "expected 304 without a body",
    );
    let headers = [("accept", AGGREGATED), ("if-none-match", "\"other\"")];
    c.api()
        .request(Method::GET, "/api", &headers, ())
        .await
        .expect(200);
}

async fn custom_resources_are_in_the_document_while_served(c: Cluster) {
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
    c.create(CRDS, crd).await;
    let item = async || {
        let all = get_as(&c, "/apis", AGGREGATED).await.expect(200);
        let items = all["items"].as_array().cloned().unwrap_or_default();
        items.into_iter().find(|item| item["metadata"]["name"] == group)
    };
    let found = soon("the group is listed with both versions", async || {
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
    c.delete(&format!("{CRDS}/widgets.{group}")).await;
    soon("the group is gone", async || item().await.is_none().then_some(())).await;
}
