//! Step by step: the test is the kubelet, and nothing happens before it says so.

use coxswain_tests::Test;
use coxswain_tests::fixtures::with;
use serde_json::Value;

use super::objects::{counter_of, deployment, elsewhere, image, said, steps};
use super::stage::{Deployment, Stage};

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    vec![
        staged!(by_one_more_and_one_less),
        staged!(by_one_more),
        staged!(by_one_less),
        staged!(those_that_are_not_available_go_first),
        staged!(the_oldest_go_first),
        staged!(terminating_pods_do_not_count),
    ]
}

/// A Deployment whose pods are all Ready.
async fn begun(s: &Stage, replicas: u32, change: Value) -> Deployment {
    let body = with(with(deployment("a", replicas), elsewhere()), change);
    let d = s.create(body).await;
    s.make_ready("i:1", usize::try_from(replicas).expect("few")).await;
    s.complete(&d).await;
    d
}

/// Another image, in a later second: of one second, their names would tell which is older.
async fn roll(s: &Stage, d: &Deployment, to: &str) {
    for set in s.sets(d).await {
        s.later_than(&set).await;
    }
    s.change(d, image(to)).await;
}

async fn by_one_more_and_one_less(s: Stage) {
    let d = begun(&s, 4, steps(1, 1)).await;
    roll(&s, &d, "i:2").await;
    let now = s.sized(&d, &[("i:1", 3), ("i:2", 2)]).await;
    assert_eq!(said(&now, "Available")[0], "True", "{now:#}");
    for sizes in [[2, 3], [1, 4], [0, 4]] {
        s.make_ready("i:2", 1).await;
        s.sized(&d, &[("i:1", sizes[0]), ("i:2", sizes[1])]).await;
    }
    s.make_ready("i:2", 1).await;
    s.complete(&d).await;
}

async fn by_one_more(s: Stage) {
    let d = begun(&s, 2, steps(1, 0)).await;
    roll(&s, &d, "i:2").await;
    s.sized(&d, &[("i:1", 2), ("i:2", 1)]).await;
    s.make_ready("i:2", 1).await;
    s.sized(&d, &[("i:1", 1), ("i:2", 2)]).await;
    s.make_ready("i:2", 1).await;
    s.complete(&d).await;
}

async fn by_one_less(s: Stage) {
    let d = begun(&s, 2, steps(0, 1)).await;
    roll(&s, &d, "i:2").await;
    s.sized(&d, &[("i:1", 1), ("i:2", 1)]).await;
    s.make_ready("i:2", 1).await;
    s.sized(&d, &[("i:1", 0), ("i:2", 2)]).await;
    s.make_ready("i:2", 1).await;
    s.complete(&d).await;
}

/// Of a newer template too: an older one that works is worth more.
async fn those_that_are_not_available_go_first(s: Stage) {
    let d = begun(&s, 4, steps(2, 0)).await;
    roll(&s, &d, "i:2").await;
    s.sized(&d, &[("i:1", 4), ("i:2", 2)]).await;
    s.make_ready("i:2", 1).await;
    s.sized(&d, &[("i:1", 3), ("i:2", 3)]).await;
    roll(&s, &d, "i:3").await;
    s.sized(&d, &[("i:1", 3), ("i:2", 1), ("i:3", 2)]).await;
    s.make_ready("i:3", 2).await;
    s.sized(&d, &[("i:1", 1), ("i:2", 1), ("i:3", 4)]).await;
}

async fn the_oldest_go_first(s: Stage) {
    let d = begun(&s, 4, steps(2, 0)).await;
    roll(&s, &d, "i:2").await;
    s.sized(&d, &[("i:1", 4), ("i:2", 2)]).await;
    s.make_ready("i:2", 2).await;
    s.sized(&d, &[("i:1", 2), ("i:2", 4)]).await;
    s.make_ready("i:2", 1).await;
    s.sized(&d, &[("i:1", 1), ("i:2", 4)]).await;
    roll(&s, &d, "i:3").await;
    // The one that is not available.
    s.sized(&d, &[("i:1", 1), ("i:2", 3), ("i:3", 2)]).await;
    s.make_ready("i:3", 2).await;
    s.sized(&d, &[("i:1", 0), ("i:2", 2), ("i:3", 4)]).await;
}

async fn terminating_pods_do_not_count(s: Stage) {
    let d = begun(&s, 2, steps(0, 1)).await;
    roll(&s, &d, "i:2").await;
    s.sized(&d, &[("i:1", 1), ("i:2", 1)]).await;
    // Nobody has ended the first one, and another is there already.
    s.has_pods("i:2", 1).await;
    let all = s.all_pods().await;
    assert_eq!(all.len(), 3, "{all:#?}");
    s.status(&d, "they are not counted", |status| {
        counter_of(status, "updatedReplicas") == 1 && counter_of(status, "replicas") == 2
    })
    .await;
}
