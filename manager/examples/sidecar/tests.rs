//! The handlers as functions, and the whole program with an API server that calls it.

use std::net::SocketAddr;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use steersman_harness::program::free_address;
use steersman_manager::client::{Client, ClientError, Transport};
use steersman_manager::env::{Env, TaskSet};
use steersman_manager::manager::Manager;
use steersman_manager::metrics::Registry;
use steersman_manager::object::Resource;
use steersman_manager::webhook::{AdmissionRequest, Operation, mutating_path, validating_path};
use steersman_sandbox::Sandbox;
use tokio_util::sync::CancellationToken;

use super::{ANNOTATION, certificate, hooks, inject, validate};

const IMAGE: &str = "example.com/agent:1.0";
const WEBHOOKS: &str = include_str!("webhooks.yaml");

fn json_of(name: &str, image: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "annotations": {ANNOTATION: image}},
        "spec": {"containers": [{"name": "app", "image": "example.com/app"}]},
    })
}

fn pod(image: &str) -> Pod {
    serde_json::from_value(json_of("web", image)).expect("a pod")
}

fn request(operation: Operation) -> AdmissionRequest {
    AdmissionRequest {
        operation,
        name: "web".to_owned(),
        ..AdmissionRequest::default()
    }
}

/// Returns the name and the image of each init container.
fn init_containers(pod: &Pod) -> Vec<(&str, &str)> {
    let containers = pod
        .spec
        .iter()
        .flat_map(|spec| spec.init_containers.iter().flatten());
    containers
        .map(|it| (it.name.as_str(), it.image.as_deref().unwrap_or_default()))
        .collect()
}

#[test]
fn annotated_pod_gets_one_sidecar_container() {
    let (mut pod, create) = (pod(IMAGE), request(Operation::Create));
    for _ in 0..2 {
        inject(&mut pod, &create);
        assert_eq!(init_containers(&pod), [("sidecar", IMAGE)]);
    }
}

#[test]
fn other_pods_are_unchanged() {
    let without_annotation = {
        let mut pod = pod(IMAGE);
        pod.metadata.annotations = None;
        pod
    };
    for (mut pod, operation) in [
        (without_annotation, Operation::Create),
        (pod("two words"), Operation::Create),
        (pod(IMAGE), Operation::Update),
    ] {
        let before = pod.clone();
        inject(&mut pod, &request(operation));
        assert_eq!(pod, before);
    }
}

#[test]
fn malformed_annotation_is_denied() {
    let create = request(Operation::Create);
    validate(&pod(IMAGE), &create).expect("allowed");
    for malformed in ["", "two words", ":1.0", "bild:größe"] {
        let denial = validate(&pod(malformed), &create).expect_err("denied");
        assert_eq!(denial.code, 422);
        assert_eq!(denial.causes[0].field, "metadata.annotations[demo.dev/sidecar]");
    }
}

#[test]
fn configurations_have_the_paths_of_the_handlers() {
    let pods = Resource::of::<Pod>();
    for path in [mutating_path(&pods), validating_path(&pods)] {
        assert!(WEBHOOKS.contains(&format!("path: {path}}}")), "{path}");
    }
}

async fn create(user: &Client, pod: &Value) -> Result<Value, ClientError> {
    let (pods, body) = (Resource::of::<Pod>(), pod.to_string());
    user.create(&pods, "default", body.into()).await
}

/// Creates a pod. Retries until the API server can call the webhooks.
async fn create_until_served(user: &Client, env: &Env, pod: &Value) -> Value {
    let created = async {
        loop {
            match create(user, pod).await {
                Ok(pod) => return pod,
                Err(error) => assert_eq!(error.code(), Some(500), "{error}"),
            }
            env.clock.sleep(Duration::from_millis(10)).await;
        }
    };
    let created = env.clock.timeout(Duration::from_mins(1), created).await;
    created.expect("webhooks that are served within a minute")
}

