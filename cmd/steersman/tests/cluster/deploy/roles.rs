//! Parts of the program alone, under their own roles only: on a cluster with all roles, a role of another controller can grant a
//! missing permission. Each test ends when requests of the manager's account have used every permission of the part, and none was
//! forbidden.

use serde_json::{Value, json};
use steersman_controllers::registry::CONTROLLERS;
use steersman_controllers::{api, appservice, deployment, garbage_collector, replicaset};
use steersman_harness::roles::{self, Permission, Rule};
use steersman_harness::{Cluster, Need, Program, Test, fixtures, test, time};

use super::instances::Instances;
use super::{Deployed, own_cluster};

const ACCOUNT: &str = "steersman";
/// No controller.
const NONE: &str = "--controllers=-hollow-kubelet";
const QUOTA: &str = "no-leases";

pub fn tests() -> Vec<Test> {
    let tests = vec![
        test!(appreplicaset_controller_needs_only_its_own_roles),
        test!(appservice_controller_needs_only_its_own_roles),
        test!(deployment_controller_needs_only_its_own_roles),
        test!(garbage_collector_needs_only_its_own_roles),
        test!(replicaset_controller_needs_only_its_own_roles),
        test!(replicationcontroller_controller_needs_only_its_own_roles),
        test!(access_and_election_need_only_their_own_roles),
        test!(webhooks_need_only_their_own_roles),
        test!(yielding_needs_only_its_own_roles),
    ];
    tests.into_iter().map(|it| it.needs(Need::Sandbox)).collect()
}

async fn appreplicaset_controller_needs_only_its_own_roles(_: Cluster) {
    controller(replicaset::APP_REPLICASET_NAME).await;
}

async fn appservice_controller_needs_only_its_own_roles(_: Cluster) {
    controller(appservice::NAME).await;
}

async fn deployment_controller_needs_only_its_own_roles(_: Cluster) {
    controller(deployment::NAME).await;
}

async fn garbage_collector_needs_only_its_own_roles(_: Cluster) {
    controller(garbage_collector::NAME).await;
}

async fn replicaset_controller_needs_only_its_own_roles(_: Cluster) {
    controller(replicaset::NAME).await;
}

async fn replicationcontroller_controller_needs_only_its_own_roles(_: Cluster) {
    controller(replicaset::REPLICATION_CONTROLLER_NAME).await;
}

async fn access_and_election_need_only_their_own_roles(_: Cluster) {
    uses_its_roles("", &[], &[NONE]).await;
}

async fn webhooks_need_only_their_own_roles(_: Cluster) {
    let service = "--webhook-service=steersman-system/steersman-webhook";
    let arguments = [NONE, "--webhook-port=9443", service];
    let files = ["webhooks.yaml", "roles/webhook.yaml"];
    uses_its_roles("webhook", &files, &arguments).await;
}

/// With one controller that yields, and that does not need the permissions of `yielding.yaml` itself.
async fn yielding_needs_only_its_own_roles(_: Cluster) {
    let name = replicaset::REPLICATION_CONTROLLER_NAME;
    let others = CONTROLLERS.iter().filter(|it| it.name != name);
    let others: Vec<String> = others.map(|it| format!("-{}", it.name)).collect();
    let controllers = format!("--controllers=*,{}", others.join(","));
    let files = [
        "roles/yielding.yaml",
        "roles/replicationcontroller-controller.yaml",
    ];
    uses_its_roles("yielding", &files, &[&controllers]).await;
}

/// Runs one controller, enabled by name.
async fn controller(name: &str) {
    let descriptor = CONTROLLERS.iter().find(|it| it.name == name);
    let file = descriptor.and_then(|it| it.role).expect("a role");
    let part = file.strip_suffix("-controller.yaml").expect("a controller");
    let controllers = format!("--controllers={name}");
    uses_its_roles(part, &[&format!("roles/{file}")], &[&controllers]).await;
}

