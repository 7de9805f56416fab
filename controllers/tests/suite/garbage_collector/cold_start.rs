//! A process that starts while discovery is broken evaluates nothing before it has read both discovery roots.

use super::*;

const MINUTE: Duration = Duration::from_mins(1);
const BOTH: [Propagation; 2] = [Propagation::Orphan, Propagation::Foreground];

impl Fixture {
    /// Runs a collector that reads discovery itself.
    fn discover(&self) -> Arc<GarbageCollector> {
        let (env, registry) = (&self.env, &self.registry);
        let reader = self.transport.reader("reader", None);
        let caches = Caches::new(env, reader, Scope::default(), registry).expect("caches");
        let discovery = self.transport.reader("discovery", None);
        let discovery = Discovery::start(env, &caches, discovery, registry).expect("discovery");
        let events = self.transport.unfenced("events", None);
        let recorder = Recorder::start(env, events, "gc", "test", registry).expect("a recorder");
        let client = self.transport.reader("generic-garbage-collector", None);
        let options = Options::default();
        let collector = GarbageCollector::build(env, &caches, client, registry, recorder, discovery, options);
        let collector = Arc::new(collector.expect("a collector"));
        self.run(Arc::clone(&collector));
        collector
    }

    /// Creates an owner with dependents in the core group and in `apps`, and garbage; deletes the owner.
    async fn create_family(&self, policy: Propagation) {
        let owner = self.create(&SECRETS, "owner", &[]).await;
        self.create(&MAPS, "dependent-0", &[blocking(&owner)]).await;
        self.create(&SETS, "dependent-0", &[blocking(&owner)]).await;
        self.create(&MAPS, "garbage", &[dangling(&SETS, "never")]).await;
        self.delete(&SECRETS, &owner, policy).await;
    }

    async fn is_untouched(&self) -> bool {
        self.api.writes() == 0 && self.get(&SECRETS, "owner").await.is_some()
    }

    /// Waits until the owner and the garbage are collected; orphans stay without an ownerReference.
    async fn converges(&self, policy: Propagation) {
        self.until(async |f| {
            f.get(&SECRETS, "owner").await.is_none() && f.get(&MAPS, "garbage").await.is_none()
        })
        .await;
        self.sleep(5 * MINUTE).await;
        for resource in [MAPS, SETS] {
            let left = self.get(&resource, "dependent-0").await;
            assert_eq!(
                left.is_some(),
                policy == Propagation::Orphan,
                "{policy:?} {resource}"
            );
            let references = left.and_then(|it| it["metadata"].get("ownerReferences").cloned());
            assert_eq!(references, None, "{resource}");
        }
    }

    /// Injects faults from now on for `time`.
    fn inject_for(&self, time: Duration, fault: impl Fn(&Recorded) -> Effect + Send + Sync + 'static) {
        let (clock, end) = (self.env.clock.clone(), self.env.clock.now() + time);
        self.api.inject_all(move |it| {
            if clock.now() < end {
                fault(it)
            } else {
                Effect::Pass
            }
        });
    }
}

