//! The small kinds of core.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::printers::column::{AGE, NAME, string, wide};
use crate::printers::duration::age;
use crate::printers::kinds::Kind;
use crate::printers::read::{count, list, scalar, terminating, text, text_or};

pub static NAMESPACE: Kind = Kind {
    columns: &[
        NAME,
        string("Status", "Whether the namespace is active or going away."),
        AGE,
    ],
    cells: |object, now| {
        vec![
            json!(text(object, "/metadata/name")),
            json!(text(object, "/status/phase")),
            json!(age(object, now)),
        ]
    },
};

pub static CONFIG_MAP: Kind = Kind {
    columns: &[NAME, string("Data", "Number of entries."), AGE],
    cells: |object, now| {
        let entries = count(object, "/data") + count(object, "/binaryData");
        vec![
            json!(text(object, "/metadata/name")),
            json!(entries),
            json!(age(object, now)),
        ]
    },
};

pub static SECRET: Kind = Kind {
    columns: &[
        NAME,
        string("Type", "What the secret is for."),
        string("Data", "Number of entries."),
        AGE,
    ],
    cells: |object, now| {
        vec![
            json!(text(object, "/metadata/name")),
            json!(text(object, "/type")),
            json!(count(object, "/data")),
            json!(age(object, now)),
        ]
    },
};

pub static SERVICE_ACCOUNT: Kind = Kind {
    columns: &[NAME, AGE],
    cells: |object, now| vec![json!(text(object, "/metadata/name")), json!(age(object, now))],
};

pub static CLAIM: Kind = Kind {
    columns: &[
        NAME,
        string("Status", "Whether the claim is bound."),
        string("Volume", "Volume that the claim is bound to."),
        string("Capacity", "Size of the volume."),
        string("Access Modes", "How the volume can be mounted."),
        string("StorageClass", "Storage class of the claim."),
        string("VolumeAttributesClass", "Volume attributes class of the claim."),
        AGE,
        wide(
            "VolumeMode",
            "Whether the volume is a file system or a block device.",
        ),
    ],
    cells: |object, now| {
        let bound = !text(object, "/spec/volumeName").is_empty();
        let status = if terminating(object) {
            "Terminating"
        } else {
            text(object, "/status/phase")
        };
        let capacity = scalar(object, "/status/capacity/storage").unwrap_or_else(|| "0".to_owned());
        let class = object
            .pointer("/metadata/annotations/volume.beta.kubernetes.io~1storage-class")
            .and_then(Value::as_str)
            .unwrap_or_else(|| text(object, "/spec/storageClassName"));
        vec![
            json!(text(object, "/metadata/name")),
            json!(status),
            json!(text(object, "/spec/volumeName")),
            json!(if bound { capacity } else { String::new() }),
            json!(if bound {
                access_modes(object)
            } else {
                String::new()
            }),
            json!(class),
            json!(text_or(object, "/spec/volumeAttributesClassName", "<unset>")),
            json!(age(object, now)),
            json!(text_or(object, "/spec/volumeMode", "<unset>")),
        ]
    },
};

fn access_modes(claim: &Value) -> String {
    const SHORT: [(&str, &str); 4] = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let modes = list(claim, "/status/accessModes");
    let held = SHORT
        .iter()
        .filter(|(mode, _)| modes.iter().any(|held| held == mode));
    held.map(|(_, short)| *short).collect::<Vec<_>>().join(",")
}

pub static QUOTA: Kind = Kind {
    columns: &[
        NAME,
        string("Request", "What is used of what may be requested."),
        string("Limit", "What is used of what limits may add up to."),
        AGE,
    ],
    cells: |object, now| {
        let resources = object.pointer("/status/hard").and_then(Value::as_object);
        let resources: BTreeSet<&String> = resources.into_iter().flat_map(|map| map.keys()).collect();
        let (limits, requests): (Vec<_>, Vec<_>) = resources
            .into_iter()
            .partition(|resource| resource.starts_with("limits."));
        let shown = |resources: Vec<&String>| {
            let one = |resource: &&String| {
                let quantity = |of: &str| {
                    let quantities = object.pointer(of).unwrap_or(&Value::Null);
                    let key = resource.replace('~', "~0").replace('/', "~1");
                    scalar(quantities, &format!("/{key}")).unwrap_or_else(|| "0".to_owned())
                };
                format!(
                    "{resource}: {}/{}",
                    quantity("/status/used"),
                    quantity("/status/hard")
                )
            };
            resources.iter().map(one).collect::<Vec<_>>().join(", ")
        };
        vec![
            json!(text(object, "/metadata/name")),
            json!(shown(requests)),
            json!(shown(limits)),
            json!(age(object, now)),
        ]
    },
};
