//! The strategies of kinds without deep rules: those of a real server that differ from [`Rules::GENERIC`], and the check
//! for required fields, which the types of the kind give.

use serde_json::{Map, Value};

use crate::field::{FieldError, Report as _};
use crate::registry::json::{section, set_default};
use crate::registry::names;
use crate::registry::rules::Rules;
use crate::schema::{self, Type, TypeRef};

const REQUIRED_CHECKED: Rules = Rules {
    validate,
    validate_update: |_, new| validate(new),
    ..Rules::GENERIC
};
const COUNTED: Rules = Rules {
    generation: Some(Rules::spec_changed),
    ..REQUIRED_CHECKED
};
const CONTENT_COUNTED: Rules = Rules {
    generation: Some(content_changed),
    ..REQUIRED_CHECKED
};
/// A PUT needs a resourceVersion.
const CONDITIONAL: Rules = Rules {
    unconditional_update: false,
    ..REQUIRED_CHECKED
};
const ADMISSION_POLICY: Rules = Rules {
    unconditional_update: false,
    ..COUNTED
};
const CREATED_BY_PUT: Rules = Rules {
    create_on_update: true,
    ..REQUIRED_CHECKED
};
const RUNTIME_CLASS: Rules = Rules {
    create_on_update: true,
    ..CONDITIONAL
};
/// The server's only default is the number of replicas, which the scale subresource shows.
const STATEFUL_SET: Rules = Rules {
    default: |set| {
        if let Some(spec) = section(set, "spec") {
            set_default(spec, "replicas", 1);
        }
    },
    ..COUNTED
};
/// An IPv6 address has colons, which a DNS subdomain cannot have.
const NAMED_BY_ADDRESS: Rules = Rules {
    name: names::segment_name,
    ..REQUIRED_CHECKED
};

/// The strategy of a kind that has no file of its own.
pub(crate) fn rules_of(kind: &str) -> &'static Rules {
    match kind {
        "CronJob"
        | "DeviceClass"
        | "FlowSchema"
        | "Ingress"
        | "IngressClass"
        | "Job"
        | "NetworkPolicy"
        | "PriorityLevelConfiguration"
        | "ResourceSlice" => &COUNTED,
        "CSIDriver" | "CSINode" | "CSIStorageCapacity" | "VolumeAttachment" => &CONDITIONAL,
        "MutatingAdmissionPolicy"
        | "MutatingAdmissionPolicyBinding"
        | "ValidatingAdmissionPolicy"
        | "ValidatingAdmissionPolicyBinding" => &ADMISSION_POLICY,
        "Endpoints" | "LimitRange" => &CREATED_BY_PUT,
        "RuntimeClass" => &RUNTIME_CLASS,
        "EndpointSlice" | "PodTemplate" => &CONTENT_COUNTED,
        "IPAddress" => &NAMED_BY_ADDRESS,
        "StatefulSet" => &STATEFUL_SET,
        _ => &REQUIRED_CHECKED,
    }
}

fn content_changed(old: &Value, new: &Value) -> bool {
    let content = |object: &Value| {
        let mut content = object.as_object().cloned().unwrap_or_default();
        content.remove("metadata");
        content
    };
    content(old) != content(new)
}

/// Returns an error for each required string that is absent. A required list or number may be absent: the real server
/// reads it as empty or zero, and checks it by rules that only deep validation has.
pub(crate) fn validate(object: &Value) -> Vec<FieldError> {
    let text = |key: &str| object[key].as_str().unwrap_or_default();
    let mut errors = Vec::new();
    if let (Some(kind), Some(fields)) = (
        schema::builtin(text("apiVersion"), text("kind")),
        object.as_object(),
    ) {
        for (name, field) in kind.fields() {
            if !matches!(name, "metadata" | "status") {
                check(&field.ty, field.required, fields.get(name), name, &mut errors);
            }
        }
    }
    errors
}

fn check_object(ty: TypeRef, object: &Map<String, Value>, path: &str, errors: &mut Vec<FieldError>) {
    for (name, field) in ty.fields().filter(|(name, _)| *name != "metadata") {
        check(
            &field.ty,
            field.required,
            object.get(name),
            &format!("{path}.{name}"),
            errors,
        );
    }
}

fn check(ty: &Type, required: bool, value: Option<&Value>, path: &str, errors: &mut Vec<FieldError>) {
    match (ty, value) {
        (Type::Object(_), Some(Value::Object(map))) => {
            if let Some(ty) = ty.object() {
                check_object(ty, map, path, errors);
            }
        }
        (Type::Object(_), None) if required => {
            if let Some(ty) = ty.object() {
                check_object(ty, &Map::new(), path, errors);
            }
        }
        (Type::List(item), Some(Value::Array(items))) => {
            for (index, value) in items.iter().enumerate() {
                check(item, false, Some(value), &format!("{path}[{index}]"), errors);
            }
        }
        (Type::Map(item), Some(Value::Object(map))) => {
            for (key, value) in map {
                check(item, false, Some(value), &format!("{path}[{key}]"), errors);
            }
        }
        (Type::String | Type::Bytes, None) if required => errors.required(path, ""),
        _ => {}
    }
}
