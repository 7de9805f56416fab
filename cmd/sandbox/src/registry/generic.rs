//! The strategies of kinds without deep rules, where they differ from [`Rules::GENERIC`].

use crate::json::{Text, Value};
use crate::registry::json::{keep, section};
use crate::registry::names;
use crate::registry::rules::Rules;

const COUNTED: Rules = Rules {
    generation: Some(Rules::spec_changed),
    ..Rules::GENERIC
};
const CONTENT_COUNTED: Rules = Rules {
    generation: Some(content_changed),
    ..Rules::GENERIC
};
/// A class has no spec: its generation stays 1.
const PRIORITY_CLASS: Rules = Rules {
    generation: Some(|_, _| false),
    ..Rules::GENERIC
};
/// A PUT needs a resourceVersion.
const CONDITIONAL: Rules = Rules {
    unconditional_update: false,
    ..Rules::GENERIC
};
const ADMISSION_POLICY: Rules = Rules {
    unconditional_update: false,
    ..COUNTED
};
const CREATED_BY_PUT: Rules = Rules {
    create_on_update: true,
    ..Rules::GENERIC
};
const RUNTIME_CLASS: Rules = Rules {
    create_on_update: true,
    ..CONDITIONAL
};
/// An IPv6 address has colons, which a DNS subdomain cannot have.
const NAMED_BY_ADDRESS: Rules = Rules {
    name: names::segment_name,
    ..Rules::GENERIC
};
/// Coordinated leader election is behind a feature gate that is off: the server drops its fields.
pub(crate) const LEASE: Rules = Rules {
    create: |lease| drop_coordination(&Value::Null, lease),
    update: drop_coordination,
    create_on_update: true,
    unconditional_update: false,
    ..Rules::GENERIC
};

/// Returns the strategy of a kind that has no file of its own.
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
        | "ResourceSlice"
        | "StatefulSet" => &COUNTED,
        "CSIDriver" | "CSINode" | "CSIStorageCapacity" | "VolumeAttachment" => &CONDITIONAL,
        "MutatingAdmissionPolicy"
        | "MutatingAdmissionPolicyBinding"
        | "ValidatingAdmissionPolicy"
        | "ValidatingAdmissionPolicyBinding" => &ADMISSION_POLICY,
        "Endpoints" | "LimitRange" => &CREATED_BY_PUT,
        "RuntimeClass" => &RUNTIME_CLASS,
        "EndpointSlice" | "PodTemplate" => &CONTENT_COUNTED,
        "PriorityClass" => &PRIORITY_CLASS,
        "IPAddress" => &NAMED_BY_ADDRESS,
        _ => &Rules::GENERIC,
    }
}

/// Reports whether two versions differ outside of their metadata.
pub(crate) fn content_changed(old: &Value, new: &Value) -> bool {
    !content(old).eq(content(new))
}

fn content(object: &Value) -> impl Iterator<Item = (&Text, &Value)> {
    let fields = object.as_object().into_iter().flatten();
    fields.filter(|(name, _)| *name != "metadata")
}

fn drop_coordination(old: &Value, lease: &mut Value) {
    if let Some(spec) = section(lease, "spec") {
        for key in ["strategy", "preferredHolder"] {
            if old["spec"][key].is_null() {
                keep(&Value::Null, spec, key);
            }
        }
    }
}