/// Sends a review, as a newer API server that has other fields, and returns the patch.
async fn patch_of(address: SocketAddr, pod: &Value) -> Value {
    let mut config = kube::Config::new(format!("https://{address}").parse().expect("a URL"));
    config.accept_invalid_certs = true;
    let kind = json!({"group": "", "version": "v1", "kind": "Pod"});
    let request = json!({"uid": "7", "operation": "CREATE", "kind": kind, "object": pod});
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
    let request = http::Request::post(mutating_path(&Resource::of::<Pod>()))
        .header("content-type", "application/json")
        .body(review.to_string().into_bytes());
    let client = kube::Client::try_from(config).expect("a client");
    let review: Value = { client.request(request.expect("a request")).await }.expect("a review");
    let patch: ByteString = serde_json::from_value(review["response"]["patch"].clone()).expect("base64");
    serde_json::from_slice(&patch.0).expect("JSON")
}

/// The sockets are real, so the clock is paused only while none is used.
#[tokio::test]
async fn api_server_calls_the_webhooks_until_the_drain_ends() {
    let address = free_address();
    let system = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "sidecar-system"}});
    let sandbox = Sandbox::builder()
        .services([("sidecar-system/sidecar:443".to_owned(), address)])
        .objects(system.to_string())
        .objects(WEBHOOKS);
    let sandbox = sandbox.start().expect("a sandbox");
    let tasks = TaskSet::new();
    let env = Env::starting_at(Timestamp::now(), 1, &tasks);
    let transport = Transport::from_service(
        sandbox.service(),
        "sandbox",
        "sidecar",
        &env.clock,
        &Registry::new("test"),
    );
    let transport = transport.expect("a transport");
    let user = transport.unfenced("user", None);
    let (stop, of_manager) = (CancellationToken::new(), env.clone());
    let stopped = stop.clone();
    let ended = env.tasks.spawn(async move {
        let sidecar = Manager::builder("sidecar").webhooks(&address.to_string(), certificate(), hooks());
        sidecar.run_with(&of_manager, transport, stopped).await
    });

    let web = create_until_served(&user, &env, &json_of("web", IMAGE)).await;
    let sidecar = &web["spec"]["initContainers"][0];
    assert_eq!(
        (&sidecar["name"], &sidecar["image"]),
        (&json!("sidecar"), &json!(IMAGE))
    );
    let error = create(&user, &json_of("bad", "two words"))
        .await
        .expect_err("denied");
    assert_eq!(error.code(), Some(422), "{error}");
    let mut plain = json_of("plain", IMAGE);
    plain["metadata"]["annotations"] = json!({});
    let plain = create(&user, &plain).await.expect("created");
    assert_eq!(plain["spec"]["initContainers"], Value::Null);

    let mut newer = json_of("newer", IMAGE);
    newer["spec"]["containers"][0]["unknown"] = json!(1);
    let sidecar = json!({"name": "sidecar", "image": IMAGE, "restartPolicy": "Always"});
    let expected = json!([{"op": "add", "path": "/spec/initContainers", "value": [sidecar]}]);
    assert_eq!(
        patch_of(address, &newer).await,
        expected,
        "unknown fields are kept"
    );

    stop.cancel();
    let at = env.clock.now();
    tokio::time::pause();
    env.clock.sleep(Duration::from_secs(4)).await;
    tokio::time::resume();
    let late = create(&user, &json_of("late", IMAGE)).await.expect("created");
    assert_eq!(late["spec"]["initContainers"][0]["name"], "sidecar");
    tokio::time::pause();
    ended.await.expect("no panic").expect("an orderly end");
    assert!(env.clock.now() - at >= Duration::from_secs(5));
    tokio::time::resume();
    let error = create(&user, &json_of("later", IMAGE))
        .await
        .expect_err("no webhooks");
    assert_eq!(error.code(), Some(500), "{error}");
}
