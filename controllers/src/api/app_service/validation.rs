//! Defaulting and validation of an `AppService` before it is stored. Pure.
//!
//! Most rules are in the schema of the CRD. These are the others: defaults that depend on other fields, unique port names,
//! and the image. The controller calls [`validate_spec`] too, so it is safe without the schema and without webhooks.

use std::collections::BTreeSet;
use std::fmt::{Debug, Display};

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use steersman_manager::object::decode::{null_is_default, time};
use steersman_manager::object::{Meta, Text};
use steersman_manager::webhook::RawObject;

use super::{AppService, Protocol, Spec, image};

/// The maximum length of names and label values.
const NAME_MAX: usize = 63;
/// The maximum length of the name of an object.
const OBJECT_NAME_MAX: usize = 253;
/// The maximum length of a spec without `env` and `resources`.
const SPEC_MAX: usize = 64 * 1024;
/// The maximum number of ports, as in the CRD.
const PORTS_MAX: usize = 100;
/// The maximum length of a port name.
const PORT_NAME_MAX: usize = 15;

const RFC_1123_LABEL: &str = "a lowercase RFC 1123 label must consist of at most 63 lower case alphanumeric characters or \
                              '-', and must start and end with an alphanumeric character";
const RFC_1035_LABEL: &str = "a Service is created for the ports, and its name must consist of lower case alphanumeric \
                              characters or '-', start with a letter, and end with an alphanumeric character";
const PORT_NAME: &str = "must consist of at most 15 lower case alphanumeric characters or '-', contain at least one letter, \
                         and not contain '--' or start or end with '-'";

/// A validation error of one field, as a cause in a `Status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldError {
    /// The path of the field, such as `spec.ports[1].port`.
    pub(crate) field: String,
    /// The cause, such as `FieldValueInvalid`.
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

impl FieldError {
    fn new(field: impl Into<String>, reason: &'static str, message: String) -> Self {
        let field = field.into();
        Self {
            field,
            reason,
            message,
        }
    }

    pub(crate) fn required(field: &str, detail: &str) -> Self {
        Self::new(field, "FieldValueRequired", format!("Required value: {detail}"))
    }

    /// The error of a value that is not decoded, and not quoted.
    fn malformed(field: &str, error: impl Display) -> Self {
        Self::new(field, "FieldValueInvalid", format!("Invalid value: {error}"))
    }

    fn invalid(field: impl Into<String>, value: impl Debug, detail: &str) -> Self {
        let message = format!("Invalid value: {value:?}: {detail}");
        Self::new(field, "FieldValueInvalid", message)
    }

    fn too_many(field: &str, count: usize, max: usize) -> Self {
        let message = format!("Too many: {count}: must have at most {max} items");
        Self::new(field, "FieldValueTooMany", message)
    }

    fn duplicate(field: impl Into<String>, value: impl Debug) -> Self {
        let message = format!("Duplicate value: {value:?}");
        Self::new(field, "FieldValueDuplicate", message)
    }

    fn not_supported(field: impl Into<String>, value: &str, supported: &[&str]) -> Self {
        let supported: Vec<String> = supported.iter().map(|it| format!("{it:?}")).collect();
        let message = format!(
            "Unsupported value: {value:?}: supported values: {}",
            supported.join(", ")
        );
        Self::new(field, "FieldValueNotSupported", message)
    }
}

