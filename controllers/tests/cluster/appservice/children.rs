//! The Deployment and the Service follow the spec.

use serde_json::{Value, json};
use steersman_harness::Test;
use steersman_harness::fixtures::{MERGE, STRATEGIC, with};

use super::fixture::{Fixture, app, owners, text};

pub fn tests() -> Vec<Test> {
    vec![
        fixture_test!(minimal_manifest_creates_a_deployment),
        fixture_test!(all_spec_fields_are_applied),
        fixture_test!(removed_fields_are_restored_and_fields_of_others_kept),
        fixture_test!(field_that_another_manager_changes_is_corrected),
        fixture_test!(default_image_is_left_to_other_managers),
        fixture_test!(orphaned_children_are_adopted_by_annotation),
        fixture_test!(deleted_children_are_recreated),
    ]
}

async fn minimal_manifest_creates_a_deployment(s: Fixture) {
    let body = json!({"apiVersion": "appcontroller.k8s.io/v1alpha1", "kind": "AppService", "metadata": {"name": "a"},
                      "spec": {"deploymentName": "web", "replicas": 2, "image": "nginx"}});
    let it = s.create_ready(body).await;
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

async fn all_spec_fields_are_applied(s: Fixture) {
    let spec = json!({
        "ports": [{"port": 80, "targetPort": 8080}, {"port": 53, "protocol": "UDP", "name": "dns"}],
        "env": [{"name": "A", "value": "b"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "resources": {"limits": {"cpu": "0.5", "memory": "1024Mi"}},
    });
    s.create_ready(app("a", spec)).await;
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
    // Defaulted fields are not drift.
    let before = web["metadata"]["generation"].clone();
    s.change(
        "deployments",
        "a",
        json!({"metadata": {"labels": {"example.com/trigger": "sync"}}}),
    )
    .await;
    s.patch_spec("a", json!({"replicas": 3})).await;
    s.wait_ready("a").await;
    let after = s.get("deployments", "a").await;
    assert_eq!(
        after["metadata"]["generation"],
        json!(before.as_i64().expect("a number") + 1)
    );
    // Unset fields are pruned.
    s.patch_spec("a", json!({"ports": null, "env": null, "resources": null}))
        .await;
    s.wait_ready("a").await;
    s.wait_deleted("services", "a").await;
    let container = &s.get("deployments", "a").await["spec"]["template"]["spec"]["containers"][0];
    assert!(container.get("ports").is_none() && container.get("env").is_none());
    assert!(container["resources"].get("limits").is_none());
}

async fn removed_fields_are_restored_and_fields_of_others_kept(s: Fixture) {
    s.create_ready(app(
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
        .wait_until("the label is restored", async || {
            let it = s.get("deployments", "a").await;
            (it["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "steersman").then_some(it)
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
    s.patch_spec("a", json!({"ports": [{"port": 80, "targetPort": 9}]}))
        .await;
    s.wait_until("the Service is changed", async || {
        let it = s.get("services", "a").await;
        let port = &it["spec"]["ports"][0];
        (port["targetPort"] == 9 && port["nodePort"].is_u64() && it["spec"]["type"] == "NodePort")
            .then_some(())
    })
    .await;
    s.wait_ready("a").await;
}

async fn field_that_another_manager_changes_is_corrected(s: Fixture) {
    for policy in ["Foreground", "Background", "Orphan"] {
        let name = policy.to_lowercase();
        s.create_ready(app(&name, json!({}))).await;
        // Old servers record no manager of a write to the subresource.
        let (resource, manager) = match policy {
            "Foreground" => ("/scale", ""),
            _ => ("", "autoscaler"),
        };
        let path = s.path("deployments", &name);
        let path = format!("{path}{resource}?fieldManager=autoscaler");
        let change = json!({"spec": {"replicas": 1}});
        s.c.api().patch(&path, MERGE, change).await.expect(200);
        s.wait_until(
            "the number is corrected, and field and manager are named",
            async || {
                let events = s.list("events").await;
                let mut about = events.iter().filter(|it| {
                    it["involvedObject"]["name"] == *name && it["reason"] == "FieldManagerConflict"
                });
                let names = |it: &Value| {
                    let message = text(&it["message"]);
                    message.contains(manager) && message.contains(".spec.replicas")
                };
                let web = s.get("deployments", &name).await;
                (web["spec"]["replicas"] == 2 && about.any(names)).then_some(())
            },
        )
        .await;
        s.patch_spec(&name, json!({"image": "i:2"})).await;
        s.wait_ready(&name).await;
        let web = s.get("deployments", &name).await;
        assert_eq!(web["spec"]["template"]["spec"]["containers"][0]["image"], "i:2");
        s.wait_collector_observed().await;
        s.delete("appservices", &name, policy).await;
        s.wait_deleted("appservices", &name).await;
        if policy == "Orphan" {
            let web = s.get("deployments", &name).await;
            assert_eq!(
                (owners(&web), web["metadata"].get("deletionTimestamp")),
                (0, None)
            );
        } else {
            s.wait_deleted("deployments", &name).await;
        }
    }
}

/// The image stays with a field manager of its own, so that it is neither corrected nor removed.
async fn default_image_is_left_to_other_managers(s: Fixture) {
    let body = json!({"apiVersion": "appcontroller.k8s.io/v1alpha1", "kind": "AppService", "metadata": {"name": "a"},
                      "spec": {"deploymentName": "web", "replicas": 2}});
    s.create_ready(body).await;
    let image = async || {
        let web = s.get("deployments", "web").await;
        text(&web["spec"]["template"]["spec"]["containers"][0]["image"])
    };
    assert_eq!(image().await, "nginx");
    s.patch_spec("a", json!({"replicas": 3})).await;
    s.wait_ready("a").await;
    assert_eq!(image().await, "nginx");
    let set = json!({"spec": {"template": {"spec": {"containers": [{"name": "app", "image": "i:1"}]}}}});
    let path = s.path("deployments", "web");
    s.c.api().patch(&path, STRATEGIC, set).await.expect(200);
    s.patch_spec("a", json!({"replicas": 2})).await;
    s.wait_ready("a").await;
    assert_eq!(image().await, "i:1");
    s.patch_spec("a", json!({"image": "i:2"})).await;
    s.wait_ready("a").await;
    assert_eq!(image().await, "i:2");
}

async fn orphaned_children_are_adopted_by_annotation(s: Fixture) {
    let body = app("a", json!({"ports": [{"port": 80}], "deletionPolicy": "Orphan"}));
    s.create_ready(body.clone()).await;
    let before = s.get("deployments", "a").await;
    s.delete("appservices", "a", "Background").await;
    s.wait_deleted("appservices", "a").await;
    s.create(
        "appservices",
        with(body, json!({"spec": {"deletionPolicy": "Delete"}})),
    )
    .await;
    s.wait_stalled("a", "ErrResourceExists").await;
    let adopt = json!({"metadata": {"annotations": {"appcontroller.k8s.io/adopt-by": "a"}}});
    for kind in ["deployments", "services"] {
        s.change(kind, "a", adopt.clone()).await;
    }
    let it = s.wait_ready("a").await;
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

async fn deleted_children_are_recreated(s: Fixture) {
    s.create_ready(app("a", json!({"ports": [{"port": 80}]}))).await;
    let before = s.get("deployments", "a").await["metadata"]["uid"].clone();
    s.delete("deployments", "a", "Foreground").await;
    s.delete("services", "a", "Background").await;
    s.wait_until("the Deployment is recreated", async || {
        let it = s.read("deployments", "a").await;
        (it.status == 200 && it.json()["metadata"]["uid"] != before).then_some(())
    })
    .await;
    s.wait_until("the Service exists", async || {
        (s.read("services", "a").await.status == 200).then_some(())
    })
    .await;
    s.wait_ready("a").await;
}
