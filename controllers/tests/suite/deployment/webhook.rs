//! A webhook changes `ReplicaSets` on creation: a template still has one `ReplicaSet`.

use std::sync::Arc;

use http::Method;

use super::*;

fn change_sets(f: &Fixture, change: fn(&mut Value)) {
    f.api.inject(move |method, path, _| {
        let written = [Method::POST, Method::PATCH].contains(method);
        if written && path.contains("/replicasets") {
            Effect::ChangeRequest(Arc::new(change))
        } else {
            Effect::Pass
        }
    });
}

/// Adds a sidecar.
fn inject(body: &mut Value) {
    if let Some(containers) = body
        .pointer_mut("/spec/template/spec/containers")
        .and_then(Value::as_array_mut)
    {
        containers.push(json!({"name": "sidecar", "image": "sidecar"}));
    }
}

/// Adds a sidecar as the first container.
fn inject_first(body: &mut Value) {
    if let Some(containers) = body
        .pointer_mut("/spec/template/spec/containers")
        .and_then(Value::as_array_mut)
    {
        containers.insert(0, json!({"name": "sidecar", "image": "sidecar"}));
    }
}

/// Adds a sidecar, and an annotation that differs with every write.
fn mark(body: &mut Value) {
    inject(body);
    let mark = body
        .pointer("/metadata/resourceVersion")
        .cloned()
        .unwrap_or(json!("0"));
    body["spec"]["template"]["metadata"]["annotations"]["mark"] = mark;
}

#[tokio::test(start_paused = true)]
async fn set_changed_on_creation_is_not_created_again() {
    for change in [inject, mark] {
        let f = fixture();
        change_sets(&f, change);
        f.deploy(&web(3, "one")).await;
        f.sleep(Duration::from_mins(10)).await;
        assert_eq!(f.sets().await.len(), 1);
        assert_eq!(f.api.count("POST replicasets"), 1);
        let counts = f.api.counts();
        assert!(counts.values().sum::<usize>() <= 6, "{counts:?}");
        assert!(f.get("web").await["status"].get("collisionCount").is_none());

        f.update("web", &image("two")).await;
        f.complete("web").await;
        f.update("web", &json!({"replicas": 5})).await;
        f.complete("web").await;
        f.sleep(Duration::from_mins(10)).await;
        assert_eq!(f.sets().await.len(), 2);
        assert_eq!(f.images().await, ["two"; 5]);

        // The next leader identifies it too.
        f.api.reset();
        f.deployments();
        f.sleep(Duration::from_mins(10)).await;
        assert_eq!(f.api.counts(), [].into());
    }
}

/// With a webhook and without one.
#[tokio::test(start_paused = true)]
async fn set_changed_after_creation_is_replaced_once() {
    for webhook in [false, true] {
        let f = fixture();
        if webhook {
            // From the second write on: the webhook was installed later.
            let first = std::sync::atomic::AtomicBool::new(true);
            f.api.inject(move |method, path, _| {
                let first = first.fetch_and(*method != Method::POST, std::sync::atomic::Ordering::Relaxed);
                let written = [Method::POST, Method::PATCH].contains(method) && path.contains("/replicasets");
                if written && !first {
                    Effect::ChangeRequest(Arc::new(mark))
                } else {
                    Effect::Pass
                }
            });
        }
        f.deploy(&web(3, "one")).await;
        let made = f.sets().await[0]["metadata"]["name"].clone();
        let made = made.as_str().expect("a name");
        f.patch(&SETS, made, &json!({"spec": image("nine")})).await;
        f.until(async |f| f.get("web").await["status"]["collisionCount"] == 1)
            .await;
        f.complete("web").await;
        f.update("web", &json!({"replicas": 4})).await;
        f.complete("web").await;
        f.sleep(Duration::from_mins(10)).await;
        assert_eq!(f.images().await, ["one"; 4]);
        let sizes: Vec<i64> = f.sets().await.iter().map(size).collect();
        assert_eq!(sizes, [0, 4]);
        f.api.reset();
        f.sleep(Duration::from_mins(10)).await;
        assert_eq!(f.api.counts(), [].into());
    }
}

