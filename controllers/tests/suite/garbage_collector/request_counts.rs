//! The exact number of requests without faults.

use std::collections::BTreeMap;

use super::*;

const MANY: usize = 100;

fn counts(expected: &[(&str, usize)]) -> BTreeMap<String, usize> {
    expected
        .iter()
        .map(|(operation, n)| ((*operation).to_owned(), *n))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn background_deletion_sends_one_delete_per_dependent() {
    let f = fixture().await;
    f.define_widgets().await;
    for resource in [MAPS, PODS, WIDGETS] {
        let owner = f.create(&SECRETS, "owner", &[]).await;
        f.create_dependents(&resource, &owner, MANY).await;
        f.api.reset();
        f.delete(&SECRETS, &owner, Propagation::Background).await;
        f.until(async |f| f.left(&resource).await == 0).await;
        f.sleep(HOUR).await;
        let deletes = format!("DELETE {}", resource.plural);
        assert_eq!(f.api.counts(), counts(&[(&deletes, MANY)]));
        for sent in f.api.recorded_of(&deletes) {
            let conditions = &sent.body["preconditions"];
            assert!(conditions["uid"].is_string() && conditions["resourceVersion"].is_string());
            assert_eq!(sent.body["propagationPolicy"], "Background");
            assert!(sent.accept.contains("PartialObjectMetadata"));
        }
        let done = "steersman_garbage_collector_objects_total{action=\"delete\",dry_run=\"false\"}";
        assert!(f.metric(done).is_some_and(|it| it >= 100.0));
    }
}

#[tokio::test(start_paused = true)]
async fn tree_deletion_sends_one_delete_per_object() {
    let f = fixture().await;
    let root = f.create(&SECRETS, "root", &[]).await;
    for i in 0..5 {
        let middle = f
            .create(&SECRETS, &format!("middle-{i}"), &[reference(&root)])
            .await;
        for j in 0..5 {
            f.create(&MAPS, &format!("dependent-{i}-{j}"), &[reference(&middle)])
                .await;
        }
    }
    f.settle().await;
    f.delete(&SECRETS, &root, Propagation::Background).await;
    f.until(async |f| f.left(&MAPS).await == 0).await;
    f.sleep(HOUR).await;
    assert_eq!(
        f.api.counts(),
        counts(&[("DELETE secrets", 5), ("DELETE configmaps", 25)])
    );
}

#[tokio::test(start_paused = true)]
async fn foreground_deletion_sends_one_delete_per_dependent_one_patch_and_one_get_per_second() {
    let f = fixture().await;
    f.define_widgets().await;
    for resource in [MAPS, WIDGETS] {
        let owner = f.create(&SECRETS, "owner", &[]).await;
        for i in 0..MANY {
            let reference = if i % 2 == 0 {
                blocking(&owner)
            } else {
                reference(&owner)
            };
            f.create(&resource, &format!("dependent-{i}"), &[reference]).await;
        }
        f.settle().await;
        f.api.reset();
        let start = f.env.clock.now();
        f.delete(&SECRETS, &owner, Propagation::Foreground).await;
        f.until(async |f| f.get(&SECRETS, "owner").await.is_none() && f.left(&resource).await == 0)
            .await;
        let took = f.env.clock.now() - start;
        f.sleep(HOUR).await;
        let gets = f.api.count("GET secrets");
        assert!(
            (1..=1 + usize::try_from(took.as_secs()).expect("short")).contains(&gets),
            "{gets} in {took:?}"
        );
        let deletes = format!("DELETE {}", resource.plural);
        let expected = [(&*deletes, MANY), ("PATCH secrets", 1), ("GET secrets", gets)];
        assert_eq!(f.api.counts(), counts(&expected));
        let patch = &f.api.recorded_of("PATCH secrets")[0];
        assert_eq!(patch.body["metadata"]["finalizers"], Value::Null);
        assert_eq!(patch.body["metadata"]["uid"], owner["metadata"]["uid"]);
        assert!(patch.body["metadata"]["resourceVersion"].is_string());
    }
}

#[tokio::test(start_paused = true)]
async fn concurrent_live_reads_of_an_owner_are_shared() {
    let f = fixture().await;
    let owner = f.create_owner("owner", MANY).await;
    f.api.inject_all(|it| match it.operation.as_str() {
        "GET secrets" => Effect::DelayAnswer(Duration::from_millis(500)),
        // Workers do not read the owner at the same instant.
        "DELETE configmaps" => Effect::DelayAnswer(Duration::from_millis(10)),
        _ => Effect::Pass,
    });
    f.delete(&SECRETS, &owner, Propagation::Foreground).await;
    f.until(async |f| f.left(&MAPS).await == 0).await;
    assert_eq!(f.api.count("GET secrets"), 1);
}

#[tokio::test(start_paused = true)]
async fn live_read_behind_a_rate_limiter_is_at_most_a_second_old() {
    let f = unstarted();
    let limit = steersman_manager::client::RateLimit { qps: 10.0, burst: 1 };
    let client = f.transport.reader("generic-garbage-collector", Some(limit));
    f.run(f.build_with(client, Options::default(), Scope::default()));
    f.sleep(Duration::from_secs(2)).await;
    let owner = f.create(&SECRETS, "owner", &[]).await;
    for i in 0..MANY {
        f.create(&MAPS, &format!("dependent-{i}"), &[blocking(&owner)])
            .await;
    }
    f.settle().await;
    f.api.reset();
    f.delete(&SECRETS, &owner, Propagation::Foreground).await;
    f.until(async |f| f.get(&SECRETS, "owner").await.is_none()).await;
    let recorded = f.api.recorded();
    let mut read = None;
    for it in &recorded {
        match it.operation.as_str() {
            "GET secrets" => {
                if let Some(last) = read {
                    assert!(it.at - last > Duration::from_millis(900), "one a second at most");
                }
                read = Some(it.at);
            }
            "DELETE configmaps" => {
                let age = it.at - read.expect("a live read");
                assert!(age <= Duration::from_secs(1), "{age:?}");
            }
            _ => {}
        }
    }
    assert_eq!(f.api.count("DELETE configmaps"), MANY);
    assert_eq!(f.api.count("PATCH secrets"), 1);
}

#[tokio::test(start_paused = true)]
async fn orphan_deletion_sends_one_patch_per_object_and_one_list_per_resource() {
    let f = fixture().await;
    f.define_widgets().await;
    for (resource, content_type) in [
        (MAPS, "application/strategic-merge-patch+json"),
        (WIDGETS, "application/merge-patch+json"),
    ] {
        let owner = f.create(&SECRETS, "owner", &[]).await;
        f.create_dependents(&resource, &owner, MANY).await;
        f.api.reset();
        f.delete(&SECRETS, &owner, Propagation::Orphan).await;
        f.until(async |f| f.get(&SECRETS, "owner").await.is_none()).await;
        f.sleep(HOUR).await;
        let patches = format!("PATCH {}", resource.plural);
        let expected = [
            (&*patches, MANY),
            ("PATCH secrets", 1),
            ("LIST configmaps", 1),
            ("LIST secrets", 1),
            ("LIST pods", 1),
            ("LIST replicasets", 1),
            ("LIST widgets", 1),
        ];
        assert_eq!(f.api.counts(), counts(&expected));
        assert_eq!(f.left(&resource).await, MANY);
        for object in f.list(&resource).await {
            assert_eq!(object["metadata"].get("ownerReferences"), None);
            f.delete(&resource, &object, Propagation::Background).await;
        }
        for patch in f.api.recorded_of(&patches) {
            assert_eq!(patch.content_type, content_type);
            assert!(patch.body["metadata"]["uid"].is_string());
        }
        for list in f
            .api
            .recorded()
            .iter()
            .filter(|it| it.operation.starts_with("LIST"))
        {
            assert!(!list.query.contains("resourceVersion"), "{}", list.query);
            assert!(list.path.contains("/namespaces/default/"), "{}", list.path);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn foreground_deletion_of_many_owners_reads_each_owner_once() {
    const OWNERS: usize = 200;
    const DEPENDENTS: usize = 5;
    let f = fixture().await;
    let mut owners = Vec::new();
    for i in 0..OWNERS {
        let owner = f.create(&SECRETS, &format!("owner-{i}"), &[]).await;
        for j in 0..DEPENDENTS {
            let name = format!("dependent-{i}-{j}");
            f.create(&MAPS, &name, &[blocking(&owner)]).await;
        }
        owners.push(owner);
    }
    f.settle().await;
    // A read of every owner takes longer than its answer is valid.
    f.api.inject(|_, _, _| Effect::Delay(Duration::from_millis(200)));
    f.api.reset();
    for owner in &owners {
        f.delete(&SECRETS, owner, Propagation::Foreground).await;
    }
    f.until(async |f| f.list(&SECRETS).await.is_empty()).await;
    assert_eq!(f.api.count("DELETE configmaps"), OWNERS * DEPENDENTS);
    assert_eq!(f.api.count("GET secrets"), OWNERS);
}

#[tokio::test(start_paused = true)]
async fn absent_owner_is_read_once() {
    let f = fixture().await;
    let never = dangling(&SECRETS, "never");
    f.api.inject_all(|it| match it.operation.as_str() {
        "GET secrets" => Effect::DelayAnswer(Duration::from_secs(3)),
        _ => Effect::Pass,
    });
    for i in 0..MANY {
        f.create(&MAPS, &format!("dependent-{i}"), std::slice::from_ref(&never))
            .await;
    }
    f.until(async |f| f.left(&MAPS).await == 0).await;
    f.sleep(HOUR).await;
    assert_eq!(
        f.api.counts(),
        counts(&[("GET secrets", 1), ("DELETE configmaps", MANY)])
    );
}

#[tokio::test(start_paused = true)]
async fn dependent_with_finalizer_is_deleted_once() {
    let f = fixture().await;
    let owner = f.create_owner("owner", 3).await;
    f.create_dependents(&PODS, &owner, 3).await;
    for i in 0..3 {
        let finalizer = json!({"metadata": {"finalizers": ["test.dev/hold"]}});
        f.patch(&MAPS, &format!("dependent-{i}"), &finalizer).await;
    }
    f.settle().await;
    f.delete(&SECRETS, &owner, Propagation::Background).await;
    f.sleep(HOUR).await;
    assert_eq!(
        f.api.counts(),
        counts(&[("DELETE configmaps", 3), ("DELETE pods", 3)])
    );
    assert_eq!(f.left(&MAPS).await, 3);
}

#[tokio::test(start_paused = true)]
async fn idle_collector_sends_nothing() {
    let f = unstarted();
    let owner = f.create(&SECRETS, "owner", &[]).await;
    let role = f.create(&ROLES, "role", &[]).await;
    f.create_dependents(&MAPS, &owner, MANY).await;
    f.create(&MAPS, "of-role", &[reference(&role), blocking(&owner)])
        .await;
    f.start().await;
    f.sleep(HOUR).await;
    assert_eq!(f.api.counts(), counts(&[]));
}
