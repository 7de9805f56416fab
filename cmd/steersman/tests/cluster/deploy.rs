//! The manifests in `deploy/`: they are applied unchanged, the program runs with their arguments and under their roles, and no
//! request is forbidden.
//!
//! Each test has a cluster of its own, because the manifests are cluster-wide. The tests run one after another to limit the load
//! on the machine.

mod crds;
mod instances;
mod kubectl;
mod manifests;
mod misconfigured;
mod monitoring;
mod permissions;
mod prometheus;
mod roles;
mod static_pod;
mod webhooks;
mod workloads;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use http::Method;
use serde_json::{Value, json};
use steersman_controllers::registry::{CONTROLLERS, Descriptor};
use steersman_harness::cluster::{self, Running};
use steersman_harness::roles::NAMESPACE;
use steersman_harness::{Cluster, Program, Test, fixtures, program, test, time};
use tokio::sync::RwLockWriteGuard;

use self::crds::crd_may_be_created_late_and_recreated;
use self::instances::Instances;
use self::kubectl::{examples_of_the_readme_work, helm_test_succeeds, kubectl_applies_all_without_warnings};
use self::misconfigured::{
    missing_permission_is_logged, missing_webhook_certificate_is_logged, old_crd_is_logged,
};
use self::permissions::each_account_has_only_the_permissions_of_its_controller;
use self::prometheus::prometheus_scrapes_both_replicas_and_answers_all_dashboards;
use self::static_pod::static_pod_is_the_pod_of_standalone;
use self::webhooks::webhooks_are_called_through_their_service;
use crate::QUIET;

/// API groups and the Kubernetes version that added them.
const SINCE: [(&str, (u32, u32)); 2] = [
    ("policy/v1", (1, 21)),
    ("flowcontrol.apiserver.k8s.io/v1", (1, 29)),
];
/// The test clusters have no kube-controller-manager.
const NO_KCM: &str = "--assume-no-kube-controller-manager";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const WITHOUT_COLLECTOR: &str = "without-garbage-collector";

pub fn tests() -> Vec<Test> {
    let tests = vec![
        test!(default_has_a_leader_and_a_warm_standby),
        test!(standalone_is_not_forbidden_any_request),
        test!(each_account_has_only_the_permissions_of_its_controller),
        test!(webhooks_yielding_and_election_need_only_their_own_roles),
        test!(crd_may_be_created_late_and_recreated),
        test!(webhooks_are_called_through_their_service),
        test!(old_crd_is_logged),
        test!(missing_permission_is_logged),
        test!(missing_webhook_certificate_is_logged),
        test!(helm_test_succeeds),
        test!(prometheus_scrapes_both_replicas_and_answers_all_dashboards),
        test!(static_pod_is_the_pod_of_standalone),
        test!(kubectl_applies_all_without_warnings).since(1, 29),
        test!(examples_of_the_readme_work).since(1, 29),
    ];
    [tests, roles::tests()].concat()
}

/// Controllers that run in the deployment.
fn deployed_controllers() -> impl Iterator<Item = &'static Descriptor> {
    CONTROLLERS.iter().filter(|it| it.enabled_by_default)
}

/// A cluster for one test.
struct OwnCluster {
    running: Running,
    /// The address behind the Service of the webhooks.
    webhooks: SocketAddr,
    _exclusive: RwLockWriteGuard<'static, ()>,
}

async fn own_cluster() -> OwnCluster {
    let exclusive = QUIET.write().await;
    let webhooks = program::free_address();
    let services = BTreeMap::from([(format!("{NAMESPACE}/{}:443", webhooks::NAME), webhooks)]);
    OwnCluster {
        running: cluster::start_knowing(services).await.expect("a cluster"),
        webhooks,
        _exclusive: exclusive,
    }
}

/// The Deployment: its service account, the spec of its pods, and the arguments of their container.
struct Deployed {
    account: String,
    pod: Value,
    arguments: Vec<String>,
}

/// Creates all objects of a base or overlay with components.
async fn deploy(own: &OwnCluster, folder: &str, components: &[&str]) -> Deployed {
    let c = &own.running.cluster;
    let mut deployment = None;
    for it in manifests::render(folder, components) {
        let since = SINCE.iter().find(|(group, _)| *group == it.api_version);
        if since.is_some_and(|(_, least)| c.version() < *least) {
            println!("{} {} skipped: the server is too old", it.kind, it.name);
            continue;
        }
        let yaml = [("content-type", "application/yaml")];
        let reply = c
            .api()
            .request(Method::POST, &it.collection(), &yaml, it.text.as_str())
            .await;
        let stored = reply.expect(201);
        reply.check(reply.header("warning").is_none(), "a warning");
        if it.kind == "Deployment" {
            deployment = Some(stored);
        }
    }
    steersman_harness::roles::remove_rule(c).await;
    webhooks::redirect(own).await;
    let pod = deployment.expect("a Deployment")["spec"]["template"]["spec"].take();
    Deployed {
        account: pod["serviceAccountName"].as_str().expect("an account").to_owned(),
        arguments: serde_json::from_value(pod["containers"][0]["args"].clone()).expect("arguments"),
        pod,
    }
}

