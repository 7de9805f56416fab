//! The greeter of the examples as an operator on a real server.

#[path = "../../examples/greeter/main.rs"]
#[allow(
    dead_code,
    unused_imports,
    reason = "its main function and its tests are not called"
)]
mod example;

use coxswain_manager::manager::Manager;
use coxswain_tests::{Cluster, Test, fixtures, test, time};
use kube::CustomResourceExt as _;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::process::{Process, soon};

pub fn tests() -> Vec<Test> {
    vec![test!(greeter_reconciles_while_it_holds_its_lease)]
}

async fn greeter_reconciles_while_it_holds_its_lease(c: Cluster) {
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let crd = serde_json::to_value(example::Greeting::crd()).expect("a CRD");
    c.api().post(definitions, crd).await.expect(201);
    let ns = c.namespace().await;
    let process = Process::start(&c).await;
    let greeter = Manager::builder("greeter")
        .leader_election(&ns, "greeter")
        .controller(example::controller());
    let stop = CancellationToken::new();
    let (env, transport, stopped) = (process.env.clone(), process.transport.clone(), stop.clone());
    let run = async move { greeter.run_with(&env, transport, stopped).await };
    let running = process.env.tasks.spawn(run);

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
    stop.cancel();
    let ended = soon("the end of the manager", running).await;
    ended.expect("no panic").expect("an orderly end");
    assert_eq!(holder().await, json!(""), "released");
    let definition = format!("{definitions}/greetings.demo.dev");
    c.api().delete(&definition, ()).await.expect(200);
}
