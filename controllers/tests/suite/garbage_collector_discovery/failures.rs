//! What cannot be read is as it was, is named, counted, and asked for again, not too often.

use super::fault_injector::Fault;
use super::{Fixture, SECOND, fixture, known};

const APPS: &str = "apps/v1 deployments";

fn unavailable() -> Fault {
    Fault::Response(503, "service unavailable".to_owned())
}

/// Lets everything be read again.
async fn hour(f: &Fixture) {
    f.sleep(3600 * SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn a_group_that_fails_takes_nothing_away_and_holds_up_nothing() {
    let f = fixture(|api| api.rule(|path| (path == "/apis/apps/v1").then(unavailable))).await;
    f.within(SECOND, "known", || f.collects("v1 pods")).await;
    assert!(!f.collects(APPS));
    assert_eq!(f.undescribed(), ["*.apps"]);
    let problems = f.discovery.problems();
    assert!(
        problems.len() == 1
            && problems[0].starts_with("apps/v1 since 1970-01-01T00:00:0")
            && problems[0].contains("503"),
        "{problems:?}"
    );
    f.api.heal();
    f.within(3 * SECOND, "read again", || f.collects(APPS)).await;
    assert_eq!(f.discovery.problems(), Vec::<String>::new());
    let all = f.collected();

    f.api.rule(|path| (path == "/apis/apps/v1").then(unavailable));
    let mut kinds = f.discovery.kinds();
    kinds.mark_unchanged();
    f.api.asked();
    hour(&f).await;
    assert_eq!(f.collected(), all);
    assert!(!kinds.has_changed().expect("it lives"), "nothing was told");
    let (documents, _) = f.api.asked();
    let tries = documents.iter().filter(|it| *it == "/apis/apps/v1").count() as u64;
    assert!((120..=160).contains(&tries), "{tries} in an hour");
    assert_eq!(f.sync_errors(), 0, "a part that fails is not counted, as in KCM");
    let problems = f.discovery.problems();
    assert!(
        problems.len() == 1 && problems[0].starts_with("apps/v1 since 1970-01-01T00:00:"),
        "since the first failure: {problems:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn group_that_hangs_delays_the_others_by_about_a_second() {
    let f = fixture(|api| api.rule(|path| (path == "/apis/apps/v1").then_some(Fault::Hang))).await;
    f.within(3 * SECOND / 2, "known", || f.collects("v1 pods")).await;
    f.define("things.t.io", &["v1"]).await;
    f.within(3 * SECOND / 2, "known", || f.collects("t.io/v1 things"))
        .await;
    assert!(!f.collects(APPS) && f.collects("batch/v1 jobs"));
    f.within(12 * SECOND, "named", || !f.discovery.problems().is_empty())
        .await;
    assert!(
        f.discovery.problems()[0].starts_with("apps/v1 since"),
        "{:?}",
        f.discovery.problems()
    );
    f.api.heal();
    f.within(15 * SECOND, "read again", || f.collects(APPS)).await;
}

#[tokio::test(start_paused = true)]
async fn many_that_hang_are_asked_for_last_the_next_time() {
    let f = known().await;
    let all = f.collected();
    // The five groups that are listed first after those at hand.
    f.api.rule(|path| {
        let hang = [
            "/apis/apps/",
            "/apis/events.k8s.io/",
            "/apis/autoscaling/",
            "/apis/batch/",
            "/apis/policy/",
        ];
        hang.iter().any(|it| path.starts_with(it)).then_some(Fault::Hang)
    });
    hour(&f).await;
    assert_eq!(f.collected(), all);
    assert!(f.discovery.problems().len() >= 5, "{:?}", f.discovery.problems());
    f.api.asked();
    f.sleep(120 * SECOND).await;
    let (documents, _) = f.api.asked();
    let at = |path: &str| documents.iter().rposition(|it| it == path).expect("asked for");
    assert!(
        at("/api/v1") < at("/apis/batch/v1") && at("/apis/coordination.k8s.io/v1") < at("/apis/batch/v1")
    );
    assert!(f.api.most_at_once() <= 4);
}

#[tokio::test(start_paused = true)]
async fn when_all_fails_nothing_is_lost_and_few_requests_are_sent() {
    let f = known().await;
    f.define("things.t.io", &["v1"]).await;
    f.within(SECOND, "known", || f.collects("t.io/v1 things")).await;
    let all = f.collected();
    // It begins when the documents are next due.
    f.api.rule(|_| Some(unavailable()));
    f.sleep(600 * SECOND).await;
    f.api.asked();
    f.sleep(600 * SECOND).await;
    let (documents, _) = f.api.asked();
    assert!(
        (40..=54).contains(&documents.len()),
        "{} in ten minutes",
        documents.len()
    );
    assert_eq!(f.collected(), all);
    assert!(f.sync_errors() >= 40);
    let problems = f.discovery.problems();
    assert!(
        problems[0].starts_with("/api since") && problems[1].starts_with("/apis since"),
        "{problems:?}"
    );
    f.api.heal();
    f.within(31 * SECOND, "healed", || f.discovery.problems().is_empty())
        .await;
    assert_eq!(f.collected(), all);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_published_before_both_roots_were_read() {
    for root in ["/api", "/apis"] {
        for act in [unavailable(), Fault::Hang] {
            let f = fixture(|api| api.rule(move |path| (path == root).then(|| act.clone()))).await;
            f.sleep(600 * SECOND).await;
            assert!(f.discovery.kinds().borrow().is_none());
            f.api.heal();
            f.within(41 * SECOND, "known", || f.collects("v1 pods") && f.collects(APPS))
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
        let f = known().await;
        let all = f.collected();
        f.api.rule(move |_| Some(Fault::Response(200, answer.to_owned())));
        f.sleep(660 * SECOND).await;
        assert_eq!(f.collected(), all, "{answer}");
        assert!(f.sync_errors() >= 2, "{answer}: counted");
    }
}
