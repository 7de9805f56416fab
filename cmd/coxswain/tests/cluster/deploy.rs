//! What is in `deploy/` works: it is applied as it stands, and then the program runs with the arguments and under the roles
//! that it says, and is refused nothing.
//!
//! Each test has a cluster of its own: what is deployed is there once in a cluster, and works on all of it. They take turns,
//! so that a small machine has to bear only one of these at a time.

mod chores;
mod crew;
mod kinds;
mod kubectl;
mod manifests;
mod monitoring;
mod webhooks;

use coxswain_controllers::garbage_collector::NAME as GARBAGE_COLLECTOR;
use coxswain_controllers::registry::{CONTROLLERS, Descriptor};
use coxswain_tests::cluster::{self, Running};
use coxswain_tests::{Cluster, Need, Program, Test, fixtures, program, test, time};
use http::Method;
use serde_json::{Value, json};
use tokio::sync::RwLockWriteGuard;

use self::crew::{Crew, NAMESPACE};
use self::kinds::a_kind_may_come_late_and_go_and_come_back;
use self::kubectl::{kubectl_applies_it_without_a_word, kubectl_applies_what_the_guide_says};
use self::webhooks::webhooks_are_asked_through_their_service;
use crate::QUIET;

/// What servers have only from a version on.
const SINCE: [(&str, (u32, u32)); 1] = [("policy/v1", (1, 21))];
/// The test clusters have no kube-controller-manager.
const NO_KCM: &str = "--assume-no-kube-controller-manager";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    vec![
        test!(as_it_is_deployed_nothing_is_forbidden),
        test!(each_controller_needs_its_own_role_only),
        test!(webhooks_and_election_need_their_own_roles_only),
        test!(a_kind_may_come_late_and_go_and_come_back),
        test!(webhooks_are_asked_through_their_service),
        test!(kubectl_applies_it_without_a_word)
            .needs(Need::Kubectl)
            .since(1, 27),
        test!(kubectl_applies_what_the_guide_says)
            .needs(Need::Kubectl)
            .since(1, 27),
    ]
}

/// The controllers that run as it is deployed.
fn hosted() -> impl Iterator<Item = &'static Descriptor> {
    CONTROLLERS.iter().filter(|it| it.enabled_by_default)
}

async fn cluster_of_its_own() -> (RwLockWriteGuard<'static, ()>, Running) {
    let turn = QUIET.write().await;
    (turn, cluster::start().await.expect("a cluster"))
}

/// What is to run, as the Deployment says.
struct Deployed {
    account: String,
    container: Value,
    arguments: Vec<String>,
}

/// Sends all of `deploy/base`.
async fn deploy(c: &Cluster) -> Deployed {
    let mut deployment = send(c, "base").await.expect("there is a Deployment");
    let mut pod = deployment["spec"]["template"]["spec"].take();
    let container = pod["containers"][0].take();
    Deployed {
        account: pod["serviceAccountName"].as_str().expect("an account").to_owned(),
        arguments: serde_json::from_value(container["args"].clone()).expect("arguments"),
        container,
    }
}

/// Sends all of a folder below `deploy/`, and answers its Deployment.
async fn send(c: &Cluster, folder: &str) -> Option<Value> {
    let mut deployment = None;
    for it in manifests::read(folder) {
        let since = SINCE.iter().find(|(group, _)| *group == it.api_version);
        if since.is_some_and(|(_, least)| c.version() < *least) {
            println!("{} {} is left out: the server is too old", it.kind, it.name);
            continue;
        }
        let yaml = [("content-type", "application/yaml")];
        let reply = c
            .api()
            .request(Method::POST, &it.collection(), &yaml, it.text.as_str())
            .await;
        let stored = reply.expect(201);
        reply.check(reply.header("warning").is_none(), "it is warned of");
        if it.kind == "Deployment" {
            deployment = Some(stored);
        }
    }
    deployment
}

async fn as_it_is_deployed_nothing_is_forbidden(_: Cluster) {
    let (_turn, running) = cluster_of_its_own().await;
    let c = &running.cluster;
    let Deployed {
        account,
        container,
        mut arguments,
    } = deploy(c).await;
    arguments.push(NO_KCM.to_owned());
    monitoring::deploy(c).await;
    let mut crew = Crew::new();
    crew.start(c, &account, &arguments).await;
    let program = crew.start(c, &account, &arguments).await;
    for probe in ["livenessProbe", "readinessProbe"] {
        let path = container[probe]["httpGet"]["path"].as_str().expect("a path");
        answers(program, path).await;
    }
    crew.until("one leads", async || crew.leader().await.is_some())
        .await;
    Box::pin(chores::all(c, &crew)).await;
    let leader = crew.leader().await.expect("one leads");
    for it in hosted() {
        let check = leader.endpoints().get(&format!("/healthz/{}", it.name)).await;
        assert_eq!(check.status, 200, "{check}");
        let series = format!(
            "running_managed_controllers{{manager=\"coxswain\",name=\"{}\"}}",
            it.name
        );
        assert_eq!(leader.metric(&series).await, Some(1.0), "{series}");
    }
    assert_eq!(crew.forbidden().await, "");
    crew.end().await;
    if c.has_kcm() {
        people_may_use_the_kinds(c).await;
    }
}

