//! Kinds that cannot be read are named, and hold up only what needs them, and that not for ever.

use super::*;

const HELD: Duration = Duration::from_secs(30);

/// Pods answer 500, as those whose conversion fails; cluster roles are forbidden.
async fn broken() -> (Fixture, Arc<GarbageCollector>) {
    let f = bare();
    f.api.inject_all(|it| match it.operation.as_str() {
        "LIST pods" => Fault::Status(
            500,
            json!({"reason": "InternalError", "message": "conversion failed"}),
        ),
        "LIST clusterroles" => Fault::Status(403, json!({"reason": "Forbidden", "message": "not yours"})),
        _ => Fault::None,
    });
    let collector = Arc::new(f.build(Options::default(), Scope::default()));
    f.run(Arc::clone(&collector));
    f.sleep(Duration::from_secs(2)).await;
    (f, collector)
}

#[tokio::test(start_paused = true)]
async fn they_delay_nothing_that_does_not_need_them() {
    let (f, _) = broken().await;
    let owner = f.create(&SECRETS, "owner", &[]).await;
    f.dependents(&MAPS, &owner, 20).await;
    let start = f.env.clock.now();
    f.delete(&SECRETS, &owner, Propagation::Background).await;
    f.until(async |f| f.left(&MAPS).await == 0).await;
    assert!(f.env.clock.now() - start <= Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn they_are_named_where_operators_look() {
    let (f, collector) = broken().await;
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
        roles.starts_with(named) && roles.ends_with("not yours"),
        "{roles}"
    );
    collector.health().expect("it works");
    f.sleep(HELD).await;
    for resource in ["pods", "clusterroles.rbac.authorization.k8s.io"] {
        let series = format!("coxswain_garbage_collector_unsynced{{resource=\"{resource}\"}}");
        assert_eq!(f.metric(&series), Some(1.0), "{resource}");
    }
    collector.health().expect("it works");
    // And no more when they can be read.
    f.api.inject_all(|_| Fault::None);
    f.sleep(Duration::from_mins(5)).await;
    assert_eq!(collector.remark(), None);
    let series = "coxswain_garbage_collector_unsynced{resource=\"pods\"}";
    assert_eq!(f.metric(series), None);
}

#[tokio::test(start_paused = true)]
async fn finalizers_wait_for_them_half_a_minute() {
    for (policy, owned) in [
        (Propagation::Foreground, MAPS),
        (Propagation::Orphan, MAPS),
        // Its dependents can be anywhere.
        (Propagation::Orphan, NODES),
    ] {
        let (f, _) = broken().await;
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
        // The first wait is over when they have had their time, the second is for a list of them.
        f.sleep(Duration::from_secs(50)).await;
        assert!(f.get(&kind, "owner").await.is_none(), "{policy:?} {kind}");
        let left = if policy == Propagation::Orphan { 20 } else { 0 };
        assert_eq!(f.left(&MAPS).await, left, "{policy:?} {kind}");
        let series = "coxswain_garbage_collector_unlisted_total{resource=\"pods\"}";
        let unlisted = (policy == Propagation::Orphan).then_some(1.0);
        assert_eq!(f.metric(series), unlisted, "{policy:?} {kind}");
    }
}

/// Each of them may be waited for, but not one after the other.
#[tokio::test(start_paused = true)]
async fn whoever_defines_ever_new_ones_holds_up_nothing() {
    // Nobody serves them: they cannot be listed.
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
        // Its time is over, and that of the first; lists of all were tried for so long, too.
        assert!(f.get(&SECRETS, "owner").await.is_none(), "{policy:?}");
        let left = if policy == Propagation::Orphan { 3 } else { 0 };
        assert_eq!(f.left(&MAPS).await, left, "{policy:?}");
    }
}
