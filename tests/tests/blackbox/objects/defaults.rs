//! What users and controllers see on objects of the core, leases and budgets that they did not send.

use coxswain_tests::{
    Cluster, Test,
    fixtures::{budget, budgets, config_map, core, lease, leases, named, pod, with},
    test,
};
use serde_json::{Value, json};

/// What is registered of this part.
pub fn tests() -> Vec<Test> {
    vec![
        test!(pod_gets_defaults),
        test!(pod_starts_pending_whatever_it_says),
        test!(pod_may_be_created_on_a_node),
        test!(container_defaults),
        test!(pull_policy_follows_the_tag),
        test!(limits_become_requests_and_decide_the_class),
        test!(volume_defaults),
        test!(config_map_is_stored_as_sent),
        test!(secret_takes_string_data),
        test!(namespace_is_active_and_finalized),
        test!(namespace_is_labelled_with_its_name).since(1, 21),
        test!(namespace_label_comes_back).since(1, 21),
        test!(node_is_tainted_until_it_is_ready),
        test!(claim_is_pending_and_protected),
        test!(lease_keeps_microseconds),
        test!(budget_starts_with_nothing_allowed),
    ]
}

async fn pod_gets_defaults(c: Cluster) {
    let ns = c.namespace().await;
    let made = c.api().post(&core(&ns, "pods"), pod("a")).await.expect(201);
    let toleration = |key: &str| json!({"key": format!("node.kubernetes.io/{key}"), "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
    let spec = json!({
        "containers": [{
            "name": "c", "image": "i", "resources": {}, "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File", "imagePullPolicy": "Always",
        }],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "tolerations": [toleration("not-ready"), toleration("unreachable")],
        "priority": 0,
        "enableServiceLinks": true,
        "preemptionPolicy": "PreemptLowerPriority",
    });
    assert_eq!(made["spec"], spec);
    assert_eq!(
        made["status"],
        json!({"phase": "Pending", "qosClass": "BestEffort"})
    );
}

async fn pod_starts_pending_whatever_it_says(c: Cluster) {
    let ns = c.namespace().await;
    let body = with(
        pod("a"),
        json!({"status": {"phase": "Running", "podIP": "1.2.3.4"}}),
    );
    let made = c.api().post(&core(&ns, "pods"), body).await.expect(201);
    assert_eq!(
        made["status"],
        json!({"phase": "Pending", "qosClass": "BestEffort"})
    );
}

async fn pod_may_be_created_on_a_node(c: Cluster) {
    let ns = c.namespace().await;
    let body = with(pod("a"), json!({"spec": {"nodeName": "no-such-node"}}));
    let made = c.api().post(&core(&ns, "pods"), body).await.expect(201);
    assert_eq!(made["spec"]["nodeName"], "no-such-node");
    assert_eq!(
        made["status"],
        json!({"phase": "Pending", "qosClass": "BestEffort"}),
        "no condition"
    );
}

async fn container_defaults(c: Cluster) {
    let ns = c.namespace().await;
    let container = json!({
        "name": "c", "image": "i", "ports": [{"containerPort": 80}],
        "env": [{"name": "E", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "livenessProbe": {"httpGet": {"port": 80}},
    });
    let made = c
        .api()
        .post(
            &core(&ns, "pods"),
            with(pod("a"), json!({"spec": {"containers": [container]}})),
        )
        .await
        .expect(201);
    let container = &made["spec"]["containers"][0];
    assert_eq!(
        container["ports"],
        json!([{"containerPort": 80, "protocol": "TCP"}])
    );
    assert_eq!(
        container["env"][0]["valueFrom"]["fieldRef"],
        json!({"apiVersion": "v1", "fieldPath": "metadata.name"})
    );
    let probe = json!({
        "httpGet": {"path": "/", "port": 80, "scheme": "HTTP"},
        "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3,
    });
    assert_eq!(container["livenessProbe"], probe);
}

async fn pull_policy_follows_the_tag(c: Cluster) {
    let ns = c.namespace().await;
    let images = [
        ("i", "Always"),
        ("i:latest", "Always"),
        ("i:v1", "IfNotPresent"),
        ("host:5000/i", "Always"),
        ("host:5000/i:v1", "IfNotPresent"),
        (
            "i@sha256:0123456789012345678901234567890123456789012345678901234567890123",
            "IfNotPresent",
        ),
    ];
    let containers: Vec<Value> = images
        .iter()
        .enumerate()
        .map(|(i, (image, _))| json!({"name": format!("c{i}"), "image": image}))
        .collect();
    let body = with(pod("a"), json!({"spec": {"containers": containers}}));
    let made = c.api().post(&core(&ns, "pods"), body).await.expect(201);
    for (i, (image, policy)) in images.into_iter().enumerate() {
        assert_eq!(
            made["spec"]["containers"][i]["imagePullPolicy"], policy,
            "{image}"
        );
    }
}

async fn limits_become_requests_and_decide_the_class(c: Cluster) {
    let ns = c.namespace().await;
    for (name, resources, class) in [
        ("none", json!({}), "BestEffort"),
        ("some", json!({"limits": {"cpu": "1"}}), "Burstable"),
        (
            "all",
            json!({"limits": {"cpu": "1", "memory": "1Gi"}}),
            "Guaranteed",
        ),
        (
            "less",
            json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}),
            "Burstable",
        ),
    ] {
        let container = json!({"name": "c", "image": "i", "resources": resources});
        let body = with(pod(name), json!({"spec": {"containers": [container]}}));
        let made = c.api().post(&core(&ns, "pods"), body).await.expect(201);
        assert_eq!(made["status"]["qosClass"], class, "{name}");
        let requests = with(resources["limits"].clone(), resources["requests"].clone());
        let requests = if requests.is_null() {
            resources["limits"].clone()
        } else {
            requests
        };
        assert_eq!(
            made["spec"]["containers"][0]["resources"]["requests"], requests,
            "{name}"
        );
    }
}

async fn volume_defaults(c: Cluster) {
    let ns = c.namespace().await;
    let volumes = json!([{"name": "v", "configMap": {"name": "x"}}, {"name": "s", "secret": {"secretName": "x"}}, {"name": "e"}]);
    let made = c
        .api()
        .post(
            &core(&ns, "pods"),
            with(pod("a"), json!({"spec": {"volumes": volumes}})),
        )
        .await
        .expect(201);
    let volumes = json!([
        {"name": "v", "configMap": {"name": "x", "defaultMode": 420}},
        {"name": "s", "secret": {"secretName": "x", "defaultMode": 420}},
        {"name": "e", "emptyDir": {}},
    ]);
    assert_eq!(made["spec"]["volumes"], volumes);
}

async fn config_map_is_stored_as_sent(c: Cluster) {
    let ns = c.namespace().await;
    let change = json!({"data": {"text": "line\n\u{e4}", "empty": ""}, "binaryData": {"b": "AP8="}, "immutable": false});
    let body = with(config_map("a"), change);
    let made = c.api().post(&core(&ns, "configmaps"), &body).await.expect(201);
    for field in ["data", "binaryData", "immutable"] {
        assert_eq!(made[field], body[field]);
    }
    let body = json!({"metadata": {"name": "b"}, "data": {}, "binaryData": {}});
    let made = c.api().post(&core(&ns, "configmaps"), body).await.expect(201);
    let fields: Vec<&String> = made.as_object().expect("an object").keys().collect();
    assert_eq!(
        fields,
        ["apiVersion", "kind", "metadata"],
        "empty maps are left out"
    );
}

async fn secret_takes_string_data(c: Cluster) {
    let ns = c.namespace().await;
    let body = with(
        named("v1", "Secret", "a"),
        json!({"data": {"b": "YQ=="}, "stringData": {"k": "v", "b": "z"}}),
    );
    let made = c.api().post(&core(&ns, "secrets"), body).await.expect(201);
    assert_eq!(made["data"], json!({"b": "eg==", "k": "dg=="}), "stringData wins");
    assert_eq!(made["stringData"], Value::Null, "it is never read back");
    assert_eq!(made["type"], "Opaque");
    assert_eq!(c.api().get(&core(&ns, "secrets/a")).await.expect(200), made);
}

async fn namespace_is_active_and_finalized(c: Cluster) {
    let ns = c.namespace().await;
    let read = c.api().get(&format!("/api/v1/namespaces/{ns}")).await.expect(200);
    assert_eq!(read["spec"], json!({"finalizers": ["kubernetes"]}));
    assert_eq!(read["status"], json!({"phase": "Active"}));
    assert_eq!(read["metadata"]["finalizers"], Value::Null);
    let change = json!({"spec": {"finalizers": []}, "status": {"phase": "Terminating"}});
    let body = with(named("v1", "Namespace", "objects-defaults-a"), change);
    let made = c.api().post("/api/v1/namespaces", body).await.expect(201);
    assert_eq!(made["spec"], json!({"finalizers": ["kubernetes"]}));
    assert_eq!(made["status"], json!({"phase": "Active"}));
}

async fn namespace_is_labelled_with_its_name(c: Cluster) {
    let labels = json!({"metadata": {"labels": {"kubernetes.io/metadata.name": "other", "x": "y"}}});
    let body = with(named("v1", "Namespace", "objects-defaults-b"), labels);
    let made = c.api().post("/api/v1/namespaces", body).await.expect(201);
    let labels = json!({"kubernetes.io/metadata.name": "objects-defaults-b", "x": "y"});
    assert_eq!(made["metadata"]["labels"], labels);
    let made = c
        .api()
        .post(
            "/api/v1/namespaces",
            json!({"metadata": {"generateName": "objects-defaults-"}}),
        )
        .await
        .expect(201);
    assert_eq!(
        made["metadata"]["labels"],
        json!({"kubernetes.io/metadata.name": made["metadata"]["name"]})
    );
}

async fn namespace_label_comes_back(c: Cluster) {
    let ns = c.namespace().await;
    let body = with(
        named("v1", "Namespace", &ns),
        json!({"metadata": {"labels": {"x": "y"}}}),
    );
    let changed = c
        .api()
        .put(&format!("/api/v1/namespaces/{ns}"), body)
        .await
        .expect(200);
    assert_eq!(
        changed["metadata"]["labels"],
        json!({"kubernetes.io/metadata.name": ns, "x": "y"})
    );
    assert_eq!(changed["spec"], json!({"finalizers": ["kubernetes"]}));
}

async fn node_is_tainted_until_it_is_ready(c: Cluster) {
    let made = c
        .api()
        .post("/api/v1/nodes", named("v1", "Node", "objects-defaults"))
        .await
        .expect(201);
    let taint = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
    assert_eq!(made["spec"], json!({"taints": [taint]}));
    assert_eq!(
        made["status"]["nodeInfo"]["kubeletVersion"], "",
        "the parts of nodeInfo are not optional"
    );
    c.api()
        .delete("/api/v1/nodes/objects-defaults", ())
        .await
        .expect(200);
}

async fn claim_is_pending_and_protected(c: Cluster) {
    let ns = c.namespace().await;
    let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let body = with(named("v1", "PersistentVolumeClaim", "a"), json!({"spec": spec}));
    let made = c
        .api()
        .post(&core(&ns, "persistentvolumeclaims"), body)
        .await
        .expect(201);
    assert_eq!(
        made["metadata"]["finalizers"],
        json!(["kubernetes.io/pvc-protection"])
    );
    assert_eq!(made["spec"], with(spec, json!({"volumeMode": "Filesystem"})));
    assert_eq!(made["status"], json!({"phase": "Pending"}));
}

async fn lease_keeps_microseconds(c: Cluster) {
    let ns = c.namespace().await;
    let spec = json!({
        "holderIdentity": "x", "leaseDurationSeconds": 15, "leaseTransitions": 0,
        "acquireTime": "2024-01-02T03:04:05.123456Z", "renewTime": "2024-01-02T03:04:05.000000Z",
    });
    let made = c
        .api()
        .post(&leases(&ns), with(lease("a"), json!({"spec": spec})))
        .await
        .expect(201);
    assert_eq!(made["spec"], spec);
    assert_eq!(made["metadata"]["generation"], Value::Null);
    let made = c.api().post(&leases(&ns), lease("b")).await.expect(201);
    assert_eq!(made["spec"], json!({}), "it is there, and empty");
}

async fn budget_starts_with_nothing_allowed(c: Cluster) {
    let ns = c.namespace().await;
    let made = c.api().post(&budgets(&c, &ns), budget(&c, "a")).await.expect(201);
    assert_eq!(made["spec"], budget(&c, "a")["spec"]);
    let status =
        json!({"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0});
    assert_eq!(made["status"], status);
    assert_eq!(made["metadata"]["generation"], 1);
}
