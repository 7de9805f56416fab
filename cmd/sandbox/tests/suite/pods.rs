//! Pods without a kubelet: connect subresources, and the admission plugin `ServiceAccount`.

use serde_json::{Value, json};
use steersman_sandbox::{ApiService, Sandbox};

use crate::client::{get, post, sandbox};

const PODS: &str = "/api/v1/namespaces/default/pods";

fn pod(containers: &[&str]) -> Value {
    let containers: Vec<Value> = containers
        .iter()
        .map(|name| json!({"name": name, "image": "i"}))
        .collect();
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": containers}})
}

async fn create(service: &ApiService, path: &str, object: &Value) -> Value {
    let (status, answer) = post(service, path, object).await;
    assert_eq!(status, 201, "{answer}");
    answer
}

#[tokio::test(start_paused = true)]
async fn connect_subresources_answer_without_a_kubelet() {
    let service = sandbox().service();
    assert_eq!(get(&service, &format!("{PODS}/p/log")).await.0, 404);
    create(&service, PODS, &pod(&["a", "b"])).await;
    for (path, code, message) in [
        (
            "log",
            400,
            "a container name must be specified for pod p, choose one of: [a b]",
        ),
        ("log?container=c", 400, "container c is not valid for pod p"),
        ("exec?container=a", 400, "pod p does not have a host assigned"),
        ("portforward", 400, "pod p does not have a host assigned"),
        ("proxy/metrics", 400, "address not allowed"),
    ] {
        let (status, answer) = get(&service, &format!("{PODS}/p/{path}")).await;
        assert_eq!(
            (status, answer["message"].as_str()),
            (code, Some(message)),
            "{path}"
        );
    }
    assert_eq!(
        get(&service, &format!("{PODS}/p/log?container=a")).await,
        (204, Value::Null)
    );
    let node = json!({"metadata": {"name": "n"}});
    let target = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    create(&service, &format!("{PODS}/p/binding"), &target).await;
    assert_eq!(
        get(&service, &format!("{PODS}/p/log?container=a")).await.0,
        404,
        "no such node"
    );
    create(&service, "/api/v1/nodes", &node).await;
    for path in [
        "log?container=a",
        "attach?container=a",
        "exec?container=a",
        "portforward",
    ] {
        let (status, answer) = get(&service, &format!("{PODS}/p/{path}")).await;
        let message = answer["message"].as_str().unwrap_or_default();
        assert_eq!(
            (status, &answer["reason"]),
            (500, &json!("InternalError")),
            "{path}"
        );
        assert!(
            message.contains("the sandbox runs no containers"),
            "{path}: {message}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn service_account_admission_sets_account_and_token_volume() {
    let sandbox = Sandbox::builder().service_account_admission(true).start();
    let service = sandbox.expect("a sandbox").service();
    let mut unknown = pod(&["a"]);
    unknown["spec"]["serviceAccountName"] = "robot".into();
    let (status, answer) = post(&service, PODS, &unknown).await;
    let why = "pods \"p\" is forbidden: error looking up service account default/robot: serviceaccount \"robot\" not found";
    assert_eq!((status, answer["message"].as_str()), (403, Some(why)));
    let secret = json!([{"name": "registry"}]);
    let robot = json!({"metadata": {"name": "robot"}, "imagePullSecrets": secret, "automountServiceAccountToken": false});
    create(&service, "/api/v1/namespaces/default/serviceaccounts", &robot).await;
    unknown["metadata"]["name"] = "q".into();
    let made = create(&service, PODS, &unknown).await;
    assert_eq!(made["spec"]["imagePullSecrets"], secret);
    assert_eq!(made["spec"]["volumes"], Value::Null);
    let made = create(&service, PODS, &pod(&["a", "b"])).await;
    assert_eq!(made["spec"]["serviceAccountName"], "default");
    assert_eq!(made["spec"]["serviceAccount"], "default");
    let volume = &made["spec"]["volumes"][0];
    assert!(
        volume["name"]
            .as_str()
            .is_some_and(|name| name.starts_with("kube-api-access-"))
    );
    assert_eq!(
        volume["projected"]["sources"][0]["serviceAccountToken"]["expirationSeconds"],
        3607
    );
    for container in made["spec"]["containers"].as_array().into_iter().flatten() {
        let mount = &container["volumeMounts"][0];
        assert_eq!(
            (&mount["name"], &mount["readOnly"]),
            (&volume["name"], &json!(true))
        );
        assert_eq!(
            mount["mountPath"],
            "/var/run/secrets/kubernetes.io/serviceaccount"
        );
    }
}
