//! Defaults of pods and pod templates that depend on other fields.

use crate::json::{Value, json};
use crate::registry::json::{
    default_text, each, empty, entries, flag, keep, list, number, section, set, set_default, text, with,
};

/// Sets the defaults that apply to pods and not to pod templates.
pub(crate) fn pod(pod: &mut Value) {
    with(pod, "spec", |spec| {
        set_default(spec, "enableServiceLinks", true);
        // Templates may still contain negative values, which older versions accepted.
        if number(&spec["terminationGracePeriodSeconds"]) < 0 {
            set(spec, "terminationGracePeriodSeconds", 1);
        }
        let host_network = flag(&spec["hostNetwork"]);
        for kind in ["containers", "initContainers"] {
            each(spec, kind, |container| {
                with(container, "resources", requests_from_limits);
                if host_network {
                    each(container, "ports", host_port);
                }
            });
        }
    });
}

fn requests_from_limits(resources: &mut Value) {
    let limits = resources["limits"].clone();
    if !empty(&limits)
        && let Some(requests) = section(resources, "requests")
    {
        for (name, limit) in entries(&limits) {
            set_default(requests, name, limit.clone());
        }
    }
}

fn host_port(port: &mut Value) {
    let same = number(&port["containerPort"]);
    if number(&port["hostPort"]) == 0 && same != 0 {
        set(port, "hostPort", same);
    }
}

/// Keeps the deprecated `serviceAccount` equal to `serviceAccountName`.
pub(crate) fn service_account(spec: &mut Value) {
    let names = [&spec["serviceAccountName"], &spec["serviceAccount"]];
    let name = names.into_iter().find(|name| !empty(name)).cloned();
    if let Some(name) = name {
        set(spec, "serviceAccountName", name.clone());
        set(spec, "serviceAccount", name);
    }
}

/// Sets the pull policy of a container.
pub(crate) fn container(container: &mut Value) {
    let policy = pull_policy(text(&container["image"]));
    default_text(container, "imagePullPolicy", policy);
}

/// Sets the pull policy of an image volume.
pub(crate) fn image_volume(image: &mut Value) {
    let policy = pull_policy(text(&image["reference"]));
    default_text(image, "pullPolicy", policy);
}

/// Makes a volume without a source an `emptyDir`.
pub(crate) fn volume(volume: &mut Value) {
    if entries(volume).all(|(key, _)| key == "name") {
        set(volume, "emptyDir", json!({}));
    }
}

/// Returns `Always` for the tag `latest`, which is the default and may change, and `IfNotPresent` for all others.
fn pull_policy(image: &str) -> &'static str {
    let (reference, digest) = image
        .split_once('@')
        .map_or((image, false), |(reference, _)| (reference, true));
    let (path, last) = reference.rsplit_once('/').unwrap_or(("", reference));
    let (name, tag) = last
        .split_once(':')
        .map_or((last, None), |(name, tag)| (name, Some(tag)));
    // Only the host may contain capital letters and a port. A malformed image has no tag.
    let readable = |part: &str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(&b))
    };
    let path_readable = path.split('/').skip(1).all(readable);
    let latest = tag.map_or(!digest, |tag| tag == "latest");
    if latest && readable(name) && path_readable {
        "Always"
    } else {
        "IfNotPresent"
    }
}

/// Keeps `podIP` and `podIPs` consistent.
pub(crate) fn pod_ips(status: &mut Value) {
    let first = list(&status["podIPs"]).first();
    let first = first.map_or("", |ip| text(&ip["ip"])).to_owned();
    let single = text(&status["podIP"]).to_owned();
    if single.is_empty() {
        if !first.is_empty() {
            set(status, "podIP", first);
        }
    } else if single != first {
        set(status, "podIPs", json!([{"ip": single}]));
    }
    if empty(&status["podIPs"]) {
        keep(&Value::Null, status, "podIPs");
    }
}
