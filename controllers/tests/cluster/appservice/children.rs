//! The Deployment and the Service: made, kept as they are asked for, and no more than that.

use coxswain_tests::Test;
use serde_json::{Value, json};

use super::stage::{Stage, app};

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    vec![
        staged!(the_smallest_manifest_works),
        staged!(all_that_is_asked_for_is_there),
        staged!(what_is_its_own_is_mended_and_the_rest_stays),
        staged!(what_is_deleted_is_made_again),
    ]
}

async fn the_smallest_manifest_works(s: Stage) {
    let body = json!({"apiVersion": "appcontroller.k8s.io/v1alpha1", "kind": "AppService", "metadata": {"name": "a"},
                      "spec": {"deploymentName": "web", "replicas": 2}});
    let it = s.serve(body).await;
    assert_eq!(it["status"]["availableReplicas"], 2);
    let web = s.get("deployments", "web").await;
    let owner = &web["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["uid"], &owner["controller"]),
        (&json!("AppService"), &it["metadata"]["uid"], &json!(true))
    );
    for pod in s.list("pods").await {
        assert_eq!(pod["metadata"]["labels"]["app.kubernetes.io/instance"], "a");
        assert_eq!(pod["spec"]["containers"][0]["image"], "nginx");
    }
    assert!(!s.names("services").await.contains(&"a".to_owned()));
}

async fn all_that_is_asked_for_is_there(s: Stage) {
    let spec = json!({
        "ports": [{"port": 80, "targetPort": 8080}, {"port": 53, "protocol": "UDP", "name": "dns"}],
        "env": [{"name": "A", "value": "b"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "resources": {"limits": {"cpu": "0.5", "memory": "1024Mi"}},
    });
    s.serve(app("a", spec)).await;
    let service = s.get("services", "a").await;
    let port = |at: usize| {
        ["name", "port", "targetPort", "protocol"].map(|it| service["spec"]["ports"][at][it].clone())
    };
    assert_eq!(port(0), [json!("tcp-80"), json!(80), json!(8080), json!("TCP")]);
    assert_eq!(port(1), [json!("dns"), json!(53), json!(53), json!("UDP")]);
    let selector = service["spec"]["selector"]
        .as_object()
        .expect("a selector")
        .clone();
    let pods = s.list("pods").await;
    assert!(pods.iter().all(|pod| {
        selector
            .iter()
            .all(|(key, value)| pod["metadata"]["labels"][key] == *value)
    }));
    let web = s.get("deployments", "a").await;
    let container = &web["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(
        container["resources"]["limits"],
        json!({"cpu": "500m", "memory": "1Gi"})
    );
    // Whatever the server has made of it, it is as it is asked for: nothing is written any more.
    let before = web["metadata"]["generation"].clone();
    s.change(
        "deployments",
        "a",
        json!({"metadata": {"labels": {"look": "again"}}}),
    )
    .await;
    s.want("a", json!({"replicas": 3})).await;
    s.ready("a").await;
    let after = s.get("deployments", "a").await;
    assert_eq!(
        after["metadata"]["generation"],
        json!(before.as_i64().expect("a number") + 1)
    );
    // What it asks for no more goes.
    s.want("a", json!({"ports": null, "env": null, "resources": null}))
        .await;
    s.ready("a").await;
    s.gone("services", "a").await;
    let container = &s.get("deployments", "a").await["spec"]["template"]["spec"]["containers"][0];
    assert!(container.get("ports").is_none() && container.get("env").is_none());
    assert!(container["resources"].get("limits").is_none());
}

async fn what_is_its_own_is_mended_and_the_rest_stays(s: Stage) {
    s.serve(app("a", json!({"ports": [{"port": 80}]}))).await;
    let change = json!({
        "metadata": {"labels": {"app.kubernetes.io/managed-by": "me", "theirs": "a"}, "annotations": {"theirs": "a"}},
        "spec": {"replicas": 5, "minReadySeconds": 1, "template": {
            "metadata": {"annotations": {"theirs": "a"}},
            "spec": {"containers": [{"name": "app", "image": "i:2", "env": [{"name": "A", "value": "b"}]},
                                    {"name": "proxy", "image": "p:1"}]}}},
    });
    s.change("deployments", "a", change).await;
    let after = s
        .until("it is mended", async || {
            let it = s.get("deployments", "a").await;
            (it["spec"]["replicas"] == 2).then_some(it)
        })
        .await;
    let metadata = &after["metadata"];
    assert_eq!(metadata["labels"]["app.kubernetes.io/managed-by"], "coxswain");
    assert_eq!(
        (&metadata["labels"]["theirs"], &metadata["annotations"]["theirs"]),
        (&json!("a"), &json!("a"))
    );
    let template = &after["spec"]["template"];
    assert_eq!(
        (
            &after["spec"]["minReadySeconds"],
            &template["metadata"]["annotations"]["theirs"]
        ),
        (&json!(1), &json!("a"))
    );
    let containers = &template["spec"]["containers"];
    assert_eq!(
        (&containers[0]["image"], &containers[1]["name"]),
        (&json!("i:1"), &json!("proxy"))
    );
    assert_eq!(containers[0]["env"], json!([{"name": "A", "value": "b"}]));
    let ports: Value = json!([{"port": 80, "targetPort": 9, "protocol": "TCP"}]);
    let before = s
        .change(
            "services",
            "a",
            json!({"spec": {"type": "NodePort", "ports": ports}}),
        )
        .await;
    let node_port = before["spec"]["ports"][0]["nodePort"].clone();
    s.until("the Service is mended", async || {
        let it = s.get("services", "a").await;
        let port = &it["spec"]["ports"][0];
        (port["targetPort"] == 80 && port["nodePort"] == node_port && it["spec"]["type"] == "NodePort")
            .then_some(())
    })
    .await;
    s.ready("a").await;
}

async fn what_is_deleted_is_made_again(s: Stage) {
    s.serve(app("a", json!({"ports": [{"port": 80}]}))).await;
    let before = s.get("deployments", "a").await["metadata"]["uid"].clone();
    s.delete("deployments", "a", "Foreground").await;
    s.delete("services", "a", "Background").await;
    s.until("there is another one", async || {
        let it = s.read("deployments", "a").await;
        (it.status == 200 && it.json()["metadata"]["uid"] != before).then_some(())
    })
    .await;
    s.until("there is a Service", async || {
        (s.read("services", "a").await.status == 200).then_some(())
    })
    .await;
    s.ready("a").await;
}
