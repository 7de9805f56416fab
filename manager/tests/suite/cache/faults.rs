//! Watches and lists that go wrong, and what that costs.

use coxswain_manager::cache::Status;
use coxswain_manager::object::MetaObject;

use super::filling::replay;
use super::server::{Act, Ask, Fate, Verb, status};
use super::*;

fn error_event(code: u16, reason: &str) -> String {
    format!(r#"{{"type":"ERROR","object":{}}}"#, status(code, reason))
}

/// The watches that were opened after the first `n` requests.
fn watches_after(bed: &Bed, n: usize) -> Vec<Ask> {
    let log = bed.server.log().split_off(n);
    log.into_iter().filter(|ask| ask.verb == Verb::Watch).collect()
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_is_reopened_at_once_where_it_ended() {
    let bed = bed();
    let cache = bed.synced().await;
    let created = create(&bed.sandbox, "a", "1").await;
    bed.within(1, "seen", || cache.len() == 1).await;
    bed.sleep(2).await;
    let before = bed.server.log().len();
    bed.server.streams(Fate::End);
    settle().await;
    let watches = watches_after(&bed, before);
    assert_eq!(watches.len(), 1);
    assert_eq!(
        watches[0].param("resourceVersion"),
        created.metadata.resource_version.as_deref()
    );
    assert_eq!(bed.server.log().len(), before + 1, "nothing else was asked for");
    set(&bed.sandbox, "a", "2").await;
    bed.within(1, "goes on", || value(&cache, "a").as_deref() == Some("2"))
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_cut_off_is_reopened_and_misses_nothing() {
    let bed = bed();
    create(&bed.sandbox, "a", "1").await;
    let cache = bed.synced().await;
    let mut subscription = cache.subscribe();
    changes(&mut subscription);
    bed.server.streams(Fate::Drop);
    delete(&bed.sandbox, "a").await;
    create(&bed.sandbox, "a", "2").await;
    create(&bed.sandbox, "b", "1").await;
    delete(&bed.sandbox, "b").await;
    bed.equal(&cache, 5).await;
    assert_eq!(bed.server.count(Verb::List), 1, "no list was needed");
    assert_eq!(changes(&mut subscription), ["-a=1", "+a=2", "-b=1"]);
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_gone_costs_a_list_wherever_it_is_said() {
    for at_start in [true, false] {
        let bed = bed();
        for name in ["a", "b", "c"] {
            create(&bed.sandbox, name, "1").await;
        }
        let cache = bed.synced().await;
        let mut subscription = cache.subscribe();
        changes(&mut subscription);
        bed.sleep(2).await;
        // Not seen by any watch.
        bed.server
            .rule(|ask| (ask.verb == Verb::Watch).then_some(Act::Hang));
        bed.server.streams(Fate::End);
        settle().await;
        delete(&bed.sandbox, "a").await;
        delete(&bed.sandbox, "b").await;
        create(&bed.sandbox, "b", "2").await;
        set(&bed.sandbox, "c", "2").await;
        bed.server.heal();
        if at_start {
            bed.server
                .next(Verb::Watch, 1, || Act::Answer(410, status(410, "Expired"), 0));
        } else {
            bed.sandbox.compact(bed.sandbox.revision());
        }
        bed.equal(&cache, 60).await;
        assert_eq!(bed.relists("expired"), 1, "at start: {at_start}");
        assert_eq!(bed.server.count(Verb::List), 2);
        assert_eq!(changes(&mut subscription), ["-b=1", "+b=2", "-a=1", "~c=1>2"]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_in_the_stream_costs_a_list() {
    for (event, reason) in [
        (error_event(410, "Expired"), "expired"),
        (error_event(500, "InternalError"), "error"),
        (r#"{"type":"ERROR","object":7}"#.to_owned(), "error"),
        ("not json".to_owned(), "error"),
        (r#"{"type":"SURPRISE","object":{}}"#.to_owned(), "error"),
    ] {
        let bed = bed();
        let cache = bed.synced().await;
        bed.server.inject(&event);
        bed.within(5, &event, || bed.server.count(Verb::Watch) == 2).await;
        assert_eq!(bed.relists(reason), 1, "{event}");
        create(&bed.sandbox, "a", "1").await;
        bed.equal(&cache, 5).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_expired_version_after_every_list_does_not_go_round_in_a_hot_loop() {
    for (code, body) in [
        (410, status(410, "Expired")),
        (200, error_event(410, "Expired") + "\n"),
    ] {
        let bed = bed();
        bed.server
            .rule(move |ask| (ask.verb == Verb::Watch).then(|| Act::Answer(code, body.clone(), 0)));
        let cache = bed.maps();
        bed.sleep(60).await;
        assert!(cache.is_synced());
        assert!(
            bed.server.count(Verb::List) < 10,
            "{code}: {}",
            bed.server.count(Verb::List)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_due_anyway_answers_who_asked_meanwhile() {
    let bed = bed();
    bed.server.next(Verb::List, 1, || {
        Act::Answer(500, status(500, "InternalError"), 0)
    });
    let cache = bed.maps();
    bed.within(1, "failed", || bed.server.count(Verb::List) == 1)
        .await;
    cache.relist();
    bed.within(5, "synced", || cache.is_synced()).await;
    bed.sleep(5).await;
    assert_eq!(bed.server.count(Verb::List), 2);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_closed_at_once_is_not_reopened_in_a_hot_loop() {
    let bed = bed();
    bed.server
        .rule(|ask| (ask.verb == Verb::Watch).then(|| Act::Answer(200, String::new(), 0)));
    let cache = bed.maps();
    bed.sleep(60).await;
    assert!(matches!(cache.status(), Status::Retrying { .. }));
    assert!(
        bed.server.count(Verb::Watch) < 10,
        "{}",
        bed.server.count(Verb::Watch)
    );
    bed.server.heal();
    create(&bed.sandbox, "a", "1").await;
    bed.equal(&cache, 60).await;
    assert_eq!(cache.status(), Status::Synced);
}

#[tokio::test(start_paused = true)]
async fn a_silent_watch_is_given_up_and_what_it_hid_is_seen() {
    let bed = bed();
    let cache = bed.synced().await;
    bed.server.streams(Fate::Silence);
    create(&bed.sandbox, "a", "1").await;
    bed.sleep(140).await;
    assert!(cache.is_empty());
    assert!(bed.metric("coxswain_cache_age_seconds", None) >= 140);
    bed.equal(&cache, 15).await;
    assert_eq!(bed.metric("coxswain_cache_watches_silent_total", None), 1);
    assert_eq!(bed.server.count(Verb::List), 1, "no list was needed");
    assert!(bed.metric("coxswain_cache_age_seconds", None) < 1);
}

#[tokio::test(start_paused = true)]
async fn too_many_requests_are_answered_with_the_patience_asked_for() {
    let bed = bed();
    let cache = bed.synced().await;
    bed.server.next(Verb::Watch, 1, || {
        Act::Answer(429, status(429, "TooManyRequests"), 20)
    });
    bed.sleep(2).await;
    bed.server.streams(Fate::End);
    settle().await;
    let before = bed.server.log().len();
    create(&bed.sandbox, "a", "1").await;
    bed.sleep(19).await;
    assert_eq!(bed.server.log().len(), before);
    assert!(matches!(cache.status(), Status::Retrying { .. }));
    bed.equal(&cache, 2).await;
    assert_eq!(bed.server.count(Verb::List), 1, "no list was needed");
    assert_eq!(cache.status(), Status::Synced);
}

#[tokio::test(start_paused = true)]
async fn while_the_server_fails_the_view_stays_and_little_is_asked() {
    let failures: [fn() -> Act; 4] = [
        || Act::Answer(500, status(500, "InternalError"), 0),
        || Act::Answer(503, "upstream is not there".to_owned(), 0),
        || Act::Hang,
        || Act::Refuse,
    ];
    for (n, failure) in failures.into_iter().enumerate() {
        let bed = bed();
        create(&bed.sandbox, "a", "1").await;
        let cache = bed.synced().await;
        bed.server.rule(move |_| Some(failure()));
        bed.server.streams(Fate::Drop);
        let before = bed.server.log().len();
        bed.sleep(120).await;
        assert_eq!(value(&cache, "a").as_deref(), Some("1"), "failure {n}");
        assert!(cache.is_synced());
        assert!(
            matches!(cache.status(), Status::Retrying { .. }),
            "{:?}",
            cache.status()
        );
        assert!(
            bed.server.log().len() - before <= 10,
            "failure {n}: {}",
            bed.server.log().len() - before
        );
        delete(&bed.sandbox, "a").await;
        bed.server.heal();
        bed.equal(&cache, 95).await;
        assert_eq!(cache.status(), Status::Synced);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_lags_does_not_turn_the_view_back() {
    let bed = bed();
    let first = create(&bed.sandbox, "a", "1").await;
    let cache = bed.synced().await;
    set(&bed.sandbox, "a", "2").await;
    bed.within(1, "seen", || value(&cache, "a").as_deref() == Some("2"))
        .await;
    let seen = cache.version();
    let lagging = bed.sandbox.door();
    let old = first
        .metadata
        .resource_version
        .expect("a version")
        .parse()
        .expect("a number");
    lagging.lag().hold_all_at(old);
    bed.server.switch(lagging.clone());
    bed.server.streams(Fate::Drop);
    set(&bed.sandbox, "a", "3").await;
    for _ in 0..60 {
        bed.sleep(10).await;
        assert_ne!(value(&cache, "a").as_deref(), Some("1"));
        assert!(cache.version().has_reached(&seen));
    }
    lagging.lag().release();
    bed.equal(&cache, 5).await;
}

#[tokio::test(start_paused = true)]
async fn events_that_are_known_already_change_nothing() {
    let bed = bed();
    let first = create(&bed.sandbox, "a", "1").await;
    let cache = bed.synced().await;
    set(&bed.sandbox, "a", "2").await;
    bed.within(1, "seen", || value(&cache, "a").as_deref() == Some("2"))
        .await;
    let (mut subscription, version) = (cache.subscribe(), cache.version());
    changes(&mut subscription);
    let old = serde_json::to_string(&first).expect("JSON");
    for kind in ["ADDED", "MODIFIED", "DELETED", "BOOKMARK"] {
        bed.server
            .inject(&format!(r#"{{"type":"{kind}","object":{old}}}"#));
    }
    settle().await;
    assert_eq!(changes(&mut subscription), Vec::<String>::new());
    assert_eq!(
        (value(&cache, "a").as_deref(), cache.version()),
        (Some("2"), version)
    );
    assert_eq!(bed.server.count(Verb::Watch), 1);
}

#[tokio::test(start_paused = true)]
async fn a_list_from_the_past_is_refused() {
    let bed = bed();
    create(&bed.sandbox, "a", "1").await;
    let cache = bed.synced().await;
    let version = cache.version();
    bed.server.next(Verb::List, 2, || {
        Act::Rewrite(|_| r#"{"metadata":{"resourceVersion":"1"},"items":[]}"#.to_owned())
    });
    cache.relist();
    bed.within(30, "four lists", || bed.server.count(Verb::List) == 4)
        .await;
    assert_eq!(value(&cache, "a").as_deref(), Some("1"));
    assert!(cache.version().has_reached(&version));
    assert_eq!(bed.metric("coxswain_cache_older_lists_total", None), 2);
    assert_eq!(bed.metric("coxswain_cache_restarts_total", None), 0);
    assert_eq!(cache.status(), Status::Synced);
}

#[tokio::test(start_paused = true)]
async fn a_restored_store_makes_the_cache_start_over() {
    for fate in [Fate::Drop, Fate::Silence] {
        let bed = bed();
        for i in 0..20 {
            create(&bed.sandbox, &format!("m{i}"), "1").await;
        }
        let cache = bed.synced().await;
        let (mut view, mut subscription) = (BTreeMap::new(), cache.subscribe());
        replay(&mut view, &mut subscription);
        let restored = sandbox(7);
        create(&restored, "m0", "other").await;
        create(&restored, "new", "1").await;
        assert!(restored.revision() < bed.sandbox.revision());
        bed.server.switch(restored.door());
        bed.server.streams(fate);
        let expected = listed(&restored, "").await;
        bed.within(200, "started over", || shown(&cache.all()) == expected)
            .await;
        replay(&mut view, &mut subscription);
        let told: Vec<Arc<Map>> = view.into_values().collect();
        assert_eq!(shown(&told), expected, "subscribers were told");
        assert_eq!(bed.metric("coxswain_cache_restarts_total", None), 1);
        set(&restored, "new", "2").await;
        bed.within(5, "goes on", || value(&cache, "new").as_deref() == Some("2"))
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_quiet_hour_costs_nothing_but_reopened_watches() {
    let bed = bed();
    let cache = bed.synced().await;
    let before = bed.server.log().len();
    // Somebody else always writes something: the version moves, and bookmarks say so.
    let other: Api<k8s_openapi::api::core::v1::Secret> =
        Api::namespaced(kube::Client::new(bed.sandbox.door(), "default"), "default");
    for i in 0..360 {
        let mut secret = k8s_openapi::api::core::v1::Secret::default();
        secret.metadata.name = Some(format!("s{i}"));
        other
            .create(&PostParams::default(), &secret)
            .await
            .expect("created");
        bed.sleep(10).await;
        assert!(bed.metric("coxswain_cache_age_seconds", None) <= 70);
    }
    let asks = bed.server.log().split_off(before);
    assert!(asks.iter().all(|ask| ask.verb == Verb::Watch));
    assert!(
        (6..=12).contains(&asks.len()),
        "{} watches in an hour",
        asks.len()
    );
    for ask in &asks {
        let seconds: u64 = ask
            .param("timeoutSeconds")
            .and_then(|s| s.parse().ok())
            .expect("a limit");
        assert!((300..=600).contains(&seconds));
        assert_eq!(ask.param("allowWatchBookmarks"), Some("true"));
    }
    let behind = bed.sandbox.revision() - cache.version().to_string().parse::<u64>().expect("a number");
    assert!(behind <= 8, "bookmarks move the version: {behind} behind");
}

#[tokio::test(start_paused = true)]
async fn a_relist_that_is_asked_for_is_read_after_the_asking() {
    let bed = bed();
    let cache = bed.synced().await;
    cache.relist();
    cache.relist();
    bed.within(1, "listed", || bed.server.count(Verb::List) == 2)
        .await;
    bed.sleep(5).await;
    assert_eq!(bed.server.count(Verb::List), 2, "once for both");
    assert_eq!(bed.relists("asked"), 1);
    // One that is under way when another is asked for does not count for it.
    bed.server
        .next(Verb::List, 1, || Act::First(Box::pin(async { settle().await })));
    bed.caches.relist(&MAPS);
    bed.within(1, "begun", || bed.server.count(Verb::List) == 3).await;
    bed.caches.relist(&MAPS);
    bed.within(1, "another", || bed.server.count(Verb::List) == 4)
        .await;
}

/// A projection whose decoding is a mistake in the program.
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
async fn a_reflector_that_panics_is_reported() {
    let bed = bed();
    create(&bed.sandbox, "a", "1").await;
    let limit = Duration::from_secs(10);
    assert_eq!(bed.env.clock.timeout(limit, bed.caches.failed()).await, None);
    let broken: Cache<Broken> = bed.caches.of(&MAPS);
    assert_eq!(
        bed.env.clock.timeout(limit, bed.caches.failed()).await,
        Some(MAPS)
    );
    assert!(!broken.is_synced());
}
