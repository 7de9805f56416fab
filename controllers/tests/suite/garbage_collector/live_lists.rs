//! Live lists of orphan deletion: they are bounded, shared, and do not delay other work.

use steersman_manager::client::RateLimit;

use super::*;

/// The namespaced resources.
const LISTED: [&str; 4] = ["configmaps", "secrets", "pods", "replicasets"];

impl Fixture {
    async fn create_in(&self, namespace: &str, resource: &Resource, name: &str, owners: &[Value]) -> Value {
        let body = object(resource, name, owners).to_string();
        let created = self.admin.create(resource, namespace, body.into()).await;
        created.expect("created")
    }

    async fn delete_in(&self, namespace: &str, resource: &Resource, object: &Value, policy: Propagation) {
        let uid = Uid::from(object["metadata"]["uid"].as_str().expect("a uid"));
        let key = Key::new(namespace, object["metadata"]["name"].as_str().expect("a name"));
        let delete = Delete::of(uid).propagating(policy);
        let deleted = self.admin.delete(resource, &key, &delete).await;
        deleted.expect("deleted");
    }

    /// Orphans the config map of a new secret; returns the duration.
    async fn orphan_one(&self, n: usize) -> Duration {
        let owner = self.create(&SECRETS, &format!("owner-{n}"), &[]).await;
        self.create(&MAPS, &format!("dependent-{n}"), &[reference(&owner)])
            .await;
        self.settle().await;
        let start = self.env.clock.now();
        self.delete(&SECRETS, &owner, Propagation::Orphan).await;
        self.until(async |f| f.get(&SECRETS, &format!("owner-{n}")).await.is_none())
            .await;
        self.env.clock.now() - start
    }
}

#[tokio::test(start_paused = true)]
async fn orphaning_in_many_namespaces_lists_each_once_and_does_not_delay_deletes() {
    const COUNT: usize = 400;
    let f = unstarted();
    let limit = RateLimit { qps: 10.0, burst: 10 };
    let client = f.transport.reader("generic-garbage-collector", Some(limit));
    f.run(f.build_with(client, Options::default(), Scope::default()));
    let mut owners = Vec::new();
    for n in 0..COUNT {
        let namespace = format!("many-{n}");
        f.create(&NAMESPACES, &namespace, &[]).await;
        let owner = f.create_in(&namespace, &SECRETS, "owner", &[]).await;
        f.create_in(&namespace, &MAPS, "dependent", &[reference(&owner)])
            .await;
        owners.push((namespace, owner));
    }
    let other = f.create(&SECRETS, "other", &[]).await;
    f.create_dependents(&MAPS, &other, 1).await;
    f.sleep(Duration::from_secs(5)).await;
    f.api.reset();
    for (namespace, owner) in &owners {
        f.delete_in(namespace, &SECRETS, owner, Propagation::Orphan).await;
    }
    f.sleep(Duration::from_mins(1)).await;
    assert!(f.api.count("PATCH secrets") > 50, "{:?}", f.api.counts());
    let start = f.env.clock.now();
    f.delete(&SECRETS, &other, Propagation::Background).await;
    f.until(async |f| f.left(&MAPS).await == 0).await;
    let took = f.env.clock.now() - start;
    assert!(took <= Duration::from_secs(1), "{took:?}");
    f.sleep(Duration::from_mins(5)).await;
    for resource in LISTED {
        assert_eq!(f.api.count(&format!("LIST {resource}")), COUNT, "{resource}");
    }
    assert_eq!(f.api.count("PATCH secrets"), COUNT);
    assert_eq!(f.api.count("PATCH configmaps"), COUNT);
}

#[tokio::test(start_paused = true)]
async fn owners_in_one_namespace_share_a_list() {
    const COUNT: usize = 200;
    let f = fixture().await;
    let mut owners = Vec::new();
    for n in 0..COUNT {
        owners.push(f.create(&SECRETS, &format!("owner-{n}"), &[]).await);
        f.create(&MAPS, &format!("dependent-{n}"), &[reference(&owners[n])])
            .await;
    }
    f.settle().await;
    f.api.inject_all(|it| match it.operation.as_str() {
        "LIST configmaps" => Effect::DelayAnswer(Duration::from_secs(1)),
        _ => Effect::Pass,
    });
    for owner in &owners {
        f.delete(&SECRETS, owner, Propagation::Orphan).await;
    }
    f.until(async |f| f.list(&SECRETS).await.is_empty()).await;
    assert_eq!(f.left(&MAPS).await, COUNT);
    let lists = f.api.count("LIST configmaps");
    assert!(lists <= 2, "{lists}");
    assert_eq!(f.api.count("PATCH configmaps"), COUNT);
}

