//! Incomplete installations: the log names the missing part, with the messages of the troubleshooting table in
//! `docs/operations.md`.

use std::fs;

use serde_json::json;
use steersman_harness::fixtures::{self, CRDS, JSON_PATCH, apps};
use steersman_harness::roles::NAMESPACE;
use steersman_harness::{Cluster, Program, program, time};

use super::instances::Instances;
use super::{NO_KCM, WITHOUT_COLLECTOR, deploy, manifests, own_cluster, workloads};
use crate::PROGRAM;

const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
const VERSION: &str = "/spec/versions/0";

/// Waits for a log line with a message of the troubleshooting table and these details.
async fn logs(program: &Program, message: &str, details: &[&str]) {
    let table = fs::read_to_string(manifests::root().join("../docs/operations.md")).expect("a document");
    let rows = table.split("## Troubleshoot by symptom").nth(1).expect("a table");
    assert!(rows.contains(&format!("`{message}`")), "no row has {message}");
    let quoted = format!("\"{message}\"");
    let logged = time::eventually(time::ANSWER, async || {
        let log = program.log();
        let mut lines = log.lines().filter(|it| it.contains(&quoted));
        lines
            .any(|line| details.iter().all(|it| line.contains(it)))
            .then_some(())
    });
    assert!(
        logged.await.is_some(),
        "{message} {details:?} is not in:\n{}",
        program.log()
    );
}

/// CI fails on requests that are forbidden by the complete roles.
fn ignore_requests(c: &Cluster) {
    if let Some(audit) = c.audit() {
        audit.ignore();
    }
}

/// Deletes a binding of a Role in the namespace of the process.
async fn unbind(c: &Cluster, name: &str) {
    ignore_requests(c);
    let bindings = fixtures::group("rbac.authorization.k8s.io/v1", NAMESPACE, "rolebindings");
    c.api()
        .delete(&format!("{bindings}/{name}"), ())
        .await
        .expect(200);
}

/// Deletes a binding of a `ClusterRole`.
async fn unbind_cluster(c: &Cluster, name: &str) {
    ignore_requests(c);
    c.api()
        .delete(&format!("{BINDINGS}/{name}"), ())
        .await
        .expect(200);
}

/// One CRD has a version that is not served any more, the other does not have a field.
pub async fn old_crd_is_logged(_: Cluster) {
    let own = own_cluster().await;
    let c = &own.running.cluster;
    let deployed = deploy(&own, "base", &[WITHOUT_COLLECTOR, "without-webhooks"]).await;
    let [sets, apps] =
        ["appreplicasets", "appservices"].map(|it| format!("{CRDS}/{it}.appcontroller.k8s.io"));
    let change = async |crd: &str, operations| {
        c.api().patch(crd, JSON_PATCH, operations).await.expect(200);
    };
    let field = format!("{VERSION}/schema/openAPIV3Schema/properties/status/properties/readyReplicas");
    change(&sets, json!([{"op": "remove", "path": field}])).await;
    let mut old = c.api().get(&apps).await.expect(200)["spec"]["versions"][0].take();
    old["name"] = json!("v1alpha0");
    old["storage"] = json!(false);
    let versions = [
        json!({"op": "add", "path": "/spec/versions/-", "value": old}),
        json!({"op": "replace", "path": format!("{VERSION}/served"), "value": false}),
    ];
    change(&apps, json!(versions)).await;
    let all = fixtures::group("appcontroller.k8s.io/v1alpha1", "default", "appservices");
    let unserved = time::eventually(time::ANSWER, async || {
        (c.api().get(&all).await.status == 404).then_some(())
    });
    assert!(unserved.await.is_some(), "{}", c.api().get(&all).await);

    let mut instances = Instances::new();
    let program = instances.start(&own, &deployed).await;
    let message = "CRD is older than this program";
    for details in [
        ["appservices.appcontroller.k8s.io", "is not served"],
        ["appreplicasets.appcontroller.k8s.io", ".status.readyReplicas"],
    ] {
        logs(program, message, &details).await;
    }
    // The controller waits for the new CRD.
    change(
        &apps,
        json!([{"op": "replace", "path": format!("{VERSION}/served"), "value": true}]),
    )
    .await;
    workloads::sample(c, &instances).await;
    assert_eq!(instances.forbidden().await, "");
    instances.stop().await;
}

/// Without the garbage collector, whose role includes most other permissions.
pub async fn missing_permission_is_logged(_: Cluster) {
    let own = own_cluster().await;
    let c = &own.running.cluster;
    let mut deployed = deploy(&own, "base", &[WITHOUT_COLLECTOR, "without-webhooks"]).await;
    deployed.arguments.push(NO_KCM.to_owned());
    unbind_cluster(c, "steersman:replicationcontroller-caches").await;
    unbind_cluster(c, "steersman:deployment-controller").await;
    unbind(c, "steersman:replicaset-token").await;
    let mut instances = Instances::new();
    let program = instances.start(&own, &deployed).await;
    let cannot_list = ["cannot list resource", "replicationcontrollers"];
    logs(program, "Watch failed, cache is stale", &cannot_list).await;
    let grant =
        "verb create on serviceaccounts/token named replicaset-controller in namespace steersman-system";
    logs(program, "Failed to request token", &[grant]).await;
    let ns = c.namespace().await;
    let deployments = apps(&ns, "deployments");
    c.api()
        .post(&deployments, fixtures::deployment("web"))
        .await
        .expect(201);
    let cannot_write = ["deployment=\"", "cannot patch resource", "deployments/status"];
    logs(program, "Reconcile failed, retrying", &cannot_write).await;
    instances.stop().await;

    unbind(c, "steersman:lease").await;
    let mut instances = Instances::new();
    let program = instances.start(&own, &deployed).await;
    logs(
        program,
        "Failed to read lease",
        &["cannot get resource", "leases"],
    )
    .await;
    instances.stop().await;
}

pub async fn missing_webhook_certificate_is_logged(_: Cluster) {
    let own = own_cluster().await;
    let c = &own.running.cluster;
    let mut deployed = deploy(&own, "base", &[WITHOUT_COLLECTOR]).await;
    unbind(c, "steersman:webhook").await;
    let mut instances = Instances::new();
    let program = instances.start(&own, &deployed).await;
    let cannot_get = ["cannot get resource", "secrets"];
    for message in [
        "Waiting for webhook certificate",
        "Failed to reconcile webhook certificate",
    ] {
        logs(program, message, &cannot_get).await;
    }
    let ready = program.anonymous().get("/readyz").await;
    assert_eq!(ready.status, 500, "{ready}");
    instances.stop().await;

    // A Secret of the user without the expected keys, as a mounted directory.
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = &mut deployed.arguments;
    arguments.retain(|it| !it.starts_with("--webhook-service="));
    arguments.push(format!("--webhook-cert-dir={}", folder.path().display()));
    arguments.push(format!("--kubeconfig={}", c.kubeconfig().display()));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let ended = program::run(PROGRAM, &arguments).await;
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("tls.crt") && ended.stderr.contains("--webhook-cert-dir must name a directory"),
        "{}",
        ended.stderr
    );
}
