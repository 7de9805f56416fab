//! Cells that combine several fields of an object.

use std::collections::BTreeSet;

use jiff::Timestamp;

use crate::json::{Map, Text, Value};
use crate::printers::columns::Cell::{self, At, Number, Of};
use crate::printers::duration::{human, parse};
use crate::printers::read::{condition, count, flag, int, list, scalar, terminating, text, text_or};
use crate::printers::selector::plain;
use crate::printers::{event, pod};

/// Returns the cell that `columns.txt` names; an empty cell for an unknown name.
pub fn named(name: &str) -> Cell {
    match name {
        "binding-groups" => Of(|binding| subjects(binding, "Group")),
        "binding-service-accounts" => Of(|binding| subjects(binding, "ServiceAccount")),
        "binding-users" => Of(|binding| subjects(binding, "User")),
        "claim-access-modes" => Of(claim_access_modes),
        "claim-capacity" => Of(claim_capacity),
        "claim-class" => Of(claim_class),
        "claim-status" => Of(claim_status),
        "config-map-entries" => Number(entries),
        "controller" => Of(controller),
        "cron-job-suspend" => Of(suspend),
        "deployment-selector" => Of(plain_selector),
        "event-count" => Number(event::times),
        "event-first-seen" => At(event::first_seen),
        "event-last-seen" => At(event::last_seen),
        "event-message" => Of(event::message),
        "event-object" => Of(event::target),
        "event-source" => Of(event::source),
        "event-subobject" => Of(event::subobject),
        "job-completions" => Of(job_completions),
        "job-duration" => At(job_duration),
        "job-status" => Of(job_status),
        "node-external-ip" => Of(|node| node_address(node, "ExternalIP")),
        "node-internal-ip" => Of(|node| node_address(node, "InternalIP")),
        "node-kernel" => Of(node_kernel),
        "node-roles" => Of(node_roles),
        "node-status" => Of(node_status),
        "pod-readiness-gates" => Of(pod::readiness_gates),
        "pod-ready" => Of(pod::ready),
        "pod-restarts" => At(pod::restarts),
        "pod-status" => Of(pod::status),
        "quota-limits" => Of(|resources| quota(resources, true)),
        "quota-requests" => Of(|resources| quota(resources, false)),
        "ready-of-desired" => Of(ready_of_desired),
        "role" => Of(role),
        "service-external-ip" => Of(service_external),
        "service-ports" => Of(service_ports),
        _ => Of(|_| String::new()),
    }
}

fn entries(map: &Value) -> i64 {
    let entries = count(map, "/data") + count(map, "/binaryData");
    i64::try_from(entries).unwrap_or(i64::MAX)
}

fn ready_of_desired(object: &Value) -> String {
    let (ready, desired) = (
        int(object, "/status/readyReplicas"),
        int(object, "/spec/replicas"),
    );
    format!("{ready}/{desired}")
}

fn plain_selector(object: &Value) -> String {
    plain(object.pointer("/spec/selector")).unwrap_or_else(|| "<invalid>".to_owned())
}

/// Formats the controller of a revision as `statefulset.apps/web`.
fn controller(object: &Value) -> String {
    let owners = list(object, "/metadata/ownerReferences");
    let Some(owner) = owners.iter().find(|owner| flag(owner, "/controller")) else {
        return "<none>".to_owned();
    };
    let (kind, name) = (text(owner, "/kind").to_lowercase(), text(owner, "/name"));
    match text(owner, "/apiVersion").split_once('/') {
        Some((group, _)) => format!("{kind}.{group}/{name}"),
        None => format!("{kind}/{name}"),
    }
}

fn node_status(node: &Value) -> String {
    let ready = match condition(node, "Ready") {
        "" => "Unknown",
        "True" => "Ready",
        _ => "NotReady",
    };
    if flag(node, "/spec/unschedulable") {
        format!("{ready},SchedulingDisabled")
    } else {
        ready.to_owned()
    }
}

/// Returns the sorted roles from the labels `node-role.kubernetes.io/<role>` and `kubernetes.io/role=<role>`.
fn node_roles(node: &Value) -> String {
    let labels = node.pointer("/metadata/labels").and_then(Value::as_object);
    let roles = labels
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| match key.as_str() {
            "kubernetes.io/role" => value.as_str(),
            key => key.strip_prefix("node-role.kubernetes.io/"),
        });
    let roles: BTreeSet<&str> = roles.filter(|role| !role.is_empty()).collect();
    or_none(&roles.into_iter().collect::<Vec<_>>().join(","))
}

fn node_address(node: &Value, kind: &str) -> String {
    let addresses = list(node, "/status/addresses");
    let found = addresses.iter().find(|address| text(address, "/type") == kind);
    found
        .map_or("<none>", |address| text(address, "/address"))
        .to_owned()
}

fn node_kernel(node: &Value) -> String {
    let kernel = text_or(node, "/status/nodeInfo/kernelVersion", "<unknown>");
    match text(node, "/status/nodeInfo/architecture") {
        "" => kernel.to_owned(),
        architecture => format!("{kernel} ({architecture})"),
    }
}

