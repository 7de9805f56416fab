//! The Deployment and the Service: made, kept as they are asked for, and no more than that.

use coxswain_tests::Test;
use coxswain_tests::fixtures::{MERGE, with};
use serde_json::json;

use super::stage::{Stage, app};

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    vec![
        staged!(the_smallest_manifest_works),
        staged!(all_that_is_asked_for_is_there),
        staged!(removed_fields_are_restored_and_fields_of_others_stay),
        staged!(field_of_another_manager_is_reported_and_not_forced),
        staged!(orphaned_children_are_adopted_by_annotation),
        staged!(what_is_deleted_is_made_again),
    ]
}

async fn the_smallest_manifest_works(s: Stage) {
    let body = json!({"apiVersion": "appcontroller.k8s.io/v1alpha1", "kind": "AppService", "metadata": {"name": "a"},
                      "spec": {"deploymentName": "web", "replicas": 2, "image": "nginx"}});
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

async fn removed_fields_are_restored_and_fields_of_others_stay(s: Stage) {
    s.serve(app(
        "a",
        json!({"ports": [{"port": 80}], "env": [{"name": "A", "value": "b"}]}),
    ))
    .await;
    let change = json!({
        "metadata": {"labels": {"app.kubernetes.io/managed-by": null, "theirs": "a"}, "annotations": {"theirs": "a"}},
        "spec": {"minReadySeconds": 1, "template": {
            "metadata": {"annotations": {"theirs": "a"}},
            "spec": {"containers": [{"name": "app", "image": "i:1", "ports": [{"containerPort": 80, "protocol": "TCP"}],
                                     "env": [{"name": "B", "value": "c"}]},
                                    {"name": "proxy", "image": "p:1"}]}}},
    });
    s.change("deployments", "a", change).await;
    let after = s
        .until("the label is restored", async || {
            let it = s.get("deployments", "a").await;
            (it["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "coxswain").then_some(it)
        })
        .await;
    let metadata = &after["metadata"];
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
    assert_eq!(containers[1]["name"], "proxy");
    let env = containers[0]["env"].as_array().expect("a list");
    for entry in [
        json!({"name": "A", "value": "b"}),
        json!({"name": "B", "value": "c"}),
    ] {
        assert!(env.contains(&entry), "{env:?}");
    }
    s.change("services", "a", json!({"spec": {"type": "NodePort"}}))
        .await;
    s.want("a", json!({"ports": [{"port": 80, "targetPort": 9}]}))
        .await;
    s.until("the Service is changed", async || {
        let it = s.get("services", "a").await;
        let port = &it["spec"]["ports"][0];
        (port["targetPort"] == 9 && port["nodePort"].is_u64() && it["spec"]["type"] == "NodePort")
            .then_some(())
    })
    .await;
    s.ready("a").await;
}

async fn field_of_another_manager_is_reported_and_not_forced(s: Stage) {
    s.serve(app("a", json!({}))).await;
    let path = format!("{}?fieldManager=autoscaler", s.path("deployments", "a"));
    let change = json!({"spec": {"replicas": 3}});
    s.c.api().patch(&path, MERGE, change).await.expect(200);
    let stalled = s.stalled("a", "FieldManagerConflict").await;
    let conditions = stalled["status"]["conditions"].to_string();
    assert!(
        conditions.contains("autoscaler") && conditions.contains(".spec.replicas"),
        "{conditions}"
    );
    assert_eq!(s.get("deployments", "a").await["spec"]["replicas"], 3);
    // The AppService takes it over by asking for the same.
    s.want("a", json!({"replicas": 3})).await;
    s.ready("a").await;
}

async fn orphaned_children_are_adopted_by_annotation(s: Stage) {
    let body = app("a", json!({"ports": [{"port": 80}], "deletionPolicy": "Orphan"}));
    s.serve(body.clone()).await;
    let before = s.get("deployments", "a").await;
    s.delete("appservices", "a", "Background").await;
    s.gone("appservices", "a").await;
    s.create(
        "appservices",
        with(body, json!({"spec": {"deletionPolicy": "Delete"}})),
    )
    .await;
    s.stalled("a", "ErrResourceExists").await;
    let adopt = json!({"metadata": {"annotations": {"appcontroller.k8s.io/adopt-by": "a"}}});
    for kind in ["deployments", "services"] {
        s.change(kind, "a", adopt.clone()).await;
    }
    let it = s.ready("a").await;
    for kind in ["deployments", "services"] {
        let child = s.get(kind, "a").await;
        assert_eq!(
            child["metadata"]["ownerReferences"][0]["uid"],
            it["metadata"]["uid"]
        );
    }
    let after = s.get("deployments", "a").await;
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(
        after["spec"]["template"], before["spec"]["template"],
        "no pod is replaced"
    );
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