/// Decodes the fields of an object that its defaults and its validation depend on.
///
/// Any client that reaches the port can send an object. It needs no more memory than its text: `env` and `resources` stay
/// texts, and the rest of the spec is decoded only if it is short and has few ports.
fn decode(object: &RawObject) -> Result<AppService, FieldError> {
    #[derive(Deserialize)]
    struct Submitted {
        #[serde(default, deserialize_with = "null_is_default")]
        metadata: SubmittedMeta,
        #[serde(default, deserialize_with = "null_is_default")]
        spec: Spec,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct SubmittedMeta {
        #[serde(deserialize_with = "null_is_default")]
        namespace: Text,
        name: Text,
        #[serde(deserialize_with = "time")]
        deletion_timestamp: Option<Timestamp>,
    }
    #[derive(Deserialize)]
    struct Texts<'a> {
        #[serde(borrow)]
        env: Option<&'a RawValue>,
        #[serde(borrow)]
        resources: Option<&'a RawValue>,
        #[serde(borrow)]
        ports: Option<&'a RawValue>,
    }
    if let Some(spec) = spec(object)? {
        let texts: Texts = serde_json::from_str(spec)
            .map_err(|_| FieldError::malformed("spec", "a field of the spec is not unique"))?;
        let large = [texts.env, texts.resources].into_iter().flatten();
        if spec.len() - large.map(|it| it.get().len()).sum::<usize>() > SPEC_MAX {
            let message =
                format!("Too long: may not be more than {SPEC_MAX} bytes without env and resources");
            return Err(FieldError::new("spec", "FieldValueTooLong", message));
        }
        // The items have no size, so nothing is allocated for them. A value that is not a list is rejected below.
        let ports = texts
            .ports
            .map(|it| serde_json::from_str::<Vec<IgnoredAny>>(it.get()));
        let count = ports.and_then(Result::ok).map_or(0, |it| it.len());
        if count > PORTS_MAX {
            return Err(FieldError::too_many("spec.ports", count, PORTS_MAX));
        }
    }
    let Submitted { metadata, spec } = object
        .decode()
        .map_err(|error| FieldError::malformed("spec", error))?;
    if metadata.name.len() > OBJECT_NAME_MAX {
        let message = format!("Too long: may not be more than {OBJECT_NAME_MAX} bytes");
        return Err(FieldError::new("metadata.name", "FieldValueTooLong", message));
    }
    let metadata = Meta {
        namespace: metadata.namespace,
        name: metadata.name,
        deletion_timestamp: metadata.deletion_timestamp,
        ..Meta::default()
    };
    Ok(AppService {
        metadata,
        spec,
        ..AppService::default()
    })
}

/// Returns the text of the spec; none if it is unset. Fails unless the object and its spec are JSON objects: a decoder also reads a
/// list as the fields of a struct in their order, and a spec that is not found here would be decoded without a bound.
fn spec(object: &RawObject) -> Result<Option<&str>, FieldError> {
    #[derive(Deserialize)]
    struct Parts<'a> {
        #[serde(borrow)]
        spec: Option<&'a RawValue>,
    }
    if !object.get().starts_with('{') {
        return Err(FieldError::malformed("", "the object must be a JSON object"));
    }
    let parts: Parts = serde_json::from_str(object.get())
        .map_err(|_| FieldError::malformed("spec", "the object must have one spec"))?;
    match parts.spec.map(RawValue::get) {
        Some(spec) if !spec.starts_with('{') => {
            Err(FieldError::malformed("spec", "the spec must be a JSON object"))
        }
        spec => Ok(spec),
    }
}

/// Returns the operations of a JSON patch that sets the defaults of unset fields; none for a malformed object, which is left to
/// [`validate`].
pub(crate) fn default_patch(object: &RawObject) -> Vec<Value> {
    #[derive(Deserialize)]
    struct Ports<'a> {
        #[serde(borrow, default, deserialize_with = "null_is_default")]
        ports: Vec<&'a RawValue>,
    }
    let (Ok(Some(spec)), Ok(app)) = (spec(object), decode(object)) else {
        return Vec::new();
    };
    let mut operations = Vec::new();
    if app.spec.deletion_policy.is_none() {
        operations.push(json!({"op": "add", "path": "/spec/deletionPolicy", "value": "Delete"}));
    }
    let texts = serde_json::from_str(spec).map_or_else(|_| Vec::new(), |Ports { ports }| ports);
    for (index, (port, text)) in app.spec.ports.iter().zip(texts).enumerate() {
        if !text.get().starts_with('{') {
            // A list has no fields to add.
            continue;
        }
        for (field, is_unset, value) in [
            (
                "name",
                port.name.is_none(),
                app.spec.port_name(port).map(|it| json!(it)),
            ),
            ("protocol", port.protocol.is_none(), Some(json!("TCP"))),
            (
                "targetPort",
                port.target.is_none(),
                (port.port > 0).then(|| json!(port.port)),
            ),
        ] {
            if let Some(value) = value.filter(|_| is_unset) {
                operations.push(
                    json!({"op": "add", "path": format!("/spec/ports/{index}/{field}"), "value": value}),
                );
            }
        }
    }
    operations
}

