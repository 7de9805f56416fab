//! Compares the CRDs in the cluster with those of this program.
//!
//! The controller of a version that is not served waits, and the API server drops fields that a CRD does not have. Both happen
//! after an upgrade without the new CRDs, so each CRD is watched, and a warning names the difference.

use std::convert::Infallible;
use std::future::pending;
use std::sync::LazyLock;
use std::time::Duration;

use serde_json::Value;
use steersman_controllers::api;
use steersman_manager::client::{ObjectEvent, ObjectState, ObjectWatch, View, WatchReport};
use steersman_manager::manager::Manager;
use steersman_manager::object::{Key, Resource};
use tokio::sync::mpsc;

const CRDS: Resource = Resource::cluster(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
);

/// Exceeds the duration of any watch: a CRD rarely changes.
const WATCH_IDLE_TIMEOUT: Duration = Duration::from_mins(11);

/// The CRDs of this program. Generating them takes longer than any other part of the start, and a simulation starts many
/// instances.
static EXPECTED: LazyLock<Vec<Value>> = LazyLock::new(api::crds);

/// Starts watching the CRD of each custom resource whose controller is enabled.
pub(crate) fn watch(manager: &Manager, controllers: &[&str]) {
    let env = manager.env();
    for expected in &*EXPECTED {
        let name = expected["metadata"]["name"].as_str().unwrap_or_default();
        let kind = expected["spec"]["names"]["singular"].as_str().unwrap_or_default();
        let controller = format!("{kind}-controller");
        if controllers.contains(&controller.as_str()) {
            let watch = ObjectWatch {
                env: env.clone(),
                client: manager.reader("crds"),
                resource: CRDS,
                key: Key::new("", name),
                view: View::Full,
                idle_timeout: WATCH_IDLE_TIMEOUT,
            };
            env.tasks.spawn(run(watch, expected));
        }
    }
}

async fn run(watch: ObjectWatch, expected: &'static Value) -> Infallible {
    let (send, mut reports) = mpsc::channel(4);
    let key = watch.key.clone();
    let compare = async {
        let mut logged = None;
        loop {
            let found = match reports.recv().await {
                Some(
                    WatchReport::Event(ObjectEvent::Updated(found))
                    | WatchReport::Opened(ObjectState {
                        object: Some(found), ..
                    }),
                ) => found,
                Some(_) => continue,
                None => pending().await,
            };
            let reason = difference(expected, &found);
            if let Some(reason) = reason.as_ref().filter(|_| reason != logged) {
                tracing::warn!(object = %CRDS.logged(&key), reason, "CRD is older than this program");
            }
            logged = reason;
        }
    };
    tokio::select! {
        biased;
        never = watch.run(send) => match never {},
        never = compare => never,
    }
}

/// Returns the parts of the only expected version that a CRD does not have. None if it has all of them.
fn difference(expected: &Value, found: &Value) -> Option<String> {
    let expected = &expected["spec"]["versions"][0];
    let name = &expected["name"];
    let mut versions = found["spec"]["versions"].as_array().into_iter().flatten();
    let Some(found) = versions.find(|it| it["name"] == *name && it["served"] == true) else {
        return Some(format!("version {name} is not served"));
    };
    let mut missing = Vec::new();
    for subresource in keys(&expected["subresources"]) {
        if found["subresources"][subresource].is_null() {
            missing.push(format!("/{subresource}"));
        }
    }
    let (expected, found) = (&expected["schema"], &found["schema"]);
    missing_fields(
        &expected["openAPIV3Schema"],
        &found["openAPIV3Schema"],
        &mut String::new(),
        &mut missing,
    );
    (!missing.is_empty()).then(|| format!("it does not have {}", missing.join(", ")))
}

/// Adds the fields of a schema that another one does not have. The path is that of the schema.
fn missing_fields(expected: &Value, found: &Value, path: &mut String, missing: &mut Vec<String>) {
    if expected.is_null() || found["x-kubernetes-preserve-unknown-fields"] == true {
        return;
    }
    let length = path.len();
    for name in keys(&expected["properties"]) {
        path.push('.');
        path.push_str(name);
        match &found["properties"][name] {
            Value::Null => missing.push(path.clone()),
            found => missing_fields(&expected["properties"][name], found, path, missing),
        }
        path.truncate(length);
    }
    for inner in ["items", "additionalProperties"] {
        path.push_str("[]");
        missing_fields(&expected[inner], &found[inner], path, missing);
        path.truncate(length);
    }
}

fn keys(object: &Value) -> impl Iterator<Item = &str> {
    object
        .as_object()
        .into_iter()
        .flat_map(|it| it.keys().map(String::as_str))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn crd_of_this_program_has_no_difference() {
        for crd in api::crds() {
            assert_eq!(difference(&crd, &crd), None);
        }
    }

    #[test]
    fn difference_names_version_subresources_and_fields() {
        let [_, expected] = api::crds().try_into().expect("two CRDs");
        let without = |pointer: &str| {
            let mut found = expected.clone();
            let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
            let parent = found.pointer_mut(&format!("/spec/versions/0{parent}"));
            parent
                .expect("a parent")
                .as_object_mut()
                .expect("an object")
                .remove(name);
            difference(&expected, &found)
        };
        let properties = "/schema/openAPIV3Schema/properties";
        for (pointer, reason) in [
            ("/served", "version \"v1alpha1\" is not served"),
            ("/subresources/scale", "it does not have /scale"),
            (
                &format!("{properties}/spec/properties/deletionPolicy"),
                "it does not have .spec.deletionPolicy",
            ),
            (
                &format!("{properties}/spec/properties/ports/items/properties/targetPort"),
                "it does not have .spec.ports[].targetPort",
            ),
        ] {
            assert_eq!(without(pointer).as_deref(), Some(reason));
        }
        assert_eq!(without("/additionalPrinterColumns"), None);
    }

    #[test]
    fn schema_that_keeps_unknown_fields_has_all_fields() {
        let [_, expected] = api::crds().try_into().expect("two CRDs");
        let mut found = expected.clone();
        found["spec"]["versions"][0]["schema"]["openAPIV3Schema"] =
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        assert_eq!(difference(&expected, &found), None);
    }
}
