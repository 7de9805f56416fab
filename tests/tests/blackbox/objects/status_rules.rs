//! What a status may look like, and how it is reached.

use coxswain_tests::{
    Cluster, Test,
    fixtures::{MERGE, STRATEGIC, apps, core, deployment, pod, replica_set, service},
    test,
};
use http::Method;
use serde_json::json;

use crate::expect::{invalid, speaks_1_36, unchanged};

/// What is registered of this part.
pub fn tests() -> Vec<Test> {
    vec![
        test!(status_numbers_are_checked),
        test!(pod_conditions_have_names),
        test!(bound_pod_is_nominated_for_no_other_node).since(1, 36),
        test!(pod_address_is_copied_to_the_list),
        test!(namespace_phase_follows_deletion),
        test!(load_balancer_status_needs_a_load_balancer).since(1, 36),
        test!(status_has_get_put_and_patch_only),
    ]
}

async fn status_numbers_are_checked(c: Cluster) {
    let ns = c.namespace().await;
    let path = apps(&ns, "deployments/a");
    let made = c
        .api()
        .post(&apps(&ns, "deployments"), deployment("a"))
        .await
        .expect(201);
    let reply = c
        .api()
        .patch(
            &format!("{path}/status"),
            MERGE,
            json!({"status": {"replicas": 1, "readyReplicas": 3}}),
        )
        .await;
    invalid(
        &reply,
        &["Invalid status.readyReplicas: 3: cannot be greater than status.replicas"],
    );
    let reply = c
        .api()
        .patch(
            &format!("{path}/status"),
            MERGE,
            json!({"status": {"replicas": -1}}),
        )
        .await;
    let more = "0: cannot be greater than status.replicas";
    let causes = [
        "Invalid status.replicas: -1: must be greater than or equal to 0".to_owned(),
        format!("Invalid status.updatedReplicas: {more}"),
        format!("Invalid status.readyReplicas: {more}"),
        format!("Invalid status.availableReplicas: {more}"),
    ];
    invalid(&reply, &causes.each_ref().map(String::as_str));
    unchanged(&c, &path, &made).await;
    c.api()
        .post(&apps(&ns, "replicasets"), replica_set("a"))
        .await
        .expect(201);
    let change = json!({"status": {"replicas": 1, "readyReplicas": 3}});
    let reply = c
        .api()
        .patch(&apps(&ns, "replicasets/a/status"), MERGE, change)
        .await;
    invalid(
        &reply,
        &["Invalid status.readyReplicas: 3: cannot be greater than status.replicas"],
    );
}

async fn pod_address_is_copied_to_the_list(c: Cluster) {
    let ns = c.namespace().await;
    c.api().post(&core(&ns, "pods"), pod("a")).await.expect(201);
    let change = json!({"status": {"podIP": "1.2.3.4", "conditions": [{"type": "Ready", "status": "True"}]}});
    let changed = c
        .api()
        .patch(&core(&ns, "pods/a/status"), STRATEGIC, change)
        .await
        .expect(200);
    assert_eq!(changed["status"]["podIPs"], json!([{"ip": "1.2.3.4"}]));
    let times = json!({"lastProbeTime": null, "lastTransitionTime": null});
    let condition = &changed["status"]["conditions"][0];
    assert_eq!(
        (&condition["type"], &condition["status"]),
        (&json!("Ready"), &json!("True"))
    );
    for time in ["lastProbeTime", "lastTransitionTime"] {
        assert_eq!(condition.get(time), times.get(time), "{time} is there, and null");
    }
}

async fn namespace_phase_follows_deletion(c: Cluster) {
    let ns = c.namespace().await;
    let path = format!("/api/v1/namespaces/{ns}/status");
    let reply = c
        .api()
        .patch(&path, MERGE, json!({"status": {"phase": "Terminating"}}))
        .await;
    invalid(
        &reply,
        &["Invalid status.Phase: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty"],
    );
}

async fn status_has_get_put_and_patch_only(c: Cluster) {
    let ns = c.namespace().await;
    c.api()
        .post(&apps(&ns, "deployments"), deployment("a"))
        .await
        .expect(201);
    for method in [Method::POST, Method::DELETE] {
        let reply = c
            .api()
            .request(method, &apps(&ns, "deployments/a/status"), &[], json!({}))
            .await;
        reply.expect_error(405, "MethodNotAllowed");
    }
    c.api()
        .get(&core(&ns, "configmaps/a/status"))
        .await
        .expect_error(404, "NotFound");
}

async fn load_balancer_status_needs_a_load_balancer(c: Cluster) {
    let ns = c.namespace().await;
    c.api()
        .post(&core(&ns, "services"), service("a"))
        .await
        .expect(201);
    let change = json!({"status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}});
    let reply = c
        .api()
        .patch(&core(&ns, "services/a/status"), MERGE, &change)
        .await;
    invalid(
        &reply,
        &["Forbidden status.loadBalancer.ingress: may only be used when `spec.type` is 'LoadBalancer'"],
    );
    c.api()
        .patch(
            &core(&ns, "services/a"),
            MERGE,
            json!({"spec": {"type": "LoadBalancer"}}),
        )
        .await
        .expect(200);
    let changed = c
        .api()
        .patch(&core(&ns, "services/a/status"), MERGE, change)
        .await
        .expect(200);
    assert_eq!(changed["status"]["loadBalancer"]["ingress"][0]["ip"], "1.2.3.4");
}

async fn pod_conditions_have_names(c: Cluster) {
    let ns = c.namespace().await;
    let made = c.api().post(&core(&ns, "pods"), pod("a")).await.expect(201);
    let path = core(&ns, "pods/a/status");
    let conditions = |kind: &str| json!({"status": {"conditions": [{"type": kind, "status": "True"}]}});
    let reply = c.api().patch(&path, MERGE, conditions("not a name")).await;
    reply.expect_error(422, "Invalid");
    let part = if speaks_1_36(&c) { "status" } else { "metadata" };
    assert_eq!(reply.causes()[0].field, format!("{part}.conditions[0].Type"));
    unchanged(&c, &core(&ns, "pods/a"), &made).await;
    for kind in ["Ready", "example.com/mine"] {
        c.api().patch(&path, MERGE, conditions(kind)).await.expect(200);
    }
}

async fn bound_pod_is_nominated_for_no_other_node(c: Cluster) {
    let ns = c.namespace().await;
    let mut bound = pod("a");
    bound["spec"]["nodeName"] = json!("node-1");
    c.api().post(&core(&ns, "pods"), bound).await.expect(201);
    let change = json!({"status": {"nominatedNodeName": "node-2"}});
    let reply = c.api().patch(&core(&ns, "pods/a/status"), MERGE, change).await;
    invalid(
        &reply,
        &["Forbidden status.nominatedNodeName: may not be set on pods that are already bound to a node"],
    );
}
