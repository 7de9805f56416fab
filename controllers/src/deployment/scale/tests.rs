use super::*;

use crate::support::annotations::DESIRED;

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

/// Its size, how many of them serve, and for which number of pods and limit it was scaled.
fn set(name: &str, size: i64, available: i64, (desired, max): (i64, i64)) -> Set {
    let json = json!({
        "metadata": {"name": name, "uid": name, "creationTimestamp": format!("2026-01-0{}T00:00:00Z", name.len()),
                     "annotations": {DESIRED: desired.to_string(), MAX: max.to_string()}},
        "spec": {"replicas": size}, "status": {"replicas": size, "availableReplicas": available},
    });
    Set::of(Arc::new(serde_json::from_value(json).expect("a set")))
}

fn sizes(new: Option<Set>, old: Vec<Set>, bounds: &Bounds) -> Vec<i64> {
    let mut sets = Sets { new, old };
    let told = sets.all().map(|it| it.object.status.replicas).sum();
    sync(&mut sets, bounds, told);
    sets.all().map(|it| it.replicas).collect()
}

#[test]
fn a_rollout_that_is_half_done_stays_so() {
    // 10 pods, surge 3, 2 may be missing; the new ones never come to serve.
    let old = set("a", 8, 8, (10, 13));
    let new = set("bb", 5, 0, (10, 13));
    let thirty = bounds(30, 3, 2);
    assert!(is_due(
        &Sets {
            new: Some(new.clone()),
            old: vec![old.clone()]
        },
        &thirty
    ));
    assert_eq!(sizes(Some(new), vec![old], &thirty), [13, 20]);
}

#[test]
fn what_rounding_leaves_goes_to_the_largest() {
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
}

#[test]
fn without_a_note_what_there_is_in_all_counts() {
    let bare = |name: &str, size: i64| {
        let json = json!({"metadata": {"name": name, "uid": name}, "spec": {"replicas": size},
                          "status": {"replicas": size}});
        Set::of(Arc::new(serde_json::from_value(json).expect("a set")))
    };
    assert_eq!(
        sizes(Some(bare("bb", 2)), vec![bare("a", 4)], &bounds(10, 2, 0)),
        [4, 8]
    );
}

#[test]
fn of_equal_ones_the_newest_grows_and_the_oldest_shrinks() {
    let sets = || vec![set("a", 5, 5, (10, 10)), set("bb", 5, 5, (10, 10))];
    assert_eq!(sizes(None, sets(), &bounds(11, 0, 1)), [5, 6]);
    assert_eq!(sizes(None, sets(), &bounds(9, 0, 1)), [4, 5]);
}

#[test]
fn pods_that_serve_are_spared_where_there_are_others() {
    // By shares the old one would keep 4 of its 8, and 5 have to serve.
    let old = set("a", 8, 8, (10, 13));
    let new = set("bb", 5, 0, (10, 13));
    assert_eq!(sizes(Some(new), vec![old], &bounds(5, 2, 0)), [2, 5]);
}

#[test]
fn one_alone_has_all() {
    let wanted = bounds(6, 2, 1);
    assert_eq!(
        sizes(
            Some(set("a", 3, 3, (3, 4))),
            vec![set("bb", 0, 0, (3, 4))],
            &wanted
        ),
        [6, 0]
    );
    assert_eq!(
        sizes(
            Some(set("a", 0, 0, (3, 4))),
            vec![set("bb", 3, 3, (3, 4))],
            &wanted
        ),
        [0, 6]
    );
    assert_eq!(
        sizes(
            Some(set("a", 0, 0, (0, 0))),
            vec![set("bb", 0, 0, (0, 0))],
            &wanted
        ),
        [6, 0]
    );
    let none: Vec<Set> = vec![set("a", 0, 0, (0, 0)), set("bb", 0, 0, (0, 0))];
    assert_eq!(sizes(None, none, &wanted), [0, 6], "the newest");
    assert_eq!(sizes(None, vec![], &wanted), [0; 0]);
}

#[test]
fn one_that_was_scaled_by_hand_learns_of_it() {
    let mut sets = Sets {
        new: Some(set("a", 6, 6, (3, 4))),
        old: vec![],
    };
    let wanted = bounds(6, 2, 1);
    assert!(is_due(&sets, &wanted));
    sync(&mut sets, &wanted, 6);
    let new = sets.new.expect("it is there");
    assert_eq!(new.annotations.get(DESIRED).map(|it| &**it), Some("6"));
}

#[test]
fn when_the_new_one_is_all_that_is_wanted_the_others_go() {
    let new = set("a", 6, 6, (6, 8));
    assert_eq!(
        sizes(Some(new), vec![set("bb", 3, 3, (5, 8))], &bounds(6, 2, 1)),
        [6, 0]
    );
}

#[test]
fn without_a_rolling_update_there_are_no_shares() {
    let sets = Sets {
        new: Some(set("a", 2, 2, (3, 3))),
        old: vec![set("bb", 1, 1, (3, 3))],
    };
    let recreate = Bounds {
        rolling: false,
        ..bounds(5, 0, 0)
    };
    assert!(!is_due(&sets, &recreate), "that rollout goes on");
    assert_eq!(sizes(sets.new, sets.old, &recreate), [2, 1]);
}

#[test]
fn numbers_that_are_none_count_for_nothing() {
    let odd = |text: &str| {
        let json = json!({"metadata": {"name": "a", "uid": "a", "annotations": {DESIRED: text, MAX: text}},
                          "spec": {"replicas": 5}, "status": {"replicas": 5, "availableReplicas": 5}});
        Set::of(Arc::new(serde_json::from_value(json).expect("a set")))
    };
    for text in ["", "x", "9999999999999999999999"] {
        let sets = Sets {
            new: Some(odd(text)),
            old: vec![odd(text)],
        };
        assert!(!is_due(&sets, &bounds(3, 1, 1)), "{text}");
        let all = sizes(Some(odd(text)), vec![odd(text)], &bounds(18, 2, 1));
        assert_eq!(all.iter().sum::<i64>(), 20, "{text}");
    }
    let large = i64::from(i32::MAX);
    let huge = Sets {
        new: Some(set("a", large, 0, (large, large))),
        old: vec![set("bb", 1, 0, (large, 1))],
    };
    let mut huge = huge;
    sync(&mut huge, &bounds(large - 1, 1, 1), large);
    assert_eq!(huge.replicas(), large);
}
