//! Resources that cannot be listed are reported; they delay finalizers only, and for a bounded time.

use super::*;

const FINALIZER_DELAY: Duration = Duration::from_secs(30);

/// Lists of pods fail with 500, as after a failed conversion; cluster roles are forbidden.
async fn with_unreadable_resources() -> (Fixture, Arc<GarbageCollector>) {
    let f = unstarted();
    f.api.inject_all(|it| match it.operation.as_str() {
        "LIST pods" => status_reply(
            500,
            json!({"reason": "InternalError", "message": "conversion failed"}),
        ),
        "LIST clusterroles" => status_reply(403, json!({"reason": "Forbidden", "message": "not allowed"})),
        _ => Effect::Pass,
    });
    let collector = Arc::new(f.build(Options::default(), Scope::default()));
    f.run(Arc::clone(&collector));
    f.sleep(Duration::from_secs(2)).await;
    (f, collector)
}

#[tokio::test(start_paused = true)]
async fn unreadable_resources_do_not_delay_background_deletion() {
    let (f, _) = with_unreadable_resources().await;
    let owner = f.create_owner("owner", 20).await;
    let start = f.env.clock.now();
    f.delete(&SECRETS, &owner, Propagation::Background).await;
    f.until(async |f| f.left(&MAPS).await == 0).await;
    assert!(f.env.clock.now() - start <= Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn unreadable_resources_are_reported_in_health_and_metrics() {
    let (f, collector) = with_unreadable_resources().await;
    let remark = collector.remark().unwrap_or_default();
    let remarks: Vec<_> = remark.split("; ").collect();
    let [pods, roles] = remarks[..] else {
        panic!("{remark}");
    };
    assert!(
        pods.starts_with("pods retrying: ") && pods.ends_with("conversion failed"),
        "{pods}"
    );
    let named = "clusterroles.rbac.authorization.k8s.io unavailable: ";
    assert!(
        roles.starts_with(named) && roles.ends_with("not allowed"),
        "{roles}"
    );
    collector.health().expect("healthy");
    f.sleep(FINALIZER_DELAY).await;
    for resource in ["pods", "clusterroles.rbac.authorization.k8s.io"] {
        let series = format!("steersman_garbage_collector_unsynced{{resource=\"{resource}\"}}");
        assert_eq!(f.metric(&series), Some(1.0), "{resource}");
    }
    collector.health().expect("healthy");
    f.api.inject_all(|_| Effect::Pass);
    f.sleep(Duration::from_mins(5)).await;
    assert_eq!(collector.remark(), None);
    let series = "steersman_garbage_collector_unsynced{resource=\"pods\"}";
    assert_eq!(f.metric(series), None);
}

#[tokio::test(start_paused = true)]
async fn unreadable_resources_delay_finalizers_for_half_a_minute() {
    for (policy, owned) in [
        (Propagation::Foreground, MAPS),
        (Propagation::Orphan, MAPS),
        // A cluster-scoped owner has dependents in any namespace.
        (Propagation::Orphan, NODES),
    ] {
        let (f, _) = with_unreadable_resources().await;
        let kind = if owned == NODES { NODES } else { SECRETS };
        let owner = f.create(&kind, "owner", &[]).await;
        for i in 0..20 {
            f.create(&MAPS, &format!("dependent-{i}"), &[blocking(&owner)])
                .await;
        }
        f.settle().await;
        f.delete(&kind, &owner, policy).await;
        f.sleep(Duration::from_secs(20)).await;
        assert!(f.get(&kind, "owner").await.is_some(), "{policy:?} {kind}");
        // First the sync times out, then the live list.
        f.sleep(Duration::from_secs(50)).await;
        assert!(f.get(&kind, "owner").await.is_none(), "{policy:?} {kind}");
        let left = if policy == Propagation::Orphan { 20 } else { 0 };
        assert_eq!(f.left(&MAPS).await, left, "{policy:?} {kind}");
        let series = "steersman_garbage_collector_unlisted_total{resource=\"pods\"}";
        let unlisted = if policy == Propagation::Orphan { 1.0 } else { 0.0 };
        assert_eq!(f.metric(series), Some(unlisted), "{policy:?} {kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn new_unreadable_resources_do_not_prolong_the_delay_of_finalizers() {
    // The API server does not serve these.
    const NEW: [Resource; 6] = [
        Resource::namespaced("new.test.dev", "v1", "firsts", "First"),
        Resource::namespaced("new.test.dev", "v1", "seconds", "Second"),
        Resource::namespaced("new.test.dev", "v1", "thirds", "Third"),
        Resource::namespaced("new.test.dev", "v1", "fourths", "Fourth"),
        Resource::namespaced("new.test.dev", "v1", "fifths", "Fifth"),
        Resource::namespaced("new.test.dev", "v1", "sixths", "Sixth"),
    ];
    for policy in [Propagation::Foreground, Propagation::Orphan] {
        let f = fixture().await;
        let owner = f.create(&SECRETS, "owner", &[]).await;
        for i in 0..3 {
            f.create(&MAPS, &format!("dependent-{i}"), &[blocking(&owner)])
                .await;
        }
        f.settle().await;
        let mut all = vec![MAPS, SECRETS, PODS, NODES, ROLES, SETS];
        for (n, new) in NEW.into_iter().enumerate() {
            all.push(new);
            f.kinds.send_replace(Some(kinds_of(&all)));
            f.sleep(Duration::from_secs(1)).await;
            if n == 0 {
                f.delete(&SECRETS, &owner, policy).await;
            }
            f.sleep(Duration::from_secs(9)).await;
        }
        assert!(f.get(&SECRETS, "owner").await.is_none(), "{policy:?}");
        let left = if policy == Propagation::Orphan { 3 } else { 0 };
        assert_eq!(f.left(&MAPS).await, left, "{policy:?}");
    }
}
