//! The API server asks the program about `AppServices`, through the Service that `deploy/` has for that.

use std::collections::BTreeMap;
use std::fs;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use coxswain_controllers::api::app_service::APP_SERVICES;
use coxswain_manager::webhook::{mutating_path, validating_path};
use coxswain_tests::fixtures::{self, JSON_PATCH, MERGE};
use coxswain_tests::{Cluster, cluster, program};
use serde_json::{Value, json};

use super::crew::{Crew, NAMESPACE};
use super::{Deployed, deploy, manifests, send};
use crate::QUIET;

/// The Service, its Secret, and the configurations.
const NAME: &str = "coxswain-webhook";
const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";

/// The arguments of a Deployment with this component, but for the port.
pub fn with_webhooks(mut arguments: Vec<String>, port: u16) -> Vec<String> {
    let added = manifests::arguments("components/webhook/deployment.yaml").into_iter();
    arguments.extend(added.map(|it| {
        if it.starts_with("--webhook-port=") {
            format!("--webhook-port={port}")
        } else {
            it
        }
    }));
    arguments
}

/// The configurations, and the path that each should lead to.
pub fn configurations() -> [(String, String); 2] {
    [
        ("mutating", mutating_path(&APP_SERVICES)),
        ("validating", validating_path(&APP_SERVICES)),
    ]
    .map(|(kind, hook)| (format!("{ADMISSION}/{kind}webhookconfigurations/{NAME}"), hook))
}

/// First with the certificate that the leader makes, then with one of the user's own.
pub async fn webhooks_are_asked_through_their_service(_: Cluster) {
    let _turn = QUIET.write().await;
    let address = program::free_address();
    let services = BTreeMap::from([(format!("{NAMESPACE}/{NAME}:443"), address)]);
    let running = cluster::start_knowing(services).await.expect("a cluster");
    let c = &running.cluster;
    let Deployed {
        account, arguments, ..
    } = deploy(c).await;
    send(c, "components/webhook").await;
    if !c.is_sandbox() {
        redirect(c, address.port()).await;
    }
    let arguments = with_webhooks(arguments, address.port());
    let mut crew = Crew::new();
    crew.start(c, &account, &arguments).await;
    are_asked(c, &crew).await;
    assert_eq!(crew.forbidden().await, "");
    crew.end().await;

    // A user has it in files, and has told the configurations how to verify it.
    let secret = format!("{}/{NAME}", fixtures::core(NAMESPACE, "secrets"));
    let data = c.api().get(&secret).await.expect(200)["data"].take();
    let folder = tempfile::tempdir().expect("a folder");
    for file in ["tls.crt", "tls.key"] {
        let text = BASE64_STANDARD.decode(data[file].as_str().expect("text"));
        fs::write(folder.path().join(file), text.expect("base64")).expect("a file");
    }
    c.api().delete(&secret, ()).await.expect(200);
    let mut arguments = arguments;
    arguments.retain(|it| !it.starts_with("--webhook-service="));
    arguments.push(format!("--webhook-cert-dir={}", folder.path().display()));
    let mut crew = Crew::new();
    crew.start(c, &account, &arguments).await;
    are_asked(c, &crew).await;
    assert_eq!(c.api().get(&secret).await.status, 404, "nobody makes another");
    crew.end().await;
}

/// A real server dials the address of a Service, behind which nothing runs here. It is sent to this machine, as a Service can
/// say, but for the port.
async fn redirect(c: &Cluster, port: u16) {
    let service = format!("{}/{NAME}", fixtures::core(NAMESPACE, "services"));
    let here =
        json!({"type": "ExternalName", "externalName": "localhost", "clusterIP": null, "clusterIPs": null});
    c.api()
        .patch(&service, MERGE, json!({"spec": here}))
        .await
        .expect(200);
    for (configuration, _) in configurations() {
        let path = "/webhooks/0/clientConfig/service/port";
        let there = json!([{"op": "add", "path": path, "value": port}]);
        c.api().patch(&configuration, JSON_PATCH, there).await.expect(200);
    }
}

/// Waits until what only webhooks fill in is filled in, and what only they refuse is refused: nobody waits for them, and a
/// server takes a while to hear of them.
async fn are_asked(c: &Cluster, crew: &Crew) {
    let ns = c.namespace().await;
    let path = APP_SERVICES.collection(&ns);
    let create = async |name: &str, deployment: &str| {
        let app = json!({
            "apiVersion": APP_SERVICES.api_version(), "kind": "AppService", "metadata": {"name": name},
            "spec": {"deploymentName": deployment, "image": "nginx", "ports": [{"port": 80}]},
        });
        c.api().post(&path, app).await
    };
    let (mut at, mut first, mut second) = (0, Value::Null, None);
    crew.until("webhooks are asked", async || {
        at += 1;
        let reply = create(&format!("first-{at}"), &format!("web-{at}")).await;
        if reply.status != 201 {
            return false;
        }
        first = reply.json();
        let reply = create(&format!("second-{at}"), &format!("web-{at}")).await;
        second = (reply.status == 422).then_some(reply);
        first["spec"]["ports"][0]["targetPort"] == 80 && second.is_some()
    })
    .await;
    let text = second.expect("it is refused").text();
    assert!(
        text.contains("spec.deploymentName") && text.contains("denied the request"),
        "{text}"
    );
    let mut bare =
        json!({"apiVersion": APP_SERVICES.api_version(), "kind": "AppService", "metadata": {"name": "bare"}});
    bare["spec"] = json!({"deploymentName": "bare"});
    let refused = c.api().post(&path, bare).await;
    refused.check(refused.status == 422, "an image is required");
    assert!(refused.text().contains("spec.image"), "{refused}");
    // What is its own it may go on claiming.
    let first = format!("{path}/first-{at}");
    let three = json!({"spec": {"replicas": 3}});
    c.api().patch(&first, MERGE, three).await.expect(200);
}
