use super::*;

use crate::support::annotations::DESIRED_REPLICAS;

use std::sync::Arc;

use serde_json::json;

fn bounds(replicas: i64, surge: i64, unavailable: i64) -> Bounds {
    Bounds {
        replicas,
        surge,
        unavailable,
        rolling: true,
    }
}

/// `desired` and `max` are the annotations of the last scaling.
fn set(name: &str, size: i64, available: i64, (desired, max): (i64, i64)) -> PlannedReplicaSet {
    let json = json!({
        "metadata": {"name": name, "uid": name, "creationTimestamp": format!("2026-01-0{}T00:00:00Z", name.len()),
                     "annotations": {DESIRED_REPLICAS: desired.to_string(), MAX_REPLICAS: max.to_string()}},
        "spec": {"replicas": size}, "status": {"replicas": size, "availableReplicas": available},
    });
    PlannedReplicaSet::of(Arc::new(serde_json::from_value(json).expect("a set")))
}

fn sizes(new: Option<PlannedReplicaSet>, old: Vec<PlannedReplicaSet>, bounds: &Bounds) -> Vec<i64> {
    let mut sets = ReplicaSets { new, old };
    let replicas = sets.all().map(|it| it.object.status.replicas).sum();
    sync(&mut sets, bounds, replicas);
    sets.all().map(|it| it.replicas).collect()
}

#[test]
fn scaling_keeps_the_proportion_of_a_rollout() {
    // 10 replicas, maxSurge 3, maxUnavailable 2; the new pods never become available.
    let old = set("a", 8, 8, (10, 13));
    let new = set("bb", 5, 0, (10, 13));
    let thirty = bounds(30, 3, 2);
    assert!(is_due(
        &ReplicaSets {
            new: Some(new.clone()),
            old: vec![old.clone()]
        },
        &thirty
    ));
    assert_eq!(sizes(Some(new), vec![old], &thirty), [13, 20]);
    // The proportion is relative to the bounds of the last scaling, not to the present number of pods.
    let (old, new) = (set("a", 8, 8, (10, 13)), set("bb", 2, 0, (10, 13)));
    assert_eq!(sizes(Some(new), vec![old], &thirty), [5, 28]);
}

#[test]
fn largest_set_gets_the_rounding_remainder() {
    let sets = || {
        vec![
            set("ccc", 3, 3, (10, 10)),
            set("bb", 3, 3, (10, 10)),
            set("a", 4, 4, (10, 10)),
        ]
    };
    let all = |replicas| sizes(None, sets(), &bounds(replicas, 0, 1));
    assert_eq!(all(11).iter().sum::<i64>(), 11);
    assert_eq!(all(14), [4, 4, 6]);
    assert_eq!(all(5).iter().sum::<i64>(), 5);
    assert_eq!(all(0), [0, 0, 0]);
    assert_eq!(sizes(None, sets(), &bounds(0, 2, 0)), [0, 0, 0]);
}

#[test]
fn missing_annotation_falls_back_to_status_replicas() {
    let bare = |name: &str, size: i64| {
        let json = json!({"metadata": {"name": name, "uid": name}, "spec": {"replicas": size},
                          "status": {"replicas": size}});
        PlannedReplicaSet::of(Arc::new(serde_json::from_value(json).expect("a set")))
    };
    assert_eq!(
        sizes(Some(bare("bb", 2)), vec![bare("a", 4)], &bounds(10, 2, 0)),
        [4, 8]
    );
    let (new, old) = (set("bb", 2, 2, (0, 0)), set("a", 4, 4, (0, 0)));
    assert_eq!(
        sizes(Some(new), vec![old], &bounds(10, 2, 0)),
        [4, 8],
        "0 is not valid"
    );
    let mut unobserved = ReplicaSets {
        new: Some(bare("bb", 2)),
        old: vec![bare("a", 4)],
    };
    sync(&mut unobserved, &bounds(10, 2, 0), 0);
    let sizes: Vec<i64> = unobserved.all().map(|it| it.replicas).collect();
    assert_eq!(sizes, [2, 10], "without a proportion the largest grows");
}

#[test]
fn newest_of_equal_sets_grows_and_oldest_shrinks() {
    let sets = || vec![set("a", 5, 5, (10, 10)), set("bb", 5, 5, (10, 10))];
    assert_eq!(sizes(None, sets(), &bounds(11, 0, 1)), [5, 6]);
    assert_eq!(sizes(None, sets(), &bounds(9, 0, 1)), [4, 5]);
}

