//! `deletionPolicy`: what becomes of the children, in whichever way the `AppService` is deleted.

use super::*;

const WAYS: [Propagation; 3] = [
    Propagation::Background,
    Propagation::Foreground,
    Propagation::Orphan,
];

async fn served(policy: &str) -> Bed {
    let bed = bed().await;
    bed.collect().await;
    bed.serve(&shop(&json!({"ports": [{"port": 80}], "deletionPolicy": policy})))
        .await;
    bed
}

async fn gone(bed: &Bed) {
    bed.until(async |bed| !bed.exists(&APPS, "shop").await).await;
}

/// The children are there, refer to nobody, and their pods are untouched.
async fn kept(bed: &Bed) {
    bed.sleep(Duration::from_mins(5)).await;
    for (resource, name) in [(DEPLOYMENTS, "web"), (SERVICES, "shop")] {
        let it = bed.get(&resource, name).await;
        assert_eq!(owners(&it), 0, "{it}");
        assert!(it["metadata"].get("deletionTimestamp").is_none());
        assert_eq!(it["metadata"]["labels"]["app.kubernetes.io/instance"], "shop");
    }
    let pods = bed.list(&PODS).await;
    let ours = pods
        .iter()
        .filter(|it| it["metadata"]["labels"]["app.kubernetes.io/instance"] == "shop");
    assert_eq!(ours.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn with_delete_they_go_unless_they_are_orphaned() {
    for way in WAYS {
        let bed = served("Delete").await;
        assert_eq!(owners(&bed.get(&DEPLOYMENTS, "web").await), 1);
        assert!(
            bed.get(&APPS, "shop").await["metadata"]
                .get("finalizers")
                .is_none()
        );
        bed.door.reset();
        bed.delete(&APPS, "shop", way).await;
        gone(&bed).await;
        if way == Propagation::Orphan {
            kept(&bed).await;
        } else {
            bed.until(async |bed| bed.list(&PODS).await.is_empty()).await;
            assert!(bed.names(&DEPLOYMENTS).await.is_empty() && !bed.exists(&SERVICES, "shop").await);
        }
        assert_eq!(
            bed.door.order(),
            Vec::<String>::new(),
            "that is the collector's work"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn with_orphan_they_stay_in_whichever_way_it_goes() {
    for way in WAYS {
        let bed = served("Orphan").await;
        let it = bed.get(&APPS, "shop").await;
        assert_eq!(it["metadata"]["finalizers"], json!([FINALIZER]));
        assert_eq!(bed.door.order()[0], "PATCH appservices", "before anything else");
        assert_eq!(owners(&bed.get(&DEPLOYMENTS, "web").await), 0);
        bed.door.reset();
        bed.delete(&APPS, "shop", way).await;
        gone(&bed).await;
        kept(&bed).await;
        // Who takes off another finalizer at the same time makes it try again.
        let most = if way == Propagation::Background { 1 } else { 2 };
        assert!((1..=most).contains(&bed.door.count("PATCH appservices")));
        assert_eq!(
            bed.door.count("PATCH deployments") + bed.door.count("PATCH services"),
            0
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_policy_can_be_changed_there_and_back() {
    let bed = served("Delete").await;
    for (nth, (policy, references)) in [("Orphan", 0), ("Delete", 1), ("Orphan", 0)]
        .into_iter()
        .enumerate()
    {
        bed.door.reset();
        bed.want("shop", &json!({"deletionPolicy": policy})).await;
        let held = references == 0;
        bed.until(async |bed| {
            let it = bed.get(&APPS, "shop").await;
            let finalizers = it["metadata"]["finalizers"].as_array().map_or(0, Vec::len);
            let web = owners(&bed.get(&DEPLOYMENTS, "web").await);
            let service = owners(&bed.get(&SERVICES, "shop").await);
            // Never a reference without the finalizer on the way to Orphan, never neither on the way back.
            assert!(!held || finalizers == 1 || web + service == 2, "{it}");
            assert!(held || finalizers == 1 || web + service == 2, "{it}");
            (web, service, finalizers == 1) == (references, references, held)
        })
        .await;
        bed.ready("shop").await;
        let mut writes = bed.door.order();
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
    bed.delete(&APPS, "shop", Propagation::Foreground).await;
    gone(&bed).await;
    kept(&bed).await;
}

#[tokio::test(start_paused = true)]
async fn one_that_is_deleted_right_after_the_change_keeps_them() {
    for way in [Propagation::Background, Propagation::Orphan] {
        let bed = served("Delete").await;
        // The finalizer is on it, and nothing else was done yet.
        bed.door.judge(|method, path, _| {
            if *method == http::Method::PATCH && !path.contains("/appservices/") {
                Answer::Refused(500, json!({"reason": "InternalError"}))
            } else {
                Answer::Done
            }
        });
        bed.want("shop", &json!({"deletionPolicy": "Orphan"})).await;
        bed.until(async |bed| bed.get(&APPS, "shop").await["metadata"]["finalizers"] == json!([FINALIZER]))
            .await;
        bed.delete(&APPS, "shop", way).await;
        bed.sleep(Duration::from_mins(2)).await;
        // Who orphans them does the same, and then there is nothing left to wait for.
        assert!(
            way == Propagation::Orphan || bed.exists(&APPS, "shop").await,
            "it waits"
        );
        bed.door.judge(|_, _, _| Answer::Done);
        bed.until(async |bed| {
            bed.sleep(Duration::from_mins(1)).await;
            !bed.exists(&APPS, "shop").await
        })
        .await;
        kept(&bed).await;
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_is_deleted_right_after_the_change_back_takes_them_along() {
    for way in [Propagation::Background, Propagation::Foreground] {
        let bed = served("Orphan").await;
        bed.door
            .judge(|_, _, _| Answer::Refused(500, json!({"reason": "InternalError"})));
        bed.want("shop", &json!({"deletionPolicy": "Delete"})).await;
        bed.sleep(Duration::from_secs(5)).await;
        bed.delete(&APPS, "shop", way).await;
        bed.door.judge(|_, _, _| Answer::Done);
        gone(&bed).await;
        bed.until(async |bed| bed.list(&PODS).await.is_empty()).await;
        assert!(bed.names(&DEPLOYMENTS).await.is_empty());
    }
    // Unless that is asked for, even if the collector has done its part long before.
    let bed = bed().await;
    bed.serve(&shop(
        &json!({"ports": [{"port": 80}], "deletionPolicy": "Orphan"}),
    ))
    .await;
    bed.door
        .judge(|_, _, _| Answer::Refused(500, json!({"reason": "InternalError"})));
    bed.want("shop", &json!({"deletionPolicy": "Delete"})).await;
    bed.sleep(Duration::from_secs(5)).await;
    bed.delete(&APPS, "shop", Propagation::Orphan).await;
    bed.sleep(Duration::from_secs(5)).await;
    bed.collect().await;
    bed.until(async |bed| bed.get(&APPS, "shop").await["metadata"]["finalizers"] == json!([FINALIZER]))
        .await;
    bed.door.judge(|_, _, _| Answer::Done);
    gone(&bed).await;
    kept(&bed).await;
}

#[tokio::test(start_paused = true)]
async fn former_deployments_follow_the_policy_too() {
    let bed = served("Delete").await;
    bed.create(&DEPLOYMENTS, &foreign("taken")).await;
    bed.want("shop", &json!({"deploymentName": "taken"})).await;
    bed.stalled("shop").await;
    bed.want("shop", &json!({"deletionPolicy": "Orphan"})).await;
    bed.until(async |bed| owners(&bed.get(&DEPLOYMENTS, "web").await) == 0)
        .await;
    bed.want("shop", &json!({"deletionPolicy": "Delete"})).await;
    bed.until(async |bed| owners(&bed.get(&DEPLOYMENTS, "web").await) == 1)
        .await;
    bed.want("shop", &json!({"deletionPolicy": "Orphan"})).await;
    bed.until(async |bed| owners(&bed.get(&DEPLOYMENTS, "web").await) == 0)
        .await;
    bed.delete(&APPS, "shop", Propagation::Background).await;
    gone(&bed).await;
    kept(&bed).await;
}

#[tokio::test(start_paused = true)]
async fn finalizers_and_owners_of_others_stay() {
    let bed = served("Delete").await;
    let theirs = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "theirs", "uid": "u"});
    let mut references = bed.get(&DEPLOYMENTS, "web").await["metadata"]["ownerReferences"].clone();
    references
        .as_array_mut()
        .expect("a list")
        .insert(0, theirs.clone());
    bed.patch(
        &APPS,
        "shop",
        &json!({"metadata": {"finalizers": ["example.com/theirs"]}}),
    )
    .await;
    bed.patch(
        &DEPLOYMENTS,
        "web",
        &json!({"metadata": {"ownerReferences": references}}),
    )
    .await;
    bed.want("shop", &json!({"deletionPolicy": "Orphan"})).await;
    bed.until(async |bed| {
        bed.get(&DEPLOYMENTS, "web").await["metadata"]["ownerReferences"] == json!([theirs])
    })
    .await;
    let finalizers = json!(["example.com/theirs", FINALIZER]);
    assert_eq!(bed.get(&APPS, "shop").await["metadata"]["finalizers"], finalizers);
    bed.want("shop", &json!({"deletionPolicy": "Delete"})).await;
    bed.until(async |bed| {
        bed.get(&APPS, "shop").await["metadata"]["finalizers"] == json!(["example.com/theirs"])
    })
    .await;
    assert_eq!(
        bed.get(&DEPLOYMENTS, "web").await["metadata"]["ownerReferences"],
        references
    );
}

#[tokio::test(start_paused = true)]
async fn a_reference_to_one_that_has_changed_meanwhile_is_not_made() {
    let bed = served("Orphan").await;
    // What it wants is seen late, and by then it has changed its mind and is gone.
    bed.want("shop", &json!({"deletionPolicy": "Delete"})).await;
    bed.sleep(Duration::from_millis(1)).await;
    bed.door
        .lag()
        .hold_at("appservices.appcontroller.k8s.io", bed.sandbox.revision());
    bed.until(async |bed| owners(&bed.get(&DEPLOYMENTS, "web").await) == 1)
        .await;
    bed.door.lag().release();
    bed.ready("shop").await;
    bed.want("shop", &json!({"deletionPolicy": "Orphan"})).await;
    bed.until(async |bed| owners(&bed.get(&DEPLOYMENTS, "web").await) == 0)
        .await;
    bed.ready("shop").await;
    bed.door.judge(|method, path, _| {
        if *method == http::Method::GET && path.ends_with("/appservices/shop") {
            let details = json!({"name": "shop"});
            Answer::Refused(404, json!({"reason": "NotFound", "details": details}))
        } else {
            Answer::Done
        }
    });
    bed.want("shop", &json!({"deletionPolicy": "Delete"})).await;
    bed.sleep(Duration::from_mins(5)).await;
    assert_eq!(owners(&bed.get(&DEPLOYMENTS, "web").await), 0);
    assert_eq!(
        bed.get(&APPS, "shop").await["metadata"]["finalizers"],
        json!([FINALIZER])
    );
}

#[tokio::test(start_paused = true)]
async fn a_child_that_the_cache_does_not_show_is_let_go_too() {
    let bed = apart().await;
    bed.collect().await;
    let first = bed.apps();
    bed.serve(&shop(&json!({"ports": [{"port": 80}]}))).await;
    first.cancel();
    bed.sleep(Duration::from_secs(1)).await;
    // As its leader would have left it.
    let held = json!({"metadata": {"finalizers": [FINALIZER]}, "spec": {"deletionPolicy": "Orphan"}});
    bed.patch(&APPS, "shop", &held).await;
    bed.delete(&APPS, "shop", Propagation::Background).await;
    // From a cache that is behind: when it did not refer to anybody.
    bed.door.show("deployments", |it| {
        let metadata = it["metadata"].as_object_mut().expect("metadata");
        metadata.remove("ownerReferences");
        metadata.remove("labels");
    });
    bed.apps();
    gone(&bed).await;
    kept(&bed).await;
}

#[tokio::test(start_paused = true)]
async fn the_finalizer_stays_until_all_of_them_refer_to_it() {
    let bed = served("Orphan").await;
    bed.door.judge(|method, path, _| {
        if *method == http::Method::PATCH && path.contains("/services/") {
            Answer::Refused(403, json!({"reason": "Forbidden", "message": "not you"}))
        } else {
            Answer::Done
        }
    });
    bed.want("shop", &json!({"deletionPolicy": "Delete"})).await;
    bed.until(async |bed| owners(&bed.get(&DEPLOYMENTS, "web").await) == 1)
        .await;
    bed.sleep(Duration::from_mins(10)).await;
    assert_eq!(
        bed.get(&APPS, "shop").await["metadata"]["finalizers"],
        json!([FINALIZER])
    );
    // No event follows: the next attempt comes from the backoff.
    bed.door.judge(|_, _, _| Answer::Done);
    bed.sleep(BACKOFF_MAX).await;
    bed.until(async |bed| {
        bed.get(&APPS, "shop").await["metadata"]
            .get("finalizers")
            .is_none()
    })
    .await;
    assert_eq!(owners(&bed.get(&SERVICES, "shop").await), 1);
}
