use super::*;

use std::cmp::Ordering;

use serde_json::json;
use steersman_manager::env::Rng;

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).expect("a time")
}

fn ago(seconds: i64) -> Option<Timestamp> {
    Timestamp::from_second(now().as_second() - seconds).ok()
}

/// A running, ready, assigned pod.
fn pod(uid: &str) -> Pod {
    let json = json!({"metadata": {"name": uid, "uid": uid}});
    let mut pod: Pod = serde_json::from_value(json).expect("a pod");
    pod.node = "n".into();
    pod.phase = Phase::Running;
    pod.ready = Ready::Since(ago(1000));
    pod.metadata.creation_timestamp = ago(2000);
    pod
}

fn cost(mut pod: Pod, cost: &str) -> Pod {
    pod.metadata.annotations = [(crate::support::pod::DELETION_COST, cost)].into_iter().collect();
    pod
}

fn order(pods: &[Pod], ranks: &NodeRanks) -> Vec<String> {
    let pods: Vec<Arc<Pod>> = pods.iter().cloned().map(Arc::new).collect();
    // Selecting all pods would not sort them.
    let chosen = pods_to_delete(&pods, pods.len() - 1, ranks, now());
    chosen.iter().map(|it| it.metadata.uid.to_string()).collect()
}

/// Upstream's comparison.
fn reference(a: &Pod, b: &Pod, ranks: &NodeRanks) -> Ordering {
    let bucket_of = |time: Option<Timestamp>| time.map(|it| bucket(Some(it), now()));
    let times = |x: Option<Timestamp>, y: Option<Timestamp>| match (x, y) {
        (None, Some(_)) => Ordering::Less,
        (Some(_), None) => Ordering::Greater,
        _ => bucket_of(x)
            .cmp(&bucket_of(y))
            .then_with(|| a.metadata.uid.cmp(&b.metadata.uid)),
    };
    let rank = |pod: &Pod| ranks.get(&pod.node).copied().unwrap_or(0);
    let decided = (!a.node.is_empty())
        .cmp(&!b.node.is_empty())
        .then(a.phase.cmp(&b.phase))
        .then(a.is_ready().cmp(&b.is_ready()))
        .then(a.deletion_cost().cmp(&b.deletion_cost()))
        .then(rank(b).cmp(&rank(a)));
    if decided.is_ne() {
        return decided;
    }
    if a.is_ready() && b.is_ready() && ready_since(a) != ready_since(b) {
        return times(ready_since(a), ready_since(b));
    }
    let restarts = b
        .restarts
        .cmp(&a.restarts)
        .then(b.sidecar_restarts.cmp(&a.sidecar_restarts));
    if restarts.is_ne() {
        return restarts;
    }
    let (x, y) = (a.metadata.creation_timestamp, b.metadata.creation_timestamp);
    if x == y { Ordering::Equal } else { times(x, y) }
}

#[test]
fn each_criterion_decides_if_earlier_ones_are_equal() {
    let ranks: NodeRanks = [("full".into(), 5), ("n".into(), 1)].into();
    let with = |uid: &str, change: &dyn Fn(&mut Pod)| {
        let mut pod = pod(uid);
        change(&mut pod);
        pod
    };
    // The first of each pair is deleted first, although its uid is larger.
    for (criterion, first, second) in [
        ("unassigned", with("z", &|it| it.node = Text::default()), pod("a")),
        ("pending", with("z", &|it| it.phase = Phase::Pending), pod("a")),
        ("unknown", with("z", &|it| it.phase = Phase::Unknown), pod("a")),
        (
            "pending before unknown",
            with("z", &|it| it.phase = Phase::Pending),
            with("a", &|it| it.phase = Phase::Unknown),
        ),
        ("not ready", with("z", &|it| it.ready = Ready::No), pod("a")),
        ("lower cost", cost(pod("z"), "-1"), pod("a")),
        ("no cost", pod("z"), cost(pod("a"), "1")),
        ("higher rank", with("z", &|it| it.node = "full".into()), pod("a")),
        (
            "ready since an unknown time",
            with("z", &|it| it.ready = Ready::Since(None)),
            pod("a"),
        ),
        (
            "ready for a shorter time",
            with("z", &|it| it.ready = Ready::Since(ago(10))),
            pod("a"),
        ),
        (
            "ready in the future",
            with("z", &|it| it.ready = Ready::Since(ago(-10))),
            with("a", &|it| it.ready = Ready::Since(ago(1))),
        ),
        ("restarted", with("z", &|it| it.restarts = 1), pod("a")),
        (
            "sidecar restarted",
            with("z", &|it| it.sidecar_restarts = 1),
            pod("a"),
        ),
        (
            "unknown creation time",
            with("z", &|it| it.metadata.creation_timestamp = None),
            pod("a"),
        ),
        (
            "younger",
            with("z", &|it| it.metadata.creation_timestamp = ago(1000)),
            pod("a"),
        ),
        // Otherwise the uid decides.
        ("uid", pod("a"), pod("z")),
        (
            "ready time in the same bucket",
            with("a", &|it| it.ready = Ready::Since(ago(1001))),
            pod("z"),
        ),
    ] {
        let expected = [first.metadata.uid.to_string()];
        assert_eq!(
            order(&[first.clone(), second.clone()], &ranks),
            expected,
            "{criterion}"
        );
        assert_eq!(order(&[second, first], &ranks), expected, "{criterion}, reversed");
    }
}

