//! Defaulting and validation of the volumes and volume mounts of a pod.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::field::{FieldError, Report as _};
use crate::registry::json::{default_text, each, entries, list, set, set_default, text, with};
use crate::registry::names;
use crate::registry::pod::defaults::{pull_policy, reference};

/// The default file mode, `rw-r--r--`.
const FILE_MODE: i64 = 0o644;

/// Sets the defaults of one volume.
pub(crate) fn default(volume: &mut Value) {
    if entries(volume).all(|(key, _)| key == "name") {
        set(volume, "emptyDir", json!({}));
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        with(volume, source, |source| {
            set_default(source, "defaultMode", FILE_MODE);
        });
    }
    with(volume, "hostPath", |path| set_default(path, "type", ""));
    with(volume, "downwardAPI", downward);
    with(volume, "image", |image| {
        let policy = pull_policy(text(&image["reference"]));
        default_text(image, "pullPolicy", policy);
    });
    with(volume, "projected", |projected| {
        each(projected, "sources", |source| {
            with(source, "downwardAPI", downward);
            with(source, "serviceAccountToken", |token| {
                set_default(token, "expirationSeconds", 3600);
            });
        });
    });
    with(volume, "ephemeral", |ephemeral| {
        with(ephemeral, "volumeClaimTemplate", |claim| {
            set_default(claim, "metadata", json!({}));
            with(claim, "spec", |spec| {
                set_default(spec, "volumeMode", "Filesystem");
            });
        });
    });
    with(volume, "iscsi", |iscsi| {
        default_text(iscsi, "iscsiInterface", "default");
    });
}

fn downward(source: &mut Value) {
    each(source, "items", reference);
}

/// Validates the volumes. Returns the names that mounts may reference.
pub(crate) fn validate<'a>(
    volumes: &'a Value,
    path: &str,
    errors: &mut Vec<FieldError>,
) -> BTreeSet<&'a str> {
    let mut known = BTreeSet::new();
    for (i, volume) in list(volumes).iter().enumerate() {
        let path = format!("{path}[{i}]");
        let name = text(&volume["name"]);
        let before = errors.len();
        validate_source(volume, &path, errors);
        if name.is_empty() {
            errors.required(format!("{path}.name"), "");
        } else {
            for wrong in names::dns_label(name) {
                errors.invalid(format!("{path}.name"), name, wrong);
            }
        }
        if known.contains(name) {
            errors.duplicate(format!("{path}.name"), name);
        }
        if errors.len() == before {
            known.insert(name);
        }
    }
    known
}

fn validate_source(volume: &Value, path: &str, errors: &mut Vec<FieldError>) {
    // The API server checks the sources in this order, and the first one takes precedence.
    const ORDER: [&str; 8] = [
        "emptyDir",
        "hostPath",
        "secret",
        "nfs",
        "iscsi",
        "persistentVolumeClaim",
        "downwardAPI",
        "configMap",
    ];
    let rank = |source: &str| {
        ORDER
            .iter()
            .position(|known| *known == source)
            .unwrap_or(ORDER.len())
    };
    let mut sources: Vec<&str> = entries(volume)
        .map(|(key, _)| key)
        .filter(|&key| key != "name")
        .collect();
    sources.sort_by_key(|source| rank(source));
    let mut sources = sources.into_iter();
    if sources.next().is_none() {
        errors.required(path, "must specify a volume type");
    }
    for extra in sources {
        errors.forbidden(
            format!("{path}.{extra}"),
            "may not specify more than 1 volume type",
        );
    }
    for (source, needed) in [
        ("hostPath", "path"),
        ("secret", "secretName"),
        ("persistentVolumeClaim", "claimName"),
        ("nfs", "server"),
        ("nfs", "path"),
        ("configMap", "name"),
        ("csi", "driver"),
    ] {
        if volume[source].is_object() && text(&volume[source][needed]).is_empty() {
            errors.required(format!("{path}.{source}.{needed}"), "");
        }
    }
}

/// Validates the volume mounts and devices of one container.
pub(crate) fn validate_mounts(
    container: &Value,
    known: &BTreeSet<&str>,
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    let mut places = BTreeSet::new();
    let devices = list(&container["volumeDevices"]);
    for (i, mount) in list(&container["volumeMounts"]).iter().enumerate() {
        let path = format!("{path}.volumeMounts[{i}]");
        let (name, place) = (text(&mount["name"]), text(&mount["mountPath"]));
        if name.is_empty() {
            errors.required(format!("{path}.name"), "");
        }
        if !known.contains(name) {
            errors.push(FieldError::new(
                format!("{path}.name"),
                crate::field::Wrong::NotFound(name.into()),
                "",
            ));
        }
        if place.is_empty() {
            errors.required(format!("{path}.mountPath"), "");
        }
        if !places.insert(place) {
            errors.invalid(format!("{path}.mountPath"), place, "must be unique");
        }
        if devices.iter().any(|device| device["name"] == mount["name"]) {
            errors.invalid(
                format!("{path}.name"),
                name,
                "must not already exist in volumeDevices",
            );
        }
        if !text(&mount["subPathExpr"]).is_empty() && !text(&mount["subPath"]).is_empty() {
            errors.invalid(
                format!("{path}.subPathExpr"),
                text(&mount["subPathExpr"]),
                "subPathExpr and subPath are mutually exclusive",
            );
        }
    }
    for (i, device) in devices.iter().enumerate() {
        let path = format!("{path}.volumeDevices[{i}]");
        let name = text(&device["name"]);
        if name.is_empty() {
            errors.required(format!("{path}.name"), "");
        }
        if !known.contains(name) {
            errors.push(FieldError::new(
                format!("{path}.name"),
                crate::field::Wrong::NotFound(name.into()),
                "",
            ));
        }
        if text(&device["devicePath"]).is_empty() {
            errors.required(format!("{path}.devicePath"), "");
        }
    }
}
