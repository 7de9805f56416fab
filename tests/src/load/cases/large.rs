//! Objects close to the size limit of etcd (1.5 MiB), as owners and as dependents.

use super::super::Load;
use super::super::cluster::{CRDS, MAPS, Policy, map, reference};
use super::super::requests::Verb;
use super::dependents::time_limit;
use serde_json::{Value, json};

const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
/// The size of a custom object.
const WIDGET_BYTES: usize = 1_500_000;
/// The size of a `ConfigMap`, whose data the API limits to 1 MiB.
const MAP_BYTES: usize = 1_000_000;
/// Bound on the heap bytes of the product, whatever the number of objects is: responses in flight.
const BYTES: u64 = 8 << 20;

pub(super) async fn run(load: &mut Load) {
    let each = load.scaled(34);
    let owners = 3 * each;
    let cluster = load.cluster.clone();
    cluster.create(CRDS, definition).await;
    for owner in 0..owners {
        let name = format!("owner-{owner}");
        let uid = cluster.create(WIDGETS, || widget(&name, &Value::Null)).await;
        let reference = reference("example.com/v1", "Widget", &name, &uid);
        let dependent = format!("dependent-{owner}");
        cluster.create(WIDGETS, || widget(&dependent, &reference)).await;
        cluster
            .create(MAPS, || {
                let mut object = map(&dependent, &reference);
                object["data"] = json!({"large": "x".repeat(MAP_BYTES)});
                object
            })
            .await;
    }
    load.report.objects = 3 * owners;
    load.start("*", "widgets", 2 * owners).await;
    for owner in 0..owners {
        let policy = Policy::ALL[usize::try_from(owner % 3).unwrap_or_default()];
        cluster.delete(&format!("{WIDGETS}/owner-{owner}"), policy).await;
    }
    load.until(
        "the owners and two thirds of the dependents are deleted",
        async |load| load.cluster.count(WIDGETS).await == each && load.cluster.count(MAPS).await == each,
    )
    .await;
    load.settle("deletion").await;
    // Two dependents of each owner.
    load.limit(Verb::Delete, 2 * 2 * each);
    // The finalizers of two thirds of the owners, and the references of orphans.
    load.limit(Verb::Patch, 2 * each + 2 * each);
    // Live lists; pages shrink with the size of the objects.
    let kinds = load.requests().cached();
    load.limit(Verb::List, 2 * kinds + 6 * owners);
    load.limit(Verb::Get, each);
    load.limit_proof();
    load.memory_limit = BYTES;
    load.time_limit = time_limit(3 * owners);
}

fn widget(name: &str, owners: &Value) -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": name, "ownerReferences": owners}, "spec": {"large": "x".repeat(WIDGET_BYTES)},
    })
}

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    })
}
