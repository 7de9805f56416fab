//! What an `AppService` is made of: a Deployment, and a Service if it has ports. All that is said here is the
//! `AppService`'s own, and kept as it is said ([`drift`](super::drift)); nothing else of them is.

use coxswain_manager::object::{Pairs, Text};
use coxswain_manager::owner::controller_ref;
use serde_json::{Map, Value, json};

use super::object::{AppService, Policy, Port, Protocol};
use super::standing::{MADE_AS, UID};
use super::{APP_SERVICES, DEPLOYMENTS, SERVICES};

/// The container that is the application. Those beside it are their makers' business.
pub const CONTAINER: &str = "app";
/// The annotation that names those [`OPTIONAL`] fields of the container that were written last.
pub const WRITTEN: &str = "appcontroller.k8s.io/written";
/// The fields of the container that are its users' as long as the spec says nothing of them.
pub const OPTIONAL: [&str; 3] = ["env", "ports", "resources"];

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
pub fn instance(labels: &Pairs) -> Option<&Text> {
    labels.get(UID)?;
    labels.get(INSTANCE)
}

/// The Deployment.
#[must_use]
pub fn deployment(app: &AppService) -> Value {
    let mut container = json!({"name": CONTAINER, "image": app.spec.image()});
    for field in OPTIONAL {
        if let Some(wanted) = optional(app, field) {
            container[field] = wanted;
        }
    }
    let mut metadata = metadata(app, &app.spec.deployment_name);
    let written = written(app);
    if !written.is_empty() {
        metadata["annotations"][WRITTEN] = json!(written);
    }
    let pods = object(&pod_labels(app));
    json!({
        "apiVersion": DEPLOYMENTS.api_version(),
        "kind": DEPLOYMENTS.kind,
        "metadata": metadata,
        "spec": {
            "replicas": app.spec.replicas(),
            "selector": {"matchLabels": pods},
            "template": {"metadata": {"labels": pods}, "spec": {"containers": [container]}},
        },
    })
}

/// The Service; none if it has no ports.
#[must_use]
pub fn service(app: &AppService) -> Option<Value> {
    let ports: Vec<Value> = app.spec.ports.iter().map(|it| service_port(app, it)).collect();
    (!ports.is_empty()).then(|| {
        json!({
            "apiVersion": SERVICES.api_version(),
            "kind": SERVICES.kind,
            "metadata": metadata(app, &app.metadata.name),
            "spec": {"selector": object(&service_selector(app)), "ports": ports},
        })
    })
}

/// What the spec says of an [`OPTIONAL`] field of the container, if it says anything.
#[must_use]
pub fn optional(app: &AppService, field: &str) -> Option<Value> {
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

/// Which [`OPTIONAL`] fields the spec says something of.
#[must_use]
pub fn written(app: &AppService) -> String {
    let fields = OPTIONAL.into_iter().filter(|it| optional(app, it).is_some());
    fields.collect::<Vec<_>>().join(",")
}

/// A map of labels.
#[must_use]
pub fn object(pairs: &[(&'static str, Text)]) -> Value {
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
    let mut json = json!({"containerPort": port.target(), "protocol": protocol(port)});
    if let Some(name) = app.spec.port_name(port) {
        json["name"] = json!(name);
    }
    json
}

fn service_port(app: &AppService, port: &Port) -> Value {
    let mut json = json!({"port": port.port, "targetPort": port.target(), "protocol": protocol(port)});
    if let Some(name) = app.spec.port_name(port) {
        json["name"] = json!(name);
    }
    json
}

fn protocol(port: &Port) -> String {
    port.protocol().unwrap_or(Protocol::Tcp).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn app(spec: &Value) -> AppService {
        let metadata = json!({"name": "shop", "namespace": "ns", "uid": "u", "resourceVersion": "1"});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec})).expect("an AppService")
    }

    #[test]
    fn the_smallest_one_is_a_deployment_of_its_own() {
        let app = app(&json!({"deploymentName": "web", "replicas": 2}));
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
        assert_eq!(deployment(&app), expected);
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
        assert_eq!(made["metadata"]["annotations"][WRITTEN], "env,ports,resources");
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
    fn nothing_is_the_same_as_empty() {
        let app = app(&json!({"deploymentName": "web", "env": [], "resources": {}, "ports": []}));
        assert_eq!((written(&app), service(&app)), (String::new(), None));
    }
}
