//! The largest object for lists and maps of the kinds that the controllers read.

use serde_json::{Value, json};

use super::super::Load;
use super::super::cluster::{map, replica_set, template};
use super::{OBJECT_BYTES, TENANT, outside, path, work};

/// Bound on the bytes that the product allocates for a byte of an object that it lists or watches, for all caches together.
const ALLOCATED_PER_BYTE: u64 = 64;
/// Bound on the heap bytes of a byte of an object.
const KEPT_PER_BYTE: u64 = 6;
/// The smallest scale with all fields.
const ALL_FIELDS_SCALE: f64 = 0.2;

/// Returns an item or a pair by number. An item has no key.
type Entry = fn(u64) -> (String, Value);

/// Kinds, the lists and maps of one object, which share its bytes, and the largest number of entries.
type Row<'a> = (&'a [&'a str], &'a [(&'a str, Entry)], u64);

const KINDS: &[&str] = &[
    "configmaps",
    "pods",
    "services",
    "replicationcontrollers",
    "replicasets",
    "appreplicasets",
    "appservices",
];
/// The kinds with a selector and a template.
const SETS: &[&str] = &["replicasets", "appreplicasets"];
/// The kinds with a template.
const OWNERS: &[&str] = &["replicationcontrollers", "replicasets", "appreplicasets"];

const MANY: u64 = u64::MAX;
/// The annotations whose keys and values have 256 KiB together.
const ANNOTATIONS: u64 = 43_000;

const PAIR: Entry = |n| (format!("k{n}"), json!(""));
const TEXT: Entry = |_| item(json!(""));
const NAME: Entry = |n| item(json!({"name": format!("n{n}")}));
const CONDITION: Entry = |n| item(json!({"type": format!("C{n}"), "status": "True"}));
const SIDECAR: Entry = |n| item(json!({"name": format!("s{n}"), "image": "a", "restartPolicy": "Always"}));
const CONTAINER_STATUS: Entry = |n| item(json!({"name": format!("s{n}"), "restartCount": n}));
const CLAIM: Entry = |n| item(json!({"name": format!("c{n}")}));
const TIMED_CONDITION: Entry = |n| {
    item(json!({
        "type": format!("C{n}"), "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "A", "message": "",
    }))
};

/// The lists and maps of a template or pod, below its metadata and spec.
const TEMPLATE: &[(&str, Entry)] = &[
    ("/spec/containers/0/args", TEXT),
    ("/spec/containers/0/env", |n| {
        item(json!({"name": format!("A{n}")}))
    }),
    ("/spec/containers/0/ports", |n| {
        item(json!({"containerPort": n % 65_535 + 1}))
    }),
    ("/spec/volumes", |n| {
        item(json!({"name": format!("v{n}"), "emptyDir": {}}))
    }),
    ("/spec/imagePullSecrets", NAME),
];

const ROWS: &[Row<'static>] = &[
    (KINDS, &[("/metadata/annotations", PAIR)], ANNOTATIONS),
    (
        KINDS,
        &[("/metadata/finalizers", |n| item(json!(format!("a.b/{n}"))))],
        MANY,
    ),
    (&["pods"], &[("/status/conditions", CONDITION)], MANY),
    (
        &["pods"],
        &[("/status/containerStatuses", CONTAINER_STATUS)],
        MANY,
    ),
    (
        &["pods"],
        &[
            ("/spec/initContainers", SIDECAR),
            ("/status/initContainerStatuses", CONTAINER_STATUS),
        ],
        MANY,
    ),
    (&["services"], &[("/spec/selector", PAIR)], MANY),
    (
        &["services"],
        &[("/spec/ports", |n| {
            item(json!({"name": format!("p{n}"), "port": n + 1, "protocol": "TCP"}))
        })],
        65_535,
    ),
    (
        &["replicationcontrollers"],
        &[("/spec/selector", PAIR), ("/spec/template/metadata/labels", PAIR)],
        MANY,
    ),
    (
        SETS,
        &[
            ("/spec/selector/matchLabels", PAIR),
            ("/spec/template/metadata/labels", PAIR),
        ],
        MANY,
    ),
    (
        SETS,
        &[("/spec/selector/matchExpressions", |_| {
            item(json!({"key": "app", "operator": "Exists"}))
        })],
        MANY,
    ),
    (SETS, &[("/spec/selector/matchExpressions/0/values", TEXT)], MANY),
    (
        OWNERS,
        &[("/spec/template/metadata/annotations", PAIR)],
        ANNOTATIONS,
    ),
    (OWNERS, &[("/status/conditions", CONDITION)], MANY),
    (&["appservices"], &[("/status/conditions", TIMED_CONDITION)], MANY),
    (
        &["appservices"],
        &[("/spec/ports", |n| {
            item(json!({"name": format!("p{n}"), "port": n + 1}))
        })],
        MANY,
    ),
    (
        &["appservices"],
        &[("/spec/env", |n| item(json!({"name": format!("A{n}")})))],
        MANY,
    ),
    (&["appservices"], &[("/spec/resources/claims", CLAIM)], MANY),
];

/// The lists and maps of custom resources whose entries the CRD limits.
const LIMITED: &[(&str, &str, u64)] = &[
    ("appreplicasets", "/spec/selector/", 99),
    ("appreplicasets", "/status/conditions", 100),
    ("appservices", "/status/conditions", 100),
    ("appservices", "/spec/ports", 100),
    ("appservices", "/spec/env", 1000),
    ("appservices", "/spec/resources/claims", 100),
];

/// The lists and maps of one object.
struct Fields {
    resource: &'static str,
    /// JSON pointers.
    lists: Vec<(String, Entry)>,
    max: u64,
}

/// Returns the lists and maps of all kinds.
fn fields() -> Vec<Fields> {
    let mut fields = Vec::new();
    for (kinds, lists, max) in ROWS {
        for kind in *kinds {
            let limits = LIMITED
                .iter()
                .filter(|it| it.0 == *kind && lists[0].0.starts_with(it.1));
            let max = limits.map(|it| it.2).min().unwrap_or(*max);
            let lists = lists
                .iter()
                .map(|(pointer, entry)| ((*pointer).to_owned(), *entry));
            fields.push(Fields {
                resource: kind,
                lists: lists.collect(),
                max,
            });
        }
    }
    for (pointer, entry) in TEMPLATE {
        let in_owners = OWNERS
            .iter()
            .map(|kind| (*kind, format!("/spec/template{pointer}")));
        for (resource, pointer) in in_owners.chain([("pods", (*pointer).to_owned())]) {
            let lists = vec![(pointer, *entry)];
            fields.push(Fields {
                resource,
                lists,
                max: MANY,
            });
        }
    }
    fields
}

pub(super) async fn run(load: &mut Load) {
    load.prepare_hostile().await;
    let cluster = load.cluster.clone();
    let fields = outside(fields);
    // Evenly over all kinds.
    let part = (load.scale / ALL_FIELDS_SCALE).min(1.0);
    let (mut created, mut bytes, mut left) = (Vec::new(), 0, 0.0);
    for (number, Fields { resource, lists, max }) in fields.iter().enumerate() {
        left += part;
        if left < 1.0 {
            continue;
        }
        left -= 1.0;
        let name = format!("object-{number}");
        let (object, status) = outside(|| {
            let mut object = base(resource, &name);
            for (pointer, entry) in lists {
                let value = fill(*entry, *max, OBJECT_BYTES / lists.len());
                bytes += value.to_string().len() as u64;
                set(&mut object, pointer, value);
            }
            let status = object.as_object_mut().and_then(|it| it.remove("status"));
            (object, status.map(|status| json!({"status": status})))
        });
        let path = path(resource, TENANT);
        cluster.create(&path, || object).await;
        if let Some(status) = status {
            cluster.patch(&format!("{path}/{name}/status"), &status).await;
            outside(|| drop(status));
        }
        created.push((*resource, name));
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
        // The map may be full.
        let annotations = json!({"metadata": {"annotations": {"k0": "changed"}}});
        cluster
            .patch(&format!("{}/{name}", path(resource, TENANT)), &annotations)
            .await;
    }
    load.serve_other("web").await;
    load.settle("changes").await;
    load.bound_allocated("changes", before, bytes * ALLOCATED_PER_BYTE + (16 << 20));
    load.bound_poll("changes");
    outside(|| drop(fields));
}

fn item(value: Value) -> (String, Value) {
    (String::new(), value)
}

/// Returns a list or map of this number of bytes.
fn fill(entry: Entry, max: u64, bytes_max: usize) -> Value {
    let is_map = !entry(0).0.is_empty();
    let mut bytes = 0;
    let entries = (0..max).map(entry).take_while(|(key, value)| {
        bytes += value.to_string().len() + 1 + if is_map { key.len() + 3 } else { 0 };
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
    let matches = json!([{"key": "app", "operator": "In", "values": [name]}]);
    match resource {
        "replicasets" | "appreplicasets" => {
            let mut set = replica_set(name, 0);
            set["spec"]["selector"]["matchExpressions"] = matches;
            if resource == "appreplicasets" {
                set["apiVersion"] = json!("appcontroller.k8s.io/v1alpha1");
                set["kind"] = json!("AppReplicaSet");
            }
            set
        }
        "replicationcontrollers" => {
            let mut controller = replica_set(name, 0);
            controller["apiVersion"] = json!("v1");
            controller["kind"] = json!("ReplicationController");
            controller["spec"]["selector"] = json!({"app": name});
            controller
        }
        "appservices" => json!({
            "apiVersion": "appcontroller.k8s.io/v1alpha1", "kind": "AppService", "metadata": {"name": name},
            "spec": {"deploymentName": name, "image": "a", "replicas": 0},
        }),
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
