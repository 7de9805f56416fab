//! What cannot be read is as it was, is named, counted, and asked for again, not too often.

use super::way::Act;
use super::{Bed, SECOND, bed, known};

const APPS: &str = "apps/v1 deployments";

fn unavailable() -> Act {
    Act::Answer(503, "service unavailable".to_owned())
}

/// Lets everything be read again.
async fn hour(bed: &Bed) {
    bed.sleep(3600 * SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn a_group_that_fails_takes_nothing_away_and_holds_up_nothing() {
    let bed = bed(|way| way.rule(|path| (path == "/apis/apps/v1").then(unavailable))).await;
    bed.within(SECOND, "known", || bed.collects("v1 pods")).await;
    assert!(!bed.collects(APPS));
    assert_eq!(bed.undescribed(), ["*.apps"]);
    let problems = bed.discovery.problems();
    assert!(
        problems.len() == 1
            && problems[0].starts_with("apps/v1 since 1970-01-01T00:00:0")
            && problems[0].contains("503"),
        "{problems:?}"
    );
    bed.way.heal();
    bed.within(3 * SECOND, "read again", || bed.collects(APPS)).await;
    assert_eq!(bed.discovery.problems(), Vec::<String>::new());
    let all = bed.collected();

    bed.way.rule(|path| (path == "/apis/apps/v1").then(unavailable));
    let mut kinds = bed.discovery.kinds();
    kinds.mark_unchanged();
    bed.way.asked();
    hour(&bed).await;
    assert_eq!(bed.collected(), all);
    assert!(!kinds.has_changed().expect("it lives"), "nothing was told");
    let (documents, _) = bed.way.asked();
    let tries = documents.iter().filter(|it| *it == "/apis/apps/v1").count() as u64;
    assert!((120..=160).contains(&tries), "{tries} in an hour");
    assert_eq!(
        bed.sync_errors(),
        0,
        "a part that fails is not counted, as in KCM"
    );
    let problems = bed.discovery.problems();
    assert!(
        problems.len() == 1 && problems[0].starts_with("apps/v1 since 1970-01-01T00:00:"),
        "since the first failure: {problems:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn group_that_hangs_delays_the_others_by_about_a_second() {
    let bed = bed(|way| way.rule(|path| (path == "/apis/apps/v1").then_some(Act::Hang))).await;
    bed.within(3 * SECOND / 2, "known", || bed.collects("v1 pods"))
        .await;
    bed.define("things.t.io", &["v1"]).await;
    bed.within(3 * SECOND / 2, "known", || bed.collects("t.io/v1 things"))
        .await;
    assert!(!bed.collects(APPS) && bed.collects("batch/v1 jobs"));
    bed.within(12 * SECOND, "named", || !bed.discovery.problems().is_empty())
        .await;
    assert!(
        bed.discovery.problems()[0].starts_with("apps/v1 since"),
        "{:?}",
        bed.discovery.problems()
    );
    bed.way.heal();
    bed.within(15 * SECOND, "read again", || bed.collects(APPS)).await;
}

#[tokio::test(start_paused = true)]
async fn many_that_hang_are_asked_for_last_the_next_time() {
    let bed = known().await;
    let all = bed.collected();
    // The five groups that are listed first after those at hand.
    bed.way.rule(|path| {
        let hang = [
            "/apis/apps/",
            "/apis/events.k8s.io/",
            "/apis/autoscaling/",
            "/apis/batch/",
            "/apis/policy/",
        ];
        hang.iter().any(|it| path.starts_with(it)).then_some(Act::Hang)
    });
    hour(&bed).await;
    assert_eq!(bed.collected(), all);
    assert!(
        bed.discovery.problems().len() >= 5,
        "{:?}",
        bed.discovery.problems()
    );
    bed.way.asked();
    bed.sleep(120 * SECOND).await;
    let (documents, _) = bed.way.asked();
    let at = |path: &str| documents.iter().rposition(|it| it == path).expect("asked for");
    assert!(
        at("/api/v1") < at("/apis/batch/v1") && at("/apis/coordination.k8s.io/v1") < at("/apis/batch/v1")
    );
    assert!(bed.way.most_at_once() <= 4);
}

#[tokio::test(start_paused = true)]
async fn when_all_fails_nothing_is_lost_and_few_requests_are_sent() {
    let bed = known().await;
    bed.define("things.t.io", &["v1"]).await;
    bed.within(SECOND, "known", || bed.collects("t.io/v1 things"))
        .await;
    let all = bed.collected();
    // It begins when the documents are next due.
    bed.way.rule(|_| Some(unavailable()));
    bed.sleep(600 * SECOND).await;
    bed.way.asked();
    bed.sleep(600 * SECOND).await;
    let (documents, _) = bed.way.asked();
    assert!(
        (40..=54).contains(&documents.len()),
        "{} in ten minutes",
        documents.len()
    );
    assert_eq!(bed.collected(), all);
    assert!(bed.sync_errors() >= 40);
    let problems = bed.discovery.problems();
    assert!(
        problems[0].starts_with("/api since") && problems[1].starts_with("/apis since"),
        "{problems:?}"
    );
    bed.way.heal();
    bed.within(31 * SECOND, "healed", || bed.discovery.problems().is_empty())
        .await;
    assert_eq!(bed.collected(), all);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_published_before_both_roots_were_read() {
    for root in ["/api", "/apis"] {
        for act in [unavailable(), Act::Hang] {
            let bed = bed(|way| way.rule(move |path| (path == root).then(|| act.clone()))).await;
            bed.sleep(600 * SECOND).await;
            assert!(bed.discovery.kinds().borrow().is_none());
            bed.way.heal();
            bed.within(41 * SECOND, "known", || {
                bed.collects("v1 pods") && bed.collects(APPS)
            })
            .await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_without_any_group_is_no_answer() {
    let answers = [
        r#"{"kind":"APIGroupList","apiVersion":"v1","groups":[]}"#,
        r#"{"kind":"APIVersions","versions":[]}"#,
        "{}",
        "null",
        "garbage",
        "",
    ];
    for answer in answers {
        let bed = known().await;
        let all = bed.collected();
        bed.way.rule(move |_| Some(Act::Answer(200, answer.to_owned())));
        bed.sleep(660 * SECOND).await;
        assert_eq!(bed.collected(), all, "{answer}");
        assert!(bed.sync_errors() >= 2, "{answer}: counted");
    }
}
