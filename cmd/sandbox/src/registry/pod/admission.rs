//! The mutations of default admission plugins on pods: tolerations and the quality-of-service class.
//!
//! The caller looks up the priority class, because it is another object.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::json::{Value, json};
use crate::quantity::Quantity;
use crate::registry::json::{entries, keep, list, section, set, text, with};

/// The taints that pods tolerate for five minutes by default (`DefaultTolerationSeconds`).
static NODE_TAINTS: LazyLock<[Value; 2]> = LazyLock::new(|| {
    ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"].map(
        |taint| json!({"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}),
    )
});

pub(crate) fn create(pod: &mut Value) {
    with(pod, "spec", |spec| {
        tolerations(spec);
    });
}

pub(crate) fn update(old: &Value, new: &mut Value) {
    if new["spec"].is_shared_with(&old["spec"]) {
        return;
    }
    with(new, "spec", |spec| {
        tolerations(spec);
        // Clients may send manifests without these fields.
        for key in ["priority", "preemptionPolicy"] {
            if spec[key].is_null() {
                keep(&old["spec"], spec, key);
            }
        }
    });
}

fn tolerations(spec: &mut Value) {
    let tolerated = |taint: &str| {
        list(&spec["tolerations"]).iter().any(|toleration| {
            [taint, ""].contains(&text(&toleration["key"]))
                && ["NoExecute", ""].contains(&text(&toleration["effect"]))
        })
    };
    let missing = NODE_TAINTS
        .iter()
        .filter(|default| !tolerated(text(&default["key"])));
    let missing: Vec<Value> = missing.cloned().collect();
    if !missing.is_empty() {
        set(
            spec,
            "tolerations",
            [list(&spec["tolerations"]), &missing].concat(),
        );
    }
}

/// Returns the quality-of-service class of a pod: Guaranteed, Burstable or `BestEffort`.
pub(crate) fn quality_of_service(pod: &mut Value) -> &'static str {
    let Some(spec) = section(pod, "spec") else {
        return "BestEffort";
    };
    let mut requests = BTreeMap::new();
    let mut limits = BTreeMap::new();
    let mut guaranteed = true;
    if spec["resources"].is_object() {
        add(&mut requests, &spec["resources"]["requests"]);
        let found = add(&mut limits, &spec["resources"]["limits"]);
        guaranteed = spec["resources"]["limits"].is_null() || found == 2;
    } else {
        let containers = list(&spec["containers"])
            .iter()
            .chain(list(&spec["initContainers"]));
        for container in containers {
            add(&mut requests, &container["resources"]["requests"]);
            guaranteed &= add(&mut limits, &container["resources"]["limits"]) == 2;
        }
    }
    if requests.is_empty() && limits.is_empty() {
        return "BestEffort";
    }
    let equal = requests.len() == limits.len()
        && requests.iter().all(|(name, request)| {
            limits
                .get(name)
                .is_some_and(|limit: &Quantity| limit.equals(*request))
        });
    if guaranteed && equal {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

/// Adds the CPU and memory of one resource list to a sum. Returns the number of these resources in the list.
fn add<'a>(sum: &mut BTreeMap<&'a str, Quantity>, resources: &'a Value) -> usize {
    let mut found = 0;
    for (name, amount) in entries(resources).filter(|(name, _)| matches!(*name, "cpu" | "memory")) {
        if let Some(amount) = Quantity::read(amount).filter(|amount| amount.is_positive()) {
            found += 1;
            sum.entry(name)
                .and_modify(|total| *total = total.plus(amount))
                .or_insert(amount);
        }
    }
    found
}
