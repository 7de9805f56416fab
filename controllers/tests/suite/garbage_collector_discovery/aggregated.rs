//! The aggregated form says the same, in two answers.

use super::{SECOND, fixture, known};

#[tokio::test(start_paused = true)]
async fn both_forms_say_the_same() {
    let plain = known().await;
    let f = fixture(|api| api.aggregate(&[])).await;
    f.within(SECOND, "known", || f.discovery.kinds().borrow().is_some())
        .await;
    assert_eq!(f.collected(), plain.collected());
    assert_eq!(f.api.asked().0, ["/api", "/apis"]);
    assert_eq!(f.sync_errors(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_is_stale_is_as_it_was() {
    let f = fixture(|api| api.aggregate(&[])).await;
    f.within(SECOND, "known", || f.discovery.kinds().borrow().is_some())
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
    f.within(31 * SECOND, "healed", || f.discovery.problems().is_empty())
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_upgraded_changes_its_form_and_nothing_else() {
    let f = known().await;
    let all = f.collected();
    f.api.asked();
    f.api.aggregate(&[]);
    f.sleep(31 * SECOND).await;
    assert_eq!(f.api.asked().0[..2], ["/api", "/apis"]);
    assert_eq!(f.collected(), all);
}

#[tokio::test(start_paused = true)]
async fn group_that_is_stale_at_the_start_is_undescribed() {
    let f = fixture(|api| api.aggregate(&["apps/v1"])).await;
    f.within(SECOND, "known", || f.collects("v1 pods")).await;
    assert_eq!(f.undescribed(), ["*.apps"]);
    f.sleep(300 * SECOND).await;
    assert_eq!(f.undescribed(), ["*.apps"]);
    f.api.aggregate(&[]);
    f.within(31 * SECOND, "healed", || f.collects("apps/v1 deployments"))
        .await;
    assert_eq!(f.undescribed(), Vec::<String>::new());
}
