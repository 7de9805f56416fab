//! A CRD that is created late, deleted and recreated: its controller waits for it, the others keep working.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use steersman_harness::fixtures::{self, CRDS, apps};
use steersman_harness::{Cluster, time};

use super::instances::Instances;
use super::{NO_KCM, WITHOUT_COLLECTOR, deploy, manifests, own_cluster};

const CUSTOM: &str = "appcontroller.k8s.io/v1alpha1";
const CONTROLLER: &str = "appservice-controller";
/// Longer than the retry interval of a controller that waits for its CRD.
const IDLE: Duration = Duration::from_secs(6);
/// Number of times that the CRD is deleted and recreated.
const ROUNDS: usize = 2;

/// Deletes the CRD and waits until the resource is not served any more: a server may serve it for a while after the CRD is gone.
async fn delete_crd(c: &Cluster, all: &str) {
    let path = format!("{CRDS}/appservices.appcontroller.k8s.io");
    let reply = c.api().delete(&path, ()).await;
    reply.check([200, 202].contains(&reply.status), "deleted");
    for path in [path.as_str(), all] {
        let gone = time::eventually(time::ANSWER, async || {
            (c.api().get(path).await.status == 404).then_some(())
        });
        assert!(gone.await.is_some(), "{}", c.api().get(path).await);
    }
}

/// Creates the CRD and waits until the resource is served.
async fn create_crd(c: &Cluster, all: &str) {
    let definition = manifests::read("chart/files/crds/appcontroller.k8s.io_appservices.yaml").remove(0);
    let yaml = [("content-type", "application/yaml")];
    let reply = c
        .api()
        .request(Method::POST, CRDS, &yaml, definition.text.as_str());
    reply.await.expect(201);
    let served = time::eventually(time::ANSWER, async || {
        (c.api().get(all).await.status == 200).then_some(())
    });
    assert!(served.await.is_some(), "{}", c.api().get(all).await);
}

/// Without the garbage collector, whose role includes access to all CRDs.
pub async fn crd_may_be_created_late_and_recreated(_: Cluster) {
    let own = own_cluster().await;
    let c = &own.running.cluster;
    let mut deployed = deploy(&own, "base", &[WITHOUT_COLLECTOR, "without-webhooks"]).await;
    deployed.arguments.push(NO_KCM.to_owned());
    let ns = c.namespace().await;
    let all = fixtures::group(CUSTOM, &ns, "appservices");
    delete_crd(c, &all).await;
    let mut instances = Instances::new();
    instances.start(&own, &deployed).await;
    instances
        .until("a leader", async || instances.leader().await.is_some())
        .await;
    let mut times = Vec::new();
    for round in 0..ROUNDS {
        let name = format!("own-{round}");
        let leader = instances.leader().await.expect("a leader");
        let waiting = format!("steersman_controller_waiting{{name=\"{CONTROLLER}\"}}");
        instances
            .until("the controller waits", async || {
                leader.metric(&waiting).await == Some(1.0)
            })
            .await;
        let health = leader.endpoints().get("/healthz?verbose").await.text();
        assert!(
            health.contains("waiting for appservices.appcontroller.k8s.io"),
            "{health}"
        );
        // The other controllers keep working.
        let other = format!("other-{round}");
        let deployments = apps(&ns, "deployments");
        c.api()
            .post(&deployments, fixtures::deployment(&other))
            .await
            .expect(201);
        instances
            .until("status of a Deployment", async || {
                let it = c.api().get(&format!("{deployments}/{other}")).await.expect(200);
                it["status"]["observedGeneration"] == 1
            })
            .await;
        time::pause(IDLE).await;
        create_crd(c, &all).await;
        let body = json!({"apiVersion": CUSTOM, "kind": "AppService", "metadata": {"name": name},
                          "spec": {"deploymentName": name, "image": "nginx"}});
        // A server may delay the first requests by two seconds.
        let made: Value = c.api().post(&all, body).await.expect(201);
        let stored = time::now();
        instances
            .until("the Deployment of the AppService", async || {
                let it = c.api().get(&format!("{deployments}/{name}")).await.json();
                it["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
            })
            .await;
        times.push(stored.elapsed());
        instances
            .until("the controller does not wait", async || {
                leader.metric(&waiting).await == Some(0.0)
            })
            .await;
        delete_crd(c, &all).await;
    }
    // The delay is asserted with a paused clock in `manager/tests/suite/cache/unserved.rs`.
    time::print_distribution("custom resource stored until its Deployment exists", &times);
    // Objects of the last round are left alone.
    time::pause(IDLE).await;
    assert_eq!(instances.forbidden().await, "");
    instances.stop().await;
}
