//! The documents of the built-in groups, and how they are fetched.

use coxswain_tests::{Cluster, Reply, Test, test};
use http::Method;
use serde_json::{Value, json};

use super::{META, media_types, parameters};
use crate::expect::includes;

pub fn tests() -> Vec<Test> {
    vec![
        test!(index_links_each_version).since(1, 27),
        test!(hashed_links_are_immutable).since(1, 27),
        test!(matching_etag_returns_304).since(1, 27),
        test!(other_media_types_are_406).since(1, 27),
        test!(unknown_versions_are_404).since(1, 27),
        test!(built_in_kinds_have_schemas).since(1, 27),
        test!(lists_have_merge_extensions).since(1, 27),
        test!(operations_have_parameters_and_ids).since(1, 27),
    ]
}

async fn document(c: &Cluster, path: &str) -> Value {
    c.read(&format!("/openapi/v3/{path}")).await
}

async fn get_with(c: &Cluster, path: &str, headers: &[(&str, &str)]) -> Reply {
    c.api().request(Method::GET, path, headers, ()).await
}

async fn index_links_each_version(c: Cluster) {
    let index = c.read("/openapi/v3").await;
    for path in [
        "api/v1",
        "apis/apps/v1",
        "apis/batch/v1",
        "apis/rbac.authorization.k8s.io/v1",
    ] {
        let link = index["paths"][path]["serverRelativeURL"]
            .as_str()
            .unwrap_or_default();
        let hash = link
            .strip_prefix(&format!("/openapi/v3/{path}?hash="))
            .unwrap_or_default();
        let hexadecimal = |c: char| c.is_ascii_digit() || ('A'..='F').contains(&c);
        assert!(
            hash.len() == 128 && hash.chars().all(hexadecimal),
            "{path}: {link}"
        );
    }
}

async fn hashed_links_are_immutable(c: Cluster) {
    let index = c.read("/openapi/v3").await;
    let link = index["paths"]["apis/apps/v1"]["serverRelativeURL"]
        .as_str()
        .unwrap_or_default();
    let hash = link.rsplit('=').next().unwrap_or_default();
    let reply = c.api().get(link).await;
    reply.expect(200);
    reply.check(
        reply.header("cache-control") == Some("public, immutable"),
        "expected to be cached",
    );
    reply.check(
        reply.header("vary").is_some_and(|vary| vary.contains("Accept")),
        "expected Vary",
    );
    reply.check(reply.header("expires").is_some(), "expected an expiry");
    reply.check(
        reply.header("etag") == Some(&format!("\"{hash}\"")),
        "expected the hash",
    );
    // A link without the hash has no expiry.
    let plain = c.api().get("/openapi/v3/apis/apps/v1").await;
    plain.expect(200);
    plain.check(
        plain.header("etag") == Some(&format!("\"{hash}\"")),
        "expected the hash",
    );
    plain.check(plain.header("expires").is_none(), "expected no expiry");
    // An outdated hash redirects to the current link.
    let old = c.api().get("/openapi/v3/apis/apps/v1?hash=0").await;
    old.check(old.status == 301, "expected a redirect");
    old.check(old.header("location") == Some(link), "expected the current link");
}

async fn matching_etag_returns_304(c: Cluster) {
    for path in ["/openapi/v3/apis/apps/v1", "/openapi/v2"] {
        let reply = c.api().get(path).await;
        reply.expect(200);
        let tag = reply.header("etag").unwrap_or_default().to_owned();
        let again = get_with(&c, path, &[("if-none-match", &tag)]).await;
        // Other tests create CRDs, which change the v2 document.
        if path == "/openapi/v3/apis/apps/v1" {
            again.check(
                again.status == 304 && again.body.is_empty(),
                "expected nothing new",
            );
            again.check(again.header("etag") == Some(&tag), "expected the hash");
        }
        let other = get_with(&c, path, &[("if-none-match", "\"other\"")]).await;
        other.check(
            other.status == 200 && !other.body.is_empty(),
            "expected the document",
        );
    }
}

async fn other_media_types_are_406(c: Cluster) {
    for (path, accept) in [
        ("/openapi/v3/apis/apps/v1", "text/html"),
        ("/openapi/v2", "text/html"),
    ] {
        let reply = get_with(&c, path, &[("accept", accept)]).await;
        reply.check(
            reply.status == 406 && reply.body.is_empty(),
            "expected a bare 406",
        );
    }
    let any = get_with(&c, "/openapi/v3/apis/apps/v1", &[("accept", "application/*")]).await;
    any.expect(200);
}

async fn unknown_versions_are_404(c: Cluster) {
    for path in ["apis/nope.example.com/v1", "apis/apps/v9"] {
        let reply = c.api().get(&format!("/openapi/v3/{path}")).await;
        reply.check(
            reply.status == 404 && reply.body.is_empty(),
            "expected a bare 404",
        );
    }
}

