//! The schema of the CRD: defaulting and validation by the API server.

use super::*;

#[tokio::test(start_paused = true)]
async fn minimal_manifest_is_defaulted() {
    let f = without_controller().await;
    let body = json!({"apiVersion": "appcontroller.k8s.io/v1alpha1", "kind": "AppService", "metadata": {"name": "shop"},
                      "spec": {"deploymentName": "web", "ports": [{"port": 80}]}});
    let made = f.create(&APPS, &body).await;
    let expected = json!({"deploymentName": "web", "deletionPolicy": "Delete",
                          "ports": [{"port": 80, "protocol": "TCP"}]});
    assert_eq!(made["spec"], expected);
    let all = json!({"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": true}}}],
                     "resources": {"limits": {"cpu": 1, "memory": "1Gi"}, "requests": {"cpu": "100m"}, "claims": [{"name": "c"}]},
                     "ports": [{"port": 80, "name": "web", "targetPort": 8080, "protocol": "TCP"}, {"port": 80, "protocol": "UDP"}]});
    let made = f.create(&APPS, &app("full", "full", &all)).await;
    for field in ["env", "resources", "ports"] {
        assert_eq!(made["spec"][field], all[field], "no field is pruned");
    }
}

#[tokio::test(start_paused = true)]
async fn invalid_specs_are_rejected() {
    let f = without_controller().await;
    let ports = |ports: Value| json!({"ports": ports});
    for spec in [
        json!({"deploymentName": null}),
        json!({"deploymentName": ""}),
        json!({"deploymentName": "Web"}),
        json!({"deploymentName": "a".repeat(64)}),
        json!({"deploymentName": "-a"}),
        json!({"replicas": -1}),
        json!({"replicas": "two"}),
        json!({"replicas": 1.5}),
        json!({"deletionPolicy": "Keep"}),
        ports(json!([{}])),
        ports(json!([{"port": 0}])),
        ports(json!([{"port": 65536}])),
        ports(json!([{"port": 80, "targetPort": 0}])),
        ports(json!([{"port": 80, "protocol": "tcp"}])),
        ports(json!([{"port": 80, "name": "80"}])),
        ports(json!([{"port": 80, "name": "a-long-port-name"}])),
        ports(json!([{"port": 80}, {"port": 80, "protocol": "TCP"}])),
        ports(json!([{"port": 80, "name": "a"}, {"port": 81, "name": "a"}])),
        json!({"env": [{"value": "a"}]}),
        json!({"env": [{"name": "A"}, {"name": "A"}]}),
    ] {
        let mut body = shop(&spec);
        if spec.get("deploymentName").is_some_and(Value::is_null) {
            body["spec"]
                .as_object_mut()
                .expect("a spec")
                .remove("deploymentName");
        }
        let rejected = f.try_create(&APPS, &body).await;
        assert_eq!(rejected.err().and_then(|it| it.code()), Some(422), "{spec}");
    }
    let body = shop(&json!({}));
    for name in ["a".repeat(64), "a.b".to_owned(), "1a".to_owned()] {
        let mut with_ports = shop(&ports(json!([{"port": 80}])));
        with_ports["metadata"]["name"] = json!(name);
        let rejected = f.try_create(&APPS, &with_ports).await;
        assert_eq!(rejected.err().and_then(|it| it.code()), Some(422), "{name}");
    }
    let mut dotted = body;
    dotted["metadata"]["name"] = json!("a.b");
    assert!(
        f.try_create(&APPS, &dotted).await.is_ok(),
        "no Service is created without ports"
    );
}

#[tokio::test(start_paused = true)]
async fn image_must_be_a_reference() {
    let f = without_controller().await;
    for (at, good) in [
        "nginx",
        "nginx:1.27",
        "library/nginx",
        "a.b/c:d",
        "localhost:5000/a/b:tag",
        "[::1]:5000/a",
        "registry.example.com:5000/team/app_one/two--three:v1.2-rc_3",
        "r.io/a:1@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
    ]
    .iter()
    .enumerate()
    {
        let body = app(&format!("a{at}"), "web", &json!({"image": good}));
        assert!(f.try_create(&APPS, &body).await.is_ok(), "{good}");
    }
    for bad in [
        "",
        " ",
        "a b",
        "Nginx",
        "a:",
        ":a",
        "a:b:c",
        "/a",
        "a/",
        "a//b",
        "a@sha256",
        "https://a/b",
        "a\n",
        "a___b",
    ] {
        let rejected = f.try_create(&APPS, &shop(&json!({"image": bad}))).await;
        assert_eq!(rejected.err().and_then(|it| it.code()), Some(422), "{bad:?}");
    }
}

#[test]
fn crd_is_small_enough_for_kubectl_apply() {
    let definition = app_service::crd().to_string();
    assert!(definition.len() < 200_000, "{}", definition.len());
}