fn service_external(service: &Value) -> String {
    let mut addresses: Vec<&str> = Vec::new();
    let none = match text(service, "/spec/type") {
        "ClusterIP" | "NodePort" => "<none>",
        "LoadBalancer" => {
            let ingress = list(service, "/status/loadBalancer/ingress").iter();
            let balancers = ingress.map(|one| text_or(one, "/ip", text(one, "/hostname")));
            let sorted: BTreeSet<&str> = balancers.filter(|one| !one.is_empty()).collect();
            addresses.extend(sorted);
            "<pending>"
        }
        "ExternalName" => return text(service, "/spec/externalName").to_owned(),
        _ => return "<unknown>".to_owned(),
    };
    let external = list(service, "/spec/externalIPs").iter();
    addresses.extend(external.filter_map(Value::as_str));
    match addresses.join(",") {
        joined if joined.is_empty() => none.to_owned(),
        joined => joined,
    }
}

fn service_ports(service: &Value) -> String {
    let ports = list(service, "/spec/ports").iter().map(|port| {
        let (number, protocol) = (int(port, "/port"), text(port, "/protocol"));
        match int(port, "/nodePort") {
            node @ 1.. => format!("{number}:{node}/{protocol}"),
            _ => format!("{number}/{protocol}"),
        }
    });
    or_none(&ports.collect::<Vec<_>>().join(","))
}

fn claim_status(claim: &Value) -> String {
    if terminating(claim) {
        return "Terminating".to_owned();
    }
    text(claim, "/status/phase").to_owned()
}

fn is_bound(claim: &Value) -> bool {
    !text(claim, "/spec/volumeName").is_empty()
}

fn claim_capacity(claim: &Value) -> String {
    if !is_bound(claim) {
        return String::new();
    }
    scalar(claim, "/status/capacity/storage").unwrap_or_else(|| "0".to_owned())
}

fn claim_access_modes(claim: &Value) -> String {
    const SHORT: [(&str, &str); 4] = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    if !is_bound(claim) {
        return String::new();
    }
    let modes = list(claim, "/status/accessModes");
    let present = SHORT
        .iter()
        .filter(|(mode, _)| modes.iter().any(|other| other == mode));
    present.map(|(_, short)| *short).collect::<Vec<_>>().join(",")
}

fn claim_class(claim: &Value) -> String {
    let annotation = "/metadata/annotations/volume.beta.kubernetes.io~1storage-class";
    let annotated = claim.pointer(annotation).and_then(Value::as_str);
    annotated
        .unwrap_or_else(|| text(claim, "/spec/storageClassName"))
        .to_owned()
}

/// Formats used and hard amounts of a quota, either of its limits or of all other resources.
fn quota(quota: &Value, limits: bool) -> String {
    let hard = quota.pointer("/status/hard").and_then(Value::as_object);
    let names: BTreeSet<&Text> = hard.into_iter().flat_map(Map::keys).collect();
    let amount = |of: &str, name: &str| {
        let key = name.replace('~', "~0").replace('/', "~1");
        scalar(quota, &format!("/status/{of}/{key}")).unwrap_or_else(|| "0".to_owned())
    };
    let names = names
        .into_iter()
        .filter(|name| name.starts_with("limits.") == limits);
    let shown = names.map(|name| format!("{name}: {}/{}", amount("used", name), amount("hard", name)));
    shown.collect::<Vec<_>>().join(", ")
}

fn role(binding: &Value) -> String {
    format!(
        "{}/{}",
        text(binding, "/roleRef/kind"),
        text(binding, "/roleRef/name")
    )
}

fn subjects(binding: &Value, kind: &str) -> String {
    let subjects = list(binding, "/subjects").iter();
    let of_kind = subjects.filter(|subject| text(subject, "/kind") == kind);
    let shown = of_kind.map(|subject| match kind {
        "ServiceAccount" => format!("{}/{}", text(subject, "/namespace"), text(subject, "/name")),
        _ => text(subject, "/name").to_owned(),
    });
    shown.collect::<Vec<_>>().join(", ")
}

fn job_status(job: &Value) -> String {
    let is = |kind: &&str| condition(job, kind) == "True";
    let ended = ["Complete", "Failed"].iter().find(|kind| is(kind));
    let deleted = terminating(job).then_some(&"Terminating");
    let other = || {
        ["Suspended", "FailureTarget", "SuccessCriteriaMet"]
            .iter()
            .find(|kind| is(kind))
    };
    let status = ended.or(deleted).or_else(other);
    (*status.unwrap_or(&"Running")).to_owned()
}

fn job_completions(job: &Value) -> String {
    let succeeded = int(job, "/status/succeeded");
    let desired = job.pointer("/spec/completions").and_then(Value::as_i64);
    match (desired, int(job, "/spec/parallelism")) {
        (Some(desired), _) => format!("{succeeded}/{desired}"),
        (None, workers @ 2..) => format!("{succeeded}/1 of {workers}"),
        (None, _) => format!("{succeeded}/1"),
    }
}

fn job_duration(job: &Value, now: Timestamp) -> String {
    let Some(start) = parse(job.pointer("/status/startTime")) else {
        return String::new();
    };
    let end = parse(job.pointer("/status/completionTime")).unwrap_or(now);
    human(end.duration_since(start).as_secs())
}

fn suspend(cron_job: &Value) -> String {
    let suspend = cron_job.pointer("/spec/suspend").and_then(Value::as_bool);
    match suspend {
        Some(true) => "True",
        Some(false) => "False",
        None => "<unset>",
    }
    .to_owned()
}

fn or_none(text: &str) -> String {
    if text.is_empty() { "<none>" } else { text }.to_owned()
}
