//! Events: content, retries, correlation and limits.

use std::time::Duration;

use prometheus::TextEncoder;
use serde_json::{Value, json};
use steersman_manager::client::{Delete, Fence, ListQuery, View};
use steersman_manager::events::{EventType, ObjectRef, Recorder};
use steersman_manager::object::{Key, Resource, Uid, Version};
use steersman_sandbox::faults::{Effect, Matcher};

use crate::fixture::{Fixture, fixture, proxy_reply};

const EVENTS: Resource = Resource::namespaced("", "v1", "events", "Event");
const SOON: Duration = Duration::from_secs(1);
const LATER: Duration = Duration::from_hours(1);

fn recorder(fixture: &Fixture) -> Recorder {
    Recorder::start(
        &fixture.env,
        fixture.client.clone(),
        "set-controller",
        "host-1",
        &fixture.registry,
    )
    .expect("a new metric")
}

fn pod(namespace: &str, name: &str) -> ObjectRef {
    ObjectRef {
        api_version: "v1".into(),
        kind: "Pod".into(),
        namespace: namespace.into(),
        name: name.into(),
        uid: Uid::from("u-1"),
        resource_version: Version::from("12"),
    }
}

async fn events(fixture: &Fixture) -> Vec<Value> {
    let query = ListQuery::default();
    let list = fixture
        .client
        .list(&EVENTS, "", &query, View::Full)
        .await
        .expect("a list");
    let list: Value = serde_json::from_slice(&list).expect("JSON");
    list["items"].as_array().cloned().unwrap_or_default()
}

fn dropped(fixture: &Fixture, reason: &str) -> u64 {
    let families = fixture.registry.gather();
    let family = families
        .iter()
        .find(|it| it.name() == "test_events_dropped_total");
    let series = family
        .into_iter()
        .flat_map(prometheus::proto::MetricFamily::get_metric);
    let named = series.filter(|it| it.get_label().iter().any(|label| label.value() == reason));
    let total = named.fold(0.0, |sum, it| sum + it.get_counter().get_value());
    total.to_string().parse().expect("a whole number")
}

