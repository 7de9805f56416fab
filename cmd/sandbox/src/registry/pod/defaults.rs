//! Defaulting of pods and pod templates.

use serde_json::{Value, json};

use crate::registry::json::{
    default_number, default_text, each, empty, entries, flag, keep, list, number, section, set, set_default,
    text, with,
};
use crate::registry::pod::volumes;

/// Sets the defaults of a pod: those of a template, and some that apply only to pods.
pub(crate) fn pod(pod: &mut Value) {
    with(pod, "spec", |pod_spec| {
        each(pod_spec, "containers", requests_from_limits);
        each(pod_spec, "initContainers", requests_from_limits);
        set_default(pod_spec, "enableServiceLinks", true);
        // Templates may still contain negative values, which older versions accepted.
        if number(&pod_spec["terminationGracePeriodSeconds"]) < 0 {
            set(pod_spec, "terminationGracePeriodSeconds", 1);
        }
        if flag(&pod_spec["hostNetwork"]) {
            each(pod_spec, "containers", host_ports);
            each(pod_spec, "initContainers", host_ports);
        }
        spec(pod_spec);
    });
    with(pod, "status", |status| {
        pod_ips(status);
        for kind in [
            "containerStatuses",
            "initContainerStatuses",
            "ephemeralContainerStatuses",
        ] {
            each(status, kind, |container| {
                set_default(container, "lastState", json!({}));
                set_default(container, "state", json!({}));
            });
        }
    });
}

/// Sets the defaults of the pod template under a key.
pub(crate) fn template(parent: &mut Value, key: &str) {
    with(parent, key, |template| {
        set_default(template, "metadata", json!({}));
        if let Some(pod_spec) = section(template, "spec") {
            spec(pod_spec);
        }
    });
}

fn spec(spec: &mut Value) {
    default_text(spec, "dnsPolicy", "ClusterFirst");
    default_text(spec, "restartPolicy", "Always");
    default_text(spec, "schedulerName", "default-scheduler");
    set_default(spec, "securityContext", json!({}));
    set_default(spec, "terminationGracePeriodSeconds", 30);
    service_account(spec);
    each(spec, "volumes", volumes::default);
    for containers in ["initContainers", "containers", "ephemeralContainers"] {
        each(spec, containers, container);
    }
}

/// Keeps the deprecated `serviceAccount` equal to `serviceAccountName`.
fn service_account(spec: &mut Value) {
    let names = [text(&spec["serviceAccountName"]), text(&spec["serviceAccount"])];
    if let Some(name) = names
        .iter()
        .find(|name| !name.is_empty())
        .map(|&name| name.to_owned())
    {
        set(spec, "serviceAccountName", name.clone());
        set(spec, "serviceAccount", name);
    }
}

fn container(container: &mut Value) {
    let policy = pull_policy(text(&container["image"]));
    default_text(container, "imagePullPolicy", policy);
    default_text(container, "terminationMessagePath", "/dev/termination-log");
    default_text(container, "terminationMessagePolicy", "File");
    set_default(container, "resources", json!({}));
    each(container, "ports", |port| default_text(port, "protocol", "TCP"));
    each(container, "env", |variable| {
        with(variable, "valueFrom", value_from);
    });
    for probe_name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        with(container, probe_name, probe);
    }
    with(container, "lifecycle", |lifecycle| {
        for hook in ["postStart", "preStop"] {
            with(lifecycle, hook, |hook| with(hook, "httpGet", http_get));
        }
    });
}

fn value_from(source: &mut Value) {
    reference(source);
    with(source, "fileKeyRef", |file| set_default(file, "optional", false));
}

/// Sets the defaults of `fieldRef` and `resourceFieldRef`.
pub(crate) fn reference(source: &mut Value) {
    with(source, "fieldRef", |field| {
        default_text(field, "apiVersion", "v1");
    });
    with(source, "resourceFieldRef", |field| {
        set_default(field, "divisor", "0");
    });
}

fn probe(probe: &mut Value) {
    default_number(probe, "timeoutSeconds", 1);
    default_number(probe, "periodSeconds", 10);
    default_number(probe, "successThreshold", 1);
    default_number(probe, "failureThreshold", 3);
    with(probe, "httpGet", http_get);
    with(probe, "grpc", |grpc| set_default(grpc, "service", ""));
}

fn http_get(action: &mut Value) {
    default_text(action, "path", "/");
    default_text(action, "scheme", "HTTP");
}

/// Returns `Always` for the tag `latest`, which is the default and may change, and `IfNotPresent` for all others.
pub(crate) fn pull_policy(image: &str) -> &'static str {
    let (reference, digest) = image
        .split_once('@')
        .map_or((image, false), |(reference, _)| (reference, true));
    let (path, last) = reference
        .rsplit_once('/')
        .map_or(("", reference), |(path, last)| (path, last));
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
    let latest = match tag {
        Some(tag) => tag == "latest",
        None => !digest,
    };
    if latest && readable(name) && path_readable {
        "Always"
    } else {
        "IfNotPresent"
    }
}

fn requests_from_limits(container: &mut Value) {
    with(container, "resources", |resources| {
        let limits: Vec<(String, Value)> = entries(&resources["limits"])
            .map(|(name, limit)| (name.to_owned(), limit.clone()))
            .collect();
        if limits.is_empty() {
            return;
        }
        if let Some(requests) = section(resources, "requests") {
            for (name, limit) in limits {
                set_default(requests, &name, limit);
            }
        }
    });
}

fn host_ports(container: &mut Value) {
    each(container, "ports", |port| {
        let same = number(&port["containerPort"]);
        if number(&port["hostPort"]) == 0 && same != 0 {
            set(port, "hostPort", same);
        }
    });
}

/// Keeps `podIP` and `podIPs` consistent.
fn pod_ips(status: &mut Value) {
    let first = list(&status["podIPs"])
        .first()
        .map_or("", |ip| text(&ip["ip"]))
        .to_owned();
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
