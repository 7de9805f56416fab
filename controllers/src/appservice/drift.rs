//! What differs between a child and what its `AppService` says, as a merge patch of that and nothing else.
//!
//! Compared is what follows from the spec: labels by their keys, the reference to the `AppService`, `replicas`, and of the
//! pods the labels and the container [`CONTAINER`]. Of that container `image` is always the `AppService`'s; those
//! [`OPTIONAL`] fields that the spec says nothing of are their writers', unless they are a remainder of what it said before
//! ([`WRITTEN`]). A list that it says something of is its own as a whole; what an entry has beside that stays, such as a
//! port that the API has allocated.
//!
//! A merge patch knows no parts of a list: one that has to be changed is written as it was read, apart from that. Whoever
//! changed it in between makes the patch fail, because it names the version.

use coxswain_manager::object::{Meta, Pairs, Text};
use coxswain_manager::owner::{adopt_patch, release_patch};
use serde_json::{Map, Value, json};

use super::APP_SERVICES;
use super::children::{self, CONTAINER, OPTIONAL, WRITTEN};
use super::object::{AppService, Policy, Service};
use super::standing::MADE_AS;
use crate::deployment::Deployment;
use crate::deployment::template::Canonical;

/// What makes the Deployment of `app` what it shall be; none if it is.
#[must_use]
pub fn deployment(app: &AppService, present: &Deployment) -> Option<Value> {
    let written = present.annotations.get(WRITTEN).map_or("", |it| &**it);
    let mut annotations = vec![(MADE_AS, app.spec.deployment_name.clone())];
    let now = children::written(app);
    if now != written {
        annotations.push((WRITTEN, now.into()));
    }
    let mut metadata = references(app, &present.metadata);
    let labels = pairs(&present.metadata.labels, &children::labels(app));
    insert(&mut metadata, "labels", labels);
    insert(
        &mut metadata,
        "annotations",
        pairs(&present.annotations, &annotations),
    );
    let mut spec = Map::new();
    if present.replicas() != app.spec.replicas() {
        spec.insert("replicas".to_owned(), json!(app.spec.replicas()));
    }
    let template = template(app, present, written);
    if !template.is_empty() {
        spec.insert("template".to_owned(), template.into());
    }
    patch(&present.metadata, metadata, spec)
}

/// What makes the Service of `app` what it shall be; none if it is.
#[must_use]
pub fn service(app: &AppService, wanted: &Value, present: &Service) -> Option<Value> {
    let mut metadata = references(app, &present.metadata);
    insert(
        &mut metadata,
        "labels",
        pairs(&present.metadata.labels, &children::labels(app)),
    );
    let made_as = [(MADE_AS, app.metadata.name.clone())];
    let annotations = pairs(&present.metadata.annotations, &made_as);
    insert(&mut metadata, "annotations", annotations);
    let mut spec = Map::new();
    let selector = children::service_selector(app);
    let mut changes = pairs(&present.spec.selector, &selector);
    // Another label would leave pods out.
    for (key, _) in &present.spec.selector {
        if !selector.iter().any(|(ours, _)| *ours == &**key) {
            changes.insert(key.to_string(), Value::Null);
        }
    }
    insert(&mut spec, "selector", changes);
    let ports: Value = read(present.spec.ports.as_deref());
    let owned = ["name", "port", "targetPort", "protocol"];
    if let Some(ports) = overlay(&ports, &wanted["spec"]["ports"], "port", &owned) {
        spec.insert("ports".to_owned(), ports);
    }
    patch(&present.metadata, metadata, spec)
}

/// What makes the reference of a child what the policy of `app` asks for; none if it is.
#[must_use]
pub fn reference(app: &AppService, child: &Meta) -> Option<Value> {
    patch(child, references(app, child), Map::new())
}

/// The references of a child, under `ownerReferences`, if they are not what the policy asks for.
fn references(app: &AppService, child: &Meta) -> Map<String, Value> {
    let wanted = match app.spec.policy() {
        Policy::Orphan => release_patch(&app.metadata, child),
        Policy::Delete => {
            let is_ours = child.owner_references.iter().any(|it| {
                it.uid == app.metadata.uid
                    && it.controller
                    && it.block_owner_deletion
                    && it.name == app.metadata.name
                    && it.kind == *APP_SERVICES.kind
                    && it.api_version == *APP_SERVICES.api_version()
            });
            (!is_ours).then(|| adopt_patch(&APP_SERVICES, &app.metadata, child))
        }
    };
    let mut metadata = Map::new();
    if let Some(mut patch) = wanted {
        metadata.insert(
            "ownerReferences".to_owned(),
            patch["metadata"]["ownerReferences"].take(),
        );
    }
    metadata
}