#[tokio::test(start_paused = true)]
async fn sets_made_foreign_by_a_webhook_are_created_with_backoff() {
    let f = fixture();
    change_sets(&f, |body| {
        if let Some(labels) = body.pointer_mut("/metadata/labels") {
            *labels = json!({"other": "labels"});
        }
    });
    f.create(&DEPLOYMENTS, &web(1, "one")).await;
    f.sleep(Duration::from_hours(1)).await;
    let sets = f.sets().await.len();
    assert!(sets <= 4 + 60, "{sets} in an hour");
    assert_eq!(
        condition(&f.get("web").await, "Progressing"),
        ("False".to_owned(), "ReplicaSetCreateBackOff".to_owned())
    );
    // Two creates, the read of the colliding name, the collision count, a release, and two status writes.
    let counts = f.api.counts();
    assert!(counts.values().sum::<usize>() <= 64 * 7, "{counts:?}");
}

/// A new API version adds defaults to every template on read. The default of a container depends on the container, as
/// the pull policy depends on the image.
fn upgrade(f: &Fixture) {
    f.api.transform_reads("ts", |object| {
        if let Some(spec) = object.pointer_mut("/spec/template/spec") {
            spec["newDefault"] = json!({"mode": "Auto"});
            for container in spec["containers"].as_array_mut().into_iter().flatten() {
                container["newField"] = container["name"].clone();
            }
        }
    });
}

/// Returns the images of the main container of active pods.
async fn main_images(f: &Fixture) -> Vec<String> {
    let mut pods = f.list(&PODS).await;
    pods.retain(|it| it["metadata"].get("deletionTimestamp").is_none());
    let containers = pods.iter().filter_map(|it| it["spec"]["containers"].as_array());
    let mains = containers.flatten().filter(|it| it["name"] == "main");
    mains
        .filter_map(|it| Some(it["image"].as_str()?.to_owned()))
        .collect()
}

/// Neither an upgrade of the API nor scaling after it starts a rollout; a change of the template does.
#[tokio::test(start_paused = true)]
async fn replica_set_changed_by_a_webhook_survives_an_api_upgrade() {
    for (which, change) in [inject, inject_first, mark].into_iter().enumerate() {
        for edited in [false, true] {
            let f = without_deployments();
            change_sets(&f, change);
            let stop = f.deployments();
            f.deploy(&web(3, "one")).await;
            let mut first = f.get("web").await["spec"]["template"].clone();
            if edited {
                f.update("web", &image("two")).await;
                f.complete("web").await;
            }
            f.sleep(Duration::from_mins(1)).await;
            stop.cancel();
            f.sleep(Duration::from_secs(1)).await;
            let sets = f.sets().await.len();
            upgrade(&f);
            f.deployments();
            f.sleep(Duration::from_mins(1)).await;
            f.update("web", &json!({"replicas": 5})).await;
            f.complete("web").await;
            f.sleep(Duration::from_mins(1)).await;
            assert_eq!(f.sets().await.len(), sets, "change {which}, edited: {edited}");
            assert_eq!(f.images().await.len(), 5);
            if edited {
                // An earlier template.
                first["metadata"]["creationTimestamp"] = Value::Null;
                f.update("web", &json!({"template": first})).await;
                f.complete("web").await;
                assert_eq!(main_images(&f).await, ["one"; 5]);
                assert_eq!(f.sets().await.len(), sets);
            }
            f.update("web", &image("three")).await;
            f.complete("web").await;
            assert_eq!(main_images(&f).await, ["three"; 5]);
            assert_eq!(f.sets().await.len(), sets + 1);
        }
    }
}

/// The annotation describes the `ReplicaSet` that it was written to. `kubectl rollout undo` copies it.
#[tokio::test(start_paused = true)]
async fn copied_annotation_with_a_template_is_removed_from_the_deployment() {
    const TEMPLATE_CHANGED: &str = "steersman.dev/template-changed";
    let f = with_deployment(&web(1, "one")).await;
    let copied = json!({"metadata": {"annotations": {TEMPLATE_CHANGED: "{}", "theirs": "x"}}});
    f.patch(&DEPLOYMENTS, "web", &copied).await;
    f.until(async |f| {
        f.get("web").await["metadata"]["annotations"]
            .get(TEMPLATE_CHANGED)
            .is_none()
    })
    .await;
    let (deployment, sets) = (f.get("web").await, f.sets().await);
    for object in [&deployment, &sets[0]] {
        let annotations = &object["metadata"]["annotations"];
        assert_eq!(annotations["theirs"], "x");
        assert!(annotations.get(TEMPLATE_CHANGED).is_none(), "{annotations}");
    }
}
