//! Recovery from failures of lists and watches.

use steersman_manager::cache::Status;
use steersman_manager::object::MetaObject;
use steersman_sandbox::faults::{Effect, RecordedRequest};

use super::server::{StreamFault, Verb, answer, rewrite, status};
use super::sync::replay;
use super::*;

fn error_event(code: u16, reason: &str) -> String {
    format!(r#"{{"type":"ERROR","object":{}}}"#, status(code, reason))
}

/// Returns the watches after the first `n` requests.
fn watches_after(f: &Fixture, n: usize) -> Vec<Arc<RecordedRequest>> {
    let log = f.server.log().split_off(n);
    log.into_iter()
        .filter(|request| Verb::Watch.is(request))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn closed_watch_is_reopened_at_the_reached_version() {
    let f = fixture();
    let cache = f.synced().await;
    let created = create(&f.sandbox, "a", "1").await;
    f.within(1, "seen", || cache.len() == 1).await;
    f.sleep(2).await;
    let before = f.server.log().len();
    f.server.streams(StreamFault::End);
    settle().await;
    let watches = watches_after(&f, before);
    assert_eq!(watches.len(), 1);
    assert_eq!(
        watches[0].parameter("resourceVersion").as_deref(),
        created.metadata.resource_version.as_deref()
    );
    assert_eq!(f.server.log().len(), before + 1, "no other request");
    set(&f.sandbox, "a", "2").await;
    f.within(1, "goes on", || value(&cache, "a").as_deref() == Some("2"))
        .await;
}

#[tokio::test(start_paused = true)]
async fn broken_watch_is_reopened_without_missing_changes() {
    let f = fixture();
    create(&f.sandbox, "a", "1").await;
    let cache = f.synced().await;
    let mut subscription = cache.subscribe();
    changes(&mut subscription);
    f.server.streams(StreamFault::Drop);
    delete(&f.sandbox, "a").await;
    create(&f.sandbox, "a", "2").await;
    create(&f.sandbox, "b", "1").await;
    delete(&f.sandbox, "b").await;
    f.equal(&cache, 5).await;
    assert_eq!(f.server.count(Verb::List), 1, "no relist");
    assert_eq!(changes(&mut subscription), ["-a=1", "+a=2", "-b=1"]);
}

#[tokio::test(start_paused = true)]
async fn expired_version_causes_a_relist() {
    for at_start in [true, false] {
        let f = fixture();
        for name in ["a", "b", "c"] {
            create(&f.sandbox, name, "1").await;
        }
        let cache = f.synced().await;
        let mut subscription = cache.subscribe();
        changes(&mut subscription);
        f.sleep(2).await;
        // No watch receives these changes.
        f.server
            .inject_fault(|request| (Verb::Watch.is(request)).then_some(Effect::Hang));
        f.server.streams(StreamFault::End);
        settle().await;
        delete(&f.sandbox, "a").await;
        delete(&f.sandbox, "b").await;
        create(&f.sandbox, "b", "2").await;
        set(&f.sandbox, "c", "2").await;
        f.server.heal();
        if at_start {
            f.server
                .next(Verb::Watch, 1, answer(410, status(410, "Expired"), 0));
        } else {
            f.sandbox.compact(f.sandbox.revision());
        }
        f.equal(&cache, 60).await;
        assert_eq!(f.relists("expired"), 1, "at start: {at_start}");
        assert_eq!(f.server.count(Verb::List), 2);
        assert_eq!(changes(&mut subscription), ["-b=1", "+b=2", "-a=1", "~c=1>2"]);
    }
}

#[tokio::test(start_paused = true)]
async fn error_event_causes_a_relist() {
    for (event, reason) in [
        (error_event(410, "Expired"), "expired"),
        (error_event(500, "InternalError"), "error"),
        (r#"{"type":"ERROR","object":7}"#.to_owned(), "error"),
        ("not json".to_owned(), "error"),
        (r#"{"type":"SURPRISE","object":{}}"#.to_owned(), "error"),
    ] {
        let f = fixture();
        let cache = f.synced().await;
        f.server.inject(&event);
        f.within(5, &event, || f.server.count(Verb::Watch) == 2).await;
        assert_eq!(f.relists(reason), 1, "{event}");
        create(&f.sandbox, "a", "1").await;
        f.equal(&cache, 5).await;
    }
}

#[tokio::test(start_paused = true)]
async fn expired_version_after_every_list_is_retried_with_backoff() {
    for (code, body) in [
        (410, status(410, "Expired")),
        (200, error_event(410, "Expired") + "\n"),
    ] {
        let f = fixture();
        f.server
            .inject_fault(move |request| (Verb::Watch.is(request)).then(|| answer(code, body.clone(), 0)));
        let cache = f.maps();
        f.sleep(60).await;
        assert!(cache.is_synced());
        assert!(
            f.server.count(Verb::List) < 10,
            "{code}: {}",
            f.server.count(Verb::List)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn pending_list_satisfies_a_relist_request() {
    let f = fixture();
    f.server
        .next(Verb::List, 1, answer(500, status(500, "InternalError"), 0));
    let cache = f.maps();
    f.within(1, "failed", || f.server.count(Verb::List) == 1).await;
    cache.relist();
    f.within(5, "synced", || cache.is_synced()).await;
    f.sleep(5).await;
    assert_eq!(f.server.count(Verb::List), 2);
}

#[tokio::test(start_paused = true)]
async fn watch_closed_at_once_is_reopened_with_backoff() {
    let f = fixture();
    f.server
        .inject_fault(|request| (Verb::Watch.is(request)).then(|| answer(200, String::new(), 0)));
    let cache = f.maps();
    f.sleep(60).await;
    assert!(matches!(cache.status(), Status::Retrying { .. }));
    assert!(
        f.server.count(Verb::Watch) < 10,
        "{}",
        f.server.count(Verb::Watch)
    );
    f.server.heal();
    create(&f.sandbox, "a", "1").await;
    f.equal(&cache, 60).await;
    assert_eq!(cache.status(), Status::Synced);
}

#[tokio::test(start_paused = true)]
async fn idle_watch_is_reopened_without_missing_changes() {
    let f = fixture();
    let cache = f.synced().await;
    f.server.streams(StreamFault::Silence);
    create(&f.sandbox, "a", "1").await;
    f.sleep(140).await;
    assert!(cache.is_empty());
    assert!(f.metric("test_cache_age_seconds", None) >= 140);
    f.equal(&cache, 15).await;
    assert_eq!(f.metric("test_cache_watches_silent_total", None), 1);
    assert_eq!(f.server.count(Verb::List), 1, "no relist");
    assert!(f.metric("test_cache_age_seconds", None) < 1);
}

#[tokio::test(start_paused = true)]
async fn too_many_requests_honours_retry_after() {
    let f = fixture();
    let cache = f.synced().await;
    f.server
        .next(Verb::Watch, 1, answer(429, status(429, "TooManyRequests"), 20));
    f.sleep(2).await;
    f.server.streams(StreamFault::End);
    settle().await;
    let before = f.server.log().len();
    create(&f.sandbox, "a", "1").await;
    f.sleep(19).await;
    assert_eq!(f.server.log().len(), before);
    assert!(matches!(cache.status(), Status::Retrying { .. }));
    f.equal(&cache, 2).await;
    assert_eq!(f.server.count(Verb::List), 1, "no relist");
    assert_eq!(cache.status(), Status::Synced);
}

#[tokio::test(start_paused = true)]
async fn failing_server_keeps_the_cache_and_gets_few_requests() {
    let failures: [fn() -> Effect; 4] = [
        || answer(500, status(500, "InternalError"), 0),
        || answer(503, "upstream is not there".to_owned(), 0),
        || Effect::Hang,
        || Effect::LoseRequest,
    ];
    for (n, failure) in failures.into_iter().enumerate() {
        let f = fixture();
        create(&f.sandbox, "a", "1").await;
        let cache = f.synced().await;
        f.server.inject_fault(move |_| Some(failure()));
        f.server.streams(StreamFault::Drop);
        let before = f.server.log().len();
        f.sleep(120).await;
        assert_eq!(value(&cache, "a").as_deref(), Some("1"), "failure {n}");
        assert!(cache.is_synced());
        assert!(
            matches!(cache.status(), Status::Retrying { .. }),
            "{:?}",
            cache.status()
        );
        assert!(
            f.server.log().len() - before <= 10,
            "failure {n}: {}",
            f.server.log().len() - before
        );
        delete(&f.sandbox, "a").await;
        f.server.heal();
        f.equal(&cache, 95).await;
        assert_eq!(cache.status(), Status::Synced);
    }
}

#[tokio::test(start_paused = true)]
async fn lagging_server_does_not_move_the_cache_back() {
    let f = fixture();
    let first = create(&f.sandbox, "a", "1").await;
    let cache = f.synced().await;
    set(&f.sandbox, "a", "2").await;
    f.within(1, "seen", || value(&cache, "a").as_deref() == Some("2"))
        .await;
    let seen = cache.version();
    let lagging = f.sandbox.service();
    let old = first
        .metadata
        .resource_version
        .expect("a version")
        .parse()
        .expect("a number");
    lagging.lag().hold_all_at(old);
    f.server.switch(lagging.clone());
    f.server.streams(StreamFault::Drop);
    set(&f.sandbox, "a", "3").await;
    for _ in 0..60 {
        f.sleep(10).await;
        assert_ne!(value(&cache, "a").as_deref(), Some("1"));
        assert!(cache.version().has_reached(&seen));
    }
    lagging.lag().release();
    f.equal(&cache, 5).await;
}

#[tokio::test(start_paused = true)]
async fn repeated_events_are_ignored() {
    let f = fixture();
    let first = create(&f.sandbox, "a", "1").await;
    let cache = f.synced().await;
    set(&f.sandbox, "a", "2").await;
    f.within(1, "seen", || value(&cache, "a").as_deref() == Some("2"))
        .await;
    let (mut subscription, version) = (cache.subscribe(), cache.version());
    changes(&mut subscription);
    let old = serde_json::to_string(&first).expect("JSON");
    for kind in ["ADDED", "MODIFIED", "DELETED", "BOOKMARK"] {
        f.server.inject(&format!(r#"{{"type":"{kind}","object":{old}}}"#));
    }
    settle().await;
    assert_eq!(changes(&mut subscription), Vec::<String>::new());
    assert_eq!(
        (value(&cache, "a").as_deref(), cache.version()),
        (Some("2"), version)
    );
    assert_eq!(f.server.count(Verb::Watch), 1);
}

#[tokio::test(start_paused = true)]
async fn older_list_is_rejected() {
    let f = fixture();
    create(&f.sandbox, "a", "1").await;
    let cache = f.synced().await;
    let version = cache.version();
    f.server.next(
        Verb::List,
        2,
        rewrite(|_| r#"{"metadata":{"resourceVersion":"1"},"items":[]}"#.to_owned()),
    );
    cache.relist();
    f.within(30, "four lists", || f.server.count(Verb::List) == 4)
        .await;
    assert_eq!(value(&cache, "a").as_deref(), Some("1"));
    assert!(cache.version().has_reached(&version));
    assert_eq!(f.metric("test_cache_older_lists_total", None), 2);
    assert_eq!(f.metric("test_cache_restarts_total", None), 0);
    assert_eq!(cache.status(), Status::Synced);
}

#[tokio::test(start_paused = true)]
async fn restored_store_rebuilds_the_cache() {
    for fault in [StreamFault::Drop, StreamFault::Silence] {
        let f = fixture();
        for i in 0..20 {
            create(&f.sandbox, &format!("m{i}"), "1").await;
        }
        let cache = f.synced().await;
        let (mut view, mut subscription) = (BTreeMap::new(), cache.subscribe());
        replay(&mut view, &mut subscription);
        let restored = sandbox(7);
        create(&restored, "m0", "other").await;
        create(&restored, "new", "1").await;
        assert!(restored.revision() < f.sandbox.revision());
        f.server.switch(restored.service());
        f.server.streams(fault);
        let expected = listed(&restored, "").await;
        f.within(200, "rebuilt", || shown(&cache.all()) == expected).await;
        replay(&mut view, &mut subscription);
        let received: Vec<Arc<Map>> = view.into_values().collect();
        assert_eq!(shown(&received), expected, "subscribers received the changes");
        assert_eq!(f.metric("test_cache_restarts_total", None), 1);
        set(&restored, "new", "2").await;
        f.within(5, "goes on", || value(&cache, "new").as_deref() == Some("2"))
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn idle_hour_only_reopens_watches() {
    let f = fixture();
    let cache = f.synced().await;
    let before = f.server.log().len();
    // Writes of another resource increment the version, which bookmarks report.
    let other: Api<k8s_openapi::api::core::v1::Secret> =
        Api::namespaced(kube::Client::new(f.sandbox.service(), "default"), "default");
    for i in 0..360 {
        let mut secret = k8s_openapi::api::core::v1::Secret::default();
        secret.metadata.name = Some(format!("s{i}"));
        other
            .create(&PostParams::default(), &secret)
            .await
            .expect("created");
        f.sleep(10).await;
        assert!(f.metric("test_cache_age_seconds", None) <= 70);
    }
    let requests = f.server.log().split_off(before);
    assert!(requests.iter().all(|request| Verb::Watch.is(request)));
    assert!(
        (6..=12).contains(&requests.len()),
        "{} watches in an hour",
        requests.len()
    );
    for request in &requests {
        let seconds: u64 = request
            .parameter("timeoutSeconds")
            .and_then(|s| s.parse().ok())
            .expect("a limit");
        assert!((300..=600).contains(&seconds));
        assert_eq!(request.parameter("allowWatchBookmarks").as_deref(), Some("true"));
    }
    let behind = f.sandbox.revision() - cache.version().to_string().parse::<u64>().expect("a number");
    assert!(behind <= 8, "bookmarks move the version: {behind} behind");
}

#[tokio::test(start_paused = true)]
async fn relist_request_starts_a_new_list() {
    let f = fixture();
    let cache = f.synced().await;
    cache.relist();
    cache.relist();
    f.within(1, "listed", || f.server.count(Verb::List) == 2).await;
    f.sleep(5).await;
    assert_eq!(f.server.count(Verb::List), 2, "once for both");
    assert_eq!(f.relists("asked"), 1);
    // A list in flight does not satisfy a later request.
    let settle_first = Effect::around(|_| async {
        settle().await;
        async |_: u16| ()
    });
    f.server.next(Verb::List, 1, settle_first);
    f.caches.relist(&MAPS);
    f.within(1, "begun", || f.server.count(Verb::List) == 3).await;
    f.caches.relist(&MAPS);
    f.within(1, "another", || f.server.count(Verb::List) == 4).await;
}

/// A projection that panics while it is decoded.
#[derive(Debug, PartialEq)]
struct Broken(MetaObject);

impl<'de> Deserialize<'de> for Broken {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        panic!("for the test")
    }
}

impl Object for Broken {
    fn meta(&self) -> &Meta {
        &self.0.metadata
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.0.metadata
    }
}

#[tokio::test(start_paused = true)]
async fn panicked_reflector_is_reported() {
    let f = fixture();
    create(&f.sandbox, "a", "1").await;
    let limit = Duration::from_secs(10);
    assert_eq!(f.env.clock.timeout(limit, f.caches.failed()).await, None);
    let broken: Cache<Broken> = f.caches.of(&MAPS);
    assert_eq!(f.env.clock.timeout(limit, f.caches.failed()).await, Some(MAPS));
    assert!(!broken.is_synced());
}
