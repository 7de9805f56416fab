//! The documents of the built-in groups, and how they are fetched.

use coxswain_tests::{Cluster, Reply, Test, test};
use http::Method;
use serde_json::{Value, json};

use super::{META, media_types, parameters};

pub fn tests() -> Vec<Test> {
    vec![
        test!(index_links_each_version).since(1, 27),
        test!(links_are_good_for_ever).since(1, 27),
        test!(whoever_has_it_is_spared_a_copy).since(1, 27),
        test!(other_forms_are_not_acceptable).since(1, 27),
        test!(unknown_versions_have_none).since(1, 27),
        test!(built_in_kinds_have_fields).since(1, 27),
        test!(lists_say_how_they_merge).since(1, 27),
        test!(operations_say_what_they_take).since(1, 27),
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

async fn links_are_good_for_ever(c: Cluster) {
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
    reply.check(reply.header("expires").is_some(), "expected an end");
    reply.check(
        reply.header("etag") == Some(&format!("\"{hash}\"")),
        "expected the hash",
    );
    // Without the hash nobody can know for how long it is good.
    let plain = c.api().get("/openapi/v3/apis/apps/v1").await;
    plain.expect(200);
    plain.check(
        plain.header("etag") == Some(&format!("\"{hash}\"")),
        "expected the hash",
    );
    plain.check(plain.header("expires").is_none(), "expected no end");
    // An old link leads to the present one.
    let old = c.api().get("/openapi/v3/apis/apps/v1?hash=0").await;
    old.check(old.status == 301, "expected to be sent on");
    old.check(old.header("location") == Some(link), "expected the present link");
}

async fn whoever_has_it_is_spared_a_copy(c: Cluster) {
    for path in ["/openapi/v3/apis/apps/v1", "/openapi/v2"] {
        let reply = c.api().get(path).await;
        reply.expect(200);
        let tag = reply.header("etag").unwrap_or_default().to_owned();
        let again = get_with(&c, path, &[("if-none-match", &tag)]).await;
        // Others may define kinds meanwhile, and version 2 is about all of them.
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

async fn other_forms_are_not_acceptable(c: Cluster) {
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

async fn unknown_versions_have_none(c: Cluster) {
    for path in ["apis/nope.example.com/v1", "apis/apps/v9"] {
        let reply = c.api().get(&format!("/openapi/v3/{path}")).await;
        reply.check(
            reply.status == 404 && reply.body.is_empty(),
            "expected a bare 404",
        );
    }
}

async fn built_in_kinds_have_fields(c: Cluster) {
    let apps = document(&c, "apis/apps/v1").await;
    assert_eq!(apps["openapi"], "3.0.0");
    assert_eq!(apps["info"]["title"], "Kubernetes");
    let schemas = &apps["components"]["schemas"];
    let deployment = &schemas["io.k8s.api.apps.v1.Deployment"];
    assert_eq!(
        deployment["x-kubernetes-group-version-kind"],
        json!([{"group": "apps", "version": "v1", "kind": "Deployment"}])
    );
    assert_eq!(deployment["type"], "object");
    assert_eq!(deployment["required"], Value::Null);
    let spec = &deployment["properties"]["spec"];
    assert_eq!(
        spec["allOf"],
        json!([{"$ref": "#/components/schemas/io.k8s.api.apps.v1.DeploymentSpec"}])
    );
    assert!(spec["description"].as_str().is_some_and(|text| !text.is_empty()));
    let spec = &schemas["io.k8s.api.apps.v1.DeploymentSpec"];
    assert_eq!(spec["required"], json!(["selector", "template"]));
    let replicas = &spec["properties"]["replicas"];
    assert_eq!(
        (&replicas["type"], &replicas["format"]),
        (&json!("integer"), &json!("int32"))
    );
    // All that is referred to is there.
    for name in [
        "io.k8s.api.core.v1.Container",
        "io.k8s.api.apps.v1.DeploymentList",
    ] {
        assert_eq!(schemas[name]["type"], "object", "{name}");
    }
    assert_eq!(schemas["io.k8s.api.core.v1.Service"], Value::Null);
    let quantity = &schemas["io.k8s.apimachinery.pkg.api.resource.Quantity"];
    assert_eq!(quantity["oneOf"], json!([{"type": "string"}, {"type": "number"}]));
}

async fn lists_say_how_they_merge(c: Cluster) {
    let core = document(&c, "api/v1").await;
    let schemas = &core["components"]["schemas"];
    let containers = &schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
    for (key, value) in [
        ("x-kubernetes-patch-strategy", json!("merge")),
        ("x-kubernetes-patch-merge-key", json!("name")),
        ("x-kubernetes-list-type", json!("map")),
        ("x-kubernetes-list-map-keys", json!(["name"])),
    ] {
        assert_eq!(containers[key], value, "{key}");
    }
    let ports = &schemas["io.k8s.api.core.v1.Container"]["properties"]["ports"];
    assert_eq!(ports["x-kubernetes-patch-merge-key"], "containerPort");
    assert_eq!(
        ports["x-kubernetes-list-map-keys"],
        json!(["containerPort", "protocol"])
    );
    let strategy = document(&c, "apis/apps/v1").await;
    let strategy =
        &strategy["components"]["schemas"]["io.k8s.api.apps.v1.DeploymentSpec"]["properties"]["strategy"];
    assert_eq!(strategy["x-kubernetes-patch-strategy"], "retainKeys");
    let selector = &schemas[format!("{META}.LabelSelector")];
    assert_eq!(selector["x-kubernetes-map-type"], "atomic");
}

async fn operations_say_what_they_take(c: Cluster) {
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
        assert_eq!(operation["x-kubernetes-action"], action);
        assert_eq!(operation["operationId"], id);
        assert_eq!(operation["tags"], json!(["apps_v1"]));
        assert_eq!(operation["x-kubernetes-group-version-kind"], gvk);
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
