//! The largest object for each list and map of each kind that the controllers read.

use serde_json::{Value, json};

use super::super::Load;
use super::super::cluster::{map, replica_set, template};
use super::{OBJECT_BYTES, TENANT, deployment, outside, path, work};

/// Bound on the bytes that the product allocates for a byte of an object that it lists or watches, for all caches together.
const ALLOCATED_PER_BYTE: u64 = 24;
/// Bound on the heap bytes of a byte of an object.
const KEPT_PER_BYTE: u64 = 6;

/// Returns an entry by number: an item, or a pair of a map.
type Entry = fn(u64) -> (String, Value);

/// A list or map, and its entries.
struct Field {
    resource: &'static str,
    /// The JSON pointer.
    pointer: &'static str,
    entry: Entry,
    is_map: bool,
    /// The largest number of entries that the API admits.
    max: u64,
}

const fn list(resource: &'static str, pointer: &'static str, entry: Entry) -> Field {
    Field {
        resource,
        pointer,
        entry,
        is_map: false,
        max: u64::MAX,
    }
}

const fn pairs(resource: &'static str, pointer: &'static str) -> Field {
    Field {
        resource,
        pointer,
        entry: |n| (format!("k{n}"), json!("")),
        is_map: true,
        max: u64::MAX,
    }
}

const TEMPLATE: [(&str, Entry); 7] = [
    ("/containers/0/args", |_| item(json!(""))),
    ("/containers/0/env", |n| item(json!({"name": format!("A{n}")}))),
    ("/containers/0/ports", |n| {
        item(json!({"containerPort": n % 65_535 + 1}))
    }),
    ("/containers", |n| {
        item(json!({"name": format!("c{n}"), "image": "a"}))
    }),
    ("/initContainers", |n| {
        item(json!({"name": format!("i{n}"), "image": "a"}))
    }),
    ("/volumes", |n| {
        item(json!({"name": format!("v{n}"), "emptyDir": {}}))
    }),
    ("/imagePullSecrets", |n| item(json!({"name": format!("s{n}")}))),
];

const FIELDS: &[Field] = &[
    pairs("configmaps", "/metadata/labels"),
    list("configmaps", "/metadata/finalizers", |n| {
        item(json!(format!("a.b/{n}")))
    }),
    list("configmaps", "/metadata/ownerReferences", |n| item(owner(n))),
    pairs("pods", "/metadata/labels"),
    list("pods", "/metadata/ownerReferences", |n| item(owner(n))),
    list("pods", "/status/conditions", |n| {
        item(json!({"type": format!("C{n}"), "status": "True"}))
    }),
    pairs("replicasets", "/metadata/labels"),
    list("replicasets", "/spec/selector/matchExpressions", |_| {
        item(json!({"key": "app", "operator": "Exists"}))
    }),
    list("replicasets", "/status/conditions", |n| {
        item(json!({"type": format!("C{n}"), "status": "True"}))
    }),
    list("deployments", "/spec/selector/matchExpressions", |_| {
        item(json!({"key": "app", "operator": "Exists"}))
    }),
    list("deployments", "/status/conditions", |n| {
        item(json!({"type": format!("C{n}"), "status": "True"}))
    }),
    pairs("services", "/spec/selector"),
    Field {
        max: 65_535,
        ..list("services", "/spec/ports", |n| {
            item(json!({"name": format!("p{n}"), "port": n + 1, "protocol": "TCP"}))
        })
    },
];

