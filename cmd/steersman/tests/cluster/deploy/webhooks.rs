//! The API server calls the webhooks of `AppServices` through the Service in `deploy/`.

use std::fs;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use steersman_controllers::api::app_service::APP_SERVICES;
use steersman_harness::Cluster;
use steersman_harness::fixtures::{self, JSON_PATCH, MERGE, with};
use steersman_harness::roles::NAMESPACE;
use steersman_manager::webhook::{mutating_path, validating_path};

use super::instances::Instances;
use super::{OwnCluster, deploy, own_cluster};

/// Name of the Service, its Secret and the webhook configurations.
pub const NAME: &str = "steersman-webhook";
const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";

/// Paths of the webhook configurations, and the URL path of each webhook.
pub fn configurations() -> [(String, String); 2] {
    [
        ("mutating", mutating_path(&APP_SERVICES)),
        ("validating", validating_path(&APP_SERVICES)),
    ]
    .map(|(kind, hook)| (format!("{ADMISSION}/{kind}webhookconfigurations/{NAME}"), hook))
}

/// First with the certificate that the leader issues, then with one from files.
pub async fn webhooks_are_called_through_their_service(_: Cluster) {
    let own = own_cluster().await;
    let c = &own.running.cluster;
    let mut deployed = deploy(&own, "base", &[]).await;
    // Then an AppService needs an image, which only the webhook knows.
    deployed.arguments.push("--appservice-default-image=".to_owned());
    let mut instances = Instances::new();
    instances.start(&own, &deployed).await;
    are_called(c, &instances).await;
    assert_eq!(instances.forbidden().await, "");
    instances.stop().await;

    // The same certificate from files; the configurations already contain its CA.
    let secret = format!("{}/{NAME}", fixtures::core(NAMESPACE, "secrets"));
    let data = c.api().get(&secret).await.expect(200)["data"].take();
    let folder = tempfile::tempdir().expect("a folder");
    for file in ["tls.crt", "tls.key"] {
        let text = BASE64_STANDARD.decode(data[file].as_str().expect("text"));
        fs::write(folder.path().join(file), text.expect("base64")).expect("a file");
    }
    c.api().delete(&secret, ()).await.expect(200);
    let arguments = &mut deployed.arguments;
    arguments.retain(|it| !it.starts_with("--webhook-service="));
    arguments.push(format!("--webhook-cert-dir={}", folder.path().display()));
    let mut instances = Instances::new();
    instances.start(&own, &deployed).await;
    are_called(c, &instances).await;
    assert_eq!(c.api().get(&secret).await.status, 404, "no Secret is created");
    instances.stop().await;
}

/// A real API server connects to the address of the Service, which has no endpoints here. An `ExternalName` redirects it to this
/// machine, except for the port.
pub async fn redirect(own: &OwnCluster) {
    let c = &own.running.cluster;
    let service = format!("{}/{NAME}", fixtures::core(NAMESPACE, "services"));
    if c.is_sandbox() || c.api().get(&service).await.status == 404 {
        return;
    }
    let here =
        json!({"type": "ExternalName", "externalName": "localhost", "clusterIP": null, "clusterIPs": null});
    c.api()
        .patch(&service, MERGE, json!({"spec": here}))
        .await
        .expect(200);
    for (configuration, _) in configurations() {
        let path = "/webhooks/0/clientConfig/service/port";
        let there = json!([{"op": "add", "path": path, "value": own.webhooks.port()}]);
        c.api().patch(&configuration, JSON_PATCH, there).await.expect(200);
    }
}

/// Waits until a webhook sets a default and denies an object: API servers take a while to load webhook configurations.
async fn are_called(c: &Cluster, instances: &Instances) {
    let ns = c.namespace().await;
    let path = APP_SERVICES.collection(&ns);
    let create = async |name: &str, spec: Value| {
        let app = json!({
            "apiVersion": APP_SERVICES.api_version(), "kind": "AppService", "metadata": {"name": name},
            "spec": {"deploymentName": name},
        });
        c.api().post(&path, with(app, json!({"spec": spec}))).await
    };
    let (mut at, mut first, mut second) = (0, Value::Null, None);
    instances
        .until("webhooks are called", async || {
            at += 1;
            let reply = create(
                &format!("first-{at}"),
                json!({"image": "nginx", "ports": [{"port": 80}]}),
            )
            .await;
            if reply.status != 201 {
                return false;
            }
            first = reply.json();
            let reply = create(&format!("second-{at}"), json!({})).await;
            second = (reply.status == 422).then_some(reply);
            first["spec"]["ports"][0]["targetPort"] == 80 && second.is_some()
        })
        .await;
    let text = second.expect("denied").text();
    assert!(
        text.contains("spec.image") && text.contains("denied the request"),
        "{text}"
    );
    let first = format!("{path}/first-{at}");
    let three = json!({"spec": {"replicas": 3}});
    c.api().patch(&first, MERGE, three).await.expect(200);
}
