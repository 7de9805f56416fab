//! The desired state of the children of an `AppService`: a Deployment, and a Service if it has ports. These fields are
//! applied, and no others.

use coxswain_manager::object::{StringMap, Text};
use coxswain_manager::owner::controller_ref;
use serde_json::{Map, Value, json};

use super::standing::{MADE_AS, UID};
use super::{APP_SERVICES, DEPLOYMENTS, SERVICES};
use crate::api::app_service::{AppService, Policy, Port, Protocol};
use crate::support::pod_template::Canonical;
use crate::support::template_hash::Hash;

/// The container that is the application. Those beside it are their makers' business.
pub const CONTAINER: &str = "app";
/// The label that has the hash of the desired state that was applied last. A label of a Deployment, unlike an annotation,
/// is not copied to its `ReplicaSets` and is not a new generation.
pub const APPLIED: &str = "appcontroller.k8s.io/applied-hash";
/// The fields of the container that are left to their writers if the spec does not set them.
const OPTIONAL: [&str; 3] = ["env", "ports", "resources"];

const NAME: &str = "app.kubernetes.io/name";
const INSTANCE: &str = "app.kubernetes.io/instance";
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// The labels of the pods, by which the Deployment selects them. They never change while it lives: there is one Deployment
/// of a name.
#[must_use]
pub fn pod_labels(app: &AppService) -> Vec<(&'static str, Text)> {
    let mut labels = service_selector(app);
    labels.insert(2, (NAME, app.spec.deployment_name.clone()));
    labels
}

/// Which pods the Service leads to: those of the Deployment, and as long as there is a former one, its pods too.
#[must_use]
pub fn service_selector(app: &AppService) -> Vec<(&'static str, Text)> {
    vec![
        (INSTANCE, app.metadata.name.clone()),
        (MANAGED_BY, "coxswain".into()),
    ]
}

/// The labels of the children.
#[must_use]
pub fn labels(app: &AppService) -> Vec<(&'static str, Text)> {
    let mut labels = pod_labels(app);
    labels.push((UID, app.metadata.uid.to_string().into()));
    labels
}

/// The selector of the pods as `kubectl get pods -l` takes it.
#[must_use]
pub fn selector_text(app: &AppService) -> String {
    let pairs = pod_labels(app).into_iter();
    let pairs: Vec<String> = pairs.map(|(key, value)| format!("{key}={value}")).collect();
    pairs.join(",")
}

/// The name of the `AppService` that the labels of a child name.
#[must_use]
pub fn instance(labels: &StringMap) -> Option<&Text> {
    labels.get(UID)?;
    labels.get(INSTANCE)
}

/// The Deployment.
#[must_use]
pub fn deployment(app: &AppService) -> Value {
    let mut container = json!({"name": CONTAINER});
    if let Some(image) = app.spec.image() {
        container["image"] = json!(image);
    }
    for field in OPTIONAL {
        if let Some(wanted) = optional(app, field) {
            container[field] = wanted;
        }
    }
    let pods = object(&pod_labels(app));
    let mut deployment = json!({
        "apiVersion": DEPLOYMENTS.api_version(),
        "kind": DEPLOYMENTS.kind,
        "metadata": metadata(app, &app.spec.deployment_name),
        "spec": {
            "selector": {"matchLabels": pods},
            "template": {"metadata": {"labels": pods}, "spec": {"containers": [container]}},
        },
    });
    if let Some(replicas) = app.spec.replicas() {
        deployment["spec"]["replicas"] = json!(replicas);
    }
    hashed(deployment)
}

/// The Service; none if it has no ports.
#[must_use]
pub fn service(app: &AppService) -> Option<Value> {
    let ports: Vec<Value> = app.spec.ports.iter().map(|it| service_port(app, it)).collect();
    (!ports.is_empty()).then(|| {
        hashed(json!({
            "apiVersion": SERVICES.api_version(),
            "kind": SERVICES.kind,
            "metadata": metadata(app, &app.metadata.name),
            "spec": {"selector": object(&service_selector(app)), "ports": ports},
        }))
    })
}

