//! The number of requests: as few as possible for each change, none without a change.

use super::*;

/// The first apply of a child: managedFields are upgraded from the create, then the desired state is applied.
const FIRST_APPLY: [&str; 3] = ["GET deployments", "PATCH deployments", "PATCH deployments"];
/// Each later apply.
const APPLY: [&str; 2] = ["GET deployments", "PATCH deployments"];

/// Returns the requests of the controller without status patches.
fn writes(f: &Fixture) -> Vec<String> {
    let mut all = f.api.operations();
    all.retain(|it| it != "PATCH appservices/status");
    all
}

#[tokio::test(start_paused = true)]
async fn minimal_appservice_needs_one_write_besides_its_status() {
    let f = fixture().await;
    let it = f.create_ready(&shop(&json!({}))).await;
    assert_eq!(writes(&f), ["POST deployments"]);
    // Created, pods created, pods ready, and the states in between.
    let patches = f.api.count("PATCH appservices/status");
    assert!(patches <= 6, "{patches}");
    let status = &it["status"];
    for field in [
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
    ] {
        assert_eq!(status[field], 2, "{field}");
    }
    let labels =
        "app.kubernetes.io/instance=shop,app.kubernetes.io/managed-by=steersman,app.kubernetes.io/name=web";
    assert_eq!(status["selector"], labels);
    let pods = f.list(&PODS).await;
    assert_eq!(pods.len(), 2);
    for pod in &pods {
        assert_eq!(pod["metadata"]["labels"]["app.kubernetes.io/instance"], "shop");
        assert_eq!(pod["spec"]["containers"][0]["image"], "nginx");
    }
    assert_eq!(f.events().await, [("SuccessfulCreate".to_owned(), 1)]);
}

