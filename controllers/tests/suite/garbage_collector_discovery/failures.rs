//! Failures of discovery: kinds stay published, the failure is reported, and reads are retried with a backoff.

use steersman_sandbox::faults::Effect;

use super::{Fixture, SECOND, fixture, published};

const APPS: &str = "apps/v1 deployments";

fn unavailable() -> Effect {
    Effect::reply(503, "service unavailable".to_owned())
}

async fn sleep_an_hour(f: &Fixture) {
    f.sleep(3600 * SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn failing_group_keeps_its_kinds_and_delays_no_other_group() {
    let f = fixture(|api| api.inject(|path| (path == "/apis/apps/v1").then(unavailable))).await;
    f.within(SECOND, "published", || f.collects("v1 pods")).await;
    assert!(!f.collects(APPS));
    assert_eq!(f.undescribed(), ["*.apps"]);
    let problems = f.discovery.problems();
    assert!(
        problems.len() == 1
            && problems[0].starts_with("apps/v1 since 1970-01-01T00:00:0")
            && problems[0].contains("503"),
        "{problems:?}"
    );
    f.api.clear_faults();
    f.within(3 * SECOND, "reread", || f.collects(APPS)).await;
    assert_eq!(f.discovery.problems(), Vec::<String>::new());
    let all = f.collected();

    f.api.inject(|path| (path == "/apis/apps/v1").then(unavailable));
    let mut kinds = f.discovery.kinds();
    kinds.mark_unchanged();
    f.api.take_requests();
    sleep_an_hour(&f).await;
    assert_eq!(f.collected(), all);
    assert!(
        !kinds.has_changed().expect("discovery runs"),
        "nothing was published"
    );
    let (documents, _) = f.api.take_requests();
    let tries = documents.iter().filter(|it| *it == "/apis/apps/v1").count() as u64;
    assert!((120..=160).contains(&tries), "{tries} in an hour");
    assert_eq!(
        f.sync_errors(),
        0,
        "the failure of a group is not counted, as in KCM"
    );
    let problems = f.discovery.problems();
    assert!(
        problems.len() == 1 && problems[0].starts_with("apps/v1 since 1970-01-01T00:00:"),
        "since the first failure: {problems:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn hanging_group_delays_others_by_about_a_second() {
    let f = fixture(|api| api.inject(|path| (path == "/apis/apps/v1").then_some(Effect::Hang))).await;
    f.within(3 * SECOND / 2, "published", || f.collects("v1 pods"))
        .await;
    f.create_crd("things.t.io", &["v1"]).await;
    f.within(3 * SECOND / 2, "published", || f.collects("t.io/v1 things"))
        .await;
    assert!(!f.collects(APPS) && f.collects("batch/v1 jobs"));
    f.within(12 * SECOND, "reported", || !f.discovery.problems().is_empty())
        .await;
    assert!(
        f.discovery.problems()[0].starts_with("apps/v1 since"),
        "{:?}",
        f.discovery.problems()
    );
    f.api.clear_faults();
    f.within(15 * SECOND, "reread", || f.collects(APPS)).await;
}

#[tokio::test(start_paused = true)]
async fn hanging_groups_are_read_last_the_next_time() {
    let f = published().await;
    let all = f.collected();
    // The first five groups of the list.
    f.api.inject(|path| {
        let hang = [
            "/apis/apps/",
            "/apis/events.k8s.io/",
            "/apis/autoscaling/",
            "/apis/batch/",
            "/apis/policy/",
        ];
        hang.iter().any(|it| path.starts_with(it)).then_some(Effect::Hang)
    });
    sleep_an_hour(&f).await;
    assert_eq!(f.collected(), all);
    assert!(f.discovery.problems().len() >= 5, "{:?}", f.discovery.problems());
    f.api.take_requests();
    f.sleep(120 * SECOND).await;
    let (documents, _) = f.api.take_requests();
    let at = |path: &str| documents.iter().rposition(|it| it == path).expect("requested");
    assert!(
        at("/api/v1") < at("/apis/batch/v1") && at("/apis/coordination.k8s.io/v1") < at("/apis/batch/v1")
    );
    assert_eq!(f.api.max_concurrent_reads(), 4);
}

#[tokio::test(start_paused = true)]
async fn total_failure_keeps_the_kinds_and_costs_few_requests() {
    let f = published().await;
    f.create_crd("things.t.io", &["v1"]).await;
    f.within(SECOND, "published", || f.collects("t.io/v1 things"))
        .await;
    let all = f.collected();
    f.api.inject(|_| Some(unavailable()));
    f.sleep(600 * SECOND).await;
    f.api.take_requests();
    f.sleep(600 * SECOND).await;
    let (documents, _) = f.api.take_requests();
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
    f.api.clear_faults();
    f.within(31 * SECOND, "recovered", || f.discovery.problems().is_empty())
        .await;
    assert_eq!(f.collected(), all);
}

#[tokio::test(start_paused = true)]
async fn kinds_are_published_after_both_roots_are_read() {
    for root in ["/api", "/apis"] {
        for fault in [unavailable(), Effect::Hang] {
            let f = fixture(|api| api.inject(move |path| (path == root).then(|| fault.clone()))).await;
            f.sleep(600 * SECOND).await;
            assert!(f.discovery.kinds().borrow().is_none());
            f.api.clear_faults();
            f.within(41 * SECOND, "published", || {
                f.collects("v1 pods") && f.collects(APPS)
            })
            .await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn response_without_groups_is_a_failure() {
    let bodies = [
        r#"{"kind":"APIGroupList","apiVersion":"v1","groups":[]}"#,
        r#"{"kind":"APIVersions","versions":[]}"#,
        "{}",
        "null",
        "garbage",
        "",
    ];
    for body in bodies {
        let f = published().await;
        let all = f.collected();
        f.api.inject(move |_| Some(Effect::reply(200, body.to_owned())));
        f.sleep(660 * SECOND).await;
        assert_eq!(f.collected(), all, "{body}");
        assert!(f.sync_errors() >= 2, "{body}: not counted");
    }
}
