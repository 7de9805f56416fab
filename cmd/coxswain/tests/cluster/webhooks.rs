//! The API server asks the program about `AppServices`, over HTTPS, with a certificate of the user's own.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use coxswain_controllers::appservice::APP_SERVICES;
use coxswain_controllers::crd;
use coxswain_manager::webhook::{mutating_path, validating_path};
use coxswain_tests::{Cluster, Program, Test, certs, program, test, time};
use serde_json::{Value, json};

use crate::PROGRAM;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    vec![test!(who_claims_what_is_claimed_is_refused_before_it_is_stored)]
}

/// A configuration that leads to the port, for one namespace.
fn configuration(kind: &str, ns: &str, url: &str, ca: &str) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": ns},
        "webhooks": [{
            "name": format!("{ns}.appservices.test.dev"),
            "clientConfig": {"url": url, "caBundle": BASE64_STANDARD.encode(ca)},
            "rules": [{
                "operations": ["CREATE", "UPDATE"], "apiGroups": [crd::GROUP],
                "apiVersions": [crd::VERSION], "resources": ["appservices"],
            }],
            "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Fail", "timeoutSeconds": 10,
        }],
    })
}

async fn who_claims_what_is_claimed_is_refused_before_it_is_stored(c: Cluster) {
    let ns = c.namespace().await;
    for definition in crd::all() {
        c.api().post(DEFINITIONS, definition).await.expect(201);
    }
    let folder = tempfile::tempdir().expect("a folder");
    let pair = certs::generate().expect("certificates");
    for (name, text) in [("tls.crt", &pair.cert), ("tls.key", &pair.key)] {
        std::fs::write(folder.path().join(name), text).expect("a file");
    }
    let address = program::free_address();
    let arguments = [
        format!("--kubeconfig={}", c.kubeconfig().display()),
        "--controllers=appservice".to_owned(),
        "--leader-elect=false".to_owned(),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--webhook-port={}", address.port()),
        format!("--webhook-cert-dir={}", folder.path().display()),
    ];
    let program = Program::start(PROGRAM, &arguments.each_ref().map(String::as_str)).await;
    let base = format!("https://127.0.0.1:{}", address.port());
    for (kind, plural, path) in [
        (
            "MutatingWebhookConfiguration",
            "mutatingwebhookconfigurations",
            mutating_path(&APP_SERVICES),
        ),
        (
            "ValidatingWebhookConfiguration",
            "validatingwebhookconfigurations",
            validating_path(&APP_SERVICES),
        ),
    ] {
        let configuration = configuration(kind, &ns, &format!("{base}{path}"), &pair.ca);
        c.api()
            .post(&format!("{ADMISSION}/{plural}"), configuration)
            .await
            .expect(201);
    }
    let path = APP_SERVICES.collection(&ns);
    let service = |name: &str, deployment: &str| {
        json!({
            "apiVersion": APP_SERVICES.api_version(), "kind": "AppService", "metadata": {"name": name},
            "spec": {"deploymentName": deployment},
        })
    };
    // A server takes a while to hear of a configuration: until then nobody is asked, and one more is stored.
    let mut at = 0;
    let asked = time::eventually(time::ANSWER, async || {
        at += 1;
        let first = c
            .api()
            .post(&path, service(&format!("first-{at}"), &format!("web-{at}")))
            .await;
        let second = c
            .api()
            .post(&path, service(&format!("second-{at}"), &format!("web-{at}")))
            .await;
        (first.status == 201 && second.status == 422).then_some(second)
    });
    let refused = asked
        .await
        .unwrap_or_else(|| panic!("nobody is refused:\n{}", program.log()));
    let text = refused.text();
    assert!(
        text.contains("spec.deploymentName") && text.contains("denied the request"),
        "{text}"
    );
    // What one fills in, the schema does too: that it was asked is seen by its count alone.
    for path in [mutating_path(&APP_SERVICES), validating_path(&APP_SERVICES)] {
        let series = format!("controller_runtime_webhook_requests_total{{code=\"200\",webhook=\"{path}\"}}");
        let count = program.metric(&series).await;
        assert!(count.is_some_and(|count| count > 0.0), "{series} {count:?}");
    }
    // What is its own it may go on claiming.
    let first = format!("{path}/first-{at}");
    let three = json!({"spec": {"replicas": 3}});
    let patched = c.api().patch(&first, "application/merge-patch+json", three).await;
    patched.expect(200);
}
