//! `deletionPolicy`: the children of a deleted `AppService`, by policy and propagation.

use super::*;

const PROPAGATIONS: [Propagation; 3] = [
    Propagation::Background,
    Propagation::Foreground,
    Propagation::Orphan,
];

async fn with_policy(policy: &str) -> Fixture {
    let f = fixture().await;
    f.start_garbage_collector().await;
    f.create_ready(&shop(&json!({"ports": [{"port": 80}], "deletionPolicy": policy})))
        .await;
    f
}

async fn wait_deleted(f: &Fixture) {
    f.wait_until(async |f| !f.exists(&APPS, "shop").await).await;
}

/// Asserts that the children exist without an ownerReference, and that their pods are kept.
async fn assert_orphaned(f: &Fixture) {
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
async fn delete_policy_deletes_children_unless_propagation_is_orphan() {
    for propagation in PROPAGATIONS {
        let f = with_policy("Delete").await;
        assert_eq!(owners(&f.get(&DEPLOYMENTS, "web").await), 1);
        assert!(f.get(&APPS, "shop").await["metadata"].get("finalizers").is_none());
        f.api.reset();
        f.delete(&APPS, "shop", propagation).await;
        wait_deleted(&f).await;
        if propagation == Propagation::Orphan {
            assert_orphaned(&f).await;
        } else {
            f.wait_until(async |f| f.list(&PODS).await.is_empty()).await;
            assert!(f.names(&DEPLOYMENTS).await.is_empty() && !f.exists(&SERVICES, "shop").await);
        }
        assert_eq!(
            f.api.operations(),
            Vec::<String>::new(),
            "the garbage collector deletes them"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn orphan_policy_keeps_children_with_any_propagation() {
    for propagation in PROPAGATIONS {
        let f = with_policy("Orphan").await;
        let it = f.get(&APPS, "shop").await;
        assert_eq!(it["metadata"]["finalizers"], json!([FINALIZER]));
        assert_eq!(
            f.api.operations()[0],
            "PATCH appservices",
            "the finalizer is first"
        );
        assert_eq!(owners(&f.get(&DEPLOYMENTS, "web").await), 0);
        f.api.reset();
        f.delete(&APPS, "shop", propagation).await;
        wait_deleted(&f).await;
        assert_orphaned(&f).await;
        // The garbage collector removes its finalizer at the same time: one conflict.
        let most = if propagation == Propagation::Background {
            1
        } else {
            2
        };
        assert!((1..=most).contains(&f.api.count("PATCH appservices")));
        assert_eq!(
            f.api.count("PATCH deployments") + f.api.count("PATCH services"),
            0
        );
    }
}

#[tokio::test(start_paused = true)]
async fn policy_can_be_changed_back_and_forth() {
    let f = with_policy("Delete").await;
    for (nth, (policy, references)) in [("Orphan", 0), ("Delete", 1), ("Orphan", 0)]
        .into_iter()
        .enumerate()
    {
        f.api.reset();
        f.patch_spec("shop", &json!({"deletionPolicy": policy})).await;
        let has_finalizer = references == 0;
        f.wait_until(async |f| {
            let it = f.get(&APPS, "shop").await;
            let finalizers = it["metadata"]["finalizers"].as_array().map_or(0, Vec::len);
            let web = owners(&f.get(&DEPLOYMENTS, "web").await);
            let service = owners(&f.get(&SERVICES, "shop").await);
            // Every child has an ownerReference, or the AppService the finalizer.
            assert!(!has_finalizer || finalizers == 1 || web + service == 2, "{it}");
            assert!(has_finalizer || finalizers == 1 || web + service == 2, "{it}");
            (web, service, finalizers == 1) == (references, references, has_finalizer)
        })
        .await;
        f.wait_ready("shop").await;
        let mut writes = f.api.operations();
        writes.retain(|it| it != "PATCH appservices/status");
        let mut expected = Vec::new();
        for child in ["deployments", "services"] {
            expected.push(format!("GET {child}"));
            // The first apply upgrades managedFields.
            let patches = if nth == 0 { 2 } else { 1 };
            expected.extend(vec![format!("PATCH {child}"); patches]);
        }
        if has_finalizer {
            expected.insert(0, "PATCH appservices".to_owned());
        } else {
            expected.insert(0, "GET appservices".to_owned());
            expected.push("PATCH appservices".to_owned());
        }
        assert_eq!(writes, expected);
    }
    f.delete(&APPS, "shop", Propagation::Foreground).await;
    wait_deleted(&f).await;
    assert_orphaned(&f).await;
}

#[tokio::test(start_paused = true)]
async fn deletion_after_a_change_to_orphan_keeps_children() {
    for propagation in [Propagation::Background, Propagation::Orphan] {
        let f = with_policy("Delete").await;
        // Only the finalizer can be added.
        f.api.inject(|method, path, _| {
            if *method == http::Method::PATCH && !path.contains("/appservices/") {
                status_reply(500, json!({"reason": "InternalError"}))
            } else {
                Effect::Pass
            }
        });
        f.patch_spec("shop", &json!({"deletionPolicy": "Orphan"})).await;
        f.wait_until(async |f| f.get(&APPS, "shop").await["metadata"]["finalizers"] == json!([FINALIZER]))
            .await;
        f.delete(&APPS, "shop", propagation).await;
        f.sleep(Duration::from_mins(2)).await;
        // With propagation Orphan the garbage collector releases the children.
        assert!(
            propagation == Propagation::Orphan || f.exists(&APPS, "shop").await,
            "it keeps its finalizer"
        );
        f.api.inject(|_, _, _| Effect::Pass);
        f.wait_until(async |f| {
            f.sleep(Duration::from_mins(1)).await;
            !f.exists(&APPS, "shop").await
        })
        .await;
        assert_orphaned(&f).await;
    }
}

#[tokio::test(start_paused = true)]
async fn deletion_after_a_change_to_delete_deletes_children() {
    for propagation in [Propagation::Background, Propagation::Foreground] {
        let f = with_policy("Orphan").await;
        f.api
            .inject(|_, _, _| status_reply(500, json!({"reason": "InternalError"})));
        f.patch_spec("shop", &json!({"deletionPolicy": "Delete"})).await;
        f.sleep(Duration::from_secs(5)).await;
        f.delete(&APPS, "shop", propagation).await;
        f.api.inject(|_, _, _| Effect::Pass);
        wait_deleted(&f).await;
        f.wait_until(async |f| f.list(&PODS).await.is_empty()).await;
        assert!(f.names(&DEPLOYMENTS).await.is_empty());
    }
    // Propagation Orphan keeps the children, even if the garbage collector removed its finalizer long before.
    let f = fixture().await;
    f.create_ready(&shop(
        &json!({"ports": [{"port": 80}], "deletionPolicy": "Orphan"}),
    ))
    .await;
    f.api
        .inject(|_, _, _| status_reply(500, json!({"reason": "InternalError"})));
    f.patch_spec("shop", &json!({"deletionPolicy": "Delete"})).await;
    f.sleep(Duration::from_secs(5)).await;
    f.delete(&APPS, "shop", Propagation::Orphan).await;
    f.sleep(Duration::from_secs(5)).await;
    f.start_garbage_collector().await;
    f.wait_until(async |f| f.get(&APPS, "shop").await["metadata"]["finalizers"] == json!([FINALIZER]))
        .await;
    f.api.inject(|_, _, _| Effect::Pass);
    wait_deleted(&f).await;
    assert_orphaned(&f).await;
}

#[tokio::test(start_paused = true)]
async fn previous_deployments_follow_the_policy() {
    let f = with_policy("Delete").await;
    f.create(&DEPLOYMENTS, &foreign("taken")).await;
    f.patch_spec("shop", &json!({"deploymentName": "taken"})).await;
    f.wait_stalled("shop").await;
    f.patch_spec("shop", &json!({"deletionPolicy": "Orphan"})).await;
    f.wait_until(async |f| owners(&f.get(&DEPLOYMENTS, "web").await) == 0)
        .await;
    f.patch_spec("shop", &json!({"deletionPolicy": "Delete"})).await;
    f.wait_until(async |f| owners(&f.get(&DEPLOYMENTS, "web").await) == 1)
        .await;
    f.patch_spec("shop", &json!({"deletionPolicy": "Orphan"})).await;
    f.wait_until(async |f| owners(&f.get(&DEPLOYMENTS, "web").await) == 0)
        .await;
    f.delete(&APPS, "shop", Propagation::Background).await;
    wait_deleted(&f).await;
    assert_orphaned(&f).await;
}

#[tokio::test(start_paused = true)]
async fn finalizers_and_owners_of_others_are_kept() {
    let f = with_policy("Delete").await;
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
    f.patch_spec("shop", &json!({"deletionPolicy": "Orphan"})).await;
    f.wait_until(async |f| {
        f.get(&DEPLOYMENTS, "web").await["metadata"]["ownerReferences"] == json!([theirs])
    })
    .await;
    let finalizers = json!(["example.com/theirs", FINALIZER]);
    assert_eq!(f.get(&APPS, "shop").await["metadata"]["finalizers"], finalizers);
    f.patch_spec("shop", &json!({"deletionPolicy": "Delete"})).await;
    f.wait_until(async |f| {
        f.get(&APPS, "shop").await["metadata"]["finalizers"] == json!(["example.com/theirs"])
    })
    .await;
    assert_eq!(
        f.get(&DEPLOYMENTS, "web").await["metadata"]["ownerReferences"],
        references
    );
}

#[tokio::test(start_paused = true)]
async fn owner_reference_to_an_absent_appservice_is_not_added() {
    let f = with_policy("Orphan").await;
    // The cache shows the change late.
    f.patch_spec("shop", &json!({"deletionPolicy": "Delete"})).await;
    f.sleep(Duration::from_millis(1)).await;
    f.api
        .lag()
        .hold_at("appservices.appcontroller.k8s.io", f.sandbox.revision());
    f.wait_until(async |f| owners(&f.get(&DEPLOYMENTS, "web").await) == 1)
        .await;
    f.api.lag().release();
    f.wait_ready("shop").await;
    f.patch_spec("shop", &json!({"deletionPolicy": "Orphan"})).await;
    f.wait_until(async |f| owners(&f.get(&DEPLOYMENTS, "web").await) == 0)
        .await;
    f.wait_ready("shop").await;
    f.api.inject(|method, path, _| {
        if *method == http::Method::GET && path.ends_with("/appservices/shop") {
            let details = json!({"name": "shop"});
            status_reply(404, json!({"reason": "NotFound", "details": details}))
        } else {
            Effect::Pass
        }
    });
    f.patch_spec("shop", &json!({"deletionPolicy": "Delete"})).await;
    f.sleep(Duration::from_mins(5)).await;
    assert_eq!(owners(&f.get(&DEPLOYMENTS, "web").await), 0);
    assert_eq!(
        f.get(&APPS, "shop").await["metadata"]["finalizers"],
        json!([FINALIZER])
    );
}

#[tokio::test(start_paused = true)]
async fn child_missing_in_the_cache_is_released() {
    let f = without_controller().await;
    f.start_garbage_collector().await;
    let first = f.start_controller();
    f.create_ready(&shop(&json!({"ports": [{"port": 80}]}))).await;
    first.cancel();
    f.sleep(Duration::from_secs(1)).await;
    // As the previous leader would have left it.
    let held = json!({"metadata": {"finalizers": [FINALIZER]}, "spec": {"deletionPolicy": "Orphan"}});
    f.patch(&APPS, "shop", &held).await;
    f.delete(&APPS, "shop", Propagation::Background).await;
    // The cache shows a state without ownerReference and labels.
    f.api.transform_reads("deployments", |it| {
        let metadata = it["metadata"].as_object_mut().expect("metadata");
        metadata.remove("ownerReferences");
        metadata.remove("labels");
    });
    f.start_controller();
    wait_deleted(&f).await;
    assert_orphaned(&f).await;
}

#[tokio::test(start_paused = true)]
async fn finalizer_stays_until_all_children_have_owner_references() {
    let f = with_policy("Orphan").await;
    f.api.inject(|method, path, _| {
        if *method == http::Method::PATCH && path.contains("/services/") {
            status_reply(403, json!({"reason": "Forbidden", "message": "not you"}))
        } else {
            Effect::Pass
        }
    });
    f.patch_spec("shop", &json!({"deletionPolicy": "Delete"})).await;
    f.wait_until(async |f| owners(&f.get(&DEPLOYMENTS, "web").await) == 1)
        .await;
    f.sleep(Duration::from_mins(10)).await;
    assert_eq!(
        f.get(&APPS, "shop").await["metadata"]["finalizers"],
        json!([FINALIZER])
    );
    // No event follows: the next attempt comes from the backoff.
    f.api.inject(|_, _, _| Effect::Pass);
    f.sleep(BACKOFF_MAX).await;
    f.wait_until(async |f| f.get(&APPS, "shop").await["metadata"].get("finalizers").is_none())
        .await;
    assert_eq!(owners(&f.get(&SERVICES, "shop").await), 1);
}
