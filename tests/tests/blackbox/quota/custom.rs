//! Quotas of custom resources.

use coxswain_tests::{Cluster, Need, Test, test};
use serde_json::{Value, json};

use super::{path, quota, refused, used};
use crate::support::{core, object, of, soon};

pub fn tests() -> Vec<Test> {
    vec![
        test!(custom_resources_are_counted).needs(Need::Kcm),
        test!(deleted_custom_resources_release_quota).needs(Need::Sandbox),
    ]
}

/// Returns a namespace with a quota of one widget, the path of its widgets and their name in the quota.
async fn limited_widgets(c: &Cluster) -> (String, String, String) {
    let ns = c.namespace().await;
    let group = format!("{ns}.example.com");
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("widgets.{group}")},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    });
    c.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &crd)
        .await;
    let widgets = of(&format!("{group}/v1"), &ns, "widgets");
    soon("widgets are served", async || {
        (c.api().get(&widgets).await.status == 200).then_some(())
    })
    .await;
    let name = format!("count/widgets.{group}");
    c.create(&core(&ns, "resourcequotas"), &quota("q", json!({&name: "1"})))
        .await;
    (ns, widgets, name)
}

fn widget(ns: &str, name: &str) -> Value {
    object(&format!("{ns}.example.com/v1"), "Widget", name)
}

/// The quota controller discovers new resources with a long delay, so that the test writes the status.
async fn custom_resources_are_counted(c: Cluster) {
    let (ns, widgets, name) = limited_widgets(&c).await;
    let counted = json!({"status": {"hard": {&name: "1"}, "used": {&name: "0"}}});
    let status = format!("{}/status", path(&ns, "q"));
    soon("the status has the limit", async || {
        let quota = c.read(&path(&ns, "q")).await;
        (quota["status"]["hard"] == quota["spec"]["hard"]).then_some(())
    })
    .await;
    c.merge(&status, counted.clone()).await;
    used(&c, &ns, "q", json!({&name: "0"})).await;
    c.create(&widgets, &widget(&ns, "a")).await;
    let reply = c.api().post(&widgets, widget(&ns, "b")).await;
    let message = format!(
        "widgets.{ns}.example.com \"b\" is forbidden: exceeded quota: q, requested: {name}=1, used: {name}=1, limited: {name}=1"
    );
    refused(&reply, &message);
    used(&c, &ns, "q", json!({&name: "1"})).await;
    c.delete(&format!("{widgets}/a")).await;
    c.merge(&status, counted).await;
    used(&c, &ns, "q", json!({&name: "0"})).await;
    c.create(&widgets, &widget(&ns, "b")).await;
}

async fn deleted_custom_resources_release_quota(c: Cluster) {
    let (ns, widgets, name) = limited_widgets(&c).await;
    used(&c, &ns, "q", json!({&name: "0"})).await;
    c.create(&widgets, &widget(&ns, "a")).await;
    used(&c, &ns, "q", json!({&name: "1"})).await;
    c.delete(&format!("{widgets}/a")).await;
    used(&c, &ns, "q", json!({&name: "0"})).await;
    c.create(&widgets, &widget(&ns, "b")).await;
}
