//! Changes of the children by others: removed fields are restored, fields of others stay, and nothing is written in a race.

use super::*;

#[tokio::test(start_paused = true)]
async fn removed_fields_are_restored_in_one_apply_and_fields_of_others_stay() {
    let bed = alone(&json!({"ports": [{"port": 80}], "env": [{"name": "OURS", "value": "a"}]})).await;
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
    bed.patch(&DEPLOYMENTS, "web", &web).await;
    bed.until(async |bed| {
        bed.get(&DEPLOYMENTS, "web").await["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "coxswain"
    })
    .await;
    assert_eq!(
        bed.door.count("PATCH deployments"),
        2,
        "the entry of the create, the apply"
    );
    let after = bed.get(&DEPLOYMENTS, "web").await;
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
    bed.door.reset();
    let service = json!({"metadata": {"labels": {"theirs": "a", "app.kubernetes.io/managed-by": null}},
                         "spec": {"type": "NodePort"}});
    bed.patch(&SERVICES, "shop", &service).await;
    bed.until(async |bed| {
        bed.get(&SERVICES, "shop").await["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "coxswain"
    })
    .await;
    assert_eq!(bed.door.count("PATCH services"), 2);
    let after = bed.get(&SERVICES, "shop").await;
    assert_eq!(
        (&after["spec"]["type"], &after["metadata"]["labels"]["theirs"]),
        (&json!("NodePort"), &json!("a"))
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_deleted_is_made_again() {
    let bed = bed().await;
    bed.collect().await;
    bed.serve(&shop(&json!({"ports": [{"port": 80}]}))).await;
    let before = bed.get(&DEPLOYMENTS, "web").await["metadata"]["uid"].clone();
    for propagation in [Propagation::Background, Propagation::Foreground] {
        bed.delete(&DEPLOYMENTS, "web", propagation).await;
        bed.delete(&SERVICES, "shop", Propagation::Background).await;
        bed.until(async |bed| {
            let it = bed.read(&DEPLOYMENTS, "web").await.unwrap_or_default();
            it["metadata"]["uid"].is_string()
                && it["metadata"]["uid"] != before
                && it["metadata"].get("deletionTimestamp").is_none()
        })
        .await;
        bed.until(async |bed| bed.exists(&SERVICES, "shop").await).await;
        bed.ready("shop").await;
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_is_on_its_way_out_is_waited_for() {
    let bed = bed().await;
    bed.serve(&shop(&json!({}))).await;
    bed.patch(
        &DEPLOYMENTS,
        "web",
        &json!({"metadata": {"finalizers": ["example.com/theirs"]}}),
    )
    .await;
    bed.delete(&DEPLOYMENTS, "web", Propagation::Background).await;
    bed.until(async |bed| condition(&bed.get(&APPS, "shop").await, "Progressing").1 == "WaitingForDeletion")
        .await;
    bed.door.reset();
    bed.want("shop", &json!({"replicas": 3})).await;
    bed.sleep(Duration::from_mins(5)).await;
    assert_eq!(
        bed.door.order(),
        ["PATCH appservices/status"],
        "it has seen that, and does nothing"
    );
    bed.patch(&DEPLOYMENTS, "web", &json!({"metadata": {"finalizers": null}}))
        .await;
    let it = bed.ready("shop").await;
    assert_eq!(it["status"]["availableReplicas"], 3);
    assert_eq!(bed.told_of("ErrResourceExists").await, 0);
}

#[tokio::test(start_paused = true)]
async fn who_undoes_it_again_and_again_is_not_raced() {
    let bed = bed().await;
    bed.serve(&shop(&json!({}))).await;
    bed.door.reset();
    let start = bed.env.clock.now();
    while bed.env.clock.now() - start < Duration::from_mins(10) {
        let label = json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": null}}});
        bed.patch(&DEPLOYMENTS, "web", &label).await;
        bed.sleep(Duration::from_secs(1)).await;
    }
    let repairs = bed.door.count("PATCH deployments");
    assert!((4..12).contains(&repairs), "{repairs}");
    assert_eq!(bed.stalled("shop").await, "Contested");
    assert!(bed.told_of("Contested").await <= 12);
    // And it is mended in the end.
    bed.until(async |bed| {
        bed.sleep(Duration::from_mins(5)).await;
        bed.get(&DEPLOYMENTS, "web").await["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "coxswain"
    })
    .await;
    bed.ready("shop").await;
}

#[tokio::test(start_paused = true)]
async fn owner_reference_that_is_removed_again_and_again_is_not_raced() {
    let bed = bed().await;
    bed.serve(&shop(&json!({}))).await;
    bed.door.reset();
    for _ in 0..120 {
        bed.patch(
            &DEPLOYMENTS,
            "web",
            &json!({"metadata": {"ownerReferences": null}}),
        )
        .await;
        bed.sleep(Duration::from_secs(5)).await;
    }
    let repairs = bed.door.count("PATCH deployments");
    assert!((4..12).contains(&repairs), "{repairs}");
    assert_eq!(bed.stalled("shop").await, "Contested");
    bed.until(async |bed| {
        bed.sleep(Duration::from_mins(5)).await;
        owners(&bed.get(&DEPLOYMENTS, "web").await) == 1
    })
    .await;
    bed.ready("shop").await;
}

#[tokio::test(start_paused = true)]
async fn who_deletes_it_again_and_again_is_not_raced() {
    for (resource, name) in [(DEPLOYMENTS, "web"), (SERVICES, "shop")] {
        let bed = bed().await;
        bed.serve(&shop(&json!({"ports": [{"port": 80}]}))).await;
        bed.door.reset();
        for _ in 0..120 {
            if bed.exists(&resource, name).await {
                bed.delete(&resource, name, Propagation::Background).await;
            }
            bed.sleep(Duration::from_secs(5)).await;
        }
        let made = bed.door.count(&format!("POST {}", resource.plural));
        assert!((4..12).contains(&made), "{made}");
        assert_eq!(bed.stalled("shop").await, "Contested");
        bed.until(async |bed| {
            bed.sleep(Duration::from_mins(5)).await;
            bed.exists(&resource, name).await
        })
        .await;
        bed.ready("shop").await;
    }
}

/// However it is undone, it is undone.
#[tokio::test(start_paused = true)]
async fn who_undoes_it_in_ever_other_ways_is_not_raced() {
    let bed = bed().await;
    bed.serve(&shop(&json!({}))).await;
    bed.door.reset();
    for nth in 0..120 {
        let change = match nth % 3 {
            0 => json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": null}}}),
            1 => json!({"metadata": {"labels": {"appcontroller.k8s.io/appservice-uid": null}}}),
            _ => json!({"metadata": {"annotations": {"appcontroller.k8s.io/made-as": null}}}),
        };
        bed.patch(&DEPLOYMENTS, "web", &change).await;
        bed.sleep(Duration::from_secs(5)).await;
    }
    let repairs = bed.door.count("PATCH deployments");
    assert!((4..12).contains(&repairs), "{repairs}");
    assert_eq!(bed.stalled("shop").await, "Contested");
    bed.sleep(Duration::from_mins(30)).await;
    bed.ready("shop").await;
}

#[tokio::test(start_paused = true)]
async fn who_takes_its_finalizer_off_again_and_again_is_not_raced() {
    let bed = bed().await;
    bed.serve(&shop(&json!({"deletionPolicy": "Orphan"}))).await;
    bed.door.reset();
    for _ in 0..120 {
        bed.patch(&APPS, "shop", &json!({"metadata": {"finalizers": null}}))
            .await;
        bed.sleep(Duration::from_secs(5)).await;
    }
    let held = bed.door.count("PATCH appservices");
    assert!((4..12).contains(&held), "{held}");
    assert_eq!(bed.stalled("shop").await, "Contested");
    bed.until(async |bed| {
        bed.sleep(Duration::from_mins(5)).await;
        bed.get(&APPS, "shop").await["metadata"]["finalizers"] == json!([FINALIZER])
    })
    .await;
    bed.ready("shop").await;
}

#[tokio::test(start_paused = true)]
async fn who_writes_its_status_again_and_again_is_not_raced() {
    let bed = bed().await;
    bed.serve(&shop(&json!({}))).await;
    bed.sleep(Duration::from_secs(10)).await;
    bed.door.reset();
    let ready = json!([{"type": "Ready", "status": "False", "reason": "Theirs", "message": "theirs",
                        "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    for _ in 0..120 {
        let theirs = json!({"status": {"conditions": ready, "availableReplicas": 9}});
        let key = Key::new("default", "shop");
        let patch = Patch::merge(&theirs).of("status");
        let _: Value = bed.admin.patch(&APPS, &key, patch).await.expect("patched");
        bed.sleep(Duration::from_secs(5)).await;
    }
    let said = bed.door.count("PATCH appservices/status");
    assert!((4..12).contains(&said), "{said}");
    bed.sleep(Duration::from_mins(30)).await;
    let it = bed.ready("shop").await;
    assert_eq!(it["status"]["availableReplicas"], 2);
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_knows_better_is_not_raced_either() {
    let bed = bed().await;
    // Whatever is written, images come from a mirror.
    bed.door.judge(|method, path, _| {
        let concerned = path.contains("/deployments")
            && (*method == http::Method::POST || *method == http::Method::PATCH);
        if concerned {
            Answer::Changed(|body| {
                if let Some(container) = body.pointer_mut("/spec/template/spec/containers/0") {
                    container["image"] = json!("mirror/nginx");
                }
            })
        } else {
            Answer::Done
        }
    });
    bed.create(&APPS, &shop(&json!({}))).await;
    bed.sleep(Duration::from_mins(30)).await;
    let patches = bed.door.count("PATCH deployments");
    assert!(patches < 20, "{patches}");
    assert_eq!(image(&bed.get(&DEPLOYMENTS, "web").await), "mirror/nginx");
}
