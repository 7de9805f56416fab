//! Somebody between the controller and the store changes what it sends: there is one set for a template all the same.

use http::Method;

use super::*;

fn change_sets(f: &Fixture, change: fn(&mut Value)) {
    f.api.inject(move |method, path, _| {
        let written = [Method::POST, Method::PATCH].contains(method);
        if written && path.contains("/replicasets") {
            Fault::Mutated(change)
        } else {
            Fault::None
        }
    });
}

/// As a sidecar is put into every template.
fn inject(body: &mut Value) {
    if let Some(containers) = body
        .pointer_mut("/spec/template/spec/containers")
        .and_then(Value::as_array_mut)
    {
        containers.push(json!({"name": "sidecar", "image": "sidecar"}));
    }
}

/// As a sidecar that comes before all others.
fn inject_first(body: &mut Value) {
    if let Some(containers) = body
        .pointer_mut("/spec/template/spec/containers")
        .and_then(Value::as_array_mut)
    {
        containers.insert(0, json!({"name": "sidecar", "image": "sidecar"}));
    }
}

/// A sidecar, and a mark that is another one with every write.
fn mark(body: &mut Value) {
    inject(body);
    let mark = body
        .pointer("/metadata/resourceVersion")
        .cloned()
        .unwrap_or(json!("0"));
    body["spec"]["template"]["metadata"]["annotations"]["mark"] = mark;
}

#[tokio::test(start_paused = true)]
async fn a_template_that_is_changed_on_its_way_is_not_made_again() {
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

        f.want("web", &image("two")).await;
        f.complete("web").await;
        f.want("web", &json!({"replicas": 5})).await;
        f.complete("web").await;
        f.sleep(Duration::from_mins(10)).await;
        assert_eq!(f.sets().await.len(), 2);
        assert_eq!(f.images().await, ["two"; 5]);

        // The next leader knows it too.
        f.api.reset();
        f.deployments();
        f.sleep(Duration::from_mins(10)).await;
        assert_eq!(f.api.counts(), [].into());
    }
}

/// With a webhook and without one.
#[tokio::test(start_paused = true)]
async fn a_template_that_somebody_changes_later_is_another_one_and_made_once() {
    for webhook in [false, true] {
        let f = fixture();
        if webhook {
            // From the second write on: it was installed later.
            let first = std::sync::atomic::AtomicBool::new(true);
            f.api.inject(move |method, path, _| {
                let first = first.fetch_and(*method != Method::POST, std::sync::atomic::Ordering::Relaxed);
                let written = [Method::POST, Method::PATCH].contains(method) && path.contains("/replicasets");
                if written && !first {
                    Fault::Mutated(mark)
                } else {
                    Fault::None
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
        f.want("web", &json!({"replicas": 4})).await;
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
async fn sets_that_are_made_strangers_to_us_are_not_made_in_a_hurry() {
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
    // Two creates, the read of the name that is taken, its count, a release, and what is told before and after.
    let counts = f.api.counts();
    assert!(counts.values().sum::<usize>() <= 64 * 7, "{counts:?}");
}

/// A new version of the API gives every template fields with defaults, as the objects are read. That of a container depends
/// on the container, as the pull policy depends on the image.
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

/// The images of the container of the template, wherever a sidecar is put, of active pods.
async fn main_images(f: &Fixture) -> Vec<String> {
    let mut pods = f.list(&PODS).await;
    pods.retain(|it| it["metadata"].get("deletionTimestamp").is_none());
    let containers = pods.iter().filter_map(|it| it["spec"]["containers"].as_array());
    let mains = containers.flatten().filter(|it| it["name"] == "main");
    mains
        .filter_map(|it| Some(it["image"].as_str()?.to_owned()))
        .collect()
}

/// Neither an upgrade of the API nor a change of size after it is a new template; a change of the template is.
#[tokio::test(start_paused = true)]
async fn replica_set_changed_by_a_webhook_survives_an_api_upgrade() {
    for (which, change) in [inject, inject_first, mark].into_iter().enumerate() {
        for edited in [false, true] {
            let f = apart();
            change_sets(&f, change);
            let stop = f.deployments();
            f.deploy(&web(3, "one")).await;
            let mut first = f.get("web").await["spec"]["template"].clone();
            if edited {
                f.want("web", &image("two")).await;
                f.complete("web").await;
            }
            f.sleep(Duration::from_mins(1)).await;
            stop.cancel();
            f.sleep(Duration::from_secs(1)).await;
            let sets = f.sets().await.len();
            upgrade(&f);
            f.deployments();
            f.sleep(Duration::from_mins(1)).await;
            f.want("web", &json!({"replicas": 5})).await;
            f.complete("web").await;
            f.sleep(Duration::from_mins(1)).await;
            assert_eq!(f.sets().await.len(), sets, "change {which}, edited: {edited}");
            assert_eq!(f.images().await.len(), 5);
            if edited {
                // Back to a template that has a set already.
                first["metadata"]["creationTimestamp"] = Value::Null;
                f.want("web", &json!({"template": first})).await;
                f.complete("web").await;
                assert_eq!(main_images(&f).await, ["one"; 5]);
                assert_eq!(f.sets().await.len(), sets);
            }
            f.want("web", &image("three")).await;
            f.complete("web").await;
            assert_eq!(main_images(&f).await, ["three"; 5]);
            assert_eq!(f.sets().await.len(), sets + 1);
        }
    }
}
