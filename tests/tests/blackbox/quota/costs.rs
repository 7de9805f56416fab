//! What pods, services and claims cost.

use coxswain_tests::{Cluster, Need, Test, test};
use serde_json::{Value, json};

use super::{limited, quota, refused, used};
use crate::support::{MERGE, core, create, object, pod, soon, with};

pub fn tests() -> Vec<Test> {
    let tests = vec![
        test!(pods_beyond_it_are_refused),
        test!(pods_that_have_ended_are_only_objects),
        test!(services_cost_by_their_type),
        test!(less_than_is_used_hinders_only_who_wants_more),
        test!(claims_cost_their_storage),
        test!(pods_cost_what_their_containers_ask_for),
        test!(containers_must_say_what_is_counted).since(1, 24),
        test!(scopes_choose_pods),
        test!(priority_classes_choose_pods),
    ];
    tests.into_iter().map(|test| test.needs(Need::Kcm)).collect()
}

fn service(name: &str, kind: &str) -> Value {
    let spec = json!({"type": kind, "ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81}]});
    with(object("v1", "Service", name), "/spec", spec)
}

fn asking(name: &str, resources: Value) -> Value {
    with(pod(name), "/spec/containers/0/resources", resources)
}

async fn pods_beyond_it_are_refused(c: Cluster) {
    let ns = limited(&c, json!({"pods": "2"})).await;
    create(&c, &core(&ns, "pods"), &pod("a")).await;
    create(&c, &core(&ns, "pods"), &pod("b")).await;
    let reply = c.api().post(&core(&ns, "pods"), pod("c")).await;
    refused(
        &reply,
        "pods \"c\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2",
    );
    assert_eq!(reply.json()["details"], json!({"name": "c", "kind": "pods"}));
    c.api()
        .get(&core(&ns, "pods/c"))
        .await
        .expect_error(404, "NotFound");
    used(&c, &ns, "q", json!({"pods": "2"})).await;
}

async fn pods_that_have_ended_are_only_objects(c: Cluster) {
    let ns = limited(&c, json!({"pods": "1", "count/pods": "2"})).await;
    create(&c, &core(&ns, "pods"), &pod("a")).await;
    used(&c, &ns, "q", json!({"pods": "1", "count/pods": "1"})).await;
    let done = json!({"status": {"phase": "Succeeded"}});
    c.api()
        .patch(&core(&ns, "pods/a/status"), MERGE, done)
        .await
        .expect(200);
    used(&c, &ns, "q", json!({"pods": "0", "count/pods": "1"})).await;
    create(&c, &core(&ns, "pods"), &pod("b")).await;
    used(&c, &ns, "q", json!({"pods": "1", "count/pods": "2"})).await;
    let reply = c.api().post(&core(&ns, "pods"), pod("c")).await;
    refused(
        &reply,
        "pods \"c\" is forbidden: exceeded quota: q, requested: count/pods=1,pods=1, used: count/pods=2,pods=1, limited: \
         count/pods=2,pods=1",
    );
}

async fn services_cost_by_their_type(c: Cluster) {
    let hard = json!({"services": "3", "services.nodeports": "3", "services.loadbalancers": "0"});
    let ns = limited(&c, hard).await;
    let services = core(&ns, "services");
    create(&c, &services, &service("inside", "ClusterIP")).await;
    create(&c, &services, &service("ports", "NodePort")).await;
    let counts = |services: &str, ports: &str| json!({"services": services, "services.nodeports": ports, "services.loadbalancers": "0"});
    used(&c, &ns, "q", counts("2", "2")).await;
    refused(
        &c.api().post(&services, service("more", "NodePort")).await,
        "services \"more\" is forbidden: exceeded quota: q, requested: services.nodeports=2, used: services.nodeports=2, \
         limited: services.nodeports=3",
    );
    refused(
        &c.api().post(&services, service("balanced", "LoadBalancer")).await,
        "services \"balanced\" is forbidden: exceeded quota: q, requested: services.loadbalancers=1,services.nodeports=2, \
         used: services.loadbalancers=0,services.nodeports=2, limited: services.loadbalancers=0,services.nodeports=3",
    );
    // A change of the type costs what it adds.
    let change = json!({"spec": {"type": "NodePort"}});
    refused(
        &c.api().patch(&format!("{services}/inside"), MERGE, change).await,
        "services \"inside\" is forbidden: exceeded quota: q, requested: services.nodeports=2, used: services.nodeports=2, \
         limited: services.nodeports=3",
    );
    let back = json!({"spec": {"type": "ClusterIP"}});
    c.api()
        .patch(&format!("{services}/ports"), MERGE, back)
        .await
        .expect(200);
    used(&c, &ns, "q", counts("2", "0")).await;
}

/// Who asks for none of what is used up is let in.
async fn less_than_is_used_hinders_only_who_wants_more(c: Cluster) {
    let ns = limited(&c, json!({"services": "5", "services.nodeports": "2"})).await;
    create(&c, &core(&ns, "services"), &service("ports", "NodePort")).await;
    let lower = json!({"spec": {"hard": {"services": "5", "services.nodeports": "1"}}});
    let path = core(&ns, "resourcequotas/q");
    c.api().patch(&path, MERGE, lower).await.expect(200);
    used(&c, &ns, "q", json!({"services": "1", "services.nodeports": "2"})).await;
    create(&c, &core(&ns, "services"), &service("inside", "ClusterIP")).await;
    refused(
        &c.api()
            .post(&core(&ns, "services"), service("more", "NodePort"))
            .await,
        "services \"more\" is forbidden: exceeded quota: q, requested: services.nodeports=2, used: services.nodeports=2, \
         limited: services.nodeports=1",
    );
}

async fn claims_cost_their_storage(c: Cluster) {
    let by_class = "gold.storageclass.storage.k8s.io/requests.storage";
    let hard = json!({"persistentvolumeclaims": "5", "requests.storage": "3Gi", by_class: "1Gi"});
    let ns = limited(&c, hard).await;
    let claim = |name: &str, class: &str, size: &str| {
        let spec = json!({
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": class,
            "resources": {"requests": {"storage": size}},
        });
        with(object("v1", "PersistentVolumeClaim", name), "/spec", spec)
    };
    let claims = core(&ns, "persistentvolumeclaims");
    create(&c, &claims, &claim("a", "iron", "2Gi")).await;
    create(&c, &claims, &claim("b", "gold", "512Mi")).await;
    let expected = json!({"persistentvolumeclaims": "2", "requests.storage": "2560Mi", by_class: "512Mi"});
    used(&c, &ns, "q", expected).await;
    refused(
        &c.api().post(&claims, claim("c", "gold", "1Gi")).await,
        &format!(
            "persistentvolumeclaims \"c\" is forbidden: exceeded quota: q, requested: {by_class}=1Gi,requests.storage=1Gi, used: \
             {by_class}=512Mi,requests.storage=2560Mi, limited: {by_class}=1Gi,requests.storage=3Gi"
        ),
    );
}

async fn pods_cost_what_their_containers_ask_for(c: Cluster) {
    let ns = limited(&c, json!({"requests.cpu": "1", "limits.memory": "1Gi"})).await;
    let pods = core(&ns, "pods");
    let resources = json!({"requests": {"cpu": "600m"}, "limits": {"memory": "256Mi"}});
    create(&c, &pods, &asking("a", resources.clone())).await;
    used(
        &c,
        &ns,
        "q",
        json!({"requests.cpu": "600m", "limits.memory": "256Mi"}),
    )
    .await;
    refused(
        &c.api().post(&pods, asking("b", resources)).await,
        "pods \"b\" is forbidden: exceeded quota: q, requested: requests.cpu=600m, used: requests.cpu=600m, limited: \
         requests.cpu=1",
    );
    // A limit is a request too, and init containers count where they take more.
    let mut started = asking("c", json!({"limits": {"cpu": "100m", "memory": "128Mi"}}));
    started["spec"]["initContainers"] =
        json!([{"name": "i", "image": "i", "resources": {"limits": {"cpu": "400m", "memory": "64Mi"}}}]);
    create(&c, &pods, &started).await;
    used(
        &c,
        &ns,
        "q",
        json!({"requests.cpu": "1", "limits.memory": "384Mi"}),
    )
    .await;
}

async fn containers_must_say_what_is_counted(c: Cluster) {
    let ns = limited(
        &c,
        json!({"requests.cpu": "1", "limits.memory": "1Gi", "pods": "5"}),
    )
    .await;
    let silent = asking("a", json!({"requests": {"cpu": "1m"}}));
    refused(
        &c.api().post(&core(&ns, "pods"), silent).await,
        "pods \"a\" is forbidden: failed quota: q: must specify limits.memory for: c",
    );
    refused(
        &c.api().post(&core(&ns, "pods"), pod("a")).await,
        "pods \"a\" is forbidden: failed quota: q: must specify limits.memory for: c; requests.cpu for: c",
    );
}

async fn scopes_choose_pods(c: Cluster) {
    for (scope, covered, free) in [
        (
            "BestEffort",
            pod("a"),
            asking("b", json!({"requests": {"cpu": "1m"}})),
        ),
        (
            "NotBestEffort",
            asking("a", json!({"requests": {"cpu": "1m"}})),
            pod("b"),
        ),
        (
            "Terminating",
            with(pod("a"), "/spec/activeDeadlineSeconds", json!(60)),
            pod("b"),
        ),
        (
            "NotTerminating",
            pod("a"),
            with(pod("b"), "/spec/activeDeadlineSeconds", json!(60)),
        ),
    ] {
        let ns = c.namespace().await;
        let scoped = with(quota("q", json!({"pods": "0"})), "/spec/scopes", json!([scope]));
        create(&c, &core(&ns, "resourcequotas"), &scoped).await;
        used(&c, &ns, "q", json!({"pods": "0"})).await;
        refused(
            &c.api().post(&core(&ns, "pods"), covered).await,
            "pods \"a\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0",
        );
        create(&c, &core(&ns, "pods"), &free).await;
        used(&c, &ns, "q", json!({"pods": "0"})).await;
    }
}

async fn priority_classes_choose_pods(c: Cluster) {
    let ns = c.namespace().await;
    let class = with(
        object("scheduling.k8s.io/v1", "PriorityClass", &format!("{ns}-high")),
        "/value",
        json!(5),
    );
    create(&c, "/apis/scheduling.k8s.io/v1/priorityclasses", &class).await;
    let term = json!({"scopeName": "PriorityClass", "operator": "In", "values": [format!("{ns}-high")]});
    let scoped = with(
        quota("q", json!({"pods": "0"})),
        "/spec/scopeSelector/matchExpressions",
        json!([term]),
    );
    create(&c, &core(&ns, "resourcequotas"), &scoped).await;
    used(&c, &ns, "q", json!({"pods": "0"})).await;
    create(&c, &core(&ns, "pods"), &pod("b")).await;
    let high = with(pod("a"), "/spec/priorityClassName", json!(format!("{ns}-high")));
    let reply = soon("the class is known", async || {
        let reply = c.api().post(&core(&ns, "pods"), high.clone()).await;
        (!reply.message().contains("no PriorityClass")).then_some(reply)
    })
    .await;
    refused(
        &reply,
        "pods \"a\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0",
    );
}
