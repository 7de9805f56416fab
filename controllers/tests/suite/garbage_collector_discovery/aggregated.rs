//! The aggregated form says the same, in two answers.

use super::{SECOND, bed, known};

#[tokio::test(start_paused = true)]
async fn both_forms_say_the_same() {
    let plain = known().await;
    let bed = bed(|way| way.aggregate(&[])).await;
    bed.within(SECOND, "known", || bed.discovery.kinds().borrow().is_some())
        .await;
    assert_eq!(bed.collected(), plain.collected());
    assert_eq!(bed.way.asked().0, ["/api", "/apis"]);
    assert_eq!(bed.sync_errors(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_is_stale_is_as_it_was() {
    let bed = bed(|way| way.aggregate(&[])).await;
    bed.within(SECOND, "known", || bed.discovery.kinds().borrow().is_some())
        .await;
    let all = bed.collected();
    bed.way.aggregate(&["apps/v1", "v1"]);
    bed.sleep(900 * SECOND).await;
    assert_eq!(bed.collected(), all);
    let problems = bed.discovery.problems();
    assert!(
        problems.len() == 2
            && problems[0].starts_with("apps/v1 since")
            && problems[1].starts_with("v1 since"),
        "{problems:?}"
    );
    assert_eq!(
        bed.undescribed(),
        Vec::<String>::new(),
        "the last description counts"
    );
    assert_eq!(bed.sync_errors(), 0, "KCM does not count them either");
    bed.way.aggregate(&[]);
    bed.within(31 * SECOND, "healed", || bed.discovery.problems().is_empty())
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_upgraded_changes_its_form_and_nothing_else() {
    let bed = known().await;
    let all = bed.collected();
    bed.way.asked();
    bed.way.aggregate(&[]);
    bed.sleep(31 * SECOND).await;
    assert_eq!(bed.way.asked().0[..2], ["/api", "/apis"]);
    assert_eq!(bed.collected(), all);
}

#[tokio::test(start_paused = true)]
async fn group_that_is_stale_at_the_start_is_undescribed() {
    let bed = bed(|way| way.aggregate(&["apps/v1"])).await;
    bed.within(SECOND, "known", || bed.collects("v1 pods")).await;
    assert_eq!(bed.undescribed(), ["*.apps"]);
    bed.sleep(300 * SECOND).await;
    assert_eq!(bed.undescribed(), ["*.apps"]);
    bed.way.aggregate(&[]);
    bed.within(31 * SECOND, "healed", || bed.collects("apps/v1 deployments"))
        .await;
    assert_eq!(bed.undescribed(), Vec::<String>::new());
}
