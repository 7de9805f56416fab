//! What pods use: themselves, and what their containers ask for.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::Amounts;
use crate::meta;
use crate::quantity::Quantity;

/// What containers ask for, by its own name.
type Resources = BTreeMap<String, Quantity>;

const NAMES: [&str; 10] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
];

/// Under a quota on one of these, every container must say what it needs.
const DEMANDED: [&str; 6] = [
    "cpu",
    "limits.cpu",
    "limits.memory",
    "memory",
    "requests.cpu",
    "requests.memory",
];

pub(super) fn is_about(name: &str) -> bool {
    NAMES.contains(&name)
        || name.starts_with("hugepages-")
        || name.starts_with("requests.hugepages-")
        || name.strip_prefix("requests.").is_some_and(is_extended)
}

/// Resources that nodes are told to have, by a domain of their own.
fn is_extended(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/")
}

/// A pod that has ended is only an object.
pub(super) fn add_usage(pod: &Value, now: Timestamp, used: &mut Amounts) {
    if has_ended(pod, now) {
        return;
    }
    let sum = |kind: &str| of_pod(pod, kind);
    super::add(used, &by_quota_name(&sum("requests"), &sum("limits")));
}

fn has_ended(pod: &Value, now: Timestamp) -> bool {
    if matches!(pod["status"]["phase"].as_str(), Some("Failed" | "Succeeded")) {
        return true;
    }
    // One that should long be gone is not held against its owner.
    let grace = pod["metadata"]["deletionGracePeriodSeconds"].as_i64();
    let marked = meta::text(pod, "deletionTimestamp").parse::<Timestamp>().ok();
    let (Some(grace), Some(marked)) = (grace, marked) else {
        return false;
    };
    marked
        .checked_add(SignedDuration::from_secs(grace))
        .is_ok_and(|end| now > end)
}

fn by_quota_name(requests: &Resources, limits: &Resources) -> Amounts {
    let mut used = Amounts::from([("pods".to_owned(), Quantity::whole(1))]);
    for (name, amount) in requests {
        let plain =
            matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
        if plain {
            used.insert(name.clone(), *amount);
        }
        if plain || is_extended(name) {
            used.insert(format!("requests.{name}"), *amount);
        }
    }
    for (name, amount) in limits {
        if matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") {
            used.insert(format!("limits.{name}"), *amount);
        }
    }
    used
}

/// All containers at once, or the most that starting the pod takes; `kind` is `requests` or `limits`.
fn of_pod(pod: &Value, kind: &str) -> Resources {
    let spec = &pod["spec"];
    let mut sum = Resources::new();
    for container in list(&spec["containers"]) {
        add(&mut sum, &read(&container["resources"][kind]));
    }
    let mut sidecars = Resources::new();
    let mut starting = Resources::new();
    for container in list(&spec["initContainers"]) {
        let own = read(&container["resources"][kind]);
        let at_once = if container["restartPolicy"] == "Always" {
            add(&mut sum, &own);
            add(&mut sidecars, &own);
            sidecars.clone()
        } else {
            let mut with_sidecars = own;
            add(&mut with_sidecars, &sidecars);
            with_sidecars
        };
        raise(&mut starting, &at_once);
    }
    raise(&mut sum, &starting);
    // What is said for the pod as a whole goes before what its containers say.
    for (name, amount) in read(&spec["resources"][kind]) {
        if matches!(name.as_str(), "cpu" | "memory") || name.starts_with("hugepages-") {
            sum.insert(name, amount);
        }
    }
    for (name, amount) in read(&spec["overhead"]) {
        // An overhead raises a limit, and does not set one.
        if kind == "requests" || sum.contains_key(&name) {
            add(&mut sum, &Resources::from([(name, amount)]));
        }
    }
    sum
}

/// Which containers do not say what the quota counts.
pub(super) fn missing<'a>(pod: &Value, names: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let of_whole = &pod["spec"]["resources"];
    if ["requests", "limits"]
        .iter()
        .any(|kind| !read(&of_whole[kind]).is_empty())
    {
        return None;
    }
    let demanded: BTreeSet<&str> = names.into_iter().filter(|name| DEMANDED.contains(name)).collect();
    let mut silent: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let containers = list(&pod["spec"]["containers"]).iter();
    for container in containers.chain(list(&pod["spec"]["initContainers"])) {
        let resources = &container["resources"];
        let said = by_quota_name(&read(&resources["requests"]), &read(&resources["limits"]));
        for name in demanded.iter().filter(|name| !said.contains_key(**name)) {
            let name_of = container["name"].as_str().unwrap_or_default();
            silent.entry(name).or_default().insert(name_of);
        }
    }
    let parts: Vec<String> = silent
        .into_iter()
        .map(|(name, containers)| {
            let containers: Vec<&str> = containers.into_iter().collect();
            format!("{name} for: {}", containers.join(","))
        })
        .collect();
    (!parts.is_empty()).then(|| format!("must specify {}", parts.join("; ")))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn read(resources: &Value) -> Resources {
    super::read(resources)
}

fn add(sum: &mut Resources, more: &Resources) {
    super::add(sum, more);
}

fn raise(most: &mut Resources, other: &Resources) {
    for (name, amount) in other {
        let present = most.entry(name.clone()).or_insert(*amount);
        if amount.exceeds(*present) {
            *present = *amount;
        }
    }
}
