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
    assert_eq!(bed.incomplete(), 0);
    bed.sleep(3600 * SECOND).await;
    assert_eq!(bed.way.asked().0.len(), 12);
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
    assert!(bed.incomplete() > 5);
    bed.way.aggregate(&[]);
    bed.within(61 * SECOND, "healed", || bed.discovery.problems().is_empty())
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_upgraded_changes_its_form_and_nothing_else() {
    let bed = known().await;
    let all = bed.collected();
    bed.way.asked();
    bed.way.aggregate(&[]);
    bed.sleep(601 * SECOND).await;
    assert_eq!(bed.way.asked().0, ["/api", "/apis"]);
    assert_eq!(bed.collected(), all);
}
