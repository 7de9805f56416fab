//! `deletionPolicy`: what becomes of the children, in whichever way the `AppService` is deleted.

use super::*;

const WAYS: [Propagation; 3] = [
    Propagation::Background,
    Propagation::Foreground,
    Propagation::Orphan,
];

async fn served(policy: &str) -> Fixture {
    let f = fixture().await;
    f.collect().await;
    f.serve(&shop(&json!({"ports": [{"port": 80}], "deletionPolicy": policy})))
        .await;
    f
}

async fn gone(f: &Fixture) {
    f.until(async |f| !f.exists(&APPS, "shop").await).await;
}

/// The children are there, refer to nobody, and their pods are untouched.
async fn kept(f: &Fixture) {
    f.sleep(Duration::from_mins(5)).await;
    for (resource, name) in [(DEPLOYMENTS, "web"), (SERVICES, "shop")] {
        let it = f.get(&resource, name).await;
        assert_eq!(owners(&it), 0, "{it}");
        assert!(it["metadata"].get("deletionTimestamp").is_none());
        assert_eq!(it["metadata"]["labels"]["app.kubernetes.io/instance"], "shop");
    }
    let pods = f.list(&PODS).await;
    let ours = pods
        .iter()
        .filter(|it| it["metadata"]["labels"]["app.kubernetes.io/instance"] == "shop");
    assert_eq!(ours.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn with_delete_they_go_unless_they_are_orphaned() {
    for way in WAYS {
        let f = served("Delete").await;
        assert_eq!(owners(&f.get(&DEPLOYMENTS, "web").await), 1);
        assert!(f.get(&APPS, "shop").await["metadata"].get("finalizers").is_none());
        f.api.reset();
        f.delete(&APPS, "shop", way).await;
        gone(&f).await;
        if way == Propagation::Orphan {
            kept(&f).await;
        } else {
            f.until(async |f| f.list(&PODS).await.is_empty()).await;
            assert!(f.names(&DEPLOYMENTS).await.is_empty() && !f.exists(&SERVICES, "shop").await);
        }
        assert_eq!(
            f.api.operations(),
            Vec::<String>::new(),
            "that is the collector's work"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn with_orphan_they_stay_in_whichever_way_it_goes() {
    for way in WAYS {
        let f = served("Orphan").await;
        let it = f.get(&APPS, "shop").await;
        assert_eq!(it["metadata"]["finalizers"], json!([FINALIZER]));
        assert_eq!(f.api.operations()[0], "PATCH appservices", "before anything else");
        assert_eq!(owners(&f.get(&DEPLOYMENTS, "web").await), 0);
        f.api.reset();
        f.delete(&APPS, "shop", way).await;
        gone(&f).await;
        kept(&f).await;
        // Who takes off another finalizer at the same time makes it try again.
        let most = if way == Propagation::Background { 1 } else { 2 };
        assert!((1..=most).contains(&f.api.count("PATCH appservices")));
        assert_eq!(
            f.api.count("PATCH deployments") + f.api.count("PATCH services"),
            0
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_policy_can_be_changed_there_and_back() {
    let f = served("Delete").await;
    for (nth, (policy, references)) in [("Orphan", 0), ("Delete", 1), ("Orphan", 0)]
        .into_iter()
        .enumerate()
    {
        f.api.reset();
        f.want("shop", &json!({"deletionPolicy": policy})).await;
        let held = references == 0;
        f.until(async |f| {
            let it = f.get(&APPS, "shop").await;
            let finalizers = it["metadata"]["finalizers"].as_array().map_or(0, Vec::len);
            let web = owners(&f.get(&DEPLOYMENTS, "web").await);
            let service = owners(&f.get(&SERVICES, "shop").await);
            // Never a reference without the finalizer on the way to Orphan, never neither on the way back.
            assert!(!held || finalizers == 1 || web + service == 2, "{it}");
            assert!(held || finalizers == 1 || web + service == 2, "{it}");
            (web, service, finalizers == 1) == (references, references, held)
        })
        .await;
        f.ready("shop").await;
        let mut writes = f.api.operations();
        writes.retain(|it| it != "PATCH appservices/status");
        let mut expected = Vec::new();
        for child in ["deployments", "services"] {
            expected.push(format!("GET {child}"));
            // The first apply takes the fields of the create over.
            let patches = if nth == 0 { 2 } else { 1 };
            expected.extend(vec![format!("PATCH {child}"); patches]);
        }
        if held {
            expected.insert(0, "PATCH appservices".to_owned());
        } else {
            expected.insert(0, "GET appservices".to_owned());
            expected.push("PATCH appservices".to_owned());
        }
        assert_eq!(writes, expected);
    }
    f.delete(&APPS, "shop", Propagation::Foreground).await;
    gone(&f).await;
    kept(&f).await;
}

#[tokio::test(start_paused = true)]
async fn one_that_is_deleted_right_after_the_change_keeps_them() {
    for way in [Propagation::Background, Propagation::Orphan] {
        let f = served("Delete").await;
        // The finalizer is on it, and nothing else was done yet.
        f.api.inject(|method, path, _| {
            if *method == http::Method::PATCH && !path.contains("/appservices/") {
                Fault::Status(500, json!({"reason": "InternalError"}))
            } else {
                Fault::None
            }
        });
        f.want("shop", &json!({"deletionPolicy": "Orphan"})).await;
        f.until(async |f| f.get(&APPS, "shop").await["metadata"]["finalizers"] == json!([FINALIZER]))
            .await;
        f.delete(&APPS, "shop", way).await;
        f.sleep(Duration::from_mins(2)).await;
        // Who orphans them does the same, and then there is nothing left to wait for.
        assert!(
            way == Propagation::Orphan || f.exists(&APPS, "shop").await,
            "it waits"
        );
        f.api.inject(|_, _, _| Fault::None);
        f.until(async |f| {
            f.sleep(Duration::from_mins(1)).await;
            !f.exists(&APPS, "shop").await
        })
        .await;
        kept(&f).await;
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_is_deleted_right_after_the_change_back_takes_them_along() {
    for way in [Propagation::Background, Propagation::Foreground] {
        let f = served("Orphan").await;
        f.api
            .inject(|_, _, _| Fault::Status(500, json!({"reason": "InternalError"})));
        f.want("shop", &json!({"deletionPolicy": "Delete"})).await;
        f.sleep(Duration::from_secs(5)).await;
        f.delete(&APPS, "shop", way).await;
        f.api.inject(|_, _, _| Fault::None);
        gone(&f).await;
        f.until(async |f| f.list(&PODS).await.is_empty()).await;
        assert!(f.names(&DEPLOYMENTS).await.is_empty());
    }
    // Unless that is asked for, even if the collector has done its part long before.
    let f = fixture().await;
    f.serve(&shop(
        &json!({"ports": [{"port": 80}], "deletionPolicy": "Orphan"}),
    ))
    .await;
    f.api
        .inject(|_, _, _| Fault::Status(500, json!({"reason": "InternalError"})));
    f.want("shop", &json!({"deletionPolicy": "Delete"})).await;
    f.sleep(Duration::from_secs(5)).await;
    f.delete(&APPS, "shop", Propagation::Orphan).await;
    f.sleep(Duration::from_secs(5)).await;
    f.collect().await;
    f.until(async |f| f.get(&APPS, "shop").await["metadata"]["finalizers"] == json!([FINALIZER]))
        .await;
    f.api.inject(|_, _, _| Fault::None);
    gone(&f).await;
    kept(&f).await;
}

#[tokio::test(start_paused = true)]
async fn former_deployments_follow_the_policy_too() {
    let f = served("Delete").await;
    f.create(&DEPLOYMENTS, &foreign("taken")).await;
    f.want("shop", &json!({"deploymentName": "taken"})).await;
    f.stalled("shop").await;
    f.want("shop", &json!({"deletionPolicy": "Orphan"})).await;
    f.until(async |f| owners(&f.get(&DEPLOYMENTS, "web").await) == 0)
        .await;
    f.want("shop", &json!({"deletionPolicy": "Delete"})).await;
    f.until(async |f| owners(&f.get(&DEPLOYMENTS, "web").await) == 1)
        .await;
    f.want("shop", &json!({"deletionPolicy": "Orphan"})).await;
    f.until(async |f| owners(&f.get(&DEPLOYMENTS, "web").await) == 0)
        .await;
    f.delete(&APPS, "shop", Propagation::Background).await;
    gone(&f).await;
    kept(&f).await;
}

#[tokio::test(start_paused = true)]
async fn finalizers_and_owners_of_others_stay() {
    let f = served("Delete").await;
    let theirs = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "theirs", "uid": "u"});
    let mut references = f.get(&DEPLOYMENTS, "web").await["metadata"]["ownerReferences"].clone();
    references
        .as_array_mut()
        .expect("a list")
        .insert(0, theirs.clone());
    f.patch(
        &APPS,
        "shop",
        &json!({"metadata": {"finalizers": ["example.com/theirs"]}}),
    )
    .await;
    f.patch(
        &DEPLOYMENTS,
        "web",
        &json!({"metadata": {"ownerReferences": references}}),
    )
    .await;
    f.want("shop", &json!({"deletionPolicy": "Orphan"})).await;
    f.until(async |f| f.get(&DEPLOYMENTS, "web").await["metadata"]["ownerReferences"] == json!([theirs]))
        .await;
    let finalizers = json!(["example.com/theirs", FINALIZER]);
    assert_eq!(f.get(&APPS, "shop").await["metadata"]["finalizers"], finalizers);
    f.want("shop", &json!({"deletionPolicy": "Delete"})).await;
    f.until(async |f| f.get(&APPS, "shop").await["metadata"]["finalizers"] == json!(["example.com/theirs"]))
        .await;
    assert_eq!(
        f.get(&DEPLOYMENTS, "web").await["metadata"]["ownerReferences"],
        references
    );
}

#[tokio::test(start_paused = true)]
async fn a_reference_to_one_that_has_changed_meanwhile_is_not_made() {
    let f = served("Orphan").await;
    // What it wants is seen late, and by then it has changed its mind and is gone.
    f.want("shop", &json!({"deletionPolicy": "Delete"})).await;
    f.sleep(Duration::from_millis(1)).await;
    f.api
        .lag()
        .hold_at("appservices.appcontroller.k8s.io", f.sandbox.revision());
    f.until(async |f| owners(&f.get(&DEPLOYMENTS, "web").await) == 1)
        .await;
    f.api.lag().release();
    f.ready("shop").await;
    f.want("shop", &json!({"deletionPolicy": "Orphan"})).await;
    f.until(async |f| owners(&f.get(&DEPLOYMENTS, "web").await) == 0)
        .await;
    f.ready("shop").await;
    f.api.inject(|method, path, _| {
        if *method == http::Method::GET && path.ends_with("/appservices/shop") {
            let details = json!({"name": "shop"});
            Fault::Status(404, json!({"reason": "NotFound", "details": details}))
        } else {
            Fault::None
        }
    });
    f.want("shop", &json!({"deletionPolicy": "Delete"})).await;
    f.sleep(Duration::from_mins(5)).await;
    assert_eq!(owners(&f.get(&DEPLOYMENTS, "web").await), 0);
    assert_eq!(
        f.get(&APPS, "shop").await["metadata"]["finalizers"],
        json!([FINALIZER])
    );
}

#[tokio::test(start_paused = true)]
async fn a_child_that_the_cache_does_not_show_is_let_go_too() {
    let f = apart().await;
    f.collect().await;
    let first = f.apps();
    f.serve(&shop(&json!({"ports": [{"port": 80}]}))).await;
    first.cancel();
    f.sleep(Duration::from_secs(1)).await;
    // As its leader would have left it.
    let held = json!({"metadata": {"finalizers": [FINALIZER]}, "spec": {"deletionPolicy": "Orphan"}});
    f.patch(&APPS, "shop", &held).await;
    f.delete(&APPS, "shop", Propagation::Background).await;
    // From a cache that is behind: when it did not refer to anybody.
    f.api.transform_reads("deployments", |it| {
        let metadata = it["metadata"].as_object_mut().expect("metadata");
        metadata.remove("ownerReferences");
        metadata.remove("labels");
    });
    f.apps();
    gone(&f).await;
    kept(&f).await;
}

#[tokio::test(start_paused = true)]
async fn the_finalizer_stays_until_all_of_them_refer_to_it() {
    let f = served("Orphan").await;
    f.api.inject(|method, path, _| {
        if *method == http::Method::PATCH && path.contains("/services/") {
            Fault::Status(403, json!({"reason": "Forbidden", "message": "not you"}))
        } else {
            Fault::None
        }
    });
    f.want("shop", &json!({"deletionPolicy": "Delete"})).await;
    f.until(async |f| owners(&f.get(&DEPLOYMENTS, "web").await) == 1)
        .await;
    f.sleep(Duration::from_mins(10)).await;
    assert_eq!(
        f.get(&APPS, "shop").await["metadata"]["finalizers"],
        json!([FINALIZER])
    );
    // No event follows: the next attempt comes from the backoff.
    f.api.inject(|_, _, _| Fault::None);
    f.sleep(BACKOFF_MAX).await;
    f.until(async |f| f.get(&APPS, "shop").await["metadata"].get("finalizers").is_none())
        .await;
    assert_eq!(owners(&f.get(&SERVICES, "shop").await), 1);
}
