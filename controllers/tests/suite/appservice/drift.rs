//! Changes of the children by other clients: removed fields are restored, fields of others are kept, and writes that another
//! client undoes are delayed.

use super::*;

#[tokio::test(start_paused = true)]
async fn removed_fields_are_restored_and_fields_of_others_kept_in_one_apply() {
    let f = controller_only(&json!({"ports": [{"port": 80}], "env": [{"name": "OURS", "value": "a"}]})).await;
    let web = json!({
        "metadata": {"labels": {"app.kubernetes.io/managed-by": null, "theirs": "a"}, "annotations": {"theirs": "a"},
                     "finalizers": ["example.com/theirs"]},
        "spec": {"minReadySeconds": 1, "template": {
            "metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "now"}},
            "spec": {"containers": [
                {"name": "app", "image": "nginx", "resources": {"limits": {"cpu": "2"}},
                 "env": [{"name": "THEIRS", "value": "b"}], "ports": [{"containerPort": 80, "protocol": "TCP"}]},
                {"name": "proxy", "image": "proxy:1"}]}}},
    });
    f.patch(&DEPLOYMENTS, "web", &web).await;
    f.wait_until(async |f| {
        f.get(&DEPLOYMENTS, "web").await["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "steersman"
    })
    .await;
    assert_eq!(
        f.api.count("PATCH deployments"),
        2,
        "managedFields, then the apply"
    );
    let after = f.get(&DEPLOYMENTS, "web").await;
    let metadata = &after["metadata"];
    assert_eq!(
        (&metadata["labels"]["theirs"], &metadata["annotations"]["theirs"]),
        (&json!("a"), &json!("a"))
    );
    assert_eq!(metadata["finalizers"], json!(["example.com/theirs"]));
    assert_eq!(after["spec"]["minReadySeconds"], 1);
    let template = &after["spec"]["template"];
    assert_eq!(
        template["metadata"]["annotations"]["kubectl.kubernetes.io/restartedAt"],
        "now"
    );
    let containers = &template["spec"]["containers"];
    assert_eq!(containers[1]["name"], "proxy");
    assert_eq!(containers[0]["resources"], json!({"limits": {"cpu": "2"}}));
    let names: BTreeSet<&str> = containers[0]["env"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|it| it["name"].as_str())
        .collect();
    assert_eq!(names, BTreeSet::from(["OURS", "THEIRS"]));
    // The Service too.
    f.api.reset();
    let service = json!({"metadata": {"labels": {"theirs": "a", "app.kubernetes.io/managed-by": null}},
                         "spec": {"type": "NodePort"}});
    f.patch(&SERVICES, "shop", &service).await;
    f.wait_until(async |f| {
        f.get(&SERVICES, "shop").await["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "steersman"
    })
    .await;
    assert_eq!(f.api.count("PATCH services"), 2);
    let after = f.get(&SERVICES, "shop").await;
    assert_eq!(
        (&after["spec"]["type"], &after["metadata"]["labels"]["theirs"]),
        (&json!("NodePort"), &json!("a"))
    );
}

#[tokio::test(start_paused = true)]
async fn deleted_children_are_recreated() {
    let f = fixture().await;
    f.start_garbage_collector().await;
    f.create_ready(&shop(&json!({"ports": [{"port": 80}]}))).await;
    let before = f.get(&DEPLOYMENTS, "web").await["metadata"]["uid"].clone();
    for propagation in [Propagation::Background, Propagation::Foreground] {
        f.delete(&DEPLOYMENTS, "web", propagation).await;
        f.delete(&SERVICES, "shop", Propagation::Background).await;
        f.wait_until(async |f| {
            let it = f.read(&DEPLOYMENTS, "web").await.unwrap_or_default();
            it["metadata"]["uid"].is_string()
                && it["metadata"]["uid"] != before
                && it["metadata"].get("deletionTimestamp").is_none()
        })
        .await;
        f.wait_until(async |f| f.exists(&SERVICES, "shop").await).await;
        f.wait_ready("shop").await;
    }
}

#[tokio::test(start_paused = true)]
async fn terminating_deployment_is_awaited() {
    let f = with_shop().await;
    f.patch(
        &DEPLOYMENTS,
        "web",
        &json!({"metadata": {"finalizers": ["example.com/theirs"]}}),
    )
    .await;
    f.delete(&DEPLOYMENTS, "web", Propagation::Background).await;
    f.wait_until(async |f| condition(&f.get(&APPS, "shop").await, "Progressing").1 == "WaitingForDeletion")
        .await;
    f.api.reset();
    f.patch_spec("shop", &json!({"replicas": 3})).await;
    f.sleep(Duration::from_mins(5)).await;
    assert_eq!(
        f.api.operations(),
        ["PATCH appservices/status"],
        "no other requests"
    );
    f.patch(&DEPLOYMENTS, "web", &json!({"metadata": {"finalizers": null}}))
        .await;
    let it = f.wait_ready("shop").await;
    assert_eq!(it["status"]["availableReplicas"], 3);
    assert_eq!(f.event_count("ErrResourceExists").await, 0);
}

#[tokio::test(start_paused = true)]
async fn repeatedly_undone_apply_is_delayed() {
    let f = with_shop().await;
    f.api.reset();
    let start = f.env.clock.now();
    while f.env.clock.now() - start < Duration::from_mins(10) {
        let label = json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": null}}});
        f.patch(&DEPLOYMENTS, "web", &label).await;
        f.sleep(Duration::from_secs(1)).await;
    }
    let repairs = f.api.count("PATCH deployments");
    assert!((4..12).contains(&repairs), "{repairs}");
    assert_eq!(f.wait_stalled("shop").await, "CorrectionBackOff");
    assert!(f.event_count("CorrectionBackOff").await <= 12);
    f.wait_corrected(async |f| {
        f.get(&DEPLOYMENTS, "web").await["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "steersman"
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn repeatedly_removed_owner_reference_is_delayed() {
    let f = with_shop().await;
    f.api.reset();
    for _ in 0..120 {
        f.patch(
            &DEPLOYMENTS,
            "web",
            &json!({"metadata": {"ownerReferences": null}}),
        )
        .await;
        f.sleep(Duration::from_secs(5)).await;
    }
    let repairs = f.api.count("PATCH deployments");
    assert!((4..12).contains(&repairs), "{repairs}");
    assert_eq!(f.wait_stalled("shop").await, "CorrectionBackOff");
    f.wait_corrected(async |f| owners(&f.get(&DEPLOYMENTS, "web").await) == 1)
        .await;
}

#[tokio::test(start_paused = true)]
async fn repeatedly_deleted_child_is_delayed() {
    for (resource, name) in [(DEPLOYMENTS, "web"), (SERVICES, "shop")] {
        let f = fixture().await;
        f.create_ready(&shop(&json!({"ports": [{"port": 80}]}))).await;
        f.api.reset();
        for _ in 0..120 {
            if f.exists(&resource, name).await {
                f.delete(&resource, name, Propagation::Background).await;
            }
            f.sleep(Duration::from_secs(5)).await;
        }
        let creates = f.api.count(&format!("POST {}", resource.plural));
        assert!((4..12).contains(&creates), "{creates}");
        assert_eq!(f.wait_stalled("shop").await, "CorrectionBackOff");
        f.wait_corrected(async |f| f.exists(&resource, name).await).await;
    }
}

#[tokio::test(start_paused = true)]
async fn apply_undone_in_varying_fields_is_delayed() {
    let f = with_shop().await;
    f.api.reset();
    for nth in 0..120 {
        let change = match nth % 3 {
            0 => json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": null}}}),
            1 => json!({"metadata": {"labels": {"appcontroller.k8s.io/appservice-uid": null}}}),
            _ => json!({"metadata": {"annotations": {"appcontroller.k8s.io/made-as": null}}}),
        };
        f.patch(&DEPLOYMENTS, "web", &change).await;
        f.sleep(Duration::from_secs(5)).await;
    }
    let repairs = f.api.count("PATCH deployments");
    assert!((4..12).contains(&repairs), "{repairs}");
    assert_eq!(f.wait_stalled("shop").await, "CorrectionBackOff");
    f.sleep(Duration::from_mins(30)).await;
    f.wait_ready("shop").await;
}

#[tokio::test(start_paused = true)]
async fn repeatedly_removed_finalizer_is_delayed() {
    let f = fixture().await;
    f.create_ready(&shop(&json!({"deletionPolicy": "Orphan"}))).await;
    f.api.reset();
    for _ in 0..120 {
        f.patch(&APPS, "shop", &json!({"metadata": {"finalizers": null}}))
            .await;
        f.sleep(Duration::from_secs(5)).await;
    }
    let patches = f.api.count("PATCH appservices");
    assert!((4..12).contains(&patches), "{patches}");
    assert_eq!(f.wait_stalled("shop").await, "CorrectionBackOff");
    f.wait_corrected(async |f| f.get(&APPS, "shop").await["metadata"]["finalizers"] == json!([FINALIZER]))
        .await;
}

#[tokio::test(start_paused = true)]
async fn repeatedly_overwritten_status_is_delayed() {
    let f = with_shop().await;
    f.sleep(Duration::from_secs(10)).await;
    f.api.reset();
    let ready = json!([{"type": "Ready", "status": "False", "reason": "Theirs", "message": "theirs",
                        "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    for _ in 0..120 {
        let theirs = json!({"status": {"conditions": ready, "availableReplicas": 9}});
        let key = Key::new("default", "shop");
        let patch = Patch::merge(&theirs).of("status");
        let _: Value = f.admin.patch(&APPS, &key, patch).await.expect("patched");
        f.sleep(Duration::from_secs(5)).await;
    }
    let patches = f.api.count("PATCH appservices/status");
    assert!((4..12).contains(&patches), "{patches}");
    f.sleep(Duration::from_mins(30)).await;
    let it = f.wait_ready("shop").await;
    assert_eq!(it["status"]["availableReplicas"], 2);
}

#[tokio::test(start_paused = true)]
async fn apply_changed_by_a_webhook_is_delayed() {
    let f = fixture().await;
    // A mutating webhook rewrites every image.
    f.api.inject(|method, path, _| {
        let concerned = path.contains("/deployments")
            && (*method == http::Method::POST || *method == http::Method::PATCH);
        if concerned {
            Effect::ChangeRequest(Arc::new(|body: &mut Value| {
                if let Some(container) = body.pointer_mut("/spec/template/spec/containers/0") {
                    container["image"] = json!("mirror/nginx");
                }
            }))
        } else {
            Effect::Pass
        }
    });
    f.create(&APPS, &shop(&json!({}))).await;
    f.sleep(Duration::from_mins(30)).await;
    let patches = f.api.count("PATCH deployments");
    assert!(patches < 20, "{patches}");
    assert_eq!(image(&f.get(&DEPLOYMENTS, "web").await), "mirror/nginx");
}
