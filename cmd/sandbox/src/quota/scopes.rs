//! Which objects the scopes of a quota cover.

use serde_json::Value;

use crate::resource::Resource;

/// Whether an object is covered by all scopes of a quota. Only pods and claims have any.
#[must_use]
pub fn covers(quota: &Value, res: &Resource, object: &Value) -> bool {
    let spec = &quota["spec"];
    let plain = list(&spec["scopes"])
        .iter()
        .map(|scope| (text(scope), "Exists", &[][..]));
    let selected = list(&spec["scopeSelector"]["matchExpressions"])
        .iter()
        .map(|term| {
            (
                text(&term["scopeName"]),
                text(&term["operator"]),
                list(&term["values"]),
            )
        });
    plain
        .chain(selected)
        .all(|(scope, operator, values)| match res.qualified().as_str() {
            "pods" => covers_pod(object, scope, operator, values),
            "persistentvolumeclaims" => covers_claim(object, scope, operator, values),
            _ => false,
        })
}

fn covers_pod(pod: &Value, scope: &str, operator: &str, values: &[Value]) -> bool {
    let spec = &pod["spec"];
    let has_deadline = spec["activeDeadlineSeconds"]
        .as_i64()
        .is_some_and(|seconds| seconds >= 0);
    let best_effort = pod["status"]["qosClass"] == "BestEffort";
    match scope {
        "Terminating" => has_deadline,
        "NotTerminating" => !has_deadline,
        "BestEffort" => best_effort,
        "NotBestEffort" => !best_effort,
        "PriorityClass" => {
            let class = text(&spec["priorityClassName"]);
            selects(Some(class).filter(|class| !class.is_empty()), operator, values)
        }
        "CrossNamespacePodAffinity" => ["podAffinity", "podAntiAffinity"].iter().any(|affinity| {
            let affinity = &spec["affinity"][affinity];
            let required = list(&affinity["requiredDuringSchedulingIgnoredDuringExecution"]).iter();
            let preferred = list(&affinity["preferredDuringSchedulingIgnoredDuringExecution"]).iter();
            required
                .chain(preferred.map(|weighted| &weighted["podAffinityTerm"]))
                .any(crosses_namespaces)
        }),
        _ => false,
    }
}

fn crosses_namespaces(term: &Value) -> bool {
    !list(&term["namespaces"]).is_empty() || !term["namespaceSelector"].is_null()
}

/// The class that a claim asks for, that it has, and that it is being given: any of them counts.
fn covers_claim(claim: &Value, scope: &str, operator: &str, values: &[Value]) -> bool {
    if scope != "VolumeAttributesClass" {
        return false;
    }
    let status = &claim["status"];
    let classes: Vec<&str> = [
        &claim["spec"]["volumeAttributesClassName"],
        &status["currentVolumeAttributesClassName"],
        &status["modifyVolumeStatus"]["targetVolumeAttributesClassName"],
    ]
    .into_iter()
    .map(text)
    .filter(|class| !class.is_empty())
    .collect();
    if classes.is_empty() {
        return selects(None, operator, values);
    }
    classes.iter().any(|class| selects(Some(class), operator, values))
}

fn selects(class: Option<&str>, operator: &str, values: &[Value]) -> bool {
    let listed = |class: &str| values.iter().any(|value| value == class);
    match operator {
        "Exists" => class.is_some(),
        "DoesNotExist" => class.is_none(),
        "In" => class.is_some_and(listed),
        "NotIn" => !class.is_some_and(listed),
        _ => false,
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