/// What differs in the template of the pods.
fn template(app: &AppService, present: &Deployment, written: &str) -> Map<String, Value> {
    let mut changes = Map::new();
    let labels = pairs(&present.template().labels, &children::pod_labels(app));
    if !labels.is_empty() {
        changes.insert("metadata".to_owned(), json!({"labels": labels}));
    }
    let template: Value = read(Some(&present.template().text));
    let containers = template["spec"]["containers"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let at = containers.iter().position(|it| it["name"] == CONTAINER);
    let mut container = match at {
        Some(at) => containers[at].clone(),
        None => json!({"name": CONTAINER}),
    };
    if mend(app, &mut container, written) {
        let mut containers = containers;
        match at {
            Some(at) => containers[at] = container,
            // The first one is what kubectl logs and execs into.
            None => containers.insert(0, container),
        }
        changes.insert("spec".to_owned(), json!({"containers": containers}));
    }
    changes
}

/// Makes the container what it shall be. Answers whether it was not.
fn mend(app: &AppService, container: &mut Value, written: &str) -> bool {
    let before = container.clone();
    if container["image"] != app.spec.image() {
        container["image"] = json!(app.spec.image());
    }
    for field in OPTIONAL {
        match children::optional(app, field) {
            Some(wanted) if field == "ports" => {
                let owned = ["name", "containerPort", "protocol"];
                if let Some(ports) = overlay(&container[field], &wanted, "containerPort", &owned) {
                    container[field] = ports;
                }
            }
            Some(wanted) if !same(field, &container[field], &wanted) => container[field] = wanted,
            None if written.split(',').any(|it| it == field) => {
                if let Some(map) = container.as_object_mut() {
                    map.remove(field);
                }
            }
            _ => {}
        }
    }
    // Looking for a field leaves a null.
    if let Some(map) = container.as_object_mut() {
        map.retain(|_, value| !value.is_null());
    }
    *container != before
}

/// Whether a field says the same, whatever the API has filled in.
fn same(field: &str, present: &Value, wanted: &Value) -> bool {
    let form = |value: &Value| {
        let mut value = json!({field: value});
        plain(&mut value);
        Canonical::of(&value.to_string())
    };
    form(present) == form(wanted)
}

/// Takes out what the API fills in, and what it does not keep.
fn plain(value: &mut Value) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(plain),
        Value::Object(map) => {
            map.values_mut().for_each(plain);
            if map.contains_key("fieldPath") {
                map.retain(|key, value| key != "apiVersion" || value != "v1");
            }
            map.retain(|key, value| match &**key {
                "divisor" => value != "0" && value != "",
                _ => value != "",
            });
        }
        _ => {}
    }
}

/// The list that says of its `owned` fields what `wanted` says, in its order; none if it does. What an entry has beside
/// them stays, if there was one of that number and protocol.
fn overlay(present: &Value, wanted: &Value, number: &str, owned: &[&str]) -> Option<Value> {
    let (present, wanted) = (entries(present), entries(wanted));
    let part = |it: &Value| {
        let fields = owned.iter().map(|field| match &it[field] {
            Value::Null if *field == "protocol" => json!("TCP"),
            value if *value == "" => Value::Null,
            value => value.clone(),
        });
        fields.collect::<Vec<_>>()
    };
    if present.iter().map(part).eq(wanted.iter().map(part)) {
        return None;
    }
    let protocol = |it: &Value| it["protocol"].as_str().unwrap_or("TCP").to_owned();
    let like = |a: &Value, b: &Value| a[number] == b[number] && protocol(a) == protocol(b);
    let list = wanted.iter().map(|wanted| {
        let mut entry = present
            .iter()
            .find(|it| like(it, wanted))
            .cloned()
            .unwrap_or(json!({}));
        for field in owned {
            match wanted.get(field) {
                Some(value) => entry[*field] = value.clone(),
                None => drop(entry.as_object_mut().map(|it| it.remove(*field))),
            }
        }
        entry
    });
    Some(list.collect())
}

fn entries(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], |it| it)
}

/// Those of `wanted` that are not there, or are something else.
fn pairs(present: &Pairs, wanted: &[(&'static str, Text)]) -> Map<String, Value> {
    let missing = wanted
        .iter()
        .filter(|(key, value)| present.get(key) != Some(value));
    missing
        .map(|(key, value)| ((*key).to_owned(), json!(value)))
        .collect()
}

fn insert(into: &mut Map<String, Value>, field: &str, changes: Map<String, Value>) {
    if !changes.is_empty() {
        into.insert(field.to_owned(), changes.into());
    }
}

/// Such a patch of an object in this state; none if nothing is changed.
fn patch(object: &Meta, metadata: Map<String, Value>, spec: Map<String, Value>) -> Option<Value> {
    if metadata.is_empty() && spec.is_empty() {
        return None;
    }
    let mut lock = object.lock();
    for (field, value) in metadata {
        lock[field] = value;
    }
    let mut patch = json!({"metadata": lock});
    if !spec.is_empty() {
        patch["spec"] = spec.into();
    }
    Some(patch)
}

fn read(text: Option<&str>) -> Value {
    text.and_then(|it| serde_json::from_str(it).ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests;