#[tokio::test(start_paused = true)]
async fn collector_without_both_discovery_roots_evaluates_nothing() {
    let aggregated = r#"{"kind":"APIGroupDiscoveryList","items":[{"metadata":{"name":"ap"#;
    let faults = [
        status_reply(503, json!({"reason": "ServiceUnavailable"})),
        Effect::Hang,
        Effect::LoseRequest,
        text_reply(200, "garbage"),
        text_reply(200, aggregated),
        text_reply(200, r#"{"kind":"APIGroupList","groups":[]}"#),
        text_reply(404, "404 page not found"),
    ];
    for policy in BOTH {
        for root in ["/apis", "/api"] {
            for fault in &faults {
                let f = unstarted();
                f.create_family(policy).await;
                let injected = fault.clone();
                f.inject_for(MINUTE, move |it| {
                    if it.operation == format!("DISCOVER {root}") {
                        injected.clone()
                    } else {
                        Effect::Pass
                    }
                });
                let collector = f.discover();
                f.sleep(Duration::from_secs(59)).await;
                assert!(
                    f.is_untouched().await,
                    "{policy:?} {fault:?} {:?}",
                    f.api.counts()
                );
                assert_eq!(collector.unsynced().len(), 1);
                assert!(collector.remark().is_some_and(|it| it.contains(root)));
                f.converges(policy).await;
                assert_eq!(collector.remark(), None);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn discovery_root_that_fails_once_only_delays_the_start() {
    for policy in BOTH {
        for root in ["/apis", "/api"] {
            let f = unstarted();
            f.create_family(policy).await;
            f.api.inject_all(move |it| match it.before {
                0 if it.operation == format!("DISCOVER {root}") => {
                    status_reply(415, json!({"reason": "UnsupportedMediaType"}))
                }
                _ => Effect::Pass,
            });
            f.discover();
            f.converges(policy).await;
        }
    }
}

/// Discovery lists the group `apps` but its document is stale or unreadable.
#[tokio::test(start_paused = true)]
async fn undescribed_group_version_counts_as_unsynced() {
    let faults = [
        status_reply(503, json!({"reason": "ServiceUnavailable"})),
        Effect::Hang,
        text_reply(
            200,
            r#"{"kind":"APIResourceList","groupVersion":"apps/v1","resour"#,
        ),
    ];
    for policy in BOTH {
        for fault in &faults {
            let f = unstarted();
            f.api.disable_aggregated_discovery();
            f.create_family(policy).await;
            let injected = fault.clone();
            f.inject_for(Duration::from_secs(20), move |it| match it.operation.as_str() {
                "DISCOVER /apis/apps/v1" => injected.clone(),
                _ => Effect::Pass,
            });
            let collector = f.discover();
            f.sleep(Duration::from_secs(19)).await;
            assert!(f.get(&SECRETS, "owner").await.is_some(), "{policy:?} {fault:?}");
            assert_eq!(f.api.count("PATCH secrets"), 0);
            let remark = collector.remark().unwrap_or_default();
            assert!(remark.contains("apps/v1"), "{remark}");
            let unsynced = "steersman_garbage_collector_unsynced{resource=\"*.apps\"}";
            assert_eq!(f.metric(unsynced), Some(1.0));
            f.converges(policy).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn group_version_never_described_delays_finalizers_for_a_bounded_time() {
    for policy in BOTH {
        let f = unstarted();
        f.api.disable_aggregated_discovery();
        f.create_family(policy).await;
        f.api.inject_all(|it| match it.operation.as_str() {
            "DISCOVER /apis/apps/v1" => status_reply(503, json!({"reason": "ServiceUnavailable"})),
            _ => Effect::Pass,
        });
        f.discover();
        f.sleep(Duration::from_secs(28)).await;
        assert!(f.get(&SECRETS, "owner").await.is_some(), "{policy:?}");
        f.until(async |f| f.get(&SECRETS, "owner").await.is_none()).await;
        if policy == Propagation::Orphan {
            let unlisted = "steersman_garbage_collector_unlisted_total{resource=\"*.apps\"}";
            assert_eq!(f.metric(unlisted), Some(1.0));
            // Once the group is described, its dependents are orphaned too.
            f.api.inject_all(|_| Effect::Pass);
            f.sleep(HOUR).await;
            let left = f.get(&SETS, "dependent-0").await.expect("an orphan");
            assert_eq!(left["metadata"].get("ownerReferences"), None);
        }
    }
}

/// A failed or truncated list leaves its resource unsynced; a resource that can never be listed is reported and skipped in
/// the end.
#[tokio::test(start_paused = true)]
async fn malformed_list_removes_no_finalizer_and_deletes_nothing_owned() {
    let faults = [
        text_reply(
            200,
            r#"{"kind":"PartialObjectMetadataList","metadata":{"resourceVersion":"5"},"items":[{"#,
        ),
        text_reply(200, "{}"),
        status_reply(
            500,
            json!({"reason": "InternalError", "message": "conversion failed"}),
        ),
        Effect::Hang,
    ];
    for policy in BOTH {
        for fault in &faults {
            let f = unstarted();
            f.create_family(policy).await;
            let alive = f.create(&SECRETS, "alive", &[]).await;
            f.create(&SETS, "dependent-1", &[reference(&alive)]).await;
            let injected = fault.clone();
            f.inject_for(Duration::from_secs(20), move |it| match it.operation.as_str() {
                "LIST replicasets" => injected.clone(),
                _ => Effect::Pass,
            });
            f.discover();
            f.sleep(Duration::from_secs(19)).await;
            assert_eq!(f.api.count("PATCH secrets"), 0, "{policy:?} {fault:?}");
            f.converges(policy).await;
            assert!(f.get(&SETS, "dependent-1").await.is_some());
        }
        let f = unstarted();
        f.define_widgets().await;
        let owner = f.create(&SECRETS, "owner", &[]).await;
        f.create(&WIDGETS, "dependent-0", &[blocking(&owner)]).await;
        f.delete(&SECRETS, &owner, policy).await;
        f.api.inject_all(|it| match it.operation.as_str() {
            "LIST widgets" => status_reply(500, json!({"reason": "InternalError"})),
            _ => Effect::Pass,
        });
        let collector = f.discover();
        f.sleep(Duration::from_secs(28)).await;
        assert!(f.get(&SECRETS, "owner").await.is_some(), "{policy:?}");
        f.until(async |f| f.get(&SECRETS, "owner").await.is_none()).await;
        let remark = collector.remark().unwrap_or_default();
        assert!(remark.contains("widgets.test.dev"), "{remark}");
        assert_eq!(
            f.metric(SYNC_ERRORS),
            Some(1.0),
            "the resource did not sync in time"
        );
        let lists = f
            .api
            .all_recorded()
            .iter()
            .filter(|it| it.operation == "LIST widgets")
            .count();
        assert!(lists < 60, "{lists}");
    }
}

const SYNC_ERRORS: &str = "garbagecollector_controller_resources_sync_error_total";
