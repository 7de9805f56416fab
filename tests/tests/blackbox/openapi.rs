//! `OpenAPI`: the documents by which clients explain kinds, compute patches and decide who validates.

use coxswain_tests::kubectl::Kubectl;
use coxswain_tests::{Cluster, Need, Reply, Test, test};
use http::Method;
use serde_json::{Value, json};

use crate::support::{MERGE, create, soon};

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
        test!(custom_kinds_have_their_schemas).since(1, 27),
        test!(each_version_has_its_own_schema).since(1, 27),
        test!(embedded_resources_have_what_all_have).since(1, 27),
        test!(documents_follow_the_definition).since(1, 27),
        test!(version_2_has_both).since(1, 27),
        test!(explain_custom_resources).needs(Need::Kubectl).since(1, 27),
        test!(explain_built_in_kinds).needs(Need::Kubectl).since(1, 27),
        test!(explain_by_version_2).needs(Need::Kubectl).since(1, 27),
        test!(writes_are_validated_by_the_server)
            .needs(Need::Kubectl)
            .since(1, 27),
    ]
}

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// Widgets of a group of their own.
struct Widgets {
    ns: String,
    group: String,
}

impl Widgets {
    async fn new(c: &Cluster) -> Self {
        let ns = c.namespace().await;
        let group = format!("{ns}.example.com");
        Self { ns, group }
    }

    fn crd(&self, versions: Value) -> Value {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("widgets.{}", self.group)},
            "spec": {
                "group": self.group,
                "scope": "Namespaced",
                "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
                "versions": versions,
            },
        })
    }

    async fn install(&self, c: &Cluster, versions: Value) {
        create(c, CRDS, &self.crd(versions)).await;
    }

    fn document(&self, version: &str) -> String {
        format!("/openapi/v3/apis/{}/{version}", self.group)
    }

    /// The document once it is there and `ready`.
    async fn when(&self, c: &Cluster, version: &str, ready: impl Fn(&Value) -> bool) -> Value {
        soon("the document is published", async || {
            let reply = c.api().get(&self.document(version)).await;
            (reply.status == 200 && !reply.body.is_empty())
                .then(|| reply.json())
                .filter(|document| ready(document))
        })
        .await
    }

    fn name(&self, version: &str, kind: &str) -> String {
        let group: Vec<&str> = self.group.rsplit('.').collect();
        format!("{}.{version}.{kind}", group.join("."))
    }

    fn schema<'a>(&self, document: &'a Value, version: &str) -> &'a Value {
        &document["components"]["schemas"][self.name(version, "Widget")]
    }
}

fn version(name: &str, storage: bool, properties: Value) -> Value {
    json!({
        "name": name,
        "served": true,
        "storage": storage,
        "subresources": {"status": {}, "scale": {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
        }},
        "schema": {"openAPIV3Schema": {
            "type": "object",
            "description": "A widget does what it is told.",
            "properties": properties,
        }},
    })
}

fn properties() -> Value {
    json!({
        "spec": {
            "type": "object",
            "description": "What is wanted.",
            "required": ["size"],
            "properties": {
                "size": {"type": "string", "description": "How large it is.", "enum": ["small", "large"], "default": "small"},
                "replicas": {"type": "integer", "format": "int32", "minimum": 0},
                "port": {"x-kubernetes-int-or-string": true},
                "parts": {
                    "type": "array",
                    "description": "What it is made of.",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {"name": {"type": "string"}, "weight": {"type": "number", "nullable": true}},
                    },
                },
            },
        },
        "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
    })
}

async fn document(c: &Cluster, path: &str) -> Value {
    c.api().get(&format!("/openapi/v3/{path}")).await.expect(200)
}