pub(super) async fn run(load: &mut Load) {
    load.prepare_hostile().await;
    let cluster = load.cluster.clone();
    let bytes_max = load.scaled(OBJECT_BYTES as u64);
    let (mut created, mut bytes) = (Vec::new(), 0);
    let of_templates = TEMPLATE.iter().flat_map(|(field, entry)| {
        [
            ("pods", "/spec"),
            ("replicasets", "/spec/template/spec"),
            ("deployments", "/spec/template/spec"),
        ]
        .map(|(resource, spec)| (resource, format!("{spec}{field}"), *entry, false, u64::MAX))
    });
    let others = FIELDS
        .iter()
        .map(|it| (it.resource, it.pointer.to_owned(), it.entry, it.is_map, it.max));
    for (number, (resource, pointer, entry, is_map, max)) in others.chain(of_templates).enumerate() {
        let name = format!("object-{number}");
        let (object, status) = outside(|| {
            let value = fill(entry, is_map, max, bytes_max);
            bytes += value.to_string().len() as u64;
            let mut object = base(resource, &name);
            if pointer.starts_with("/status") {
                let mut status = json!({"status": {}});
                set(&mut status, &pointer, value);
                return (object, Some(status));
            }
            set(&mut object, &pointer, value);
            (object, None)
        });
        cluster.create(&path(resource, TENANT), || object).await;
        if let Some(status) = status {
            cluster
                .patch(&format!("{}/{name}/status", path(resource, TENANT)), &status)
                .await;
            outside(|| drop(status));
        }
        created.push((resource, name));
    }
    load.memory_limit = bytes * KEPT_PER_BYTE + (16 << 20);
    let before = work();
    let sets = created
        .iter()
        .filter(|(resource, _)| *resource == "replicasets")
        .count() as u64;
    load.start_hostile_with(&[("replicasets", sets)]).await;
    load.report.objects = created.len() as u64;
    load.bound_allocated(
        "lists and creations",
        before,
        bytes * ALLOCATED_PER_BYTE + (16 << 20),
    );
    load.bound_poll("lists");
    let before = work();
    for (resource, name) in &created {
        let annotations = json!({"metadata": {"annotations": {"changed": "true"}}});
        cluster
            .patch(&format!("{}/{name}", path(resource, TENANT)), &annotations)
            .await;
    }
    load.serve_other("web").await;
    load.settle("changes").await;
    load.bound_allocated("changes", before, bytes * ALLOCATED_PER_BYTE + (16 << 20));
    load.bound_poll("changes");
}

fn item(value: Value) -> (String, Value) {
    (String::new(), value)
}

fn owner(n: u64) -> Value {
    json!({"apiVersion": "a.b/v1", "kind": "C", "name": "d", "uid": n.to_string()})
}

/// Returns a list or map of this number of bytes.
fn fill(entry: Entry, is_map: bool, max: u64, bytes_max: u64) -> Value {
    let mut bytes = 0;
    let entries = (0..max).map(entry).take_while(|(key, value)| {
        bytes += value.to_string().len() as u64 + 1 + if is_map { key.len() as u64 + 3 } else { 0 };
        bytes <= bytes_max
    });
    if is_map {
        Value::Object(entries.collect())
    } else {
        entries.map(|(_, value)| value).collect()
    }
}

/// Sets a field. A list of containers keeps the first one.
fn set(object: &mut Value, pointer: &str, value: Value) {
    let (parent, field) = pointer.rsplit_once('/').unwrap_or_default();
    let mut at = object;
    for segment in parent.split('/').skip(1) {
        at = match segment.parse::<usize>() {
            Ok(index) => &mut at[index],
            Err(_) => &mut at[segment],
        };
    }
    match (&mut at[field], value) {
        (Value::Array(present), Value::Array(more)) => present.extend(more),
        (Value::Object(present), Value::Object(more)) => present.extend(more),
        (present, value) => *present = value,
    }
}

/// Returns a valid object without replicas, whose labels match its selector.
fn base(resource: &str, name: &str) -> Value {
    match resource {
        "replicasets" => replica_set(name, 0),
        "deployments" => deployment(name),
        "pods" => {
            let mut pod = template(name);
            pod["metadata"] = json!({"name": name});
            pod["apiVersion"] = json!("v1");
            pod["kind"] = json!("Pod");
            pod
        }
        "services" => json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"clusterIP": "None", "selector": {"app": "web"}},
        }),
        _ => map(name, &json!([])),
    }
}