/// With exactly the rendered arguments, under which controllers of kube-controller-manager yield.
async fn default_has_a_leader_and_a_warm_standby(_: Cluster) {
    let own = own_cluster().await;
    let c = &own.running.cluster;
    let deployed = deploy(&own, "base", &[]).await;
    satisfies_restricted(&deployed.pod);
    let mut instances = Instances::new();
    for _ in 0..2 {
        instances.start(&own, &deployed).await;
    }
    for program in instances.programs() {
        for probe in ["livenessProbe", "readinessProbe"] {
            let path = deployed.pod["containers"][0][probe]["httpGet"]["path"].as_str();
            probe_succeeds(program, path.expect("a path")).await;
        }
    }
    instances
        .until("a leader", async || instances.leader().await.is_some())
        .await;
    let leader = instances.leader().await.expect("a leader");
    let mut standbys = instances.programs().iter().filter(|it| it.id() != leader.id());
    let standby = standbys.next().expect("two processes");
    assert!(!standby.leads("steersman").await, "two leaders");
    // The cache of a standby has the Deployment of the manifests, too.
    let cached =
        "steersman_cache_objects{group=\"apps\",name=\"steersman\",resource=\"deployments\",version=\"v1\"}";
    for program in [leader, standby] {
        assert_eq!(program.metric(cached).await, Some(1.0), "{}", program.log());
    }
    workloads::sample(c, &instances).await;
    assert_eq!(instances.forbidden().await, "");
    instances.stop().await;
}

/// Asserts the fields that the Pod Security Standard `restricted`, which the namespace enforces, requires.
fn satisfies_restricted(pod: &Value) {
    let (of_pod, container) = (&pod["securityContext"], &pod["containers"][0]["securityContext"]);
    assert_eq!(of_pod["runAsNonRoot"], true);
    assert_eq!(of_pod["seccompProfile"]["type"], "RuntimeDefault");
    assert_eq!(container["allowPrivilegeEscalation"], false);
    assert_eq!(container["capabilities"], json!({"drop": ["ALL"]}));
    assert!(pod["hostNetwork"].is_null() && pod["volumes"].is_null(), "{pod}");
}

/// Every kind of request that the controllers send.
async fn standalone_is_not_forbidden_any_request(_: Cluster) {
    let own = own_cluster().await;
    let c = &own.running.cluster;
    let deployed = deploy(&own, "overlays/standalone", &[]).await;
    let mut instances = Instances::new();
    for _ in 0..2 {
        instances.start(&own, &deployed).await;
    }
    instances
        .until("a leader", async || instances.leader().await.is_some())
        .await;
    Box::pin(workloads::run_all(c, &instances)).await;
    let leader = instances.leader().await.expect("a leader");
    for it in deployed_controllers() {
        let check = leader.endpoints().get(&format!("/healthz/{}", it.name)).await;
        assert_eq!(check.status, 200, "{check}");
        let series = format!(
            "running_managed_controllers{{manager=\"steersman\",name=\"{}\"}}",
            it.name
        );
        assert_eq!(leader.metric(&series).await, Some(1.0), "{series}");
    }
    assert_eq!(instances.forbidden().await, "");
    instances.stop().await;
    if c.has_kcm() {
        default_roles_cover_custom_resources(c).await;
    }
}

/// Waits until a probe succeeds.
async fn probe_succeeds(program: &Program, path: &str) {
    let ok = time::eventually(time::ANSWER, async || {
        (program.anonymous().get(path).await.status == 200).then_some(())
    });
    assert!(ok.await.is_some(), "{path}:\n{}", program.log());
}

/// The default roles cover the custom resources.
async fn default_roles_cover_custom_resources(c: &Cluster) {
    for role in ["admin", "edit", "view"] {
        let path = format!("{ROLES}/{role}");
        let covered = time::eventually(time::ANSWER, async || {
            let rules = c.api().get(&path).await.expect(200)["rules"].to_string();
            rules.contains("\"appcontroller.k8s.io\"").then_some(())
        });
        assert!(covered.await.is_some(), "{}", c.api().get(&path).await);
    }
}

/// Without the garbage collector, whose role includes most other permissions.
async fn webhooks_yielding_and_election_need_only_their_own_roles(_: Cluster) {
    let own = own_cluster().await;
    let c = &own.running.cluster;
    let mut deployed = deploy(&own, "base", &[WITHOUT_COLLECTOR]).await;
    let mut instances = Instances::new();
    let program = instances.start(&own, &deployed).await;
    // Not ready before the certificate is issued.
    probe_succeeds(program, "/readyz").await;
    for (path, hook) in webhooks::configurations() {
        let client = async || c.api().get(&path).await.expect(200)["webhooks"][0]["clientConfig"].take();
        assert_eq!(client().await["service"]["path"], hook);
        instances
            .until("a bundle", async || client().await["caBundle"].is_string())
            .await;
    }
    // Controllers that yield read the Lease and recent writes of kube-controller-manager.
    let kcm = fixtures::leases("kube-system") + "/kube-controller-manager";
    instances
        .until("a search for kube-controller-manager", async || {
            let found_none = "Found no lease and no recent writes of kube-controller-manager";
            instances.programs()[0].log().contains(found_none) || c.api().get(&kcm).await.status == 200
        })
        .await;
    assert_eq!(instances.forbidden().await, "");
    instances.stop().await;

    // Without any controller, only the election and its events remain.
    let is_of_controller = |component: &str| deployed_controllers().any(|it| it.name == component);
    for it in manifests::render("base", &[WITHOUT_COLLECTOR]) {
        if is_of_controller(&it.component) {
            c.api().delete(&it.path(), ()).await.expect(200);
        }
    }
    "--controllers=-hollow-kubelet".clone_into(&mut deployed.arguments[0]);
    let election_events = async || {
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
    let before = election_events().await;
    let mut instances = Instances::new();
    instances.start(&own, &deployed).await;
    instances
        .until("an election event", async || election_events().await > before)
        .await;
    assert_eq!(instances.forbidden().await, "");
    instances.stop().await;
}