#[tokio::test(start_paused = true)]
async fn unlistable_resource_delays_only_the_first_orphaning() {
    for fault in [
        status_reply(403, json!({"reason": "Forbidden"})),
        status_reply(500, json!({"reason": "InternalError"})),
        text_reply(200, "{\"items\":"),
        Effect::Hang,
    ] {
        let f = fixture().await;
        let injected = fault.clone();
        f.api.inject_all(move |it| match it.operation.as_str() {
            "LIST pods" if it.by_controller => injected.clone(),
            _ => Effect::Pass,
        });
        let first = f.orphan_one(0).await;
        assert!(first >= Duration::from_secs(30), "{first:?} {fault:?}");
        assert!(first <= Duration::from_secs(75), "{first:?} {fault:?}");
        let lists = f.api.count("LIST pods");
        assert!(lists <= 4, "{lists} {fault:?}");
        for n in 1..10 {
            let took = f.orphan_one(n).await;
            assert!(took <= Duration::from_secs(1), "{took:?} {fault:?}");
        }
        assert_eq!(f.api.count("LIST pods"), lists, "{fault:?}");
        // The list is retried every half minute until it succeeds.
        f.sleep(Duration::from_secs(30)).await;
        f.orphan_one(10).await;
        assert_eq!(f.api.count("LIST pods"), lists + 1, "{fault:?}");
        f.api.inject_all(|_| Effect::Pass);
        f.sleep(Duration::from_secs(30)).await;
        f.orphan_one(11).await;
        let series = "steersman_garbage_collector_unlisted_total{resource=\"pods\"}";
        assert_eq!(f.metric(series), Some(11.0), "{fault:?}");
        let before = f.api.count("LIST pods");
        f.orphan_one(12).await;
        assert_eq!(f.api.count("LIST pods"), before + 1, "{fault:?}");
        assert_eq!(f.metric(series), Some(11.0), "{fault:?}");
        assert_eq!(f.left(&MAPS).await, 13, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn failed_patch_does_not_cause_another_list() {
    let f = fixture().await;
    f.api.inject_all(|it| match it.operation.as_str() {
        "PATCH configmaps" if it.before < 5 => status_reply(500, json!({"reason": "InternalError"})),
        _ => Effect::Pass,
    });
    f.orphan_one(0).await;
    assert_eq!(f.api.count("PATCH configmaps"), 6);
    assert_eq!(f.api.count("LIST configmaps"), 1);
}

#[tokio::test(start_paused = true)]
async fn cluster_scoped_owner_relists_only_stale_resources() {
    let f = fixture().await;
    let owner = f.create(&ROLES, "owner", &[]).await;
    f.create_dependents(&MAPS, &owner, 3).await;
    // The caches of the other resources are idle at old resourceVersions.
    f.api.lag().hold_at("pods", f.sandbox.revision());
    f.create(&PODS, "dependent-0", &[reference(&owner)]).await;
    f.settle().await;
    f.api.reset();
    f.delete(&ROLES, &owner, Propagation::Orphan).await;
    f.until(async |f| f.get(&ROLES, "owner").await.is_none()).await;
    let all = f.api.all_recorded();
    let relists = all
        .iter()
        .filter(|it| !it.by_controller && it.operation.starts_with("LIST"));
    let relists: Vec<_> = relists.map(|it| it.operation.as_str()).collect();
    assert_eq!(relists, ["LIST pods"]);
    f.api.lag().release();
    f.sleep(HOUR).await;
    assert_eq!((f.left(&MAPS).await, f.left(&PODS).await), (3, 1));
}

impl Fixture {
    /// Orphans config maps that are on different pages of a list and not in the cache; returns the duration.
    async fn orphan_paged(&self, n: usize) -> Duration {
        self.api.lag().hold_at("configmaps", self.sandbox.revision());
        let owner = self.create(&SECRETS, &format!("owner-{n}"), &[]).await;
        for name in ["a", "b", "z"] {
            self.create(&MAPS, &format!("{name}-{n}"), &[reference(&owner)])
                .await;
        }
        self.settle().await;
        self.api.reset();
        let start = self.env.clock.now();
        self.delete(&SECRETS, &owner, Propagation::Orphan).await;
        self.until(async |f| f.get(&SECRETS, &format!("owner-{n}")).await.is_none())
            .await;
        let took = self.env.clock.now() - start;
        self.api.lag().release();
        self.sleep(HOUR).await;
        for name in ["a", "b", "z"] {
            let orphan = self.get(&MAPS, &format!("{name}-{n}")).await.expect("an orphan");
            assert_eq!(orphan["metadata"].get("ownerReferences"), None);
        }
        took
    }

    /// Lets the continue tokens of the next `tokens` lists of config maps expire.
    fn expire_tokens(&self, tokens: usize) {
        let expired = std::sync::atomic::AtomicUsize::new(0);
        self.api.inject_all(move |it| {
            let continues =
                it.by_controller && it.operation == "LIST configmaps" && it.query.contains("continue=");
            if continues && expired.fetch_add(1, std::sync::atomic::Ordering::SeqCst) < tokens {
                status_reply(410, json!({"reason": "Expired"}))
            } else {
                Effect::Pass
            }
        });
    }
}

#[tokio::test(start_paused = true)]
async fn list_with_expired_continue_token_restarts() {
    const UNLISTED: &str = "steersman_garbage_collector_unlisted_total{resource=\"configmaps\"}";
    let f = fixture().await;
    for n in 0..600 {
        f.create(&MAPS, &format!("map-{n}"), &[]).await;
    }
    f.settle().await;
    for expired in 0..=3 {
        f.expire_tokens(expired);
        let took = f.orphan_paged(expired).await;
        assert!(took <= Duration::from_secs(1), "{expired}: {took:?}");
        assert_eq!(f.api.count("LIST configmaps"), 2 * (expired + 1));
        assert_eq!(f.api.count("PATCH configmaps"), 3, "{expired}");
    }
    assert_eq!(f.metric(UNLISTED), None);
    // The fourth expiry fails the list: orphaning waits and lists again.
    f.expire_tokens(4);
    let took = f.orphan_paged(4).await;
    assert!(took >= Duration::from_secs(10), "{took:?}");
    assert_eq!(f.api.count("LIST configmaps"), 8 + 2);
    assert_eq!(f.metric(UNLISTED), None);
    // The delay is bounded if the list never succeeds.
    f.expire_tokens(usize::MAX);
    let took = f.orphan_paged(5).await;
    assert!(took <= Duration::from_secs(75), "{took:?}");
    assert_eq!(f.metric(UNLISTED), Some(1.0));
}

#[tokio::test(start_paused = true)]
async fn list_of_many_slow_pages_is_healthy_and_ends_with_the_term() {
    const PAGE_TIME: Duration = Duration::from_secs(29);
    let f = unstarted();
    let collector = Arc::new(f.build(Options::default(), Scope::default()));
    let fence = Fence::new(f.env.clock.clone());
    let (term, stop) = (fence.open_forever(), CancellationToken::new());
    let (running, stopped) = (Arc::clone(&collector), stop.clone());
    let run = async move { running.run(&fence, term, stopped).await };
    let run = f.env.tasks.spawn(run);
    for n in 0..6_000 {
        f.create(&MAPS, &format!("map-{n}"), &[]).await;
    }
    let owner = f.create(&SECRETS, "owner", &[]).await;
    f.settle().await;
    f.api.inject_all(|it| {
        if it.by_controller && it.operation == "LIST configmaps" {
            Effect::DelayAnswer(PAGE_TIME)
        } else {
            Effect::Pass
        }
    });
    f.api.reset();
    f.delete(&SECRETS, &owner, Propagation::Orphan).await;
    f.sleep(PAGE_TIME * 11).await;
    assert!((11..=12).contains(&f.api.count("LIST configmaps")));
    collector.health().expect("it reads one page after the other");
    let begun = f.env.clock.now();
    stop.cancel();
    run.await.expect("no panic").expect("stopped");
    assert_eq!(f.env.clock.now() - begun, Duration::ZERO);
    assert!(f.get(&SECRETS, "owner").await.is_some());
}
