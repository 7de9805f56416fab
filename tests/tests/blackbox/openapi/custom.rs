//! The documents of custom resources follow the CRD.

use coxswain_tests::{Cluster, Test, test};
use serde_json::{Value, json};

use super::{CRDS, META, Widgets, media_types, parameters, properties, version};
use crate::expect::includes;
use crate::support::soon;

pub fn tests() -> Vec<Test> {
    vec![
        test!(custom_resource_has_schema_and_paths).since(1, 27),
        test!(versions_have_separate_schemas).since(1, 27),
        test!(embedded_resource_has_type_and_metadata).since(1, 27),
        test!(document_follows_crd).since(1, 27),
        test!(v2_document_contains_built_in_and_custom_kinds).since(1, 27),
    ]
}

async fn custom_resource_has_schema_and_paths(c: Cluster) {
    let widgets = Widgets::new(&c).await;
    widgets
        .install(&c, json!([version("v1", true, properties())]))
        .await;
    let document = widgets.when(&c, "v1", |_| true).await;
    let info = json!({"title": "Kubernetes CRD Swagger", "version": "v0.1.0"});
    assert_eq!(document["info"], info);
    let reference = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
    let (name, meta) = (widgets.name("v1", "Widget"), format!("{META}.ObjectMeta"));
    // The schema of the CRD, with the alternatives of int-or-string.
    let mut spec = properties()["spec"].clone();
    spec["properties"]["port"]["anyOf"] = json!([{"type": "integer"}, {"type": "string"}]);
    assert_eq!(widgets.schema(&document, "v1")["properties"]["spec"], spec);
    let kind = json!({"group": widgets.group, "version": "v1", "kind": "Widget"});
    let expected = json!({
        &name: {
            "description": "A widget is an example.",
            "x-kubernetes-group-version-kind": [kind],
            "properties": {"metadata": {"allOf": [reference(&meta)]}, "kind": {"type": "string"}},
        },
        widgets.name("v1", "WidgetList"): {
            "required": ["items"], "properties": {"items": {"items": reference(&name)}},
        },
        &meta: {"type": "object"},
    });
    includes(&document["components"]["schemas"], &expected);

    let root = format!("/apis/{}/v1", widgets.group);
    let path = format!("{root}/namespaces/{{namespace}}/widgets");
    let paths = document["paths"].as_object().expect("paths");
    let expected = ["", "/{name}", "/{name}/scale", "/{name}/status"].map(|rest| format!("{path}{rest}"));
    let expected = [&expected[..], &[format!("{root}/widgets")]].concat();
    assert_eq!(paths.keys().cloned().collect::<Vec<_>>(), expected);
    let operation = &document["paths"][format!("{path}/{{name}}")]["patch"];
    assert!(
        parameters(operation).contains(&"fieldValidation"),
        "{operation:#}"
    );
    let patches = ["apply-patch+yaml", "json-patch+json", "merge-patch+json"];
    assert_eq!(
        media_types(operation),
        patches.map(|patch| format!("application/{patch}"))
    );
    // All paths of a custom resource name its kind.
    let scale = &document["paths"][format!("{path}/{{name}}/scale")]["get"];
    assert_eq!(scale["x-kubernetes-group-version-kind"]["kind"], "Widget");
}

async fn versions_have_separate_schemas(c: Cluster) {
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
    none.check(none.status == 404, "expected no document of an unserved version");
}

async fn embedded_resource_has_type_and_metadata(c: Cluster) {
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

async fn document_follows_crd(c: Cluster) {
    let widgets = Widgets::new(&c).await;
    let path = format!("apis/{}/v1", widgets.group);
    let link = async || {
        let index = c.read("/openapi/v3").await;
        index["paths"][&path]["serverRelativeURL"]
            .as_str()
            .map(str::to_owned)
    };
    assert_eq!(link().await, None);
    widgets
        .install(&c, json!([version("v1", true, properties())]))
        .await;
    let first = soon("the document is in the index", async || link().await).await;
    c.read(&first).await;
    let crd = format!("{CRDS}/widgets.{}", widgets.group);
    let change = json!({"spec": {"versions": [version("v1", true, json!({"new": {"type": "string"}}))]}});
    c.merge(&crd, change).await;
    let second = soon("the link has changed", async || {
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
    c.delete(&crd).await;
    soon("the document is removed from the index", async || {
        link().await.is_none().then_some(())
    })
    .await;
    soon("the document is removed", async || {
        (c.api().get(&widgets.document("v1")).await.status == 404).then_some(())
    })
    .await;
}

async fn v2_document_contains_built_in_and_custom_kinds(c: Cluster) {
    let widgets = Widgets::new(&c).await;
    widgets
        .install(&c, json!([version("v1", true, properties())]))
        .await;
    let name = widgets.name("v1", "Widget");
    let document = soon("the schema is published", async || {
        let document = c.read("/openapi/v2").await;
        (!document["definitions"][&name].is_null()).then_some(document)
    })
    .await;
    assert_eq!(document["swagger"], "2.0");
    let reference = |name: &str| json!({"$ref": format!("#/definitions/{name}")});
    let spec = &document["definitions"][&name]["properties"]["spec"]["properties"];
    // Version 2 has neither alternatives nor null.
    assert_eq!(spec["port"], json!({"x-kubernetes-int-or-string": true}));
    assert_eq!(spec["parts"]["items"]["properties"]["weight"], json!({}));
    assert_eq!(spec["size"]["description"], "size is the size class.");
    let containers = json!({"x-kubernetes-patch-merge-key": "name"});
    let expected = json!({
        &name: {"properties": {"metadata": reference(&format!("{META}.ObjectMeta"))}},
        "io.k8s.api.core.v1.Pod": {"properties": {"spec": reference("io.k8s.api.core.v1.PodSpec")}},
        "io.k8s.api.core.v1.PodSpec": {"properties": {"containers": containers}},
        "io.k8s.apimachinery.pkg.api.resource.Quantity": {"type": "string", "oneOf": null},
    });
    includes(&document["definitions"], &expected);
}