#[tokio::test(start_paused = true)]
async fn steady_appservice_sends_no_requests() {
    let f = fixture().await;
    f.create_ready(&shop(
        &json!({"ports": [{"port": 80}], "env": [{"name": "A", "value": "b"}],
                            "resources": {"limits": {"cpu": "0.5", "memory": "1024Mi"}}}),
    ))
    .await;
    assert_eq!(writes(&f), ["POST deployments", "POST services"]);
    f.sleep(Duration::from_secs(10)).await;
    f.api.reset();
    // Events trigger syncs without a difference.
    let label = json!({"metadata": {"labels": {"more": "labels"}}});
    for (resource, name) in [(APPS, "shop"), (DEPLOYMENTS, "web"), (SERVICES, "shop")] {
        f.patch(&resource, name, &label).await;
    }
    f.sleep(Duration::from_mins(30)).await;
    assert_eq!(f.api.operations(), Vec::<String>::new());
    // A second instance sends nothing either.
    f.start_controller();
    f.sleep(Duration::from_mins(30)).await;
    assert_eq!(f.api.operations(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn change_of_replicas_is_one_apply() {
    let f = with_shop().await;
    f.api.reset();
    // As `kubectl scale` and an autoscaler do.
    let key = Key::new("default", "shop");
    let scale = json!({"spec": {"replicas": 4}});
    let scaled: Value = f
        .admin
        .patch(&APPS, &key, Patch::merge(&scale).of("scale"))
        .await
        .expect("scaled");
    assert_eq!(scaled["spec"]["replicas"], 4);
    let it = f.wait_ready("shop").await;
    assert_eq!(it["status"]["availableReplicas"], 4);
    assert_eq!(writes(&f), FIRST_APPLY);
    for body in f.api.bodies("PATCH deployments") {
        assert!(body["metadata"]["uid"].is_string() && body["metadata"]["resourceVersion"].is_string());
    }
    assert!(f.api.count("PATCH appservices/status") <= 6);
}

#[tokio::test(start_paused = true)]
async fn change_of_image_is_one_apply_and_a_rollout() {
    let f = fixture().await;
    f.create_ready(&shop(&json!({"ports": [{"port": 80}]}))).await;
    f.api.reset();
    f.patch_spec("shop", &json!({"image": "nginx:2"})).await;
    f.wait_ready("shop").await;
    assert_eq!(writes(&f), FIRST_APPLY);
    let images: Vec<Value> = f
        .list(&PODS)
        .await
        .iter()
        .map(|it| it["spec"]["containers"][0]["image"].clone())
        .collect();
    assert_eq!(images, ["nginx:2", "nginx:2"]);
}

#[tokio::test(start_paused = true)]
async fn change_of_ports_is_one_write_per_child() {
    let f = with_shop().await;
    f.api.reset();
    f.patch_spec(
        "shop",
        &json!({"ports": [{"port": 80, "targetPort": 8080}, {"port": 53, "protocol": "UDP"}]}),
    )
    .await;
    f.wait_ready("shop").await;
    assert_eq!(writes(&f), [&FIRST_APPLY[..], &["POST services"]].concat());
    let service = f.get(&SERVICES, "shop").await;
    let port = |at: usize| {
        (
            service["spec"]["ports"][at]["name"].clone(),
            service["spec"]["ports"][at]["targetPort"].clone(),
        )
    };
    assert_eq!(
        (port(0), port(1)),
        ((json!("tcp-80"), json!(8080)), (json!("udp-53"), json!(53)))
    );
    f.api.reset();
    f.patch_spec("shop", &json!({"ports": [{"port": 80, "targetPort": 8081}]}))
        .await;
    f.wait_ready("shop").await;
    let service_apply = ["GET services", "PATCH services", "PATCH services"];
    assert_eq!(writes(&f), [&APPLY[..], &service_apply].concat());
    let after = f.get(&SERVICES, "shop").await;
    assert_eq!(after["spec"]["clusterIP"], service["spec"]["clusterIP"]);
    assert_eq!(after["spec"]["ports"][0]["targetPort"], 8081);
    f.api.reset();
    f.patch_spec("shop", &json!({"ports": null})).await;
    f.wait_ready("shop").await;
    assert_eq!(
        writes(&f),
        [&APPLY[..], &["GET appservices", "DELETE services"]].concat()
    );
    assert!(!f.exists(&SERVICES, "shop").await);
    let web = f.get(&DEPLOYMENTS, "web").await;
    assert!(
        web["spec"]["template"]["spec"]["containers"][0]
            .get("ports")
            .is_none()
    );
}

#[tokio::test(start_paused = true)]
async fn metadata_of_other_clients_does_not_change_the_status() {
    let f = fixture().await;
    f.create_ready(&shop(&json!({"ports": [{"port": 80}]}))).await;
    f.sleep(Duration::from_secs(10)).await;
    let ready = f.get(&APPS, "shop").await["status"].clone();
    f.api.reset();
    // An annotation increases the generation of a Deployment.
    let before = f.get(&DEPLOYMENTS, "web").await["metadata"]["generation"].clone();
    for resource in [DEPLOYMENTS, SERVICES] {
        let name = if resource == SERVICES { "shop" } else { "web" };
        let theirs =
            json!({"metadata": {"annotations": {"theirs": "a"}, "finalizers": ["example.com/theirs"]}});
        f.patch(&resource, name, &theirs).await;
    }
    f.sleep(Duration::from_mins(5)).await;
    let after = f.get(&DEPLOYMENTS, "web").await["metadata"]["generation"].clone();
    assert_ne!(after, before);
    assert_eq!(f.api.operations(), Vec::<String>::new());
    assert_eq!(f.get(&APPS, "shop").await["status"], ready);
    // A change of the pod template is a rollout.
    let template = json!({"spec": {"template": {"metadata": {"annotations": {"theirs": "b"}}}}});
    f.patch(&DEPLOYMENTS, "web", &template).await;
    f.wait_until(async |f| condition(&f.get(&APPS, "shop").await, "Ready").0 == "False")
        .await;
    f.wait_ready("shop").await;
    assert_eq!(writes(&f), Vec::<String>::new());
}

/// The test writes the status of the Deployment step by step.
#[tokio::test(start_paused = true)]
async fn each_sync_writes_the_difference_and_the_status_once() {
    let f = sandbox_only();
    f.create_crd(&app_service::crd()).await;
    f.start_controller();
    let sent = async || {
        f.sleep(Duration::from_secs(5)).await;
        let sent = f.api.operations();
        f.api.reset();
        sent
    };
    let write_status = async |counts: [i64; 4]| {
        let it = f.get(&DEPLOYMENTS, "web").await;
        let [replicas, updated, ready, available] = counts;
        let status = json!({"status": {"observedGeneration": it["metadata"]["generation"], "replicas": replicas,
            "updatedReplicas": updated, "readyReplicas": ready, "availableReplicas": available}});
        let patch = Patch::merge(&status).of("status");
        let key = Key::new("default", "web");
        let _: Value = f.admin.patch(&DEPLOYMENTS, &key, patch).await.expect("patched");
    };
    let status = "PATCH appservices/status";
    f.create(&APPS, &shop(&json!({"ports": [{"port": 80}]}))).await;
    assert_eq!(sent().await, ["POST deployments", "POST services", status]);
    for counts in [[1, 1, 0, 0], [2, 2, 0, 0], [2, 2, 1, 0], [2, 2, 2, 2]] {
        write_status(counts).await;
        assert_eq!(sent().await, [status], "{counts:?}");
    }
    assert_eq!(condition(&f.get(&APPS, "shop").await, "Ready").0, "True");
    write_status([2, 2, 2, 2]).await;
    assert_eq!(sent().await, Vec::<String>::new(), "unchanged");
    for (change, writes) in [
        (json!({"replicas": 3}), &FIRST_APPLY[..]),
        (json!({"image": "nginx:2"}), &APPLY),
        (json!({"env": [{"name": "A", "value": "b"}]}), &APPLY),
        (json!({"resources": {"limits": {"cpu": "1"}}}), &APPLY),
        (json!({"env": null, "resources": null}), &APPLY),
    ] {
        f.patch_spec("shop", &change).await;
        assert_eq!(sent().await, [writes, &[status]].concat(), "{change}");
        let size = f.get(&DEPLOYMENTS, "web").await["spec"]["replicas"].clone();
        write_status([size.as_i64().expect("a number"); 4]).await;
        assert_eq!(sent().await, [status], "{change}");
    }
    // Several changes at once are one apply.
    let all = json!({"replicas": 2, "image": "nginx:3", "env": [{"name": "A", "value": "c"}]});
    f.patch_spec("shop", &all).await;
    assert_eq!(sent().await, [&APPLY[..], &[status]].concat());
    write_status([2; 4]).await;
    assert_eq!(sent().await, [status]);
    // A field of another manager: the first apply is refused, and names it; the second is forced, after the AppService was
    // seen to want it still.
    f.patch(&DEPLOYMENTS, "web", &json!({"spec": {"replicas": 9}}))
        .await;
    let forced = [&APPLY[..], &["GET appservices", "PATCH deployments", status]].concat();
    assert_eq!(sent().await, forced);
    write_status([2; 4]).await;
    assert_eq!(sent().await, [status]);
    assert_eq!(condition(&f.get(&APPS, "shop").await, "Ready").0, "True");
    // A failure is reported once, whatever the number of attempts.
    f.api.inject(|method, path, _| {
        if *method == http::Method::PATCH && path.contains("/deployments/") {
            status_reply(403, json!({"reason": "Forbidden", "message": "exceeded quota"}))
        } else {
            Effect::Pass
        }
    });
    f.patch_spec("shop", &json!({"replicas": 5})).await;
    let tried = sent().await;
    assert_eq!(tried[..3], [&APPLY[..], &[status]].concat());
    assert!(tried[3..].chunks(2).all(|it| it == APPLY), "{tried:?}");
    assert!(tried.len() < 30, "{tried:?}");
}