/// Adds the label [`APPLIED`].
fn hashed(mut child: Value) -> Value {
    let hash = Hash::of(&Canonical::of(&child.to_string())).text(None);
    child["metadata"]["labels"][APPLIED] = json!(hash);
    child
}

/// What the spec says of an [`OPTIONAL`] field of the container, if it says anything.
fn optional(app: &AppService, field: &str) -> Option<Value> {
    let read = |text: &Option<Box<str>>| serde_json::from_str(text.as_deref()?).ok();
    let wanted: Value = match field {
        "env" => read(&app.spec.env)?,
        "resources" => read(&app.spec.resources)?,
        _ => app.spec.ports.iter().map(|it| container_port(app, it)).collect(),
    };
    let said = match &wanted {
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => !map.is_empty(),
        _ => false,
    };
    said.then_some(wanted)
}

/// A map of labels.
fn object(pairs: &[(&'static str, Text)]) -> Value {
    let pairs = pairs.iter().map(|(key, value)| ((*key).to_owned(), json!(value)));
    Value::Object(pairs.collect::<Map<_, _>>())
}

fn metadata(app: &AppService, name: &Text) -> Value {
    let mut metadata = json!({
        "name": name,
        "labels": object(&labels(app)),
        "annotations": {MADE_AS: name},
    });
    if app.spec.policy() == Policy::Delete {
        metadata["ownerReferences"] = json!([controller_ref(&APP_SERVICES, &app.metadata)]);
    }
    metadata
}

fn container_port(app: &AppService, port: &Port) -> Value {
    named(app, port, json!({"containerPort": port.target()}))
}

fn service_port(app: &AppService, port: &Port) -> Value {
    named(app, port, json!({"port": port.port, "targetPort": port.target()}))
}

/// Adds name and protocol.
fn named(app: &AppService, port: &Port, mut json: Value) -> Value {
    json["protocol"] = json!(port.protocol().unwrap_or(Protocol::Tcp).to_string());
    if let Some(name) = app.spec.port_name(port) {
        json["name"] = json!(name);
    }
    json
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::api::app_service::validation;

    /// Takes the hash from a child.
    fn unhashed(mut child: Value) -> Value {
        let labels = child["metadata"]["labels"].as_object_mut().expect("labels");
        assert!(labels.remove(APPLIED).is_some_and(|it| it.is_string()));
        child
    }

    fn app(spec: &Value) -> AppService {
        let metadata = json!({"name": "shop", "namespace": "ns", "uid": "u", "resourceVersion": "1"});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec})).expect("an AppService")
    }

    #[test]
    fn the_smallest_one_is_a_deployment_of_its_own() {
        let app = app(&json!({"deploymentName": "web", "image": "nginx", "replicas": 2}));
        let pods = json!({"app.kubernetes.io/name": "web", "app.kubernetes.io/instance": "shop",
                          "app.kubernetes.io/managed-by": "coxswain"});
        let mut labels = pods.clone();
        labels["appcontroller.k8s.io/appservice-uid"] = json!("u");
        let expected = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {
                "name": "web", "labels": labels, "annotations": {"appcontroller.k8s.io/made-as": "web"},
                "ownerReferences": [{"apiVersion": "appcontroller.k8s.io/v1alpha1", "kind": "AppService",
                    "name": "shop", "uid": "u", "controller": true, "blockOwnerDeletion": true}],
            },
            "spec": {
                "replicas": 2, "selector": {"matchLabels": pods},
                "template": {"metadata": {"labels": pods},
                             "spec": {"containers": [{"name": "app", "image": "nginx"}]}},
            },
        });
        assert_eq!(unhashed(deployment(&app)), expected);
        assert_eq!(service(&app), None);
        assert_eq!(
            selector_text(&app),
            "app.kubernetes.io/instance=shop,app.kubernetes.io/managed-by=coxswain,app.kubernetes.io/name=web"
        );
    }

    #[test]
    fn all_that_is_said_is_in_it() {
        let env = json!([{"name": "A", "value": "b"}]);
        let resources = json!({"limits": {"cpu": "1"}});
        let app = app(
            &json!({"deploymentName": "web", "image": "a:1", "env": env, "resources": resources,
            "deletionPolicy": "Orphan", "ports": [{"port": 80, "targetPort": 8080}, {"port": 53, "protocol": "UDP", "name": "dns"}]}),
        );
        let made = deployment(&app);
        assert!(
            made["metadata"].get("ownerReferences").is_none(),
            "it refers to nobody"
        );
        let container = &made["spec"]["template"]["spec"]["containers"][0];
        assert_eq!((&container["env"], &container["resources"]), (&env, &resources));
        let ports = json!([{"containerPort": 8080, "protocol": "TCP", "name": "tcp-80"},
                           {"containerPort": 53, "protocol": "UDP", "name": "dns"}]);
        assert_eq!(container["ports"], ports);
        let service = service(&app).expect("it has ports");
        let ports = json!([{"port": 80, "targetPort": 8080, "protocol": "TCP", "name": "tcp-80"},
                           {"port": 53, "targetPort": 53, "protocol": "UDP", "name": "dns"}]);
        assert_eq!(service["spec"]["ports"], ports);
        assert_eq!(service["metadata"]["name"], "shop");
        let selector =
            json!({"app.kubernetes.io/instance": "shop", "app.kubernetes.io/managed-by": "coxswain"});
        assert_eq!(
            service["spec"]["selector"], selector,
            "the pods of a former Deployment too"
        );
    }

    #[test]
    fn unset_and_empty_fields_are_not_desired() {
        let unset = deployment(&app(&json!({"deploymentName": "web"})));
        let spec = &unset["spec"];
        assert!(spec.get("replicas").is_none());
        assert_eq!(spec["template"]["spec"]["containers"], json!([{"name": "app"}]));
        let empty = app(&json!({"deploymentName": "web", "env": [], "resources": {}, "ports": []}));
        assert_eq!((deployment(&empty), service(&empty)), (unset, None));
    }

    #[test]
    fn every_desired_field_is_in_the_hash() {
        let hash = |spec: &Value| deployment(&app(spec))["metadata"]["labels"][APPLIED].clone();
        let base = json!({"deploymentName": "web"});
        for (field, value) in [
            ("replicas", json!(1)),
            ("image", json!("a:1")),
            ("env", json!([{"name": "A", "value": "b"}])),
            ("resources", json!({"limits": {"cpu": "1"}})),
            ("ports", json!([{"port": 80}])),
            ("deletionPolicy", json!("Orphan")),
        ] {
            let mut other = base.clone();
            other[field] = value;
            assert_ne!(hash(&base), hash(&other), "{field}");
        }
    }

    #[test]
    fn defaults_do_not_change_the_children() {
        let plain = app(&json!({"deploymentName": "web", "ports": [{"port": 80}, {"port": 81}]}));
        let mut object = json!({"metadata": {"name": "shop", "namespace": "ns", "uid": "u", "resourceVersion": "1"},
                                "spec": {"deploymentName": "web", "ports": [{"port": 80}, {"port": 81}]}});
        for operation in validation::default(&object.clone()) {
            let path = operation["path"].as_str().expect("a path");
            let (parent, field) = path.rsplit_once('/').expect("a field");
            object.pointer_mut(parent).expect("its parent")[field] = operation["value"].clone();
        }
        let defaulted: AppService = serde_json::from_value(object).expect("an AppService");
        assert_eq!(deployment(&plain), deployment(&defaulted));
        assert_eq!(service(&plain), service(&defaulted));
    }
}