#[tokio::test(start_paused = true)]
async fn all_reasons_of_dropped_events_are_exposed_at_0() {
    let fixture = fixture();
    let _recorder = recorder(&fixture);
    let text = TextEncoder::new().encode_to_string(&fixture.registry.gather());
    let text = text.expect("a text");
    for reason in [
        "fenced",
        "limited",
        "queue_full",
        "rejected",
        "stopped",
        "unreachable",
    ] {
        let series =
            format!("test_events_dropped_total{{component=\"set-controller\",reason=\"{reason}\"}} 0\n");
        assert!(text.contains(&series), "{series}{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn event_has_the_fields_of_core_v1() {
    let fixture = fixture();
    let recorder = recorder(&fixture);
    recorder.event(&pod("default", "web"), EventType::Normal, "Created", "made it");
    recorder.event(
        &pod("default", "web"),
        EventType::Warning,
        "Failed",
        &"é".repeat(2000),
    );
    assert!(recorder.flush(SOON).await);
    let events = events(&fixture).await;
    let nanos = 1_800_000_000_000_000_000_u64;
    assert_eq!(events[0]["metadata"]["name"], format!("web.{nanos:x}"));
    assert_eq!(
        events[1]["metadata"]["name"],
        format!("web.{:x}", nanos + 1),
        "unique name"
    );
    let involved = json!({"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": "web",
                          "uid": "u-1", "resourceVersion": "12"});
    assert_eq!(events[0]["involvedObject"], involved);
    for (field, value) in [
        ("type", json!("Normal")),
        ("reason", json!("Created")),
        ("message", json!("made it")),
        ("source", json!({"component": "set-controller"})),
        ("reportingComponent", json!("set-controller")),
        ("reportingInstance", json!("host-1")),
        ("firstTimestamp", json!("2027-01-15T08:00:00Z")),
        ("lastTimestamp", json!("2027-01-15T08:00:00Z")),
        ("count", json!(1)),
    ] {
        assert_eq!(events[0][field], value, "{field}");
    }
    assert_eq!(events[1]["type"], "Warning");
    assert_eq!(events[1]["message"].as_str().map(str::len), Some(1024));
}

#[tokio::test(start_paused = true)]
async fn cluster_scoped_object_or_invalid_name_gets_an_event() {
    let fixture = fixture();
    let recorder = recorder(&fixture);
    recorder.event(&pod("", "node-1"), EventType::Normal, "Up", "");
    recorder.event(&pod("default", "system:odd"), EventType::Normal, "Up", "");
    assert!(recorder.flush(SOON).await);
    let events = events(&fixture).await;
    assert_eq!(events.len(), 2);
    assert!(
        events
            .iter()
            .all(|event| event["metadata"]["namespace"] == "default")
    );
}

#[tokio::test(start_paused = true)]
async fn failed_create_is_retried_without_a_duplicate() {
    let fixture = fixture();
    let recorder = recorder(&fixture);
    fixture.inject([
        Effect::LoseRequest,
        Effect::Hang,
        proxy_reply(502),
        Effect::LoseAnswer,
    ]);
    recorder.event(&pod("default", "web"), EventType::Normal, "Created", "");
    assert!(recorder.flush(LATER).await);
    assert_eq!(events(&fixture).await.len(), 1);
    assert_eq!(fixture.faults_left(), 0);
    assert_eq!(
        dropped(&fixture, "unreachable") + dropped(&fixture, "rejected"),
        0
    );
}

#[tokio::test(start_paused = true)]
async fn event_is_dropped_after_twelve_attempts() {
    let fixture = fixture();
    let recorder = recorder(&fixture);
    fixture.faults.on(Matcher::writes()).times(12).lose_request();
    recorder.event(&pod("default", "lost"), EventType::Normal, "Created", "");
    recorder.event(&pod("default", "kept"), EventType::Normal, "Created", "");
    let start = fixture.env.clock.now();
    assert!(recorder.flush(LATER).await);
    let took = fixture.env.clock.now() - start;
    // Eleven delays, of which the first is a random part of one.
    let (ten, eleven) = (Duration::from_secs(100), Duration::from_secs(110));
    assert!((ten..=eleven).contains(&took), "{took:?}");
    let events = events(&fixture).await;
    assert_eq!(events.len(), 1);
    assert_eq!(events[0]["involvedObject"]["name"], "kept");
    assert_eq!(dropped(&fixture, "unreachable"), 1);
}

#[tokio::test(start_paused = true)]
async fn rejected_event_is_dropped_without_retry() {
    let fixture = fixture();
    let recorder = recorder(&fixture);
    let start = fixture.env.clock.now();
    recorder.event(&pod("no-such-namespace", "web"), EventType::Normal, "Created", "");
    assert!(recorder.flush(LATER).await);
    assert_eq!(fixture.env.clock.now(), start);
    assert_eq!(dropped(&fixture, "rejected"), 1);
}

#[tokio::test(start_paused = true)]
async fn unavailable_api_server_does_not_block_and_the_queue_is_bounded() {
    let fixture = fixture();
    let recorder = recorder(&fixture);
    let hang = fixture.faults.on(Matcher::writes()).hang();
    let start = fixture.env.clock.now();
    recorder.event(&pod("default", "first"), EventType::Normal, "Created", "");
    // Leaves the queue empty.
    assert!(!recorder.flush(SOON).await, "no timeout");
    for i in 0..1500 {
        recorder.event(&pod("default", &i.to_string()), EventType::Normal, "Created", "");
    }
    assert_eq!(fixture.env.clock.now() - start, SOON);
    // The flush that timed out is still queued.
    assert_eq!(dropped(&fixture, "queue_full"), 501);
    hang.remove();
    assert!(recorder.flush(LATER).await);
    assert_eq!(events(&fixture).await.len(), 1000);
}

#[tokio::test(start_paused = true)]
async fn identical_events_increment_the_count() {
    let fixture = fixture();
    let recorder = recorder(&fixture);
    let web = pod("default", "web");
    for _ in 0..5 {
        recorder.event(&web, EventType::Warning, "Failed", "no");
        fixture.env.clock.sleep(Duration::from_mins(1)).await;
    }
    // Another type, reason, message or object.
    recorder.event(&web, EventType::Normal, "Failed", "no");
    recorder.event(&web, EventType::Warning, "Lost", "no");
    recorder.event(&web, EventType::Warning, "Failed", "never");
    let again = ObjectRef {
        uid: Uid::from("u-2"),
        ..web.clone()
    };
    recorder.event(&again, EventType::Warning, "Failed", "no");
    assert!(recorder.flush(SOON).await);
    let events = events(&fixture).await;
    let counts: Vec<_> = events.iter().map(|it| it["count"].as_u64()).collect();
    assert_eq!(counts, [Some(5), Some(1), Some(1), Some(1), Some(1)]);
    assert_eq!(events[0]["firstTimestamp"], "2027-01-15T08:00:00Z");
    assert_eq!(events[0]["lastTimestamp"], "2027-01-15T08:04:00Z");
}

#[tokio::test(start_paused = true)]
async fn lost_response_of_a_patch_does_not_count_twice() {
    let fixture = fixture();
    let recorder = recorder(&fixture);
    let web = pod("default", "web");
    recorder.event(&web, EventType::Warning, "Failed", "no");
    assert!(recorder.flush(SOON).await);
    fixture.inject([Effect::LoseAnswer, Effect::LoseRequest]);
    recorder.event(&web, EventType::Warning, "Failed", "no");
    assert!(recorder.flush(LATER).await);
    let events = events(&fixture).await;
    assert_eq!((events.len(), &events[0]["count"]), (1, &json!(2)));
}

/// As with a dead admission webhook whose failures are ignored.
#[tokio::test(start_paused = true)]
async fn repeated_event_is_counted_by_one_write_that_takes_ten_seconds() {
    let fixture = fixture();
    let recorder = recorder(&fixture);
    let web = pod("default", "web");
    recorder.event(&web, EventType::Warning, "Failed", "no");
    assert!(recorder.flush(SOON).await);
    fixture
        .faults
        .on(Matcher::writes())
        .delay(Duration::from_secs(10));
    recorder.event(&web, EventType::Warning, "Failed", "no");
    assert!(recorder.flush(LATER).await);
    let events = events(&fixture).await;
    assert_eq!((events.len(), &events[0]["count"]), (1, &json!(2)));
    assert_eq!(fixture.writes(), 2);
}

#[tokio::test(start_paused = true)]
async fn expired_event_is_created_again() {
    let fixture = fixture();
    let recorder = recorder(&fixture);
    let web = pod("default", "web");
    for count in [1, 2, 1, 2] {
        recorder.event(&web, EventType::Warning, "Failed", "no");
        assert!(recorder.flush(SOON).await);
        let events = events(&fixture).await;
        assert_eq!((events.len(), &events[0]["count"]), (1, &json!(count)));
        if count == 2 {
            let meta = &events[0]["metadata"];
            let key = Key::new("default", meta["name"].as_str().expect("a name"));
            let uid = Uid::from(meta["uid"].as_str().expect("a uid"));
            let deleted = fixture.client.delete(&EVENTS, &key, &Delete::of(uid)).await;
            deleted.expect("deleted");
        }
    }
    assert_eq!(dropped(&fixture, "rejected"), 0);
}

#[tokio::test(start_paused = true)]
async fn similar_events_are_aggregated_and_rate_limited() {
    let fixture = fixture();
    let recorder = recorder(&fixture);
    let web = pod("default", "web");
    for i in 0..500 {
        recorder.event(&web, EventType::Normal, "Created", &format!("made {i}"));
        fixture.env.clock.sleep(SOON / 2).await;
    }
    assert!(recorder.flush(SOON).await);
    assert!(fixture.writes() <= 25, "{}", fixture.writes());
    assert_eq!(dropped(&fixture, "limited"), 475);
    let all = events(&fixture).await;
    let messages: Vec<_> = all.iter().map(|it| it["message"].as_str()).collect();
    assert_eq!(messages.len(), 10);
    assert_eq!(messages[8], Some("made 8"));
    assert_eq!(messages[9], Some("(combined from similar events): made 24"));
    assert_eq!(all[9]["count"], 16);

    // Warnings and events about other objects are not limited by that; the aggregate is updated later.
    recorder.event(&web, EventType::Warning, "Failed", "no");
    recorder.event(&pod("default", "db"), EventType::Normal, "Created", "made 1");
    fixture.env.clock.sleep(Duration::from_mins(5)).await;
    recorder.event(&web, EventType::Normal, "Created", "made 500");
    assert!(recorder.flush(SOON).await);
    let all = events(&fixture).await;
    assert_eq!((fixture.writes(), all.len()), (28, 12));
    let combined = all.iter().find(|it| it["count"] == 492).expect("an aggregate");
    assert_eq!(combined["message"], "(combined from similar events): made 500");
}

#[tokio::test(start_paused = true)]
async fn repeated_failures_are_one_event() {
    let fixture = fixture();
    let recorder = recorder(&fixture);
    for _ in 0..1000 {
        recorder.event(&pod("default", "web"), EventType::Warning, "Failed", "no");
        fixture.env.clock.sleep(10 * SOON).await;
    }
    assert!(recorder.flush(SOON).await);
    let events = events(&fixture).await;
    assert_eq!(events.len(), 1);
    let count = events[0]["count"].as_u64().expect("a number");
    assert!((970..=1000).contains(&count), "{count}");
    assert!(fixture.writes() <= 25 + 34, "{}", fixture.writes());
}

#[tokio::test(start_paused = true)]
async fn event_after_the_term_is_not_sent() {
    let fixture = fixture();
    let fence = Fence::new(fixture.env.clock.clone());
    let term = fence.open_forever();
    let client = fixture.transport.reader("test", None).in_term(&fence, term);
    let recorder = Recorder::start(&fixture.env, client, "c", "i", &fixture.registry).expect("a new metric");
    recorder.event(&pod("default", "in"), EventType::Normal, "Created", "");
    assert!(recorder.flush(SOON).await);
    fence.close();
    recorder.event(&pod("default", "after"), EventType::Normal, "Created", "");
    assert!(recorder.flush(SOON).await);
    assert_eq!(events(&fixture).await.len(), 1);
    assert_eq!(dropped(&fixture, "fenced"), 1);
}

#[tokio::test(start_paused = true)]
async fn recorder_ends_with_last_clone_or_tasks_and_can_be_restarted() {
    let mut fixture = fixture();
    let first = recorder(&fixture);
    let clone = first.clone();
    first.event(&pod("default", "web"), EventType::Normal, "Created", "");
    drop((first, clone));
    let second = recorder(&fixture);
    assert!(second.flush(SOON).await);
    assert_eq!(events(&fixture).await.len(), 1, "queued events are written");
    assert_eq!(fixture.tasks.len(), 1);
    fixture.tasks = steersman_manager::env::TaskSet::new();
    assert!(!second.flush(SOON).await);
    second.event(&pod("default", "web"), EventType::Normal, "Created", "");
    assert_eq!(dropped(&fixture, "stopped"), 1);
}
