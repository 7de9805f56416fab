//! Owners and dependents of custom kinds, whose CRDs are created and removed.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::checker::{Isolation, Rules};
use super::super::fault::Class;
use super::super::network::{self, Covers, Effect};
use super::super::schedule::Schedule;
use super::super::user::{Policy, User};
use super::garbage::{MAPS, at, map, reference};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

/// Returns the CRD of the kind Widget. The first version is stored.
fn crd(versions: &[&str]) -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let versions = versions
        .iter()
        .enumerate()
        .map(|(index, name)| json!({"name": name, "served": true, "storage": index == 0, "schema": schema}));
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": versions.collect::<Vec<_>>(),
        },
    })
}

fn widget(name: &str, owners: &[&Value]) -> Value {
    let references: Vec<Value> = owners.iter().map(|it| reference(it)).collect();
    json!({
        "apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": name, "ownerReferences": references},
    })
}

/// The CRD of an owner's kind is created and removed.
pub(super) async fn life_cycle(user: &mut User) {
    user.create(CRDS, &crd(&["v1"]));
    user.pause(60).await;
    let owner = user.create(WIDGETS, &widget("owner", &[]));
    user.create(MAPS, &map("of-widget", &[&owner]));
    user.pause(60).await;
    let policy = *user
        .random()
        .pick(&[Policy::Background, Policy::Foreground, Policy::Orphan]);
    user.delete(&format!("{WIDGETS}/owner"), policy);
    user.pause(60).await;
    let second = user.create(WIDGETS, &widget("owner", &[]));
    user.create(MAPS, &map("of-second", &[&second]));
    user.pause(40).await;
    user.delete(&format!("{CRDS}/widgets.example.com"), Policy::Background);
    user.pause(60).await;
}

/// A CRD is removed. The deletion of its last objects is observed late, or not at all.
pub(super) async fn removed_kind(user: &mut User) {
    user.create(CRDS, &crd(&["v1"]));
    user.wait(Duration::from_secs(8)).await;
    let owner = user.create(WIDGETS, &widget("owner", &[]));
    user.create(MAPS, &map("of-widget", &[&owner]));
    let parent = user.create(MAPS, &map("parent", &[]));
    user.create(WIDGETS, &widget("child", &[&parent]));
    user.wait(Duration::from_secs(8)).await;
    if user.random().percent(50) {
        user.delay_events("widgets.example.com", Duration::from_secs(2));
    } else {
        user.hold(None, "widgets.example.com", Duration::from_secs(30));
    }
    user.delete(&format!("{CRDS}/widgets.example.com"), Policy::Background);
    user.wait(Duration::from_secs(20)).await;
    user.delete(&at("parent"), Policy::Foreground);
    user.wait(Duration::from_secs(20)).await;
}

/// Without faults, the collector observes the deletion of the last objects of a kind.
pub(super) fn rules_of_removed_kind(schedule: &Schedule, rules: &mut Rules) {
    rules.collects_removed_kinds =
        schedule.faults.is_empty() && schedule.processes == 1 && !network::has_latency(schedule.seed);
}

/// References name another served version than the preferred one.
pub(super) async fn versions(user: &mut User) {
    user.create(CRDS, &crd(&["v1", "v1beta1"]));
    user.wait(Duration::from_secs(5)).await;
    let mut owner = user.create(WIDGETS, &widget("owner", &[]));
    for version in ["v1", "v1beta1"] {
        owner["apiVersion"] = json!(format!("example.com/{version}"));
        let mut dependent = map(&format!("of-{version}"), &[&owner]);
        dependent["metadata"]["finalizers"] = json!(["example.com/other"]);
        user.create(MAPS, &dependent);
    }
    user.pause(40).await;
    let policy = *user
        .random()
        .pick(&[Policy::Background, Policy::Foreground, Policy::Orphan]);
    user.delete(&format!("{WIDGETS}/owner"), policy);
    for version in ["v1", "v1beta1"] {
        user.pause(60).await;
        let none = json!({"metadata": {"finalizers": null}});
        user.patch(&at(&format!("of-{version}")), &none);
    }
    user.pause(60).await;
}

/// A new kind cannot be listed. Dependents of other kinds are deleted meanwhile.
pub(super) async fn unlistable_kind(user: &mut User) {
    let owner = user.create(MAPS, &map("owner", &[]));
    for index in 0..2 {
        user.create(MAPS, &map(&format!("dependent-{index}"), &[&owner]));
    }
    user.wait(Duration::from_secs(5)).await;
    let lists = Covers::Requests(&["list"], "/apis/example.com/".to_owned());
    user.begin_outage(
        Some(Class::F26),
        lists,
        Effect::Refuse(500),
        Duration::from_secs(100),
    );
    user.create(CRDS, &crd(&["v1"]));
    user.wait(Duration::from_secs(10)).await;
    user.delete(&at("owner"), Policy::Background);
    user.wait(Duration::from_mins(1)).await;
}

pub(super) fn rules_of_unlistable_kind(schedule: &Schedule, rules: &mut Rules) {
    rules.isolation = schedule.faults.is_empty().then(|| Isolation {
        broken: ["widgets.example.com".to_owned()].into(),
        within: Duration::from_secs(25),
    });
}
