//! A kind that is defined late, or goes and comes back: its controller waits for it, and the others work.

use std::time::Duration;

use coxswain_controllers::garbage_collector::NAME as GARBAGE_COLLECTOR;
use coxswain_tests::fixtures::{self, CRDS, apps};
use coxswain_tests::{Cluster, time};
use http::Method;
use serde_json::{Value, json};

use super::crew::Crew;
use super::{Deployed, NO_KCM, cluster_of_its_own, deploy, manifests, unbind};

const CUSTOM: &str = "appcontroller.k8s.io/v1alpha1";
const CONTROLLER: &str = "appservice-controller";
/// Long enough for its controller not to ask again at any moment.
const LONG: Duration = Duration::from_secs(6);
/// Number of times that the definition goes and comes back.
const ROUNDS: usize = 2;

/// Has the definition gone.
async fn undefine(c: &Cluster) {
    let path = format!("{CRDS}/appservices.appcontroller.k8s.io");
    let reply = c.api().delete(&path, ()).await;
    reply.check([200, 202].contains(&reply.status), "it is deleted");
    let gone = time::eventually(time::ANSWER, async || {
        (c.api().get(&path).await.status == 404).then_some(())
    });
    assert!(gone.await.is_some(), "{}", c.api().get(&path).await);
}

/// Has it there, and waits until the kind is served.
async fn define(c: &Cluster, all: &str) {
    let definition = manifests::read("crds/appcontroller.k8s.io_appservices.yaml").remove(0);
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

/// Without the garbage collector, whose role would allow it to see all definitions.
pub async fn a_kind_may_come_late_and_go_and_come_back(_: Cluster) {
    let (_turn, running) = cluster_of_its_own().await;
    let c = &running.cluster;
    let Deployed {
        account,
        mut arguments,
        ..
    } = deploy(c).await;
    let ns = c.namespace().await;
    let all = fixtures::group(CUSTOM, &ns, "appservices");
    undefine(c).await;
    unbind(c, GARBAGE_COLLECTOR).await;
    arguments[0] = format!("--controllers=*,-{GARBAGE_COLLECTOR}");
    arguments.push(NO_KCM.to_owned());
    let mut crew = Crew::new();
    crew.start(c, &account, &arguments).await;
    crew.until("it leads", async || crew.leader().await.is_some())
        .await;
    let mut times = Vec::new();
    for round in 0..ROUNDS {
        let name = format!("own-{round}");
        let leader = crew.leader().await.expect("it leads");
        let waiting = format!("coxswain_controller_waiting{{name=\"{CONTROLLER}\"}}");
        crew.until("it waits", async || leader.metric(&waiting).await == Some(1.0))
            .await;
        let health = leader.endpoints().get("/healthz?verbose").await.text();
        assert!(
            health.contains("waits for appservices.appcontroller.k8s.io"),
            "{health}"
        );
        // The others work.
        let other = format!("other-{round}");
        let deployments = apps(&ns, "deployments");
        c.api()
            .post(&deployments, fixtures::deployment(&other))
            .await
            .expect(201);
        crew.until("others work", async || {
            let it = c.api().get(&format!("{deployments}/{other}")).await.expect(200);
            it["status"]["observedGeneration"] == 1
        })
        .await;
        time::pause(LONG).await;
        define(c, &all).await;
        let body = json!({"apiVersion": CUSTOM, "kind": "AppService", "metadata": {"name": name},
                          "spec": {"deploymentName": name, "image": "nginx"}});
        // A server may hold the first ones back for two seconds.
        let made: Value = c.api().post(&all, body).await.expect(201);
        let stored = time::now();
        crew.until("it is looked after", async || {
            let it = c.api().get(&format!("{deployments}/{name}")).await.json();
            it["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
        })
        .await;
        times.push(stored.elapsed());
        crew.until("it does not wait", async || {
            leader.metric(&waiting).await == Some(0.0)
        })
        .await;
        undefine(c).await;
    }
    // How soon is asserted on the paused clock, in `manager/tests/suite/cache/unserved.rs`.
    time::print_distribution("custom resource stored until its Deployment exists", &times);
    // What is left of the last ones is let be.
    time::pause(LONG).await;
    assert_eq!(crew.forbidden().await, "");
    crew.end().await;
}