async fn built_in_kinds_have_schemas(c: Cluster) {
    let apps = document(&c, "apis/apps/v1").await;
    includes(
        &apps,
        &json!({"openapi": "3.0.0", "info": {"title": "Kubernetes"}}),
    );
    let schemas = &apps["components"]["schemas"];
    let reference = json!([{"$ref": "#/components/schemas/io.k8s.api.apps.v1.DeploymentSpec"}]);
    let expected = json!({
        "io.k8s.api.apps.v1.Deployment": {
            "type": "object", "required": null, "properties": {"spec": {"allOf": reference}},
            "x-kubernetes-group-version-kind": [{"group": "apps", "version": "v1", "kind": "Deployment"}],
        },
        "io.k8s.api.apps.v1.DeploymentSpec": {
            "required": ["selector", "template"],
            "properties": {"replicas": {"type": "integer", "format": "int32"}},
        },
        // The document contains all referenced schemas, and no others.
        "io.k8s.api.apps.v1.DeploymentList": {"type": "object"},
        "io.k8s.api.core.v1.Container": {"type": "object"},
        "io.k8s.api.core.v1.Service": null,
        "io.k8s.apimachinery.pkg.api.resource.Quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    });
    includes(schemas, &expected);
}

async fn lists_have_merge_extensions(c: Cluster) {
    let core = document(&c, "api/v1").await;
    let containers = json!({
        "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name",
        "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
    });
    let ports = json!({
        "x-kubernetes-patch-merge-key": "containerPort",
        "x-kubernetes-list-map-keys": ["containerPort", "protocol"],
    });
    let expected = json!({
        "io.k8s.api.core.v1.PodSpec": {"properties": {"containers": containers}},
        "io.k8s.api.core.v1.Container": {"properties": {"ports": ports}},
        format!("{META}.LabelSelector"): {"x-kubernetes-map-type": "atomic"},
    });
    includes(&core["components"]["schemas"], &expected);
    let apps = document(&c, "apis/apps/v1").await;
    let spec = &apps["components"]["schemas"]["io.k8s.api.apps.v1.DeploymentSpec"];
    let strategy = json!({"properties": {"strategy": {"x-kubernetes-patch-strategy": "retainKeys"}}});
    includes(spec, &strategy);
}

async fn operations_have_parameters_and_ids(c: Cluster) {
    let apps = document(&c, "apis/apps/v1").await;
    let path = "/apis/apps/v1/namespaces/{namespace}/deployments";
    let (all, one) = (&apps["paths"][path], &apps["paths"][format!("{path}/{{name}}")]);
    assert_eq!(
        parameters(&one["patch"]),
        ["dryRun", "fieldManager", "fieldValidation", "force"]
    );
    assert_eq!(
        parameters(&all["post"]),
        ["dryRun", "fieldManager", "fieldValidation"]
    );
    let gvk = json!({"group": "apps", "version": "v1", "kind": "Deployment"});
    for (operation, action, id) in [
        (&all["get"], "list", "listAppsV1NamespacedDeployment"),
        (&all["post"], "post", "createAppsV1NamespacedDeployment"),
        (
            &all["delete"],
            "deletecollection",
            "deleteAppsV1CollectionNamespacedDeployment",
        ),
        (&one["get"], "get", "readAppsV1NamespacedDeployment"),
        (&one["put"], "put", "replaceAppsV1NamespacedDeployment"),
        (&one["patch"], "patch", "patchAppsV1NamespacedDeployment"),
        (&one["delete"], "delete", "deleteAppsV1NamespacedDeployment"),
    ] {
        let expected = json!({
            "x-kubernetes-action": action, "operationId": id, "tags": ["apps_v1"],
            "x-kubernetes-group-version-kind": gvk,
        });
        includes(operation, &expected);
    }
    let patches = media_types(&one["patch"]);
    assert!(
        patches
            .iter()
            .any(|kind| kind == "application/strategic-merge-patch+json"),
        "{patches:?}"
    );
    let body = &all["post"]["requestBody"]["content"]["*/*"]["schema"];
    assert_eq!(
        *body,
        json!({"$ref": "#/components/schemas/io.k8s.api.apps.v1.Deployment"})
    );
    let answer = &all["get"]["responses"]["200"]["content"]["application/json"]["schema"];
    assert_eq!(
        *answer,
        json!({"$ref": "#/components/schemas/io.k8s.api.apps.v1.DeploymentList"})
    );
    let scale = &apps["paths"][format!("{path}/{{name}}/scale")]["get"];
    assert_eq!(
        scale["x-kubernetes-group-version-kind"],
        json!({"group": "autoscaling", "version": "v1", "kind": "Scale"})
    );
    assert_eq!(
        apps["paths"]["/apis/apps/v1/deployments"]["get"]["operationId"],
        "listAppsV1DeploymentForAllNamespaces"
    );
}
