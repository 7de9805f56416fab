//! Resource quotas.

use serde_json::Value;

use super::json::{entries, list, text};
use super::{Rules, names, pod};
use crate::field::FieldError;

const SCOPES: [&str; 7] = [
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    VOLUMES,
];
const VOLUMES: &str = "VolumeAttributesClass";

/// What the scopes of pods can limit.
const OF_PODS: [&str; 7] = [
    "cpu",
    "limits.cpu",
    "limits.memory",
    "memory",
    "pods",
    "requests.cpu",
    "requests.memory",
];

pub(super) const RULES: Rules = Rules {
    validate: |quota| {
        let mut errors = validate_spec(&quota["spec"]);
        errors.extend(validate_status(quota));
        errors
    },
    validate_update: |old, new| {
        let mut errors = validate_spec(&new["spec"]);
        let scopes = |quota: &Value| {
            let mut scopes: Vec<String> = list(&quota["spec"]["scopes"])
                .iter()
                .map(|scope| text(scope).to_owned())
                .collect();
            scopes.sort();
            scopes.dedup();
            scopes
        };
        if scopes(old) != scopes(new) {
            let scopes = new["spec"]["scopes"].clone();
            errors.push(FieldError::invalid("spec.scopes", scopes, "field is immutable"));
        }
        errors
    },
    validate_status: |_, new| validate_status(new),
    ..Rules::GENERIC
};

fn validate_spec(spec: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    validate_amounts(&spec["hard"], "spec.hard", &mut errors);
    validate_scopes(spec, &mut errors);
    validate_selector(spec, &mut errors);
    errors
}

fn validate_status(quota: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for list in ["hard", "used"] {
        validate_amounts(&quota["status"][list], &format!("status.{list}"), &mut errors);
    }
    errors
}

fn validate_amounts(amounts: &Value, path: &str, errors: &mut Vec<FieldError>) {
    for (name, amount) in entries(amounts) {
        let path = format!("{path}[{name}]");
        let wrong = names::qualified(name);
        let readable = wrong.is_empty();
        errors.extend(
            wrong
                .into_iter()
                .map(|wrong| FieldError::invalid(&path, name, wrong)),
        );
        // Names with a slash count objects or foreign resources.
        if !name.contains('/') {
            if readable && !pod::is_standard_resource(name) {
                let why = "must be a standard resource type or fully qualified";
                errors.push(FieldError::invalid(&path, name, why));
            }
            if !is_standard(name) {
                errors.push(FieldError::invalid(
                    &path,
                    name,
                    "must be a standard resource for quota",
                ));
            }
        }
        pod::validate_amount(name, amount, &path, errors);
    }
}

fn is_standard(name: &str) -> bool {
    pod::is_standard_resource(name) && name != "storage"
}

/// Whether a scope says anything about what a quota limits.
fn fits(scope: &str, name: &str) -> bool {
    match scope {
        "BestEffort" => name == "pods",
        VOLUMES => matches!(name, "persistentvolumeclaims" | "requests.storage"),
        scope if SCOPES.contains(&scope) => OF_PODS.contains(&name),
        _ => true,
    }
}

/// How many names of a quota a scope says nothing about.
fn unfit(spec: &Value, scope: &str) -> usize {
    let names = entries(&spec["hard"]).map(|(name, _)| name);
    names
        .filter(|name| is_standard(name) && !fits(scope, name))
        .count()
}

fn contradict(scopes: &[&str]) -> usize {
    let pairs = [("BestEffort", "NotBestEffort"), ("NotTerminating", "Terminating")];
    let both = |(one, other): &(&str, &str)| scopes.contains(one) && scopes.contains(other);
    pairs.iter().filter(|pair| both(pair)).count()
}

fn validate_scopes(spec: &Value, errors: &mut Vec<FieldError>) {
    let scopes: Vec<&str> = list(&spec["scopes"]).iter().map(text).collect();
    let mut wrong = |why: &str| {
        errors.push(FieldError::invalid("spec.scopes", spec["scopes"].clone(), why));
    };
    for scope in &scopes {
        if !SCOPES.contains(scope) {
            wrong("unsupported scope");
        }
        for _ in 0..unfit(spec, scope) {
            wrong("unsupported scope applied to resource");
        }
    }
    for _ in 0..contradict(&scopes) {
        wrong("conflicting scopes");
    }
}