/// Waits until a probe succeeds.
async fn answers(program: &Program, path: &str) {
    let fine = time::eventually(time::ANSWER, async || {
        (program.endpoints().get(path).await.status == 200).then_some(())
    });
    assert!(fine.await.is_some(), "{path}:\n{}", program.log());
}

/// The roles that every cluster has cover the custom kinds.
async fn people_may_use_the_kinds(c: &Cluster) {
    for role in ["admin", "edit", "view"] {
        let path = format!("{ROLES}/{role}");
        let covered = time::eventually(time::ANSWER, async || {
            let rules = c.api().get(&path).await.expect(200)["rules"].to_string();
            rules.contains("\"appcontroller.k8s.io\"").then_some(())
        });
        assert!(covered.await.is_some(), "{}", c.api().get(&path).await);
    }
}

/// As if each controller were a process with a service account: what another role allows does not count.
async fn each_controller_needs_its_own_role_only(_: Cluster) {
    let (_turn, running) = cluster_of_its_own().await;
    let c = &running.cluster;
    deploy(c).await;
    let mut crew = Crew::new();
    for Descriptor { name, .. } in hosted() {
        let account = fixtures::named("v1", "ServiceAccount", name);
        c.api()
            .post(&fixtures::core(NAMESPACE, "serviceaccounts"), account)
            .await
            .expect(201);
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": format!("coxswain:{name}")},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}],
        });
        c.api().post(BINDINGS, binding).await.expect(201);
        let arguments = [format!("--controllers={name}"), "--leader-elect=false".to_owned()];
        crew.start(c, name, &arguments).await;
    }
    Box::pin(chores::all(c, &crew)).await;
    assert_eq!(crew.forbidden().await, "");
    crew.end().await;
}

/// Without the garbage collector, whose role would allow nearly all of that.
async fn webhooks_and_election_need_their_own_roles_only(_: Cluster) {
    let (_turn, running) = cluster_of_its_own().await;
    let c = &running.cluster;
    let Deployed {
        account,
        mut arguments,
        ..
    } = deploy(c).await;
    send(c, "components/webhook").await;
    unbind(c, GARBAGE_COLLECTOR).await;
    arguments[0] = format!("--controllers=*,-{GARBAGE_COLLECTOR}");
    arguments.push(NO_KCM.to_owned());
    let mut arguments = webhooks::with_webhooks(arguments, program::free_address().port());
    let mut crew = Crew::new();
    let program = crew.start(c, &account, &arguments).await;
    // Not ready before there is a certificate.
    answers(program, "/readyz").await;
    for (path, hook) in webhooks::configurations() {
        let client = async || c.api().get(&path).await.expect(200)["webhooks"][0]["clientConfig"].take();
        assert_eq!(client().await["service"]["path"], hook);
        crew.until("a bundle", async || client().await["caBundle"].is_string())
            .await;
    }
    assert_eq!(crew.forbidden().await, "");
    crew.end().await;

    // And without any controller: what is left is the election, and what is said of it.
    for it in hosted().filter(|it| it.name != GARBAGE_COLLECTOR) {
        unbind(c, it.name).await;
    }
    "--controllers=-hollow-kubelet".clone_into(&mut arguments[0]);
    let said = async || {
        let events = c
            .api()
            .get(&fixtures::core(NAMESPACE, "events"))
            .await
            .expect(200);
        let events = events["items"].as_array().cloned().unwrap_or_default();
        events
            .iter()
            .filter(|it| it["reason"] == "LeaderElection")
            .count()
    };
    let before = said().await;
    let mut crew = Crew::new();
    crew.start(c, &account, &arguments).await;
    crew.until("it is said who leads", async || said().await > before)
        .await;
    assert_eq!(crew.forbidden().await, "");
    crew.end().await;
}

/// Takes its role away from a controller.
async fn unbind(c: &Cluster, controller: &str) {
    let binding = format!("{BINDINGS}/coxswain:{controller}");
    c.api().delete(&binding, ()).await.expect(200);
}
