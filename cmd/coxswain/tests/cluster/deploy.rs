//! The manifests in `deploy/`: they are applied unchanged, the program runs with their arguments and under their roles, and no
//! request is forbidden.
//!
//! Each test has a cluster of its own, because the manifests are cluster-wide. The tests run one after another to limit the load
//! on the machine.

mod crds;
mod instances;
mod kubectl;
mod manifests;
mod monitoring;
mod webhooks;
mod workloads;

use coxswain_controllers::garbage_collector::NAME as GARBAGE_COLLECTOR;
use coxswain_controllers::registry::{CONTROLLERS, Descriptor};
use coxswain_tests::cluster::{self, Running};
use coxswain_tests::{Cluster, Need, Program, Test, fixtures, program, test, time};
use http::Method;
use serde_json::{Value, json};
use tokio::sync::RwLockWriteGuard;

use self::crds::crd_may_be_created_late_and_recreated;
use self::instances::{Instances, NAMESPACE};
use self::kubectl::{kubectl_applies_base_without_warnings, kubectl_applies_overlays_of_the_readme};
use self::webhooks::webhooks_are_called_through_their_service;
use crate::QUIET;

/// API groups and the Kubernetes version that added them.
const SINCE: [(&str, (u32, u32)); 1] = [("policy/v1", (1, 21))];
/// The test clusters have no kube-controller-manager.
const NO_KCM: &str = "--assume-no-kube-controller-manager";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
/// The file in `deploy/base/roles` with everything that the garbage collector needs.
const COLLECTOR_ROLES: &str = "garbage-collector-controller.yaml";

pub fn tests() -> Vec<Test> {
    vec![
        test!(deployment_is_not_forbidden_any_request),
        test!(each_account_has_only_the_rights_of_its_controller),
        test!(webhooks_and_election_need_only_their_own_roles),
        test!(crd_may_be_created_late_and_recreated),
        test!(webhooks_are_called_through_their_service),
        test!(kubectl_applies_base_without_warnings)
            .needs(Need::Kubectl)
            .since(1, 27),
        test!(kubectl_applies_overlays_of_the_readme)
            .needs(Need::Kubectl)
            .since(1, 27),
    ]
}

/// Controllers that run in the deployment.
fn deployed_controllers() -> impl Iterator<Item = &'static Descriptor> {
    CONTROLLERS.iter().filter(|it| it.enabled_by_default)
}

async fn own_cluster() -> (RwLockWriteGuard<'static, ()>, Running) {
    let exclusive = QUIET.write().await;
    (exclusive, cluster::start().await.expect("a cluster"))
}

/// Service account, container and arguments of the Deployment.
struct Deployed {
    account: String,
    container: Value,
    arguments: Vec<String>,
}

/// Creates all objects of `deploy/base`.
async fn deploy(c: &Cluster) -> Deployed {
    let mut deployment = create_all(c, "base").await.expect("a Deployment");
    let mut pod = deployment["spec"]["template"]["spec"].take();
    let container = pod["containers"][0].take();
    Deployed {
        account: pod["serviceAccountName"].as_str().expect("an account").to_owned(),
        arguments: serde_json::from_value(container["args"].clone()).expect("arguments"),
        container,
    }
}

/// Creates all objects of a folder below `deploy/` and returns its Deployment.
async fn create_all(c: &Cluster, folder: &str) -> Option<Value> {
    let mut deployment = None;
    for it in manifests::read(folder) {
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
    deployment
}

async fn deployment_is_not_forbidden_any_request(_: Cluster) {
    let (_exclusive, running) = own_cluster().await;
    let c = &running.cluster;
    let Deployed {
        account,
        container,
        mut arguments,
    } = deploy(c).await;
    arguments.push(NO_KCM.to_owned());
    monitoring::deploy(c).await;
    let mut instances = Instances::new();
    instances.start(c, &account, &arguments).await;
    let program = instances.start(c, &account, &arguments).await;
    for probe in ["livenessProbe", "readinessProbe"] {
        let path = container[probe]["httpGet"]["path"].as_str().expect("a path");
        probe_succeeds(program, path).await;
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
            "running_managed_controllers{{manager=\"coxswain\",name=\"{}\"}}",
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
        (program.endpoints().get(path).await.status == 200).then_some(())
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

/// A right that is asked for: account, verb, API group, resource with subresource, and name.
type Right = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
);

/// Rights that each account has, and rights of others that it has not.
const RIGHTS: [(Right, bool); 25] = [
    (("coxswain", "list", "", "pods", ""), true),
    (("coxswain", "create", "", "pods", ""), false),
    (("coxswain", "delete", "", "pods", ""), false),
    (("coxswain", "get", "", "secrets", ""), false),
    (("coxswain", "patch", "apps", "deployments", ""), false),
    (("coxswain", "create", "", "serviceaccounts", ""), false),
    (
        (
            "coxswain",
            "create",
            "",
            "serviceaccounts/token",
            "deployment-controller",
        ),
        true,
    ),
    (
        ("coxswain", "create", "", "serviceaccounts/token", "coxswain"),
        false,
    ),
    (
        ("coxswain", "create", "", "serviceaccounts/token", "default"),
        false,
    ),
    (
        ("coxswain", "update", "coordination.k8s.io", "leases", "coxswain"),
        true,
    ),
    (
        ("coxswain", "update", "coordination.k8s.io", "leases", "other"),
        false,
    ),
    (
        ("appservice-controller", "create", "apps", "deployments", ""),
        true,
    ),
    (
        ("appservice-controller", "watch", "apps", "deployments", ""),
        false,
    ),
    (("appservice-controller", "delete", "", "pods", ""), false),
    (("appreplicaset-controller", "create", "", "pods", ""), true),
    (
        (
            "appreplicaset-controller",
            "patch",
            "apps",
            "replicasets/status",
            "",
        ),
        false,
    ),
    (
        ("deployment-controller", "create", "apps", "replicasets", ""),
        true,
    ),
    (("deployment-controller", "create", "", "pods", ""), false),
    (("replicaset-controller", "delete", "", "pods", ""), true),
    (
        ("replicaset-controller", "patch", "apps", "deployments", ""),
        false,
    ),
    (
        (
            "replication-controller",
            "patch",
            "",
            "replicationcontrollers/status",
            "",
        ),
        true,
    ),
    (
        (
            "replication-controller",
            "delete",
            "",
            "replicationcontrollers",
            "",
        ),
        false,
    ),
    (("generic-garbage-collector", "delete", "", "secrets", ""), true),
    (("generic-garbage-collector", "create", "", "pods", ""), false),
    (("default", "list", "", "pods", ""), false),
];

async fn each_account_has_only_the_rights_of_its_controller(_: Cluster) {
    let (_exclusive, running) = own_cluster().await;
    let c = &running.cluster;
    deploy(c).await;
    for (right, expected) in RIGHTS {
        // A server may take a moment to load the roles.
        let decided = time::eventually(time::ANSWER, async || {
            (is_allowed(c, right).await == expected).then_some(())
        });
        assert!(decided.await.is_some(), "{right:?} is not {expected}");
    }
}

/// Returns the decision of the API server on a right of a service account.
async fn is_allowed(c: &Cluster, (account, verb, group, resource, name): Right) -> bool {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let attributes = json!({
        "namespace": NAMESPACE, "verb": verb, "group": group, "resource": resource,
        "subresource": subresource, "name": name,
    });
    let user = format!("system:serviceaccount:{NAMESPACE}:{account}");
    is_user_allowed(c, &user, &attributes).await
}

/// Returns the decision of the API server, by a `SubjectAccessReview`.
async fn is_user_allowed(c: &Cluster, user: &str, attributes: &Value) -> bool {
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {"user": user, "resourceAttributes": attributes},
    });
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    c.api().post(path, review).await.expect(201)["status"]["allowed"] == true
}