fn validate_selector(spec: &Value, errors: &mut Vec<FieldError>) {
    const PATH: &str = "spec.scopeSelector.matchExpressions";
    let terms = list(&spec["scopeSelector"]["matchExpressions"]);
    let mut scopes = Vec::new();
    for term in terms {
        let (scope, operator) = (text(&term["scopeName"]), text(&term["operator"]));
        if !SCOPES.contains(&scope) {
            errors.push(FieldError::invalid(
                format!("{PATH}.scopeName"),
                scope,
                "unsupported scope",
            ));
        }
        for _ in 0..unfit(spec, scope) {
            let why = "unsupported scope applied to resource";
            errors.push(FieldError::invalid(PATH, spec["scopeSelector"].clone(), why));
        }
        if SCOPES.contains(&scope) && !matches!(scope, "PriorityClass" | VOLUMES) && operator != "Exists" {
            let why = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, \
                       ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort \
                       or ResourceQuotaScopeCrossNamespacePodAffinity";
            errors.push(FieldError::invalid(format!("{PATH}.operator"), operator, why));
        }
        let values = list(&term["values"]);
        match operator {
            "In" | "NotIn" if values.is_empty() => errors.push(FieldError::required(
                format!("{PATH}.values"),
                "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
            )),
            "Exists" | "DoesNotExist" if !values.is_empty() => errors.push(FieldError::invalid(
                format!("{PATH}.values"),
                term["values"].clone(),
                "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector",
            )),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            _ => errors.push(FieldError::invalid(
                format!("{PATH}.operator"),
                operator,
                "not a valid selector operator",
            )),
        }
        scopes.push(scope);
    }
    for _ in 0..contradict(&scopes) {
        errors.push(FieldError::invalid(
            PATH,
            spec["scopes"].clone(),
            "conflicting scopes",
        ));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::kinds::testing::{create_errors, updated};

    fn errors(spec: &Value) -> Vec<String> {
        create_errors("resourcequotas", json!({"spec": spec}))
    }

    #[test]
    fn quotas_count_whole_things() {
        assert_eq!(errors(&json!({"hard": {"pods": "10", "cpu": "1500m"}})), [""; 0]);
        assert_eq!(
            errors(&json!({"hard": {"pods": "1500m"}})),
            ["spec.hard[pods]: Invalid value: \"1500m\": must be an integer"]
        );
    }

    #[test]
    fn names_are_known_or_qualified() {
        assert_eq!(
            errors(&json!({"hard": {"count/widgets.example.com": "1", "requests.example.com/gpu": "1"}})),
            [""; 0]
        );
        assert_eq!(
            errors(&json!({"hard": {"storage": "1"}})),
            ["spec.hard[storage]: Invalid value: \"storage\": must be a standard resource for quota"]
        );
    }

    #[test]
    fn scopes_fit_what_is_limited_and_stay() {
        assert_eq!(
            errors(&json!({"hard": {"pods": "1"}, "scopes": ["BestEffort", "Terminating"]})),
            [""; 0]
        );
        assert_eq!(
            errors(&json!({"hard": {"cpu": "1", "secrets": "1"}, "scopes": ["BestEffort"]})),
            ["spec.scopes: Invalid value: [\"BestEffort\"]: unsupported scope applied to resource"]
        );
        assert_eq!(
            errors(&json!({"scopes": ["Terminating", "NotTerminating", "Odd"]})),
            [
                "spec.scopes: Invalid value: [\"Terminating\",\"NotTerminating\",\"Odd\"]: unsupported scope",
                "spec.scopes: Invalid value: [\"Terminating\",\"NotTerminating\",\"Odd\"]: conflicting scopes",
            ]
        );
        let (_, errors) = updated(
            "resourcequotas",
            json!({"spec": {"scopes": ["Terminating"]}}),
            json!({"spec": {"scopes": ["BestEffort"]}}),
        );
        assert_eq!(
            errors,
            ["spec.scopes: Invalid value: [\"BestEffort\"]: field is immutable"]
        );
    }
}
