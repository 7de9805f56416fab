//! What each change costs, in requests: the least that is needed, and nothing when nothing changes.

use super::*;

/// The first change of a child: its fields are taken over from the create, then the desired state is applied.
const FIRST_APPLY: [&str; 3] = ["GET deployments", "PATCH deployments", "PATCH deployments"];
/// Each later one.
const APPLY: [&str; 2] = ["GET deployments", "PATCH deployments"];

/// The writes that the controller has sent, apart from those of the status.
fn writes(f: &Fixture) -> Vec<String> {
    let mut all = f.api.operations();
    all.retain(|it| it != "PATCH appservices/status");
    all
}

#[tokio::test(start_paused = true)]
async fn the_smallest_one_comes_alive_with_one_write_beside_its_status() {
    let f = fixture().await;
    let it = f.serve(&shop(&json!({}))).await;
    assert_eq!(writes(&f), ["POST deployments"]);
    // Made, pods made, pods ready: no more states than that can be seen.
    let said = f.api.count("PATCH appservices/status");
    assert!(said <= 6, "{said}");
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
        "app.kubernetes.io/instance=shop,app.kubernetes.io/managed-by=coxswain,app.kubernetes.io/name=web";
    assert_eq!(status["selector"], labels);
    let pods = f.list(&PODS).await;
    assert_eq!(pods.len(), 2);
    for pod in &pods {
        assert_eq!(pod["metadata"]["labels"]["app.kubernetes.io/instance"], "shop");
        assert_eq!(pod["spec"]["containers"][0]["image"], "nginx");
    }
    assert_eq!(f.told().await, [("SuccessfulCreate".to_owned(), 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_steady_one_costs_nothing() {
    let f = fixture().await;
    f.serve(&shop(
        &json!({"ports": [{"port": 80}], "env": [{"name": "A", "value": "b"}],
                            "resources": {"limits": {"cpu": "0.5", "memory": "1024Mi"}}}),
    ))
    .await;
    assert_eq!(writes(&f), ["POST deployments", "POST services"]);
    f.sleep(Duration::from_secs(10)).await;
    f.api.reset();
    // Whatever makes it look.
    let label = json!({"metadata": {"labels": {"more": "labels"}}});
    for (resource, name) in [(APPS, "shop"), (DEPLOYMENTS, "web"), (SERVICES, "shop")] {
        f.patch(&resource, name, &label).await;
    }
    f.sleep(Duration::from_mins(30)).await;
    assert_eq!(f.api.operations(), Vec::<String>::new());
    // Another leader has nothing to do either.
    f.apps();
    f.sleep(Duration::from_mins(30)).await;
    assert_eq!(f.api.operations(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn change_of_replicas_is_one_apply() {
    let f = fixture().await;
    f.serve(&shop(&json!({}))).await;
    f.api.reset();
    // As `kubectl scale` and an autoscaler do it.
    let key = Key::new("default", "shop");
    let scale = json!({"spec": {"replicas": 4}});
    let scaled: Value = f
        .admin
        .patch(&APPS, &key, Patch::merge(&scale).of("scale"))
        .await
        .expect("scaled");
    assert_eq!(scaled["spec"]["replicas"], 4);
    let it = f.ready("shop").await;
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
    f.serve(&shop(&json!({"ports": [{"port": 80}]}))).await;
    f.api.reset();
    f.want("shop", &json!({"image": "nginx:2"})).await;
    f.ready("shop").await;
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
async fn ports_come_and_go_with_one_write_to_each_child() {
    let f = fixture().await;
    f.serve(&shop(&json!({}))).await;
    f.api.reset();
    f.want(
        "shop",
        &json!({"ports": [{"port": 80, "targetPort": 8080}, {"port": 53, "protocol": "UDP"}]}),
    )
    .await;
    f.ready("shop").await;
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
    f.want("shop", &json!({"ports": [{"port": 80, "targetPort": 8081}]}))
        .await;
    f.ready("shop").await;
    let service_apply = ["GET services", "PATCH services", "PATCH services"];
    assert_eq!(writes(&f), [&APPLY[..], &service_apply].concat());
    let after = f.get(&SERVICES, "shop").await;
    assert_eq!(after["spec"]["clusterIP"], service["spec"]["clusterIP"]);
    assert_eq!(after["spec"]["ports"][0]["targetPort"], 8081);
    f.api.reset();
    f.want("shop", &json!({"ports": null})).await;
    f.ready("shop").await;
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
async fn what_others_write_on_its_deployment_does_not_shake_it() {
    let f = fixture().await;
    f.serve(&shop(&json!({"ports": [{"port": 80}]}))).await;
    f.sleep(Duration::from_secs(10)).await;
    let ready = f.get(&APPS, "shop").await["status"].clone();
    f.api.reset();
    // To a Deployment, an annotation is another generation.
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
    // What makes other pods of it is another matter.
    let template = json!({"spec": {"template": {"metadata": {"annotations": {"theirs": "b"}}}}});
    f.patch(&DEPLOYMENTS, "web", &template).await;
    f.until(async |f| condition(&f.get(&APPS, "shop").await, "Ready").0 == "False")
        .await;
    f.ready("shop").await;
    assert_eq!(writes(&f), Vec::<String>::new());
}

/// Nobody else is there: what its Deployment says of itself is said here, step by step.
#[tokio::test(start_paused = true)]
async fn each_sync_writes_what_differs_and_the_status_once() {
    let f = bare();
    f.define(&app_service::crd()).await;
    f.apps();
    let sent = async || {
        f.sleep(Duration::from_secs(5)).await;
        let sent = f.api.operations();
        f.api.reset();
        sent
    };
    let say = async |counts: [i64; 4]| {
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
        say(counts).await;
        assert_eq!(sent().await, [status], "{counts:?}");
    }
    assert_eq!(condition(&f.get(&APPS, "shop").await, "Ready").0, "True");
    say([2, 2, 2, 2]).await;
    assert_eq!(sent().await, Vec::<String>::new(), "nothing new");
    for (change, writes) in [
        (json!({"replicas": 3}), &FIRST_APPLY[..]),
        (json!({"image": "nginx:2"}), &APPLY),
        (json!({"env": [{"name": "A", "value": "b"}]}), &APPLY),
        (json!({"resources": {"limits": {"cpu": "1"}}}), &APPLY),
        (json!({"env": null, "resources": null}), &APPLY),
    ] {
        f.want("shop", &change).await;
        assert_eq!(sent().await, [writes, &[status]].concat(), "{change}");
        let size = f.get(&DEPLOYMENTS, "web").await["spec"]["replicas"].clone();
        say([size.as_i64().expect("a number"); 4]).await;
        assert_eq!(sent().await, [status], "{change}");
    }
    // All at once is one write, too.
    let all = json!({"replicas": 2, "image": "nginx:3", "env": [{"name": "A", "value": "c"}]});
    f.want("shop", &all).await;
    assert_eq!(sent().await, [&APPLY[..], &[status]].concat());
    say([2; 4]).await;
    assert_eq!(sent().await, [status]);
    // A field that another manager has changed is tried once, and reported.
    f.patch(&DEPLOYMENTS, "web", &json!({"spec": {"replicas": 9}}))
        .await;
    assert_eq!(sent().await, [&APPLY[..], &[status]].concat());
    assert_eq!(f.stalled("shop").await, "FieldManagerConflict");
    say([9; 4]).await;
    assert_eq!(sent().await, [status], "nothing that matters has changed");
    f.patch(&DEPLOYMENTS, "web", &json!({"spec": {"replicas": 2}}))
        .await;
    say([2; 4]).await;
    assert!(sent().await.iter().all(|it| it == status));
    assert_eq!(condition(&f.get(&APPS, "shop").await, "Ready").0, "True");
    // What fails is said once, however often it is tried.
    f.api.inject(|method, path, _| {
        if *method == http::Method::PATCH && path.contains("/deployments/") {
            Fault::Status(403, json!({"reason": "Forbidden", "message": "exceeded quota"}))
        } else {
            Fault::None
        }
    });
    f.want("shop", &json!({"replicas": 5})).await;
    let tried = sent().await;
    assert_eq!(tried[..3], [&APPLY[..], &[status]].concat());
    assert!(tried[3..].chunks(2).all(|it| it == APPLY), "{tried:?}");
    assert!(tried.len() < 30, "{tried:?}");
}