/// Validates the create of `new`, or its update from `old`. A spec that does not change and an object that is being deleted
/// are always valid, so finalizers can be removed.
pub(crate) fn validate(
    new: &RawObject,
    old: Option<&RawObject>,
    has_default_image: bool,
) -> Result<(), Vec<FieldError>> {
    let app = decode(new).map_err(|error| vec![error])?;
    if app.metadata.is_terminating() {
        return Ok(());
    }
    let old = old.and_then(|it| decode(it).ok());
    if old.as_ref().is_some_and(|old| old.spec == app.spec) {
        return Ok(());
    }
    let mut errors = validate_spec(&app);
    // On an update the controller decides: the image of an existing Deployment is kept.
    if old.is_none() && !has_default_image {
        errors.extend(missing_image(&app));
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// Returns the error of an `AppService` without an image and a Deployment whose image it could keep.
pub(crate) fn missing_image(app: &AppService) -> Option<FieldError> {
    app.spec.image().is_none().then(|| {
        let detail = format!("Deployment {:?} does not exist yet", app.spec.deployment_name);
        FieldError::required("spec.image", &detail)
    })
}

/// Validates the name and the spec of `app`, without regard to other objects.
pub(crate) fn validate_spec(app: &AppService) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (name, spec) = (&app.metadata.name, &app.spec);
    if name.len() > NAME_MAX {
        let detail =
            format!("must be no more than {NAME_MAX} characters, because it is used as a label value");
        errors.push(FieldError::invalid("metadata.name", name, &detail));
    } else if !spec.ports.is_empty() && !name.is_empty() && !is_rfc_1035_label(name) {
        errors.push(FieldError::invalid("metadata.name", name, RFC_1035_LABEL));
    }
    match &*spec.deployment_name {
        "" => errors.push(FieldError::required(
            "spec.deploymentName",
            "name of the Deployment",
        )),
        name if !is_rfc_1123_label(name) => {
            errors.push(FieldError::invalid("spec.deploymentName", name, RFC_1123_LABEL));
        }
        _ => {}
    }
    if let Some(replicas) = spec.replicas()
        && (i32::try_from(replicas).is_err() || replicas < 0)
    {
        let detail = format!("must be between 0 and {}, inclusive", i32::MAX);
        errors.push(FieldError::invalid("spec.replicas", replicas, &detail));
    }
    if let Some(image) = spec.image().filter(|it| !image::is_reference(it)) {
        let detail = "must be an image reference such as registry.example.com/team/app:1.2";
        errors.push(FieldError::invalid("spec.image", image, detail));
    }
    if let Some(policy) = spec.unknown_deletion_policy() {
        let supported = ["Delete", "Orphan"];
        errors.push(FieldError::not_supported(
            "spec.deletionPolicy",
            policy,
            &supported,
        ));
    }
    errors.extend(validate_ports(app));
    errors
}

fn validate_ports(app: &AppService) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if app.spec.ports.len() > PORTS_MAX {
        errors.push(FieldError::too_many(
            "spec.ports",
            app.spec.ports.len(),
            PORTS_MAX,
        ));
        return errors;
    }
    let (mut names, mut numbers) = (BTreeSet::new(), BTreeSet::new());
    for (index, port) in app.spec.ports.iter().enumerate() {
        let path = |field: &str| format!("spec.ports[{index}].{field}");
        for (field, number) in [("port", port.port), ("targetPort", port.target_port())] {
            if !(1..=65535).contains(&number) && (field == "port" || number != port.port) {
                let detail = "must be between 1 and 65535, inclusive";
                errors.push(FieldError::invalid(path(field), number, detail));
            }
        }
        if let Err(protocol) = port.protocol() {
            let supported = ["SCTP", "TCP", "UDP"];
            errors.push(FieldError::not_supported(path("protocol"), protocol, &supported));
        }
        if let Some(name) = app.spec.port_name(port) {
            if !is_port_name(&name) {
                errors.push(FieldError::invalid(path("name"), name, PORT_NAME));
            } else if !names.insert(name.clone()) {
                errors.push(FieldError::duplicate(path("name"), name));
            }
        }
        let protocol = port.protocol().unwrap_or(Protocol::Tcp);
        if !numbers.insert((port.port, protocol)) {
            let value = format!("{}/{protocol}", port.port);
            errors.push(FieldError::duplicate(path("port"), value));
        }
    }
    errors
}

fn is_rfc_1123_label(text: &str) -> bool {
    let is_alphanumeric = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit();
    (1..=NAME_MAX).contains(&text.len())
        && text.bytes().all(|it| is_alphanumeric(it) || it == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}

fn is_rfc_1035_label(text: &str) -> bool {
    is_rfc_1123_label(text) && text.starts_with(|it: char| it.is_ascii_lowercase())
}

fn is_port_name(text: &str) -> bool {
    is_rfc_1123_label(text)
        && text.len() <= PORT_NAME_MAX
        && !text.contains("--")
        && text.contains(|it: char| it.is_ascii_lowercase())
}

#[cfg(test)]
mod tests;
