//! What objects cost under a `ResourceQuota`, and whether one more can be afforded.
//!
//! Everything here is a pure function over JSON: which names of a quota are about a kind, what an object uses of them,
//! whether the scopes of a quota cover it, and what refuses it. Who counts, and when, is the API's business.

mod pods;
mod scopes;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value};

pub use scopes::covers;

use crate::quantity::Quantity;
use crate::resource::Resource;

/// Amounts by the name that a quota has for them.
pub type Amounts = BTreeMap<String, Quantity>;

const CLAIMS: &str = "persistentvolumeclaims";
const STORAGE: &str = "requests.storage";
const BY_CLASS: &str = ".storageclass.storage.k8s.io/";

/// Whether a name of a quota is about objects of this resource.
#[must_use]
pub fn is_about(res: &Resource, name: &str) -> bool {
    if is_ignored(res) {
        return false;
    }
    if name.strip_prefix("count/") == Some(&*res.qualified()) {
        return true;
    }
    if !res.group.is_empty() {
        return false;
    }
    match res.plural.as_str() {
        "pods" => pods::is_about(name),
        "services" => matches!(name, "services" | "services.nodeports" | "services.loadbalancers"),
        CLAIMS => {
            let (class, of_claims) = name.split_once(BY_CLASS).unwrap_or(("any", name));
            !class.is_empty() && matches!(of_claims, CLAIMS | STORAGE)
        }
        plural @ ("configmaps" | "replicationcontrollers" | "resourcequotas" | "secrets") => name == plural,
        _ => false,
    }
}

/// Events were never counted.
fn is_ignored(res: &Resource) -> bool {
    res.collection == "events" || res.is_review()
}

/// What an object uses.
#[must_use]
pub fn usage(res: &Resource, object: &Value, now: Timestamp) -> Amounts {
    let one = Quantity::whole(1);
    let mut used = Amounts::from([(format!("count/{}", res.qualified()), one)]);
    if !res.group.is_empty() {
        return used;
    }
    match res.plural.as_str() {
        "pods" => pods::add_usage(object, now, &mut used),
        "services" => {
            used.insert("services".to_owned(), one);
            add_service(object, &mut used);
        }
        CLAIMS => {
            used.insert(CLAIMS.to_owned(), one);
            add_claim(object, &mut used);
        }
        "configmaps" | "replicationcontrollers" | "resourcequotas" | "secrets" => {
            used.insert(res.plural.clone(), one);
        }
        _ => {}
    }
    used
}

fn add_service(service: &Value, used: &mut Amounts) {
    let spec = &service["spec"];
    let ports = spec["ports"].as_array().map(Vec::as_slice).unwrap_or_default();
    let balanced = spec["type"] == "LoadBalancer";
    // Node ports that are allocated later count by intent.
    let node_ports = match spec["type"].as_str() {
        Some("LoadBalancer") if spec["allocateLoadBalancerNodePorts"] == false => ports
            .iter()
            .filter(|port| port["nodePort"].as_i64().unwrap_or(0) != 0)
            .count(),
        Some("NodePort" | "LoadBalancer") => ports.len(),
        _ => 0,
    };
    used.insert("services.nodeports".to_owned(), Quantity::whole(node_ports));
    used.insert(
        "services.loadbalancers".to_owned(),
        Quantity::whole(usize::from(balanced)),
    );
}

fn add_claim(claim: &Value, used: &mut Amounts) {
    let annotated = &claim["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"];
    let class = annotated
        .as_str()
        .or(claim["spec"]["storageClassName"].as_str())
        .unwrap_or_default();
    let asked = Quantity::read(&claim["spec"]["resources"]["requests"]["storage"]);
    let allocated = Quantity::read(&claim["status"]["allocatedResources"]["storage"]);
    let storage = match (asked, allocated) {
        (Some(asked), Some(allocated)) if allocated.exceeds(asked) => Some(allocated),
        (asked, _) => asked,
    };
    let storage = storage.map(Quantity::round_to_whole);
    if let Some(storage) = storage {
        used.insert(STORAGE.to_owned(), storage);
    }
    if !class.is_empty() {
        used.insert(format!("{class}{BY_CLASS}{CLAIMS}"), Quantity::whole(1));
        if let Some(storage) = storage {
            used.insert(format!("{class}{BY_CLASS}{STORAGE}"), storage);
        }
    }
}

/// What an object must say to be counted, and does not.
#[must_use]
pub fn missing<'a>(
    res: &Resource,
    object: &Value,
    names: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    let pod = res.group.is_empty() && res.plural == "pods";
    pod.then(|| pods::missing(object, names)).flatten()
}

/// Adds what `more` has to what `sum` has.
pub fn add(sum: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        sum.entry(name.clone())
            .and_modify(|total| *total = total.plus(*amount))
            .or_insert(*amount);
    }
}

/// What `next` uses more than `before`; nothing that it uses less of.
#[must_use]
pub fn increase(next: &Amounts, before: &Amounts) -> Amounts {
    let more = |(name, amount): (&String, &Quantity)| {
        let grown = before.get(name).map_or(*amount, |before| amount.minus(*before));
        grown.is_positive().then(|| (name.clone(), grown))
    };
    next.iter().filter_map(more).collect()
}

/// Reads a list of amounts of a quota.
#[must_use]
pub fn read(amounts: &Value) -> Amounts {
    let amounts = amounts.as_object().into_iter().flatten();
    amounts
        .filter_map(|(name, amount)| Some((name.clone(), Quantity::read(amount)?)))
        .collect()
}

/// Writes a list of amounts.
#[must_use]
pub fn write(amounts: &Amounts) -> Value {
    let text = |(name, amount): (&String, &Quantity)| (name.clone(), amount.text().into());
    Value::Object(amounts.iter().map(text).collect::<Map<_, _>>())
}

/// Why a quota cannot take a request for `more`, or what it uses with it.
pub fn afford(name: &str, hard: &Amounts, used: &Amounts, more: &Amounts) -> Result<Amounts, String> {
    // Who asks for nothing is not held responsible for what others have taken.
    let requested: Amounts = more
        .iter()
        .filter(|(name, amount)| hard.contains_key(*name) && amount.is_positive())
        .map(|(name, amount)| (name.clone(), *amount))
        .collect();
    let mut next = used.clone();
    add(&mut next, &requested);
    let exceeded: Vec<&String> = requested
        .keys()
        .filter(|name| match (next.get(*name), hard.get(*name)) {
            (Some(next), Some(hard)) => next.exceeds(*hard),
            _ => false,
        })
        .collect();
    if exceeded.is_empty() {
        return Ok(next);
    }
    let shown = |amounts: &Amounts| {
        let parts: Vec<String> = exceeded
            .iter()
            .filter_map(|name| Some(format!("{name}={}", amounts.get(*name)?.text())))
            .collect();
        parts.join(",")
    };
    Err(format!(
        "exceeded quota: {name}, requested: {}, used: {}, limited: {}",
        shown(&requested),
        shown(used),
        shown(hard)
    ))
}
