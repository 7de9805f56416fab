//! Many CRDs.

use std::time::Duration;

use super::super::Load;
use super::super::cluster::{CRDS, Policy, reference};
use super::super::requests::Verb;
use super::dependents::time_limit;
use serde_json::{Value, json};

/// The time between two CRDs.
const INTERVAL: Duration = Duration::from_millis(50);
/// The number of kinds of one group.
const KINDS: u64 = 10;
/// Bound on the heap bytes of a kind: its reflector, cache and monitor, and its part of the discovery documents.
const BYTES: u64 = 65_536;

pub(super) async fn run(load: &mut Load) {
    let count = load.scaled(1_000);
    let cluster = load.cluster.clone();
    load.report.objects = 3 * count;
    load.start("*", "namespaces", 1).await;
    for index in 0..count {
        cluster.create(CRDS, || definition(index)).await;
        let widgets = widgets(index);
        let uid = cluster
            .create(&widgets, || widget(index, "owner", &Value::Null))
            .await;
        let owner = reference(&api_version(index), &kind(index), "owner", &uid);
        cluster
            .create(&widgets, || widget(index, "dependent", &owner))
            .await;
        load.sleep(INTERVAL).await;
    }
    #[expect(clippy::cast_precision_loss, reason = "a small number")]
    let all = 2.0 * count as f64;
    load.until("all kinds are cached", async |load| {
        let of_kind = |it: &str| it.starts_with("widget");
        load.product().sum("steersman_cache_objects", of_kind) >= all
    })
    .await;
    load.settle("creation").await;
    for index in 0..count {
        let owner = format!("{}/owner", widgets(index));
        cluster.delete(&owner, Policy::Background).await;
    }
    for index in 0..count {
        load.until("the dependent is deleted", async |load| {
            load.cluster.count(&widgets(index)).await == 0
        })
        .await;
    }
    load.settle("collection").await;
    for index in 0..count {
        let path = format!("{CRDS}/{}", name(index));
        cluster.delete(&path, Policy::Background).await;
        load.sleep(INTERVAL).await;
    }
    load.until("no kind is cached", async |load| {
        let of_kind = |it: &str| it.starts_with("widget");
        load.product().count("steersman_cache_objects", of_kind) == 0
    })
    .await;
    load.settle("removal").await;
    load.limit(Verb::Delete, count);
    // A kind is followed for five more seconds after it was removed: its watch ends, and lists fail with a growing backoff.
    load.limit(Verb::Watch, count);
    load.limit(Verb::List, 6 * count);
    // Discovery is read twice per second while CRDs change.
    let changing = 2 * INTERVAL * u32::try_from(count).unwrap_or(u32::MAX);
    load.limit(Verb::Discover, 2 * 2 * (changing.as_secs() + 10));
    load.memory_limit = count * BYTES;
    load.time_limit = time_limit(count);
}

fn group(index: u64) -> String {
    format!("g{}.example.com", index / KINDS)
}

fn api_version(index: u64) -> String {
    format!("{}/v1", group(index))
}

fn kind(index: u64) -> String {
    format!("Widget{index}")
}

fn name(index: u64) -> String {
    format!("widget{index}s.{}", group(index))
}

fn widgets(index: u64) -> String {
    format!("/apis/{}/namespaces/default/widget{index}s", api_version(index))
}

fn widget(index: u64, name: &str, owners: &Value) -> Value {
    json!({
        "apiVersion": api_version(index), "kind": kind(index),
        "metadata": {"name": name, "ownerReferences": owners},
    })
}

fn definition(index: u64) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name(index)},
        "spec": {
            "group": group(index), "scope": "Namespaced",
            "names": {
                "plural": format!("widget{index}s"), "singular": format!("widget{index}"),
                "kind": kind(index), "listKind": format!("Widget{index}List"),
            },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    })
}
