//! The desired state of the children of an `AppService`: a Deployment, and a Service if the spec has ports. The controller
//! applies these fields and no others.

use serde_json::{Map, Value, json};
use steersman_manager::object::{StringMap, Text};
use steersman_manager::owner::controller_ref;

use super::ownership::{MADE_AS_ANNOTATION, UID_LABEL};
use crate::api::app_service::{APP_SERVICES, AppService, DeletionPolicy, Port, Protocol};
use crate::support::pod_template::Canonical;
use crate::support::template_hash::Hash;
use crate::support::{DEPLOYMENTS, SERVICES};

/// The name of the application's container. Other containers belong to other field managers.
pub const CONTAINER: &str = "app";
/// Label of a child: the hash of the desired state that was applied last. Unlike an annotation, a label of a Deployment is
/// not copied to its `ReplicaSets` and does not increase the generation.
pub const APPLIED_HASH_LABEL: &str = "appcontroller.k8s.io/applied-hash";
/// Container fields that are left to other field managers if the spec does not set them.
const OPTIONAL_FIELDS: [&str; 3] = ["env", "ports", "resources"];

const NAME: &str = "app.kubernetes.io/name";
const INSTANCE: &str = "app.kubernetes.io/instance";
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// Returns the labels of the pods, which are the selector of the Deployment. They depend on names only, so they are
/// immutable as the API requires.
#[must_use]
pub fn pod_labels(app: &AppService) -> Vec<(&'static str, Text)> {
    let mut labels = service_selector(app);
    labels.insert(2, (NAME, app.spec.deployment_name.clone()));
    labels
}

/// Returns the selector of the Service. It also matches the pods of a Deployment of a previous `deploymentName`.
#[must_use]
pub fn service_selector(app: &AppService) -> Vec<(&'static str, Text)> {
    vec![
        (INSTANCE, app.metadata.name.clone()),
        (MANAGED_BY, "steersman".into()),
    ]
}

/// Returns the labels of the children.
#[must_use]
pub fn labels(app: &AppService) -> Vec<(&'static str, Text)> {
    let mut labels = pod_labels(app);
    labels.push((UID_LABEL, app.metadata.uid.to_string().into()));
    labels
}

/// Returns the selector of the pods in the format of `kubectl get pods -l`.
#[must_use]
pub fn selector_text(app: &AppService) -> String {
    let pairs = pod_labels(app).into_iter();
    let pairs: Vec<String> = pairs.map(|(key, value)| format!("{key}={value}")).collect();
    pairs.join(",")
}

/// Returns the name of the `AppService` in the labels of a child.
#[must_use]
pub fn instance(labels: &StringMap) -> Option<&Text> {
    labels.get(UID_LABEL)?;
    labels.get(INSTANCE)
}

/// Returns the desired Deployment.
#[must_use]
pub fn deployment(app: &AppService) -> Value {
    let mut container = json!({"name": CONTAINER});
    if let Some(image) = app.spec.image() {
        container["image"] = json!(image);
    }
    for field in OPTIONAL_FIELDS {
        if let Some(value) = optional_field(app, field) {
            container[field] = value;
        }
    }
    let pods = to_json(&pod_labels(app));
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
    with_hash(deployment)
}

/// Returns the desired Service, if the spec has ports.
#[must_use]
pub fn service(app: &AppService) -> Option<Value> {
    let ports: Vec<Value> = app.spec.ports.iter().map(|it| service_port(app, it)).collect();
    (!ports.is_empty()).then(|| {
        with_hash(json!({
            "apiVersion": SERVICES.api_version(),
            "kind": SERVICES.kind,
            "metadata": metadata(app, &app.metadata.name),
            "spec": {"selector": to_json(&service_selector(app)), "ports": ports},
        }))
    })
}

/// Adds the label [`APPLIED_HASH_LABEL`].
fn with_hash(mut child: Value) -> Value {
    let hash = Hash::of(&Canonical::of(&child.to_string())).text(None);
    child["metadata"]["labels"][APPLIED_HASH_LABEL] = json!(hash);
    child
}

/// Returns the value of one of the [`OPTIONAL_FIELDS`], if it is not empty.
fn optional_field(app: &AppService, field: &str) -> Option<Value> {
    let parse = |text: &Option<Box<str>>| serde_json::from_str(text.as_deref()?).ok();
    let value: Value = match field {
        "env" => parse(&app.spec.env)?,
        "resources" => parse(&app.spec.resources)?,
        _ => app.spec.ports.iter().map(|it| container_port(app, it)).collect(),
    };
    let is_set = match &value {
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => !map.is_empty(),
        _ => false,
    };
    is_set.then_some(value)
}