/// Waits until the API server has loaded all roles and bindings that exist. It loads each kind in the order of creation, so that
/// the right of a later role and binding is granted last.
async fn roles_are_loaded(c: &Cluster) {
    let api_group = "rbac.authorization.k8s.io";
    let version = format!("{api_group}/v1");
    for (prefix, root) in [
        ("Cluster", format!("/apis/{version}/cluster")),
        ("", format!("/apis/{version}/namespaces/{NAMESPACE}/")),
    ] {
        let kind = format!("{prefix}Role");
        let role = json!({
            "apiVersion": version, "kind": kind, "metadata": {"generateName": "loaded-"},
            "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}],
        });
        let role = c.api().post(&format!("{root}roles"), role).await.expect(201);
        let name = role["metadata"]["name"].as_str().expect("a name");
        let binding = json!({
            "apiVersion": version, "kind": format!("{prefix}RoleBinding"), "metadata": {"name": name},
            "roleRef": {"apiGroup": api_group, "kind": kind, "name": name},
            "subjects": [{"apiGroup": api_group, "kind": "User", "name": name}],
        });
        let bindings = format!("{root}rolebindings");
        c.api().post(&bindings, binding).await.expect(201);
        let loaded = time::eventually(time::ANSWER, async || {
            let attributes = json!({"namespace": NAMESPACE, "verb": "get", "resource": "configmaps"});
            is_user_allowed(c, name, &attributes).await.then_some(())
        });
        assert!(loaded.await.is_some(), "{kind} {name} is not loaded");
    }
}

/// Without the garbage collector, whose role includes most other permissions.
async fn webhooks_and_election_need_only_their_own_roles(_: Cluster) {
    let (_exclusive, running) = own_cluster().await;
    let c = &running.cluster;
    let Deployed {
        account,
        mut arguments,
        ..
    } = deploy(c).await;
    create_all(c, "components/webhook").await;
    remove_roles(c, COLLECTOR_ROLES).await;
    arguments[0] = format!("--controllers=*,-{GARBAGE_COLLECTOR}");
    arguments.push(NO_KCM.to_owned());
    let mut arguments = webhooks::with_webhooks(arguments, program::free_address().port());
    let mut instances = Instances::new();
    let program = instances.start(c, &account, &arguments).await;
    // Not ready before the certificate is issued.
    probe_succeeds(program, "/readyz").await;
    for (path, hook) in webhooks::configurations() {
        let client = async || c.api().get(&path).await.expect(200)["webhooks"][0]["clientConfig"].take();
        assert_eq!(client().await["service"]["path"], hook);
        instances
            .until("a bundle", async || client().await["caBundle"].is_string())
            .await;
    }
    assert_eq!(instances.forbidden().await, "");
    instances.stop().await;

    // Without any controller, only the election and its events remain.
    let others = deployed_controllers().filter_map(|it| it.role);
    for file in others.filter(|it| *it != COLLECTOR_ROLES).chain(["manager.yaml"]) {
        remove_roles(c, file).await;
    }
    "--controllers=-hollow-kubelet".clone_into(&mut arguments[0]);
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
    instances.start(c, &account, &arguments).await;
    instances
        .until("an election event", async || election_events().await > before)
        .await;
    assert_eq!(instances.forbidden().await, "");
    instances.stop().await;
}

/// Deletes the objects of a file in `deploy/base/roles`.
async fn remove_roles(c: &Cluster, file: &str) {
    for it in manifests::read(&format!("base/roles/{file}")) {
        let path = format!("{}/{}", it.collection(), it.name);
        c.api().delete(&path, ()).await.expect(200);
    }
}
