//! `kubectl explain`, and server-side field validation.

use coxswain_tests::kubectl::Kubectl;
use coxswain_tests::{Cluster, Need, Test, test};
use serde_json::json;

use super::{Widgets, properties, version};
use crate::support::soon;

pub fn tests() -> Vec<Test> {
    let tests = vec![
        test!(explain_prints_custom_resource),
        test!(explain_prints_built_in_kinds),
        test!(explain_supports_v2_documents),
        test!(kubectl_requests_server_side_validation),
    ];
    let tests = tests.into_iter();
    tests.map(|test| test.needs(Need::Kubectl).since(1, 27)).collect()
}

/// Publishes the CRD and returns a `kubectl` for it.
async fn published(c: &Cluster) -> (Widgets, Kubectl) {
    let widgets = Widgets::new(c).await;
    widgets
        .install(c, json!([version("v1", true, properties())]))
        .await;
    widgets.when(c, "v1", |_| true).await;
    let name = widgets.name("v1", "Widget");
    soon("the schema is published", async || {
        let document = c.read("/openapi/v2").await;
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

async fn explain_prints_custom_resource(c: Cluster) {
    let (widgets, k) = published(&c).await;
    let resource = format!("widgets.{}", widgets.group);
    let text = k.run(&format!("explain {resource}")).ok();
    assert_has(
        &text,
        &[
            "KIND:       Widget",
            "VERSION:    v1",
            "A widget is an example.",
            "spec\t<Object>",
            "metadata\t<ObjectMeta>",
        ],
    );
    let field = k.run(&format!("explain {resource}.spec.size")).ok();
    assert_has(&field, &["FIELD: size <string>", "size is the size class."]);
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

async fn explain_prints_built_in_kinds(c: Cluster) {
    let k = Kubectl::new(&c, &c.namespace().await);
    let pods = k.run("explain pods").ok();
    assert_has(
        &pods,
        &[
            "KIND:       Pod",
            "VERSION:    v1",
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

async fn explain_supports_v2_documents(c: Cluster) {
    let (widgets, k) = published(&c).await;
    let old = "--output plaintext-openapiv2";
    let text = k
        .run(&format!("explain widgets.{}.spec {old}", widgets.group))
        .ok();
    assert_has(
        &text,
        &["KIND:     Widget", "spec is the desired state.", "size\t<string>"],
    );
    let text = k.run(&format!("explain pods.spec {old}")).ok();
    assert_has(&text, &["KIND:     Pod", "containers\t<[]Object> -required-"]);
}

async fn kubectl_requests_server_side_validation(c: Cluster) {
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
