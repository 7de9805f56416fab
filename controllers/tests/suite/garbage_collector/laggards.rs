//! Kinds that cannot be read are named, and hold up only what needs them, and that not for ever.

use super::*;

const HELD: Duration = Duration::from_secs(30);

/// Pods answer 500, as those whose conversion fails; cluster roles are forbidden.
async fn broken() -> (Bed, Arc<GarbageCollector>) {
    let bed = bare();
    bed.door.judge(|it| match it.what.as_str() {
        "LIST pods" => Answer::Refused(
            500,
            json!({"reason": "InternalError", "message": "conversion failed"}),
        ),
        "LIST clusterroles" => Answer::Refused(403, json!({"reason": "Forbidden", "message": "not yours"})),
        _ => Answer::Done,
    });
    let collector = Arc::new(bed.build(Options::default(), Scope::default()));
    bed.run(Arc::clone(&collector));
    bed.sleep(Duration::from_secs(2)).await;
    (bed, collector)
}

#[tokio::test(start_paused = true)]
async fn they_delay_nothing_that_does_not_need_them() {
    let (bed, _) = broken().await;
    let owner = bed.create(&SECRETS, "owner", &[]).await;
    bed.dependents(&MAPS, &owner, 20).await;
    let start = bed.env.clock.now();
    bed.delete(&SECRETS, &owner, Propagation::Background).await;
    bed.until(async |bed| bed.left(&MAPS).await == 0).await;
    assert!(bed.env.clock.now() - start <= Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn they_are_named_where_operators_look() {
    let (bed, collector) = broken().await;
    let remark = collector.remark().unwrap_or_default();
    let remarks: Vec<_> = remark.split("; ").collect();
    let [pods, roles] = remarks[..] else {
        panic!("{remark}");
    };
    assert!(
        pods.starts_with("pods retrying: ") && pods.ends_with("conversion failed"),
        "{pods}"
    );
    let named = "clusterroles.rbac.authorization.k8s.io waiting: ";
    assert!(
        roles.starts_with(named) && roles.ends_with("not yours"),
        "{roles}"
    );
    collector.health().expect("it works");
    bed.sleep(HELD).await;
    for resource in ["pods", "clusterroles.rbac.authorization.k8s.io"] {
        let series = format!("coxswain_garbage_collector_unsynced{{resource=\"{resource}\"}}");
        assert_eq!(bed.metric(&series), Some(1.0), "{resource}");
    }
    collector.health().expect("it works");
    // And no more when they can be read.
    bed.door.judge(|_| Answer::Done);
    bed.sleep(Duration::from_mins(5)).await;
    assert_eq!(collector.remark(), None);
    let series = "coxswain_garbage_collector_unsynced{resource=\"pods\"}";
    assert_eq!(bed.metric(series), None);
}

#[tokio::test(start_paused = true)]
async fn finalizers_wait_for_them_half_a_minute() {
    for (policy, owned) in [
        (Propagation::Foreground, MAPS),
        (Propagation::Orphan, MAPS),
        // Its dependents can be anywhere.
        (Propagation::Orphan, NODES),
    ] {
        let (bed, _) = broken().await;
        let kind = if owned == NODES { NODES } else { SECRETS };
        let owner = bed.create(&kind, "owner", &[]).await;
        for i in 0..20 {
            bed.create(&MAPS, &format!("dependent-{i}"), &[blocking(&owner)])
                .await;
        }
        bed.settle().await;
        bed.delete(&kind, &owner, policy).await;
        bed.sleep(Duration::from_secs(20)).await;
        assert!(bed.get(&kind, "owner").await.is_some(), "{policy:?} {kind}");
        // The first wait is over when they have had their time, the second is for a list of them.
        bed.sleep(Duration::from_secs(50)).await;
        assert!(bed.get(&kind, "owner").await.is_none(), "{policy:?} {kind}");
        let left = if policy == Propagation::Orphan { 20 } else { 0 };
        assert_eq!(bed.left(&MAPS).await, left, "{policy:?} {kind}");
        let series = "coxswain_garbage_collector_unlisted_total{resource=\"pods\"}";
        let unlisted = (policy == Propagation::Orphan).then_some(1.0);
        assert_eq!(bed.metric(series), unlisted, "{policy:?} {kind}");
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
        let bed = bed().await;
        let owner = bed.create(&SECRETS, "owner", &[]).await;
        for i in 0..3 {
            bed.create(&MAPS, &format!("dependent-{i}"), &[blocking(&owner)])
                .await;
        }
        bed.settle().await;
        let mut all = vec![MAPS, SECRETS, PODS, NODES, ROLES, SETS];
        for (n, new) in NEW.into_iter().enumerate() {
            all.push(new);
            bed.kinds.send_replace(Some(kinds_of(&all)));
            bed.sleep(Duration::from_secs(1)).await;
            if n == 0 {
                bed.delete(&SECRETS, &owner, policy).await;
            }
            bed.sleep(Duration::from_secs(9)).await;
        }
        // Its time is over, and that of the first; lists of all were tried for so long, too.
        assert!(bed.get(&SECRETS, "owner").await.is_none(), "{policy:?}");
        let left = if policy == Propagation::Orphan { 3 } else { 0 };
        assert_eq!(bed.left(&MAPS).await, left, "{policy:?}");
    }
}
