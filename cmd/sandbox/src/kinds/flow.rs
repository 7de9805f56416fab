//! Flow schemas and priority levels, which are stored but steer nothing.

use serde_json::{Value, json};

use super::json::{default_number, keep_meta, number, section, set, set_default, text, with};
use super::{Rules, names};
use crate::field::FieldError;

const PLAIN: Rules = Rules {
    name_on_update: names::subdomain_name,
    generation: Some(Rules::spec_changed),
    // Their status endpoint takes nothing but status.
    status: |old, new| {
        let managed = new["metadata"]["managedFields"].clone();
        set(new, "metadata", old["metadata"].clone());
        keep_meta(
            &json!({"metadata": {"managedFields": managed}}),
            new,
            "managedFields",
        );
    },
    ..Rules::GENERIC
};

pub(super) const SCHEMA: Rules = Rules {
    default: |schema| {
        if let Some(spec) = section(schema, "spec") {
            default_number(spec, "matchingPrecedence", 1000);
        }
    },
    validate: validate_schema,
    validate_update: |_, new| validate_schema(new),
    ..PLAIN
};

pub(super) const LEVEL: Rules = Rules {
    default: default_level,
    validate: validate_level,
    validate_update: |_, new| validate_level(new),
    ..PLAIN
};

fn default_level(level: &mut Value) {
    with(level, "spec", |spec| {
        for (kind, shares) in [("limited", 30), ("exempt", 0)] {
            with(spec, kind, |limits| {
                set_default(limits, "nominalConcurrencyShares", shares);
                set_default(limits, "lendablePercent", 0);
            });
        }
        with(spec, "limited", |limited| {
            with(limited, "limitResponse", |response| {
                with(response, "queuing", |queuing| {
                    default_number(queuing, "handSize", 8);
                    default_number(queuing, "queues", 64);
                    default_number(queuing, "queueLengthLimit", 50);
                });
            });
        });
    });
}

fn validate_schema(schema: &Value) -> Vec<FieldError> {
    const PATH: &str = "spec.matchingPrecedence";
    const LEVEL: &str = "spec.priorityLevelConfiguration.name";
    let precedence = number(&schema["spec"]["matchingPrecedence"]);
    let mut errors = Vec::new();
    if precedence <= 0 {
        errors.push(FieldError::invalid(PATH, precedence, "must be a positive value"));
    }
    if precedence > 10_000 {
        errors.push(FieldError::invalid(
            PATH,
            precedence,
            "must not be greater than 10000",
        ));
    }
    if precedence == 1 && text(&schema["metadata"]["name"]) != "exempt" {
        errors.push(FieldError::invalid(
            PATH,
            precedence,
            "only the schema named 'exempt' may have matchingPrecedence 1",
        ));
    }
    let level = text(&schema["spec"]["priorityLevelConfiguration"]["name"]);
    if level.is_empty() {
        errors.push(FieldError::required(LEVEL, "must reference a priority level"));
    } else {
        for wrong in names::dns_subdomain(level) {
            errors.push(FieldError::invalid(LEVEL, level, wrong));
        }
    }
    errors
}

fn validate_level(level: &Value) -> Vec<FieldError> {
    let spec = &level["spec"];
    let kind = text(&spec["type"]);
    let mut errors = Vec::new();
    if (text(&level["metadata"]["name"]) == "exempt") != (kind == "Exempt") {
        errors.push(FieldError::invalid(
            "spec.type",
            kind,
            "must be 'Exempt' if and only if `name` is 'exempt'",
        ));
    }
    match kind {
        "Exempt" if !spec["limited"].is_null() => {
            errors.push(FieldError::forbidden(
                "spec.limited",
                "must be nil if the type is not Limited",
            ));
        }
        "Limited" if spec["limited"].is_null() => {
            errors.push(FieldError::required(
                "spec.limited",
                "must not be empty when type is Limited",
            ));
        }
        "Limited" if !spec["exempt"].is_null() => {
            errors.push(FieldError::forbidden(
                "spec.exempt",
                "must be nil if the type is Limited",
            ));
        }
        "Exempt" | "Limited" => {}
        "" => errors.push(FieldError::required("spec.type", "")),
        other => errors.push(FieldError::not_supported(
            "spec.type",
            other,
            &["Exempt", "Limited"],
        )),
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::kinds::testing::{create_errors, created, resource};

    #[test]
    fn levels_get_their_queues() {
        let level = created(
            "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io",
            json!({"spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": {}}}}}),
        );
        assert_eq!(
            level["spec"]["limited"],
            json!({"lendablePercent": 0, "nominalConcurrencyShares": 30, "limitResponse": {"type": "Queue",
                "queuing": {"handSize": 8, "queueLengthLimit": 50, "queues": 64}}})
        );
    }

    #[test]
    fn schemas_point_at_a_level() {
        assert_eq!(
            create_errors(
                "flowschemas.flowcontrol.apiserver.k8s.io",
                json!({"spec": {"matchingPrecedence": 1}})
            ),
            [
                "spec.matchingPrecedence: Invalid value: 1: only the schema named 'exempt' may have \
                 matchingPrecedence 1",
                "spec.priorityLevelConfiguration.name: Required value: must reference a priority level",
            ]
        );
    }

    #[test]
    fn the_status_endpoint_takes_only_status() {
        let kind = "flowschemas.flowcontrol.apiserver.k8s.io";
        let old = created(
            kind,
            json!({"spec": {"priorityLevelConfiguration": {"name": "a"}}}),
        );
        let mut new = old.clone();
        new["metadata"]["labels"] = json!({"a": "b"});
        new["spec"]["matchingPrecedence"] = json!(7);
        new["status"] = json!({"conditions": [{"type": "Dangling"}]});
        crate::kinds::prepare_status(&resource(kind), &old, &mut new);
        assert_eq!(new["metadata"], old["metadata"]);
        assert_eq!(new["spec"], old["spec"]);
        let shown = json!({"conditions": [{"type": "Dangling", "lastTransitionTime": null}]});
        assert_eq!(new["status"], shown);
    }
}