#[test]
fn cycle_of_upstream_comparison_is_ordered() {
    // B and C became ready at different times in the same bucket, A at the same time as B.
    let mut a = pod("a3");
    a.restarts = 1;
    let b = pod("a1");
    let mut c = pod("a2");
    c.ready = Ready::Since(ago(1001));
    let ranks = NodeRanks::new();
    assert!(reference(&a, &b, &ranks).is_lt(), "by restarts");
    assert!(reference(&b, &c, &ranks).is_lt(), "by uid");
    assert!(reference(&c, &a, &ranks).is_lt(), "by uid: a cycle");
    let pods = [a, b, c];
    let expected = order(&pods, &ranks);
    for order_of in [[1, 2, 0], [2, 0, 1], [0, 2, 1], [1, 0, 2], [2, 1, 0]] {
        assert_eq!(order(&order_of.map(|at| pods[at].clone()), &ranks), expected);
    }
}

#[test]
fn order_equals_upstream_where_upstream_is_transitive() {
    let rng = Rng::from_seed(3);
    let pick = |limit: u64| i64::try_from(rng.below(limit)).expect("small");
    let mut compared = 0;
    for round in 0..2000 {
        let ranks: NodeRanks = [("n".into(), 2), ("m".into(), 3)].into();
        let pods: Vec<Pod> = (0..6)
            .map(|i| {
                let mut it = pod(&format!("{:x}{i}", pick(16)));
                it.node = ["", "n", "m", "n"][usize::try_from(pick(4)).expect("small")].into();
                it.phase = [Phase::Pending, Phase::Running, Phase::Running]
                    [usize::try_from(pick(3)).expect("small")];
                // All became ready at the same time or all at different times: otherwise upstream is not transitive.
                it.ready = match (pick(4), round % 2) {
                    (0, _) => Ready::No,
                    (_, 0) => Ready::Since(ago(100)),
                    _ => Ready::Since(ago(100 + 7 * i + pick(7) + pick(2) * 1000)),
                };
                it.restarts = pick(2);
                it.metadata.creation_timestamp = ago(1000 + pick(3) * 3000);
                it
            })
            .collect();
        let sorted = order(&pods, &ranks);
        let find = |uid: &String| {
            let found = pods.iter().find(|it| it.metadata.uid.to_string() == *uid);
            found.expect("a sorted pod")
        };
        for (i, a) in sorted.iter().enumerate() {
            for b in &sorted[i + 1..] {
                assert!(reference(find(a), find(b), &ranks).is_le(), "{a} {b} {pods:#?}");
                compared += 1;
            }
        }
    }
    assert!(compared > 10_000);
}

#[test]
fn count_above_the_number_of_pods_selects_all() {
    let pods: Vec<Arc<Pod>> = ["b", "a"].map(|uid| Arc::new(pod(uid))).into();
    let all = pods_to_delete(&pods, 5, &NodeRanks::new(), now());
    assert_eq!(all.len(), 2);
    assert!(pods_to_delete(&pods, 0, &NodeRanks::new(), now()).is_empty());
}

#[test]
fn ranks_count_active_related_pods_by_node() {
    let on = |name: &str, app: &str, phase: &str, node: &str| {
        let json = json!({"metadata": {"name": name, "uid": name, "labels": {"app": app}},
                          "spec": {"nodeName": node}, "status": {"phase": phase}});
        Arc::new(serde_json::from_value(json).expect("a pod"))
    };
    let selectors: Vec<Selector> = ["web", "old"]
        .map(|app| Selector::from_labels(&[("app", app)].into_iter().collect()).expect("a selector"))
        .into();
    let pods = [
        on("a", "web", "Running", "n"),
        on("b", "old", "Pending", "n"),
        on("c", "web", "Failed", "n"),
        on("d", "else", "Running", "n"),
        on("e", "web", "Running", ""),
    ];
    let ranks = ranks_by_node(&selectors.iter().collect::<Vec<_>>(), &pods);
    assert_eq!(ranks, NodeRanks::from([("n".into(), 2), (Text::default(), 1)]));
}