fn to_json(pairs: &[(&'static str, Text)]) -> Value {
    let pairs = pairs.iter().map(|(key, value)| ((*key).to_owned(), json!(value)));
    Value::Object(pairs.collect::<Map<_, _>>())
}

fn metadata(app: &AppService, name: &Text) -> Value {
    let mut metadata = json!({
        "name": name,
        "labels": to_json(&labels(app)),
        "annotations": {MADE_AS_ANNOTATION: name},
    });
    if app.spec.deletion_policy() == DeletionPolicy::Delete {
        metadata["ownerReferences"] = json!([controller_ref(&APP_SERVICES, &app.metadata)]);
    }
    metadata
}

fn container_port(app: &AppService, port: &Port) -> Value {
    with_name_and_protocol(app, port, json!({"containerPort": port.target_port()}))
}

fn service_port(app: &AppService, port: &Port) -> Value {
    with_name_and_protocol(
        app,
        port,
        json!({"port": port.port, "targetPort": port.target_port()}),
    )
}

fn with_name_and_protocol(app: &AppService, port: &Port, mut json: Value) -> Value {
    json["protocol"] = json!(port.protocol().unwrap_or(Protocol::Tcp).to_string());
    if let Some(name) = app.spec.port_name(port) {
        json["name"] = json!(name);
    }
    json
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Removes the hash, which must be present.
    fn without_hash(mut child: Value) -> Value {
        let labels = child["metadata"]["labels"].as_object_mut().expect("labels");
        assert!(labels.remove(APPLIED_HASH_LABEL).is_some_and(|it| it.is_string()));
        child
    }

    fn app(spec: &Value) -> AppService {
        let metadata = json!({"name": "shop", "namespace": "ns", "uid": "u", "resourceVersion": "1"});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec})).expect("an AppService")
    }

    #[test]
    fn minimal_spec_creates_a_deployment() {
        let app = app(&json!({"deploymentName": "web", "image": "nginx", "replicas": 2}));
        let pods = json!({"app.kubernetes.io/name": "web", "app.kubernetes.io/instance": "shop",
                          "app.kubernetes.io/managed-by": "steersman"});
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
        assert_eq!(without_hash(deployment(&app)), expected);
        assert_eq!(service(&app), None);
        assert_eq!(
            selector_text(&app),
            "app.kubernetes.io/instance=shop,app.kubernetes.io/managed-by=steersman,app.kubernetes.io/name=web"
        );
    }

    #[test]
    fn all_spec_fields_are_desired() {
        let env = json!([{"name": "A", "value": "b"}]);
        let resources = json!({"limits": {"cpu": "1"}});
        let app = app(
            &json!({"deploymentName": "web", "image": "a:1", "env": env, "resources": resources,
            "deletionPolicy": "Orphan", "ports": [{"port": 80, "targetPort": 8080}, {"port": 53, "protocol": "UDP", "name": "dns"}]}),
        );
        let made = deployment(&app);
        assert!(
            made["metadata"].get("ownerReferences").is_none(),
            "no ownerReference under Orphan"
        );
        let container = &made["spec"]["template"]["spec"]["containers"][0];
        assert_eq!((&container["env"], &container["resources"]), (&env, &resources));
        let ports = json!([{"containerPort": 8080, "protocol": "TCP", "name": "tcp-80"},
                           {"containerPort": 53, "protocol": "UDP", "name": "dns"}]);
        assert_eq!(container["ports"], ports);
        let service = service(&app).expect("a Service");
        let ports = json!([{"port": 80, "targetPort": 8080, "protocol": "TCP", "name": "tcp-80"},
                           {"port": 53, "targetPort": 53, "protocol": "UDP", "name": "dns"}]);
        assert_eq!(service["spec"]["ports"], ports);
        assert_eq!(service["metadata"]["name"], "shop");
        let selector =
            json!({"app.kubernetes.io/instance": "shop", "app.kubernetes.io/managed-by": "steersman"});
        assert_eq!(
            service["spec"]["selector"], selector,
            "it also matches pods of a previous Deployment"
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
    fn labels_of_a_child_name_its_appservice() {
        let app = app(&json!({"deploymentName": "web"}));
        let mut labels = deployment(&app)["metadata"]["labels"].clone();
        let name = |labels: &Value| {
            let labels: StringMap = serde_json::from_value(labels.clone()).expect("labels");
            instance(&labels).cloned()
        };
        assert_eq!(name(&labels).as_deref(), Some("shop"));
        labels.as_object_mut().expect("labels").remove(UID_LABEL);
        assert_eq!(name(&labels), None, "not a child");
    }

    #[test]
    fn every_desired_field_is_in_the_hash() {
        let hash = |spec: &Value| deployment(&app(spec))["metadata"]["labels"][APPLIED_HASH_LABEL].clone();
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
}
