//! The documents of custom resources: their schemas, and that they come and go with the definition.

use coxswain_tests::{Cluster, Test, test};
use serde_json::{Value, json};

use super::{CRDS, META, Widgets, media_types, parameters, properties, version};
use crate::support::soon;

pub fn tests() -> Vec<Test> {
    vec![
        test!(custom_kinds_have_their_schemas).since(1, 27),
        test!(each_version_has_its_own_schema).since(1, 27),
        test!(embedded_resources_have_what_all_have).since(1, 27),
        test!(documents_follow_the_definition).since(1, 27),
        test!(version_2_has_both).since(1, 27),
    ]
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
    let patching = &document["paths"][format!("{path}/{{name}}")]["patch"];
    assert!(parameters(patching).contains(&"fieldValidation"), "{patching:#}");
    assert_eq!(
        media_types(patching),
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
        let index = c.read("/openapi/v3").await;
        index["paths"][&path]["serverRelativeURL"]
            .as_str()
            .map(str::to_owned)
    };
    assert_eq!(link().await, None);
    widgets
        .install(&c, json!([version("v1", true, properties())]))
        .await;
    let first = soon("it is in the index", async || link().await).await;
    c.read(&first).await;
    let crd = format!("{CRDS}/widgets.{}", widgets.group);
    let change = json!({"spec": {"versions": [version("v1", true, json!({"new": {"type": "string"}}))]}});
    c.merge(&crd, change).await;
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
    c.delete(&crd).await;
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
        let document = c.read("/openapi/v2").await;
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
