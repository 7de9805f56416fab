//! The greeter of the examples as an operator on a real server.

#[path = "../../examples/greeter/main.rs"]
#[allow(
    dead_code,
    unused_imports,
    reason = "its main function and its tests are not called"
)]
mod example;

use std::env;
use std::fs::{self, File};
use std::process::{ExitCode, Stdio};

use kube::CustomResourceExt as _;
use rustix::process::{Pid, Signal};
use serde_json::{Value, json};
use steersman_harness::{Api, Cluster, Test, fixtures, test, time};
use steersman_manager::manager::Manager;
use tokio::process::Command;
use tokio::runtime::Runtime;

use crate::process::soon;

/// The environment variable of a process of this program that runs as the greeter: the namespace of its Lease.
const LEASE_NAMESPACE: &str = "GREETER_LEASE_NAMESPACE";

pub fn tests() -> Vec<Test> {
    vec![test!(greeter_reconciles_until_it_is_terminated)]
}

/// Runs as the greeter if the test has started this process.
pub fn main() -> Option<ExitCode> {
    let namespace = env::var(LEASE_NAMESPACE).ok()?;
    let greeter = Manager::builder("greeter")
        .leader_election(namespace, "greeter")
        .endpoints("127.0.0.1:0")
        .controller(example::controller());
    let runtime = Runtime::new().expect("a runtime");
    Some(runtime.block_on(greeter.run()))
}

/// Returns a client of the endpoints without credentials.
fn anonymous(address: &str) -> Api {
    let mut config = kube::Config::new(format!("https://{address}").parse().expect("a URL"));
    // The certificate is generated at the start.
    config.accept_invalid_certs = true;
    Api::new(kube::Client::try_from(config).expect("a client"))
}

async fn greeter_reconciles_until_it_is_terminated(c: Cluster) {
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let crd = serde_json::to_value(example::Greeting::crd()).expect("a CRD");
    c.api().post(definitions, crd).await.expect(201);
    let ns = c.namespace().await;
    let directory = tempfile::tempdir().expect("a directory");
    let log = directory.path().join("log");
    let mut greeter = Command::new(env::current_exe().expect("this program"))
        .env("KUBECONFIG", c.kubeconfig())
        .env(LEASE_NAMESPACE, &ns)
        .stdin(Stdio::null())
        .stderr(File::create(&log).expect("a file"))
        .kill_on_drop(true)
        .spawn()
        .expect("it starts");

    let greetings = format!("/apis/demo.dev/v1/namespaces/{ns}/greetings");
    let greeting = json!({"apiVersion": "demo.dev/v1", "kind": "Greeting", "metadata": {"name": "hello"},
        "spec": {"text": "Hello"}});
    let created = time::eventually(time::ANSWER, async || {
        let created = c.api().post(&greetings, greeting.clone()).await;
        (created.status == 201).then_some(())
    });
    created.await.expect("the kind is served");
    let ready = time::eventually(time::ANSWER, async || {
        let greeting = c.api().get(&format!("{greetings}/hello")).await.expect(200);
        (greeting["status"] == json!({"ready": true})).then_some(greeting)
    });
    let greeting = ready.await.expect("ready");
    let map = format!("{}/hello", fixtures::core(&ns, "configmaps"));
    let map = c.api().get(&map).await.expect(200);
    assert_eq!(map["data"], json!({"text": "Hello"}));
    assert_eq!(
        map["metadata"]["ownerReferences"][0]["uid"],
        greeting["metadata"]["uid"]
    );
    let holder = async || -> Value {
        let lease = format!("/apis/coordination.k8s.io/v1/namespaces/{ns}/leases/greeter");
        c.api().get(&lease).await.expect(200)["spec"]["holderIdentity"].clone()
    };
    assert_ne!(holder().await.as_str().unwrap_or_default(), "");
    let log = fs::read_to_string(&log).expect("a log");
    let address = log.split("Serving endpoints address=").nth(1);
    let address = address.and_then(|it| it.split_whitespace().next()).expect(&log);
    let endpoints = anonymous(address);
    assert_eq!(endpoints.get("/healthz").await.status, 200);
    let refused = endpoints.get("/metrics").await.status;
    assert!([401, 403].contains(&refused), "{refused}");

    let pid = greeter.id().and_then(|it| Pid::from_raw(it.cast_signed()));
    let pid = pid.expect("it runs");
    rustix::process::kill_process(pid, Signal::TERM).expect("a child of this process");
    let ended = soon("the end of the process", greeter.wait()).await;
    assert_eq!(ended.expect("a child").code(), Some(0));
    assert_eq!(holder().await, json!(""), "released");
    let definition = format!("{definitions}/greetings.demo.dev");
    c.api().delete(&definition, ()).await.expect(200);
}