#[test]
fn scale_down_removes_unavailable_pods_first() {
    // In proportion the old set would keep 4 of its 8 pods, but 5 must be available.
    let old = set("a", 8, 8, (10, 13));
    let new = set("bb", 5, 0, (10, 13));
    assert_eq!(sizes(Some(new), vec![old], &bounds(5, 2, 0)), [2, 5]);
    // Of several sets, no more pods are spared than necessary.
    for (pods, replicas, expected) in [
        ([(10, 0), (5, 5), (5, 5)], 10, [1, 4, 5]),
        ([(2, 0), (2, 0), (2, 2)], 3, [0, 1, 2]),
    ] {
        let total = pods.iter().map(|(size, _)| size).sum();
        let sets = ["a", "bb", "ccc"].into_iter().zip(pods);
        let sets = sets.map(|(name, (size, available))| set(name, size, available, (total, total)));
        let sizes = sizes(None, sets.collect(), &bounds(replicas, 0, 1));
        assert_eq!(sizes, expected, "{pods:?}");
    }
}

#[test]
fn only_active_set_gets_all_replicas() {
    let six = bounds(6, 2, 1);
    assert_eq!(
        sizes(Some(set("a", 3, 3, (3, 4))), vec![set("bb", 0, 0, (3, 4))], &six),
        [6, 0]
    );
    assert_eq!(
        sizes(Some(set("a", 0, 0, (3, 4))), vec![set("bb", 3, 3, (3, 4))], &six),
        [0, 6]
    );
    assert_eq!(
        sizes(Some(set("a", 0, 0, (0, 0))), vec![set("bb", 0, 0, (0, 0))], &six),
        [6, 0]
    );
    let none: Vec<PlannedReplicaSet> = vec![set("a", 0, 0, (0, 0)), set("bb", 0, 0, (0, 0))];
    assert_eq!(sizes(None, none, &six), [0, 6], "the newest");
    assert_eq!(
        sizes(Some(set("a", 3, 3, (6, 8))), vec![], &six),
        [6],
        "another client changed the size"
    );
    assert_eq!(sizes(None, vec![], &six), [0; 0]);
}

#[test]
fn manually_scaled_set_gets_its_annotations() {
    let mut sets = ReplicaSets {
        new: Some(set("a", 6, 6, (3, 4))),
        old: vec![],
    };
    let six = bounds(6, 2, 1);
    assert!(is_due(&sets, &six));
    sync(&mut sets, &six, 6);
    let new = sets.new.expect("a ReplicaSet");
    assert_eq!(new.annotations.get(DESIRED_REPLICAS).map(|it| &**it), Some("6"));
}

#[test]
fn saturated_new_set_scales_old_sets_to_zero() {
    let new = set("a", 6, 6, (6, 8));
    assert_eq!(
        sizes(Some(new), vec![set("bb", 3, 3, (5, 8))], &bounds(6, 2, 1)),
        [6, 0]
    );
}

#[test]
fn old_sets_keep_pods_until_the_new_set_is_saturated() {
    for new in [
        set("a", 6, 5, (6, 8)),
        set("a", 6, 6, (5, 8)),
        set("a", 7, 6, (6, 8)),
    ] {
        let old = set("bb", 3, 3, (5, 8));
        let sizes = sizes(Some(new), vec![old], &bounds(6, 2, 1));
        assert_eq!(sizes, [5, 3]);
    }
}

#[test]
fn recreate_is_not_scaled_in_proportion() {
    let sets = ReplicaSets {
        new: Some(set("a", 2, 2, (3, 3))),
        old: vec![set("bb", 1, 1, (3, 3))],
    };
    let recreate = Bounds {
        rolling: false,
        ..bounds(5, 0, 0)
    };
    assert!(!is_due(&sets, &recreate), "the rollout proceeds");
    assert_eq!(sizes(sets.new, sets.old, &recreate), [2, 1]);
}

#[test]
fn invalid_annotations_are_ignored() {
    let annotated = |text: &str| {
        let json = json!({"metadata": {"name": "a", "uid": "a", "annotations": {DESIRED_REPLICAS: text, MAX_REPLICAS: text}},
                          "spec": {"replicas": 5}, "status": {"replicas": 5, "availableReplicas": 5}});
        PlannedReplicaSet::of(Arc::new(serde_json::from_value(json).expect("a set")))
    };
    for text in ["", "x", "9999999999999999999999"] {
        let sets = ReplicaSets {
            new: Some(annotated(text)),
            old: vec![annotated(text)],
        };
        assert!(!is_due(&sets, &bounds(3, 1, 1)), "{text}");
        let all = sizes(Some(annotated(text)), vec![annotated(text)], &bounds(18, 2, 1));
        assert_eq!(all.iter().sum::<i64>(), 20, "{text}");
    }
    let large = i64::from(i32::MAX);
    let huge = ReplicaSets {
        new: Some(set("a", large, 0, (large, large))),
        old: vec![set("bb", 1, 0, (large, 1))],
    };
    let mut huge = huge;
    sync(&mut huge, &bounds(large - 1, 1, 1), large);
    assert_eq!(huge.replicas(), large);
}