async fn index_links_each_version(c: Cluster) {
    let index = c.api().get("/openapi/v3").await.expect(200);
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

async fn get_with(c: &Cluster, path: &str, headers: &[(&str, &str)]) -> Reply {
    c.api().request(Method::GET, path, headers, ()).await
}

async fn links_are_good_for_ever(c: Cluster) {
    let index = c.api().get("/openapi/v3").await.expect(200);
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

/// The names of an operation's parameters.
fn parameters(operation: &Value) -> Vec<&str> {
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    parameters
        .filter_map(|parameter| parameter["name"].as_str())
        .collect()
}

fn media_types(operation: &Value) -> Vec<String> {
    let content = operation["requestBody"]["content"].as_object();
    content
        .into_iter()
        .flatten()
        .map(|(key, _)| key.clone())
        .collect()
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

async fn custom_kinds_have_their_schemas(c: Cluster) {
    let widgets = Widgets::new(&c).await;
    widgets
        .install(&c, json!([version("v1", true, properties())]))
        .await;
    let document = widgets.when(&c, "v1", |_| true).await;
    assert_eq!(
        document["info"],
        json!({"title": "Kubernetes CRD Swagger", "version": "v0.1.0"})
    );
    let schema = widgets.schema(&document, "v1");
    assert_eq!(schema["description"], "A widget does what it is told.");
    assert_eq!(
        schema["x-kubernetes-group-version-kind"],
        json!([{"group": widgets.group, "version": "v1", "kind": "Widget"}])
    );
    assert_eq!(
        schema["properties"]["metadata"]["allOf"],
        json!([{"$ref": format!("#/components/schemas/{META}.ObjectMeta")}])
    );
    assert_eq!(schema["properties"]["kind"]["type"], "string");
    // As it was written, but for what is a number or a text.
    let mut spec = properties()["spec"].clone();
    spec["properties"]["port"]["anyOf"] = json!([{"type": "integer"}, {"type": "string"}]);
    assert_eq!(schema["properties"]["spec"], spec);
    let list = &document["components"]["schemas"][widgets.name("v1", "WidgetList")];
    assert_eq!(list["required"], json!(["items"]));
    assert_eq!(
        list["properties"]["items"]["items"],
        json!({"$ref": format!("#/components/schemas/{}", widgets.name("v1", "Widget"))})
    );
    assert_eq!(
        document["components"]["schemas"][format!("{META}.ObjectMeta")]["type"],
        "object"
    );
    let path = format!("/apis/{}/v1/namespaces/{{namespace}}/widgets", widgets.group);
    let paths = document["paths"].as_object().expect("paths");
    let expected = [
        format!("/apis/{}/v1/namespaces/{{namespace}}/widgets", widgets.group),
        format!("{path}/{{name}}"),
        format!("{path}/{{name}}/scale"),
        format!("{path}/{{name}}/status"),
        format!("/apis/{}/v1/widgets", widgets.group),
    ];
    assert_eq!(
        paths.keys().collect::<Vec<_>>(),
        expected.iter().collect::<Vec<_>>()
    );
    let patch = &document["paths"][format!("{path}/{{name}}")]["patch"];
    assert!(parameters(patch).contains(&"fieldValidation"), "{patch:#}");
    assert_eq!(
        media_types(patch),
        [
            "application/apply-patch+yaml",
            "application/json-patch+json",
            "application/merge-patch+json"
        ]
    );
    // All paths of a custom resource go by its own kind.
    assert_eq!(
        document["paths"][format!("{path}/{{name}}/scale")]["get"]["x-kubernetes-group-version-kind"]["kind"],
        "Widget"
    );
}

async fn each_version_has_its_own_schema(c: Cluster) {
    let widgets = Widgets::new(&c).await;
    let one = json!({"one": {"type": "string"}});
    let two = json!({"two": {"type": "string"}});
    let mut hidden = version("v3", false, json!({}));
    hidden["served"] = false.into();
    let versions = json!([version("v1", false, one), version("v2", true, two), hidden]);
    widgets.install(&c, versions).await;
    let fields = |document: &Value, version: &str| {
        let schema = widgets.schema(document, version);
        schema["properties"]
            .as_object()
            .map(|fields| fields.keys().cloned().collect::<Vec<_>>().join(" "))
    };
    let v1 = widgets.when(&c, "v1", |_| true).await;
    assert_eq!(fields(&v1, "v1").as_deref(), Some("apiVersion kind metadata one"));
    let v2 = widgets.when(&c, "v2", |_| true).await;
    assert_eq!(fields(&v2, "v2").as_deref(), Some("apiVersion kind metadata two"));
    let none = c.api().get(&widgets.document("v3")).await;
    none.check(none.status == 404, "expected none of what is not served");
}

async fn embedded_resources_have_what_all_have(c: Cluster) {
    let widgets = Widgets::new(&c).await;
    let template = json!({
        "type": "object",
        "x-kubernetes-embedded-resource": true,
        "x-kubernetes-preserve-unknown-fields": true,
    });
    widgets
        .install(&c, json!([version("v1", true, json!({"template": template}))]))
        .await;
    let document = widgets.when(&c, "v1", |_| true).await;
    let template = &widgets.schema(&document, "v1")["properties"]["template"];
    assert_eq!(template["required"], json!(["kind", "apiVersion"]));
    let fields: Vec<&String> = template["properties"]
        .as_object()
        .expect("fields")
        .keys()
        .collect();
    assert_eq!(fields, ["apiVersion", "kind", "metadata"]);
}

async fn documents_follow_the_definition(c: Cluster) {
    let widgets = Widgets::new(&c).await;
    let path = format!("apis/{}/v1", widgets.group);
    let link = async || {
        let index = c.api().get("/openapi/v3").await.expect(200);
        index["paths"][&path]["serverRelativeURL"]
            .as_str()
            .map(str::to_owned)
    };
    assert_eq!(link().await, None);
    widgets
        .install(&c, json!([version("v1", true, properties())]))
        .await;
    let first = soon("it is in the index", async || link().await).await;
    c.api().get(&first).await.expect(200);
    let crd = format!("{CRDS}/widgets.{}", widgets.group);
    let change = json!({"spec": {"versions": [version("v1", true, json!({"new": {"type": "string"}}))]}});
    c.api().patch(&crd, MERGE, change).await.expect(200);
    let second = soon("its link is another", async || {
        link().await.filter(|link| *link != first)
    })
    .await;
    let document = widgets
        .when(&c, "v1", |document| {
            !widgets.schema(document, "v1")["properties"]["new"].is_null()
        })
        .await;
    assert_eq!(widgets.schema(&document, "v1")["properties"]["spec"], Value::Null);
    assert_eq!(c.api().get(&first).await.header("location"), Some(&*second));
    c.api().delete(&crd, ()).await.expect(200);
    soon("it is gone from the index", async || {
        link().await.is_none().then_some(())
    })
    .await;
    soon("the document is gone", async || {
        (c.api().get(&widgets.document("v1")).await.status == 404).then_some(())
    })
    .await;
}

async fn version_2_has_both(c: Cluster) {
    let widgets = Widgets::new(&c).await;
    widgets
        .install(&c, json!([version("v1", true, properties())]))
        .await;
    let name = widgets.name("v1", "Widget");
    let document = soon("it is published", async || {
        let document = c.api().get("/openapi/v2").await.expect(200);
        (!document["definitions"][&name].is_null()).then_some(document)
    })
    .await;
    assert_eq!(document["swagger"], "2.0");
    let spec = &document["definitions"][&name]["properties"]["spec"];
    // Version 2 has no alternatives, and no word for null.
    assert_eq!(
        spec["properties"]["port"],
        json!({"x-kubernetes-int-or-string": true})
    );
    assert_eq!(
        spec["properties"]["parts"]["items"]["properties"]["weight"],
        json!({})
    );
    assert_eq!(spec["properties"]["size"]["description"], "How large it is.");
    assert_eq!(
        document["definitions"][&name]["properties"]["metadata"]["$ref"],
        format!("#/definitions/{META}.ObjectMeta")
    );
    let pod = &document["definitions"]["io.k8s.api.core.v1.Pod"];
    assert_eq!(
        pod["properties"]["spec"]["$ref"],
        "#/definitions/io.k8s.api.core.v1.PodSpec"
    );
    let quantity = &document["definitions"]["io.k8s.apimachinery.pkg.api.resource.Quantity"];
    assert_eq!(
        (&quantity["type"], &quantity["oneOf"]),
        (&json!("string"), &Value::Null)
    );
    let containers = &document["definitions"]["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
    assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
}

/// A `kubectl` for widgets that are published.
async fn published(c: &Cluster) -> (Widgets, Kubectl) {
    let widgets = Widgets::new(c).await;
    widgets
        .install(c, json!([version("v1", true, properties())]))
        .await;
    widgets.when(c, "v1", |_| true).await;
    let name = widgets.name("v1", "Widget");
    soon("it is published", async || {
        let document = c.api().get("/openapi/v2").await.expect(200);
        (!document["definitions"][&name].is_null()).then_some(())
    })
    .await;
    let kubectl = Kubectl::new(c, &widgets.ns).with_cache_of_its_own();
    (widgets, kubectl)
}

#[track_caller]
fn assert_has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
}

async fn explain_custom_resources(c: Cluster) {
    let (widgets, k) = published(&c).await;
    let resource = format!("widgets.{}", widgets.group);
    let text = k.run(&format!("explain {resource}")).ok();
    assert_has(
        &text,
        &[
            "KIND:       Widget",
            "VERSION:    v1",
            "A widget does what it is told.",
            "spec\t<Object>",
            "metadata\t<ObjectMeta>",
        ],
    );
    let field = k.run(&format!("explain {resource}.spec.size")).ok();
    assert_has(
        &field,
        &[
            "FIELD: size <string>",
            "How large it is.",
            "ENUM:\n    small\n    large",
        ],
    );
    let all = k.run(&format!("explain {resource} --recursive")).ok();
    assert_has(
        &all,
        &[
            "spec\t<Object>",
            "parts\t<[]Object>",
            "weight\t<number>",
            "size\t<string> -required-",
        ],
    );
    let wrong = k.run(&format!("explain {resource}.spec.nope")).refused();
    assert_has(&wrong, &["field \"nope\" does not exist"]);
}

async fn explain_built_in_kinds(c: Cluster) {
    let k = Kubectl::new(&c, &c.namespace().await);
    let pods = k.run("explain pods").ok();
    assert_has(
        &pods,
        &[
            "KIND:       Pod",
            "VERSION:    v1",
            "Pod is a collection of containers",
            "spec\t<PodSpec>",
            "status\t<PodStatus>",
        ],
    );
    let containers = k.run("explain deployments.spec.template.spec.containers").ok();
    assert_has(
        &containers,
        &[
            "GROUP:      apps",
            "FIELD: containers <[]Container>",
            "image\t<string>",
        ],
    );
    let all = k.run("explain resourcequotas --recursive").ok();
    assert_has(&all, &["hard\t<map[string]Quantity>", "scopes\t<[]string>"]);
}

async fn explain_by_version_2(c: Cluster) {
    let (widgets, k) = published(&c).await;
    let old = "--output plaintext-openapiv2";
    let text = k
        .run(&format!("explain widgets.{}.spec {old}", widgets.group))
        .ok();
    assert_has(&text, &["KIND:     Widget", "What is wanted.", "size\t<string>"]);
    let text = k.run(&format!("explain pods.spec {old}")).ok();
    assert_has(&text, &["KIND:     Pod", "containers\t<[]Object> -required-"]);
}

async fn writes_are_validated_by_the_server(c: Cluster) {
    let (widgets, k) = published(&c).await;
    let widget = |size: &str, extra: &str| {
        format!(
            "apiVersion: {}/v1\nkind: Widget\nmetadata: {{name: w}}\nspec: {{size: {size}, {extra}}}\n",
            widgets.group
        )
    };
    for verb in ["create", "apply"] {
        let call = [verb, "-f", "-"];
        let unknown = k.run_with(&call, &widget("small", "nope: 1")).refused();
        assert_has(&unknown, &["strict decoding error: unknown field \"spec.nope\""]);
        let invalid = k.run_with(&call, &widget("huge", "")).refused();
        assert_has(&invalid, &["spec.size: Unsupported value: \"huge\""]);
        let quota = "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q}\nspec: {nope: {}}\n";
        let unknown = k.run_with(&call, quota).refused();
        assert_has(&unknown, &["strict decoding error: unknown field \"spec.nope\""]);
    }
    let warned = k.run_with(
        &["create", "--validate=warn", "-f", "-"],
        &widget("small", "nope: 1"),
    );
    assert!(warned.success, "{warned:#?}");
    assert_has(&warned.err, &["Warning: unknown field \"spec.nope\""]);
    let quiet = k.run_with(
        &["replace", "--validate=ignore", "-f", "-"],
        &widget("large", "nope: 1"),
    );
    let _ = quiet.ok();
}
