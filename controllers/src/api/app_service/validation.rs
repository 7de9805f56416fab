//! What can be said of an `AppService` before it is stored: what is filled in, and what is refused. Pure.
//!
//! The schema of the kind says most of it already. What it cannot say: defaults that depend on other fields, that two
//! ports must not get the same name, and that no other `AppService` of the namespace claims the same Deployment. The
//! controller asks [`problems`] too: it is safe without the schema and without webhooks.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{AppService, Protocol, image};

/// The longest name, and the longest value of a label.
const LONGEST: usize = 63;
/// The longest name of a port.
const LONGEST_PORT: usize = 15;

/// A value that cannot be.
const INVALID: &str = "FieldValueInvalid";

/// Why an `AppService` is refused, as a cause in a `Status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The path of the field, such as `spec.ports[1].port`.
    pub field: String,
    /// The cause in one word, such as `FieldValueInvalid`.
    pub reason: &'static str,
    /// The cause for people.
    pub message: String,
}

/// What is filled into an `AppService` that is about to be stored: the operations of a JSON patch, none if nothing is
/// missing. One that makes no sense is left to [`validate`].
#[must_use]
pub fn default(object: &Value) -> Vec<Value> {
    let Some(spec) = object["spec"].as_object() else {
        return Vec::new();
    };
    let mut operations = Vec::new();
    let missing =
        |map: &serde_json::Map<String, Value>, field: &str| map.get(field).is_none_or(Value::is_null);
    if missing(spec, "deletionPolicy") {
        operations.push(json!({"op": "add", "path": "/spec/deletionPolicy", "value": "Delete"}));
    }
    // One that cannot be read is refused, or looked at again when it can be.
    let Ok(app) = serde_json::from_value::<AppService>(object.clone()) else {
        return operations;
    };
    let ports = spec.get("ports").and_then(Value::as_array);
    for (at, port) in ports.into_iter().flatten().enumerate() {
        let (Some(fields), Some(read)) = (port.as_object(), app.spec.ports.get(at)) else {
            continue;
        };
        for (field, value) in [
            ("name", app.spec.port_name(read).map(|it| json!(it))),
            ("protocol", Some(json!("TCP"))),
            ("targetPort", (read.port > 0).then(|| json!(read.port))),
        ] {
            if let Some(value) = value.filter(|_| missing(fields, field)) {
                operations
                    .push(json!({"op": "add", "path": format!("/spec/ports/{at}/{field}"), "value": value}));
            }
        }
    }
    operations
}

/// Whether an `AppService` may be stored as `new`, where it was `old`, beside `others` of its namespace, where its Deployment
/// `exists` or not. What does not
/// change is not asked about others: whoever is there first is not stopped by who came later, and what is being deleted
/// can always be let go.
pub fn validate(
    new: &Value,
    old: Option<&Value>,
    others: &[Arc<AppService>],
    exists: bool,
) -> Result<(), Vec<Problem>> {
    let read = |it: &Value| serde_json::from_value::<AppService>(it.clone());
    let app = read(new).map_err(|error| {
        vec![Problem {
            field: "spec".to_owned(),
            reason: "FieldValueInvalid",
            message: format!("it cannot be read: {error}"),
        }]
    })?;
    if app.metadata.is_terminating() {
        return Ok(());
    }
    let old = old.and_then(|it| read(it).ok());
    let unchanged = |old: &AppService| old.spec == app.spec;
    if old.as_ref().is_some_and(unchanged) {
        return Ok(());
    }
    let mut problems = problems(&app);
    problems.extend(missing_image(&app, exists));
    let name = &app.spec.deployment_name;
    let claims = |it: &Arc<AppService>| {
        it.metadata.name != app.metadata.name
            && it.metadata.namespace == app.metadata.namespace
            && it.spec.deployment_name == *name
            && !it.metadata.is_terminating()
    };
    let kept = old.as_ref().is_some_and(|old| old.spec.deployment_name == *name);
    if !kept && !name.is_empty() && others.iter().any(claims) {
        problems.push(Problem {
            field: "spec.deploymentName".to_owned(),
            reason: "FieldValueDuplicate",
            // Without the name of that AppService: a review can be sent for any namespace.
            message: format!("another AppService of this namespace has Deployment {name} already"),
        });
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(problems)
    }
}