/// Starts the program under the roles of its access, of its election and of files in `deploy/base`, until it has used all roles
/// with names that start with `part`.
async fn uses_its_roles(part: &str, files: &[&str], arguments: &[&str]) {
    let own = own_cluster().await;
    let c = &own.running.cluster;
    let basis = [
        "namespace.yaml",
        "service-account.yaml",
        "roles/access.yaml",
        "roles/lease.yaml",
    ];
    let rules = roles::create(c, basis.iter().chain(files).copied()).await;
    let permissions: Vec<_> = rules.iter().flat_map(Rule::permissions).collect();
    let common = [
        "--leader-elect=true",
        "--leader-elect-resource-namespace=steersman-system",
        "--use-service-account-credentials=true",
    ];
    let deployed = Deployed {
        account: ACCOUNT.to_owned(),
        pod: Value::Null,
        arguments: arguments
            .iter()
            .chain(&common)
            .map(|it| (*it).to_owned())
            .collect(),
    };
    let elects = files.is_empty();
    if elects {
        refuse_leases(c).await;
    }
    let mut instances = Instances::new();
    let program = instances.start(&own, &deployed).await;
    // Its token is reviewed, and its permission to read metrics.
    let bearer = format!("Bearer {}", c.token(roles::NAMESPACE, ACCOUNT).await);
    let headers = [("authorization", bearer.as_str())];
    let anonymous = program.anonymous();
    anonymous
        .request(http::Method::GET, "/metrics", &headers, ())
        .await;
    // A controller watches its CRD while it is missing.
    let role = format!("/steersman:{part}");
    let (crds, others): (Vec<_>, Vec<_>) = permissions
        .into_iter()
        .filter(|it| it.rule.account == ACCOUNT && it.rule.id.contains(&role))
        .partition(|it| it.group == "apiextensions.k8s.io");
    until_used(c, &crds).await;
    for definition in api::crds() {
        c.api().post(fixtures::CRDS, definition.clone()).await.expect(201);
    }
    if elects {
        let reads = others
            .iter()
            .filter(|it| it.group == "coordination.k8s.io" && it.verb == "get");
        until_used(c, &reads.copied().collect::<Vec<_>>()).await;
        allow_leases(c).await;
        lose_lease(c, program).await;
    }
    until_used(c, &others).await;
    instances.stop().await;
    let audit = c.audit().expect("a sandbox");
    assert_eq!(audit.forbidden(), "");
}

/// Refuses new Leases. The program reads the Lease after a write that failed; before, it may know it from its watch.
async fn refuse_leases(c: &Cluster) {
    let none = json!({"spec": {"hard": {"count/leases.coordination.k8s.io": "0"}}});
    let quota = fixtures::with(fixtures::named("v1", "ResourceQuota", QUOTA), none);
    let quotas = fixtures::core(roles::NAMESPACE, "resourcequotas");
    c.api().post(&quotas, quota).await.expect(201);
}

async fn allow_leases(c: &Cluster) {
    let quotas = fixtures::core(roles::NAMESPACE, "resourcequotas");
    c.api().delete(&format!("{quotas}/{QUOTA}"), ()).await.expect(200);
}

/// Gives the Lease to another holder until it expires: the second term of a process adds to the event of the first.
async fn lose_lease(c: &Cluster, program: &Program) {
    let leads = time::eventually(time::ANSWER, async || {
        program.leads("steersman").await.then_some(())
    });
    assert!(leads.await.is_some(), "{}", program.log());
    let lease = format!("{}/steersman", fixtures::leases(roles::NAMESPACE));
    let other = json!({"spec": {"holderIdentity": "other", "leaseDurationSeconds": 1}});
    c.api().patch(&lease, fixtures::MERGE, other).await.expect(200);
}

/// Waits until requests have used each permission. Fails early if a request was forbidden.
async fn until_used(c: &Cluster, permissions: &[Permission<'_>]) {
    let audit = c.audit().expect("a sandbox");
    let unused = || {
        let requests = audit.requests();
        let is_unused = |it: &&Permission<'_>| !requests.iter().any(|request| it.is_used_by(request));
        let unused = permissions.iter().filter(is_unused).map(Permission::to_string);
        unused.collect::<Vec<_>>()
    };
    let used = time::eventually(time::ANSWER, async || {
        assert_eq!(audit.forbidden(), "");
        unused().is_empty().then_some(())
    });
    assert!(used.await.is_some(), "unused: {:#?}", unused());
}
