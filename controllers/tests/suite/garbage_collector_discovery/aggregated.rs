//! Aggregated discovery.

use super::{SECOND, fixture, published};

#[tokio::test(start_paused = true)]
async fn aggregated_discovery_publishes_the_same_kinds() {
    let unaggregated = published().await;
    let f = fixture(|api| api.aggregate(&[])).await;
    f.within(SECOND, "published", || f.discovery.kinds().borrow().is_some())
        .await;
    assert_eq!(f.collected(), unaggregated.collected());
    assert_eq!(f.api.take_requests().0, ["/api", "/apis"]);
    assert_eq!(f.sync_errors(), 0);
}

#[tokio::test(start_paused = true)]
async fn stale_group_version_keeps_its_last_description() {
    let f = fixture(|api| api.aggregate(&[])).await;
    f.within(SECOND, "published", || f.discovery.kinds().borrow().is_some())
        .await;
    let all = f.collected();
    f.api.aggregate(&["apps/v1", "v1"]);
    f.sleep(900 * SECOND).await;
    assert_eq!(f.collected(), all);
    let problems = f.discovery.problems();
    assert!(
        problems.len() == 2
            && problems[0].starts_with("apps/v1 since")
            && problems[1].starts_with("v1 since"),
        "{problems:?}"
    );
    assert_eq!(
        f.undescribed(),
        Vec::<String>::new(),
        "the last description counts"
    );
    assert_eq!(f.sync_errors(), 0, "KCM does not count them either");
    f.api.aggregate(&[]);
    f.within(31 * SECOND, "recovered", || f.discovery.problems().is_empty())
        .await;
}

#[tokio::test(start_paused = true)]
async fn server_upgrade_to_aggregated_discovery_keeps_the_kinds() {
    let f = published().await;
    let all = f.collected();
    f.api.take_requests();
    f.api.aggregate(&[]);
    f.sleep(31 * SECOND).await;
    assert_eq!(f.api.take_requests().0[..2], ["/api", "/apis"]);
    assert_eq!(f.collected(), all);
}

#[tokio::test(start_paused = true)]
async fn group_stale_at_startup_is_undescribed() {
    let f = fixture(|api| api.aggregate(&["apps/v1"])).await;
    f.within(SECOND, "published", || f.collects("v1 pods")).await;
    assert_eq!(f.undescribed(), ["*.apps"]);
    f.sleep(300 * SECOND).await;
    assert_eq!(f.undescribed(), ["*.apps"]);
    f.api.aggregate(&[]);
    f.within(31 * SECOND, "recovered", || f.collects("apps/v1 deployments"))
        .await;
    assert_eq!(f.undescribed(), Vec::<String>::new());
}