/// An `AppService` without an image takes that of its Deployment: it has to exist.
#[must_use]
pub fn missing_image(app: &AppService, deployment_exists: bool) -> Option<Problem> {
    (app.spec.image().is_none() && !deployment_exists).then(|| Problem {
        field: "spec.image".to_owned(),
        reason: "FieldValueRequired",
        message: format!(
            "an image is required, because there is no Deployment {:?} to take it from",
            app.spec.deployment_name
        ),
    })
}

/// What makes no sense in `app`, whatever else there is.
#[must_use]
pub fn problems(app: &AppService) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut say = |field: String, reason: &'static str, message: String| {
        problems.push(Problem {
            field,
            reason,
            message,
        });
    };
    let (name, spec) = (&app.metadata.name, &app.spec);
    if name.len() > LONGEST {
        let message = format!("must be no longer than {LONGEST} characters: it is the value of a label");
        say("metadata.name".to_owned(), INVALID, message);
    } else if !spec.ports.is_empty() && !name.is_empty() && !is_service_name(name) {
        let message = "must be the name of a Service, because there are ports: lower-case letters, digits and -, the \
                       first a letter, the last not -";
        say("metadata.name".to_owned(), INVALID, message.to_owned());
    }
    let field = "spec.deploymentName".to_owned();
    match &*spec.deployment_name {
        "" => say(
            field,
            "FieldValueRequired",
            "the name of the Deployment is needed".to_owned(),
        ),
        name if !is_label(name) => {
            let message = format!(
                "must be lower-case letters, digits and -, the first and the last not -, no longer than {LONGEST}"
            );
            say(field, INVALID, message);
        }
        _ => {}
    }
    if spec
        .replicas()
        .is_some_and(|it| i32::try_from(it).is_err() || it < 0)
    {
        let message = format!("must be from 0 to {}", i32::MAX);
        say("spec.replicas".to_owned(), INVALID, message);
    }
    if spec.image().is_some_and(|it| !image::is_reference(it)) {
        let message = "must be a reference to an image, such as registry.example.com/team/app:1.2";
        say("spec.image".to_owned(), INVALID, message.to_owned());
    }
    if let Some(policy) = spec.odd_policy() {
        let message = format!("must be Delete or Orphan, not {policy:?}");
        say(
            "spec.deletionPolicy".to_owned(),
            "FieldValueNotSupported",
            message,
        );
    }
    let (mut names, mut numbers) = (BTreeSet::new(), BTreeSet::new());
    for (at, port) in spec.ports.iter().enumerate() {
        let field = |field: &str| format!("spec.ports[{at}].{field}");
        for (which, number) in [("port", port.port), ("targetPort", port.target())] {
            if !(1..=65535).contains(&number) && (which == "port" || number != port.port) {
                say(field(which), INVALID, "must be from 1 to 65535".to_owned());
            }
        }
        if let Err(protocol) = port.protocol() {
            let message = format!("must be TCP, UDP or SCTP, not {protocol:?}");
            say(field("protocol"), "FieldValueNotSupported", message);
        }
        if let Some(name) = spec.port_name(port) {
            if !is_port_name(&name) {
                let message = format!(
                    "must be lower-case letters, digits and single -, with a letter, no longer than {LONGEST_PORT}"
                );
                say(field("name"), INVALID, message);
            } else if !names.insert(name.clone()) {
                say(
                    field("name"),
                    "FieldValueDuplicate",
                    format!("{name} is there already"),
                );
            }
        }
        let protocol = port.protocol().unwrap_or(Protocol::Tcp);
        if !numbers.insert((port.port, protocol)) {
            let message = format!("{}/{protocol} is there already", port.port);
            say(field("port"), "FieldValueDuplicate", message);
        }
    }
    problems
}

/// Whether it is a label of DNS, as RFC 1123 has them.
fn is_label(text: &str) -> bool {
    let word = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit();
    (1..=LONGEST).contains(&text.len())
        && text.bytes().all(|it| word(it) || it == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// Whether it is a label of DNS, as RFC 1035 has them.
fn is_service_name(text: &str) -> bool {
    is_label(text) && text.starts_with(|it: char| it.is_ascii_lowercase())
}

/// Whether it is a name for a port of a container.
fn is_port_name(text: &str) -> bool {
    is_label(text)
        && text.len() <= LONGEST_PORT
        && !text.contains("--")
        && text.contains(|it: char| it.is_ascii_lowercase())
}

#[cfg(test)]
mod tests;
